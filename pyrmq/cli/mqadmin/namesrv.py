"""mqadmin's commands about name servers."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.outcome import Outcomes
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Output
from pyrmq.errors import ConfigError


def on_servers(outcomes: Outcomes[None], done: str, out: Output, *, some: bool = False) -> None:
    """The line `done` if all name servers did it, or with `some` at least one; the others fail."""
    for outcome in outcomes:
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
        else:
            out.succeeded()
    if outcomes.done and (some or not outcomes.failed):
        out.line(done)


async def update_kv(admin: Admin, values: Values, out: Output) -> None:
    try:
        outcomes = await admin.namesrv.put(values["namespace"], values["key"], values["value"])
    except ConfigError as e:
        raise UsageError(str(e)) from None
    on_servers(outcomes, "create or update kv config to namespace success.", out)


async def delete_kv(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.namesrv.delete(values["namespace"], values["key"])
    on_servers(outcomes, "delete kv config from namespace success.", out)


async def get_config(admin: Admin, values: Values, out: Output) -> None:
    for outcome in await admin.namesrv.config():
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
            continue
        out.succeeded()
        out.line(f"{'=' * 12}{outcome.target}{'=' * 12}")
        for key, value in (outcome.value or {}).items():
            out.line(f"{key:<50}=  {value}")


async def update_config(admin: Admin, values: Values, out: Output) -> None:
    key, value = values["key"], values["value"]
    outcomes = await admin.namesrv.update_config(key, value)
    done = ", ".join(o.target for o in outcomes.done)
    named = f"[{done}]" if values.has("namesrvAddr") else ""
    on_servers(outcomes, f"update name server config success!{named}", out, some=True)
    if outcomes.done:
        out.line(f"{key} : {value}")


async def wipe(admin: Admin, values: Values, out: Output) -> None:
    name = values["brokerName"]
    _perm(await admin.namesrv.wipe_write_perm(name), "wipe", name, out)


async def add(admin: Admin, values: Values, out: Output) -> None:
    name = values["brokerName"]
    _perm(await admin.namesrv.add_write_perm(name), "add", name, out)


def _perm(outcomes: Outcomes[int], verb: str, name: str, out: Output) -> None:
    for outcome in outcomes:
        text = f"{verb} write perm of broker[{name}] in name server[{outcome.target}]"
        if outcome.error is not None:
            out.line(f"{text} Failed")
            out.failed(outcome.error, outcome.target)
        else:
            out.succeeded()
            out.line(f"{text} OK, {outcome.value}")
    if outcomes.done and not any(outcomes.values):
        out.note(f"no topic of a broker named {name} is known: -b is a name, not an address")


_NAMESPACE = Option("s", "namespace", "namespace", required=True)
_KEY = Option("k", "key", "key", required=True)
_VALUE = Option("v", "value", "value", required=True)
_NAME = Option("b", "brokerName", "name of the broker, not its address", required=True)

COMMANDS = {
    command.name: command
    for command in (
        Command("updateKvConfig", (_NAMESPACE, _KEY, _VALUE), update_kv),
        Command("deleteKvConfig", (_NAMESPACE, _KEY), delete_kv),
        Command("getNamesrvConfig", (), get_config),
        Command("updateNamesrvConfig", (_KEY, _VALUE), update_config),
        Command("wipeWritePerm", (_NAME,), wipe),
        Command("addWritePerm", (_NAME,), add),
    )
}
