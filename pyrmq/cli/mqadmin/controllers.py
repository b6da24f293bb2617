"""mqadmin's commands about controllers."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.controllers import ReplicaIdentity
from pyrmq.cli.mqadmin.brokers import repeated
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.errors import ConfigError


def _controller(values: Values) -> str:
    """The first of the list."""
    addresses = values.items("controllerAddress", ";")
    if not addresses:
        raise UsageError("--controllerAddress names no controller")
    return addresses[0]


async def sync_states(admin: Admin, values: Values, out: Output) -> None:
    name, cluster = values.get("brokerName"), values.get("clusterName")

    async def once() -> None:
        found = await admin.controllers.sync_states(
            _controller(values), broker_name=name, cluster=cluster
        )
        for state in found:
            out.line()
            _labels(
                out,
                ("#brokerName", state.broker_name),
                ("#MasterBrokerId", state.master_id),
                ("#MasterAddr", state.master_address),
                ("#MasterEpoch", state.master_epoch),
                ("#SyncStateSetEpoch", state.set_epoch),
                ("#SyncStateSetNums", len(state.in_sync)),
            )
            for label, replicas in (
                ("InSyncReplica:", state.in_sync), ("NotInSyncReplica:", state.not_in_sync),
            ):  # fmt: skip
                for replica in replicas:
                    out.line()
                    out.tabbed(label, _identity(replica))

    await repeated(values, out, once)


def _identity(replica: ReplicaIdentity) -> str:
    alive = "null" if replica.alive is None else str(replica.alive).lower()
    return (
        f"ReplicaIdentity{{brokerName='{replica.broker_name}', brokerId={replica.broker_id}, "
        f"brokerAddress='{replica.address}', alive={alive}}}"
    )


def _labels(out: Output, *labels: tuple[str, object]) -> None:
    for name, value in labels:
        out.tabbed(name, "null" if value is None else str(value))


async def metadata(admin: Admin, values: Values, out: Output) -> None:
    found = await admin.controllers.metadata(_controller(values))
    _labels(
        out,
        ("#ControllerGroup", found.group),
        ("#ControllerLeaderId", found.leader_id),
        ("#ControllerLeaderAddress", found.leader_address),
        *(("#Peer:", peer) for peer in found.peers),
    )


async def get_config(admin: Admin, values: Values, out: Output) -> None:
    for outcome in await admin.controllers.config(values.items("controllerAddress", ";")):
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
            continue
        out.succeeded()
        out.line(f"{'=' * 12}{outcome.target}{'=' * 12}")
        for key, value in (outcome.value or {}).items():
            out.line(f"{key:<50}=  {value}")


async def update_config(admin: Admin, values: Values, out: Output) -> None:
    key, value = values["key"], values["value"]
    addresses = values.items("controllerAddress", ";")
    outcomes = await admin.controllers.update_config(addresses, key, value)
    for outcome in outcomes:
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
        else:
            out.succeeded()
    if outcomes.done:
        done = ", ".join(o.target for o in outcomes.done)
        out.line(f"update controller config success![{done}]")
        out.line(f"{key} : {value}")


async def elect(admin: Admin, values: Values, out: Output) -> None:
    cluster, name = values["clusterName"], values["brokerName"]
    found = await admin.controllers.elect(
        _controller(values), cluster, name, values.number("brokerId")
    )
    _labels(
        out,
        ("#ClusterName", cluster),
        ("#BrokerName", name),
        ("#BrokerMasterAddr", found.master_address),
        ("#MasterEpoch", found.master_epoch),
        ("#SyncStateSetEpoch", found.set_epoch),
    )
    for broker_id, address in sorted(found.brokers.items()):
        out.tabbed("", "#Broker", str(broker_id), address)


async def clean(admin: Admin, values: Values, out: Output) -> None:
    name = values["brokerName"]
    ids = []
    for text in values.items("brokerControllerIdsToClean", ";"):
        if not (text.isascii() and text.isdecimal()) or len(text) > 18:
            raise UsageError(f"--brokerControllerIdsToClean has numbers, not {text!r}")
        ids.append(int(text))
    try:
        await admin.controllers.clean(
            _controller(values),
            name,
            cluster=values.get("clusterName"),
            broker_ids=ids,
            living=values.has("cleanLivingBroker"),
        )
    except ConfigError as e:
        raise UsageError(f"--clusterName or --cleanLivingBroker: {e}") from None
    out.line(f"clear broker {name} metadata from controller success!")


_CONTROLLER = Option("a", "controllerAddress", "address of the controller, host:port",
                     required=True)  # fmt: skip
_CONTROLLERS = Option("a", "controllerAddress", "controllers, host:port;host:port", required=True)
_NAME = Option("bn", "brokerName", "name of the broker", required=True)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "getSyncStateSet",
            (
                _CONTROLLER,
                Option("b", "brokerName", "name of a broker"),
                Option("c", "clusterName", "all brokers of this cluster"),
                Option("i", "interval", "repeat it, so many seconds apart"),
            ),
            sync_states,
            exactly_one=(("brokerName", "clusterName"),),
            needs_name_server=False,
        ),
        Command("getControllerMetaData", (_CONTROLLER,), metadata, needs_name_server=False),
        Command("getControllerConfig", (_CONTROLLERS,), get_config, needs_name_server=False),
        Command(
            "updateControllerConfig",
            (
                _CONTROLLERS,
                Option("k", "key", "key", required=True),
                Option("v", "value", "value", required=True),
            ),
            update_config,
            needs_name_server=False,
        ),
        Command(
            "electMaster",
            (
                _CONTROLLER,
                Option("b", "brokerId", "id of the broker that is to be master", required=True),
                _NAME,
                Option("c", "clusterName", "cluster of the broker", required=True),
            ),
            elect,
            needs_name_server=False,
        ),
        Command(
            "cleanBrokerMetadata",
            (
                _CONTROLLER,
                Option("b", "brokerControllerIdsToClean", "ids, separated by ;; all without it"),
                _NAME,
                Option("c", "clusterName", "cluster of the broker"),
                Option("l", "cleanLivingBroker", "also brokers that are alive", flag=True),
            ),
            clean,
            needs_name_server=False,
        ),
    )
}
