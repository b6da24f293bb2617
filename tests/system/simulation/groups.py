"""Consumer groups under every order of events that a seed makes: members that join, leave and are
cut off, and brokers that restart. `python -m tests.system.simulation.groups FIRST COUNT`.

The members are real consumers on a clock that jumps; brokers and network are scripted. At every
quiet moment each queue has one owner and everything that was stored is consumed and committed;
queues in order are never consumed by two at once, and nothing in them is left out or overtaken.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from unittest.mock import patch

import trio
import trio.testing

from pyrmq.client import ConsumeFrom, PushConsumer, ReconsumeLater
from pyrmq.model.message import ReceivedMessage
from tests.support.scripted.groups import LOCK_LIFETIME, GroupBroker, group_broker
from tests.support.scripted.streams import StreamCluster

Place = tuple[str, int]
"""Broker and queue."""
QUIET = 45.0
"""Seconds after the last event until everything has to be in order."""

CHUNK = 10
CROWD = 50
"""Of so many seeds one has up to 50 members."""


class Broken(AssertionError):
    """Something does not hold."""


class GroupSimulation:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.seed = seed
        self.orderly = seed % 2 == 1
        # A lock that a broker forgot in a restart is safe only while its holder can be heard.
        self.faults = self.chance.choice(["none", "restarts", "cuts"])
        self.most = 50 if seed % CROWD == CROWD - 1 else self.chance.choice([2, 3, 8])
        self.events = 12 if self.most < 50 else 25
        self.members: dict[PushConsumer, trio.CancelScope] = {}
        self.cut_off: set[PushConsumer] = set()
        self.locks_end = 0.0
        """When the last lock that nobody could give up has ended."""
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter(runs=1)
        self.stored: Counter[Place] = Counter()
        self.seen: dict[Place, list[int]] = defaultdict(list)
        self.running: dict[Place, int] = Counter()
        self.calm = False
        self.names = ["broker-a", "broker-b"][: self.chance.choice([1, 2])]

    def note(self, what: str) -> None:
        self.trace.append(f"{trio.current_time():9.3f} {what}")

    async def run(self) -> None:
        async with StreamCluster(*self.names, kind=GroupBroker) as cluster:
            self.cluster = cluster
            cluster.queues = self.chance.choice([1, 2, 4])
            with patch("trio.open_tcp_stream", cluster.connect):
                async with trio.open_nursery() as nursery:
                    self.nursery = nursery
                    await self._live()
                    for scope in self.members.values():
                        scope.cancel()

    def brokers(self) -> list[GroupBroker]:
        return [group_broker(b) for b in self.cluster.brokers.values()]

    # What happens.

    async def _live(self) -> None:
        self._join()
        for n in range(self.events):
            self._send(self.chance.randrange(6))
            await self._event()
            await trio.sleep(self.chance.choice([0, 0.05, 0.5, 3, 12]))
            if n % 10 == 9:
                await self._quiet()
        await self._quiet()
        self.calm = True
        before = {place: len(numbers) for place, numbers in self.seen.items()}
        self._send(10)
        await trio.sleep(30)
        after = {place: len(numbers) for place, numbers in self.seen.items()}
        if sum(after.values()) - sum(before.values()) != 10:
            raise Broken("while nothing happened a message came not exactly once")
        self._check_quiet()

    async def _event(self) -> None:
        what = self.chance.random()
        if what < 0.45 and len(self.members) < self.most:
            many = self.chance.choice([1, 1, 3, 20]) if self.most == 50 else 1
            for _ in range(min(many, self.most - len(self.members))):
                self._join()
        elif what < 0.75 and len(self.members) > 1:
            self._leave(self.chance.choice(list(self.members)))
        elif self.faults == "restarts":
            await self._restart(self.chance.choice(self.names))
        elif self.faults == "cuts":
            heard = [member for member in self.members if member not in self.cut_off]
            if heard:
                member = self.chance.choice(heard)
                self.cut_off.add(member)  # at once: the quiet moment waits for it
                self.nursery.start_soon(self._cut, member)

    def _join(self) -> None:
        consumer = PushConsumer(
            "g",
            {"T": "*"},
            namesrv=StreamCluster.namesrv,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            listener=self._listener,
            orderly=self.orderly,
            concurrency=4,
            pull_batch_size=self.chance.choice([1, 4, 32]),
            close_grace=self.chance.choice([0, 20]),
            suspend_time=0.1,
        )
        scope = self.members[consumer] = trio.CancelScope()
        self.note(f"joins {consumer._client.client_id}")
        self.counts["joins"] += 1
        self.nursery.start_soon(self._member, consumer, scope)

    async def _member(self, consumer: PushConsumer, scope: trio.CancelScope) -> None:
        with scope:
            async with consumer:
                await trio.sleep_forever()
        self.note(f"has left {consumer._client.client_id}")

    def _leave(self, consumer: PushConsumer) -> None:
        self.note(f"leaves {consumer._client.client_id}")
        self.counts["leaves"] += 1
        if self.orderly and consumer in self.cut_off:
            self.locks_end = trio.current_time() + LOCK_LIFETIME  # nobody hears it give them up
        self.members.pop(consumer).cancel()

    async def _restart(self, name: str) -> None:
        seconds = self.chance.choice([0, 0.3, 4, 20])
        self.note(f"restart of {name}, {seconds} s")
        self.counts["restarts"] += 1
        self.cluster.down.add(name)
        await group_broker(self.cluster.brokers[name]).restart()
        await trio.sleep(seconds)
        self.cluster.down.discard(name)

    async def _cut(self, consumer: PushConsumer) -> None:
        """Nothing of a member is heard for a while; brokers forget it if that is long."""
        who, seconds = consumer._client.client_id, self.chance.choice([2, 20, 90, 150])
        self.note(f"cut off for {seconds} s: {who}")
        self.counts["cuts"] += 1
        for broker in self.brokers():
            broker.cut.add(who)
        await trio.sleep(min(seconds, 120))
        if seconds > 120:
            for broker in self.brokers():
                await broker.expire(who)
            await trio.sleep(seconds - 120)
        for broker in self.brokers():
            broker.cut.discard(who)
        self.cut_off.discard(consumer)
        self.note(f"heard again: {who}")

    def _send(self, count: int) -> None:
        for _ in range(count):
            broker = self.chance.choice(self.brokers())
            place = broker.name, self.chance.randrange(self.cluster.queues)
            broker.put(b"%d" % self.stored[place], queue=place[1])
            self.stored[place] += 1

    async def _listener(self, message: ReceivedMessage) -> None:
        place = message.broker_name, message.queue_id
        if self.orderly and self.running[place]:
            raise Broken(f"{place} is consumed twice at once")
        self.running[place] += 1
        try:
            await trio.sleep(self.chance.choice([0, 0, 0.01, 0.3, 2]))
            if not self.calm and self.orderly and self.chance.random() < 0.1:
                raise ReconsumeLater("not now")
        finally:
            self.running[place] -= 1
        number = int(message.body)
        numbers = self.seen[place]
        if self.orderly and number > max(numbers, default=-1) + 1:
            raise Broken(f"{place}: {number} came before {max(numbers, default=-1) + 1}")
        self.counts["again"] += number in numbers
        if self.orderly and self.faults == "none" and number in numbers:
            raise Broken(f"{place}: {number} came again, and nothing had failed")
        numbers.append(number)

    # What holds.

    async def _quiet(self) -> None:
        while self.cut_off:  # noqa: ASYNC110 - on a clock that jumps
            await trio.sleep(1)
        await trio.sleep_until(max(trio.current_time(), self.locks_end) + QUIET)
        self._check_quiet()
        self.counts["quiet"] += 1

    def _check_quiet(self) -> None:
        owners: dict[Place, list[str]] = defaultdict(list)
        for member in self.members:
            for queue in member.assigned:
                owners[queue.broker_name, queue.queue_id].append(member._client.client_id)
        for name in self.names:
            for n in range(self.cluster.queues):
                if len(owners[name, n]) != 1:
                    raise Broken(f"queue {n} of {name} belongs to {owners[name, n]}")
        for place, count in self.stored.items():
            missing = set(range(count)) - set(self.seen[place])
            if missing:
                raise Broken(f"{place}: {sorted(missing)} of {count} did not come")
            broker = group_broker(self.cluster.brokers[place[0]])
            written = broker.offsets.get(("g", "T", place[1]))
            if written != count:
                raise Broken(f"{place}: offset {written} is written, {count} are consumed")


def run_seed(seed: int) -> GroupSimulation:
    """Runs one seed. AssertionError, with its trace, if something does not hold."""
    sim = GroupSimulation(seed)
    logger = logging.getLogger("pyrmq")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # assigning would leave what loggers below have cached
    try:
        with (
            patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
            patch("trio._core._run._r", Random(seed)),
            patch("pyrmq.client.consumer.rebalance.random", Random(seed)),
        ):
            trio.run(sim.run, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseExceptionGroup as e:
        if e.subgroup((KeyboardInterrupt, SystemExit)):
            raise
        broken = e.subgroup(Broken) or e
        text = "\n".join([f"seed {seed}", *sim.trace, repr(broken)])
        raise Broken(text) from e
    finally:
        logger.setLevel(level)
    return sim


Result = tuple[Counter[str], list[tuple[int, str]]]


def run_chunk(first: int, count: int) -> Result:
    """Counts of what happened, and the seeds that failed with their traces."""
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + count):
        try:
            counts += run_seed(seed).counts
        except Broken as e:
            failed.append((seed, str(e)))
    return counts, failed


def run_seeds(first: int, count: int) -> Result:
    """The same on all cores."""
    counts: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        starts = range(first, first + count, CHUNK)
        ends = [min(at + CHUNK, first + count) for at in starts]
        jobs = [pool.submit(run_chunk, at, end - at) for at, end in zip(starts, ends, strict=True)]
        for job in jobs:
            more, bad = job.result()
            counts += more
            failed += bad
    return counts, failed


def main(first: int, count: int) -> int:
    begin = time.monotonic()
    counts, failed = run_seeds(first, count)
    for _, text in failed[:3]:
        print(text)
    print(f"{count} seeds in {time.monotonic() - begin:.1f} s: {dict(counts)}")
    if failed:
        print(f"failed: {[seed for seed, _ in failed]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
