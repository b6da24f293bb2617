"""Pulling ranges from a broker that does not always do as it should."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import spark_ext.broker.pull
from pyrmq.errors import (
    ClientError,
    ConnectError,
    DataLossError,
    ProtocolError,
    PyrmqError,
    StoreDamagedError,
)
from pyrmq.net.address import parse_address
from pyrmq.net.client.blocking_channel import BlockingChannels
from pyrmq.segments.read_options import ReadOptions
from spark_ext.broker.cluster import Access
from spark_ext.broker.partition import BrokerSplit
from spark_ext.broker.pull import QueueRange
from tests.support.records import encode_record
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.script import HANG_UP, SILENCE, times
from tests.support.wire import Command

PULL = 11
pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockingChannels, "pause", lambda self, seconds: None)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster({"T": {"a": 2}})
    with made.serving():
        yield made


def split(
    cluster: ScriptedCluster, ranges: list[tuple[int, int, int]], **change: Any
) -> BrokerSplit:
    access = Access(
        (parse_address(cluster.address),), change.pop("timeout", 10.0), change.pop("retries", 3)
    )
    given: dict[str, Any] = {
        "tags": None,
        "start_time": None,
        "end_time": None,
        "batch_size": 256,
        "fail_on_data_loss": True,
        "how": ReadOptions(columns=("body", "queueId", "queueOffset", "brokerName")),
        **change,
    }
    asked = tuple(QueueRange("T", "a", queue, start, end) for queue, start, end in ranges)
    return BrokerSplit(access=access, ranges=asked, **given)


def rows(made: BrokerSplit) -> list[tuple[int, int]]:
    out = []
    for batch in made.read():
        assert batch.schema.names[0] == "body"
        assert set(batch.column("brokerName").to_pylist()) == {"a"}
        ids, offsets = batch.column("queueId"), batch.column("queueOffset")
        out += list(zip(ids.to_pylist(), offsets.to_pylist(), strict=True))
    return out


def fill(cluster: ScriptedCluster, count: int, queue: int = 0, **properties: str) -> None:
    for n in range(count):
        cluster.put(b"%d" % n, queue=queue, **properties)


def test_ranges_come_whole_and_in_order(cluster: ScriptedCluster) -> None:
    fill(cluster, 3000)
    fill(cluster, 700, queue=1)
    got = rows(split(cluster, [(0, 17, 2900), (1, 0, 700)]))
    assert got == [(0, n) for n in range(17, 2900)] + [(1, n) for n in range(700)]
    pulls = [c for c in cluster.asked if c.code == PULL]
    assert {c.ext["consumerGroup"] for c in pulls} == {"TOOLS_CONSUMER"}
    assert {c.ext["sysFlag"] for c in pulls} == {"4"}, "no offset is committed, nothing held"


@pytest.mark.parametrize("hang_up_at", [1, 2, 9, 40])
def test_a_connection_that_breaks_is_opened_again(
    cluster: ScriptedCluster, hang_up_at: int
) -> None:
    fill(cluster, 3000)
    seen = [0]

    def change(c: Command) -> Command | None:
        seen[0] += 1
        return HANG_UP if seen[0] == hang_up_at else None

    cluster.change[PULL] = change
    assert rows(split(cluster, [(0, 0, 3000)])) == [(0, n) for n in range(3000)]


def test_a_busy_broker_is_asked_again(cluster: ScriptedCluster) -> None:
    fill(cluster, 300)
    cluster.change[PULL] = times(2, lambda c: c.reply(2))
    assert len(rows(split(cluster, [(0, 0, 300)]))) == 300


def test_a_broker_that_stays_away_is_named(cluster: ScriptedCluster) -> None:
    fill(cluster, 300)
    cluster.change[PULL] = lambda c: HANG_UP
    with pytest.raises(ConnectError) as caught:
        rows(split(cluster, [(0, 0, 300)]))
    assert "broker a (" in str(caught.value)
    assert "topic T, broker a, queue 0, offsets 0 to 300" in str(caught.value)


def test_a_silent_broker_is_named(cluster: ScriptedCluster) -> None:
    fill(cluster, 10)
    cluster.change[PULL] = lambda c: SILENCE
    with pytest.raises(ConnectError, match="did not answer"):
        rows(split(cluster, [(0, 0, 10)], timeout=0.05, retries=1))


def test_what_a_broker_refuses_is_not_asked_again(cluster: ScriptedCluster) -> None:
    fill(cluster, 10)
    cluster.change[PULL] = lambda c: c.reply(16)
    with pytest.raises(ClientError, match="CODE 16"):
        rows(split(cluster, [(0, 0, 10)]))
    assert len([c for c in cluster.asked if c.code == PULL]) == 1


def test_a_deleted_head(cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    fill(cluster, 1000)
    cluster.first["T", "a", 0] = 600
    with pytest.raises(DataLossError, match="at offset 0 any more; the queue now has 600 to 1000"):
        rows(split(cluster, [(0, 0, 1000)]))
    with caplog.at_level(logging.WARNING):
        got = rows(split(cluster, [(0, 0, 1000)], fail_on_data_loss=False))
    assert got == [(0, n) for n in range(600, 1000)]
    assert (
        len([r for r in caplog.records if "continuing with the messages available" in r.message])
        == 1
    )


def test_a_queue_that_ends_earlier_than_planned(cluster: ScriptedCluster) -> None:
    fill(cluster, 400)
    with pytest.raises(DataLossError, match="the queue now has 0 to 400"):
        rows(split(cluster, [(0, 0, 500)]))
    got = rows(split(cluster, [(0, 0, 500), (0, 450, 900)], fail_on_data_loss=False))
    assert got == [(0, n) for n in range(400)]


@pytest.mark.parametrize("start", [400, 450])
def test_a_replica_that_is_behind_loses_nothing(cluster: ScriptedCluster, start: int) -> None:
    fill(cluster, 400)
    cluster.ids["a"] = 1
    with pytest.raises(ConnectError, match="a replica answers, which has the queue up to 400"):
        rows(split(cluster, [(0, start, 500)], fail_on_data_loss=False, retries=1))


def test_an_end_that_is_late_is_waited_for(cluster: ScriptedCluster) -> None:
    fill(cluster, 400)
    late = times(2, lambda c: c.reply(19, cluster.bounds(c) | {"nextBeginOffset": "0"}))
    cluster.change[PULL] = lambda c: late(c) if c.ext["queueOffset"] == "0" else None
    assert len(rows(split(cluster, [(0, 0, 400)]))) == 400


def test_places_without_a_message(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 100)

    def hole(c: Command) -> Command | None:
        at = int(c.ext["queueOffset"])
        if at < 40:
            records = cluster.records["T", "a", 0][at:40]
            body = b"".join(encode_record(r) for r in records)
            return c.reply(0, cluster.bounds(c) | {"nextBeginOffset": "40"}, body)
        if at < 50:
            return c.reply(20, cluster.bounds(c) | {"nextBeginOffset": "50"})
        return None

    cluster.change[PULL] = hole
    with caplog.at_level(logging.WARNING):
        got = rows(split(cluster, [(0, 0, 100)], fail_on_data_loss=False))
    assert got == [(0, n) for n in [*range(40), *range(50, 100)]]
    assert "no messages at 40 to 50" in caplog.text
    with pytest.raises(DataLossError, match="no messages at 40 to 50"):
        rows(split(cluster, [(0, 0, 100)]))


def test_messages_that_are_deleted_under_a_read_by_tag(cluster: ScriptedCluster) -> None:
    """The code is that of a place where no message has the tag; the remark says why."""
    fill(cluster, 100, TAGS="A")

    def removing(c: Command) -> Command | None:
        if int(c.ext["queueOffset"]) >= 50:
            return None
        answer = c.reply(20, cluster.bounds(c) | {"nextBeginOffset": "50"})
        answer.remark = "MESSAGE_WAS_REMOVING"
        return answer

    cluster.change[PULL] = removing
    with pytest.raises(DataLossError, match="no messages at 0 to 50"):
        rows(split(cluster, [(0, 0, 100)], tags=("A",)))
    got = rows(split(cluster, [(0, 0, 100)], tags=("A",), fail_on_data_loss=False))
    assert got == [(0, n) for n in range(50, 100)]


@pytest.mark.parametrize("first", [0, 50])
@pytest.mark.parametrize("following", ["10", "70", str(2**62)])
def test_a_success_without_all_messages(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture, following: str, first: int
) -> None:
    fill(cluster, 100)

    def hole(c: Command) -> Command | None:
        if c.ext["queueOffset"] != "0":
            return None
        body = b"".join(encode_record(r) for r in cluster.records["T", "a", 0][5:10])
        ext = cluster.bounds(c) | {"nextBeginOffset": following, "minOffset": str(first)}
        return c.reply(0, ext, body)

    cluster.change[PULL] = hole
    with pytest.raises(DataLossError):
        rows(split(cluster, [(0, 0, 100)]))
    with caplog.at_level(logging.WARNING):
        got = rows(split(cluster, [(0, 0, 100)], fail_on_data_loss=False))
    assert got == [(0, n) for n in [*range(5, 10), *range(int(following), 100)]]
    assert "continuing with the messages available" in caplog.text


@pytest.mark.parametrize("following", ["0", "-1", "x"])
def test_a_pull_that_leads_nowhere(cluster: ScriptedCluster, following: str) -> None:
    fill(cluster, 10)
    cluster.change[PULL] = lambda c: c.reply(
        0, cluster.bounds(c) | {"nextBeginOffset": following}, b"x"
    )
    with pytest.raises(PyrmqError, match=r"continues at|nextBeginOffset") as caught:
        rows(split(cluster, [(0, 0, 10)]))
    assert not isinstance(caught.value, ConnectError)


def test_what_is_no_record(cluster: ScriptedCluster) -> None:
    fill(cluster, 10)
    cluster.change[PULL] = lambda c: c.reply(
        0, cluster.bounds(c) | {"nextBeginOffset": "10"}, b"not a record" * 20
    )
    with pytest.raises((StoreDamagedError, ProtocolError)) as caught:
        rows(split(cluster, [(0, 0, 10)]))
    assert "topic T, broker a, queue 0" in "".join(caught.value.__notes__)


def test_tags_are_compared_exactly(cluster: ScriptedCluster) -> None:
    """A broker compares hashes only; this one leaves out nothing at all."""
    for n in range(2000):
        cluster.put(b"%d" % n, TAGS="A" if n % 3 == 0 else "B")
    got = rows(split(cluster, [(0, 5, 1995)], tags=("A", "C")))
    assert got == [(0, n) for n in range(5, 1995) if n % 3 == 0]
    assert {c.ext["subscription"] for c in cluster.asked if c.code == PULL} == {"A || C"}


def test_answers_that_reach_into_the_next_block_are_not_read_twice(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tags a broker gives as many as were asked for, however far apart they are."""
    monkeypatch.setattr(spark_ext.broker.pull, "FILTERED_BLOCK", 64)
    for n in range(1000):
        cluster.put(b"%d" % n, TAGS="A" if n % 10 == 0 else "B")

    def filtered(c: Command) -> Command:
        records = cluster.records["T", "a", 0][int(c.ext["queueOffset"]) :]
        found = [r for r in records if r.properties["TAGS"] == "A"][: int(c.ext["maxMsgNums"])]
        following = str(found[-1].queue_offset + 1) if found else "1000"
        body = b"".join(encode_record(r) for r in found)
        ext = cluster.bounds(c) | {"nextBeginOffset": following}
        return c.reply(0 if found else 20, ext, body)

    cluster.change[PULL] = filtered
    got = rows(split(cluster, [(0, 0, 1000)], tags=("A",)))
    assert got == [(0, n) for n in range(0, 1000, 10)]


def test_store_times_bound_rows(cluster: ScriptedCluster) -> None:
    fill(cluster, 100)
    at = [r.store_timestamp for r in cluster.records["T", "a", 0]]
    got = rows(split(cluster, [(0, 0, 100)], start_time=at[10], end_time=at[90]))
    assert got == [(0, n) for n in range(10, 90)]
