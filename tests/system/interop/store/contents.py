"""What the store has to contain after the next change of hands: what was sent, and what was read.

Both brokers hand out stored records unchanged, so a record read once has to come back from the
other broker with every field as it was: the bytes on disk are what is compared.
"""

from __future__ import annotations

import base64
import zlib
from collections import defaultdict
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from tests.support.client import Client
from tests.support.ledger import Ledger
from tests.support.records import Record
from tests.support.waiting import eventually
from tests.support.wire import Command

from .tool import Tool

COMPRESSED = 0x1
Queue = tuple[str, int]


def plain_body(record: Record) -> bytes:
    """The body as a consumer gets it; these tests compress with zlib only."""
    return zlib.decompress(record.body) if record.sys_flag & COMPRESSED else record.body


def _await_end(client: Client, queue: Queue, least: int) -> int:
    """The end of a queue. Apache's broker puts records into queues some time after the answer."""
    what = f"{queue} ends where the {least} that were acknowledged do"
    return eventually(lambda: client.max_offset(*queue), what, until=lambda end: end >= least)


def _stream(queue: Queue) -> str:
    return f"{queue[0]}-{queue[1]}"


class Contents:
    """Messages of any number of topics over any number of brokers on one store. In the ledger a
    message is its queue offset in its queue."""

    def __init__(self) -> None:
        self.ledger = Ledger("store")
        self.queues: dict[str, int] = {}
        """Number of queues by topic: all of them are read."""
        self.records: dict[Queue, list[Record]] = defaultdict(list)
        """What was read so far, by queue."""
        self._acknowledged: dict[Queue, dict[int, tuple[bytes, Mapping[str, str]]]]
        self._acknowledged = defaultdict(dict)
        self._uncertain: set[bytes] = set()

    def knows(self, topic: str, queues: int) -> None:
        self.queues[topic] = queues

    def sent(
        self, topic: str, body: bytes, properties: Mapping[str, str], answer: Command, at: int = 0
    ) -> None:
        """A send was answered; `at` counts within a batch."""
        assert answer.code == 0, f"{topic}: {answer.code} {answer.remark}"
        queue = topic, int(answer.ext["queueId"])
        self.stored(queue, int(answer.ext["queueOffset"]) + at, body, properties)

    def stored(self, queue: Queue, offset: int, body: bytes, properties: Mapping[str, str]) -> None:
        """A message has to be at this place."""
        assert offset not in self._acknowledged[queue], f"{queue}: offset {offset} twice"
        self._acknowledged[queue][offset] = body, dict(properties)
        self.ledger.sent(_stream(queue), offset)
        self.ledger.acknowledged(_stream(queue), offset)

    def unanswered(self, body: bytes) -> None:
        """A send that may or may not have been stored."""
        self._uncertain.add(body)

    def count(self, topic: str) -> int:
        """Messages of a topic, as last read."""
        return sum(len(self.records[topic, q]) for q in range(self.queues[topic]))

    def check(self, client: Client) -> None:
        """Reads everything: what was read before is the same, what was acknowledged is there once
        and in its place, and nothing else is."""
        for topic, queues in self.queues.items():
            for queue_id in range(queues):
                self._check_queue(client, (topic, queue_id))
        self.ledger.check()

    def _check_queue(self, client: Client, queue: Queue) -> None:
        expected = self._acknowledged[queue]
        end = _await_end(client, queue, max(expected, default=-1) + 1)
        assert client.min_offset(*queue) == 0, queue
        found = client.pull_all(*queue, 0, end)
        before = self.records[queue]
        for old, new in zip(before, found, strict=False):
            assert new == old, f"{queue}: a record has changed"
        assert len(found) >= len(before), f"{queue}: {len(found)} records, {len(before)} before"
        assert [r.queue_offset for r in found] == list(range(len(found))), queue
        assert {(r.topic, r.queue_id) for r in found} <= {queue}
        places = [r.physical_offset for r in found]
        assert places == sorted(set(places)), f"{queue}: order in the log"
        for record in found:
            self._receive(record, queue)
        self.records[queue] = found

    def _receive(self, record: Record, queue: Queue) -> None:
        stream, number = _stream(queue), record.queue_offset
        if number in self._acknowledged[queue]:
            body, properties = self._acknowledged[queue][number]
            if record.body != body:
                self.ledger.note("damaged", f"body of {stream}-{number}")
            if not properties.items() <= record.properties.items():
                self.ledger.note("without its properties", f"{stream}-{number}: {record}")
        elif record.body in self._uncertain:
            self.ledger.sent(stream, number)
        self.ledger.received(stream, number, record.physical_offset)

    def check_with(self, tool: Tool, namesrv: str, topics: list[str] | None = None) -> None:
        """The Java client reads every message too, in order in every queue."""
        topics = list(self.queues) if topics is None else topics
        seen: dict[Queue, list[tuple[Any, ...]]] = defaultdict(list)
        for line in tool.read(namesrv, topics):
            seen[line["topic"], line["queueId"]].append(
                (
                    line["queueOffset"],
                    line["commitLogOffset"],
                    line["bornTimestamp"],
                    str(ip_address(line["bornHost"])),
                    line["storeTimestamp"],
                    line["reconsumeTimes"],
                    line.get("tags"),
                    line.get("keys"),
                    base64.b64decode(line["body"]),
                )
            )
        expected = {
            queue: [
                (
                    r.queue_offset,
                    r.physical_offset,
                    r.born_timestamp,
                    r.born_host[0],
                    r.store_timestamp,
                    r.reconsume_times,
                    r.properties.get("TAGS"),
                    r.properties.get("KEYS"),
                    plain_body(r),
                )
                for r in records
            ]
            for queue, records in self.records.items()
            if records and queue[0] in topics
        }
        assert seen.keys() == expected.keys()
        for queue, lines in expected.items():
            for line, other in zip(lines, seen[queue], strict=False):
                assert other == line, queue
            assert len(seen[queue]) == len(lines), queue
