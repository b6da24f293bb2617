"""`pyrmq.outbox.Outbox` for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

from pyrmq.aio_face import Client
from pyrmq.client.transaction.listener import TransactionSendResult
from pyrmq.client.transaction.producer import TransactionalProducer
from pyrmq.model.message import Message, MessageQueue
from pyrmq.outbox.outbox import Outbox as TrioOutbox


class Outbox(TrioOutbox):
    __doc__ = TrioOutbox.__doc__

    async def send(  # type: ignore[override]
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
        sending = producer._submit(super().send, producer._client, message, arg, **options)
        return await asyncio.wrap_future(sending)

    send.__doc__ = TrioOutbox.send.__doc__
