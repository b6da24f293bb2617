"""One of two brokers is gone and the name server still knows it: what the other one has is shown,
the exit code is 3, and stderr says which broker is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.e2e.bad_servers.commands import FLAT, Behind
from tests.support.client import Client
from tests.support.namesrv import place, register
from tests.system.interop.table.state import GROUPS, TOPICS

DEAD = "127.0.0.1:1"


@pytest.fixture
def halved(behind: Behind) -> Iterator[Behind]:
    """broker-b is registered, and nobody is at its address."""
    topics = (*TOPICS, "broker-b", *(f"%RETRY%{g}" for g in (*GROUPS, "Live")))
    with Client(behind.namesrv) as names:
        answer = register(names, place("broker-b", 1, cluster="DefaultCluster"), topics=topics)
        assert answer.code == 0
        yield behind


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("topic status Asked", "broker-a"),
        ("topic list --groups", "Behind"),
        ("topic stats Asked", "Behind"),
        ("topic delete Doomed -c DefaultCluster --yes", "ok"),
        ("group lag Behind", "broker-a"),
        ("group progress Live --clients", "broker-a"),
        ("group list", "Behind"),
        ("group config Behind", "retryMaxTimes"),
        ("group create Halved -c DefaultCluster", "ok"),
        ("message by-key all -t Asked", "broker-a"),
        ("message by-unique-key {unique-2} -t Asked", "broker-a"),
        ("message get {unique-2} -t Asked", "broker-a"),
        ("message print -t Asked", "body 1"),
        ("offset reset Behind Asked --to start --dry-run", "broker-a"),
        ("cluster list", "ok"),
        ("broker stats -c DefaultCluster", "bootTimestamp"),
        ("broker config get -c DefaultCluster", "brokerName"),
        ("broker ha -c DefaultCluster", "master"),
        ("broker clean cq -c DefaultCluster", "ok"),
        ("cluster rt --amount 1 --size 1", "broker-a"),
        ("monitor run --once", "asked"),
    ],
)
def test_the_tree(halved: Behind, line: str, shown: str) -> None:
    ran = halved.tree(line)
    assert ran.code == 3, ran
    assert shown in ran.out
    assert f"cannot connect to {DEAD}: Connection refused" in ran.out + ran.err


@pytest.mark.parametrize(
    "name",
    ["topicStatus -t Asked", "topicList -c", "statsAll -t Asked", "consumerProgress -g Behind",
     "consumerProgress", "queryMsgByKey -t Asked -k all", "queryMsgById -t Asked -i {offset-id-3}",
     "queryMsgByUniqueKey -t Asked -i {unique-2}", "printMsg -t Asked -d true",
     "consumeMessage -t Asked", "getConsumerConfig -g Behind", "clusterList",
     "brokerStatus -c DefaultCluster", "checkMsgSendRT -t Sent -a 3 -s 16",
     "updateTopic -c DefaultCluster -t Ordered-2 -r 2 -w 2 -o true"],
)  # fmt: skip
def test_flat_commands(halved: Behind, name: str) -> None:
    (at,) = [n for n, case in enumerate(FLAT) if case.line == name]
    ran = halved.flat(at)
    assert ran.code == 3, ran
    assert ran.out.strip()
    assert f"cannot connect to {DEAD}: Connection refused" in ran.err


@pytest.mark.parametrize(
    "line",
    ["message by-key nothing -t Asked", "message get 7F0000010A0B18B4AAC20000000000FF -t Asked"],
)
def test_what_may_be_on_the_missing_broker_is_not_said_to_be_nowhere(
    halved: Behind, line: str
) -> None:
    ran = halved.tree(line)
    assert ran.code == 2
    assert DEAD in ran.err
    assert "where brokers answered" in ran.err


@pytest.mark.parametrize("what", ["configs", "metadata", "metrics"])
def test_an_export_is_whole_or_not_at_all(halved: Behind, what: str) -> None:
    folder = halved.files / f"half-{what}"
    ran = halved.tree(f"export {what} -c DefaultCluster --folder {folder}")
    assert ran.code == 2
    assert DEAD in ran.err
    assert not folder.exists() or list(folder.iterdir()) == []
