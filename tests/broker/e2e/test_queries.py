"""QUERY_MESSAGE: messages found by key and by unique key, as other clients ask for them."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest

from tests.support.client import Client, batch_command
from tests.support.operators import (
    NOT_FOUND,
    QUERY_MESSAGE,
    SYSTEM_ERROR,
    await_hits,
    hits,
    no_hits,
    query,
)
from tests.support.records import parse_message_id
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON

_numbers = count()


@pytest.fixture
def topic() -> str:
    """A topic of the test's own, made by the first send."""
    return f"Query{next(_numbers)}"


def physical(offset_msg_id: str) -> int:
    return parse_message_id(offset_msg_id)[1]


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_by_key(client: Client, topic: str, serialize: int) -> None:
    """Keys are words of KEYS; the answer holds the records of all queues, oldest first."""
    sent = []
    for n in range(6):
        answer = client.send(
            topic,
            b"body %d" % n,
            queue_id=n % 4,
            properties={"KEYS": f"own{n} all {'even' if n % 2 == 0 else 'odd'}", "TAGS": "t"},
        )
        sent.append(answer.ext["msgId"])
    found = await_hits(client, topic, "all", 6)
    assert [record.offset_msg_id for record in found] == sent
    assert [record.body for record in found] == [b"body %d" % n for n in range(6)]
    for key, wanted in {"own3": [3], "even": [0, 2, 4], "odd": [1, 3, 5]}.items():
        answer = query(client, topic, key, serialize=serialize)
        assert [record.body for record in hits(answer)] == [b"body %d" % n for n in wanted]
    for other in ("own", "own33", "al", "All", "t", "even odd"):
        assert no_hits(client, topic, other)


def test_where_the_index_is(client: Client, topic: str) -> None:
    """The answer says up to which message the index leads: to the newest, after a moment."""
    client.send(topic, b"1", properties={"KEYS": "k"})
    newest = client.send(topic, b"2", properties={"KEYS": "k"})
    record = await_hits(client, topic, "k", 2)[-1]
    answer = query(client, topic, "k")
    assert int(answer.ext["indexLastUpdatePhyoffset"]) == physical(newest.ext["msgId"])
    assert int(answer.ext["indexLastUpdateTimestamp"]) == record.store_timestamp


def test_at_most_the_newest_that_were_asked_for(client: Client, topic: str) -> None:
    for n in range(80):
        client.send(topic, b"%d" % n, queue_id=n % 4, properties={"KEYS": f"many own{n}"})
    await_hits(client, topic, "own79", 1)
    for maximum, wanted in ((1, 1), (3, 3), (64, 64), (1000, 64), (2**31 - 1, 64)):
        found = hits(query(client, topic, "many", maximum))
        assert [r.body for r in found] == [b"%d" % n for n in range(80 - wanted, 80)]


def test_by_unique_key(client: Client, topic: str) -> None:
    """Those that senders give, in batches as well, and those that the broker makes."""
    own = "7F000001000118B4AAC2000000000001"
    client.send(topic, b"own", properties={"UNIQ_KEY": own, "KEYS": "both"})
    made = client.send(topic, b"made", properties={"KEYS": "both"}).ext["transactionId"]
    ids = [f"{own[:-4]}{n:04X}" for n in range(16, 19)]
    client.request(batch_command(topic, [(b"in " + i.encode(), {"UNIQ_KEY": i}) for i in ids]))
    for key, body in [(own, b"own"), (made, b"made"), *((i, b"in " + i.encode()) for i in ids)]:
        (record,) = await_hits(client, topic, key, 1, unique=True)
        assert (record.body, record.properties["UNIQ_KEY"]) == (body, key)
        assert [r.body for r in hits(query(client, topic, key))] == [body], "it is a key as well"
    assert query(client, topic, own[:-1] + "F", unique=True).code == NOT_FOUND


def test_a_unique_key_may_be_there_more_than_once(client: Client, topic: str) -> None:
    """A sender that tries again stores the message again; maxNum says nothing then."""
    for n in range(3):
        client.send(topic, b"%d" % n, queue_id=n, properties={"UNIQ_KEY": "again"})
    await_hits(client, topic, "again", 3, unique=True)
    assert len(hits(query(client, topic, "again", 1, unique=True))) == 3
    assert len(hits(query(client, topic, "again", 1))) == 1


def test_times(client: Client, topic: str) -> None:
    """From beginTimestamp to endTimestamp; the index keeps whole seconds, rounded down."""
    client.send(topic, b"early", properties={"KEYS": "timed"})
    (early,) = await_hits(client, topic, "timed", 1)
    eventually(
        lambda: time.time() * 1000 > early.store_timestamp + 2100, "more than two seconds later"
    )
    client.send(topic, b"late", properties={"KEYS": "timed"})
    late = await_hits(client, topic, "timed", 2)[1]
    begin, end = early.store_timestamp, late.store_timestamp

    def between(since: int, until: int) -> list[bytes]:
        return [r.body for r in hits(query(client, topic, "timed", 32, since, until))]

    assert between(begin - 1000, end) == [b"early", b"late"]
    assert between(begin - 1000, begin) == [b"early"]
    assert between(end - 1000, end) == [b"late"]
    assert between(0, begin - 1000) == []
    assert between(end + 1, end + 3_600_000) == []
    assert between(end, begin) == []


def test_not_found(client: Client, topic: str) -> None:
    answer = query(client, "NobodyMadeThis", "k")
    assert (answer.code, bool(answer.remark), answer.body) == (NOT_FOUND, True, b"")
    client.send(topic, b"x", properties={"KEYS": "k"})
    await_hits(client, topic, "k", 1)
    assert no_hits(client, topic, "other")
    assert no_hits(client, topic, "")
    assert no_hits(client, "NobodyMadeThis", "k")
    assert no_hits(client, topic + "x", "k")
    assert no_hits(client, topic, "k" * 30_000)
    assert no_hits(client, topic, "ü")


def test_keys_of_any_letters(client: Client, topic: str) -> None:
    """The hash is that of Java's strings: of UTF-16 units, also outside the basic plane."""
    for key in ("Größe", "日本語", "\U0001f600", "polygenelubricants"):
        client.send(topic, key.encode(), properties={"KEYS": key})
        (record,) = await_hits(client, topic, key, 1)
        assert record.body == key.encode()


def test_keys_of_equal_hash(client: Client, topic: str) -> None:
    """ "Aa" and "BB" have one hash code; the records themselves tell them apart."""
    for n in range(4):
        client.send(topic, b"%d" % n, properties={"KEYS": ("Aa", "BB")[n % 2]})
    assert [r.body for r in await_hits(client, topic, "Aa", 2)] == [b"0", b"2"]
    assert [r.body for r in await_hits(client, topic, "BB", 2)] == [b"1", b"3"]


@pytest.mark.parametrize("name", ["maxNum", "beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("value", ["", "six", "1.5", "1" * 30, None])
def test_bad_numbers(client: Client, topic: str, name: str, value: str | None) -> None:
    ext = {"topic": topic, "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}
    given = {**ext, name: value}
    answer = client.call(QUERY_MESSAGE, **{k: v for k, v in given.items() if v is not None})
    assert answer.code == SYSTEM_ERROR
    assert name in (answer.remark or "")
    assert no_hits(client, topic, "k"), "the connection goes on"


@pytest.mark.parametrize("name", ["topic", "key"])
def test_missing_words(client: Client, name: str) -> None:
    ext = {"topic": "T", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 9}
    del ext[name]
    answer = client.call(QUERY_MESSAGE, **ext)
    assert answer.code == SYSTEM_ERROR
    assert name in (answer.remark or "")


def test_numbers_beyond_reason(client: Client, topic: str) -> None:
    client.send(topic, b"x", properties={"KEYS": "k"})
    await_hits(client, topic, "k", 1)
    assert len(hits(query(client, topic, "k", 32, -(2**63), 2**63 - 1))) == 1
    for maximum in (0, -1, -(2**31)):
        assert len(hits(query(client, topic, "k", maximum))) <= 1
    assert query(client, topic, "k", 32, 2**63 - 1, -(2**63)).code == NOT_FOUND


def test_no_index_is_kept(tmp_path: Path) -> None:
    """messageIndexEnable=false: a query says so instead of finding nothing."""
    conf = "messageIndexEnable=false\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        assert client.send("T", b"x", properties={"KEYS": "k", "UNIQ_KEY": "u"}).code == 0
        for unique in (False, True):
            answer = query(client, "T", "u", unique=unique)
            assert answer.code not in (0, NOT_FOUND)
            assert "messageIndexEnable" in (answer.remark or "")
        assert [r.body for r in client.pull("T", 0, 0).records] == [b"x"]
        assert list((tmp_path / "store").glob("index/*")) == []


SMALL = """\
mappedFileSizeCommitLog=65536
maxHashSlotNum=50
maxIndexNum=64
"""


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_found_after_a_start(tmp_path: Path, how: str) -> None:
    """Over many index files; every message has a unique key and two keys."""
    sent: dict[str, bytes] = {}

    def fill(client: Client, first: int) -> None:
        for n in range(first, first + 150):
            body = b"%05d" % n * 20
            answer = client.send("T", body, queue_id=n % 4, properties={"KEYS": f"k{n} all"})
            sent[answer.ext["transactionId"]] = sent[f"k{n}"] = body

    def check(client: Client) -> None:
        for key, body in sent.items():
            (record,) = await_hits(client, "T", key, 1, unique=not key.startswith("k"))
            assert record.body == body
        assert len(hits(query(client, "T", "all", 64))) == 64

    with ServerProcess(tmp_path / "store", conf=SMALL) as server:
        for first in (0, 150):
            with Client(server.broker) as client:
                fill(client, first)
            if how == "kill":
                server.kill()
            server.restart()
            with Client(server.broker) as client:
                check(client)
    assert len(list((tmp_path / "store" / "index").iterdir())) > 5
