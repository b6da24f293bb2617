"""Errors of `pyrmq.segments` with the names of options.

`pyrmq.segments` names the parameters of `pyrmq.scan` in its errors, but users of this package know
options. The table of options maps one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyrmq.errors import Parameter, SegmentError, SegmentLayoutError
from spark_ext.option_table import NAME_OF


def as_option(parameter: Parameter) -> str:
    """`subscribePattern`, `failOnDataLoss=false`: the option for a parameter, as users write it."""
    name = NAME_OF.get(parameter.name, parameter.name)
    if parameter.value is None:
        return name
    value = parameter.value
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


@contextmanager
def option_names() -> Iterator[None]:
    """SegmentErrors that leave the block, or the decorated function, name options."""
    try:
        yield
    except SegmentError as error:
        error.rename(as_option)
        if isinstance(error, SegmentLayoutError):
            error.hint += "; option nameServer reads through brokers"
        raise
