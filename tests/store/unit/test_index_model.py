"""The index against a dictionary: any order of puts, look-ups, clean stops, kills and losses."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.store.golden_formats import index_keys
from tests.store.tools import image, open_store
from tests.store.waiting import indexed
from tests.support import scratch
from tests.support.records import decode_record, encode_properties
from tests.support.thorough import examples

TOPICS = ["T", "Aa", "BB"]
KEYS = ["a", "Aa", "BB", "AaBB", "BBAa", "z"]

topics = st.sampled_from(TOPICS)
keys = st.lists(st.sampled_from(KEYS), max_size=3)


class IndexMachine(RuleBasedStateMachine):
    """`model`: physical offsets in order by topic and key."""

    @initialize(
        slots=st.integers(1, 8), entries=st.integers(2, 12), sync=st.booleans(),
        log=st.sampled_from([4096, 65536]),
    )  # fmt: skip
    def open(self, slots: int, entries: int, sync: bool, log: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="index-model-", dir=scratch.place()))
        self.generation = 0
        self.options = {"index_slots": slots, "index_entries": entries, "sync_flush": sync,
                        "commit_log_file_size": log}  # fmt: skip
        self.model: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.store = open_store(self.root, **self.options)

    @property
    def root(self) -> Path:
        return self.folder / str(self.generation)

    @rule(
        topic=topics, keys=keys, unique=st.sampled_from(["", "", "a", "ID"]),
        kind=st.sampled_from([0, 0, 4, 8, 12]), count=st.integers(1, 5), size=st.integers(0, 900),
    )  # fmt: skip
    def put(
        self, topic: str, keys: list[str], unique: str, kind: int, count: int, size: int
    ) -> None:
        named = {"KEYS": " ".join(keys), "UNIQ_KEY": unique}
        text = encode_properties({name: value for name, value in named.items() if value})
        for _ in range(count):
            at = self.store.put(topic, 0, bytes(size), text, sys_flag=kind)[0]
            if kind != 12:
                for key in {*keys, *([unique] if unique else [])}:
                    self.model[topic, key].append(at)

    @rule(topic=topics, key=st.sampled_from([*KEYS, "ID"]), most=st.integers(1, 70))
    def ask(self, topic: str, key: str, most: int) -> None:
        indexed(self.store)
        slices, *_ = self.store.query_message(topic, key, most)
        records = [decode_record(bytes(piece)) for piece in slices]
        assert [r.physical_offset for r in records] == self.model[topic, key][-min(most, 64) :]
        assert all(r.topic == topic and key in index_keys(r) for r in records)

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

    @rule(which=st.integers(0, 20))
    def damage_a_file_and_start(self, which: int) -> None:
        self.store.close()
        if files := sorted((self.root / "index").glob("*")):
            files[which % len(files)].write_bytes(b"damaged")
        self.store = open_store(self.root, **self.options)

    @rule()
    def lose_the_index_and_start(self) -> None:
        self.store.close()
        shutil.rmtree(self.root / "index", ignore_errors=True)
        self.store = open_store(self.root, **self.options)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            for topic, key in self.model:
                self.ask(topic, key, 64)
            self.store.close()
            shutil.rmtree(self.folder)


IndexMachine.TestCase.settings = settings(
    max_examples=examples(25),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestIndex = IndexMachine.TestCase
