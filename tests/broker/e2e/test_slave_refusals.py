"""A slave says no to what would write into its log, or into what it has of its master."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode as Code
from tests.support.client import Client
from tests.system.hostile.requests.broker_rows import GROUP, ROWS, TOPIC

SYSTEM_ERROR, SLAVE_NOT_AVAILABLE, SERVICE_NOT_AVAILABLE = 1, 11, 14
REFUSED: dict[int, tuple[int, str]] = {
    **dict.fromkeys(
        (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE,
         Code.SEND_REPLY_MESSAGE_V2, Code.CONSUMER_SEND_MSG_BACK, Code.RESUME_CHECK_HALF_MESSAGE,
         Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE,
         Code.CHANGE_MESSAGE_INVISIBLETIME),
        (SERVICE_NOT_AVAILABLE, "slave mode"),
    ),
    **dict.fromkeys(
        (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST,
         Code.DELETE_TOPIC_IN_BROKER, Code.CLEAN_UNUSED_TOPIC,
         Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
         Code.DELETE_SUBSCRIPTIONGROUP, Code.INVOKE_BROKER_TO_RESET_OFFSET),
        (SYSTEM_ERROR, "at the master"),
    ),
    Code.END_TRANSACTION: (SLAVE_NOT_AVAILABLE, "slave mode"),
}  # fmt: skip


@pytest.fixture(scope="module")
def slave() -> Iterator[Client]:
    with (
        pyrmq.testing.broker(broker_role="SLAVE", broker_id=1) as running,
        Client(running.broker_address) as client,
    ):
        yield client


@pytest.mark.parametrize("code", list(REFUSED), ids=int)
def test_refused(slave: Client, code: int) -> None:
    answer = slave.request(ROWS[code].request(code))
    wanted, word = REFUSED[code]
    assert answer.code == wanted, answer.remark
    assert word in (answer.remark or "")


def test_nothing_was_made(slave: Client) -> None:
    topics = slave.call(Code.GET_ALL_TOPIC_CONFIG).body
    groups = slave.call(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body
    assert TOPIC.encode() not in topics
    assert b'"Made"' not in topics
    assert GROUP.encode() not in groups
    assert b"CG_made" not in groups


@pytest.mark.parametrize(
    "code",
    [Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.GET_BROKER_HA_STATUS,
     Code.GET_BROKER_CONSUME_STATS, Code.GET_ALL_PRODUCER_INFO],
    ids=int,
)  # fmt: skip
def test_looks_are_answered(slave: Client, code: int) -> None:
    assert slave.call(code).code == 0
