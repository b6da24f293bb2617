"""`pyrmq bench …`."""

from __future__ import annotations

import click

from pyrmq.cli import bench_tools


@click.group()
def bench() -> None:
    """Measure brokers."""


for _command in (bench_tools.compare, bench_tools.sweep, bench_tools.peers):
    bench.add_command(_command)
