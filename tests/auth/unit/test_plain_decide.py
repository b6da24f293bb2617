"""Decisions of ACL 1.0: bits, needs of requests, and whole decisions against a naive model."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.auth.plain.accounts import Account, Permission
from pyrmq.auth.plain.decide import ADMIN_CODES, NEEDS, Need, grants, needs_of, refusal
from pyrmq.errors import ProtocolError
from pyrmq.model.codes import RequestCode as Code

DENY, ANY, PUB, SUB = Permission.DENY, Permission.ANY, Permission.PUB, Permission.SUB
HEARTBEAT = {
    "clientID": "c",
    "producerDataSet": [{"groupName": "P"}],
    "consumerDataSet": [
        {
            "groupName": "G",
            "subscriptionDataSet": [{"topic": "T", "subString": "*"}, {"topic": "%RETRY%G"}],
        }
    ],
}
LOCK = {"consumerGroup": "G", "clientId": "c", "mqSet": [{"topic": "T", "queueId": 0}]}
T_SUB, G_SUB = Need("T", SUB), Need("G", SUB, group=True)


@pytest.mark.parametrize(
    ("owned", "needed", "enough"),
    [
        (PUB, PUB, True), (PUB, SUB, False), (SUB, SUB, True), (SUB, PUB, False),
        (PUB | SUB, PUB, True), (PUB | SUB, SUB, True), (DENY, PUB, False), (DENY, ANY, False),
        (DENY | PUB | SUB, PUB, False), (PUB, ANY, True), (SUB, ANY, True),
        (Permission(0), PUB, False), (Permission(0), ANY, False),
    ],
)  # fmt: skip
def test_bits(owned: Permission, needed: Permission, enough: bool) -> None:
    assert grants(owned, needed) == enough


@pytest.mark.parametrize(
    ("code", "ext", "body", "expected"),
    [
        (Code.SEND_MESSAGE, {"topic": "T", "producerGroup": "P"}, b"", [Need("T", PUB)]),
        (Code.SEND_MESSAGE_V2, {"b": "T", "a": "P"}, b"", [Need("T", PUB)]),
        (Code.SEND_BATCH_MESSAGE, {"b": "T", "a": "P"}, b"", [Need("T", PUB)]),
        (Code.SEND_MESSAGE_V2, {"b": "%RETRY%G", "a": "CLIENT_INNER_PRODUCER"}, b"", [G_SUB]),
        (Code.SEND_MESSAGE, {"topic": "%RETRY%G"}, b"", [G_SUB]),
        (Code.CONSUMER_SEND_MSG_BACK, {"group": "G"}, b"", [G_SUB]),
        (Code.PULL_MESSAGE, {"topic": "T", "consumerGroup": "G"}, b"", [T_SUB, G_SUB]),
        (Code.PULL_MESSAGE, {"topic": "%RETRY%G", "consumerGroup": "G"}, b"", [G_SUB, G_SUB]),
        (Code.LITE_PULL_MESSAGE, {"topic": "T", "consumerGroup": "G"}, b"", [T_SUB, G_SUB]),
        (Code.QUERY_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "G"}, b"", [T_SUB, G_SUB]),
        (Code.UPDATE_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "G"}, b"", [T_SUB, G_SUB]),
        (Code.QUERY_MESSAGE, {"topic": "T", "key": "k"}, b"", [T_SUB]),
        (Code.HEART_BEAT, {}, json.dumps(HEARTBEAT).encode(), [G_SUB, T_SUB, G_SUB]),
        (Code.UNREGISTER_CLIENT, {"consumerGroup": "G"}, b"", [G_SUB]),
        (Code.UNREGISTER_CLIENT, {"producerGroup": "P"}, b"", []),
        (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"}, b"", [G_SUB]),
        (Code.END_TRANSACTION, {"topic": "T"}, b"", [Need("T", PUB)]),
        (Code.END_TRANSACTION, {}, b"", []),
        (Code.END_TRANSACTION, {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, b"", []),
        (Code.LOCK_BATCH_MQ, {}, json.dumps(LOCK).encode(), [G_SUB, T_SUB]),
        (Code.UNLOCK_BATCH_MQ, {}, json.dumps(LOCK).encode(), [G_SUB, T_SUB]),
        (Code.GET_MAX_OFFSET, {"topic": "T"}, b"", []),
    ],
)
def test_what_requests_need(
    code: int, ext: dict[str, str], body: bytes, expected: list[Need]
) -> None:
    assert needs_of(code, ext, body) == expected


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"\xff", b'{"a":' * 500])
def test_a_body_that_names_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        needs_of(Code.HEART_BEAT, {}, body)
    assert refusal(Account("someone", "verysecret"), Code.HEART_BEAT, {}, body)
    assert refusal(Account("someone", "verysecret", admin=True), Code.HEART_BEAT, {}, body) is None


@pytest.mark.parametrize(
    "data",
    [
        {"consumerDataSet": 1},
        {"consumerDataSet": [1, None, {"groupName": 5, "subscriptionDataSet": {"topic": "T"}}]},
        {},
    ],
)
def test_a_heartbeat_of_odd_parts_needs_nothing(data: object) -> None:
    assert needs_of(Code.HEART_BEAT, {}, json.dumps(data).encode()) == []


def test_every_change_needs_an_administrator() -> None:
    account = Account("someone", "verysecret", default_topic=PUB | SUB, default_group=SUB)
    for code in ADMIN_CODES:
        assert "admin=true" in (refusal(account, code, {}, b"") or ""), code
    # those of RocketMQ 5.3 [Permission.ADMIN_CODE], and all that change accounts or show them
    assert {17, 25, 200, 207, 215, 513, 50, 51, 52, 53, 54} <= ADMIN_CODES
    assert not ADMIN_CODES & NEEDS.keys()


def test_message_trace_is_open_to_every_account() -> None:
    account = Account("someone", "verysecret")
    trace = {"b": "RMQ_SYS_TRACE_TOPIC"}
    assert refusal(account, Code.SEND_MESSAGE_V2, trace, b"") is None
    assert refusal(account, Code.PULL_MESSAGE, {"topic": "RMQ_SYS_TRACE_TOPIC"}, b"")
    assert refusal(account, Code.SEND_MESSAGE_V2, {"b": "%RETRY%RMQ_SYS_TRACE_TOPIC"}, b"")


def test_a_refusal_says_what_is_missing() -> None:
    account = Account("someone", "verysecret", topics={"T": SUB})
    assert (
        refusal(account, Code.SEND_MESSAGE_V2, {"b": "T"}, b"") == "no PUB permission for topic T"
    )
    read = {"topic": "T", "consumerGroup": "G"}
    assert refusal(account, Code.PULL_MESSAGE, read, b"") == "no SUB permission for group G"


PERMISSIONS = st.sampled_from([DENY, PUB, SUB, PUB | SUB])
NAMES = st.sampled_from(["a", "b", "c"])
LISTED = st.dictionaries(NAMES, PERMISSIONS)


@given(LISTED, LISTED, PERMISSIONS, PERMISSIONS, NAMES, NAMES, st.booleans(), st.booleans())
def test_decisions_are_those_of_the_model(
    topics: dict[str, Permission],
    groups: dict[str, Permission],
    default_topic: Permission,
    default_group: Permission,
    topic: str,
    group: str,
    admin: bool,
    sends: bool,
) -> None:
    account = Account(
        "someone", "verysecret", admin=admin, default_topic=default_topic,
        default_group=default_group, topics=topics, groups=groups,
    )  # fmt: skip

    def words(listed: dict[str, Permission], default: Permission, name: str) -> list[str]:
        found = listed.get(name, default)
        return [w for w, bit in (("PUB", PUB), ("SUB", SUB)) if bit in found and DENY not in found]

    may_topic = words(topics, default_topic, topic)
    if sends:
        expected = "PUB" in may_topic
        refused = refusal(account, Code.SEND_MESSAGE_V2, {"b": topic}, b"")
    else:
        expected = "SUB" in may_topic and "SUB" in words(groups, default_group, group)
        read = {"topic": topic, "consumerGroup": group}
        refused = refusal(account, Code.PULL_MESSAGE, read, b"")
    assert (refused is None) == (expected or admin)
