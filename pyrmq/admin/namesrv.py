"""Name servers: their configuration, their KV configuration, and write permissions of brokers.

Order configurations are KV: which queues of which brokers an ordered topic is sent to, and in which
order. [KV namespace ORDER_TOPIC_CONFIG]
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyrmq.admin import values
from pyrmq.admin.link import Part
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.config.files import format_properties, parse_properties
from pyrmq.engine import Command
from pyrmq.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    ProtocolError,
    QueryNotFoundError,
    RequestTimeoutError,
)
from pyrmq.model.codes import RequestCode
from pyrmq.model.route import MAX_ROUTE_QUEUES
from pyrmq.model.topic import as_int
from pyrmq.net import fastjson
from pyrmq.net.address import format_address
from pyrmq.net.client.protocol import Ext


class Namesrv(Part):
    """`admin.namesrv`. Changes go to every name server, because each has its own configuration."""

    # Values by namespace and key

    async def get(self, namespace: str, key: str) -> str:
        """A value, from the first name server that answers. Raises QueryNotFoundError.
        [GET_KV_CONFIG]"""
        answer = await self._first(RequestCode.GET_KV_CONFIG, {"namespace": namespace, "key": key})
        return answer.ext.get("value", "")

    async def all(self, namespace: str) -> dict[str, str]:
        """All values of a namespace, by key. Raises QueryNotFoundError.
        [GET_KVLIST_BY_NAMESPACE]"""
        answer = await self._first(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
        table = values.table(fastjson.loads_object(answer.body), "table") if answer.body else {}
        return {k: str(v) for k, v in sorted((str(k), v) for k, v in table.items())}

    async def put(self, namespace: str, key: str, value: str) -> Outcomes[None]:
        """Sets a value. Raises ConfigError for a blank one. [PUT_KV_CONFIG]"""
        for name, text in (("namespace", namespace), ("key", key), ("value", value)):
            if not text.strip():
                raise ConfigError(f"the {name} is blank")
        return await self._on_all(
            RequestCode.PUT_KV_CONFIG, {"namespace": namespace, "key": key, "value": value}
        )

    async def delete(self, namespace: str, key: str) -> Outcomes[None]:
        """Deletes a value; succeeds also if there is none. [DELETE_KV_CONFIG]"""
        return await self._on_all(
            RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key}
        )

    # Configuration

    async def config(self) -> Outcomes[dict[str, str]]:
        """The configuration of each name server. [GET_NAMESRV_CONFIG]"""

        async def one(address: str) -> dict[str, str]:
            answer = await self._link.ask(address, RequestCode.GET_NAMESRV_CONFIG)
            try:
                found = parse_properties(answer.body.decode())
            except UnicodeDecodeError:
                raise ProtocolError("a configuration that is not UTF-8") from None
            return dict(sorted(found.items()))

        return await self._link.on_each(self._addresses, one)

    async def update_config(self, key: str, value: str) -> Outcomes[None]:
        """Changes a key of the configuration. [UPDATE_NAMESRV_CONFIG]"""
        body = format_properties({key: value}).encode()
        return await self._on_all(RequestCode.UPDATE_NAMESRV_CONFIG, {}, body)

    # Permissions

    async def wipe_write_perm(self, broker_name: str) -> Outcomes[int]:
        """Removes the write permission from the topics of a broker name, until the broker registers
        them again. Returns their number. [WIPE_WRITE_PERM_OF_BROKER]"""
        return await self._perm(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker_name, "wipeTopicCount"
        )

    async def add_write_perm(self, broker_name: str) -> Outcomes[int]:
        """Gives the topics of a broker name read and write permission, whatever they had. Returns
        their number. [ADD_WRITE_PERM_OF_BROKER]"""
        return await self._perm(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker_name, "addTopicCount")

    async def _perm(self, code: int, broker_name: str, count: str) -> Outcomes[int]:
        async def one(address: str) -> int:
            answer = await self._link.ask(address, code, {"brokerName": broker_name})
            return as_int(answer.ext.get(count), 0)

        return await self._link.on_each(self._addresses, one)

    @property
    def _addresses(self) -> list[str]:
        return [format_address(a) for a in self._link.namesrv]

    async def _on_all(self, code: int, ext: Ext, body: bytes = b"") -> Outcomes[None]:
        outcomes = await self._link.ask_name_servers(code, ext, body)
        return Outcomes(Outcome(o.target, None, o.error) for o in outcomes)

    async def _first(self, code: int, ext: Ext) -> Command:
        """What the first name server says that can be reached, refusals too: those of the others
        would be the same, or older."""
        failed: list[str] = []
        for address in self._addresses:
            try:
                return await self._link.ask(address, code, ext)
            except (ConnectError, RequestTimeoutError) as e:
                failed.append(str(e))
        raise ClientError(f"no name server answered: {'; '.join(failed)}")


NAMESPACE = "ORDER_TOPIC_CONFIG"
_ENTRY = re.compile(r"([^:;\s]{1,255}):([0-9]{1,9})")


def parse_order(text: str) -> dict[str, int]:
    """`broker-a:8;broker-b:8` as numbers of queues by broker name. ConfigError: what is none makes
    every producer of the topic fail."""
    found: dict[str, int] = {}
    for part in (p.strip() for p in text.split(";")):
        entry = _ENTRY.fullmatch(part)
        if entry is None or not 0 < int(entry[2]) <= MAX_ROUTE_QUEUES:
            raise ConfigError(
                f"an order configuration is broker:queues;broker:queues, such as "
                f"broker-a:8;broker-b:8 (1 to {MAX_ROUTE_QUEUES} queues), not {text[:64]!r}"
            )
        if entry[1] in found:
            raise ConfigError(f"the order configuration names broker {entry[1]} twice")
        found[entry[1]] = int(entry[2])
    return found


def format_order(queues: Mapping[str, int]) -> str:
    return ";".join(f"{name}:{many}" for name, many in queues.items())


class OrderConf(Part):
    """The part of `admin.topics` that is about order configurations. Routes have them only if the
    name server's orderMessageEnable is true."""

    async def order_conf(self, topic: str) -> str | None:
        """The order configuration of a topic, None if it has none. [GET_KV_CONFIG]"""
        try:
            return await Namesrv(self._link).get(NAMESPACE, topic)
        except QueryNotFoundError:
            return None

    async def put_order_conf(self, topic: str, value: str) -> Outcomes[None]:
        """Replaces the order configuration of a topic on all name servers. ConfigError for what is
        none. [PUT_KV_CONFIG]"""
        return await Namesrv(self._link).put(NAMESPACE, topic, format_order(parse_order(value)))

    async def delete_order_conf(self, topic: str) -> Outcomes[None]:
        """A success as well if it has none. [DELETE_KV_CONFIG]"""
        return await Namesrv(self._link).delete(NAMESPACE, topic)
