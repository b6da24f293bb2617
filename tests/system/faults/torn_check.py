"""Opens a torn image and compares what comes back with what must."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyrmq.engine import Store
from pyrmq.errors import StoreDamagedError
from tests.system.faults.bases import Base, indexed
from tests.system.faults.expected import (
    Entry,
    Queue,
    Row,
    Stored,
    Walk,
    entry_of,
    keys_of,
    predict,
    read_place,
    rows,
)
from tests.system.faults.images import Image, base_of, log_files, queue_files, take, write
from tests.system.faults.torn_cases import Torn, apply

FOUND = 0
BLANK = (0, 0x7FFFFFFF, 0)
"""The entry of a place that no message has."""
MOST_HITS = 32
"""So many records a query gives."""
Read = Callable[[], str]
"""Gives what was logged since the last call."""


class Wrong(Exception):
    """The store did not come back as it must."""


def check(case: Torn, base: Base, root: Path, *, again: bool, read_log: Read) -> str:
    """Returns "exact", "kept" (records behind damage), "refused" or "unseen" (damage in a file that
    is not read at the start; see `expected.predict`), or raises Wrong. `again`: also opens what was
    left once more."""
    image = apply(case, base)
    allowed = predict(image, base.log_size, case.clean)
    if case.lies:
        # A lying queue block may say that another record has the place of the one that is cut off:
        # which one is named is not compared.
        allowed = [replace(walk, cut_off=None) for walk in allowed]
    write(image, root, holes=case.holes)
    read_log()
    try:
        store = Store(root, **base.options)
    except StoreDamagedError as error:
        compare_refusal(root, image, allowed, str(error))
        return "refused"
    try:
        log = read_log()
        if case.lies:
            log = "\n".join(line for line in log.splitlines() if "is cut off with it" not in line)
        found = outcome_of(allowed, store.stats()["maxPhyOffset"], log, base.log_size)
        compare_log(root, image, found.end, base.log_size)
        expected = places(store, found, base, exact=keeps_entries(case))
        damaged = damaged_records(image, found, base)
        compare_queues(store, expected, damaged)
        added = append(store, expected, found.end, base.log_size)
        compare_queues(store, added, damaged)
        new = [s for row in added.values() for s in row if s is not None and s.phys >= found.end]
        whole = [*found.records, *new]
        compare_index(store, whole, may_be_missing(case, found, base), damaged)
    finally:
        store.close()
    compare_entries(root, added, base)
    if again:
        store = Store(root, **base.options)
        try:
            compare_queues(store, added, damaged)
        finally:
            store.close()
        compare_entries(root, added, base)
    if found.left_out:
        return "kept"
    return "unseen" if found.end != allowed[0].end or allowed[0].refused else "exact"


def run(
    case: Torn, bases: dict[str, Base], root: Path, again: bool, read_log: Read
) -> dict[str, int]:
    """For the worker."""
    try:
        return {check(case, bases[case.base], root, again=again, read_log=read_log): 1}
    except Wrong as error:
        raise Wrong(f"{case}: {error}\n{read_log()}") from None


def compare_refusal(root: Path, image: Image, allowed: list[Walk], error: str) -> None:
    """Only for the reason that is allowed, and nothing is changed."""
    if not any(walk.refused for walk in allowed):
        raise Wrong(f"refused: {error}")
    if "known to be complete" not in error:
        raise Wrong(f"refused without telling what to do: {error}")
    left = take(root)
    if any(left.get(name) != image[name] for name in log_files(image)):
        raise Wrong("a refused log was changed")


def outcome_of(allowed: list[Walk], end: int, log: str, log_size: int) -> Walk:
    """The outcome that this is: the log's end and all that is reported of it must fit."""
    found: list[str] = []
    for walk in allowed:
        if walk.refused or walk.end != end:
            found.append(f"refused: {walk.refused}, end {walk.end}")
        elif not (missing := untold(walk, log, log_size)):
            return walk
        else:
            found.append(missing)
    raise Wrong(f"the log ends at {end}; allowed are: {found}")


def untold(walk: Walk, log: str, log_size: int) -> str:
    """What is not said of damage, or is said without reason; "" if all is right."""
    said = [line for line in log.splitlines() if "commitlog/" in line]
    reasons = [("ERROR", start, (start, end - start)) for start, end in walk.left_out]
    if walk.cut_off is not None:
        reasons.append(("WARNING", walk.end, (walk.end, walk.cut_off)))
    for level, phys, figures in reasons:
        name = f"commitlog/{phys - phys % log_size:020d}: "
        fits = [
            line
            for line in said
            if f" {level} " in line
            and name in line
            and set(map(str, figures)) <= set(re.findall(r"\b\d+\b", line.split(name)[1]))
        ]
        if not fits:
            return f"no {level} that names {name}{figures}"
        said = [line for line in said if line not in fits]
    return f"told without reason: {said}" if said else ""


def keeps_entries(case: Torn) -> bool:
    """Whether the queues have all their entries and need not be made anew."""
    harmed = any(name.startswith("consumequeue/") for name, _ in case.lost)
    return case.clean and case.queues == "as they were" and not harmed


def places(store: Store, found: Walk, base: Base, *, exact: bool) -> dict[Queue, Row]:
    """The queues with a place for each lost record below the log's end. A queue whose last records
    are lost may end before them, unless its entries were sound (`exact`)."""
    expected = rows(found.records)
    for queue, records in base.queues().items():
        longest = sum(stored.end <= found.end for stored in records)
        row = expected.get(queue, [])
        end = longest if exact else store.queue_range(*queue)[1]
        if len(row) < end <= longest:
            row += [None] * (end - len(row))
        if row:
            expected[queue] = row
    return expected


def damaged_records(image: Image, found: Walk, base: Base) -> dict[Stored, bytes]:
    """What now stands at the places of lost records. As no checksum but the body's is compared,
    and that at the start only, a reader may get these bytes for a message whose entry was sound."""
    sound = {stored.phys for stored in found.records}
    damaged = {}
    for stored in base.records:
        if stored.phys not in sound and stored.end <= found.end:
            at = stored.phys % base.log_size
            content = image[f"commitlog/{stored.phys - at:020d}"]
            damaged[stored] = content[at : at + len(stored.raw)]
    return damaged


def may_be_missing(case: Torn, found: Walk, base: Base) -> set[bytes]:
    """Records that need not be found by key: indexed before they lost a part of their keys, or in
    a part of the index that is lost."""
    if case.clean and any(name.startswith("index/") for name, _ in case.lost):
        return {stored.raw for stored in found.records}
    sound = {stored.raw for stored in base.records}
    return {s.raw for s in found.records if case.clean and s.raw not in sound}


def compare_log(root: Path, image: Image, end: int, log_size: int) -> None:
    """The same bytes up to the end, zeros behind, no file behind."""
    found = {name: content for name, content in take(root).items() if name.startswith("commitlog/")}
    for name, content in found.items():
        if len(content) != log_size:
            raise Wrong(f"{name} has {len(content)} bytes")
        keep = min(max(end - base_of(name), 0), log_size)
        if content[:keep] != image.get(name, b"")[:keep]:
            raise Wrong(f"{name}: bytes before the end changed")
        if content[keep:].strip(b"\0"):
            raise Wrong(f"{name}: bytes behind the end are not zero")
    missing = [n for n in log_files(image) if base_of(n) < end and n not in found]
    if missing:
        raise Wrong(f"{missing} went although the log ends at {end}")


def compare_queues(
    store: Store, expected: dict[Queue, Row], damaged: dict[Stored, bytes] | None = None
) -> None:
    """Every queue gives its records, each once, at its own offset, and nothing else. `damaged`:
    bytes that may stand at a place without a record."""
    known = {(topic, queue_id) for topic, queue_id, _, end in store.queues() if end}
    if known - expected.keys():
        raise Wrong(f"queues of nothing: {sorted(known - expected.keys())}")
    allowed = set((damaged or {}).values())
    for (topic, queue_id), row in expected.items():
        name = f"{topic[:20]}-{queue_id}"
        begin = next((n for n, stored in enumerate(row) if stored is not None), len(row))
        low, high = store.queue_range(topic, queue_id)
        if low not in (0, begin) or high != len(row):
            raise Wrong(f"{name} is from {low} to {high}, must be from 0 or {begin} to {len(row)}")
        for most in (32, 1) if None in row else (32,):
            compare_answers(store, (topic, queue_id), row, low, most, allowed)


def compare_answers(
    store: Store, queue: Queue, row: Row, low: int, most: int, allowed: set[bytes]
) -> None:
    """Reads a queue, up to `most` messages at a time."""
    offset, name = low, f"{queue[0][:20]}-{queue[1]}"
    while offset < len(row):
        result = store.get(*queue, offset, most)
        if not offset < result.next_offset <= len(row):
            raise Wrong(f"{name} at {offset}: status {result.status}, next {result.next_offset}")
        raw = b"".join(bytes(piece) for piece in result.slices)
        for stored in row[offset : result.next_offset]:
            if stored is not None:
                if not raw.startswith(stored.raw):
                    raise Wrong(f"{name} from {offset} on lacks {stored.record.queue_offset}")
                raw = raw.removeprefix(stored.raw)
            elif (size := struct.unpack(">i", raw[:4].ljust(4, b"\0"))[0]) and raw[
                :size
            ] in allowed:
                raw = raw[size:]
        if raw or (result.status != FOUND and any(row[offset : result.next_offset])):
            raise Wrong(f"{name} from {offset} on gives what it does not have: {result.status}")
        offset = result.next_offset


def append(store: Store, expected: dict[Queue, Row], end: int, log_size: int) -> dict[Queue, Row]:
    """Adds a message to every queue that is expected and to a new one; each must go to the next
    offsets. Returns the queues with them."""
    added = {queue: list(row) for queue, row in expected.items()}
    for topic, queue_id in [*expected, ("New", 0)]:
        row = added.setdefault((topic, queue_id), [])
        phys, size, offset, _ = store.put(topic, queue_id, b"added to %d" % len(row))
        if end % log_size + size + 8 > log_size:
            end += -end % log_size
        if (phys, offset) != (end, len(row)):
            raise Wrong(f"put at {phys} as {offset}, must be at {end} as {len(row)}")
        raw = store.record_at(phys) or b""
        stored = read_place(raw, 0, phys)
        if stored is None or stored.record.body != b"added to %d" % len(row):
            raise Wrong(f"no record at {phys} after a put")
        row.append(stored)
        end += size
    return added


def compare_index(
    store: Store, records: list[Stored], lost: set[bytes], damaged: dict[Stored, bytes]
) -> None:
    """By each key come all records that have it, but for `lost`, and no others; a damaged record
    may be found by its old keys."""
    indexed(store, records[-1].end)
    wanted: dict[tuple[str, str], list[bytes]] = {}
    old: dict[tuple[str, str], set[bytes]] = {}
    for stored in [*records, *damaged]:
        if stored.record.sys_flag & 0xC == 0xC:
            continue
        for key in keys_of(stored.record):
            place = (stored.record.topic, key)
            if stored in damaged:
                old.setdefault(place, set()).add(damaged[stored])
            elif stored.raw not in wanted.setdefault(place, []):
                wanted[place].append(stored.raw)
    for topic, key in wanted.keys() | old.keys():
        raws = wanted.get((topic, key), [])
        found = [bytes(piece) for piece in store.query_message(topic, key)[0]]
        extra = set(found) - set(raws)
        missing = set(raws[-(MOST_HITS - len(extra)) :]) - set(found) - lost
        extra -= old.get((topic, key), set())
        if missing or extra or len(set(found)) < len(found):
            raise Wrong(f"{topic[:20]} {key}: {len(found)} records by key, not {len(raws)}")


def compare_entries(root: Path, expected: dict[Queue, Row], base: Base) -> None:
    """The queue files of a stopped store hold the entries of these records and zeros. The place of
    a lost record is blank or has its old entry. When a record lost its properties (no checksum
    covers them), its entry may still have the tag."""
    image = take(root)
    before = {entry_of(stored) for stored in base.records}
    found: dict[Queue, list[Entry]] = {}
    for queue, names in queue_files(image).items():
        entries = list(struct.iter_unpack(">qiq", b"".join(image[name] for name in names)))
        while entries and entries[-1] == (0, 0, 0):
            entries.pop()
        if entries:
            found[queue] = entries

    def fits(entry: Entry, stored: Stored | None) -> bool:
        if stored is None:
            return entry == BLANK or entry in before
        right = entry_of(stored)
        return entry == right or (entry[:2] == right[:2] and entry in before)

    for queue in found.keys() | expected.keys():
        entries, row = found.get(queue, []), expected.get(queue, [])
        if len(entries) != len(row) or not all(map(fits, entries, row)):
            raise Wrong(f"entries of {queue}: {entries}, not of {row}")
