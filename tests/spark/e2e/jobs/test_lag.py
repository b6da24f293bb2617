"""Backlog from hand-made heads and offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_ext.jobs import consumer_offsets, lag
from spark_ext.jobs.consumer_offsets import read_offsets
from spark_ext.jobs.engine import Engine
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source
from tests.spark.e2e.jobs.conftest import Frame, at

NOW = 1_700_000_100_000


def test_backlog_by_queue(engine: Engine, frame: Frame) -> None:
    messages = frame(
        "topic brokerName queueId queueOffset storeTimestamp",
        *[("T", "a", 0, n, at(NOW - 10_000 + n * 1000)) for n in range(5)],
        *[("T", "a", 1, n, at(NOW - 500)) for n in range(100, 103)],
        ("T", "b", 0, 7, at(NOW - 1)),
    )
    offsets = [
        ("a", "g", "T", 0, 2),  # three behind, the oldest stored at -8 s
        ("a", "g", "T", 1, 40),  # 60 of its backlog are gone
        ("b", "g", "T", 0, 8),  # caught up
        ("a", "g", "T", 9, 3),  # nothing of the queue is in the log
        ("a", "h", "T", 0, 90),  # ahead of the queue
    ]
    found = lag.compute(messages, engine.values(offsets, consumer_offsets.SCHEMA), at(NOW))
    assert found.columns == [field.split(" ")[0] for field in lag.SCHEMA.split(", ")]
    rows = {
        (r.brokerName, r.group, r.queueId): (
            r.firstOffset, r.headOffset, r.backlog, r.gone, r.behindMs
        )
        for r in found.collect()
    }  # fmt: skip
    assert rows == {
        ("a", "g", 0): (0, 5, 3, 0, 8000),
        ("a", "g", 1): (100, 103, 63, 60, 500),
        ("b", "g", 0): (7, 8, 0, 0, 0),
        ("a", "g", 9): (None, None, 0, 0, 0),
        ("a", "h", 0): (0, 5, 0, 0, 0),
    }
    (g, h) = lag.by_group(found).collect()
    assert (g.group, g.queues, g.backlog, g.longest, g.gone, g.behindMs) == (
        "g", 4, 66, 63, 60, 8000,
    )  # fmt: skip
    assert (h.group, h.backlog) == ("h", 0)
    text = lag.summary(found)
    assert "66 messages behind" in text
    assert "8.0 s" in text


def config(root: Path, name: str, text: str) -> None:
    (root / "config").mkdir(parents=True, exist_ok=True)
    (root / "config" / name).write_text(text)


def test_the_file_as_rocketmq_writes_it(tmp_path: Path) -> None:
    config(
        tmp_path,
        "consumerOffset.json",
        '{"dataVersion":{"counter":1},"offsetTable":{"T@g":{0:12,1:9},"%RETRY%g@g":{"0":1},'
        '"noGroup":{0:1},"U@g":{"x":1,0:null}}}',
    )
    assert sorted(read_offsets(tmp_path, "b")) == [
        ("b", "g", "%RETRY%g", 0, 1),
        ("b", "g", "T", 0, 12),
        ("b", "g", "T", 1, 9),
    ]


def test_the_copy_is_read_when_the_file_is_damaged(tmp_path: Path) -> None:
    config(tmp_path, "consumerOffset.json", '{"offsetTable":{"T@g":{0:1')
    with pytest.raises(JobError, match=r"consumerOffset\.json: body is no JSON"):
        read_offsets(tmp_path, "b")
    config(tmp_path, "consumerOffset.json.bak", json.dumps({"offsetTable": {"T@g": {"0": 5}}}))
    assert read_offsets(tmp_path, "b") == [("b", "g", "T", 0, 5)]


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"has no config/consumerOffset\.json"):
        read_offsets(tmp_path, "b")


def test_brokers_have_no_such_file() -> None:
    nothing: Any = None  # it comes to no engine
    with pytest.raises(JobError, match="name store folders"):
        lag.lag(nothing, Source(name_server="127.0.0.1:9876"))


@pytest.mark.parametrize("how", [{"since": 5}, {"until": 5}, {"options": {"subExpression": "A"}}])
def test_some_of_the_messages_are_not_enough(how: Any) -> None:
    nothing: Any = None  # it comes to no Spark
    with pytest.raises(JobError, match="lag needs all messages"):
        lag.lag(nothing, Source(("store",), **how))
