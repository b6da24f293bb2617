"""Families of metrics: name, kind, meaning and labels, for the text and the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

OTHERS = "(others)"
"""Label value of the row that stands for all topics or groups without a row of their own. No topic
and no group may have this name."""


class Kind(Enum):
    """Types of OpenMetrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Family:
    """`name` is that of its samples; a histogram's samples add `_bucket`, `_sum` and `_count`.
    `labels`: those of each row, besides the ones that all rows have. `bounds`: upper bounds of a
    histogram's buckets."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        suffix = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")
        if not self.name.endswith(suffix):
            raise ValueError(f"the name {self.name} of a {self.kind.value} must end in {suffix}")

    @property
    def stem(self) -> str:
        """The name without the suffix of its kind: what OpenMetrics calls the family."""
        suffix = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")
        return self.name.removesuffix(suffix)


def counter(name: str, doc: str, *labels: str) -> Family:
    """What only grows, until the server starts anew."""
    return Family(name, Kind.COUNTER, doc, labels)


def gauge(name: str, doc: str, *labels: str) -> Family:
    """What is so now."""
    return Family(name, Kind.GAUGE, doc, labels)


def histogram(name: str, doc: str, bounds: Sequence[float], *labels: str) -> Family:
    """How often values were at most each of the bounds."""
    return Family(name, Kind.HISTOGRAM, doc, labels, tuple(bounds))


def info(name: str, doc: str, *labels: str) -> Family:
    """Texts about the server, as labels of a row whose value is 1."""
    return Family(name, Kind.INFO, doc, labels)


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def escaped(value: object) -> str:
    """A label's value as the text has it. What is no valid UTF-8 becomes `?`: one such name would
    make the whole page unreadable."""
    return str(value).translate(_ESCAPES).encode(errors="replace").decode()


def label_text(labels: Mapping[str, object]) -> str:
    """Labels as they stand behind others: `,name="value"` for each."""
    return "".join([f',{name}="{escaped(value)}"' for name, value in labels.items()])


def flag(value: object) -> str:
    """A boolean as RocketMQ's labels have it."""
    return "true" if value else "false"
