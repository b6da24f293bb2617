"""Assertions on what was sent and what arrived, shared by the interop tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from .drivers import Line, Report, body, places

ADDED_ON_THE_WAY = {
    "CLUSTER",
    "CONSUME_START_TIME",
    "INSTANCE_ID",
    "MAX_OFFSET",
    "MIN_OFFSET",
    "MSG_REGION",
    "TRACE_ON",
    "WAIT",
}
"""Properties that brokers and consuming clients may add to what the producer set.

WAIT is no part of the message: brokers leave it out of the log when it is "true", and the
constructor of a Java client's message sets it again.
"""
UNIQUE_ID = "UNIQ_KEY"
COMPRESSED = 0x1
"""Bit of sysFlag (MessageSysFlag.COMPRESSED_FLAG)."""


def sent_well(lines: Sequence[Line], count: int) -> None:
    """Every send was acknowledged, and each queue filled without a gap from offset 0."""
    assert len(lines) == count
    assert {line["sendStatus"] for line in lines} == {"SEND_OK"}
    offsets = offsets_by_queue(lines)
    for queue, found in offsets.items():
        assert found == list(range(len(found))), f"offsets of queue {queue} as they were answered"
    ids = [line["offsetMsgId"] for line in lines]
    assert len(set(ids)) == count
    assert all(len(i) == 32 for i in ids), "offsetMsgId is 16 bytes in hexadecimal over IPv4"


def offsets_by_queue(lines: Iterable[Line]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for line in lines:
        found[line["queueId"]].append(line["queueOffset"])
    return dict(found)


def same_message(sent: Line, received: Line) -> None:
    """One message arrived as it was sent, apart from where it was stored."""
    what = f"message {sent.get('index')} of queue {received['queueId']}"
    assert received["topic"] == sent["topic"]
    assert body(received) == body(sent), what
    assert (received["tags"] or "") == (sent["tags"] or ""), what
    assert (received["keys"] or "") == (sent["keys"] or ""), what
    put = {name: value for name, value in sent["properties"].items() if name != "WAIT"}
    got = received["properties"]
    if sent.get("batch"):
        # The Java client gives an id to each message and one to the batch; Apache RocketMQ 5.3.3
        # appends the batch's properties to each message's, where readers let the last one win.
        assert received["msgId"] == got[UNIQUE_ID], what
        put.pop(UNIQUE_ID, None)
        got = {name: value for name, value in got.items() if name != UNIQUE_ID}
    elif sent.get("msgId"):
        assert received["msgId"] == sent["msgId"], what
    assert {name: got.get(name) for name in put} == put, what
    assert set(got) - set(put) <= ADDED_ON_THE_WAY, what


def arrived(sent: Sequence[Line], received: Sequence[Line]) -> None:
    """Exactly the messages of `sent` arrived, each at least once, each where it was stored."""
    expected, found = places(sent), places(received)
    missing = sorted(set(expected) - set(found))
    extra = sorted(set(found) - set(expected))
    assert not missing, f"(queue, offset) sent but not received: {missing}"
    assert not extra, f"(queue, offset) received but not sent: {extra}"
    for line in received:
        original = expected[line["queueId"], line["queueOffset"]]
        same_message(original, line)
        if original.get("offsetMsgId") and line.get("offsetMsgId"):
            assert line["offsetMsgId"] == original["offsetMsgId"]
        assert line["reconsumeTimes"] == 0


def first_deliveries_in_order(received: Sequence[Line]) -> None:
    """Within a queue messages were delivered in order of their offsets, repeats left aside."""
    for queue, offsets in offsets_by_queue(places(received).values()).items():
        assert offsets == sorted(offsets), f"order of delivery in queue {queue}"


def stored_in_order_of_sending(sent: Sequence[Line], received: Sequence[Line]) -> None:
    """Of two messages in one queue the one sent first has the smaller offset."""
    order = {line["properties"]["index"]: number for number, line in enumerate(sent)}
    by_queue: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (queue, offset), line in places(received).items():
        by_queue[queue].append((offset, order[line["properties"]["index"]]))
    for queue, pairs in by_queue.items():
        numbers = [number for _, number in sorted(pairs)]
        assert numbers == sorted(numbers), f"order of storing in queue {queue}"


def batches_consecutive(report: Report, sizes: Sequence[int]) -> None:
    """Each batch was answered with one id a message and got consecutive offsets in one queue."""
    batches = report.of("batch")
    assert [line["size"] for line in batches] == list(sizes)
    taken: set[tuple[int, int]] = set()
    for line in batches:
        assert line["sendStatus"] == "SEND_OK"
        assert len(set(line["offsetMsgIds"])) == line["size"]
        span = {(line["queueId"], line["queueOffset"] + k) for k in range(line["size"])}
        assert not span & taken, "two batches at one place"
        taken |= span


def arrived_by_id(sent: Sequence[Line], received: Sequence[Line]) -> None:
    """As `arrived`, for messages of which nobody said where they were stored."""
    expected = {line["msgId"]: line for line in sent}
    assert len(expected) == len(sent)
    found = {line["msgId"] for line in received}
    assert found == set(expected), "ids of messages sent and received"
    for line in received:
        same_message(expected[line["msgId"]], line)
    offsets = offsets_by_queue(places(received).values())
    for queue, taken in offsets.items():
        assert sorted(taken) == list(range(len(taken))), f"offsets in queue {queue}"
