"""`pyrmq bench …`: measure brokers."""

from __future__ import annotations

import click

from pyrmq.cli import bench_loads, bench_tools


@click.group()
def bench() -> None:
    """Measure brokers: pyrmq's, or Apache RocketMQ's.

    Ctrl-C ends a run early and prints its result so far. Exit codes: 0 done; 1 it could not be
    measured, it ended early by an error, or --verify found something; 2 the command line is
    invalid; 130 interrupted.
    """


for _command in (
    *bench_loads.commands(),
    bench_tools.compare,
    bench_tools.sweep,
    bench_tools.peers,
):
    bench.add_command(_command)
