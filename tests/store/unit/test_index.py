"""The message index: what it holds, byte for byte, and that look-ups never give a wrong record."""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import Store
from pyrmq.errors import MessageIllegalError, ServiceNotAvailableError
from tests.store.golden_formats import index_keys, key_hash
from tests.store.index_files import IndexRow, log_records, query
from tests.store.tools import LOG_FILE, contents, image, log_file, opened
from tests.store.waiting import indexed, settle
from tests.support.records import decode_record, encode_properties, java_hash

SLOTS, PLACES = 7, 9
STORE_TIMESTAMP = 56
"""Its place in a record whose hosts are IPv4. [MessageDecoder.MESSAGE_STORE_TIMESTAMP_POSITION]"""
SMALL: dict[str, Any] = {"index_slots": SLOTS, "index_entries": PLACES}
"""Few slots, so that chains are long, and eight entries a file."""

WORDS = ["k1", "k2", "Aa", "BB", "AaAa", "BBBB", "AaBB", "BBAa", "schlüssel", "键", "k", "k1k2"]


def put(store: Store, keys: str, topic: str = "T", unique: str = "", **options: Any) -> int:
    """Stores a message with these keys; returns its physical offset."""
    named = {"UNIQ_KEY": unique, "TAGS": "t", "KEYS": keys}
    properties = {name: value for name, value in named.items() if value}
    body = f"{topic} {keys} {unique}".encode()
    return store.put(topic, 0, body, encode_properties(properties), **options)[0]


def ask(store: Store, key: str, topic: str = "T", **options: Any) -> list[int]:
    """Physical offsets of what a look-up gives; each record must be the one that stands there."""
    slices, *_ = store.query_message(topic, key, **options)
    found = []
    for piece in slices:
        record = decode_record(bytes(piece))
        assert len(piece) == record.size
        assert store.record_at(record.physical_offset) == bytes(piece)
        assert record.topic == topic
        assert key in index_keys(record)
        found.append(record.physical_offset)
    assert found == sorted(set(found))
    return found


def fill(store: Store, count: int, seed: int = 0) -> dict[tuple[str, str], list[int]]:
    """Messages with random keys; physical offsets by topic and key."""
    rng = random.Random(seed)
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n in range(count):
        topic, keys = rng.choice(["T", "U", "Aa", "BB"]), rng.choices(WORDS, k=rng.randint(0, 3))
        unique = f"ID{n}" if rng.random() < 0.7 else ""
        at = put(store, " ".join(keys), topic, unique)
        for key in {*keys, *([unique] if unique else [])}:
            holders[topic, key].append(at)
    return holders


def check(store: Store, holders: dict[tuple[str, str], list[int]]) -> None:
    indexed(store)
    for (topic, key), expected in holders.items():
        assert ask(store, key, topic, max_num=64) == expected[-64:], (topic, key)


def names(root: Path) -> list[str]:
    return [path.name for path in sorted((root / "index").iterdir())]


def data(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.fixture(scope="module")
def two_seconds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose messages lie in groups more than a second apart."""
    root = tmp_path_factory.mktemp("index") / "store"
    ends = []
    with opened(root, **SMALL) as store:
        for seed in range(3):
            fill(store, 13, seed)
            ends.append(store.stats()["maxPhyOffset"])
    for record in log_records(root, LOG_FILE):
        earlier = 1200 * sum(record.physical_offset < end for end in ends[:2])
        at = record.physical_offset % LOG_FILE + STORE_TIMESTAMP
        with log_file(root, record.physical_offset // LOG_FILE * LOG_FILE).open("r+b") as file:
            file.seek(at)
            file.write((record.store_timestamp - earlier).to_bytes(8, "big"))
    shutil.rmtree(root / "index")
    with opened(root, **SMALL) as store:  # the index follows the log anew
        indexed(store)
    return root


def test_the_bytes_of_the_files(two_seconds: Path):
    row = IndexRow(SLOTS, PLACES, log_records(two_seconds, LOG_FILE))
    assert len(row.files) > 5
    assert any(entry[2] > 0 for file in row.files for entry in file.entries)
    assert data(two_seconds) == row.data()
    assert all(len(name) == 17 and name.isdigit() for name in names(two_seconds))


def test_ranges_of_time(two_seconds: Path, tmp_path: Path):
    """Exactly what an independent search of the bytes gives, without records of other keys."""
    root = image(two_seconds, tmp_path / "store")
    records = {record.physical_offset: record for record in log_records(root, LOG_FILE)}
    files = data(root)
    times = sorted({r.store_timestamp for r in records.values()})
    edges = {t + d for t in (times[0], times[len(times) // 2], times[-1])
             for d in (-1001, -1, 0, 1, 999, 1001)} | {0, 2**63 - 1}  # fmt: skip
    asked = 0
    with opened(root, **SMALL) as store:
        for topic, key in [("T", "k1"), ("U", "Aa"), ("Aa", "BB"), ("T", "键"), ("T", "ID0")]:
            for begin in edges:
                for end in edges:
                    hits = query(files, SLOTS, key_hash(topic, key), begin, end)
                    expected = {at for at in hits if records[at].topic == topic
                                and key in index_keys(records[at])}  # fmt: skip
                    assert ask(store, key, topic, begin=begin, end=end, max_num=64) == sorted(
                        expected
                    )
                    asked += bool(expected)
    assert asked > 100


@pytest.mark.parametrize("sync_flush", [False, True])
def test_every_key_of_several_topics(tmp_path: Path, sync_flush: bool):
    with opened(tmp_path, sync_flush=sync_flush, **SMALL) as store:
        holders = fill(store, 60)
        check(store, holders)
        assert ask(store, "k1", "no such topic") == []
        for absent in ("", " ", "k3", "k1 k2", "K1", "ID", "t", "1", "schl"):
            assert ask(store, absent) == [], absent


def test_keys_of_a_message(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        first = put(store, "a  b a ", unique="u")
        second = put(store, "", unique="b")
        third = put(store, "u")
        put(store, "")
        indexed(store)
        assert ask(store, "a") == [first]
        assert ask(store, "b") == [first, second]
        assert ask(store, "u") == [first, third]
    (only,) = data(tmp_path)
    assert only == IndexRow(SLOTS, PLACES, log_records(tmp_path, LOG_FILE)).data()[0]
    assert int.from_bytes(only[36:40], "big") == 1 + 6, "u a b a, b, u"


def test_the_newest_of_many(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        all_of_them = [put(store, "same") for _ in range(100)]
        indexed(store)
        for most in (1, 2, 32, 63, 64):
            assert ask(store, "same", max_num=most) == all_of_them[-most:]
        assert ask(store, "same") == all_of_them[-32:]
        for most in (65, 1000, 2**63):
            assert ask(store, "same", max_num=most) == all_of_them[-64:]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("T", "Aa"), ("T", "BB")),
        (("Aa", "key"), ("BB", "key")),
        (("T", "abc"), ("T", "aMdape")),  # hashes of opposite sign
        (("T", "cdkhxk"), ("T", "cdlIxk")),  # both 0
        (("T", "aWk_Yzz"), ("T", "cdkhxk")),  # the hash without an absolute value counts as 0
    ],
)
def test_equal_hashes(tmp_path: Path, first: tuple[str, str], second: tuple[str, str]):
    assert first != second
    assert key_hash(*first) == key_hash(*second)
    with opened(tmp_path, **SMALL) as store:
        old = [put(store, key, topic) for topic, key in (first, second)]
        for _ in range(200):
            put(store, first[1], first[0])
        indexed(store)
        assert ask(store, second[1], second[0]) == [old[1]], "hidden behind 200 of another key"
        assert len(ask(store, first[1], first[0], max_num=64)) == 64
        assert old[1] not in ask(store, first[1], first[0], max_num=64)
    assert abs(java_hash("#".join(first))) == abs(java_hash("#".join(second))) or (
        key_hash(*first) == 0
    )


def test_which_messages_of_a_transaction(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        kinds = {flag: put(store, f"key-{flag:x} all", sys_flag=flag) for flag in (0, 4, 8, 12)}
        indexed(store)
        assert ask(store, "all") == [kinds[0], kinds[4], kinds[8]]
        assert ask(store, "key-4") == [kinds[4]]
        assert ask(store, "key-c") == []


def test_what_was_indexed_last(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        assert store.query_message("T", "k") == ([], 0, 0)
        for _ in range(20):
            at, *_, stored = store.put("T", 0, b"b", "KEYS\x01k\x02")
        store.put("T", 0, b"without a key")
        indexed(store)
        assert store.query_message("T", "none") == ([], stored, at)
        assert store.stats()["indexFiles"] == len(names(tmp_path)) == 3
    with pytest.raises(ServiceNotAvailableError):
        store.query_message("T", "k")


def test_a_clean_stop_waits_for_it(tmp_path: Path):
    """Whatever the index is at when the last messages come."""
    for round_ in range(60):
        root = tmp_path / str(round_)
        with opened(root, **SMALL) as store:
            fill(store, 10 + round_)
        assert not (root / "abort").exists()
        assert data(root) == IndexRow(SLOTS, PLACES, log_records(root, LOG_FILE)).data()


def test_slices_outlive_the_store(tmp_path: Path):
    with opened(tmp_path) as store:
        put(store, "k")
        indexed(store)
        (piece,), *_ = store.query_message("T", "k")
    assert decode_record(bytes(piece)).properties["KEYS"] == "k"


def test_a_clean_reopening_leaves_it_alone(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        holders = fill(store, 40)
    before = contents(tmp_path / "index")
    numbers = [path.stat().st_ino for path in sorted((tmp_path / "index").iterdir())]
    for _ in range(2):
        with opened(tmp_path, **SMALL) as store:
            stats = store.stats()
            assert stats["indexedWhere"] == stats["maxPhyOffset"] > 0
            check(store, holders)
        assert contents(tmp_path / "index") == before
        assert [path.stat().st_ino for path in sorted((tmp_path / "index").iterdir())] == numbers


def test_going_on_after_a_clean_stop(tmp_path: Path):
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for seed in range(4):
        with opened(tmp_path, **SMALL) as store:
            for key, offsets in fill(store, 10, seed).items():
                holders[key] += offsets
            check(store, holders)
    assert data(tmp_path) == IndexRow(SLOTS, PLACES, log_records(tmp_path, LOG_FILE)).data()


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_kill_image_is_completed(tmp_path: Path, sync_flush: bool):
    with opened(tmp_path / "live", sync_flush=sync_flush, **SMALL) as store:
        holders = fill(store, 60)
        settle(store)
        killed = image(tmp_path / "live", tmp_path / "killed")
    with opened(killed, **SMALL) as store:
        check(store, holders)
        more = put(store, "k1")
        indexed(store)
        assert ask(store, "k1")[-1] == more
    with opened(killed, **SMALL) as store:
        assert ask(store, "k1")[-1] == more


def test_a_deleted_folder_is_built_anew(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        holders = fill(store, 60)
    before = data(tmp_path)
    os.rename(tmp_path / "index", tmp_path / "away")
    with opened(tmp_path, **SMALL) as store:
        check(store, holders)
    assert data(tmp_path) == before


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def noise(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(path.stat().st_size))


def too_many_entries(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(36)
        file.write((PLACES + 1).to_bytes(4, "big"))


def other_end(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(24)
        file.write((1 << 40).to_bytes(8, "big"))


@pytest.mark.parametrize("damage", [shorten, empty, noise, too_many_entries, other_end])
@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: Any, which: int):
    with opened(tmp_path, **SMALL) as store:
        holders = fill(store, 60)
    files = sorted((tmp_path / "index").iterdir())
    assert len(files) > 5
    damage(files[which])
    with opened(tmp_path, **SMALL) as store:
        check(store, holders)
    with opened(tmp_path, **SMALL) as store:
        check(store, holders)


def test_a_deleted_newest_file_is_made_again(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        holders = fill(store, 60)
    sorted((tmp_path / "index").iterdir())[-1].unlink()
    with opened(tmp_path, **SMALL) as store:
        check(store, holders)


def test_other_sizes_build_it_anew(tmp_path: Path):
    with opened(tmp_path, **SMALL) as store:
        holders = fill(store, 60)
    with opened(tmp_path, index_slots=11, index_entries=30) as store:
        check(store, holders)
    assert data(tmp_path) == IndexRow(11, 30, log_records(tmp_path, LOG_FILE)).data()


@pytest.mark.parametrize("seed", range(8))
def test_undetected_damage_gives_no_wrong_record(tmp_path: Path, seed: int):
    """Slots, chains and offsets are noise; `ask` checks every record that is given."""
    with opened(tmp_path, **SMALL) as store:
        holders = fill(store, 60)
    rng = random.Random(seed)
    for path in (tmp_path / "index").iterdir():
        raw = bytearray(path.read_bytes())
        middle = range(40, len(raw) - 40, 4)
        for at in rng.sample(middle, 12):
            small = rng.randrange(-2, PLACES + 2)
            raw[at : at + 4] = rng.choice([rng.randbytes(4), small.to_bytes(4, "big", signed=True)])
        path.write_bytes(raw)
    with opened(tmp_path, **SMALL) as store:
        for (topic, key), expected in holders.items():
            assert set(ask(store, key, topic)) <= set(expected)


def test_without_an_index(tmp_path: Path):
    with opened(tmp_path, index_enable=False) as store:
        put(store, "k")
        with pytest.raises(MessageIllegalError, match="messageIndexEnable"):
            store.query_message("T", "k")
        assert store.stats()["indexFiles"] == 0
        assert store.stats()["indexedWhere"] == store.stats()["maxPhyOffset"]
    assert not (tmp_path / "index").exists()


def test_switched_off_for_a_while(tmp_path: Path):
    """What was stored meanwhile is found once the index is back."""
    with opened(tmp_path, **SMALL) as store:
        first = put(store, "k")
    with opened(tmp_path, index_enable=False) as store:
        second = put(store, "k")
    with opened(tmp_path, **SMALL) as store:
        third = put(store, "k")
        indexed(store)
        assert ask(store, "k") == [first, second, third]


def test_other_files_in_the_folder_stay(tmp_path: Path):
    (tmp_path / "index").mkdir()
    others = {"README": b"text", "2026": b"", "20261301000000000": b"x"}
    for name, content in others.items():
        (tmp_path / "index" / name).write_bytes(content)
    for _ in range(2):
        with opened(tmp_path, **SMALL) as store:
            put(store, "k")
    found = contents(tmp_path / "index")
    assert {name: found[name] for name in others} == others
    assert len(found) == len(others) + 1


@pytest.mark.parametrize(("slots", "places"), [(0, 9), (7, 1), (7, 0), (2**31, 2**31)])
def test_impossible_sizes(tmp_path: Path, slots: int, places: int):
    with pytest.raises(MessageIllegalError, match=r"maxHashSlotNum|slots"):
        Store(tmp_path, index_slots=slots, index_entries=places)


def test_an_answer_fits_into_a_frame(tmp_path: Path):
    """Of large messages only as many come as a client takes in one frame, the newest of them."""
    with opened(tmp_path, commit_log_file_size=64 << 20) as store:
        for n in range(6):
            store.put("T", 0, bytes([n]) * (4 << 20), "KEYS\x01big\x02")
        indexed(store)
        found, *_ = store.query_message("T", "big")
        assert [decode_record(bytes(piece)).body[0] for piece in found] == [3, 4, 5]
