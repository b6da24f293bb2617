"""A test alarm for each sink of a file."""

from __future__ import annotations

import time

from pyrmq.admin.monitoring.alarms import Event, State
from pyrmq.admin.monitoring.lines import Write, to_stderr, to_stdout
from pyrmq.admin.monitoring.metrics import METRICS, Subject
from pyrmq.admin.monitoring.settings import Settings
from pyrmq.admin.monitoring.sinks import Tried, make, try_each


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
