"""Pops of a pair: the master is killed in the middle of pops, acknowledgements and timers, and the
slave is promoted. Nothing is lost; what was acknowledged does not come again."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.model.codes import RequestCode as Code
from tests.support.client import Client, Closed
from tests.support.popping import CHANGE, PoppedMessage, ack, ack_command, pop
from tests.system.ha.processes import Node, Pair, eventually

TOPIC, ORDERED, LOAD, TIMED = TOPICS = "Popped", "Ordered", "Load", "Timed"
GROUP = "CG_pop"
TOTAL = 500
SHORT, LONG = 5_000, 60_000


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    keys = {"brokerName": "broker-a", "recallMessageEnable": "true"}
    with Pair(tmp_path, brokerRole="SYNC_MASTER", inSyncReplicas=2, **keys) as pair:
        yield pair


def has(node: Node) -> bool:
    """Whether a broker knows the topics and the group."""
    topics = json.loads(node.ask(Code.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
    return set(TOPICS) <= topics.keys() and (
        node.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": GROUP}).code == 0
    )


class Load:
    """A client that pops and acknowledges all the time; `acked` is what it had an answer for."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.acked: list[bytes] = []
        self.many = threading.Event()
        self._address = address
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        """Until the broker is gone."""
        try:
            with Client(self._address) as client:
                while len(self.acked) < TOTAL:
                    for message in pop(client, LOAD, maxMsgNums=5, invisibleTime=SHORT):
                        ack(client, message)
                        self.acked.append(message.body)
                        if len(self.acked) == 60:
                            self.many.set()
        except (OSError, Closed):
            pass


def bodies(messages: list[PoppedMessage]) -> list[bytes]:
    return [message.body for message in messages]


def drain(client: Client, topic: str, count: int, **change: object) -> Counter[bytes]:
    """Pops and acknowledges until `count` different messages have come."""
    found: Counter[bytes] = Counter()

    def more() -> bool:
        for message in pop(client, topic, invisibleTime=LONG, **change):
            found[message.body] += 1
            ack(client, message)
        return len(found) >= count

    eventually(more, why=lambda: f"{len(found)} of {count} messages of {topic}")
    more()
    return found


def test_a_promoted_slave_goes_on_with_its_masters_pops(pair: Pair) -> None:
    with Client(pair.master.address) as client:
        for topic in TOPICS:
            assert client.send(topic, b"0").code == 0
        body = json.dumps({"groupName": GROUP}).encode()
        assert client.call(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == 0
        for n in range(1, 12):
            assert client.send(TOPIC, b"%d" % n).code == 0
            assert client.send(ORDERED, b"%d" % n).code == 0
        for n in range(1, TOTAL):
            assert client.send(LOAD, b"%d" % n).code == 0
        for n in range(1, 21):
            answer = client.send(TIMED, b"%d" % n, properties={"TIMER_DELAY_MS": "9000"})
            assert answer.code == 0
        gone = {"producerGroup": "PG", "topic": TIMED, "recallHandle": answer.ext["recallHandle"]}
        assert client.call(Code.RECALL_MESSAGE, **gone).code == 0
        eventually(lambda: has(pair.slave), why=pair.slave.stderr)

        late = pop(client, TOPIC, maxMsgNums=4, invisibleTime=LONG)
        short = pop(client, TOPIC, maxMsgNums=5, invisibleTime=SHORT)
        ordered = pop(client, ORDERED, maxMsgNums=4, invisibleTime=SHORT, order="true")
        assert (len(late), len(short), len(ordered)) == (4, 5, 4)
        for message in (*late[:2], *short[:2], *ordered[:2]):
            ack(client, message)
        changed = client.request(ack_command(short[2], code=CHANGE, invisibleTime=SHORT))
        assert changed.code == 0, changed.remark
        with Load(pair.master.address) as load:
            assert load.many.wait(60), pair.master.stderr()
            pair.master.kill()
    assert pair.slave.set_role(brokerRole="ASYNC_MASTER").code == 0
    assert pair.slave.process is not None
    pair.slave.process.line(20)

    with Client(pair.slave.address) as client:
        for message in late[2:]:  # their check points are known here
            ack(client, message)
        found = drain(client, TOPIC, 6)
        assert found == dict.fromkeys([*bodies(short[2:]), b"9", b"10", b"11"], 1)
        found = drain(client, LOAD, TOTAL - len(load.acked) - 1)
        assert not found.keys() & set(load.acked), "they were acknowledged"
        assert found.keys() | set(load.acked) >= {b"%d" % n for n in range(TOTAL)}
        order = drain(client, ORDERED, 10, order="true")
        assert list(order)[-10:] == [b"%d" % n for n in range(2, 12)]
        eventually(lambda: client.max_offset(TIMED, 0) >= 20, why=pair.slave.stderr)
        assert drain(client, TIMED, 20) == dict.fromkeys([b"%d" % n for n in range(20)], 1)
