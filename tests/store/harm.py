"""Damage done to the golden store of RocketMQ, one kind a function."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from tests.store.tools import log_file, overwrite

INDEX_SLOTS = 500
"""Slots of an index file in that archive."""
Damage = Callable[[Path], tuple[str, str, int | None, str]]
"""Breaks the golden store; kind, path, byte and a word of the finding that must be there."""


def index_file(root: Path) -> Path:
    (path,) = (root / "index").iterdir()
    return path


def entry_at(number: int) -> int:
    return 40 + INDEX_SLOTS * 4 + number * 20


def flip(path: Path, at: int, bit: int = 1) -> None:
    overwrite(path, at, bytes([path.read_bytes()[at] ^ bit]))


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


HARMS: list[Damage] = [
    body_flipped, length_flipped, magic_flipped, place_flipped, queue_offset_flipped,
    queue_id_flipped, entry_offset_flipped, entry_size_flipped, entry_tag_flipped,
    delivery_time_flipped, entry_emptied, entries_swapped, entry_of_another_queue,
    entry_behind_the_log, queue_folder_gone, queue_file_gone, queue_file_short, log_file_short,
    log_file_gone, last_record_flipped, index_place_flipped, index_place_far_away,
    index_hash_flipped, index_time_flipped, index_chain_flipped, index_slot_flipped,
    index_header_flipped, index_short, checkpoint_short, config_and_backup_bad,
]  # fmt: skip
