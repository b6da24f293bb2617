"""What a broker tells name servers of its topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.registration import Registration
from pyrmq.broker.tables import persistent
from pyrmq.broker.tables.topic_creation import Topics, open_topics
from pyrmq.engine import Store
from pyrmq.model.topic import MULTI_TAG, DataVersion, TopicConfig
from pyrmq.net import fastjson

Make = Callable[..., tuple[Topics, Registration]]


def parse(body: bytes) -> tuple[dict[str, TopicConfig], DataVersion]:
    wrapper = fastjson.loads_object(body)["topicConfigSerializeWrapper"]
    rows = wrapper["topicConfigTable"].items()
    topics = {name: TopicConfig.from_json(name, row) for name, row in rows}
    return topics, DataVersion.from_json(wrapper["dataVersion"])


@pytest.fixture
def make(tmp_path: Path, config: BrokerConfig, store: Store) -> Make:
    def build(**settings: object) -> tuple[Topics, Registration]:
        changed = replace(config, **settings)
        topics = open_topics(tmp_path / "topics.json", LiveConfig(changed), store)
        return topics, Registration(LiveConfig(changed), topics.table, ("127.0.0.1", 10911))

    return build


async def test_the_body_has_all_topics(make: Make) -> None:
    topics, registration = make()
    topics.creation.update(TopicConfig("U", 2, 3, 4, MULTI_TAG, 1, True), "+queue.type=BatchCQ")
    body, _, _ = await registration._body()
    assert parse(body) == (topics.table.topics, topics.table.version)
    version = topics.table.version.to_json()
    value = fastjson.loads_object(body)
    assert value["filterServerList"] == []
    assert value["topicConfigSerializeWrapper"] == {
        "dataVersion": version,
        "mappingDataVersion": version,
        "topicConfigTable": {name: topic.to_json() for name, topic in topics.table.topics.items()},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    assert body == fastjson.dumps(value), "in the form of fastjson, without blanks"


async def test_the_body_has_every_change(make: Make) -> None:
    topics, registration = make()
    for queues in (4, 5):
        topics.creation.update(TopicConfig("U", queues, 3))
        topics.creation.create_in_send(f"T{queues}", "TBW102", 4, False)
        assert parse((await registration._body())[0]) == (topics.table.topics, topics.table.version)


async def test_topics_that_name_servers_would_refuse(make: Make, tmp_path: Path) -> None:
    """With one of them they would take none."""
    rows = {name: {"readQueueNums": 4} for name in ("a.b", "%RETRY%g+t", "a b", "\u00e4", "U")}
    (tmp_path / "topics.json").write_bytes(fastjson.dumps({"topicConfigTable": rows}))
    topics, registration = make()
    assert rows.keys() <= topics.table.topics.keys()
    found, _ = parse((await registration._body())[0])
    assert topics.table.topics.keys() - found.keys() == {"a b", "\u00e4"}
    assert (await registration._body(0))[2]
    assert not {"a b", "\u00e4"} & set((await registration._body(0))[2])


@pytest.mark.parametrize(("perm", "told"), [(6, 7), (4, 4), (2, 2)])
async def test_a_broker_that_lacks_a_permission(make: Make, perm: int, told: int) -> None:
    topics, registration = make(broker_permission=perm)
    found, _ = parse((await registration._body())[0])
    assert found["TBW102"].perm == told
    assert topics.table.topics["TBW102"].perm == 7


async def test_topics_that_change_meanwhile(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies for several name servers, made while topics change: each is of one moment."""
    monkeypatch.setattr(persistent, "TURN_SECONDS", 0)
    topics, registration = make()
    known = {}

    def note() -> None:
        known[topics.table.version.counter] = dict(topics.table.topics)

    note()
    bodies = []
    outdated = 0

    async def ask() -> None:
        nonlocal outdated
        for _ in range(4):
            bodies.append((await registration._body())[0])
            outdated += parse(bodies[-1])[1] != topics.table.version

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        for n in range(40):
            topics.creation.update(TopicConfig(f"T{n % 3}", n, n))
            note()
            await trio.lowlevel.checkpoint()
    found = [parse(body) for body in bodies]
    assert [of for of, _ in found] == [known[version.counter] for _, version in found]
    assert outdated, "topics change while a body is made"
