"""An embedded broker for tests.

    async with pyrmq.testing.broker() as server:  # asyncio or trio; `with` in blocking code
        async with Producer("group", namesrv=server.namesrv) as producer:
            ...
            server.clock.advance(3600)  # what waits for an hour is due now

With pytest, the fixture `pyrmq_broker` is one broker for all tests of a session.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import trio
from sniffio import current_async_library

from pyrmq.broker import Broker, BrokerConfig
from pyrmq.client.checks import check_seconds
from pyrmq.errors import ClientError
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.clock import Clock, go_by
from pyrmq.portal.thread import Held, Portal
from pyrmq.server import Running, namesrv_keys, serving

SMALL_LOG = 16 << 20
"""Commit-log file size of test stores, bytes."""
MAX_ADVANCE = 10 * 366 * 86_400
"""Most seconds by which a clock is put forward at once."""


class TestClock:
    """The time of day that a test broker goes by. Its methods may be called from any thread and any
    event loop."""

    __test__ = False  # pytest takes it for none of its classes

    def __init__(self, clock: Clock, broker: Broker) -> None:
        self._clock = clock
        self._broker = broker
        self._loop = trio.lowlevel.current_trio_token()

    def now(self) -> datetime:
        """The broker's time, in UTC."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def advance(self, by: float | timedelta) -> None:
        """Puts the broker's clock forward by seconds or a timedelta, up to ten years.

        What is due by then comes within moments, as after a wait: timer messages, delay levels,
        retries, messages that a consumer did not acknowledge, and checks of transactions. Clients
        keep the machine's clock: for `deliver_at` add to `now()`. Deletion of old files and
        intervals at which clients ask for something are not affected.

        Raises ClientError for a time to go back by, and if the broker has stopped.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        check_seconds("by", seconds, 0, MAX_ADVANCE)
        ms = round(seconds * 1000)
        self._clock.advance(ms)
        self._broker.store.advance_clock(ms)
        try:
            self._loop.run_sync_soon(self._broker.transactions.check_soon)
        except trio.RunFinishedError:
            raise ClientError("the broker has stopped") from None


@dataclass(frozen=True, slots=True)
class TestServer(Running):
    """A server that runs: `namesrv` is the address for clients, `clock` its time of day."""

    __test__: ClassVar[bool] = False

    clock: TestClock


class TestBroker:
    """The result of `broker`: a context manager for asyncio, blocking code and trio.

    In a trio program the server runs in that program's event loop, otherwise in its own thread.
    """

    __test__ = False  # pytest takes it for none of its classes

    def __init__(self, server: AbstractAsyncContextManager[TestServer]) -> None:
        self._server = server
        self._thread: Portal | None = None
        self._held: Held | None = None

    def __enter__(self) -> TestServer:
        if self._thread is not None:
            raise ClientError("this can be entered once only: make a new one")
        self._thread = Portal("pyrmq-broker")
        self._thread.start()
        entered, self._held = self._thread.open(self._server)
        try:
            return entered.result()
        except BaseException:
            self._thread.stop()
            raise

    def __exit__(self, *error: object) -> None:
        assert self._thread is not None
        assert self._held is not None
        try:
            self._thread.close(self._held).result()
        finally:
            self._thread.stop()

    async def __aenter__(self) -> TestServer:
        if current_async_library() == "trio":
            return await self._server.__aenter__()
        import asyncio

        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *error: Any) -> None:
        if self._thread is None:
            await self._server.__aexit__(*error)
        else:
            import asyncio

            await asyncio.to_thread(self.__exit__)


def broker(store: Path | None = None, **settings: Any) -> TestBroker:
    """Name server and broker on free loopback ports, on a temporary store unless you give one.

        async with pyrmq.testing.broker() as server:
            async with pyrmq.aio.Producer("group", namesrv=server.namesrv) as producer: ...

        with pyrmq.testing.broker() as server:
            with pyrmq.sync.Producer("group", namesrv=server.namesrv) as producer: ...

    `settings` are fields of BrokerConfig (`flush_disk_type="SYNC_FLUSH"`, …); those of access
    control and TLS are the name server's as well. `server.namesrv` is the address for clients,
    `server.clock` the broker's time, which a test can put forward.
    Raises ConfigError for an invalid setting, and StoreLockedError if another broker has the store
    open.
    """
    return TestBroker(_serving(store, settings))


@contextmanager
def _temporary() -> Iterator[Path]:
    """A folder until the block, or the program, ends. Not a TemporaryDirectory: a forked child that
    ends would delete the parent's."""
    path, process = mkdtemp(prefix="pyrmq-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(path)

    atexit.register(remove)
    try:
        yield Path(path)
    finally:
        atexit.unregister(remove)
        remove()


@asynccontextmanager
async def _serving(store: Path | None, settings: dict[str, Any]) -> AsyncIterator[TestServer]:
    with ExitStack() as stack:
        root = store or stack.enter_context(_temporary())
        defaults: dict[str, Any] = {
            "broker_name": "broker-a",
            "broker_ip1": "127.0.0.1",
            "bind_address": "127.0.0.1",
            "listen_port": 0,
            "namesrv_addr": "",
            "store_path_root_dir": root,
            "mapped_file_size_commit_log": SMALL_LOG,
        }
        config = BrokerConfig(**{**defaults, **settings})
        namesrv = NamesrvConfig(
            listen_port=0,
            bind_address="127.0.0.1",
            kv_config_path=config.store_path_root_dir / "config" / "kvConfig.json",
            **namesrv_keys(config),
        )
        clock = Clock()
        async with AsyncExitStack() as parts:
            with go_by(clock):  # what the broker starts, not what is tested
                running = await parts.enter_async_context(serving(config, namesrv))
            yield TestServer(
                running.namesrv,
                running.broker_address,
                running.broker,
                TestClock(clock, running.broker),
            )
