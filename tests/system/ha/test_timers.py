"""Timer messages of a pair: a slave has the wheel too, delivers nothing, and takes over where its
master was."""

from __future__ import annotations

from pathlib import Path

from pyrmq.model.codes import RequestCode as Code
from tests.support.client import Client
from tests.support.delays import runtime_info
from tests.system.ha.processes import Node, Pair, eventually

TOPIC = "T"


def fields(node: Node) -> list[int]:
    """The check point of a broker."""
    body = node.ask(Code.GET_TIMER_CHECK_POINT).body
    return [int.from_bytes(body[at : at + 8], "big") for at in range(0, 56, 8)]


def waiting(node: Node) -> int:
    with Client(node.address) as client:
        return int(runtime_info(client)["timerCongestNum"])


def came(node: Node) -> list[bytes]:
    with Client(node.address) as client:
        end = client.max_offset(TOPIC, 0)
        return [record.body for record in client.pull_all(TOPIC, 0, 0, end)]


def test_a_promoted_slave_goes_on_with_its_masters_timers(tmp_path: Path) -> None:
    with Pair(tmp_path, brokerRole="SYNC_MASTER", inSyncReplicas=2) as pair:
        with Client(pair.master.address) as client:
            assert client.send(TOPIC, b"first", queue_id=1).code == 0
            for n in range(40):
                delay = {"TIMER_DELAY_MS": "1" if n % 2 else "15000"}
                assert client.send(TOPIC, b"%d" % n, properties=delay).code == 0
            eventually(lambda: client.max_offset(TOPIC, 0) == 20, why=pair.master.stderr)
        pair.wait_in_sync()
        queued = 20  # those that waited at all
        eventually(lambda: waiting(pair.slave) == queued, why=pair.slave.stderr)
        assert len(came(pair.slave)) == 20
        assert fields(pair.slave)[2] == fields(pair.master)[2]
        pair.master.kill()
        assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert pair.slave.process is not None
        pair.slave.process.line(20)
        eventually(lambda: len(came(pair.slave)) >= 40, why=pair.slave.stderr)
        assert sorted(came(pair.slave)) == sorted(b"%d" % n for n in range(40))
        assert waiting(pair.slave) == 0
