"""mqadmin: users and access lists of Apache RocketMQ's brokers."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.admin.outcome import Outcomes
from pyrmq.cli.mqadmin.brokers import ONE, WHERE, where
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.errors import ConfigError

_USERS = (Column("#UserName", 16), Column("#Password", 22), Column("#UserType", 22),
          Column("#UserStatus", 22, gap=0))  # fmt: skip


async def create_user(admin: Admin, values: Values, out: Output) -> None:
    user = User(values["username"], values["password"], values.get("userType"))
    try:
        outcomes = await admin.users.create(user, **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "create user to {} success.")


async def update_user(admin: Admin, values: Values, out: Output) -> None:
    user = User(
        values["username"],
        values.get("password"),
        values.get("userType"),
        values.get("userStatus"),
    )
    try:
        outcomes = await admin.users.update(user, **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "update user to {} success.")


async def delete_user(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.users.delete(values["username"], **where(values))
    out.outcomes(outcomes, "delete user to {} success.")


async def get_user(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.users.get(values["username"], **where(values))
    _failures(outcomes, out)
    for user in outcomes.values:
        if user is not None:
            out.head(_USERS)
            _row(user, out)
            return


async def list_user(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.users.list(values.get("filter") or "", **where(values))
    _failures(outcomes, out)
    for outcome in outcomes.done:
        if outcome.value:
            out.head(_USERS)
            for user in outcome.value:
                _row(user, out)
            if values.get("clusterName"):
                out.line(f"get user from {outcome.target} success.")
            return


def _row(user: User, out: Output) -> None:
    out.row(_USERS, user.name, user.password or "", user.type or "", user.status or "")


def _failures(outcomes: Outcomes[User | None] | Outcomes[list[User]], out: Output) -> None:
    for outcome in outcomes:
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
        else:
            out.succeeded()


async def copy_user(admin: Admin, values: Values, out: Output) -> None:
    source, target = values["fromBroker"], values["toBroker"]
    outcomes = await admin.users.copy(source, target, values.items("usernames"))
    out.outcomes(outcomes, f"copy user of {{}} from {source} to {target} success.")


_NAME = Option("u", "username", "name of the user", required=True)
_PASSWORD = Option("p", "password", "password of the user")
_TYPE = Option("t", "userType", "Super or Normal")
COPY = (
    Option("f", "fromBroker", "address of the broker that has them, host:port", required=True),
    Option("t", "toBroker", "address of the broker that gets them, host:port", required=True),
)

_USER_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "createUser",
            (
                *WHERE,
                _NAME,
                Option("p", "password", "password of the user", required=True),
                _TYPE,
            ),
            create_user,
            exactly_one=ONE,
        ),
        Command(
            "updateUser",
            (*WHERE, _NAME, _PASSWORD, _TYPE, Option("s", "userStatus", "enable or disable")),
            update_user,
            exactly_one=(*ONE, ("password", "userType", "userStatus")),
        ),
        Command("deleteUser", (*WHERE, _NAME), delete_user, exactly_one=ONE),
        Command("getUser", (*WHERE, _NAME), get_user, exactly_one=ONE),
        Command(
            "listUser",
            (*WHERE, Option("f", "filter", "names that have this in them")),
            list_user,
            exactly_one=ONE,
        ),
        Command(
            "copyUser",
            (*COPY, Option("u", "usernames", "names, separated by commas; all without it")),
            copy_user,
        ),
    )
}


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


async def create_acl(admin: Admin, values: Values, out: Output) -> None:
    try:
        outcomes = await admin.acls.create(_acl(values), **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "create acl to {} success.")


async def update_acl(admin: Admin, values: Values, out: Output) -> None:
    try:
        outcomes = await admin.acls.update(_acl(values), **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "update acl to {} success.")


async def delete_acl(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.acls.delete(values["subject"], values.get("resources"), **where(values))
    out.outcomes(outcomes, "delete acl to {} success.")


async def get_acl(admin: Admin, values: Values, out: Output) -> None:
    for outcome in await admin.acls.get(values["subject"], **where(values)):
        if outcome.error is not None:
            out.failed(outcome.error, outcome.target)
            continue
        out.succeeded()
        if outcome.value is not None:
            _show([outcome.value], out)


async def list_acl(admin: Admin, values: Values, out: Output) -> None:
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


async def copy_acl(admin: Admin, values: Values, out: Output) -> None:
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

_ACL_COMMANDS = {
    command.name: command
    for command in (
        Command("createAcl", _CHANGE, create_acl, exactly_one=ONE),
        Command("updateAcl", _CHANGE, update_acl, exactly_one=ONE),
        Command(
            "deleteAcl",
            (*WHERE, _SUBJECT, Option("r", "resources", "only the entries of this resource")),
            delete_acl,
            exactly_one=ONE,
        ),
        Command("getAcl", (*WHERE, _SUBJECT), get_acl, exactly_one=ONE),
        Command(
            "listAcl",
            (
                *WHERE,
                Option("s", "subject", "subjects that have this in them"),
                Option("r", "resource", "resources that have this in them"),
            ),
            list_acl,
            exactly_one=ONE,
        ),
        Command(
            "copyAcl",
            (*COPY, Option("s", "subjects", "subjects, separated by commas; all without it")),
            copy_acl,
        ),
    )
}
COMMANDS = {**_USER_COMMANDS, **_ACL_COMMANDS}
