"""The trace job finds the fields where our own clients write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrmq.client.trace import records as trace_records
from pyrmq.client.trace.records import ConsumeCode, MessageType
from pyrmq.model.transaction import TransactionState
from spark_ext.jobs.trace_records import PLACES
from tests.support import build

MESSAGE = replace(
    build.received(1), properties={"UNIQ_KEY": "I", "MSG_REGION": "R", "KEYS": "K"}, topic="T"
)
RECORDS = {
    "Pub": trace_records.published(
        time=1, region="R", group="G", topic="T", msg_id="I", tags="A", keys="K", store_host="H",
        body_length=2, cost=3, message_type=MessageType.NORMAL, offset_msg_id="O",
    ),
    "SubBefore": trace_records.consume_began(
        [MESSAGE], time=1, group="G", topic="T", request_id="Q"
    ),
    "SubAfter": trace_records.consume_ended(
        [MESSAGE], time=1, group="G", topic="T", request_id="Q", cost=3, code=ConsumeCode.SUCCESS
    ),
    "EndTransaction": trace_records.transaction_ended(
        time=1, group="G", topic="T", msg_id="I", tags="A", keys="K", store_host="H",
        transaction_id="X", state=TransactionState.COMMIT, from_check=True,
    ),
}  # fmt: skip
VALUES = {
    "time": "1", "group": "G", "topic": "T", "msgId": "I", "keys": "K", "storeHost": "H",
    "bodyLength": "2", "cost": "3", "requestId": "Q", "retryTimes": "0", "success": "true",
    "contextCode": "0", "transactionId": "X", "state": "COMMIT_MESSAGE", "fromCheck": "true",
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_places(kind: str) -> None:
    text = RECORDS[kind].text
    assert text.endswith("\x02")
    found = text[:-1].split("\x01")
    places = {name: place for name, place in PLACES[kind].items() if name != "clientHost"}
    assert found[0] == kind
    assert {name: found[place] for name, place in places.items()} == {n: VALUES[n] for n in places}
    if kind == "Pub":
        assert len(found) == 14
        assert found[13] == "true", "14 fields: the last one is success"
