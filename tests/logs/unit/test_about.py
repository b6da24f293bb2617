"""What a line is about becomes attributes of its record."""

from __future__ import annotations

import inspect
import logging

import pytest

from pyrmq.logs.about import FIELDS, MAX_VALUE, TRACE_FIELDS, about
from pyrmq.model.message import MessageQueue


def test_a_queue_stands_for_its_topic_its_broker_and_its_number() -> None:
    found = about(queue=MessageQueue("orders", "broker-a", 3), group="g")
    assert found == {"topic": "orders", "broker": "broker-a", "queue": 3, "group": "g"}


def test_what_is_not_known_is_left_out() -> None:
    assert about(topic=None, group="", queue=0, request=0) == {"queue": 0, "request": 0}


def test_values_are_bounded_and_escaped() -> None:
    found = about(topic="a\n\x1b[2J\u202e" + "x" * 100_000)
    assert str(found["topic"]).startswith(r"a\n\x1b[2J\u202exxx")
    assert len(str(found["topic"])) < MAX_VALUE * 2


def test_fields_are_the_arguments_and_no_attribute_of_a_record() -> None:
    assert set(inspect.signature(about).parameters) == set(FIELDS)
    record = logging.LogRecord("x", logging.INFO, "", 0, "", None, None)
    taken = {*vars(record), "message", "asctime"}
    assert taken.isdisjoint((*FIELDS, *TRACE_FIELDS))


def test_a_record_has_them(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("x").warning("of %s", "t", extra=about(topic="t", queue=1))
    assert (caplog.records[0].topic, caplog.records[0].queue) == ("t", 1)  # type: ignore[attr-defined]
