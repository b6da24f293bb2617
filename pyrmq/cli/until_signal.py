"""Runs a server until a signal comes, and tells who waits, and the service manager, what it does.

SIGTERM drains first: the server leaves the routes and waits until clients have moved. The signal
after it ends that wait. SIGINT and SIGHUP stop without it. From then on, SIGINT or SIGTERM ends the
process at once.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import click
import trio

from pyrmq.cli.collecting import Collecting
from pyrmq.net.health import Problem
from pyrmq.processes.notify import Notifier
from pyrmq.processes.watch import keep_watch

STARTING = 20.0
"""Seconds between two words to the service manager during a start."""
LONGEST_START = 3600.0
"""Seconds for which a start asks the service manager for more time, at most."""
STOP_MARGIN = 25.0
"""Seconds that a stop may take, besides the drain."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Served:
    """A server that serves. `ready`: its ready line. `restart`: when it is set, the server is left
    and entered again. `problems`: what only a restart mends. `drain`: waits until clients have
    moved, at most `drain_seconds`; it gets a function for what it waits for. `stops`: is told with
    which signal the server stops. `rows`: how many rows its tables have."""

    ready: str
    restart: trio.Event = field(default_factory=trio.Event)
    problems: Callable[[], Sequence[Problem]] = list
    drain: Callable[[Say], Awaitable[None]] | None = None
    drain_seconds: float = 0.0
    stops: Callable[[int], None] = lambda signum: None
    rows: Callable[[], int] = int


Serving = Callable[[], AbstractAsyncContextManager[Served]]


def run(serving: Serving, second: Any = None) -> None:
    """Serves until SIGINT, SIGTERM or SIGHUP, then stops in order. (A terminal that closes sends
    SIGHUP twice; `nohup` has it ignored.) `second`: the handler of further signals instead of their
    default."""
    from pyrmq.net.server import listen

    if not faulthandler.is_enabled() and _is_file(sys.stderr):
        faulthandler.enable()  # a watchdog's SIGABRT then says where each thread stands
    listen.raise_descriptor_limit()
    notifier = Notifier.taken_from(os.environ)
    try:
        trio.run(_Runner(serving, second, notifier).run)
    finally:
        notifier.close()


def _is_file(stream: Any) -> bool:
    try:
        stream.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True


class _Runner:
    def __init__(self, serving: Serving, second: Any, notifier: Notifier) -> None:
        self._serving = serving
        self._second = second
        self._notifier = notifier
        self._served: Served | None = None
        self._scope = trio.CancelScope()
        self._draining: trio.CancelScope | None = None
        self._watched = False
        self._term = trio.Event()
        """Set by the SIGTERM after which the server drains."""

    async def run(self) -> None:
        heeded = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            heeded.append(signal.SIGHUP)
        with trio.open_signal_receiver(*heeded) as signals:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._heed, signals)
                nursery.start_soon(self._starting)
                while True:
                    async with self._serving() as served:
                        await self._serve(served, nursery)

    def _problems(self) -> Sequence[Problem]:
        return [] if self._served is None else self._served.problems()

    async def _starting(self) -> None:
        """A start that recovers a large store gets more time, as long as the loop runs."""
        until = time.monotonic() + LONGEST_START
        while self._served is None and time.monotonic() < until:
            self._notifier.extend(2 * STARTING, "starting: opens and recovers the store")
            await trio.sleep(STARTING)

    async def _serve(self, served: Served, tasks: trio.Nursery) -> None:
        """Until the server is to be entered again; cancels itself to stop."""
        self._served = served
        with Collecting(served.rows):
            say(served.ready)
            self._notifier.ready(served.ready)
            if not self._watched:
                self._watched = True
                tasks.start_soon(keep_watch, self._notifier, self._problems)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._drain_first, served)
                await served.restart.wait()
                if not self._term.is_set():
                    self._notifier.status("its role changes: stops and serves again")
                    self._served = None
                    nursery.cancel_scope.cancel()

    async def _drain_first(self, served: Served) -> None:
        await self._term.wait()
        served.stops(signal.SIGTERM)
        if served.drain is not None:
            self._notifier.extend(served.drain_seconds + STOP_MARGIN)
            with trio.CancelScope() as self._draining:
                await served.drain(self._notifier.status)
            self._draining = None
        self._stop()

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        async for signum in signals:
            draining, served = self._draining, self._served
            if draining is not None:
                if self._second is not signal.SIG_IGN:  # else others send it twice
                    draining.cancel()
            elif signum == signal.SIGTERM and served is not None and served.drain is not None:
                self._notifier.stopping("draining: clients move to other brokers")
                self._term.set()
            else:
                if served is not None:
                    served.stops(signum)
                self._stop()
                return

    def _stop(self) -> None:
        """Leaves the server. From now on signals do what `second` says."""
        more = 0.0 if self._served is None else self._served.drain_seconds
        self._notifier.stopping("stops")
        self._notifier.extend(STOP_MARGIN + more)
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL if self._second is None else self._second)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._scope.cancel()


def say(line: str) -> None:
    """Prints a line for whoever waits for the server. One who has read enough (`| head -1`) ends
    nothing: from then on lines are lost."""
    import logging

    try:
        click.echo(line)
    except OSError as e:
        logging.getLogger(__name__).warning("cannot write to stdout any more: %s", e.strerror)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def ready_line(broker: Any = None, /, **facts: Any) -> str:
    """The ready line. Behind the rest it says where a broker serves metrics, and names the name
    servers that it could not register with, if any."""
    from pyrmq.escape import escape
    from pyrmq.net.address import format_address

    if broker is not None and broker.metrics_address is not None:
        facts["metrics"] = format_address(broker.metrics_address)
    parts = " ".join(f"{k}={v}" for k, v in facts.items())
    missed = "" if broker is None else escape(";".join(broker.registration.unregistered))
    return f"ready {parts} pid={os.getpid()}" + (f" unregistered={missed}" if missed else "")
