"""Controllers of Apache RocketMQ, which elect masters. pyrmq has none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcomes
from pyrmq.config.files import format_properties, parse_properties
from pyrmq.errors import ClientError, ConfigError, ProtocolError
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson
from pyrmq.net.client.protocol import Ext


@dataclass(frozen=True, slots=True)
class ControllerMetadata:
    """A controller's view of its group. [GetMetaDataResponseHeader]"""

    group: str
    leader_id: str
    leader_address: str
    is_leader: bool
    peers: list[str]


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    broker_name: str
    broker_id: int
    address: str
    alive: bool | None

    @classmethod
    def from_json(cls, row: Mapping[Any, Any]) -> ReplicaIdentity:
        alive = row.get("alive")
        return cls(
            values.text(row, "brokerName"),
            values.number(row, "brokerId"),
            values.text(row, "brokerAddress"),
            alive if isinstance(alive, bool) else None,
        )


@dataclass(frozen=True, slots=True)
class SyncState:
    """Which replicas of a broker name are in sync with its master. [BrokerReplicasInfo]"""

    broker_name: str
    master_id: int | None
    master_address: str
    master_epoch: int
    set_epoch: int
    in_sync: list[ReplicaIdentity]
    not_in_sync: list[ReplicaIdentity]


@dataclass(frozen=True, slots=True)
class Election:
    """The new master."""

    master_address: str
    master_epoch: int
    set_epoch: int
    brokers: dict[int, str]
    """Addresses by broker id."""


class Controllers(Part):
    """`admin.controllers`. `controller`: `host:port` of any controller of a group. Requests for the
    leader go to the leader that it names."""

    async def metadata(self, controller: str) -> ControllerMetadata:
        """[CONTROLLER_GET_METADATA_INFO]"""
        answer = await self._link.ask(controller, RequestCode.CONTROLLER_GET_METADATA_INFO)
        ext = answer.ext
        return ControllerMetadata(
            ext.get("group", ""),
            ext.get("controllerLeaderId", ""),
            ext.get("controllerLeaderAddress", ""),
            ext.get("isLeader") == "true" or ext.get("leader") == "true",
            [peer for peer in ext.get("peers", "").split(";") if peer],
        )

    async def _leader(self, controller: str) -> str:
        leader = (await self.metadata(controller)).leader_address
        if not leader:
            raise ClientError(f"controller {controller} knows no leader now")
        return leader

    async def sync_states(
        self, controller: str, *, broker_name: str | None = None, cluster: str | None = None
    ) -> list[SyncState]:
        """For a broker name, or for all of a cluster, by name. Raises ClientError if name servers
        do not know the cluster. [CONTROLLER_GET_SYNC_STATE_DATA]"""
        if (broker_name is None) == (cluster is None):
            raise ClientError("say which broker name, or which cluster")
        if broker_name is not None:
            names = [broker_name]
        else:
            info = await self._link.cluster_info()
            names = sorted(b.broker_name for b in self._link.of_cluster(info, cluster or ""))
        body = await self._link.ask_json(
            await self._leader(controller),
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
            body=fastjson.dumps(names),
        )
        table = values.table(body, "replicasInfoTable")
        return [
            _state(str(name), row) for name, row in sorted(table.items()) if isinstance(row, dict)
        ]

    async def config(self, controllers: Sequence[str]) -> Outcomes[dict[str, str]]:
        """The configuration of each controller. [GET_CONTROLLER_CONFIG]"""

        async def one(address: str) -> dict[str, str]:
            answer = await self._link.ask(address, RequestCode.GET_CONTROLLER_CONFIG)
            try:
                return dict(sorted(parse_properties(answer.body.decode()).items()))
            except UnicodeDecodeError:
                raise ProtocolError("a configuration that is not UTF-8") from None

        return await self._link.on_each(controllers, one)

    async def update_config(
        self, controllers: Sequence[str], key: str, value: str
    ) -> Outcomes[None]:
        """[UPDATE_CONTROLLER_CONFIG]"""
        body = format_properties({key: value}).encode()

        async def one(address: str) -> None:
            await self._link.ask(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)

        return await self._link.on_each(controllers, one)

    async def elect(
        self, controller: str, cluster: str, broker_name: str, broker_id: int
    ) -> Election:
        """Makes a replica the master of its broker name. [CONTROLLER_ELECT_MASTER]"""
        ext: Ext = {
            "clusterName": cluster, "brokerName": broker_name, "brokerId": broker_id,
            "designateElect": True, "invokeTime": time.time_ns() // 1_000_000,
        }  # fmt: skip
        leader = await self._leader(controller)
        answer = await self._link.ask(leader, RequestCode.CONTROLLER_ELECT_MASTER, ext)
        group = fastjson.loads_object(answer.body) if answer.body else {}
        group = values.table(group, "brokerMemberGroup") or group
        return Election(
            answer.ext.get("masterAddress", ""),
            as_int(answer.ext.get("masterEpoch"), 0),
            as_int(answer.ext.get("syncStateSetEpoch"), 0),
            {as_int(k, 0): str(v) for k, v in values.table(group, "brokerAddrs").items()},
        )

    async def clean(
        self,
        controller: str,
        broker_name: str,
        *,
        cluster: str | None = None,
        broker_ids: Sequence[int] = (),
        living: bool = False,
    ) -> None:
        """Makes controllers forget replicas of a broker name: those of `broker_ids`, or all. Raises
        ConfigError without `cluster`, unless `living` replicas may be forgotten too.
        [CLEAN_BROKER_DATA]"""
        if not living and not cluster:
            raise ConfigError("say the cluster, or that living brokers may be forgotten as well")
        ext: Ext = {
            "brokerName": broker_name, "isCleanLivingBroker": living,
            "invokeTime": time.time_ns() // 1_000_000,
            **({"clusterName": cluster} if cluster else {}),
            **({"brokerControllerIdsToClean": ";".join(map(str, broker_ids))}
               if broker_ids else {}),
        }  # fmt: skip
        await self._link.ask(await self._leader(controller), RequestCode.CLEAN_BROKER_DATA, ext)


def _state(name: str, row: Mapping[Any, Any]) -> SyncState:
    master = row.get("masterBrokerId")
    return SyncState(
        name,
        master if isinstance(master, int) else None,
        values.text(row, "masterAddress"),
        values.number(row, "masterEpoch"),
        values.number(row, "syncStateSetEpoch"),
        [ReplicaIdentity.from_json(r) for r in values.objects(row, "inSyncReplicas")],
        [ReplicaIdentity.from_json(r) for r in values.objects(row, "notInSyncReplicas")],
    )
