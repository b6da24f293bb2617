"""A broker that loses, repeats, reorders, refuses and is silent, as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.records import decode_properties
from tests.support.scripted.lists import RecordLists
from tests.support.scripted.script import HANG_UP, SILENCE
from tests.support.wire import Command

SEND, PULL, HEART_BEAT, END_TRANSACTION = 310, 11, 34, 37


class LyingBroker(RecordLists[tuple[str, str]]):
    """`fate` says what becomes of the n-th send: "store", or

    lose     acknowledged, not stored
    twice    stored two times
    swap     stored behind the next one of any queue
    refuse   SYSTEM_BUSY, not stored
    cheat    SYSTEM_BUSY, and stored
    full     SERVICE_NOT_AVAILABLE, not stored
    silent   no answer, not stored
    mute     no answer, and stored
    die      the connection is closed, not stored
    """

    def __init__(self, fate: Callable[[int], str] = lambda n: "store") -> None:
        super().__init__()
        self.fate = fate
        self.sends: list[Command] = []
        self._late: list[Command] = []

    def sends_topic(self) -> str:
        """The topic of the last send."""
        return self.asked[-1].ext["b"]

    def key_of(self, c: Command) -> tuple[str, str]:
        return c.ext["topic"], c.ext["queueId"]

    def usual(self, command: Command) -> Any:
        if command.code == HEART_BEAT:
            return command.reply(0)
        return self._send(command) if command.code == SEND else super().usual(command)

    def _send(self, c: Command) -> Any:
        what = self.fate(len(self.sends))
        self.sends.append(c)
        if what == "swap":
            self._late.append(c)
        elif what in ("store", "twice", "cheat", "mute"):
            for one in [c, *self._late, *[c] * (what == "twice")]:
                self._store(one)
            self._late = []
        if what == "die":
            return HANG_UP
        if what in ("silent", "mute"):
            return SILENCE
        if what in ("refuse", "cheat", "full"):
            answer = c.reply(14 if what == "full" else 2)
            answer.remark = "the disk is full" if what == "full" else "too busy"
            return answer
        return c.reply(0, {"msgId": "0" * 32, "queueId": c.ext["e"], "queueOffset": "0"})

    def _store(self, c: Command) -> None:
        topic, queue = c.ext["b"], c.ext["e"]
        self.append((topic, queue), topic, int(queue), c.body, decode_properties(c.ext["i"]))
