"""Brokers that should exist: those in an `expect` list, and those seen before.

A name server forgets a dead broker after some minutes. After that, nothing shows that the broker
existed, and the rest of the cluster looks complete.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyrmq.errors import BrokerMissingError, ConfigError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.route import MASTER_ID, ClusterInfo
from pyrmq.model.topic import as_int
from pyrmq.net.address import Address, format_address

log = logging.getLogger(__name__)

FORGET = "pyrmq admin cluster forget"
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
            if forgotten and one.place not in expected.there:
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
            log.warning(
                "%s cannot be read: %s",
                escape(str(self.path)),
                escape(e),
                extra=about(path=self.path),
            )
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
                extra=about(path=self.path),
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


MAX_SEEN = 4_096
"""Most remembered brokers; those that were not seen for longest are forgotten first."""
KEEP_MS = 30 * 86_400_000
"""For so long a broker that name servers do not know counts as missing. After that it is
forgotten."""
MAX_EXPECTED = 1_024
MAX_NAME = 255

Place = tuple[str, str, int]
"""Cluster, name and id of a broker."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A broker that should exist. `cluster`: empty for any; `replicas`: the number of master and
    slaves."""

    broker_name: str
    cluster: str = ""
    replicas: int = 1

    @classmethod
    def parse(cls, text: str) -> Expectation:
        """`[CLUSTER/]BROKER[:REPLICAS]`. Raises ConfigError for anything else."""
        name, colon, many = text.strip().rpartition(":")
        if not colon:
            name, many = many, "1"
        cluster, _, broker = name.rpartition("/")
        right = many.isascii() and many.isdecimal() and 1 <= int(many[:9]) <= 64
        if not right or not broker or len(name) > MAX_NAME or any(c.isspace() for c in name):
            raise ConfigError(
                f"{text[:64]!r} is no broker that can be expected: [CLUSTER/]BROKER[:REPLICAS], "
                "such as broker-a or DefaultCluster/broker-a:2"
            )
        return cls(broker, cluster, int(many))


def parse_expected(texts: Iterable[str]) -> list[Expectation]:
    """The brokers of a list. Raises ConfigError."""
    found = [Expectation.parse(text) for text in texts if text.strip()]
    if len(found) > MAX_EXPECTED:
        raise ConfigError(f"more than {MAX_EXPECTED} brokers are expected")
    return found


@dataclass(frozen=True, slots=True)
class Seen:
    """A broker in a name server's answer. `at`: the time of the last one, ms since 1970."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    at: int

    @property
    def place(self) -> Place:
        return self.cluster, self.broker_name, self.broker_id


@dataclass(frozen=True, slots=True, order=True)
class Missing:
    """A broker that should exist and that no name server knows. If only the `expect` list names it,
    `cluster` and `address` are empty and `seen` is 0."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str = ""
    seen: int = 0
    """When it was last seen, ms since 1970."""
    whole: bool = True
    """Whether no broker of this name is there."""
    why: str = "it is expected"
    """Why it should exist, if it was never seen."""
    no_more: str = "take it from the expect list"
    """What to do if it is gone for good."""

    @property
    def label(self) -> str:
        """Its label in the place of an address."""
        number = "" if self.whole else f" id {self.broker_id}"
        if not self.whole and self.broker_id == MASTER_ID:
            number = "'s master"
        return f"{self.broker_name}{number}" + (f" (was {self.address})" if self.address else "")

    @property
    def text(self) -> str:
        """The problem, and what to do."""
        if not self.seen:
            return f"{self.label} is missing: {self.why}, and no name server knows it"
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.seen / 1000))
        return f"{self.label} is missing: no name server knows it now, it was there at {when}"

    @property
    def error(self) -> BrokerMissingError:
        """The error of a request to it."""
        error = BrokerMissingError(self.text)
        if self.seen:
            name = shlex.quote(self.broker_name)
            error.hint = f"start it, or say that it is gone for good: {FORGET} {name}"
        else:
            error.hint = f"start it, or {self.no_more}"
        return error


class Expected:
    """The brokers that should exist, learnt from each ClusterInfo that is noted. `on_changed` is
    called when what was seen should be stored."""

    def __init__(
        self,
        wanted: Iterable[Expectation] = (),
        seen: Iterable[Seen] = (),
        *,
        on_changed: Callable[[], None] | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.wanted = list(wanted)
        self.keep_ms = KEEP_MS
        """For so long one that was seen is missed."""
        self._now = now
        self.on_changed = on_changed
        self._seen: dict[Place, Seen] = {}
        self.there: Set[Place] = frozenset()
        """The brokers of the ClusterInfo that was noted last."""
        self.take(seen)

    @property
    def seen(self) -> list[Seen]:
        """The brokers that were seen, by cluster, name and id."""
        return [self._seen[place] for place in sorted(self._seen)]

    def take(self, seen: Iterable[Seen]) -> None:
        """Adds brokers that were seen by others, or earlier."""
        oldest = self._now() - KEEP_MS
        for one in seen:
            known = self._seen.get(one.place)
            if one.at >= oldest and (known is None or known.at < one.at):
                self._seen[one.place] = one
        self._limit()

    def note(self, info: ClusterInfo) -> None:
        """Adds the brokers that a name server knows."""
        now = self._now()
        there: dict[Place, str] = {}
        for broker in info.brokers.values():
            for number, address in broker.broker_addrs.items():
                there[broker.cluster, broker.broker_name, number] = address
        at = set(there.values())
        for place, known in list(self._seen.items()):
            # One that has another name or id now is that one.
            moved = place not in there and known.address in at
            if moved or known.at < now - KEEP_MS:
                del self._seen[place]
        for place, address in there.items():
            self._seen[place] = Seen(*place, address, now)
        self.there = there.keys()
        self._limit()
        if there and self.on_changed is not None:
            self.on_changed()

    def _limit(self) -> None:
        if len(self._seen) > MAX_SEEN:
            kept = sorted(self._seen.values(), key=lambda s: s.at)[-MAX_SEEN:]
            self._seen = {s.place: s for s in kept}

    def drop(self, place: Place) -> None:
        """Forgets that a broker was seen."""
        self._seen.pop(place, None)

    def missing(self, info: ClusterInfo) -> list[Missing]:
        """The replicas that should exist and that a name server does not know, by cluster, name and
        id."""
        found: dict[tuple[str, int], Missing] = {}
        oldest = self._now() - self.keep_ms
        there = {name: set(b.broker_addrs) for name, b in info.brokers.items()}
        for (cluster, name, number), seen in self._seen.items():
            if number not in there.get(name, ()) and seen.at >= oldest:
                found[name, number] = Missing(
                    cluster, name, number, seen.address, seen.at, not there.get(name)
                )
        for one in self.wanted:
            known = info.brokers.get(one.broker_name)
            numbers = there.get(one.broker_name, set())
            if known is not None and one.cluster not in ("", known.cluster):
                numbers = set()
            # Which ids slaves have is not said: as many as lack, whichever are free.
            lack = one.replicas - len(numbers | {n for b, n in found if b == one.broker_name})
            free = (n for n in range(MASTER_ID, one.replicas + 64)
                    if n not in numbers and (one.broker_name, n) not in found)  # fmt: skip
            for _, number in zip(range(lack), free, strict=False):
                found[one.broker_name, number] = Missing(
                    one.cluster, one.broker_name, number, whole=not numbers
                )
        return sorted(found.values())

    def missing_names(self, info: ClusterInfo) -> list[Missing]:
        """For each name without any broker one replica: the master, or the first slave."""
        found: dict[str, Missing] = {}
        for one in self.missing(info):
            if one.whole:
                found.setdefault(one.broker_name, one)
        return list(found.values())

    def without_master(self, info: ClusterInfo) -> list[Missing]:
        """The names without a master: missing ones, and those with only slaves."""
        found = {one.broker_name: one for one in self.missing_names(info)}
        for one in self.missing(info):
            if one.broker_id == MASTER_ID:
                found.setdefault(one.broker_name, one)
        for name, broker in info.brokers.items():
            if broker.broker_addrs and MASTER_ID not in broker.broker_addrs:
                why, start = "it has slaves", "make a slave the master: pyrmq admin broker promote"
                one = Missing(broker.cluster, name, MASTER_ID, "", 0, False, why, start)
                found.setdefault(name, one)
        return [replace(found[name], broker_id=MASTER_ID) for name in sorted(found)]
