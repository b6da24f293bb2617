"""Requests to Apache RocketMQ's brokers about their RocksDB stores. pyrmq's brokers have none, and
refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ConfigError
from pyrmq.model.codes import RequestCode

TIMEOUT = 30.0
"""Seconds. [30 s in mqadmin]"""
CONFIG_TYPES = ("topics", "subscriptionGroups", "consumerOffsets")
CHECK_ERROR = 3


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """A check that a broker has started, or cannot do; its findings are in the broker's log.
    [CheckRocksdbCqWriteResult]"""

    result: str
    status: int

    @property
    def failed(self) -> bool:
        return self.status == CHECK_ERROR


class RocksDb(Part):
    """`admin.rocksdb`."""

    async def export_configs(
        self,
        types: Sequence[str] = CONFIG_TYPES,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Outcomes[None]:
        """Makes brokers export their configuration in RocksDB to JSON files on their machines.
        `types`: of `CONFIG_TYPES`. Without `broker` and `cluster`: all masters.
        [EXPORT_ROCKSDB_CONFIG_TO_JSON]"""
        if not types or any(one not in CONFIG_TYPES for one in types):
            raise ConfigError(f"the types are {', '.join(CONFIG_TYPES)}, not {'; '.join(types)!r}")
        ext = {"configType": "".join(f"{one};" for one in types)}
        code = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON

        async def one(address: str) -> None:
            await self._link.ask(address, code, ext, timeout=self._link.patience(TIMEOUT))

        masters = await self._link.masters(broker=broker, cluster=cluster, default_all=True)
        return await self._link.on_each(masters, one)

    async def check_queues(
        self, *, cluster: str | None = None, topic: str = "", since: int = 0
    ) -> Outcomes[QueueCheck]:
        """Makes masters compare their queues with those in RocksDB, starting with messages stored
        at `since` (ms since 1970). [CHECK_ROCKSDB_CQ_WRITE_PROGRESS]"""
        code = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS

        async def one(address: str) -> QueueCheck:
            body = await self._link.ask_json(
                address,
                code,
                {"topic": topic, "checkStoreTime": since},
                timeout=self._link.patience(TIMEOUT),
            )
            return QueueCheck(values.text(body, "checkResult"), values.number(body, "checkStatus"))

        masters = await self._link.masters(cluster=cluster, default_all=True)
        return await self._link.on_each(masters, one)

    async def export_pop_records(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Outcomes[None]:
        """Makes brokers write their records of popped messages from RocksDB to the queues that
        older brokers read. [POP_ROLLBACK]"""

        async def one(address: str) -> None:
            await self._link.ask(
                address, RequestCode.POP_ROLLBACK, timeout=self._link.patience(TIMEOUT)
            )

        return await self._link.on_each(
            await self._link.replicas(broker=broker, cluster=cluster), one
        )
