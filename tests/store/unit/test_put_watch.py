"""Which topics have stored messages since the last look."""

from __future__ import annotations

from pathlib import Path

from tests.store.tools import opened


def test_topics_that_have_grown(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put("A", 0, b"before")
        watch = store.watch_puts()
        assert watch.grown() == []
        for topic, count in (("A", 2), ("B", 3)):
            for _ in range(count):
                store.put(topic, 0, b"x")
        assert sorted(watch.grown()) == [("A", 2), ("B", 3)]
        assert watch.grown() == watch.grown() == []
        store.put("B", 0, b"x")
        other = store.watch_puts()
        assert watch.grown() == [("B", 1)]
        assert other.grown() == []


def test_a_topic_that_was_deleted_and_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(5):
            store.put("A", 0, b"x")
        watch = store.watch_puts()
        store.delete_topic("A")
        store.put("A", 0, b"x")
        assert [topic for topic, _ in watch.grown()] == ["A"]


def test_where_the_log_ends(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.log_end() == 0
        store.put("A", 0, b"x")
        assert store.log_end() == store.stats()["maxPhyOffset"] > 0
