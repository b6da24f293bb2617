"""The fields of pulls and sends, and what their answers mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.net.client.pull import PullStatus, pull_fields, read_pull
from pyrmq.net.client.send import (
    queue_fields,
    send_code,
    send_fields,
    stored_at,
)
from pyrmq.net.command import check_success, number


def answer(code: int = 0, remark: str | None = None, **ext: str) -> Any:
    return SimpleNamespace(code=code, remark=remark, ext=ext, body=b"records")


def test_a_pull_of_a_tool() -> None:
    assert pull_fields("T", 3, 17, 32) == {
        "consumerGroup": "TOOLS_CONSUMER", "topic": "T", "queueId": 3, "queueOffset": 17,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip


def test_a_pull_of_a_consumer() -> None:
    fields = pull_fields(
        "T", 3, 17, 32, broker="b", group="g", suspend_ms=15_000, expression="a || b", version=5
    )
    assert fields == {
        "consumerGroup": "g", "topic": "T", "queueId": 3, "queueOffset": 17,
        "maxMsgNums": 32, "sysFlag": 6, "commitOffset": 0, "suspendTimeoutMillis": 15_000,
        "subscription": "a || b", "subVersion": 5, "expressionType": "TAG", "bname": "b",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, PullStatus.FOUND),
        (19, PullStatus.NO_NEW_MESSAGE),
        (20, PullStatus.NO_MATCHED_MESSAGE),
        (21, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_what_a_pull_came_to(code: int, status: PullStatus) -> None:
    found = read_pull(answer(code, nextBeginOffset="5", minOffset="1", maxOffset="9"))
    assert found.status is status
    assert (found.next_offset, found.min_offset, found.max_offset) == (5, 1, 9)
    assert found.body == b"records"
    assert found.next_beyond(4) == 5
    with pytest.raises(ProtocolError, match="a pull at 5 continues at 5"):
        found.next_beyond(5)


@pytest.mark.parametrize("code", [1, 2, 16, 17, 22, 24, 25, 26, -1])
def test_a_code_that_is_no_pulls(code: int) -> None:
    with pytest.raises(ResponseError) as error:
        read_pull(answer(code, "why"))
    assert error.value.code == code


def test_why_nothing_matched() -> None:
    assert read_pull(answer(20, "[status] MESSAGE_WAS_REMOVING")).is_removing
    assert not read_pull(answer(20, "NO_MATCHED_MESSAGE")).is_removing
    assert not read_pull(answer(20)).is_removing


@pytest.mark.parametrize("text", ["", "x", "-2", "9223372036854775808", "1.5", "9" * 5000])
def test_numbers_that_are_no_offsets(text: str) -> None:
    with pytest.raises(ProtocolError):
        number(answer(offset=text), "offset")


def test_numbers() -> None:
    assert number(answer(offset="-1"), "offset") == -1
    assert number(answer(offset="9223372036854775807"), "offset") == 2**63 - 1
    with pytest.raises(ProtocolError, match="without offset"):
        number(answer(), "offset")


def test_success() -> None:
    good = answer(0)
    assert check_success(good) is good
    with pytest.raises(ResponseError, match="CODE 14: why"):
        check_success(answer(14, "why"))


def test_a_send() -> None:
    fields = send_fields("g", "T", "props", flag=7, sys_flag=4) | queue_fields(2, "b")
    born = fields.pop("g")
    assert isinstance(born, int)
    assert fields == {
        "a": "g", "b": "T", "c": "TBW102", "d": 4, "e": 2, "f": 4, "h": 7, "i": "props", "j": 0,
        "k": False, "m": False, "n": "b",
    }  # fmt: skip
    assert send_fields("g", "T", "", flag=0, batch=True)["m"] is True
    assert (send_code(False), send_code(True)) == (310, 320)


def test_where_it_was_stored() -> None:
    assert stored_at(answer(queueId="3", queueOffset="17")) == (3, 17)
    for wrong in ({"queueId": "3"}, {"queueOffset": "1"}, {"queueId": "-1", "queueOffset": "1"}):
        with pytest.raises(ProtocolError):
            stored_at(answer(**wrong))
