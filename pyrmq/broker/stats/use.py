"""Who uses the broker: clients, groups and topics, in the last ten seconds, minute and hour; its
own figures of the last hour.

Sessions count what they answer without Python. A sampling takes their counts; those of a connection
that is closed are taken at once. A client is a client id and the host that it connects from.
A connection without a heartbeat has no client id: it is a client of its own, with its port. Names
come from peers: whoever shows them escapes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from pyrmq.broker.stats.folding import LOOK, MOST_OPEN, Ring, Tally
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.net.server.connection import Connection
from pyrmq.net.server.turns import Steps, Turns

KINDS = ("client", "producer", "consumer", "topic")
"""Clients, producer groups, consumer groups, topics."""
REQUEST_KINDS = ("sends", "pulls", "acks", "ends", "others")
COUNTED = ("messagesIn", "bytesIn", "messagesOut", "bytesOut", *REQUEST_KINDS)
"""What the broker's history adds up in each sample. `ends` are ends of transactions."""
POINTS = 360
"""Samples of the broker's own figures: an hour."""
_SEPARATOR = "\0"


def client_of(name: str) -> tuple[str, str]:
    """Client id and host of a row's name. No host has the separator in it."""
    client_id, _, host = name.rpartition(_SEPARATOR)
    return client_id, host


@dataclass(frozen=True, slots=True)
class Point:
    """The broker in one sample. `counted`: as COUNTED, in these `seconds`. `state`: what was so at
    its end."""

    end: float
    seconds: float
    counted: tuple[int, ...]
    state: dict[str, int]


class Use:
    """`connections` gives those that are open. `state`: figures of the broker now."""

    def __init__(
        self,
        clients: ClientTable,
        connections: Callable[[], Iterable[Connection]],
        state: Callable[[], Awaitable[dict[str, int]]],
    ) -> None:
        self._clients = clients
        self._connections = connections
        self._state = state
        self.rings = {kind: Ring() for kind in KINDS}
        self.points: deque[Point] = deque(maxlen=POINTS)
        self._tallies = {kind: Tally() for kind in KINDS}
        self._counted = [0] * len(COUNTED)
        self._last: float | None = None
        self._turns = Turns()

    def stored(self, topic: str, messages: int, nbytes: int) -> None:
        """A topic has stored messages."""
        self._counted[0] += messages
        self._counted[1] += nbytes
        self._tallies["topic"].add(topic, (messages, nbytes, 0, 0, 0))

    def pulled(self, topic: str, group: str, pulls: int, messages: int, nbytes: int) -> None:
        """Pulls of a group found messages."""
        self._counted[2] += messages
        self._counted[3] += nbytes
        got = (0, 0, messages, nbytes, pulls)
        self._tallies["topic"].add(topic, got)
        self._tallies["consumer"].add(group, got)

    def opened(self, connection: Connection) -> None:
        """A connection is open. What it uses is counted before others forget who it was."""
        connection.call_on_close(self._closed)

    def _closed(self, connection: Connection) -> None:
        self._take(connection, self._tallies)

    def _take(self, connection: Connection, tallies: dict[str, Tally]) -> None:
        """Takes what a connection has used."""
        taken = connection.session.take_used()
        messages_out, bytes_out = connection.take_got()
        if taken is None and not messages_out:
            return
        requests: Sequence[int] = (0,) * len(REQUEST_KINDS)
        stored = pulled = 0, 0
        if taken is not None:
            requests, counts, groups = taken
            stored, pulled = counts[:2], counts[2:]
            for group, sends, messages, nbytes in groups:
                tallies["producer"].add(group, (messages, nbytes, 0, 0, sends))
        for at, amount in enumerate(requests, len(COUNTED) - len(REQUEST_KINDS)):
            self._counted[at] += amount
        used = (*stored, pulled[0] + messages_out, pulled[1] + bytes_out, sum(requests))
        client_id = self._clients.client_id_of(connection) or ""
        host = connection.peer.rpartition(":")[0] if client_id else connection.peer
        name = f"{client_id}{_SEPARATOR}{host}"
        tallies["client"].add(name, used)

    async def sample(self, now: float) -> None:
        """Ends a sample, giving way every millisecond. To be called every SAMPLE_SECONDS."""
        await self._turns.run(self._sample(now, await self._state()))

    def _sample(self, now: float, state: dict[str, int]) -> Steps[None]:
        tallies, self._tallies = self._tallies, {kind: Tally() for kind in KINDS}
        seconds = now - self._last if self._last is not None else 0.0
        self._last = now
        clients = tallies["client"]
        for at, connection in enumerate(list(self._connections())):
            if at % LOOK == 0:
                yield
            if clients.is_full:
                yield from clients.keep(MOST_OPEN // 2)
            if not connection.is_closed:
                self._take(connection, tallies)
        counted, self._counted = self._counted, [0] * len(COUNTED)
        self.points.append(Point(now, seconds, tuple(counted), state))
        for kind, tally in tallies.items():
            yield from self.rings[kind].sample(tally, now, seconds)

    def bytes_per_second(self) -> float | None:
        """How fast the log has grown in the last hour, or since the start: a slave's too. None
        before the second sampling."""
        ends = [
            (point.end, point.state["logEnd"]) for point in self.points if "logEnd" in point.state
        ]
        if len(ends) < 2 or ends[-1][0] <= ends[0][0]:
            return None
        return max(ends[-1][1] - ends[0][1], 0) / (ends[-1][0] - ends[0][0])
