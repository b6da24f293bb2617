"""Runs a server until a signal comes, and says that it is ready."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import click


def run(
    serving: Callable[[], AbstractAsyncContextManager[tuple[str, Any]]],
    second: Any = None,
) -> None:
    """Serves until SIGINT, SIGTERM or SIGHUP, then stops in order; a second SIGINT or SIGTERM stops
    at once, or does what `second` says, a handler. (A terminal that closes sends SIGHUP twice;
    `nohup` has it ignored.) `serving` gives the ready line and an event: when that is set it is
    left and entered again."""
    import signal

    import trio

    from pyrmq.net.server import listen

    listen.raise_descriptor_limit()
    heeded = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heeded.append(signal.SIGHUP)

    async def until_signal() -> None:
        with trio.open_signal_receiver(*heeded) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(_watch, signals, nursery.cancel_scope)
                while True:
                    async with serving() as (ready, restart):
                        say(ready)
                        await restart.wait()

    async def _watch(
        signals: AsyncIterator[int],
        scope: trio.CancelScope,
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL if second is None else second)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            return

    trio.run(until_signal)


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
    """The ready line. Behind the rest it names the name servers that a broker could not register
    with, if any."""
    from pyrmq.escape import escape

    parts = " ".join(f"{k}={v}" for k, v in facts.items())
    missed = "" if broker is None else escape(";".join(broker.registration.unregistered))
    return f"ready {parts} pid={os.getpid()}" + (f" unregistered={missed}" if missed else "")
