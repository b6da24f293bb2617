"""What consumers see, and where groups are, over outages and restarts of a pair of processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyrmq import sync
from pyrmq.client import ConsumeFrom
from tests.support.client import QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, Client
from tests.support.wire import Command
from tests.system.ha.processes import Pair, eventually
from tests.system.ha.test_pair import FLUSH_SLAVE_TIMEOUT, read_all, send_many

NO_PERMISSION = 16
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 300}


def seen(pair: Pair) -> list[bytes]:
    with Client(pair.master.address) as client:
        return sorted(read_all(client, "T"))


def send_alone(pair: Pair, body: bytes) -> int:
    with Client(pair.master.address) as client:
        return client.send("T", body).code


class TestWhatIsSeen:
    @pytest.mark.parametrize("how", ["stop", "kill"])
    def test_a_restart_shows_what_the_slave_had(self, tmp_path: Path, how: str) -> None:
        with Pair(tmp_path, **SYNC) as pair:
            bodies = sorted(send_many(pair, 4))
            pair.slave.kill()
            assert send_alone(pair, b"on one machine") == FLUSH_SLAVE_TIMEOUT
            assert seen(pair) == bodies
            pair.master.stop() if how == "stop" else pair.master.kill()
            pair.master.start()
            assert seen(pair) == bodies
            assert "no slave is known to have the log from" in pair.master.stderr()
            pair.slave.start()
            eventually(lambda: seen(pair) == sorted([*bodies, b"on one machine"]))

    def test_nobody_sees_what_a_promoted_slave_has_not(self, tmp_path: Path) -> None:
        with Pair(tmp_path, **SYNC) as pair:
            send_many(pair, 4)
            pair.slave.kill()
            send_alone(pair, b"on one machine")
            pair.master.stop()
            pair.master.start()
            shown = seen(pair)
            pair.master.kill()
            pair.slave.start()
            assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
            assert pair.slave.process is not None
            pair.slave.process.line(20)
            with Client(pair.slave.address) as client:
                assert sorted(read_all(client, "T")) == shown

    def test_with_nobody_to_wait_for_a_send_is_answered_at_the_write(self, tmp_path: Path) -> None:
        keys = {**SYNC, "enableAutoInSyncReplicas": "true", "slaveTimeout": 60_000}
        with Pair(tmp_path, **keys) as pair:
            send_many(pair, 1)
            pair.slave.kill()
            eventually(lambda: not pair.master.status()["haConnectionInfo"])
            # One after the other: each would wait for the next look at who is in sync.
            with Client(pair.master.address, timeout=20) as client:
                assert {client.send("T", b"%d" % n).code for n in range(300)} == {0}
            assert len(seen(pair)) == 301


def offsets_of(client: Client, group: str) -> int:
    """The sum over the queues of T; 0 where there is none."""
    total = 0
    for queue in range(4):
        answer = client.call(
            QUERY_CONSUMER_OFFSET,
            consumerGroup=group,
            topic="T",
            queueId=queue,
            setZeroIfNotFound="false",
        )
        total += int(answer.ext["offset"]) if answer.code == 0 else 0
    return total


def commit(
    client: Client, group: str, offset: int, queue: int = 0, *, hand_over: bool = False
) -> Command:
    return client.call(
        UPDATE_CONSUMER_OFFSET,
        consumerGroup=group,
        topic="T",
        queueId=queue,
        commitOffset=offset,
        handOver=str(hand_over).lower(),
    )


def consume(pair: Pair, group: str, count: int) -> Counter[bytes]:
    """Takes so many messages, and leaves; the last one is not acknowledged."""
    got: Counter[bytes] = Counter()
    with sync.PushConsumer(
        group,
        {"T": "*"},
        namesrv=pair.namesrv,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        persist_interval=0.2,
    ) as consumer:
        for message in consumer:
            got[message.body] += 1
            if sum(got.values()) == count:
                break
    return got


class TestOffsets:
    def test_what_was_committed_at_the_slave_is_the_master_s_afterwards(
        self, tmp_path: Path
    ) -> None:
        with Pair(tmp_path) as pair:
            send_many(pair, 40, size=10)
            pair.wait_in_sync()
            with Client(pair.master.address) as master, Client(pair.slave.address) as slave:
                assert commit(master, "was-set", 3).code == 0
                eventually(lambda: offsets_of(slave, "was-set") == 3)
            pair.master.kill()
            with Client(pair.slave.address) as slave:
                for group, offset in (("stopped", 7), ("new", 5), ("was-set", 9)):
                    for queue in range(4):
                        assert commit(slave, group, offset, queue).code == 0
                assert offsets_of(slave, "stopped") == 28
            pair.master.start()
            with Client(pair.master.address) as master, Client(pair.slave.address) as slave:
                # Before the slave has told it anything: what the master is told counts more.
                assert commit(master, "was-set", 2).code == 0
                eventually(
                    lambda: offsets_of(master, "stopped") == 28 and offsets_of(master, "new") == 20,
                    why=lambda: pair.slave.stderr() + pair.master.stderr(),
                )
                eventually(lambda: offsets_of(master, "was-set") == 2 + 3 * 9)
                eventually(lambda: offsets_of(slave, "was-set") == 2 + 3 * 9)

    def test_a_group_that_ran_in_the_outage_gets_nothing_again(self, tmp_path: Path) -> None:
        with Pair(tmp_path) as pair:
            send_many(pair, 20, size=10)
            pair.wait_in_sync()
            pair.master.kill()
            first = consume(pair, "G", 15)
            pair.master.start()
            with Client(pair.master.address) as master:
                eventually(lambda: offsets_of(master, "G") == 14, why=pair.slave.stderr)
            rest = consume(pair, "G", 6)
            assert len(first + rest) == 20
            assert (first + rest).total() == 21

    def test_a_stranger_hands_nothing_over(self, tmp_path: Path) -> None:
        with Pair(tmp_path) as pair:
            send_many(pair, 4, size=10)
            pair.slave.stop()
            pair.master.stop()
            pair.master.start()
            with Client(pair.master.address) as master:
                # No slave is registered any more.
                answer = commit(master, "G", 1, hand_over=True)
                assert answer.code == NO_PERMISSION
                assert "handed over by slaves" in (answer.remark or "")
