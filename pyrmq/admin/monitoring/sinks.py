"""Where alarms go. Each place has a queue and a task of its own: one that hangs or fails never
stops the rounds, and what it did not take is counted and said."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
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
from pyrmq.admin.monitoring.sink_kinds import CommandSink, SinkError, WebhookSink
from pyrmq.admin.monitoring.sink_settings import (
    CommandSettings,
    JsonSettings,
    SinkSettings,
    WebhookSettings,
)
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape, json_line

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
