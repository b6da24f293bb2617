"""What may be said of a topic's attributes."""

from __future__ import annotations

import pytest

from pyrmq.broker.topic_attributes import changed
from pyrmq.errors import InvalidParameterError


def test_setting_and_removing() -> None:
    assert changed(None, "") == {}
    new = changed(None, "+queue.type=BatchCQ,+message.type=NORMAL")
    assert new == {"queue.type": "BatchCQ", "message.type": "NORMAL"}
    assert changed(new, "-message.type") == {"queue.type": "BatchCQ"}
    assert changed(new, "+message.type=FIFO")["message.type"] == "FIFO"
    assert changed(new, "+queue.type=BatchCQ") == new
    assert changed(new, "") == new


@pytest.mark.parametrize(
    "text",
    [
        "queue.type=BatchCQ", "+queue.type", "-queue.type=BatchCQ", "+queue.type=", "+=x", "+", "-",
        "+queue.type=Other", "+cleanup.policy=COMPACTION", "+message.type=DELAY", "+x=y",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(InvalidParameterError):
        changed(None, text)


def test_the_kind_of_queues_stays() -> None:
    for known in ({}, {"queue.type": "SimpleCQ"}):
        with pytest.raises(InvalidParameterError, match="cannot be changed"):
            changed(known, "+queue.type=BatchCQ")
    with pytest.raises(InvalidParameterError, match="cannot be changed"):
        changed({"queue.type": "BatchCQ"}, "-queue.type")
