"""Idempotent writes, to brokers that refuse or are asked strange things. No Spark is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pyrmq.errors import ClientError, ConfigError, MessageIllegalError, PyrmqError
from pyrmq.net.client.blocking_channel import BlockingChannels
from spark_ext.option import Query
from spark_ext.options import Options
from spark_ext.sink.send import SinkError
from spark_ext.sink.writer import SinkWriter, StreamSinkWriter, TaskWritten
from tests.support.records import Record, encode_record
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.script import HANG_UP, times
from tests.support.wire import Command

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from pyspark import TaskContext  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

SINGLE, BATCH, QUERY, CONFIG = 310, 320, 12, 26
TYPES = {
    "body": pa.binary(), "properties": pa.map_(pa.string(), pa.string()), "queueId": pa.int32(),
}  # fmt: skip
TXN = {"txnAppId": "orders", "txnVersion": "7"}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockingChannels, "pause", lambda self, seconds: None)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster({"T": {"a": 4, "b": 4}})
    with made.serving():
        yield made


class FakeTask:
    """What Spark says of a running task."""

    def __init__(self, partition: int = 0, **properties: str) -> None:
        self.partition = partition
        self.properties = properties

    def partitionId(self) -> int:
        return self.partition

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> FakeTask:
    made = FakeTask()
    monkeypatch.setattr(TaskContext, "get", lambda: made)
    return made


def write(
    cluster: ScriptedCluster,
    columns: dict[str, list[Any]],
    *,
    size: int = 100,
    stream: bool = False,
    **options: str,
) -> TaskWritten:
    """One task; options are those of txnAppId 'orders' and txnVersion 7 unless others are given."""
    types = {c: TYPES.get(c, pa.string()) for c in columns}
    schema = from_arrow_schema(pa.schema(types))
    given = {"nameServer": cluster.address, "topic": "T", **(options or TXN)}
    query = Query.WRITE_STREAM if stream else Query.WRITE
    writer = (StreamSinkWriter if stream else SinkWriter)(Options(given, query), schema, False)
    table = pa.table({c: pa.array(v, types[c]) for c, v in columns.items()})
    done = writer.write(iter(table.to_batches(max_chunksize=size)))
    assert isinstance(done, TaskWritten)
    return done


def some(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % n for n in range(start, start + count)]


def count(cluster: ScriptedCluster, *codes: int) -> int:
    return sum(c.code in codes for c in cluster.asked)


def killed(cluster: ScriptedCluster, columns: dict[str, list[Any]], after: int, **more: Any) -> int:
    """A task that dies after so many requests. How many messages are stored then."""
    left = [after]

    def change(c: Command) -> Command | None:
        if c.ext["a"] != "dies":
            return None
        left[0] -= 1
        return None if left[0] >= 0 else c.reply(13)

    cluster.change[BATCH] = change
    with pytest.raises(SinkError):
        write(cluster, columns, **{**TXN, **more, "producerGroup": "dies"})
    cluster.asked.clear()
    return len(cluster.bodies())


def messages(cluster: ScriptedCluster) -> list[Record]:
    return [record for records in cluster.records.values() for record in records]


def test_a_first_try_asks_for_the_first_requests_only(cluster: ScriptedCluster) -> None:
    """4 requests at a time, 2 brokers: 8 questions, and each broker's setting once."""
    done = write(cluster, {"body": some(3000)})
    assert (done.messages, done.skipped) == (3000, 0)
    assert sorted(cluster.bodies()) == some(3000)
    assert count(cluster, QUERY) == 8
    assert count(cluster, CONFIG) == 2
    assert count(cluster, BATCH) == 30


@pytest.mark.parametrize("in_flight", ["1", "4", "64"])
@pytest.mark.parametrize("after", [0, 1, 7, 29])
def test_a_try_after_one_that_died_stores_every_row_once(
    cluster: ScriptedCluster, after: int, in_flight: str
) -> None:
    options = {**TXN, "sendInFlight": in_flight}
    there = killed(cluster, {"body": some(3000)}, after, **options)
    assert there == after * 100
    done = write(cluster, {"body": some(3000)}, **options)
    assert sorted(cluster.bodies()) == some(3000)
    assert (done.messages, done.skipped) == (3000 - there, there)
    assert count(cluster, QUERY) <= 30 * 2, "no more than one for each request and broker"


def test_an_acknowledged_write_can_be_repeated(cluster: ScriptedCluster) -> None:
    write(cluster, {"body": some(1000)})
    for _ in range(2):
        done = write(cluster, {"body": some(1000)})
        assert (done.messages, done.skipped, done.queues) == (0, 1000, ())
    assert sorted(cluster.bodies()) == some(1000)


@pytest.mark.parametrize("rows", [1, 3, 23])
def test_few_rows_are_spread_and_stored_once(cluster: ScriptedCluster, rows: int) -> None:
    """Also if the topic has other queues when they are sent again."""
    write(cluster, {"body": some(rows)})
    assert len({queue for queue, records in cluster.records.items() if records}) == min(rows, 8)
    cluster.topics["T"] = {"a": 3}
    assert write(cluster, {"body": some(rows)}).skipped == rows
    assert sorted(cluster.bodies()) == some(rows)


def test_other_rows_in_a_repeated_write_are_sent(cluster: ScriptedCluster) -> None:
    """A request of which one row is another one is sent as a whole; none is taken for stored."""
    killed(cluster, {"body": some(1000)}, 5)
    other = some(1000)
    other[250] = b"other"
    write(cluster, {"body": other})
    assert set(cluster.bodies()) >= set(other)
    twice = {body for body, n in Counter(cluster.bodies()).items() if n > 1}
    assert twice == set(some(100, 200)) - {b"000250"}


def test_rows_that_all_come_anew_are_all_sent(cluster: ScriptedCluster) -> None:
    killed(cluster, {"body": some(1000)}, 5)
    assert write(cluster, {"body": some(1000, 1)}).skipped == 0
    assert set(cluster.bodies()) == set(some(1001))


@pytest.mark.parametrize("changed", [{"txnAppId": "invoices"}, {"txnVersion": "8"}])
def test_equal_rows_of_another_write_are_stored(
    cluster: ScriptedCluster, changed: dict[str, str]
) -> None:
    write(cluster, {"body": some(300)})
    assert write(cluster, {"body": some(300)}, **{**TXN, **changed}).skipped == 0
    assert len(cluster.bodies()) == 600


def test_a_request_whose_end_was_cut_off_is_sent_again(cluster: ScriptedCluster) -> None:
    """A log that is recovered after a crash ends behind the last message that is whole."""
    write(cluster, {"body": some(1000)})
    cut = cluster.records["T", "a", 0] or cluster.records["T", "a", 1]
    lost = cut.pop().body
    assert write(cluster, {"body": some(1000)}).skipped == 900
    assert lost in cluster.bodies()
    assert set(cluster.bodies()) == set(some(1000))


def test_equal_rows_of_one_write_are_stored(cluster: ScriptedCluster, task: FakeTask) -> None:
    """In one task, and in two tasks of a write."""
    for partition in range(2):
        task.partition = partition
        assert write(cluster, {"body": [b"x"] * 1000}).skipped == 0
    assert len(cluster.bodies()) == 2000
    keys = {record.properties["UNIQ_KEY"] for record in messages(cluster)}
    assert len(keys) == 2000


def test_messages_say_what_they_belong_to(cluster: ScriptedCluster) -> None:
    write(cluster, {"body": some(3), "properties": [[("SPARK_BATCH", "old/1")], None, None]})
    assert [r.properties["SPARK_BATCH"] for r in messages(cluster)] == ["orders/7"] * 3
    assert all(len(r.properties["UNIQ_KEY"]) == 32 for r in messages(cluster))


def test_rows_of_queues_and_keys_stay_in_order(cluster: ScriptedCluster) -> None:
    columns = {"body": some(2000), "shardingKey": [f"order-{n % 5}" for n in range(2000)]}
    killed(cluster, columns, 9)
    write(cluster, columns)
    assert sorted(cluster.bodies()) == some(2000)
    for records in cluster.records.values():
        for key in range(5):
            got = [int(r.body) for r in records if int(r.body) % 5 == key]
            assert got == sorted(got)


def test_rows_that_name_their_broker_ask_only_that(cluster: ScriptedCluster) -> None:
    columns = {"body": some(100), "queueId": [1] * 100, "brokerName": ["b"] * 100}
    write(cluster, columns)
    assert count(cluster, QUERY) == count(cluster, CONFIG) == 1
    assert write(cluster, columns).skipped == 100


def test_an_answer_with_another_message_is_no_proof(cluster: ScriptedCluster) -> None:
    """Indexes know hashes: a broker may answer with a message whose key has the same one."""
    killed(cluster, {"body": some(1000)}, 0)
    record = encode_record(cluster.put(b"stranger", "Other", UNIQ_KEY="0" * 32))
    cluster.change[QUERY] = lambda c: c.reply(0, {}, record)
    assert write(cluster, {"body": some(1000)}).skipped == 0
    assert sorted(cluster.bodies()) == some(1000)


def test_a_broker_without_an_index(cluster: ScriptedCluster) -> None:
    cluster.change[CONFIG] = lambda c: c.reply(0, {}, b"messageIndexEnable=false\n")
    with pytest.raises(ClientError, match=r"broker [ab] .*messageIndexEnable=false.*set"):
        write(cluster, {"body": some(10)})
    assert not cluster.bodies()


def test_a_broker_that_hides_its_settings(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.change[CONFIG] = lambda c: c.reply(16)
    write(cluster, {"body": some(10)})
    assert len([r for r in caplog.records if "messageIndexEnable=true" in r.message]) == 2


def test_a_broker_that_does_not_answer(cluster: ScriptedCluster) -> None:
    cluster.change[QUERY] = lambda c: HANG_UP
    with pytest.raises(PyrmqError, match=r"broker [ab] does not say whether rows are stored"):
        write(cluster, {"body": some(10)}, **TXN, retryTimesWhenSendFailed="2")
    assert not cluster.bodies()
    assert count(cluster, QUERY) <= 3 * 2 * 8, "tries end"


def test_a_broker_that_refuses_to_answer(cluster: ScriptedCluster) -> None:
    cluster.change[QUERY] = lambda c: c.reply(16)
    with pytest.raises(ClientError, match=r"broker a does not say .*CODE 16"):
        write(cluster, {"body": some(10)})
    assert not cluster.bodies()


def test_questions_are_asked_again(cluster: ScriptedCluster) -> None:
    killed(cluster, {"body": some(1000)}, 6)
    cluster.change[QUERY] = times(3, lambda c: HANG_UP)
    assert write(cluster, {"body": some(1000)}).skipped == 600
    assert sorted(cluster.bodies()) == some(1000)


def test_a_broker_without_a_master(cluster: ScriptedCluster) -> None:
    cluster.ids["b"] = 1
    with pytest.raises(ClientError, match=r"broker b does not say .* no master"):
        write(cluster, {"body": some(10)}, **TXN, retryTimesWhenSendFailed="1")


def test_a_stream_is_known_by_its_query_and_micro_batch(
    cluster: ScriptedCluster, task: FakeTask
) -> None:
    task.properties = {"sql.streaming.queryId": "q-1", "streaming.sql.batchId": "12"}
    columns = {"body": some(300)}
    write(cluster, columns, stream=True, idempotent="true")
    assert write(cluster, columns, stream=True, idempotent="true").skipped == 300
    assert {r.properties["SPARK_BATCH"] for r in messages(cluster)} == {"q-1/12"}
    task.properties["streaming.sql.batchId"] = "13"
    assert write(cluster, columns, stream=True, idempotent="true").skipped == 0
    cluster.asked.clear()
    write(cluster, columns, stream=True, idempotent="false")
    assert count(cluster, QUERY, CONFIG) == 0


def test_a_stream_without_micro_batches(cluster: ScriptedCluster, task: FakeTask) -> None:
    task.properties = {"sql.streaming.queryId": "q-1"}
    with pytest.raises(ClientError, match="needs a streaming query of micro-batches"):
        write(cluster, {"body": some(3)}, stream=True, idempotent="true")


@pytest.mark.parametrize(
    ("options", "stream", "said"),
    [
        ({"txnAppId": "a"}, False, "txnAppId needs option txnVersion"),
        ({"txnVersion": "1"}, False, "txnVersion needs option txnAppId"),
        ({"txnAppId": "a", "txnVersion": "-1"}, False, "must be 0 or more"),
        ({"txnAppId": "a\x01b", "txnVersion": "1"}, False, "without control characters"),
        ({"txnAppId": "a" * 129, "txnVersion": "1"}, False, "1 to 128 bytes"),
        ({"idempotent": "true"}, False, "does not belong to a batch write"),
        ({"txnAppId": "a", "txnVersion": "1"}, True, "does not belong to a streaming write"),
    ],
)
def test_options_that_do_not_go_together(
    cluster: ScriptedCluster, options: dict[str, str], stream: bool, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        write(cluster, {"body": some(1)}, stream=stream, **options)


def test_rows_bring_no_keys_of_their_own(cluster: ScriptedCluster) -> None:
    columns = {"body": some(1), "properties": [[("UNIQ_KEY", "0" * 32)]]}
    with pytest.raises(MessageIllegalError, match="row 0: the row brings a UNIQ_KEY"):
        write(cluster, columns)
    write(cluster, columns, **TXN, systemProperties="drop")
    assert messages(cluster)[0].properties["UNIQ_KEY"] != "0" * 32
