"""Rounds and their times, with scripted figures and a clock that is not the real one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from pyrmq.admin.monitoring.alarms import Event, State
from pyrmq.admin.monitoring.metrics import Part, Subject
from pyrmq.admin.monitoring.monitor import Monitor
from pyrmq.admin.monitoring.rounds import First, Round, lines_log
from pyrmq.admin.monitoring.settings import Settings, parse
from pyrmq.errors import ClientError

LAG = Subject("lag", "g", "t")
QUICK = "[rounds]\ndelay = 20\ninterval = 60\ntimeout = 50\npart_timeout = 10\nat_once = 2\n"
EACH = QUICK + "[thresholds.lag]\nraise = 10\nclear = 5\nrounds = 2\n"


class Kept:
    """A sink that keeps what it is told; `error` is raised instead, `hangs` never ends."""

    name = "kept"
    timeout = 3.0
    retries = 0

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.events: list[Event] = []
        self._error = error
        self._hangs = hangs

    async def send(self, event: Event) -> None:
        if self._hangs:
            await trio.sleep_forever()
        if self._error is not None:
            raise self._error
        self.events.append(event)

    @property
    def told(self) -> list[tuple[str, str, float]]:
        return [(e.state.value, e.subject.text, e.value) for e in self.events]


class Script:
    """A watcher that gives what is next of `steps`: lag of topic t, an error, seconds to wait, or
    `None` for a group that is not there."""

    name = "script"

    def __init__(self, *steps: float | Exception | str | None) -> None:
        self._steps = iter(steps)
        self.times: list[float] = []

    async def watch(self, round_: Round) -> None:
        self.times.append(trio.current_time())
        step = next(self._steps)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            await trio.sleep(float(step))
            return
        round_.listed((Part.PROGRESS,), {"g"} if step is not None else set())
        if step is not None:
            round_.figure("lag", step, group="g", topic="t")
            round_.seen(Part.PROGRESS, "g")


def watched(settings: Settings, *watchers: Script, sinks: tuple[Kept, ...] = ()) -> Monitor:
    return Monitor(settings, watchers, sinks)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What is told of rounds; through the log, as threads know nothing of the clock here."""
    found: list[str] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler = Keeps()
    lines_log.addHandler(handler)
    lines_log.setLevel(logging.INFO)
    yield found
    lines_log.removeHandler(handler)
    lines_log.setLevel(logging.NOTSET)


async def test_alarms_begin_and_end_and_what_could_not_be_asked_changes_nothing(
    autojump_clock: MockClock,
    lines: list[str],
) -> None:
    sink = Kept()
    script = Script(20, 20, ClientError("gone away"), 30, 3, 3)
    monitor = watched(parse(EACH), script, sinks=(sink,))
    begun = trio.current_time()
    await monitor.run(6)
    assert [at - begun for at in script.times] == [20, 80, 140, 200, 260, 320]
    told = [(e.state, e.value) for e in sink.events]
    assert told == [(State.FIRING, 20), (State.RESOLVED, 3)]
    assert "[MONITOR] failed: script: gone away" in lines
    assert lines[0] == "[MONITOR] started: a round in 20 s and every 60 s, alarms for kept"
    assert lines[1].startswith("[MONITOR] beginRound 1 ")
    assert lines[-1].startswith("[MONITOR] endRound 6: 0 asked, 0 failed, 0 alarms, 0 told")


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "not asked"])
async def test_an_alarm_of_a_group_that_is_gone_ends(gone: bool, autojump_clock: MockClock) -> None:
    sink = Kept()
    monitor = watched(parse(EACH), Script(20, 20, None if gone else "1"), sinks=(sink,))
    await monitor.run(3)
    assert [e.state for e in sink.events] == [State.FIRING, State.RESOLVED][: 1 + gone]
    assert monitor.alarms.state(LAG) is (State.OK if gone else State.FIRING)


async def test_a_round_that_is_too_long_delays_the_next_one(
    autojump_clock: MockClock, lines: list[str]
) -> None:
    script = Script("70", "1", "1")
    settings = parse(EACH.replace("timeout = 50", "timeout = 100", 1))
    begun = trio.current_time()
    await watched(settings, script).run(3)
    assert [at - begun for at in script.times] == [20, 90, 150]
    assert [line for line in lines if "late" in line] == [
        "[MONITOR] late: round 1 took 10.00 s longer than the interval of 60 s; the next one "
        "begins now"
    ]


async def test_a_round_ends_at_its_limit_and_the_others_figures_count(
    autojump_clock: MockClock,
    lines: list[str],
) -> None:
    sink = Kept()
    slow, fine = Script("1000", "1000"), Script(20, 20)
    await watched(parse(EACH), slow, fine, sinks=(sink,)).run(2)
    assert sink.told == [("firing", "group g, topic t", 20)]
    assert "[MONITOR] failed: round: not ended within 50 s" in lines


async def test_an_unexpected_error_ends_nothing(
    autojump_clock: MockClock, lines: list[str]
) -> None:
    sink = Kept()
    broken, fine = Script(ZeroDivisionError("x"), ZeroDivisionError("x")), Script(20, 20)
    await watched(parse(EACH), broken, fine, sinks=(sink,)).run(2)
    assert len(sink.events) == 1
    assert "[MONITOR] failed: script: unexpected: ZeroDivisionError('x')" in lines


async def test_sinks_that_fail_or_hang_stop_neither_rounds_nor_others(
    autojump_clock: MockClock,
    lines: list[str],
) -> None:
    good, bad, hanging = Kept(), Kept(RuntimeError("no")), Kept(hangs=True)
    monitor = watched(parse(EACH), Script(20, 20, 3), sinks=(bad, hanging, good))
    await monitor.run(3)
    assert len(good.events) == 2
    assert [(d.sent, d.failed) for d in monitor.deliveries] == [(0, 2), (0, 2), (2, 0)]
    assert "[MONITOR] failed: kept: no" in lines
    assert "[MONITOR] failed: kept: no end within 3 s" in lines


async def test_stop_ends_a_round_that_runs_and_sinks_have_a_moment(
    autojump_clock: MockClock,
    lines: list[str],
) -> None:
    class Slow(Kept):
        timeout = 1000.0

        async def send(self, event: Event) -> None:
            await trio.sleep(4 if not self.events else 1000)
            await super().send(event)

    sink = Slow()
    settings = parse(EACH.replace("rounds = 2", "rounds = 1\nrepeat = 1"))
    monitor = watched(settings, Script(20, 20, 20, "40"), sinks=(sink,))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(monitor.run)
        await trio.sleep(20 + 180 + 5)
        begun = trio.current_time()
        monitor.stop()
    assert trio.current_time() - begun <= 5
    assert len(sink.events) == 1
    assert "[MONITOR] failed: kept was not told 2 events" in lines


async def test_lines_that_nobody_reads_end_it() -> None:
    def broken(_: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await Monitor(parse("[rounds]\ndelay = 0"), [Script(1)], [], write=broken).run()


class Many:
    """A watcher of names, of which each takes its time."""

    name = "many"

    def __init__(self, names: str, seconds: float) -> None:
        self._names = names
        self._seconds = seconds
        self._first = First()
        self.running = self.most = 0
        self.asked: list[str] = []

    async def watch(self, round_: Round) -> None:
        self.asked = []
        await round_.each(self._names, "group", self._one, self._first)

    async def _one(self, name: str) -> None:
        self.asked.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(self._seconds)
        finally:
            self.running -= 1
        if name == "b":
            raise ClientError("not b")


async def test_what_a_round_did_not_come_to_is_first_in_the_next(
    autojump_clock: MockClock,
) -> None:
    many = Many("abcdefg", 9)
    settings = parse(QUICK.replace("timeout = 50", "timeout = 20", 1))
    monitor = Monitor(settings, [many], [])
    first = await monitor.round()
    assert "".join(many.asked) == "abcdef"
    assert (first.asked, first.left, many.most) == (6, 1, 2)
    assert first.problems == [
        "group b: not b",
        "round: not ended within 20 s; 1 come first in the next one",
    ]
    await monitor.round()
    assert "".join(many.asked) == "gabcde"


async def test_one_that_does_not_answer_holds_its_place_for_its_time(
    autojump_clock: MockClock,
) -> None:
    monitor = Monitor(parse(QUICK), [Many("abc", 11)], [])
    report = await monitor.round()
    assert report.failed == report.asked == 3
    assert "group a: no answer within 10 s" in report.problems
    assert report.seconds == 20
