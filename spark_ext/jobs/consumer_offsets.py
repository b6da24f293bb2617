"""How far groups have consumed, from the files that a broker keeps. [ConsumerOffsetManager]"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyrmq.errors import ProtocolError
from pyrmq.net import fastjson
from spark_ext.jobs.errors import JobError

FILES = ("consumerOffset.json", "consumerOffset.json.bak", "lmqConsumerOffset.json")
"""In `config` of a store root, the first that can be read; the last is used with enableLmq."""
MAX_SIZE = 256 << 20

Row = tuple[str, str, str, int, int]
"""brokerName, group, topic, queueId, next offset to consume"""
SCHEMA = "brokerName string, group string, topic string, queueId int, consumerOffset bigint"


def _read(path: Path) -> dict[object, object] | None:
    try:
        if path.stat().st_size > MAX_SIZE:
            raise JobError(f"{path} has more than {MAX_SIZE} bytes: it cannot be what it should be")
        return fastjson.loads_object(path.read_bytes(), MAX_SIZE)
    except FileNotFoundError:
        return None


def read_offsets(root: Path, broker: str) -> list[Row]:
    """What a store root's configuration says. The broker writes it every 5 seconds: progress that
    is younger is not in it. JobError if there is no file that can be read."""
    damaged = []
    for name in FILES:
        path = root / "config" / name
        try:
            value = _read(path)
        except ProtocolError as e:
            damaged.append(f"{path}: {e}")
            continue
        except OSError as e:
            raise JobError(f"{path} cannot be read: {e.strerror or e}") from e
        if value is not None:
            return list(_rows(value, broker))
    if damaged:
        raise JobError("; ".join(damaged))
    raise JobError(
        f"{root} has no config/{FILES[0]}: lag needs a store root as the broker left it, "
        "or --offsets with the file's place; a broker without consumers has none"
    )


def _rows(value: dict[object, object], broker: str) -> Iterator[Row]:
    table = value.get("offsetTable")
    for key, queues in (table if isinstance(table, dict) else {}).items():
        # A topic holds no `@`; the keys of queues may be numbers or text.
        topic, found, group = str(key).partition("@")
        if not found or not isinstance(queues, dict):
            continue
        for queue, offset in queues.items():
            try:
                row = broker, group, topic, int(queue), int(offset)
            except (TypeError, ValueError):
                continue
            if 0 <= row[3] < 1 << 31 and abs(row[4]) < 1 << 63:
                yield row
