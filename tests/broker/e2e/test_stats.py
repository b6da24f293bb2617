"""Statistics of a broker: known amounts are sent and pulled, and compared with what is answered.

Samples are taken by the tests, on a clock of their own."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from datetime import date
from itertools import count
from typing import Any

import pytest
import trio

import pyrmq.testing
from pyrmq.broker.stats import broker_stats as stats_module
from pyrmq.broker.stats import consume_stats
from pyrmq.net import fastjson
from pyrmq.server import Running
from tests.support.client import (
    PULL_COMMIT,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    Client,
    batch_command,
    pull_command,
    pulled,
)
from tests.support.delays import SCHEDULE_TOPIC, place, record_at, runtime_info, send_back
from tests.support.operators import create_topic
from tests.support.transactions import COMMIT, HALF_TOPIC, OP_TOPIC, end, send_half
from tests.support.waiting import eventually
from tests.support.wire import Command

VIEW_STATS, CONSUME_STATS, ALL_CONSUME_STATS, TOPIC_STATS = 315, 208, 317, 202
CLUSTER = "DefaultCluster"
SYSTEM_ERROR, INVALID_PARAMETER = 1, 29
PERIOD = 10.0
SETTINGS: dict[str, Any] = {
    "message_delay_level": "1h 100s 1s 1h",
    "enable_property_filter": True,
}


class Watched:
    """A broker in a thread of its own. `step` takes a sample, ten seconds after the last one."""

    def __init__(self) -> None:
        self._ready, self._stop = threading.Event(), trio.Event()
        self._token: trio.lowlevel.TrioToken
        self._running: Running
        self.now = 1e9
        self._numbers = count()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))
        self._thread.start()
        assert self._ready.wait(30)
        self.address = self._running.broker_address
        self.client = Client(self.address)

    async def _serve(self) -> None:
        async with pyrmq.testing.broker(**SETTINGS) as running:
            self._running = running
            self._token = trio.lowlevel.current_trio_token()
            running.broker.parts.stats.clock = lambda: self.now
            running.broker.parts.stats.today = lambda: date.min
            self._ready.set()
            await self._stop.wait()

    def close(self) -> None:
        self.client.close()
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join()

    def step(self) -> None:
        self.now += PERIOD
        trio.from_thread.run(self._running.broker.parts.stats.sample, trio_token=self._token)

    def name(self, what: str) -> str:
        return f"{what}{next(self._numbers)}"

    def view(self, name: str, key: str) -> dict[str, Any]:
        answer = self.client.call(VIEW_STATS, statsName=name, statsKey=key)
        assert answer.code == 0, answer.remark
        body: dict[str, Any] = json.loads(answer.body)
        assert list(body) == ["statsDay", "statsHour", "statsMinute"]
        assert all(list(window) == ["avgpt", "sum", "tps"] for window in body.values())
        return body

    def minute(self, name: str, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.view(name, key)["statsMinute"]
        return found

    def sum(self, name: str, key: str = CLUSTER) -> int:
        """0 where there is nothing yet."""
        answer = self.client.call(VIEW_STATS, statsName=name, statsKey=key)
        return 0 if answer.code else int(json.loads(answer.body)["statsMinute"]["sum"])


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats_module, "PERIOD", 3600.0)
        made = Watched()
        # Items that come are rated as if by RocketMQ's period.
        made.step()
        yield made
        made.close()


@pytest.fixture
def client(watched: Watched) -> Client:
    return watched.client


def fill(client: Client, topic: str, messages: int) -> int:
    """Sends half of them one by one, half in one batch; the bytes of their records."""
    begin = int(runtime_info(client)["commitLogMaxOffset"])
    for n in range(messages // 2):
        assert client.send(topic, b"%04d" % n, queues=1).code == 0
    batch = [(b"b%03d" % n, {}) for n in range(messages // 2)]
    assert client.request(batch_command(topic, batch, queues=1)).code == 0
    return int(runtime_info(client)["commitLogMaxOffset"]) - begin


def test_what_a_topic_stored(watched: Watched, client: Client) -> None:
    topic = watched.name("Put")
    before = watched.sum("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC")
    nbytes = fill(client, topic, 40)
    watched.step()
    assert watched.minute("TOPIC_PUT_NUMS", topic) == {"avgpt": 1.0, "sum": 40, "tps": 4.0}
    size = {"avgpt": nbytes / 40, "sum": nbytes, "tps": nbytes / PERIOD}
    assert watched.minute("TOPIC_PUT_SIZE", topic) == size
    fill(client, topic, 20)
    watched.step()
    assert watched.minute("TOPIC_PUT_NUMS", topic) == {"avgpt": 1.0, "sum": 60, "tps": 3.0}
    assert watched.sum("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC") == before + 60
    assert watched.view("TOPIC_PUT_NUMS", topic)["statsHour"]["sum"] == 0, "not sampled yet"
    assert client.call(TOPIC_STATS, topic=topic).body.endswith(b'"topicPutTps":3.0}')
    for _ in range(7):
        watched.step()
    assert watched.minute("TOPIC_PUT_NUMS", topic) == {"avgpt": 0.0, "sum": 0, "tps": 0.0}


def test_what_a_group_got(watched: Watched, client: Client) -> None:
    """Pulls that the broker checks, pulls that the engine answers, and one that waits."""
    topic, group = watched.name("Got"), watched.name("G")
    fill(client, topic, 60)
    found: list[Command] = []
    with Client(watched.address) as other:
        for offset in (0, 5, 10, 20, 58, 60, 61):
            for one in (client, other, other, other):
                pull = pull_command(topic, 0, offset, group=group, maximum=7)
                found.append(one.request(pull))
        flag = PULL_SUBSCRIPTION | PULL_SUSPEND
        other.post(pull_command(topic, 0, 60, group=group, sys_flag=flag, suspend_ms=20_000))
        assert client.send(topic, b"late", queues=1).code == 0
        found.append(other.receive())
    found = [answer for answer in found if answer.code == 0]
    got = sum(len(pulled(answer).records) for answer in found)
    nbytes = sum(len(answer.body) for answer in found)
    assert (len(found), got) == (5 * 4 + 1, 4 * 4 * 7 + 4 * 2 + 1)
    watched.step()
    key = f"{topic}@{group}"
    nums = {"avgpt": got / len(found), "sum": got, "tps": got / PERIOD}
    assert watched.minute("GROUP_GET_NUMS", key) == nums
    size = {"avgpt": nbytes / len(found), "sum": nbytes, "tps": nbytes / PERIOD}
    assert watched.minute("GROUP_GET_SIZE", key) == size
    assert consume_tps(client, group, topic) == got / PERIOD
    info = runtime_info(client)
    assert info["getFoundTps"].split(" ")[0] == str(len(found) / PERIOD)
    assert float(info["getMissTps"].split(" ")[0]) >= 8 / PERIOD
    assert info["getTransferredTps"].split(" ")[0] == str(got / PERIOD)


def test_pulls_that_threads_answer(watched: Watched, client: Client) -> None:
    topic, group = watched.name("Read"), watched.name("G")
    fill(client, topic, 20)
    change = {"expressionType": "SQL92"}
    for sql, code in (("TAGS IS NULL", 0), ("TAGS = 'no'", 20)):
        pull = pull_command(topic, 0, 0, group=group, subscription=sql, change=change)
        assert client.request(pull).code == code
    watched.step()
    nums = {"avgpt": 20.0, "sum": 20, "tps": 2.0}
    assert watched.minute("GROUP_GET_NUMS", f"{topic}@{group}") == nums
    assert runtime_info(client)["getMissTps"].startswith("0.1 ")


def consume_tps(client: Client, group: str, *topics: str) -> float:
    body = client.call(CONSUME_STATS, consumerGroup=group, topicList=";".join(topics)).body
    return float(body.partition(b'"consumeTps":')[2].partition(b",")[0])


def test_consume_tps_is_that_of_all_topics(watched: Watched, client: Client) -> None:
    topics, group = [watched.name("Sum") for _ in range(3)], watched.name("G")
    for number, topic in enumerate(topics, 1):
        fill(client, topic, 10 * number)
        pull = pull_command(
            topic, 0, 0, group=group, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT,
            change={"commitOffset": "1"},
        )  # fmt: skip
        assert len(pulled(client.request(pull)).records) == 10 * number
    watched.step()
    assert consume_tps(client, group) == 6.0
    assert consume_tps(client, group, topics[0], topics[1], "unknown") == 3.0
    assert consume_tps(client, "unknown") == 0.0


def test_messages_that_the_broker_moves(watched: Watched, client: Client) -> None:
    """What is delayed counts where it waits and again where it is delivered, as in RocketMQ; of a
    transaction half, op record and message count. Without the topics of the system each message
    counts once."""
    topic = watched.name("Moved")
    assert create_topic(client, topic).code == 0
    watched.step()
    names = (SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC)
    before = [watched.sum("TOPIC_PUT_NUMS", name) for name in names]
    plain, every = (
        watched.sum(name) for name in ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "BROKER_PUT_NUMS")
    )
    assert client.send(topic, properties={"DELAY": "3"}).code == 0
    half = send_half(client, topic)
    assert end(client, half, COMMIT).code == 0
    eventually(lambda: client.max_offset(topic, 0) == 2, "both are delivered")
    watched.step()
    after = [watched.sum("TOPIC_PUT_NUMS", name) for name in names]
    assert [a - b for a, b in zip(after, before, strict=True)] == [1, 1, 1]
    assert watched.minute("TOPIC_PUT_NUMS", topic)["sum"] == 2
    assert watched.sum("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC") == plain + 2
    assert watched.sum("BROKER_PUT_NUMS") == every + 5


def test_what_was_sent_back(watched: Watched, client: Client) -> None:
    topic, group = watched.name("Failed"), watched.name("G")
    phys = place(client.send(topic))
    for level, origin in ((2, topic), (0, topic), (-1, topic), (-1, "NoSuchTopic"), (-1, "")):
        assert send_back(client, phys, group, level, originTopic=origin).code == 0
    watched.step()
    assert watched.minute("SNDBCK_PUT_NUMS", f"{topic}@{group}")["sum"] == 3
    assert watched.minute("DLQ_PUT_NUMS", f"{topic}@{group}")["sum"] == 1
    assert watched.minute("SNDBCK_PUT_NUMS", f"%RETRY%{group}@{group}")["sum"] == 2
    assert watched.minute("TOPIC_PUT_NUMS", f"%DLQ%{group}")["sum"] == 3


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "NoSuchTopic"),
        ("GROUP_GET_NUMS", "NoSuchTopic@G"),
        ("GROUP_GET_FALL_SIZE", "0@T@G"),
        ("NO_SUCH_NAME", "T"),
        ("", ""),
    ],
)
def test_what_does_not_exist(client: Client, name: str, key: str) -> None:
    answer = client.call(VIEW_STATS, statsName=name, statsKey=key)
    assert (answer.code, answer.remark) == (SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")


def test_requests_that_are_wrong(client: Client) -> None:
    for fields in ({}, {"statsName": "TOPIC_PUT_NUMS"}, {"statsKey": "T"}):
        answer = client.call(VIEW_STATS, **fields)
        assert answer.code == SYSTEM_ERROR
        assert "is null" in (answer.remark or "")
    answer = client.call(VIEW_STATS, statsName="N" * 9000, statsKey="\x1b" * 9000)
    assert answer.code == SYSTEM_ERROR
    assert len(answer.remark or "") < 1000


def test_runtime_info(watched: Watched, client: Client) -> None:
    topic = watched.name("Info")
    first = runtime_info(client)
    fill(client, topic, 100)
    client.pull(topic, 0, 0, group="G")
    watched.step()
    watched.step()
    info = runtime_info(client)
    assert info["putTps"].startswith("0.0 ")
    assert len(info["putTps"].split(" ")) == 3
    for name, grown in (("msgPutTotalTodayNow", 100), ("msgGetTotalTodayNow", 32)):
        assert int(info[name]) - int(first[name]) >= grown
    for name in ("msgPutTotal", "msgGetTotal"):
        assert info[f"{name}YesterdayMorning"] == info[f"{name}TodayMorning"] == "0"
    total, size = int(info["putMessageTimesTotal"]), int(info["putMessageSizeTotal"])
    assert size == int(info["commitLogMaxOffset"]), "all of the log"
    assert float(info["putMessageAverageSize"]) == size / total
    for name in ("send", "pull"):
        assert info[f"{name}ThreadPoolQueueSize"] == "0"
        assert info[f"{name}ThreadPoolQueueHeadWaitTimeMills"] == "0"
    assert info["queryThreadPoolQueueSize"] == info["pageCacheLockTimeMills"] == "0"
    first_record = record_at(client, int(info["commitLogMinOffset"]))
    assert info["earliestMessageTimeStamp"] == str(first_record.store_timestamp)
    assert 0 < float(info["commitLogDiskRatio"]) <= 1
    assert 0 < float(info["consumeQueueDiskRatio"]) <= 1
    assert info["commitLogDirCapacity"].startswith("Total : ")
    assert info["runtime"].startswith("[ 0 days, 0 hours, ")
    distribution = dict(re.findall(r"\[([^]]+)\]:(\d+) ", info["putMessageDistributeTime"]))
    assert len(distribution) == 13
    assert sum(map(int, distribution.values())) >= 51, "the sends above, of which one is a batch"
    assert 0 < float(info["putLatency99"]) <= float(info["putLatency999"])


NUMBERS = (
    "bootTimestamp", "brokerVersion", "commitLogMaxOffset", "commitLogMinOffset", "connections",
    "deletedUnread", "dispatchBehindBytes", "dispatchMaxBuffer", "earliestMessageTimeStamp",
    "msgGetTotalTodayMorning", "pullThreadPoolQueueCapacity", "sendThreadPoolQueueCapacity",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "msgGetTotalTodayNow", "msgGetTotalYesterdayMorning", "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow", "msgPutTotalYesterdayMorning", "pageCacheLockTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueSize", "putMessageSizeTotal",
    "putMessageTimesTotal", "queryThreadPoolQueueCapacity", "queryThreadPoolQueueSize",
    "remainTransientStoreBufferNumbs", "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize", "startAcceptSendRequestTimeStamp", "timerCongestNum",
    "timerOffsetBehind", "timerReadBehind", "putMessageEntireTimeMax", "getMessageEntireTimeMax",
)  # fmt: skip
DECIMALS = (
    "commitLogDiskRatio", "consumeQueueDiskRatio", "putMessageAverageSize", "timerDequeueTps",
    "timerEnqueueTps", "putLatency99", "putLatency999",
)  # fmt: skip
TEXTS = {
    "brokerActive": "true|false",
    "brokerDrain": "NONE",
    "brokerVersionDesc": r"V\d+_\d+_\d+",
    "commitLogDirCapacity": r"Total : [\d.]+ [KMGTP]?i?B, Free : [\d.]+ [KMGTP]?i?B\.",
    "getFoundTps": r"[\d.]* [\d.]* [\d.]*",
    "getMissTps": r"[\d.]* [\d.]* [\d.]*",
    "getTotalTps": r"[\d.]* [\d.]* [\d.]*",
    "getTransferredTps": r"[\d.]* [\d.]* [\d.]*",
    "putMessageDistributeTime": r"(\[[^]]+\]:\d+ ){13}",
    "putTps": r"[\d.]* [\d.]* [\d.]*",
    "refusesMessages": "",
    "remainHowManyDataToFlush": r"[\d.]+ [KMGTP]?i?B",
    "runtime": r"\[ \d+ days, \d+ hours, \d+ minutes, \d+ seconds \]",
    "scheduleMessageOffset_1": r"\d+,\d+",
}


def test_runtime_info_is_of_texts_that_tools_can_read(watched: Watched, client: Client) -> None:
    """RocketMQ's keys, as its tools parse them."""
    fill(client, watched.name("Parsed"), 10)
    info = runtime_info(client)
    for name in NUMBERS:
        assert re.fullmatch(r"\d+", info[name]), name
    for name in DECIMALS:
        assert re.fullmatch(r"\d+\.\d+(E-?\d+)?", info[name]), name
    for name, form in TEXTS.items():
        assert re.fullmatch(form, info[name]), name
    paths = [name for name in info if name.startswith("commitLogDiskRatio_")]
    assert [float(info[name]) for name in paths] == [float(info["commitLogDiskRatio"])]
    own = {"brokerVersion", "getTransferedTps"}
    ours = ("transaction", "popRevive", "timerLost")
    assert {name for name in info if "_" not in name and not name.startswith(ours)} == {
        *NUMBERS, *DECIMALS, *(name for name in TEXTS if "_" not in name), *own
    }  # fmt: skip


def test_all_groups(watched: Watched, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group = watched.name("All"), watched.name("G")
    fill(client, topic, 10)
    pull = pull_command(
        topic, 0, 0, group=group, maximum=6, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT,
        change={"commitOffset": "4"},
    )  # fmt: skip
    assert client.request(pull).code == 0
    watched.step()
    answer = client.call(ALL_CONSUME_STATS, isOrder="false")
    assert answer.code == 0, answer.remark
    body = fastjson.loads_object(answer.body)
    [tables] = [some[group] for some in body["consumeStatsList"] if group in some]
    assert [table["consumeTps"] for table in tables] == [0.6]
    [(queue, row)] = tables[0]["offsetTable"].items()
    assert dict(queue) == {"brokerName": "broker-a", "queueId": 0, "topic": topic}
    assert row["lastTimestamp"] > 0
    assert (row["brokerOffset"], row["consumerOffset"], row["pullOffset"]) == (10, 4, 6)
    assert body["brokerAddr"] == "{}:{}".format(*watched.address)
    rows = [
        row
        for some in body["consumeStatsList"]
        for tables in some.values()
        for table in tables
        for row in table["offsetTable"].values()
    ]
    assert body["totalDiff"] == sum(r["brokerOffset"] - r["consumerOffset"] for r in rows)
    assert body["totalInflightDiff"] == sum(r["pullOffset"] - r["consumerOffset"] for r in rows)
    ordered = fastjson.loads_object(client.call(ALL_CONSUME_STATS, isOrder="true").body)
    assert ordered["consumeStatsList"] == []
    monkeypatch.setattr(consume_stats, "MAX_QUEUES", 0)
    answer = client.call(ALL_CONSUME_STATS, isOrder="false")
    assert answer.code == INVALID_PARAMETER
    assert "ask for the groups one by one" in (answer.remark or "")
