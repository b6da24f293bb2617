"""The common part of requests about users and access lists."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ProtocolError
from pyrmq.net import fastjson
from pyrmq.net.client.protocol import Ext

T = TypeVar("T")


class AccessPart(Part):
    """Changes go to all replicas, questions to masters."""

    async def _on_all(
        self, code: int, ext: Ext, body: bytes, broker: str | None, cluster: str | None
    ) -> Outcomes[None]:
        """Sends a change to a broker, or to all brokers of a cluster."""

        async def one(address: str) -> None:
            await self._link.ask(address, code, ext, body)

        return await self._link.on_each(
            await self._link.replicas(broker=broker, cluster=cluster), one
        )

    async def _ask_masters(
        self, work: Callable[[str], Awaitable[T]], broker: str | None, cluster: str | None
    ) -> Outcomes[T]:
        masters = await self._link.masters(broker=broker, cluster=cluster)
        return await self._link.on_each(masters, work)

    async def _rows(self, address: str, code: int, ext: Ext) -> builtins.list[dict[Any, Any]]:
        """The objects of an answer that is a JSON array."""
        answer = await self._link.ask(address, code, ext)
        found = fastjson.loads(answer.body) if answer.body else []
        if not isinstance(found, builtins.list):
            raise ProtocolError("a list was expected")
        return [row for row in found if isinstance(row, dict)]
