"""Every plan reads the rows that were pulled, or the same selection of them."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyrmq.errors import SegmentError

from .material import Material, image
from .planned import MODES, read, splits
from .rows import ALL, DEFAULT, Row, assert_same, narrowed


@pytest.mark.parametrize("mode", MODES)
def test_everything(material: Material, mode: str):
    assert_same(read([material.root], mode=mode), material.rows, mode)


@pytest.mark.parametrize("split_bytes", [1024, 1500, 5000, 33_000])
def test_hundreds_of_cuts(material: Material, split_bytes: int):
    parts = splits([material.root], mode="scan", split_bytes=split_bytes)
    assert len(parts) >= 300_000 // split_bytes // 2, "not every place has a record's start near"
    found = read([material.root], mode="scan", split_bytes=split_bytes)
    assert_same(found, material.rows, f"splits of {split_bytes}")


@pytest.mark.parametrize("mode", MODES)
def test_users_see_their_topics(material: Material, mode: str):
    found = read([material.root], mode=mode, include_system_topics=False)
    assert_same(found, material.user_rows, mode)


@pytest.mark.parametrize("place", ["log folder", "files", "one file"])
def test_the_log_alone(material: Material, place: str):
    paths = {
        "log folder": [material.log],
        "files": material.files,
        "one file": material.files[2:3],
    }[place]
    low, high = 0, 1 << 62
    if place == "one file":
        low = int(material.files[2].name)
        high = low + material.files[2].stat().st_size
    expected = [row for row in material.rows if low <= row["commitLogOffset"] < high]
    found = read(paths, names=[material.broker])
    assert_same(found, expected, place)


@pytest.mark.parametrize("mode", MODES)
def test_each_topic(material: Material, mode: str):
    for topic in material.topics:
        found = read([material.root], mode=mode, topics=(topic,), include_system_topics=False)
        expected = [row for row in material.rows if row["topic"] == topic]
        assert_same(found, expected, f"{topic}, {mode}")


@pytest.mark.parametrize("mode", MODES)
def test_each_queue(material: Material, mode: str):
    for (topic, queue), (first, end) in material.queues.items():
        assign = {topic: {material.broker: (queue,)}}
        found = read([material.root], mode=mode, assign=assign)
        expected = [r for r in material.rows if (r["topic"], r["queueId"]) == (topic, queue)]
        assert_same(found, expected, f"{topic}-{queue}, {mode}")
        offsets = sorted(row["queueOffset"] for row in found)
        assert offsets == list(range(first, end))


@pytest.mark.parametrize("mode", MODES)
def test_patterns(material: Material, mode: str):
    for pattern in ("L.*", ".*e.*", "%RETRY%.*", "(Orders|Packed)", "RMQ_SYS.*"):
        found = read([material.root], mode=mode, pattern=pattern)
        expected = [r for r in material.rows if re.fullmatch(pattern, r["topic"])]
        assert expected
        assert_same(found, expected, f"{pattern}, {mode}")


@pytest.mark.parametrize("mode", MODES)
def test_tags(material: Material, mode: str):
    for tags in (("TagA",), ("标签", "TagB"), ("名",), ("none such",), ("kind201", "T1")):
        found = read([material.root], mode=mode, tags=tags)
        assert_same(found, [r for r in material.rows if r["tags"] in tags], f"{tags}, {mode}")


@pytest.mark.parametrize("mode", MODES)
def test_keys(material: Material, mode: str):
    for key in ("shared", "key-7", "key-1003", "in-3", "größe", "key", "absent", f"{3:032X}"):
        expected = [r for r in material.rows if _has(r, key)]
        assert_same(read([material.root], mode=mode, key=key), expected, f"{key}, {mode}")
        for topic in material.topics:
            found = read([material.root], mode=mode, topics=(topic,), key=key)
            assert_same(
                found, [r for r in expected if r["topic"] == topic], f"{key} of {topic}, {mode}"
            )


def _has(row: Row, key: str) -> bool:
    return key in (row["keys"] or "").split() or row["transactionId"] == key


@pytest.mark.parametrize("mode", MODES)
def test_times(material: Material, mode: str):
    times = sorted({row["storeTimestamp"] for row in material.rows})
    chance = random.Random(3)
    for _ in range(12):
        start, end = sorted(chance.choices(times, k=2))
        found = read([material.root], mode=mode, start_time=start, end_time=end)
        expected = [r for r in material.rows if start <= r["storeTimestamp"] < end]
        assert_same(found, expected, f"{start} to {end}, {mode}")


@pytest.mark.parametrize("mode", MODES)
def test_offsets(material: Material, mode: str):
    chance = random.Random(5)
    for turn in range(12):
        low = _random_offsets(material, chance)
        high = {
            queue: max(offset, low.get(queue, 0))
            for queue, offset in _random_offsets(material, chance).items()
        }
        found = read(
            [material.root],
            mode=mode,
            starting_offsets=_nested(material, low) if low else "earliest",
            ending_offsets=_nested(material, high) if high else "latest",
        )
        expected = [
            r
            for r in material.rows
            if low.get(_queue(r), 0) <= r["queueOffset"] < high.get(_queue(r), 1 << 62)
        ]
        assert_same(found, expected, f"turn {turn}, {mode}")


def _queue(row: Row) -> tuple[str, int]:
    return row["topic"], row["queueId"]


def _random_offsets(material: Material, chance: random.Random) -> dict[tuple[str, int], int]:
    return {
        queue: chance.randint(*bounds)
        for queue, bounds in material.queues.items()
        if chance.random() < 0.5
    }


def _nested(material: Material, offsets: dict[tuple[str, int], int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (topic, queue), offset in offsets.items():
        found.setdefault(topic, {}).setdefault(material.broker, {})[queue] = offset
    return found


def test_everything_at_once(material: Material):
    """Selections of all kinds together, the same in every plan. Times win over offsets."""
    chance = random.Random(8)
    times = sorted({row["storeTimestamp"] for row in material.rows})
    for turn in range(30):
        topics = tuple(chance.sample(material.topics, chance.randint(1, 3)))
        end = chance.choice(times)
        tags = chance.choice([None, ("TagA", "标签"), ("T0",)])
        low = _random_offsets(material, chance) if turn % 2 else {}
        low = {queue: offset for queue, offset in low.items() if queue[0] in topics}
        start = 0 if low else chance.choice([time for time in times if time <= end])
        some = chance.sample(ALL, chance.randint(1, 8))
        columns = tuple(dict.fromkeys([*some, "commitLogOffset", "queueOffset", "brokerName"]))
        expected = [
            r
            for r in material.rows
            if r["topic"] in topics
            and start <= r["storeTimestamp"] < end
            and (tags is None or r["tags"] in tags)
            and r["queueOffset"] >= low.get(_queue(r), 0)
        ]
        options: dict[str, Any] = {"topics": topics, "end_time": end, "tags": tags}
        if low:
            options["starting_offsets"] = _nested(material, low)
        else:
            options["start_time"] = start
        for mode in MODES:
            found = read(
                [material.root],
                mode=mode,
                how={"columns": columns},
                split_bytes=chance.choice([1100, 1 << 28]),
                **options,
            )
            assert_same(found, narrowed(expected, columns), f"turn {turn}, {mode}")


@pytest.mark.parametrize("mode", MODES)
def test_default_columns(material: Material, mode: str):
    found = read([material.root], mode=mode, how={"columns": DEFAULT})
    assert_same(found, narrowed(material.rows, DEFAULT), mode)


@pytest.mark.parametrize("mode", MODES)
def test_two_brokers(ours: Material, apache: Material, mode: str):
    found = read([ours.root, apache.root], mode=mode, split_bytes=50_000)
    assert_same(found, [*apache.rows, *ours.rows], mode)
    found = read([apache.root, ours.root], names=["x", "a"], mode=mode)
    expected = [r | {"brokerName": "a"} for r in ours.rows]
    expected += [r | {"brokerName": "x"} for r in apache.rows]
    assert_same(found, expected, f"{mode}, named")


@pytest.fixture(params=[1, 3])
def headless(material: Material, tmp_path: Path, request: pytest.FixtureRequest) -> Material:
    """A copy whose first segments retention has deleted; the queues still name what was there."""
    root = image(material.root, tmp_path / "store")
    for path in sorted((root / "commitlog").iterdir())[: request.param]:
        path.unlink()
    first = int(min(p.name for p in (root / "commitlog").iterdir()))
    rows = [row for row in material.rows if row["commitLogOffset"] >= first]
    assert 0 < len(rows) < len(material.rows)
    return Material(root, material.broker, rows, material.queues)


@pytest.mark.parametrize("mode", MODES)
def test_a_deleted_head(headless: Material, mode: str):
    found = read([headless.root], names=[headless.broker], mode=mode, split_bytes=3000)
    assert_same(found, headless.rows, mode)
    for topic in headless.topics:
        found = read([headless.root], names=[headless.broker], mode=mode, topics=(topic,))
        assert_same(found, [r for r in headless.rows if r["topic"] == topic], f"{topic}, {mode}")


@pytest.mark.parametrize("mode", MODES)
def test_offsets_that_are_deleted(headless: Material, mode: str):
    """An error that says so; with fail_on_data_loss=False reading continues behind them."""
    offsets = {"Orders": {headless.broker: {0: 0}}}
    options: dict[str, Any] = {
        "names": [headless.broker], "mode": mode, "topics": ("Orders",),
        "starting_offsets": offsets,
    }  # fmt: skip
    with pytest.raises(SegmentError, match="Orders") as told:
        read([headless.root], **options)
    assert "fail_on_data_loss=False" in str(told.value)
    found = read([headless.root], **options, fail_on_data_loss=False)
    assert_same(found, [r for r in headless.rows if r["topic"] == "Orders"], mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_hole_in_the_log(material: Material, tmp_path: Path, mode: str):
    root = image(material.root, tmp_path / "store")
    gone = sorted((root / "commitlog").iterdir())[2]
    low, high = int(gone.name), int(gone.name) + gone.stat().st_size
    gone.unlink()
    with pytest.raises(SegmentError):
        read([root], names=[material.broker], mode=mode)
    kept = [r for r in material.rows if not low <= r["commitLogOffset"] < high]
    if mode == "index":
        with pytest.raises(SegmentError, match="holes"):
            read([root], names=[material.broker], mode=mode, fail_on_data_loss=False)
        return
    found = read([root], names=[material.broker], mode=mode, fail_on_data_loss=False)
    assert_same(found, kept, mode)


@pytest.mark.parametrize("missing", ["consumequeue", "index", "both"])
def test_auto_without_the_files_that_help(material: Material, tmp_path: Path, missing: str):
    """Queues and index are only short cuts: a log without them reads the same."""
    root = image(material.root, tmp_path / "store")
    for folder in ("consumequeue", "batchconsumequeue", "index"):
        if missing in (folder, "both") or (missing == "consumequeue" and folder != "index"):
            shutil.rmtree(root / folder, ignore_errors=True)
    names = [material.broker]
    assert_same(read([root], names=names), material.rows, missing)
    found = read([root], names=names, topics=("Orders",), key="key-7")
    expected = [r for r in material.rows if r["topic"] == "Orders" and _has(r, "key-7")]
    assert_same(found, expected, missing)


def test_queues_cut_short(material: Material, tmp_path: Path):
    """What a crash leaves: the log is ahead of its queues. No plan may lose rows by that."""
    root = image(material.root, tmp_path / "store")
    for folder in sorted((root / "consumequeue" / "Load").iterdir()):
        for path in sorted(folder.iterdir())[1:]:
            path.unlink()
        first = min(folder.iterdir())
        data = first.read_bytes()
        first.write_bytes(data[:60] + bytes(len(data) - 60))
    expected = [r for r in material.rows if r["topic"] == "Load"]
    found = read([root], names=[material.broker], topics=("Load",))
    assert_same(found, expected, "auto, queues behind the log")


def test_auto_goes_by_the_queues_of_a_store_that_was_stopped(ours: Material):
    """One queue of many, and a key: a small part of the log is read, and nothing is lost."""
    assert ours.stopped is not None
    options: dict[str, Any] = {"names": ["ours"], "assign": {"Orders": {"ours": (1,)}}}
    parts = splits([ours.stopped], **options)
    assert all(part.by_entries for part in parts)
    expected = [r for r in ours.rows if r["topic"] == "Orders" and r["queueId"] == 1]
    assert_same(read([ours.stopped], **options), expected, "one queue")
    for key in ("key-7", "shared", f"{7:032X}"):
        options = {"names": ["ours"], "topics": ("Orders",), "key": key}
        parts = splits([ours.stopped], **options)
        assert any(part.by_entries for part in parts), key
        expected = [r for r in ours.rows if r["topic"] == "Orders" and _has(r, key)]
        assert_same(read([ours.stopped], **options), expected, key)
    for topic in ours.topics:
        found = read([ours.stopped], names=["ours"], topics=(topic,), key="in-3")
        expected = [r for r in ours.rows if r["topic"] == topic and _has(r, "in-3")]
        assert_same(found, expected, f"key of an inner batch, {topic}")
