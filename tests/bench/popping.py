"""A broker that is popped from, with the answers of Apache RocketMQ 5.3.3."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.bench.lying import LyingBroker
from tests.support.records import Record, encode_record
from tests.support.wire import Command

UPDATE_OFFSET, QUERY_OFFSET, CREATE_GROUP = 15, 14, 200
POP, ACK = 200050, 200051
INVISIBLE = 60_000


class PoppedBroker(LyingBroker):
    """`again` messages come a second time: at once, as if their invisible time had passed. With
    `by_retry` they come from the group's retry topic, with their handle on them."""

    def __init__(self, again: int = 0, *, by_retry: bool = False) -> None:
        super().__init__()
        self.again, self.by_retry = again, by_retry
        self.pops: list[Command] = []
        self.acks: list[Command] = []
        self.offsets: dict[tuple[str, str, str], int] = {}
        self.handles: list[str] = []
        """Of each message that was given, in turn."""
        self._taken: dict[tuple[str, str], int] = {}
        self._back: list[Record] = []

    def usual(self, command: Command) -> Any:
        own = {POP: self._pop, ACK: self._ack, UPDATE_OFFSET: self._update}
        if command.code in own:
            return own[command.code](command)
        if command.code == QUERY_OFFSET:
            key = (command.ext["consumerGroup"], command.ext["topic"], command.ext["queueId"])
            if key not in self.offsets:
                return command.reply(22)
            return command.reply(0, {"offset": str(self.offsets[key])})
        return super().usual(command)

    def _update(self, c: Command) -> Command:
        key = (c.ext["consumerGroup"], c.ext["topic"], c.ext["queueId"])
        self.offsets[key] = int(c.ext["commitOffset"])
        self._taken[key[1:]] = self.offsets[key]
        return c.reply(0)

    def _ack(self, c: Command) -> Command:
        self.acks.append(c)
        return c.reply(0)

    def answer(self, command: Command) -> Any:
        """A pop waits for messages, outside the lock, for as long as a test needs."""
        end = time.monotonic() + 0.2
        while True:
            answer = super().answer(command)
            if command.code != POP or answer.code != 210 or time.monotonic() > end:
                return answer
            threading.Event().wait(0.005)

    def _pop(self, c: Command) -> Command:
        self.pops.append(c)
        topic, most = c.ext["topic"], int(c.ext["maxMsgNums"])
        born = int(c.ext["bornTime"])
        ext = {"popTime": str(born), "invisibleTime": c.ext["invisibleTime"], "reviveQid": "3"}
        ext["restNum"] = "0"
        found, starts = [], []
        for record in self._back[:most]:
            found.append(record)
            self._back.remove(record)
            if not self.by_retry:
                starts.append(f"0 {record.queue_id} {record.queue_offset}")
        for (name, queue), records in sorted(self.records.items()):
            start = self._taken.get((name, queue), 0)
            taken = records[start : start + most - len(found)] if name == topic else []
            if not taken:
                continue
            if any(f"0 {queue} " in one for one in starts):
                continue
            self._taken[name, queue] = start + len(taken)
            found += taken
            starts.append(f"0 {queue} {start}")
            for record in taken:
                if self.again > 0:
                    self.again -= 1
                    self._back.append(self._second(record, c, born))
        if not found:
            return c.reply(210)
        ext["startOffsetInfo"] = ";".join(starts)
        self.handles += [self._handle(record, starts, ext) for record in found]
        return c.reply(0, ext, b"".join(encode_record(r) for r in found))

    def _second(self, record: Record, c: Command, born: int) -> Record:
        if not self.by_retry:
            return record
        handle = f"0 {born} {c.ext['invisibleTime']} 5 1 {self.name} 0 {record.queue_offset}"
        raw = record.properties_raw + f"POP_CK\x01{handle}\x02".encode()
        return _sized(record, raw)

    name = "broker-a"

    def _handle(self, record: Record, starts: list[str], ext: dict[str, str]) -> str:
        text = record.properties_raw.decode()
        if "POP_CK\x01" in text:
            return text.rpartition("POP_CK\x01")[2].partition("\x02")[0]
        start = next(s.split()[2] for s in starts if s.split()[1] == str(record.queue_id))
        words = [start, ext["popTime"], ext["invisibleTime"], ext["reviveQid"], "0"]
        return " ".join([*words, self.name, str(record.queue_id), str(record.queue_offset)])


def _sized(record: Record, raw: bytes) -> Record:
    from dataclasses import replace

    longer = replace(record, properties_raw=raw)
    return replace(longer, size=len(encode_record(longer)))
