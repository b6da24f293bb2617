"""Brokers are restarted one by one while clients send and consume: no send of ours fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from tests.support.command import Serving, run
from tests.support.waiting import eventually_trio
from tests.system.ha.processes import Node
from tests.system.rolling.load import TOPIC, Load

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("deadline")]
SOME = 200
"""Messages that are sent between two restarts."""


@contextmanager
def cluster(folder: Path, slaves: int, **keys: object) -> Iterator[tuple[str, list[Node]]]:
    """A name server and two masters, each with so many slaves; masters last."""
    conf = folder / "namesrv.conf"
    conf.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n")
    nodes: list[Node] = []
    with Serving(folder / "namesrv.log", "namesrv", "-c", str(conf)) as server:
        namesrv = server.facts["namesrv"]
        try:
            for name in ("broker-a", "broker-b"):
                for number in range(slaves, -1, -1):
                    role = {"brokerRole": "SLAVE", "brokerId": number} if number else {}
                    own = {"mappedFileSizeCommitLog": 1 << 24, "brokerName": name, **keys, **role}
                    nodes.append(Node(folder / f"{name}-{number}", namesrv, **own))
            for node in reversed(nodes):
                node.start()
            create = ("admin", "topic", "create", "-c", "DefaultCluster", "--queues", "4", TOPIC)
            done = run(*create, "-n", namesrv, timeout=60)
            assert done.returncode == 0, done.stderr.decode()
            yield namesrv, nodes
        finally:
            for node in nodes:
                node.end()


async def sent_more(load: Load, broker: str = "") -> None:
    """Waits until the load has gone on for a while, and `broker` takes part."""
    total, there = load.sent.total() + SOME, load.brokers[broker] + 1
    await eventually_trio(lambda: load.sent.total(), "it is sent on", until=lambda n: n >= total)
    if broker:
        await eventually_trio(
            lambda: load.brokers[broker], f"{broker} gets messages", 90, until=lambda n: n >= there
        )


PAIRS = pytest.param(1, id="pairs", marks=pytest.mark.thorough("six processes for half a minute"))


@pytest.mark.parametrize("slaves", [pytest.param(0, id="masters"), PAIRS])
async def test_a_rolling_restart_fails_no_send(tmp_path: Path, slaves: int) -> None:
    with cluster(tmp_path, slaves) as (namesrv, nodes):
        load = Load(namesrv)
        async with trio.open_nursery() as nursery:
            await nursery.start(load.run)
            for node in nodes:
                is_master = "brokerId" not in node.keys
                await sent_more(load, str(node.keys["brokerName"]) if is_master else "")
                await trio.to_thread.run_sync(node.stop)
                await sent_more(load)
                await trio.to_thread.run_sync(node.start)
            await sent_more(load, "broker-a")
            load.stop()
            await load.ended.wait()
            await eventually_trio(lambda: load.owed, "all is consumed", 90, until=lambda n: n == 0)
            nursery.cancel_scope.cancel()
        assert load.failed == []
        for ledger in (load.push, load.pop):
            ledger.check()
        print({**load.sent}, {**load.brokers}, load.push.row().again, load.pop.row().again)
