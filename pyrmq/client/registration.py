"""Brokers know a member of a group on every connection, also on one that was opened again.

A broker lists those whose heartbeat came on a connection that lives. After it was restarted it
lists nobody, and whoever asks it first for the members of its group takes all queues; so a lost
connection is opened again at once, also by a member that has no queues there.
[MQClientInstance, enableHeartbeatChannelEventListener]
"""

from __future__ import annotations

import trio

from pyrmq.client.instance import ROUTE_INTERVAL, ClientInstance

RETRY = (0.05, 1.0)
"""Seconds until the next try to reach a broker that is away: the first, doubled up to the last."""


class Registration:
    """Heartbeats to brokers that are new or came back, at once and not at the next turn."""

    def __init__(self, client: ClientInstance) -> None:
        self._client = client
        self._lost = trio.Event()
        client.on_closed.append(self.look)

    def look(self) -> None:
        """There may be brokers that are not known yet."""
        self._lost.set()

    async def run(self) -> None:
        retry = RETRY[0]
        while True:
            self._lost = trio.Event()
            if await self._client.greet_all():
                retry = RETRY[0]
                with trio.move_on_after(ROUTE_INTERVAL):
                    await self._lost.wait()
            else:
                await trio.sleep(retry)
                retry = min(2 * retry, RETRY[1])
