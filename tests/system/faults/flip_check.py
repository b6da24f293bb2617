"""Opens a damaged image, reads all of it in every way there is, and judges what is served.

A wrong body is one that a client would take for the message of a queue offset although another was
stored there: its record is whole, its CRC fits, and the body differs. What a client can tell (the
CRC does not fit, the record is no record) is counted. No checksum covers topic, queue and queue
offset of a record: a true message that claims the place of another one must be told of in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyrmq.engine import Store
from pyrmq.errors import ConfigError, PyrmqError, StoreDamagedError
from tests.support.records import MAGIC_V2, SYS_BORN_V6, SYS_STORE_V6, Record, decode_record
from tests.support.wire import WireError
from tests.system.faults import tables
from tests.system.faults.bases import LONG_TOPIC, START, Base
from tests.system.faults.expected import Queue
from tests.system.faults.flip_cases import Damaged, Flip, apply
from tests.system.faults.images import Image, write

FOUND = 0
MANY = 2_000
"""Offsets of a queue that are read one by one; a flipped offset can make it look longer."""
EVERYDAY = "is dropped and made again"
"""What the log says of the index of every killed store."""
_config: Image = {}


class Violation(Exception):
    """What must not happen."""


def run(
    case: Flip, bases: dict[str, Base], root: Path, again: bool, read_log: Callable[[], str]
) -> dict[str, int]:
    """For the worker. Counts: one of the outcomes of an image (refused, config refused, warned,
    incomplete, same), and what was served."""
    if not _config:
        _config.update(tables.make(root.with_name("config")))
    damaged = apply(case, bases, _config)
    read_log()
    try:
        counts = Reader(damaged, root).check(again)
        if counts["WRONG BODY"]:
            raise Violation("WRONG BODY")
    except BaseException as error:  # a panic of the engine is no Exception
        raise Violation(
            f"seed {case.seed}, image {case.number} ({damaged.base.name}, "
            f"{'stopped' if damaged.clean else 'killed'}): {'; '.join(damaged.hits)}: "
            f"{type(error).__name__}: {error}\n{read_log()[:500]}"
        ) from error
    log = [line for line in read_log().splitlines() if EVERYDAY not in line]
    outcome = next((o for o in ("refused", "config refused") if counts[o]), None)
    if outcome is None and log:
        outcome = "warned"
    elif counts["CLAIMS THE PLACE OF ANOTHER"]:
        raise Violation(f"seed {case.seed}, image {case.number}: {damaged.hits}: not told")
    if outcome is None:
        outcome = "incomplete" if counts["absent"] or counts["bad CRC"] else "same"
        counts["intact but absent, no warning"] += counts["intact but absent"]
    counts[f"outcome: {outcome}"] += 1
    return dict(counts)


def as_text(data: bytes) -> bytes:
    """The same with "?" for each byte of the first record's topic that is not ASCII: to a client,
    a topic that is no text is text with strange letters."""
    if len(data) < 91:
        return data
    flags = int.from_bytes(data[36:40])
    at = 84 + 12 * (bool(flags & SYS_BORN_V6) + bool(flags & SYS_STORE_V6))
    at += 4 + int.from_bytes(data[at : at + 4])
    at += 2 if data[7] == MAGIC_V2 & 0xFF else 1
    length = data[at - 1 : at][:1]
    end = at + (length[0] if length else 0)
    topic = bytes(byte if byte < 128 else 63 for byte in data[at:end])
    return data[:at] + topic + data[end:]


class Reader:
    def __init__(self, damaged: Damaged, root: Path) -> None:
        self.image, self.base, self.root = damaged.image, damaged.base, root
        self.truth = damaged.base.queues()
        self.by_place = {stored.phys: stored for stored in damaged.base.records}
        self.counts: Counter[str] = Counter()
        self.good: set[tuple[Queue, int]] = set()

    def check(self, again: bool) -> Counter[str]:
        write(self.image, self.root, holes=len(self.image) % 2 == 0)
        try:
            store = Store(self.root, **self.base.options)
        except StoreDamagedError:
            self.counts["refused"] += 1
            return self.counts
        try:
            self.read(store)
            self.use_tables(store)
            self.append(store)
        finally:
            store.close()
        if again:
            Store(self.root, **self.base.options).close()
        return self.counts

    def read(self, store: Store) -> None:
        known = {(topic, queue_id) for topic, queue_id, *_ in store.queues()}
        for queue in sorted(known | self.truth.keys()):
            self.read_queue(store, queue)
            self.read_answers(store, queue)
            self.read_by_time(store, queue)
        self.read_by_place(store)
        self.read_by_key(store)
        for queue, records in self.truth.items():
            for offset, stored in enumerate(records):
                if (queue, offset) not in self.good:
                    self.counts["absent"] += 1
                    name = (
                        f"commitlog/{stored.phys // self.base.log_size * self.base.log_size:020d}"
                    )
                    at = stored.phys % self.base.log_size
                    if self.image[name][at : at + len(stored.raw)] == stored.raw:
                        self.counts["intact but absent"] += 1

    def read_queue(self, store: Store, queue: Queue) -> None:
        """One message at a time: each is judged."""
        low, high = store.queue_range(*queue)
        if not 0 <= low <= high:
            raise Violation(f"{queue} has the range {low} to {high}")
        offsets = {*range(low, min(high, low + MANY)), *range(max(low, high - MANY), high)}
        for offset in sorted(offsets):
            result = store.get(*queue, offset, 1)
            if result.next_offset <= offset:
                raise Violation(f"{queue} at {offset}: status {result.status} leads nowhere")
            if result.status == FOUND:
                raw = b"".join(bytes(piece) for piece in result.slices)
                # What is damaged is passed over: the message is that of the last entry looked at.
                self.judge(raw, queue, result.next_offset - 1)

    def judge(self, raw: bytes, queue: Queue, offset: int) -> None:
        record = self.decode(raw)
        if record is None:
            return
        stored = self.truth.get(queue, [])[offset : offset + 1]
        fits = (record.topic, record.queue_id, record.queue_offset) == (*queue, offset)
        if not stored:
            # The format protects neither topic nor queue of a record: it may be in another one.
            self.counts["in a queue it was not sent to"] += 1
        elif record.body != stored[0].record.body:
            own = self.by_place.get(record.physical_offset)
            claims = fits and own is not None and own.record.body == record.body
            kind = "CLAIMS THE PLACE OF ANOTHER" if claims else "WRONG BODY"
            self.counts[kind if fits else "ANOTHER MESSAGE"] += 1
        elif fits:
            self.good.add((queue, offset))
        else:
            self.counts["other topic, queue or offset in the record"] += 1
            self.good.add((queue, offset))

    def decode(self, raw: bytes) -> Record | None:
        """A client's view of the bytes of one message."""
        if not raw:
            self.counts["FOUND WITHOUT BYTES"] += 1
            return None
        try:
            record = decode_record(as_text(raw))
        except WireError as error:
            self.counts["bad CRC" if "body CRC" in str(error) else "NO RECORD"] += 1
            return None
        if record.size != len(raw):
            self.counts["NO RECORD"] += 1
            return None
        return record

    def read_answers(self, store: Store, queue: Queue) -> None:
        """Many at a time, as consumers do: what is no record hides what follows in the answer."""
        offset, high = store.queue_range(*queue)
        high = min(high, offset + MANY)
        while offset < high:
            result = store.get(*queue, offset)
            if result.next_offset <= offset:
                raise Violation(f"{queue} at {offset}: status {result.status} leads nowhere")
            data = b"".join(bytes(piece) for piece in result.slices)
            seen, whole = set(), True
            while data:
                try:
                    record = decode_record(as_text(data))
                except WireError as error:
                    size = int.from_bytes(data[:4], "big", signed=True)
                    if "body CRC" in str(error) and size > 0:
                        data = data[size:]
                        continue
                    whole = False
                    break
                seen.add(record.queue_offset)
                data = data[record.size :]
            if not whole:
                self.counts["HIDDEN IN ITS ANSWER"] += sum(
                    (queue, n) in self.good and n not in seen
                    for n in range(offset, result.next_offset)
                )
            offset = result.next_offset

    def read_by_place(self, store: Store) -> None:
        for phys, stored in self.by_place.items():
            raw = store.record_at(phys)
            if raw is not None:
                record = self.decode_quietly(raw)
                if record is not None and record.body != stored.record.body:
                    self.counts["WRONG BODY"] += 1
        for phys in (-self.base.end % 4096 + self.base.end, 2**62):
            store.record_at(phys)

    def decode_quietly(self, raw: bytes) -> Record | None:
        try:
            return decode_record(raw)
        except WireError:
            return None

    def read_by_time(self, store: Store, queue: Queue) -> None:
        low, high = store.queue_range(*queue)
        for time in (0, START - 1, START + 7000, START + 30_500, 2**62):
            for upper in (False, True):
                offset = store.offset_by_time(*queue, time, upper)
                if not low <= offset <= high:
                    raise Violation(f"{queue} at time {time}: offset {offset} of {low} to {high}")
        store.earliest_time(*queue)

    def read_by_key(self, store: Store) -> None:
        keys = [("T", "all"), ("Orders", "all"), ("Batch", "b1"), (LONG_TOPIC, "all")]
        keys += [("T", f"key{n}") for n in range(0, 60, 7)] + [("T", f"U{n:031d}") for n in (5, 30)]
        for topic, key in keys:
            found: list[Any] = store.query_message(topic, key)[0]
            for piece in found:
                record = self.decode_quietly(bytes(piece))
                if record is None:
                    self.counts["no record for a key"] += 1
                    continue
                stored = self.by_place.get(record.physical_offset)
                if stored is not None and record.body != stored.record.body:
                    self.counts["WRONG BODY"] += 1
                self.counts["found by key"] += 1

    def use_tables(self, store: Store) -> None:
        try:
            loaded = tables.load(self.root / "config", store)
        except ConfigError:
            self.counts["config refused"] += 1
            return
        before = [tables.content(table) for table in loaded]
        tables.save(loaded)
        after = [tables.content(table) for table in tables.load(self.root / "config", store)]
        for old, new in zip(before, after, strict=True):
            if {**old, "dataVersion": 0} != {**new, "dataVersion": 0}:
                raise Violation(f"a table changed on its way through its file: {old} {new}")

    def append(self, store: Store) -> None:
        """The store goes on, or says why not."""
        for topic, queue_id in [*list(self.truth)[:4], ("New", 0)]:
            try:
                _, _, offset, _ = store.put(topic, queue_id, b"new")
            except PyrmqError:
                self.counts["put refused"] += 1
                continue
            result = store.get(topic, queue_id, offset, 1)
            raw = b"".join(bytes(piece) for piece in result.slices)
            record = self.decode_quietly(raw)
            if record is None or (record.body, record.queue_offset) != (b"new", offset):
                raise Violation(f"{topic}-{queue_id}: the message put at {offset} is not there")
