"""What stands before the broker's real parts: connections without sockets, calls that may not
return, a disk and an index of the sim's making."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from pyrmq.engine import Session, Store, Transactions
from pyrmq.net.server.connection_state import State
from tests.support.records import decode_record
from tests.system.simulation.model import Broken

if TYPE_CHECKING:
    from tests.system.simulation.broker import Life

FAR = 1 << 60


class Killed(BaseException):
    """The broker's process is gone; nobody in it catches this."""


class Link:
    """The server's end of a connection, as tables and processors see it."""

    times = None
    """Nobody asks how long answers take."""

    def __init__(self, life: Life, peer: str, session: Session) -> None:
        self.life = life
        self.peer = peer
        self.session = session
        self.out: deque[bytes] = deque()
        self.state = State.OPEN
        self.on_close: dict[Callable[[Any], None], None] = {}
        self.stalled = False
        """The client does not read: its socket is full."""
        self.to_client, self.at_client = trio.open_memory_channel[bytes](FAR)
        self.to_broker, self.at_broker = trio.open_memory_channel[bytes](FAR)

    @property
    def closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def takes_requests(self) -> bool:
        return not (self.closed or self.out)

    def got(self, messages: int, nbytes: int) -> None:
        """Nobody asks who uses the broker."""

    def call_on_close(self, callback: Callable[[Any], None]) -> None:
        self.on_close[callback] = None

    def send(self, *pieces: Any) -> None:
        if self.closed:
            return
        data = b"".join(bytes(piece) for piece in pieces)
        self.life.on_sent(data)
        if self.stalled:
            self.out.append(data)
        else:
            self.to_client.send_nowait(data)

    def read_on(self) -> None:
        """The client reads again."""
        self.stalled = False
        while self.out:
            self.to_client.send_nowait(self.out.popleft())

    def close(self) -> None:
        if not self.closed:
            self.state = State.CLOSED
            self.out.clear()
            self.to_client.close()
            self.at_broker.close()
            for callback in list(self.on_close):
                callback(self)


class Engine:
    """Stands before the engine's Transactions: each call that writes may be the process's last."""

    WRITING = ("settle", "renew", "discard", "resume", "deliver_late", "write_owed")

    def __init__(self, life: Life, native: Transactions) -> None:
        self._life = life
        self._native = native
        self._passes = self._found = self._calls = 0
        for name in self.WRITING:
            setattr(self, name, self._guarded(getattr(native, name)))

    def _guarded(self, work: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: self._life.call(work, *args)

    def due(self, *args: int) -> tuple[list[Any], int]:
        """A pass looks at what waited when it began, and at nothing else."""
        self._life.alive()
        passes, limit, look = self._life.service.checker.passes, args[-2], args[-1]
        if passes != self._passes:
            self._passes = passes
            waiting = len(self._life.pending())
            self._found, self._calls = waiting, waiting // min(limit, look) + 3
        found, next_offset = self._native.due(*args)
        self._found -= len(found)
        self._calls -= 1
        if self._found < 0 or self._calls < 0:
            raise Broken("a check pass looks at more than what waits")
        return found, next_offset

    def __getattr__(self, name: str) -> Any:
        self._life.alive()
        return getattr(self._native, name)


class Disk:
    """Stands before the Store: what is on disk is the sim's to say, and an index that is behind
    shows nothing yet."""

    def __init__(self, life: Life, store: Store) -> None:
        self._life = life
        self._store = store

    def flushed(self) -> int:
        return self._life.flushed

    def stall(self) -> int:
        return self._store.stall()

    def get(self, topic: str, queue_id: int, offset: int) -> Any:
        return self._store.get(topic, queue_id, offset)

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        self._life.settle_flush()
        return self._store.queue_range(topic, queue_id)

    def query_message(self, topic: str, key: str, *args: int) -> tuple[list[Any], int, int]:
        self._life.settle_flush()
        self._life.settle_index()
        found, time, phys = self._store.query_message(topic, key, *args)
        seen = [one for one in found if decode_record(bytes(one)).physical_offset < self._indexed()]
        return seen, time, phys

    def stats(self) -> dict[str, int]:
        self._life.settle_index()
        return {**self._store.stats(), "indexedWhere": self._indexed()}

    def _indexed(self) -> int:
        """The index begins anew at a start, and is a little behind."""
        if trio.current_time() < self._life.index_from:
            return 0
        return self._life.indexed
