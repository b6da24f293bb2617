"""The sink's sending, to brokers that do not always do as they should. No Spark is started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pyrmq.errors import ConfigError, MessageIllegalError, PyrmqError
from pyrmq.net.client.blocking_channel import BlockingChannels
from spark_ext.option import Query
from spark_ext.options import Options
from spark_ext.sink.send import SinkError
from spark_ext.sink.writer import SinkWriter, TaskWritten
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.script import HANG_UP, SILENCE, times
from tests.support.wire import Command

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

SINGLE, BATCH = 310, 320
TYPES = {
    "body": pa.binary(), "properties": pa.map_(pa.string(), pa.string()), "queueId": pa.int32(),
    "delayTimeLevel": pa.int32(), "flag": pa.int32(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockingChannels, "pause", lambda self, seconds: None)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster({"T": {"a": 4, "b": 4}, "TBW102": {"a": 8}})
    with made.serving():
        yield made


def writer(
    cluster: ScriptedCluster, columns: list[str], overwrite: bool = False, **options: str
) -> SinkWriter:
    given = {"nameServer": cluster.address, "topic": "T", **options}
    if given["topic"] == "":
        del given["topic"]
    types = {c: TYPES.get(c, pa.string()) for c in columns}
    return SinkWriter(Options(given, Query.WRITE), schema_of(types), overwrite)


def schema_of(types: dict[str, Any]) -> StructType:
    """Spark's schema of columns with Arrow's types."""
    return from_arrow_schema(pa.schema(types))


def batches(columns: dict[str, list[Any]], size: int = 10_000) -> Iterator[Any]:
    arrays = {c: pa.array(v, TYPES.get(c, pa.string())) for c, v in columns.items()}
    table = pa.table(arrays)
    yield from table.to_batches(max_chunksize=size)


def write(
    cluster: ScriptedCluster, columns: dict[str, list[Any]], size: int = 10_000, **options: str
) -> TaskWritten:
    done = writer(cluster, list(columns), **options).write(batches(columns, size))
    assert isinstance(done, TaskWritten)
    return done


def some(count: int) -> list[bytes]:
    return [b"%06d" % n for n in range(count)]


def sends(cluster: ScriptedCluster) -> list[Command]:
    return [c for c in cluster.asked if c.code in (SINGLE, BATCH)]


def test_rows_are_stored_and_counted(cluster: ScriptedCluster) -> None:
    done = write(cluster, {"body": some(1000)}, size=100)
    assert sorted(cluster.bodies()) == some(1000)
    assert done.messages == 1000
    assert len(sends(cluster)) == 10
    assert sum(q[3] for q in done.queues) == 1000
    for topic, broker, queue, messages, first, last in done.queues:
        assert messages == last - first + 1 == len(cluster.records[topic, broker, queue])
    assert {q[1] for q in done.queues} == {"a", "b"}, "batches take turns over the queues"


@pytest.mark.parametrize("code", [1, 2, 14])
def test_a_refusal_that_may_pass_is_tried_on_another_broker(
    cluster: ScriptedCluster, code: int
) -> None:
    cluster.change[BATCH] = lambda c: c.reply(code) if c.ext["n"] == "a" else None
    done = write(cluster, {"body": some(300)}, size=100)
    assert sorted(cluster.bodies()) == some(300)
    assert {q[1] for q in done.queues} == {"b"}


def test_a_refusal_that_stays_is_reported_with_its_rows(cluster: ScriptedCluster) -> None:
    def change(c: Command) -> Command | None:
        answer = c.reply(13)
        answer.remark = "too long for me"
        return answer if b"000250" in c.body else None

    cluster.change[BATCH] = change
    with pytest.raises(SinkError) as caught:
        write(cluster, {"body": some(300)}, size=100, sendInFlight="1")
    text = str(caught.value)
    assert "rows 200 to 299 (100 messages) for topic T, broker" in text
    assert "CODE 13: too long for me" in text
    assert "200 messages of this task were acknowledged before" in text


def test_tries_end(cluster: ScriptedCluster) -> None:
    cluster.change[BATCH] = lambda c: c.reply(2)
    with pytest.raises(SinkError, match="CODE 2"):
        write(cluster, {"body": some(10), "queueId": [0] * 10}, retryTimesWhenSendFailed="3")
    assert len(sends(cluster)) == 4


def test_a_broker_that_is_not_there_is_named(cluster: ScriptedCluster) -> None:
    cluster.change[BATCH] = lambda c: HANG_UP
    with pytest.raises(SinkError, match=r"rows 0 to 9 .* broker [ab] queue \d.*hung up"):
        write(cluster, {"body": some(10), "queueId": [0] * 10}, retryTimesWhenSendFailed="2")


def test_an_acknowledgement_that_is_lost_repeats_the_batch(cluster: ScriptedCluster) -> None:
    def stored_but_not_told(c: Command) -> Command:
        cluster.store(c)
        return HANG_UP

    cluster.change[BATCH] = times(1, stored_but_not_told)
    done = write(cluster, {"body": some(1000)}, size=100)
    assert done.messages == 1000
    assert sorted(set(cluster.bodies())) == some(1000)
    assert len(cluster.bodies()) > 1000


def test_no_answer_is_tried_again(cluster: ScriptedCluster) -> None:
    cluster.change[BATCH] = times(2, lambda c: SILENCE)
    done = write(cluster, {"body": some(500)}, size=100, sendMsgTimeout="100")
    assert done.messages == 500
    assert sorted(set(cluster.bodies())) == some(500)


@pytest.mark.parametrize("trouble", ["busy", "hang up"])
def test_rows_with_a_sharding_key_stay_in_order(cluster: ScriptedCluster, trouble: str) -> None:
    """Also when requests in the middle fail; a whole batch may come twice, but none too early."""
    count = [0]

    def change(c: Command) -> Command | None:
        count[0] += 1
        if count[0] % 3:
            return None
        return c.reply(2) if trouble == "busy" else HANG_UP

    cluster.change[BATCH] = change
    bodies = some(3000)
    keys = [f"order-{n % 7}" for n in range(3000)]
    done = write(cluster, {"body": bodies, "shardingKey": keys}, size=100, sendInFlight="16")
    assert done.messages == 3000
    places: dict[str, set[tuple[str, str, int]]] = {}
    for queue, records in cluster.records.items():
        got = [int(r.body) for r in records]
        for n in got:
            places.setdefault(keys[n], set()).add(queue)
        for key in set(keys):
            first_time = list(dict.fromkeys(n for n in got if keys[n] == key))
            assert first_time == sorted(first_time)
    assert all(len(queues) == 1 for queues in places.values())
    # The rule of SelectMessageQueueByHash: order-1 goes to number 6 of 8 queues.
    assert places["order-1"] == {("T", "b", 2)}


def test_rows_that_name_their_queue(cluster: ScriptedCluster) -> None:
    columns = {
        "body": some(400),
        "queueId": [n % 3 if n % 2 else None for n in range(400)],
        "brokerName": ["b" if n % 4 == 1 else None for n in range(400)],
    }
    write(cluster, columns, size=50)
    assert sorted(cluster.bodies()) == some(400)
    for (_, broker, queue), records in cluster.records.items():
        for record in records:
            n = int(record.body)
            assert columns["queueId"][n] in (None, queue)
            assert columns["brokerName"][n] in (None, broker)


def test_a_queue_that_is_not_there(cluster: ScriptedCluster) -> None:
    with pytest.raises(SinkError, match=r"row 0 .* has no queue 9 that takes .*: a 0"):
        write(cluster, {"body": [b"x"], "queueId": [9]})
    with pytest.raises(SinkError, match="on broker c that takes"):
        write(cluster, {"body": [b"x"], "brokerName": ["c"]})


def test_requests_under_way_are_bounded(cluster: ScriptedCluster) -> None:
    """One at a time: each is asked only after the one before was answered."""
    most, now = [0], [0]

    def change(c: Command) -> Command | None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        answer = cluster.store(c)
        now[0] -= 1
        return answer

    cluster.change[BATCH] = change
    write(cluster, {"body": some(1000)}, size=10, sendInFlight="1")
    assert len(sends(cluster)) == 100
    stored = [int(b) for q in cluster.records for b in [r.body for r in cluster.records[q]]]
    assert sorted(stored) == list(range(1000))
    opaques = [c.opaque for c in sends(cluster)]
    assert opaques == sorted(opaques)
    assert most[0] == 1


def test_stored_but_not_flushed(cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    def late(c: Command) -> Command:
        answer = cluster.store(c)
        answer.code = 10
        return answer

    cluster.change[BATCH] = late
    done = write(cluster, {"body": some(20)}, size=10)
    assert (done.messages, done.not_store_ok) == (20, 20)
    assert len([r for r in caplog.records if "FLUSH_DISK_TIMEOUT" in r.message]) == 1
    with pytest.raises(SinkError, match="CODE 10"):
        write(cluster, {"body": some(20)}, retryAnotherBrokerWhenNotStoreOK="true")


def test_a_queue_without_a_broker_is_one_queue(cluster: ScriptedCluster) -> None:
    rows = {"body": some(400), "queueId": [n % 4 for n in range(400)]}
    stored = {q[1:3] for _ in range(4) for q in write(cluster, rows, size=10).queues}
    assert len(stored) == 4, "tasks choose the same brokers"
    assert {broker for broker, _ in stored} == {"a", "b"}
    for (_, _, queue), records in cluster.records.items():
        bodies = [r.body for r in records]
        assert bodies == [b for b in some(400) if int(b) % 4 == queue] * 4


def test_a_queue_without_a_broker_moves_once(cluster: ScriptedCluster) -> None:
    cluster.change[BATCH] = lambda c: c.reply(2) if c.ext["n"] == "a" else None
    write(cluster, {"body": some(400), "queueId": [n % 4 for n in range(400)]}, size=40)
    assert {q[1] for q in cluster.records} == {"b"}
    assert len([c for c in sends(cluster) if c.ext["n"] == "a"]) == 2, "one for each of its queues"


def test_a_topic_that_its_first_message_makes(cluster: ScriptedCluster) -> None:
    write(cluster, {"body": some(50), "topic": ["New"] * 50}, size=10, topic="")
    assert sorted(cluster.bodies("New")) == some(50)
    assert {c.ext["c"] for c in sends(cluster)} == {"TBW102"}
    del cluster.topics["TBW102"]
    with pytest.raises(PyrmqError, match="no broker creates topics on demand"):
        write(cluster, {"body": some(5), "topic": ["Other"] * 5}, topic="")


def test_a_topic_whose_broker_comes_back(cluster: ScriptedCluster) -> None:
    """For a moment the name server knows neither it nor a broker that would make it."""
    cluster.change[105] = times(5, lambda c: c.reply(17))
    assert write(cluster, {"body": some(50)}).messages == 50


def test_nothing_of_a_batch_with_a_bad_row_is_sent(cluster: ScriptedCluster) -> None:
    bodies: list[bytes | None] = [*some(250)]
    bodies[230] = None
    with pytest.raises(MessageIllegalError, match="row 230: the body is null") as caught:
        write(cluster, {"body": bodies}, size=100)
    assert max(int(b) for b in cluster.bodies()) == 199
    assert caught.value.__notes__ == ["200 messages of this task were sent before"]
    with pytest.raises(MessageIllegalError, match='row 1: topic "a b" is illegal'):
        write(cluster, {"body": some(3), "topic": ["T", "a b", "T"]}, topic="")


def test_delayed_rows_go_alone(cluster: ScriptedCluster) -> None:
    write(cluster, {"body": some(20), "delayTimeLevel": [n % 2 * 3 for n in range(20)]})
    single = [c for c in sends(cluster) if "DELAY\x013\x02" in c.ext["i"]]
    assert len(single) == 10
    assert {c.code for c in single} == {SINGLE}
    assert sorted(cluster.bodies()) == some(20)


@pytest.mark.parametrize("count", [1, 3, 5, 23])
def test_few_rows_go_to_all_queues(cluster: ScriptedCluster, count: int) -> None:
    done = write(cluster, {"body": some(count)})
    assert done.messages == count
    assert len(done.queues) == min(count, 8)
    assert sorted(cluster.bodies()) == some(count)


def test_many_rows_go_in_full_batches(cluster: ScriptedCluster) -> None:
    write(cluster, {"body": some(200)}, size=100)
    assert len(sends(cluster)) == 2


def test_nothing_of_few_rows_is_sent_if_one_cannot_be(cluster: ScriptedCluster) -> None:
    with pytest.raises(MessageIllegalError, match="row 19"):
        write(cluster, {"body": [*some(19), b""]})
    assert not sends(cluster)


def test_an_option_wins_over_the_column(cluster: ScriptedCluster) -> None:
    write(cluster, {"body": some(5), "topic": ["Elsewhere"] * 5})
    assert sorted(cluster.bodies("T")) == some(5)


def test_nothing_to_write(cluster: ScriptedCluster) -> None:
    assert write(cluster, {"body": []}) == TaskWritten(0, 0, 0, ())


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["topic"], {}, "no column body"),
        (["body"], {"topic": ""}, "need a topic"),
    ],
)
def test_schemas_that_cannot_be_written(
    cluster: ScriptedCluster, columns: list[str], options: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        writer(cluster, columns, **options)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"value": pa.string()}, "column 'value' cannot be written"),
        ({"bodi": pa.string()}, "did you mean body"),
        ({"tag": pa.string()}, "did you mean tags"),
        ({"body": pa.int32()}, "column body is int, it has to be binary or string"),
        ({"queueId": pa.string()}, "has to be int or bigint"),
        ({"properties": pa.map_(pa.string(), pa.int32())}, "has to be map<string,string>"),
        ({"BODY": pa.binary()}, "two columns body"),
    ],
)
def test_columns_that_cannot_be_written(
    cluster: ScriptedCluster, more: dict[str, Any], said: str
) -> None:
    options = Options({"nameServer": cluster.address, "topic": "T"}, Query.WRITE)
    with pytest.raises(ConfigError, match=said):
        SinkWriter(options, schema_of({"body": pa.binary(), **more}), False)


def test_overwriting_and_missing_servers(cluster: ScriptedCluster) -> None:
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        writer(cluster, ["body"], overwrite=True)
    body = schema_of({"body": pa.binary()})
    with pytest.raises(ConfigError, match="needs option nameServer"):
        SinkWriter(Options({"topic": "T"}, Query.WRITE), body, False)


def test_no_name_server_answers() -> None:
    cluster = ScriptedCluster({"T": {"a": 1}})
    with contextlib.ExitStack() as stack:
        stack.enter_context(cluster.serving())
    with pytest.raises(PyrmqError, match=f"no name server of nameServer={cluster.address}"):
        write(cluster, {"body": some(1)}, retryTimesWhenSendFailed="1")
