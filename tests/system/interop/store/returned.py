"""Messages that a consumer returns: they wait, come again and become dead letters, a broker's turn
each."""

from __future__ import annotations

from tests.support.client import Client
from tests.support.delays import levels, send_back
from tests.support.records import Record
from tests.support.waiting import eventually

from . import cargo
from .contents import Contents
from .special import SCHEDULE, await_messages

GROUP = "Returning"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
LATER = 3
"""Messages that come due in the next turn."""


class Returned:
    """What is returned from queue 2 of the main topic in the first turn, and what becomes of it."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._origins: list[Record] = []
        self._more = 0

    def _send_back(self, client: Client, record: Record, level: int, most: int = 16) -> None:
        self._contents.unanswered(
            record.body
        )  # stored elsewhere than the answer will have been read
        answer = send_back(
            client,
            record.physical_offset,
            GROUP,
            level,
            originMsgId=record.offset_msg_id,
            originTopic=cargo.MAIN,
            maxReconsumeTimes=most,
        )
        assert answer.code == 0, answer.remark

    def begin(self, client: Client) -> None:
        """Three are to come in the next turn, one does not within this test, two are dead."""
        self._contents.knows(RETRY, 1)
        self._origins = self._contents.records[cargo.MAIN, 2][:6]
        assert client.heartbeat("returning@1", GROUP, cargo.MAIN).code == 0
        for record, level in zip(self._origins, (2, 2, 2, 18, -1, -1), strict=True):
            self._send_back(client, record, level)
        self._contents.knows(DEAD, 1)
        await_messages(client, DEAD, 2)
        self._contents.check(client)
        self._are(self._contents.records[DEAD, 0], self._origins[4:], [1, 1])

    def go_on(self, client: Client) -> None:
        """The next turn: they have come, and the dead ones are still there."""
        await_messages(client, RETRY, LATER)
        self._contents.check(client)
        self._are(self._contents.records[RETRY, 0], self._origins[:LATER], [1] * LATER)
        self._are(self._contents.records[DEAD, 0], self._origins[4:], [1, 1])
        waits = self._contents.records[SCHEDULE, 17]
        assert [r.body for r in waits if r.properties["REAL_TOPIC"] == RETRY] == [
            self._origins[3].body
        ]

    def once_more(self, client: Client) -> None:
        """At its end one of those that came is returned again, and one becomes a dead letter."""
        again, dies, _ = self._contents.records[RETRY, 0]
        self._send_back(client, again, 1)
        self._send_back(client, dies, 0, most=1)
        self._more = 1

    def end(self, client: Client) -> None:
        """The third turn. What a broker delivers right before it is killed may come once more."""
        await_messages(client, RETRY, LATER + self._more)
        eventually(
            lambda: levels(client)[:2],
            "what may come once more has come",
            until=lambda found: all(delivered == end for delivered, end in found),
        )
        self._contents.check(client)
        found = self._contents.records[RETRY, 0]
        self._are(found[:LATER], self._origins[:LATER], [1] * LATER)
        # A kill may have lost how far both levels were delivered: of the first turn's messages and
        # of those returned again. What is redelivered keeps the order of its level.
        first = [r for r in found[LATER:] if r.reconsume_times == 1]
        tail = self._origins[LATER - len(first) : LATER]
        self._are(first, tail, [1] * len(first))
        again = [r for r in found[LATER:] if r.reconsume_times != 1]
        assert self._more <= len(again) <= 2 * self._more
        self._are(again, self._origins[:1] * len(again), [2] * len(again))
        dead = self._origins[4:] + self._origins[1:2] * self._more
        self._are(self._contents.records[DEAD, 0], dead, [1, 1] + [2] * self._more)

    def _are(self, found: list[Record], origins: list[Record], times: list[int]) -> None:
        assert [r.reconsume_times for r in found] == times, [r.body for r in found]
        for record, origin in zip(found, origins, strict=True):
            assert record.body == origin.body
            assert record.properties["RETRY_TOPIC"] == cargo.MAIN
            assert record.properties["ORIGIN_MESSAGE_ID"] == origin.offset_msg_id
            assert record.properties.get("KEYS") == origin.properties.get("KEYS")
            assert (record.born_timestamp, record.born_host) == (
                origin.born_timestamp,
                origin.born_host,
            )
