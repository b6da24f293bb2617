"""Where alarms go: lines, programs, web hooks, and those that fail or hang."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trio

from pyrmq.admin.monitoring import SinkError, parse
from pyrmq.admin.monitoring.alarms import Event, State
from pyrmq.admin.monitoring.metrics import Subject, Threshold
from pyrmq.admin.monitoring.settings import Settings, example, write_example
from pyrmq.admin.monitoring.sink_settings import (
    CommandSettings,
    JsonSettings,
    LogSettings,
    WebhookSettings,
)
from pyrmq.admin.monitoring.sinks import Sink, deliver, make, try_sinks
from pyrmq.errors import ClientError
from tests.support.waiting import eventually_trio

EVENT = Event(State.FIRING, Subject("lag", "g\x1b", "t"), 12, Threshold(10, 5), 2000, 1000)


def nobody(_: str) -> None:
    raise AssertionError


def sink(settings: object) -> Sink:
    return make(settings, log_lines=None, json_lines=nobody)  # type: ignore[arg-type]


async def test_lines(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []
    await make(JsonSettings(), log_lines=None, json_lines=lines.append).send(EVENT)
    await make(LogSettings(), log_lines=lines.append, json_lines=nobody).send(EVENT)
    with caplog.at_level(logging.INFO):
        await sink(LogSettings()).send(EVENT)
    found = json.loads(lines[0])
    assert found == {
        "event": "alarm", "state": "firing", "repeated": False, "test": False, "metric": "lag",
        "group": "g\x1b", "topic": "t", "server": None, "value": 12, "raise": 10, "clear": 5,
        "time": 2000, "since": 1000, "detail": None, "text": EVENT.text,
    }  # fmt: skip
    assert "\x1b" not in lines[0]
    assert lines[1].startswith("[MONITOR]  [NOTIFY] firing: lag of group ")
    assert "\x1b" not in caplog.text
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


def command(*words: str, timeout: float = 20.0, retries: int = 0) -> Sink:
    return sink(CommandSettings((sys.executable, *words), timeout, retries))


async def test_a_command_gets_the_event_on_stdin(tmp_path: Path) -> None:
    path = tmp_path / "got; rm -rf x"
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    await deliver(command("-c", code, str(path)), EVENT)
    assert json.loads(path.read_text())["metric"] == "lag"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('no such \\x1b user')", "exit code 1: no such"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
        ("import os; os.close(0); raise SystemExit(3)", "exit code 3"),
    ],
    ids=["says why", "killed", "does not read"],
)
async def test_a_command_that_fails(code: str, said: str) -> None:
    with pytest.raises(SinkError, match=said):
        await deliver(command("-c", code), EVENT)


async def test_a_command_that_is_not_there() -> None:
    with pytest.raises(SinkError, match=r"cannot be run: .*absent"):
        await deliver(sink(CommandSettings(("/absent/notify",))), EVENT)


async def test_a_command_that_hangs_is_killed_with_what_it_began(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(path) + '.new'!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(path) + '.new'!r}, {str(path)!r})\n"
        "time.sleep(600)\n"
    )
    hanging = command("-c", code, timeout=600)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hanging.send, EVENT)
        await eventually_trio(path.exists, "it runs")
        nursery.cancel_scope.cancel()
    for pid in map(int, path.read_text().split()):
        await eventually_trio(lambda pid=pid: not _runs(pid), "it is killed")


def _runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


Serve = Callable[..., str]


class Hook(BaseHTTPRequestHandler):
    """Answers with the next code of `server.codes`; 0: it never does."""

    def do_POST(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.got.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        code = server.codes.pop(0)  # type: ignore[attr-defined]
        if not code:
            server.end.wait(60)  # type: ignore[attr-defined]
            return
        self.send_response(code)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Callable[..., HTTPServer]]:
    servers: list[HTTPServer] = []

    def start(*codes: int) -> HTTPServer:
        server = HTTPServer(("127.0.0.1", 0), Hook)
        server.codes, server.got, server.end = list(codes), [], threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.end.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()


def webhook(server: HTTPServer, timeout: float = 20.0, retries: int = 0) -> Sink:
    url = f"http://127.0.0.1:{server.server_port}/alarms?k=1"
    return sink(WebhookSettings(url, timeout, retries, {"Authorization": "Bearer x"}))


async def test_a_webhook_gets_the_event(hook: Callable[..., HTTPServer]) -> None:
    server = hook(204)
    await deliver(webhook(server), EVENT)
    [(path, headers, body)] = server.got  # type: ignore[attr-defined]
    assert path == "/alarms?k=1"
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer x", "application/json")
    assert json.loads(body)["value"] == 12


@pytest.mark.parametrize(
    ("codes", "retries", "said", "asked"),
    [
        ([503, 200], 1, None, 2),
        ([503, 500], 1, "answered 500 .* tried 2 times", 2),
        ([404], 3, "answered 404", 1),
        ([302], 3, "answered 302", 1),
    ],
    ids=["again", "in vain", "refused", "redirect"],
)
async def test_a_webhook_that_does_not_take_it(
    codes: list[int],
    retries: int,
    said: str | None,
    asked: int,
    hook: Callable[..., HTTPServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyrmq.admin.monitoring.sinks.BACKOFF", 0.01)
    server = hook(*codes)
    if said is None:
        assert await deliver(webhook(server, retries=retries), EVENT) == asked
    else:
        with pytest.raises(SinkError, match=said):
            await deliver(webhook(server, retries=retries), EVENT)
    assert len(server.got) == asked  # type: ignore[attr-defined]


async def test_a_webhook_that_hangs_is_left(hook: Callable[..., HTTPServer]) -> None:
    with pytest.raises(SinkError, match=r"no end within|not reached: timed out"):
        await deliver(webhook(hook(0), timeout=0.2), EVENT)


async def test_a_webhook_that_nobody_serves(hook: Callable[..., HTTPServer]) -> None:
    server = hook()
    server.shutdown()
    server.server_close()
    with pytest.raises(SinkError, match="not reached"):
        await deliver(webhook(server), EVENT)


async def test_a_test_alarm_for_each_sink() -> None:
    lines: list[str] = []
    settings = Settings(
        sinks=(LogSettings(), CommandSettings(("/absent/x",), name="command x"), JsonSettings())
    )
    found = await try_sinks(settings, log_lines=lines.append, json_lines=lines.append)
    assert [(t.sink, t.ok) for t in found] == [("log", True), ("command x", False), ("json", True)]
    assert found[1].error
    assert any("TEST firing: lag of group test-group" in line for line in lines)
    [event] = [json.loads(line) for line in lines if line.startswith("{")]
    assert event["test"] is True


def test_the_example_says_the_defaults(tmp_path: Path) -> None:
    assert parse(example()) == Settings()
    every = example().replace("# [[", "[[")
    found = parse(re.sub(r"^# (\w+ = )", r"\1", every, flags=re.MULTILINE))
    assert [s.name.split()[0] for s in found.sinks] == ["log", "json", "command", "webhook"]
    assert len(found.overrides) == 2
    path = tmp_path / "m.toml"
    write_example(str(path))
    assert path.read_text() == example()
    with pytest.raises(ClientError, match="is there already"):
        write_example(str(path))
