"""Where a log went apart from its master's: on files that the test writes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pyrmq.broker.replication.rejoin import (
    Apart,
    Log,
    cut,
    find,
    put_aside,
)

SIZE = 1000
MAGIC, BLANK = 0xDAA320A7, 0xCBD43194


def record(n: int, length: int = 100) -> bytes:
    return struct.pack(">II", length, MAGIC) + bytes([n]) * (length - 8)


def file_of(*numbers: int, blanked: bool = False) -> bytes:
    content = b"".join(map(record, numbers))
    rest = SIZE - len(content)
    if blanked:
        content += struct.pack(">II", rest, BLANK)
    return content.ljust(SIZE, b"\0")


FULL = file_of(0, 1, 2, 3, 4, 5, 6, 7, 8, blanked=True)


def log_of(folder: Path, *files: bytes, end: int) -> Log:
    folder.mkdir()
    for n, content in enumerate(files):
        (folder / f"{n * SIZE:020}").write_bytes(content)
    return Log.of([folder], SIZE, end)


def master_of(*files: bytes, end: int) -> dict[int, bytes]:
    """By offset the records of a master's log."""
    found = {}
    for n, content in enumerate(files):
        for at in range(0, SIZE, 100):
            piece = content[at : at + 100]
            if n * SIZE + at < end and piece[4:8] == struct.pack(">I", MAGIC):
                found[n * SIZE + at] = piece
    return found


@pytest.mark.parametrize(
    ("own", "own_end", "theirs", "their_end", "expected"),
    [
        ((file_of(0, 1),), 200, (file_of(0, 1, 2),), 300, Apart(200, 0, [])),
        ((file_of(0, 9),), 200, (file_of(0, 1, 2),), 300, Apart(100, 100, [100])),
        ((file_of(0, 1, 2),), 300, (file_of(0),), 100, Apart(100, 200, [100, 200])),
        ((FULL, file_of(1, 9)), 1200, (FULL, file_of(1, 2)), 1200, Apart(1100, 100, [1100])),
        ((FULL, file_of(9)), 1100, (FULL, file_of(1)), 1100, Apart(1000, 100, [1000])),
        ((FULL, file_of()), 1000, (file_of(*range(10)),), 1000, Apart(900, 100, [])),
        ((FULL, file_of()), 1000, (file_of(*range(9)),), 900, Apart(900, 100, [])),
        ((file_of(5),), 100, (file_of(0),), 100, None),
    ],
    ids=[
        "all of it is there",
        "the last one is another",
        "two are missing",
        "in the second file",
        "from the second file on",
        "a record where it is blank",
        "a blank behind the end",
        "nothing of it",
    ],
)
def test_where_it_went_apart(
    tmp_path: Path,
    own: tuple[bytes, ...],
    own_end: int,
    theirs: tuple[bytes, ...],
    their_end: int,
    expected: Apart | None,
) -> None:
    log = log_of(tmp_path / "log", *own, end=own_end)
    master = master_of(*theirs, end=their_end)
    assert find(log, master.get, their_end) == expected


def test_what_is_cut_is_aside(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", FULL, FULL, file_of(1, 2), end=2200)
    apart = Apart(1300, 900, [])
    put_aside(log, apart, tmp_path / "tail")
    assert (tmp_path / "tail").read_bytes() == FULL[300:] + file_of(1, 2)[:200]
    cut(log, apart)
    names = [path.name for path in sorted((tmp_path / "log").iterdir())]
    assert names == [f"{n:020}" for n in (0, 1000)]
    assert (tmp_path / "log" / f"{1000:020}").read_bytes() == FULL[:300] + bytes(700)
    with pytest.raises(FileExistsError):
        put_aside(log, apart, tmp_path / "tail")
