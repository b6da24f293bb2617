"""NOTIFY_MIN_BROKER_ID_CHANGE: members of a group learn which broker id is the smallest now."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

import trio

from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.model.codes import RequestCode
from pyrmq.namesrv.config import RunningConfig
from pyrmq.namesrv.routes import NewMinimum
from pyrmq.net.address import parse_address
from pyrmq.net.client.channel import Channels

log = logging.getLogger(__name__)

MAX_WAITING = 1024
"""Changes that wait to be told; later ones are not told."""
TELL = 1.0
"""Seconds that telling the members of a group may take."""


def members_to_tell(change: NewMinimum) -> list[str]:
    """All that are left, if one has gone; else all but the new one. [chooseBrokerAddrsToNotify]"""
    addresses = change.addresses
    if change.offline is not None or len(addresses) == 1:
        return list(addresses.values())
    return [address for broker_id, address in addresses.items() if broker_id != min(addresses)]


class MinimumNotifier:
    """Tells one change after the other, so that what a broker hears last is true.

    Brokers take the request on the address that they serve clients on, not on the connection that
    they registered on. So this connects to addresses that others state: with
    notifyMinBrokerIdChanged only.
    """

    def __init__(self, config: RunningConfig) -> None:
        self._config = config
        self._changes: deque[NewMinimum] = deque()
        self._news = trio.Event()

    def tell(self, changes: Iterable[NewMinimum]) -> None:
        if not self._config.now.notify_min_broker_id_changed:
            return
        for change in changes:
            if len(self._changes) >= MAX_WAITING:
                log.warning("a change of the smallest broker id is not told: too many wait")
                return
            self._changes.append(change)
        self._news.set()

    async def run(self) -> None:
        """Tells until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._changes:
                await self._tell(self._changes.popleft())

    async def _tell(self, change: NewMinimum) -> None:
        smallest = min(change.addresses)
        header: dict[str, str | int | bool] = {
            "minBrokerId": smallest,
            "minBrokerAddr": change.addresses[smallest],
        }
        if change.offline is not None:
            header["offlineBrokerAddr"] = change.offline
        if change.ha_address is not None:
            header["haBrokerAddr"] = change.ha_address
        with trio.move_on_after(TELL) as limit:
            async with Channels() as channels, trio.open_nursery() as nursery:
                for address in members_to_tell(change):
                    nursery.start_soon(self._one, channels, address, header)
        if limit.cancelled_caught:
            log.warning("not all members of a group could be told its smallest broker id in time")

    async def _one(
        self, channels: Channels, address: str, header: dict[str, str | int | bool]
    ) -> None:
        try:
            channel = await channels.get(parse_address(address))
            await channel.oneway(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)
        except PyrmqError as e:
            log.warning("broker at %s: %s", escape(address), escape(e))
