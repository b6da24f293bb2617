"""A turn of one broker: our server on the store, how a turn ends, and what has to be true after."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from pyrmq.engine import Store
from tests.support.client import QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET, Client
from tests.support.records import decode_record
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

from .. import toolchain
from ..drivers import Driver, places
from . import cargo, peer
from .contents import Contents
from .tool import Tool

GROUP = "HALF"
"""The group that has consumed half when the brokers change."""


class Ours(ServerProcess):
    """Our server on the store; on "::1" all hosts in its records have 16 bytes."""

    def __init__(self, store: Path, host: str = "127.0.0.1", conf: str = cargo.CONF) -> None:
        super().__init__(store, conf=conf, host=host)

    @property
    def address(self) -> tuple[str, int]:
        return self.broker[0].strip("[]"), self.broker[1]

    @property
    def names(self) -> str:
        return f"{self.namesrv[0]}:{self.namesrv[1]}"


def stop(broker: Ours | peer.RealBroker, how: str, contents: Contents, label: str) -> None:
    """Cleanly, or by kill -9 under load."""
    if how == "clean":
        broker.terminate()
        assert not (broker.store / "abort").exists()
    else:
        await_text(broker.store / "config" / "topics.json", f'"{cargo.LOAD}"')
        with cargo.under_load(contents, lambda: Client(broker.address), label):
            broker.kill()
        assert (broker.store / "abort").exists()


def commit_half(client: Client, contents: Contents) -> dict[int, int]:
    """Group HALF has consumed half of each queue; what it committed."""
    half = {q: len(contents.records[cargo.MAIN, q]) // 2 for q in range(cargo.QUEUES)}
    assert all(half.values())
    client.heartbeat("half@1", GROUP, cargo.MAIN)
    for queue_id, offset in half.items():
        answer = client.call(
            UPDATE_CONSUMER_OFFSET,
            consumerGroup=GROUP,
            topic=cargo.MAIN,
            queueId=queue_id,
            commitOffset=offset,
        )
        assert answer.code == 0
    return half


def committed(client: Client) -> dict[int, int]:
    found = {}
    for queue_id in range(cargo.QUEUES):
        answer = client.call(
            QUERY_CONSUMER_OFFSET, consumerGroup=GROUP, topic=cargo.MAIN, queueId=queue_id
        )
        assert answer.code == 0, answer.remark
        found[queue_id] = int(answer.ext["offset"])
    return found


def await_text(path: Path, pattern: str) -> None:
    """Until a file below config/ has such a text: it is written some time after the change."""
    eventually(
        lambda: path.read_text() if path.exists() else "",
        f"{pattern!r} in {path}",
        until=lambda found: re.search(pattern, found) is not None,
    )


def rest_is_consumed(
    contents: Contents, half: dict[int, int], namesrv: str, state: Callable[[], str]
) -> None:
    """A push consumer of the Java client in group HALF gets the second halves and nothing else."""
    command = toolchain.java_driver(toolchain.NEWEST)
    driver = Driver(f"java-{toolchain.NEWEST}", tuple(command), namesrv, state)
    rest = {
        (q, record.queue_offset)
        for q in range(cargo.QUEUES)
        for record in contents.records[cargo.MAIN, q][half[q] :]
    }
    received = driver.run("consume", topic=cargo.MAIN, group=GROUP, count=len(rest)).received
    assert set(places(received)) == rest
    assert all(len(line["properties"]) >= 2 for line in received)


def rolled_over(store: Path) -> None:
    """The log, the index and the queues of the main topic have more than one file."""
    assert len(list((store / "commitlog").iterdir())) > 2
    assert len(list((store / "index").iterdir())) > 1
    for queue_id in range(cargo.QUEUES):
        folder = store / "consumequeue" / cargo.MAIN / str(queue_id)
        assert len(list(folder.iterdir())) > 1


def found_by_key(contents: Contents, tool: Tool, namesrv: str) -> None:
    """The Java client finds the messages of each of a sample of keys, and no others."""
    holders: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for queue_id in range(cargo.QUEUES):
        for record in contents.records[cargo.MAIN, queue_id]:
            for key in record.properties.get("KEYS", "").split():
                holders[key].add((queue_id, record.queue_offset))
    del holders["shared"]  # of more messages than the broker gives out
    assert len(holders) > 40
    sample = [*sorted(holders)[:: len(holders) // 12], "no such key"]

    def look() -> dict[str, set[tuple[int, int]]]:
        """What each key finds in place of what it should: the index follows the log."""
        found = {
            key: {(line["queueId"], line["queueOffset"]) for line in lines}
            for key, lines in tool.query(namesrv, cargo.MAIN, sample).items()
        }
        assert found.keys() == set(sample)
        return {key: places for key, places in found.items() if places != holders.get(key, set())}

    eventually(look, "every key finds its messages", until=lambda wrong: not wrong)


def found_by_the_engine(store: Path, contents: Contents) -> None:
    """The index that both have written leads to every message of the main topic."""
    places: dict[str, list[int]] = defaultdict(list)
    for queue_id in range(cargo.QUEUES):
        for record in contents.records[cargo.MAIN, queue_id]:
            properties = record.properties
            for key in [properties["UNIQ_KEY"], *properties.get("KEYS", "").split()]:
                places[key].append(record.physical_offset)
    engine = Store(store, **cargo.ENGINE)
    try:
        for key, offsets in places.items():
            if key != "shared":  # of more messages than a query may ask for
                found, _, _ = engine.query_message(cargo.MAIN, key)
                records = [decode_record(bytes(piece)) for piece in found]
                assert [r.physical_offset for r in records] == sorted(offsets), key
    finally:
        engine.close()
