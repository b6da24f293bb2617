"""A process that helps a server: it is started again, and stopped whatever it does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

import pytest
import trio

from pyrmq.errors import ConfigError
from pyrmq.processes.helper import Helper
from tests.support.fixtures import deadline as deadline
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_it_is_started_again_with_what_it_said() -> None:
    given: list[dict[str, str]] = []

    def command(before: Mapping[str, str]) -> list[str]:
        given.append(dict(before))
        return shell(f"echo noise; echo ready at={len(given)} pid=$$; exec sleep 600")

    helper = Helper("console", command, first=0.01, longest=0.01)
    async with helper.running() as facts:
        assert facts == {"at": "1"}
        assert helper.process is not None
        helper.process.kill()
        await eventually_trio(lambda: len(given), "it is started again", until=lambda n: n == 2)
        await eventually_trio(
            lambda: helper.process and helper.process.returncode is None, "it runs"
        )
    assert given == [{}, {"at": "1"}]
    assert helper.process.returncode == -signal.SIGTERM


async def test_one_that_never_serves() -> None:
    entered = False
    for words in (shell("echo no; exit 3"), ["/nowhere/is/no/program"]):
        helper = Helper("console", lambda _, words=words: words)  # type: ignore[misc]
        with pytest.raises(ConfigError, match="the console cannot start"):
            async with helper.running():
                entered = True
    assert not entered


async def test_one_that_heeds_no_signal_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready at=1', flush=True); time.sleep(600)"
    )
    helper = Helper("console", lambda _: [sys.executable, "-c", code], grace=0.05)
    async with helper.running():
        pass
    assert helper.process is not None
    assert helper.process.returncode == -signal.SIGKILL
    assert "did not stop within" in caplog.text


async def test_an_error_of_the_server_ends_it_too() -> None:
    helper = Helper("console", lambda _: shell("echo ready at=1; exec sleep 600"))
    with suppress(ZeroDivisionError):
        async with helper.running():
            raise ZeroDivisionError
    assert helper.process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(helper.process.pid, 0)
    with trio.fail_after(1):
        assert await helper.process.wait() == -signal.SIGTERM
