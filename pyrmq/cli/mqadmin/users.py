"""mqadmin's commands about users."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.outcome import Outcomes
from pyrmq.admin.users import User
from pyrmq.cli.mqadmin.brokers import ONE, WHERE, where
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.errors import ConfigError

_USERS = (Column("#UserName", 16), Column("#Password", 22), Column("#UserType", 22),
          Column("#UserStatus", 22, gap=0))  # fmt: skip


async def create(admin: Admin, values: Values, out: Output) -> None:
    user = User(values["username"], values["password"], values.get("userType"))
    try:
        outcomes = await admin.users.create(user, **where(values))
    except ConfigError as e:
        raise UsageError(str(e)) from None
    out.outcomes(outcomes, "create user to {} success.")


async def update(admin: Admin, values: Values, out: Output) -> None:
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


async def delete(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.users.delete(values["username"], **where(values))
    out.outcomes(outcomes, "delete user to {} success.")


async def get(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.users.get(values["username"], **where(values))
    _failures(outcomes, out)
    for user in outcomes.values:
        if user is not None:
            out.head(_USERS)
            _row(user, out)
            return


async def list_(admin: Admin, values: Values, out: Output) -> None:
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


async def copy(admin: Admin, values: Values, out: Output) -> None:
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

COMMANDS = {
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
            create,
            exactly_one=ONE,
        ),
        Command(
            "updateUser",
            (*WHERE, _NAME, _PASSWORD, _TYPE, Option("s", "userStatus", "enable or disable")),
            update,
            exactly_one=(*ONE, ("password", "userType", "userStatus")),
        ),
        Command("deleteUser", (*WHERE, _NAME), delete, exactly_one=ONE),
        Command("getUser", (*WHERE, _NAME), get, exactly_one=ONE),
        Command(
            "listUser",
            (*WHERE, Option("f", "filter", "names that have this in them")),
            list_,
            exactly_one=ONE,
        ),
        Command(
            "copyUser",
            (*COPY, Option("u", "usernames", "names, separated by commas; all without it")),
            copy,
        ),
    )
}
