"""The logs made by hand are logs: the engine opens them and gives out what was written."""

from __future__ import annotations

from pathlib import Path

from pyrmq.engine import Store
from tests.support.records import decode_records

from .logs import filled
from .writer import Writer, body_of, opened, place_of


def test_the_engine_reads_a_log_made_by_hand(tmp_path: Path):
    log = filled(tmp_path / "store" / "commitlog", 300)
    assert len(log.files()) > 5
    store = Store(tmp_path / "store", commit_log_file_size=4096, consume_queue_file_size=400)
    try:
        for topic, queue, first, end in store.queues():
            expected = [r for r in log.records if (r.topic, r.queue_id) == (topic, queue)]
            got = store.get(topic, queue, first, 1000)
            found = [r for piece in got.slices for r in decode_records(bytes(piece))]
            assert found == expected
            assert (first, end) == (0, len(expected))
        assert store.stats()["maxPhyOffset"] == log.end
    finally:
        store.close()


def test_the_writer_writes_what_it_says(tmp_path: Path):
    with Writer(tmp_path / "store", 2000) as writer:
        writer.wait()
    store = opened(tmp_path / "store")
    try:
        for number in (0, 1, 1999):
            topic, queue, offset = place_of(number)
            (record,) = decode_records(bytes(store.get(topic, queue, offset, 1).slices[0]))
            assert record.body == body_of(number)
        assert sum(end - first for _, _, first, end in store.queues()) == 2000
    finally:
        store.close()
