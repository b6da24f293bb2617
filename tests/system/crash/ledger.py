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
from tests.support.records import Record, decode_records
from tests.support.waiting import eventually
from tests.system.crash.load import Key, Outcome, Place, body_of, key_of

QueueName = tuple[str, int]

QUERY_MESSAGE = 12
QUERY_NOT_FOUND = 22
INDEX_SECONDS = 30
"""Until the index has read what recovery left to it; only a fault reaches it."""


class Ledger:
    """Grows by one round at a time: ``verify_round`` after each restart, ``verify_all`` at last."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, list[Key]] = defaultdict(list)
        self.acked: dict[Key, Place] = {}
        self.unique: dict[Key, str] = {}
        self.counts: Counter[str] = Counter()

    def verify_round(self, client: Client, number: int, outcomes: Iterable[Outcome]) -> None:
        """Read what the last round added, from the last verified offset of every queue on."""
        sent: dict[Key, QueueName] = {}
        acked: dict[Key, Place] = {}
        for outcome in outcomes:
            assert not outcome.problems, f"round {number}: {outcome.problems[:5]}"
            sent |= outcome.sent
            acked |= outcome.acked
            self.unique |= outcome.unique
            self.counts["batches"] += outcome.batches
        found: dict[Key, Place] = {}
        for name in sorted({*sent.values(), *self.queues}):
            self._read_new(client, number, name, sent, found)
        missing = [(key, place) for key, place in acked.items() if key not in found]
        assert not missing, (
            f"round {number}: {len(missing)} of {len(acked)} acknowledged messages are lost, "
            f"first {missing[:5]}"
        )
        moved = [(key, place, found[key]) for key, place in acked.items() if found[key] != place]
        assert not moved, f"round {number}: {len(moved)} are not where promised: {moved[:5]}"
        self.acked |= acked
        self.counts["rounds"] += 1
        self.counts["sent"] += len(sent)
        self.counts["acknowledged"] += len(acked)
        self.counts["kept unacknowledged"] += len(found) - len(acked)

    def verify_all(self, client: Client) -> None:
        """Every queue from 0: the same messages as when they were verified, no more, no less."""
        for (topic, queue_id), keys in self.queues.items():
            name = f"{topic}-{queue_id}"
            assert client.min_offset(topic, queue_id) == 0, name
            assert client.max_offset(topic, queue_id) == len(keys), name
            for offset, record in enumerate(client.pull_all(topic, queue_id, 0, len(keys))):
                key = self._check(record, topic, queue_id, offset)
                assert key == keys[offset], f"{name} at {offset}: {key} instead of {keys[offset]}"
                if place := self.acked.get(key):
                    assert place == _place(record), f"{key}: {place} became {_place(record)}"
                self.counts["read again"] += 1

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
        named = (
            "rounds", "sent", "batches", "acknowledged", "kept unacknowledged", "queried",
            "read again",
        )  # fmt: skip
        return ", ".join(f"{self.counts[name]} {name}" for name in named)

    def _read_new(
        self,
        client: Client,
        number: int,
        name: QueueName,
        sent: dict[Key, QueueName],
        found: dict[Key, Place],
    ) -> None:
        topic, queue_id = name
        keys = self.queues[name]
        start = len(keys)
        end = client.max_offset(topic, queue_id)
        assert end >= start, f"round {number}: {name} shrank from {start} to {end}"
        last: dict[int, Key] = {}
        for offset, record in enumerate(client.pull_all(topic, queue_id, start, end), start):
            key = self._check(record, topic, queue_id, offset)
            where = f"round {number}: {name} at {offset}: {key}"
            assert sent.get(key) == name, f"{where} was not sent there in this round"
            assert key not in found, f"{where} is also at {found[key]}"
            assert last.get(key.sender, key) <= key, f"{where} comes after {last[key.sender]}"
            last[key.sender] = key
            found[key] = _place(record)
            keys.append(key)
        assert len(keys) == end, f"round {number}: {name} gave {len(keys)} of {end}"

    @staticmethod
    def _check(record: Record, topic: str, queue_id: int, offset: int) -> Key:
        """Lengths and CRC are checked by the decoder; here: identity, offset and content."""
        where = (record.topic, record.queue_id, record.queue_offset)
        assert where == (topic, queue_id, offset), f"{where} instead of {topic, queue_id, offset}"
        key = key_of(record.body)
        assert record.body == body_of(key), f"{where}: body of {key} is damaged"
        return key


def _place(record: Record) -> Place:
    return Place(record.topic, record.queue_id, record.queue_offset, record.physical_offset)
