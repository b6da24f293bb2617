"""The sink writes to, and the read through brokers reads from, Apache RocketMQ's own broker.

No Spark is started: writers, planners and splits are what Spark would call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.model.codes import RequestCode
from pyrmq.model.message import MessageQueue
from pyrmq.net.address import parse_addresses
from spark_ext import schema as schemas
from spark_ext import selecting
from spark_ext.broker.cluster import Access, Cluster
from spark_ext.broker.plan import BrokerPlanner
from spark_ext.option import Query
from spark_ext.options import Options
from spark_ext.sink.writer import SinkWriter, TaskWritten
from tests.support.client import Client
from tests.support.waiting import eventually
from tests.system.interop import toolchain
from tests.system.interop.store import peer

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

ROWS = 20_000
QUEUES = 4


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a name server that knows one broker."""
    try:
        peer.classpath()
    except (toolchain.Missing, toolchain.BuildFailed) as problem:
        if toolchain.required() or isinstance(problem, toolchain.BuildFailed):
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(str(problem))
    home = tmp_path_factory.mktemp("apache")
    with (
        peer.NameServer(home / "namesrv") as names,
        peer.RealBroker(home / "store", names.address, home=home / "broker"),
    ):
        yield names.address


def write(apache: str, columns: dict[str, Any], **options: str) -> TaskWritten:
    table = pa.table(columns)
    given = {"nameServer": apache, **options}
    writer = SinkWriter(Options(given, Query.WRITE), from_arrow_schema(table.schema), False)
    done = writer.write(iter(table.to_batches(max_chunksize=3000)))
    assert isinstance(done, TaskWritten)
    return done


def read(apache: str, **options: str) -> list[dict[str, Any]]:
    checked = Options({"nameServer": apache, **options}, Query.BROKER_BATCH)
    how = selecting.read_options(checked, schemas.of_options(checked))
    splits = BrokerPlanner(checked, selecting.selection(checked), how).batch()
    batches = [batch for split in splits for batch in split.read()]
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist()
    return rows


def rows_of(numbers: range) -> dict[str, Any]:
    return {
        "body": pa.array([b"body %d" % n + b"-" * (n % 300) for n in numbers]),
        "tags": pa.array(["ABC"[n % 3] for n in numbers]),
        "keys": pa.array([f"key{n}" for n in numbers]),
        "shardingKey": pa.array([f"order-{n % 5}" for n in numbers]),
        "properties": pa.array(
            [[("n", str(n))] for n in numbers], pa.map_(pa.string(), pa.string())
        ),
    }


@pytest.fixture(scope="module")
def written(apache: str) -> TaskWritten:
    done = write(apache, rows_of(range(ROWS)), topic="Exchange", sendBatchBytes="64k")
    wait_for_queues(apache, done)
    return done


def wait_for_queues(apache: str, done: TaskWritten) -> None:
    """Apache's broker acknowledges messages before they are in their queues."""
    wanted = {MessageQueue(*place): last + 1 for *place, _, _, last in done.queues}
    with Cluster(Access(tuple(parse_addresses(apache, "name server")))) as cluster:
        eventually(
            lambda: cluster.offsets(RequestCode.GET_MAX_OFFSET, list(wanted)),
            f"the queues end at {wanted}",
            until=lambda found: found == wanted,
        )


def test_rows_are_written_and_read(apache: str, written: TaskWritten) -> None:
    assert written.messages == ROWS
    rows = read(apache, topic="Exchange", columns="body,tags,keys,properties,queueId,queueOffset")
    assert len(rows) == ROWS
    queues: dict[str, set[int]] = {}
    for row in rows:
        properties = dict(row["properties"])
        n = int(properties["n"])
        assert row["body"] == b"body %d" % n + b"-" * (n % 300)
        assert row["tags"] == "ABC"[n % 3]
        assert row["keys"] == f"key{n}"
        queues.setdefault(properties["__SHARDINGKEY"], set()).add(row["queueId"])
    assert all(len(found) == 1 for found in queues.values())
    assert len({(r["queueId"], r["queueOffset"]) for r in rows}) == ROWS
    assert len({dict(r["properties"])["UNIQ_KEY"] for r in rows}) == ROWS
    for topic, broker, queue, messages, first, last in written.queues:
        assert (topic, broker) == ("Exchange", "broker-a")
        assert messages == last - first + 1 == len([r for r in rows if r["queueId"] == queue])


def test_order_by_sharding_key(apache: str, written: TaskWritten) -> None:
    rows = read(apache, topic="Exchange", columns="properties,queueId,queueOffset")
    last: dict[str, int] = {}
    for row in sorted(rows, key=lambda r: (r["queueId"], r["queueOffset"])):
        properties = dict(row["properties"])
        key, n = properties["__SHARDINGKEY"], int(properties["n"])
        assert n > last.get(key, -1)
        last[key] = n


def test_tags_and_offsets(apache: str, written: TaskWritten) -> None:
    rows = read(apache, topic="Exchange", columns="tags", subExpression="A || C")
    assert len(rows) == len([n for n in range(ROWS) if n % 3 != 1])
    assert {r["tags"] for r in rows} == {"A", "C"}
    [(_, _, queue, _, _, last)] = written.queues[:1]
    starts = f'{{"Exchange": {{"broker-a": {{"{queue}": {last - 9}}}}}}}'
    assign = f'{{"Exchange": {{"broker-a": [{queue}]}}}}'
    rows = read(apache, assign=assign, startingOffsets=starts, columns="queueOffset")
    assert sorted(r["queueOffset"] for r in rows) == list(range(last - 9, last + 1))


def test_times(apache: str, written: TaskWritten) -> None:
    rows = read(apache, topic="Exchange", columns="storeTimestamp,queueId,queueOffset")
    times = sorted({r["storeTimestamp"] for r in rows})
    middle = times[len(times) // 2]
    ms = round(middle.timestamp() * 1000)
    late = read(apache, topic="Exchange", columns="queueId,queueOffset", startingTimestamp=str(ms))
    assert len(late) == len([r for r in rows if r["storeTimestamp"] >= middle])


def test_all_topics_of_users(apache: str, written: TaskWritten) -> None:
    """A real cluster has many topics of its own: names of cluster and broker, replies, revival."""
    rows = read(apache, columns="topic")
    assert {r["topic"] for r in rows} == {"Exchange"}


def test_delays_are_the_brokers_business(apache: str) -> None:
    """Apache's broker takes them, and puts them into the topic that it keeps them in."""
    columns = {"body": pa.array([b"later"]), "delayTimeLevel": pa.array([18], pa.int32())}
    assert write(apache, columns, topic="Delayed").messages == 1
    kept = [MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", 17)]
    with Cluster(Access(tuple(parse_addresses(apache, "name server")))) as cluster:
        eventually(
            lambda: cluster.offsets(RequestCode.GET_MAX_OFFSET, kept),
            "it is in its queue",
            until=lambda found: found == {kept[0]: 1},
        )
    rows = read(apache, topic="SCHEDULE_TOPIC_XXXX", columns="body,properties,queueId")
    assert [(r["body"], r["queueId"]) for r in rows] == [(b"later", 17)]
    assert dict(rows[0]["properties"])["REAL_TOPIC"] == "Delayed"


def test_a_repeated_idempotent_write_stores_nothing(apache: str) -> None:
    options = {"topic": "Once", "sendBatchBytes": "64k", "txnAppId": "orders", "txnVersion": "3"}
    done = write(apache, rows_of(range(ROWS)), **options)
    assert (done.messages, done.skipped) == (ROWS, 0)
    # One message after the other gets into its queue and the index: with this one all are there.
    wait_for_queues(apache, write(apache, {"body": pa.array([b"x"])}, topic="Behind"))
    again = write(apache, rows_of(range(ROWS)), **options)
    assert (again.messages, again.skipped) == (0, ROWS)
    rows = read(apache, topic="Once", columns="properties")
    assert len(rows) == ROWS
    assert {dict(row["properties"])["SPARK_BATCH"] for row in rows} == {"orders/3"}


def test_no_group_is_left_behind(apache: str, written: TaskWritten, tmp_path: Path) -> None:
    """Reading commits nothing: the broker has no offset of the group that reads."""
    checked = Options({"nameServer": apache, "topic": "Exchange"}, Query.BROKER_BATCH)
    how = selecting.read_options(checked, schemas.of_options(checked))
    split = BrokerPlanner(checked, selecting.selection(checked), how).batch()[0]
    from spark_ext.broker.cluster import Cluster

    with Cluster(split.access) as cluster:
        address = cluster.address("Exchange", "broker-a")
    with Client(address) as client:
        answer = client.call(
            14, consumerGroup="TOOLS_CONSUMER", topic="Exchange", queueId=0, setZeroIfNotFound=False
        )
    assert answer.code == 22
