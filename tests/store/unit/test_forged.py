"""A body that holds a record of its own place in the log is no message."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.engine import Store
from tests.store.tools import image, overwrite
from tests.support.records import decode_record, encode_record
from tests.system.faults.images import checkpoint

SIZE = 1 << 20
BODY_AT = 88
"""Where the body of a record with IPv4 hosts begins."""


def forged(like: bytes | None, at: int, *, sys_flag: int = 0, queue_offset: int = 0) -> bytes:
    """A record that states this place, as a sender may write it into a body."""
    assert like is not None
    record = replace(
        decode_record(like), queue_offset=queue_offset, physical_offset=at, sys_flag=sys_flag
    )
    return encode_record(record)


@pytest.mark.parametrize("sys_flag", [0, 4])
@pytest.mark.parametrize("queue_offset", [0, 1, 7, -1])
def test_a_look_up_by_id_finds_records_only(tmp_path: Path, sys_flag: int, queue_offset: int):
    store = Store(tmp_path / "store", commit_log_file_size=SIZE)
    try:
        _, size, _, _ = store.put("T", 0, b"first")
        genuine, _, _, _ = store.put("Other", 0, b"genuine")
        carrier = store.stats()["maxPhyOffset"]
        inside = carrier + BODY_AT
        like = store.record_at(genuine)
        body = forged(like, inside, sys_flag=sys_flag, queue_offset=queue_offset)
        phys, _, _, _ = store.put("T", 0, body)
        assert phys == carrier
        raw = store.record_at(carrier)
        assert raw is not None
        assert raw.index(body) == BODY_AT, "the forged one stands where it says"
        assert decode_record(body).physical_offset == inside
        assert store.record_at(inside) is None
        assert store.record_at(size) is not None
    finally:
        store.close()


def test_a_record_without_an_entry_is_found_by_its_file(tmp_path: Path):
    """A half of an old broker is in no queue."""
    store = Store(tmp_path / "store", commit_log_file_size=SIZE)
    try:
        store.put("T", 0, b"first")
        phys, _, _, _ = store.put("T", 0, b"half", sys_flag=4)
        store.put("T", 0, b"last")
        raw = store.record_at(phys)
        assert raw is not None
        assert decode_record(raw).body == b"half"
        assert store.record_at(phys + 1) is None
    finally:
        store.close()


def bodies(store: Store, topic: str) -> list[bytes]:
    found = []
    for offset in range(store.queue_range(topic, 0)[1]):
        (piece,) = store.get(topic, 0, offset, 1).slices
        found.append(decode_record(bytes(piece)).body)
    return found


def put_carrier(store: Store, queue_offset: int) -> int:
    """Stores messages of two topics and one whose body holds a record of the other topic, of a time
    long ago. Returns where the last one stands."""
    store.put("T", 0, b"one")
    genuine, _, _, _ = store.put("Other", 0, b"genuine")
    like = store.record_at(genuine)
    assert like is not None
    old = encode_record(replace(decode_record(like), store_timestamp=1_000_000))
    carrier = store.stats()["maxPhyOffset"]
    body = forged(old, carrier + BODY_AT, queue_offset=queue_offset)
    phys, _, _, _ = store.put("T", 0, body)
    assert phys == carrier
    assert decode_record(body).store_timestamp == 1_000_000
    return carrier


@pytest.mark.parametrize("queue_offset", [0, 1, 2, 50])
@pytest.mark.parametrize("queues", [True, False])
def test_a_torn_carrier_gives_no_message(tmp_path: Path, queue_offset: int, queues: bool):
    """A power cut takes the head of the last message, which was not flushed. What its body says to
    be of a time that was flushed long ago is no record."""
    store = Store(tmp_path / "store", commit_log_file_size=SIZE)
    try:
        carrier = put_carrier(store, queue_offset)
        left = image(tmp_path / "store", tmp_path / "left")
    finally:
        store.close()
    overwrite(left / "commitlog" / f"{0:020d}", carrier, bytes(80))
    (left / "checkpoint").write_bytes(checkpoint(5_000_000, carrier))
    if not queues:
        shutil.rmtree(left / "consumequeue")
    store = Store(left, commit_log_file_size=SIZE)
    try:
        assert store.stats()["maxPhyOffset"] == carrier
        assert bodies(store, "Other") == [b"genuine"]
        assert bodies(store, "T") == [b"one"]
    finally:
        store.close()


def test_a_damaged_carrier_gives_no_message_of_a_place_that_another_has(tmp_path: Path):
    """A bad sector after a clean stop: the messages behind it stay."""
    root = tmp_path / "store"
    store = Store(root, commit_log_file_size=SIZE)
    carrier = put_carrier(store, 1)
    store.put("Other", 0, b"second")
    store.put("T", 0, b"last")
    store.close()
    overwrite(root / "commitlog" / f"{0:020d}", carrier, bytes(80))
    store = Store(root, commit_log_file_size=SIZE)
    try:
        assert bodies(store, "Other") == [b"genuine", b"second"]
        assert store.queue_range("T", 0) == (0, 3)
    finally:
        store.close()
