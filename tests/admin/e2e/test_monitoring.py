"""Monitoring an embedded server: what the watchers find, and the commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.admin.monitoring import METRICS, Event, Monitor, Settings, State, parse
from pyrmq.admin.monitoring.watchers import watchers
from pyrmq.client import (
    ConsumeFrom,
    Producer,
    PushConsumer,
    TransactionalProducer,
    TransactionState,
)
from pyrmq.model.message import Message, MessageQueue
from pyrmq.model.names import DLQ_PREFIX
from pyrmq.model.topic import TopicConfig
from pyrmq.server import Running
from tests.support.consumed import take
from tests.support.mqadmin import admin, mqadmin

QUEUE = MessageQueue("Topic", "broker-a", 0)
NOW = "[rounds]\ndelay = 0\n"


class Kept:
    name = "kept"
    timeout = 5.0
    retries = 0

    def __init__(self) -> None:
        self._send, self.receive = trio.open_memory_channel[Event](100)

    async def send(self, event: Event) -> None:
        await self._send.send(event)


async def send(server: Running, many: int, topic: str = "Topic") -> None:
    async with Producer("pg", namesrv=server.namesrv) as producer:
        for n in range(many):
            await producer.send(Message(topic, b"%d" % n), queue=MessageQueue(topic, "broker-a", 0))


async def create(admin_: Admin, topic: str, queues: int) -> None:
    config = TopicConfig(topic, queues, queues)
    (await admin_.topics.update(config, cluster="DefaultCluster")).check_all()


def consumer(server: Running, group: str = "cg") -> PushConsumer:
    return PushConsumer(
        group, {"Topic": "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    )


async def test_a_lag_raises_an_alarm_which_ends_when_the_group_has_caught_up(
    embedded: Running,
) -> None:
    await send(embedded, 1)
    async with consumer(embedded) as reader:
        await take(reader, 1)
    await send(embedded, 5)
    settings = parse(
        NOW + "interval = 1\n[watch]\ngroups = ['c?']\n"
        "[thresholds.lag]\nraise = 5\nclear = 0\nrounds = 1\n"
        "[thresholds.offline]\nrounds = 1\n"
    )
    sink = Kept()
    async with Admin(embedded.namesrv) as admin_, trio.open_nursery() as nursery:
        monitor = Monitor(settings, watchers(admin_, settings), [sink])
        nursery.start_soon(monitor.run)
        fired = {e.subject.metric: e for e in [await sink.receive.receive() for _ in range(2)]}
        lag, offline = fired["lag"], fired["offline"]
        assert (lag.state, lag.subject.group, lag.subject.topic) == (State.FIRING, "cg", "Topic")
        assert (lag.value, offline.value) == (5, 1)
        async with consumer(embedded) as reader:
            await take(reader, 5)
            over = [await sink.receive.receive() for _ in range(2)]
            assert {e.subject.metric for e in over} == {"lag", "offline"}
            assert {e.state for e in over} == {State.RESOLVED}
        monitor.stop()


async def figures(monitor: Monitor) -> dict[str, float]:
    """A round; the figures at or above the value that raises an alarm, by their subject."""
    report = await monitor.round()
    assert report.problems == []
    return {f"{s.subject.metric}: {s.subject.text}": s.value for s in report.high}


ALL_LOW = "".join(f"[thresholds.{name}]\nraise = 0.001\nclear = 0\n" for name in METRICS)


async def test_what_a_quiet_server_has(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as admin_:
        monitor = Monitor.of(admin_, parse(ALL_LOW))
        found = await figures(monitor)
        assert {name.partition(":")[0] for name in found} == {"connections", "disk"}
        report = await monitor.round()
        assert report.failed == 0
        assert report.asked >= 3  # a name server, a broker, its transactions


async def test_dead_letters_count_from_the_second_round(embedded: Running) -> None:
    async with Admin(embedded.namesrv) as admin_:
        await create(admin_, DLQ_PREFIX + "old", 1)
        await send(embedded, 3, DLQ_PREFIX + "old")
        monitor = Monitor.of(admin_, Settings())
        assert await figures(monitor) == {}
        assert await figures(monitor) == {}
        await send(embedded, 2, DLQ_PREFIX + "old")
        await create(admin_, DLQ_PREFIX + "new", 1)
        await send(embedded, 4, DLQ_PREFIX + "new")
        found = await figures(monitor)
        assert found == {"dlq_growth: group old": 2, "dlq_growth: group new": 4}
        assert await figures(monitor) == {}


async def test_an_event_of_an_offset_that_was_moved(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrmq.admin.monitoring.groups.TOPIC", "Events")
    body = json.dumps(
        {
            "consumerGroup": "cg", "offsetNew": 7, "offsetRequest": 2,
            "messageQueue": {"brokerName": "broker-a", "queueId": 1, "topic": "Topic"},
        }
    ).encode()  # fmt: skip
    queue = MessageQueue("Events", "broker-a", 0)
    async with (
        Admin(embedded.namesrv) as admin_,
        Producer("pg", namesrv=embedded.namesrv) as producer,
    ):
        await create(admin_, "Events", 2)
        await producer.send(Message("Events", body), queue=queue)
        monitor = Monitor.of(admin_, Settings())
        assert await figures(monitor) == {}
        for text in (body, b"no JSON", body):
            await producer.send(Message("Events", text), queue=queue)
        report = await monitor.round()
        [sample] = report.high
        assert (sample.subject.metric, sample.subject.text, sample.value) == (
            "offset_moved", "group cg, topic Topic", 2
        )  # fmt: skip
        assert sample.detail == "queue broker-a 1: asked for 2, goes on at 7"
        assert await figures(monitor) == {}


class Undecided:
    """Leaves it open."""

    async def execute_local_transaction(self, message: Message, arg: object) -> object:
        return TransactionState.UNKNOWN

    async def check_local_transaction(self, message: object) -> object:
        return TransactionState.UNKNOWN


async def test_transactions_that_wait(embedded: Running) -> None:
    settings = parse(
        "[thresholds.transactions]\nraise = 2\nclear = 1\n"
        "[thresholds.transaction_age]\nraise = 0.001\nclear = 0\n"
    )
    server = "server broker-a {}:{}".format(*embedded.broker_address)
    async with Admin(embedded.namesrv) as admin_:
        monitor = Monitor.of(admin_, settings)
        assert await figures(monitor) == {}
        listener = Undecided()
        async with TransactionalProducer("tg", listener, namesrv=embedded.namesrv) as producer:  # type: ignore[arg-type]
            for _ in range(2):
                await producer.send_in_transaction(Message("Topic", b"x"))
            found = await figures(monitor)
        assert found[f"transactions: {server}"] == 2
        assert found[f"transaction_age: {server}"] > 0


async def test_once_shows_what_is_too_high(embedded: Running, tmp_path: Path) -> None:
    await send(embedded, 1)
    async with consumer(embedded) as reader:
        await take(reader, 1)
    await send(embedded, 3)
    file = tmp_path / "m.toml"
    file.write_text("[thresholds.lag]\nraise = 3\nclear = 1\n")
    words = ("monitor", "run", "--once", "--config", str(file))
    ran = await admin(embedded.namesrv, *words, "-o", "json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert {(r["metric"], r["group"], r["topic"], r["value"]) for r in found["high"]} == {
        ("lag", "cg", "Topic", 3), ("offline", "cg", None, 1)
    }  # fmt: skip
    shown = await admin(embedded.namesrv, *words)
    assert "lag      cg     Topic" in shown.out
    assert "0 failed" in shown.lines[-1]


async def test_once_without_a_server() -> None:
    ran = await admin("127.0.0.1:1", "monitor", "run", "--once", "--timeout", "1")
    assert ran.code in (2, 3)
    assert "server_down" in ran.out
    assert ran.err.count("groups: ") == 1
    assert ran.err.startswith("Error: ")


async def test_output_is_for_once() -> None:
    ran = await admin("127.0.0.1:1", "monitor", "run", "-o", "json")
    assert ran.code == 1
    assert "--output is for --once" in ran.err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 0, "is right: every 60 s, 0 overrides, alarms to log"),
        ("[thresholds.lagg]\nraise = 1", 1, "there is no such figure: did you mean lag"),
    ],
    ids=["right", "wrong"],
)
async def test_check(text: str, code: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(text)
    ran = await admin("", "monitor", "check", str(file))
    assert ran.code == code
    assert said in ran.out + ran.err
    absent = await admin("", "monitor", "check", str(tmp_path / "absent"))
    assert absent.code == 2


async def test_init_and_test(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    assert (await admin("", "monitor", "init", str(file))).code == 0
    again = await admin("", "monitor", "init", str(file))
    assert (again.code, "is there already" in again.err) == (2, True)
    assert (await admin("", "monitor", "init")).out == file.read_text()
    tried = await admin("", "monitor", "test", str(file))
    assert tried.code == 0
    assert tried.lines[1].split() == ["log", "ok"]
    assert "TEST firing: lag of group test-group" in tried.err
    file.write_text('[[sinks]]\ntype = "json"\n[[sinks]]\ntype = "command"\ncommand = ["/no/x"]')
    partly = await admin("", "monitor", "test", str(file), "-o", "json")
    assert partly.code == 3
    assert [(t["sink"], t["ok"]) for t in json.loads(partly.out)] == [
        ("json", True), ("command /no/x", False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [("mqadmin", "startMonitoring"), ("admin", "monitor", "run", "--config", "FILE")],
    ids=["mqadmin", "admin"],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
async def test_a_signal_ends_it(
    words: tuple[str, ...], number: signal.Signals, embedded: Running, tmp_path: Path
) -> None:
    file = tmp_path / "m.toml"
    file.write_text(NOW)
    line = [str(file) if w == "FILE" else w for w in words]
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "pyrmq", *line, "-n", embedded.namesrv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    stream = process.stdout if words[0] == "mqadmin" else process.stderr
    assert stream is not None
    said = b""
    wanted = b"endRound 1" if words[0] == "admin" else b"started"  # its first round is after 20 s
    while wanted not in said:
        part = await stream.receive_some(4096)
        assert part, said
        said += part
    assert said.startswith(b"[MONITOR] started: a round in ")
    process.send_signal(number)
    assert await process.wait() == 0
    await process.stdout.aclose()  # type: ignore[union-attr]
    await process.stderr.aclose()  # type: ignore[union-attr]


def test_a_reader_that_has_enough_ends_it() -> None:
    words = [sys.executable, "-m", "pyrmq", "mqadmin", "startMonitoring", "-n", "127.0.0.1:1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


async def test_the_options_of_start_monitoring() -> None:
    ran = await mqadmin("", "startMonitoring", "-h")
    assert ran.lines[0] == "usage: mqadmin startMonitoring [-h] [-n <arg>]"
    assert len(ran.lines) == 3
