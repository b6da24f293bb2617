"""RocketMQ's exporter and dashboard read our answers: each text is read as they read it, where one
that is missing or has another form costs all figures of the broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

import pyrmq.testing
from pyrmq.testing import TestServer
from tests.support.client import Client
from tests.support.delays import runtime_info
from tests.support.operators import create_topic
from tests.support.waiting import eventually

VIEW_STATS, ALL_PRODUCERS, TOPIC_STATS, CLUSTER_INFO, HEARTBEAT = 315, 328, 202, 106, 34
INT, LONG = 1 << 31, 1 << 63


def whole(most: int) -> Callable[[str], None]:
    """What Java's parseInt or parseLong takes."""

    def read(text: str) -> None:
        assert -most <= int(text) < most
        assert text.lstrip("-").isdecimal()
        assert text.isascii()

    return read


def decimal(text: str) -> None:
    """What Java's parseDouble takes; Python's takes underscores and names besides."""
    assert set(text) <= set("0123456789.-Ee"), text
    float(text)


def words(text: str) -> list[str]:
    """As Java's split: without empty ones at the end."""
    found = text.split(" ")
    while found and not found[-1]:
        found.pop()
    return found


def rates(text: str) -> None:
    """Of 10, 60 and 600 seconds, each may be missing behind the others."""
    found = words(text)
    assert len(found) <= 3
    for word in found:
        decimal(word)


def size(text: str) -> None:
    """A number and a unit, apart."""
    number, unit = text.split(" ")
    decimal(number)
    assert unit == "B" or unit[0] in "KMGTPE"


def leading_number(text: str) -> None:
    """The number of a size; its unit is not looked at."""
    decimal(text.split(" ")[0])


def capacity(text: str) -> None:
    """The third and fourth word are a size, the seventh and eighth too, each with one sign behind
    it."""
    found = words(text)
    for at in (2, 6):
        size(f"{found[at]} {found[at + 1][:-1]}")


def distribution(text: str) -> None:
    """`[name]:number`, apart."""
    assert len(words(text)) == 13
    for word in words(text):
        name, number = word.split(":")
        assert (name[0], name[-1]) == ("[", "]")
        whole(INT)(number)


def pair(text: str) -> None:
    first, second = text.split(",")
    whole(LONG)(first)
    whole(LONG)(second)


def some(text: str) -> None:
    assert text


FORMS: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(
        (
            "msgPutTotalTodayNow", "msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning",
            "msgGetTotalTodayNow", "msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning",
            "sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity",
            "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueSize",
            "pullThreadPoolQueueCapacity", "pullThreadPoolQueueHeadWaitTimeMills",
            "queryThreadPoolQueueSize", "queryThreadPoolQueueCapacity",
            "queryThreadPoolQueueHeadWaitTimeMills", "bootTimestamp", "commitLogMinOffset",
            "commitLogMaxOffset", "dispatchMaxBuffer", "dispatchBehindBytes",
            "pageCacheLockTimeMills", "getMessageEntireTimeMax", "putMessageEntireTimeMax",
            "putMessageTimesTotal", "putMessageSizeTotal", "startAcceptSendRequestTimeStamp",
            "earliestMessageTimeStamp", "remainTransientStoreBufferNumbs",
        ),
        whole(LONG),
    ),
    "brokerVersion": whole(INT),
    **dict.fromkeys(
        (
            "consumeQueueDiskRatio", "commitLogDiskRatio", "putMessageAverageSize",
            "putLatency99", "putLatency999",
        ),
        decimal,
    ),
    **dict.fromkeys(
        (
            "putTps", "getMissTps", "getTransferedTps", "getTransferredTps", "getTotalTps",
            "getFoundTps",
        ),
        rates,
    ),
    "putMessageDistributeTime": distribution,
    "remainHowManyDataToFlush": leading_number,
    "commitLogDirCapacity": capacity,
    "runtime": some,
    "brokerVersionDesc": some,
}  # fmt: skip
"""What the exporter reads unasked, by key; the dashboard reads some of them."""


@pytest.fixture
def server() -> Iterator[TestServer]:
    with pyrmq.testing.broker() as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Iterator[Client]:
    with Client(server.broker_address) as connection:
        yield connection


def check(info: dict[str, str]) -> None:
    assert FORMS.keys() - info.keys() == set()
    for name, read in FORMS.items():
        try:
            read(info[name])
        except (AssertionError, ValueError, IndexError) as e:
            raise AssertionError(f"{name} is {info[name]!r}") from e
    schedule = [text for name, text in info.items() if name.startswith("scheduleMessageOffset")]
    assert schedule
    for text in schedule:
        pair(text)


def test_the_figures_of_a_broker_without_a_message(client: Client) -> None:
    info = runtime_info(client)
    check(info)
    assert info["earliestMessageTimeStamp"] == "-1"


def test_the_figures_of_a_broker_at_work(client: Client) -> None:
    create_topic(client, "T")
    for _ in range(20):
        assert client.send("T", b"x" * 5000).code == 0
    client.pull("T", 0, 0, group="G")
    info = runtime_info(client)
    check(info)
    assert int(info["commitLogMaxOffset"]) > 100_000
    assert int(info["earliestMessageTimeStamp"]) > 0


def test_the_reader_finds_what_is_wrong(client: Client) -> None:
    """Every key counts: without it, or with a text instead, the check fails."""
    info = runtime_info(client)
    for name in FORMS:
        with pytest.raises(AssertionError):
            check({key: value for key, value in info.items() if key != name})
        with pytest.raises(AssertionError):
            check(info | {name: "" if FORMS[name] is some else "a b"})


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "T"),
        ("TOPIC_PUT_SIZE", "T"),
        ("GROUP_GET_NUMS", "T@G"),
        ("GROUP_GET_SIZE", "T@G"),
        ("BROKER_PUT_NUMS", "DefaultCluster"),
        ("BROKER_GET_NUMS", "DefaultCluster"),
    ],
)
def test_rates(client: Client, name: str, key: str) -> None:
    """Sum, rate and average of a minute, an hour and a day are numbers."""
    create_topic(client, "T")
    client.send("T")
    client.pull("T", 0, 0, group="G")
    answer = eventually(
        lambda: found if (found := client.call(VIEW_STATS, statsName=name, statsKey=key)).code == 0
        else None,
        "it is counted",
    )  # fmt: skip
    assert answer is not None
    body = json.loads(answer.body)
    for part in ("statsMinute", "statsHour", "statsDay"):
        row = body[part]
        assert isinstance(row["sum"], int)
        assert isinstance(row["tps"], (int, float))
        assert isinstance(row["avgpt"], (int, float))


def test_producers(client: Client, server: TestServer) -> None:
    with Client(server.broker_address) as producer:
        data = {"clientID": "p", "producerDataSet": [{"groupName": "P"}], "consumerDataSet": []}
        producer.call(HEARTBEAT, json.dumps(data).encode())
        [row] = json.loads(client.call(ALL_PRODUCERS).body)["data"]["P"]
    assert row["clientId"] == "p"
    assert row["remoteIP"]
    assert isinstance(row["version"], int)
    assert isinstance(row["lastUpdateTimestamp"], int)
    assert row["language"]
