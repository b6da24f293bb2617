"""Brokers that should exist: those in an `expect` list, and those seen before.

A name server forgets a dead broker after some minutes. After that, nothing shows that the broker
existed, and the rest of the cluster looks complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyrmq.errors import BrokerMissingError, ConfigError
from pyrmq.model.route import MASTER_ID, ClusterInfo

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
        if not self.seen:
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
