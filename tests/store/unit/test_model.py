"""The store against a model of it: any order of puts, reads, clean stops and kills."""

from __future__ import annotations

import shutil
import tempfile
from array import array
from collections import defaultdict
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.store.tools import (
    FOUND,
    NO_MATCH,
    NO_MESSAGE,
    OVERFLOW_BADLY,
    OVERFLOW_ONE,
    TOO_SMALL,
    Queue,
    data,
    image,
    open_store,
    read_all,
)
from tests.support import scratch
from tests.support.records import decode_records, encode_properties, java_hash
from tests.support.thorough import examples

QUEUES: list[Queue] = [("A", 0), ("A", 1), ("B", 0), ("%RETRY%" + "g" * 140, 3)]
TAGS = ["", "red", "grün", "AaAa", "BBBB"]
"""The hashes of the last two are equal in Java."""
PER_FILE = 10

queues = st.sampled_from(QUEUES)
bodies = st.builds(lambda byte, size: bytes([byte]) * size, st.integers(0, 255),
                   st.one_of(st.integers(0, 60), st.integers(900, 3900)))  # fmt: skip


class StoreMachine(RuleBasedStateMachine):
    """`model`: for each queue the (body, tag) of every message."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="store-model-", dir=scratch.place()))
        self.generation = 0
        self.options = {"commit_log_file_size": 4096 + 512}
        self.model: dict[Queue, list[tuple[bytes, str]]] = defaultdict(list)
        self.store = open_store(self.root, **self.options)

    @property
    def root(self) -> Path:
        return self.folder / str(self.generation)

    @rule(queue=queues, body=bodies, tag=st.sampled_from(TAGS), count=st.integers(1, 4))
    def put(self, queue: Queue, body: bytes, tag: str, count: int) -> None:
        properties = encode_properties({"TAGS": tag} if tag else {})
        for _ in range(count):
            *_, offset, _ = self.store.put(*queue, body, properties)
            assert offset == len(self.model[queue])
            self.model[queue].append((body, tag))

    @rule(
        queue=queues,
        offset=st.integers(-1, 60),
        count=st.integers(1, 32),
        tag=st.sampled_from([None, *TAGS[1:]]),
    )
    def get(self, queue: Queue, offset: int, count: int, tag: str | None) -> None:
        kept = self.model[queue]
        tags = array("i", [java_hash(tag)]) if tag else None
        result = self.store.get(*queue, offset, count, tags=tags)
        found = [(r.queue_offset, r.body) for r in decode_records(data(result))]
        place = result.status, result.next_offset
        if not kept:
            assert place == (NO_MESSAGE, 0)
        elif offset < 0:
            assert place == (TOO_SMALL, 0)
        elif offset == len(kept):
            assert place == (OVERFLOW_ONE, offset)
        elif offset > len(kept):
            assert place == (OVERFLOW_BADLY, len(kept))
        else:
            expected: list[tuple[int, bytes]] = []
            end = min(len(kept), (offset // PER_FILE + 1) * PER_FILE)
            while offset < end and len(expected) < count:
                body, own = kept[offset]
                if tag is None or (own and java_hash(own) == java_hash(tag)):
                    expected.append((offset, body))
                offset += 1
            assert found == expected
            assert place == (FOUND if expected else NO_MATCH, offset)

    @rule()
    def stop_and_start(self) -> None:
        self.store.close()
        self.store = open_store(self.root, **self.options)

    @rule()
    def kill_and_start(self) -> None:
        image(self.root, self.folder / str(self.generation + 1))
        self.store.close()
        shutil.rmtree(self.root)
        self.generation += 1
        self.store = open_store(self.root, **self.options)

    @rule()
    def lose_queues_and_start(self) -> None:
        self.store.close()
        shutil.rmtree(self.root / "consumequeue")
        self.store = open_store(self.root, **self.options)

    @precondition(lambda self: sum(map(len, self.model.values())) > 20)
    @rule()
    def read_everything(self) -> None:
        found = {
            queue: [(r.body, r.properties.get("TAGS", "")) for r in records]
            for queue, records in read_all(self.store).items()
        }
        assert found == {queue: kept for queue, kept in self.model.items() if kept}

    @invariant()
    def ranges(self) -> None:
        if hasattr(self, "model"):
            for queue in QUEUES:
                assert self.store.queue_range(*queue) == (0, len(self.model[queue]))

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.store.close()
            self.store = open_store(self.root, **self.options)
            self.read_everything()
            self.store.close()
            shutil.rmtree(self.folder)


StoreMachine.TestCase.settings = settings(
    max_examples=examples(25),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStore = StoreMachine.TestCase
