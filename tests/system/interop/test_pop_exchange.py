"""A store with timers, check points and acknowledgements that wait: one broker leaves it, cleanly
or killed, the other one goes on, is killed, and the first one goes on again.

Each timer message comes once and not before its time, whoever is at work then (Apache's broker may
deliver again what it delivered right before a kill); one that was recalled never comes; what was
popped and not acknowledged comes back once, what was acknowledged does not, also where the other
broker took the acknowledgement; what was not popped is popped then.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.records import Record
from tests.support.waiting import eventually

from .pop.asking import Asker, now_ms
from .pop.pops import fill
from .pop.requests import (
    ACK,
    BATCH_ACK,
    CHANGE_INVISIBLE,
    POP,
    RECALL,
    Popped,
    batch_ack,
    make_group,
    make_topic,
    pop,
    popped,
    timer,
)
from .pop.servers import CONF, OURS, READERS, lines
from .pop.timers import TIMER_TOPIC
from .store import cargo, peer
from .store.turns import Ours, await_text

KEYS = lines({**CONF, **OURS, "mappedFileSizeTimerLog": "4160"}) + cargo.CONF
"""Its timer log has 80 entries a file."""
TOPIC, POPPED, GROUP = "Timers", "Popped", "G"
RETRY = f"%RETRY%{GROUP}_{POPPED}"
SHORT_MS, LONG_MS = 9_000, 60_000
"""What becomes visible again in the other's turn, and what does not in this test."""
WRITTEN_BY_US = pytest.param(
    "pyrmq", marks=pytest.mark.thorough("both take their turn in the other case, too")
)
CLEAN = pytest.param("clean", marks=pytest.mark.thorough("what a kill leaves has all of it"))
Server = Ours | peer.RealBroker


@pytest.fixture(scope="module")
def namesrv(home: Path) -> Iterator[str]:
    with peer.NameServer(home / "namesrv") as server:
        yield server.address


@pytest.fixture
def apache(tmp_path: Path, namesrv: str) -> Iterator[peer.RealBroker]:
    """Not started yet, as the other one; both are on the same store."""
    broker = peer.RealBroker(tmp_path / "store", namesrv, KEYS, home=tmp_path / "apache")
    yield broker
    broker.kill()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Ours]:
    server = Ours(tmp_path / "store", conf=KEYS)
    yield server
    server.kill()


class Left:
    """What the first broker leaves, and what has to become of it."""

    def __init__(self) -> None:
        self.due: dict[bytes, int] = {}
        """The time of each timer message that is not recalled."""
        self.handle = ""
        """Of a timer message that is recalled by the other broker."""
        self.recalled_due = 0
        self.late: Popped
        """What the other broker gets acknowledgements of."""
        self.uncovered: list[tuple[int, int]] = []
        """Of each kill of Apache's broker, from when on its check point says nothing of what it has
        delivered, and when it was killed: those timers may come again."""

    def set_timers(self, asker: Asker) -> None:
        for number in range(90):
            self._set(asker.client, b"soon %d" % number, 5_000 + 100 * number)
        recalled = self._set(asker.client, b"recalled", 11_000)
        fields = {"producerGroup": "PG", "topic": TOPIC, "recallHandle": recalled}
        assert asker.ask("", RECALL, fields).code == 0
        del self.due[b"recalled"]
        self.handle = self._set(asker.client, b"recalled later", 45_000)
        self.recalled_due = self.due[b"recalled later"]
        self._set(asker.client, b"in 40 minutes", 2_400_000)
        self._set(asker.client, b"in 2 days", 2 * 86_400_000)

    def _set(self, client: Client, body: bytes, delay: int) -> str:
        self.due[body] = now_ms() + delay
        answer = client.request(timer(TOPIC, body, TIMER_DELIVER_MS=self.due[body]))
        assert answer.code == 0, answer.remark
        return answer.ext["recallHandle"]

    def pop(self, asker: Asker) -> None:
        """m0 to m4 are popped for a short time, m0 and m1 acknowledged, m2 given back; m5 to m8 are
        popped for a long time; m9 to m11 are left."""
        fill(asker.client, POPPED, GROUP, 12)
        short = self._take(asker, 5, SHORT_MS)
        assert asker.ask("", ACK, short.ack(0)).code == 0
        assert asker.ask("", BATCH_ACK, {}, batch_ack(short.batch("Ag=="))).code == 0
        changed = asker.ask("", CHANGE_INVISIBLE, short.ack(2, invisibleTime=SHORT_MS))
        assert changed.code == 0
        self.late = self._take(asker, 4, LONG_MS)

    def _take(self, asker: Asker, count: int, invisible: int) -> Popped:
        fields = pop(POPPED, GROUP, maxMsgNums=count, invisibleTime=invisible)
        answer = asker.ask("", POP, fields)
        assert answer.code == 0, answer.remark
        return popped(answer, GROUP)

    def after(self, asker: Asker) -> None:
        """What the other broker has to do."""
        fields = {"producerGroup": "PG", "topic": TOPIC, "recallHandle": self.handle}
        assert asker.ask("", RECALL, fields).code == 0
        del self.due[b"recalled later"]
        for index in range(4):
            assert asker.ask("", ACK, self.late.ack(index)).code == 0
        rest = asker.ask("", POP, pop(POPPED, GROUP, invisibleTime=LONG_MS))
        mine = [record for record in popped(rest, GROUP).records if record.queue_offset > 8]
        assert [record.body for record in mine] == [b"m9", b"m10", b"m11"]
        bodies = {b"m9", b"m10", b"m11"}
        taken = popped(rest, GROUP)
        for index, record in enumerate(taken.records):
            if record.body in bodies:
                assert asker.ask("", ACK, taken.ack(index)).code == 0

    def check(self, client: Client) -> None:
        """All that is due has come, once, and nothing else."""
        until = now_ms()
        soon = {body for body, due in self.due.items() if due < until - 3_000}
        eventually(
            lambda: {record.body for record in _read(client, TOPIC)},
            "what is due has come",
            until=lambda found: soon <= found,
        )
        eventually(
            lambda: {record.body for record in _read(client, RETRY)},
            "what was not acknowledged has come back",
            until=lambda found: found == {b"m2", b"m3", b"m4"},
        )
        came = _read(client, TOPIC)
        for record in came:
            assert record.store_timestamp >= self.due[record.body], record
        for body, times in Counter(record.body for record in came).items():
            again = sum(start <= self.due[body] <= end for start, end in self.uncovered)
            assert times <= 1 + again, (body, self.due[body], times, self.uncovered)
        back = Counter(record.body for record in _read(client, RETRY))
        assert back == {b"m2": 1, b"m3": 1, b"m4": 1}


def _read(client: Client, topic: str) -> list[Record]:
    return client.pull_all(topic, 0, 0, client.max_offset(topic, 0))


def _settled(server: Server) -> None:
    """The check point of the timers covers all that was set. (Apache's broker sets again what it
    does not cover.)"""
    with Client(server.address) as client:
        end, until = client.max_offset(TIMER_TOPIC, 0), now_ms()
    eventually(
        lambda: _check_point(server),
        f"timercheck is at {until} and {end}",
        until=lambda found: found[0] >= until - 1_000 and found[1] >= end,
    )


def _check_point(server: Server) -> tuple[int, int]:
    """Up to which time timers are delivered, and up to which place they are set."""
    file = server.store / "config" / "timercheck"
    if not file.exists():
        return 0, 0
    read, _, queue_offset = struct.unpack_from(">qqq", file.read_bytes())
    return read, queue_offset


def _begin(server: Server) -> Left:
    left = Left()
    with Client(server.address) as client:
        make_group(client, READERS)
        make_topic(client, TOPIC)
        asker = Asker(client, "", "")
        left.set_timers(asker)
        left.pop(asker)
        offsets = server.store / "config" / "consumerOffset.json"
        await_text(offsets, rf'"{POPPED}@{GROUP}":\{{\s*"?0"?:9\b')
        await_text(server.store / "config" / "topics.json", f'"{POPPED}"')
        await_text(server.store / "config" / "subscriptionGroup.json", f'"{GROUP}"')
    return left


def _go_on(server: Server, left: Left) -> None:
    with Client(server.address) as client:
        left.after(Asker(client, "", ""))
        eventually(lambda: now_ms() > left.due[b"soon 89"] + 3_000, "all of them are due")
        left.check(client)


def _again(server: Server, left: Left) -> None:
    """The first broker: it has nothing to do any more, and goes on all the same."""
    with Client(server.address) as client:
        left.check(client)
        asker = Asker(client, "", "")
        body = b"a new one"
        left._set(client, body, 1_500)
        eventually(lambda: [record.body for record in _read(client, TOPIC)].count(body), "it comes")
        eventually(lambda: now_ms() > left.recalled_due + 3_000, "the recalled one would be due")
        left.check(client)
        answer = asker.ask("", POP, pop(POPPED, GROUP, maxMsgNums=32))
        found = popped(answer, GROUP).records if answer.code == 0 else []
        assert {record.body for record in found} <= {b"m2", b"m3", b"m4"}


def _end(server: Server, how: str, left: Left) -> None:
    if how == "clean":
        server.terminate()
        return
    server.kill()
    if isinstance(server, peer.RealBroker):
        left.uncovered.append((_check_point(server)[0] - 1_000, now_ms()))


@pytest.mark.parametrize("how", [CLEAN, "kill"])
@pytest.mark.parametrize("first", ["apache", WRITTEN_BY_US])
def test_the_other_one_goes_on(first: str, how: str, apache: peer.RealBroker, ours: Ours) -> None:
    servers: list[Server] = [apache, ours] if first == "apache" else [ours, apache]
    one, other = servers
    one.start()
    left = _begin(one)
    _settled(one)
    _end(one, how, left)
    other.start()
    _go_on(other, left)
    _settled(other)
    _end(other, "kill", left)
    one.start()
    _again(one, left)
