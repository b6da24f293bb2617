"""Several broker processes: names, ports, stores, cores, and what the supervisor does."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.broker import BrokerConfig
from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.processes.cores import usable_cores
from pyrmq.processes.plan import Member, check_all_served, check_ports, how_many, names, plan
from pyrmq.processes.supervisor import REFUSALS, Supervisor
from tests.support.waiting import eventually_trio


def config(root: Path, name: str = "broker-a", **keys: object) -> BrokerConfig:
    return BrokerConfig(broker_name=name, store_path_root_dir=root, **keys)  # type: ignore[arg-type]


def test_names() -> None:
    assert names("broker-a", 3) == ["broker-a", "broker-b", "broker-c"]
    assert names("broker-a", 28)[-3:] == ["broker-z", "broker-aa", "broker-ab"]
    assert names("host7", 3) == ["host7", "host7-1", "host7-2"]
    assert len(set(names("broker-a", 64))) == 64


def test_the_first_broker_is_what_one_process_is(tmp_path: Path) -> None:
    one, two = plan(config(tmp_path), 2)
    assert one == Member("broker-a", 10911, 0, tmp_path)
    assert two == Member("broker-b", 10921, 0, tmp_path / "brokers" / "broker-b")
    assert one.ports == {10909, 10911, 10912}
    assert two.ports == {10919, 10921, 10922}
    assert [m.listen_port for m in plan(config(tmp_path, listen_port=0), 3)] == [0, 0, 0]
    check_ports(plan(config(tmp_path), 64), {9876})


def test_ports_that_meet(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"broker-b and broker broker-a would both .* 10919"):
        check_ports(plan(config(tmp_path, ha_listen_port=10919), 2))
    with pytest.raises(ConfigError, match="the name server would both listen on port 10921"):
        check_ports(plan(config(tmp_path), 2), {10921})
    with pytest.raises(ConfigError, match="storePathCommitLog belongs to one broker"):
        plan(config(tmp_path, store_path_commit_log="/log"), 2)
    plan(config(tmp_path, store_path_commit_log="/log"), 1)


def test_a_store_that_nobody_would_serve(tmp_path: Path) -> None:
    own = config(tmp_path)
    for n in (1, 2, 3):
        check_all_served(tmp_path, plan(own, n), "--brokers")
    (tmp_path / "brokers" / "broker-c" / "commitlog").mkdir(parents=True)
    check_all_served(tmp_path, plan(own, 1), "--brokers")  # nothing is in it
    (tmp_path / "brokers" / "broker-c" / "commitlog" / ("0" * 20)).touch()
    for n in (1, 2):
        with pytest.raises(ConfigError, match=r"brokers/broker-c.*--brokers auto"):
            check_all_served(tmp_path, plan(own, n), "--brokers")
    check_all_served(tmp_path, plan(own, 3), "--brokers")
    with pytest.raises(ConfigError, match="brokerName that they were made with"):
        check_all_served(tmp_path, plan(config(tmp_path, "other"), 3), "--brokers")
    assert how_many("auto", own, cores=2) == 3
    assert how_many("auto", own, cores=5) == 5
    assert how_many("auto", own, cores=500) == 64
    assert how_many("2", own, cores=5) == 2


def test_cores(tmp_path: Path) -> None:
    own, cgroups = tmp_path / "cgroup", tmp_path / "fs"
    machine = len(os.sched_getaffinity(0))
    assert usable_cores(own, cgroups) == machine
    own.write_text("0::/a/b\n")
    (cgroups / "a" / "b").mkdir(parents=True)
    (cgroups / "a" / "b" / "cpu.max").write_text("max 100000\n")
    assert usable_cores(own, cgroups) == machine
    (cgroups / "a" / "cpu.max").write_text("190000 100000\n")
    assert usable_cores(own, cgroups) == 1
    (cgroups / "a" / "cpu.max").write_text("5000 100000\n")
    assert usable_cores(own, cgroups) == 1
    (cgroups / "a" / "cpu.max").write_text("nonsense")
    assert usable_cores(own, cgroups) == machine
    own.write_text("4:memory:/a\n3:cpu,cpuacct:/a/b\n")
    (cgroups / "cpu,cpuacct" / "a").mkdir(parents=True)
    (cgroups / "cpu,cpuacct" / "a" / "cpu.cfs_period_us").write_text("100000")
    (cgroups / "cpu,cpuacct" / "a" / "cpu.cfs_quota_us").write_text("-1")
    assert usable_cores(own, cgroups) == machine
    (cgroups / "cpu,cpuacct" / "a" / "cpu.cfs_quota_us").write_text("100000")
    assert usable_cores(own, cgroups) == 1


class Programs:
    """What the brokers of a test are: a line of Python for each start, the last one for all
    others."""

    def __init__(
        self,
        *programs: Sequence[str],
        rarely: float = 600,
        grace: float = 60,
        silence: float = 60,
        turn: float = 0,
    ) -> None:
        self.members = [Member(f"b{n}", 0, 0, Path(f"/b{n}")) for n in range(len(programs))]
        self.starts = [0] * len(programs)
        self._programs = programs
        self.ready: list[str] = []
        self.supervisor = Supervisor(
            self.members,
            self._command,
            self._announce,
            first=0.001,
            longest=0.002,
            rarely=rarely,
            grace=grace,
            silence=silence,
            turn=turn,
        )

    def _command(self, member: Member) -> list[str]:
        n = self.members.index(member)
        self.starts[n] += 1
        programs = self._programs[n]
        return [sys.executable, "-c", programs[min(self.starts[n], len(programs)) - 1]]

    def _announce(self, member: Member, line: str) -> None:
        self.ready.append(f"{member.name} {line}")


SERVES = "import sys; print('ready', flush=True); sys.stdin.read()"
DIES = "import os; print('ready', flush=True); os.abort()"
REFUSES = "raise SystemExit(1)"
KILLED = "import os; os.kill(os.getpid(), 9)"


WAITS = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)\n"
TOUCHES = "\nimport pathlib; pathlib.Path({!r}).touch()\n"


def dies_when(gate: Path) -> str:
    return f"print('ready', flush=True)\n{WAITS.format(str(gate))}import os; os.abort()"


async def test_a_refusal_at_the_start_ends_it() -> None:
    programs = Programs([SERVES], [REFUSES])
    with pytest.raises(ExceptionGroup) as found:
        async with programs.supervisor.running():
            raise AssertionError("it does not start")
    assert found.group_contains(ConfigError, match="b1 cannot start")
    assert programs.starts == [1, 1]


async def test_it_runs_when_all_serve_at_once(tmp_path: Path) -> None:
    """The first broker is dead again when the second one serves for the first time."""
    first, second = tmp_path / "first", tmp_path / "second"
    last = SERVES.replace("; sys.stdin", TOUCHES.format(str(second)) + "sys.stdin")
    programs = Programs(
        [DIES, TOUCHES.format(str(first)) + WAITS.format(str(second)) + SERVES],
        [WAITS.format(str(first)) + last],
    )
    async with programs.supervisor.running():
        assert sorted(programs.ready) == ["b0 ready", "b0 ready", "b1 ready"]


async def test_a_refusal_before_all_serve_ends_it(tmp_path: Path) -> None:
    never = WAITS.format(str(tmp_path / "never"))
    programs = Programs([DIES, REFUSES], [never])
    with pytest.raises(ExceptionGroup) as found:
        async with programs.supervisor.running():
            raise AssertionError("it does not start")
    assert found.group_contains(ConfigError, match="b0 cannot start")


async def test_one_that_is_killed_at_each_start_does_not_start() -> None:
    """As by an instruction that this machine has not."""
    programs = Programs([KILLED])
    with pytest.raises(ExceptionGroup) as found:
        async with programs.supervisor.running():
            raise AssertionError("it does not start")
    assert found.group_contains(ConfigError, match=f"{REFUSALS} starts, the last one .*SIGKILL")
    assert programs.starts == [REFUSALS]


async def test_one_that_dies_is_started_again() -> None:
    programs = Programs([SERVES], [DIES, DIES, SERVES])
    async with programs.supervisor.running():
        await eventually_trio(lambda: len(programs.ready), "both serve", until=lambda n: n == 4)
    assert programs.ready.count("b1 ready") == 3
    assert programs.supervisor.killed == programs.supervisor.given_up == []


async def test_one_that_refuses_for_long_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    programs = Programs([SERVES], [dies_when(tmp_path / "gate"), REFUSES])
    async with programs.supervisor.running():
        (tmp_path / "gate").touch()
        await eventually_trio(lambda: programs.supervisor.given_up, "one is given up")
    assert programs.starts == [1, 1 + REFUSALS]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 + REFUSALS  # one for each end
    assert "broker b1 is given up" in lines[-1]
    assert "/b1" in lines[-1]


async def test_one_that_cannot_be_run_for_a_moment_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine has no memory, or no process left, when a broker is started again."""
    programs = Programs([SERVES], [dies_when(tmp_path / "gate"), SERVES])
    real, refused = trio.lowlevel.open_process, [BlockingIOError(11, "no process"), OSError("?")]

    async def open_process(*args: Any, **options: Any) -> trio.Process:
        if refused:
            raise refused.pop(0)
        return await real(*args, **options)

    async with programs.supervisor.running():
        monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
        (tmp_path / "gate").touch()
        await eventually_trio(lambda: len(programs.ready), "both serve", until=lambda n: n == 3)
    assert refused == []
    assert "b1 could not be run ([Errno 11] no process)" in caplog.text


async def test_what_is_no_ready_line_says_nothing() -> None:
    programs = Programs(["print('a library says hello', flush=True); raise SystemExit(1)"])
    with pytest.raises(ExceptionGroup):
        async with programs.supervisor.running():
            raise AssertionError("it does not serve")
    assert programs.ready == []


async def test_one_that_was_given_up_is_tried_again(tmp_path: Path) -> None:
    refuses = [REFUSES] * (REFUSALS + 5)
    programs = Programs([SERVES], [dies_when(tmp_path / "gate"), *refuses, SERVES], rarely=0.001)
    async with programs.supervisor.running():
        (tmp_path / "gate").touch()
        await eventually_trio(lambda: programs.supervisor.given_up, "it is given up")
        await eventually_trio(
            lambda: programs.supervisor.given_up, "it serves", until=lambda names: not names
        )
        assert programs.ready.count("b1 ready") == 2
    assert programs.starts == [1, 1 + REFUSALS + 5 + 1]


async def test_none_is_left() -> None:
    programs = Programs([DIES, REFUSES])
    with pytest.raises(ExceptionGroup) as found:
        async with programs.supervisor.running():
            await trio.sleep_forever()
    assert found.group_contains(PyrmqError, match="no broker starts any more")


async def test_one_that_does_not_stop_is_killed() -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready', flush=True); time.sleep(600)"
    )
    programs = Programs([SERVES], [deaf], grace=0.2)
    async with programs.supervisor.running():
        pass
    assert programs.supervisor.killed == ["b1"]


SAYS = (
    "import os, socket, sys, time\n"
    "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "say = lambda text: s.sendto(text, b'\\0' + os.environ['NOTIFY_SOCKET'][1:].encode())\n"
    "print('ready', flush=True)\n"
)
LIVES = SAYS + "say(b'READY=1')\nwhile True: say(b'WATCHDOG=1'); time.sleep(0.02)\n"
HANGS = SAYS + "say(b'READY=1\\nSTATUS=counts sheep'); time.sleep(600)\n"
STOPPED = SAYS + "import signal; say(b'READY=1'); os.kill(os.getpid(), signal.SIGSTOP)\n"


@pytest.mark.parametrize("program", [HANGS, STOPPED], ids=["hangs", "is stopped"])
async def test_one_that_hangs_is_started_again(
    program: str, caplog: pytest.LogCaptureFixture
) -> None:
    programs = Programs([LIVES], [program, LIVES], silence=2)
    async with programs.supervisor.running():
        await eventually_trio(lambda: programs.ready.count("b1 ready"), "it serves again",
                              until=lambda n: n == 2)  # fmt: skip
        assert programs.starts == [1, 2], "the one that says that it lives is left alone"
    assert "broker b1 was silent for 2 s and was killed" in caplog.text
    assert ("counts sheep" in caplog.text) is (program is HANGS)


async def test_one_that_never_says_anything_is_not_watched() -> None:
    """It starts, or it is a program of an earlier version."""
    programs = Programs([SERVES], [LIVES], silence=0.1)
    async with programs.supervisor.running():
        await trio.sleep(0.5)
        assert programs.starts == [1, 1]


async def test_one_that_stops_may_be_silent() -> None:
    stops = SAYS + "say(b'READY=1'); say(b'STOPPING=1'); sys.stdin.read()\n"
    programs = Programs([stops], [LIVES], silence=0.1)
    async with programs.supervisor.running():
        await trio.sleep(0.5)
        assert programs.starts == [1, 1]


async def test_what_others_send_counts_for_nobody() -> None:
    """The address is there for everybody on the machine."""
    programs = Programs([HANGS, LIVES], silence=2)
    async with programs.supervisor.running():
        address = programs.supervisor._environment["NOTIFY_SOCKET"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            while programs.starts == [1]:
                stranger.sendto(b"WATCHDOG=1", "\0" + address[1:])
                await trio.sleep(0.02)
    assert programs.starts == [2]


async def test_brokers_are_stopped_with_the_signal_that_came() -> None:
    """SIGTERM drains, SIGINT does not."""
    tells = (
        "import signal, sys\n"
        "def end(number, frame): raise SystemExit(3 if number == signal.SIGINT else 0)\n"
        "for one in (signal.SIGINT, signal.SIGTERM): signal.signal(one, end)\n"
        "print('ready', flush=True); signal.pause()\n"
    )
    for signum, code in ((signal.SIGINT, 3), (signal.SIGTERM, 0)):
        programs = Programs([tells])
        async with programs.supervisor.running():
            programs.supervisor.signal = signum
            process = programs.supervisor._kept[0].process
        assert process is not None
        assert process.returncode == code


def drains(folder: Path, name: str, until: str = "") -> str:
    """Notes in a file of its name that it is told to stop. It stops at once, or when another one is
    told. What it writes to the log says whether another one was told by then."""
    waits = f"while not (folder / {until!r}).exists(): time.sleep(0.01)" if until else "pass"
    return (
        "import pathlib, signal, time\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "def end(number, frame):\n"
        f"    (folder / {name!r}).touch()\n"
        f"    {waits}\n"
        "    told = ''.join(sorted(path.name for path in folder.glob('?')))\n"
        "    with (folder / 'log').open('a') as file: file.write(told + ' ')\n"
        "    raise SystemExit(0)\n"
        "for one in (signal.SIGINT, signal.SIGTERM): signal.signal(one, end)\n"
        "print('ready', flush=True); signal.pause()\n"
    )


async def test_brokers_drain_one_after_the_other(tmp_path: Path) -> None:
    programs = Programs(*([drains(tmp_path, name)] for name in "abc"), turn=600)
    async with programs.supervisor.running():
        pass
    assert (tmp_path / "log").read_text() == "a ab abc "
    assert not programs.supervisor.killed


async def test_one_that_takes_long_holds_up_the_next_for_its_turn_only(tmp_path: Path) -> None:
    programs = Programs([drains(tmp_path, "a", until="b")], [drains(tmp_path, "b")], turn=0.05)
    async with programs.supervisor.running():
        pass
    assert len((tmp_path / "log").read_text().split()) == 2, "a has stopped, as b was told"
    assert not programs.supervisor.killed


async def test_without_a_drain_all_stop_at_once(tmp_path: Path) -> None:
    programs = Programs([drains(tmp_path, "a", until="b")], [drains(tmp_path, "b")], turn=600)
    async with programs.supervisor.running():
        programs.supervisor.signal = signal.SIGINT
    assert len((tmp_path / "log").read_text().split()) == 2
