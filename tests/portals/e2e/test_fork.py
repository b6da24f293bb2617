"""Forks while clients are open, and threads that cannot be had."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyrmq import ClientError
from pyrmq.portal import thread
from pyrmq.portal.shared import SHARED
from pyrmq.portal.thread import Portal
from pyrmq.server import Running
from pyrmq.sync import Producer

ROOT = Path(__file__).resolve().parents[3]
INHERITED = "ClientError: this was opened before the process was forked, and belongs to the parent"
MADE = "ClientError: this client was made before the process was forked"


def lines(case: str, namesrv: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-m", "tests.portals.e2e.forking", case, namesrv]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("case", ["new", "asyncio_in_the_child"])
def test_a_child_opens_clients_of_its_own(server: Running, case: str) -> None:
    assert lines(case, server.namesrv) == ["SEND_OK", "0", "SEND_OK"]


@pytest.mark.parametrize("case", ["same", "generator", "made_before"])
def test_what_the_parent_has_opened_is_an_error(server: Running, case: str) -> None:
    error, code, parent = lines(case, server.namesrv)
    assert error.startswith(MADE if case == "made_before" else INHERITED)
    assert code == "0"
    assert parent in ("SEND_OK", "True")


def test_multiprocessing(server: Running) -> None:
    assert lines("pool", server.namesrv) == [str(["SEND_OK"] * 4), "SEND_OK"]


def test_a_broker_goes_on_when_a_child_ends(server: Running) -> None:
    assert lines("broker", server.namesrv) == ["0", "SEND_OK"]


# Threads that cannot be had.


def test_no_thread_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with (
            pytest.raises(ClientError, match=r"did not start.*can't start new thread"),
            Producer("pg", namesrv="127.0.0.1:1"),
        ):
            pass
    assert SHARED._portal is None


def test_the_next_one_starts(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    test_no_thread_is_an_error(monkeypatch)
    with Producer("pg", namesrv=server.namesrv) as producer:
        assert producer.queues("Forked")


def test_a_thread_that_never_runs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with greenlets, which run when others let them."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    monkeypatch.setattr(thread, "START_TIMEOUT", 0.0)
    with pytest.raises(ClientError, match="did not start"):
        Portal().start()


def test_a_loop_that_cannot_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: object) -> None:
        raise AttributeError("module 'select' has no attribute 'epoll'")

    monkeypatch.setattr(thread.trio, "run", run)
    with pytest.raises(ClientError, match=r"cannot run trio.*epoll"):
        Portal().start()


@pytest.mark.parametrize(
    ("library", "module", "ask"),
    [
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ],
)
@pytest.mark.parametrize("patched", [True, False])
def test_patched_threads(
    server: Running,
    library: str,
    module: str,
    ask: str,
    patched: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake: Any = ModuleType(module)
    setattr(fake, ask, lambda name: patched)
    monkeypatch.setitem(sys.modules, module, fake)
    producer = Producer("pg", namesrv=server.namesrv)
    if patched:
        with pytest.raises(ClientError, match=f"threads are patched by {library}"), producer:
            pass
    else:
        with producer:
            assert producer.queues("Forked")
