"""A store folder looked at from outside: sound ones are sound, and each kind of damage is named."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Records, Verifier, inspect_store, store_is_locked
from tests.store.tools import GOLDEN, image, log_file, opened, overwrite, queue_files, unpack
from tests.store.waiting import settle
from tests.support.records import decode_record, encode_properties

INDEX_SLOTS = 500
"""Slots of an index file in that archive."""
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


def index_file(root: Path) -> Path:
    (path,) = (root / "index").iterdir()
    return path


def entry_at(number: int) -> int:
    return 40 + INDEX_SLOTS * 4 + number * 20


def flip(path: Path, at: int, bit: int = 1) -> None:
    overwrite(path, at, bytes([path.read_bytes()[at] ^ bit]))


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


Damage = Callable[[Path], tuple[str, str, int | None, str]]
"""Breaks the golden store; kind, path, byte and a word of the finding that must be there."""
RECORD = 240
"""Physical offset of the golden store's second record, in queue 0 of Golden."""
QUEUE = "consumequeue/Golden/0/00000000000000000000"
LOG = "commitlog/00000000000000000000"


def body_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / LOG, RECORD + 90)
    return "record", LOG, RECORD, "CRC"


def length_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / LOG, RECORD + 3)
    return "record", LOG, RECORD, ""


def magic_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / LOG, RECORD + 4)
    return "record", LOG, RECORD, "magic"


def place_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / LOG, RECORD + 35)
    return "record", LOG, RECORD, "states physical offset"


def queue_offset_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / LOG, RECORD + 27, 4)
    return "queue", QUEUE, 20, "has queue offset 5"


def queue_id_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / LOG, RECORD + 15, 2)
    return "queue", QUEUE, 20, "is of queue 2"


def entry_offset_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / QUEUE, 27)
    return "queue", QUEUE, 20, "no record starts at 241"


def entry_size_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / QUEUE, 31)
    return "queue", QUEUE, 20, "has 253 bytes, the entry says 252"


def entry_tag_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(root / QUEUE, 39)
    return "queue", QUEUE, 20, "tag code"


def delivery_time_flipped(root: Path) -> tuple[str, str, int | None, str]:
    path = "consumequeue/SCHEDULE_TOPIC_XXXX/1/00000000000000000000"
    flip(root / path, 19)
    return "queue", path, 0, "tag code"


def entry_emptied(root: Path) -> tuple[str, str, int | None, str]:
    overwrite(root / QUEUE, 20, bytes(20))
    return "queue", QUEUE, 20, "no entry for offset 1, the record at 240"


def entries_swapped(root: Path) -> tuple[str, str, int | None, str]:
    raw = (root / QUEUE).read_bytes()
    overwrite(root / QUEUE, 20, raw[40:60] + raw[20:40])
    return "queue", QUEUE, 20, "has queue offset 2"


def entry_of_another_queue(root: Path) -> tuple[str, str, int | None, str]:
    other = (root / "consumequeue/Golden/1/00000000000000000000").read_bytes()
    overwrite(root / QUEUE, 40 * 20, other[:20])
    return "queue", QUEUE, 800, "is of queue 1"


def entry_behind_the_log(root: Path) -> tuple[str, str, int | None, str]:
    overwrite(root / QUEUE, 40 * 20, struct.pack(">qiq", 1 << 40, 100, 0))
    return "queue", QUEUE, 800, "behind the log's end"


def queue_folder_gone(root: Path) -> tuple[str, str, int | None, str]:
    shutil.rmtree((root / QUEUE).parent)
    return "queue", "consumequeue/Golden/0", None, "40 records"


def queue_file_gone(root: Path) -> tuple[str, str, int | None, str]:
    (root / QUEUE).unlink()
    return "queue", "consumequeue/Golden/0", None, "no entries for offsets 0 to 39"


def queue_file_short(root: Path) -> tuple[str, str, int | None, str]:
    os.truncate(root / QUEUE, 400)
    return "file", QUEUE, 400, "2000 were expected"


def log_file_short(root: Path) -> tuple[str, str, int | None, str]:
    path = "commitlog/00000000000000065536"
    os.truncate(root / path, 30_000)
    return "file", path, 30_000, "65536 were expected"


def log_file_gone(root: Path) -> tuple[str, str, int | None, str]:
    log_file(root, 65_536).unlink()
    return "file", "commitlog/00000000000000131072", None, "65536 to 131072 are nowhere"


def last_record_flipped(root: Path) -> tuple[str, str, int | None, str]:
    last = max(struct.unpack_from(">q", f.read_bytes(), 40 + 500 * 4 + 462 * 20 + 4)[0]
               for f in (root / "index").iterdir())  # fmt: skip
    path = log_file(root, last - last % 65_536)
    flip(path, last % 65_536 + 90)
    return "record", f"commitlog/{path.name}", last % 65_536, "CRC"


def index_name(root: Path) -> str:
    return f"index/{index_file(root).name}"


def index_place_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), entry_at(5) + 11)
    return "index", index_name(root), entry_at(5), "entry 5"


def index_place_far_away(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), entry_at(5) + 5, 0x40)
    return "index", index_name(root), entry_at(5), "out of order"


def index_hash_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), entry_at(5) + 3)
    return "index", index_name(root), entry_at(5), "has the hash"


def index_time_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), entry_at(5) + 15)
    return "index", index_name(root), entry_at(5), "s after"


def index_chain_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), entry_at(5) + 19)
    return "index", index_name(root), entry_at(5), "chain"


def index_slot_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), 40 + 77 * 4 + 2)
    return "index", index_name(root), 40 + 77 * 4, "slot 77"


def index_header_flipped(root: Path) -> tuple[str, str, int | None, str]:
    flip(index_file(root), 31)
    return "index", index_name(root), 16, "header"


def index_short(root: Path) -> tuple[str, str, int | None, str]:
    os.truncate(index_file(root), 10_000)
    return "index", index_name(root), 0, ""


def checkpoint_short(root: Path) -> tuple[str, str, int | None, str]:
    os.truncate(root / "checkpoint", 39)
    return "checkpoint", "checkpoint", None, "39 bytes"


def config_and_backup_bad(root: Path) -> tuple[str, str, int | None, str]:
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_text('{"topicConfigTable":')
    return "config", "config/topics.json", None, "is no JSON"


@pytest.mark.parametrize(
    "harm",
    [
        body_flipped, length_flipped, magic_flipped, place_flipped, queue_offset_flipped,
        queue_id_flipped, entry_offset_flipped, entry_size_flipped, entry_tag_flipped,
        delivery_time_flipped, entry_emptied, entries_swapped, entry_of_another_queue,
        entry_behind_the_log, queue_folder_gone, queue_file_gone, queue_file_short, log_file_short,
        log_file_gone, last_record_flipped, index_place_flipped, index_place_far_away,
        index_hash_flipped, index_time_flipped, index_chain_flipped, index_slot_flipped,
        index_header_flipped, index_short, checkpoint_short, config_and_backup_bad,
    ],
)  # fmt: skip
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
