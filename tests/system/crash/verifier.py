"""What the kill loop knows about the store, and the comparison with what the store gives back.

Rules, for every queue:
- queue offsets are dense from 0 to max - 1, and min stays 0;
- every acknowledged message is at its acknowledged queue offset and physical offset, body intact;
- an unacknowledged one is there at most once, in the queue it was sent to;
- nothing is there that was not sent, and nothing that was verified once changes or goes;
- the messages of one sender are in the order in which it sent them;
- the index leads to every acknowledged message by its unique key (a sample is asked for).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.support.client import Client
from tests.support.ledger import Ledger
from tests.support.records import Record, decode_records
from tests.support.waiting import eventually
from tests.system.crash.load import Key, Outcome, Place, body_of, key_of

QueueName = tuple[str, int]

QUERY_MESSAGE = 12
QUERY_NOT_FOUND = 22
INDEX_SECONDS = 30
"""Until the index has read what recovery left to it; only a fault reaches it."""


class Verifier:
    """Grows by one round at a time: ``verify_round`` after each restart, ``verify_all`` at last."""

    def __init__(self) -> None:
        self.ledger = Ledger("kill loop", in_place=True, ordered=True)
        self.queues: dict[QueueName, list[Key]] = defaultdict(list)
        self.acked: dict[Key, Place] = {}
        self.unique: dict[Key, str] = {}
        self.counts: Counter[str] = Counter()

    def verify_round(self, client: Client, number: int, outcomes: Iterable[Outcome]) -> None:
        """Read what the last round added, from the last verified offset of every queue on."""
        names = set(self.queues)
        for outcome in outcomes:
            assert not outcome.problems, f"round {number}: {outcome.problems[:5]}"
            for key, name in outcome.sent.items():
                self.ledger.sent(_stream(key, name), key.number)
            for key, place in outcome.acked.items():
                name = (place.topic, place.queue_id)
                self.ledger.acknowledged(_stream(key, name), key.number, place.physical)
            names |= set(outcome.sent.values())
            self.acked |= outcome.acked
            self.unique |= outcome.unique
            self.counts["batches"] += outcome.batches
        for name in sorted(names):
            self._read_new(client, number, name)
        self.ledger.check(f"round {number}")
        self.counts["rounds"] += 1

    def verify_all(self, client: Client) -> None:
        """Every queue from 0: the same messages as when they were verified, no more, no less."""
        for (topic, queue_id), keys in self.queues.items():
            name = f"{topic}-{queue_id}"
            assert client.min_offset(topic, queue_id) == 0, name
            assert client.max_offset(topic, queue_id) == len(keys), name
            records = client.pull_all(topic, queue_id, 0, len(keys))
            assert len(records) == len(keys), f"{name} gave {len(records)} of {len(keys)}"
            for offset, record in enumerate(records):
                key = self._receive(record, (topic, queue_id), offset)
                assert key == keys[offset], f"{name} at {offset}: {key} instead of {keys[offset]}"
                self.counts["read again"] += 1
        self.ledger.check("all is read again")

    def verify_index(self, client: Client, chance: random.Random, count: int = 20) -> None:
        """The newest message of the log and a sample of the others, by unique key."""
        newest = max(self.acked, key=lambda key: self.acked[key].physical)
        sample = chance.sample(sorted(self.acked), min(count, len(self.acked)))
        # The newest first: once the index has it, it has read everything before it as well.
        eventually(lambda: self._query(client, newest), f"{newest} is in the index")
        for key in sample:
            found = self._query(client, key)
            place = self.acked[key]
            where = f"{key} with unique key {self.unique[key]} at {place}"
            assert [_place(record) for record in found] == [place], f"{where}: query gave {found}"
            assert found[0].body == body_of(key), f"{where}: body is damaged"
            self.counts["queried"] += 1

    def _query(self, client: Client, key: Key) -> list[Record]:
        answer = client.call(
            QUERY_MESSAGE,
            topic=self.acked[key].topic,
            key=self.unique[key],
            maxNum=32,
            beginTimestamp=0,
            endTimestamp=2**63 - 1,
            _UNIQUE_KEY_QUERY="true",
        )
        assert answer.code in (0, QUERY_NOT_FOUND), f"{key}: {answer.code} {answer.remark}"
        return decode_records(answer.body)

    def summary(self) -> str:
        row = self.ledger.row()
        return (
            f"{self.counts['rounds']} rounds, {row.sent} sent, {self.counts['batches']} batches, "
            f"{row.acknowledged} acknowledged, {row.unanswered} kept unacknowledged, "
            f"{self.counts['queried']} queried, {self.counts['read again']} read again"
        )

    def _read_new(self, client: Client, number: int, name: QueueName) -> None:
        keys = self.queues[name]
        start = len(keys)
        end = client.max_offset(*name)
        assert end >= start, f"round {number}: {name} shrank from {start} to {end}"
        for offset, record in enumerate(client.pull_all(*name, start, end), start):
            key = self._receive(record, name, offset)
            if key.round != number:
                self.ledger.note("of an earlier round", f"{key} in {name} at {offset}")
            keys.append(key)
        assert len(keys) == end, f"round {number}: {name} gave {len(keys)} of {end}"

    def _receive(self, record: Record, name: QueueName, offset: int) -> Key:
        """Lengths and CRC are checked by the decoder; here: identity, place and content."""
        where = (record.topic, record.queue_id, record.queue_offset)
        assert where == (*name, offset), f"{where} instead of {(*name, offset)}"
        key = key_of(record.body)
        if record.body != body_of(key):
            self.ledger.note("damaged", f"{key} at {where}")
        if (promised := self.acked.get(key)) and promised != _place(record):
            self.ledger.note("not where promised", f"{promised}, but {_place(record)}")
        self.ledger.received(_stream(key, name), key.number, record.physical_offset)
        return key


def _stream(key: Key, name: QueueName) -> str:
    """What one sender sent to one queue in one round: it comes in the order of its numbers."""
    return f"{key.round}.{key.sender}.{name[0]}.{name[1]}"


def _place(record: Record) -> Place:
    return Place(record.topic, record.queue_id, record.queue_offset, record.physical_offset)
