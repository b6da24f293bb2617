"""The rooms of transactions, dead letters, delays and timers on a broker."""

from __future__ import annotations

import json
import re

import pytest

from pyrmq.console.pages import transactions
from pyrmq.console.views import cache
from pyrmq.server import Running
from tests.console import message_data
from tests.console.message_data import GROUP, LETTERS, SCRIPT, UNDECIDED
from tests.console.message_rooms import CHOSEN, links, rooms
from tests.support.fixtures import Serve
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("deadline")


async def test_transactions_are_decided(embedded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rooms(embedded) as there:
        await message_data.send_waiting(embedded.namesrv)
        page = await there.text("/transactions")
        assert UNDECIDED in page
        first, second = links(page, CHOSEN)
        assert links(await there.text("/transactions?group=others"), CHOSEN) == []
        broker, _, name = first.partition("/")
        assert "half-0" in await there.text(f"/transactions/one?broker={broker}&id={name}")
        asks = await there.text(f"/transactions/decide?verb=commit&chosen={first}")
        assert "cannot be taken back" in asks
        assert links(asks, CHOSEN) == [first]
        assert "1 committed" in await there.changed("/transactions/commit", {"chosen": first})
        assert len(links(await there.text("/messages?topic=txn"))) == 1
        again = await there.pages.post("/transactions/commit", {"chosen": first})
        assert again.status == 422
        assert re.search(r"is (committed|settled)", again.text)
        both = {"chosen": [first, second]}
        assert "1 failed" in await there.changed("/transactions/rollback", both)

        async def settled() -> bool:
            return links(await there.text("/transactions"), CHOSEN) == []

        await until(settled, "the op records are stored")
        assert "0" in await there.text("/transactions/discarded")
        monkeypatch.setattr(transactions, "PATIENCE", 0.0)
        assert "more than could be read in time" in await there.text("/transactions")
        await there.text("/transactions/discarded", 400)
        elsewhere = await there.pages.post("/transactions/commit", {"chosen": "127.0.0.1:7/1"})
        assert "no master of this cluster" in elsewhere.text


async def test_dead_letters_are_resent_and_saved(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "FRESH", 0.0)
    monkeypatch.setattr(cache, "LONGEST", 0.0)
    async with rooms(embedded) as there:
        assert "No group has dead letters" in await there.text("/dead-letters")
        broker = embedded.broker_address
        await message_data.send_letters(there.admin, embedded.namesrv, f"{broker[0]}:{broker[1]}")
        assert GROUP in await there.text("/dead-letters")
        page = await there.text(f"/dead-letters/group?group={GROUP}")
        chosen = links(page, CHOSEN)
        assert len(chosen) == LETTERS + 1
        only = await there.text(f"/dead-letters/group?group={GROUP}&key=letter-1")
        (one,) = links(only, CHOSEN)
        asks = await there.text(f"/dead-letters/resend?group={GROUP}&to=topic&chosen={one}")
        assert "<strong>1</strong> of 1 selected letter will be resent" in asks
        form = {"group": GROUP, "to": "topic", "chosen": one}
        assert "1 sent" in await there.changed("/dead-letters/resend", form)
        assert "1 skipped. What is skipped was resent before" in await there.changed(
            "/dead-letters/resend", form
        )
        again = await there.changed("/dead-letters/resend", {**form, "again": "yes"})
        assert "1 sent" in again
        every = await there.text(f"/dead-letters/resend?group={GROUP}&to=topic")
        assert "does not name its topic" in every
        rest = await there.changed("/dead-letters/resend", {"group": GROUP, "to": "topic"})
        assert "2 sent, 1 skipped, 1 failed" in rest
        saved = await there.pages.get(f"/dead-letters/export?group={GROUP}")
        assert saved.headers["content-type"] == "application/octet-stream"
        lines = [json.loads(line) for line in saved.body.splitlines()]
        assert [one["keys"] for one in lines if one["topic"] is None] == [["nameless"]]
        assert {"base64": "//4="} in [one["body"] for one in lines]
        assert any(isinstance(one["body"], str) and SCRIPT in one["body"] for one in lines)
        assert len(lines) == LETTERS + 1
        assert "no dead letters" in await there.text("/dead-letters/export?group=nobody", 400)


async def test_delays_and_timers(serve: Serve) -> None:
    timers = {"recall_message_enable": True, "timer_wheel_enable": True}
    async with serve(**timers) as running, rooms(running) as there:
        await message_data.send_waiting(running.namesrv)
        level = await there.text("/delay/level?broker=broker-a&level=17&from=0")
        assert "later" in level
        assert len(links(level)) == 1
        assert "<dt>" not in level

        async def counted() -> bool:
            return "/delay/timers?topic=later" in await there.text("/delay")

        await until(counted, "the timer is in the wheel")
        wheel = await there.text("/delay/timers?topic=later")
        (back,) = links(wheel, re.compile(r'href="(/delay/recall[^"]+)"'))
        assert links(await there.text("/delay/timers?topic=other")) == []
        asks = await there.text(back)
        form = dict(re.findall(r'type="hidden" name="([a-z]+)" value="([^"]*)"', asks))
        after = await there.changed("/delay/recall", form)
        assert "taken back" in after
        assert links(after, re.compile(r'href="(/delay/recall[^"]+)"')) == []
        for wrong in ("broker=broker-a&level=0", "broker=broker-a&level=40", "broker=x&level=1"):
            await there.text(f"/delay/level?{wrong}", 400)
