"""How far a member is that gets all messages: in a file of its own. [LocalFileOffsetStore]

`FOLDER/CLIENT_ID/GROUP/offsets.json` in the form of RocketMQ's Java client, which reads it as well;
beside it `offsets.json.bak`, the one before.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import trio

from pyrmq.client.offset_table import decode_table, encode_table
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.escape import escape
from pyrmq.model.message import MessageQueue
from pyrmq.net import durable_file, fastjson

log = logging.getLogger(__name__)

FOLDER = Path("~/.rocketmq_offsets")
_in_use: set[Path] = set()


class LocalOffsets:
    """`open` reads the file, `close` lets another consumer of this process have it."""

    def __init__(self, folder: Path | str | None, client_id: str, group: str) -> None:
        root = Path(folder) if folder is not None else FOLDER
        self.path = root.expanduser() / client_id / group / "offsets.json"
        self._offsets: dict[MessageQueue, int] = {}
        self._changed = False
        self._writing = trio.Lock()

    async def open(self) -> None:
        """ClientError if there is a file that cannot be read, or that another consumer has."""
        if self.path in _in_use:
            raise ClientError(
                f"{self.path} is another consumer's of this process: give one of them an "
                "instance_name"
            )
        _in_use.add(self.path)
        try:
            self._offsets = await trio.to_thread.run_sync(_read, self.path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        _in_use.discard(self.path)

    async def read(self, queue: MessageQueue) -> int | None:
        await trio.lowlevel.checkpoint()
        return self._offsets.get(queue)

    async def reach(self, queue: MessageQueue) -> bool:
        return True

    async def write(self, queue: MessageQueue, offset: int) -> str:
        await trio.lowlevel.checkpoint()
        self._offsets[queue] = offset
        self._changed = True
        return self.keeper(queue)

    def keeper(self, queue: MessageQueue) -> str:
        return str(self.path)

    async def find_keeper(self, queue: MessageQueue) -> None:
        """It is this file."""

    async def flush(self) -> None:
        """Writes the file, if an offset has changed; a failure is logged."""
        async with self._writing:
            if not self._changed:
                return
            self._changed = False
            try:
                await trio.to_thread.run_sync(_write, self.path, dict(self._offsets))
            except OSError as e:
                self._changed = True
                log.error("offsets not written: %s", escape(e))


def _read(path: Path) -> dict[MessageQueue, int]:
    """The file, or the one before if it is not there or damaged."""
    failure: Exception | None = None
    for candidate in (path, _backup(path)):
        try:
            data = candidate.read_bytes()
            if data.strip():
                return decode_table(fastjson.loads_object(data).get("offsetTable"))
        except FileNotFoundError:
            continue
        except (OSError, ProtocolError) as e:
            failure = e
            log.error("offsets in %s cannot be read: %s", escape(candidate), escape(e))
    if failure is not None:
        raise ClientError(
            f"offsets in {path} cannot be read: {failure}; repair or remove the file"
        ) from failure
    return {}


def _write(path: Path, offsets: Mapping[MessageQueue, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    durable_file.write(fresh, fastjson.parts({"offsetTable": encode_table(offsets)}, "\n"))
    if path.exists():
        os.replace(path, _backup(path))
    os.replace(fresh, path)
    durable_file.sync_folder(path.parent)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
