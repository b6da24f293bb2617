"""One store directory, two brokers: Apache RocketMQ and ours take turns on it.

Every change of hands comes after a clean stop or after kill -9 under load. After it everything that
was read before has to come back with every field as it was, everything acknowledged has to be there
once and in order, and writing goes on. See store/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.client import UPDATE_AND_CREATE_TOPIC, Client
from tests.support.records import MAGIC_V2

from .store import cargo, peer
from .store.contents import Contents
from .store.returned import Returned
from .store.special import (
    INNER,
    arrives_later,
    delayed,
    inner_arrived,
    inner_batches,
    long_retries,
    with_long_group,
    with_long_topic,
)
from .store.tool import Tool
from .store.turns import (
    GROUP,
    Ours,
    await_text,
    commit_half,
    committed,
    found_by_key,
    found_by_the_engine,
    rest_is_consumed,
    rolled_over,
    stop,
)

CLEAN = pytest.param("clean", marks=pytest.mark.thorough("what a kill leaves has all of it"))
HOW = pytest.mark.parametrize("how", [CLEAN, "kill"])


@pytest.fixture(scope="module")
def namesrv(home: Path) -> Iterator[str]:
    with peer.NameServer(home / "namesrv") as server:
        yield server.address


@pytest.fixture(scope="module")
def tool(home: Path) -> Iterator[Tool]:
    with Tool(home / "tool") as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def apache(store: Path, tmp_path: Path, namesrv: str) -> Iterator[peer.RealBroker]:
    """Not started yet; killed at the end if it still runs."""
    broker = peer.RealBroker(store, namesrv, cargo.CONF, home=tmp_path / "apache")
    yield broker
    broker.kill()


@pytest.fixture
def ours(store: Path) -> Iterator[Callable[..., Ours]]:
    made: list[Ours] = []

    def make(host: str = "127.0.0.1") -> Ours:
        made.append(Ours(store, host))
        return made[-1]

    yield make
    for server in made:
        server.kill()


@HOW
def test_apache_goes_on_with_what_we_wrote(how, store, ours, apache, namesrv, tool):
    """Ours, then Apache's, then ours. After the kill all our records have IPv6 hosts."""
    contents = Contents()
    returned = Returned(contents)
    with_long_topic(store, contents)
    host = "::1" if how == "kill" else "127.0.0.1"
    server = ours(host).start()
    with Client(server.address) as client:
        cargo.load(contents, client, 0, 120)
        made = client.call(
            UPDATE_AND_CREATE_TOPIC,
            topic="Made",
            defaultTopic="TBW102",
            readQueueNums=3,
            writeQueueNums=5,
            perm=6,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order="true",
        )
        assert made.code == 0, made.remark
        contents.check(client)
        half = commit_half(client, contents)
    contents.check_with(tool, server.names)
    ours_first = [r for q in range(cargo.QUEUES) for r in contents.records[cargo.MAIN, q]]
    assert {(r.born_host[0], r.store_host[0]) for r in ours_first} == {(host, host)}
    assert {r.magic for r in contents.records[cargo.LONG_RETRY, 0]} == {MAGIC_V2}
    if how == "kill":
        await_text(store / "config" / "consumerOffset.json", f"{cargo.MAIN}@{GROUP}")
        await_text(store / "config" / "topics.json", '"Made"')
    with Client(server.address) as client:
        delayed(contents, client)  # at the end: they come due in Apache's turn
        returned.begin(client)
    stop(server, how, contents, "ours")
    rolled_over(store)

    apache.start()
    with Client(apache.address) as client:
        arrives_later(contents, client)
        returned.go_on(client)
        contents.check(client)
        assert committed(client) == half
    contents.check_with(tool, namesrv)
    found_by_key(contents, tool, namesrv)
    if how == "kill":
        rest_is_consumed(contents, half, namesrv, apache.state)
    told = tool.describe(namesrv, apache.name_and_port, ["Made", cargo.MAIN], [GROUP])
    assert told["topics"]["Made"]["readQueueNums"] == 3
    assert told["topics"]["Made"]["writeQueueNums"] == 5
    assert told["topics"]["Made"]["order"] is True
    assert told["topics"][cargo.MAIN]["writeQueueNums"] == cargo.QUEUES
    assert told["groups"][GROUP]["retryMaxTimes"] == 16
    with Client(apache.address) as client:
        cargo.load(contents, client, 1000, 60)
        contents.check(client)
        if how == "clean":
            # Returned to Apache's broker on an IPv4 address, a message that was stored on an IPv6
            # one becomes a record that nobody can read: storeHost has 4 bytes, sysFlag says 16.
            returned.once_more(client)
    stop(apache, "kill", contents, "apache")

    server.start()
    with Client(server.address) as client:
        contents.check(client)
        cargo.load(contents, client, 2000, 20)
        returned.end(client)
    contents.check_with(tool, server.names)
    server.terminate()
    found_by_the_engine(store, contents)


@HOW
def test_we_go_on_with_what_apache_wrote(how, store, ours, apache, namesrv, tool):
    """Apache's, then ours, then Apache's."""
    contents = Contents()
    returned = Returned(contents)
    with_long_group(store)
    apache.start()
    tool.make_topic(namesrv, apache.name_and_port, INNER, 1, queue_type="BatchCQ")
    tool.make_group(namesrv, apache.name_and_port, "TUNED", 7)
    with Client(apache.address) as client:
        cargo.load(contents, client, 0, 100)
        inner = inner_batches(client, 0)
    with Client(("::1", apache.address[1])) as client:  # it listens on both families
        cargo.load(contents, client, 500, 20)
        contents.check(client)
        long_retries(contents, client)
        half = commit_half(client, contents)
    hosts = {r.born_host[0] for r in contents.records[cargo.MAIN, 0]}
    assert hosts == {"127.0.0.1", "::1"}
    if how == "kill":  # what Apache's broker delivers before it writes this is delivered again
        await_text(store / "config" / "delayOffset.json", r"[{,\s]\"?1\"?:5\b")
    with Client(apache.address) as client:
        delayed(contents, client)
        returned.begin(client)
    stop(apache, how, contents, "apache")
    rolled_over(store)
    if how == "kill":
        (store / "checkpoint").unlink()  # our recovery goes over all of the log

    server = ours().start()
    with Client(server.address) as client:
        contents.check(client)
        if how == "clean":  # it writes offsets for the first time after 10 s
            assert committed(client) == half
        cargo.load(contents, client, 1000, 60)
        arrives_later(contents, client)
        returned.go_on(client)
    contents.check_with(tool, server.names)
    inner_arrived(tool, server.names, inner)
    with Client(server.address) as client:
        inner += inner_batches(client, len(inner))
        returned.once_more(client)
    if how == "clean":
        rest_is_consumed(contents, half, server.names, server.stderr_text)
    else:
        await_text(store / "config" / "delayOffset.json", r'"2":5\b')
    stop(server, how, contents, "ours")
    if how == "kill":
        # Apache's broker drops the index files of a broker that was killed, and dispatches again
        # what is behind the checkpoint: keys before it would be lost. Without one it begins at the
        # first file. [IndexService.load, DefaultMessageStore.recover]
        (store / "checkpoint").unlink(missing_ok=True)

    apache.start()
    with Client(apache.address) as client:
        cargo.load(contents, client, 2000, 20)
        arrives_later(contents, client)  # once: Apache's broker goes on behind what we delivered
        returned.end(client)
    contents.check_with(tool, namesrv)
    told = tool.describe(namesrv, apache.name_and_port, [INNER], ["TUNED"])
    assert told["topics"][INNER]["attributes"] == {"queue.type": "BatchCQ"}
    assert told["groups"]["TUNED"]["retryMaxTimes"] == 7
    inner_arrived(tool, namesrv, inner)
    assert len(list((store / "batchconsumequeue" / INNER / "0").iterdir())) > 1
    found_by_key(contents, tool, namesrv)


def test_topics_are_on_disk_before_their_messages_are_acknowledged(store, ours):
    """Otherwise Apache's broker refuses to serve what a kill -9 left in the log: it knows topics
    from topics.json only. [TopicConfigManager.createTopicInSendMessageMethod persists first]"""
    server = ours().start()
    with Client(server.address) as client:
        for topic in ("One", "Two", "Three"):
            assert client.send(topic, b"acknowledged").code == 0
    server.kill()
    file = store / "config" / "topics.json"
    written = file.read_text() if file.exists() else ""
    assert [topic for topic in ("One", "Two", "Three") if f'"{topic}"' not in written] == []


@pytest.mark.thorough("each of the others goes on once with what a kill left")
def test_kills_in_turn(store, ours, apache, namesrv, tool):
    """Five times the other one starts on what a kill -9 under load has left."""
    contents = Contents()
    server = ours()
    for turn in range(5):
        broker = apache if turn % 2 else server
        broker.start()
        with Client(broker.address) as client:
            contents.check(client)
            cargo.load(contents, client, 1000 * turn, 50)
            contents.check(client)
        stop(broker, "kill", contents, f"turn {turn}")
    assert contents.count(cargo.LOAD) >= 4 * 150
    rolled_over(store)
    with server.start(), Client(server.address) as client:
        contents.check(client)
