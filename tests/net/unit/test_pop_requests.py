"""POP on the wire: handles that are made of an answer, and answers that say too little."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.pop import BatchAck, ExtraInfo
from pyrmq.model.record import received
from pyrmq.net.client.pop_requests import (
    PopAnswer,
    PopStatus,
    ack_body,
    ack_fields,
    change_fields,
    changed_handle,
    read_assignment,
)
from tests.support.wire import Command

EXT = {
    "popTime": "1000",
    "invisibleTime": "60000",
    "reviveQid": "3",
    "restNum": "0",
    "startOffsetInfo": "0 1 5;1 0 7;2 0 2",
    "msgOffsetInfo": "0 1 5,8;1 0 7;2 0 2",
}


def answer(code: int = 0, **change: str) -> PopAnswer:
    return PopAnswer(command(code, {**EXT, **change}), "b")


def command(code: int, ext: dict[str, str]) -> Any:
    """An answer as the engine would give it."""
    return Command(code, ext, b"x")


def message(topic: str = "T", queue: int = 1, offset: int = 8) -> Any:
    found = received(
        topic=topic, body=b"m", queue_id=queue, flag=0, sys_flag=0, born_timestamp=0, born_host="",
        store_timestamp=0, store_host="", reconsume_times=0, properties={},
    )  # fmt: skip
    return replace(found, queue_offset=offset)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("T", 1, 8), "5 1000 60000 3 0 b 1 8"),
        (("T", 1, 5), "5 1000 60000 3 0 b 1 5"),
        (("%RETRY%g_T", 0, 7), "7 1000 60000 3 1 b 0 7"),
        (("%RETRY%g+T", 0, 2), "2 1000 60000 3 2 b 0 2"),
    ],
)
def test_a_handle_is_made_of_the_answer(place: tuple[str, int, int], text: str) -> None:
    handle = answer().handle_of(message(*place), None)
    assert handle.encode() == text


def test_a_handle_that_the_broker_gave() -> None:
    """It has put the original topic into the record: only the handle says where it is from."""
    given = "7 1000 60000 3 1 b 0 7"
    assert answer().handle_of(message("T", 0, 7), given).encode() == given


@pytest.mark.parametrize("copied", ["5 999 60000 3 0 other 1 8", "5 1000 60000 3 0 b 1 5", "x"])
def test_a_handle_that_a_sender_has_copied(copied: str) -> None:
    """It is of another pop: acknowledging that would leave this message unacknowledged."""
    assert answer().handle_of(message(), copied).encode() == "5 1000 60000 3 0 b 1 8"


def test_an_answer_without_infos() -> None:
    """As of the first brokers with POP."""
    found = answer(startOffsetInfo="", msgOffsetInfo="")
    assert found.handle_of(message(), None).encode() == "8 1000 60000 3 0 b 1 8"


@pytest.mark.parametrize("place", [("T", 0, 5), ("T", 1, 6), ("T", 1, 4), ("%RETRY%g_T", 1, 5)])
def test_a_message_that_the_infos_do_not_name(place: tuple[str, int, int]) -> None:
    with pytest.raises(ProtocolError, match="says nothing of queue"):
        answer().handle_of(message(*place), None)


@pytest.mark.parametrize(
    "change",
    [
        {"popTime": "x"},
        {"popTime": "-1"},
        {"invisibleTime": "-1"},
        {"reviveQid": "-1"},
        {"startOffsetInfo": "0 1"},
        {"msgOffsetInfo": "0 1 a"},
        {"orderCountInfo": "0 1 a"},
    ],
)
def test_answers_that_cannot_be_read(change: dict[str, str]) -> None:
    with pytest.raises(ProtocolError):
        answer(**change)


def test_what_a_pop_came_to() -> None:
    assert answer().status is PopStatus.FOUND
    assert answer(19).status is answer(210).status is PopStatus.NOTHING
    assert answer(209).status is PopStatus.POLLING_FULL
    assert answer(210).body == b""
    with pytest.raises(ResponseError, match="CODE 16"):
        answer(16)


def test_counts_of_orderly_pops() -> None:
    """That of a message before that of its queue."""
    found = answer(orderCountInfo="0 1 2;0 qo1%8 4")
    assert found.times_of(found.handle_of(message(), None)) == 4
    assert found.times_of(found.handle_of(message("T", 1, 5), None)) == 2
    assert found.times_of(found.handle_of(message("%RETRY%g_T", 0, 7), None)) == 0


def test_requests_name_the_real_topic() -> None:
    handle = ExtraInfo.parse("7 1000 60000 3 1 b 0 7")
    assert ack_fields(handle, "T", "g") == {
        "consumerGroup": "g",
        "topic": "%RETRY%g_T",
        "queueId": 0,
        "extraInfo": "7 1000 60000 3 1 b 0 7",
        "offset": 7,
        "bname": "b",
    }
    assert change_fields(handle, "T", "g", 5000)["invisibleTime"] == 5000


def test_a_changed_handle() -> None:
    ext = {"popTime": "2000", "invisibleTime": "5000", "reviveQid": "4"}
    changed = changed_handle(command(0, ext), ExtraInfo.parse("5 1000 60000 3 1 b 0 7"))
    assert changed.encode() == "7 2000 5000 4 1 b 0 7"


def test_a_batch_has_an_entry_for_each_check_point() -> None:
    handles = ["5 1000 60000 3 0 b 1 8", "5 1000 60000 3 0 b 1 5", "5 1001 60000 3 0 b 1 5"]
    acks = [("T", ExtraInfo.parse(text)) for text in handles]
    acks.append(("U", ExtraInfo.parse(handles[0])))
    body = json.loads(ack_body("b", "g", acks))
    assert body["brokerName"] == "b"
    found = [BatchAck.of_json(entry) for entry in body["acks"]]
    assert [(ack.topic, ack.pop_time, ack.offsets) for ack in found] == [
        ("T", 1000, (5, 8)),
        ("T", 1001, (5,)),
        ("U", 1000, (8,)),
    ]


def test_assignments() -> None:
    def body(*entries: Any) -> bytes:
        return json.dumps({"messageQueueAssignments": list(entries)}).encode()

    queue = {"topic": "T", "brokerName": "b", "queueId": -1}
    pulled = {"mode": "PULL", "messageQueue": {**queue, "queueId": 2}}
    found = read_assignment(body({"mode": "POP", "messageQueue": queue}, pulled), "T")
    assert found is not None
    assert [q.queue_id for q in found.popped] == [-1]
    assert [q.queue_id for q in found.pulled] == [2]
    assert read_assignment(b"{}", "T") is None
    for wrong in (
        b'{"messageQueueAssignments":{}}',
        body(1),
        body({"mode": "POP"}),
        body({"mode": "POP", "messageQueue": {**queue, "topic": "U"}}),
        body({"mode": "POP", "messageQueue": {"topic": "T"}}),
    ):
        with pytest.raises(ProtocolError):
            read_assignment(wrong, "T")
