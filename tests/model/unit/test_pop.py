"""Texts of POP: handles, infos of an answer, retry topics, batches of acks."""

from __future__ import annotations

import pytest

from pyrmq.errors import ProtocolError
from pyrmq.model import pop
from pyrmq.model.pop import BatchAck, ExtraInfo

HANDLE = "10 1700000000000 30000 3 0 broker-a 2 12"


def test_a_handle_is_its_eight_fields() -> None:
    info = ExtraInfo.parse(HANDLE)
    assert info == ExtraInfo(10, 1700000000000, 30000, 3, "0", "broker-a", 2, 12)
    assert info.encode() == HANDLE
    assert ExtraInfo.parse(HANDLE + " 4711") == info, "a proxy's handle has a ninth field"
    assert not info.orderly
    assert ExtraInfo.parse(HANDLE.replace(" 3 ", " 999 ")).orderly


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        HANDLE.rsplit(" ", 1)[0],
        HANDLE.replace("10 ", "-1 "),
        HANDLE.replace("10 ", "ten "),
        HANDLE.replace("10 ", "٣ "),
        HANDLE.replace("10 ", "9223372036854775808 "),
        HANDLE.replace(" 0 ", " 3 "),
        HANDLE.replace(" 2 ", " 2147483648 "),
        HANDLE.replace("broker-a", "b" * 1024),
    ],
)
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(ProtocolError):
        ExtraInfo.parse(text)


def test_the_largest_numbers_of_a_handle() -> None:
    top = 2**63 - 1
    text = f"{top} {top} {top} {2**31 - 1} 2 b {2**31 - 1} {top}"
    assert ExtraInfo.parse(text).encode() == text


def test_retry_topics_by_both_names() -> None:
    assert pop.retry_topic_v1("T", "G") == "%RETRY%G_T"
    assert pop.retry_topic_v2("T", "G") == "%RETRY%G+T"
    assert [pop.retry_of(t) for t in ("T", "%RETRY%G_T", "%RETRY%G+T")] == ["0", "1", "2"]
    assert [pop.real_topic("T", "G", r) for r in "012"] == ["T", "%RETRY%G_T", "%RETRY%G+T"]
    for topic in ("T", "%RETRY%G_T", "%RETRY%G+T"):
        assert pop.normal_topic(topic, "G") == "T"
    assert pop.normal_topic("%RETRY%G", "G") == "%RETRY%G"


def test_infos_of_an_answer() -> None:
    starts = ";".join((pop.start_info("0", 1, 5), pop.start_info("1", 0, 7)))
    assert starts == "0 1 5;1 0 7"
    assert pop.parse_start_info(starts) == {("0", 1): 5, ("1", 0): 7}
    offsets = ";".join((pop.offsets_info("0", 1, [5, 6, 9]), pop.offsets_info("2", 0, [7])))
    assert offsets == "0 1 5,6,9;2 0 7"
    assert pop.parse_offsets_info(offsets) == {("0", 1): [5, 6, 9], ("2", 0): [7]}
    counts = ";".join((pop.count_info("0", 1, 2), pop.count_info("0", 1, 3, offset=8)))
    assert counts == "0 1 2;0 qo1%8 3"
    assert pop.parse_count_info(counts) == {("0", 1, None): 2, ("0", 1, 8): 3}
    assert pop.parse_start_info(None) == pop.parse_offsets_info("") == {}


@pytest.mark.parametrize(
    "text", ["0 1", "0 1 x", "0 1 5;0 1 6", "0 -1 5", "x" * (pop.MAX_INFO + 1)]
)
def test_infos_that_are_none(text: str) -> None:
    with pytest.raises(ProtocolError):
        pop.parse_start_info(text)
    with pytest.raises(ProtocolError):
        pop.parse_offsets_info(text)
    with pytest.raises(ProtocolError):
        pop.parse_count_info(text)


ACK = BatchAck("G", "T", "0", 100, 2, 3, 1700000000000, 30000, (100, 102, 109))


def test_a_batch_of_acks_has_its_offsets_as_bits() -> None:
    value = ACK.to_json()
    assert value["b"] == "BQI="
    assert BatchAck.of_json(value) == ACK


def test_a_batch_with_long_names() -> None:
    value = {
        "consumerGroup": "G", "topic": "T", "retry": "0", "startOffset": 100, "queueId": 2,
        "reviveQueueId": 3, "popTime": 1700000000000, "invisibleTime": 30000, "bitSet": "BQI=",
    }  # fmt: skip
    assert BatchAck.of_json(value) == ACK


@pytest.mark.parametrize(
    "change",
    [
        {"b": "###"},
        {"b": 5},
        {"b": "A" * 20_000},
        {"so": -1},
        {"q": 2**31},
        {"q": True},
        {"pt": 1.5},
        {"r": "3"},
        {"c": ""},
        {"t": None},
    ],
)
def test_batches_that_are_none(change: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        BatchAck.of_json({**ACK.to_json(), **change})
    with pytest.raises(ProtocolError):
        BatchAck.of_json([])


def test_offsets_that_do_not_fit_into_the_bits() -> None:
    for offset in (99, 100 + pop.MAX_BITS):
        with pytest.raises(ValueError, match="offsets of a batch"):
            BatchAck("G", "T", "0", 100, 2, 3, 1, 1, (offset,)).to_json()
    last = 100 + pop.MAX_BITS - 1
    far = BatchAck("G", "T", "0", 100, 2, 3, 1, 1, (last,))
    assert BatchAck.of_json(far.to_json()).offsets == (last,)
