"""Reads access files again when they change.

A change counts once the files look the same in two looks, so that a file which is being written is
not read half. What cannot be used changes nothing: the rules of before go on, and the log says so,
once for each change of the files and then once a minute. [AclFileWatchService]
"""

from __future__ import annotations

import logging

import trio

from pyrmq.auth.plain.access import PlainAccess
from pyrmq.auth.plain.files import Fingerprint
from pyrmq.auth.plain.rules import load_rules
from pyrmq.errors import ConfigError
from pyrmq.escape import escape

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two looks."""
SETTLE = 1.0
"""Seconds until the second look at files that have changed."""
REMIND = 60.0
"""Seconds between two lines about files that cannot be used."""


class Watch:
    """A service: `run` until cancelled."""

    def __init__(self, access: PlainAccess) -> None:
        self._access = access
        self._failed_at = -REMIND
        self._failed: Fingerprint | None = None

    async def run(self) -> None:
        # What changed since the start is seen at the first look.
        counts: Fingerprint | None = None
        while True:
            seen = await self._look()
            if seen is not None and seen != counts:
                await trio.sleep(SETTLE)
                if await self._look() == seen and await self._reload(seen):
                    counts = seen
                    continue
            await trio.sleep(INTERVAL)

    async def _look(self) -> Fingerprint | None:
        try:
            return await trio.to_thread.run_sync(self._access.folder.fingerprint)
        except (OSError, ConfigError) as e:
            self._log(None, e)
            return None

    async def _reload(self, seen: Fingerprint) -> bool:
        """Whether the files count now. Files that are as when they were read change nothing."""
        async with self._access.changing:
            return await self._read_again(self._access, seen)

    async def _read_again(self, access: PlainAccess, seen: Fingerprint) -> bool:
        try:
            rules = await trio.to_thread.run_sync(load_rules, access.folder)
            if await trio.to_thread.run_sync(access.folder.fingerprint) != seen:
                return False  # they changed while they were read
        except (OSError, ConfigError) as e:
            self._log(seen, e)
            return False
        if self._failed is not None or rules != access.rules:
            log.info(
                "access files read again: %d accounts, %d addresses of the white list",
                len(rules.accounts),
                len(rules.white),
            )
            access.replace(rules)
        self._failed = None
        return True

    def _log(self, seen: Fingerprint | None, error: Exception) -> None:
        now = trio.current_time()
        if seen == self._failed and now < self._failed_at + REMIND:
            return
        self._failed, self._failed_at = seen, now
        log.error("access files cannot be used, those of before go on: %s", escape(error))
