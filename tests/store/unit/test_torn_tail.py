"""The end of the log after a crash: what is whole stays, what is torn goes, nothing comes back."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.store.tools import (
    bodies,
    contents,
    image,
    log_file,
    open_store,
    opened,
    overwrite,
    queue_entries,
)
from tests.store.unit.test_records import record_bytes

FILE = 8192
PROPERTIES = "TAGS\x01a\x02KEYS\x01key\x02"


@dataclass(frozen=True)
class Written:
    """A record in the log: its place, and where its properties start (all bytes offsets)."""

    start: int
    end: int
    properties: int
    body: bytes


@dataclass(frozen=True)
class Tail:
    """A kill image and what stands in its one log file."""

    root: Path
    records: list[Written]
    log: bytes

    def kept(self, log: bytes, limit: int | None = None) -> list[bytes]:
        """Reopens the image with this content of the log; returns the bodies of its queue."""
        root = image(self.root, self.root.parent / "torn")
        overwrite(log_file(root), 0, log)
        with opened(root, commit_log_file_size=FILE) as store:
            found = bodies(store)
            if limit is not None:
                assert store.stats()["maxPhyOffset"] == limit
            first, end = store.queue_range("T", 0)
            assert first == 0
            assert end == len(found) or end > len(found) > 4, "only a damaged place is left out"
        left = log_file(root).read_bytes()
        assert len(left) == FILE
        if limit is not None:
            assert left[:limit] == log[:limit]
            assert not any(left[limit:]), "bytes behind the end were not erased"
        return found


def write(root: Path, sizes: list[int]) -> Tail:
    """Records with bodies of these sizes (bytes), and the image of the open store."""
    live, records = root / "live", []
    shutil.rmtree(live, ignore_errors=True)
    with opened(live, commit_log_file_size=FILE) as store:
        for n, size in enumerate(sizes):
            body = bytes([97 + n]) * size
            phys, length, *_ = store.put("T", 0, body, PROPERTIES)
            end = phys + length
            records.append(Written(phys, end, end - len(PROPERTIES), body))
        copy = image(live, root / "killed")
    return Tail(copy, records, log_file(copy).read_bytes())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tail:
    return write(tmp_path_factory.mktemp("small"), [30, 5, 60, 20, 1, 40])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Tail:
    return write(tmp_path_factory.mktemp("large"), [900, 100, 700, 1100, 300, 1500])


def lost_only_properties(tail: Tail, cut: int) -> bool:
    """RocketMQ's format has no checksum over properties: see the test of its own below."""
    return any(r.properties <= cut < r.end for r in tail.records)


def test_cut_at_every_byte_of_the_last_three_records(small: Tail):
    end = small.records[-1].end
    for cut in range(small.records[-3].start, end + 1):
        if lost_only_properties(small, cut):
            continue
        torn = small.log[:cut].ljust(FILE, b"\0")
        whole = [r for r in small.records if r.end <= cut]
        limit = max(r.end for r in whole)
        assert small.kept(torn, limit) == [r.body for r in whole], f"cut at {cut}"


@pytest.mark.parametrize(
    ("known", "is_said"), [(-1, True), (-3, False), (FILE, True), (2 * FILE, True)]
)
def test_a_loss_of_what_was_on_disk_is_said(
    small: Tail, tmp_path: Path, capfd: pytest.CaptureFixture[str], known: int, is_said: bool
):
    """The checkpoint says up to where the disk was; the last two records are gone."""
    root = image(small.root, tmp_path / "store")
    end = small.records[-3].end
    confirmed = small.records[known].end if known < 0 else known
    overwrite(log_file(root), 0, small.log[:end].ljust(FILE, b"\0"))
    (root / "checkpoint").write_bytes(struct.pack(">5q", 1, 1, 0, 0, confirmed).ljust(4096, b"\0"))
    with opened(root, commit_log_file_size=FILE) as store:
        assert store.stats()["maxPhyOffset"] == end
    lost = f"{confirmed - end} bytes are damaged and lost"
    assert (lost in capfd.readouterr().err) is is_said


def test_cut_inside_the_properties(small: Tail):
    """The format's CRC covers the body only: such a record may stay, but nothing else changes.

    A kill cannot leave this (the size is written last), a power cut can, to a record that was not
    flushed yet.
    """
    for record in small.records[-3:]:
        for cut in range(record.properties, record.end):
            torn = small.log[:cut].ljust(FILE, b"\0")
            whole = [r.body for r in small.records if r.end <= cut]
            assert small.kept(torn) in (whole, [*whole, record.body])


def test_without_one_sector_of_512_bytes(large: Tail):
    """A power cut may lose any sector that was not flushed; what is before it must stay."""
    last = large.records[-1].end
    for sector in range(0, last, 512):
        torn = bytearray(large.log)
        torn[sector : sector + 512] = bytes(512)
        whole = []
        for record in large.records:
            if (
                torn[record.start : record.properties]
                != large.log[record.start : record.properties]
            ):
                break
            whole.append(record)
        limit = whole[-1].end if whole else 0
        assert large.kept(bytes(torn), limit) == [r.body for r in whole], f"sector {sector}"


def test_sectors_lost_from_a_place_on(large: Tail):
    for sector in range(0, large.records[-1].end, 512):
        torn = large.log[:sector].ljust(FILE, b"\0")
        whole = [r for r in large.records if r.end <= sector]
        limit = whole[-1].end if whole else 0
        assert large.kept(torn, limit) == [r.body for r in whole]


@pytest.mark.parametrize("index", range(6))
def test_a_flipped_byte_in_a_body_ends_the_log_before_it(large: Tail, index: int):
    record = large.records[index]
    body = record.properties - 2 - len("T") - 1 - len(record.body)
    for at in (0, len(record.body) // 2, len(record.body) - 1):
        torn = bytearray(large.log)
        torn[body + at] ^= 0x10
        kept = large.kept(bytes(torn), record.start)
        assert kept == [r.body for r in large.records[:index]]


def test_without_the_check_a_flipped_body_stays(large: Tail):
    torn = bytearray(large.log)
    torn[large.records[2].start + 200] ^= 0x10
    root = image(large.root, large.root.parent / "unchecked")
    overwrite(log_file(root), 0, bytes(torn))
    with opened(root, commit_log_file_size=FILE, check_crc_on_recover=False) as store:
        assert store.queue_range("T", 0) == (0, 6)


@pytest.mark.parametrize("at", [0, 4, 20, 28, 36, 84, 87])
@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0xFF])
def test_lengths_and_places_that_cannot_be(small: Tail, at: int, byte: int):
    """Fields of a header overwritten: size, magic, queue offset, own place, sysFlag, body size."""
    target = small.records[-2]
    torn = bytearray(small.log)
    torn[target.start + at] = byte
    if bytes(torn) == small.log:
        return
    kept = small.kept(bytes(torn))
    expected = [r.body for r in small.records]
    assert kept[:4] == expected[:4]
    if at not in (20, 36):  # neither is covered by a check; what follows stays readable
        assert kept == expected[:4]


def test_stale_bytes_behind_the_end_never_come_back(tmp_path: Path):
    """A, B; B is torn; a shorter C goes where B was; what is left of B is no record."""
    for filler in range(0, 200, 7):
        root = tmp_path / f"{filler}"
        with opened(root / "live", commit_log_file_size=FILE) as store:
            _, size_a, *_ = store.put("T", 0, b"A" * 50)
            size_c = size_a - 50 + filler
            # Inside of B, exactly where C will end, stands a good record with the right place.
            hidden = record_bytes(b"T", 0, 2, size_a + size_c, 1_700_000_000_000, b"hidden")
            lead = size_c - 88
            body = b"B" * max(lead, 0) + hidden + b"B" * 300
            if lead < 0:
                continue
            store.put("T", 0, body)
            killed = image(root / "live", root / "killed")
        overwrite(log_file(killed), size_a + 12, b"\x7f")  # B's queueId: whole but strange
        overwrite(log_file(killed), size_a + 88, b"\0")  # B's body does not fit its CRC
        store = open_store(killed, commit_log_file_size=FILE)
        try:
            assert bodies(store) == [b"A" * 50]
            assert store.put("T", 0, b"C" * filler)[:3] == (size_a, size_c, 1)
            again = image(killed, root / "again")
        finally:
            store.close()
        for copy in (again, killed):
            with opened(copy, commit_log_file_size=FILE) as store:
                assert bodies(store) == [b"A" * 50, b"C" * filler]
                assert store.stats()["maxPhyOffset"] == size_a + size_c
            assert b"hidden" not in log_file(copy).read_bytes()


def test_later_files_of_a_torn_log_are_removed(tmp_path: Path):
    """The last records of a file are lost and the next file holds nothing that was flushed."""
    with opened(tmp_path / "live", commit_log_file_size=FILE) as store:
        for n in range(20):
            store.put("T", 0, bytes([n]) * 900)
        killed = image(tmp_path / "live", tmp_path / "killed")
    first = [entry for entry in queue_entries(killed) if entry[0] < FILE]
    overwrite(log_file(killed), first[-1][0], bytes(FILE - first[-1][0]))
    log_file(killed, FILE).write_bytes(bytes(FILE))
    with opened(killed, commit_log_file_size=FILE) as store:
        assert bodies(store) == [bytes([n]) * 900 for n in range(len(first) - 1)]
        assert store.stats()["maxPhyOffset"] == first[-1][0]
    assert list(contents(killed / "commitlog")) == [f"{0:020d}"]


def test_an_unfinished_record_has_no_size(tmp_path: Path):
    """A writer that is killed in the middle has not stored the size yet: that comes last."""
    tail = write(tmp_path, [100, 100])
    torn = bytearray(tail.log)
    last = tail.records[-1]
    torn[last.start : last.start + 4] = bytes(4)
    assert tail.kept(bytes(torn), last.start) == [tail.records[0].body]
