"""Where an alarm goes: a command that is run, or a URL that it is posted to."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import trio

from pyrmq.admin.monitoring.alarms import Event
from pyrmq.admin.monitoring.sink_settings import CommandSettings, WebhookSettings
from pyrmq.errors import ClientError


class SinkError(ClientError):
    """A sink did not take an event."""

    def __init__(self, text: str, *, retriable: bool = False) -> None:
        super().__init__(text)
        self.retriable = retriable


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


MAX_ANSWER = 4096
"""Bytes of an answer that are read."""
MAX_THREADS = 4
"""Threads of one webhook: one whose server lets it hang is left alone, until it ends itself."""
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the event, and credentials would go along."""

    def redirect_request(self, *_: Any) -> None:
        return None


class WebhookSink:
    """Posts each event. Answers other than 2xx are failures; redirects are not followed."""

    def __init__(self, settings: WebhookSettings, encode: Callable[[Event], bytes]) -> None:
        self.name = settings.name
        self.timeout = settings.timeout
        self.retries = settings.retries
        self._url = settings.url
        self._headers = settings.headers
        self._encode = encode
        self._limiter = trio.CapacityLimiter(MAX_THREADS)

    async def send(self, event: Event) -> None:
        await trio.to_thread.run_sync(
            _post, self._url, self._headers, self._encode(event), self.timeout,
            abandon_on_cancel=True, limiter=self._limiter,
        )  # fmt: skip


def _post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> None:
    own = {"Content-Type": "application/json", "User-Agent": "pyrmq-monitor"}
    request = urllib.request.Request(url, body, {**own, **headers}, method="POST")
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=timeout) as answer:
            answer.read(MAX_ANSWER)
    except urllib.error.HTTPError as e:
        with e:
            again = e.code in TRY_AGAIN
            raise SinkError(f"it answered {e.code} {e.reason}", retriable=again) from None
    except (OSError, http.client.HTTPException, ValueError) as e:
        reason = getattr(e, "reason", None) or e
        raise SinkError(f"not reached: {reason}", retriable=isinstance(e, OSError)) from None
