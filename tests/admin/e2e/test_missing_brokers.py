"""Half of a cluster is gone, and name servers know of it no more: commands say what is missing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

import pyrmq.testing
from pyrmq.admin import Admin
from pyrmq.admin.health import DEGRADED, DOWN, OK
from pyrmq.errors import BrokerMissingError
from pyrmq.model.codes import RequestCode
from pyrmq.model.message import Message
from pyrmq.model.topic import TopicConfig
from pyrmq.net.address import format_address
from pyrmq.net.client.protocol import Ext
from pyrmq.server import Running
from pyrmq.testing import TestBroker
from tests.support.dead_letters import die
from tests.support.fixtures import Serve
from tests.support.mqadmin import admin, mqadmin

CLUSTER = "DefaultCluster"
MISSING = "is missing: no name server knows it now, it was there at "


class Pair:
    """Two brokers behind the first one's name server; `stop` ends the second."""

    def __init__(self, first: Running, second: Running, server: TestBroker) -> None:
        self.first = first
        self.namesrv = first.namesrv
        self.both = f"{first.namesrv};{second.namesrv}"
        self.addresses = [format_address(one.broker_address) for one in (first, second)]
        self.label = f"broker-b (was {self.addresses[1]})"
        self._server: TestBroker | None = server

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await trio.to_thread.run_sync(server.__exit__)


@pytest.fixture
async def pair(
    deadline: None, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Pair]:
    """Topic T on both, with a message of key `k` on broker-b, and group g that has read none."""
    monkeypatch.setenv("PYRMQ_STATE", str(tmp_path / "state.json"))
    async with serve() as first:
        # In a thread of its own: the test ends it, which is another task than this one.
        server = pyrmq.testing.broker(broker_name="broker-b", namesrv_addr=first.namesrv)
        second = await trio.to_thread.run_sync(server.__enter__)
        async with Admin(first.namesrv) as asked:
            await asked.topics.update(TopicConfig("T", 1, 1), cluster=CLUSTER)
            for name, many in (("broker-a", 2), ("broker-b", 3)):
                for _ in range(many):
                    await asked.messages.send(
                        Message("T", b"x", keys=[f"key-{name}"]), broker_name=name
                    )
            await asked.groups.change("g", {}, cluster=CLUSTER)
            await asked.topics.update(TopicConfig("%RETRY%g", 1, 1), cluster=CLUSTER)
            for broker in (first, second):
                ext: Ext = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 0}
                await asked.link.ask(
                    format_address(broker.broker_address), RequestCode.UPDATE_CONSUMER_OFFSET, ext
                )
        made = Pair(first, second, server)
        try:
            yield made
        finally:
            with trio.CancelScope(shield=True):
                await made.stop()


async def test_every_command_says_what_it_lacks(pair: Pair, tmp_path: Path) -> None:
    whole = await admin(pair.namesrv, "group", "lag", "g", "--topic", "T", "-o", "json")
    assert (whole.code, json.loads(whole.out)["diff"]) == (0, 5)
    await pair.stop()
    half = await admin(pair.namesrv, "group", "lag", "g", "--topic", "T", "-o", "json")
    assert (half.code, json.loads(half.out)["diff"]) == (3, 2)
    assert f"Error: {pair.label} {MISSING}" in half.err
    for words in (
        ("topic", "status", "T"), ("topic", "stats", "T"), ("topic", "list"), ("group", "list"),
        ("topic", "route", "T"), ("cluster", "list"), ("broker", "status", "-c", CLUSTER),
        ("message", "by-key", "-t", "T", "key-broker-a"), ("topic", "create", "New", "-c", CLUSTER),
        ("group", "create", "new", "-c", CLUSTER),
    ):  # fmt: skip
        ran = await admin(pair.namesrv, *words)
        assert ran.code == 3, (words, ran)
        assert (ran.out + ran.err).count(f"{pair.label} is missing") >= 1, (words, ran)
        assert ran.err.count(f"{pair.label} is missing") <= 1, (words, ran)  # said once
    listed = await admin(pair.namesrv, "cluster", "list")
    gone = next(line for line in listed.out.splitlines() if " broker-b " in line)
    assert gone.split()[-1] == "missing"
    assert f" was {pair.label.partition('was ')[2].rstrip(')')} " in gone
    for words in (
        ("topicStatus", "-t", "T"), ("consumerProgress", "-g", "g"), ("topicList",),
        ("clusterList",), ("queryMsgByKey", "-t", "T", "-k", "key-broker-a"),
        ("updateTopic", "-t", "New", "-c", CLUSTER), ("topicRoute", "-t", "T"),
    ):  # fmt: skip
        ran = await mqadmin(pair.namesrv, *words)
        assert ran.code == 3, (words, ran)
        assert ran.err.count(f"{pair.label} is missing") == 1, (words, ran)
    export = await admin(
        pair.namesrv, "export", "configs", "-c", CLUSTER, "--folder", str(tmp_path)
    )
    assert export.code == 2  # whole, or not at all
    assert f"{pair.label} is missing" in export.err
    named = await mqadmin(pair.namesrv, "getBrokerEpoch", "-b", "broker-b")
    assert named.code == 2
    assert f"{pair.label} is missing" in named.err
    one = await admin(
        pair.namesrv, "broker", "status", "-b", format_address(pair.first.broker_address)
    )
    assert (one.code, one.err) == (0, "")  # only that one was asked for


async def test_a_message_that_may_be_on_it_is_not_said_to_be_nowhere(pair: Pair) -> None:
    await admin(pair.namesrv, "cluster", "list")
    await pair.stop()
    ran = await admin(pair.namesrv, "message", "by-key", "-t", "T", "key-broker-b")
    assert ran.code == 2
    assert f"{pair.label} {MISSING}" in ran.err
    assert "no message has the key key-broker-b where brokers answered" in ran.err


async def test_an_expect_list_needs_nothing_that_was_seen(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await pair.stop()
    ran = await admin(pair.namesrv, "topic", "status", "T")
    assert ran.code == 0, ran.err  # nobody knows better
    monkeypatch.setenv("PYRMQ_EXPECT", "broker-a, broker-b:2")
    ran = await admin(pair.namesrv, "topic", "status", "T")
    assert ran.code == 3
    assert "broker-b is missing: it is expected, and no name server knows it" in ran.err
    assert "take it from the expect list" in ran.err
    monkeypatch.delenv("PYRMQ_EXPECT")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("expect:\n  - broker-a\n  - broker-b\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert (await admin(pair.namesrv, "topic", "status", "T")).code == 3
    assert (await mqadmin(pair.namesrv, "topicStatus", "-t", "T")).code == 3
    (tmp_path / "conf" / "tools.yml").write_text("expect: broker-b\n")
    ran = await admin(pair.namesrv, "topic", "status", "T")
    assert ran.code == 1
    assert "expect is a list of brokers" in ran.err


async def test_an_order_configuration_names_its_brokers(pair: Pair) -> None:
    async with Admin(pair.namesrv) as asked:
        await asked.topics.put_order_conf("T", "broker-a:1;broker-b:1")
        await asked.namesrv.update_config("orderMessageEnable", "true")
    await pair.stop()
    ran = await admin(pair.namesrv, "topic", "status", "T")
    assert ran.code == 3
    assert "broker-b is missing: the topic's order configuration names it" in ran.err


async def test_transactions_of_all_brokers(pair: Pair) -> None:
    words = [sys.executable, "-m", "pyrmq", "admin", "txn", "stats", "--all-brokers"]
    words += ["-n", pair.namesrv]
    await trio.run_process(words, capture_stdout=True)
    await pair.stop()
    ran = await trio.run_process(words, capture_stdout=True, capture_stderr=True, check=False)
    assert ran.returncode == 3
    assert ran.stderr.decode().count(pair.label) == 1
    assert f"{pair.label} {MISSING}" in ran.stderr.decode()
    wanted = {**os.environ, "PYRMQ_STATE": "", "PYRMQ_EXPECT": "broker-c"}
    ran = await trio.run_process(
        words, capture_stdout=True, capture_stderr=True, check=False, env=wanted
    )
    assert "broker-c is missing: it is expected" in ran.stderr.decode()
    assert "take it from the expect list" in ran.stderr.decode()
    assert "cluster forget" not in ran.stderr.decode()


async def test_dead_letters_and_lives_of_half_a_cluster(pair: Pair, tmp_path: Path) -> None:
    async with Admin(pair.namesrv) as asked:
        sent = [
            await asked.messages.send(Message("T", b"x"), broker_name=name)
            for name in ("broker-a", "broker-b")
        ]
        for result, address in zip(sent, pair.addresses, strict=True):
            await die(asked, "g", address, result)
    await admin(pair.namesrv, "cluster", "list")
    await pair.stop()
    life = ("message", "life", "-t", "T")
    for words, code in (
        (("dlq", "list"), 3),
        (("dlq", "look", "g"), 3),
        (("dlq", "export", "g"), 3),
        (("dlq", "export", "g", "-f", str(tmp_path / "letters")), 2),
        (("dlq", "resend", "g", "--to", "topic", "--all", "--dry-run"), 3),
        (("dlq", "resend", "g", "--to", "topic", "--all", "-y"), 2),
        (("dlq", "resend", "g", "--to", "topic", "--all", "--again", "-y"), 3),
        (("offset", "reset", "g", "T", "--to", "latest", "--dry-run"), 3),
        (("offset", "reset", "g", "T", "--to", "latest", "-y"), 3),
        ((*life, sent[0].msg_id), 3),
        (("message", "life", sent[0].msg_id), 3),
        ((*life, sent[1].msg_id), 2),
        (("txn", "list"), 3),
    ):
        ran = await admin(pair.namesrv, *words)
        assert ran.code == code, (words, ran)
        assert ran.err.count(f"Error: {pair.label} {MISSING}") == 1, (words, ran)
    assert os.listdir(tmp_path) == ["state.json"]


async def test_forgetting(pair: Pair) -> None:
    assert (await admin(pair.namesrv, "cluster", "list")).code == 0
    await pair.stop()
    assert (await admin(pair.namesrv, "cluster", "list")).code == 3
    ran = await admin(pair.namesrv, "cluster", "forget", "broker-b")
    assert (ran.code, ran.out) == (0, "forgotten: 1 of broker broker-b\n")
    assert (await admin(pair.namesrv, "cluster", "list")).code == 0
    assert (await admin(pair.namesrv, "cluster", "health")).code == 0
    again = await admin(pair.namesrv, "cluster", "forget", "broker-b")
    assert again.code == 2
    assert "no broker broker-b was seen" in again.err


async def test_programs_know_what_they_saw(pair: Pair) -> None:
    async with Admin(pair.namesrv) as asked:
        assert (await asked.groups.consume_stats("g", "T")).failed == []
        await pair.stop()
        asked.link._info = None  # as after some seconds
        stats = await asked.groups.consume_stats("g", "T")
        assert [type(o.error) for o in stats.failed] == [BrokerMissingError]
        assert [o.name for o in stats.failed] == ["broker-b"]


async def test_health(pair: Pair) -> None:
    ran = await admin(pair.namesrv, "cluster", "health", "-o", "json")
    assert ran.code == 0, ran.out
    found = json.loads(ran.out)
    assert found["state"] == OK
    assert [(s["role"], s["broker_name"], s["state"]) for s in found["servers"]] == [
        ("name server", "", OK), ("master", "broker-a", OK), ("master", "broker-b", OK),
    ]  # fmt: skip
    differ = await admin(pair.both, "cluster", "health")
    assert (differ.code, differ.lines[0]) == (3, DEGRADED)
    assert "does not know broker-a id 0 at " in differ.out
    await pair.stop()
    half = await admin(pair.namesrv, "cluster", "health")
    assert (half.code, half.lines[0]) == (3, DEGRADED)
    (row,) = (line for line in half.lines if line.startswith("master") and "broker-b" in line)
    assert "missing: no name server knows it now" in row
    assert (await admin(pair.namesrv, "cluster", "health", "-c", "NoSuch")).code == 2
    unreachable = await admin("127.0.0.1:1", "cluster", "health", "-o", "json")
    assert unreachable.code == 2
    assert json.loads(unreachable.out)["state"] == DOWN


async def test_a_broker_that_refuses_messages(pair: Pair) -> None:
    pair.first.broker.store.refuse_messages("try-out")
    ran = await admin(pair.namesrv, "cluster", "health")
    assert (ran.code, ran.lines[0]) == (3, DEGRADED)
    assert "refuses messages: " in ran.out
    assert "try-out" in ran.out
    await pair.stop()
    ran = await admin(pair.namesrv, "cluster", "health")
    assert (ran.code, ran.lines[0]) == (2, DOWN)  # nobody takes messages


async def test_the_monitor_knows_it_at_its_first_round(pair: Pair) -> None:
    words = ("monitor", "run", "--once", "-o", "json")
    ran = await admin(pair.namesrv, *words)
    figures = {h["metric"] for h in json.loads(ran.out)["high"]}
    assert "master_missing" not in figures
    await pair.stop()
    pair.first.broker.store.refuse_messages("try-out")
    ran = await admin(pair.namesrv, *words)
    high = {(h["metric"], h["server"]): h["detail"] for h in json.loads(ran.out)["high"]}
    assert MISSING in high["master_missing", "broker-b"]
    label = f"broker-a {format_address(pair.first.broker_address)}"
    assert "try-out" in high["refused_sends", label]
    assert ran.code == 3
    # Groups, transactions and events were not asked for at it: that is said once.
    problems = json.loads(ran.out)["problems"]
    assert [p for p in problems if pair.label in p] == problems
    assert len(problems) == 1
    assert ran.err.count(pair.label) == 1
