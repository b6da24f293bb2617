"""Trace records in the exact forms of TraceDataEncoder."""

from __future__ import annotations

from typing import Any

from pyrmq.client.trace.records import ConsumeCode, consume_began, consume_ended
from spark_ext.jobs import trace
from tests.spark.e2e.jobs.conftest import Frame, at
from tests.support import build

T = 1_700_000_000_000


def record(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def pub(msg: str, cost: int, success: str = "true", group: str = "P", topic: str = "Orders") -> str:
    return record(
        "Pub", T, "DefaultRegion", group, topic, msg, "TagA", "null", "10.0.0.1:10911", 20, cost, 0,
        "OFFSET", success,
    )  # fmt: skip


def before(request: str, msg: str, time: int, retries: int = 0, group: str = "C") -> str:
    return record("SubBefore", time, "DefaultRegion", group, request, msg, retries, "k")


def after(request: str, msg: str, cost: int, success: str = "true", group: str = "C") -> str:
    code = 0 if success == "true" else 4
    return record("SubAfter", request, msg, cost, success, "k", code, T + 500, group)


def messages(frame: Frame, *bodies: str) -> trace.Trace:
    rows = [(body.encode(), at(T)) for body in bodies]
    return trace.compute(frame("body storeTimestamp", *rows))


def test_sends(frame: Frame) -> None:
    costs = range(1, 101)
    found = messages(
        frame,
        *["".join(pub(f"M{n}", n) for n in costs[i : i + 10]) for i in range(0, 100, 10)],
        pub("F", 3000, "false"),
        pub("X", 7, group="Other", topic="T"),
    )
    (orders, other) = found.groups.collect()
    assert (orders.kind, orders.group, orders.topic) == ("send", "P", "Orders")
    assert (orders["count"], orders.failed) == (101, 1)
    assert abs(orders.successRate - 100 / 101) < 1e-9
    assert (orders.p50Ms, orders.p95Ms, orders.maxMs) == (51, 96, 3000)
    assert (other.group, other.topic, other.p50Ms, other.successRate) == ("Other", "T", 7, 1.0)
    text = trace.summary(found)
    assert text.startswith("102 trace records: 102 Pub")
    assert "99.0 %" in text
    assert "3.0 s" in text


def test_forms_of_pub(frame: Frame) -> None:
    """13 fields (old), 14, and 15 (Go: with the client's address)."""
    head = ("Pub", T, "R", "P", "Orders", "M", "null", "null", "h:1", 1, 5, 0)
    found = messages(
        frame,
        record(*head, "false"),
        record(*head, "OFFSET", "true"),
        record(*head, "OFFSET", "true", "10.0.0.9"),
    )
    (row,) = found.groups.collect()
    assert (row["count"], row.failed) == (3, 1)
    assert [r.clientHost for r in found.records.collect()] == [None, None, "10.0.0.9"]


def test_records_of_our_own_consumers(frame: Frame) -> None:
    """Two messages that were consumed together, and failed, as `pyrmq.client` writes it."""
    consumed = [build.received(n) for n in (1, 2)]
    for n, message in enumerate(consumed):
        message.properties = {"UNIQ_KEY": f"M{n}", "MSG_REGION": "R", "KEYS": "k1 k2"}
    common: Any = {"group": "C", "topic": "Orders", "request_id": "R1"}
    began = consume_began(consumed, time=T + 50, **common)
    ended = consume_ended(consumed, time=T + 90, cost=20, code=ConsumeCode.EXCEPTION, **common)
    found = messages(frame, pub("M0", 10), began.text, ended.text)
    rows = found.groups.where("kind = 'consume'").collect()
    assert {(r.group, r.topic, r["count"], r.failed) for r in rows} == {
        ("C", "Orders", 1, 1),
        ("C", None, 1, 1),
    }
    (orders,) = (r for r in rows if r.topic)
    assert (orders.p50Ms, orders.waitP50Ms) == (20, 40)
    assert not found.records.where("bad").count()


def test_consumption(frame: Frame) -> None:
    found = messages(
        frame,
        pub("M1,M2", 10),
        # One request for two messages: 40 and 240 ms behind the end of the send at T + 10.
        before("R1", "M1", T + 50) + before("R1", "M2", T + 250),
        after("R1", "M1", 5) + after("R1", "M2", 5, "false"),
        # M2 again: a retry does not count as waiting.
        before("R2", "M2", T + 20_000, retries=1),
        after("R2", "M2", 9),
        # Never ended, and of a message whose send nobody traced.
        before("R3", "M3", T + 60),
        # CLOUD: SubAfter ends behind the context code; its group comes from SubBefore.
        before("R4", "M1", T + 11, group="D"),
        "\x01".join(["SubAfter", "R4", "M1", "30", "true", "k", "0", ""]) + "\x02",
        # The oldest form ends behind the keys, and its SubBefore was lost.
        record("SubAfter", "R5", "M1", 8, "true", "k"),
    )
    rows = {(r.group, r.topic): r for r in found.groups.where("kind = 'consume'").collect()}
    assert set(rows) == {("C", "Orders"), ("C", None), ("D", "Orders"), (None, "Orders")}
    c = rows["C", "Orders"]
    assert (c["count"], c.failed, c.retries, c.unfinished) == (3, 1, 1, 0)
    assert abs(c.successRate - 2 / 3) < 1e-9
    assert (c.p50Ms, c.maxMs) == (5, 9)
    assert (c.waitP50Ms, c.waitMaxMs) == (40, 240)
    unknown = rows["C", None]
    assert (unknown["count"], unknown.unfinished, unknown.successRate) == (1, 1, None)
    d = rows["D", "Orders"]
    assert (d.failed, d.p50Ms, d.waitP50Ms) == (0, 30, 1)
    assert rows[None, "Orders"].maxMs == 8


def test_transactions(frame: Frame) -> None:
    def end(state: str, check: str) -> str:
        return record(
            "EndTransaction", T, "R", "P", "Orders", "M", "null", "null", "h:1", 2, "TX", state,
            check,
        )  # fmt: skip

    found = messages(frame, end("COMMIT_MESSAGE", "false"), end("ROLLBACK_MESSAGE", "true"))
    (row,) = found.groups.collect()
    assert (row.kind, row["count"], row.failed) == ("transaction", 2, 1)
    assert sorted(r.fromCheck for r in found.records.collect()) == [False, True]


def test_what_is_no_record_is_counted(frame: Frame) -> None:
    found = messages(
        frame,
        "no trace at all",
        record("Pub", "not a time", "R", "P", "T", "M", "", "", "h", 1, 1, 0, "O", "true"),
        record("Pub", T, "R"),
        record("Later", 1, 2),
        "",
        pub("M", 1),
    )
    assert found.records.where("bad").count() == 4
    assert [r["count"] for r in found.groups.collect()] == [1]
    assert "4 not readable" in trace.summary(found)
    assert trace.summary(messages(frame)).startswith("0 trace records")


def test_foreign_numbers_are_no_records(frame: Frame) -> None:
    """Any client may write to the topic: no record stops the job."""
    head = ("R", "P", "Orders", "M", "null", "null", "h:1", 1)
    found = messages(
        frame,
        *[
            record("Pub", time, *head, cost, 0, "OFFSET", "true")
            for time, cost in ((9 * 10**18, 1), (-(9 * 10**18), 1), (-1, 1), (T, -1), (T, 2))
        ],
        before("R1", "M", -(2**63)),
        record("SubAfter", "R1", "M", 5, "true", "k", 0, 2**63 - 1, "C"),
    )
    (row,) = found.groups.collect()
    assert (row["count"], row.maxMs, row.meanMs) == (1, 2, 2.0)
    assert found.records.where("bad").count() == 6
