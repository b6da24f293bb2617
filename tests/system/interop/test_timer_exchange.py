"""Timer messages that wait when the broker changes: ours reads Apache's wheel, timer log and check
point, and Apache's reads ours. What is due comes once, whoever set it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.waiting import eventually

from .store import cargo, peer
from .store.turns import Ours

TOPIC = "Timed"
NEAR = [b"near %d" % n for n in range(10)]
FAR = [b"far %d" % n for n in range(10)]
CONF = cargo.CONF + "timerWheelEnable=true\n"
CLEAN = pytest.param("terminate", marks=pytest.mark.thorough("what a kill leaves has all of it"))
HOW = pytest.mark.parametrize("how", [CLEAN, "kill"])
ROLLED_BY_US = pytest.param(
    "pyrmq", marks=pytest.mark.thorough("Apache's timers that we go on with are rolled by both")
)


@pytest.fixture(scope="module")
def namesrv(home: Path) -> Iterator[str]:
    with peer.NameServer(home / "namesrv") as server:
        yield server.address


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def apache(store: Path, tmp_path: Path, namesrv: str) -> Iterator[peer.RealBroker]:
    """Not started yet; killed at the end if it still runs."""
    broker = peer.RealBroker(store, namesrv, CONF, home=tmp_path / "apache")
    yield broker
    broker.kill()


@pytest.fixture
def ours(store: Path) -> Iterator[Ours]:
    server = Ours(store, conf=CONF)
    yield server
    server.kill()


def came(client: Client) -> list[bytes]:
    end = client.max_offset(TOPIC, 0)
    return [record.body for record in client.pull_all(TOPIC, 0, 0, end)] if end else []


def check_point(store: Path) -> list[int]:
    """Read time (ms), timer log (bytes), queue offset, the master's queue offset."""
    file = store / "config" / "timercheck"
    content = file.read_bytes() if file.exists() else bytes(32)
    return [int.from_bytes(content[at : at + 8], "big") for at in range(0, 32, 8)]


def set_timers(client: Client, store: Path, far_ms: int) -> None:
    """Some come while this broker runs, and its check point says so; the others wait."""
    assert client.send(TOPIC, b"first", queue_id=1).code == 0
    for bodies, delay in ((FAR, far_ms), (NEAR, 1500)):
        for body in bodies:
            sent = client.send(TOPIC, body, properties={"TIMER_DELAY_MS": str(delay)})
            assert sent.code == 0, sent.remark
    eventually(lambda: came(client), "those that are near", until=lambda found: len(found) == 10)
    assert sorted(came(client)) == NEAR
    read_ms = check_point(store)[0]
    eventually(
        lambda: check_point(store),
        "all of it is in the check point",
        until=lambda found: found[0] > read_ms + 2000 and found[1] >= 20 * 52 and found[2] == 20,
    )


def all_came(client: Client) -> None:
    eventually(lambda: came(client), "all of them", until=lambda found: len(found) >= 20)
    assert sorted(came(client)) == sorted(NEAR + FAR)


@HOW
def test_apache_goes_on_with_our_timers(
    how: str, store: Path, ours: Ours, apache: peer.RealBroker
) -> None:
    ours.start()
    with Client(ours.address) as client:
        set_timers(client, store, 20_000)
    getattr(ours, how)()
    apache.start()
    with Client(apache.address) as client:
        all_came(client)


@HOW
def test_we_go_on_with_apaches_timers(
    how: str, store: Path, ours: Ours, apache: peer.RealBroker
) -> None:
    apache.start()
    with Client(apache.address) as client:
        set_timers(client, store, 20_000)
    getattr(apache, how)()
    ours.start()
    with Client(ours.address) as client:
        all_came(client)
    ours.terminate()
    assert not (store / "timerwheel").read_bytes().strip(b"\0"), "nothing waits"


ROLLED = CONF + "timerRollWindowSlot=8\n"
"""A timer that is further away is written again when 8 s are over, or 4 s."""


@pytest.mark.parametrize("how", [CLEAN, "kill"])
@pytest.mark.parametrize("first", ["apache", ROLLED_BY_US])
def test_the_other_one_goes_on_with_timers_that_roll(
    first: str, how: str, store: Path, tmp_path: Path, namesrv: str
) -> None:
    """Some have been rolled already, and all will be by the other one, before they come."""
    apache = peer.RealBroker(store, namesrv, ROLLED, home=tmp_path / "apache")
    ours = Ours(store, conf=ROLLED)
    one, other = (apache, ours) if first == "apache" else (ours, apache)
    due: dict[bytes, int] = {}
    try:
        one.start()
        with Client(one.address) as client:
            assert client.send(TOPIC, b"first", queue_id=1).code == 0
            for n in range(10):
                body = b"%d" % n
                due[body] = int(time.time() * 1000) + 30_000 + 500 * n
                answer = client.send(TOPIC, body, properties={"TIMER_DELIVER_MS": str(due[body])})
                assert answer.code == 0, answer.remark
            eventually(
                lambda: check_point(store),
                "some have been rolled, and the check point says so",
                until=lambda found: found[2] >= 15,
            )
            assert not came(client)
        getattr(one, how)()
        other.start()
        with Client(other.address) as client:
            eventually(
                lambda: came(client), "all of them", 90, until=lambda found: len(set(found)) == 10
            )
            records = client.pull_all(TOPIC, 0, 0, client.max_offset(TOPIC, 0))
        assert all(record.store_timestamp >= due[record.body] for record in records)
        assert Counter(record.body for record in records) == dict.fromkeys(due, 1)
    finally:
        apache.kill()
        ours.kill()
