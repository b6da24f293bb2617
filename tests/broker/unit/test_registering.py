"""What name servers hear of a broker, and when: all topics, some, or a question. The name servers
are scripts on streams in memory, and the clock jumps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.registration import Registration
from pyrmq.broker.tables.topic_creation import Topics, open_topics
from pyrmq.engine import Store
from pyrmq.model.topic import TopicConfig
from tests.support.scripted.script import HANG_UP, times
from tests.support.scripted.streams import StreamCluster
from tests.support.wire import Command

REGISTER, UNREGISTER, ONE_TOPIC, VERSION = 103, 104, 217, 322
SYSTEM = 12
"""Topics that every broker has, at least."""


class World:
    """A broker's registration at two name servers."""

    def __init__(self, cluster: StreamCluster, topics: Topics, own: Registration) -> None:
        self.cluster = cluster
        self.topics, self.creation = topics.table, topics.creation
        self.registration = own

    def heard(self, name: str) -> list[tuple[int, Any]]:
        """What a name server heard: codes, with the topics of registrations, None for all."""
        return [(r.code, self._topics(r)) for r in self.cluster[name].requests()]

    def _topics(self, request: Command) -> Any:
        if request.code == ONE_TOPIC:
            return request.ext["topic"]
        if request.code != REGISTER:
            return None
        wrapper = json.loads(request.body)["topicConfigSerializeWrapper"]
        table = wrapper["topicConfigTable"]
        assert wrapper["dataVersion"]["counter"] > 0
        return None if len(table) >= SYSTEM else sorted(table)

    def forget(self) -> None:
        for broker in self.cluster.brokers.values():
            for connection in broker.connections:
                connection.requests.clear()


Make = Callable[..., Any]


@pytest.fixture
def make(
    tmp_path: Path,
    config: BrokerConfig,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> Make:
    @asynccontextmanager
    async def build(**settings: object) -> AsyncIterator[World]:
        changed = replace(config, namesrv_addr="one:9876;two:9876", **settings)
        topics = open_topics(tmp_path / "topics.json", LiveConfig(changed), store)
        registration = Registration(LiveConfig(changed), topics.table, ("127.0.0.1", 10911))
        async with StreamCluster("one", "two") as cluster, trio.open_nursery() as nursery:
            monkeypatch.setattr(trio, "open_tcp_stream", cluster.connect)
            await nursery.start(registration.run)
            yield World(cluster, topics, registration)
            nursery.cancel_scope.cancel()

    return build


async def test_all_topics_at_start_and_every_period(make: Make, autojump_clock: MockClock) -> None:
    async with make() as world:
        assert world.heard("one") == world.heard("two") == [(REGISTER, None)]
        await trio.sleep(29)
        assert len(world.heard("one")) == 1
        await trio.sleep(2)
        assert world.heard("one") == world.heard("two") == [(REGISTER, None)] * 2


@pytest.mark.parametrize(("asked", "period"), [(1, 10), (15_000, 15), (86_400_000, 60)])
async def test_bounds_of_the_period(
    make: Make, autojump_clock: MockClock, asked: int, period: float
) -> None:
    async with make(register_name_server_period=asked) as world:
        await trio.sleep(period - 0.5)
        assert len(world.heard("one")) == 1
        await trio.sleep(1)
        assert len(world.heard("one")) == 2


async def test_new_topics_at_once_and_alone(make: Make, autojump_clock: MockClock) -> None:
    async with make() as world:
        world.forget()
        world.creation.update(TopicConfig("T", 1, 1))
        await trio.sleep(0.01)
        world.creation.update(TopicConfig("U", 1, 1))
        world.creation.update(TopicConfig("T", 2, 2))
        await trio.sleep(0.01)
        wanted = [(REGISTER, ["T"]), (REGISTER, ["T", "U"])]
        assert world.heard("one") == world.heard("two") == wanted
        await world.registration.told()


async def test_all_topics_also_where_some_change_all_the_time(
    make: Make, autojump_clock: MockClock
) -> None:
    async with make() as world:
        for n in range(70):
            world.creation.update(TopicConfig("T", n, n))
            await trio.sleep(1)
        assert world.heard("one").count((REGISTER, None)) == 3


async def test_one_by_one(make: Make, autojump_clock: MockClock) -> None:
    async with make(enable_single_topic_register=True, broker_permission=4) as world:
        world.forget()
        world.creation.update(TopicConfig("T", 1, 2))
        world.creation.update(TopicConfig("U", 1, 2))
        await trio.sleep(0.01)
        assert sorted(world.heard("one")) == [(ONE_TOPIC, "T"), (ONE_TOPIC, "U")]
        body = json.loads(world.cluster["one"].requests(ONE_TOPIC)[0].body)
        assert body["queueDatas"] == [
            {"brokerName": "broker-a", "perm": 4, "readQueueNums": 1, "topicSysFlag": 0,
             "writeQueueNums": 2}
        ]  # fmt: skip
        world.forget()
        for n in range(100):
            world.creation.update(TopicConfig(f"T{n}", 1, 1))
        await trio.sleep(0.01)
        assert world.heard("one") == [(REGISTER, None)], "that many are registered together"


def says(changed: bool) -> Callable[[Command], Command]:
    return lambda c: c.reply(0, {"changed": str(changed).lower()})


async def test_without_force_a_name_server_is_asked_first(
    make: Make, autojump_clock: MockClock
) -> None:
    """Each for itself: the one that knows all is left alone."""
    async with make(force_register=False) as world:
        world.forget()
        world.cluster["one"].change[VERSION] = says(False)
        world.cluster["two"].change[VERSION] = says(True)
        await trio.sleep(30.5)
        assert world.heard("one") == [(VERSION, None)]
        assert world.heard("two") == [(VERSION, None), (REGISTER, None)]
        asked = world.cluster["one"].requests(VERSION)[0]
        assert json.loads(asked.body) == world.topics.version.to_json()
        assert asked.ext == {
            "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911",
            "clusterName": "DefaultCluster", "brokerId": "0",
        }  # fmt: skip
        world.forget()
        world.creation.update(TopicConfig("T", 1, 1))
        await trio.sleep(0.01)
        assert world.heard("one") == world.heard("two") == [(REGISTER, ["T"])]


@pytest.mark.parametrize("code", [1, 3])
async def test_a_name_server_that_does_not_say_whether_it_knows(
    make: Make, autojump_clock: MockClock, code: int
) -> None:
    async with make(force_register=False) as world:
        world.forget()
        world.cluster["one"].change[VERSION] = lambda c: c.reply(code)
        await trio.sleep(30.5)
        assert world.heard("one") == [(VERSION, None), (REGISTER, None)]


async def test_a_name_server_that_fails_is_tried_again_soon(
    make: Make, autojump_clock: MockClock
) -> None:
    """It gets all topics then, while the other one gets what is new."""
    async with make() as world:
        world.forget()
        world.cluster["one"].change[REGISTER] = lambda c: c.reply(1)
        world.creation.update(TopicConfig("T", 1, 1))
        await trio.sleep(1.6)
        assert world.heard("two") == [(REGISTER, ["T"])]
        assert world.heard("one") == [(REGISTER, ["T"]), (REGISTER, None), (REGISTER, None)]
        del world.cluster["one"].change[REGISTER]
        await trio.sleep(3)
        world.forget()
        world.creation.update(TopicConfig("U", 1, 1))
        await trio.sleep(0.01)
        assert world.heard("one") == [(REGISTER, ["U"])]


async def test_a_new_connection_begins_with_all_topics(
    make: Make, autojump_clock: MockClock
) -> None:
    """Its end unregistered the broker: with one topic of a new one it would not exist."""
    async with make(force_register=False) as world:
        await world.cluster["one"].connections[0].close()
        await trio.sleep(0.01)
        world.cluster["one"].change[VERSION] = says(True)
        world.creation.update(TopicConfig("T", 1, 1))
        await trio.sleep(0.01)
        assert world.heard("one")[-2:] == [(VERSION, None), (REGISTER, None)]
        assert world.heard("two")[-1:] == [(REGISTER, ["T"])]


async def test_told_all_again_while_it_is_told_all(make: Make, autojump_clock: MockClock) -> None:
    """What is under way may be older than the other broker's registration in this one's place."""
    async with make() as world:

        def again(_: Command) -> None:
            world.registration.register_again()

        world.forget()
        world.cluster["one"].change[REGISTER] = times(1, again)
        await trio.sleep(31)  # the period is over
        assert world.heard("one") == [(REGISTER, None)] * 2


async def test_leaving(make: Make, autojump_clock: MockClock) -> None:
    """Both hear of it, also if one does not answer; then nothing is registered any more."""
    async with make() as world:
        world.cluster["one"].change[UNREGISTER] = lambda c: HANG_UP
        await world.registration.unregister()
        assert (UNREGISTER, None) in world.heard("one")
        assert (UNREGISTER, None) in world.heard("two")
        world.forget()
        world.creation.update(TopicConfig("T", 1, 1))
        await trio.sleep(61)
        assert world.heard("two") == []


def table(*names: str) -> Callable[[Command], Command]:
    body = json.dumps({"table": dict.fromkeys(names, "broker-a:4")}).encode()
    return lambda c: c.reply(0, {}, body)


async def test_topics_with_an_order_configuration_are_ordered(
    make: Make, autojump_clock: MockClock
) -> None:
    async with make() as world:
        world.creation.update(TopicConfig("T", 1, 1))
        await trio.sleep(0.01)
        world.forget()
        world.cluster["one"].change[REGISTER] = table("T", "U", "none")
        await trio.sleep(31)
        assert world.topics.topics["T"].order
        assert world.heard("two") == [(REGISTER, None), (REGISTER, ["T"])], "all are told"
        world.creation.update(TopicConfig("U", 1, 1))
        await trio.sleep(0.01)
        assert world.topics.topics["U"].order
        counter = world.topics.version.counter
        await trio.sleep(61)
        assert world.topics.version.counter == counter, "nothing changes any more"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"table":7}', b'{"table":{"T":7}}', b"\xff"])
async def test_an_order_configuration_that_is_none(
    make: Make, autojump_clock: MockClock, body: bytes
) -> None:
    """The registration counts all the same."""
    async with make() as world:
        world.forget()
        world.cluster["one"].change[REGISTER] = lambda c: c.reply(0, {}, body)
        await trio.sleep(31)
        assert world.heard("one") == [(REGISTER, None)]
        await world.registration.told()


async def test_a_name_server_that_refuses_lacks_the_user_of_brokers(
    make: Make, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with make() as world:
        world.cluster["two"].change[REGISTER] = lambda c: c.reply(16)
        await trio.sleep(35)
    (line,) = [r.getMessage() for r in caplog.records if "not registered" in r.getMessage()]
    assert "two:9876" in line
    assert "the user of innerClientAuthenticationCredentials, in its namesrv.conf" in line
