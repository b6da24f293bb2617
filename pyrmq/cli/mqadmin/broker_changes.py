"""mqadmin's commands that change brokers, and have them clean up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.outcome import Outcomes
from pyrmq.cli.mqadmin.brokers import BROKER, CLUSTER, ONE, WHERE, rule, where
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.errors import ConfigError

MODES = ("0", "1")


async def update_config(admin: Admin, values: Values, out: Output) -> None:
    place = where(values)
    slaves = values.has("updateAllBroker")
    if slaves and place["broker"]:
        raise UsageError("--updateAllBroker goes with --clusterName")
    try:
        outcomes = await admin.brokers.update_config(
            values["key"], values["value"], slaves=slaves, **place
        )
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "update broker config success, {}")


Clean = Callable[..., Awaitable[Outcomes[None]]]


async def _clean(clean: Clean, values: Values, out: Output) -> None:
    outcomes = await clean(**where(values, "cluster"))
    for outcome in outcomes:
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
        else:
            out.succeeded()
    out.line("success" if outcomes.done and not outcomes.failed else "false")
    if not outcomes:
        out.failed("no broker was asked: the name server knows none")


async def clean_queues(admin: Admin, values: Values, out: Output) -> None:
    await _clean(admin.brokers.clean_queues, values, out)


async def clean_topics(admin: Admin, values: Values, out: Output) -> None:
    await _clean(admin.brokers.clean_topics, values, out)


async def clean_log(admin: Admin, values: Values, out: Output) -> None:
    await _clean(admin.brokers.clean_log, values, out)


async def reset_flush_offset(admin: Admin, values: Values, out: Output) -> None:
    offset = values.number("offset")
    await admin.brokers.reset_flush_offset(values["brokerAddr"], offset)
    out.line(f"reset master flush offset to {offset} success")


async def update_cold(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.brokers.set_cold_data_threshold(
        values["consumerGroup"], values.number("threshold"), **where(values)
    )
    out.outcomes(outcomes, "updateColdDataFlowCtrGroupConfig success, {}")


async def remove_cold(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.brokers.remove_cold_data_threshold(
        values["consumerGroup"], **where(values)
    )
    out.outcomes(outcomes, "remove broker cold read threshold success, {}")


async def read_ahead(admin: Admin, values: Values, out: Output) -> None:
    mode = values["commitLogReadAheadMode"]
    if mode not in MODES:
        raise UsageError(f"--commitLogReadAheadMode is 0 (as usual) or 1 (random), not {mode!r}")
    for of in await admin.brokers.set_read_ahead(random=mode == "1", **where(values)):
        out.line(f" {rule(of)}")
        if of.outcome.error is not None:
            out.failed(of.outcome.error, of.replica.address)
        else:
            out.succeeded()
            out.line(f"commitLog set readAhead mode rstStr{of.outcome.value}")


async def add_broker(admin: Admin, values: Values, out: Output) -> None:
    container = values["brokerContainerAddr"]
    await admin.brokers.add(container, values["brokerConfigPath"])
    out.line(f"add broker to {container} success")


async def remove_broker(admin: Admin, values: Values, out: Output) -> None:
    container, identity = values["brokerContainerAddr"], values["brokerIdentity"]
    parts: list[Any] = identity.split(":")
    if len(parts) != 3 or not all(parts[:2]):
        raise UsageError(f"--brokerIdentity is cluster:name:id, not {identity!r}")
    cluster, name, number = parts
    if not (number.isascii() and number.isdecimal()) or len(number) > 18:
        raise UsageError(f"--brokerIdentity ends with the broker's id from 0 on, not {number!r}")
    await admin.brokers.remove(container, cluster, name, int(number))
    out.line(f"remove broker from {container} success")


_CLEAN = (BROKER, Option("c", "cluster", "all brokers of this cluster; all clusters without"))
_GROUP = Option("g", "consumerGroup", "consumer group", required=True)
_CONTAINER = Option("c", "brokerContainerAddr", "address of the container", required=True)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "updateBrokerConfig",
            (
                BROKER,
                CLUSTER,
                Option("a", "updateAllBroker", "with any value: slaves of the cluster, too"),
                Option("k", "key", "key of the configuration", required=True),
                Option("v", "value", "its value", required=True),
            ),
            update_config,
            exactly_one=ONE,
        ),
        Command("cleanExpiredCQ", _CLEAN, clean_queues),
        Command("cleanUnusedTopic", _CLEAN, clean_topics),
        Command("deleteExpiredCommitLog", _CLEAN, clean_log),
        Command(
            "resetMasterFlushOffset",
            (
                Option("b", "brokerAddr", "address of a slave, host:port", required=True),
                Option("o", "offset", "how far the master has flushed", required=True),
            ),
            reset_flush_offset,
        ),
        Command(
            "updateColdDataFlowCtrGroupConfig",
            (
                *WHERE,
                _GROUP,
                Option("v", "threshold", "bytes of old messages it may read", required=True),
            ),
            update_cold,
            exactly_one=ONE,
        ),
        Command("removeColdDataFlowCtrGroupConfig", (*WHERE, _GROUP), remove_cold, exactly_one=ONE),
        Command(
            "setCommitLogReadAheadMode",
            (
                *WHERE,
                Option("m", "commitLogReadAheadMode", "0: as usual, 1: random", required=True),
            ),
            read_ahead,
            exactly_one=ONE,
        ),
        Command(
            "addBroker",
            (
                _CONTAINER,
                Option("b", "brokerConfigPath", "a file on its machine", required=True),
            ),
            add_broker,
        ),
        Command(
            "removeBroker",
            (_CONTAINER, Option("b", "brokerIdentity", "cluster:name:id", required=True)),
            remove_broker,
        ),
    )
}
