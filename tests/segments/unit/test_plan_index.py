"""Batch reads by queues and index files: the rows are those of a scan."""

from __future__ import annotations

import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyrmq.errors import (
    DataLossError,
    OffsetOutOfRangeError,
    SegmentError,
)
from pyrmq.model.subscription import java_hash
from tests.segments.making import BROKER, SCHEDULE, Made, put, read, small
from tests.segments.planning import copied, planned
from tests.store.tools import image, queue_files


@pytest.mark.parametrize("split_bytes", [3_000, 1 << 28])
@pytest.mark.parametrize(
    "options",
    [
        {"topics": ("A",)},
        {"topics": ("B", "C")},
        {"topics": (SCHEDULE,)},
        {"topics": (SCHEDULE,), "tags": ("red",)},
        {"topics": ("A", "B"), "tags": ("red", "blue")},
        {"pattern": "[BC]"},
        {"topics": ("A",), "queues": (2,)},
        {"assign": {"A": {BROKER: (0, 3)}, "C": {BROKER: (0,)}}},
        {"topics": ("A",), "starting_offsets": {"A": {BROKER: {0: 50, 1: 60, 2: 70, 3: 80}}}},
        {
            "topics": ("A",),
            "starting_offsets": {"A": {BROKER: {0: 50}}},
            "ending_offsets": {"A": {BROKER: {0: 60, 1: 5, 2: -1}}},
        },
        {"topics": ("C",), "key": "shared"},
    ],
    ids=str,
)
def test_by_queues_as_by_scan(made: Made, options: dict[str, Any], split_bytes: int) -> None:
    def of_queue(name: str, topic: str, queue: int, default: int) -> int:
        offset: int = options.get(name, {}).get(topic, {}).get(BROKER, {}).get(queue, default)
        return default if offset < 0 else offset

    def wanted(row: tuple[Any, ...]) -> bool:
        topic, queue, offset = row[:3]
        if "assign" in options:
            chosen = queue in options["assign"].get(topic, {BROKER: ()})[BROKER]
        else:
            pattern = options.get("pattern", "|".join(options.get("topics", ())))
            chosen = re.fullmatch(pattern, topic) and queue in options.get("queues", (queue,))
        tags, key = options.get("tags"), options.get("key")
        return bool(
            chosen
            and of_queue("starting_offsets", topic, queue, 0) <= offset
            and offset < of_queue("ending_offsets", topic, queue, 1 << 62)
            and (not tags or row[4] in tags)
            and (not key or key in row[5].split(" "))
        )

    expected = [row for row in made.rows if wanted(row)]
    assert expected
    assert read(planned(made, mode="scan", split_bytes=split_bytes, **options)) == expected
    splits = planned(made, mode="index", split_bytes=split_bytes, **options)
    assert splits[0].by_entries
    assert sorted(read(splits), key=lambda row: row[3]) == expected
    assert read(planned(made, split_bytes=split_bytes, **options)) == expected


def test_auto_takes_the_index_for_little(made: Made) -> None:
    assert planned(made, topics=("C",))[0].by_entries
    assert planned(made, topics=("A",), queues=(1,))[0].by_entries
    assert not planned(made, topics=("A",))[0].by_entries
    assert not planned(made)[0].by_entries


def test_index_splits_are_small_and_cross_processes(made: Made) -> None:
    splits = planned(made, topics=("A",), mode="index")
    assert len(pickle.dumps(splits)) < 20_000
    assert read(pickle.loads(pickle.dumps(splits))) == made.of("A")
    scans = planned(made, mode="scan", split_bytes=20_000)
    assert read(pickle.loads(pickle.dumps(scans))) == made.of("A", "B", "C")


def test_index_splits_hold_about_what_they_should(made: Made) -> None:
    splits = planned(made, topics=("A",), mode="index", split_bytes=40_000)
    sizes = [sum(len(row[6]) for row in read([split])) for split in splits]
    assert len(splits) > 5
    assert max(sizes) < 60_000


def test_what_has_no_entry_yet_is_scanned(made: Made, tmp_path: Path) -> None:
    """A broker enters messages some time after they stand in the log."""
    root = copied(made, tmp_path)
    cut = made.rows[-200][3]
    for path in (root / "consumequeue").rglob("0000*"):
        raw = bytearray(path.read_bytes())
        for at in range(0, len(raw), 20):
            if int.from_bytes(raw[at : at + 8], "big") >= cut:
                raw[at : at + 20] = bytes(20)
        path.write_bytes(raw)
    for mode in ("index", "auto"):
        splits = planned(root, topics=("C",), mode=mode)
        assert splits[0].by_entries
        assert read(splits) == made.of("C")


def test_a_key_by_the_index_files(made: Made) -> None:
    splits = planned(made, topics=("A",), key="a-100-2")
    assert splits[0].by_entries
    reader = splits[0].reader()
    while reader.next_batch() is not None:
        pass
    assert reader.stats()["records"] == 1, "the index named the one"
    assert read(splits) == [row for row in made.of("A") if row[5] == "a-100-2"]
    assert read(planned(made, topics=("A",), key="a-100-2", mode="scan")) == read(splits)
    assert read(planned(made, topics=("A",), key="not there")) == []
    assert read(planned(made, key="a-100-2")) == read(splits)
    assert read(planned(made, key="a-100-2", mode="index")) == read(splits)


def test_after_a_crash_auto_scans(made: Made, tmp_path: Path) -> None:
    root = tmp_path / BROKER
    with small(root) as store:
        for number in range(100):
            put(store, "A", number % 4, b"x" * 100, key="k")
        assert planned(root, topics=("A",), queues=(0,))[0].by_entries
        killed = image(root, tmp_path / "killed" / BROKER)
    assert not planned(killed, topics=("A",), queues=(0,))[0].by_entries
    assert len(read(planned(killed, topics=("A",), queues=(0,)))) == 25


def test_missing_queue_file(made: Made, tmp_path: Path) -> None:
    root = copied(made, tmp_path)
    queue_files(root, "C", 0)[2].unlink()
    assert read(planned(root, topics=("C",))) == made.of("C")
    with pytest.raises(SegmentError, match=r"a file of queue C-0 is missing.*plan='scan'"):
        planned(root, topics=("C",), mode="index")


def test_missing_head_of_a_queue(made: Made, tmp_path: Path) -> None:
    root = copied(made, tmp_path)
    paths = queue_files(root, "C", 0)
    paths[0].unlink()
    kept = int(paths[1].name) // 20
    assert read(planned(root, topics=("C",))) == made.of("C")
    left = [row for row in made.of("C") if row[2] >= kept]
    assert read(planned(root, topics=("C",), mode="index")) == left  # as it was told
    later = {"starting_offsets": {"C": {BROKER: {0: kept + 1}}}}
    splits = planned(root, topics=("C",), **later)
    assert splits[0].by_entries
    assert read(splits) == left[1:]


@pytest.mark.parametrize("how", ["short", "zeros", "gone"])
def test_queue_entries_that_go_before_they_are_read(made: Made, tmp_path: Path, how: str) -> None:
    root = copied(made, tmp_path)
    splits = planned(root, topics=("C",), mode="index")
    path = queue_files(root, "C", 0)[1]
    raw = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(raw[:40] + (bytes(len(raw) - 40) if how == "zeros" else b""))
    with pytest.raises(DataLossError, match=r"(were|was) deleted before (they were|it was) read"):
        read(splits)


def test_index_of_a_log_alone(made: Made) -> None:
    with pytest.raises(SegmentError, match="a commit-log folder was given"):
        planned(made.root / "commitlog", topics=("C",), mode="index")
    assert read(planned(made.root / "commitlog", topics=("C",))) == made.of("C")


def test_topic_without_queues_is_scanned(made: Made, tmp_path: Path) -> None:
    """Only some of the queue folders were shipped with the log."""
    root = image(made.root, tmp_path / BROKER)
    shutil.rmtree(root / "consumequeue" / "C")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"C": {}}}')
    assert read(planned(root, topics=("C",))) == made.of("C")
    assert read(planned(root, pattern="C")) == made.of("C")
    assert read(planned(root, topics=("C",), mode="index")) == []  # as it was told


@pytest.mark.parametrize("tags", [None, ("tag-0",), ("tag-1", "other")])
def test_extension_addresses_instead_of_hashes(formats: Path, tags: tuple[str, ...] | None) -> None:
    """RocketMQ with enableConsumeQueueExt: no entry has a tag's hash."""
    found = {
        mode: read(planned(formats / "broker", topics=("Plain",), tags=tags, mode=mode))
        for mode in ("scan", "index")
    }
    assert found["scan"] == found["index"]
    assert all(tags is None or row[4] in tags for row in found["scan"])
    assert found["scan"] or tags


def test_batch_queues(formats: Path) -> None:
    """Inner batches of RocketMQ's broker: an entry of 46 bytes leads to three messages."""
    root = formats / "broker"
    everything = read(planned(root, topics=("Inner",), mode="scan"))
    assert [row[2] for row in everything] == list(range(12))
    assert read(planned(root, topics=("Inner",), mode="index")) == everything
    for low, high in ((4, 10), (0, 1), (5, 6), (11, 12)):
        bounds = {
            "starting_offsets": {"Inner": {"broker-a": {0: low}}},
            "ending_offsets": {"Inner": {"broker-a": {0: high}}},
        }
        for mode in ("scan", "index"):
            found = read(planned(root, topics=("Inner",), mode=mode, **bounds))
            assert found == everything[low:high]
    # The entry has no hash of the tags of the messages in it.
    assert {row[4] for row in everything} == {"InBatch"}
    assert read(planned(root, topics=("Inner",), tags=("InBatch",), mode="index")) == everything
    # Nor has the index their keys.
    keys = {key for row in everything for key in (row[5] or "").split()}
    for key in keys | {"no such key"}:
        found = [row for row in everything if key in (row[5] or "").split()]
        for mode in ("scan", "index", "auto"):
            assert read(planned(root, topics=("Inner",), key=key, mode=mode)) == found
    with pytest.raises(OffsetOutOfRangeError, match="holds 0 to 12"):
        planned(root, starting_offsets={"Inner": {"broker-a": {0: 13}}})


def test_a_slot_that_is_ahead_of_the_header(made: Made, tmp_path: Path) -> None:
    """A broker indexed another key of the slot after the header was read."""
    root = image(made.root, tmp_path / BROKER)
    path = max((root / "index").iterdir())
    last = [row for row in made.of("A") if row[5]][-1]
    raw = bytearray(path.read_bytes())
    count = int.from_bytes(raw[36:40], "big")
    entry = 40 + 250 * 4 + (count - 1) * 20
    key_hash, phys, previous = (
        int.from_bytes(raw[entry + at : entry + at + size], "big")
        for at, size in ((0, 4), (4, 8), (16, 4))
    )
    assert phys >= last[3]
    # The header as it was before the last entry.
    raw[36:40] = (count - 1).to_bytes(4, "big")
    before = int.from_bytes(raw[entry - 20 + 4 : entry - 20 + 12], "big")
    raw[24:32] = before.to_bytes(8, "big")
    path.write_bytes(raw)
    assert int.from_bytes(raw[40 + key_hash % 250 * 4 :][:4], "big") == count - 1
    chain = []
    while previous:
        at = 40 + 250 * 4 + previous * 20
        if int.from_bytes(raw[at + 4 : at + 12], "big") < before:
            chain.append(int.from_bytes(raw[at : at + 4], "big"))
        previous = int.from_bytes(raw[at + 16 : at + 20], "big")
    assert chain  # older keys of the slot, in this file
    keys = [row[5] for row in made.of("A") if java_hash(f"A#{row[5]}") & 0x7FFFFFFF in chain]
    for key in keys:
        found = planned(root, topics=("A",), key=key, mode="index")
        assert read(found) == [row for row in made.of("A") if row[5] == key]
