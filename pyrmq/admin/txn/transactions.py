"""Deciding transactions in their producers' place, and what was discarded."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.admin.txn.finder import State, Transaction, TransactionFinder
from pyrmq.admin.txn.halves import Filter, Half, Identity, PendingTable, identity_of
from pyrmq.admin.txn.link import BrokerLink, Ext
from pyrmq.admin.txn.scan import Progress, each_record, no_progress
from pyrmq.errors import ClientError, RequestTimeoutError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.names import CHECK_MAX_TOPIC
from pyrmq.model.record import ReceivedMessage
from pyrmq.model.transaction import TransactionState


async def list_discarded(
    link: BrokerLink, limit: int, wanted: Filter | None = None, progress: Progress = no_progress
) -> tuple[list[Half], int]:
    """The oldest messages that were discarded and that nobody has resumed or committed since, and
    how many were ever discarded of those that are still stored. Their offsets are those in the
    topic where they lie."""
    table = PendingTable(limit, wanted)
    begin, end = await link.queue_range(CHECK_MAX_TOPIC)

    def take(message: ReceivedMessage) -> None:
        table.add(Half.of(message, link.name), identity_of(message))

    await each_record(link, CHECK_MAX_TOPIC, begin, end, take, progress)
    found: dict[Identity, Half] = {}
    finder = TransactionFinder(link, progress)
    for half in table.rows():
        for t in await finder.find(half.offset_msg_id, ops=False):
            if t.state is State.DISCARDED:
                found[t.identity] = half
    return list(found.values()), table.count


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker said to a request that changes something."""

    code: int
    remark: str

    @property
    def done(self) -> bool:
        return self.code == ResponseCode.SUCCESS

    def __str__(self) -> str:
        name = ResponseCode(self.code).name if self.code in _CODES else "unknown code"
        remark = "" if self.done else self.remark  # RocketMQ's answers to success have odd ones
        return f"{self.code} {name}" + (f": {remark}" if remark else "")


_CODES = {int(code) for code in ResponseCode}


def check_decidable(t: Transaction, state: TransactionState) -> ReceivedMessage:
    """The copy that a decision is to name. ClientError for what is decided already."""
    if state is TransactionState.UNKNOWN:
        raise ClientError("unknown is no decision")
    late = t.state is State.DISCARDED and state is TransactionState.COMMIT
    if not (t.state is State.PENDING or late):
        hint = " (resume it first)" if t.state is State.DISCARDED else ""
        raise ClientError(f"{t.label} is {t.state.value}{hint}")
    if not t.copies:
        raise ClientError(f"{t.label}: its half message is gone; resume it instead")
    return t.copies[-1]


async def decide(t: Transaction, state: TransactionState) -> Answer:
    """END_TRANSACTION for the live copy, as if its producer answered a check."""
    copy = check_decidable(t, state)
    ext: Ext = {
        "topic": t.topic,
        "producerGroup": t.group,
        "tranStateTableOffset": copy.queue_offset,
        "commitLogOffset": copy.commit_log_offset,
        "commitOrRollback": int(state),
        "fromTransactionCheck": True,
        "msgId": t.transaction_id,
        "transactionId": t.transaction_id,
    }
    try:
        answer = await t.link.end_transaction(ext)
    except RequestTimeoutError as e:
        raise RequestTimeoutError(f"{e}: look again before you try again") from e
    return Answer(answer.code, answer.remark or "")


def check_resumable(t: Transaction) -> ReceivedMessage:
    """The discarded message that can be resumed. ClientError if there is none."""
    if t.state is not State.DISCARDED:
        raise ClientError(
            f"{t.label} is {t.state.value}: only what is in {CHECK_MAX_TOPIC} can be resumed"
        )
    return t.discarded[-1]


async def resume(t: Transaction) -> Answer:
    """RESUME_CHECK_HALF_MESSAGE: the broker makes a half of it again, with no checks counted."""
    message = check_resumable(t)
    answer = await t.link.resume(t.topic, message.offset_msg_id)
    return Answer(answer.code, answer.remark or "")
