"""Lives of a store that calls fail in: stored and acknowledged in both flush modes, recovered."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyrmq.engine import Listener, Session, Store
from tests.store.tools import image
from tests.support.client import batch_command, send_command
from tests.support.records import encode_properties
from tests.support.wire import Command, FrameReader, encode
from tests.system.faults.inject.calls import FailingCalls, Fault
from tests.system.faults.inject.seen import (
    OPTIONS,
    QUEUES,
    Seen,
    body_of,
    is_data,
    properties_of,
    queue_of,
    wait,
)

FAILED = b" flush failed"
"""How the abort file ends after a failed flush."""
KEPT: list[Store] = []
"""Stores that are not stopped before their process ends."""
FLUSHES = {"fsync", "fdatasync", "msync", "sync_file_range"}
PER_LIFE = 24


class Trial:
    """One life under one fault: the store's folder, the failing calls, and what was seen."""

    def __init__(
        self, root: Path, calls: FailingCalls, fault: Fault, seen: Seen, options: dict[str, Any]
    ) -> None:
        self.root = root
        self.options = options
        self.notes_expected = False
        """A flush that fails while the store is opened must be noted for the next start."""
        self.calls = calls
        self.fault = fault
        self.seen = seen

    def failed_flushes(self, since: int, folder: str = "") -> list[str]:
        """Data files whose flush was failed since that many faults."""
        if self.fault.kind not in FLUSHES or self.fault.harmless:
            return []
        start = str(self.root / folder)
        hits = self.calls.hits()[since:]
        return [path for path in hits if path.startswith(start) and is_data(self.root, path)]

    @contextmanager
    def opened(self, **options: Any) -> Iterator[Store | None]:
        """Opens (twice if need be), closes, and checks what the store makes of failed flushes."""
        store = None
        for _ in range(2):
            since = self.calls.fired
            try:
                store = Store(self.root, **self.options, **options)
                break
            except BaseException as error:
                self.seen.caught("open", error)
                if self.notes_expected and self.failed_flushes(since):
                    self.check_noted()
        if store is None:
            yield None
            return
        since = self.calls.fired
        yield store
        if log := self.failed_flushes(since, "commitlog"):
            self._check_stopped(store, log)
        clean = True
        try:
            store.close()
        except BaseException as error:
            clean = False
            self.seen.caught("close", error)
        if failed := self.failed_flushes(since):
            if clean:
                self.seen.wrong.append(f"closed without an error, but not flushed: {failed}")
            if not (self.root / "abort").exists():
                self.seen.wrong.append(f"no abort file, but not flushed: {failed}")

    def check_noted(self) -> None:
        """The next start knows that pages may be lost."""
        abort = self.root / "abort"
        if not wait(lambda: abort.exists() and abort.read_bytes().endswith(FAILED)):
            self.seen.wrong.append(f"a flush failed, abort says {abort.read_bytes()!r}")

    def _check_stopped(self, store: Store, failed: list[str]) -> None:
        """After a failed flush of the log the store says so, and why, and takes nothing more."""
        wait(lambda: store.failure() is not None)
        why = store.failure() or ""
        if failed[0] not in why or self.fault.cause not in why:
            self.seen.wrong.append(f"{failed[0]} was not flushed; the store says {why!r}")
        try:
            store.put("T", 0, b"late")
        except BaseException as error:
            self.seen.caught("put after a failed flush", error)
        else:
            self.seen.wrong.append(f"acknowledged after the failed flush of {failed[0]}")


def settle(store: Store, seen: Seen) -> None:
    """Waits until everything is flushed or the flush has failed."""
    if not wait(
        lambda: store.failure() is not None or store.flushed() >= store.stats()["maxPhyOffset"]
    ):
        seen.wrong.append("neither flushed nor failed")


def may_be_stored(text: str) -> bool:
    """Whether an error leaves open what becomes of a message: the next write tries again."""
    return "write " in text and "/commitlog" in text


def put(store: Store, seen: Seen, number: int) -> int | None:
    """ASYNC_FLUSH: acknowledged means appended. Returns the physical offset."""
    failed = store.failure()
    topic, queue_id = queue_of(number)
    properties = encode_properties(properties_of(number))
    try:
        phys, *_ = store.put(topic, queue_id, body_of(number), properties)
    except BaseException as error:
        seen.caught("put", error)
        (seen.unknown if may_be_stored(str(error)) else seen.refused).append(number)
        return None
    seen.acked.append(number)
    if failed:
        seen.wrong.append(f"message {number} was acknowledged after: {failed}")
    return int(phys)


def asynchronous(trial: Trial) -> None:
    """Two lives with ASYNC_FLUSH; both roll files of the log and of the queues."""
    for life in range(2):
        with trial.opened() as store:
            if store is None:
                return
            for number in range(life * PER_LIFE, (life + 1) * PER_LIFE):
                put(store, trial.seen, number)
                if number % 4 == 3:
                    settle(store, trial.seen)
            settle(store, trial.seen)
            trial.seen.check(store, f"life {life}", faulty=True)


class Client:
    """SYNC_FLUSH as a client sees it: frames in, answers out."""

    def __init__(self, trial: Trial, store: Store) -> None:
        self.trial = trial
        self.store = store
        for topic, queue_id in QUEUES:
            store.set_topic(topic, read_queues=queue_id + 1, write_queues=queue_id + 1)
        self.session = Session(Listener(store.native), bytes([10, 9, 8, 7]), 40_000)
        self.waiting: dict[int, list[int]] = {}
        """By opaque (its first number): the numbers of a request that has no answer yet."""

    def frames(self, first: int) -> bytes:
        """Three single messages and a batch of two."""
        stream = b""
        for number in range(first, first + 3):
            topic, queue_id = queue_of(number)
            command = send_command(
                topic, body_of(number), queue_id=queue_id, properties=properties_of(number)
            )
            stream += self._frame(command, [number])
        numbers = [first + 3, first + 3 + len(QUEUES)]
        topic, queue_id = queue_of(numbers[0])
        parts = [(body_of(n), properties_of(n)) for n in numbers]
        return stream + self._frame(batch_command(topic, parts, queue_id=queue_id), numbers)

    def _frame(self, command: Command, numbers: list[int]) -> bytes:
        command.opaque = numbers[0]
        self.waiting[numbers[0]] = numbers
        return encode(command)

    def round(self, first: int) -> None:
        """Sends and waits for every answer. Every other time as one of several connections."""
        failed = self.store.failure()
        several = first % 12 == 0
        refusals = self.session.feed_bytes(self.frames(first), 0, several)
        self._take(refusals, self.trial.seen.refused, failed)
        if several:
            try:
                self.store.write_staged()
            except BaseException as error:
                self.trial.seen.caught("write", error)

        def look() -> bool:
            select.select([self.store.event_fd()], [], [], 0.01 if self.session.unconfirmed else 0)
            self._take(self.session.release(0, 60_000), self.trial.seen.unknown, failed)
            return not self.session.unconfirmed

        wait(look)
        if self.waiting:
            self.trial.seen.wrong.append(f"never answered: {self.waiting}")
            self.waiting.clear()

    def _take(self, raw: bytes | None, otherwise: list[int], failed: str | None) -> None:
        seen = self.trial.seen
        for answer in FrameReader().feed(raw or b""):
            numbers = self.waiting.pop(answer.opaque)
            if answer.code:
                text = answer.remark or ""
                (self.trial.seen.unknown if may_be_stored(text) else otherwise).extend(numbers)
                seen.error("send", "OSError", f"CODE {answer.code} {answer.remark}")
                continue
            seen.acked += numbers
            if failed:
                seen.wrong.append(f"messages {numbers} were acknowledged after: {failed}")
            for message_id in answer.ext["msgId"].split(","):
                self._check_durable(int(message_id[-16:], 16), numbers)

    def _check_durable(self, offset: int, numbers: list[int]) -> None:
        """What was acknowledged must lie in what successful flushes covered."""
        try:
            record = self.store.record_at(offset)
        except OSError:  # the fault met the look-up; the next one may find it
            return
        size = OPTIONS["commit_log_file_size"]
        path = self.trial.root / "commitlog" / f"{offset - offset % size:020d}"
        at = offset % size
        if record is None or not self.trial.calls.synced(path, at, at + len(record)):
            self.trial.seen.wrong.append(f"{numbers} acknowledged but not flushed: {offset}")


def synchronous(trial: Trial) -> None:
    """Two lives with SYNC_FLUSH."""
    for life in range(2):
        with trial.opened(sync_flush=True) as store:
            if store is None:
                return
            client = Client(trial, store)
            for first in range(life * 5 * 6, (life + 1) * 5 * 6, 6):
                client.round(first)
            trial.seen.check(store, f"life {life}", faulty=True)


def first_left(trial: Trial) -> int:
    """Where the first file of the log that is still there starts."""
    with trial.calls.spared(trial.root):
        files = (trial.root / "commitlog").iterdir()
        return min((int(path.name) for path in files), default=0)


def killed(trial: Trial) -> None:
    """A life with SYNC_FLUSH that ends without a stop, at once after a flush has failed. The host
    then takes away what no successful flush covered."""
    try:
        store = Store(trial.root, sync_flush=True, **trial.options)
    except BaseException as error:
        trial.seen.caught("open", error)
        return
    KEPT.append(store)
    since = trial.calls.fired
    client = Client(trial, store)
    for first in range(0, 5 * 6, 6):
        client.round(first)
        if trial.failed_flushes(since):
            break
    if trial.failed_flushes(since):
        trial.check_noted()


def retention(trial: Trial) -> None:
    """The oldest files are deleted again and again while messages come."""
    seen, places = trial.seen, dict[int, int]()
    with trial.opened() as store:
        if store is None:
            return
        for number in range(2 * PER_LIFE):
            if (phys := put(store, seen, number)) is not None:
                places[number] = phys
            if number % 8 == 7:
                settle(store, seen)
                for _ in range(100):
                    if store.stats()["indexedWhere"] >= store.stats()["maxPhyOffset"]:
                        break  # what is not in the index is not deleted
                    time.sleep(0.0003)
                whole = True
                try:
                    store.clean(now_ms=1 << 50, manual=True)
                except BaseException as error:
                    whole = False  # queues may begin with deleted messages until the next round
                    seen.caught("clean", error)
                low = first_left(trial)
                seen.cleaned += [n for n in seen.acked if places[n] < low]
                seen.acked = [n for n in seen.acked if places[n] >= low]
                if whole:
                    seen.check(store, f"cleaned at {number}", faulty=True)
        trial.calls.disarm()
        try:
            store.clean(now_ms=1 << 50, manual=True)
        except BaseException as error:
            seen.wrong.append(f"nothing is deleted any more: {error}")
        low = first_left(trial)
        if low != store.stats()["minPhyOffset"]:
            seen.wrong.append(f"the first file is {low}, the store says {store.stats()}")
        seen.cleaned += [n for n in seen.acked if places[n] < low]
        seen.acked = [n for n in seen.acked if places[n] >= low]


def recovery(trial: Trial) -> None:
    """What a kill left is opened again, read, and goes on."""
    with trial.opened() as store:
        if store is not None:
            trial.seen.check(store, "recovered", faulty=True)
            for number in range(100, 104):
                put(store, trial.seen, number)
            settle(store, trial.seen)
            trial.seen.check(store, "recovered and gone on", faulty=True)


def reopened(trial: Trial) -> None:
    """As `recovery`; a flush that fails on the way is reported to the start after this one."""
    trial.notes_expected = True
    recovery(trial)


def make_image(folder: Path) -> list[int]:
    """Leaves in `folder` what a kill does, and damage that recovery has to clear away: a torn last
    record, a log file behind the end, a queue without its last file, an empty file, a missing
    queue. Returns the numbers of the messages that are there."""
    seen = Seen()
    store = Store(folder.with_name(folder.name + "-made"), **OPTIONS)
    for number in range(PER_LIFE):
        put(store, seen, number)
    wait(lambda: store.flushed() >= store.stats()["maxPhyOffset"])
    image(folder.with_name(folder.name + "-made"), folder)
    end = store.stats()["maxPhyOffset"]
    store.close()
    size = OPTIONS["commit_log_file_size"]
    base = end - end % size
    with (folder / "commitlog" / f"{base:020d}").open("r+b") as log:
        log.seek(end - base - 100)
        log.write(bytes(100))
    with (folder / "commitlog" / f"{base + size:020d}").open("wb") as behind:
        behind.truncate(size)
    first, second = (folder / "consumequeue" / topic / str(n) for topic, n in QUEUES)
    sorted(first.iterdir())[-1].unlink()
    (first / f"{60 * 20:020d}").touch()
    for path in second.iterdir():
        path.unlink()
    return seen.acked[:-1]


def make_damaged(folder: Path) -> list[int]:
    """Leaves in `folder` a store that was stopped, of which a part of a queue is lost: all queues
    must be made anew. Only queue T-0 has messages in the last file of the log."""
    seen = Seen()
    store = Store(folder, **OPTIONS)
    for number in [*range(PER_LIFE), *range(PER_LIFE, 2 * PER_LIFE, 2)]:
        put(store, seen, number)
    store.close()
    with (folder / "consumequeue" / "T" / "0" / f"{0:020d}").open("r+b") as file:
        file.write(bytes(40))
    return seen.acked


LIVES: dict[str, Callable[[Trial], None]] = {
    "async": asynchronous,
    "sync": synchronous,
    "recovery": recovery,
    "reopened": reopened,
    "damaged": recovery,
    "killed": killed,
    "retention": retention,
    "folders": asynchronous,
    "extended": asynchronous,
}


def options_of(life: str, root: Path) -> dict[str, Any]:
    """The options of a life's store, but for the flush mode."""
    more: dict[str, dict[str, Any]] = {
        "retention": {"delete_file_batch_max": 1, "delete_commit_log_files_interval": 0},
        "folders": {"commit_log_dirs": [str(root / "commitlog"), str(root / "commitlog2")]},
        "extended": {"queue_ext": True, "queue_ext_file_size": 512},
    }
    return OPTIONS | more.get(life, {})
