"""One option of the data source, as the engine's table has it, and the kinds of query.

The engine parses and checks options, for this source and for the reader in the JVM:
`native/crates/scan/src/options`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyrmq.engine import scan_option_value


class Query(Enum):
    """The kind of query that options are checked for, by the engine's names."""

    BATCH = "batch"
    STREAM = "stream"
    BROKER_BATCH = "broker_batch"
    BROKER_STREAM = "broker_stream"
    WRITE = "write"
    WRITE_STREAM = "write_stream"


@dataclass(frozen=True)
class Option:
    """One row of the table. `default` is the text that a user would give; None: not set."""

    name: str
    where: frozenset[Query]
    default: str | None
    stream_default: str | None
    """Default in streaming queries where it is another one."""
    parameter: str | None
    """The parameter of `pyrmq.scan` that the option sets."""
    group: str | None
    """Of the options of one group a query takes one."""
    required: frozenset[Query]
    """Kinds of query that need the option."""
    selects: bool
    """Whether the option selects messages: it leaves some out, or adds topics."""
    secret: bool
    """Whether its value is shown and kept nowhere."""
    pyspark: tuple[int, int] | None
    """The first version of PySpark that can serve the option; None: every supported one."""
    doc: str
    """One sentence or two for docs/spark.md and for messages, in Markdown."""

    def parse(self, text: str) -> Any:
        """The value of a text. ValueError, whose text continues "option NAME", or a SegmentError
        that names a parameter of `pyrmq.scan`."""
        return scan_option_value(self.name, text)
