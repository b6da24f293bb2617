"""Timer messages that wait: how many, of which topics, when they are due, how far brokers lag.
[TimerMetrics, TimerMessageStore]"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.brokers import Brokers, OfReplica
from pyrmq.admin.link import AdminLink, Part
from pyrmq.admin.runtime_info import first_number, whole
from pyrmq.errors import ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.timer_figures import BOUNDS, FIELD, MAX_BOUNDS, bounds_text, check_bounds


@dataclass(frozen=True, slots=True)
class Bar:
    """`count` messages are due up to so many seconds from now, and later than the bar before; the
    last bar has no end."""

    up_to: int | None
    count: int


def span_of(bars: Sequence[Bar], index: int, duration: Callable[[int], str]) -> str:
    """When the messages of a bar are due, such as `1m to 5m`; the first bar has what is overdue as
    well. `duration`: how seconds are written."""
    end = bars[index].up_to
    begin = bars[index - 1].up_to if index else None
    if begin is None:
        return "any time" if end is None else f"within {duration(end)}"
    return f"after {duration(begin)}" if end is None else f"{duration(begin)} to {duration(end)}"


@dataclass(frozen=True, slots=True)
class TopicTimers:
    """The waiting messages of one topic. `changed`: when one was added or left, ms since 1970."""

    topic: str
    count: int
    changed: int


@dataclass(frozen=True, slots=True)
class TimerFigures:
    """The waiting timer messages of one broker.

    total: their number, over all topics. bars: when they are due; empty for Apache RocketMQ's
    brokers, which do not say it. read_behind: seconds between now and the time up to which messages
    were delivered. offset_behind: messages that are stored and not in the wheel yet. enqueue_tps,
    dequeue_tps: messages a second that were put in and delivered.
    """

    total: int
    topics: list[TopicTimers] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    read_behind: int = 0
    offset_behind: int = 0
    enqueue_tps: float = 0.0
    dequeue_tps: float = 0.0

    @classmethod
    def from_json(cls, answer: Mapping[Any, Any], runtime: Mapping[str, str]) -> TimerFigures:
        """Of the answers to GET_TIMER_METRICS and GET_BROKER_RUNTIME_INFO. ProtocolError."""
        topics = []
        for topic, row in values.table(answer, "timingCount").items():
            if not isinstance(topic, str) or not isinstance(row, dict):
                raise ProtocolError("timingCount has a row that is of no topic")
            count, changed = values.number(row, "count"), values.number(row, "timeStamp")
            topics.append(TopicTimers(topic, count, changed))
        rows = values.objects(answer, "distribution")
        if len(rows) > MAX_BOUNDS + 1:
            raise ProtocolError(f"a histogram of {len(rows)} bars")
        bars = [
            Bar(
                values.number(row, "upTo") if "upTo" in row else None,
                max(values.number(row, "count"), 0),
            )
            for row in rows
        ]
        return cls(
            # Apache's counts of topics drift below 0.
            sum(bar.count for bar in bars) if bars else sum(max(t.count, 0) for t in topics),
            sorted(topics, key=lambda t: (-t.count, t.topic)),
            bars,
            whole(runtime, "timerReadBehind"),
            whole(runtime, "timerOffsetBehind"),
            first_number(runtime, "timerEnqueueTps"),
            first_number(runtime, "timerDequeueTps"),
        )


def sum_of_bars(figures: Sequence[TimerFigures]) -> list[Bar]:
    """The histogram of several brokers together, of those that have the same bounds."""
    counts: dict[int | None, int] = {}
    for bar in (bar for of in figures for bar in of.bars):
        counts[bar.up_to] = counts.get(bar.up_to, 0) + bar.count
    ends = sorted(counts, key=lambda end: float("inf") if end is None else end)
    return [Bar(end, counts[end]) for end in ends]


class Timers(Part):
    """`admin.timers`. One of `broker` (`host:port`) and `cluster` has to be given."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._brokers = Brokers(link)

    async def figures_of(self, address: str, *, bounds: Sequence[int] = BOUNDS) -> TimerFigures:
        """The waiting timer messages of a broker. `bounds`: the ends of bars, whole seconds from
        now in rising order. [GET_TIMER_METRICS]"""
        asked = {FIELD: bounds_text(check_bounds(bounds))}
        answer = await self._link.ask_json(address, RequestCode.GET_TIMER_METRICS, asked)
        return TimerFigures.from_json(answer, await self._brokers.runtime_of(address))

    async def figures(
        self,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        bounds: Sequence[int] = BOUNDS,
    ) -> list[OfReplica[TimerFigures]]:
        """The same of brokers, slaves among them: these have what their masters have."""
        check_bounds(bounds)

        async def one(address: str) -> TimerFigures:
            return await self.figures_of(address, bounds=bounds)

        return await self._brokers.each(one, broker=broker, cluster=cluster)
