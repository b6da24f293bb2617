"""Asking a producer what became of its transaction. [checkProducerTransactionState]"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from pyrmq.model.codes import RequestCode
from pyrmq.model.names import HALF_TOPIC
from pyrmq.net.command import encode_request


class Busy(Enum):
    BUSY = "there are producers, but none takes more now"


BUSY = Busy.BUSY
PickedProducer = Callable[[bytes], None] | Busy | None
"""Sends a frame to the producer that was picked; BUSY: none of the group takes more now; None: the
group has none."""


class Producers(Protocol):
    def reachable(self, group: str) -> bool:
        """Whether a group has a producer, busy or not."""

    def pick(self, group: str, turn: int) -> PickedProducer:
        """Whom to ask; producers take turns."""


def check_frame(
    offset: int, phys: int, key: str, record: bytes, broker_name: str, message_id: str
) -> bytes:
    """CHECK_TRANSACTION_STATE, one-way, for the half at a queue offset and physical offset;
    `record` is it as it would stand in its real topic."""
    return encode_request(
        RequestCode.CHECK_TRANSACTION_STATE,
        0,
        {
            "topic": HALF_TOPIC,
            "tranStateTableOffset": offset,
            "commitLogOffset": phys,
            "msgId": key,
            "transactionId": key,
            "offsetMsgId": message_id,
            "bname": broker_name,
        },
        record,
        oneway=True,
    )
