"""mqadmin's commands that show, make, change and delete consumer groups, and the forms in which it
prints them. [toString of SubscriptionGroupConfig, formatString of ConsumerRunningInfo]"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypedDict

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.groups import MODES, GroupConfig, attributes_of
from pyrmq.admin.running_info import HeldQueue, RunningInfo
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.text import millis_text
from pyrmq.errors import ConfigError, UnusableNameError
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


MAX_FILE = 64 << 20
"""Most bytes of a file with groups."""
_BROKER = Option("b", "brokerAddr", "address of the broker, host:port")
_CLUSTER = Option("c", "clusterName", "all masters of this cluster")
_GROUP = Option("g", "groupName", "consumer group name", required=True)


class Target(TypedDict):
    """Where a change goes: one of the two."""

    broker: str | None
    cluster: str | None


def target(values: Values) -> Target:
    """The broker, or else the cluster. UsageError if neither was given."""
    broker, cluster = values.get("brokerAddr"), values.get("clusterName")
    if not broker and not cluster:
        raise UsageError("give --brokerAddr or --clusterName")
    return {"broker": broker or None, "cluster": None if broker else cluster}


async def get_consumer_config(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.groups.configs(values["groupName"])
    if found.done and all(o.value is None for o in found.done):
        out.failed(f"no broker has group {values['groupName']}")
    for outcome in found:
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
            continue
        if outcome.value is None:
            continue
        out.succeeded()
        at, rule = outcome.value, "=" * 29
        out.line(f"{rule}{at.cluster}:{at.broker_name}{rule}")
        for name, value in at.config.members().items():
            shown = "" if value is None else value_text(name, value)
            out.line(f"{name:<40}=  {shown}".rstrip())


async def update_sub_group(admin: Admin, values: Values, out: Output) -> None:
    config = _config(values)
    outcomes = await admin.groups.update(config, **target(values))
    out.outcomes(outcomes, "create subscription group to {} success.")
    if outcomes.done:
        out.line(group_text(config))


def _config(values: Values) -> GroupConfig:
    config = GroupConfig(
        values["groupName"],
        consume_enable=values.truth("consumeEnable"),
        consume_from_min_enable=values.truth("consumeFromMinEnable"),
        consume_broadcast_enable=values.truth("consumeBroadcastEnable"),
        consume_message_orderly=values.truth("consumeMessageOrderly"),
        retry_queue_nums=values.number("retryQueueNums", 0, 65_536),
        retry_max_times=values.number("retryMaxTimes", -1, 2**31 - 1),
        broker_id=values.number("brokerId"),
        which_broker_when_consume_slowly=values.number("whichBrokerWhenConsumeSlowly"),
        notify_consumer_ids_changed_enable=values.truth("notifyConsumerIdsChanged"),
    )
    if values.has("groupRetryPolicy"):
        try:
            policy = json.loads(values["groupRetryPolicy"])
        except ValueError as e:
            raise UsageError(f"--groupRetryPolicy takes a JSON object: {e}") from None
        if not isinstance(policy, dict):
            raise UsageError("--groupRetryPolicy takes a JSON object")
        config.group_retry_policy = policy
    try:
        config.attributes = attributes_of(values.get("attributes") or "")
    except (ConfigError, UnusableNameError) as e:
        raise UsageError(f"--attributes: {e}") from None
    return config


async def update_sub_group_list(admin: Admin, values: Values, out: Output) -> None:
    where = target(values)
    configs = await read_groups(values["filename"])
    if not configs:
        out.note(f"{values['filename']} has no groups: nothing is changed")
        return
    outcomes = await admin.groups.update_many(configs, **where)
    what = "group config" if where["broker"] else "subscription group config"
    out.outcomes(
        outcomes, f"submit batch of {what} to {{}} success, please check the result later."
    )


async def read_groups(path: str) -> list[GroupConfig]:
    """The groups in a file with a JSON array. Attributes may be named without a sign, as exports
    have them: `+`. UsageError for what is none."""
    try:
        async with await trio.open_file(path, "rb") as file:
            raw = await file.read(MAX_FILE + 1)
        if len(raw) > MAX_FILE:
            raise UsageError(f"{path} has more than {MAX_FILE} bytes")
        found: Any = json.loads(raw)
    except FileNotFoundError:
        raise UsageError(f"the file path {path} does not exists") from None
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from None
    except ValueError as e:
        raise UsageError(f"{path} is no JSON: {e}") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UsageError(f"{path} is no JSON array of groups")
    try:
        configs = [GroupConfig.from_json(one) for one in found]
    except (ConfigError, UnusableNameError) as e:
        raise UsageError(f"{path}: {e}") from None
    for config in configs:
        named = config.attributes.items()
        config.attributes = {k if k[:1] in ("+", "-") else f"+{k}": v for k, v in named}
    return configs


async def delete_sub_group(admin: Admin, values: Values, out: Output) -> None:
    group, where = values["groupName"], target(values)
    remove = values.truth("removeOffset")
    outcomes = await admin.groups.delete(group, remove_offsets=remove, **where)
    cluster = where["cluster"]
    inside = f" in cluster [{cluster}]" if cluster else ""
    out.outcomes(
        outcomes, f"delete subscription group [{group}] from broker [{{}}]{inside} success."
    )
    if cluster and not outcomes.failed:
        for failed in await admin.groups.delete_topics(group, cluster):
            assert failed.error is not None
            out.failed(failed.error, failed.target)


async def set_consume_mode(admin: Admin, values: Values, out: Output) -> None:
    group, topic, mode = values["groupName"], values["topicName"], values["mode"].upper()
    if mode not in MODES:
        raise UsageError(f"--mode takes {' or '.join(MODES)}, not {values['mode']!r}")
    share = values.number("popShareQueueNum", -1, 2**31 - 1)
    outcomes = await admin.groups.set_consume_mode(group, topic, mode, share, **target(values))
    out.outcomes(outcomes, "set consume mode to {} success.")
    if outcomes.done:
        out.line(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")


_POLICY_HELP = (
    'delays of retries as JSON: {"type":"EXPONENTIAL","exponentialRetryPolicy":'
    '{"initial":5000,"max":7200000,"multiplier":2}} or '
    '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}}'
)
_UPDATE = (
    _BROKER,
    _CLUSTER,
    _GROUP,
    Option("s", "consumeEnable", "whether it may consume", default="true"),
    Option("m", "consumeFromMinEnable", "whether it may begin at the start", default="false"),
    Option("d", "consumeBroadcastEnable", "whether it may be broadcast to", default="false"),
    Option("o", "consumeMessageOrderly", "whether it consumes in order", default="false"),
    Option("q", "retryQueueNums", "queues of its retry topic", default="1"),
    Option("r", "retryMaxTimes", "retries until a message is a dead letter", default="16"),
    Option("p", "groupRetryPolicy", _POLICY_HELP),
    Option("i", "brokerId", "id of the broker that it consumes from", default="0"),
    Option(
        "w",
        "whichBrokerWhenConsumeSlowly",
        "id of the broker that it consumes from when it is slow",
        default="1",
    ),
    Option("a", "notifyConsumerIdsChanged", "whether members are told of others", default="true"),
    Option(None, "attributes", "attributes: +a=b,+c=d,-e"),
)

COMMANDS = {
    command.name: command
    for command in (
        Command("getConsumerConfig", (_GROUP,), get_consumer_config),
        Command("updateSubGroup", _UPDATE, update_sub_group),
        Command(
            "updateSubGroupList",
            (
                _BROKER,
                _CLUSTER,
                Option("f", "filename", "file with a JSON array of groups", required=True),
            ),
            update_sub_group_list,
            exactly_one=(("brokerAddr", "clusterName"),),
        ),
        Command(
            "deleteSubGroup",
            (
                _BROKER,
                _CLUSTER,
                _GROUP,
                Option("r", "removeOffset", "whether its offsets go as well", default="false"),
            ),
            delete_sub_group,
        ),
        Command(
            "setConsumeMode",
            (
                _BROKER,
                _CLUSTER,
                Option("t", "topicName", "topic name", required=True),
                _GROUP,
                Option("m", "mode", "PULL or POP", required=True),
                Option(
                    "q",
                    "popShareQueueNum",
                    "how many members may pop the same queue",
                    default="0",
                ),
            ),
            set_consume_mode,
        ),
    )
}
