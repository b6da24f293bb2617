"""Which way of consuming the options of a consumer want."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyrmq.client.consumer.consume_concurrently import ConsumeConcurrently
from pyrmq.client.consumer.consume_orderly import ConsumeOrderly
from pyrmq.client.consumer.consume_service import Caller
from pyrmq.client.consumer.member import Member
from pyrmq.client.consumer.options import PushOptions
from pyrmq.client.consumer.send_back import SendBack

if TYPE_CHECKING:
    from pyrmq.client.hooks import Observer


def consume_service(
    options: PushOptions,
    member: Member,
    call: Caller,
    send_back: SendBack,
    observer: Observer | None,
) -> ConsumeConcurrently | ConsumeOrderly:
    """What calls the listener of a member with its messages."""
    back = None if options.broadcasting else send_back
    if not options.orderly:
        return ConsumeConcurrently(
            member.tasks,
            call,
            back,
            member.statistics,
            workers=options.concurrency,
            batch=options.batch_size,
            timeout=options.consume_timeout,
            observer=observer,
        )
    locks = member.locks
    return ConsumeOrderly(
        member.tasks,
        call,
        back,
        member.statistics,
        (lambda process: True) if locks is None else locks.valid,
        workers=options.concurrency,
        batch=options.batch_size,
        suspend=options.suspend_time,
        max_times=options.max_times,
        observer=observer,
    )
