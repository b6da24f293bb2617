"""Every request of the broker, bad in every way: a code, a text that helps, and no trace."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyrmq.testing
from pyrmq.model.codes import RequestCode
from pyrmq.model.names import TRANSACTION_GROUP
from pyrmq.server import Running
from tests.support.client import Client, pull_command, send_command
from tests.support.in_thread import InThread
from tests.support.operators import create_topic
from tests.support.wire import encode
from tests.system.hostile.requests.broker_rows import (
    GROUP,
    GROUP_VICTIM,
    LONGEST_DELAY,
    NO_READ,
    NO_WRITE,
    ROWS,
    TOPIC,
    VICTIM,
)
from tests.system.hostile.requests.rows import Case, Row, all_cases, check_text, check_twice

MOST_OFFSET = (1 << 63) - 1
CASES = all_cases(ROWS)
DEEP = {
    "parentheses": "(" * 10_000 + "a > 5" + ")" * 10_000,
    "open": "(" * 10_000,
    "not": "NOT " * 4_000 + "a > 5",
    "long": "a > 5 AND " * 10_000 + "a > 5",
    "minus": "a > " + "-" * 10_000 + "5",
}
"""SQL92 expressions that no consumer has."""


class Target:
    """A broker with some topics and a group, and what it knows."""

    def __init__(self, server: InThread[Running], store: Path) -> None:
        self.server = server
        self.store = store
        host, port = server.look(lambda running: running.broker_address)
        self.address = (host, port)
        self.client = Client(self.address)

    def known(self) -> dict[str, Any]:
        """All that requests can make, change or delete."""
        return {**self.server.look(_tables), "files": self._files()}

    def assert_same(self, before: dict[str, Any]) -> None:
        """Nothing was made, changed or deleted since."""
        now = self.known()
        changed = {key: (before[key], now[key]) for key in before if before[key] != now[key]}
        assert not changed

    def _files(self) -> list[str]:
        """Folders of topics and queues."""
        root = self.store / "consumequeue"
        return sorted(
            f"{topic.name}/{name}" for topic in root.iterdir() for name in os.listdir(topic)
        )


def _tables(running: Running) -> dict[str, Any]:
    broker, tables = running.broker, running.broker.parts.tables
    tables.offsets.take_granted()
    return {
        "topics": {name: topic.to_json() for name, topic in tables.topics.table.topics.items()},
        "groups": {name: dict(group.values) for name, group in tables.groups.groups.items()},
        "offsets": {
            key: dict(queues)
            for key, queues in tables.offsets.offsets.items()
            if key[1] != TRANSACTION_GROUP  # the broker's own progress
        },
        "resets": dict(tables.offsets.resets),
        "members": {name: len(group.clients) for name, group in tables.clients.consumers.items()},
        "producers": {name: len(members) for name, members in tables.clients.producers.items()},
        "queues": sorted(broker.store.queues()),
        "log": broker.store.stats()["maxPhyOffset"],
        "config": broker.live.now,
    }


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    store = tmp_path_factory.mktemp("requests") / "store"
    serving = functools.partial(
        pyrmq.testing.broker,
        store,
        enable_property_filter=True,
        recall_message_enable=True,
        timer_max_delay_sec=LONGEST_DELAY,
    )
    with InThread(serving) as server:
        found = Target(server, store)
        with found.client as client:
            for name, perm in ((TOPIC, 6), (VICTIM, 6), (NO_READ, 2), (NO_WRITE, 4)):
                assert create_topic(client, name, 4, perm=perm).code == 0
            body = b'{"groupName":"%b"}'
            for group in (GROUP, GROUP_VICTIM):
                made = client.call(200, body % group.encode())
                assert made.code == 0, made.remark
            for name in (TOPIC, NO_WRITE):  # pulls find something
                assert client.send(name).code == 0
            assert client.call(15, consumerGroup=GROUP, topic=TOPIC, queueId=0, commitOffset=0)
            yield found


def test_every_request_has_a_row(target: Target) -> None:
    """The table has what the dispatcher has: a new request comes with its row."""
    codes = target.server.look(lambda running: set(running.broker.parts.processors))
    assert codes == set(ROWS), "a row of broker_rows.py for each"
    assert codes <= set(RequestCode), "codes have a name in pyrmq/model/codes.py"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_request(target: Target, case: Case) -> None:
    before = target.known()
    answer = target.client.request(case.request)
    assert answer.code == case.code, f"{answer.code} {answer.remark}"
    if case.code in (0, 21):  # not bad in RocketMQ's eyes
        return
    check_text(answer.remark, case.words)
    assert not answer.body
    target.assert_same(before)
    assert target.client.call(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0).code == 0


def test_bad_requests_that_nobody_waits_for(target: Target) -> None:
    """One-way: none is answered, nothing is changed, and the connection goes on."""
    before = target.known()
    with Client(target.address) as client:
        for case in CASES:
            if case.code not in (0, 21):
                client.oneway(replace(case.request))
        assert client.call(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0).code == 0
        assert not client.pushed
    target.assert_same(before)


@pytest.mark.parametrize(("code", "row"), ROWS.items(), ids=lambda value: str(value)[:6])
def test_valid_request_twice_at_once(target: Target, code: int, row: Row) -> None:
    """Both are answered as one is, on one connection and on two."""
    check_twice(target.address, code, row)


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.CHECK_CLIENT_CONFIG])
def test_expression_without_bounds(target: Target, code: int, expression: str) -> None:
    before = target.known()
    sub = {"topic": TOPIC, "expressionType": "SQL92", "subString": expression}
    change = {"subscription": expression, "expressionType": "SQL92", "consumerGroup": "CG_deep"}
    if code == RequestCode.PULL_MESSAGE:
        answer = target.client.request(ROWS[code].request(code, **change))
    else:
        answer = target.client.call(code, json.dumps({"subscriptionData": sub}).encode())
    assert answer.code == 23, f"{answer.code} {answer.remark}"
    check_text(answer.remark, ("expression",))
    target.assert_same(before)


def test_expression_without_bounds_in_a_heartbeat(target: Target) -> None:
    """It is taken, as in RocketMQ, and refused when it is used."""
    sub = {"topic": TOPIC, "expressionType": "SQL92", "subString": DEEP["parentheses"]}
    consumer = {"groupName": "CG_deep_beat", "subscriptionDataSet": [sub]}
    beat = json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode()
    with Client(target.address) as client:
        assert client.call(RequestCode.HEART_BEAT, beat).code == 0
        answer = client.request(pull_command(TOPIC, 0, 0, group="CG_deep_beat", sys_flag=0))
        assert answer.code == 23, f"{answer.code} {answer.remark}"
        check_text(answer.remark, ("expression",))


@pytest.mark.parametrize(
    "text", ["k\x01v", "k\x01", "\x02", "k", "TAGS\x01A\x02k\x01v", "\x01v\x02"]
)
def test_properties_without_an_end(target: Target, text: str) -> None:
    """They are kept; the properties before are read, and the message is."""
    sent = target.client.send(TOPIC, b"open", properties=text)
    assert sent.code == 0, sent.remark
    record = target.client.pull(TOPIC, 0, int(sent.ext["queueOffset"])).records[0]
    assert record.body == b"open"
    assert record.properties.get("TAGS") == ("A" if text.startswith("TAGS") else None)


@pytest.mark.parametrize("level", ["-1", "0", "-2147483648", "-9223372036854775808"])
def test_delay_level_that_is_none(target: Target, level: str) -> None:
    """Not above 0: it is delivered at once, as in RocketMQ."""
    sent = target.client.send(TOPIC, b"now", properties={"DELAY": level})
    assert sent.code == 0, sent.remark
    assert target.client.pull(TOPIC, 0, int(sent.ext["queueOffset"])).records[0].body == b"now"


@pytest.mark.parametrize("offset", [1 << 40, MOST_OFFSET])
def test_offset_beyond_the_end(target: Target, offset: int) -> None:
    """It is stored as it is, as in RocketMQ; the pull from there is told where to go on."""
    where = {"topic": TOPIC, "queueId": 2, "consumerGroup": GROUP}
    answer = target.client.call(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=offset, **where)
    assert answer.code == 0, answer.remark
    answer = target.client.call(RequestCode.QUERY_CONSUMER_OFFSET, **where)
    assert (answer.code, answer.ext["offset"]) == (0, str(offset))
    pulled = target.client.pull(TOPIC, 2, offset, group=GROUP)
    assert (pulled.code, pulled.next_offset) == (21, 0)
    answer = target.client.call(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=-1, **where)
    assert answer.code == 29
    check_text(answer.remark, ("commitOffset", "negative"))


def test_one_new_topic_by_two_senders_at_once(target: Target) -> None:
    """It is made once, and both messages are in it."""
    with Client(target.address) as one, Client(target.address) as two:
        frames = b"".join(encode(send_command("AtOnce", bytes([n]))) for n in (1, 2))
        one.send_raw(frames)
        two.send_raw(frames)
        assert [client.receive().code for client in (one, two) for _ in range(2)] == [0] * 4
    assert target.client.max_offset("AtOnce", 0) == 4


@pytest.mark.parametrize("default", ["NotThere", "BenchmarkTest", "../x"])
def test_new_topic_that_may_not_be_made(target: Target, default: str) -> None:
    before = target.known()
    answer = target.client.send("CannotBe", change={"c": default})
    assert answer.code == 17, f"{answer.code} {answer.remark}"
    check_text(answer.remark, ("CannotBe",))
    target.assert_same(before)


@pytest.mark.parametrize(
    ("properties", "code"), [("", 26), ("DELAY\x01soon\x02", 26), ("TIMER_DELAY_MS\x015\x02", 26)]
)
def test_retry_of_a_group_that_cannot_be(target: Target, properties: str, code: int) -> None:
    before = target.known()
    answer = target.client.send("%RETRY%" + "g" * 256, properties=properties)
    assert answer.code in (code, 29), f"{answer.code} {answer.remark}"
    check_text(answer.remark)
    answer = target.client.send("%RETRY%CG_unborn", properties="DELAY\x01soon\x02")
    assert answer.code == 13
    check_text(answer.remark, ("DELAY",))
    target.assert_same(before)
