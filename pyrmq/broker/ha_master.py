"""A master's HA port: slaves connect here, and the engine sends them the log. [DefaultHAService]"""

from __future__ import annotations

import logging
import socket

import trio

from pyrmq.engine import HaMaster
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import Address, format_address
from pyrmq.net.admin_access import AdminAccess
from pyrmq.net.descriptors import Refusals
from pyrmq.net.listen import open_listeners

log = logging.getLogger(__name__)

MAX_SLAVES = 64
"""Connections at a time; each has a thread."""
LOOK_AGAIN = 1.0
"""Seconds between two looks at which slaves are in sync."""
LOG_INTERVAL = 1.0
"""Seconds between two connections that are refused and logged."""


class HaServer:
    """Serves slaves on listening sockets, which it closes. `access`: haAddressAllowList."""

    def __init__(self, sockets: list[socket.socket], master: HaMaster, access: AdminAccess) -> None:
        self.master = master
        self._sockets = sockets
        self._access = access
        self._limiter = trio.CapacityLimiter(MAX_SLAVES)
        self._next_log = -1.0
        self._refusals = Refusals("HA port")

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; then every connection is ended."""
        try:
            async with trio.open_nursery() as nursery:
                for sock in self._sockets:
                    nursery.start_soon(self._accept, sock, nursery)
                nursery.start_soon(self._look_again)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    self.master.stop()  # the threads end, which a cancellation waits for
        finally:
            for sock in self._sockets:
                sock.close()

    async def _look_again(self) -> None:
        while True:
            await trio.sleep(LOOK_AGAIN)
            self.master.look_again()

    async def _accept(self, listening: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listening)
            try:
                sock, name = listening.accept()
            except BlockingIOError:
                continue
            except OSError as e:
                self._refusals.refused(str(e))
                await trio.sleep(0.1)
                continue
            peer: Address = str(name[0]), int(name[1])
            why = self._why_not(format_address(peer))
            if why:
                self._log_refused(peer, why)
                sock.close()
            else:
                nursery.start_soon(self._serve, sock, format_address(peer))

    def _why_not(self, peer: str) -> str:
        if not self._access.allows(peer):
            return "haAddressAllowList does not have this address"
        if self._limiter.available_tokens < 1:
            return f"there are {MAX_SLAVES} connections already"
        return ""

    def _log_refused(self, peer: Address, why: str) -> None:
        now = trio.current_time()
        if now >= self._next_log:
            self._next_log = now + LOG_INTERVAL
            log.warning("HA port: %s is refused: %s", escape(format_address(peer)), escape(why))

    async def _serve(self, sock: socket.socket, peer: str) -> None:
        log.info("slave %s: connected", escape(peer))
        why = await trio.to_thread.run_sync(
            self.master.serve, sock.detach(), peer, limiter=self._limiter
        )
        if why is not None:
            log.warning("slave %s: the connection ended: %s", escape(peer), escape(why))


def ha_listeners(host: str, listen_port: int, ha_listen_port: int) -> list[socket.socket]:
    """Sockets for slaves: on haListenPort, or on listenPort + 1; where that one is in use, on any
    free port, which slaves learn from the name servers. ConfigError."""
    if ha_listen_port or not listen_port:
        return open_listeners(host, ha_listen_port)
    try:
        if listen_port < 65535:
            return open_listeners(host, listen_port + 1)
        why = "65535 has no port behind it"
    except ConfigError as e:
        why = str(e)
    log.warning("HA port: %s: another one is taken; set haListenPort", escape(why))
    return open_listeners(host, 0)
