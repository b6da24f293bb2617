"""Headers and attributes: names and values are text. [DefaultKeyValue]"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Self

from pyrmq.errors import ClientError

Value = str | int | float
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?|Infinity|NaN)")
_LONG = 1 << 63


class KeyValue(MutableMapping[str, str]):
    """A dict of strings. Numbers become text in Java's format.

        headers = KeyValue(region="eu")
        headers["attempt"] = 3
        headers.get_int("attempt")

    Raises ClientError for a value that is neither str, int (of 64 bits) nor float.
    """

    __slots__ = ("_texts",)

    def __init__(self, values: Mapping[str, Value] | None = None, /, **more: Value) -> None:
        self._texts: dict[str, str] = {}
        if values is not None and not isinstance(values, Mapping):
            raise ClientError(f"headers and attributes are a dict, not {type(values).__name__}")
        for name, value in {**(values or {}), **more}.items():
            self[name] = value

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __setitem__(self, name: str, value: Value) -> None:
        if not isinstance(name, str) or not name:
            raise ClientError(f"the name of a header or attribute is {name!r:.80}; str is needed")
        self._texts[str.__str__(name)] = _text(name, value)

    def __delitem__(self, name: str) -> None:
        del self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"KeyValue({self._texts!r})"

    def put(self, name: str, value: Value) -> Self:
        """Sets a value; calls can be chained."""
        self[name] = value
        return self

    def get_int(self, name: str, default: int = 0) -> int:
        """A value as a whole number; `default` if it is missing. Raises ClientError if it is not a
        number."""
        text = self._texts.get(name)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text) or not -_LONG <= int(text) < _LONG:
            raise ClientError(f"{name} is {text!r:.80}, which is no whole number of 64 bits")
        return int(text)

    def get_float(self, name: str, default: float = 0.0) -> float:
        """A value as a number; `default` if it is missing. Raises ClientError if it is not a
        number."""
        text = self._texts.get(name)
        if text is None:
            return default
        if len(text) > 400 or not _NUMBER.fullmatch(text):
            raise ClientError(f"{name} is {text!r:.80}, which is no number")
        return float(text)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)  # of members of an Enum too
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ClientError(f"{name} is {type(value).__name__}; str, int or float is needed")
    if isinstance(value, int):
        if not -_LONG <= value < _LONG:
            raise ClientError(f"{name} has more than 64 bits: give it as a str")
        return str(int(value))
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else repr(float(value))
