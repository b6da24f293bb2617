"""Every call to the system that the store and the configuration files make fails, one by one.

A case is a life of a store (or of a broker's tables) in which call number n of one kind on one path
fails: once, from then on, or as a short write. The process must survive, say what failed and why,
take nothing back that it acknowledged, acknowledge nothing after a failed flush, and whatever is
left on disk must open again. Calls are numbered per path, as threads take turns: the numbers go up
until no call has that number any more. PYRMQ_FAULT_IMAGES=full takes every n, error and mode.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.system.faults import report
from tests.system.faults.inject import cases
from tests.system.faults.inject.calls import STICKY, Fault, build
from tests.system.faults.inject.cases import LIVES, Case, Host
from tests.system.faults.scale import scale

FULL = scale().torn is None
SOME = 3
"""Paths per life and kind whose first call the short run fails, spread over all of them."""
TRIES = 3
"""A call that was not made in a run is looked for in so many: not every run makes the same."""
STORE_KINDS = [
    "open", "write", "ftruncate", "fallocate", "fsync", "fdatasync", "msync", "unlink",
    "mkdir", "mmap", "madvise", "opendir", "readdir", "stat",
]  # fmt: skip
KINDS = {
    "async": [*STORE_KINDS, "read"],
    "sync": [*STORE_KINDS, "read"],
    "recovery": STORE_KINDS,
    "reopened": ["msync"],
    "damaged": ["open", "write", "ftruncate", "fallocate", "mmap", "madvise", "unlink"],
    "killed": ["msync", "fsync", "fdatasync"],
    "retention": ["open", "unlink", "fsync", "stat", "mmap", "ftruncate"],
    "folders": ["opendir", "readdir", "stat", "open", "mkdir", "fsync", "msync"],
    "extended": ["open", "mmap", "ftruncate", "fallocate", "msync", "fdatasync", "stat"],
    "tables": ["open", "write", "fsync", "rename", "mkdir"],
    "transactions": [
        "open",
        "write",
        "ftruncate",
        "fallocate",
        "mmap",
        "madvise",
        "mkdir",
        "msync",
        "fdatasync",
    ],
}
"""The kinds of calls that fail in each life; those of the first three are all that they make."""
UNSURE = {"recovery": {"read"}, "tables": {"stat"}}
"""Calls that a life makes or not, as its threads and the interpreter happen to."""
ALL_MADE = ("async", "sync", "recovery", "tables")
DAMAGED = ("open", "ftruncate")
WHOLE = {("killed", "msync"), ("async", "msync"), ("retention", "fsync")} | {
    ("damaged", kind) for kind in DAMAGED
}
"""Lives and kinds of which the short run fails every call, once: what they may cost is the most."""
INDEX_FILE = re.compile(r"index/\d+")


class Runner:
    """One host for all tests, and what was counted."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.cases: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.numbers: Counter[tuple[str, str]] = Counter()
        self.calls: Counter[str] = Counter()
        self.acked: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    @cache  # noqa: B019 - one object, which lives as long as the module
    def places(self, life: str) -> dict[str, list[str]]:
        """The paths of the calls of each kind that a life makes when nothing happens to it. Index
        files are named after the time: one path for all."""
        case = Case(life, Fault())
        found: dict[str, set[str]] = {}
        for _ in range(2):
            outcome = self.host.run(case)
            assert not cases.complaints(case, self.host.root, outcome)
            for kind, path, _ in outcome["places"]:
                found.setdefault(kind, set()).add(INDEX_FILE.sub("index/[0-9]*", path))
        return {kind: sorted(paths) for kind, paths in found.items()}

    def run(self, life: str, fault: Fault) -> tuple[bool, list[str]]:
        """Whether the call was made, and what is wrong."""
        case = Case(life, fault)
        found = self.host.run(case)
        complaints = cases.complaints(case, self.host.root, found)
        self.cases[life] += 1
        self.met[life] += bool(found.get("fired"))
        self.calls[life] += found.get("fired", 0)
        self.acked[life] += len(found.get("acked", []))
        self.wrong[life] += bool(complaints)
        return found.get("fired", 1) > 0, complaints

    def exhaust(
        self,
        life: str,
        kind: str,
        path: str,
        choose: Callable[[str, str, int], list[Fault]],
        last: int = 1000,
    ) -> tuple[int, list[str]]:
        """Fails calls 1, 2, ... of a kind on a path, until there is none of that number (or to
        `last`); returns how many there were and what is wrong."""
        wrong: list[str] = []
        for at in range(1, last + 1):
            first, *others = choose(kind, path, at)
            for _ in range(TRIES):
                met, complaints = self.run(life, first)
                wrong += complaints
                if met:
                    break
            else:
                return at - 1, wrong
            self.numbers[life, kind] += 1
            for fault in others:
                wrong += self.run(life, fault)[1]
        return last, wrong

    def tell(self) -> None:
        for life, count in self.cases.items():
            numbers = {kind: self.numbers[life, kind] for kind in KINDS[life]}
            kinds = ", ".join(f"{kind} {n}" for kind, n in numbers.items() if n)
            report.note(
                f"failing calls, {life}: {count} cases, {self.met[life]} met their fault; "
                f"{sum(numbers.values())} different calls ({kinds}), {self.calls[life]} failed; "
                f"{self.acked[life]} messages acknowledged; {self.wrong[life]} cases wrong"
            )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    work = tmp_path_factory.mktemp("inject")
    library = build(work)
    if library is None:
        pytest.skip("no C compiler here")
    with cases.host(work, library) as host:
        runner = Runner(host)
        yield runner
        runner.tell()


def complain(wrong: list[str]) -> None:
    assert not wrong, "\n".join([f"{len(wrong)} complaints", *wrong[:20]])


@pytest.mark.parametrize("life", LIVES)
def test_every_kind_of_call_is_seen(runner: Runner, life: str):
    """Without a fault nothing is wrong, and no kind of call is made that no case fails."""
    made = runner.places(life).keys() - UNSURE.get(life, set())
    assert made >= set(KINDS[life])
    if life in ALL_MADE:
        assert made == set(KINDS[life])


@pytest.mark.parametrize("life", ["async", "folders"])
def test_every_new_name_is_flushed(runner: Runner, life: str):
    """Of files and of folders: a power cut takes a file whose name is not on disk."""
    flushed = set(runner.places(life)["fsync"])
    named = set(runner.places(life)["mkdir"]) | set(runner.places(life)["ftruncate"])
    named -= {"checkpoint", "."}
    assert {"commitlog", "consumequeue/T/0"} <= named
    for name in named:
        if not name.startswith("index/"):  # made again from the log
            assert str(Path(name).parent) in flushed, name


EACH = [(life, kind) for life in LIVES for kind in KINDS[life]]


@pytest.mark.parametrize(("life", "kind"), EACH)
def test_each_call_fails(runner: Runner, life: str, kind: str):
    paths = runner.places(life)[kind]
    whole = FULL or (life, kind) in WHOLE
    if not whole:
        paths = paths[:: -(-len(paths) // SOME)]
    choose = cases.faults if FULL else cases.some_faults
    wrong: list[str] = []
    met = 0
    for path in paths:
        count, complaints = runner.exhaust(life, kind, path, choose, 1000 if whole else 1)
        met += count
        wrong += complaints
    assert met
    complain(wrong)


LISTING = [
    (kind, path) for kind in ("opendir", "readdir") for path in ("commitlog", "consumequeue")
]
LISTING += [("stat", path) for path in ("commitlog", "commitlog/*", "consumequeue/*", "abort")]
LISTING += [("open", "commitlog/*")]


@pytest.mark.parametrize("life", ["async", "recovery"])
@pytest.mark.parametrize(("kind", "path"), LISTING)
def test_what_cannot_be_looked_at_is_not_taken_for_nothing(
    runner: Runner, life: str, kind: str, path: str
):
    """A file that is there but cannot be found, opened or measured, for a moment or for good: all
    messages are there afterwards."""

    def broken(kind: str, path: str, at: int) -> list[Fault]:
        return [Fault(kind, path, at, errno.EIO), Fault(kind, path, at, errno.EIO, STICKY)]

    count, wrong = runner.exhaust(life, kind, path, broken, 1000 if FULL else 6)
    complain(wrong)
    exempt = kind == "stat" and path in ("commitlog", "abort", "consumequeue/*")
    assert count or exempt


@pytest.mark.parametrize("kind", ["mkdir", "ftruncate", "fallocate", "open"])
@pytest.mark.parametrize("queue", ["RMQ_SYS_TRANS_OP_HALF_TOPIC", "Orders"])
def test_a_queue_of_transactions_cannot_grow(runner: Runner, queue: str, kind: str):
    """From some moment on there is no room for entries of op records, or of what is committed: no
    more is taken than a later start can tell, and with room all comes to its end once."""

    def full(kind: str, path: str, at: int) -> list[Fault]:
        return [Fault(kind, path, at, errno.ENOSPC, STICKY)]

    last = 1000 if FULL else 4
    count, wrong = runner.exhaust("transactions", kind, f"consumequeue/{queue}*", full, last)
    complain(wrong)
    assert count
