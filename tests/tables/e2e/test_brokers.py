"""Tables that are read through brokers: no files of the store are seen, and no JVM is started."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyrmq.net.address import format_address
from pyrmq.tables.ends import Ends
from pyrmq.tables.errors import TableStoreError
from pyrmq.tables.write import Run, create_table
from spark_ext.jobs.source import Source
from spark_ext.jobs.table_brokers import BrokerSource
from tests.support.client import Client, batch_command
from tests.support.server import ServerProcess
from tests.tables.commands import command, into
from tests.tables.making import TABLE, World, impatient, rows_of

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow


def fill(server: ServerProcess, topic: str, start: int, count: int) -> None:
    with Client(server.broker) as client:
        for queue in range(4):
            batch = [(b"%d" % n, {"KEYS": f"k{n}"}) for n in range(start, start + count)]
            assert client.request(batch_command(topic, batch, queue_id=queue)).code == 0


def write(world: World, server: ServerProcess, topic: str, **how: int) -> Run:
    source = BrokerSource(
        Source((), format_address(server.namesrv)), topic, ("body", "keys", *NEEDED), **how
    )
    create_table(world.catalog, TABLE, topic, source.schema)
    run = Run(world.catalog, TABLE, source, source.schema, waiting=impatient(), commit_bytes=20_000)
    run.catch_up()
    return run


NEEDED = ("topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp")


def test_each_message_once(world: World, process: ServerProcess) -> None:
    fill(process, "orders", 0, 400)
    run = write(world, process, "orders", step=100)
    assert run.added.rows == 1600
    assert run.added.commits > 1
    assert write(world, process, "orders").added.commits == 0
    fill(process, "orders", 400, 5)
    run.catch_up()
    assert run.added.rows == 1620
    want = Counter(("broker-a", q, n, b"%d" % n) for q in range(4) for n in range(405))
    assert Counter(rows_of(world)) == want


def test_the_command(world: World, process: ServerProcess) -> None:
    fill(process, "cli", 0, 10)
    words = ["-n", format_address(process.namesrv), "-t", "cli", *into(world, "mq.cli")]
    result = command("write", *words)
    assert result.exit_code == 0, result.output
    assert "added 40 messages" in result.output


def test_a_broker_that_was_made_anew(world: World, process: ServerProcess, tmp_path: Path) -> None:
    fill(process, "anew", 0, 50)
    write(world, process, "anew")
    with ServerProcess(tmp_path / "other") as other:
        fill(other, "anew", 0, 40)
        with pytest.raises(TableStoreError, match="made anew"):
            write(world, other, "anew")
    with ServerProcess(tmp_path / "third") as other:
        fill(other, "first", 0, 3)
        fill(other, "anew", 0, 60)
        with pytest.raises(TableStoreError, match=r"another one there.*made anew"):
            write(world, other, "anew")


def test_brokers_that_are_away_are_left_where_they_are(
    world: World, process: ServerProcess
) -> None:
    """Half of the brokers of a table do not answer: the rest is read, and their ends stay."""
    from pyrmq.tables.ends import Anchor, QueueEnd

    fill(process, "half", 0, 30)
    source = BrokerSource(Source((), format_address(process.namesrv)), "half", NEEDED)
    away = {0: QueueEnd(0, 7, Anchor(6, 100, 1000))}
    position = source.start(Ends("half", {"broker-b": away}).plus({"broker-a": some(process)}))
    assert position["queues"]["half"]["broker-b"] == {"0": 7}
    end = source.next(position)
    assert end["queues"]["half"]["broker-b"] == {"0": 7}
    rows = [row for batch in source.batches(position, end) for row in batch.to_pylist()]
    assert {row["brokerName"] for row in rows} == {"broker-a"}
    assert len(rows) == 119


def some(process: ServerProcess) -> dict[int, object]:  # the first message of queue 0
    from pyrmq.tables.counting import Counted

    source = BrokerSource(Source((), format_address(process.namesrv)), "half", NEEDED, step=1)
    counted = Counted(Ends("half"))
    start = source.start(None)
    for batch in source.batches(start, source.next(start)):
        counted.add(batch.filter([q == 0 for q in batch.column("queueId").to_pylist()]))
    return dict(counted.ends().brokers["broker-a"])
