"""The brokers that commands have seen, in a small file of the user's, by name server.

`$PYRMQ_STATE`, or `pyrmq/brokers.json` below `$XDG_STATE_HOME` (`~/.local/state`). An empty
PYRMQ_STATE keeps nothing. What cannot be written is not kept; what cannot be read is told and
begun anew.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyrmq.admin.expected import MAX_NAME, MAX_SEEN, Expectation, Expected, Place, Seen
from pyrmq.escape import escape
from pyrmq.model.topic import as_int
from pyrmq.net.address import Address, format_address

log = logging.getLogger(__name__)

MAX_BYTES = 4 << 20
"""Longest file that is read."""
MAX_NAME_SERVERS = 64
"""Name servers of which brokers are kept: those that were asked last."""
FRESH_MS = 60_000
"""A broker that was seen so short a time ago is not written again."""


def path_of(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the file is; None if nothing is to be kept."""
    named = environ.get("PYRMQ_STATE")
    if named is not None:
        return Path(named) if named else None
    state = environ.get("XDG_STATE_HOME")
    home = environ.get("HOME")
    if state:
        return Path(state) / "pyrmq" / "brokers.json"
    return Path(home) / ".local" / "state" / "pyrmq" / "brokers.json" if home else None


class SeenFile:
    """The part of the file that is about some name servers."""

    def __init__(self, path: Path | None, namesrv: Sequence[Address]) -> None:
        self.path = path
        self._servers = [format_address(a) for a in namesrv]
        self._kept: set[Place] = set()
        """What was in the file when it was read or written last."""

    def expected(self, wanted: Iterable[Expectation] = ()) -> Expected:
        """What was seen through one of the name servers, and what is `wanted`. What is noted there
        is kept in the file."""
        before = self._of_servers(self._load())
        self._kept = {s.place for s in before}
        found = Expected(wanted, before)
        found.on_changed = lambda: self._keep(found)
        return found

    def _keep(self, expected: Expected) -> None:
        """Writes what was seen, if it is not there so already. What went from the file meanwhile
        was forgotten by another command, unless it was seen again since."""
        if self.path is None:
            return
        tables = self._load()
        before = {s.place: s for s in self._of_servers(tables)}
        for one in expected.seen:
            forgotten = one.place in self._kept and one.place not in before
            if forgotten and one.at < max(s.at for s in expected.seen):
                expected.drop(one.place)
        seen = expected.seen
        if not (len(before) == len(seen) and all(_is_kept(one, before) for one in seen)):
            self._put(tables, seen)
        self._kept = {s.place for s in seen}

    def _put(self, tables: dict[str, list[Any]], seen: Iterable[Seen]) -> None:
        rows = [_row(s) for s in seen]
        for server in self._servers:
            tables.pop(server, None)
            tables[server] = rows
        for server in list(tables)[:-MAX_NAME_SERVERS]:
            del tables[server]
        with suppress(OSError):
            self._write(tables)

    def forget(self, broker_name: str) -> int:
        """Forgets the brokers of a name; how many there were. OSError if the file cannot be
        written."""
        tables = self._load()
        known = {s.place: s for s in self._of_servers(tables)}
        left = [s for s in known.values() if s.broker_name != broker_name]
        if len(left) < len(known):
            for server in self._servers:
                tables[server] = [_row(s) for s in left]
            self._write(tables)
        return len(known) - len(left)

    def _of_servers(self, tables: Mapping[str, Any]) -> list[Seen]:
        rows = [row for server in self._servers for row in tables.get(server, ())]
        return [s for s in map(_seen, rows[: 4 * MAX_SEEN]) if s is not None]

    def _load(self) -> dict[str, list[Any]]:
        """The rows by name server; none for a file that is missing or invalid."""
        if self.path is None:
            return {}
        try:
            with self.path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as e:
            log.warning("%s cannot be read: %s", escape(str(self.path)), escape(e))
            return {}
        try:
            found = json.loads(raw) if len(raw) <= MAX_BYTES else None
        except (ValueError, RecursionError):
            found = None
        tables = found.get("namesrv") if isinstance(found, dict) else None
        if not isinstance(tables, dict):
            log.warning(
                "%s is not what pyrmq wrote: what was seen before is not known",
                escape(str(self.path)),
            )
            return {}
        return {str(k): v for k, v in tables.items() if isinstance(v, list)}

    def _write(self, tables: Mapping[str, Any]) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(number, "w") as file:
                json.dump({"namesrv": tables}, file)
            os.replace(name, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def _is_kept(one: Seen, before: Mapping[Place, Seen]) -> bool:
    known = before.get(one.place)
    return known is not None and known.address == one.address and one.at - known.at < FRESH_MS


def _row(seen: Seen) -> list[Any]:
    return [seen.cluster, seen.broker_name, seen.broker_id, seen.address, seen.at]


def _seen(row: Any) -> Seen | None:
    """A row of the file; None for what is none."""
    if not isinstance(row, list) or len(row) != 5:
        return None
    cluster, name, number, address, at = row
    texts = (cluster, name, address)
    if not all(isinstance(t, str) and len(t) <= MAX_NAME for t in texts) or not name:
        return None
    return Seen(cluster, name, max(as_int(number, 0), 0), address, max(as_int(at, 0), 0))
