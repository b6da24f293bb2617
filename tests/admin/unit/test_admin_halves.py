"""Which halves are pending: sets of offsets, op bodies, and the whole scan against a plain one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrmq.admin.txn import halves, offset_set, scan
from pyrmq.admin.txn.halves import Filter, Half, PendingTable, op_offsets
from pyrmq.admin.txn.offset_set import OffsetSet
from pyrmq.errors import ClientError, ProtocolError
from tests.admin.unit.fake_link import FakeLink
from tests.support.scripted.broker import BORN, HALF, OP, ScriptedBroker
from tests.support.wire import Command

_NEAR = st.integers(0, 200) | st.integers(65_500, 65_600) | st.integers(0, 1 << 40)


@given(st.lists(_NEAR, max_size=300), st.lists(_NEAR, max_size=30))
def test_a_set_of_offsets_is_a_set(offsets: list[int], probes: list[int]) -> None:
    own, model = OffsetSet(), set(offsets)
    for offset in offsets:
        own.add(offset)
    assert len(own) == len(model)
    for probe in [*probes, *offsets]:
        assert (probe in own) == (probe in model)
        absent = probe
        while absent in model:
            absent += 1
        assert own.next_absent(probe) == absent


def test_a_full_run_over_several_pages_is_jumped() -> None:
    own = OffsetSet()
    for offset in range(3, 200_000):
        own.add(offset)
    assert [own.next_absent(n) for n in (0, 3, 11, 65_536, 199_999)] == [0, *[200_000] * 4]


def test_offsets_far_apart_do_not_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_set, "MAX_PAGES", 4)
    own = OffsetSet()
    for n in range(4):
        own.add(n << 20)
    with pytest.raises(ClientError, match="op records"):
        own.add(4 << 20)
    own.add(5)
    assert len(own) == 5


@pytest.mark.parametrize(
    ("body", "offsets"),
    [
        (b"12,13,", [12, 13]),
        (b"7", [7]),
        (b"", []),
        (b",,,", []),
        (b"1,x,-2, 3,4.0,+5,0x6,8,", [1, 8]),
        (b"9223372036854775807,9223372036854775808,99999999999999999999,", [2**63 - 1]),
        (b"9" * 100_000 + b",3,", [3]),
        ("１,２,".encode(), []),
        (b"\xff\xfe,6", [6]),
    ],
)
def test_what_an_op_record_names(body: bytes, offsets: list[int]) -> None:
    assert list(op_offsets(body)) == offsets


@pytest.fixture(scope="module", autouse=True)
def short_lanes() -> Iterator[None]:
    """Op records are read in several lanes, however few there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "LANE", 2)
        yield


@st.composite
def histories(draw: st.DrawFn, duplicates: bool = False) -> ScriptedBroker:
    """Transactions that are sent, checked, immune, resumed, settled by one op record or by several,
    in any order; deleted beginnings, and group offsets that are there, late or missing."""
    broker = ScriptedBroker(batch=draw(st.integers(1, 5)))
    sent: list[tuple[int, str | None, int, str]] = []
    for n in range(draw(st.integers(0, 25))):
        step = draw(st.sampled_from(["send", "send", "copy", "immune", "resume", "op", "op"]))
        if step == "send" or not sent:
            again = duplicates and sent and draw(st.booleans())
            key = draw(st.sampled_from([f"K{n}", f"K{n}", f"K{n}", None]))
            born = BORN + draw(st.integers(0, 5)) * 1000
            group = draw(st.sampled_from(["A", "B"]))
            if again:
                _, key, born, group = draw(st.sampled_from(sent))
            record = broker.half(key, born=born, group=group, topic=draw(st.sampled_from("TU")))
            sent.append((record.queue_offset, key, born, group))
            continue
        offset, key, born, group = draw(st.sampled_from(sent))
        topic = broker.records[HALF][offset].properties["REAL_TOPIC"]
        if step == "op":
            count = len(broker.records[HALF])
            names = draw(st.lists(st.integers(0, count + 2), max_size=4))
            broker.op(*names, tag=draw(st.sampled_from(["d", "d", "d", "x"])))
            continue
        last = max(
            int(r.properties.get("TRANSACTION_CHECK_TIMES", 0))
            for r in broker.records[HALF]
            if r.properties.get("UNIQ_KEY") == key
        )
        more = {"TRANSACTION_CHECK_TIMES": str(0 if step == "resume" else last + 1)}
        if step == "immune":
            more["TRAN_PREPARED_QUEUE_OFFSET"] = str(offset)
        broker.half(key, born=born, group=group, topic=topic, **more)
    for topic in (HALF, OP):
        end = len(broker.records[topic]) if topic in broker.records else 0
        broker.first[topic] = draw(st.integers(0, min(end, 2)))
        known = draw(st.none() | st.integers(0, end + 2))
        if known is not None:
            broker.offsets[topic] = known
    return broker


def plain_pending(broker: ScriptedBroker) -> list[tuple[int, int]]:
    """The same in a plain way, without limits: (first offset, last offset) of each transaction,
    the oldest first."""
    settled: set[int] = set()
    begin = max(broker.offsets.get(OP, 0), broker.first[OP])
    for op in broker.records.get(OP, [])[begin:]:
        if op.properties["TAGS"] == "d":
            settled |= {int(n) for n in op.body.decode().split(",") if n}
    rows: list[dict] = []
    for half in broker.records.get(HALF, []):
        p = half.properties
        offset = half.queue_offset
        stood_for = int(p.get("TRAN_PREPARED_QUEUE_OFFSET", -1))
        if offset < max(broker.offsets.get(HALF, 0), broker.first[HALF]):
            continue
        if offset in settled or (stood_for in settled and stood_for >= broker.first[HALF]):
            continue
        name = (p.get("UNIQ_KEY") or offset, half.born_timestamp, p["PGROUP"])
        times = p.get("TRANSACTION_CHECK_TIMES")
        for row in rows:
            if row["name"] == name and times and (times == "0" or int(times) > row["times"]):
                row |= {"times": int(times), "last": offset}
                break
        else:
            rows.append(
                {
                    "name": name,
                    "times": int(times or 0),
                    "born": half.born_timestamp,
                    "first": offset,
                    "last": offset,
                }
            )
    rows.sort(key=lambda row: (row["born"], row["first"]))
    return [(row["first"], row["last"]) for row in rows]


def scanned(broker: ScriptedBroker, limit: int, wanted: Filter | None = None) -> PendingTable:
    async def run() -> PendingTable:
        return (await scan.pending(FakeLink(broker), limit, wanted)).table

    return trio.run(run)


@settings(max_examples=150)
@given(histories(duplicates=True))
def test_the_scan_finds_what_is_pending(broker: ScriptedBroker) -> None:
    if HALF not in broker.records:
        with pytest.raises(scan.NoTransactionsError):
            scanned(broker, 10)
        return
    table = scanned(broker, 1000)
    expected = plain_pending(broker)
    assert [half.queue_offset for half in table.rows()] == [last for _, last in expected]
    assert table.count == len(expected)
    assert table.exact
    assert sum(place.count for place in table.places.values()) == len(expected)


@settings(max_examples=150)
@given(histories(), st.integers(1, 4))
def test_a_limit_keeps_the_oldest_and_counts_all(broker: ScriptedBroker, limit: int) -> None:
    if HALF not in broker.records:
        return
    table = scanned(broker, limit)
    expected = plain_pending(broker)
    assert [half.queue_offset for half in table.rows()] == [last for _, last in expected[:limit]]
    assert table.count == len(expected)
    queue = broker.records[HALF]
    oldest = min((queue[first].born_timestamp for first, _ in expected), default=None)
    assert table.oldest == oldest


@given(histories(), st.sampled_from("TU"), st.sampled_from("AB"), st.integers(0, 5))
def test_filters_leave_out_what_is_not_wanted(
    broker: ScriptedBroker, topic: str, group: str, second: int
) -> None:
    if HALF not in broker.records:
        return
    before = BORN + second * 1000
    found = scanned(broker, 1000, Filter(topic, group, before)).rows()
    everything = scanned(broker, 1000).rows()
    assert found == [
        h for h in everything if h.topic == topic and h.group == group and h.born <= before
    ]


def test_settled_runs_are_not_read() -> None:
    """A thousand settled halves between two pending ones take no pulls."""
    broker = ScriptedBroker(batch=10)
    for n in range(1002):
        broker.half(f"K{n}")
    broker.op(*range(1, 1001))
    assert [half.queue_offset for half in scanned(broker, 10).rows()] == [0, 1001]
    pulls = [c for c in broker.asked if c.code == 11 and c.ext["topic"] == HALF]
    assert [c.ext["queueOffset"] for c in pulls] == ["0", "1001"]


def test_no_pull_asks_for_what_is_deleted() -> None:
    """Apache's broker writes a message about each pull outside of the queue."""
    broker = ScriptedBroker(batch=2)
    for n in range(9):
        broker.half(f"K{n}")
        broker.op(n) if n % 2 else None
    broker.first |= {HALF: 5, OP: 2}
    for known in ({}, {HALF: 1, OP: 0}, {HALF: 100, OP: 100}):
        broker.offsets = known
        broker.asked.clear()
        expected = [] if 100 in known.values() else [6, 8]
        assert [half.queue_offset for half in scanned(broker, 10).rows()] == expected
        for pull in (c for c in broker.asked if c.code == 11):
            begin = broker.first[pull.ext["topic"]]
            assert begin <= int(pull.ext["queueOffset"]) < len(broker.records[pull.ext["topic"]])


def test_halves_that_come_meanwhile_are_left_out() -> None:
    """Those behind the end that was read first have op records that are not looked for."""
    broker = ScriptedBroker()
    broker.half("K0")
    pull = broker.answer(Command(14, {"topic": OP, "consumerGroup": "CID_RMQ_SYS_TRANS"}))
    assert pull.code == 22

    def later(command: Command) -> Command:
        del broker.change[11]
        broker.half("K1")
        return broker.answer(command)

    broker.change[11] = later
    assert [half.queue_offset for half in scanned(broker, 10).rows()] == [0]


def half_row(offset: int, key: str = "K", **change: object) -> Half:
    row = Half(
        "b", offset, offset * 100, "", key, "T", 0, "PG", "", BORN + offset, 0, None, 1, None, None
    )
    for name, value in change.items():
        setattr(row, name, value)
    return row


def test_counting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "MAX_COUNTED", 10)
    table = PendingTable(3)
    for n in range(50):
        table.add(half_row(n), (f"K{n}", BORN + n, "PG"))
    assert (table.count, table.exact) == (10, False)
    assert [row.queue_offset for row in table.rows()] == [0, 1, 2]


def test_topics_without_number_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "MAX_PLACES", 5)
    table = PendingTable(3)
    for n in range(20):
        table.add(half_row(n, topic=f"T{n}"), (f"K{n}", BORN + n, "PG"))
    assert len(table.places) == 6
    assert table.places[halves.OTHERS].count == 15


def test_one_identity_for_everything_is_no_trap() -> None:
    """A million halves that all claim to be the same: a bounded number of rows is looked at."""
    table = PendingTable(10_000)
    for n in range(5_000):
        table.add(half_row(n), ("K", BORN, "PG"))
    assert len(table.rows()) <= halves.MAX_SAME + 1


@pytest.mark.parametrize("following", ["-5", "0", "x", str(1 << 63), None])
def test_a_pull_that_does_not_go_on_is_refused(following: str | None) -> None:
    broker = ScriptedBroker()
    broker.half("K0")
    record = broker.answer(Command(11, {"topic": HALF, "queueOffset": "0", "maxMsgNums": "1"})).body
    ext = {} if following is None else {"nextBeginOffset": following}
    broker.change[11] = lambda c: c.reply(0, ext, record)
    with pytest.raises(ProtocolError):
        scanned(broker, 10)


@pytest.mark.parametrize(
    "body", [b"\0", b"\0\0\0\x10" + bytes(12), b"\x7f\xff\xff\xff" + bytes(90)]
)
def test_records_that_do_not_add_up_are_refused(body: bytes) -> None:
    broker = ScriptedBroker()
    broker.half("K0")
    broker.change[11] = lambda c: c.reply(0, {"nextBeginOffset": "1"}, body)
    with pytest.raises(ProtocolError, match="records"):
        scanned(broker, 10)


def test_damaged_halves_are_counted() -> None:
    broker = ScriptedBroker()
    broker.half("K0")
    broker.half("K1")
    pull = Command(11, {"topic": HALF, "queueOffset": "0", "maxMsgNums": "2"})
    body = bytearray(broker.answer(pull).body)
    body[4] ^= 1  # the first one's magic
    broker.change[11] = lambda c: c.reply(0, {"nextBeginOffset": "2"}, bytes(body))

    async def run() -> scan.Scan:
        return await scan.pending(FakeLink(broker), 10)

    found = trio.run(run)
    assert (found.damaged, [h.queue_offset for h in found.table.rows()]) == (1, [1])
