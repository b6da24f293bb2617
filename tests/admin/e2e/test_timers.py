"""`admin.timers` and `pyrmq admin timer`, of a broker whose messages wait; then of its store."""

from __future__ import annotations

import json
from pathlib import Path

import trio
from click.testing import CliRunner

import pyrmq.testing
from pyrmq import Message, Producer
from pyrmq.admin import Admin
from pyrmq.admin.timers import Bar
from pyrmq.cli import main
from pyrmq.engine import inspect_store
from pyrmq.net.address import format_address
from pyrmq.testing import TestServer
from tests.support.mqadmin import admin

CLUSTER = "DefaultCluster"


async def send(server: TestServer) -> None:
    """Five to Orders and one to Mails, all in the wheel."""
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for minutes in (5, 10, 90, 100, 24 * 60):
            await producer.send(Message("Orders", b"x", delay=minutes * 60))
        await producer.send(Message("Mails", b"x", delay=3600.5))
    await waiting(server, 6)


async def waiting(server: TestServer, count: int) -> None:
    """Returns when so many messages are in the wheel."""
    async with Admin(server.namesrv) as tools:
        with trio.fail_after(30):
            while True:
                found = await tools.timers.figures_of(format_address(server.broker_address))
                if found.total == count and not found.offset_behind:
                    return
                await trio.sleep(0.01)


async def test_what_waits(tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with pyrmq.testing.broker(store) as server:
        await send(server)
        async with Admin(server.namesrv) as tools:
            bounds = [60, 1200, 7200, 86_000]
            (of,) = await tools.timers.figures(cluster=CLUSTER, bounds=bounds)
            found = of.outcome.value
            assert found is not None
            counts = [0, 2, 3, 0, 1]
            assert found.bars == [
                Bar(end, n) for end, n in zip([*bounds, None], counts, strict=True)
            ]
            assert {t.topic: t.count for t in found.topics} == {"Orders": 5, "Mails": 1}
            assert found.read_behind <= 1
        server.clock.advance(1200)
        await waiting(server, 4)
        shown = await admin(server.namesrv, "timer", "show", "-c", CLUSTER, "--bounds", "10m,2h")
        assert shown.code == 0, shown.err
        assert [line.split()[:4] for line in shown.out.splitlines()[:4]] == [
            ["DUE", "MESSAGES"],
            ["within", "10m", "0"],
            ["10m", "to", "2h", "3"],
            ["after", "2h", "1", "#" * 13],
        ]
        topics = await admin(server.namesrv, "timer", "topics", "-c", CLUSTER, "-o", "json")
        (rows,) = json.loads(topics.out).values()
        assert {row["topic"]: row["count"] for row in rows} == {"Orders": 3, "Mails": 1}
    facts = inspect_store(store)["timers"]
    assert (facts["waiting"], facts["slots"], facts["precisionMs"]) == (4, 4, 1000)
    assert (facts["queueOffset"], facts["queueEnd"], facts["faults"]) == (6, 6, [])
    said = CliRunner().invoke(main, ["store", "inspect", str(store)])
    assert "timers      4 wait in 4 slots" in said.output
    verified = CliRunner().invoke(main, ["store", "verify", str(store)])
    assert verified.exit_code == 0, verified.output
    assert "4 timers wait in 4 slots, 6 units in the timer log" in verified.output


async def test_a_damaged_wheel_is_found(tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with pyrmq.testing.broker(store) as server:
        await send(server)
    (log,) = (store / "timerlog").iterdir()
    with log.open("r+b") as file:
        file.seek(52)
        file.write(bytes(52))
    verified = CliRunner().invoke(main, ["store", "verify", str(store), "--json"])
    assert verified.exit_code == 1
    assert "timerwheel" in verified.output
    assert "the next start of pyrmq makes wheel and timer log again" in verified.output
    async with pyrmq.testing.broker(store) as server:
        await waiting(server, 6)
    assert CliRunner().invoke(main, ["store", "verify", str(store)]).exit_code == 0
