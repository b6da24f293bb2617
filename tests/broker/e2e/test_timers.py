"""Timer messages are delivered: in time, in order, once, after kills too and from damaged files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode as Code
from tests.support.client import PULL_SUBSCRIPTION, PULL_SUSPEND, Client, pull_command
from tests.support.delays import await_records, runtime_info
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

HOUR = 3600
CONF = "flushIntervalCommitLog=20\nrecallMessageEnable=true\n"
_numbers = count()


@pytest.fixture(scope="module")
def running() -> Iterator[pyrmq.testing.TestServer]:
    with pyrmq.testing.broker(recall_message_enable=True) as running:
        yield running


@pytest.fixture
def client(running: pyrmq.testing.TestServer) -> Iterator[Client]:
    with Client(running.broker_address) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Timed{next(_numbers)}"
    client.send(name, b"first", queue_id=1)
    return name


def in_seconds(seconds: float, **more: str) -> dict[str, str]:
    return {"TIMER_DELAY_MS": str(round(seconds * 1000)), **more}


def waiting(client: Client) -> int:
    """How many timer messages the broker has in its wheel, once it has all of them."""
    found = eventually(
        lambda: runtime_info(client),
        "all timers are in the wheel",
        until=lambda info: info["timerOffsetBehind"] == "0",
    )
    return int(found["timerCongestNum"])


def bodies(client: Client, topic: str, many: int) -> list[bytes]:
    return [record.body for record in await_records(client, topic, many)]


def test_it_comes_when_its_time_has_come(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    before = waiting(client)
    for body, seconds in ((b"c", 2 * HOUR), (b"a", HOUR), (b"b", HOUR)):
        sent = in_seconds(seconds, TAGS="red", UNIQ_KEY=f"{topic}{body!r}")
        assert client.send(topic, body, properties=sent).code == 0
    assert waiting(client) == before + 3
    running.clock.advance(HOUR + 2)
    assert bodies(client, topic, 2) == [b"a", b"b"]
    running.clock.advance(HOUR)
    last = await_records(client, topic, 3)[2]
    assert last.body == b"c"
    properties = last.properties
    asked = int(properties["TIMER_OUT_MS"])
    assert int(properties["TIMER_DEQUEUE_MS"]) >= asked + 1000
    assert int(properties["TIMER_ENQUEUE_MS"]) <= asked
    assert (properties["TAGS"], properties["REAL_TOPIC"], properties["REAL_QID"]) == (
        "red", topic, "0",
    )  # fmt: skip


def test_a_parked_pull_gets_it(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    client.send(topic, b"later", properties=in_seconds(HOUR))
    with Client(running.broker_address) as puller:
        end = client.max_offset(topic, 0)
        hold = PULL_SUSPEND | PULL_SUBSCRIPTION
        puller.post(pull_command(topic, 0, end, sys_flag=hold, suspend_ms=60_000))
        running.clock.advance(HOUR + 2)
        assert puller.receive().code == 0


def test_what_is_recalled_does_not_come(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    handles = {}
    for body in (b"stays", b"goes"):
        answer = client.send(topic, body, properties=in_seconds(HOUR))
        handles[body] = answer.ext["recallHandle"]
    asked = {"topic": topic, "recallHandle": handles[b"goes"], "producerGroup": "g"}
    assert client.call(Code.RECALL_MESSAGE, **asked).code == 0
    running.clock.advance(HOUR + 2)
    client.send(topic, b"behind", properties=in_seconds(1))
    running.clock.advance(5)
    assert bodies(client, topic, 2) == [b"stays", b"behind"]


def test_figures_and_check_point(
    running: pyrmq.testing.TestServer, client: Client, topic: str
) -> None:
    waiting(client)
    for seconds in (30, 40, 5000):
        client.send(topic, b"x", properties=in_seconds(seconds))
    waiting(client)
    answer = client.call(Code.GET_TIMER_METRICS, bounds="60,3600")
    found = json.loads(answer.body)
    assert found["timingCount"][topic]["count"] == 3
    near, middle, far = found["distribution"]
    assert (near["upTo"], middle["upTo"], "upTo" in far) == (60, 3600, False)
    assert near["count"] >= 2
    assert far["count"] >= 1
    assert client.call(Code.GET_TIMER_METRICS, bounds="60,x").code != 0
    answer = client.call(Code.GET_TIMER_CHECK_POINT)
    fields = [int.from_bytes(answer.body[at : at + 8], "big") for at in range(0, 56, 8)]
    assert len(answer.body) == 56
    assert fields[2] == fields[3] == client.max_offset("rmq_sys_wheel_timer", 0)
    assert int(answer.ext["logEnd"]) == int(runtime_info(client)["commitLogMaxOffset"])
    running.clock.advance(2 * HOUR)
    await_records(client, topic, 3)


def test_a_topic_that_is_deleted_is_counted_no_more(client: Client, topic: str) -> None:
    def counted() -> set[str]:
        return set(json.loads(client.call(Code.GET_TIMER_METRICS).body)["timingCount"])

    client.send(topic, b"x", properties=in_seconds(HOUR))
    eventually(counted, "the topic is counted", until=lambda topics: topic in topics)
    assert client.call(Code.DELETE_TOPIC_IN_BROKER, topic=topic).code == 0
    assert topic not in counted()


# Restarts and kills.


def send_many(client: Client, many: int, seconds: float) -> list[bytes]:
    sent = [b"%d" % n for n in range(many)]
    for body in sent:
        assert client.send("T", body, properties=in_seconds(seconds)).code == 0
    return sent


def all_there(client: Client, sent: list[bytes]) -> None:
    """All came, and nothing comes again."""
    assert sorted(bodies(client, "T", len(sent))) == sorted(sent)
    eventually(lambda: runtime_info(client)["timerCongestNum"], "nothing waits", until="0".__eq__)
    assert sorted(bodies(client, "T", len(sent))) == sorted(sent)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("stop", ["terminate", "kill"])
def test_a_restart_repeats_nothing_and_forgets_nothing(
    tmp_path: Path, flush: str, stop: str
) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF, flush=flush) as server:
        with Client(server.broker) as client:
            client.send("T", b"first", queue_id=1)
            sent = send_many(client, 150, 1.5)
            more = client.send("T", b"far", properties=in_seconds(4)).code
            assert more == 0
            eventually(lambda: client.max_offset("T", 0), "some came", until=lambda end: end > 0)
        getattr(server, stop)()
        server.start()
        with Client(server.broker) as client:
            all_there(client, [*sent, b"far"])


def _wheel(store: Path) -> None:
    (store / "timerwheel").unlink()


def _cut_wheel(store: Path) -> None:
    with (store / "timerwheel").open("r+b") as file:
        file.truncate(12_345)


def _log(store: Path) -> None:
    shutil.rmtree(store / "timerlog")


def _check(store: Path) -> None:
    (store / "config" / "timercheck").write_bytes(bytes(4096))


def _all(store: Path) -> None:
    _wheel(store)
    _log(store)
    (store / "config" / "timercheck").unlink()


@pytest.mark.parametrize("damage", [_wheel, _cut_wheel, _log, _check, _all])
def test_damaged_files_are_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF) as server:
        with Client(server.broker) as client:
            client.send("T", b"first", queue_id=1)
            sent = send_many(client, 5, 0.001)
            await_records(client, "T", 5)
            sent += [b"far"]
            assert client.send("T", b"far", properties=in_seconds(3)).code == 0
            waiting(client)
        server.terminate()
        assert (server.store / "timerwheel").stat().st_size == 38_707_200
        assert [file.stat().st_size for file in (server.store / "timerlog").iterdir()] == [
            100 << 20
        ]
        damage(server.store)
        server.start()
        with Client(server.broker) as client:
            all_there(client, sent)


def test_a_broker_without_timers_makes_no_files(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF) as server:
        with Client(server.broker) as client:
            client.send("T", b"now")
        server.terminate()
        assert not (server.store / "timerwheel").exists()
        assert not (server.store / "timerlog").exists()


def test_messages_for_an_unknown_topic_make_it_known(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF) as server:
        with Client(server.broker) as client:
            client.send("T", b"first", queue_id=1)
            client.send("T", b"later", properties=in_seconds(2))
            waiting(client)
        server.terminate()
        for name in ("topics.json", "topics.json.bak"):
            (server.store / "config" / name).unlink(missing_ok=True)
        server.start()
        with Client(server.broker) as client:
            assert bodies(client, "T", 1) == [b"later"]
