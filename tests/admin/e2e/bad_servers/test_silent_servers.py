"""Servers that take requests and never answer: it takes one time-out, and who it was is said."""

from __future__ import annotations

import re

import pytest

from pyrmq.admin import channels
from pyrmq.admin.api import Admin
from pyrmq.errors import ConnectError, PyrmqError, RequestTimeoutError
from pyrmq.model.codes import RequestCode
from tests.admin.e2e.bad_servers.commands import Behind
from tests.admin.e2e.bad_servers.lines import LINES
from tests.support.mqadmin import Ran
from tests.support.scripted.script import SILENCE, Script
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "PROBE", 0.2)
    monkeypatch.setattr(channels, "AGAIN", 1000.0)


PATIENCE = 30.0
"""What an answer that comes may take on a slow machine."""
ASKING = [
    line
    for line in LINES
    if not line.startswith(("monitor", "namesrv", "topic order", "topic set-perm"))
]
AT_MOST = 10
"""Requests to one silent broker: those under way at once, and whether it answers anything."""


def _patiently(behind: Behind, line: str) -> Ran:
    """Waits longer again where the name server, which does answer, had not enough time to."""
    for timeout in ("0.3", "3", "30"):
        behind.door.unanswered = 0
        ran = behind.tree(line, "--timeout", timeout)
        if not re.search(rf"{behind.places['namesrv']} (does|did) not", ran.out + ran.err):
            break
    return ran


@pytest.mark.parametrize("line", ASKING)
def test_a_broker_is_silent(behind: Behind, short: None, line: str) -> None:
    """The state has 30 topics, 7 groups and topics of 4 queues: none is waited for on its own."""
    behind.door.silent = {behind.broker}
    ran = _patiently(behind, line)
    assert behind.door.unanswered <= AT_MOST
    if ran.code == 0:  # it asks name servers alone
        assert line.split()[1] in ("route", "clusters", "allocate")
        assert ran.err == ""
    else:
        assert ran.code in (2, 3)
        assert behind.places["broker"] in ran.out + ran.err
        assert " not answer" in ran.out + ran.err


@pytest.mark.parametrize(
    "line",
    ["topic list", "topic status Asked", "group progress Behind", "namesrv config get",
     "cluster list", "offset clone Behind Target Asked --yes", "message get {unique-3} -t Asked"],
)  # fmt: skip
def test_a_name_server_is_silent(behind: Behind, short: None, line: str) -> None:
    behind.door.silent = {behind.namesrv}
    ran = behind.tree(line, "--timeout", "0.3")
    assert ran.code == 2
    assert ran.out == "" or line.startswith("namesrv")
    assert f"{behind.places['namesrv']} d" in ran.err  # it did not answer, or does not answer


class _Mute(Script):
    """Answers nothing but what `change` says."""

    def usual(self, command: Command) -> Command:
        return SILENCE


async def test_a_silent_server_is_asked_a_trifle_and_then_left_alone(short: None) -> None:
    script = _Mute()
    with SocketServer(script).serving() as address:
        async with Admin(address, timeout=0.2) as admin:
            code = RequestCode.GET_BROKER_CONFIG
            with pytest.raises(RequestTimeoutError, match="26 GET_BROKER_CONFIG"):
                await admin.link.call(address, code)
            with pytest.raises(ConnectError, match="does not answer"):
                await admin.link.call(address, code)
            with pytest.raises(ConnectError, match="asked again after 1000 s"):
                await admin.link.call(address, code)
    assert [c.code for c in script.asked] == [26, 106]


async def test_a_slow_server_is_asked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request that takes too long says nothing of the others."""
    monkeypatch.setattr(channels, "PROBE", PATIENCE)
    script = _Mute()
    script.change[106] = lambda command: command.reply(3)
    script.change[28] = lambda command: command.reply(0)
    with SocketServer(script).serving() as address:
        async with Admin(address, timeout=0.2) as admin:
            for _ in range(2):
                with pytest.raises(RequestTimeoutError):
                    await admin.link.call(address, RequestCode.GET_BROKER_CONFIG)
                code = RequestCode.GET_BROKER_RUNTIME_INFO
                answer = await admin.link.call(address, code, timeout=PATIENCE)
                assert answer.code == 0
    assert [c.code for c in script.asked] == [26, 106, 28, 26, 106, 28]


async def test_a_server_that_comes_back_is_asked_again(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "AGAIN", 0.0)
    script = _Mute()
    with SocketServer(script).serving() as address:
        async with Admin(address, timeout=0.2) as admin:
            for _ in range(3):
                with pytest.raises(PyrmqError):
                    await admin.link.call(address, RequestCode.GET_BROKER_CONFIG)
            script.change[26] = script.change[106] = lambda command: command.reply(0)
            monkeypatch.setattr(channels, "PROBE", PATIENCE)
            code = RequestCode.GET_BROKER_CONFIG
            assert (await admin.link.call(address, code, timeout=PATIENCE)).code == 0
