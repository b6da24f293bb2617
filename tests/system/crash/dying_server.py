"""`pyrmq server` that is killed at one step: run as a module with the server's arguments.

Environment: PYRMQ_DIE names the step, `POINT before|after WHAT`. The process sends itself SIGKILL
when it gets there; nothing of it runs any more. Points:

- feed: the engine handles bytes of a connection that contain WHAT;
- settle, renew, discard: the engine does this to a half of the producer group WHAT;
- resume, deliver_late: the engine does this (WHAT is empty);
- keep: how far all is settled is noted for consumerOffset.json, once there is a file WHAT;
- open: the engine looks for what waits at start (after: op records that are owed are written);
- save, close: at a stop the tables are written, the store is closed.

Everything is wrapped from outside: the server under test is the one that ships.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyrmq.broker.assembly as assembly
import pyrmq.broker.opening as opening
import pyrmq.broker.saving as saving
import pyrmq.net.server.server as net_server
import pyrmq.txn.service as txn_service
from pyrmq.cli import main
from pyrmq.engine import RecvBuffer, Session, Store
from pyrmq.net.server.connection import Connection
from pyrmq.txn.machine import PendingHalf


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Step:
    def __init__(self, text: str) -> None:
        self.point, self.side, self.what = [*text.split(" "), ""][:3]
        assert self.side in ("before", "after"), text

    def around(self, call: Callable[..., Any], hits: Callable[..., bool]) -> Callable[..., Any]:
        def dying(*args: Any, **options: Any) -> Any:
            hit = hits(*args, **options)
            if hit and self.side == "before":
                die()
            result = call(*args, **options)
            if hit:
                die()
            return result

        return dying

    def around_async(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def dying(*args: Any) -> Any:
            if self.side == "before":
                die()
            # What fails in this call is not what is asked about.
            with suppress(Exception):
                await call(*args)
            die()

        return dying


class DyingEngine:
    """Stands for the engine's transactions towards the service."""

    def __init__(self, engine: Any, step: Step) -> None:
        self._engine = engine
        call = getattr(engine, step.point, None)

        def hits(first: int | list[int], *_: object) -> bool:
            if step.point in ("resume", "deliver_late"):
                return True
            facts = engine.find(first[0] if isinstance(first, list) else first)
            return facts is not None and PendingHalf(*facts).group == step.what

        if call is not None:
            setattr(self, step.point, step.around(call, hits))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def arm(step: Step) -> None:
    # Connections one by one: a turn's native call cannot be interrupted at one of them.
    Connection.is_plain = property(lambda self: False)  # type: ignore[assignment,method-assign]
    if step.point == "feed":
        needle = step.what.encode()

        class DyingSession(Session):
            def receive(
                self, fd: int, buffer: RecvBuffer, now_ms: int, more: bool = False
            ) -> bytes | None:
                with socket.socket(fileno=os.dup(fd)) as sock:
                    try:
                        coming = sock.recv(len(memoryview(buffer)), socket.MSG_PEEK)
                    except OSError:
                        coming = b""
                hit = needle in coming
                if hit and step.side == "before":
                    die()
                answer = super().receive(fd, buffer, now_ms)  # what is fed is written
                if hit:
                    die()
                return answer

        net_server.Session = DyingSession  # type: ignore[misc]
    elif step.point == "keep":
        real = assembly.keep_progress

        def armed(*_: object) -> bool:
            return Path(step.what).exists()

        assembly.keep_progress = step.around(real, armed)
    elif step.point == "open":
        always = step.around(assembly.open_transactions, lambda *_: True)
        assembly.open_transactions = always
    elif step.point == "save":
        saving.Saving.save = step.around_async(saving.Saving.save)  # type: ignore[method-assign]
    elif step.point == "close":

        class ClosingStore(Store):  # the reader takes nothing but a Store
            def close(self) -> None:
                step.around(Store.__getattr__(self, "close"), lambda *_: True)()  # type: ignore[attr-defined]

        opening.Store = ClosingStore  # type: ignore[misc]
    else:
        service = assembly.TransactionService

        def with_dying_engine(store: Any, engine: Any, *args: Any, **options: Any) -> Any:
            return service(store, DyingEngine(engine, step), *args, **options)

        assembly.TransactionService = with_dying_engine  # type: ignore[misc,assignment]


if __name__ == "__main__":
    txn_service.PROGRESS_INTERVAL = 0.05
    if text := os.environ.get("PYRMQ_DIE"):
        arm(Step(text))
    sys.argv.insert(1, "server")
    main()
