"""What may be said of a topic's attributes."""

from __future__ import annotations

import pytest

from pyrmq.broker.tables.topic_creation import changed_attributes
from pyrmq.errors import InvalidParameterError, ResponseError


def test_setting_and_removing() -> None:
    assert changed_attributes(None, "") == {}
    new = changed_attributes(None, "+queue.type=BatchCQ,+message.type=NORMAL")
    assert new == {"queue.type": "BatchCQ", "message.type": "NORMAL"}
    assert changed_attributes(new, "-message.type") == {"queue.type": "BatchCQ"}
    assert changed_attributes(new, "+message.type=FIFO")["message.type"] == "FIFO"
    assert changed_attributes(new, "+queue.type=BatchCQ") == new
    assert changed_attributes(new, "") == new


@pytest.mark.parametrize(
    "text",
    [
        "queue.type=BatchCQ", "+queue.type", "-queue.type=BatchCQ", "+queue.type=", "+=x", "+", "-",
        "+queue.type=Other", "+cleanup.policy=COMPACTION", "+message.type=Delay", "+x=y",
        "-message.type", "+message.type=FIFO,+message.type=NORMAL", "+reserve.time=-1",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(ResponseError) as caught:
        changed_attributes(None, text)
    assert caught.value.code == 1


@pytest.mark.parametrize("kind", ["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"])
def test_types_of_messages(kind: str) -> None:
    assert changed_attributes(None, f"+message.type={kind}") == {"message.type": kind}


def test_mixed_messages_need_a_key() -> None:
    with pytest.raises(InvalidParameterError, match="enableMixedMessageType"):
        changed_attributes(None, "+message.type=MIXED")
    mixed = changed_attributes(None, "+message.type=MIXED", mixed=True)
    assert mixed == {"message.type": "MIXED"}
    assert changed_attributes(mixed, "-message.type") == {}


def test_what_is_not_there_is_not_removed() -> None:
    with pytest.raises(ResponseError, match="nothing to remove"):
        changed_attributes({"queue.type": "BatchCQ"}, "-message.type")


def test_the_kind_of_queues_stays() -> None:
    for known in ({}, {"queue.type": "SimpleCQ"}):
        with pytest.raises(ResponseError, match="cannot be changed"):
            changed_attributes(known, "+queue.type=BatchCQ")
    with pytest.raises(ResponseError, match="cannot be changed"):
        changed_attributes({"queue.type": "BatchCQ"}, "-queue.type")
