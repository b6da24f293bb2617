"""The two brokers that write the stores: ours, and Apache RocketMQ's own."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.client import UPDATE_AND_CREATE_TOPIC, Client
from tests.system.interop import halves
from tests.system.interop.store import cargo, peer
from tests.system.interop.store.contents import Contents
from tests.system.interop.store.special import (
    INNER,
    LATER,
    await_messages,
    long_retries,
    with_long_group,
    with_long_topic,
)
from tests.system.interop.store.tool import Tool
from tests.system.interop.store.turns import Ours, await_text

from .material import CONF, Material, image, inner_batches, packed, received, transactions

JAVA_TOPICS = [cargo.MAIN, cargo.LOAD, "Packed", "Settled", INNER]
"""What the Java client is asked to read: topics that it subscribes to as any other."""


OUR_CONF = CONF + "brokerName=ours\n"
PEER_CONF = CONF + "brokerName=apache\n" + "transactionOpBatchInterval=100\n"
"""Apache's broker collects op records for some time before it writes them."""


def _make_batch_topic(client: Client) -> None:
    answer = client.call(
        UPDATE_AND_CREATE_TOPIC, topic=INNER, defaultTopic="TBW102", readQueueNums=1,
        writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false",
        attributes="+queue.type=BatchCQ",
    )  # fmt: skip
    assert answer.code == 0, answer.remark


def by_us(folder: Path, tool: Tool | None) -> Material:
    """Our server: V2 records, hosts of both families, killed under load."""
    root, contents = folder / "ours", Contents()
    with_long_topic(root, contents)
    with Ours(root, conf=OUR_CONF) as server, Client(server.address) as client:
        _make_batch_topic(client)
        cargo.load(contents, client, 0, 120)
        inner_batches(client)
        packed(contents, client)
        transactions(contents, server.address)
    server = Ours(root, "::1", conf=OUR_CONF).start()
    try:
        with Client(server.address) as client:
            cargo.load(contents, client, 1000, 40)
        with cargo.under_load(contents, lambda: Client(server.address), "ours", least=400):
            server.kill()
    finally:
        server.kill()
    copy = image(root, folder / "ours-restarted")
    with Ours(copy, conf=OUR_CONF) as again:
        with Client(again.address) as client:
            contents.check(client)
        rows, queues = received(copy, again.address, "ours")
        java = tool.read(again.names, JAVA_TOPICS) if tool else []
    return Material(root, "ours", rows, queues, copy, java)


def _park(contents: Contents, client: Client) -> None:
    """Delayed messages: two that come due at once, one that stays."""
    contents.knows("SCHEDULE_TOPIC_XXXX", 18)
    contents.knows(LATER, 1)
    for level in ("1", "1", "18"):
        body = f"delay level {level}".encode()
        contents.unanswered(body)
        answer = client.send(LATER, body, queues=1, properties={"DELAY": level})
        assert answer.code == 0, answer.remark


def by_apache(folder: Path, namesrv: str, tool: Tool) -> Material:
    """Apache RocketMQ's broker: what clients can bring about there, killed under load."""
    root, contents = folder / "apache", Contents()
    with_long_group(root)
    broker = peer.RealBroker(root, namesrv, PEER_CONF, home=folder / "apache-home").start()
    try:
        tool.make_topic(namesrv, broker.name_and_port, INNER, 1, queue_type="BatchCQ")
        with Client(broker.address) as client:
            cargo.load(contents, client, 0, 120)
            _park(contents, client)
            packed(contents, client)
            inner_batches(client)
            transactions(contents, broker.address)
        with Client(("::1", broker.address[1])) as client:
            cargo.load(contents, client, 1000, 40)
            contents.check(client)
            long_retries(contents, client)
            await_messages(client, LATER, 2)
            halves.await_stored(client, halves.OP, bool)
        await_text(root / "config" / "topics.json", f'"{cargo.LOAD}"')
        with cargo.under_load(contents, lambda: Client(broker.address), "apache", least=400):
            broker.kill()
    finally:
        broker.kill()
    copy, killed = image(root, folder / "apache-restarted"), time.time() * 1000
    again = peer.RealBroker(copy, namesrv, PEER_CONF, home=folder / "apache-again").start()
    try:
        with Client(again.address) as client:
            contents.check(client)
        rows, queues = received(copy, again.address, "apache", before=killed)
        java = [r for r in tool.read(namesrv, JAVA_TOPICS) if r["storeTimestamp"] < killed]
    finally:
        again.kill()
    return Material(root, "apache", rows, queues, None, java)
