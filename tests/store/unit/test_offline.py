"""A store folder looked at from outside: sound ones are sound, and each kind of damage is named."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Records, Verifier, inspect_store, store_is_locked
from tests.store.harm import (
    HARMS,
    INDEX_SLOTS,
    LOG,
    QUEUE,
    RECORD,
    Damage,
    body_flipped,
    checkpoint_short,
    entry_offset_flipped,
    flip,
    index_chain_flipped,
    index_file,
)
from tests.store.tools import GOLDEN, image, log_file, opened, overwrite, queue_files, unpack
from tests.store.waiting import settle
from tests.support.records import decode_record, encode_properties

FILE, SIZE = 4096, 303
"""Bytes of a log file and of a record in the stores that are made here."""
Finding = tuple[str, str, str, int | None, str]


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A store that RocketMQ wrote and stopped cleanly."""
    return unpack(GOLDEN, tmp_path) / "store"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A store of ours: 30 records of 303 bytes in two queues and three log files."""
    root = tmp_path / "own"
    fill(root)
    return root


def fill(root: Path, killed: Path | None = None) -> None:
    with opened(root, commit_log_file_size=FILE) as store:
        for n in range(30):
            properties = encode_properties({"TAGS": f"tag{n % 3}", "KEYS": f"key{n:02}"})
            store.put("T", n % 2, bytes([65 + n]) * 190, properties)
        if killed:
            settle(store)  # else header and entries of the index may be of different moments
            image(root, killed)


def check(root: Path, step: int = 1 << 30) -> tuple[dict[str, Any], list[Finding]]:
    verifier = Verifier(root)
    found: list[Finding] = []
    finished = False
    while not finished:
        done, total, finished = verifier.step(step)
        assert done <= total
        found += verifier.findings()
    return verifier.summary(), found


def damage(root: Path) -> list[Finding]:
    summary, found = check(root)
    bad = [one for one in found if one[0] == "damage"]
    assert summary["damage"] == len(bad)
    return bad


def test_a_store_of_rocketmq_is_sound(golden: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in golden.rglob("*")}
    summary, found = check(golden)
    assert found == []
    assert (summary["records"], summary["queueEntries"], summary["queues"]) == (300, 300, 10)
    assert (summary["indexFiles"], summary["indexEntries"]) == (1, 462)
    assert summary["cleanStop"]
    assert summary["keysToIndex"] == summary["toDispatch"] == summary["tailBytes"] == 0
    assert before == {p: p.stat().st_mtime_ns for p in golden.rglob("*")}


def test_small_steps_give_the_same(golden: Path) -> None:
    flip(log_file(golden), 100)
    whole, steps = check(golden), check(golden, step=1)
    assert whole == steps
    assert whole[0]["damage"]


def test_a_store_of_ours_is_sound(own: Path) -> None:
    summary, found = check(own)
    assert [one for one in found if one[0] != "note"] == []
    assert (summary["records"], summary["queueEntries"]) == (30, 30)
    assert summary["maxPhyOffset"] == 2 * FILE + (30 - 2 * 13) * SIZE


def test_an_image_of_a_kill_is_sound(tmp_path: Path) -> None:
    fill(tmp_path / "live", tmp_path / "killed")
    summary, _ = check(tmp_path / "killed")
    assert (summary["damage"], summary["cleanStop"]) == (0, False)


def test_what_was_not_dispatched_before_a_kill_is_no_damage(tmp_path: Path) -> None:
    root = tmp_path / "killed"
    fill(tmp_path / "live", root)
    (root / "checkpoint").unlink(missing_ok=True)
    overwrite(queue_files(root)[-1], 0, bytes(100))
    summary, _ = check(root)
    assert (summary["damage"], summary["toDispatch"]) == (0, 5)


def test_all_queues_gone_is_no_damage_but_one_is(own: Path) -> None:
    aside = own.with_name("aside")
    shutil.move(own / "consumequeue" / "T" / "1", aside)
    ((_, kind, path, _, text),) = damage(own)
    assert (kind, path) == ("queue", "consumequeue/T/1")
    assert "14 records" in text  # the last one is newer than all that is in a queue
    shutil.rmtree(own / "consumequeue")
    summary, _ = check(own)
    assert (summary["damage"], summary["toDispatch"]) == (0, 30)


@pytest.mark.parametrize("harm", HARMS)
def test_damage_is_named_with_its_place(golden: Path, harm: Damage) -> None:
    kind, path, at, word = harm(golden)
    found = damage(golden)
    places = [one[1:4] for one in found]
    assert (kind, path, at) in places, found
    assert any(one[1:4] == (kind, path, at) and word in one[4] for one in found), found


def test_one_fault_is_reported_once(golden: Path) -> None:
    for harm in (entry_offset_flipped, index_chain_flipped, checkpoint_short):
        root = golden.with_name(harm.__name__)
        shutil.copytree(golden, root)
        harm(root)
        assert len(damage(root)) == 1


def test_the_walk_goes_on_behind_damage(golden: Path) -> None:
    body_flipped(golden)
    summary, found = check(golden)
    assert (summary["records"], summary["damagedParts"], summary["damagedBytes"]) == (299, 1, 253)
    assert summary["queueEntriesLost"] == 1
    assert any(one[1] == "queue" and "damaged part" in one[4] for one in found)
    assert not any(one[1] == "index" for one in found)


@pytest.mark.parametrize("cut", [30, 200, 302])
def test_a_torn_tail_after_a_kill_is_a_note(tmp_path: Path, cut: int) -> None:
    root = tmp_path / "killed"
    fill(tmp_path / "live", root)
    end = check(root)[0]["maxPhyOffset"]
    path = log_file(root, 2 * FILE)
    overwrite(path, end % FILE - cut, bytes(cut))
    overwrite(path, end % FILE + 7, b"rest")
    summary, found = check(root)
    assert summary["damage"] == 0
    assert (summary["maxPhyOffset"], summary["tailBytes"]) == (end - SIZE, SIZE + 11)
    assert summary["queueEntriesBehind"] == 1
    assert [one[1:4] for one in found if "cuts them off" in one[4]] == [
        ("record", f"commitlog/{path.name}", end % FILE - SIZE)
    ]


def test_a_deleted_topic_is_no_damage(golden: Path) -> None:
    shutil.rmtree(golden / "consumequeue" / "Golden")
    assert len(damage(golden)) == 4
    path = golden / "config" / "topics.json"
    path.write_text(path.read_text().replace('"Golden":', '"Other":'))
    summary, _ = check(golden)
    assert (summary["damage"], summary["deletedTopics"]) == (0, 148)


def test_without_an_index_keys_are_to_come(golden: Path) -> None:
    index_file(golden).unlink()
    summary, found = check(golden)
    assert (summary["damage"], summary["keysToIndex"], found) == (0, 462, [])


def test_a_bad_config_file_with_a_good_backup_is_a_warning(golden: Path) -> None:
    (golden / "config" / "topics.json").write_text("{")
    summary, found = check(golden)
    assert (summary["damage"], summary["warnings"]) == (0, 1)
    assert found[0][1:3] == ("config", "config/topics.json")


def test_a_group_that_is_ahead_of_its_queue_is_a_warning(golden: Path) -> None:
    path = golden / "config" / "consumerOffset.json"
    text = path.read_text()
    path.write_text(text.replace("\n\t\t\t0:40", "\n\t\t\t0:41").replace("{0:40", "{0:41"))
    assert path.read_text() != text
    summary, found = check(golden)
    assert (summary["damage"], summary["warnings"]) == (0, len(found))
    assert any("which ends at 40" in one[4] for one in found)


def test_inspect(golden: Path) -> None:
    (golden / "surprise").write_text("?")
    (golden / "commitlog" / "readme").write_text("?")
    (golden / "brokers" / "broker-b").mkdir(parents=True)
    (golden / "brokers" / "broker-b" / "checkpoint").write_text("?")
    report = inspect_store(golden)
    assert report["commitLog"] == {
        "minPhyOffset": 0,
        "maxPhyOffset": check(golden)[0]["maxPhyOffset"],
        "fileSize": 65_536,
        "firstStoreTimestamp": decode_record(log_file(golden).read_bytes()).store_timestamp,
        "lastStoreTimestamp": check(golden)[0]["lastStoreTimestamp"],
    }
    assert report["queueFileSize"] == 2000
    assert report["unknown"] == ["commitlog/readme", "surprise"]
    assert report["files"]["commitlog"] == {
        "files": 4,
        "bytes": 4 * 65_536,
        "allocated": 4 * 65_536,
    }
    assert report["files"]["compaction"]["files"] == 1
    assert report["files"]["brokers"]["files"] == 1
    assert {"topic": "Golden", "queueId": 0, "files": 1, "minOffset": 0, "maxOffset": 40} in (
        report["queues"]
    )
    (index,) = report["index"]
    assert (index["entries"], index["slots"], index["maxEntries"]) == (462, INDEX_SLOTS, 1000)
    assert report["checkpoint"]["physicMsgTimestamp"] > 0
    assert (report["cleanStop"], report["open"], report["rocksdb"]) == (True, False, False)


def test_an_open_store_is_seen_as_such(own: Path, golden: Path) -> None:
    assert not store_is_locked(own)
    with opened(own, commit_log_file_size=FILE):
        assert store_is_locked(own)
        assert inspect_store(own)["open"]
    assert not store_is_locked(own)
    (golden / "lock").unlink()
    assert not store_is_locked(golden)
    assert not (golden / "lock").exists()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    for make in (Verifier, inspect_store, Records):
        with pytest.raises(OSError, match="no"):
            make(tmp_path)
        with pytest.raises(OSError, match="No such"):
            make(tmp_path / "nowhere")


def read(root: Path, **wanted: Any) -> list[Any]:
    records = Records(root, **wanted)
    found, finished = [], False
    while not finished:
        some, finished = records.next(7, 10_000)
        found += some
    return found


def places(found: list[Any]) -> list[int]:
    return [one["commitLogOffset"] for one in found]


def test_records_are_found_by_every_way(golden: Path) -> None:
    everything = read(golden)
    assert len(everything) == 300
    expected = json.loads((golden.parent / "expected.json").read_text())["records"]
    assert places(everything) == [r["physicalOffset"] for r in expected]

    def wanted(**fields: Any) -> list[int]:
        return [r["physicalOffset"] for r in expected if fields.items() <= r.items()]

    in_queues = read(golden, topic="Golden")
    assert sorted(places(in_queues)) == wanted(topic="Golden")
    assert [r["queueId"] for r in in_queues] == sorted(r["queueId"] for r in in_queues)
    assert places(read(golden, topic="Golden", scan=True)) == wanted(topic="Golden")
    for scan in (False, True):
        found = read(golden, topic="Golden", queue=2, offset=30, scan=scan)
        assert places(found) == wanted(topic="Golden", queueId=2)[30:]
        with_key = [r for r in everything if "shared" in r["properties"].get("KEYS", "").split()]
        assert read(golden, key="shared", scan=scan) == with_key
        golden_only = [r for r in with_key if r["topic"] == "Golden"]
        assert 0 < len(golden_only) < len(with_key)
        assert read(golden, key="shared", topic="Golden", scan=scan) == golden_only
        one = everything[123]
        assert read(golden, msg_id=one["msgId"], scan=scan) == [one]
        unique = one["properties"]["UNIQ_KEY"]
        same = [r for r in everything if r["properties"].get("UNIQ_KEY") == unique]
        assert read(golden, msg_id=unique, scan=scan) == same
        assert read(golden, msg_id=unique, topic=one["topic"], scan=scan) == [
            r for r in same if r["topic"] == one["topic"]
        ]
    assert read(golden, phys=everything[100]["commitLogOffset"]) == everything[100:]
    ((path, at, text),) = read(golden, phys=RECORD + 1)
    assert (path, at, "no record" in text or "length" in text) == (LOG, RECORD + 1, True)


def test_fields_of_a_record(golden: Path) -> None:
    raw = decode_record(log_file(golden).read_bytes(), RECORD)
    record = read(golden, phys=RECORD)[0]
    assert record == {
        "topic": raw.topic,
        "queueId": raw.queue_id,
        "queueOffset": raw.queue_offset,
        "commitLogOffset": RECORD,
        "storeSize": raw.size,
        "sysFlag": raw.sys_flag,
        "flag": raw.flag,
        "bornTimestamp": raw.born_timestamp,
        "bornHost": f"{raw.born_host[0]}:{raw.born_host[1]}",
        "storeTimestamp": raw.store_timestamp,
        "storeHost": f"{raw.store_host[0]}:{raw.store_host[1]}",
        "reconsumeTimes": raw.reconsume_times,
        "preparedTransactionOffset": raw.prepared_offset,
        "bodyCRC": raw.body_crc,
        "msgId": raw.offset_msg_id,
        "properties": raw.properties,
        "body": raw.body,
    }


def test_reading_goes_on_behind_damage(golden: Path) -> None:
    body_flipped(golden)
    found = read(golden)
    assert [one[:2] for one in found if isinstance(one, tuple)] == [(LOG, RECORD)]
    assert len(found) == 300
    found = read(golden, topic="Golden", queue=0)
    assert [one[:2] for one in found if isinstance(one, tuple)] == [(QUEUE, 20)]
    assert len(found) == 40


def test_any_bytes_anywhere_are_borne(golden: Path) -> None:
    """No panic, no endless loop; and nothing that was broken in an entry goes unseen."""
    rng = random.Random(4)
    files = [p for p in sorted(golden.rglob("*")) if p.is_file() and p.stat().st_size]
    for n in range(300):
        path = rng.choice(files)
        good = path.read_bytes()
        at = rng.randrange(len(good))
        count = rng.choice([1, 4, 60, 3000])
        bad = rng.choice([rng.randbytes(count), bytes(count), b"\xff" * count])
        path.write_bytes(rng.choice([good[:at], good[:at] + bad + good[at + count :], bad]))
        changed = path.read_bytes() != good
        summary, _ = check(golden)
        if "consumequeue" in path.parts:
            assert bool(summary["damage"]) == changed, (n, path, at)
        inspect_store(golden)
        for wanted in ({}, {"topic": "Golden"}, {"topic": "Golden", "key": "shared"}):
            read(golden, **wanted)
        path.write_bytes(good)
    assert check(golden)[0]["damage"] == 0


def test_files_that_are_none(golden: Path) -> None:
    """Pipes, folders and links where files should be are named or refused, never waited for."""
    log_file(golden).unlink()
    os.mkfifo(log_file(golden))
    index_file(golden).unlink()
    os.mkfifo(golden / "index" / "20261120201450885")
    (golden / "checkpoint").unlink()
    os.mkfifo(golden / "checkpoint")
    (golden / QUEUE).unlink()
    (golden / QUEUE).mkdir()
    report = inspect_store(golden)
    assert set(report["unknown"]) == {LOG, QUEUE, "index/20261120201450885"}
    assert any(one[1] == "checkpoint" for one in damage(golden))
