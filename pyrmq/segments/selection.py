"""Which messages are asked for: topics, queues, offsets, times, tags, key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyrmq import engine
from pyrmq.errors import Parameter, SegmentOptionError, UnknownTopicError
from pyrmq.model.names import MAX_LONG_TOPIC, TRACE_TOPIC, is_system_topic
from pyrmq.segments.offsets import (
    EARLIEST,
    MAX_OFFSET,
    QueueOffsets,
    QueueTimes,
    brokers_of,
    check_assign,
    check_offsets,
)
from pyrmq.segments.parameters import TIMESTAMP_STRATEGY
from pyrmq.segments.store import SegmentStore

if TYPE_CHECKING:
    from pyrmq.engine import TopicRule

Bounds = Mapping[str, Mapping[int, int]]
"""topic -> queue id -> queue offset, of one broker."""

ANY_QUEUE = -1
"""Key of a rule's answer that stands for every queue not named."""
_MAX_TIME = 2**53


def is_reserved(topic: str) -> bool:
    """Whether a topic is the broker's own: delayed, half and op messages, trace, timers
    [TopicValidator]. Retry and dead letter topics are the users'."""
    return is_system_topic(topic) or topic == TRACE_TOPIC


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
class Rule:
    """What one broker's reader asks about each topic, once; can be sent to another process."""

    selection: Selection
    queues: Mapping[str, tuple[int, ...]] | None
    """Of `assign`: the queues of a topic; topics that are not in it are not read."""
    starts: Bounds = field(default_factory=dict)
    ends: Bounds = field(default_factory=dict)

    def wanted(self) -> Wanted:
        """The selection as the engine's reader takes it."""
        chosen = self.selection
        return Wanted(self, chosen.start_time, chosen.end_time, chosen.tags, chosen.key)

    def __call__(self, topic: str) -> bool | dict[int, tuple[int, int]]:
        """False: no message of it. True: all. Else queue id -> [from, to) of queue offsets, with
        ANY_QUEUE for those that are not named."""
        chosen = self.selection
        if not chosen.selects(topic):
            return False
        named: Sequence[int] | None = chosen.queues or None
        if self.queues is not None:
            named = self.queues.get(topic)
            if not named:
                return False
        starts, ends = self.starts.get(topic, {}), self.ends.get(topic, {})
        if named is None and not starts and not ends:
            return True
        ranges = {
            queue: (starts.get(queue, 0), ends.get(queue, MAX_OFFSET))
            for queue in (named if named is not None else starts.keys() | ends.keys())
        }
        if named is None:
            ranges[ANY_QUEUE] = (0, MAX_OFFSET)
        return ranges


@dataclass(frozen=True)
class Selection:
    """Which messages to read, by the parameters of `pyrmq.scan`.

    SegmentOptionError where they contradict each other; `check_against` checks them against the
    stores.
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
    at their earliest. `at_times.with_offsets` makes offsets of it."""
    ending_times: QueueTimes | None = None
    timestamp_strategy: str = "error"
    """If a starting time is later than all messages: `error`, or `latest` starts at the end."""
    without: frozenset[str] = frozenset()
    """Topics that are left out."""

    def __post_init__(self) -> None:
        self._check_topics()
        if self.queues and self.assign is not None:
            raise SegmentOptionError(
                (Parameter("queues"), " and ", Parameter("assign"), " both name queues"),
                "give one of them",
            )
        if any(not 0 <= queue < 2**31 for queue in self.queues):
            raise SegmentOptionError((Parameter("queues"), f": {self.queues} are no queue ids"))
        if self.tags is not None and (not self.tags or not all(self.tags)):
            raise SegmentOptionError(
                (Parameter("tags"), ": a tag is empty"), "expected * or A || B"
            )
        if self.key is not None and not self.key.strip():
            raise SegmentOptionError(
                (Parameter("key"), " is empty"), "give a word of KEYS, or a UNIQ_KEY"
            )
        self._check_range()

    def _check_topics(self) -> None:
        given = {
            "topics": bool(self.topics),
            "pattern": self.pattern is not None,
            "assign": self.assign is not None,
        }
        names = [name for name, is_given in given.items() if is_given]
        if len(names) > 1:
            first, second, *_ = map(Parameter, names)
            raise SegmentOptionError((first, " and ", second, " are given"), "give one of them")
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise SegmentOptionError(
                    (
                        Parameter("pattern"),
                        f": {self.pattern!r} is no regular expression: {error}",
                    )
                ) from error
        if self.assign is not None:
            check_assign(self.assign)
        for topic in self.named_topics or ():
            if not topic or len(topic) > MAX_LONG_TOPIC:
                raise SegmentOptionError(
                    (Parameter("topics"), f": {topic[:64]!r} is no topic name")
                )

    def _check_range(self) -> None:
        for name, offsets in (
            ("starting_offsets", self.starting_offsets),
            ("ending_offsets", self.ending_offsets),
        ):
            if isinstance(offsets, str):
                if offsets not in ("earliest", "latest"):
                    raise SegmentOptionError(
                        (Parameter(name), f": {offsets!r}"),
                        "expected earliest, latest, or offsets by queue",
                    )
            else:
                check_offsets(offsets, name)
        if self.ending_offsets == "earliest" or names_offset(self.ending_offsets, EARLIEST):
            raise SegmentOptionError(
                (Parameter("ending_offsets"), ": earliest is no end"),
                "expected latest (-1) or an offset",
            )
        for name, time in (("start_time", self.start_time), ("end_time", self.end_time)):
            if time is not None and not 0 <= time <= _MAX_TIME:
                raise SegmentOptionError(
                    (Parameter(name), f": {time} is no time"), "expected milliseconds since 1970"
                )
        if (
            self.start_time is not None
            and self.end_time is not None
            and self.end_time < self.start_time
        ):
            raise SegmentOptionError(
                (
                    Parameter("end_time"),
                    f" {self.end_time} is before ",
                    Parameter("start_time"),
                    f" {self.start_time}",
                )
            )
        if self.timestamp_strategy not in TIMESTAMP_STRATEGY:
            raise SegmentOptionError(
                (Parameter("timestamp_strategy"), f": {self.timestamp_strategy!r}"),
                f"expected {' or '.join(TIMESTAMP_STRATEGY)}",
            )

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
        if topic in self.without:
            return False
        named = self.named_topics
        if named is not None:
            return topic in named
        if is_reserved(topic) and not self.include_system_topics:
            return False
        return self.pattern is None or re.fullmatch(self.pattern, topic) is not None

    def rule(self, broker: str, starts: Bounds | None = None, ends: Bounds | None = None) -> Rule:
        """What the reader of a broker's log asks; `starts` and `ends` bound queue offsets."""
        queues = None
        if self.assign is not None:
            queues = {topic: tuple(of.get(broker, ())) for topic, of in self.assign.items()}
        # The offsets of every broker would travel with every task.
        own = replace(
            self,
            starting_offsets="earliest",
            ending_offsets="latest",
            starting_times=None,
            ending_times=None,
        )
        return Rule(own, queues, starts or {}, ends or {})

    def check_against(self, stores: Sequence[SegmentStore], *, may_come: bool = False) -> None:
        """UnknownTopicError and SegmentOptionError for what is named but not there.

        `may_come`: topics and queues may appear later, as in a stream.
        """
        for name, named in (
            ("assign", self.assign),
            ("starting_offsets", self.starting_offsets),
            ("ending_offsets", self.ending_offsets),
        ):
            if isinstance(named, str) or named is None:
                continue
            for topic, of in named.items():
                self._check_named(name, topic, of, stores)
        for name, times in (
            ("starting_times", self.starting_times),
            ("ending_times", self.ending_times),
        ):
            for topic in times or ():
                self._check_named(name, topic, brokers_of(times or {}, topic), stores)
        if not may_come:
            self._check_known(stores)

    def _check_named(
        self, parameter: str, topic: str, named: Iterable[str], stores: Sequence[SegmentStore]
    ) -> None:
        if not self.selects(topic):
            raise SegmentOptionError(
                (Parameter(parameter), f" names topic {topic!r}, which is not selected"),
                "leave it out, or select the topic too",
            )
        brokers = [store.name for store in stores]
        unknown = sorted(set(named) - set(brokers))
        if unknown:
            raise SegmentOptionError(
                (Parameter(parameter), f": there is no broker {unknown[0]!r}"),
                (
                    f"the stores are of {', '.join(brokers)}",
                    f"{_folder_of(stores, unknown[0])}; ",
                    Parameter("broker_names"),
                    " sets other names",
                ),
            )

    def missing_topics(self, stores: Sequence[SegmentStore]) -> list[UnknownTopicError]:
        """What would be raised for each topic that is named and not there; [] where a log may hold
        any topic."""
        named = dict.fromkeys(self.named_topics or ())
        for offsets in (self.starting_offsets, self.ending_offsets):
            if not isinstance(offsets, str):
                named.update(dict.fromkeys(offsets))
        for times in (self.starting_times, self.ending_times):
            named.update(dict.fromkeys(times or ()))
        if not named:
            return []
        known: set[str] = set()
        for store in stores:
            of_store = store.topics()
            if of_store is None:
                return []
            known |= of_store
        return [unknown_topic(topic, known) for topic in named if topic not in known]

    def _check_known(self, stores: Sequence[SegmentStore]) -> None:
        for error in self.missing_topics(stores):
            raise error


def _folder_of(stores: Sequence[SegmentStore], name: str) -> str:
    """What to say where a broker is named as the folder of a store that says another name."""
    own = next((store.name for store in stores if store.folder_name == name), None)
    return "" if own is None else f" ({name} is only the folder's name: broker {own} wrote it)"


def unknown_topic(topic: str, known: Iterable[str], where: str = "the store") -> UnknownTopicError:
    """Says which names are near."""
    found: UnknownTopicError = engine.unknown_topic(topic, set(known), where)
    return found


def names_offset(offsets: str | QueueOffsets, wanted: int) -> bool:
    """Whether an offset, EARLIEST or LATEST say, stands anywhere in offsets by queue."""
    return not isinstance(offsets, str) and any(
        offset == wanted
        for brokers in offsets.values()
        for queues in brokers.values()
        for offset in queues.values()
    )
