"""Two resends of the dead letters of one group at the same time."""

from __future__ import annotations

from contextlib import aclosing
from types import SimpleNamespace

import pytest

from pyrmq.admin import Admin, resend_lock
from pyrmq.admin.dead_letters import RESENT_FROM, Selection
from pyrmq.admin.resend import ResentState, To
from pyrmq.errors import ClientError
from pyrmq.model.message import Message
from pyrmq.server import Running
from tests.admin.e2e.test_dead_letters import _stored
from tests.admin.e2e.test_groups import broker
from tests.support.dead_letters import die, make_group, send_all
from tests.support.mqadmin import admin

GROUP, TOPIC = "Dying", "Orders"
COUNT = 5


async def _letters(server: Running, tools: Admin) -> None:
    await make_group(tools, server.namesrv, GROUP, broker(server))
    sent = await send_all(server.namesrv, *(Message(TOPIC, b"%d" % n) for n in range(COUNT)))
    await die(tools, GROUP, broker(server), *sent)


async def _resent(tools: Admin) -> list[bytes]:
    """The bodies that resends have sent."""
    return sorted(m.body for m in await _stored(tools, TOPIC) if RESENT_FROM in m.properties)


async def _states(tools: Admin) -> list[ResentState]:
    plan = await tools.dead_letters.preview(GROUP, To.TOPIC, Selection())
    return [one.state async for one in tools.dead_letters.resend(plan)]


async def test_a_second_run_sends_nothing_while_the_first_is_under_way(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools, Admin(embedded.namesrv) as others:
        await _letters(embedded, tools)
        plan = await tools.dead_letters.preview(GROUP, To.TOPIC, Selection())
        async with aclosing(tools.dead_letters.resend(plan)) as done:
            assert (await anext(done)).state is ResentState.SENT
            with pytest.raises(ClientError, match=r"%DLQ%Dying on broker .* by another run: wait"):
                await _states(others)
            refused = await admin(
                embedded.namesrv, "dlq", "resend", GROUP, "--to", "group", "--all", "--yes"
            )
            assert refused.code == 2
            assert "another run" in refused.err
            assert await _resent(tools) == [b"0"]
            assert len([one async for one in done]) == COUNT - 1
        assert await _states(others) == [ResentState.SKIPPED] * COUNT, "at once: the index has all"
        assert await _resent(tools) == [b"%d" % n for n in range(COUNT)]


async def test_a_run_that_is_left_gives_its_lock_back(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _letters(embedded, tools)
        plan = await tools.dead_letters.preview(GROUP, To.TOPIC, Selection())
        async with aclosing(tools.dead_letters.resend(plan)) as done:
            await anext(done)
        assert (await _states(tools)).count(ResentState.SENT) >= COUNT - 1


async def test_a_run_that_was_held_up_sends_nothing_more(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Admin(embedded.namesrv) as tools:
        await _letters(embedded, tools)
        plan = await tools.dead_letters.preview(GROUP, To.TOPIC, Selection())
        async with aclosing(tools.dead_letters.resend(plan)) as done:
            await anext(done)
            monkeypatch.setattr(resend_lock, "LIFETIME", 0.0)
            with pytest.raises(ClientError, match="has lost its lock of %DLQ%Dying"):
                await anext(done)
        assert await _resent(tools) == [b"0"]


async def test_the_lock_is_renewed(embedded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewing finds that another run has it, as after a restart of the broker."""
    monkeypatch.setattr(resend_lock, "RENEW", 0.0)
    monkeypatch.setattr(resend_lock, "uuid4", lambda: SimpleNamespace(hex="first"))
    async with Admin(embedded.namesrv) as tools:
        await _letters(embedded, tools)
        plan = await tools.dead_letters.preview(GROUP, To.TOPIC, Selection())
        (queue,) = [part.queue for part in plan.parts]
        async with aclosing(tools.dead_letters.resend(plan)) as done:
            await anext(done)
            await anext(done)
            async with resend_lock.ResendLock(tools.link, queue).held():
                pass  # it has the name of the run, and gives its lock back
            monkeypatch.setattr(resend_lock, "uuid4", lambda: SimpleNamespace(hex="other"))
            async with resend_lock.ResendLock(tools.link, queue).held():
                with pytest.raises(ClientError, match="another run"):
                    await anext(done)
        assert await _resent(tools) == [b"0", b"1"]
