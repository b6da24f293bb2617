"""Where alarms go: a command that is run, or a URL that they are posted to.

Each place has a queue and a task of its own: one that hangs or fails never stops the rounds, and
what it did not take is counted and said.
"""

from __future__ import annotations

import http.client
import logging
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from pyrmq.admin.monitoring.alarms import Event, State
from pyrmq.admin.monitoring.metrics import METRICS, Subject
from pyrmq.admin.monitoring.rounds import (
    NOTIFY,
    Lines,
    Write,
    to_stderr,
    to_stdout,
)
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.monitoring.sink_settings import (
    CommandSettings,
    JsonSettings,
    SinkSettings,
    WebhookSettings,
)
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.escape import escape, json_line


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


log = logging.getLogger(__name__)
QUEUE = 1_000
"""Events that wait for a sink at most; further ones are dropped."""
BACKOFF = 1.0
"""Seconds until the first retry; twice as long each time."""


def as_json(event: Event) -> dict[str, Any]:
    """An event as programs get it; times are ms since 1970, absent names null."""
    subject = event.subject
    return {
        "event": "alarm",
        "state": event.state.value,
        "repeated": event.repeated,
        "test": event.test,
        "metric": subject.metric,
        "group": subject.group or None,
        "topic": subject.topic or None,
        "server": subject.server or None,
        "value": event.value,
        "raise": event.threshold.raise_at,
        "clear": event.threshold.clear_at,
        "time": event.time,
        "since": event.since,
        "detail": event.detail or None,
        "text": event.text,
    }


class Sink(Protocol):
    """A place where alarms go. `send` raises a PyrmqError for what it could not take within
    `timeout` seconds; it is tried again up to `retries` times if the error is `retriable`."""

    name: str
    timeout: float
    retries: int

    async def send(self, event: Event) -> None: ...


class LineSink:
    """A line for each event, by `write`."""

    timeout = 10.0
    retries = 0

    def __init__(self, name: str, write: Write, text: Callable[[Event], str]) -> None:
        self.name = name
        self._write = write
        self._text = text

    async def send(self, event: Event) -> None:
        try:
            # A reader that is slow must not stop the rounds.
            await trio.to_thread.run_sync(self._write, self._text(event), abandon_on_cancel=True)
        except OSError as e:
            raise SinkError(f"cannot be written: {e.strerror or e}") from None


class LogSink:
    """A line of the log: a warning for an alarm that fires, else an information."""

    name = "log"
    timeout = 10.0
    retries = 0

    async def send(self, event: Event) -> None:
        level = logging.WARNING if event.state is State.FIRING else logging.INFO
        log.log(level, "%s", escape(NOTIFY + event.text))


def make(settings: SinkSettings, *, log_lines: Write | None, json_lines: Write) -> Sink:
    """The sink of a `[[sinks]]`. `log_lines`: takes the lines of the log instead of the log."""
    if isinstance(settings, CommandSettings):
        return CommandSink(settings, _bytes)
    if isinstance(settings, WebhookSettings):
        return WebhookSink(settings, _bytes)
    if isinstance(settings, JsonSettings):
        return LineSink("json", json_lines, lambda event: json_line(as_json(event)))
    if log_lines is not None:
        return LineSink("log", log_lines, lambda event: NOTIFY + event.text)
    return LogSink()


def _bytes(event: Event) -> bytes:
    return json_line(as_json(event)).encode() + b"\n"


async def deliver(sink: Sink, event: Event) -> int:
    """Gives a sink an event, again while that can help; how often it was tried. The last
    PyrmqError."""
    tried = 0
    while True:
        tried += 1
        try:
            with trio.fail_after(sink.timeout):
                await sink.send(event)
            return tried
        except trio.TooSlowError:
            error: PyrmqError = SinkError(f"no end within {sink.timeout:g} s", retriable=True)
        except PyrmqError as e:
            error = e
        if tried > sink.retries or not error.retriable:
            if tried > 1:
                raise SinkError(f"{error}, tried {tried} times") from None
            raise error
        await trio.sleep(BACKOFF * 2 ** (tried - 1))


class Delivery:
    """The queue of a sink. `run` delivers until `close`, and what waits then. `lines` gets what
    could not be delivered."""

    def __init__(self, sink: Sink, lines: Lines) -> None:
        self.sink = sink
        self.sent = 0
        self.failed = 0
        self.dropped = 0
        self.waiting = 0
        """Events that were not delivered yet."""
        self.last_error = ""
        self._lines = lines
        self._send, self._receive = trio.open_memory_channel[Event](QUEUE)

    def put(self, event: Event) -> None:
        """Queues an event; never waits."""
        try:
            self._send.send_nowait(event)
        except trio.WouldBlock:
            self.dropped += 1
        else:
            self.waiting += 1

    def close(self) -> None:
        self._send.close()

    async def run(self) -> None:
        async for event in self._receive:
            try:
                await deliver(self.sink, event)
            except Exception as e:
                self.failed += 1
                self.last_error = str(e) or type(e).__name__
                self._lines.tell(f"failed: {self.sink.name}: {self.last_error}", bad=True)
            else:
                self.sent += 1
            self.waiting -= 1


@dataclass(frozen=True, slots=True)
class Tried:
    """What a sink made of a test alarm."""

    sink: str
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


async def try_each(sinks: Sequence[Sink], event: Event) -> list[Tried]:
    """Gives each sink an event, all at the same time; what they made of it, in their order."""
    found = [Tried(sink.name) for sink in sinks]

    async def one(at: int) -> None:
        try:
            await deliver(sinks[at], event)
        except Exception as e:
            found[at] = Tried(sinks[at].name, str(e) or type(e).__name__)

    async with trio.open_nursery() as nursery:
        for at in range(len(sinks)):
            nursery.start_soon(one, at)
    return found


async def try_sinks(
    settings: Settings, *, log_lines: Write = to_stderr, json_lines: Write = to_stdout
) -> list[Tried]:
    """Tells each sink an alarm that is marked as a test, and says what became of it."""
    metric = METRICS["lag"]
    subject = Subject(metric.name, group="test-group", topic="test-topic")
    now = time.time_ns() // 1_000_000
    event = Event(
        State.FIRING, subject, metric.raise_at, settings.threshold(subject), now, now,
        detail="nothing is wrong: this tries where alarms go", test=True,
    )  # fmt: skip
    sinks = [make(s, log_lines=log_lines, json_lines=json_lines) for s in settings.sinks]
    return await try_each(sinks, event)
