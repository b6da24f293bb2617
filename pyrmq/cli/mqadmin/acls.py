"""mqadmin's commands about access lists."""

from __future__ import annotations

from pyrmq.admin.acls import Acl, Entry
from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.brokers import ONE, WHERE, where
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.users import COPY
from pyrmq.errors import ConfigError

_ACLS = (Column("#Subject", 16), Column("#PolicyType", 10), Column("#Resource", 22),
         Column("#Actions", 20), Column("#SourceIp", 24),
         Column("#Decision", 10, gap=0))  # fmt: skip


def _acl(values: Values) -> Acl:
    actions, ips = tuple(values.items("actions")), tuple(values.items("sourceIp"))
    return Acl(
        values["subject"],
        tuple(
            Entry(resource, actions, ips, values["decision"])
            for resource in values.items("resources")
        ),
    )


async def create(admin: Admin, values: Values, out: Output) -> None:
    try:
        outcomes = await admin.acls.create(_acl(values), **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "create acl to {} success.")


async def update(admin: Admin, values: Values, out: Output) -> None:
    try:
        outcomes = await admin.acls.update(_acl(values), **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "update acl to {} success.")


async def delete(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.acls.delete(values["subject"], values.get("resources"), **where(values))
    out.outcomes(outcomes, "delete acl to {} success.")


async def get(admin: Admin, values: Values, out: Output) -> None:
    for outcome in await admin.acls.get(values["subject"], **where(values)):
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
            continue
        out.succeeded()
        if outcome.value is not None:
            _show([outcome.value], out)


async def list_(admin: Admin, values: Values, out: Output) -> None:
    subject, resource = values.get("subject") or "", values.get("resource") or ""
    for outcome in await admin.acls.list(subject, resource, **where(values)):
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
            continue
        out.succeeded()
        if outcome.value:
            _show(outcome.value, out)


def _show(acls: list[Acl], out: Output) -> None:
    out.head(_ACLS)
    for acl in acls:
        if not acl.entries:
            out.row(_ACLS, acl.subject, "", "", "", "", "")
        for entry in acl.entries:
            out.row(
                _ACLS, acl.subject, entry.policy, entry.resource, f"[{', '.join(entry.actions)}]",
                f"[{', '.join(entry.source_ips)}]" if entry.source_ips else "null",
                entry.decision,
            )  # fmt: skip


async def copy(admin: Admin, values: Values, out: Output) -> None:
    source, target = values["fromBroker"], values["toBroker"]
    outcomes = await admin.acls.copy(source, target, values.items("subjects"))
    out.outcomes(outcomes, f"copy acl of {{}} from {source} to {target} success.")


_SUBJECT = Option("s", "subject", "who it is for, such as User:alice", required=True)
_CHANGE = (
    *WHERE,
    _SUBJECT,
    Option("r", "resources", "such as Topic:orders,Group:*", required=True),
    Option("a", "actions", "such as Pub,Sub", required=True),
    Option("d", "decision", "Allow or Deny", required=True),
    Option("i", "sourceIp", "addresses or networks, separated by commas"),
)

COMMANDS = {
    command.name: command
    for command in (
        Command("createAcl", _CHANGE, create, exactly_one=ONE),
        Command("updateAcl", _CHANGE, update, exactly_one=ONE),
        Command(
            "deleteAcl",
            (*WHERE, _SUBJECT, Option("r", "resources", "only the entries of this resource")),
            delete,
            exactly_one=ONE,
        ),
        Command("getAcl", (*WHERE, _SUBJECT), get, exactly_one=ONE),
        Command(
            "listAcl",
            (
                *WHERE,
                Option("s", "subject", "subjects that have this in them"),
                Option("r", "resource", "resources that have this in them"),
            ),
            list_,
            exactly_one=ONE,
        ),
        Command(
            "copyAcl",
            (*COPY, Option("s", "subjects", "subjects, separated by commas; all without it")),
            copy,
        ),
    )
}
