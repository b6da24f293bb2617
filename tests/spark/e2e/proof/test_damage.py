"""Damaged logs: an error that names file and place, or skipped and counted; never a wrong row.

The logs are made by hand, so that what is in them is known byte for byte.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyrmq.engine import SegmentReader, segment_end
from pyrmq.errors import StoreDamagedError
from tests.support.records import Record, encode_record

from .logs import Log, filled, record
from .native import batches, cuts, read, reader_of
from .rows import ALL, Row, assert_same, from_arrow, rows_of_all

STRUCTURE = {
    **dict.fromkeys(range(4), "size"),
    **dict.fromkeys(range(4, 8), "magic"),
    **dict.fromkeys(range(28, 36), "physical offset"),
    **dict.fromkeys(range(84, 88), "body length"),
}
"""Bytes of a record (IPv4 hosts) that cannot be changed without it being noticed."""


def expected_rows(records: list[Record]) -> list[Row]:
    return rows_of_all(records, "")


def read_log(log: Log, **options: Any) -> tuple[list[Row], SegmentReader]:
    reader = reader_of(log.files(), log.base, log.end, exact=True, columns=ALL, **options)
    return [row for batch in batches(reader) for row in from_arrow(batch)], reader


def flip(log: Log, offset: int, mask: int = 0xFF) -> None:
    path, at = log.path_of(offset), (offset - log.base) % log.file_size
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_every_byte_of_a_record_flipped(tmp_path: Path, which: str):
    """A changed byte is reported with its place, or changes nothing but the row that it is in."""
    log = filled(tmp_path / "log", 60, file_size=2048, base=2048 * 3)
    chosen = {"first": 0, "middle": 31, "last": 59}[which]
    victim = log.records[chosen]
    others = expected_rows([r for r in log.records if r is not victim])
    caught = 0
    for at in range(victim.size):
        flip(log, victim.physical_offset + at)
        what = f"byte {at} of the {which} record"
        try:
            found, _ = read_log(log, verify_crc="all")
        except StoreDamagedError as error:
            caught += 1
            text = str(error)
            assert log.path_of(victim.physical_offset).name in text, f"{what}: {text}"
            assert str(victim.physical_offset) in text, f"{what}: {text}"
        else:
            assert at not in STRUCTURE, f"{what}: {STRUCTURE[at]} was not checked"
            assert not 88 <= at < 88 + len(victim.body), f"{what}: CRC was not checked"
            rest = [r for r in found if r["commitLogOffset"] != victim.physical_offset]
            assert len(found) == len(log.records), what
            assert_same(rest, others, what)
        found, reader = read_log(log, verify_crc="all", on_corruption="skip")
        rest = [r for r in found if r["commitLogOffset"] != victim.physical_offset]
        assert_same(rest, others, f"{what}, skipping")
        if len(found) < len(log.records):
            stats = reader.stats()
            assert (stats["skippedBytes"], stats["damagedParts"]) == (victim.size, 1), what
            ((path, byte, physical, skipped, why),) = reader.damage()
            assert path == str(log.path_of(victim.physical_offset))
            assert byte == (victim.physical_offset - log.base) % log.file_size
            assert (physical, skipped) == (victim.physical_offset, victim.size), what
            assert why
        flip(log, victim.physical_offset + at)
    assert caught >= len(STRUCTURE) + len(victim.body)


@pytest.mark.parametrize("length", [20, 64, 512, 3000])
def test_zeroed_parts(tmp_path: Path, length: int):
    """What a lost page leaves. The end is known, so zeros before it are damage and not the end."""
    pristine = filled(tmp_path / "pristine", 120, file_size=4096)
    for number in range(0, 110, 13):
        start = pristine.records[number].physical_offset + (number % 2) * 20
        log = _copy(pristine, tmp_path / f"log{number}")
        file_end = start - start % log.file_size + log.file_size
        stop = min(start + length, file_end, log.end)
        log.write(start, bytes(stop - start))
        kept = [
            r
            for r in log.records
            if r.physical_offset >= stop or r.physical_offset + r.size <= start
        ]
        what = f"zeros at {start} to {stop}"
        lost = {r.physical_offset for r in log.records} - {r.physical_offset for r in kept}
        assert lost, what
        with pytest.raises(StoreDamagedError, match=log.path_of(start).name):
            read_log(log, verify_crc="all")
        found, reader = read_log(log, verify_crc="all", on_corruption="skip")
        sure = [row for row in found if row["commitLogOffset"] not in lost]
        assert_same(sure, expected_rows(kept), what)
        if len(found) == len(kept):
            assert reader.stats()["damagedParts"] >= 1, what
            assert reader.stats()["skippedBytes"] > 0, what


def _copy(log: Log, folder: Path) -> Log:
    other = Log(folder, log.file_size, log.base)
    other.records, other.end = list(log.records), log.end
    for path in log.folder.iterdir():
        shutil.copy(path, folder)
    return other


def test_a_file_cut_short_in_the_middle_of_the_log(tmp_path: Path):
    log = filled(tmp_path / "log", 120, file_size=4096)
    cut = log.records[40]
    path = log.path_of(cut.physical_offset)
    at = (cut.physical_offset - log.base) % log.file_size
    with path.open("r+b") as file:
        file.truncate(at + cut.size // 2)
    end_of_file = cut.physical_offset - at + log.file_size
    kept = [r for r in log.records if not cut.physical_offset <= r.physical_offset < end_of_file]
    assert len(kept) < len(log.records) - 1
    with pytest.raises(StoreDamagedError, match=path.name):
        read_log(log)
    found, reader = read_log(log, on_corruption="skip")
    assert_same(found, expected_rows(kept), "skipping")
    assert reader.stats()["damagedParts"] == 1


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path: Path):
    """No fault of the memory mapping may kill the process: it is an error that names the file."""
    log = filled(tmp_path / "log", 3000, file_size=1 << 20)
    reader = reader_of(log.files(), 0, log.end, columns=ALL, batch_rows=10)
    assert reader.next_batch() is not None
    path = log.path_of(0)
    with path.open("r+b") as file:
        file.truncate(8192)
    with pytest.raises((StoreDamagedError, OSError), match=path.name):
        batches(reader)


def test_a_file_missing_in_the_middle(tmp_path: Path):
    log = filled(tmp_path / "log", 120, file_size=4096)
    gone = log.path_of(log.records[50].physical_offset)
    start = int(gone.name)
    gone.unlink()
    with pytest.raises(StoreDamagedError, match=str(start)):
        read_log(log)


def test_a_torn_last_record(tmp_path: Path):
    """Whatever part of it the writer has written so far: the log ends before it."""
    log = filled(tmp_path / "log", 61, file_size=1 << 16)
    last = log.records[-1]
    data = encode_record(last)
    before = expected_rows(log.records[:-1])
    for written in range(last.size):
        log.write(last.physical_offset, data[:written] + bytes(last.size - written))
        end, _ = segment_end(log.files())
        assert end == last.physical_offset, f"{written} of {last.size} bytes written"
        for start in (log.records[0], log.records[30], log.records[-2]):
            end, _ = segment_end(log.files(), start.physical_offset)
            assert end == last.physical_offset, f"{written} bytes, from {start.physical_offset}"
        assert_same(read(log.files(), 0, end, columns=ALL), before, f"{written} bytes")
    log.write(last.physical_offset, bytes(4) + data[4:])  # a writer that publishes the length last
    assert segment_end(log.files())[0] == last.physical_offset
    log.write(last.physical_offset, data)
    assert segment_end(log.files())[0] == log.end


def test_a_torn_first_record_of_a_new_file(tmp_path: Path):
    log = filled(tmp_path / "log", 200, file_size=4096)
    while log.path_of(log.records[-1].physical_offset) == log.path_of(
        log.records[-2].physical_offset
    ):
        log.append(record(len(log.records)))
    last = log.records[-1]
    data = encode_record(last)
    file_start = int(log.path_of(last.physical_offset).name)
    for written in (0, 3, 4, 8, 50, last.size - 1):
        log.write(last.physical_offset, data[:written] + bytes(last.size - written))
        end, _ = segment_end(log.files())
        assert log.records[-2].physical_offset + log.records[-2].size <= end <= file_start
        found = read(log.files(), 0, end, columns=ALL)
        assert_same(found, expected_rows(log.records[:-1]), f"{written} bytes")
    log.path_of(last.physical_offset).write_bytes(b"")
    end, _ = segment_end(log.files())
    assert end <= file_start


def test_garbage_behind_the_last_record(tmp_path: Path):
    """With nothing valid behind it, it is a torn tail."""
    log = filled(tmp_path / "log", 50, file_size=1 << 16)
    for garbage in (b"\xff" * 400, encode_record(log.records[3]), b"\x00\x00\x01\x00" * 90):
        log.write(log.end, garbage)
        end, why = segment_end(log.files())
        assert end == log.end
        assert why
        log.write(log.end, bytes(len(garbage)))
    assert segment_end(log.files()) == (log.end, "")


def _hostile(chance_of: int, older: list[bytes]) -> bytes:
    """A body that holds what looks like the start of a record."""
    whole = older[chance_of * 7 % len(older)]
    magic = whole[4:8]
    return (
        magic * (chance_of % 5),
        whole,
        whole[1:] + whole,
        whole[:60],
        b"\x00\x00\x00\x08\xcb\xd4\x31\x94",
        b"\xcb\xd4\x31\x94" * 3 + whole,
        whole + whole[:8],
    )[chance_of % 7]


def test_copies_of_records_in_bodies_do_not_pass_for_records(tmp_path: Path):
    """Cut anywhere, each byte of the log in turn: only real records are found, each once."""
    log, older = Log(tmp_path / "log", 4096), []
    for number in range(42):
        made = record(number)
        if older:
            made = replace(made, body=_hostile(number, older) + made.body)
        older.append(encode_record(log.append(made)))
    expected = expected_rows(log.records)
    for step in (61, 64, 500):
        found = []
        for start, end in cuts(0, log.end, step):
            found += read(log.files(), start, end, columns=ALL)
        assert_same(found, expected, f"cuts of {step}")
    owned = {row["commitLogOffset"]: row for row in expected}
    for start in range(log.end):
        found = read(log.files(), start, start + 1, columns=["commitLogOffset"])
        assert [r["commitLogOffset"] for r in found] == [start] * (start in owned), start


def test_damage_at_the_edge_of_a_range_is_reported_once(tmp_path: Path):
    """Skipping: the parts of all ranges add up to what one read of the whole says."""
    log = filled(tmp_path / "log", 100, file_size=4096)
    for number in (20, 21, 60):
        flip(log, log.records[number].physical_offset + 4)
    kept = expected_rows([r for n, r in enumerate(log.records) if n not in (20, 21, 60)])
    for step in (200, 1000, log.end):
        found, skipped = [], 0
        for start, end in cuts(0, log.end, step):
            reader = reader_of(
                log.files(), start, end, log_end=log.end, columns=ALL, on_corruption="skip"
            )
            found += [row for batch in batches(reader) for row in from_arrow(batch)]
            skipped += reader.stats()["skippedBytes"]
        assert_same(found, kept, f"cuts of {step}")
        assert skipped == sum(log.records[n].size for n in (20, 21, 60)), f"cuts of {step}"


def test_text_that_is_no_utf8(tmp_path: Path):
    log = Log(tmp_path / "log")
    log.append(
        record(
            0, properties_raw=b"TAGS\x01\xff\xfe\x02KEYS\x01ok \xc3\x28\x02name\xff\x01\xf0\x9f\x02"
        )
    )
    log.append(
        record(
            1, properties_raw=b"\x02\x02=\x01\x02a\x02TAGS\x01x\x02TAGS\x01y\x02\x01z\x02p\x01last"
        )
    )
    log.append(record(2, properties_raw=b""))
    assert_same(read(log.files(), 0, log.end, columns=ALL), expected_rows(log.records), "odd text")


def test_bodies_that_do_not_inflate(tmp_path: Path):
    log = Log(tmp_path / "log", 8192)
    for flag in (0x1, 0x301, 0x101, 0x201, 0x401, 0x701):
        log.append(record(flag, sys_flag=flag, body=b"neither of these formats"))
        log.append(record(flag + 1))
    with pytest.raises(StoreDamagedError, match="0"):
        read_log(log)
    found, _ = read_log(log, decompress=False)
    assert [row["body"] for row in found] == [r.body for r in log.records]
