"""Requests that show and change the accounts of ACL 1.0, as brokers of RocketMQ 4.9 have them.

RocketMQ dropped GET_BROKER_CLUSTER_ACL_CONFIG because it shows secret keys; here it shows a mask in
their place, which no request can set, as it is too short for a secret key. [AdminBrokerProcessor]
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pyrmq.auth import audit
from pyrmq.auth.audit import MAX_SHOWN, NOTHING, Asker
from pyrmq.auth.plain.access import PlainAccess
from pyrmq.auth.plain.accounts import PERMISSIONS, Account, Permissions
from pyrmq.engine import Command
from pyrmq.errors import ConfigError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.topic import DataVersion
from pyrmq.net import fastjson
from pyrmq.net.address import Address, format_address
from pyrmq.net.command import Response, text
from pyrmq.net.server.admin_access import host_of
from pyrmq.net.server.answers import Elsewhere, Processor
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

MASK = "******"
MAX_WAITING = 8
"""Most changes that wait for another one."""
_NAMES = {PERMISSIONS[name]: name for name in ("DENY", "PUB", "SUB", "PUB|SUB")}
_DISABLED = "ACL 1.0 is not enabled: set aclEnable=true in broker.conf"


class PlainAclProcessor:
    """By request code in `processors`. Without access control all of them are refused."""

    def __init__(
        self, access: PlainAccess | None, cluster: str, broker_name: str, address: Address
    ) -> None:
        self._access = access
        self._cluster = cluster
        self._broker_name = broker_name
        self._address = address

    def processors(self) -> dict[int, Processor]:
        """By request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.update,
            RequestCode.DELETE_ACL_CONFIG: self.delete,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.versions,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.update_white,
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: self.accounts,
        }

    def update(self, connection: Connection, command: Command) -> Elsewhere:
        """UPDATE_AND_CREATE_ACL_CONFIG: fields are named as the keys of an account; topicPerms and
        groupPerms are lists with commas. A field that is missing changes nothing, but for admin,
        which is false then."""
        code = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        access, key = self._enabled(code), text(command, "accessKey")
        values: dict[str, str | Sequence[str] | None] = {
            "accessKey": key,
            "admin": "true" if command.ext.get("admin", "").lower() == "true" else "false",
        }
        for name in ("secretKey", "defaultTopicPerm", "defaultGroupPerm"):
            if command.ext.get(name):
                values[name] = command.ext[name]
        if "whiteRemoteAddress" in command.ext:
            values["whiteRemoteAddress"] = command.ext["whiteRemoteAddress"]
        for name in ("topicPerms", "groupPerms"):
            if name in command.ext:
                values[name] = _list(command.ext[name])
        change = _Change("updateAclConfig", key, lambda: _account(access, key))
        return _elsewhere(
            connection, command, access, lambda: access.set_account(values), code, change
        )

    def delete(self, connection: Connection, command: Command) -> Elsewhere:
        """DELETE_ACL_CONFIG: accessKey."""
        code = ResponseCode.DELETE_ACL_CONFIG_FAILED
        access, key = self._enabled(code), text(command, "accessKey")
        change = _Change("deleteAclConfig", key, lambda: _account(access, key))
        return _elsewhere(
            connection, command, access, lambda: access.delete_account(key), code, change
        )

    def update_white(self, connection: Connection, command: Command) -> Elsewhere:
        """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: globalWhiteAddrs, a list with commas; aclFileFullPath,
        one of the access files, if it is not the default one."""
        code = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        access, listed = self._enabled(code), _list(text(command, "globalWhiteAddrs"))
        path = command.ext.get("aclFileFullPath", "")
        change = _Change("updateGlobalWhiteAddr", path or NOTHING, lambda: _white(access))
        return _elsewhere(
            connection, command, access, lambda: access.set_white_list(listed, path), code, change
        )

    def versions(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_CLUSTER_ACL_INFO: the version of each file."""
        access = self._enabled(ResponseCode.SYSTEM_ERROR)
        files = {file.path: _version(file.version) for file in access.rules.files}
        default = files.get(str(access.folder.default), _version(DataVersion()))
        return Response(
            ext={
                "version": json.dumps(default, separators=(",", ":")),
                "allAclFileVersion": json.dumps(files, separators=(",", ":")),
                "brokerName": self._broker_name,
                "brokerAddr": format_address(self._address),
                "clusterName": self._cluster,
            }
        )

    def accounts(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_CLUSTER_ACL_CONFIG: all accounts and the global white list, without secret
        keys."""
        rules = self._enabled(ResponseCode.SYSTEM_ERROR).rules
        body = {
            "globalWhiteAddrs": [pattern.text for pattern in rules.white],
            "plainAccessConfigs": [_shown(account) for account in rules.accounts.values()],
        }
        return Response(body=fastjson.dumps(body))

    def _enabled(self, code: int) -> PlainAccess:
        if self._access is None:
            raise ResponseError(_DISABLED, code)
        return self._access


@dataclass(frozen=True, slots=True)
class _Change:
    """A change as the audit log names it; `shown`: its subject as it is now, without secrets."""

    what: str
    subject: str
    shown: Callable[[], str]


def _account(access: PlainAccess, key: str) -> str:
    account = access.rules.accounts.get(key)
    if account is None:
        return NOTHING
    shown = _shown(account)
    del shown["accessKey"], shown["secretKey"]
    return _bounded(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))


def _white(access: PlainAccess) -> str:
    return _bounded(",".join(pattern.text for pattern in access.rules.white) or NOTHING)


def _bounded(text: str) -> str:
    cut = f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
    return text if len(text) <= MAX_SHOWN else cut


def _elsewhere(
    connection: Connection,
    command: Command,
    access: PlainAccess,
    run: Callable[[], Awaitable[bool]],
    code: int,
    change: _Change,
) -> Elsewhere:
    if access.changing.statistics().tasks_waiting >= MAX_WAITING:
        raise ResponseError("other changes of access files are still being written", code)
    signer = access.signer_of(command, host_of(connection.peer))
    asker = Asker(signer, connection.peer, True)
    return Elsewhere(_changed(asker, run, code, change))


async def _changed(
    asker: Asker, run: Callable[[], Awaitable[bool]], code: int, change: _Change
) -> Response:
    before = change.shown()
    try:
        lost = await run()
    except ConfigError as e:
        audit.not_changed(asker, change.what, change.subject, e)
        raise ResponseError(str(e), code) from e
    audit.changed(asker, change.what, change.subject, before, change.shown())
    if not lost:
        return Response()
    log.warning("comments of the access file are lost by this change")
    return Response(remark="done; comments of the access file are lost")


def _list(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _version(version: DataVersion) -> dict[str, int]:
    return version.to_json()


def _shown(account: Account) -> dict[str, object]:
    """[PlainAccessConfig]"""
    return {
        "accessKey": account.access_key,
        "admin": account.admin,
        "defaultGroupPerm": _NAMES[account.default_group],
        "defaultTopicPerm": _NAMES[account.default_topic],
        "groupPerms": _listed(account.groups),
        "secretKey": MASK,
        "topicPerms": _listed(account.topics),
        "whiteRemoteAddress": account.white.text,
    }


def _listed(permissions: Permissions) -> list[str]:
    return [f"{name}={_NAMES[permission]}" for name, permission in permissions.items()]
