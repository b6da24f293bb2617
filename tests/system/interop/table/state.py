"""The state that every command of the table meets, and the places in command lines that name it.

Topics `Asked` (four queues, eight messages), `Plain`, `Ordered`, `Doomed`, `Sent`, `Traced`; groups
`Behind` (offsets, nobody connected), `Target`, `Doomed-1` to `Doomed-3`, `Live` (a consumer of ours
that has consumed); a producer of ours; a half that nobody decides about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyrmq import ConsumeFrom, Message, sync
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, UPDATE_CONSUMER_OFFSET, Client
from tests.support.operators import await_hits, create_topic
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

from .. import halves
from ..store import peer
from .case import Who

UPDATE_GROUP, CONSUMER_OFFSET = 200, 14
MESSAGES = 8
BORN = 1_700_000_000_000
TOPICS = {"Asked": 4, "Plain": 2, "Ordered": 2, "Doomed": 1, "Sent": 1, "Traced": 1}
GROUPS = ("Behind", "Target", "Doomed-1", "Doomed-2", "Doomed-3")
OFFSETS = (2, 1, 0, 2)
"""Of the group Behind in the queues of Asked: queue 3 is consumed."""
CONF = "traceTopicEnable=true\nsendThreadPoolQueueCapacity=1000\n"


def unique(number: int) -> str:
    """The unique id of a message of Asked, as a client makes one."""
    return f"7F0000010A0B18B4AAC200000000{number:04X}"


@contextmanager
def servers(who: Who, folder: Path) -> Iterator[tuple[str, peer.Address]]:
    """A name server and a broker: the address of each."""
    if who is Who.OURS:
        with ServerProcess(folder / "store", conf=CONF) as own:
            yield "{}:{}".format(*own.namesrv), own.broker
        return
    with peer.NameServer(folder / "namesrv") as names:
        conf = CONF + "timerWheelEnable=true\n"
        broker = peer.RealBroker(folder / "store", names.address, conf, home=folder / "broker")
        with broker:
            yield names.address, broker.address


@contextmanager
def prepared(namesrv: str, broker: peer.Address, folder: Path) -> Iterator[dict[str, str]]:
    """Brings the servers into the state; what the places are."""
    places = {
        "namesrv": namesrv,
        "broker": "{}:{}".format(*broker),
        "port": str(broker[1]),
        "dir": str(folder),
        "half": halves.HALF,
    }
    with ExitStack() as stack:
        client = stack.enter_context(Client(broker))
        for topic, queues in TOPICS.items():
            assert create_topic(client, topic, queues).code == 0
        for number in range(MESSAGES):
            places |= _message(client, number)
        for group in GROUPS:
            body = json.dumps({"groupName": group}).encode()
            assert client.call(UPDATE_GROUP, body).code == 0
            with Client(broker) as early:
                assert early.heartbeat("early", group, "Asked").code == 0
        for queue, offset in enumerate(OFFSETS):
            for group in ("Behind", "Doomed-1"):
                _commit(client, group, queue, offset)
        for topic in (*TOPICS, "%RETRY%Behind", "%RETRY%Target"):
            _await_route(namesrv, topic)
        half = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "half-1", "KEYS": "kept"}
        answer = client.send("Plain", b"half", queue_id=1, properties=half)
        assert answer.code == 0, answer.remark
        places |= _live(stack, namesrv, client)
        await_hits(client, "Asked", "all", MESSAGES)
        await_hits(client, halves.HALF, "kept", 1)
        yield places


def _message(client: Client, number: int) -> dict[str, str]:
    tag = "TagA" if number % 2 == 0 else "TagB"
    properties = {"UNIQ_KEY": unique(number), "KEYS": f"k{number} all", "TAGS": tag}
    answer = client.send(
        "Asked",
        b"body %d" % number,
        queue_id=number % 4,
        properties=properties,
        change={"g": str(BORN + number)},
    )
    assert answer.code == 0, answer.remark
    return {f"offset-id-{number}": answer.ext["msgId"], f"unique-{number}": unique(number)}


def _commit(client: Client, group: str, queue: int, offset: int) -> None:
    ext: dict[str, Any] = {
        "consumerGroup": group,
        "topic": "Asked",
        "queueId": queue,
        "commitOffset": offset,
    }
    assert client.call(UPDATE_CONSUMER_OFFSET, **ext).code == 0


def _await_route(namesrv: str, topic: str) -> None:
    host, _, port = namesrv.rpartition(":")
    with Client((host, int(port))) as names:
        eventually(
            lambda: names.call(GET_ROUTEINFO_BY_TOPIC, topic=topic).code,
            f"{topic} has a route",
            until=lambda code: code == 0,
        )


def _live(stack: ExitStack, namesrv: str, client: Client) -> dict[str, str]:
    """A producer and a consumer of ours that stay, with traces of one message."""
    seen: list[str] = []
    options: Any = {"namesrv": namesrv, "trace": True}
    producer = stack.enter_context(sync.Producer("Producers", **options))
    consumer = sync.PushConsumer(
        "Live",
        {"Asked": "*", "Traced": "*"},
        listener=lambda message: seen.append(message.topic),
        consume_from=ConsumeFrom.FIRST_OFFSET,
        **options,
    )
    stack.enter_context(consumer)
    traced = producer.send(Message("Traced", b"x", tags="TagT", keys="order-1")).msg_id
    eventually(lambda: len(seen), "all are consumed", until=lambda n: n >= MESSAGES + 1)

    def offset(topic: str, queue: int) -> int:
        ext: dict[str, Any] = {"consumerGroup": "Live", "topic": topic, "queueId": queue}
        return int(client.call(CONSUMER_OFFSET, **ext).ext.get("offset", -1))

    queues = [("Asked", n) for n in range(4)] + [("Traced", 0)]
    eventually(
        lambda: [offset(*queue) for queue in queues],
        "offsets are at the broker",
        until=lambda found: found == [2, 2, 2, 2, 1],
    )
    _await_traces(client, traced)
    return {"traced": traced, "client": _member(client, "Live")}


def _await_traces(client: Client, message_id: str) -> None:
    """Of the send and of the consumption, in two messages or three."""
    ext: dict[str, Any] = {
        "topic": "RMQ_SYS_TRACE_TOPIC", "key": message_id, "maxNum": 32, "beginTimestamp": 0,
        "endTimestamp": 2**62, "_UNIQUE_KEY_QUERY": "false",
    }  # fmt: skip
    eventually(
        lambda: bytes(client.call(12, **ext).body),
        "the traces are there",
        until=lambda body: b"Pub\1" in body and b"SubAfter\1" in body,
    )


def _member(client: Client, group: str) -> str:
    answer = client.call(38, consumerGroup=group)
    found: str = json.loads(answer.body)["consumerIdList"][0]
    return found
