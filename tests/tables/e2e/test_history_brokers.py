"""A table and what its brokers have beyond it: lag, and the tail of a query of Spark, without a
JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.errors import DataLossError
from pyrmq.net.address import format_address
from pyrmq.tables import history
from pyrmq.tables.catalog import open_catalog
from pyrmq.tables.ends import Ends, QueueEnd
from pyrmq.tables.errors import TableStoreError
from pyrmq.tables.rows import Rows
from tests.support.client import Client, batch_command
from tests.support.server import ServerProcess
from tests.tables.commands import command
from tests.tables.tailing import TABLE, commit, keys

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow
COLUMNS = ("brokerName", "queueId", "queueOffset", "tags")


def fill(server: ServerProcess, start: int, count: int, queues: int = 4) -> None:
    with Client(server.broker) as client:
        for queue in range(queues):
            batch = [(b"%d" % n, {"TAGS": "AB"[n % 2]}) for n in range(start, start + count)]
            assert client.request(batch_command("orders", batch, queue_id=queue)).code == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as made:
        yield made


@pytest.fixture
def catalog(server: ServerProcess, tmp_path: Path) -> Path:
    """A table of what the server has by then."""
    fill(server, 0, 50)
    place = tmp_path / "catalog"
    assert commit(place, [server.store], broker_names=["broker-a"]) == 200
    return place


def tail(server: ServerProcess, pinned: history.Pinned, **more: str) -> Any:
    from spark_ext.history_brokers import BrokerTail

    return BrokerTail(pinned, {"nameServer": format_address(server.namesrv), **more})


def read(made: Any, rows: Rows = Rows()) -> list[Any]:  # noqa: B008 - it is frozen
    return [key for split in made.splits(rows, COLUMNS) for b in split.read() for key in keys(b)]


def test_lag(server: ServerProcess, catalog: Path) -> None:
    words = ["-n", format_address(server.namesrv), "--table", TABLE, "--catalog", catalog, "--json"]
    said = json.loads(command("lag", *words).output)
    assert (said["messages"], said["behindMs"], said["bytes"]) == (0, 0, None)
    fill(server, 50, 7, queues=2)
    said = json.loads(command("lag", *words).output)
    assert said["messages"] == 14
    queues = {row["queueId"]: row for row in said["queues"]}
    assert (queues[1]["tableEnd"], queues[1]["logEnd"], queues[1]["messages"]) == (50, 57, 7)
    assert queues[1]["oldestTimestamp"] > 1_700_000_000_000
    assert queues[3]["oldestTimestamp"] is None


def test_what_the_brokers_have_beyond_the_table(server: ServerProcess, catalog: Path) -> None:
    pinned = history.pin(open_catalog(str(catalog)), TABLE)
    assert read(tail(server, pinned)) == []
    fill(server, 50, 10)
    behind = sorted(read(tail(server, pinned)))
    assert behind == [("broker-a", q, n) for q in range(4) for n in range(50, 60)]
    tags = read(tail(server, pinned), Rows(queues=(1,), tags=("A",)))
    assert tags == [("broker-a", 1, n) for n in (50, 52, 54, 56, 58)]
    assert read(tail(server, pinned), Rows(brokers=("other",))) == []
    assert read(tail(server, pinned), Rows(times=(None, 1000))) == []


def test_what_does_not_fit(server: ServerProcess, catalog: Path, tmp_path: Path) -> None:
    pinned = history.pin(open_catalog(str(catalog)), TABLE)
    ends = pinned.ends
    assert ends is not None
    mine = ends.brokers["broker-a"]
    away = Ends("orders", {**ends.brokers, "broker-b": mine})
    with pytest.raises(TableStoreError, match="broker broker-b, which the name servers do not"):
        read(tail(server, history.Pinned(TABLE, pinned.iceberg, "orders", away)))
    with ServerProcess(tmp_path / "other") as other:
        fill(other, 0, 60)
        with pytest.raises(TableStoreError, match="made anew"):
            read(tail(other, pinned))
    fill(server, 50, 10)
    last = mine[0]
    first = QueueEnd(0, 1, last.last)  # as if the broker had nothing before 5
    made = tail(server, history.Pinned(TABLE, pinned.iceberg, "orders", ends))
    key = next(queue for queue in made.ranges() if queue.queue_id == 0)
    ranges = {key: (first.end, 5, 60)}
    made.ranges = lambda: ranges
    with pytest.raises(DataLossError, match=r"queue 0 up to offset 1, and the broker from 5 on"):
        read(made)
    made = tail(server, pinned, failOnDataLoss="false")
    made.ranges = lambda: ranges
    assert sorted(read(made)) == [("broker-a", 0, n) for n in range(5, 60)]
