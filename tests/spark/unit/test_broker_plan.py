"""Planning of reads through brokers, against a cluster that moves under the planner."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import spark_ext.broker.plan
from pyrmq.errors import (
    ConnectError,
    DataLossError,
    OffsetOutOfRangeError,
    PyrmqError,
    SegmentOptionError,
    UnknownTopicError,
)
from pyrmq.net.client.blocking_channel import BlockingChannels
from spark_ext import schema as schemas
from spark_ext import selecting
from spark_ext.broker.partition import BrokerSplit
from spark_ext.broker.plan import BrokerPlanner
from spark_ext.option import Query
from spark_ext.options import Options
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.script import HANG_UP, SILENCE, times
from tests.support.wire import Command

pytest.importorskip("pyspark")
AT_TIME, GET_MAX, ROUTE = 29, 30, 105


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockingChannels, "pause", lambda self, seconds: None)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster({"T": {"a": 2, "b": 1}, "C": {"a": 1}, "a": {"a": 1}, "b": {"b": 1}})
    with made.serving():
        yield made


def planner(cluster: ScriptedCluster, query: Query, **options: str) -> BrokerPlanner:
    given = {"nameServer": f"127.0.0.1:1;{cluster.address}", **options}
    checked = Options(given, query)
    how = selecting.read_options(checked, schemas.of_options(checked))
    return BrokerPlanner(checked, selecting.selection(checked), how)


def stream(cluster: ScriptedCluster, **options: str) -> BrokerPlanner:
    given = {"topic": "T", "startingOffsets": "earliest", **options}
    return planner(cluster, Query.BROKER_STREAM, **given)


def fill(cluster: ScriptedCluster, broker: str, queue: int, count: int, topic: str = "T") -> None:
    for _ in range(count):
        cluster.put(b"x", topic, broker, queue)


def planned(splits: list[BrokerSplit]) -> set[tuple[str, str, int, int, int]]:
    return {
        (r.topic, r.broker, r.queue_id, r.start, r.end) for split in splits for r in split.ranges
    }


def position(**queues: dict[str, int]) -> dict[str, Any]:
    return {"queues": {"T": dict(queues)}, "version": 1}


def test_a_batch_takes_what_is_there(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 5)
    fill(cluster, "b", 0, 3)
    cluster.first["T", "a", 0] = 2
    splits = planner(cluster, Query.BROKER_BATCH, topic="T").batch()
    assert planned(splits) == {("T", "a", 0, 2, 5), ("T", "b", 0, 0, 3)}
    assert all(len({r.broker for r in split.ranges}) == 1 for split in splits)
    assert planned(pickle.loads(pickle.dumps(splits))) == planned(splits)


def test_all_topics_are_those_of_users(cluster: ScriptedCluster) -> None:
    """Each cluster and each broker has a topic of its name."""
    for topic, broker in (("T", "a"), ("C", "a"), ("a", "a"), ("b", "b")):
        fill(cluster, broker, 0, 1, topic)
    found = planned(planner(cluster, Query.BROKER_BATCH).batch())
    assert {place[0] for place in found} == {"T"}
    found = planned(planner(cluster, Query.BROKER_BATCH, includeSystemTopics="true").batch())
    assert {place[0] for place in found} == {"T", "C", "a", "b"}


def test_named_things_must_be_there(cluster: ScriptedCluster) -> None:
    with pytest.raises(UnknownTopicError, match="'X'"):
        planner(cluster, Query.BROKER_BATCH, topic="X").batch()
    with pytest.raises(SegmentOptionError, match="a with 2 queues, b with 1 queues"):
        planner(cluster, Query.BROKER_BATCH, assign='{"T": {"b": [1]}}').batch()
    starts = '{"T": {"b": {"7": 0}}}'
    with pytest.raises(SegmentOptionError, match="startingOffsets: there is no queue 7"):
        stream(cluster, startingOffsets=starts).initial()


def test_a_topic_that_nobody_may_read(cluster: ScriptedCluster) -> None:
    cluster.topics["T"] = {"a": 0}
    with pytest.raises(SegmentOptionError, match="T cannot be read"):
        planner(cluster, Query.BROKER_BATCH, topic="T").batch()


def test_offsets_that_are_gone(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 10)
    cluster.first["T", "a", 0] = 6
    options = {"topic": "T", "startingOffsets": '{"T": {"a": {"0": 3}}}'}
    with pytest.raises(DataLossError, match="queue 0, which now starts at 6"):
        planner(cluster, Query.BROKER_BATCH, **options).batch()
    lenient = planner(cluster, Query.BROKER_BATCH, failOnDataLoss="false", **options).batch()
    assert planned(lenient) == {("T", "a", 0, 6, 10)}


def test_an_end_by_time_of_an_old_broker(cluster: ScriptedCluster) -> None:
    """Before 5.0 the answer is the nearest message, here the last one before the time."""
    fill(cluster, "a", 0, 10)
    time = cluster.records["T", "a", 0][4].store_timestamp + 1
    cluster.change[AT_TIME] = lambda c: c.reply(0, {"offset": "4"})
    options = {"topic": "T", "endingTimestamp": str(time)}
    splits = planner(cluster, Query.BROKER_BATCH, **options).batch()
    assert ("T", "a", 0, 0, 5) in planned(splits)
    assert {s.end_time for s in splits} == {time}


def times_of(cluster: ScriptedCluster, broker: str, queue: int) -> list[int]:
    return [record.store_timestamp for record in cluster.records["T", broker, queue]]


@pytest.mark.parametrize("old", [False, True])
def test_starts_and_ends_by_time(cluster: ScriptedCluster, old: bool) -> None:
    """Before 5.0 the answer is the nearest message, which may be the one before."""
    fill(cluster, "a", 0, 10)
    fill(cluster, "a", 1, 10)
    fill(cluster, "b", 0, 10)
    if old:
        cluster.change[AT_TIME] = lambda c: c.reply(0, {"offset": str(max(0, nearest(cluster, c)))})
    first, second = times_of(cluster, "a", 0)[4], times_of(cluster, "b", 0)[7]
    starts = {"T": {"a": {"0": first}, "b": first}}
    ends = {"T": {"a": {"0": second, "1": first}}}
    given = {
        "topic": "T",
        "startingOffsetsByTimestamp": json.dumps(starts),
        "endingOffsetsByTimestamp": json.dumps(ends),
    }
    found = planned(planner(cluster, Query.BROKER_BATCH, **given).batch())
    want = {}
    for broker, queue in (("a", 0), ("a", 1), ("b", 0)):
        stored = times_of(cluster, broker, queue)
        low = first if (broker, queue) != ("a", 1) else 0
        high = {("a", 0): second, ("a", 1): first}.get((broker, queue), 2**60)
        want[broker, queue] = [n for n, time in enumerate(stored) if low <= time < high]
    assert found == {
        ("T", broker, queue, inside[0], inside[-1] + 1)
        for (broker, queue), inside in want.items()
        if inside
    }


def nearest(cluster: ScriptedCluster, c: Command) -> int:
    """The last message before the time, as the brokers of 4.9 may say."""
    records = cluster.records[cluster.key_of(c)]
    time = int(c.ext["timestamp"])
    return sum(record.store_timestamp < time for record in records) - 1


def test_a_time_that_is_later_than_all(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 10)
    fill(cluster, "b", 0, 10)
    late = 99_999_999_999_999
    for old in (False, True):
        if old:
            cluster.change[AT_TIME] = lambda c: c.reply(0, {"offset": "9"})
        for named in ({"T": {"a": {"0": late}}}, {"T": late}):
            given = {"startingOffsetsByTimestamp": json.dumps(named)}
            with pytest.raises(OffsetOutOfRangeError, match="later than every message of topic T"):
                stream(cluster, **given).initial()
            given["startingOffsetsByTimestampStrategy"] = "latest"
            start = stream(cluster, **given).initial()
            assert start["queues"]["T"]["a"] == {"0": 10, "1": 0}
    for wrong in ({"X": late}, {"T": {"b": {"1": late}}}, {"T": {"c": late}}):
        given = {"startingOffsetsByTimestamp": json.dumps(wrong)}
        with pytest.raises(SegmentOptionError, match="startingOffsetsByTimestamp"):
            stream(cluster, **given).initial()


def test_at_most_so_many_messages_for_each_task(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 10)
    fill(cluster, "b", 0, 3)
    splits = planner(cluster, Query.BROKER_BATCH, topic="T", maxRecordsPerPartition="4").batch()
    sizes = [sum(r.end - r.start for r in split.ranges) for split in splits]
    assert sorted(sizes) == [3, 3, 3, 4]


def test_a_topic_of_a_stream_that_is_not_there_is_warned_of_once(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    made = planner(cluster, Query.BROKER_STREAM, subscribe="T,t")
    made.latest(made.initial())
    assert [text for text in caplog.messages if "'t'" in text] == [
        "topic 't' is not in the cluster (did you mean T?): nothing is read of it until it is there"
    ]


def test_how_far_a_stream_is_behind(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 10)
    made = stream(cluster)
    start = made.initial()
    assert made.count(start) == 10
    made.latest(start, 4)
    fill(cluster, "b", 0, 3)
    end, behind = made.end_and_behind()
    assert end == position(a={"0": 10, "1": 0}, b={"0": 3})
    assert sorted(behind) == [0, 3, 6]


def test_the_pause_between_tries(cluster: ScriptedCluster) -> None:
    given = Options(
        {"nameServer": "h:1", "fetchOffset.retryIntervalMs": "5000"}, Query.BROKER_BATCH
    )
    policy = replace(spark_ext.broker.plan.access(given).policy, jitter=0)
    assert [policy.pause_after(n) for n in (1, 2)] == [5.0, 5.0]


def test_a_stream_moves_on(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 5)
    made = stream(cluster)
    start = made.initial()
    assert start == position(a={"0": 0, "1": 0}, b={"0": 0})
    end = made.latest(start)
    assert end == position(a={"0": 5, "1": 0}, b={"0": 0})
    assert planned(made.splits(start, end)) == {("T", "a", 0, 0, 5)}
    assert made.splits(end, end) == []
    fill(cluster, "b", 0, 2)
    assert planned(made.splits(end, made.latest(end))) == {("T", "b", 0, 0, 2)}


def test_a_stream_starts_at_the_end_by_default(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 5)
    assert planner(cluster, Query.BROKER_STREAM, topic="T").initial() == position(
        a={"0": 5, "1": 0}, b={"0": 0}
    )


def test_a_query_that_stopped_in_its_first_batch(cluster: ScriptedCluster) -> None:
    """Spark kept the end of batch 0 and asks for its start anew, which is the end by then."""
    fill(cluster, "a", 0, 4)
    first = planner(cluster, Query.BROKER_STREAM, topic="T")
    end = first.latest(first.initial())
    fill(cluster, "a", 0, 3)
    fill(cluster, "a", 1, 2)
    again = planner(cluster, Query.BROKER_STREAM, topic="T")
    start = again.initial()
    assert start == position(a={"0": 7, "1": 2}, b={"0": 0})
    assert again.splits(start, end) == [], "batch 0 is empty"
    following = again.latest(end)
    assert planned(again.splits(end, following)) == {("T", "a", 0, 4, 7), ("T", "a", 1, 0, 2)}


def test_a_query_from_the_earliest_that_stopped_in_its_first_batch(
    cluster: ScriptedCluster,
) -> None:
    """What was deleted since is not passed over in silence."""
    fill(cluster, "a", 0, 4)
    first = stream(cluster)
    end = first.latest(first.initial())
    fill(cluster, "a", 0, 3)
    cluster.first["T", "a", 0] = 6
    again = stream(cluster)
    assert again.splits(again.initial(), end) == []
    with pytest.raises(DataLossError, match="offsets 4 to 6 are deleted"):
        again.splits(end, again.latest(end))


def test_messages_that_come_while_the_first_batch_is_planned(cluster: ScriptedCluster) -> None:
    """Spark asks twice where it starts."""
    fill(cluster, "a", 0, 4)
    made = planner(cluster, Query.BROKER_STREAM, topic="T")
    start = made.initial()
    end = made.latest(start)
    fill(cluster, "a", 0, 3)
    assert made.initial() == start
    assert made.splits(made.initial(), end) == []


def test_a_stream_of_an_assigned_queue_that_is_not_there(cluster: ScriptedCluster) -> None:
    given = {"assign": '{"T":{"a":[0,7]}}'}
    with pytest.raises(SegmentOptionError, match="assign: there is no queue 7 of topic T"):
        planner(cluster, Query.BROKER_STREAM, **given).initial()
    start = position(a={"0": 0})
    end = planner(cluster, Query.BROKER_STREAM, **given).latest(start)
    assert end == start, "one that runs waits for it"


def test_a_limit(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 80)
    fill(cluster, "a", 1, 20)
    fill(cluster, "b", 0, 1)
    made = stream(cluster)
    end = made.latest(made.initial(), 10)
    assert end == position(a={"0": 7, "1": 1}, b={"0": 1})


def test_what_comes_later(cluster: ScriptedCluster) -> None:
    made = stream(cluster)
    start = made.latest(made.initial())
    cluster.topics["T"] = {"a": 3, "b": 1}
    fill(cluster, "a", 2, 4)
    end = made.latest(start, 3)
    assert end["queues"]["T"]["a"] == {"0": 0, "1": 0, "2": 3}
    assert planned(made.splits(start, end)) == {("T", "a", 2, 0, 3)}


def test_what_comes_later_and_is_partly_gone(cluster: ScriptedCluster) -> None:
    start = stream(cluster).initial()
    cluster.topics["T"] = {"a": 3, "b": 1}
    fill(cluster, "a", 2, 4)
    cluster.first["T", "a", 2] = 3
    strict, lenient = stream(cluster), stream(cluster, failOnDataLoss="false")
    end = strict.latest(start)
    with pytest.raises(DataLossError, match="its first 3 messages are deleted"):
        strict.splits(start, end)
    assert planned(lenient.splits(start, end)) == {("T", "a", 2, 3, 4)}


def test_messages_deleted_under_a_stream(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 10)
    start = position(a={"0": 2, "1": 0}, b={"0": 0})
    cluster.first["T", "a", 0] = 7
    strict, lenient = stream(cluster), stream(cluster, failOnDataLoss="false")
    with pytest.raises(DataLossError, match="offsets 2 to 7 are deleted"):
        strict.splits(start, strict.latest(start))
    assert planned(lenient.splits(start, lenient.latest(start))) == {("T", "a", 0, 7, 10)}


def test_a_queue_made_anew_under_a_stream(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, "a", 0, 4)
    start = position(a={"0": 9, "1": 0}, b={"0": 0})
    with pytest.raises(DataLossError, match="was at 9 and now ends at 4"):
        stream(cluster).latest(start)
    lenient = stream(cluster, failOnDataLoss="false")
    assert lenient.latest(start) == start, "a broker that took over may have to catch up"
    monkeypatch.setattr(spark_ext.broker.plan, "ANEW", 0)
    end = lenient.latest(start)
    assert end["queues"]["T"]["a"]["0"] == 4
    assert planned(lenient.splits(start, end)) == {("T", "a", 0, 0, 4)}


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_replica_does_not_move_a_stream(cluster: ScriptedCluster, fail: str) -> None:
    """It may be behind its master."""
    fill(cluster, "b", 0, 4)
    start = position(a={"0": 0, "1": 0}, b={"0": 5})
    cluster.ids["b"] = 1
    made = stream(cluster, failOnDataLoss=fail)
    assert made.latest(start) == start
    cluster.ids["b"] = 0
    fill(cluster, "b", 0, 2)
    assert planned(made.splits(start, made.latest(start))) == {("T", "b", 0, 5, 6)}


def test_a_broker_that_is_away_is_waited_for(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, "a", 0, 4)
    made = stream(cluster)
    start = position(a={"0": 0, "1": 0}, b={"0": 17})
    del cluster.topics["T"]["b"]
    end = made.latest(start)
    assert end == position(a={"0": 4, "1": 0}, b={"0": 17})
    assert planned(made.splits(start, end)) == {("T", "a", 0, 0, 4)}
    made.latest(end)
    assert len([r for r in caplog.records if "has no broker now" in r.message]) == 1
    del cluster.topics["T"]
    assert made.latest(end) == end


def test_a_broker_that_is_away_is_waited_for_without_a_start(cluster: ScriptedCluster) -> None:
    """PySpark 4.1 does not say where a micro-batch starts."""
    fill(cluster, "b", 0, 5)
    made = stream(cluster)
    first = made.initial()
    start = made.latest(None)
    assert planned(made.splits(first, start)) == {("T", "b", 0, 0, 5)}
    del cluster.topics["T"]["b"]
    fill(cluster, "a", 0, 1)
    away = made.latest(None)
    assert away == position(a={"0": 1, "1": 0}, b={"0": 5})
    assert planned(made.splits(start, away)) == {("T", "a", 0, 0, 1)}
    cluster.topics["T"]["b"] = 1
    fill(cluster, "b", 0, 1)
    back = made.latest(None)
    assert planned(made.splits(away, back)) == {("T", "b", 0, 5, 6)}


def test_a_broker_that_is_away_at_a_restart_of_pyspark_41(cluster: ScriptedCluster) -> None:
    """It names no start to `latest`, but the end in the checkpoint first, as an empty range
    (tests/spark/e2e/test_api_facts.py)."""
    fill(cluster, "b", 0, 5)
    at = position(a={"0": 0, "1": 0}, b={"0": 5})
    del cluster.topics["T"]["b"]
    fill(cluster, "a", 0, 1)
    made = stream(cluster)
    assert planned(made.splits(at, at)) == set()
    assert made.latest(None) == position(a={"0": 1, "1": 0}, b={"0": 5})


def test_a_broker_that_is_away_at_a_restart_without_a_start(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """If Spark said nothing at all: the first end cannot name its queues; the next ones do."""
    fill(cluster, "b", 0, 5)
    start = position(a={"0": 0, "1": 0}, b={"0": 5})
    del cluster.topics["T"]["b"]
    fill(cluster, "a", 0, 1)
    made = stream(cluster)
    end = made.latest(None)
    assert end == position(a={"0": 1, "1": 0})
    assert planned(made.splits(start, end)) == {("T", "a", 0, 0, 1)}
    assert (
        "broker b, queue 0 has no broker now and leaves the checkpoint at offset 5" in caplog.text
    )
    cluster.topics["T"]["b"] = 1
    fill(cluster, "b", 0, 2)
    back = made.latest(None)
    assert planned(made.splits(end, back)) == {("T", "b", 0, 5, 7)}
    assert planned(made.splits(back, back)) == set()


def test_available_now_ends_where_it_began(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 4)
    made = stream(cluster)
    start = made.initial()
    made.pin()
    fill(cluster, "a", 0, 4)
    fill(cluster, "b", 0, 4)
    assert made.latest(start) == position(a={"0": 4, "1": 0}, b={"0": 0})
    assert made.end() == position(a={"0": 8, "1": 0}, b={"0": 4})


@pytest.mark.parametrize("code", [ROUTE, GET_MAX])
def test_planning_asks_again(cluster: ScriptedCluster, code: int) -> None:
    fill(cluster, "a", 0, 4)
    cluster.change[code] = times(2, lambda c: HANG_UP)
    splits = planner(cluster, Query.BROKER_BATCH, topic="T").batch()
    assert planned(splits) == {("T", "a", 0, 0, 4)}


@pytest.mark.parametrize("code", [ROUTE, GET_MAX])
def test_planning_leaves_a_silent_connection(cluster: ScriptedCluster, code: int) -> None:
    """What was dropped on the way is silent for ever; another connection works."""
    fill(cluster, "a", 0, 4)
    silent: list[socket.socket] = []

    def change(c: Command) -> Command | None:
        silent.append(cluster.serves[threading.get_ident()])
        return SILENCE if silent[-1] is silent[0] else None

    cluster.change[code] = change
    made = planner(cluster, Query.BROKER_BATCH, topic="T", pullTimeoutMs="100")
    assert planned(made.batch()) == {("T", "a", 0, 0, 4)}


def test_planning_names_a_broker_that_does_not_answer(cluster: ScriptedCluster) -> None:
    cluster.change[GET_MAX] = lambda c: HANG_UP if c.ext["bname"] == "b" else None
    with pytest.raises(PyrmqError, match=rf"broker b \({cluster.address}\): .*hung up"):
        planner(cluster, Query.BROKER_BATCH, topic="T").batch()


def test_a_name_server_that_knows_nothing_yet(cluster: ScriptedCluster) -> None:
    fill(cluster, "a", 0, 4)
    empty = ScriptedCluster({})
    with empty.serving():
        servers = f"{empty.address};{cluster.address}"
        made = planner(cluster, Query.BROKER_BATCH, topic="T", nameServer=servers)
        assert planned(made.batch()) == {("T", "a", 0, 0, 4)}
        made = planner(cluster, Query.BROKER_BATCH, topic="X", nameServer=servers)
        with pytest.raises(PyrmqError, match="'X'"):
            made.batch()


def test_planning_names_the_name_servers(cluster: ScriptedCluster) -> None:
    cluster.change[ROUTE] = lambda c: HANG_UP
    with pytest.raises(ConnectError, match=f"nameServer=127.0.0.1:1;{cluster.address} answered"):
        planner(cluster, Query.BROKER_BATCH, topic="T").batch()
