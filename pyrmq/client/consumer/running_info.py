"""How a consumer runs: what it counts of the last minute, and what it answers to operators
(GET_CONSUMER_RUNNING_INFO). [ConsumerStatsManager, ConsumerRunningInfo, ProcessQueueInfo,
PopProcessQueueInfo, ConsumeStatus]"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.client.consumer.pop.popped import PopQueue
from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.instance import ClientInstance
from pyrmq.model.subscription import Subscription
from pyrmq.net.address import format_address

WINDOW = 60.0
STEP = 1.0


@dataclass(slots=True)
class _Step:
    start: float
    ok: int = 0
    failed: int = 0
    calls: int = 0
    seconds: float = 0.0
    pulls: int = 0
    pulled: int = 0
    pull_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """The last minute: mean ms of a pull and of a listener call, messages per second; `failed` is
    the number of failures."""

    pull_rt: float
    pull_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    failed: int


class ConsumeStatistics:
    """Counts in steps of a second."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()

    def consumed(self, ok: int, failed: int, seconds: float) -> None:
        """One call of the listener."""
        step = self._step()
        step.ok += ok
        step.failed += failed
        step.calls += 1
        step.seconds += seconds

    def pulled(self, messages: int, seconds: float) -> None:
        """One pull that brought messages."""
        step = self._step()
        step.pulls += 1
        step.pulled += messages
        step.pull_seconds += seconds

    def _step(self) -> _Step:
        now = time.monotonic()
        steps = self._steps
        if not steps or now - steps[-1].start >= STEP:
            steps.append(_Step(now))
            while steps[0].start < now - WINDOW:
                steps.popleft()
        return steps[-1]

    def rates(self) -> Rates:
        after = time.monotonic() - WINDOW
        steps = [s for s in self._steps if s.start >= after]
        pulls = sum(s.pulls for s in steps) or 1
        calls = sum(s.calls for s in steps) or 1
        failed = sum(s.failed for s in steps)
        return Rates(
            1000 * sum(s.pull_seconds for s in steps) / pulls,
            sum(s.pulled for s in steps) / WINDOW,
            1000 * sum(s.seconds for s in steps) / calls,
            sum(s.ok for s in steps) / WINDOW,
            failed / WINDOW,
            failed,
        )


class Statistics:
    """The counts of a consumer by topic."""

    def __init__(self) -> None:
        self._topics: dict[str, ConsumeStatistics] = {}

    def of(self, topic: str) -> ConsumeStatistics:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = ConsumeStatistics()
        return found

    def topics(self) -> list[str]:
        return sorted(self._topics)


MAX_STACKS = 256 << 10
"""Most characters of stacks in an answer."""
MIB = 1 << 20


def running_info(
    properties: Mapping[str, object],
    subscriptions: Iterable[Subscription],
    processes: Iterable[ProcessQueue],
    popping: Iterable[PopQueue],
    statistics: Statistics,
    *,
    stacks: bool,
) -> dict[str, Any]:
    """For `fastjson.dumps`. `stacks`: include the stack of each thread."""
    held, popped = list(processes), list(popping)
    paused: Counter[str] = Counter()
    for process in held:
        paused.update(process.paused_by)
    for queue in popped:
        paused.update(queue.paused_by)
    info: dict[str, Any] = {
        "mqPopTable": {p.queue.as_key(): _pop_queue_info(p) for p in popped},
        "mqTable": {p.queue.as_key(): _queue_info(p) for p in held},
        "properties": {name: _text(value) for name, value in properties.items()},
        "statusTable": {topic: _status(statistics, topic) for topic in statistics.topics()},
        "subscriptionSet": [sub.to_json() for sub in subscriptions],
        "userConsumerInfo": {
            f"pullsPausedBy{limit.capitalize()}": str(times)
            for limit, times in sorted(paused.items())
        },
    }
    if stacks:
        info["jstack"] = thread_stacks()
    return info


def client_properties(
    client: ClientInstance, group: str, kind: str, *, orderly: bool, started: int
) -> dict[str, object]:
    """Properties of every consumer. `kind`: CONSUME_PASSIVELY or CONSUME_ACTIVELY; `started`: ms
    since 1970."""
    return {
        "PROP_CLIENT_VERSION": "V5_3_3",
        "PROP_CONSUMEORDERLY": orderly,
        "PROP_CONSUMER_START_TIMESTAMP": started,
        "PROP_CONSUME_TYPE": kind,
        "PROP_NAMESERVER_ADDR": "".join(f"{format_address(a)};" for a in client.namesrv),
        "consumerGroup": group,
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _queue_info(process: ProcessQueue) -> dict[str, Any]:
    first, last = process.bounds()
    return {
        "cachedMsgCount": process.waiting,
        "cachedMsgMaxOffset": last,
        "cachedMsgMinOffset": first,
        "cachedMsgSizeInMiB": process.waiting_bytes // MIB,
        "commitOffset": process.commit_offset(),
        "droped": process.dropped,
        "lastConsumeTimestamp": process.last_consume,
        "lastLockTimestamp": process.last_lock,
        "lastPullTimestamp": process.last_pull,
        "locked": process.last_lock > 0,
        "transactionMsgCount": process.running,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _pop_queue_info(popping: PopQueue) -> dict[str, Any]:
    return {
        "droped": popping.dropped,
        "lastPopTimestamp": popping.last_pop,
        "waitAckCount": popping.waiting,
    }


def _status(statistics: Statistics, topic: str) -> dict[str, Any]:
    rates = statistics.of(topic).rates()
    return {
        "consumeFailedMsgs": rates.failed,
        "consumeFailedTPS": rates.consume_failed_tps,
        "consumeOKTPS": rates.consume_ok_tps,
        "consumeRT": rates.consume_rt,
        "pullRT": rates.pull_rt,
        "pullTPS": rates.pull_tps,
    }


def thread_stacks() -> str:
    """The stack of each thread of this process."""
    parts = []
    for ident, frame in sys._current_frames().items():
        parts.append(f"thread {ident}\n{''.join(traceback.format_stack(frame))}\n")
    return "".join(parts)[:MAX_STACKS]
