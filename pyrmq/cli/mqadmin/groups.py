"""mqadmin's commands that show, make, change and delete consumer groups."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.group_config import GroupConfig, attributes_of
from pyrmq.admin.groups import MODES
from pyrmq.cli.mqadmin.group_text import group_text, value_text
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.errors import ConfigError, UnusableNameError

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
    """The groups in a file with a JSON array. UsageError for what is none."""
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
        return [GroupConfig.from_json(one) for one in found]
    except (ConfigError, UnusableNameError) as e:
        raise UsageError(f"{path}: {e}") from None


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
