"""mqadmin's commands that make topics, change and delete them."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.groups import attributes_of
from pyrmq.admin.topic_changes import NO_STATIC_TOPICS
from pyrmq.admin.topic_file import read_topics
from pyrmq.cli.mqadmin.namesrv import on_servers
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.text import topic_text
from pyrmq.errors import ConfigError, NotSupportedError
from pyrmq.model.topic import MAX_QUEUES, TopicConfig

METHODS = ("get", "put", "delete")


async def update_topic(admin: Admin, values: Values, out: Output) -> None:
    ordered = values.truth("order")
    text = values.get("attributes") or ""
    try:
        attributes = attributes_of(text)
    except ConfigError as e:
        raise UsageError(f"--attributes: {e}") from None
    config = TopicConfig(
        values["topic"],
        values.number("readQueueNums", 0, MAX_QUEUES),
        values.number("writeQueueNums", 1 if ordered else 0, MAX_QUEUES),
        values.number("perm", 0, 7),
        topic_sys_flag=values.truth("unit") + 2 * values.truth("hasUnitSub"),
        order=ordered,
        attributes=attributes,
    )
    broker, cluster = values.get("brokerAddr"), values.get("clusterName")
    if ordered:
        await _update_ordered(admin, config, text, broker, cluster, values.truth("force"), out)
        return
    outcomes = await admin.topics.update(
        config, broker=broker, cluster=cluster, attributes=text, force=values.truth("force")
    )
    out.outcomes(outcomes, "create topic to {} success.")
    if outcomes.done:
        out.line(topic_text(config))


async def _update_ordered(
    admin: Admin,
    config: TopicConfig,
    attributes: str,
    broker: str | None,
    cluster: str | None,
    force: bool,
    out: Output,
) -> None:
    """The line about the order configuration comes first for a broker, last for a cluster."""
    made = await admin.topics.update_ordered(
        config, broker=broker, cluster=cluster, attributes=attributes, force=force
    )

    def order_conf() -> None:
        for server in made.servers.failed:
            assert server.error is not None
            out.failed(server.error, server.target)
        if made.servers.done:
            what = "broker" if broker else "cluster"
            out.line(f"set {what} orderConf. isOrder=true, orderConf=[{made.entries}]")

    if broker:
        order_conf()
    out.outcomes(made.brokers, "create topic to {} success.")
    if not broker:
        order_conf()
    if made.brokers.done:
        out.line(topic_text(config))


async def update_topic_list(admin: Admin, values: Values, out: Output) -> None:
    try:
        changes = await read_topics(values["filename"])
    except ConfigError as e:
        raise UsageError(str(e)) from None
    if not changes:
        out.note(f"{values['filename']} has no topics: nothing is changed")
        return
    outcomes = await admin.topics.update_many(
        changes,
        broker=values.get("brokerAddr"),
        cluster=values.get("clusterName"),
        force=values.truth("force"),
    )
    out.outcomes(
        outcomes, "submit batch of topic config to {} success, please check the result later."
    )


async def update_topic_perm(admin: Admin, values: Values, out: Output) -> None:
    broker = values.get("brokerAddr")
    outcomes = await admin.topics.set_perm(
        values["topic"],
        values.number("perm", 0, 7),
        broker=broker,
        cluster=values.get("clusterName"),
    )
    for outcome in outcomes:
        change = outcome.value
        if change is None:
            assert outcome.error is not None
            out.failed(outcome.error, outcome.target)
            continue
        out.succeeded()
        if not change.changed:
            where = "" if broker else f" {outcome.target}"
            out.line(f"new perm equals to the old one!{where}")
            continue
        out.line(
            f"update topic perm from {change.old} to {change.config.perm} in "
            f"{outcome.target} success."
        )
        if broker:
            out.line(f"{topic_text(change.config)}.")


async def delete_topic(admin: Admin, values: Values, out: Output) -> None:
    topic, cluster = values["topic"], values["clusterName"]
    outcomes = await admin.topics.delete(topic, cluster)
    for outcome in outcomes:
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
        else:
            out.succeeded()
    if not outcomes.failed:
        out.line(f"delete topic [{topic}] from cluster [{cluster}] success.")
        out.line(f"delete topic [{topic}] from NameServer success.")


async def update_order_conf(admin: Admin, values: Values, out: Output) -> None:
    topic, method = values["topic"], values["method"]
    if method not in METHODS:
        raise UsageError(f"--method is get, put or delete, not {method!r}")
    if method == "get":
        found = await admin.topics.order_conf(topic)
        if found is None:
            out.failed(f"topic {topic} has no order configuration")
            return
        out.line(f"get orderConf success. topic=[{topic}], orderConf=[{found}]")
        return
    if method == "put":
        value = values.get("orderConf")
        if not value:
            raise UsageError("please set orderConf with option -v.")
        try:
            outcomes = await admin.topics.put_order_conf(topic, value)
        except ConfigError as e:
            raise UsageError(f"--orderConf: {e}") from None
        done = f"update orderConf success. topic=[{topic}], orderConf=[{value}]"
    else:
        outcomes = await admin.topics.delete_order_conf(topic)
        done = f"delete orderConf success. topic=[{topic}]"
    on_servers(outcomes, done, out)


async def static_topic(admin: Admin, values: Values, out: Output) -> None:
    raise NotSupportedError(NO_STATIC_TOPICS)


_TOPIC = Option("t", "topic", "topic name", required=True)
_BROKER = Option("b", "brokerAddr", "address of the broker, host:port")
_CLUSTER = Option("c", "clusterName", "all masters of this cluster")
_FORCE = "true or false: also if messages that are not consumed are read no more (ours)"
_ONE = (("brokerAddr", "clusterName"),)
_STATIC = (
    Option("c", "clusters", "names of clusters, separated by commas"),
    Option("b", "brokers", "names of brokers, separated by commas"),
    _TOPIC,
    Option("mf", "mapFile", "file with the mapping"),
    Option("fr", "forceReplace", "true or false: replace the mapping", default="false"),
)
_STATIC_ONE = (("clusters", "brokers"),)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "updateTopic",
            (
                Option("b", "brokerAddr", "create topic to this broker"),
                Option("c", "clusterName", "create topic to all brokers of this cluster"),
                _TOPIC,
                Option("r", "readQueueNums", "queues to read", default="8"),
                Option("w", "writeQueueNums", "queues to write", default="8"),
                Option("p", "perm", "2 write, 4 read, 6 both", default="6"),
                Option("o", "order", "true or false: with an order configuration", default="false"),
                Option("u", "unit", "true or false: a unit topic", default="false"),
                Option("s", "hasUnitSub", "true or false: subscribed by units", default="false"),
                Option("a", "attributes", "changes: +key=value or -key, separated by commas"),
                Option(None, "force", _FORCE, default="false"),
            ),
            update_topic,
            exactly_one=_ONE,
        ),
        Command(
            "updateTopicList",
            (
                _BROKER,
                _CLUSTER,
                Option("f", "filename", "file with a JSON array of topics", required=True),
                Option(None, "force", _FORCE, default="false"),
            ),
            update_topic_list,
            exactly_one=_ONE,
        ),
        Command(
            "updateTopicPerm",
            (
                _BROKER,
                _CLUSTER,
                _TOPIC,
                Option("p", "perm", "2 write, 4 read, 6 both, 0 none", required=True),
            ),
            update_topic_perm,
            exactly_one=_ONE,
        ),
        Command(
            "deleteTopic",
            (_TOPIC, Option("c", "clusterName", "cluster name", required=True)),
            delete_topic,
        ),
        Command(
            "updateOrderConf",
            (
                _TOPIC,
                Option("v", "orderConf", "broker:queues;broker:queues, needed by put"),
                Option("m", "method", "get, put or delete", required=True),
            ),
            update_order_conf,
        ),
        Command(
            "updateStaticTopic",
            (*_STATIC, Option("qn", "totalQueueNum", "queues of all brokers", required=True)),
            static_topic,
            exactly_one=_STATIC_ONE,
            local=True,
        ),
        Command("remappingStaticTopic", _STATIC, static_topic, exactly_one=_STATIC_ONE, local=True),
    )
}
