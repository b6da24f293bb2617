"""Commit logs made by hand, for what no broker writes: damage, copies of records, odd text.

A log is a list of records laid out in files of one size with RocketMQ's filler between them.
[CommitLog.DefaultAppendMessageCallback: a record and 8 bytes must fit, else the file ends]
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.records import MAGIC_V1, MAGIC_V2, Record, encode_record

BLANK = 0xCBD43194
FILLER = 8
BORN, STORED = 1_700_000_000_000, 1_700_000_000_500


def record(number: int, **change: Any) -> Record:
    """Message `number` of a log: four topics, four queues, tags in turn. Offsets come later."""
    tag = ("", "TagA", "TagB", "标签")[number % 4]
    text = f"number\x01{number}\x02UNIQ_KEY\x01{number:032X}\x02"
    if tag:
        text += f"TAGS\x01{tag}\x02"
    if number % 3 == 0:
        text += f"KEYS\x01key-{number} shared\x02"
    made = Record(
        size=0, magic=MAGIC_V1, body_crc=0, queue_id=number // 4 % 4, flag=number % 7,
        queue_offset=number // 16, physical_offset=0, sys_flag=0, born_timestamp=BORN + number,
        born_host=("192.0.2.7", 4711), store_timestamp=STORED + number * 10,
        store_host=("127.0.0.1", 10911), reconsume_times=number % 2, prepared_offset=0,
        body=b"message %d " % number * (1 + number % 9), topic=f"T{number % 4}",
        properties_raw=text.encode(),
    )  # fmt: skip
    made = replace(made, **change)
    return replace(made, magic=MAGIC_V2) if len(made.topic.encode()) > 127 else made


class Log:
    """Files of `file_size` bytes in `folder`, the first one for physical offset `base`.

    records: what was appended, as it is stored. end: the physical offset behind the last record.
    """

    def __init__(self, folder: Path, file_size: int = 4096, base: int = 0) -> None:
        self.folder = folder
        self.file_size = file_size
        self.base = base
        self.end = base
        self.records: list[Record] = []
        folder.mkdir(parents=True)

    def append(self, made: Record, encode: Callable[[Record], bytes] = encode_record) -> Record:
        """Writes a record at the end, on a new file if it does not fit."""
        size = len(encode(made))
        assert size + FILLER <= self.file_size
        left = self.file_size - (self.end - self.base) % self.file_size
        if size + FILLER > left:
            self.write(self.end, struct.pack(">iI", left, BLANK))
            self.end += left
        placed = replace(made, physical_offset=self.end)
        data = encode(placed)
        self.write(self.end, data)
        self.records.append(
            replace(placed, size=size, body_crc=struct.unpack_from(">i", data, 8)[0])
        )
        self.end += size
        return self.records[-1]

    def extend(self, made: Iterable[Record]) -> Log:
        for one in made:
            self.append(one)
        return self

    def path_of(self, offset: int) -> Path:
        """The file that holds a physical offset."""
        start = offset - (offset - self.base) % self.file_size
        return self.folder / f"{start:020d}"

    def write(self, offset: int, data: bytes) -> None:
        """Bytes at a physical offset, within one file."""
        path, at = self.path_of(offset), (offset - self.base) % self.file_size
        assert at + len(data) <= self.file_size
        if not path.exists():
            path.write_bytes(bytes(self.file_size))
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def files(self) -> list[tuple[int, int, str]]:
        """(physical offset, bytes, path) of each file, in order."""
        return [(int(p.name), p.stat().st_size, str(p)) for p in sorted(self.folder.iterdir())]


def filled(folder: Path, count: int = 200, **options: Any) -> Log:
    """A log of `count` plain messages."""
    return Log(folder, **options).extend(record(n) for n in range(count))
