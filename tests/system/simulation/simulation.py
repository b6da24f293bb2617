"""One run: broker lives, producers and what befalls them, until all has settled; then the audit."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import trio

from pyrmq.engine import Store
from pyrmq.model.transaction import TransactionState
from pyrmq.txn.machine import PendingHalf
from tests.store.tools import read_queue
from tests.support.records import Record, decode_record
from tests.support.transactions import (
    COMMIT,
    OVERFLOW_TOPIC,
    RESUME_CHECK_HALF_MESSAGE,
    ROLLBACK,
)
from tests.support.wire import Command
from tests.system.simulation import images
from tests.system.simulation.audit import audit, late_ends
from tests.system.simulation.broker import Life
from tests.system.simulation.chance import Chance
from tests.system.simulation.model import Broken, Kind, Model, Transaction
from tests.system.simulation.producer import Producer
from tests.system.simulation.settings import HOUR
from tests.system.simulation.stand_ins import Killed

UNDERTAKER = ThreadPoolExecutor(1)
"""Closes engines that nothing uses any more, which takes milliseconds."""


class Faults:
    """What a test breaks on purpose; nothing here."""

    hasty = False
    """Answers do not wait for the disk."""

    def before_open(self, store: Store) -> None:
        """The store is recovered, and what waits is not looked for yet."""

    def engine(self, native: Any) -> Any:
        """The engine's Transactions as the service is given them."""
        return native


def _bury(store: Store, folder: Path) -> None:
    store.close()
    shutil.rmtree(folder)


class Simulation(Chance):
    """One run."""

    def __init__(self, seed: int, root: Path, faults: Faults) -> None:
        super().__init__(seed)
        self.root = root
        self.faults = faults
        self.model = Model(self.settings.check_max, self.settings.sync)
        self.life: Life | None = None
        self._plan = self._plan_transactions()
        self._folders = 0
        self._next_folder: Path | None = None
        self._born_again = trio.Event()

    def leave(self) -> None:
        """The folder goes, once no engine is in it."""
        if self.life is not None:
            self.bury(self.life.store, self.life.folder)
        UNDERTAKER.submit(shutil.rmtree, self.root)

    # What is to be done.

    def _plan_transactions(self) -> list[Transaction]:
        s, random, plan = self.settings, self.random, []
        kinds = (Kind.COMMIT,) * 5 + (Kind.ROLLBACK,) * 3 + (Kind.MUTE, Kind.ONCE)
        for n in range(s.transactions):
            plan.append(
                Transaction(
                    key=f"7F0000010001{n:020X}",
                    group=random.choice(s.groups[: s.producers]),
                    topic=random.choice(s.topics),
                    queue_id=random.randrange(2),
                    kind=random.choice(kinds),
                    immunity=random.randint(0, 60) if random.random() < s.immune else None,
                    same_birth=random.random() < s.same_birth,
                )
            )
        return plan

    def next_transaction(self, group: str) -> Transaction | None:
        if self.calm:
            return None
        for i, transaction in enumerate(self._plan):
            if transaction.group == group:
                del self._plan[i]
                self.model.add(transaction)
                return transaction
        return None

    async def exhausted(self, half: PendingHalf) -> TransactionState | None:
        """The user's say about a half that nobody answered for."""
        await trio.sleep(self.latency())
        if self.life is None or self.life.dead or self.calm:
            return None
        record = self.life.native.record(half.phys)
        if record is None:
            raise Broken(f"no record at {half.phys}")
        transaction = self.model.transactions[self.model.chain(decode_record(record).body).key]
        if self.settings.hook == "keep" or transaction.running:
            return TransactionState.UNKNOWN
        if transaction.forgotten:
            return None
        transaction.decide(self.random.choice((COMMIT, ROLLBACK)))
        self.note("user", f"decides about {transaction.key}: {transaction.decision}")
        return TransactionState(transaction.decision or 0)

    # Lives of the broker.

    def new_folder(self) -> Path:
        self._folders += 1
        return self.root / f"life{self._folders}"

    def bury(self, store: Store, folder: Path) -> None:
        """Ends an engine whose process is gone: its image has been taken."""
        UNDERTAKER.submit(_bury, store, folder)

    async def lives(self) -> None:
        folder: Path | None = self.new_folder()
        while folder is not None:
            self._next_folder = None
            try:
                life = Life(self, folder)
            except Killed:
                folder = self._next_folder
                continue
            self.life = life
            self.note("broker", f"starts, log end {life.log_end()}")
            self._born_again.set()
            await life.run()
            self.life = None
            self._born_again = trio.Event()
            if self._next_folder != folder:
                self.bury(life.store, folder)
            folder = self._next_folder
            await trio.sleep(self.random.uniform(0, 5 if self.calm else 60) ** 0.5)

    def kill(self, life: Life) -> None:
        """kill -9, a machine without power, or an orderly stop, between two operations."""
        life.check_counts()
        how = self.random.choice(("kill", "kill", "power", "stop"))
        self.count(how)
        if how == "stop":
            life.flush()
            life.save()
            life.end()
            self.note("broker", "is stopped")
            life.store.close()
            self._next_folder = life.folder
            return
        target = self._image(life)
        if how == "power":
            places = list(images.records(target))
            ends = [life.flushed] + [p.end for p in places if p.end > life.flushed]
            at = self.random.choice(ends)
            self._cut(life, target, places, at)
            self.model.power_lost(at)
            if self.random.random() < 0.5:
                images.forget_entries(target, max(life.flushed, 0))
            if self.random.random() < 0.5:
                images.note_durable(target, places, life.flushed)
            self.note("broker", f"loses its power: {life.log_end()} becomes {at}")
        else:
            self.note("broker", f"is killed at {life.log_end()}")
        life.end()

    def killed_in_call(self, life: Life, before: int, after: int) -> None:
        """kill -9 while native code wrote from `before` to `after`."""
        self.count("kill in call")
        target = self._image(life)
        places = list(images.records(target))
        at = self.random.choice([before] + [p.end for p in places if before < p.end <= after])
        self._cut(life, target, places, at)
        if self.random.random() < 0.3:
            # The last record was written, and not yet dispatched to its queue.
            images.forget_entries(target, max(p.phys for p in places if p.end <= at or p.phys == 0))
        if self.random.random() < 0.5:
            images.note_durable(target, places, min(life.flushed, at))
        self.note("broker", f"is killed while it writes {before} to {after}: {at} is left")
        life.end()

    def _image(self, life: Life) -> Path:
        self.kills += 1
        target = self.new_folder()
        images.copy(life.folder, target)
        self._next_folder = target
        return target

    def _cut(self, life: Life, target: Path, places: list[images.Place], at: int) -> None:
        torn = [p.size for p in places if p.phys == at]
        keep = self.random.randrange(torn[0]) if torn and self.random.random() < 0.5 else 0
        images.cut(target, at, keep)
        self.model.log_cut(at)

    # What befalls everybody.

    async def _befall(self, what: str, times: int, act: Any) -> None:
        s = self.settings
        moments = sorted(self.random.uniform(0, s.length) for _ in range(times))
        for moment in moments:
            await trio.sleep_until(moment)
            self.count(what)
            act()

    def _kill_broker(self) -> None:
        if self.life is not None and not self.life.dead:
            self.kill(self.life)

    def _kill_producer(self) -> None:
        producer = self.random.choice(self.producers)
        self.note(producer.name, "dies")
        producer.kill()

    def _jump_clock(self) -> None:
        most = 100 * HOUR if self.settings.far_jumps else HOUR
        by = self.random.choice((-1, 1)) * int(self.random.uniform(0, most**0.5) ** 2)
        self.jumped += by
        if self.settings.far_jumps:
            self.model.expires = True
        self.note("clock", f"jumps by {by} ms")

    def _stall(self) -> None:
        link = self.random.choice(self.producers).link
        if link is not None and not link.closed:
            link.stalled = not link.stalled
            self.note(link.peer, f"stalled={link.stalled}")
            if not link.stalled:
                link.read_on()

    def _resume(self) -> None:
        if self.life is None or self.life.dead:
            return
        producer = self.random.choice(self.producers)
        self.life.settle_flush()
        discarded = read_queue(self.life.store, OVERFLOW_TOPIC, 0)
        if discarded and producer.link is not None:
            self.nursery.start_soon(self._resume_one, producer, self.random.choice(discarded))

    async def _resume_one(self, producer: Producer, record: Record) -> None:
        command = Command(RESUME_CHECK_HALF_MESSAGE, {"msgId": record.offset_msg_id})
        chain = self.model.chain(record.body)
        before, chain.asked = chain.asked, {}
        answer = await producer.request(command)
        self.note("operator", f"resumes {record.body.decode()}: {answer and answer.code}")
        if answer is not None and answer.code != 0:
            chain.asked = {**chain.asked, **before}

    async def _live(self, producer: Producer) -> None:
        while True:
            await producer.run()
            await trio.sleep(0.1 if self.calm else self.random.uniform(0, self.settings.length / 2))

    # The run.

    async def run(self) -> None:
        s = self.settings
        self.note("run", f"seed {self.seed}: {s}")
        groups = s.groups
        self.producers = [
            Producer(self, f"p{i}", groups[i % len(groups)]) for i in range(s.producers)
        ]
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self.lives)
            for producer in self.producers:
                self.nursery.start_soon(self._live, producer)
            async with trio.open_nursery() as chaos:
                chaos.start_soon(self._befall, "kills", s.kills, self._kill_broker)
                chaos.start_soon(self._befall, "deaths", s.deaths, self._kill_producer)
                chaos.start_soon(self._befall, "jumps", s.jumps, self._jump_clock)
                chaos.start_soon(self._befall, "stalls", s.stalls, self._stall)
                chaos.start_soon(self._befall, "resumes", s.resumes, self._resume)
                await trio.sleep(s.length)
                chaos.cancel_scope.cancel()
            await self._calm_down()
            life = await self._settled()
            await late_ends(self, life)
            audit(self, life)
            life.end()
            self.nursery.cancel_scope.cancel()

    async def _calm_down(self) -> None:
        self.calm = True
        self.note("run", "calm from now on")
        for producer in self.producers:
            if producer.link is not None and producer.link.stalled:
                producer.link.read_on()
        await self._born_again.wait()

    async def _settled(self) -> Life:
        """Waits until nothing waits; what takes longer than the protocol allows waits for ever."""
        s = self.settings
        await trio.sleep(s.length + 3 * s.interval / 1000)  # ends that are under way
        rounds = s.check_max + 4 + 65_000 // s.interval
        for _ in range(rounds):
            life = self.life
            if life is not None and not life.pending():
                await trio.sleep(2 * s.progress_pause)
                if life is self.life and not life.pending():
                    return life
            await trio.sleep(s.interval / 1000)
        assert self.life is not None
        left = [tuple(half) for half in self.life.pending()]
        raise Broken(f"these halves wait for ever: {left}")
