"""Queues of records in lists, and the answers to reads of them: what Apache RocketMQ 5.3.3 says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from tests.support.records import MAGIC_V1, Record, encode_properties, encode_record
from tests.support.scripted.script import Script
from tests.support.wire import Command

BORN = 1_700_000_000_000
EMPTY = Record(
    size=0,
    magic=MAGIC_V1,
    body_crc=0,
    queue_id=0,
    flag=0,
    queue_offset=0,
    physical_offset=0,
    sys_flag=0,
    born_timestamp=BORN,
    born_host=("127.0.0.1", 40000),
    store_timestamp=BORN,
    store_host=("127.0.0.1", 10911),
    reconsume_times=0,
    prepared_offset=0,
    body=b"",
    topic="T",
    properties_raw=b"",
)
Key = TypeVar("Key", bound=Hashable)


class RecordLists(Script, Generic[Key]):
    """`batch` is how many messages a pull brings at most. A queue's key is what `key_of` makes of
    a request."""

    def __init__(self, batch: int = 32) -> None:
        super().__init__()
        self.batch = batch
        self.records: dict[Key, list[Record]] = defaultdict(list)
        self.first: dict[Key, int] = defaultdict(int)
        """Offsets below this one are deleted."""
        self.log: dict[int, Record] = {}
        """By physical offset."""
        self._end = 0

    def key_of(self, c: Command) -> Key:
        raise NotImplementedError

    def append(
        self,
        key: Key,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: Mapping[str, str],
        **change: object,
    ) -> Record:
        """Stores a message; further fields of its record by name."""
        queue = self.records[key]
        record = replace(
            EMPTY,
            topic=topic,
            queue_id=queue_id,
            queue_offset=len(queue),
            physical_offset=self._end,
            store_timestamp=BORN + self._end,
            body=body,
            properties_raw=encode_properties(properties).encode(),
        )
        record = replace(record, **change)  # type: ignore[arg-type]
        record = replace(record, size=len(encode_record(record)))
        self._end += record.size
        queue.append(record)
        self.log[record.physical_offset] = record
        return record

    def answers(self) -> dict[int, Callable[[Command], Command]]:
        """By request code."""
        return {11: self._pull, 29: self._at_time, 30: self._max, 31: self._min}

    def usual(self, command: Command) -> Command:
        answer = self.answers().get(command.code)
        return answer(command) if answer else command.reply(3)

    def _queue(self, c: Command) -> list[Record]:
        return self.records.get(self.key_of(c), [])

    def _max(self, c: Command) -> Command:
        return c.reply(0, {"offset": str(len(self._queue(c)))})

    def _min(self, c: Command) -> Command:
        return c.reply(0, {"offset": str(self.first[self.key_of(c)])})

    def _at_time(self, c: Command) -> Command:
        queue, time = self._queue(c), int(c.ext["timestamp"])
        after = [r.queue_offset for r in queue if r.store_timestamp >= time]
        return c.reply(0, {"offset": str(after[0] if after else len(queue))})

    def bounds(self, c: Command) -> dict[str, str]:
        """What each answer to a pull says of its queue."""
        first, end = self.first[self.key_of(c)], len(self._queue(c))
        return {"minOffset": str(first), "maxOffset": str(end), "suggestWhichBrokerId": "0"}

    def _pull(self, c: Command) -> Command:
        queue, ext = self._queue(c), self.bounds(c)
        first, end = self.first[self.key_of(c)], len(queue)
        at = int(c.ext["queueOffset"])
        if at < first or at > end:
            return c.reply(21, ext | {"nextBeginOffset": str(first if at < first else end)})
        if at == end:
            return c.reply(19, ext | {"nextBeginOffset": str(end)})
        found = queue[at : at + min(self.batch, int(c.ext["maxMsgNums"]))]
        body = b"".join(encode_record(r) for r in found)
        return c.reply(0, ext | {"nextBeginOffset": str(at + len(found))}, body)
