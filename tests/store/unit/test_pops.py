"""Pops of a store through Python: what they give, what they leave in the log, what they refuse."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Popped, Pops, SqlFilter, Store
from pyrmq.errors import MessageIllegalError, ServiceNotAvailableError
from tests.store.tools import FOUND, NO_MATCH, NO_MESSAGE, opened
from tests.support.records import Record, decode_records, java_hash

TIMERS = "rmq_sys_wheel_timer"
RETRY = "%RETRY%g_T"
INVISIBLE = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path, consume_queue_file_size=20 * 100) as store:
        for topic in ("T", RETRY):
            for n in range(40):
                store.put(topic, 1, b"%d" % n, f"TAGS\x01{'odd' if n % 2 else 'even'}\x02")
        yield store


@pytest.fixture
def pops(store: Store) -> Pops:
    return Pops(store.native, cluster="C", broker_name="broker-a")


def pop(pops: Pops, offset: int = 0, count: int = 8, **asked: Any) -> Popped:
    asked = {"pop_time": 1000, "invisible_time": INVISIBLE, "revive_queue": 3, **asked}
    topic = asked.pop("topic", "T")
    popped = pops.pop(topic, 1, "g", offset, count, **asked)
    assert popped is not None
    return popped


def records(popped: Popped) -> list[Record]:
    return decode_records(b"".join(bytes(part) for part in popped.slices))


def timers(store: Store) -> list[Record]:
    found = store.get(TIMERS, 0, 0, 32)
    return decode_records(b"".join(bytes(part) for part in found.slices))


def test_what_a_pop_gives(store: Store, pops: Pops) -> None:
    popped = pop(pops, 4)
    assert (popped.status, popped.count) == (FOUND, 8)
    assert popped.offsets == list(range(4, 12))
    assert [record.body for record in records(popped)] == [b"%d" % n for n in range(4, 12)]
    assert popped.nbytes == sum(len(part) for part in popped.slices)
    places = popped.start_offset, popped.next_offset, popped.min_offset, popped.max_offset
    assert (*places, popped.rest) == (4, 12, 0, 40, 28)
    assert popped.log_end == store.confirmed()
    (check_point,) = timers(store)
    assert check_point.properties["REAL_TOPIC"] == pops.revive_topic == "rmq_sys_REVIVE_LOG_C"
    assert (check_point.properties["REAL_QID"], check_point.properties["TAGS"]) == ("3", "ck")
    body = json.loads(check_point.body)
    assert (body["so"], body["d"], body["t"]) == (4, list(range(8)), "T")
    assert (body["c"], body["bn"], body["q"]) == ("g", "broker-a", 1)
    assert (body["pt"], body["it"]) == (1000, INVISIBLE)


def test_what_is_selected(pops: Pops) -> None:
    odd = array("i", [java_hash("odd")])
    popped = pop(pops, 0, 3, tags=odd)
    assert (popped.offsets, popped.next_offset, popped.start_offset) == ([1, 3, 5], 6, 0)
    popped = pop(pops, 7, 2, sql=SqlFilter("TAGS = 'even'"))
    assert (popped.offsets, popped.next_offset) == ([8, 10], 11)
    popped = pop(pops, 7, 2, tags=array("i", [1]))
    assert (popped.status, popped.offsets, popped.next_offset) == (NO_MATCH, [], 40)


def test_nothing_leaves_no_check_point(store: Store, pops: Pops) -> None:
    end = store.confirmed()
    for asked, status in (
        ({"tags": array("i", [1])}, NO_MATCH),
        ({"topic": "Nothing"}, NO_MESSAGE),
    ):
        popped = pop(pops, 3, **asked)
        assert (popped.status, popped.slices, popped.log_end) == (status, [], 0)
    assert store.confirmed() == end


def test_a_read_leaves_none(store: Store, pops: Pops) -> None:
    found = pops.read("T", 1, 5, 3, tags=array("i", [java_hash("even")]))
    assert found is not None
    assert (found.offsets, found.log_end) == ([6, 8, 10], 0)
    assert [record.body for record in records(found)] == [b"6", b"8", b"10"]
    assert timers(store) == []


def test_messages_of_a_retry_topic_are_given_under_their_own(pops: Pops) -> None:
    as_it_is = pop(pops, 2, 2, topic=RETRY)
    assert [record.topic for record in records(as_it_is)] == [RETRY, RETRY]
    popped = pop(pops, 2, 2, topic=RETRY, original_topic="T")
    found = records(popped)
    assert [record.topic for record in found] == ["T", "T"]
    handles = [record.properties["POP_CK"] for record in found]
    assert handles == [f"2 1000 {INVISIBLE} 3 1 broker-a 1 {n}" for n in (2, 3)]
    assert [record.body for record in found] == [record.body for record in records(as_it_is)]
    assert popped.nbytes == sum(len(part) for part in popped.slices)


HANDLE = {"start_offset": 2, "pop_time": 1000, "invisible_time": INVISIBLE, "revive_queue": 3}


def test_acks_and_changes(store: Store, pops: Pops) -> None:
    pops.ack("T", 1, "g", [3], **HANDLE)
    assert pops.ack("T", 1, "g", [4, 6], broker_name="broker-a", **HANDLE) == store.confirmed()
    changed = pops.change_invisible_time(
        "T", 1, "g", 5, now=1000, new_invisible_time=9, suspend=True, **HANDLE
    )
    assert changed == (store.confirmed(), 1001)
    one, batch, check_point, old = timers(store)
    assert [r.properties["TAGS"] for r in (one, batch, check_point, old)] == [
        "ack", "bAck", "ck", "ack",
    ]  # fmt: skip
    assert json.loads(batch.body)["aol"] == [4, 6]
    assert (json.loads(one.body)["ao"], json.loads(old.body)["ao"]) == (3, 5)
    body = json.loads(check_point.body)
    assert (body["so"], body["pt"], body["it"], body["sp"]) == (5, 1001, 9, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_name": "broker-b"},
        {"start_offset": -1},
        {"pop_time": -1},
        {"pop_time": 1 << 62},
        {"invisible_time": -1},
        {"invisible_time": 3 * 86_400_000 + 1},
        {"revive_queue": 8},
        {"revive_queue": 999},
        {"start_offset": 6},
    ],
    ids=repr,
)
def test_handles_that_are_refused(store: Store, pops: Pops, wrong: dict[str, Any]) -> None:
    handle: dict[str, Any] = {**HANDLE, **wrong}
    with pytest.raises(MessageIllegalError):
        pops.ack("T", 1, "g", [5], **handle)
    with pytest.raises(MessageIllegalError):
        pops.change_invisible_time("T", 1, "g", 5, now=1000, new_invisible_time=9, **handle)
    assert timers(store) == []


def test_times_and_settings_that_are_refused(store: Store, pops: Pops) -> None:
    for wrong in ({"invisible_time": -1}, {"revive_queue": -1}, {"revive_queue": 8}):
        with pytest.raises(MessageIllegalError):
            pop(pops, **wrong)
    for settings in (
        {"cluster": "a/b", "broker_name": "b"},
        {"cluster": "C", "broker_name": "a b"},
        {"cluster": "C", "broker_name": "b", "revive_queues": 0},
        {"cluster": "C", "broker_name": "b", "precision": 0},
    ):
        with pytest.raises(MessageIllegalError):
            Pops(store.native, **settings)  # type: ignore[arg-type]
    assert timers(store) == []


def test_slices_outlive_the_store(tmp_path: Path) -> None:
    with opened(tmp_path / "other") as store:
        store.put("T", 1, b"body")
        popped = pop(Pops(store.native, cluster="C", broker_name="b"))
    assert [record.body for record in records(popped)] == [b"body"]
    with pytest.raises(ServiceNotAvailableError):
        pop(Pops(store.native, cluster="C", broker_name="b"))


def test_several_threads_pop_and_acknowledge(store: Store, pops: Pops) -> None:
    def one(n: int) -> list[int]:
        popped = pop(pops, n, 1, pop_time=1000 + n)
        handle = {**HANDLE, "start_offset": n, "pop_time": 1000 + n}
        pops.ack("T", 1, "g", popped.offsets, **handle)
        return popped.offsets

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(15))) == [[n] for n in range(15)]
    bodies = [json.loads(record.body) for record in timers(store)]
    assert sorted(b["so"] for b in bodies if "bm" in b) == list(range(15))
    assert sorted(b["ao"] for b in bodies if "ao" in b) == list(range(15))
