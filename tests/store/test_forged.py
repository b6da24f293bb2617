"""A body that holds a record of its own place in the log is no message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.engine import Store
from tests.support.records import decode_record, encode_record


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
    store = Store(tmp_path / "store")
    try:
        _, size, _, _ = store.put("T", 0, b"first")
        genuine, _, _, _ = store.put("Other", 0, b"genuine")
        carrier = store.stats()["maxPhyOffset"]
        inside = carrier + 88  # where the body of a record with IPv4 hosts begins
        like = store.record_at(genuine)
        body = forged(like, inside, sys_flag=sys_flag, queue_offset=queue_offset)
        phys, _, _, _ = store.put("T", 0, body)
        assert phys == carrier
        raw = store.record_at(carrier)
        assert raw is not None
        assert raw.index(body) == 88, "the forged one stands where it says"
        assert decode_record(body).physical_offset == inside
        assert store.record_at(inside) is None
        assert store.record_at(size) is not None
    finally:
        store.close()


def test_a_record_without_an_entry_is_found_by_its_file(tmp_path: Path):
    """A half of an old broker is in no queue."""
    store = Store(tmp_path / "store")
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
