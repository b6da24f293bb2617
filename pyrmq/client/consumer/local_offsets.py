"""Offsets of a broadcasting member, in a file of its own. [LocalFileOffsetStore]

`FOLDER/CLIENT_ID/GROUP/offsets.json` in the format of RocketMQ's Java client, which can read it
too. `offsets.json.bak` is the previous version. When a damaged file is replaced, it is kept as
`offsets.json.damaged`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import trio

from pyrmq.client.consumer.offsets import decode_table, encode_table
from pyrmq.config import files
from pyrmq.errors import ClientError, ProtocolError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.message import MessageQueue
from pyrmq.net import fastjson

log = logging.getLogger(__name__)

FOLDER = Path("~/.rocketmq_offsets")
_in_use: set[Path] = set()


class LocalOffsets:
    """`open` reads the file; `close` lets another consumer of this process use it."""

    def __init__(self, folder: Path | str | None, client_id: str, group: str) -> None:
        root = Path(folder) if folder is not None else FOLDER
        self.path = root.expanduser() / client_id / group / "offsets.json"
        self._offsets: dict[MessageQueue, int] = {}
        self._topics: set[str] = set()
        """Topics with offsets in the file."""
        self._is_damaged = self._keep_damaged = False
        """Whether the file that was read is damaged and still there."""
        self._changed = False
        self._writing = trio.Lock()

    async def open(self) -> None:
        """Raises ClientError if the file may not be read, or if another consumer uses it. If the
        file is damaged, it reads the previous version and logs that; nothing is skipped, but
        messages may come again."""
        if self.path in _in_use:
            raise ClientError(
                f"{self.path} is another consumer's of this process: give one of them an "
                "instance_name"
            )
        _in_use.add(self.path)
        try:
            found, self._is_damaged = await trio.to_thread.run_sync(_read, self.path)
        except BaseException:
            self.close()
            raise
        self._offsets = found
        self._keep_damaged = self._is_damaged
        self._topics = {queue.topic for queue in found}

    def close(self) -> None:
        _in_use.discard(self.path)

    async def read(self, queue: MessageQueue) -> int | None:
        await trio.lowlevel.checkpoint()
        return self._offsets.get(queue)

    async def has_any(self, topic: str) -> bool:
        """A damaged file may have had some."""
        await trio.lowlevel.checkpoint()
        return self._is_damaged or topic in self._topics

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
        """The file itself."""

    async def flush(self) -> None:
        """Writes the file if an offset has changed; logs a failure."""
        async with self._writing:
            if not self._changed:
                return
            self._changed = False
            try:
                former = _beside(self.path, "damaged" if self._keep_damaged else "bak")
                await trio.to_thread.run_sync(_write, self.path, dict(self._offsets), former)
                self._keep_damaged = False
            except OSError as e:
                self._changed = True
                log.error("offsets not written: %s", escape(e))


def _read(path: Path) -> tuple[dict[MessageQueue, int], bool]:
    """The offsets in the file, or in the previous version if the file is missing or damaged; and
    whether it is damaged, so that there may have been more."""
    damage = ""
    for candidate in (path, _beside(path, "bak")):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as e:
            raise ClientError(f"offsets in {candidate} cannot be read: {e}") from e
        try:
            if not data.strip(b"\0\t\r\n "):
                raise ProtocolError(f"{len(data)} bytes without an offset")
            found = decode_table(fastjson.loads_object(data).get("offsetTable"))
        except ProtocolError as e:
            damage = damage or str(e)
            log.error(
                "offsets in %s are damaged: %s",
                escape(candidate),
                escape(e),
                extra=about(path=candidate),
            )
            continue
        if damage:
            log.error(
                "offsets of %s are used, which are older: messages may come again; queues that it "
                "does not have are read from their first message",
                escape(candidate),
                extra=about(path=candidate),
            )
        return found, bool(damage)
    if damage:
        log.error(
            "there is no other file of these offsets: all queues are read from their first message"
        )
    return {}, bool(damage)


def _write(path: Path, offsets: Mapping[MessageQueue, int], former: Path) -> None:
    """`former`: the new name of the existing file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = _beside(path, "tmp")
    files.write(fresh, fastjson.parts({"offsetTable": encode_table(offsets)}, "\n"))
    if path.exists():
        os.replace(path, former)
    os.replace(fresh, path)
    files.sync_folder(path.parent)


def _beside(path: Path, extension: str) -> Path:
    return path.with_name(f"{path.name}.{extension}")
