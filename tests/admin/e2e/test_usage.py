"""`admin.usage` and `pyrmq admin broker hogs|disk|history`, with samples that tests take."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import pyrmq.testing
from pyrmq import Message, Producer
from pyrmq.admin import Admin
from pyrmq.admin.usage import BrokerUsage, Figures, _merged
from pyrmq.broker.stats import broker_stats
from pyrmq.errors import ClientError
from pyrmq.net.address import format_address
from pyrmq.server import Running
from tests.support.mqadmin import admin
from tests.support.scripted.replicas import DEAD, replicas

NOT_SUPPORTED = 3
USE, HISTORY, DISK = 27001, 27002, 27003


@pytest.fixture(autouse=True)
def no_sample_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker takes one every 10 s: it would stand between two of the test."""
    monkeypatch.setattr(broker_stats, "PERIOD", 3600.0)


class Clock:
    def __init__(self, running: Running) -> None:
        self.now = 1e9
        self._stats = running.broker.parts.stats
        self._stats.clock = lambda: self.now

    async def step(self) -> None:
        self.now += 10.0
        await self._stats.sample()


async def test_who_uses_a_broker(embedded: Running) -> None:
    clock = Clock(embedded)
    await clock.step()
    async with Producer("heavy", namesrv=embedded.namesrv) as heavy:
        await heavy.send(Message("Orders", b"x" * 3000))
        async with Producer("light", namesrv=embedded.namesrv) as light:
            await light.send(Message("Orders", b"x"))
            await admin(embedded.namesrv, "broker", "disk")  # a client without messages
            await clock.step()
            async with Admin(embedded.namesrv) as tools:
                groups = await tools.usage.top("group", seconds=10)
                clients = await tools.usage.top(seconds=10, sort="messages-in", limit=1)
                points = await tools.usage.history(seconds=10)
                with pytest.raises(ClientError, match="by 'nobody' is none of"):
                    await tools.usage.top("nobody")
                with pytest.raises(ClientError, match="sort 'size' is none of"):
                    await tools.usage.top(sort="size")
            shown = await admin(
                embedded.namesrv, "broker", "hogs", "--by", "group", "--last", "10s"
            )
            by_messages = await admin(
                embedded.namesrv, "broker", "hogs", "--last", "10s", "--sort", "messages-in"
            )
            by_requests = await admin(
                embedded.namesrv, "broker", "hogs", "--last", "10s", "--sort", "requests"
            )
            listed = await admin(embedded.namesrv, "broker", "hogs", "--last", "1h", "-o", "json")
            told = await admin(embedded.namesrv, "broker", "history", "--last", "1m", "-o", "json")
            rows = await admin(embedded.namesrv, "broker", "history", "--last", "1m")
    assert [(u.kind, u.name, u.total.messages_in) for u in groups.users] == [
        ("producer", "heavy", 1),
        ("producer", "light", 1),
    ]
    heaviest = groups.users[0]
    assert heaviest.total.bytes_in > 3000
    assert heaviest.per_second.bytes_in == pytest.approx(heaviest.total.bytes_in / 10)
    assert groups.total.messages_in == 2
    assert groups.others == Figures()
    assert (len(clients.users), clients.users[0].total.messages_in) == (1, 1)
    assert clients.users[0].host.startswith("127.0.0.1")
    assert (clients.others.messages_in, clients.more >= 1) == (1, True)
    (of,) = points
    assert of.outcome.value is not None
    assert of.outcome.value[-1].figures["messagesIn"] == 2
    assert shown.code == 0, shown.err
    assert shown.lines[0].split()[:2] == ["GROUP", "ROLE"]
    assert shown.lines[1].split()[:2] == ["heavy", "producer"]
    assert "average of 10 s, 1 broker" in shown.out
    assert "(no heartbeat)" not in by_messages.out, "they sent nothing"
    assert "without messages are not shown (--sort requests shows them)" in by_messages.out
    assert "(no heartbeat)" in by_requests.out
    answer = json.loads(listed.out)
    assert answer["total"]["messages_in"] == 2
    assert sum(user["total"]["messages_in"] for user in answer["users"]) == 2
    address = format_address(embedded.broker_address)
    assert json.loads(told.out)[address][-1]["figures"]["messagesIn"] == 2
    assert json.loads(told.out)[address][-1]["figures"]["cpuMs"] >= 0
    assert "NOT CONSUMED  CPU %  LOOP LATE MS" in rows.lines[0]
    assert float(rows.lines[-1].split()[-4]) >= 0, rows.out


async def test_before_the_first_sample_and_misuse(embedded: Running) -> None:
    shown = await admin(embedded.namesrv, "broker", "hogs")
    assert shown.code == 0
    address = format_address(embedded.broker_address)
    for command in ("hogs", "disk", "history"):
        both = await admin(embedded.namesrv, "broker", command, "-b", address, "-c", "X")
        assert both.code == 1
        assert "at most one of" in both.err


async def test_the_disk_and_what_retention_frees(tmp_path: Path) -> None:
    store = tmp_path / "store"
    keys = {"mapped_file_size_commit_log": 65_536, "max_message_size": 4096}
    async with pyrmq.testing.broker(store, **keys) as server:
        address = format_address(server.broker_address)
        async with Producer("p", namesrv=server.namesrv) as producer:
            for n in range(60):
                await producer.send(Message("A" if n % 3 else "B", b"x" * 3000))
        offsets = server.broker.parts.tables.offsets
        for queue_id in range(4):
            offsets.commit("A", "g", queue_id, 1)
        os.utime(store / "commitlog" / f"{0:020}", (0, 0))
        async with Admin(server.namesrv) as tools:
            (of,) = await tools.usage.disk()
            (one,) = await tools.usage.disk(topic="A", files=1)
        shown = await admin(server.namesrv, "broker", "disk")
        queues = await admin(server.namesrv, "broker", "disk", "-t", "A")
        none = await admin(server.namesrv, "broker", "disk", "-t", "None")
        listed = await admin(server.namesrv, "broker", "disk", "-b", address, "-o", "json")
        puts = {name: nbytes for name, _, nbytes in server.broker.store.puts()}
    disk, single = of.outcome.value, one.outcome.value
    assert disk is not None
    assert single is not None
    assert {t.topic: t.bytes for t in disk.topics} == {t: n for t, n in puts.items() if n}
    assert {t.topic: t.messages for t in disk.topics}["A"] == 40
    assert [t.topic for t in disk.topics][:2] == ["A", "B"]
    assert (disk.exact, disk.unmeasured) == (True, 0)
    assert disk.measured <= disk.log_end - disk.log_begin
    assert disk.file_size == 65_536
    assert disk.next.files == 1
    assert disk.next.bytes == 65_536
    first = {t.topic: t for t in disk.next.topics}
    assert 0 < first["A"].messages < 40
    # Of each queue of A the group has consumed one message.
    (lost,) = disk.next.groups
    assert (lost.group, lost.topic) == ("g", "A")
    assert lost.messages == first["A"].messages - first["A"].queues
    (topic,) = single.topics
    assert (topic.topic, topic.messages) == ("A", 40)
    assert [t.topic for t in single.next.topics] == ["A"]
    assert sum(queue.bytes for queue in topic.by_queue) == topic.bytes
    assert disk.files[0].changed == 0
    assert disk.files[-1].why == "it is the last one"
    assert shown.code == 0, shown.err
    assert shown.lines[1].split()[0] == "A"
    assert "retention deletes 1 file next, 64.0 KiB" in shown.out
    assert "broker-a: retention deletes" in shown.out
    assert queues.lines[2].startswith("A, queue 0 ")
    assert "topic None: nothing is stored" in none.out
    assert f"group g would lose {lost.messages} messages of A" in shown.out
    assert json.loads(listed.out)[address]["next"]["groups"][0]["messages"] == lost.messages


async def test_other_brokers_say_so_and_missing_ones_too() -> None:
    with replicas() as scripted:
        for code in (USE, HISTORY, DISK):
            scripted.on_master.change[code] = lambda c: c.reply(NOT_SUPPORTED)
        async with Admin(scripted.namesrv) as tools:
            usage = await tools.usage.top(broker=scripted.master)
            assert usage.users == []
            (failed,) = usage.failed
            assert isinstance(failed.error, ClientError)
            assert "is a broker of Apache RocketMQ, or of an older version" in str(failed.error)
        shown = await admin(scripted.namesrv, "broker", "hogs", "-b", scripted.master)
        assert shown.code == 2
        assert f"{scripted.master} does not know the request 27001 GET_BROKER_USE" in shown.err
        cluster = await admin(scripted.namesrv, "broker", "hogs", "-c", "C")
        assert cluster.code == 3  # the slave answers with nothing
        assert DEAD in cluster.err


async def test_hostile_answers() -> None:
    row = {"name": "\x1b[31mred", "host": 5, "messagesIn": -3, "bytesIn": "x", "requests": 2}
    with replicas() as scripted:
        answer = {"rows": [row, 7], "total": [], "others": {"folded": -1}, "seconds": "nan"}
        scripted.on_master.says(USE, answer)
        scripted.on_master.says(DISK, {"topics": 5, "files": [{}], "next": {"groups": [{}]}})
        scripted.on_master.says(HISTORY, {"points": [{"end": 10**30, "x": "y"}, 3]})
        for command in ("hogs", "disk", "history"):
            shown = await admin(scripted.namesrv, "broker", command, "-b", scripted.master)
            assert shown.code == 0, shown.err
            assert "\x1b" not in shown.out
        scripted.on_master.says(USE, {"rows": [{}] * 2000})
        shown = await admin(scripted.namesrv, "broker", "hogs", "-b", scripted.master)
        assert (shown.code, "an answer with 2000 rows" in shown.err) == (2, True)


def broker_says(seconds: float, *rows: tuple[str, int], count: int = 0) -> BrokerUsage:
    figures = [("" + name, "h", Figures(bytes_in=nbytes)) for name, nbytes in rows]
    total = Figures(bytes_in=sum(n for _, n in rows) + 100)
    rest = Figures(bytes_in=100)
    return BrokerUsage("client", 0, 0, seconds, figures, count or len(rows), total, rest, 3)


def test_sums_are_numbers_that_people_can_read() -> None:
    assert str((Figures(0.1) + Figures(0.2)).messages_in) == "0.3"


def test_one_answer_of_several_brokers() -> None:
    said = [
        ("b1", broker_says(10.0, ("x", 1000), ("y", 5000))),
        ("b2", broker_says(20.0, ("x", 12_000), ("z", 4000), count=5)),
    ]
    usage = _merged("client", "bytes", 2, said, ["b1", "b2"], [])
    assert [(u.name, u.per_second.bytes_in, u.brokers) for u in usage.users] == [
        ("x", 700.0, ["b1", "b2"]),
        ("y", 500.0, ["b1"]),
    ]
    assert usage.total.bytes_in == 22_200
    assert usage.others.bytes_in == 4200
    assert (usage.folded, usage.more, usage.seconds) == (6, 1 + 3, 20.0)
    assert usage.others_per_second.bytes_in == pytest.approx(10 + 5 + 200)
