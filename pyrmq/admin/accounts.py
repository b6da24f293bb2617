"""Accounts of brokers with ACL 1.0, in plain_acl.yml. [RocketMQ 4's access control]"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.auth import AccessPart
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ConfigError, ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import DataVersion
from pyrmq.net import fastjson
from pyrmq.net.client.protocol import Ext


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """An account of ACL 1.0. In a change, None is a value that stays as it is; `admin` is always
    set. `topic_perms` and `group_perms` have texts such as `orders=PUB|SUB`."""

    access_key: str
    secret_key: str | None = field(default=None, repr=False)
    """A broker of pyrmq does not show it."""
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: tuple[str, ...] | None = None
    group_perms: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> PlainAccount:
        """[PlainAccessConfig]"""
        return cls(
            values.text(row, "accessKey"),
            values.text(row, "secretKey") or None,
            values.text(row, "whiteRemoteAddress") or None,
            row.get("admin") is True,
            values.text(row, "defaultTopicPerm") or None,
            values.text(row, "defaultGroupPerm") or None,
            _texts(row, "topicPerms"),
            _texts(row, "groupPerms"),
        )

    def to_ext(self) -> Ext:
        """[CreateAccessConfigRequestHeader]"""
        lists = (("topicPerms", self.topic_perms), ("groupPerms", self.group_perms))
        texts = (
            ("secretKey", self.secret_key),
            ("whiteRemoteAddress", self.white_remote_address),
            ("defaultTopicPerm", self.default_topic_perm),
            ("defaultGroupPerm", self.default_group_perm),
            *((name, None if texts is None else ",".join(texts)) for name, texts in lists),
        )
        ext: dict[str, str | int | bool] = {"accessKey": self.access_key, "admin": self.admin}
        return ext | {name: text for name, text in texts if text is not None}


def _texts(row: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    found = row.get(name)
    return tuple(map(str, found)) if isinstance(found, builtins.list) else ()


@dataclass(frozen=True, slots=True)
class AccountList:
    """All accounts of a broker, and from where requests need none. [AclConfig]"""

    accounts: tuple[PlainAccount, ...]
    global_white_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountVersions:
    """The versions of a broker's access files, by path. [ClusterAclVersionInfo]"""

    cluster: str
    broker_name: str
    broker: str
    """`host:port`."""
    files: Mapping[str, DataVersion]


class Accounts(AccessPart):
    """`admin.accounts`. Methods with `broker` (`host:port`) and `cluster` need one of the two.
    Changes go to all brokers of a cluster, questions to its masters."""

    async def set(
        self, account: PlainAccount, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Creates an account, or changes it. [UPDATE_AND_CREATE_ACL_CONFIG]"""
        if not account.access_key.strip():
            raise ConfigError("an account has an access key")
        code = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
        return await self._on_all(code, account.to_ext(), b"", broker, cluster)

    async def delete(
        self, access_key: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """[DELETE_ACL_CONFIG]"""
        ext: Ext = {"accessKey": access_key}
        return await self._on_all(RequestCode.DELETE_ACL_CONFIG, ext, b"", broker, cluster)

    async def set_white_addresses(
        self,
        addresses: Sequence[str],
        *,
        file: str = "",
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Replaces the global white list. `file`: the path of an access file at the broker, if not
        that of plain_acl.yml. [UPDATE_GLOBAL_WHITE_ADDRS_CONFIG]"""
        ext: Ext = {"globalWhiteAddrs": ",".join(addresses), "aclFileFullPath": file}
        code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
        return await self._on_all(code, ext, b"", broker, cluster)

    async def list(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[AccountList]:
        """All accounts of each broker. Brokers of RocketMQ from 4.9.8 and 5.2.0 on refuse it.
        [GET_BROKER_CLUSTER_ACL_CONFIG]"""

        async def one(address: str) -> AccountList:
            code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
            found = await self._link.ask_json(address, code)
            rows = values.objects(found, "plainAccessConfigs")
            return AccountList(
                tuple(PlainAccount.from_json(row) for row in rows),
                _texts(found, "globalWhiteAddrs"),
            )

        return await self._ask_masters(one, broker, cluster)

    async def versions(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[AccountVersions]:
        """How often, and when, the access files of each broker were changed by requests.
        [GET_BROKER_CLUSTER_ACL_INFO]"""

        async def one(address: str) -> AccountVersions:
            answer = await self._link.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
            texts = answer.ext
            found = fastjson.loads(
                texts.get("allAclFileVersion", "{}").encode(), name="allAclFileVersion"
            )
            if not isinstance(found, dict):
                raise ProtocolError("allAclFileVersion is no JSON object")
            return AccountVersions(
                texts.get("clusterName", ""),
                texts.get("brokerName", ""),
                texts.get("brokerAddr", ""),
                {str(path): DataVersion.from_json(version) for path, version in found.items()},
            )

        return await self._ask_masters(one, broker, cluster)
