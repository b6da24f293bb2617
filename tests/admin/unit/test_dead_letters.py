"""Dead letters without a broker: which are selected, and which message is sent in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyrmq.admin.dead_letters import RESENT_FROM, DeadLetter, Selection
from pyrmq.admin.resent_message import To, message_of, unique_id
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.model.record import ReceivedMessage, UndecodableMessage

ID = "7F00000100002A9F0000000000000010"


def letter(properties: dict[str, str] | None = None, **change: Any) -> DeadLetter:
    message = ReceivedMessage(
        topic="%DLQ%g", body=b"x", queue_id=0, queue_offset=3, commit_log_offset=16, flag=5,
        sys_flag=0, born_timestamp=1, born_host="127.0.0.1:1", store_timestamp=2,
        store_host="127.0.0.1:10911", reconsume_times=16, prepared_transaction_offset=0,
        store_size=100, body_crc=0, properties=properties or {}, offset_msg_id=ID,
        broker_name="broker-a",
    )  # fmt: skip
    return DeadLetter("g", replace(message, **change))


def test_where_it_came_from() -> None:
    assert (letter().topic, letter().origin_id, letter().resent_from) == (None, None, None)
    ours = letter({"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "A"})
    assert (ours.topic, ours.origin_id) == ("T", "A")
    proxy = letter({"DLQ_ORIGIN_TOPIC": "P", "DLQ_ORIGIN_MESSAGE_ID": "B", "RETRY_TOPIC": "T"})
    assert (proxy.topic, proxy.origin_id) == ("P", "B")


def test_selection() -> None:
    one = letter({"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "AB", "KEYS": "k l", "UNIQ_KEY": "CD"})
    for chosen in (
        Selection(),
        Selection(key="l"),
        Selection(topic="T", key="k"),
        Selection(ids=frozenset({"ab"})),
        Selection(ids=frozenset({"cd", "none"})),
        Selection(ids=frozenset({ID})),
    ):
        assert chosen.wants(one), chosen
    for chosen in (
        Selection(key="k l"),
        Selection(topic="U"),
        Selection(topic="T", key="m"),
        Selection(ids=frozenset({"A"})),
    ):
        assert not chosen.wants(one), chosen
    assert Selection().is_all
    assert not Selection(end=1).is_all
    assert not Selection(ids=frozenset({ID})).is_all


SYSTEM = {
    "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "A", "DELAY": "3", "REAL_TOPIC": "%DLQ%g",
    "REAL_QID": "0", "TRAN_MSG": "true", "PGROUP": "pg", "WAIT": "false", "MSG_TYPE": "reply",
    "TIMER_DELIVER_MS": "1", "MAX_RECONSUME_TIMES": "3", "RECONSUME_TIME": "2", "TRACE_ON": "true",
    "__transactionId__": "t", "CLUSTER": "c", "__STARTDELIVERTIME": "99999999999999",
}  # fmt: skip


def test_the_message_has_nothing_of_its_way() -> None:
    own = {"own": "1", "__SHARDINGKEY": "s", "UNIQ_KEY": "U", "KEYS": "a b", "TAGS": "t"}
    made = message_of(letter({**SYSTEM, **own}), "T", To.TOPIC)
    assert (made.topic, made.body, made.flag) == ("T", b"x", 5)
    assert (made.keys, made.tags) == ("a b", "t")
    assert made.properties == {
        "own": "1", "__SHARDINGKEY": "s", "UNIQ_KEY": "U", RESENT_FROM: ID,
    }  # fmt: skip
    group = message_of(letter({**SYSTEM, **own}), "%RETRY%g", To.GROUP)
    assert group.properties["RETRY_TOPIC"] == "T"
    assert group.properties["ORIGIN_MESSAGE_ID"] == "A"
    assert "DELAY" not in group.properties


def test_a_letter_that_died_again_names_itself() -> None:
    again = letter({"UNIQ_KEY": "U", RESENT_FROM: "older", "RETRY_TOPIC": "T"})
    assert again.resent_from == "older"
    assert message_of(again, "T", To.TOPIC).properties[RESENT_FROM] == ID


def test_a_letter_without_a_unique_id_gets_the_same_one_each_time() -> None:
    first, second = unique_id(letter()), unique_id(letter(offset_msg_id=ID[:-1] + "1"))
    assert first == unique_id(letter({"other": "x"}))
    assert first != second
    assert len(first) == 32


def test_priority_is_kept_in_the_topic() -> None:
    assert message_of(letter({"_SYS_MSG_PRIORITY_": "3"}), "T", To.TOPIC).priority == 3
    assert message_of(letter({"_SYS_MSG_PRIORITY_": "3"}), "R", To.GROUP).priority is None
    with pytest.raises(ProtocolError, match="its priority is no number"):
        message_of(letter({"_SYS_MSG_PRIORITY_": "³"}), "T", To.TOPIC)


def test_what_cannot_be_sent() -> None:
    with pytest.raises(ClientError, match="resend it to the topic"):
        message_of(letter({"1ST_POP_TIME": "1"}), "%RETRY%g", To.GROUP)
    assert message_of(letter({"1ST_POP_TIME": "1"}), "T", To.TOPIC).topic == "T"
    damaged = UndecodableMessage.of(letter().message, "it is damaged")
    with pytest.raises(ClientError, match="cannot be decompressed"):
        message_of(DeadLetter("g", damaged), "T", To.TOPIC)
