"""Dead letters of every cause, with and without their originals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_ext.jobs import deadletters
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.source import Source
from tests.spark.e2e.jobs.conftest import Frame, at

T = 1_700_000_000_000
HOST = "7F00000100002A9F"


def offset_id(offset: int) -> str:
    return f"{HOST}{offset:016X}"


def unique(n: int) -> str:
    return f"{n:032X}"


def letter(
    n: int, reconsumed: int, group: str = "g", broker: str = "a", key: str | None = "", **more: str
) -> tuple[Any, ...]:
    return (
        f"%DLQ%{group}", broker, 0, n, 90_000 + n, at(T), at(T + 60_000), "TagA", f"order-{n}",
        unique(n) if key == "" else key, reconsumed, 10, {"RETRY_TOPIC": "Orders", **more},
    )  # fmt: skip


LETTERS = [
    letter(1, 17, ORIGIN_MESSAGE_ID=offset_id(1000)),
    letter(2, 1, ORIGIN_MESSAGE_ID=offset_id(2000)),
    letter(3, 0, ORIGIN_MESSAGE_ID=unique(3)),
    letter(4, 3, DLQ_ORIGIN_TOPIC="Payments", DLQ_ORIGIN_MESSAGE_ID=unique(4)),
    letter(5, 4, group="short", ORIGIN_MESSAGE_ID=offset_id(5000)),
    letter(6, 1, broker="b", key=None, ORIGIN_MESSAGE_ID=offset_id(6000)),
    letter(7, 1, ORIGIN_MESSAGE_ID="FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"),
    letter(8, 4),  # of a consumer with a limit of its own, or refused at the fourth delivery
    letter(9, 4, MAX_RECONSUME_TIMES="3"),
    letter(10, 4, MAX_RECONSUME_TIMES="many"),
]
ORIGINALS = [
    ("Orders", "a", 2, 11, 1000, at(T + 1), unique(1)),
    ("Orders", "a", 2, 12, 2000, at(T + 2), unique(99)),  # another message stands there now
    ("Orders", "a", 3, 13, 3000, at(T + 3), unique(3)),
    ("Orders", "b", 1, 14, 3000, at(T + 9), unique(3)),  # the same key, sent again later
    ("Payments", "a", 0, 15, 4000, at(T + 4), unique(4)),
    ("Orders", "b", 0, 16, 6000, at(T + 6), None),
    ("Orders", "a", 0, 17, 6000, at(T + 6), None),
]


@pytest.mark.parametrize("few", [True, False])
def test_causes_and_originals(frame: Frame, few: bool) -> None:
    found = deadletters.compute(
        frame(" ".join(deadletters.COLUMNS), *LETTERS),
        frame(" ".join(deadletters.ORIGINAL_COLUMNS), *ORIGINALS),
        {"short": 3},
        few,
    )
    rows = {row.deadQueueOffset: row for row in found.collect()}
    assert len(rows) == found.count() == len(LETTERS)
    assert {n: (row.group, row.topic, row.cause) for n, row in rows.items()} == {
        1: ("g", "Orders", "retries exhausted"),
        2: ("g", "Orders", "refused"),
        3: ("g", "Orders", "given up in order"),
        4: ("g", "Payments", "forwarded by a proxy"),
        5: ("short", "Orders", "retries exhausted"),
        6: ("g", "Orders", "refused"),
        7: ("g", "Orders", "refused"),
        8: ("g", "Orders", "refused or own limit"),
        9: ("g", "Orders", "retries exhausted"),
        10: ("g", "Orders", "refused or own limit"),
    }
    assert {
        n: (row.originalBroker, row.originalQueueId, row.originalQueueOffset)
        for n, row in rows.items()
        if row.originalFound
    } == {1: ("a", 2, 11), 3: ("a", 3, 13), 4: ("a", 0, 15), 6: ("b", 0, 16)}
    assert (rows[1].diedMs, rows[2].diedMs) == (59_999, None)
    first = deadletters.by_cause(found).collect()[0]
    assert (first.cause, first["count"], first.originals, first.bytes) == ("refused", 3, 1, 30)
    text = deadletters.summary(found)
    assert text.startswith("10 dead letters of 2 groups; 4 originals are in the log")


def test_without_originals_and_with_bodies(frame: Frame) -> None:
    row = (*LETTERS[0], bytearray(b"what nobody wanted"))
    found = deadletters.compute(frame(" ".join((*deadletters.COLUMNS, "body")), row))
    (got,) = found.collect()
    assert (bytes(got.body), got.originalFound) == (b"what nobody wanted", False)


def test_originals_may_be_older_than_the_letters() -> None:
    options = {"startingTimestamp": "5", "onCorruption": "skip"}
    whole = deadletters.originals_of(Source(("a",), since=5, until=9, options=options))
    assert whole == Source(("a",), until=9, options={"onCorruption": "skip"})


def test_limits_of_groups(tmp_path: Path) -> None:
    assert deadletters.group_limits([str(tmp_path)]) == {}
    config = tmp_path / "config" / "subscriptionGroup.json"
    config.parent.mkdir()
    table = {"g": {"retryMaxTimes": 3}, "h": {"retryMaxTimes": "x"}, "i": 5}
    config.write_text(json.dumps({"subscriptionGroupTable": table}))
    assert deadletters.group_limits([f"file://{tmp_path}"]) == {"g": 3}
    config.write_text("{")
    with pytest.raises(JobError, match=r"subscriptionGroup\.json cannot be read"):
        deadletters.group_limits([str(tmp_path)])
