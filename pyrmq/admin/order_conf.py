"""Order configurations: which queues of which brokers an ordered topic is sent to, and in which
order. Name servers keep them. [KV namespace ORDER_TOPIC_CONFIG]"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyrmq.admin.link import Part
from pyrmq.admin.namesrv import Namesrv
from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ConfigError, QueryNotFoundError
from pyrmq.model.route import MAX_ROUTE_QUEUES

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
