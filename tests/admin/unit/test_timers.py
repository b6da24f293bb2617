"""What Admin reads of timer messages that wait, and what `pyrmq admin timer` makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyrmq.admin.link import AdminLink, Replica
from pyrmq.admin.timers import Bar, TimerFigures, sum_of_bars
from pyrmq.cli.admin import admin
from pyrmq.cli.admin.timer import WIDTH, bar_text, duration
from pyrmq.errors import ConnectError, ProtocolError
from pyrmq.model.codes import RequestCode

APACHE = {
    "dataVersion": {"counter": 3},
    "timingCount": {
        "Orders": {"count": 5, "timeStamp": 1_700_000_000_000},
        "Mails": {"count": 7, "timeStamp": 1_700_000_001_000},
        "Drifted": {"count": -2, "timeStamp": 0},
    },
}
OURS = APACHE | {
    "distribution": [{"upTo": 10, "count": 2}, {"upTo": 3600, "count": 8}, {"count": 1}]
}
RUNTIME = {
    "timerReadBehind": "2",
    "timerOffsetBehind": "4",
    "timerEnqueueTps": "10.5",
    "timerDequeueTps": "3.0",
}


def test_what_apaches_broker_says() -> None:
    figures = TimerFigures.from_json(APACHE, RUNTIME)
    assert (figures.total, figures.bars) == (12, [])
    assert [(t.topic, t.count, t.changed) for t in figures.topics] == [
        ("Mails", 7, 1_700_000_001_000),
        ("Orders", 5, 1_700_000_000_000),
        ("Drifted", -2, 0),
    ]
    assert (figures.read_behind, figures.offset_behind) == (2, 4)
    assert (figures.enqueue_tps, figures.dequeue_tps) == (10.5, 3.0)


def test_what_ours_says_besides() -> None:
    figures = TimerFigures.from_json(OURS, {})
    assert figures.bars == [Bar(10, 2), Bar(3600, 8), Bar(None, 1)]
    assert (figures.total, figures.read_behind, figures.enqueue_tps) == (11, 0, 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        {"timingCount": {"T": 5}},
        {"timingCount": {(("a", "b"),): {}}},
        {"distribution": [{"count": 1}] * 102},
    ],
)
def test_answers_that_cannot_be_meant(answer: dict[Any, Any]) -> None:
    with pytest.raises(ProtocolError):
        TimerFigures.from_json(answer, {})


def test_several_brokers_together() -> None:
    one = TimerFigures.from_json(OURS, {})
    other = TimerFigures(4, bars=[Bar(10, 1), Bar(60, 1), Bar(None, 2)])
    assert sum_of_bars([one, TimerFigures(3), other]) == [
        Bar(10, 3), Bar(60, 1), Bar(3600, 8), Bar(None, 3),
    ]  # fmt: skip


def test_bars_are_in_proportion_and_none_is_hidden() -> None:
    assert bar_text(0, 100) == ""
    assert bar_text(100, 100) == "#" * WIDTH
    assert bar_text(50, 100) == "#" * (WIDTH // 2)
    assert bar_text(1, 10**9) == "#"


def test_durations_have_the_largest_unit_that_fits() -> None:
    texts = [duration(n) for n in (1, 59, 60, 90, 3600, 5400, 86_400, 259_200)]
    assert texts == ["1s", "59s", "1m", "90s", "1h", "90m", "1d", "3d"]


REPLICAS = [Replica("c", "a", 0, "10.0.0.1:10911"), Replica("c", "a", 1, "10.0.0.2:10911")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What brokers are asked for; the first is pyrmq's, the second fails if it says so."""
    requests: list[Any] = []

    async def ask_json(self: object, server: str, code: int, ext: Any = None, **_: object) -> Any:
        requests.append((server, code, ext))
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return {"table": RUNTIME}
        if server in GONE:
            raise ConnectError(f"connection to {server} is gone")
        return OURS

    async def replicas(self: object, **_: object) -> list[Replica]:
        return REPLICAS

    async def enter(self: AdminLink) -> AdminLink:
        return self

    async def leave(self: object, *_: object) -> None: ...

    monkeypatch.setattr(AdminLink, "ask_json", ask_json)
    monkeypatch.setattr(AdminLink, "replicas", replicas)
    monkeypatch.setattr(AdminLink, "__aenter__", enter)
    monkeypatch.setattr(AdminLink, "__aexit__", leave)
    monkeypatch.setattr("pyrmq.cli.tools_file.missed", lambda admin: [])
    GONE.clear()
    return requests


GONE: set[str] = set()


def run(*words: str) -> Result:
    return CliRunner().invoke(admin, ["timer", *words])


def test_the_histogram_is_of_the_masters(asked: list[Any]) -> None:
    done = run("show", "-c", "c", "--bounds", "10s,1h")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].split() == ["DUE", "MESSAGES"]
    assert [line.split() for line in lines[1:4]] == [
        ["within", "10s", "2", "#" * 10],
        ["10s", "to", "1h", "8", "#" * 40],
        ["after", "1h", "1", "#" * 5],
    ]
    assert lines[4] == "11 messages wait in 1 broker"
    assert lines[5] == ("10.0.0.1:10911: 11 wait, delivered up to 2 s ago, 4 not in the wheel yet")
    metrics = [ext for _, code, ext in asked if code == 61]
    assert metrics == [{"bounds": "10,3600"}] * 2


def test_the_histogram_for_programs(asked: list[Any]) -> None:
    GONE.add("10.0.0.2:10911")
    done = run("show", "-c", "c", "-o", "json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert list(found) == ["10.0.0.1:10911"]
    assert found["10.0.0.1:10911"]["bars"][-1] == {"up_to": None, "count": 1}
    assert "10.0.0.2:10911 is gone" in done.stderr


def test_topics(asked: list[Any]) -> None:
    done = run("topics", "-b", "10.0.0.1:10911")
    assert done.exit_code == 0, done.output
    assert [line.split()[:3] for line in done.output.splitlines()][1:3] == [
        ["10.0.0.1:10911", "Mails", "7"],
        ["10.0.0.1:10911", "Orders", "5"],
    ]


@pytest.mark.parametrize("bounds", ["", "soon", "10s,", "1h,10s", "0s", "1w", "99999999d"])
def test_bounds_that_are_none(asked: list[Any], bounds: str) -> None:
    done = run("show", "-c", "c", "--bounds", bounds)
    assert done.exit_code in (1, 2)
    assert "--bounds" in done.output
    assert not asked
