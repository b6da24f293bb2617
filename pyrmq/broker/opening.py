"""What a broker needs before it serves: its addresses, its name beside the store, and the store.

Clients get brokerIP1 with their routes, slaves brokerIP2. Readers of the store's files find the
broker's name in config/brokerName.json. RocketMQ's broker does not know that file and leaves it
alone.

The engine's store is opened as the configuration says. The engine sees one file of a wrong size,
which may have been cut. If its neighbours have the same size, the configuration has changed: mostly
`-c` was forgotten."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.config.service import SYNC_MASTER
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.consumer_filters import bitmap_len
from pyrmq.engine import Store
from pyrmq.errors import ConfigError, StoreDamagedError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model import broker_name
from pyrmq.model.topic import PERM_INHERIT, TopicConfig
from pyrmq.net.address import Address, format_address, is_loopback, own_ip, resolve

log = logging.getLogger(__name__)

WILDCARDS = ("", "0.0.0.0", "::")


def with_addresses(config: BrokerConfig) -> BrokerConfig:
    """The configuration with numeric addresses as brokerIP1 and brokerIP2; blocking. A name is
    resolved once: records hold the address in numbers. ConfigError for one without an address."""
    return replace(
        config,
        broker_ip1=_resolved("brokerIP1", config.broker_ip1) or _found(config.bind_address),
        broker_ip2=_resolved("brokerIP2", config.broker_ip2),
    )


def _resolved(key: str, host: str) -> str:
    if not host:
        return ""
    try:
        found = resolve(host)
    except ConfigError as e:
        raise ConfigError(f"{key}={host}: {e}") from e
    if found != host:
        log.info("%s=%s is %s", escape(key), escape(host), found)
    return found


def _found(bind: str) -> str:
    """The address that others most likely reach a broker under that listens there."""
    if bind not in WILDCARDS:
        return resolve(bind)
    found = own_ip()
    if is_loopback(found):
        found = _of_host_name() or found
    if is_loopback(found):
        log.warning(
            "no network was found: the broker announces %s, which only clients on this machine "
            "reach; set brokerIP1 to the address that others reach",
            found,
        )
    return found


def _of_host_name() -> str:
    """Of a machine without a route to other networks, such as a container on an internal one."""
    try:
        found = resolve(socket.gethostname())
    except ConfigError:
        return ""
    return "" if is_loopback(found) else found


def write_name(folder: Path, name: str, topics: Iterable[TopicConfig]) -> None:
    """Keeps a broker's name in its config folder, at start. A broker runs without it as well.

    Before topics.json is saved with the topic of a new name: a name that only topics.json has is
    that of another broker, which came later.
    """
    path = folder / broker_name.FILE
    rows = {t.topic_name: t.to_json() for t in topics if t.perm & PERM_INHERIT}
    value = broker_name.to_json(name, broker_name.names_in_topics(rows))
    try:
        if _load(path) != value:
            config_file.save(path, value)
    except OSError as e:
        log.warning("%s cannot be written: %s", escape(path), escape(e), extra=about(path=path))


def _load(path: Path) -> dict[Any, Any]:
    try:
        return config_file.load(path)
    except ConfigError:
        return {}  # it is written anew


LOOKED_AT = 1024
"""Files that are compared, at most."""
_KEYS = {
    "consumequeue": "mappedFileSizeConsumeQueue",
    "consumequeue_ext": "mappedFileSizeConsumeQueueExt",
    "batchconsumequeue": "mapperFileSizeBatchConsumeQueue",
}
"""By the folder below storePathRootDir."""
HOUR = 3_600_000


def explained(error: StoreDamagedError, root: Path) -> StoreDamagedError | ConfigError:
    """The error that says what to do about a file of a wrong size; `error` itself where it is about
    something else, or where other files have the size that is configured."""
    size = error.configured_size
    if error.path is None or size is None:
        return error
    folder, key, files = _alike(Path(error.path), root)
    lengths = _lengths(files)
    if len(set(lengths)) != 1 or lengths[0] == size:
        return error
    length = lengths[0]
    many = f"each of its {len(lengths)} files" if len(lengths) > 1 else "its file"
    remedy = (
        f"{folder}: {many} has {length} bytes, and {key} is {size}. The store was made with "
        f"another configuration: start with that broker.conf (-c), or with {key}={length}"
    )
    if len(lengths) > 1:
        return ConfigError(remedy)
    damaged = StoreDamagedError(f"{remedy}. Only if {size} is right: {error.args[0]}")
    damaged.path, damaged.configured_size = error.path, size
    return damaged


def _alike(path: Path, root: Path) -> tuple[Path, str, Iterable[Path]]:
    """Folder and key of the files that have the size of this one, and some of them."""
    for name, key in _KEYS.items():
        if path.is_relative_to(root / name):
            return root / name, key, (root / name).glob("*/*/*")
    return path.parent, "mappedFileSizeCommitLog", path.parent.glob("*")


def _lengths(files: Iterable[Path]) -> list[int]:
    """The lengths of files that are named after an offset and not empty."""
    named = (file for file in files if file.name.isdecimal() and len(file.name) == 20)
    try:
        return [size for file in islice(named, LOOKED_AT) if (size := file.stat().st_size)]
    except OSError:
        return []


def open_store(config: BrokerConfig, address: Address) -> Store:
    """The engine's store as the configuration wants it; blocking while it recovers."""
    try:
        return _open(config, address)
    except StoreDamagedError as e:
        raise explained(e, config.store_path_root_dir) from e


def _open(config: BrokerConfig, address: Address) -> Store:
    return Store(
        config.store_path_root_dir,
        commit_log_dirs=config.commit_log_dirs,
        read_only_commit_log_dirs=config.read_only_commit_log_dirs,
        commit_log_file_size=config.mapped_file_size_commit_log,
        # Rounded up to whole entries, as RocketMQ does.
        consume_queue_file_size=-(-config.mapped_file_size_consume_queue // 20) * 20,
        batch_queue_file_size=-(-config.mapper_file_size_batch_consume_queue // 46) * 46,
        batch_topics=batch_topics(config),
        index_enable=config.message_index_enable,
        index_slots=config.max_hash_slot_num,
        index_entries=config.max_index_num,
        queue_ext=config.enable_consume_queue_ext,
        queue_ext_file_size=config.mapped_file_size_consume_queue_ext,
        bitmap_len=bitmap_len(config),
        sync_flush=config.sync_flush,
        replica=config.is_slave,
        # Whether one is waited for may change while the broker runs (inSyncReplicas).
        replicated=config.broker_role == SYNC_MASTER,
        slave_timeout=config.slave_timeout,
        flush_interval_commit_log=config.flush_interval_commit_log,
        busy_timeout=config.os_page_cache_busy_time_out_mills,
        flush_interval_consume_queue=config.flush_interval_consume_queue,
        flush_queue_least_pages=config.flush_consume_queue_least_pages,
        flush_queue_thorough_interval=config.flush_consume_queue_thorough_interval,
        warm_mapped_file=config.warm_maped_file_enable,
        message_delay_level=config.message_delay_level,
        max_message_size=config.max_message_size,
        store_host=format_address(address),
        check_crc_on_recover=config.check_crc_on_recover,
        in_memory_ratio=config.access_message_in_memory_max_ratio,
        transfer_memory=(
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
        ),
        transfer_disk=(
            config.max_transfer_bytes_on_message_in_disk,
            config.max_transfer_count_on_message_in_disk,
        ),
        max_filter_bytes=config.max_filter_message_size,
        file_reserved_time=config.file_reserved_time * HOUR,
        delete_when=config.hours,
        disk_max_used_space_ratio=config.disk_max_used_space_ratio,
        disk_space_clean_forcibly_ratio=config.disk_space_clean_forcibly_ratio,
        disk_space_warning_level_ratio=config.disk_space_warning_level_ratio,
        clean_file_forcibly=config.clean_file_forcibly_enable,
        clean_resource_interval=config.clean_resource_interval,
        delete_commit_log_files_interval=config.delete_commit_log_files_interval,
        delete_file_batch_max=config.delete_file_batch_max,
    )


def batch_topics(config: BrokerConfig) -> list[str]:
    """Topics of topics.json whose queues hold inner batches: recovery has to know them."""
    table = config_file.load(config.store_path_root_dir / "config" / "topics.json").get(
        "topicConfigTable"
    )
    rows = table.items() if isinstance(table, dict) else ()
    topics = (TopicConfig.from_json(str(k), v) for k, v in rows if isinstance(v, dict))
    return [topic.topic_name for topic in topics if topic.is_batch]
