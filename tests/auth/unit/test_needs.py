"""What requests need, found in the fields and bodies that their processors read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrmq.auth.needs import MAX_NEEDS
from pyrmq.auth.table import NEEDS
from pyrmq.errors import InvalidParameterError, PyrmqError
from pyrmq.model.codes import RequestCode as Code
from tests.auth.unit.commands import command


def needs(code: int, ext: dict[str, str] | None = None, body: Any = b"") -> set[str]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {str(need) for need in NEEDS[code].find(command(code, ext, raw), "C")}


@pytest.mark.parametrize(
    ("code", "ext", "found"),
    [
        (Code.SEND_MESSAGE, {"topic": "T", "b": "X"}, {"Pub on Topic:T"}),
        (Code.SEND_MESSAGE_V2, {"b": "T", "topic": "X"}, {"Pub on Topic:T"}),
        (Code.SEND_BATCH_MESSAGE, {"b": "T"}, {"Pub on Topic:T"}),
        (Code.SEND_REPLY_MESSAGE, {"topic": "T", "b": "X"}, {"Pub on Topic:T"}),
        (Code.SEND_REPLY_MESSAGE_V2, {"b": "T"}, {"Pub on Topic:T"}),
        (Code.SEND_MESSAGE_V2, {}, {"Pub on Topic:"}),
        # whose retry topic it is, whatever the producer group says
        (Code.SEND_MESSAGE_V2, {"b": "%RETRY%G", "a": "OWN"}, {"Sub on Group:G"}),
        (Code.SEND_MESSAGE, {"topic": "%RETRY%G", "group": "OWN"}, {"Sub on Group:G"}),
        (Code.SEND_MESSAGE, {"topic": "%DLQ%G"}, {"Pub on Topic:%DLQ%G"}),
        (Code.PULL_MESSAGE, {"topic": "T", "consumerGroup": "G"},
         {"Sub on Topic:T", "Sub on Group:G"}),
        (Code.PULL_MESSAGE, {"topic": "%RETRY%H", "consumerGroup": "G"},
         {"Sub on Group:H", "Sub on Group:G"}),
        (Code.LITE_PULL_MESSAGE, {"topic": "%RETRY%G", "consumerGroup": "G"}, {"Sub on Group:G"}),
        (Code.QUERY_MESSAGE, {"topic": "T"}, {"Sub/Get on Topic:T"}),
        (Code.QUERY_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "G"},
         {"Sub/Get on Topic:T", "Sub/Get on Group:G"}),
        (Code.UPDATE_CONSUMER_OFFSET, {"topic": "%RETRY%G", "consumerGroup": "G"},
         {"Sub/Update on Group:G"}),
        (Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "G"}, {"Sub on Group:G"}),
        (Code.UNREGISTER_CLIENT, {"clientID": "c", "producerGroup": "G"}, set()),
        (Code.CONSUMER_SEND_MSG_BACK, {"group": "G"}, {"Sub on Group:G"}),
        (Code.END_TRANSACTION, {"topic": "T", "producerGroup": "P"}, {"Pub on Topic:T"}),
        (Code.END_TRANSACTION, {"producerGroup": "P"}, set()),
        (Code.END_TRANSACTION, {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, set()),
        (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"}, {"Sub/Get on Group:G"}),
        (Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, {"Pub/Sub/Get on Topic:T"}),
        (Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "%RETRY%G"}, {"Sub/Get on Group:G"}),
        (Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}, set()),
        (Code.UPDATE_AND_CREATE_TOPIC, {"topic": "T"}, {"Create on Topic:T"}),
        (Code.GET_CONSUME_STATS, {"consumerGroup": "G"}, {"Get on Group:G"}),
        # the processor takes both fields for lists
        (Code.GET_CONSUME_STATS, {"consumerGroup": "G", "topic": "T;U", "topicList": "V;"},
         {"Get on Group:G", "Get on Topic:T", "Get on Topic:U", "Get on Topic:V"}),
        (Code.QUERY_CORRECTION_OFFSET, {"topic": "T", "compareGroup": "G", "filterGroups": "H,I"},
         {"Get on Topic:T", "Get on Group:G", "Get on Group:H", "Get on Group:I"}),
        (Code.GET_BROKER_CONFIG, {}, {"Get on Cluster:C"}),
        (Code.UPDATE_BROKER_CONFIG, {}, {"Update on Cluster:C"}),
        (Code.AUTH_CREATE_USER, {"username": "u"}, {"Update on Cluster:C"}),
        (Code.AUTH_LIST_USER, {}, {"Get on Cluster:C"}),
        (Code.REGISTER_BROKER, {"clusterName": "D"}, {"Update on Cluster:D"}),
        (Code.PUT_KV_CONFIG, {"namespace": "n"}, {"Update on Cluster:*"}),
    ],
)  # fmt: skip
def test_needs_of_fields(code: int, ext: dict[str, str], found: set[str]) -> None:
    assert needs(code, ext) == found


def test_a_heartbeat_needs_its_consumers() -> None:
    body = {
        "clientID": "c",
        "producerDataSet": [{"groupName": "P"}],
        "consumerDataSet": [
            {"groupName": "G", "subscriptionDataSet": [{"topic": "T"}, {"topic": "%RETRY%G"}]},
            {"groupName": "H", "subscriptionDataSet": None},
        ],
    }
    assert needs(Code.HEART_BEAT, {}, body) == {
        "Sub on Group:G", "Sub on Topic:T", "Sub on Group:H",
    }  # fmt: skip


@pytest.mark.parametrize("code", [Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ])
def test_locks_need_group_and_topics(code: Code) -> None:
    queues = [{"topic": t, "brokerName": "b", "queueId": 0} for t in ("T", "T", "%RETRY%H")]
    body = {"consumerGroup": "G", "clientId": "c", "mqSet": queues}
    assert needs(code, {}, body) == {"Sub on Group:G", "Sub on Topic:T", "Sub on Group:H"}


def test_lists_of_topics_and_groups() -> None:
    topics = {"topicConfigList": [{"topicName": "T"}, {"topicName": "U"}]}
    assert needs(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics) == {
        "Create on Topic:T", "Create on Topic:U",
    }  # fmt: skip
    assert needs(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "G"}) == {
        "Create on Group:G"
    }
    groups = {"groupConfigList": [{"groupName": "G"}, {"groupName": "H"}]}
    assert needs(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, groups) == {
        "Create on Group:G", "Create on Group:H",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (Code.HEART_BEAT, b"{"), (Code.HEART_BEAT, b"[]"),
        (Code.HEART_BEAT, {"consumerDataSet": [{}]}),
        (Code.HEART_BEAT, {"consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [7]}]}),
        (Code.LOCK_BATCH_MQ, {"mqSet": []}), (Code.LOCK_BATCH_MQ, b""),
        (Code.UPDATE_AND_CREATE_TOPIC_LIST, {"topicConfigList": [{"topicName": 7}]}),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}),
    ],
)  # fmt: skip
def test_bodies_without_names(code: Code, body: Any) -> None:
    with pytest.raises(PyrmqError):
        needs(code, {}, body)


def test_the_number_of_needs_is_bounded() -> None:
    rows = [{"topicName": f"t{n}"} for n in range(MAX_NEEDS + 1)]
    assert len(needs(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, {"topicConfigList": rows[1:]}))
    with pytest.raises(InvalidParameterError):
        needs(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, {"topicConfigList": rows})
