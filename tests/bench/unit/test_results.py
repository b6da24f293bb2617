"""Results as JSON, and what is no result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyrmq.bench.options import Options
from pyrmq.bench.result import (
    SCHEMA,
    Result,
    ResultFormatError,
    parse_result,
    read_result,
    write_result,
)
from pyrmq.bench.run import run
from pyrmq.bench.text import report
from tests.bench.lying import LyingBroker
from tests.support.scripted.sockets import SocketServer


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Result:
    hdr = tmp_path_factory.mktemp("hdr") / "log.hdr"
    broker = LyingBroker(lambda n: "refuse" if n == 5 else "store")
    with SocketServer(broker).serving() as address:
        made = run(Options("send", address=address, count=50, verify=True, hdr=hdr))
    log = hdr.read_text()
    assert "#[StartTime:" in log
    assert "Tag=request," in log
    return made


def test_a_result_is_read_as_it_was_written(found: Result, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_result(path, found)
    assert json.loads(path.read_text())["schema"] == SCHEMA
    assert read_result(path) == found
    # A later release may add keys.
    value = found.to_json()
    value["new"] = value["generator"]["new"] = 1
    assert parse_result(value) == found


def change(value: dict[str, Any], path: str, new: Any) -> None:
    *parts, last = path.split(".")
    for part in parts:
        value = value[part]
    value[last] = new


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        ("schema", "pyrmq-bench/2", "its schema is pyrmq-bench/2; this pyrmq reads pyrmq-bench/1"),
        ("schema", None, "its schema is none"),
        ("rate", "fast", "x.rate: float expected, not str"),
        ("messages", True, "x.messages: int expected, not bool"),
        ("generator.threads", None, "x.generator.threads: int expected, not nothing"),
        ("latency.request", [], "x.latency.request: dict expected, not list"),
        ("errors", [{}], r"x.errors\[0\].kind is missing"),
        ("verify", 7, "x.verify: dict expected, not int"),
    ],
)
def test_what_is_no_result_is_told_with_its_place(
    found: Result, path: str, new: Any, said: str
) -> None:
    value = json.loads(json.dumps(found.to_json()))
    change(value, path, new)
    with pytest.raises(ResultFormatError, match=said):
        parse_result(value, "x")


def test_files_that_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("", "[]", "7", "{", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ResultFormatError, match=r"x\.json: "):
            read_result(path)
    with pytest.raises(OSError):
        read_result(tmp_path / "none.json")


def test_the_text_says_what_was_found(found: Result) -> None:
    text = report(found)
    for part in (
        "send, closed loop: latencies from when a request was sent",
        "acknowledged 49 messages",
        "1 x SYSTEM_BUSY (2): too busy",
        "50 sent, 49 acknowledged, 1 refused, 0 without an answer",
        "49 received, 0 lost, 0 twice",
        "generator ",
    ):
        assert part in text
