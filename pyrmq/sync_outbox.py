"""`pyrmq.outbox.Outbox` for blocking code."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyrmq.client.transaction.listener import TransactionSendResult
from pyrmq.client.transaction.producer import TransactionalProducer
from pyrmq.face_docs import PLAIN, in_words
from pyrmq.model.message import Message, MessageQueue
from pyrmq.outbox.outbox import Outbox as TrioOutbox
from pyrmq.sync_face import Client


class Outbox(TrioOutbox):
    __doc__ = TrioOutbox.__doc__

    def send(  # type: ignore[override]
        self,
        producer: Client[TransactionalProducer],
        message: Message,
        arg: Any = None,
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        check_immunity: int | None = None,
    ) -> TransactionSendResult:
        options = {"queue": queue, "timeout": timeout, "check_immunity": check_immunity}
        call = partial(super().send, producer._client, message, arg, **options)
        return producer._running.call(call)

    send.__doc__ = in_words(TrioOutbox.send.__doc__, PLAIN)
