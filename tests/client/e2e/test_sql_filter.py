"""SQL92 expressions over properties: what a pull gets, what is refused, and what waits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import trio

import pyrmq
from pyrmq.testing import broker
from tests.support.client import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    Client,
    Pulled,
    pull_command,
    pulled,
)
from tests.support.consumed import take
from tests.support.fixtures import Serve
from tests.support.server import ServerProcess
from tests.support.wire import Command

CHECK_CLIENT_CONFIG = 46
HEART_BEAT = 34
FOUND, NOT_FOUND, RETRY, PARSE_FAILED, SYSTEM_ERROR = 0, 19, 20, 23, 1
CONF = "enablePropertyFilter=true\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("sql") / "store", conf=CONF) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


def load(client: Client, topic: str, count: int = 40) -> None:
    for n in range(count):
        properties = {"n": str(n), "kind": "odd" if n % 2 else "even"}
        assert client.send(topic, b"%d" % n, properties=properties).code == 0


def by_sql(client: Client, topic: str, sql: str, offset: int = 0, **options: object) -> Command:
    change = {"expressionType": "SQL92"}
    command = pull_command(topic, 0, offset, subscription=sql, change=change, **options)
    return client.request(command)


def pull(client: Client, topic: str, sql: str, offset: int = 0) -> Pulled:
    return pulled(by_sql(client, topic, sql, offset))


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("n > 35", range(36, 40)),
        ("n BETWEEN 3 AND 5 AND kind = 'odd'", (3, 5)),
        ("kind = 'even' AND n < 6", (0, 2, 4)),
        ("n IN ('7', '9') OR kind IS NULL", (7, 9)),
        ("missing IS NULL AND n = 1", (1,)),
        ("kind CONTAINS 'dd' AND NOT (n > 3)", (1, 3)),
    ],
)
def test_a_pull_gets_what_is_true(client: Client, sql: str, wanted: Iterable[int]) -> None:
    topic = "Selected"
    if client.max_offset(topic, 0) == 0:
        load(client, topic)
    found = pull(client, topic, sql)
    assert [int(record.body) for record in found.records] == list(wanted)
    assert (found.code, found.next_offset) == (FOUND, 40)


def test_nothing_matches(client: Client) -> None:
    load(client, "None", 10)
    found = pull(client, "None", "n > 100")
    assert (found.code, found.next_offset) == (RETRY, 10)
    assert pull(client, "None", "n > 100", 10).code == NOT_FOUND


@pytest.mark.parametrize("sql", ["", "n >", "(" * 10_000 + "n > 1" + ")" * 10_000, "n = NULL", "*"])
def test_what_does_not_compile(client: Client, sql: str) -> None:
    client.send("Broken")
    answer = by_sql(client, "Broken", sql)
    assert answer.code == PARSE_FAILED
    assert answer.remark is not None
    told_where = "SQL92 expression, character" in answer.remark
    assert told_where or (len(sql) > 16_384 and "more than 16384" in answer.remark)
    data = {"subscriptionData": {"topic": "T", "subString": sql, "expressionType": "SQL92"}}
    told = client.call(CHECK_CLIENT_CONFIG, json.dumps(data).encode())
    assert told.code == PARSE_FAILED


def test_other_kinds_are_refused(client: Client) -> None:
    client.send("Kinds")
    change = {"expressionType": "XPATH"}
    answer = client.request(pull_command("Kinds", 0, 0, subscription="/a", change=change))
    assert answer.code == SYSTEM_ERROR
    assert answer.remark == "The broker does not support consumer to filter message by XPATH"


def test_by_default_it_is_off(tmp_path: Path) -> None:
    """As in RocketMQ; the answer names the key."""
    with ServerProcess(tmp_path / "store") as server, Client(server.broker) as client:
        client.send("Off")
        answer = by_sql(client, "Off", "n > 1")
        assert answer.code == SYSTEM_ERROR
        assert answer.remark is not None
        assert "by SQL92: set enablePropertyFilter=true" in answer.remark
        data = {"subscriptionData": {"topic": "T", "subString": "a=1", "expressionType": "SQL92"}}
        assert client.call(CHECK_CLIENT_CONFIG, json.dumps(data).encode()).code == SYSTEM_ERROR


def test_a_subscription_of_a_heartbeat(client: Client) -> None:
    load(client, "Beats", 6)
    subscription = {
        "classFilterMode": False, "codeSet": [], "expressionType": "SQL92", "subString": "n >= 4",
        "subVersion": 1, "tagsSet": [], "topic": "Beats",
    }  # fmt: skip
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "groupName": "G_sql", "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription], "unitMode": False,
    }  # fmt: skip
    data = {"clientID": "c1", "consumerDataSet": [consumer], "producerDataSet": []}
    assert client.call(HEART_BEAT, json.dumps(data).encode()).code == 0
    change = {"subscription": None, "expressionType": None, "subVersion": "1"}
    answer = client.request(pull_command("Beats", 0, 0, group="G_sql", sys_flag=0, change=change))
    assert [r.body for r in pulled(answer).records] == [b"4", b"5"]


def test_a_parked_pull_waits_for_what_it_wants(server: ServerProcess, client: Client) -> None:
    load(client, "Parked", 3)
    flags = {"expressionType": "SQL92", "sysFlag": str(PULL_SUSPEND | PULL_SUBSCRIPTION)}
    command = pull_command("Parked", 0, 3, subscription="n = 7", suspend_ms=20_000, change=flags)
    with Client(server.broker) as waiting:
        opaque = waiting.post(command)
        client.send("Parked", b"other", properties={"n": "6"})
        client.send("Parked", b"wanted", properties={"n": "7"})
        answer = waiting.receive(30)
        if answer.code == RETRY:
            # Its thread read between the two: there was something, and nothing of it was wanted.
            assert (answer.opaque, answer.ext["nextBeginOffset"]) == (opaque, "4")
            command.ext["queueOffset"] = "4"
            opaque = waiting.post(command)
            answer = waiting.receive(30)
    assert answer.opaque == opaque
    found = pulled(answer)
    assert ([r.body for r in found.records], found.next_offset) == ([b"wanted"], 5)


def test_long_properties_and_a_long_expression_hold_up_nobody(client: Client) -> None:
    """1,400 comparisons with a number of 30,000 digits would take a quarter of a second each time:
    such a message is left out, the others are not."""
    number = "1" * 30_000 + ".5"
    for n in range(20):
        assert (
            client.send("Slow", b"%d" % n, properties={"n": number if n % 2 else "2.5"}).code == 0
        )
    found = pull(client, "Slow", " OR ".join(["n = 7.5"] * 1400 + ["n = 2.5"]))
    assert [int(record.body) for record in found.records] == list(range(0, 20, 2))


def test_expressions_that_are_too_long_are_not_kept(client: Client) -> None:
    client.send("Long")
    answer = by_sql(client, "Long", "a = 1 OR " * 10_000 + "a = 1")
    assert answer.code == PARSE_FAILED
    assert answer.remark == "the expression has more than 16384 characters"


def test_the_python_consumer_says_what_is_wrong() -> None:
    async def main() -> None:
        async with broker() as off, pyrmq.Producer("P", namesrv=off.namesrv) as producer:
            await producer.send(pyrmq.Message("T", b"x"))
            with pytest.raises(pyrmq.ResponseError, match="enablePropertyFilter=true"):
                async with pyrmq.PushConsumer("G", {"T": pyrmq.Sql("n=1")}, namesrv=off.namesrv):
                    pass
        async with (
            broker(enable_property_filter=True) as on,
            pyrmq.Producer("P", namesrv=on.namesrv) as producer,
        ):
            await producer.send(pyrmq.Message("T", b"x"))
            with pytest.raises(pyrmq.SubscriptionError, match="character 4"):
                async with pyrmq.PushConsumer("G", {"T": pyrmq.Sql("n >")}, namesrv=on.namesrv):
                    pass
        with pytest.raises(pyrmq.UnusableExpressionError, match="empty"):
            pyrmq.PushConsumer("G", {"T": pyrmq.Sql(" ")}, namesrv="127.0.0.1:1")

    trio.run(main)


@pytest.mark.usefixtures("deadline")
async def test_the_python_consumer_selects_by_sql(serve: Serve) -> None:
    async with (
        serve(enable_property_filter=True) as server,
        pyrmq.Producer("P", namesrv=server.namesrv) as producer,
    ):
        for n in range(6):
            await producer.send(pyrmq.Message("T", b"%d" % n, properties={"n": str(n)}))
        async with pyrmq.PushConsumer(
            "G",
            {"T": pyrmq.Sql("n >= 3 AND n <> 4")},
            namesrv=server.namesrv,
            consume_from=pyrmq.ConsumeFrom.FIRST_OFFSET,
        ) as consumer:
            assert sorted(m.body for m in await take(consumer, 2)) == [b"3", b"5"]


BITS = "enableConsumeQueueExt=true\nenableCalcFilterBitMap=true\n"
"""Expressions are evaluated as messages are stored."""


def heartbeat(client: Client, group: str, sql: str, version: int) -> None:
    """A consumer of `Bits`."""
    subscription = {
        "topic": "Bits", "subString": sql, "expressionType": "SQL92", "subVersion": version,
        "tagsSet": [], "codeSet": [], "classFilterMode": False,
    }  # fmt: skip
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
        "unitMode": False,
    }  # fmt: skip
    body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
    assert client.call(HEART_BEAT, json.dumps(body).encode()).code == 0


def bodies(client: Client, group: str, sql: str) -> list[int]:
    """What a group finds in the whole of `Bits`; its members' subscription says what it wants."""
    found, offset, end = [], 0, client.max_offset("Bits", 0)
    while offset < end:
        change = {"consumerGroup": group, "expressionType": "SQL92"}
        command = pull_command("Bits", 0, offset, subscription=sql, change=change)
        got = pulled(client.request(command))
        found += [int(record.body) for record in got.records]
        offset = got.next_offset
    return found


def units_with_bits(store: Path) -> int:
    """Units of the extension file that have a bitmap."""
    raw = (store / "consumequeue_ext/Bits/0/00000000000000000000").read_bytes()
    count = at = 0
    while (size := int.from_bytes(raw[at : at + 2], "big")) > 0:
        count += size > 20
        at += size
    return count


def test_expressions_are_evaluated_as_messages_are_stored(tmp_path: Path) -> None:
    """Stopped, killed, with other expressions and without: a group gets what is true."""
    store = tmp_path / "store"
    high = list(range(30, 40))
    with ServerProcess(store, conf=CONF + BITS) as server:
        with Client(server.broker) as client:
            load(client, "Bits")
            heartbeat(client, "g", "n >= 30", 1)
            load(client, "Bits")
            assert bodies(client, "g", "n >= 30") == high * 2
            heartbeat(client, "g", "n < 5", 2)
            load(client, "Bits")
            assert bodies(client, "g", "n < 5") == list(range(5)) * 3
            assert bodies(client, "g", "n >= 30") == high * 3
        server.terminate()
        assert units_with_bits(store) == 80
        told = json.loads((store / "config/consumerFilter.json").read_bytes())
        data = told["filterDataByTopic"]["Bits"]["groupFilterData"]["g"]
        assert (data["expression"], data["dead"]) == ("n < 5", True)
        server.start()
        with Client(server.broker) as client:
            heartbeat(client, "g", "n < 5", 2)
            load(client, "Bits")
            assert bodies(client, "g", "n < 5") == list(range(5)) * 4
            server.kill()
        server.start()
        with Client(server.broker) as client:
            assert bodies(client, "g", "n >= 30") == high * 4
            heartbeat(client, "g", "n >= 30", 3)
            load(client, "Bits")
            assert bodies(client, "g", "n >= 30") == high * 5
            assert bodies(client, "g", "n < 5") == list(range(5)) * 5
