"""Messages that wait for their time: delay levels and timers, by broker."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Replica
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.timers import Bar, TimerFigures, sum_of_bars
from pyrmq.engine import delay_levels
from pyrmq.errors import ClientError, PyrmqError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import REVIVE_PREFIX
from pyrmq.model.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, UNIQ_KEY
from pyrmq.model.recall import RecallHandle
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.topic import as_int

LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""messageDelayLevel of RocketMQ."""
NO_MASTER = "no broker that is a master is there now"
MOST_LEVELS = 64
_OFFSETS = "scheduleMessageOffset_"


@dataclass(frozen=True, slots=True)
class Level:
    """One delay level of one broker. `delivered`: the first offset of its queue that is not
    delivered; `end`: of the queue."""

    broker: str
    level: int
    delay_ms: int | None
    delivered: int
    end: int

    @property
    def backlog(self) -> int:
        return max(self.end - self.delivered, 0)


@dataclass(frozen=True, slots=True)
class BrokerTimers:
    """The timers of one broker. `pops`: of those that wait, records of POP consumers."""

    broker: str
    figures: TimerFigures

    @property
    def pops(self) -> int:
        return sum(
            max(t.count, 0) for t in self.figures.topics if t.topic.startswith(REVIVE_PREFIX)
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits on all masters. `bars`: when timers are due, of all brokers that say it."""

    levels: list[Level] = field(default_factory=list)
    timers: list[BrokerTimers] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """Brokers that have no timers: they do not know the request, or switched them off."""

    @property
    def delayed(self) -> int:
        return sum(level.backlog for level in self.levels)

    @property
    def timed(self) -> int:
        return sum(t.figures.total for t in self.timers)

    @property
    def lag(self) -> int:
        """Seconds that the slowest broker is behind with its timers."""
        return max((t.figures.read_behind for t in self.timers), default=0)


async def waiting(admin: Admin) -> Waiting:
    """What waits, as the masters say."""
    masters = await admin.link.replicas(slaves=False, default_all=True)
    if not masters:
        return Waiting(failed=[NO_MASTER])
    delayed: Outcomes[list[Level]] = Outcomes()
    timed: Outcomes[TimerFigures] = Outcomes()

    async def ask_levels() -> None:
        delayed.extend(
            await admin.link.on_each(
                masters, lambda address: _levels_of(admin, _named(masters, address), address)
            )
        )

    async def ask_timers() -> None:
        timed.extend(await admin.link.on_each(masters, admin.timers.figures_of))

    async with trio.open_nursery() as nursery:  # a broker that does not answer is waited for once
        nursery.start_soon(ask_levels)
        nursery.start_soon(ask_timers)
    failed = [o.problem for o in delayed.failed]
    without: list[str] = []
    for o in timed.failed:
        if isinstance(o.error, ResponseError):
            without.append(f"{o.name or o.target}: {o.error}")
        else:
            failed.append(o.problem)
    found = [BrokerTimers(o.name, o.value) for o in timed.done if o.value is not None]
    return Waiting(
        [level for levels in delayed.values for level in levels],
        found,
        sum_of_bars([t.figures for t in found]),
        list(dict.fromkeys(failed)),
        without,
    )


def _named(masters: list[Replica], address: str) -> str:
    return next((m.broker_name for m in masters if m.address == address), address)


async def _levels_of(admin: Admin, name: str, address: str) -> list[Level]:
    runtime = await admin.brokers.runtime_of(address)
    delays = await _delays_of(admin, address)
    found: list[Level] = []
    for key, value in runtime.items():
        if not key.startswith(_OFFSETS):
            continue
        number = as_int(key.removeprefix(_OFFSETS), 0)
        delivered, comma, end = value.partition(",")
        if not (0 < number <= MOST_LEVELS and comma):
            continue
        delay = delays[number - 1] if number <= len(delays) else None
        found.append(Level(name, number, delay, as_int(delivered, 0), as_int(end, 0)))
    return sorted(found, key=lambda level: level.level)


async def _delays_of(admin: Admin, address: str) -> list[int]:
    """The delays of a broker's levels, ms; those of RocketMQ if it does not say."""
    try:
        config = await admin.brokers.config_of(address)
        return delay_levels(config.get("messageDelayLevel", LEVELS))
    except (PyrmqError, ValueError):
        return delay_levels(LEVELS)


async def delay_of(admin: Admin, broker: str, level: int) -> int | None:
    """The delay of a level of a broker, ms."""
    delays = await _delays_of(admin, await admin.link.master_of(broker))
    return delays[level - 1] if 0 < level <= len(delays) else None


@dataclass(frozen=True, slots=True)
class TimerRow:
    """A record in the topic of timers. `due`: ms since 1970, 0 if it does not say. `recalls`: the
    unique id of the message that it takes back; empty for a message."""

    message: ReceivedMessage
    topic: str
    due: int
    recalls: str

    @classmethod
    def of(cls, message: ReceivedMessage) -> TimerRow:
        get = message.properties.get
        return cls(
            message,
            get(REAL_TOPIC, ""),
            max(as_int(get(TIMER_OUT_MS), 0), 0),
            get(UNIQ_KEY, "") or get(TIMER_DEL_UNIQKEY, "") if get(TIMER_DEL_UNIQKEY) else "",
        )

    def state(self, now: int, recalled: set[str]) -> str:
        """`recall`, `recalled`, `over` or `waits`, by what is known on the page."""
        if self.recalls:
            return "recall"
        if self.message.msg_id in recalled:
            return "recalled"
        return "waits" if self.due > now else "over"


def newest_of_each(rows: list[TimerRow]) -> list[TimerRow]:
    """Rows, the newest first, without older copies: a timer that is far away is stored again."""
    seen: set[str] = set()
    found = []
    for row in rows:
        key = "" if row.recalls else row.message.properties.get(UNIQ_KEY, "")
        if key not in seen or not key:
            found.append(row)
            seen.add(key)
    return found


def is_of_pop(message: ReceivedMessage) -> bool:
    """Whether a timer is a record of a POP consumer."""
    return message.properties.get(REAL_TOPIC, "").startswith(REVIVE_PREFIX)


def recall_handle(message: ReceivedMessage) -> RecallHandle:
    """The handle that takes a timer message back. ClientError if it can have none."""
    row = TimerRow.of(message)
    key = message.properties.get(UNIQ_KEY, "")
    if row.recalls or not (row.topic and row.due and key and message.broker_name):
        raise ClientError("it is no timer message that can be taken back")
    return RecallHandle(row.topic, message.broker_name, row.due + 1, key)


async def recall(admin: Admin, message: ReceivedMessage) -> None:
    """Takes a timer message back before its time, as its producer could. Raises NoPermissionError
    if the broker does not permit it (recallMessageEnable), IllegalOperationError if it is due."""
    handle = recall_handle(message)
    address = await admin.link.master_of(handle.broker_name)
    await admin.link.ask(
        address,
        RequestCode.RECALL_MESSAGE,
        {
            "producerGroup": "",
            "topic": handle.topic,
            "recallHandle": handle.encode(),
            "bname": handle.broker_name,
        },
    )
