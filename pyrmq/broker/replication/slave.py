"""A slave's connection to its master: the engine appends what comes. [DefaultHAClient]

States of `Replication`:

| State | Meaning | Leaves it |
|---|---|---|
| SEEKING | no master is known | when one is |
| COMPARING | the newest record is compared with the master's | equal: CONNECTING; other: MISFIT |
| CONNECTING | the HA channel is opened | open: FOLLOWING; not: WAITING |
| FOLLOWING | the log grows by what comes | the connection ends: WAITING, or MISFIT, or FULL |
| WAITING | after a connection that failed | some seconds later: COMPARING |
| MISFIT | the logs do not fit: an operator has to decide | some seconds later: COMPARING |
| FULL | this store cannot take it, its disk is full, say | some seconds later: COMPARING |
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

import trio

from pyrmq.broker.replication.ha_tls import HaTls
from pyrmq.broker.replication.peers import why_not_fitting
from pyrmq.engine import HaSlave, Store, TlsClient
from pyrmq.errors import ConfigError, ConnectError, PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.address import Address, format_address
from pyrmq.net.backoff import Backoff
from pyrmq.net.client.channel import Channels

log = logging.getLogger(__name__)

CONNECT = 3.0
"""Seconds that opening a connection may take."""


class State(Enum):
    SEEKING = "no master is known"
    COMPARING = "comparing the logs"
    CONNECTING = "connecting"
    FOLLOWING = "following"
    WAITING = "waiting for the next try"
    MISFIT = "the log does not fit its master's"
    FULL = "this store takes nothing"


class Event(Enum):
    KNOWN = "a master is known"
    UNKNOWN = "no master is known"
    EQUAL = "the logs fit"
    DIFFERENT = "they do not"
    OPEN = "the connection is open"
    LOST = "there is no connection"
    REFUSED = "the store refused it"
    AGAIN = "the pause is over"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.SEEKING: {Event.KNOWN: State.COMPARING},
    State.COMPARING: {
        Event.EQUAL: State.CONNECTING,
        Event.DIFFERENT: State.MISFIT,
        Event.LOST: State.WAITING,
        Event.UNKNOWN: State.SEEKING,
    },
    State.CONNECTING: {Event.OPEN: State.FOLLOWING, Event.LOST: State.WAITING},
    State.FOLLOWING: {
        Event.LOST: State.WAITING,
        Event.DIFFERENT: State.MISFIT,
        Event.REFUSED: State.FULL,
    },
    State.WAITING: {Event.AGAIN: State.COMPARING},
    State.MISFIT: {Event.AGAIN: State.COMPARING},
    State.FULL: {Event.AGAIN: State.COMPARING},
}
PAUSES = {State.WAITING: (0.2, 5.0), State.MISFIT: (5.0, 30.0), State.FULL: (5.0, 5.0)}
"""Seconds: the first pause, and the longest. A connection on which something came begins anew."""


@dataclass(frozen=True, slots=True)
class Master:
    """Where a slave's master is: its broker address and that of its HA port."""

    broker: Address
    ha: Address


class KnownMaster:
    """A slave's master, as the name server said that answered last."""

    def __init__(self) -> None:
        self.latest: Master | None = None
        self._known = trio.Event()

    async def get(self) -> Master:
        """Waits for the first name server that knows it."""
        await self._known.wait()
        assert self.latest is not None
        return self.latest

    def note(self, master: Master) -> None:
        """A name server says so."""
        self.latest = master
        self._known.set()


class Replication:
    """Follows the master that `master` waits for and returns. `state` and `why` say how it stands;
    `on_changed` is called when a connection has opened or ended. `tls`: how the HA channel speaks
    TLS; None: it is plain."""

    def __init__(
        self,
        store: Store,
        slave: HaSlave,
        master: Callable[[], Awaitable[Master]],
        on_changed: Callable[[], None] = lambda: None,
        open_channels: Callable[[], Channels] = Channels,
        tls: HaTls | None = None,
    ) -> None:
        self._tls = tls
        self._open_channels = open_channels
        self.slave = slave
        self.state = State.SEEKING
        self.why = ""
        """Why it is not FOLLOWING."""
        self.master: Master | None = None
        self._store = store
        self._find = master
        self._on_changed = on_changed
        self._pauses: dict[State, Backoff] = {}
        self._said = ""
        """What the log says last, of connections on which nothing came."""
        self._limiter = trio.CapacityLimiter(1)

    def _happened(self, event: Event, why: str = "") -> None:
        before, self.state = self.state, TRANSITIONS[self.state][event]
        if self.state in PAUSES:
            heard = before is State.FOLLOWING and self._heard()
            if heard:
                self._pauses.clear()
            if why != self._said or heard:
                self._said = why
                level = logging.ERROR if self.state is not State.WAITING else logging.WARNING
                log.log(level, "replication: %s", escape(why))
            self.why = why
        elif self.state is State.FOLLOWING:
            self.why = ""

    def _heard(self) -> bool:
        """Whether the master has sent something on the connection that ended: not where it took
        the connection and refused it, its certificate, say."""
        return bool(self.slave.status()["heard"])

    async def run(self) -> None:
        """Follows until cancelled."""
        async with self._open_channels() as channels:
            try:
                while True:
                    await self._step(channels)
            finally:
                self.slave.stop()

    async def _step(self, channels: Channels) -> None:
        match self.state:
            case State.SEEKING:
                self.master = await self._find()
                self._happened(Event.KNOWN)
            case State.COMPARING:
                await self._compare(channels)
            case State.CONNECTING:
                await self._follow()
            case state:
                backoff = self._pauses.setdefault(state, Backoff(*PAUSES[state]))
                await trio.sleep(backoff.next())
                self._happened(Event.AGAIN)

    async def _compare(self, channels: Channels) -> None:
        self.master = await self._find()  # it may be another one by now
        try:
            channel = await channels.get(self.master.broker)
            why = await why_not_fitting(channel, self._store)
        except PyrmqError as e:
            address = format_address(self.master.broker)
            self._happened(Event.LOST, f"master {address}: {e}")
            return
        if why is None:
            self._happened(Event.EQUAL)
        else:
            self._happened(Event.DIFFERENT, why)

    async def _follow(self) -> None:
        assert self.master is not None
        address = format_address(self.master.ha)
        tls = self._tls
        try:
            client = None if tls is None else await trio.to_thread.run_sync(tls.now)
            sock = await _connect(self.master.ha)
        except (ConfigError, ConnectError) as e:
            self._happened(Event.LOST, str(e))
            return
        self._happened(Event.OPEN)
        log.info("replication: following %s", escape(address), extra=about(broker=address))
        self._on_changed()
        kind, why = await self._receive(sock, client)
        match kind:
            case "misfit":
                self._happened(Event.DIFFERENT, f"master {address}: {why}")
            case "store":
                self._happened(Event.REFUSED, f"what {address} sends cannot be stored: {why}")
            case _:
                self._happened(Event.LOST, f"master {address}: {why or 'stopped'}")
        self._on_changed()

    async def _receive(self, sock: socket.socket, client: TlsClient | None) -> tuple[str, str]:
        """Takes what comes, in a thread; a cancellation ends the connection first."""
        async with trio.open_nursery() as nursery:

            async def stop_when_cancelled() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    if not done:
                        self.slave.stop()

            assert self.master is not None
            receive = partial(self.slave.receive, tls=client, host=self.master.ha[0])
            done = False
            nursery.start_soon(stop_when_cancelled)
            result = await trio.to_thread.run_sync(receive, sock.detach(), limiter=self._limiter)
            done = True
            nursery.cancel_scope.cancel()
        return result


async def _connect(address: Address) -> socket.socket:
    """A connected socket that belongs to nobody. ConnectError."""
    try:
        with trio.fail_after(CONNECT):
            stream = await trio.open_tcp_stream(*address)
    except (OSError, trio.TooSlowError) as e:
        why = str(e) or "it does not answer"
        raise ConnectError(
            f"HA port {format_address(address)}: {why}. It is haMasterAddress, or else what the "
            "master told the name servers (brokerIP2, haListenPort)"
        ) from e
    fd = stream.socket.detach()
    return socket.socket(fileno=fd)
