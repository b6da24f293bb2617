"""One life of a broker: what pyrmq.broker.assembly makes of POP and timers, without sockets, over a
real store."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.opening import open_store
from pyrmq.broker.pop.parts import open_pop, pop_engine
from pyrmq.broker.requests.pop_processors import pop_processors
from pyrmq.broker.requests.recall import RecallProcessor
from pyrmq.broker.stats.broker_stats import BrokerStats
from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.config_file import PersistentTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.tables import Tables
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.broker.timer import TimerCounts, TimerService
from pyrmq.engine import Listener, PullGrants, Session
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import TopicConfig
from pyrmq.net.server.answers import Answer
from pyrmq.net.server.dispatch import Dispatcher
from tests.system.simulation.broker import Acknowledging
from tests.system.simulation.model import Broken
from tests.system.simulation.stand_ins import FAR, Killed, Link

if TYPE_CHECKING:
    from tests.system.simulation.pops.simulation import PopSimulation

ADDRESS = ("127.0.0.1", 10911)
TIMER_LOG = 52 * 100


class Disk:
    """Stands before the Store: how much of the log is on disk is the simulation's to say."""

    def __init__(self, life: PopLife, store: Any) -> None:
        self._life = life
        self._store = store

    def flushed(self) -> int:
        return self._life.flushed

    def __getattr__(self, name: str) -> Any:
        self._life.alive()
        return getattr(self._store, name)


class Server:
    """Stands for the RemotingServer that POP's parts are given."""

    def __init__(self, life: PopLife) -> None:
        self._life = life
        self.watchers: list[Callable[[tuple[str, int]], None]] = []

    def watch_arrivals(self, watcher: Callable[[tuple[str, int]], None]) -> None:
        self.watchers.append(watcher)

    def at_drain(self, finish: Callable[[], None]) -> None:
        pass

    def wake_parked(self) -> None:
        self._life.report()

    def answer(self, link: Any, to: Any, answer: Answer) -> None:
        self._life.dispatcher.act(link, to, answer)


class PopLife:
    """From one start of the broker to its end. `call` runs native code that may not return."""

    def __init__(self, sim: PopSimulation, folder: Path) -> None:
        self.sim = sim
        self.folder = folder
        self.dead = False
        self.serves = False
        self.scope = trio.CancelScope()
        self.flushed = 0
        self.links: list[Link] = []
        self._grown = trio.Event()
        s = sim.settings
        self.config = BrokerConfig(
            broker_name="broker-a",
            broker_ip1=ADDRESS[0],
            namesrv_addr="",
            store_path_root_dir=folder,
            mapped_file_size_commit_log=s.log_file,
            mapped_file_size_consume_queue=20 * 50,
            mapped_file_size_timer_log=TIMER_LOG,
            max_hash_slot_num=64,
            max_index_num=512,
            flush_disk_type="SYNC_FLUSH" if s.sync else "ASYNC_FLUSH",
            flush_interval_commit_log=3_600_000,
            flush_interval_consume_queue=3_600_000,
            clean_resource_interval=0,  # nothing here is old
            recall_message_enable=True,
        )
        self.store = open_store(self.config, ADDRESS)
        self._ahead = 0
        self._set_clock()
        try:
            self._open()
            sim.fault.breaks(self)
        except BaseException:
            self.dead = True
            sim.bury(self.store, folder)
            raise

    def _open(self) -> None:
        config, live, s = self.config, LiveConfig(self.config), self.sim.settings
        self.flushed = self.log_end()  # what recovery kept, it has made durable
        where = self.folder / "config"
        disk = cast(Any, Disk(self, self.store))
        grants = PullGrants()
        topics = open_topics(where / "topics.json", live, self.store, grants.revoke)
        groups = GroupTable(where / "subscriptionGroup.json", live, grants.revoke)
        offsets = OffsetTable(where / "consumerOffset.json", 1, grants)
        filters = ConsumerFilters(where / "consumerFilter.json", config, self.store)
        self.tables = Tables(topics, groups, offsets, filters, ClientTable(lambda group: None))
        if topics.table.get(s.topic) is None:
            topics.creation.update(TopicConfig(s.topic, s.queues, s.queues))
        for group in s.groups:
            groups.require(group)
        stats = BrokerStats("c", self.store, topics.table, groups, offsets.take_granted_in_turns)
        self.server = Server(self)
        self.timers = TimerService(
            config, disk, TimerCounts(where / "timermetrics"), self.report,
            topics.creation.adopt_delivered,
        )  # fmt: skip
        pops = pop_engine(live, self.store)

        self.pop = self.call(
            open_pop, where, live, disk, pops, self.tables, stats, self.server,
            self.timers.delivered,
        )  # fmt: skip
        processors = pop_processors(live, disk, self.tables, grants, self.pop)
        recall = RecallProcessor(live, disk, topics.table)
        self.dispatcher = Dispatcher(
            "simulated broker",
            {**processors, RequestCode.RECALL_MESSAGE: recall},
            Acknowledging(cast(Any, self)),  # type: ignore[arg-type]
        )
        self.listener = Listener(
            self.store.native,
            timers=self.timers.engine,
            pops=pops.native,
            broker_name=config.broker_name,
            timer_precision_ms=config.timer_precision_ms,
            timer_max_delay_ms=config.timer_max_delay_sec * 1000,
        )

    # Running.

    async def run(self) -> None:
        """Until it is killed or stopped."""
        with self.scope:
            try:
                await self.tables.topics.table.saved(self.sim.settings.topic)
                await self.tables.groups.save_if_changed()
                async with trio.open_nursery() as self.nursery:
                    self.serves = True
                    self.dispatcher.nursery = self.nursery
                    self.nursery.start_soon(self.timers.run)
                    self.nursery.start_soon(self.pop.run)
                    self.nursery.start_soon(self._write_to_disk)
                    self.nursery.start_soon(self._save_tables)
                    self.nursery.start_soon(self._tick)
            except* Killed:
                pass

    def connect(self, peer: str, port: int) -> Link:
        self.alive()
        if not self.serves:
            raise Killed
        link = Link(cast(Any, self), peer, Session(self.listener, b"\x7f\0\0\1", port))
        self.links.append(link)
        self.nursery.start_soon(self._serve, link)
        return link

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
                self.call(self.dispatcher.process, link, command)
            if session.error is not None:
                raise Broken(f"the session of {link.peer} gave up: {session.error}")
            if not session.more:
                break
            reply = self.call(session.feed_bytes, b"", now)
        self.report()

    def report(self) -> None:
        """Messages may have come: whoever waits for their queues hears of it."""
        self.alive()
        for queue in self.store.drain_arrivals():
            for watcher in self.server.watchers:
                self.call(watcher, queue)

    async def _write_to_disk(self) -> None:
        """With SYNC_FLUSH soon after every write, and answers wait for it; otherwise by the way."""
        while True:
            if self.config.sync_flush:
                await self._grown.wait()
                self._grown = trio.Event()
            await trio.sleep(self.sim.flush_pause())
            self.flush()

    def flush(self) -> None:
        self.alive()
        self._settle_flush()
        self.flushed = self.log_end()
        if self.config.sync_flush:
            for link in self.links:
                if link.session.unconfirmed and not link.closed:
                    reply = link.session.release(0, FAR)
                    if reply is not None:
                        link.send(reply)
        self.report()

    def _settle_flush(self) -> None:
        """Waits until the engine's own flusher has done what SYNC_FLUSH asked of it."""
        while self.config.sync_flush and self.store.flushed() < self.log_end():
            if self.store.failure():
                raise Broken(str(self.store.failure()))
            select.select([self.store.event_fd()], [], [], 0.0005)

    async def _tick(self) -> None:
        """The engine's own clock follows the simulation's."""
        while True:
            await trio.sleep(0.5)
            self._set_clock()

    def _set_clock(self) -> None:
        before, self._ahead = self._ahead, self.sim.ahead()
        self.store.advance_clock(self._ahead - before)

    async def _save_tables(self) -> None:
        while True:
            await trio.sleep(self.sim.save_pause())
            await self.save()

    async def save(self) -> None:
        """As the broker does: the file of offsets waits for the disk."""
        self.alive()
        tables = self.tables
        found: list[PersistentTable] = [
            tables.topics.table, tables.groups, tables.offsets, self.pop.order
        ]  # fmt: skip
        for table in found:
            try:
                await table.save_if_changed()
            except OSError:
                self.sim.count("not saved")

    def on_sent(self, data: bytes) -> None:
        pass

    def log_end(self) -> int:
        return int(self.store.stats()["maxPhyOffset"])

    # Dying.

    def alive(self) -> None:
        if self.dead:
            raise Killed

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        """Runs native code; what it writes may be cut short by a kill, which nobody sees."""
        self.alive()
        self._set_clock()
        before = self.log_end()
        result = work(*args)
        after = self.log_end()
        if after > before:
            self._grown.set()
            if self.config.sync_flush:
                self._settle_flush()
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
