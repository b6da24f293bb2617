"""kill -9 of the master, the slave, both, again and again: what a SYNC_MASTER acknowledged is on
both, in order, once, and the logs are the same."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import thorough
from tests.support.client import Client
from tests.support.ledger import Ledger
from tests.system.ha.processes import Node, Pair

ROUNDS = 100 if thorough.THOROUGH else 10
SEND_OK = 0


class Sender:
    """Sends numbers to queue 0 of the master, one after the other, also while it is not there.
    The ledger has what was acknowledged."""

    def __init__(self, master: Node) -> None:
        self._master = master
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.number = 0
        self.ledger = Ledger("pair", in_place=True, ordered=True, single=True)
        self.acknowledged = 0

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(Exception), Client(self._master.address) as client:
                while not self._stop.is_set():
                    self.number += 1
                    body = b"%d" % self.number + b"." * (self.number % 900)
                    self.ledger.sent("T", self.number)
                    answer = client.send("T", body, queue_id=0)
                    if answer.code == SEND_OK:
                        place = int(answer.ext["queueOffset"])
                        self.ledger.acknowledged("T", self.number, place)
                        self.acknowledged += 1
            self._stop.wait(0.02)

    def wait_for_more(self, count: int = 20) -> None:
        wanted = self.acknowledged + count
        for _ in range(3000):
            if self.acknowledged >= wanted:
                return
            self._stop.wait(0.01)
        raise AssertionError(f"{self.acknowledged} acknowledged, {wanted} wanted")


def numbers(node: Node) -> list[int]:
    """What stands in queue 0, in order."""
    with Client(node.address) as client:
        end = client.max_offset("T", 0)
        records = client.pull_all("T", 0, 0, end)
    return [int(record.body.split(b".")[0]) for record in records]


@pytest.mark.parametrize(
    ("master", "slave"),
    [("ASYNC_FLUSH", "ASYNC_FLUSH"), ("SYNC_FLUSH", "ASYNC_FLUSH"), ("SYNC_FLUSH", "SYNC_FLUSH")],
)
def test_nothing_acknowledged_is_lost(tmp_path: Path, master: str, slave: str) -> None:
    chance = random.Random(thorough.seed())
    keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 500}
    with Pair(tmp_path, **keys) as pair:
        pair.master.keys["flushDiskType"] = master
        pair.slave.keys["flushDiskType"] = slave
        pair.master.stop()
        pair.master.start()
        pair.slave.stop()
        pair.slave.start()
        with Sender(pair.master) as sender:
            for _ in range(ROUNDS):
                sender.wait_for_more(chance.randrange(1, 60))
                killed = chance.choice([[pair.master], [pair.slave], [pair.master, pair.slave]])
                for node in killed:
                    node.kill()
                chance.shuffle(killed)
                for node in killed:
                    node.start()
            sender.wait_for_more()
        end = pair.wait_in_sync()
        assert pair.slave.log_bytes(end) == pair.master.log_bytes(end)
        on_master, on_slave = numbers(pair.master), numbers(pair.slave)
        assert on_master == on_slave
        for place, number in enumerate(on_master):
            sender.ledger.received("T", number, place)
        sender.ledger.check()
