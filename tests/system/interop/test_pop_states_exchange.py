"""What else of pops a store has when the broker changes: orderly pops that are out, messages that
were suspended or come from a retry topic, request modes, and a message in the topic of timers that
Apache's broker cannot go on behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.model.names import TIMER_TOPIC
from tests.support.client import Client
from tests.support.delays import runtime_info
from tests.support.records import Record
from tests.support.waiting import eventually

from .pop.asking import Asker
from .pop.pops import fill
from .pop.requests import (
    ACK,
    CHANGE_INVISIBLE,
    POP,
    QUERY_ASSIGNMENT,
    QUERY_OFFSET,
    SET_MESSAGE_REQUEST_MODE,
    Popped,
    make_group,
    make_topic,
    pop,
    popped,
    timer,
)
from .pop.servers import CONF, OURS, READERS, lines
from .store import cargo, peer
from .store.turns import Ours, await_text

KEYS = lines({**CONF, **OURS}) + cargo.CONF
GROUP, ORDERED, SUSPENDED, FAILING, TIMED = "G", "Ordered", "Suspended", "Failing", "Timed"
SHORT_MS, LONG_MS, FAR_MS = 3_000, 20_000, 120_000
NO_MESSAGE = 210
FIRST = pytest.mark.parametrize("first", ["apache", "pyrmq"])
WRITTEN_BY_US = pytest.param(
    "pyrmq", marks=pytest.mark.thorough("the same states; test_orderly_pops has both directions")
)
CLEAN = pytest.param("terminate", marks=pytest.mark.thorough("what a kill leaves has all of it"))
Server = Ours | peer.RealBroker


@pytest.fixture(scope="module")
def namesrv(home: Path) -> Iterator[str]:
    with peer.NameServer(home / "namesrv") as server:
        yield server.address


@pytest.fixture
def servers(tmp_path: Path, namesrv: str) -> Iterator[dict[str, Server]]:
    """Not started yet; both are on the same store."""
    apache = peer.RealBroker(tmp_path / "store", namesrv, KEYS, home=tmp_path / "apache")
    ours = Ours(tmp_path / "store", conf=KEYS)
    yield {"apache": apache, "pyrmq": ours}
    apache.kill()
    ours.kill()


def _turns(servers: dict[str, Server], first: str) -> tuple[Server, Server]:
    other = {"apache": "pyrmq", "pyrmq": "apache"}[first]
    return servers[first], servers[other]


def _take(asker: Asker, topic: str, count: int = 8, **change: object) -> Popped:
    """Waits for the first message."""
    fields = {"maxMsgNums": count, "invisibleTime": LONG_MS, **change}
    answer = eventually(
        lambda: asker.ask("", POP, pop(topic, GROUP, **fields)),
        f"a message of {topic}",
        until=lambda answer: answer.code == 0,
    )
    return popped(answer, GROUP)


def _back(client: Client, topic: str) -> list[Record]:
    """What is in a group's retry topic."""
    retry = f"%RETRY%{GROUP}_{topic}"
    return client.pull_all(retry, 0, 0, client.max_offset(retry, 0))


def _prepared(client: Client, *topics: str) -> Asker:
    make_group(client, READERS)
    for topic in topics:
        fill(client, topic, GROUP, 6)
    return Asker(client, "", "")


@FIRST
def test_orderly_pops_that_are_out(first: str, servers: dict[str, Server]) -> None:
    """The other broker holds back what is out, takes its acknowledgements and then goes on."""
    one, other = _turns(servers, first)
    one.start()
    with Client(one.address) as client:
        asker = _prepared(client, ORDERED)
        out = _take(asker, ORDERED, 4, order="true", invisibleTime=FAR_MS)
        for index in range(2):
            assert asker.ask("", ACK, out.ack(index)).code == 0
    one.terminate()
    other.start()
    with Client(other.address) as client:
        asker = Asker(client, "", "")

        def committed() -> int:
            fields = {"consumerGroup": GROUP, "topic": ORDERED, "queueId": 0}
            return int(client.call(QUERY_OFFSET, **fields).ext["offset"])

        assert committed() == 2
        fields = pop(ORDERED, GROUP, order="true")
        assert asker.ask("", POP, fields).code == NO_MESSAGE, "two are out still"
        for index in (2, 3):
            answer = asker.ask("", ACK, out.ack(index))
            assert answer.code == 0, answer.remark
        assert committed() == 4
        rest = _take(asker, ORDERED, order="true")
        assert [record.body for record in rest.records] == [b"m4", b"m5"]


@pytest.mark.parametrize("first", ["apache", WRITTEN_BY_US])
@pytest.mark.parametrize("how", [CLEAN, "kill"])
def test_suspended_ones_and_retries(first: str, how: str, servers: dict[str, Server]) -> None:
    """What was suspended comes back with the count that it had, what was popped from the retry
    topic with one more. The request mode is known to the other one.

    Where one was killed, the other one may not know yet that it had revived the first."""
    one, other = _turns(servers, first)
    one.start()
    with Client(one.address) as client:
        asker = _prepared(client, SUSPENDED, FAILING)
        body = {"consumerGroup": GROUP, "topic": FAILING, "mode": "POP", "popShareQueueNum": 2}
        mode = client.call(SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())
        assert mode.code == 0, mode.remark
        _take(asker, FAILING, 1, invisibleTime=SHORT_MS)
        again = eventually(
            lambda: _take(asker, FAILING, 1, invisibleTime=LONG_MS),
            "it is popped from the retry topic",
            until=lambda found: found.records[0].body == b"m0",
        )
        assert again.records[0].reconsume_times == 1
        held = _take(asker, SUSPENDED, 2, invisibleTime=FAR_MS)
        fields = held.ack(0, invisibleTime=LONG_MS, suspend="true")
        assert asker.ask("", CHANGE_INVISIBLE, fields).code == 0
        assert asker.ask("", CHANGE_INVISIBLE, held.ack(1, invisibleTime=LONG_MS)).code == 0
        for file, text in (
            ("consumerOffset.json", f'"{SUSPENDED}@{GROUP}"'),
            ("topics.json", f'"{FAILING}"'),
            ("topics.json", f'"%RETRY%{GROUP}_{FAILING}"'),
            ("subscriptionGroup.json", f'"{GROUP}"'),
            ("messageRequestMode.json", '"POP"'),
        ):
            await_text(one.store / "config" / file, text)
    getattr(one, how)()
    other.start()
    with Client(other.address) as client:
        client.heartbeat("pops@1", GROUP, FAILING)
        query = {
            "clientId": "pops@1", "consumerGroup": GROUP, "messageModel": "CLUSTERING",
            "strategyName": "AVG", "topic": FAILING,
        }  # fmt: skip
        answer = client.call(QUERY_ASSIGNMENT, json.dumps(query).encode())
        assert [a["mode"] for a in json.loads(answer.body)["messageQueueAssignments"]] == ["POP"]

        def counts(topic: str) -> list[tuple[bytes, int]]:
            return sorted((record.body, record.reconsume_times) for record in _back(client, topic))

        eventually(
            lambda: counts(SUSPENDED),
            "both are back",
            until=lambda found: found == [(b"m0", 0), (b"m1", 1)],
        )
        eventually(
            lambda: [count for body, count in counts(FAILING) if body == b"m0"],
            "it is back once more",
            until=lambda found: 2 in found,
        )
        found = [count for body, count in counts(FAILING) if body == b"m0"]
        assert found == [1, 2] or (how == "kill" and found == [1, 1, 2]), found


def test_a_message_that_is_no_timer(servers: dict[str, Server]) -> None:
    """Apache's broker stores what clients send to the topic of timers, and sets none any more. Ours
    goes on behind it."""
    apache, ours = _turns(servers, "apache")
    apache.start()
    with Client(apache.address) as client:
        make_group(client, READERS)
        make_topic(client, TIMED)
        for body in (b"before", b"poison", b"behind"):
            command = timer(TIMED, body, TIMER_DELAY_MS=15_000)
            if body == b"poison":
                assert client.send(TIMER_TOPIC, body).code == 0
            else:
                assert client.request(command).code == 0
        for file, text in (("topics.json", TIMED), ("subscriptionGroup.json", READERS)):
            await_text(apache.store / "config" / file, f'"{text}"')
    apache.kill()
    ours.start()
    with Client(ours.address) as client:
        eventually(
            lambda: [r.body for r in client.pull_all(TIMED, 0, 0, client.max_offset(TIMED, 0))],
            "both have come",
            until=lambda found: sorted(found) == [b"before", b"behind"],
        )
        assert runtime_info(client)["timerLostCount"] == "1"
