"""Request and reply: a producer asks, a consumer of the request has the broker push its reply."""

from __future__ import annotations

import time

from tests.support.client import Client, Closed, send_command
from tests.support.delays import place
from tests.support.ledger import parsed
from tests.support.records import Record
from tests.support.transactions import join_group
from tests.support.wire import FLAG_RESPONSE, Command, encode
from tests.system.crash.delay_load import body_of
from tests.system.soak.handling import Handle, by_key
from tests.system.soak.settings import QUEUES, REQUESTS
from tests.system.soak.shared import ANSWER_SECONDS, Role, Shared

SEND_REPLY_MESSAGE_V2, PUSH_REPLY_MESSAGE_TO_CLIENT = 325, 326
REPLIES = "DefaultCluster_REPLY_TOPIC"
NOBODY = 1
"""SYSTEM_ERROR: who asked is not connected any more."""
RATE = 10.0
PATIENCE = 2.0
"""Seconds that it stays for late replies when no more load is made."""


class Asker(Role):
    """Sends requests, and answers what the broker pushes."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "asker")
        self._made = 0

    def work(self) -> None:
        self._made += 1
        name = f"ask.{self._made}"
        with self.shared.connect() as client:
            join_group(client, "PG_soak_asker", client_id=name)
            number = 0
            while self.wanted():
                self._ask(client, name, number)
                number += 1
                self._serve(client, 1 / (RATE * self.shared.settings.rate))
            self._serve(client, PATIENCE)

    def _ask(self, client: Client, name: str, number: int) -> None:
        key, ledger = f"{name}-{number}", self.shared.ledgers.requests
        properties = {
            "UNIQ_KEY": key, "CORRELATION_ID": key, "REPLY_TO_CLIENT": name, "TTL": "3000",
        }  # fmt: skip
        ledger.sent(name, number)
        self.shared.ledgers.replies.sent(name, number)
        self.shared.count("sent")
        queue = self.chance.randrange(QUEUES[REQUESTS])
        answer = client.send(REQUESTS, body_of(key), queue_id=queue, properties=properties)
        if self.shared.refused(answer.code):
            return
        if answer.code != 0:
            self.shared.fault(f"request {key}: {answer.code} {answer.remark}")
            return
        ledger.acknowledged(name, number, place(answer))

    def _serve(self, client: Client, seconds: float) -> None:
        """Takes replies for so long."""
        deadline = time.monotonic() + seconds
        while True:
            while client.pushed:
                self._take(client, client.pushed.pop(0))
            if (left := deadline - time.monotonic()) <= 0:
                return
            try:
                client.wait_pushed(left)
            except TimeoutError:
                return

    def _take(self, client: Client, pushed: Command) -> None:
        if pushed.code != PUSH_REPLY_MESSAGE_TO_CLIENT:
            self.shared.fault(f"the asker is sent a request {pushed.code}")
            return
        key = pushed.body.decode()
        if f"CORRELATION_ID\x01{key}\x02" not in pushed.ext["properties"]:
            self.shared.ledgers.replies.note("with another correlation id", key)
        self.shared.ledgers.replies.received(*parsed(key))
        client.send_raw(encode(Command(0, opaque=pushed.opaque, flag=FLAG_RESPONSE)))


def replying(shared: Shared) -> Handle:
    """Consumes a request and replies to it, on a connection of its own."""
    consume = by_key(shared.ledgers.requests)

    def reply(record: Record) -> None:
        consume(record)
        key = record.properties["UNIQ_KEY"]
        properties = {
            "MSG_TYPE": "reply", "CORRELATION_ID": record.properties["CORRELATION_ID"],
            "REPLY_TO_CLIENT": record.properties["REPLY_TO_CLIENT"],
        }  # fmt: skip
        command = send_command(
            REPLIES, key.encode(), properties=properties, code=SEND_REPLY_MESSAGE_V2
        )
        try:
            with shared.connect() as client:
                answer = client.request(command, ANSWER_SECONDS)
        except (Closed, ConnectionError):
            return  # a reply is not repeated: who asked asks again
        if answer.code == 0:
            shared.ledgers.replies.acknowledged(*parsed(key), place(answer))
        elif answer.code == NOBODY:
            shared.count("replies that found nobody")
        elif not shared.refused(answer.code):
            shared.fault(f"reply to {key}: {answer.code} {answer.remark}")

    return reply


def roles(shared: Shared) -> list[Role]:
    return [Asker(shared)]
