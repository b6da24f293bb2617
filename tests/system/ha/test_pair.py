"""A master and a slave as processes: the same log, reading on, taking over, and what is refused."""

from __future__ import annotations

import shutil
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq import Message, sync
from tests.support.client import UPDATE_CONSUMER_OFFSET, Client
from tests.support.command import assert_refused, run
from tests.system.ha.processes import FILE, Node, Pair, eventually

SERVICE_NOT_AVAILABLE = 14
SLAVE_NOT_AVAILABLE = 11
FLUSH_SLAVE_TIMEOUT = 12
NO_PERMISSION = 16
UPDATE_BROKER_CONFIG = 25


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Pair(tmp_path) as pair:
        yield pair


def send_many(pair: Pair, count: int, size: int = 700, topic: str = "T") -> list[bytes]:
    bodies = [b"%d-" % i + b"x" * size for i in range(count)]
    with sync.Producer("senders", namesrv=pair.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body, tags="A", keys="k"))
    return bodies


def read_all(client: Client, topic: str, queues: int = 4) -> list[bytes]:
    """The bodies of all messages that a broker gives to consumers."""
    bodies = []
    for queue in range(queues):
        end = client.max_offset(topic, queue)
        bodies += [record.body for record in client.pull_all(topic, queue, 0, end)]
    return bodies


class TestFollowing:
    def test_the_log_is_the_same_over_files_and_restarts(self, pair: Pair) -> None:
        bodies = send_many(pair, 300)
        end = pair.wait_in_sync()
        assert end > 2 * FILE
        assert pair.slave.log_bytes(end) == pair.master.log_bytes(end)
        pair.slave.stop()
        bodies += send_many(pair, 100)
        pair.slave.start()
        end = pair.wait_in_sync()
        assert pair.slave.log_bytes(end) == pair.master.log_bytes(end)
        for node in (pair.master, pair.slave):
            with Client(node.address) as client:
                assert sorted(read_all(client, "T")) == sorted(bodies)

    def test_transactions_and_delays_are_messages_like_others(self, pair: Pair) -> None:
        with sync.Producer("senders", namesrv=pair.namesrv) as producer:
            for level in (1, 3):
                producer.send(Message("Later", b"later", properties={"DELAY": str(level)}))
        eventually(lambda: pair.master.end_of_log() > 0)
        end = pair.wait_in_sync()
        assert pair.slave.log_bytes(end) == pair.master.log_bytes(end)
        status = pair.slave.ask(45)  # GET_ALL_DELAY_OFFSET: the slave delivers nothing itself
        assert status.code == 0

    def test_a_slave_that_starts_empty_begins_at_the_last_file(self, tmp_path: Path) -> None:
        with Pair(tmp_path) as pair:
            pair.slave.stop()
            send_many(pair, 300)
            late = Node(tmp_path / "late", pair.namesrv, brokerRole="SLAVE", brokerId=2)
            late.start()
            try:
                end = pair.master.end_of_log()
                eventually(
                    lambda: late.status()["haClientRuntimeInfo"]["maxOffset"] == end,
                    why=late.stderr,
                )
                found = late.log_bytes(end)
                base = end - end % FILE
                assert list(found) == [f"{base:020}"]
                assert found == {f"{base:020}": pair.master.log_bytes(end)[f"{base:020}"]}
            finally:
                late.end()


class TestSlave:
    def test_it_refuses_what_would_write(self, pair: Pair) -> None:
        send_many(pair, 1)
        pair.wait_in_sync()
        with Client(pair.slave.address) as client:
            answer = client.send("T")
            assert answer.code == SERVICE_NOT_AVAILABLE
            assert "slave" in (answer.remark or "")
            answer = client.send("Unknown")
            assert answer.code == SERVICE_NOT_AVAILABLE
            answer = client.call(37, tranStateTableOffset=0, commitLogOffset=0, producerGroup="g")
            assert answer.code == SLAVE_NOT_AVAILABLE
            answer = client.call(17, topic="New", readQueueNums=1, writeQueueNums=1, perm=6)
            assert "master" in (answer.remark or "")

    def test_its_tables_follow(self, pair: Pair) -> None:
        assert "WARNING" not in pair.slave.stderr()
        with Client(pair.master.address) as client:
            for name in ("One", "Two"):
                ext: dict[str, Any] = {
                    "topic": name, "defaultTopic": "TBW102", "readQueueNums": 3,
                    "writeQueueNums": 3, "perm": 6, "topicFilterType": "SINGLE_TAG",
                    "topicSysFlag": 0, "order": "false",
                }  # fmt: skip
                assert client.call(17, **ext).code == 0
            offset: dict[str, Any] = {"topic": "One", "consumerGroup": "readers", "queueId": 1}
            assert client.call(15, **offset, commitOffset=0).code == 0
        with Client(pair.slave.address) as client:

            def known() -> bool:
                topics = client.call(21).body
                return b'"One"' in topics and b'"Two"' in topics

            eventually(known, why=pair.slave.stderr)
            eventually(lambda: client.call(14, **offset).ext.get("offset") == "0")
        with Client(pair.master.address) as client:
            assert client.call(215, topic="Two").code == 0
        with Client(pair.slave.address) as client:
            eventually(lambda: b'"Two"' not in client.call(21).body, why=pair.slave.stderr)

    def test_consumers_read_on_there_when_the_master_is_gone(self, pair: Pair) -> None:
        bodies = send_many(pair, 50)
        pair.wait_in_sync()
        with Client(pair.slave.address) as client:
            eventually(lambda: b'"T"' in client.call(21).body)
            pair.master.kill()
            assert sorted(read_all(client, "T")) == sorted(bodies)


class TestSyncMaster:
    def test_one_that_waits_for_nobody_says_so(self, tmp_path: Path) -> None:
        with Pair(tmp_path, brokerRole="SYNC_MASTER") as pair:
            assert "waits for no slave: set inSyncReplicas=2" in pair.master.stderr()
            send_many(pair, 1)

    def test_what_it_acknowledges_is_on_both(self, tmp_path: Path) -> None:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 500}
        with Pair(tmp_path, **keys) as pair:
            bodies = send_many(pair, 30)
            pair.master.kill()
            with Client(pair.slave.address) as client:
                eventually(lambda: b'"T"' in client.call(21).body)
                assert sorted(read_all(client, "T")) == sorted(bodies)

    def test_without_its_slave_senders_and_consumers_wait(self, tmp_path: Path) -> None:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 300}
        with Pair(tmp_path, **keys) as pair:
            send_many(pair, 1)
            pair.slave.stop()
            with Client(pair.master.address) as client:
                answer = client.send("T", b"alone", queue_id=0)
                assert answer.code == FLUSH_SLAVE_TIMEOUT
                assert b"alone" not in read_all(client, "T")
                answer = client.send("T", b"hurry", queue_id=0, properties={"WAIT": "false"})
                assert answer.code == 0
                pair.slave.start()
                pair.wait_in_sync()
                eventually(lambda: {b"alone", b"hurry"} <= set(read_all(client, "T")))

    def test_how_many_it_waits_for_changes_while_it_runs(self, tmp_path: Path) -> None:
        """An operator lets producers go on while the slave is away, and has them wait again."""
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 300}
        with Pair(tmp_path, **keys) as pair:
            send_many(pair, 1)
            pair.slave.stop()
            with Client(pair.master.address) as client:
                assert client.send("T", b"late", queue_id=0).code == FLUSH_SLAVE_TIMEOUT
                assert b"late" not in read_all(client, "T")
                _want(pair, "inSyncReplicas=1")
                assert b"late" in read_all(client, "T"), "it counts at once"
                assert client.send("T", b"alone", queue_id=0).code == 0
                assert b"alone" in read_all(client, "T")
                _want(pair, "inSyncReplicas=2")
                assert client.send("T", b"again", queue_id=0).code == FLUSH_SLAVE_TIMEOUT
                assert b"alone" in read_all(client, "T"), "what was seen stays seen"
                assert b"again" not in read_all(client, "T")
                _want(pair, "minInSyncReplicas=2")
                refused = client.send("T", b"refused", queue_id=0)
                assert "in-sync replicas not enough" in (refused.remark or "")
                answer = pair.master.ask(UPDATE_BROKER_CONFIG, body=b"inSyncReplicas=1\n")
                assert "minInSyncReplicas is at most inSyncReplicas" in (answer.remark or "")
                pair.slave.start()
                pair.wait_in_sync()
                eventually(lambda: client.send("T", b"both", queue_id=0).code == 0)

    def test_one_that_waits_for_nobody_can_be_told_to(self, tmp_path: Path) -> None:
        with Pair(tmp_path, brokerRole="SYNC_MASTER", slaveTimeout=300) as pair:
            send_many(pair, 1)
            pair.slave.stop()
            with Client(pair.master.address) as client:
                assert client.send("T", b"alone", queue_id=0).code == 0
                _want(pair, "inSyncReplicas=2")
                assert client.send("T", b"late", queue_id=0).code == FLUSH_SLAVE_TIMEOUT
                assert b"late" not in read_all(client, "T")
                pair.slave.start()
                pair.wait_in_sync()
                eventually(lambda: b"late" in read_all(client, "T"))

    def test_with_too_few_replicas_nothing_is_stored(self, tmp_path: Path) -> None:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "minInSyncReplicas": 2}
        with Pair(tmp_path, **keys) as pair:
            send_many(pair, 1)
            pair.slave.stop()
            end = pair.master.end_of_log()
            with Client(pair.master.address) as client:
                answer = client.send("T")
            assert answer.code == 1
            assert "in-sync replicas not enough" in (answer.remark or "")
            assert pair.master.end_of_log() == end


def _want(pair: Pair, line: str) -> None:
    answer = pair.master.ask(UPDATE_BROKER_CONFIG, body=f"{line}\n".encode())
    assert answer.code == 0, answer.remark


class TestTakingOver:
    def test_a_slave_is_promoted_once_its_master_is_gone(self, tmp_path: Path) -> None:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
        with Pair(tmp_path, **keys) as pair:
            bodies = send_many(pair, 20)
            refused = pair.slave.set_role(brokerRole="ASYNC_MASTER")
            assert refused.code == NO_PERMISSION
            assert "stop it first" in (refused.remark or "")
            pair.master.kill()
            done = pair.slave.set_role(brokerRole="ASYNC_MASTER")
            assert done.code == 0, done.remark
            assert pair.slave.process is not None
            assert pair.slave.process.line(20).startswith("ready ")
            bodies += send_many(pair, 20)
            with Client(pair.slave.address) as client:
                assert sorted(read_all(client, "T")) == sorted(bodies)
            # The old one must not stand beside it.
            conf = str(tmp_path / "master" / "broker.conf")
            again = run("broker", "-c", conf, "-n", pair.namesrv, timeout=40)
            assert_refused(again, "is master of brokerName=pair already", "brokerRole=SLAVE")
            # As its slave it follows: it had nothing of its own.
            pair.master.keys |= {"brokerRole": "SLAVE", "brokerId": 1}
            pair.master.start()
            end = pair.slave.end_of_log()
            eventually(
                lambda: pair.master.status()["haClientRuntimeInfo"]["maxOffset"] == end,
                why=pair.master.stderr,
            )
            assert pair.master.log_bytes(end) == pair.slave.log_bytes(end)

    def test_the_new_role_outlives_restarts_until_the_file_says_otherwise(self, pair: Pair) -> None:
        send_many(pair, 5)
        pair.wait_in_sync()
        pair.master.kill()
        assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert pair.slave.process is not None
        pair.slave.process.line(20)
        pair.slave.stop()
        pair.slave.start()
        assert pair.slave.status()["master"] is True
        pair.slave.stop()
        pair.slave.keys["brokerId"] = 7
        pair.slave.start()
        assert pair.slave.status()["master"] is False
        assert "does not count any more" in pair.slave.stderr()

    def test_a_log_that_went_apart_is_refused_and_kept(self, pair: Pair) -> None:
        send_many(pair, 5)
        pair.wait_in_sync()
        pair.slave.stop()
        send_many(pair, 5)  # which the slave never gets
        with Client(pair.master.address) as client:
            ends = [client.max_offset("T", queue) for queue in range(4)]
            for queue, offset in enumerate(ends):
                answer = client.call(
                    UPDATE_CONSUMER_OFFSET,
                    consumerGroup="all-read",
                    topic="T",
                    queueId=queue,
                    commitOffset=offset,
                )
                assert answer.code == 0
        eventually((pair.master.store / "config" / "consumerOffset.json").exists)
        kept = pair.master.log_bytes(pair.master.end_of_log())
        pair.master.kill()
        pair.slave.start()
        assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert pair.slave.process is not None
        pair.slave.process.line(20)
        send_many(pair, 30)
        pair.master.keys |= {"brokerRole": "SLAVE", "brokerId": 1}
        pair.master.start()

        def refused() -> bool:
            return bool(pair.master.status()["haClientRuntimeInfo"].get("state") == "MISFIT")

        eventually(refused, why=pair.master.stderr)
        assert "the logs went apart" in pair.master.stderr()
        assert "rejoin" in pair.master.status()["haClientRuntimeInfo"]["why"]
        end = sum(len(part) for part in kept.values())
        assert pair.master.log_bytes(end) == kept
        # By an operator's word what it had alone is put aside, and it follows.
        pair.master.stop()
        store = str(pair.master.store)
        args = ("store", "rejoin", store, "--master", pair.slave.text_address)
        assert_refused(run(*args, stdin=b"n\n"), "Abort")
        done = run(*args, "--yes")
        assert done.returncode == 0, done.stderr.decode()
        assert b"5 messages, which" in done.stdout
        (aside,) = pair.master.store.glob("rejoin-*")
        (tail,) = aside.glob("commitlog-tail-*")
        assert b"".join(kept.values()).endswith(tail.read_bytes())
        assert len((aside / "messages.jsonl").read_text().splitlines()) == 5
        assert (aside / "consumerOffset.json").exists()
        assert b"nothing to put aside" in run(*args).stdout
        pair.master.start()
        end = pair.slave.end_of_log()
        eventually(
            lambda: pair.master.status()["haClientRuntimeInfo"]["maxOffset"] == end,
            why=pair.master.stderr,
        )
        assert pair.master.log_bytes(end) == pair.slave.log_bytes(end)
        with Client(pair.slave.address) as promoted, Client(pair.master.address) as follower:
            eventually(lambda: read_all(promoted, "T") == read_all(follower, "T"))

    def test_slaves_of_a_master_that_was_replaced_follow_the_new_one(self, tmp_path: Path) -> None:
        """Their connections to the old one may have outlived its standing still."""
        with Pair(tmp_path) as pair:
            other = {**pair.slave.keys, "brokerId": 2, "listenPort": 0}
            del other["storePathRootDir"]
            late = Node(tmp_path / "late", pair.namesrv, **other)
            late.start()
            try:
                send_many(pair, 3)
                end = pair.wait_in_sync()
                eventually(lambda: late.end_of_log() == end, why=late.stderr)
                old = late.status()["haClientRuntimeInfo"]["masterAddr"]
                # The first slave is cut off, promoted, and the old master sees it only then.
                pair.slave.stop()
                assert pair.master.process is not None
                stopped = pair.master.process.process
                stopped.send_signal(signal.SIGSTOP)
                try:
                    pair.slave.start()
                    eventually(lambda: pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0)
                    assert pair.slave.process is not None
                    pair.slave.process.line(20)
                finally:
                    stopped.send_signal(signal.SIGCONT)
                eventually(
                    lambda: (
                        (status := late.status()["haClientRuntimeInfo"])["state"] == "FOLLOWING"
                        and status["masterAddr"] != old
                    ),
                    why=lambda: f"{late.stderr()}\n{pair.master.stderr()}",
                )
            finally:
                late.end()

    def test_a_master_that_was_replaced_while_it_stood_still_takes_no_more(
        self, tmp_path: Path
    ) -> None:
        with Pair(tmp_path, haHousekeepingInterval=1000, haSendHeartbeatInterval=200) as pair:
            send_many(pair, 3)
            pair.wait_in_sync()
            assert pair.master.process is not None
            stopped = pair.master.process.process
            stopped.send_signal(signal.SIGSTOP)
            try:
                eventually(lambda: pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0)
                assert pair.slave.process is not None
                pair.slave.process.line(20)
            finally:
                stopped.send_signal(signal.SIGCONT)

            def refused() -> bool:
                with Client(pair.master.address) as client:
                    return client.send("T").code == SERVICE_NOT_AVAILABLE

            eventually(refused, why=pair.master.stderr)
            time.sleep(7)  # more than two looks: it stays so, and name servers know the new one
            assert refused()
            assert "has become master of this name since" in pair.master.stderr()
            listed = pair.command("mqadmin", "clusterList")
            assert pair.slave.text_address in listed
            assert pair.master.text_address not in listed
            with Client(pair.slave.address) as client:
                assert client.send("T").code == 0

    def test_of_two_slaves_the_one_with_more_is_promoted(self, tmp_path: Path) -> None:
        with Pair(tmp_path) as pair:
            keys = {"brokerRole": "SLAVE", "brokerId": 2}
            behind = Node(tmp_path / "behind", pair.namesrv, **keys).start()
            try:
                send_many(pair, 2)
                end = pair.wait_in_sync()
                eventually(lambda: behind.end_of_log() == end)
                behind.stop()
                send_many(pair, 2)
                pair.wait_in_sync()
                pair.master.kill()
                behind.start()
                refused = behind.set_role(brokerRole="ASYNC_MASTER")
                assert refused.code == NO_PERMISSION
                assert f"the slave {pair.slave.text_address} has the log up to" in (
                    refused.remark or ""
                )
                assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
            finally:
                behind.end()

    def test_the_newer_master_counts_also_when_its_file_says_so_by_now(self, pair: Pair) -> None:
        send_many(pair, 2)
        pair.wait_in_sync()
        # From master to master is no new mastership.
        assert pair.master.set_role(brokerRole="SYNC_MASTER").code == 0
        assert pair.master.process is not None
        pair.master.process.line(20)
        assert pair.master.status()["masterSince"] == 0
        pair.wait_in_sync()
        pair.master.kill()
        assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert pair.slave.process is not None
        pair.slave.process.line(20)
        since = pair.slave.status()["masterSince"]
        assert since > 0
        pair.slave.stop()
        pair.slave.keys |= {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
        pair.slave.start()
        assert pair.slave.status()["masterSince"] == since

    def test_a_master_without_its_disk_takes_nothing_from_its_slave(self, pair: Pair) -> None:
        bodies = send_many(pair, 20)
        pair.wait_in_sync()
        with Client(pair.slave.address) as client:
            eventually(lambda: b'"T"' in client.call(21).body)
        pair.master.kill()
        shutil.rmtree(pair.master.store)
        pair.master.start()

        def misfit() -> bool:
            return bool(pair.slave.status()["haClientRuntimeInfo"].get("state") == "MISFIT")

        eventually(misfit, why=pair.slave.stderr)
        time.sleep(4)  # more than a round of the tables
        with Client(pair.slave.address) as client:
            assert b'"T"' in client.call(21).body
            assert sorted(read_all(client, "T")) == sorted(bodies)


class TestBadInput:
    def connect(self, pair: Pair) -> socket.socket:
        host, port = pair.slave.status()["haClientRuntimeInfo"]["masterAddr"].rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=10)

    @pytest.mark.parametrize("report", [-1, 1 << 62, -(1 << 63)])
    def test_foreign_reports_end_their_connection_only(self, pair: Pair, report: int) -> None:
        send_many(pair, 3)
        with self.connect(pair) as sock:
            sock.sendall(struct.pack(">q", report))
            assert sock.recv(100) == b""
        assert pair.wait_in_sync() > 0
        eventually(lambda: "the connection ended: it" in pair.master.stderr())

    def test_bytes_that_are_no_frames(self, pair: Pair) -> None:
        with self.connect(pair) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(100) == b""
        send_many(pair, 3)
        pair.wait_in_sync()

    def test_only_those_of_the_list_may_connect(self, tmp_path: Path) -> None:
        with Pair(tmp_path) as pair:
            pair.master.keys["haAddressAllowList"] = "10.9.8.7"
            pair.master.stop()
            pair.master.start()
            eventually(lambda: "haAddressAllowList" in pair.master.stderr())
            assert pair.master.status()["haConnectionInfo"] == []


def test_a_store_that_was_promoted_once_becomes_a_slave_again(tmp_path: Path) -> None:
    """The pair changes its roles and back, by rejoin: its word goes before an old promotion."""
    with Pair(tmp_path) as pair:
        send_many(pair, 5)
        pair.wait_in_sync()
        pair.master.stop()
        assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert pair.slave.process is not None
        pair.slave.process.line(20)
        args = ("store", "rejoin", str(pair.master.store), "--master", pair.slave.text_address)
        assert run(*args, "--yes").returncode == 0
        pair.master.keys |= {"brokerRole": "SLAVE", "brokerId": 1}
        pair.master.start()
        end = pair.slave.end_of_log()
        eventually(lambda: pair.master.status()["haClientRuntimeInfo"]["maxOffset"] == end)
        # And back: the first one is promoted, the other one's file says SLAVE all the time.
        pair.slave.stop()
        assert pair.master.set_role(brokerRole="ASYNC_MASTER").code == 0
        assert pair.master.process is not None
        pair.master.process.line(20)
        args = ("store", "rejoin", str(pair.slave.store), "--master", pair.master.text_address)
        assert run(*args, "--yes").returncode == 0
        pair.slave.start()
        assert pair.slave.status()["master"] is False
        send_many(pair, 5)
        end = pair.master.end_of_log()
        eventually(lambda: pair.slave.status()["haClientRuntimeInfo"]["maxOffset"] == end)
