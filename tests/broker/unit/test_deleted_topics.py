"""Deleted topics: their messages stay hidden, also behind a crash; those of new topics do not."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.tables import config_file, deleted_topics
from pyrmq.broker.tables.deleted_topics import DeletedTopics
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.errors import InvalidParameterError
from pyrmq.model.topic import TopicConfig
from tests.support.build import Deleting, open_store
from tests.support.thorough import examples

BATCHES = "+queue.type=BatchCQ"


class Life:
    """A broker's topics and its store, from start to start."""

    def __init__(self, folder: Path, config: BrokerConfig) -> None:
        self.folder = folder
        self.config = config
        self.raw = open_store(folder / "store")
        self._open()

    def _open(self) -> None:
        self.store: Any = Deleting(self.raw)
        opened = open_topics(self.folder / "topics.json", LiveConfig(self.config), self.store)
        self.topics, self.creation, self.removal = opened.table, opened.creation, opened.removal

    def restart(self) -> None:
        """What was not saved is lost."""
        self.raw.close()
        self.raw = open_store(self.folder / "store")
        self._open()

    async def make(self, topic: str, queues: int = 1, attributes: str = "") -> None:
        self.creation.update(TopicConfig(topic, queues, queues), attributes)
        await self.topics.saved(topic)

    def put(self, topic: str, *queues: int) -> None:
        for queue in queues:
            self.raw.put(topic, queue, b"x")

    async def delete(self, topic: str, *, until: str = "") -> None:
        """Ends before what `until` names, as a kill may."""
        self.removal.begin(topic)
        await self.topics.save_if_changed()
        if until == "engine":
            return
        ends = self.store.delete_topic(topic)
        self.topics.deleted.finish({topic: ends})
        self.removal.end(topic)
        if until != "save":
            await self.topics.save_if_changed()

    def seen(self, topic: str) -> list[tuple[int, int, int]]:
        """Queues with messages that can be read."""
        return [
            (q, low, high) for t, q, low, high in self.store.queues() if t == topic and low < high
        ]


@pytest.fixture
def life(tmp_path: Path, config: BrokerConfig) -> Any:
    life = Life(tmp_path, config)
    with closing(life.raw):
        yield life
        life.raw.close()


@pytest.mark.parametrize("until", ["", "save", "engine"])
async def test_a_deleted_topic_stays_deleted(life: Life, until: str) -> None:
    """A start reads the end of the log again, and has its messages in their queues."""
    await life.make("T", 2)
    life.put("T", 0, 0, 1)
    await life.delete("T", until=until)
    life.restart()
    assert life.topics.get("T") is None
    assert life.seen("T") == []
    assert life.topics.deleted.first_offset("T", 0) == 2
    await life.topics.save_if_changed()
    life.restart()
    assert life.seen("T") == []
    assert life.store.deleted == [], "that was done"


async def test_a_deletion_that_did_not_begin(life: Life) -> None:
    """deletedTopics.json was written and topics.json was not: nobody was told that it is gone."""
    await life.make("T")
    life.put("T", 0)
    life.removal.begin("T")
    await life.topics.deleted.save_if_changed()
    life.restart()
    assert life.topics.get("T") is not None
    assert life.seen("T") == [(0, 0, 1)]
    await life.topics.save_if_changed()
    assert config_file.load(life.topics.deleted.path) == {"deletedTopics": {}}


async def test_a_topic_that_is_made_again(life: Life) -> None:
    await life.make("T", 2)
    life.put("T", 0, 0, 1)
    await life.delete("T")
    await life.make("T", 3)
    life.put("T", 0, 2)
    for _ in range(2):
        life.restart()
        assert life.seen("T") == [(0, 2, 3), (2, 0, 1)]
        assert [life.topics.deleted.first_offset("T", queue) for queue in range(3)] == [2, 1, 0]
    await life.delete("T")
    await life.make("T", 3)
    life.put("T", 1)
    life.restart()
    assert life.seen("T") == [(1, 1, 2)]
    assert [life.topics.deleted.first_offset("T", queue) for queue in range(3)] == [3, 1, 1]


async def test_messages_that_come_behind_a_deletion(life: Life) -> None:
    """They were delayed, or in a transaction. Nobody can read them."""
    await life.make("T")
    life.put("T", 0)
    await life.delete("T")
    life.raw.set_topic("T", read_queues=1, write_queues=1)
    life.put("T", 0)
    life.restart()
    assert (life.topics.get("T"), life.seen("T")) == (None, [])
    assert life.store.deleted == ["T"]


async def test_a_log_that_has_lost_its_end(life: Life) -> None:
    """New messages are in the place of hidden ones then, and are not hidden for that."""
    await life.make("T")
    life.put("T", 0, 0)
    await life.delete("T")
    await life.make("T")
    file = life.topics.deleted.path
    saved = config_file.load(file)
    saved["deletedTopics"]["T"]["queues"] = {"0": 5}  # as if there had been five messages
    config_file.save(file, saved)
    life.restart()
    assert life.topics.deleted.first_offset("T", 0) == 2
    life.put("T", 0, 0, 0)
    life.restart()
    assert life.seen("T") == [(0, 2, 5)]


async def test_topics_without_messages_are_not_kept(life: Life) -> None:
    await life.make("T")
    await life.delete("T")
    assert life.topics.deleted.topics == {}
    assert config_file.load(life.topics.deleted.path) == {"deletedTopics": {}}


async def test_topics_whose_messages_are_gone_are_not_kept(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("T", "U"):
        await life.make(topic)
        life.put(topic, 0)
    await life.delete("T")
    end = life.raw.stats()["maxPhyOffset"]
    life.put("U", 0)
    monkeypatch.setattr(
        life.store, "stats", lambda: {"minPhyOffset": end, "maxPhyOffset": end + 100}, raising=False
    )
    await life.delete("U")
    assert list(life.topics.deleted.topics) == ["U"]


async def test_so_many_are_kept(
    life: Life, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deleted_topics, "MAX_DELETED", 2)
    for n in range(3):
        await life.make(f"t{n}")
        life.put(f"t{n}", 0)
        await life.delete(f"t{n}")
    assert list(life.topics.deleted.topics) == ["t1", "t2"]
    assert "t0 may come back" in caplog.text


async def test_queues_stay_of_their_kind(life: Life) -> None:
    await life.make("T", 1, BATCHES)
    await life.make("U")
    life.put("U", 0)
    life.raw.set_topic("T", read_queues=1, write_queues=1)
    await life.delete("U")
    with pytest.raises(InvalidParameterError, match="SimpleCQ until"):
        await life.make("U", 1, BATCHES)
    await life.make("U")
    life.removal.begin("T")
    life.topics.deleted.finish({"T": [(0, 3)]})
    life.removal.end("T")
    with pytest.raises(InvalidParameterError, match="BatchCQ until"):
        await life.make("T")
    made = life.creation.create_in_send("T", "TBW102", 1, False)
    assert made is not None
    assert made.is_batch, "as its queues are"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"deletedTopics": []},
        {"deletedTopics": {"T": 7, "U": {"queues": {"x": 1, "-1": 2, "0": "y", "1": -5}}}},
        {"deletedTopics": {"T": {"queues": [], "logEnd": "x", "batch": 1, "unfinished": 0}}},
    ],
)
def test_a_file_with_nonsense(life: Life, content: dict[str, Any]) -> None:
    config_file.save(life.folder / "deletedTopics.json", content)
    table = DeletedTopics(life.folder / "deletedTopics.json", life.store)
    assert [table.first_offset(topic, 0) for topic in ("T", "U")] == [0, 0]


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["make", "put", "put", "delete", "restart", "kill before", "kill behind"]),
        st.sampled_from(["T", "U"]),
        st.integers(0, 1),
    ),
    max_size=14,
)


@settings(max_examples=examples(40), deadline=None)
@given(_STEPS)
def test_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    """Each queue shows what was stored since its topic was made, and nothing else."""

    async def run() -> None:
        folder = tmp_path_factory.mktemp("life")
        config = BrokerConfig(broker_name="b", namesrv_addr="", store_path_root_dir=folder)
        life = Life(folder, replace(config, auto_create_topic_enable=False))
        stored: dict[tuple[str, int], int] = {}
        first: dict[tuple[str, int], int] = {}
        there: set[str] = set()
        for what, topic, queue in steps:
            if what == "restart":
                life.restart()
            elif what == "make":
                await life.make(topic, 2)
                there.add(topic)
            elif topic not in there:
                continue
            elif what == "put":
                life.put(topic, queue)
                stored[topic, queue] = stored.get((topic, queue), 0) + 1
            else:
                until = {"kill before": "engine", "kill behind": "save"}.get(what, "")
                await life.delete(topic, until=until)
                if until:
                    life.restart()
                there.discard(topic)
                first.update({key: n for key, n in stored.items() if key[0] == topic})
            for name in ("T", "U"):
                assert (life.topics.get(name) is not None) == (name in there)
                assert life.seen(name) == [
                    (q, first.get((name, q), 0), stored[name, q])
                    for q in (0, 1)
                    if first.get((name, q), 0) < stored.get((name, q), 0)
                ]
        life.raw.close()

    trio.run(run)
