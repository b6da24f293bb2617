"""One life of a broker: what pyrmq.broker.assembly makes, without sockets, over a real store."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.broker.opening import open_store
from pyrmq.broker.requests.transactions import (
    ProducerChoice,
    TransactionProcessor,
    open_transactions,
    rules,
)
from pyrmq.broker.tables import config_file
from pyrmq.broker.tables.clients import Client, ClientTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.engine import Command, Listener, Session, Transactions
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from pyrmq.net.address import message_id
from pyrmq.net.command import ReplyTo, encode_response
from pyrmq.net.server.answers import WhenConfirmed
from pyrmq.net.server.dispatch import Dispatcher
from pyrmq.txn import TransactionService
from pyrmq.txn.machine import PendingHalf
from tests.support.records import decode_record
from tests.support.wire import decode
from tests.system.simulation.model import Broken
from tests.system.simulation.stand_ins import FAR, Disk, Engine, Killed, Link

if TYPE_CHECKING:
    from tests.system.simulation.simulation import Simulation

ADDRESS = ("127.0.0.1", 10911)
QUEUES = 4


class Acknowledging:
    """Stands in for `net.server.unconfirmed`: the answer waits in its session for `release`."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def answer(self, link: Link, command: Command | ReplyTo, answer: WhenConfirmed) -> None:
        log_end = self._life.log_end()
        if answer.log_end > log_end:
            raise Broken(f"an answer waits for {answer.log_end}, behind the log's end {log_end}")
        if command.flag & 2:  # one-way
            return
        frame = b"".join(encode_response(command, answer.response))
        if answer.log_end <= self._life.flushed:
            link.send(frame)
            return
        reply = link.session.answer(frame, command.codec, command.opaque, answer.log_end, 0)
        if reply is not None:
            link.send(reply)


def all_pending(native: Transactions) -> list[Any]:
    """Every half that waits, as a check pass of the far future sees it."""
    return native.due(FAR, 0, 0, 0, 0, FAR, 1 << 20, 1 << 20)[0]


class Life:
    """From one start of the broker to its end. `call` runs native code that may not return."""

    def __init__(self, sim: Simulation, folder: Path) -> None:
        self.sim = sim
        self.folder = folder
        self.dead = False
        self.scope = trio.CancelScope()
        self.flushed = 0
        self.indexed = 0
        self.index_from = trio.current_time() + sim.index_pause()
        self._grown = trio.Event()
        self.sent_checks = 0
        self.links: list[Link] = []
        s = sim.settings
        self.config = BrokerConfig(
            broker_name="broker-a",
            broker_ip1=ADDRESS[0],
            namesrv_addr="",
            store_path_root_dir=folder,
            mapped_file_size_commit_log=s.log_file,
            mapped_file_size_consume_queue=20 * 50,
            max_hash_slot_num=64,
            max_index_num=512,
            flush_disk_type="SYNC_FLUSH" if s.sync else "ASYNC_FLUSH",
            flush_interval_commit_log=3_600_000,
            flush_interval_consume_queue=3_600_000,
            clean_resource_interval=0,  # nothing here is old
            transaction_time_out=s.time_out,
            transaction_check_max=s.check_max,
            transaction_check_interval=s.interval,
            transaction_op_msg_max_size=s.max_op_body,
        )
        self.store = open_store(self.config, ADDRESS)
        try:
            self._open()
        except BaseException:
            self.dead = True
            sim.bury(self.store, folder)
            raise

    def _open(self) -> None:
        sim = self.sim
        for topic in sim.settings.topics:
            self.store.set_topic(topic, read_queues=QUEUES, write_queues=QUEUES)
        self.flushed = self.indexed = self.log_end()  # what recovery kept, it has made durable
        self.offsets = OffsetTable(self.folder / "config" / "consumerOffset.json", 1)
        sim.faults.before_open(self.store)
        self.native = self.call(open_transactions, self.config, self.store, self.offsets)
        self.rebuilt = self.native.rebuilt()
        self._check_rebuilt()
        self.engine: Any = Engine(self, sim.faults.engine(self.native))
        self.clients = ClientTable(lambda group: None)
        disk: Any = Disk(self, self.store)
        self.service = TransactionService(
            disk,
            self.engine,
            rules(self.config),
            producers=ProducerChoice(self.clients),
            broker_name=self.config.broker_name,
            message_id=lambda phys: message_id(ADDRESS, phys),
            keep_progress=self._keep_progress,
            overflow=self._overflow,
            now=sim.now,
            on_exhausted=sim.exhausted if sim.settings.hook else None,
        )
        processor = TransactionProcessor(self.service)
        self.dispatcher = Dispatcher(
            "simulated broker",
            {
                RequestCode.END_TRANSACTION: processor.end,
                RequestCode.RESUME_CHECK_HALF_MESSAGE: processor.resume,
            },
            Acknowledging(self),  # type: ignore[arg-type]
        )
        self.listener = Listener(self.store.native, transactions=self.native)

    # Running.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is killed or stopped."""
        with self.scope:
            try:
                async with trio.open_nursery() as self.nursery:
                    await self.nursery.start(self.service.run)
                    self.nursery.start_soon(self._write_to_disk)
                    self.nursery.start_soon(self._save_offsets)
                    task_status.started()
            except* Killed:
                pass

    def connect(self, peer: str, port: int) -> Link:
        self.alive()
        link = Link(self, peer, Session(self.listener, b"\x7f\0\0\1", port))
        self.links.append(link)
        self.nursery.start_soon(self._serve, link)
        return link

    def register(self, link: Link, group: str) -> None:
        """What a heartbeat does."""
        client = Client(link.peer, 0, 0, trio.current_time())
        self.clients.register_producer(group, link, client)  # type: ignore[arg-type]

    async def _serve(self, link: Link) -> None:
        with suppress(trio.EndOfChannel, trio.ClosedResourceError):
            while True:
                data = await link.at_broker.receive()
                await trio.sleep(self.sim.latency())
                with suppress(trio.WouldBlock):  # what came meanwhile is read with it
                    while True:
                        data += link.at_broker.receive_nowait()
                for piece in self.sim.pieces(data):
                    self._feed(link, piece)

    def _feed(self, link: Link, data: bytes) -> None:
        if link.closed:
            return
        session, now = link.session, int(trio.current_time() * 1000)
        reply = self.call(session.feed_bytes, data, now)
        while True:
            if reply is not None:
                link.send(reply)
            while (command := session.next_command()) is not None:
                self.dispatcher.process(link, command)  # type: ignore[arg-type]
            if session.error is not None:
                raise Broken(f"the session of {link.peer} gave up: {session.error}")
            if self.sim.faults.hasty and self.config.sync_flush:
                self.settle_flush()
                self._release()
            if not session.more:
                return
            reply = self.call(session.feed_bytes, b"", now)

    async def _write_to_disk(self) -> None:
        """With SYNC_FLUSH soon after every write, and answers wait for it; otherwise by the way."""
        while True:
            if self.config.sync_flush:
                await self._grown.wait()
                self._grown = trio.Event()
            await trio.sleep(self.sim.flush_pause() * (1000 if self.sim.faults.hasty else 1))
            self.flush()

    def flush(self) -> None:
        self.alive()
        self.settle_flush()
        self.flushed = self.indexed = self.log_end()
        if self.config.sync_flush:
            self._release()

    def _release(self) -> None:
        """Sends what waited for the disk."""
        for link in self.links:
            if link.session.unconfirmed and not link.closed:
                reply = link.session.release(0, FAR)
                if reply is not None:
                    link.send(reply)
                if link.session.unconfirmed:
                    raise Broken("all is flushed, and answers are kept")

    async def _save_offsets(self) -> None:
        while True:
            await trio.sleep(self.sim.save_pause())
            self.save()

    def save(self) -> None:
        self.alive()
        config_file.save(self.offsets.path, self.offsets.to_json())

    async def _overflow(self) -> None:
        await trio.lowlevel.checkpoint()
        self.alive()
        self.store.set_topic(CHECK_MAX_TOPIC, read_queues=1, write_queues=1)

    def _keep_progress(self, half: int, op: int) -> None:
        waiting = self.pending()
        if waiting and half > waiting[0].offset:
            raise Broken(f"progress {half} passes the half that waits at {waiting[0].offset}")
        self.offsets.keep(HALF_TOPIC, TRANSACTION_GROUP, 0, half)
        self.offsets.keep(OP_TOPIC, TRANSACTION_GROUP, 0, op)

    def on_sent(self, data: bytes) -> None:
        """A frame goes out: is it a check?"""
        if b'"code":39' not in data[:40]:
            return
        command = decode(data)
        record = decode_record(command.body)
        count = int(record.properties.get("TRANSACTION_CHECK_TIMES", "0"))
        self.sent_checks += 1
        self.sim.note("broker", f"asks about {record.body.decode()}, count {count}")
        self.sim.model.asked(record.body, count, int(command.ext["commitLogOffset"]))

    # What there is.

    def log_end(self) -> int:
        return int(self.store.stats()["maxPhyOffset"])

    def pending(self) -> list[PendingHalf]:
        return [PendingHalf(*facts) for facts in all_pending(self.native)]

    def _check_rebuilt(self) -> None:
        """From the kept progress on the same is found as from the very start."""
        everything = Transactions(self.store.native)
        waits = all_pending(everything)
        found = [tuple(half) for half in self.pending()]
        self.sim.note("broker", f"starts with {self.rebuilt}")
        for what in ("ended", "replaced"):
            if self.rebuilt[what]:
                self.sim.count(what)
        if self.sim.model.has_twins():
            # Two halves of one transaction and one birth: each start may take one more for a copy.
            found, waits = ([(half[2], half[-1]) for half in halves] for halves in (found, waits))
            found, waits = sorted(set(found)), sorted(set(waits))
        if found != waits:
            raise Broken(f"restart finds {found}, the full history says {waits}")

    def settle_flush(self) -> None:
        """Waits until the engine's own flusher has done what SYNC_FLUSH asked of it."""
        while self.config.sync_flush and self.store.flushed() < self.log_end():
            if self.store.failure():
                raise Broken(str(self.store.failure()))
            select.select([self.store.event_fd()], [], [], 0.0005)

    def settle_index(self) -> None:
        while self.store.stats()["indexedWhere"] < self.log_end():
            select.select([], [], [], 0.0005)

    def check_counts(self) -> None:
        """Every check that was counted was sent, and the other way round."""
        counted = self.native.stats()["checks"]
        if counted != self.sent_checks:
            raise Broken(f"{counted} checks were counted, {self.sent_checks} were sent")

    # Dying.

    def alive(self) -> None:
        if self.dead:
            raise Killed

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        """Runs native code; what it writes may be cut short by a kill, which nobody sees."""
        self.alive()
        before = self.log_end()
        result = work(*args)
        after = self.log_end()
        if after > before:
            self._grown.set()
            if self.sim.dies_in_call():
                self.sim.killed_in_call(self, before, after)
                raise Killed
        return result

    def end(self) -> None:
        """Nothing more happens in this process."""
        self.dead = True
        for link in self.links:
            link.close()
        self.scope.cancel()
