"""Senders and members of groups, each on a connection of its own that may lose frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from tests.support.client import send_command
from tests.support.pops import (
    Delivery,
    ack_command,
    batch_ack_command,
    change_command,
    changed,
    deliveries,
    pop_command,
)
from tests.support.wire import Command, FrameReader, encode
from tests.system.simulation.pops.model import Message
from tests.system.simulation.stand_ins import Killed, Link

if TYPE_CHECKING:
    from tests.system.simulation.pops.simulation import PopSimulation

BROKER = "broker-a"
RECALL_MESSAGE = 370
NOTHING = (209, 210, 19)


class Peer:
    """A process with one connection; it dies and begins anew."""

    def __init__(self, sim: PopSimulation, name: str) -> None:
        self.sim = sim
        self.name = name
        self.link: Link | None = None
        self.scope = trio.CancelScope()
        self._answers: dict[int, trio.MemorySendChannel[Command]] = {}
        self._opaque = 0

    async def run(self) -> None:
        """Until it is killed."""
        self.scope = trio.CancelScope()
        with self.scope:
            async with trio.open_nursery() as self.nursery:
                self.nursery.start_soon(self._stay_connected)
                await self.work()
        if self.link is not None:
            self.link.close()
            self.link = None

    async def work(self) -> None:
        raise NotImplementedError

    async def _stay_connected(self) -> None:
        while True:
            try:
                if self.sim.life is None:
                    raise Killed
                port = self.sim.new_port()
                self.link = self.sim.life.connect(f"127.0.0.1:{port}", port)
            except Killed:
                await trio.sleep(self.sim.random.uniform(0.05, 1))
                continue
            await self._read(self.link)

    async def _read(self, link: Link) -> None:
        reader = FrameReader()
        try:
            while True:
                data = await link.at_client.receive()
                await trio.sleep(self.sim.latency())
                if link.closed:
                    break
                for command in reader.feed(data):
                    waiting = self._answers.pop(command.opaque, None)
                    if waiting is not None and not self.sim.loses():
                        waiting.send_nowait(command)
        except (trio.EndOfChannel, trio.ClosedResourceError):
            pass
        self.link = None

    async def request(self, command: Command, patience: float = 5.0) -> Command | None:
        """The answer, None if there is none in time."""
        self._opaque += 1
        command.opaque = self._opaque
        waiting, answer = trio.open_memory_channel[Command](1)
        self._answers[command.opaque] = waiting
        if self.link is not None and not self.link.closed:
            if not self.sim.loses():
                self.link.to_broker.send_nowait(encode(command))
            with trio.move_on_after(patience):
                return await answer.receive()
        else:
            await trio.sleep(self.sim.random.uniform(0.1, 1))
        self._answers.pop(command.opaque, None)
        return None


class Sender(Peer):
    async def work(self) -> None:
        while True:
            await trio.sleep(self.sim.random.expovariate(1 / self.sim.settings.pause))
            message = self.sim.next_message()
            if message is not None:
                await self._send(message)

    async def _send(self, message: Message) -> None:
        """Once only: what was not answered may be there or not."""
        sim = self.sim
        properties = {"UNIQ_KEY": message.key}
        if message.due is not None:
            properties["TIMER_DELIVER_MS"] = str(message.due)
        command = send_command(
            sim.settings.topic,
            message.key.encode(),
            properties=properties,
            queue_id=message.queue_id,
            queues=sim.settings.queues,
            serialize=sim.random.choice((0, 1)),
        )
        answer = await self.request(command)
        if answer is None:
            return
        sim.expect(answer.code == 0, f"send of {message.key}: {answer.code} {answer.remark}")
        message.stored_end = sim.answered_end()
        sim.note(self.name, f"sent {message.key}, due {message.due}")
        handle = answer.ext.get("recallHandle")
        if handle and sim.chance(sim.settings.recall):
            recall = Command(RECALL_MESSAGE, {"topic": sim.settings.topic, "recallHandle": handle})
            message.asked_back = True
            answer = await self.request(recall)
            in_time = message.due is not None and sim.latest() < message.due - 2000
            if answer is not None and answer.code == 0 and in_time:
                message.recalled_end = sim.answered_end()
                sim.count("recalled")
                sim.note(self.name, f"recalled {message.key}")


class Member(Peer):
    """A member of a group that pops, in order or not."""

    def __init__(self, sim: PopSimulation, name: str, group: str, *, ordered: bool) -> None:
        super().__init__(sim, name)
        self.group = group
        self.ordered = ordered

    async def work(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self.sim.settings.pops):
                nursery.start_soon(self._keep_popping)

    async def _keep_popping(self) -> None:
        while True:
            await trio.sleep(self.sim.random.uniform(0, 2 * self.sim.settings.pause))
            await self._pop()

    async def _pop(self) -> None:
        sim, s = self.sim, self.sim.settings
        command = pop_command(
            s.topic,
            self.group,
            queue_id=-1 if sim.random.random() < 0.8 else sim.random.randrange(s.queues),
            maximum=sim.random.choice((1, 3, 32)),
            invisible=s.invisible,
            poll=sim.random.choice((0, 1000, 4000)),
            order=self.ordered,
        )
        command.ext["bornTime"] = "0"  # from when it comes
        answer = await self.request(command)
        if answer is None or answer.code in NOTHING:
            return
        sim.expect(answer.code == 0, f"pop of {self.group}: {answer.code} {answer.remark}")
        got = deliveries(answer, BROKER)
        sim.popped(self, got)
        forgets = sim.settings.forget
        keep = [each for each in got if not sim.chance(forgets)]
        sim.count("holes", 0 < len(keep) < len(got) and keep[-1] is got[-1])
        if self.ordered:
            await self._acknowledge_each(keep)
        else:
            self.nursery.start_soon(self._answer_for, keep)

    async def _answer_for(self, keep: list[Delivery]) -> None:
        sim = self.sim
        sim.random.shuffle(keep)
        if sim.chance(0.15):  # as slow consumers do
            sim.count("slow")
            await trio.sleep(sim.random.uniform(0, 2 * sim.settings.invisible / 1000))
        if keep and sim.random.random() < 0.4:
            sim.count("batches")
            known = sim.latest()
            for each in keep:
                sim.model.asked(self.group, each)
            command = batch_ack_command(sim.settings.topic, self.group, [e.handle for e in keep])
            answer = await self.request(command)
            for each in keep:
                self._acknowledged(each, answer, known)
            return
        await self._acknowledge_each(keep)

    async def _acknowledge_each(self, keep: list[Delivery]) -> None:
        sim, topic = self.sim, self.sim.settings.topic
        for each in keep:
            if sim.chance(sim.settings.renew):
                given = sim.model.of(self.group, each.record.body.decode())
                before, given.twice = given.twice, True
                change = change_command(topic, self.group, each.handle, sim.settings.invisible)
                answer = await self.request(change)
                if answer is not None and answer.code != 0:
                    sim.refused(self, each, answer)
                if answer is None or answer.ext.get("popTime", "0") == "0":  # nothing was changed
                    sim.model.asked(self.group, each)
                    continue
                sim.count("renewed")
                given.changed_end = sim.answered_end()
                # One that comes too late renews what has come again, or will.
                given.twice = before or sim.model.is_late(each)
                each = Delivery(each.record, changed(each.handle, answer))
            twice = sim.chance(0.1)
            sim.count("acks twice", twice)
            for _ in range(1 + twice):
                known = sim.latest()
                sim.model.asked(self.group, each)
                answer = await self.request(ack_command(topic, self.group, each.handle))
                self._acknowledged(each, answer, known)

    def _acknowledged(self, each: Delivery, answer: Command | None, known: int) -> None:
        if answer is not None and answer.code == 0:
            self.sim.acknowledged(self, each, known)
        elif answer is not None:
            self.sim.refused(self, each, answer)
