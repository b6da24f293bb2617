"""The forms in which mqadmin prints groups and consumers. [toString of SubscriptionGroupConfig,
formatString of ConsumerRunningInfo]"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyrmq.admin.group_config import GroupConfig
from pyrmq.admin.running_info import HeldQueue, RunningInfo
from pyrmq.cli.mqadmin.text import millis_text
from pyrmq.model.message import MessageQueue


def value_text(name: str, value: Any) -> str:
    """A member of a group's configuration as Java prints it."""
    if value is None:
        return "null"
    if name == "groupRetryPolicy":
        return _policy(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={v}" for k, v in value.items()) + "}"
    return str(value)


def _policy(policy: dict[str, Any]) -> str:
    growing, listed = policy.get("exponentialRetryPolicy"), policy.get("customizedRetryPolicy")
    first = second = "null"
    if isinstance(growing, dict):
        numbers = ", ".join(f"{k}={growing.get(k)}" for k in ("initial", "max", "multiplier"))
        first = f"ExponentialRetryPolicy{{{numbers}}}"
    if isinstance(listed, dict):
        delays = listed.get("next")
        shown = delays if isinstance(delays, list) else []
        second = f"CustomizedRetryPolicy{{next=[{', '.join(str(n) for n in shown)}]}}"
    return (
        f"GroupRetryPolicy{{type={policy.get('type', 'CUSTOMIZED')}, "
        f"exponentialRetryPolicy={first}, customizedRetryPolicy={second}}}"
    )


def group_text(config: GroupConfig) -> str:
    members = ", ".join(f"{k}={value_text(k, v)}" for k, v in config.members().items())
    return f"SubscriptionGroupConfig{{{members}}}"


def running_text(info: RunningInfo) -> Iterator[str]:
    """The lines of all that a consumer says about itself."""
    yield "#Consumer Properties#"
    for name, value in info.properties.items():
        yield f"{name:<40}: {value}"
    yield from ("", "", "#Consumer Subscription#")
    for at, sub in enumerate(info.subscriptions, 1):
        filtered = "true" if sub.class_filter else "false"
        yield (
            f"{at:03d} Topic: {sub.topic:<40} ClassFilter: {filtered:<8} "
            f"SubExpression: {sub.expression}"
        )
    yield from ("", "", "#Consumer Offset#", _queue_row("#Topic", "#Consumer Offset"))
    for held in info.queues:
        yield _queue_row(held.queue, f"{held.commit_offset:<20}", topic=32)
    yield from ("", "", "#Consumer MQ Detail#", _queue_row("#Topic", "#ProcessQueueInfo"))
    for held in info.queues:
        yield _queue_row(held.queue, _held(held))
    yield from ("", "", "#Consumer Pop Detail#", _queue_row("#Topic", "#ProcessQueueInfo", 32))
    for pop in info.pop_queues:
        yield _queue_row(
            pop.queue,
            f"PopProcessQueueInfo [waitAckCount:{pop.waiting_ack}, "
            f"droped:{'true' if pop.dropped else 'false'}, lastPopTimestamp:{pop.last_pop}]",
            32,
        )
    yield from ("", "", "#Consumer RT&TPS#")
    heads = ("#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS")
    yield (
        f"{'#Topic':<64}  {' '.join(f'{h:>14}' for h in heads)} "
        f"{'#ConsumeFailed TPS':>18} {'#ConsumeFailedMsgsInHour':>25}"
    )
    for r in info.rates:
        numbers = (r.pull_rt, r.pull_tps, r.consume_rt, r.consume_ok_tps)
        yield (
            f"{r.topic:<32}  {' '.join(f'{n:>14.2f}' for n in numbers)} "
            f"{r.consume_failed_tps:>18.2f} {r.consume_failed:>25}"
        )
    yield from ("", "", "#User Consume Info#")
    for name, value in info.user_info.items():
        yield f"{name:<40}: {value}"
    if info.stacks is not None:
        yield from ("", "", "#Consumer jstack#")
        yield from info.stacks.splitlines()


def _queue_row(queue: MessageQueue | str, last: str, topic: int = 64) -> str:
    if isinstance(queue, str):
        return f"{queue:<{topic}}  {'#Broker Name':<32}  #QID  {last:<20}".rstrip()
    row = f"{queue.topic:<{topic}}  {queue.broker_name:<32}  {queue.queue_id:<4}  {last}"
    return row.rstrip()


def _held(held: HeldQueue) -> str:
    return (
        f"ProcessQueueInfo [commitOffset={held.commit_offset}, "
        f"cachedMsgMinOffset={held.cached_min}, cachedMsgMaxOffset={held.cached_max}, "
        f"cachedMsgCount={held.cached}, cachedMsgSizeInMiB={held.cached_mib}, "
        f"transactionMsgMinOffset={held.transaction_min}, "
        f"transactionMsgMaxOffset={held.transaction_max}, "
        f"transactionMsgCount={held.transaction}, locked={'true' if held.locked else 'false'}, "
        f"tryUnlockTimes={held.try_unlock_times}, lastLockTimestamp={_compact(held.last_lock)}, "
        f"droped={'true' if held.dropped else 'false'}, "
        f"lastPullTimestamp={_compact(held.last_pull)}, "
        f"lastConsumeTimestamp={_compact(held.last_consume)}]"
    )


def _compact(ms: int) -> str:
    """`yyyyMMddHHmmssSSS`, in the local zone. [timeMillisToHumanString]"""
    return "".join(c for c in millis_text(ms) if c.isdecimal())
