"""The state of a consumer for operators: the answer to GET_CONSUMER_RUNNING_INFO.
[ConsumerRunningInfo, ProcessQueueInfo, ConsumeStatus]"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pyrmq.client.consumer.process_queue import ProcessQueue
from pyrmq.client.consumer.statistics import Statistics
from pyrmq.client.instance import ClientInstance
from pyrmq.model.subscription import Subscription
from pyrmq.net.address import format_address

MAX_STACKS = 256 << 10
"""Most characters of stacks in an answer."""
MIB = 1 << 20


def running_info(
    properties: Mapping[str, object],
    subscriptions: Iterable[Subscription],
    processes: Iterable[ProcessQueue],
    statistics: Statistics,
    *,
    stacks: bool,
) -> dict[str, Any]:
    """For `fastjson.dumps`. `stacks`: include the stack of each thread."""
    held = list(processes)
    paused: Counter[str] = Counter()
    for process in held:
        paused.update(process.paused_by)
    info: dict[str, Any] = {
        "mqPopTable": {},
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
