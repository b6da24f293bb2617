"""reclaimAfter=table of a pair: a master keeps what its slave has not, and the slave keeps all."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.client import Client
from tests.system.ha.processes import FILE, Node, Pair, eventually

TOPIC, GROUP = "T", "Tables"
UPDATE_CONSUMER_OFFSET, DISK = 15, 27003
KEYS = {
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "SYNC_FLUSH",
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 100,
    "deleteCommitLogFilesInterval": 0,
    "cleanFileForciblyEnable": "false",
    "reclaimAfter": "table",
    "reclaimGroup": GROUP,
}
SIZE = FILE // 5


def fill(node: Node, count: int) -> None:
    """Adds messages, four to a file; the table has all of them at once."""
    with Client(node.address) as client:
        for _ in range(count):
            assert client.send(TOPIC, b"x" * SIZE).code == 0
        end = client.max_offset(TOPIC, 0)
        place = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": end}
        assert client.call(UPDATE_CONSUMER_OFFSET, **place).code == 0


def begins(node: Node) -> int:
    return min(int(path.name) for path in (node.store / "commitlog").iterdir())


def why(node: Node) -> str:
    found: str = json.loads(node.ask(DISK).body)["reclaim"]["why"]
    return found


def test_a_master_keeps_what_its_slave_has_not(tmp_path: Path) -> None:
    with Pair(tmp_path, **KEYS) as pair:
        master, slave = pair.master, pair.slave
        fill(master, 20)
        eventually(lambda: begins(master) > 0, why=master.stderr)
        slave.kill()
        had = begins(master)
        fill(master, 40)
        eventually(lambda: "the slave at 127.0.0.1" in why(master), why=master.stderr)
        assert begins(master) - had <= 5 * FILE, "what the slave has not stays"
        slave.start()
        eventually(lambda: begins(master) >= 8 * FILE, why=master.stderr)
        eventually(lambda: slave.end_of_log() == master.end_of_log(), why=slave.stderr)
        assert begins(slave) == 0, "a slave deletes by the usual rules"
        assert "reclaim" not in json.loads(slave.ask(DISK).body)
        master.kill()
        assert slave.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert slave.process is not None
        slave.process.line(20)
        eventually(lambda: begins(slave) >= 8 * FILE, why=slave.stderr)
