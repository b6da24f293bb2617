"""Which messages are asked for: topics, queues, offsets, times, tags, key. The engine checks and
applies it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyrmq.engine as engine
from pyrmq.errors import Parameter, SegmentOptionError, UnknownTopicError
from pyrmq.segments.offsets import QueueOffsets, QueueTimes, check_assign, check_offsets

if TYPE_CHECKING:
    from pyrmq.engine import SegmentSelection, TopicRule

_INT64 = 2**63


def parse_topics(text: str) -> tuple[str, ...]:
    """The topics of a comma list."""
    return tuple(engine.parse_topics(text))


def parse_tags(expression: str) -> tuple[str, ...] | None:
    """The tags of an expression: `*` is None, all; else tags joined by two bars."""
    tags = engine.parse_tags(expression)
    return None if tags is None else tuple(tags)


@dataclass(frozen=True)
class Wanted:
    """Which messages the engine's reader gives, by the names of `Selection`.

    `rule` is asked about each topic once: see `pyrmq.engine.TopicRule`. Times are ms of store time,
    from and before.
    """

    rule: TopicRule | None = None
    start_time: int | None = None
    end_time: int | None = None
    tags: tuple[str, ...] | None = None
    key: str | None = None


@dataclass(frozen=True)
class Selection:
    """Which messages to read, by the parameters of `pyrmq.scan`.

    SegmentOptionError where they contradict each other; a plan checks them against the stores.
    """

    topics: tuple[str, ...] = ()
    """At most one of topics, pattern and assign; none of them: all topics of users."""
    pattern: str | None = None
    """A regular expression that the whole name must match."""
    assign: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None
    """topic -> broker -> queue ids."""
    queues: tuple[int, ...] = ()
    """Queue ids of every chosen topic; empty: all."""
    include_system_topics: bool = False
    tags: tuple[str, ...] | None = None
    key: str | None = None
    """A word of KEYS, or UNIQ_KEY."""
    starting_offsets: str | QueueOffsets = "earliest"
    ending_offsets: str | QueueOffsets = "latest"
    start_time: int | None = None
    """Store time in ms: from this on."""
    end_time: int | None = None
    """Store time in ms: before this."""
    starting_times: QueueTimes | None = None
    """Wins over `starting_offsets`, as `start_time` does over both; queues that are not named start
    at their earliest."""
    ending_times: QueueTimes | None = None
    timestamp_strategy: str = "error"
    """If a starting time is later than all messages: `error`, or `latest` starts at the end."""
    without: frozenset[str] = frozenset()
    """Topics that are left out."""
    filters: Mapping[str, Any] = field(default_factory=dict)
    """Conditions that all have to hold, by the engine's names: `brokers`, `queue_offsets` and
    `store_times` (ranges from and before). They leave rows out and are never an error."""

    def __post_init__(self) -> None:
        if self.assign is not None:
            check_assign(self.assign)
        for name in ("starting_offsets", "ending_offsets"):
            offsets = getattr(self, name)
            if isinstance(offsets, str):
                if offsets not in ("earliest", "latest"):
                    raise SegmentOptionError(
                        (Parameter(name), f": {offsets!r}"),
                        "expected earliest, latest, or offsets by queue",
                    )
            else:
                check_offsets(offsets, name)
        for name in ("start_time", "end_time"):
            time = getattr(self, name)
            if time is not None and not -_INT64 <= time < _INT64:
                raise SegmentOptionError(
                    (Parameter(name), f": {time} is no time"), "expected milliseconds since 1970"
                )
        if any(not 0 <= queue < 2**31 for queue in self.queues):
            raise SegmentOptionError((Parameter("queues"), f": {self.queues} are no queue ids"))
        self.native  # noqa: B018 - the engine checks the rest

    def __reduce__(self) -> tuple[type[Selection], tuple[object, ...]]:
        return Selection, tuple(getattr(self, one.name) for one in fields(self))

    @cached_property
    def native(self) -> SegmentSelection:
        """The same for the engine."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return engine.SegmentSelection(json.dumps(given | {"without": sorted(self.without)}))

    @property
    def named_topics(self) -> tuple[str, ...] | None:
        """The topics that are named one by one; None where they are not."""
        return tuple(self.assign) if self.assign is not None else self.topics or None

    @property
    def starts_at_end(self) -> bool:
        """Whether a stream starts where the logs end by then."""
        by_time = self.start_time is not None or self.starting_times is not None
        return self.starting_offsets == "latest" and not by_time

    def selects(self, topic: str) -> bool:
        """Whether messages of a topic are asked for."""
        return self.native.selects(topic)


def unknown_topic(topic: str, known: Iterable[str], where: str = "the store") -> UnknownTopicError:
    """Says which names are near."""
    found: UnknownTopicError = engine.unknown_topic(topic, set(known), where)
    return found
