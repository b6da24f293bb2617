"""mqadmin: accounts of ACL 1.0, with the commands of RocketMQ 4.9's mqadmin."""

from __future__ import annotations

import sys

from pyrmq.admin.accounts import PlainAccount
from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.brokers import ONE, WHERE, where
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import seconds_text

_VERSIONS = (Column("#Cluster Name", 16), Column("#Broker Name", 22), Column("#Broker Addr", 22),
             Column("#AclFilePath", 20), Column("#AclConfigVersionNum", 22),
             Column("#AclLastUpdateTime", 22, gap=0))  # fmt: skip
MAX_LINE = 4096


async def update_account(admin: Admin, values: Values, out: Output) -> None:
    secret = values["secretKey"]
    if secret == "-":  # the command line of a process is no secret
        secret = sys.stdin.readline(MAX_LINE).rstrip("\r\n")
    given = {name: tuple(values.items(name)) for name in ("topicPerms", "groupPerms")}
    account = PlainAccount(
        values["accessKey"],
        secret,
        values.get("whiteRemoteAddress"),
        values.get("admin") is not None and values.truth("admin"),
        values.get("defaultTopicPerm"),
        values.get("defaultGroupPerm"),
        given["topicPerms"] if values.has("topicPerms") else None,
        given["groupPerms"] if values.has("groupPerms") else None,
    )
    outcomes = await admin.accounts.set(account, **where(values))
    out.outcomes(outcomes, "create or update plain access config to {} success.")
    if outcomes.done:
        out.line(f"account's accesskey is:{account.access_key}")


async def delete_account(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.accounts.delete(values["accessKey"], **where(values))
    out.outcomes(outcomes, "delete plain access config account from {} success.")
    if outcomes.done:
        out.line(f"account's accesskey is:{values['accessKey']}")


async def update_white(admin: Admin, values: Values, out: Output) -> None:
    listed = values.items("globalWhiteRemoteAddresses")
    if not listed:
        raise UsageError("--globalWhiteRemoteAddresses has no address")
    outcomes = await admin.accounts.set_white_addresses(
        listed, file=values.get("aclFileFullPath") or "", **where(values)
    )
    out.outcomes(outcomes, "update global white remote addresses to {} success.")


async def versions(admin: Admin, values: Values, out: Output) -> None:
    outcomes = await admin.accounts.versions(**where(values))
    if values.get("clusterName"):
        out.head(_VERSIONS)
    for outcome in outcomes:
        found = outcome.value
        if outcome.error is not None or found is None:
            out.failed(outcome.problem)
            continue
        out.succeeded()
        for path, version in found.files.items():
            out.row(
                _VERSIONS, found.cluster, found.broker_name, found.broker, path, version.counter,
                seconds_text(version.timestamp),
            )  # fmt: skip
    if outcomes.done:
        what = "cluster" if values.get("clusterName") else "broker"
        out.line(f"get {what}'s plain access config version success.")


async def show_accounts(admin: Admin, values: Values, out: Output) -> None:
    for outcome in await admin.accounts.list(**where(values)):
        found = outcome.value
        if outcome.error is not None or found is None:
            out.failed(outcome.problem)
            continue
        out.succeeded()
        out.line()
        out.line(f"{'globalWhiteRemoteAddresses':<20}: {_list(found.global_white_addresses)}")
        out.line()
        out.line("accounts:")
        for account in found.accounts:
            for name, text in (
                ("accessKey", account.access_key),
                ("secretKey", account.secret_key or ""),
                ("whiteRemoteAddress", account.white_remote_address or ""),
                ("admin", "true" if account.admin else "false"),
                ("defaultTopicPerm", account.default_topic_perm or ""),
                ("defaultGroupPerm", account.default_group_perm or ""),
                ("topicPerms", _list(account.topic_perms or ())),
                ("groupPerms", _list(account.group_perms or ())),
            ):
                out.line(f"  {name:<18}: {text}")
            out.line()


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(texts)}]"


_KEY = Option("a", "accessKey", "access key of the account", required=True)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "updateAclConfig",
            (
                *WHERE,
                _KEY,
                Option("s", "secretKey", "secret key; -: it is read from stdin", required=True),
                Option("w", "whiteRemoteAddress", "addresses that need no signature"),
                Option("i", "defaultTopicPerm", "permission for topics that are not listed"),
                Option("u", "defaultGroupPerm", "permission for groups that are not listed"),
                Option("t", "topicPerms", "such as topicA=DENY,topicD=SUB"),
                Option("g", "groupPerms", "such as groupA=DENY,groupD=SUB"),
                Option("m", "admin", "true or false, which is the default"),
            ),
            update_account,
            exactly_one=ONE,
        ),
        Command("deleteAclConfig", (*WHERE, _KEY), delete_account, exactly_one=ONE),
        Command("clusterAclConfigVersion", WHERE, versions, exactly_one=ONE),
        Command("getAclConfig", WHERE, show_accounts, exactly_one=ONE),
        Command(
            "updateGlobalWhiteAddr",
            (
                *WHERE,
                Option(
                    "g",
                    "globalWhiteRemoteAddresses",
                    "such as 10.10.103.*,192.168.0.*",
                    required=True,
                ),
                Option("p", "aclFileFullPath", "path of the access file at the broker"),
            ),
            update_white,
            exactly_one=ONE,
        ),
    )
}
