"""Metrics that are made of a query's progress."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from spark_ext.listener import metrics_of

pytest.importorskip("pyspark")


def progress(end: Any, latest: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    source = {"endOffset": end, "latestOffset": latest, "metrics": {}, **more}
    return {"timestamp": f"2026-01-31T12:00:{second:02}.000Z", "sources": [source]}


QUEUES = {"queues": {"T": {"a": {"0": 5, "1": 9}}}, "version": 1}
BEHIND = {"messages": 12, "minMessages": 2, "avgMessages": 6.0, "maxMessages": 10}


@pytest.mark.parametrize("form", [lambda offset: offset, json.dumps, str])
def test_of_a_progress(form: Any) -> None:
    latest = {**QUEUES, "behind": BEHIND}
    found = metrics_of(progress(form(QUEUES), form(latest), processedRowsPerSecond=4))
    assert found == [
        {
            "messagesBehindLatest": 12,
            "minOffsetsBehindLatest": 2,
            "avgOffsetsBehindLatest": 6.0,
            "maxOffsetsBehindLatest": 10,
            "processedRowsPerSecond": 4.0,
            "secondsBehindLatest": 3.0,
        }
    ]


def test_what_the_reader_in_the_jvm_left_out() -> None:
    told = progress({"log": {"a": 1}, "version": 1}, None)
    told["sources"][0]["metrics"] = {"skippedBytes": "120", "lostBytes": "0", "other": "x"}
    assert metrics_of(told) == [{"skippedBytes": 120.0, "lostBytes": 0.0}]


def test_sources_of_others_are_left_alone() -> None:
    assert metrics_of(None) == []
    for end in ("null", "5", None, {"topic": {"0": 5}}, '{"x', "{'log': f()}", "[" * 100_000):
        assert metrics_of(progress(end, None)) == []


def event(made: dict[str, Any]) -> Any:
    return SimpleNamespace(
        progress=SimpleNamespace(**made, name=None, id="query", runId="run"),
        runId="run",
    )


def test_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    from spark_ext.listener import StreamMetrics

    caplog.set_level(logging.INFO, "spark_ext.listener")
    listener = StreamMetrics()
    end = {"log": {"a": 100}, "version": 1}
    for second, length in ((0, 150), (10, 350)):
        latest = {"log": {"a": length}, "version": 1, "behind": {"bytes": length - 100}}
        listener.onQueryProgress(event(progress(end, latest, second)))
    assert listener.last == {"query": [{"bytesBehindLatest": 250, "bytesArrivedPerSecond": 20.0}]}
    assert caplog.messages == [
        "rocketmq stream query: bytesBehindLatest=50",
        "rocketmq stream query: bytesBehindLatest=250, bytesArrivedPerSecond=20",
    ]
    listener.onQueryProgress(event(progress("5", "6")))
    listener.onQueryTerminated(event({}))
    assert listener.last == {}
