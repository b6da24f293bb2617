"""Alarms for a program, which gets each as JSON on stdin."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

import trio

from pyrmq.admin.monitoring.alarms import Event
from pyrmq.admin.monitoring.sink_error import SinkError
from pyrmq.admin.monitoring.sink_settings import CommandSettings

MAX_SAID = 4096
"""Bytes of the program's stderr that are kept."""


class CommandSink:
    """Runs a program for each event, in a process group of its own, which is killed where the time
    is over. An exit code other than 0 is a failure, told with the end of what it wrote to
    stderr."""

    def __init__(self, settings: CommandSettings, encode: Callable[[Event], bytes]) -> None:
        self.name = settings.name
        self.timeout = settings.timeout
        self.retries = settings.retries
        self._argv = list(settings.argv)
        self._encode = encode

    async def send(self, event: Event) -> None:
        try:
            process = await trio.lowlevel.open_process(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as e:
            raise SinkError(f"cannot be run: {e}") from None
        said = bytearray()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_feed, process, self._encode(event))
                nursery.start_soon(_listen, process, said)
                await process.wait()
                # A child that goes on in the background may hold stderr open.
                nursery.cancel_scope.deadline = trio.current_time() + 0.5
        finally:
            _kill(process)
            with trio.CancelScope(shield=True):
                await process.wait()
                for pipe in (process.stdin, process.stderr):
                    if pipe is not None:
                        await trio.aclose_forcefully(pipe)
        if process.returncode:
            text = said.decode(errors="backslashreplace").strip()
            more = f": {text}" if text else ""
            raise SinkError(f"exit code {process.returncode}{more}", retriable=True)


async def _feed(process: trio.Process, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async with process.stdin:
            await process.stdin.send_all(data)


async def _listen(process: trio.Process, said: bytearray) -> None:
    stream = process.stderr
    assert stream is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while part := await stream.receive_some(4096):
            said += part
            del said[:-MAX_SAID]


def _kill(process: trio.Process) -> None:
    """Ends the program, if it runs still, with all that it began."""
    if process.returncode is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
