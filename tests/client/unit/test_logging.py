"""What the library prints where nobody configures logging, and what it says it waits for."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from pyrmq.client.consumer.reports import Reports
from pyrmq.model.message import MessageQueue


def printed(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout + ran.stderr


WARN = "import logging; logging.getLogger('pyrmq.client.consumer.reports').warning('from pyrmq'); "


def test_a_library_prints_nothing_by_itself() -> None:
    assert printed(f"import pyrmq; {WARN}") == ""
    assert "from pyrmq" in printed(f"import pyrmq, logging; logging.basicConfig(); {WARN}")
    assert printed("import pyrmq, logging; print(logging.getLogger().handlers)") == "[]\n"


def test_spark_shows_its_warnings_as_nobody_configures_logging_there() -> None:
    assert printed(f"import spark_ext, pyrmq; {WARN}") == "from pyrmq\n"
    once = printed(f"import spark_ext, pyrmq, logging; logging.basicConfig(); {WARN}")
    assert once.count("from pyrmq") == 1


def queue(number: int, broker: str = "a", topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, broker, number)


def test_queues_of_a_broker_that_is_away_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports("g")
    for n in (0, 1, 2, 1):
        reports.waiting(queue(n), "cannot connect")
    assert [r.getMessage() for r in caplog.records] == [
        "group g waits for broker a (topic T, queue 0 or more): cannot connect"
    ]
    for other in (queue(0, "b"), queue(0, topic="U")):
        reports.waiting(other, "cannot connect")
    reports.waiting(queue(1), "refused")
    assert len(caplog.records) == 4, "another broker, another topic, another reason"
    caplog.clear()
    for n in range(3):
        reports.resolved(queue(n))
    reports.waiting(queue(2), "cannot connect")
    assert len(caplog.records) == 1, "that is a new trouble"


def test_topics(caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports("g")
    for _ in range(2):
        reports.waiting("topic T", "no route", logging.INFO)
        reports.waiting("topic U", "no route")
    assert [r.getMessage() for r in caplog.records] == ["group g waits for topic U: no route"]


def test_a_queue_in_words() -> None:
    assert str(queue(3)) == "queue 3 of topic T on broker a"
