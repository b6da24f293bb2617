"""Brokers: what they say of themselves, their configuration, cleaning up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import trio

from pyrmq.admin import values
from pyrmq.admin.link import Part, Replica
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.runtime_info import BrokerConsumeStats, HaStatus, Runtime
from pyrmq.config.files import format_properties, parse_properties
from pyrmq.errors import ClientError, ConfigError, ConnectError, ProtocolError, RequestTimeoutError
from pyrmq.model.codes import RequestCode
from pyrmq.net.client.protocol import Ext

R = TypeVar("R")
CONSUME_STATS_TIMEOUT = 50.0
ROLE_TIMEOUT = 20.0
"""Seconds for a slave to say that it takes over: it asks first whether its master answers."""
PROMOTION_TIMEOUT = 60.0
CONTAINER_TIMEOUT = 20.0
"""Seconds for a container to start or stop a broker."""


@dataclass(frozen=True, slots=True)
class OfReplica(Generic[R]):
    """What one replica answered, or how it failed. Of one that was named by its address no name is
    known. `master`: the address of the master of a slave, if there is one."""

    replica: Replica
    outcome: Outcome[R]
    master: str | None = None


class Brokers(Part):
    """`admin.brokers`. Where a method takes `broker` (`host:port`) and `cluster`, one of both has
    to be given; ClientError otherwise, or if there is no such cluster."""

    async def each(
        self,
        work: Callable[[str], Awaitable[R]],
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[OfReplica[R]]:
        """What `work` gave for the address of each replica, by name and id."""
        replicas = await self._link.replicas(broker=broker, cluster=cluster)
        masters = {r.broker_name: r.address for r in replicas if r.broker_id == 0}
        outcomes = await self._link.on_each(replicas, work)
        return [
            OfReplica(r, o, masters.get(r.broker_name) if r.broker_id else None)
            for r, o in zip(replicas, outcomes, strict=True)
        ]

    # Looking

    async def runtime_of(self, address: str) -> Runtime:
        """The figures of a broker, by name. [GET_BROKER_RUNTIME_INFO]"""
        answer = await self._link.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = values.table(answer, "table")
        return {str(k): str(v) for k, v in sorted(table.items(), key=lambda kv: str(kv[0]))}

    async def runtime(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> list[OfReplica[Runtime]]:
        """The figures of brokers, slaves among them."""
        return await self.each(self.runtime_of, broker=broker, cluster=cluster)

    async def config_of(self, address: str) -> dict[str, str]:
        """The configuration of a broker. [GET_BROKER_CONFIG]"""
        answer = await self._link.ask(address, RequestCode.GET_BROKER_CONFIG)
        try:
            return parse_properties(answer.body.decode())
        except UnicodeDecodeError:
            raise ProtocolError("a configuration that is not UTF-8") from None

    async def config(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> list[OfReplica[dict[str, str]]]:
        """The configuration of brokers, slaves among them."""
        return await self.each(self.config_of, broker=broker, cluster=cluster)

    async def consume_stats(
        self, broker: str, *, ordered: bool = False, timeout: float | None = None
    ) -> BrokerConsumeStats:
        """How far all groups of a broker are; `ordered`: in topics that are ordered only."""
        answer = await self._link.ask_json(
            broker,
            RequestCode.GET_BROKER_CONSUME_STATS,
            {"isOrder": ordered},
            timeout=self._link.patience(CONSUME_STATS_TIMEOUT) if timeout is None else timeout,
        )
        return BrokerConsumeStats.from_json(answer)

    async def ha(
        self, *, broker: str | None = None, cluster: str | None = None, slaves: bool = False
    ) -> Outcomes[HaStatus]:
        """How replication stands, as the masters of a cluster say, with `slaves` all its brokers,
        or as the broker says that is named."""

        async def one(address: str) -> HaStatus:
            answer = await self._link.ask_json(address, RequestCode.GET_BROKER_HA_STATUS)
            return HaStatus.from_json(answer)

        find = self._link.replicas if slaves else self._link.masters
        return await self._link.on_each(await find(broker=broker, cluster=cluster), one)

    async def cold_data(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> list[OfReplica[dict[str, Any]]]:
        """What brokers say about groups that read old messages."""

        async def one(address: str) -> dict[str, Any]:
            return await self._link.ask_json(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)

        return await self.each(one, broker=broker, cluster=cluster)

    # Changing

    async def update_config(
        self,
        key: str,
        value: str,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        slaves: bool = False,
    ) -> Outcomes[None]:
        """Changes a key of the configuration of brokers: of the masters of a cluster, or with
        `slaves` of all. ConfigError for a permission that is none."""
        if key == "brokerPermission" and value not in tuple("01234567"):
            raise ConfigError(f"brokerPermission is a number from 0 to 7, not {value!r}")
        body = format_properties({key: value}).encode()
        find = self._link.replicas if slaves else self._link.masters
        return await self._change(
            await find(broker=broker, cluster=cluster), RequestCode.UPDATE_BROKER_CONFIG, body=body
        )

    async def promote(
        self, broker: str, *, sync: bool = False, timeout: float = PROMOTION_TIMEOUT
    ) -> HaStatus:
        """Makes a slave the master of its name, and waits until it is: it restarts in its process.
        Only pyrmq's brokers can. NoPermissionError while a master of that name answers;
        ClientError if it is not back as master in time. `sync`: it becomes a SYNC_MASTER."""
        role = "SYNC_MASTER" if sync else "ASYNC_MASTER"
        body = format_properties({"brokerRole": role}).encode()
        await self._link.ask(
            broker, RequestCode.UPDATE_BROKER_CONFIG, body=body,
            timeout=self._link.patience(ROLE_TIMEOUT),
        )  # fmt: skip
        with trio.move_on_after(timeout):
            while True:
                with suppress(ConnectError, RequestTimeoutError):
                    answer = await self._link.ask_json(broker, RequestCode.GET_BROKER_HA_STATUS)
                    status = HaStatus.from_json(answer)
                    if status.master:
                        return status
                await trio.sleep(0.1)
        raise ClientError(f"{broker} is not back as master within {timeout:g} s: look at its log")

    async def clean_queues(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Has brokers delete files of queues whose messages are gone. Without broker and cluster
        on all brokers of all clusters."""
        return await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, broker, cluster)

    async def clean_topics(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Has brokers delete what is left of topics that are not there any more."""
        return await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, broker, cluster)

    async def clean_log(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Has brokers delete files of the log that are older than they are to be kept."""
        return await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, broker, cluster)

    async def _clean(self, code: int, broker: str | None, cluster: str | None) -> Outcomes[None]:
        replicas = await self._link.replicas(broker=broker, cluster=cluster, default_all=True)
        return await self._change(replicas, code)

    async def reset_flush_offset(self, broker: str, offset: int) -> None:
        """Says to a slave how far its master has flushed. [RESET_MASTER_FLUSH_OFFSET]"""
        await self._link.ask(
            broker, RequestCode.RESET_MASTER_FLUSH_OFFSET, {"masterFlushOffset": offset}
        )

    async def set_cold_data_threshold(
        self, group: str, threshold: int, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Sets how many bytes of old messages a group may read at masters."""
        return await self._change(
            await self._link.masters(broker=broker, cluster=cluster),
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
            body=format_properties({group: str(threshold)}).encode(),
        )

    async def remove_cold_data_threshold(
        self, group: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        return await self._change(
            await self._link.masters(broker=broker, cluster=cluster),
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
            body=group.encode(),
        )

    async def set_read_ahead(
        self, *, random: bool, broker: str | None = None, cluster: str | None = None
    ) -> list[OfReplica[str]]:
        """Has brokers read ahead in the log as usual, or not (`random`); what they answered."""

        async def one(address: str) -> str:
            answer = await self._link.ask(
                address, RequestCode.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": str(int(random))}
            )
            return answer.remark or ""

        return await self.each(one, broker=broker, cluster=cluster)

    async def add(self, container: str, config_path: str) -> None:
        """Has a container start a broker; `config_path` is a file of the container's machine."""
        await self._link.ask(
            container, RequestCode.ADD_BROKER, {"configPath": config_path},
            timeout=self._link.patience(CONTAINER_TIMEOUT),
        )  # fmt: skip

    async def remove(self, container: str, cluster: str, broker_name: str, broker_id: int) -> None:
        """Has a container stop a broker."""
        await self._link.ask(
            container,
            RequestCode.REMOVE_BROKER,
            {"brokerClusterName": cluster, "brokerName": broker_name, "brokerId": broker_id},
            timeout=self._link.patience(CONTAINER_TIMEOUT),
        )

    async def _change(
        self, replicas: list[Replica], code: int, ext: Ext | None = None, body: bytes = b""
    ) -> Outcomes[None]:
        async def one(address: str) -> None:
            await self._link.ask(address, code, ext, body)

        return await self._link.on_each(replicas, one)
