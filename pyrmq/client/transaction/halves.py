"""Half messages, what a broker is told of them (END_TRANSACTION), and answers to a broker that asks
what became of a transaction, on a bounded pool.

A question may be dropped at any time: the broker asks again, this producer or another one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import trio

from pyrmq.client.telemetry import ClientTelemetry, Work
from pyrmq.client.transaction.listener import Outcome, TransactionListener
from pyrmq.errors import ClientError, PyrmqError, TransactionConflictError, UnsendableMessageError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message, SendResult
from pyrmq.model.properties import UNIQ_KEY
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    TRAN_MSG,
    TransactionState,
)
from pyrmq.net.address import format_address
from pyrmq.net.client.channel import Channel
from pyrmq.net.tasks import Tasks

if TYPE_CHECKING:
    # Imported where it is used: most clients have none.
    from pyrmq.client.trace.tracer import Tracer

log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""Most bytes of bodies of all waiting checks, whatever the number of slots."""
MAX_UNCONFIRMED = 1024
"""Answers that brokers have not confirmed yet; beyond that no further check runs."""
ANSWER_TIMEOUT = 3.0
_OFFSETS = ("tranStateTableOffset", "commitLogOffset")
_ECHOED = ("topic", "transactionId", "bname")
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
    if message.has_priority:
        raise UnsendableMessageError("a message sent in a transaction has no priority")
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
    """Sends END_TRANSACTION and waits for the answer: the answer to a check may have ended the half
    with the other state. RocketMQ's clients do not wait. Nothing is answered to UNKNOWN."""
    if outcome.state is TransactionState.UNKNOWN:
        await channel.oneway(RequestCode.END_TRANSACTION, fields, remark=outcome.remark)
    else:
        await channel.request(RequestCode.END_TRANSACTION, fields, timeout=timeout)


async def told_end(
    telemetry: ClientTelemetry | None, message: Any, outcome: Outcome, telling: Awaitable[None]
) -> None:
    """Sends END_TRANSACTION, as an operation if somebody is told."""
    if telemetry is None:
        await telling
        return
    with telemetry.during(Work.END, message.topic, [message], result=outcome):
        await telling


def trace_end(
    tracer: Tracer | None,
    properties: dict[str, str],
    topic: str,
    msg_id: str,
    channel: Channel,
    state: TransactionState,
    *,
    from_check: bool = False,
) -> None:
    """Records END_TRANSACTION of a message with these properties."""
    if tracer is not None:
        transaction_id = properties.get(UNIQ_KEY)
        host = format_address(channel.address)
        tracer.transaction_ended(
            properties, topic, msg_id, transaction_id, state, host, from_check=from_check
        )


def _commit_log_offset(offset_msg_id: str) -> int:
    """The physical offset at the end of an offset id (host, port, offset in hex)."""
    try:
        raw = bytes.fromhex(offset_msg_id)
    except ValueError:
        raw = b""
    if len(raw) not in (16, 28):
        raise ClientError(f"the broker's answer has no message id: {offset_msg_id!r:.80}")
    return int.from_bytes(raw[-8:], signed=True)


@dataclass(frozen=True, slots=True)
class _Check:
    channel: Channel
    fields: dict[str, str | int | bool]
    message: ReceivedMessage


class CheckPool:
    """`concurrency` tasks `ask` the listener and answer the broker, while `slots` checks wait.
    `answered` is called when a broker has its answer.

    An async context manager; call `close` before leaving it, so that running checks can end.
    """

    def __init__(
        self,
        group: str,
        ask: Callable[[ReceivedMessage], Awaitable[Outcome]],
        concurrency: int,
        slots: int,
        answered: Callable[[Channel, ReceivedMessage, TransactionState], None],
        telemetry: ClientTelemetry | None,
    ) -> None:
        if concurrency < 1 or slots < 1:
            raise ClientError("check_concurrency and check_queue must be at least 1")
        self.answered = self.dropped = self.failed = self.running = self.waiting = 0
        self._group = group
        self._ask = ask
        self._on_answered = answered
        self._telemetry = telemetry
        self._workers = concurrency
        self._bytes = 0
        self._send, self._receive = trio.open_memory_channel[_Check](slots)
        self._ended = trio.Event()
        self._unconfirmed = 0
        self._freed = trio.Event()
        self._tasks = Tasks()

    async def __aenter__(self) -> CheckPool:
        await self._tasks.__aenter__()
        for _ in range(self._workers):
            self._tasks.start_soon(self._work)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._tasks.__aexit__(*error)
        self.dropped, self.waiting = self.dropped + self.waiting, 0
        self._receive.close()

    async def close(self, grace: float) -> None:
        """Takes no more checks; returns when those taken are answered or the time is over."""
        self._send.close()
        with trio.move_on_after(grace, shield=True):
            await self._ended.wait()

    def offer(self, channel: Channel, ext: Mapping[str, str], message: ReceivedMessage) -> None:
        """Takes a check, or drops it."""
        offsets = {name: ext.get(name, "") for name in _OFFSETS}
        if not all(_is_offset(text) for text in offsets.values()):
            self._drop(message, f"its offsets are no offsets: {offsets!r:.100}")
            return
        fields: dict[str, str | int | bool] = {
            **{name: ext[name] for name in _ECHOED if name in ext},
            **offsets,
            "producerGroup": self._group,
            "msgId": message.msg_id,
            "fromTransactionCheck": True,
        }
        if self._bytes + len(message.raw_body) > MAX_BYTES and self._bytes:
            self._drop(message, f"{self._bytes} bytes wait already")
            return
        try:
            self._send.send_nowait(_Check(channel, fields, message))
        except trio.WouldBlock:
            self._drop(message, f"{self.waiting} checks wait already")
        except trio.ClosedResourceError:
            self._drop(message, "this producer is about to end")
        else:
            self.waiting += 1
            self._bytes += len(message.raw_body)

    def _drop(self, message: ReceivedMessage, why: str) -> None:
        self.dropped += 1
        log.warning(
            "a check of transaction %s is dropped: %s",
            escape(message.msg_id),
            escape(why),
            extra=about(message_id=message.msg_id),
        )

    async def _work(self) -> None:
        try:
            async for check in self._receive.clone():
                self.waiting -= 1
                self._bytes -= len(check.message.raw_body)
                self.running += 1
                try:
                    await self._answer(check)
                finally:
                    self.running -= 1
        finally:
            self._workers -= 1
            self._end_if_done()

    async def _answer(self, check: _Check) -> None:
        outcome = await self._ask(check.message)
        if outcome.error is not None:
            self.failed += 1
        if outcome.state is not TransactionState.COMMIT:
            log.info(
                "checked transaction %s: %s",
                escape(check.message.msg_id),
                outcome.state,
                extra=about(message_id=check.message.msg_id),
            )
        # Workers do not wait for a broker that takes its time: it would have its checks dropped.
        if self._unconfirmed >= MAX_UNCONFIRMED:
            self._freed = trio.Event()
            await self._freed.wait()
        self._unconfirmed += 1
        self._tasks.start_soon(self._tell, check, outcome)

    async def _tell(self, check: _Check, outcome: Outcome) -> None:
        name = check.message.msg_id
        fields = {**check.fields, "commitOrRollback": outcome.state.value}
        try:
            telling = tell(check.channel, outcome, fields, ANSWER_TIMEOUT)
            await told_end(self._telemetry, check.message, outcome, telling)
        except TransactionConflictError as e:
            self.failed += 1
            log.error(
                "check of transaction %s, answered %s: %s",
                escape(name), outcome.state, escape(e), extra=about(message_id=name),
            )  # fmt: skip
        except PyrmqError as e:
            self.failed += 1
            log.warning(
                "check of transaction %s not answered: %s",
                escape(name),
                escape(e),
                extra=about(message_id=name),
            )
        else:
            self.answered += 1
            self._on_answered(check.channel, check.message, outcome.state)
        finally:
            self._unconfirmed -= 1
            self._freed.set()
            self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._workers and not self._unconfirmed:
            self._ended.set()


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) < 1 << 63
