"""What the config folder of a store says: its topics, and its broker's name. [ConfigManager]"""

from __future__ import annotations

import json
import logging
import posixpath
from typing import Any

from pyrmq.errors import SegmentError
from pyrmq.escape import escape
from pyrmq.model import broker_name
from pyrmq.model.topic import MAX_QUEUES, TopicConfig
from pyrmq.segments.filesystem import FileSystem, LocalFiles

log = logging.getLogger("pyrmq.segments")

_SHOWN = 3
_MAX_JSON = 64 << 20
"""Bytes of a file that are still read: a topics.json of 40,000 topics has some 10 MB."""


def topics(files: FileSystem | LocalFiles, config: str) -> set[str] | None:
    """Topics of topics.json; None if it cannot be read."""
    table = _table(files, config)
    return None if table is None else {name for name in table if isinstance(name, str)}


def queue_counts(files: FileSystem | LocalFiles, config: str) -> dict[str, int] | None:
    """By topic how many queues topics.json says that it has; None if it cannot be read."""
    table = _table(files, config)
    if table is None:
        return None
    out = {}
    for name, row in table.items():
        if isinstance(name, str) and isinstance(row, dict):
            topic = TopicConfig.from_json(name, row)
            count = max(topic.read_queue_nums, topic.write_queue_nums)
            out[name] = min(max(count, 0), MAX_QUEUES)
    return out


def told_name(files: FileSystem | LocalFiles, base: str, root: str) -> str | None:
    """The broker name that the config folder of the store folder `base` tells; None where it tells
    none. `root` is the store's name in messages."""
    if not base:
        log.info("%s: there is no config folder: its folder names the broker", escape(root))
        return None
    config = posixpath.join(base, "config")
    own = _json(files, posixpath.join(config, broker_name.FILE))
    names = broker_name.told(own, _table(files, config))
    if len(names) == 1:
        name = names.pop()
        log.info("%s: its config folder says that its broker is %s", escape(root), escape(name))
        return name
    if names:
        shown = ", ".join(sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        log.warning(
            "%s: config/topics.json names several brokers, %s: its folder names the broker",
            escape(root),
            escape(shown),
        )
    else:
        log.info("%s: its config folder names no broker: its folder does", escape(root))
    return None


def _table(files: FileSystem | LocalFiles, config: str) -> dict[Any, Any] | None:
    found = _json(files, posixpath.join(config, "topics.json"))
    table = found.get("topicConfigTable") if isinstance(found, dict) else None
    return table if isinstance(table, dict) else None


def _json(files: FileSystem | LocalFiles, path: str) -> Any:
    """A file, or its `.bak` where it is not there, as while a broker replaces it; None if neither
    can be read."""
    for one in (path, f"{path}.bak"):
        try:
            if files.kind(one) == "file" and files.size(one) <= _MAX_JSON:
                with files.open(one) as file:
                    return json.loads(bytes(file.read()))
        except (OSError, ValueError, RecursionError, SegmentError) as error:
            log.warning("%s cannot be read: %s", escape(one), escape(error))
    return None
