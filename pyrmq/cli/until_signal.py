"""Runs a server until a signal comes, and says that it is ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import click


def run(
    serving: Callable[[], AbstractAsyncContextManager[tuple[str, Any]]],
    second: Any = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then stops in order; a second signal stops at once, or does
    what `second` says, a handler. `serving` gives the ready line and an event: when that is set it
    is left and entered again."""
    import signal

    import trio

    from pyrmq.net.server import listen

    listen.raise_descriptor_limit()

    async def until_signal() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(_watch, signals, nursery.cancel_scope)
                while True:
                    async with serving() as (ready, restart):
                        click.echo(ready)
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
            return

    trio.run(until_signal)


def ready_line(broker: Any = None, /, **facts: Any) -> str:
    """The ready line. Behind the rest it names the name servers that a broker could not register
    with, if any."""
    import os

    from pyrmq.escape import escape

    parts = " ".join(f"{k}={v}" for k, v in facts.items())
    missed = "" if broker is None else escape(";".join(broker.registration.unregistered))
    return f"ready {parts} pid={os.getpid()}" + (f" unregistered={missed}" if missed else "")
