"""mqadmin's command that watches a cluster."""

from __future__ import annotations

from contextlib import suppress

from pyrmq.admin.api import Admin
from pyrmq.cli.mqadmin.options import Command, Values
from pyrmq.cli.mqadmin.output import Output


async def start_monitoring(admin: Admin, values: Values, out: Output) -> None:
    from pyrmq.admin.monitoring import Monitor
    from pyrmq.admin.monitoring.monitor import run_until_signal

    def write(line: str) -> None:
        out.line(line)
        out.flush()

    with suppress(BrokenPipeError):  # the reader has enough (`| head`)
        await run_until_signal(Monitor.of(admin, write=write))


COMMANDS = {"startMonitoring": Command("startMonitoring", (), start_monitoring, progress=False)}
