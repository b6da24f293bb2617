"""A transactional producer as Java's: sends halves, runs transactions, answers checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from tests.support.records import decode_record
from tests.support.transactions import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Half,
    end_command,
    half_command,
    stored_half,
)
from tests.support.wire import FLAG_ONEWAY, Command, FrameReader, encode
from tests.system.simulation.model import Chain, Kind, Transaction
from tests.system.simulation.stand_ins import Killed, Link

if TYPE_CHECKING:
    from tests.system.simulation.simulation import Simulation

CHECK_TRANSACTION_STATE = 39
ATTEMPTS = 3
"""retryTimesWhenSendFailed + 1"""


class Producer:
    """`run` is one process; who runs it again has a new process of the same name."""

    def __init__(self, sim: Simulation, name: str, group: str) -> None:
        self.sim = sim
        self.name = name
        self.group = group
        self.link: Link | None = None
        self.scope = trio.CancelScope()
        self._answers: dict[int, trio.MemorySendChannel[Command]] = {}
        self._opaque = 0

    async def run(self) -> None:
        """Until it is killed."""
        self.scope = trio.CancelScope()
        running: list[Transaction] = []
        with self.scope:
            async with trio.open_nursery() as self.nursery:
                self.nursery.start_soon(self._stay_connected)
                while True:
                    await trio.sleep(self.sim.random.expovariate(1 / self.sim.settings.pause))
                    transaction = self.sim.next_transaction(self.group)
                    if transaction is not None:
                        running.append(transaction)
                        self.nursery.start_soon(self._transact, transaction)
        for transaction in running:
            transaction.running = False  # it died with the process
        self._disconnect()

    def kill(self) -> None:
        self.scope.cancel()

    # Connection.

    async def _stay_connected(self) -> None:
        while True:
            try:
                self._connect()
            except Killed:
                await trio.sleep(self.sim.random.uniform(0.05, 1))
                continue
            assert self.link is not None
            await self._read(self.link)

    def _connect(self) -> None:
        life = self.sim.life
        if life is None:
            raise Killed
        self.link = life.connect(self.name, self.sim.new_port())
        life.register(self.link, self.group)

    def _disconnect(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None

    async def _read(self, link: Link) -> None:
        reader = FrameReader()
        try:
            while True:
                data = await link.at_client.receive()
                await trio.sleep(self.sim.latency())
                if link.closed:
                    break
                for command in reader.feed(data):
                    if not self.sim.loses():
                        self._take(command)
        except (trio.EndOfChannel, trio.ClosedResourceError):
            pass
        self.link = None

    def _take(self, command: Command) -> None:
        if command.is_response:
            waiting = self._answers.pop(command.opaque, None)
            if waiting is not None:
                waiting.send_nowait(command)
        elif command.code == CHECK_TRANSACTION_STATE:
            self.nursery.start_soon(self._answer_check, command)

    def _post(self, command: Command) -> bool:
        """Hands a frame to the connection; what becomes of it nobody knows."""
        if self.link is None or self.link.closed:
            return False
        if not self.sim.loses():
            self.link.to_broker.send_nowait(encode(command))
        return True

    async def request(self, command: Command, patience: float = 3.0) -> Command | None:
        """The answer, None if there is none in time."""
        self._opaque += 1
        command.opaque = self._opaque
        waiting, answer = trio.open_memory_channel[Command](1)
        self._answers[command.opaque] = waiting
        if self._post(command):
            with trio.move_on_after(patience):
                return await answer.receive()
        else:
            await trio.sleep(self.sim.random.uniform(0.1, 1))
        self._answers.pop(command.opaque, None)
        return None

    # Transactions.

    async def _transact(self, tx: Transaction) -> None:
        w, random = self.sim, self.sim.random
        tx.running = True
        chain = None
        for _ in range(ATTEMPTS):
            chain = await self._send_half(tx)
            if chain is not None:
                break
        if chain is None:
            # The send failed, so the local transaction is not executed.
            w.note(self.name, f"gives up {tx.key}")
            tx.decide(ROLLBACK)
            tx.running = False
            return
        await trio.sleep(w.work_time())
        if tx.kind is not Kind.MUTE:
            tx.decide(ROLLBACK if tx.kind is Kind.ROLLBACK else COMMIT)
        w.note(self.name, f"executed {tx.key}: {tx.decision}")
        tx.running = False
        assert chain.half is not None
        if tx.kind is Kind.ONCE:
            await self._commit_once(tx, chain.half)
            return
        if random.random() < w.settings.forget_end:
            return
        while True:
            await trio.sleep(w.delay_of_end())
            self._end(chain.half, tx.decision or UNKNOWN)
            if random.random() > w.settings.repeat_end:
                return

    async def _send_half(self, tx: Transaction) -> Chain | None:
        chain = tx.attempt()
        if not tx.same_birth or not tx.born:
            tx.born = self.sim.now()
        properties = {}
        if tx.immunity is not None:
            properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] = str(tx.immunity)
        command = half_command(
            tx.topic,
            chain.body,
            group=tx.group,
            key=tx.key,
            queue_id=tx.queue_id,
            properties=properties,
            serialize=self.sim.random.choice((0, 1)),
            change={"g": str(tx.born)},
        )
        answer = await self.request(command)
        if answer is None or answer.code != 0:
            self.sim.note(self.name, f"half {chain.body.decode()}: {answer and answer.remark}")
            return None
        chain.half = stored_half(command, answer)
        self.sim.note(
            self.name,
            f"half {chain.body.decode()} at {chain.half.queue_offset}, phys {chain.half.phys}",
        )
        return chain

    def _end(self, half: Half, state: int, from_check: bool = False) -> None:
        command = end_command(half, state, from_check=from_check)
        command.flag = FLAG_ONEWAY
        self.sim.note(self.name, f"end {half.unique_key[-4:]} at {half.queue_offset} with {state}")
        self._post(command)

    async def commit(
        self, half: Half, state: int = COMMIT, *, from_check: bool = False
    ) -> int | None:
        """Ends with an answer, which no client library asks for."""
        life = self.sim.life
        answer = await self.request(end_command(half, state, from_check=from_check))
        self.sim.note(
            self.name,
            f"end {half.unique_key[-4:]} at {half.queue_offset} with {state}: "
            f"{answer and (answer.code, answer.remark)}",
        )
        if answer is None or life is not self.sim.life:
            return None
        return answer.code

    async def _commit_once(self, tx: Transaction, half: Half) -> None:
        w = self.sim
        for _ in range(3):
            if await self.commit(half) == 0:
                life = w.life
                if life is not None and not life.dead:
                    tx.acknowledged_end = life.flushed if w.settings.sync else life.log_end()
                    tx.forgotten = True
                return

    async def _answer_check(self, command: Command) -> None:
        w = self.sim
        (record, ext) = (decode_record(command.body), command.ext)
        tx = w.model.transactions[ext["transactionId"]]
        half = Half(
            group=record.properties["PGROUP"],
            unique_key=tx.key,
            queue_id=record.queue_id,
            queue_offset=int(ext["tranStateTableOffset"]),
            phys=int(ext["commitLogOffset"]),
            offset_msg_id=ext["offsetMsgId"],
            transaction_id=tx.key,
        )
        if tx.decision is None and not tx.running and tx.kind is not Kind.MUTE:
            tx.decide(ROLLBACK)  # its process died before it wrote anything
        known = None if tx.forgotten else tx.decision
        await trio.sleep(w.answer_delay())
        if not w.answers_check():
            return
        while True:
            self._end(half, UNKNOWN if known is None else known, from_check=True)
            if not w.chance(w.settings.repeat_end):
                return
            await trio.sleep(w.answer_delay())
