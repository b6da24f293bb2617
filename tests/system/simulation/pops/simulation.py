"""One run: broker lives, senders and members, and what befalls them, until all is acknowledged."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import trio

from pyrmq.engine import Store
from pyrmq.net.clock import Clock, machine_ms
from tests.support.pops import Delivery
from tests.support.wire import Command
from tests.system.simulation import images
from tests.system.simulation.chance import Chance
from tests.system.simulation.model import Broken
from tests.system.simulation.pops.faults import Fault
from tests.system.simulation.pops.life import PopLife
from tests.system.simulation.pops.members import Member, Sender
from tests.system.simulation.pops.model import Message, Model
from tests.system.simulation.pops.settings import PopSettings, draw_pops
from tests.system.simulation.stand_ins import Killed

UNDERTAKER = ThreadPoolExecutor(1)
"""Closes engines that nothing uses any more, which takes milliseconds."""
BEGIN = 1_790_000_000_000
"""ms; what the broker's clock shows at first: timers count in whole seconds."""
FARTHEST = 1_200_000
"""ms by which the clock is set, at most."""
CLOCK_SLACK = 600_000
"""ms; a broker takes acks of pops that its clock puts so far ahead."""
PATIENCE = 600.0
"""Seconds after which what is not acknowledged never comes."""


def _bury(store: Store, folder: Path) -> None:
    store.close()
    shutil.rmtree(folder)


class SimClock(Clock):
    """The broker's time of day."""

    __slots__ = ("_sim",)

    def __init__(self, sim: PopSimulation) -> None:
        super().__init__()
        self._sim = sim

    def now_ms(self) -> int:
        return self._sim.now()


class PopSimulation(Chance):
    """One run."""

    settings: PopSettings  # type: ignore[assignment]

    def __init__(self, seed: int, root: Path, fault: Fault) -> None:
        super().__init__(seed)
        self.settings = draw_pops(self.random)
        self._begin = BEGIN
        self.root = root
        self.fault = fault
        self.clock = SimClock(self)
        self.model = Model(self.settings.sync, self.settings.groups)
        self.life: PopLife | None = None
        self._folders = 0
        self._next_folder: Path | None = None
        self._planned = self.settings.messages
        self._started = self.now()

    # The clock.

    def now(self) -> int:
        try:
            now = super().now()
        except RuntimeError:  # outside of trio
            now = self._begin + self.jumped
        if hasattr(self, "model"):
            self.model.latest = max(self.model.latest, now)
        return now

    def latest(self) -> int:
        self.now()
        return self.model.latest

    def ahead(self) -> int:
        """How far its clock is from the machine's, which the engine reads itself."""
        return self.now() - machine_ms()

    # What is to be done.

    def next_message(self) -> Message | None:
        if self.calm or not self._planned:
            return None
        self._planned -= 1
        s = self.settings
        due = None
        if self.random.random() < s.timers:
            due = self.now() + self.random.randint(1, s.farthest)
        message = Message(f"m-{self._planned}", self.random.randrange(s.queues), due)
        self.model.messages[message.key] = message
        return message

    def answered_end(self) -> int:
        """Where the log ends, at most, that an answer which just came stands for."""
        return self.life.log_end() if self.life is not None and not self.life.dead else 1 << 60

    def expect(self, holds: bool, text: str) -> None:
        if not holds:
            raise Broken(text)

    def popped(self, member: Member, got: list[Delivery]) -> None:
        self.latest()
        for each in got:
            self.note(member.name, f"got {each.record.body.decode()}: {each.handle}")
        self.model.popped(member.group, got, ordered=member.ordered)
        for each in got:
            if each.record.reconsume_times:
                self.count("again")
        self.count("pops")

    def acknowledged(self, member: Member, each: Delivery, known: int) -> None:
        self.note(member.name, f"acknowledged {each.record.body.decode()}: {each.handle}")
        self.latest()
        if member.ordered:
            self.model.acknowledged_in_order(member.group, each, self.answered_end())
        else:
            self.model.acknowledged(member.group, each, self.answered_end(), first_known=known)
        self.count("acks")

    def refused(self, member: Member, each: Delivery, answer: Command) -> None:
        """An orderly pop that is over may be refused, and one from before the clock was set far
        back."""
        if not member.ordered and each.handle.pop_time <= self.now() + CLOCK_SLACK - 1000:
            raise Broken(f"ack {each.handle}: {answer.code} {answer.remark}")
        self.count("refused")

    # Lives of the broker.

    def new_folder(self) -> Path:
        self._folders += 1
        return self.root / f"life{self._folders}"

    def bury(self, store: Store, folder: Path) -> None:
        UNDERTAKER.submit(_bury, store, folder)

    def leave(self) -> None:
        """The folder goes, once no engine is in it."""
        if self.life is not None:
            self.bury(self.life.store, self.life.folder)
        UNDERTAKER.submit(shutil.rmtree, self.root)

    async def lives(self) -> None:
        folder: Path | None = self.new_folder()
        while folder is not None:
            self._next_folder = None
            try:
                life = PopLife(self, folder)
            except Killed:
                folder = self._next_folder
                continue
            self.life = life
            self.model.starts(self.now())
            self.note("broker", f"starts, log end {life.log_end()}")
            await life.run()
            self.life = None
            if self._next_folder != folder:
                self.bury(life.store, folder)
            folder = self._next_folder
            await trio.sleep(self.random.uniform(0, 1 if self.calm else 30) ** 0.5)

    def _kill_broker(self) -> None:
        """kill -9, or a machine without power, between two operations."""
        life = self.life
        if life is None or life.dead:
            return
        how = self.random.choice(("kill", "kill", "power"))
        self.count(how)
        target = self._image(life)
        if how == "power":
            places = list(images.records(target))
            ends = [life.flushed] + [p.end for p in places if p.end > life.flushed]
            at = life.log_end() if self.settings.sync else self.random.choice(ends)
            self._cut(target, places, at)
            self.model.power_lost(at)
            if self.random.random() < 0.5:
                images.forget_entries(target, max(life.flushed, 0))
            self.note("broker", f"loses its power: {life.log_end()} becomes {at}")
        else:
            self.note("broker", f"is killed at {life.log_end()}")
        life.end()

    def killed_in_call(self, life: PopLife, before: int, after: int) -> None:
        """kill -9 while native code wrote from `before` to `after`."""
        self.count("kill in call")
        target = self._image(life)
        places = list(images.records(target))
        at = self.random.choice([before] + [p.end for p in places if before < p.end <= after])
        self._cut(target, places, at)
        if self.random.random() < 0.3:
            images.forget_entries(target, max(p.phys for p in places if p.end <= at or p.phys == 0))
        self.note("broker", f"is killed while it writes {before} to {after}: {at} is left")
        life.end()

    def _image(self, life: PopLife) -> Path:
        self.kills += 1
        target = self.new_folder()
        images.copy(life.folder, target)
        self._next_folder = target
        return target

    def _cut(self, target: Path, places: list[images.Place], at: int) -> None:
        torn = [p.size for p in places if p.phys == at]
        keep = self.random.randrange(torn[0]) if torn and self.random.random() < 0.5 else 0
        images.cut(target, at, keep)

    # What befalls everybody.

    async def _befall(self, what: str, times: int, act: Any) -> None:
        for moment in sorted(self.random.uniform(0, self.settings.length) for _ in range(times)):
            await trio.sleep_until(moment)
            self.count(what)
            act()

    def _kill_peer(self) -> None:
        peer = self.random.choice(self.peers)
        self.note(peer.name, "dies")
        peer.scope.cancel()

    def _jump_clock(self) -> None:
        by = self.random.choice((-1, 1)) * int(self.random.uniform(0, FARTHEST**0.5) ** 2)
        self.jumped += by
        self.latest()
        self.model.jumps()
        self.note("clock", f"jumps by {by} ms")

    async def _live(self, peer: Sender | Member) -> None:
        while True:
            await peer.run()
            await trio.sleep(0.1 if self.calm else self.random.uniform(0, 5))

    # The run.

    async def run(self) -> None:
        s = self.settings
        self.note("run", f"seed {self.seed}: {s}")
        self.peers: list[Sender | Member] = [Sender(self, f"s{i}") for i in range(s.senders)]
        for group in s.groups:
            ordered = group == s.groups[1]
            self.peers += [
                Member(self, f"{group}{i}", group, ordered=ordered) for i in range(s.members)
            ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.lives)
            for peer in self.peers:
                nursery.start_soon(self._live, peer)
            async with trio.open_nursery() as chaos:
                chaos.start_soon(self._befall, "kills", s.kills, self._kill_broker)
                chaos.start_soon(self._befall, "deaths", s.deaths, self._kill_peer)
                chaos.start_soon(self._befall, "jumps", s.jumps, self._jump_clock)
                await trio.sleep(s.length)
                chaos.cancel_scope.cancel()
            self.calm = True
            self.note("run", "calm from now on")
            await self._settled()
            if self.life is not None:
                self.life.end()
            nursery.cancel_scope.cancel()
        self.count("runs")

    async def _settled(self) -> None:
        end = trio.current_time() + self.settings.length + PATIENCE
        if self.settings.jumps:
            end += FARTHEST / 1000 * 2 * self.settings.jumps
        while self.model.open():
            if trio.current_time() > end:
                raise Broken(f"these never came until they were acknowledged: {self.model.open()}")
            await trio.sleep(1)
        await trio.sleep(3 * self.settings.invisible / 1000 + 10)  # nothing comes again
