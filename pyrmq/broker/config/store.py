"""The keys of the store: its files, the index, retention, durability and limits.
[MessageStoreConfig]"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pyrmq.broker.config.service import ServiceConfig
from pyrmq.config.table import FOLDERS, key

_DAY = 86_400_000
"""Milliseconds."""


def _paths(text: str) -> list[Path]:
    return [Path(part.strip()).expanduser() for part in text.split(",") if part.strip()]


def _hours(text: str) -> list[int]:
    hours = text.split(";") if re.fullmatch(r"\d{1,2}(;\d{1,2})*", text) else ["99"]
    if max(map(int, hours)) > 23:
        raise ValueError("hours from 00 to 23 expected, separated by ';'")
    return [int(hour) for hour in hours]


@dataclass(frozen=True, slots=True)
class StoreConfig(ServiceConfig):
    """The part of BrokerConfig about the store; times are ms, sizes bytes."""

    store_path_root_dir: Path = key(  # noqa: RUF009
        lambda: Path.home() / "store", "Folder of the store.", shown="~/store", section="Files"
    )
    store_path_commit_log: str = key(
        "",
        "Folders of the log; empty: commitlog below storePathRootDir.",
        values=FOLDERS,
    )
    read_only_commit_log_store_paths: str = key(
        "", "Of these, those that get no new files.", values=FOLDERS
    )
    mapped_file_size_commit_log: int = key(
        1 << 30, "Bytes of a log file.", low=4096, high=(1 << 31) - 1
    )
    mapped_file_size_consume_queue: int = key(
        300_000 * 20, "Bytes of a queue file; an entry has 20.", low=20, high=1 << 30
    )
    mapper_file_size_batch_consume_queue: int = key(
        300_000 * 46, "Bytes of a batch queue file; an entry has 46.", low=46, high=1 << 30
    )
    enable_consume_queue_ext: bool = key(
        False, "Whether queues have extension files (consumequeue_ext)."
    )
    mapped_file_size_consume_queue_ext: int = key(
        48 << 20, "Bytes of an extension file.", low=4096, high=1 << 30
    )
    warm_maped_file_enable: bool = key(
        False,
        "Whether the log file that is written and the next one are held in memory, whole (mlock).",
    )

    page_cache_drop_behind: bool = key(
        False,
        "Whether the kernel gives up log files that all connected consumers have read. "
        "Not RocketMQ's.",
    )

    message_index_enable: bool = key(True, "Whether keys are indexed.", section="Index")
    max_hash_slot_num: int = key(5_000_000, "Hash slots of an index file.", low=1, high=100_000_000)
    max_index_num: int = key(20_000_000, "Entries of an index file.", low=2, high=100_000_000)
    default_query_max_num: int = key(
        32,
        "Most messages that a query by message id (unique key) finds. A query by key says itself "
        "how many it wants, up to 64.",
        low=1,
        high=64,
        live=True,
    )

    file_reserved_time: int = key(
        72,
        "Hours after its last change that a log file is kept.",
        high=1_000_000,
        section="Retention ([store.md](store.md))",
    )
    delete_when: str = key(
        "04",
        "Hours of the day, local time, at which expired files are deleted.",
        check=_hours,
        values="00 to 23, separated by `;`",
    )
    disk_max_used_space_ratio: int = key(
        75, "% of a disk in use above which expired files are deleted at any hour.", high=100
    )
    disk_space_clean_forcibly_ratio: int = key(
        85, "% of a disk in use above which files are deleted before they expire.", high=100
    )
    disk_space_warning_level_ratio: int = key(
        90, "% of a disk in use above which messages are refused.", high=100
    )
    clean_file_forcibly_enable: bool = key(True, "Whether diskSpaceCleanForciblyRatio applies.")
    clean_resource_interval: int = key(
        10_000, "ms between two passes that delete files.", low=1, high=_DAY
    )
    delete_commit_log_files_interval: int = key(
        100, "ms between two log files that are deleted.", high=60_000
    )
    delete_file_batch_max: int = key(10, "Most log files that a pass deletes.", low=1, high=10_000)

    flush_disk_type: str = key(
        "ASYNC_FLUSH",
        "When a send is answered: before, or after its record is on disk.",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
        section="Durability",
    )
    flush_interval_commit_log: int = key(
        500, "ms between flushes of the log with ASYNC_FLUSH.", low=1, high=3_600_000
    )
    os_page_cache_busy_time_out_mills: int = key(
        1000,
        "ms that a write of the log may take before messages are refused (SYSTEM_BUSY).",
        low=10,
        high=3_600_000,
    )
    flush_interval_consume_queue: int = key(
        1000, "ms between flushes of the queues.", low=1, high=3_600_000
    )
    flush_consume_queue_least_pages: int = key(
        2,
        "With more than 256 queues to flush those with fewer new pages wait.",
        high=1 << 20,
    )
    flush_consume_queue_thorough_interval: int = key(
        60_000, "ms that these wait at most.", high=_DAY
    )
    sync_flush_timeout: int = key(
        5000, "ms after which SYNC_FLUSH answers FLUSH_DISK_TIMEOUT.", low=1, high=600_000
    )
    check_crc_on_recover: bool = key(
        True, "Whether the CRC of bodies is checked at start.", name="checkCRCOnRecover"
    )

    max_message_size: int = key(
        4 << 20,
        "Most bytes of a body. With its properties it has 16711168 at most.",
        low=1,
        high=16 << 20,
        section="Limits",
    )
    max_filter_message_size: int = key(
        16_000, "Most bytes of queue entries that one pull examines.", low=20, high=1 << 30
    )
    access_message_in_memory_max_ratio: int = key(
        40, "% of the machine's memory: newer messages count as in memory.", high=100
    )
    new_queues_from_first_message: bool = key(
        True,
        "A group that has offsets in a topic starts queues of it in which it has none at their "
        "first message. false: where its client says, as with Apache's broker.",
    )
    max_transfer_bytes_on_message_in_memory: int = key(
        256 << 10, "Most bytes of a pull's answer from memory.", low=100, high=1 << 30
    )
    max_transfer_count_on_message_in_memory: int = key(
        32, "Most messages of a pull's answer from memory.", low=1, high=256
    )
    max_transfer_bytes_on_message_in_disk: int = key(
        64 << 10, "Most bytes of a pull's answer from disk.", low=100, high=1 << 30
    )
    max_transfer_count_on_message_in_disk: int = key(
        8, "Most messages of a pull's answer from disk.", low=1, high=256
    )

    @property
    def hours(self) -> list[int]:
        """deleteWhen as numbers."""
        return _hours(self.delete_when)

    @property
    def commit_log_dirs(self) -> list[Path]:
        """The folders of storePathCommitLog, a list with commas; default: below the root."""
        return _paths(self.store_path_commit_log) or [self.store_path_root_dir / "commitlog"]

    @property
    def read_only_commit_log_dirs(self) -> list[Path]:
        return _paths(self.read_only_commit_log_store_paths)

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == "SYNC_FLUSH"
