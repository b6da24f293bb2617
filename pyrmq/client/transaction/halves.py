"""Half messages, and END_TRANSACTION, which sends their outcome to the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from pyrmq.client.transaction.listener import Outcome, TransactionListener
from pyrmq.errors import ClientError, UnsendableMessageError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, SendResult
from pyrmq.model.transaction import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    TRAN_MSG,
    TransactionState,
)
from pyrmq.net.client.channel import Channel

_LEFT = (TRAN_MSG, CHECK_TIMES, PREPARED_QUEUE_OFFSET)
"""Properties of an earlier half, which are removed from a received message that is sent on."""


def half_of(message: Message) -> Message:
    """A copy of a message that is to be sent as a half. Raises UnsendableMessageError if it cannot
    be sent."""
    if not isinstance(message, Message):
        raise UnsendableMessageError(
            f"a transaction takes one Message, not {type(message).__name__}: "
            "batches cannot be sent in a transaction"
        )
    if message.is_delayed:
        raise UnsendableMessageError("a message sent in a transaction cannot be delayed")
    properties = {n: value for n, value in message.properties.items() if n not in _LEFT}
    return replace(message, properties=properties)


def mark(half: Message, group: str, check_immunity: int | None) -> None:
    """Gives a half its properties; its group has the broker's name."""
    if check_immunity is not None:
        if not isinstance(check_immunity, int) or check_immunity < 1:
            raise ClientError("check_immunity is a whole number of seconds from 1 on")
        half.properties[CHECK_IMMUNITY] = str(check_immunity)
    half.properties |= {TRAN_MSG: "true", PRODUCER_GROUP: group}


async def listeners_properties(listener: TransactionListener) -> Mapping[str, str]:
    """The properties that a listener adds to each of its halves: `await
    listener.half_properties()`, which an outbox has."""
    ask: Callable[[], Awaitable[Mapping[str, str]]] | None
    ask = getattr(listener, "half_properties", None)
    return {} if ask is None else await ask()


def end_fields(
    sent: SendResult, group: str, state: TransactionState
) -> dict[str, str | int | bool]:
    """END_TRANSACTION of a half. Raises ClientError if the broker's answer does not say where the
    half is."""
    return {
        "topic": sent.queue.topic,
        "producerGroup": group,
        "tranStateTableOffset": sent.queue_offset,
        "commitLogOffset": _commit_log_offset(sent.offset_msg_id),
        "commitOrRollback": state.value,
        "fromTransactionCheck": False,
        "msgId": sent.msg_id,
        "transactionId": sent.transaction_id or sent.msg_id,
        "bname": sent.queue.broker_name,
    }


async def tell(
    channel: Channel, outcome: Outcome, fields: dict[str, str | int | bool], timeout: float
) -> None:
    """Sends END_TRANSACTION and waits for the answer, because the half may be settled the other
    way. RocketMQ's clients do not wait. UNKNOWN gets no answer."""
    if outcome.state is TransactionState.UNKNOWN:
        await channel.oneway(RequestCode.END_TRANSACTION, fields, remark=outcome.remark)
    else:
        await channel.request(RequestCode.END_TRANSACTION, fields, timeout=timeout)


def _commit_log_offset(offset_msg_id: str) -> int:
    """The physical offset at the end of an offset id (host, port, offset in hex)."""
    try:
        raw = bytes.fromhex(offset_msg_id)
    except ValueError:
        raw = b""
    if len(raw) not in (16, 28):
        raise ClientError(f"the broker's answer has no message id: {offset_msg_id!r:.80}")
    return int.from_bytes(raw[-8:], signed=True)
