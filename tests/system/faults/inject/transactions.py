"""Transactions while calls fail: halves, words about them and copies, in small files.

The store's folder keeps what was known (`transactions.json`, which no fault meets) for the life
without faults, in which everything has to come to its end exactly once.
"""

from __future__ import annotations

import json
import select
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyrmq.engine import Listener, Session, Store, Transactions
from pyrmq.errors import PyrmqError, SystemBusyError
from pyrmq.model.transaction import TransactionState
from pyrmq.txn.ending import Ender, EndTransaction
from pyrmq.txn.machine import Rules
from tests.store.tools import read_queue
from tests.support.ledger import Ledger
from tests.support.records import Record, decode_record
from tests.support.transactions import (
    COMMIT,
    OP_TOPIC,
    OVERFLOW_TOPIC,
    ROLLBACK,
    Half,
    end_command,
    half_command,
    stored_half,
)
from tests.support.wire import FrameReader, encode
from tests.system.faults.inject.lives import Trial, settle
from tests.system.faults.inject.seen import Seen, wait

TOPIC = "Orders"
GROUP = "PG_fault"
HALVES = 24
FOREVER = 1 << 50
SLOW_DISK = "[PC_SYNCHRONIZED]"
"""In the remark of a refusal that no failed call has caused."""
NOTES = "transactions.json"


def key_of(number: int) -> str:
    return f"key-{number:03d}"


def fate_of(number: int) -> int:
    return ROLLBACK if number % 4 == 3 else COMMIT


def body_of(number: int) -> bytes:
    """500 to 2,000 bytes, so that some halves fill a file of the log."""
    return b"%08d" % number * (62 + number * 37 % 176)


class Parties:
    """A broker's transactions without its sockets, and the producer."""

    def __init__(self, store: Store, seen: Seen) -> None:
        self.store = store
        self.seen = seen
        store.set_topic(TOPIC, read_queues=1, write_queues=1)
        store.set_topic(OVERFLOW_TOPIC, read_queues=1, write_queues=1, sendable=False)
        self.engine = Transactions(store.native, max_op_body=64)
        self.ender = Ender(store, self.engine, Rules(), lambda: int(time.time() * 1000))
        listener = Listener(store.native, transactions=self.engine)
        self.session = Session(listener, bytes([10, 9, 8, 7]), 40_000)

    def try_to(self, what: str, call: Callable[[], Any]) -> Any:
        """None after an error, which has to be one that a user can read."""
        try:
            return call()
        except SystemBusyError:
            return None  # the index cannot tell yet
        except BaseException as error:
            self.seen.caught(what, error)
            return None

    def _ask(self, what: str, frame: bytes) -> Any:
        """The answer of code 0 to a request that the engine handles, None if it does not."""
        raw = self.try_to(what, lambda: self.session.feed_bytes(frame, 0)) or b""
        while self.session.next_command() is not None:
            pass
        answers = FrameReader().feed(raw)

        def answered() -> bool:
            """A write that took long leaves the next ones to a thread: their answers come later."""
            select.select([self.store.event_fd()], [], [], 0.01 if self.session.unconfirmed else 0)
            answers.extend(FrameReader().feed(self.session.release(0, 60_000) or b""))
            return not self.session.unconfirmed

        if not wait(answered):
            self.seen.wrong.append(f"{what}: never answered")
        for answer in answers:
            if answer.code and SLOW_DISK not in (answer.remark or ""):
                self.seen.error(what, "OSError", f"CODE {answer.code} {answer.remark}")
        return next((a for a in answers if not a.code), None)

    def send(self, number: int) -> int | None:
        """Physical offset of the half, None if it was refused."""
        command = half_command(
            TOPIC, body_of(number), group=GROUP, key=key_of(number), change={"g": str(1 + number)}
        )
        answer = self._ask("half", encode(command))
        return None if answer is None else stored_half(command, answer).phys

    def end(self, number: int, phys: int) -> bool:
        """Whether its word was taken, natively or by what decides about the rest."""
        half = stored(self.engine, phys)
        if half is None:
            self.seen.wrong.append(f"half {number} at {phys} is gone")
            return False
        command = end_command(half, fate_of(number))
        if self._ask("end", encode(command)) is not None:
            return True
        word = TransactionState(fate_of(number))
        request = EndTransaction(GROUP, half.queue_offset, phys, word, True, key_of(number))
        durable = self.try_to("end", lambda: self.ender.end(request))
        if durable is None:
            return False
        # It is answered once the log is confirmed up to there.
        wait(lambda: durable <= self.store.confirmed() or self.store.failure() is not None)
        return durable <= self.store.confirmed()

    def waiting(self) -> list[int]:
        return self.engine.before(FOREVER, 1000)


def stored(engine: Transactions, phys: int) -> Any:
    raw = engine.record(phys)
    if raw is None:
        return None
    record = decode_record(raw)
    key = record.properties["UNIQ_KEY"]
    return Half(GROUP, key, 0, record.queue_offset, phys, "", key)


def transactional(trial: Trial) -> None:
    """Two lives: some halves are spoken about at once, some are asked about first, some wait."""
    known: dict[str, dict[str, int]] = {"halves": {}, "ended": {}}
    for life in range(2):
        with trial.opened() as store:
            if store is None:
                break
            try:
                parties = Parties(store, trial.seen)
            except BaseException as error:
                trial.seen.caught("look for what waits", error)
                continue
            for number in range(life * HALVES, (life + 1) * HALVES):
                one(parties, number, known)
            settle(store, trial.seen)
            parties.try_to("op records", parties.engine.write_owed)
            check(store, trial.seen, known, f"life {life}", faulty=True)
    with trial.calls.spared(trial.root):
        trial.root.mkdir(exist_ok=True)
        (trial.root / NOTES).write_text(json.dumps(known))


def one(parties: Parties, number: int, known: dict[str, dict[str, int]]) -> None:
    phys = parties.send(number)
    if phys is None:
        return
    known["halves"][str(number)] = phys
    kind = number % 6
    engine = parties.engine
    if kind in (1, 4):
        some = parties.waiting()[-3:]
        parties.try_to("copy", lambda: engine.renew(some, kind == 1))
    elif kind == 2 and (waiting := parties.waiting()):
        parties.try_to("discard", lambda: discard(parties, waiting[0]))
        return
    if kind != 5 and parties.end(number, phys):
        known["ended"][str(number)] = fate_of(number)


def discard(parties: Parties, offset: int) -> None:
    born = parties.engine.find(offset)
    assert born is not None
    key, phys = parties.engine.discard(offset)
    parties.ender.discarded.add((key, born[2], GROUP, TOPIC), phys)


def read(store: Store, topic: str) -> list[Record]:
    return read_queue(store, topic, 0)


def check(
    store: Store, seen: Seen, known: dict[str, dict[str, int]], where: str, *, faulty: bool = False
) -> None:
    """Nothing is delivered twice or that was rolled back, everything whose commit was answered."""
    try:
        records = read(store, TOPIC)
    except (OSError, PyrmqError) as error:
        seen.caught(f"read in {where}", error)
        if not faulty:
            seen.wrong.append(f"{where}: {error}")
        return
    ledger = Ledger(where, single=True)
    for number in range(2 * HALVES):
        ledger.sent(TOPIC, number)
    for text, fate in known["ended"].items():
        ledger.acknowledged(TOPIC, int(text), wanted=fate == COMMIT)
    for record in records:
        number = int(record.body[:8])
        ledger.received(TOPIC, number, record.physical_offset)
        if fate_of(number) == ROLLBACK:
            ledger.note("rolled back, but delivered", f"{number}")
        if record.body != body_of(number):
            ledger.note("damaged", f"{number}")
    seen.wrong += ledger.faults()


def indexed(store: Store) -> bool:
    stats = store.stats()
    return bool(stats["indexedWhere"] >= stats["maxPhyOffset"])


def finish(root: Path, options: dict[str, Any], seen: Seen) -> None:
    """Without a fault everything that was stored comes to its end, once; a later start agrees."""
    path = root / NOTES
    known = json.loads(path.read_text()) if path.exists() else {"halves": {}, "ended": {}}
    for life in range(2):
        store = Store(root, **options)
        parties = Parties(store, seen)
        check(store, seen, known, f"reopened {life}")
        if not wait(partial(indexed, store)):
            seen.wrong.append("the index does not reach the end")
        for number, phys in sorted((int(n), phys) for n, phys in known["halves"].items()):
            if not parties.end(number, phys):
                seen.wrong.append(f"reopened {life}: half {number} cannot be settled")
            known["ended"][str(number)] = fate_of(number)
        # Halves without an answer may have been stored: their producer is asked.
        for offset in parties.waiting():
            facts = parties.engine.find(offset)
            assert facts is not None
            seen.wrong += [f"half {offset} waits after a start"] if life else []
            raw = parties.engine.record(facts[1])
            assert raw is not None
            number = int(body(raw)[:8])
            if str(number) in known["halves"]:
                seen.wrong.append(f"half {number} waits still")
            parties.engine.settle(offset, fate_of(number) == COMMIT)
        check(store, seen, known, f"settled {life}")
        named = [n for r in read(store, OP_TOPIC) for n in r.body.decode().split(",") if n]
        if len(named) != len(set(named)):
            twice = [n for n, count in Counter(named).items() if count > 1]
            seen.wrong.append(f"named twice by op records: {twice}")
        if owed := parties.engine.stats()["owed"]:
            seen.wrong.append(f"{owed} op records are owed")
        store.close()


def body(raw: bytes) -> bytes:
    return decode_record(raw).body
