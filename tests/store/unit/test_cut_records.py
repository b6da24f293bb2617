"""The last record of a log whose properties end in a zero: written so, or cut by a kill?"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyrmq.engine import Store
from tests.net.unit.session.exchange import new_session, serving
from tests.store.tools import image, overwrite
from tests.support.client import batch_command
from tests.support.records import decode_record, encode_properties
from tests.support.wire import encode
from tests.system.faults.images import checkpoint

SIZE = 1 << 20


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, int, int]:
    """What a kill leaves of two messages, the last of which ends in a zero; where that begins, and
    ends. Its queue knows of it."""
    store = Store(tmp_path / "store", commit_log_file_size=SIZE)
    try:
        properties = encode_properties({"a": "b"})
        store.put("T", 0, b"first", properties)
        phys, size, _, _ = store.put("T", 0, b"last", properties)
        left = image(tmp_path / "store", tmp_path / "left")
    finally:
        store.close()
    (left / "checkpoint").unlink(missing_ok=True)
    overwrite(left / "commitlog" / f"{0:020d}", phys + size - 1, b"\0")
    return left, phys, phys + size


def end_of(root: Path) -> int:
    store = Store(root, commit_log_file_size=SIZE)
    try:
        return int(store.stats()["maxPhyOffset"])
    finally:
        store.close()


def test_its_queue_knows_of_it(killed: tuple[Path, int, int]):
    """The entry came behind the write."""
    root, _, end = killed
    assert end_of(root) == end


def test_nothing_knows_of_it(killed: tuple[Path, int, int]):
    root, begin, _ = killed
    shutil.rmtree(root / "consumequeue")
    assert end_of(root) == begin


def test_it_was_flushed(killed: tuple[Path, int, int]):
    root, _, end = killed
    shutil.rmtree(root / "consumequeue")
    (root / "checkpoint").write_bytes(checkpoint(1000, end))
    assert end_of(root) == end


def test_every_cut_of_a_record(tmp_path: Path):
    """Whatever byte a kill stops the write behind: all of the record, or none."""
    store = Store(tmp_path / "store", commit_log_file_size=SIZE)
    try:
        store.put("T", 0, b"first", encode_properties({"a": "b"}))
        phys, size, _, _ = store.put("Topic", 0, b"body", encode_properties({"KEYS": "k"}))
        left = image(tmp_path / "store", tmp_path / "left")
    finally:
        store.close()
    (left / "checkpoint").unlink(missing_ok=True)
    shutil.rmtree(left / "consumequeue")
    for cut in range(size + 1):
        root = image(left, tmp_path / "cut")
        overwrite(root / "commitlog" / f"{0:020d}", phys + cut, bytes(size - cut))
        assert end_of(root) == (phys + size if cut == size else phys), cut


def test_a_batch_ends_in_no_zero(tmp_path: Path):
    """The properties of a batch's messages are stored as they came, else."""
    with serving(tmp_path, commit_log_file_size=SIZE) as (store, listener):
        parts = [(b"one", {"a": "b"}), (b"two", {"a": "c\0"})]
        command = batch_command("T", parts)
        # Without the last separator, as some clients send it: lengths are one less.
        body = command.body[:-1]
        start = int.from_bytes(body[:4], "big")
        text = len(encode_properties(parts[1][1]).encode()) - 1
        sizes = (len(body) - start).to_bytes(4, "big"), text.to_bytes(2, "big")
        at = len(body) - text - 2
        command.body = body[:start] + sizes[0] + body[start + 4 : at] + sizes[1] + body[at + 2 :]
        new_session(listener).feed_bytes(encode(command), 1)
        (piece,) = store.get("T", 0, 1, 1).slices
        assert decode_record(bytes(piece)).properties_raw == b"a\x01c\0\x02"
