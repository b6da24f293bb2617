"""Producers that are connected to brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyrmq.admin import values
from pyrmq.admin.connections import Connection
from pyrmq.admin.link import Part
from pyrmq.errors import ClientError, PyrmqError, ResponseError
from pyrmq.model.codes import RequestCode
from pyrmq.model.versions import version_name


@dataclass(frozen=True, slots=True)
class ProducerInstance:
    """One producer, as its broker reports it. [ProducerInfo]"""

    client_id: str
    remote_ip: str
    language: str
    version: int
    last_update: int
    """The time of its last heartbeat, ms since 1970."""

    @property
    def version_name(self) -> str:
        return version_name(self.version)

    @classmethod
    def from_json(cls, value: Mapping[Any, Any]) -> ProducerInstance:
        return cls(
            values.text(value, "clientId"),
            values.text(value, "remoteIP"),
            values.text(value, "language"),
            values.number(value, "version"),
            values.number(value, "lastUpdateTimestamp"),
        )


class Producers(Part):
    """`admin.producers`."""

    async def connections(self, group: str, topic: str) -> list[Connection]:
        """The producers of a group, from the first broker of the topic that knows any. Raises
        ResponseError if none does. [GET_PRODUCER_CONNECTION_LIST]"""
        last: PyrmqError = ClientError(f"no broker has topic {topic}")
        for replica in await self._link.brokers_of(topic):
            try:
                answer = await self._link.ask_json(
                    replica.address,
                    RequestCode.GET_PRODUCER_CONNECTION_LIST,
                    {"producerGroup": group},
                )
            except PyrmqError as e:
                last = e
                continue
            found = [Connection.from_json(c) for c in values.objects(answer, "connectionSet")]
            if found:
                return found
            last = ResponseError(f"Not found the producer group connection: {group}", 1)
        raise last

    async def all(self, broker: str) -> dict[str, list[ProducerInstance]]:
        """All producers of a broker (`host:port`), by group. [GET_ALL_PRODUCER_INFO]"""
        answer = await self._link.ask_json(broker, RequestCode.GET_ALL_PRODUCER_INFO)
        groups = values.table(answer, "data")
        return {
            str(group): [ProducerInstance.from_json(p) for p in values.objects(groups, group)]
            for group in sorted(groups, key=str)
        }
