"""pyrmq's own client: a producer and two consumers of a group, of which one comes and goes."""

from __future__ import annotations

import trio

from pyrmq import ConsumeFrom, Message, Producer, PushConsumer
from pyrmq.errors import PyrmqError
from pyrmq.model.message import SendStatus
from tests.support.ledger import parsed
from tests.support.records import parse_message_id
from tests.system.crash.delay_load import body_of
from tests.system.soak.settings import CLIENT
from tests.system.soak.shared import Role, Shared

RATE = 30.0
STAY = 5.0
"""Seconds that the second consumer stays."""


class PythonClient(Role):
    """Runs over all restarts: finding the broker again is the client's own work."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "pyrmq's client")
        host, port = shared.server.namesrv
        self._namesrv = f"{host}:{port}"
        self._ledger = shared.ledgers.client
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()

        self._done = False

    def wanted(self) -> bool:
        return not self._done

    def work(self) -> None:
        trio.run(self._live)
        self._done = True

    def leave(self) -> None:
        """Ends the consumers; returns when all are gone."""
        if self._token is not None:
            self._token.run_sync_soon(self._scope.cancel)
        self.join(60)
        if self.is_alive():
            self.shared.fault(f"{self.name} does not end")

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._produce)
                nursery.start_soon(self._consume)
                nursery.start_soon(self._come_and_go)

    async def _produce(self) -> None:
        async with Producer("PG_soak_client", namesrv=self._namesrv) as producer:
            number = 0
            while self.shared.loading.is_set():
                await trio.sleep(1 / (RATE * self.shared.settings.rate))
                key = f"client-{number}"
                self._ledger.sent("client", number)
                self.shared.count("sent")
                try:
                    result = await producer.send(Message(CLIENT, body_of(key), keys=key))
                except PyrmqError as e:
                    self.shared.count(f"pyrmq's client: {type(e).__name__}")
                    await trio.sleep(0.1)
                else:
                    if result.status is SendStatus.SEND_OK:
                        _, place = parse_message_id(result.offset_msg_id)
                        self._ledger.acknowledged("client", number, place)
                number += 1

    async def _consume(self) -> None:
        async with PushConsumer(
            "CG_client",
            {CLIENT: "*"},
            namesrv=self._namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer:
            async for message in consumer:
                key = message.keys[0]
                if message.body != body_of(key):
                    self._ledger.note("damaged", key)
                self._ledger.received(*parsed(key), message.commit_log_offset)

    async def _come_and_go(self) -> None:
        while self.shared.loading.is_set():
            with trio.move_on_after(STAY):
                await self._consume()
            await trio.sleep(1)
