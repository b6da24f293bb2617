"""`pyrmq.outbox.Outbox` for asyncio.

Written by scripts/portals.py: change that, or what it reads.
"""

from __future__ import annotations

from typing import Any

from pyrmq.client import TransactionalProducer, TransactionSendResult
from pyrmq.model.message import Message, MessageQueue
from pyrmq.outbox.outbox import Outbox as TrioOutbox
from pyrmq.portal.awaiting import Client
from pyrmq.portal.client import ASYNCIO, in_words


class Outbox(TrioOutbox):
    __doc__ = in_words(TrioOutbox.__doc__, ASYNCIO)
    __module__ = "pyrmq.aio"

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
        return await producer._call(
            super().send,
            producer._client,
            message,
            arg,
            queue=queue,
            timeout=timeout,
            check_immunity=check_immunity,
        )

    send.__doc__ = in_words(TrioOutbox.send.__doc__, ASYNCIO)
