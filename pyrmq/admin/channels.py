"""Connections of a command: none waits again and again for a server that says nothing."""

from __future__ import annotations

import trio

from pyrmq.errors import ConnectError, RequestTimeoutError
from pyrmq.model.codes import RequestCode
from pyrmq.net.address import Address, format_address
from pyrmq.net.client.channel import Channel, Channels
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

PROBE = 1.0
"""Seconds that a silent server has to answer anything."""
AGAIN = 10.0
"""Seconds for which a server is not asked that did not."""


class AdminChannels(Channels):
    """Channels for what asks one server many things, such as each topic in turn.

    A server that let a request time out without a word is asked for a trifle before the next one.
    If it does not answer that either, or was not to be reached in time, requests fail at once for
    a while, with ConnectError: work on a thousand topics of a dead server takes one time-out.
    """

    def __init__(self, credentials: Credentials | None = None, tls: Tls | None = None) -> None:
        super().__init__(credentials=credentials, tls=tls)
        self._given_up: dict[Address, float] = {}
        """Until when."""

    async def get(self, address: Address) -> Channel:
        """As Channels.get; ConnectError for a server that was silent a short time ago."""
        if trio.current_time() < self._given_up.get(address, 0):
            raise ConnectError(
                f"{format_address(address)} does not answer (it is asked again after {AGAIN:g} s)"
            )
        last = self._channels.get(address)
        try:
            channel = await super().get(address)
        except ConnectError as e:
            if isinstance(e.__cause__, trio.TooSlowError):
                self._give_up(address)
            raise
        if last is not None and last.silent:
            await self._probe(channel)
        return channel

    async def _probe(self, channel: Channel) -> None:
        """Every server has an answer to this, if only that it is no name server."""
        try:
            await channel.call(RequestCode.GET_BROKER_CLUSTER_INFO, timeout=PROBE)
        except RequestTimeoutError as e:
            self._give_up(channel.address)
            raise ConnectError(f"{format_address(channel.address)} does not answer") from e

    def _give_up(self, address: Address) -> None:
        self._given_up[address] = trio.current_time() + AGAIN
