"""Apache RocketMQ's broker in the place of `pyrmq.testing.broker` and of `ServerProcess`, for tests
that are written for ours."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from pyrmq.net import fastjson
from tests.support.client import Client
from tests.support.wire import Command

from .store import peer

GET_ALL_TOPIC_CONFIG, GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 21, 201
DELETE_SUBSCRIPTIONGROUP, DELETE_TOPIC_IN_BROKER, DELETE_TOPIC_IN_NAMESRV = 207, 215, 216


@dataclass(frozen=True)
class Served:
    """What tests use of `pyrmq.server.Running`."""

    namesrv: str
    broker_address: peer.Address


class Apache:
    """Brokers of one name server, one after the other, as all have one name; `folder` has their
    stores and logs."""

    def __init__(self, names: peer.NameServer, folder: Path) -> None:
        self._names = names
        self._folder = folder
        self._numbers = itertools.count()

    def broker(self, store: Path | None, conf: str) -> peer.RealBroker:
        """One that is not started yet; without a store of the test's it has its own."""
        home = self._folder / f"broker-{next(self._numbers)}"
        return peer.RealBroker(store or home / "store", self._names.address, conf, home=home)

    @asynccontextmanager
    async def serve(self, store: Path | None = None, **keys: object) -> AsyncIterator[Served]:
        """As `pyrmq.testing.broker`; keys are fields of BrokerConfig. Where the test has the store,
        the broker is stopped as an operator would, so that all is on disk."""
        conf = "".join(f"{_camel(key)}={_text(value)}\n" for key, value in keys.items())
        broker = self.broker(store, conf)
        await trio.to_thread.run_sync(broker.start)
        try:
            yield Served(self._names.address, broker.address)
        finally:
            end = broker.kill if store is None else broker.terminate
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(end)

    @contextmanager
    def shared(self) -> Iterator[Shared]:
        """One for many tests. (It deletes topics only where it has timer messages.)"""
        with (
            self.broker(None, "timerWheelEnable=true\n") as broker,
            Client(broker.address) as client,
        ):
            yield Shared(self._names.address, broker.address, client)

    def apart(self, store: Path) -> Apart:
        """As `ServerProcess`."""
        host, _, port = self._names.address.rpartition(":")
        return Apart((host, int(port)), self.broker(store, "timerWheelEnable=true\n"))


class Shared:
    """A broker that is as new when it was cleaned."""

    def __init__(self, namesrv: str, address: peer.Address, client: Client) -> None:
        self.served = Served(namesrv, address)
        self._client = client
        self._own = self._topics(), self._groups()

    def _topics(self) -> set[str]:
        answer = self._client.call(GET_ALL_TOPIC_CONFIG)
        return set(fastjson.loads_object(answer.body)["topicConfigTable"])

    def _groups(self) -> set[str]:
        answer = self._client.call(GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return set(fastjson.loads_object(answer.body)["subscriptionGroupTable"])

    def clean(self) -> None:
        """Deletes all topics and groups that were made since, with messages and offsets."""
        host, _, port = self.served.namesrv.rpartition(":")
        with Client((host, int(port))) as names:
            for topic in self._topics() - self._own[0]:
                _done(self._client.call(DELETE_TOPIC_IN_BROKER, topic=topic))
                _done(names.call(DELETE_TOPIC_IN_NAMESRV, topic=topic))
        for group in self._groups() - self._own[1]:
            ext = {"groupName": group, "cleanOffset": "true"}
            _done(self._client.call(DELETE_SUBSCRIPTIONGROUP, **ext))


def _done(answer: Command) -> None:
    assert answer.code == 0, answer.remark


class Apart:
    """A broker that is started, stopped and killed while its name server stays."""

    def __init__(self, namesrv: peer.Address, broker: peer.RealBroker) -> None:
        self.namesrv = namesrv
        self._broker = broker
        self.kill = broker.kill
        self.terminate = broker.terminate

    def start(self) -> Self:
        self._broker.start()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._broker.kill()


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
