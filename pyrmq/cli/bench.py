"""`pyrmq bench …`: measure brokers."""

from __future__ import annotations

import signal
import threading
from functools import partial
from types import FrameType
from typing import NoReturn

import click

from pyrmq.cli import bench_loads, bench_tools


@click.group()
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure brokers: pyrmq's, or Apache RocketMQ's.

    Ctrl-C ends a run early and prints its result so far. Exit codes: 0 done; 1 it could not be
    measured, it ended early by an error, or --verify found something; 2 the command line is
    invalid; 130 interrupted.
    """
    # As Ctrl-C: servers that a run has started would go on without it.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            before = signal.getsignal(number)
            if before == signal.SIG_DFL:  # and not ignored, as by nohup
                signal.signal(number, _interrupted)
                ctx.call_on_close(partial(signal.signal, number, before))


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


for _command in (
    *bench_loads.commands(),
    bench_tools.compare,
    bench_tools.sweep,
    bench_tools.peers,
):
    bench.add_command(_command)
