"""Base of the broker's tables that live in a configuration file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.rows import Rows
from pyrmq.model.topic import DataVersion
from pyrmq.net import fastjson


class PersistentTable:
    """A table with a file. `changed` marks it; `save_if_changed` writes it in a worker thread.

    What may grow large is kept in `Rows`: encoding it whole would hold the loop, and a thread that
    encodes takes the GIL from the loop just the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changed = False
        self._lock = trio.Lock()
        self.on_changed: Callable[[], None] | None = None
        """Called behind every change."""

        self._others: dict[Any, fastjson.Raw] = {}
        """Members of the file that are no part of the table."""
        self._version: dict[Any, Any] = {}
        """The same of its dataVersion."""

    def load(self, *known: str) -> config_file.Content:
        """The content of the file. Its members that are not `known` are written again as they are,
        whenever the file is. ConfigError if it cannot be read. Blocking."""
        content = config_file.load(self.path)
        self._others = content.others(known)
        version = content.get("dataVersion")
        if isinstance(version, dict):
            ours = DataVersion().to_json()
            self._version = {key: value for key, value in version.items() if key not in ours}
        return content

    def changed(self) -> None:
        self._changed = True
        if self.on_changed is not None:
            self.on_changed()

    def to_json(self) -> dict[str, Any]:
        """The content of the file as it is in this moment, with frozen `Rows` as members."""
        raise NotImplementedError

    def _whole(self) -> dict[Any, Any]:
        """`to_json`, and what others wrote into the file."""
        content: dict[Any, Any] = self.to_json()
        if self._version and "dataVersion" in content:
            content["dataVersion"] = self._version | content["dataVersion"]
        return self._others | content

    async def encoded(self) -> bytes:
        """The content of the file as it would be written now."""
        async with self._lock:
            content = self.to_json()
            for value in content.values():
                if isinstance(value, Rows):
                    await value.encode()
            return await trio.to_thread.run_sync(lambda: b"".join(fastjson.parts(content)))

    async def save_if_changed(self) -> None:
        """Writes the file if something changed since it was written last."""
        async with self._lock:
            if self._changed:
                self._changed = False
                try:
                    content = self._whole()
                    for value in content.values():
                        if isinstance(value, Rows):
                            await value.encode()
                    await trio.to_thread.run_sync(config_file.save, self.path, content)
                except BaseException:
                    self._changed = True
                    raise
