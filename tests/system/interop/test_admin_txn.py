"""`pyrmq admin txn` against brokers that decide for themselves: Apache RocketMQ and ours.

Halves are sent as producers send them; the same tests run on both. Three brokers of each kind: one
that asks nobody, one whose passes follow each other, where a half that was born days ago is asked
about, and one that gives up after asking once.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyrmq.cli import main
from tests.support import transactions as tx
from tests.support.client import Client
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

from .conftest import BROKERS
from .store import peer

PATIENT = "transactionTimeOut=3600000\ntransactionCheckInterval=3600000\n"
RESTLESS = "transactionTimeOut=3600000\ntransactionCheckInterval=500\n"
BRIEF = RESTLESS + "transactionCheckMax=1\n"
SOON_WRITTEN = "transactionOpBatchInterval=200\n"
"""Apache's broker collects what op records are to say; ours has them in the log at once."""
HOUR = 3_600_000
LONG = 60.0


@dataclass
class Running:
    kind: str
    namesrv: str
    broker: tuple[str, int]

    @property
    def address(self) -> str:
        return f"{self.broker[0]}:{self.broker[1]}"


@contextlib.contextmanager
def running(request: pytest.FixtureRequest, folder: Path, conf: str) -> Iterator[Running]:
    conf += "fileReservedTime=1000\n"
    if request.param == "pyrmq":
        with ServerProcess(folder / "store", conf=conf) as server:
            names = f"{server.namesrv[0]}:{server.namesrv[1]}"
            yield Running("pyrmq", names, server.broker)
        return
    request.getfixturevalue("home")
    with peer.NameServer(folder / "namesrv") as names:
        conf += SOON_WRITTEN
        with peer.RealBroker(
            folder / "store", names.address, conf, home=folder / "broker"
        ) as broker:
            yield Running("apache", names.address, broker.address)


@pytest.fixture(scope="module", params=BROKERS)
def patient(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Asks no producer within the time of a test."""
    with running(request, tmp_path_factory.mktemp("patient"), PATIENT) as broker:
        yield broker


@pytest.fixture(scope="module", params=BROKERS)
def restless(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Looks twice a second at what is older than an hour."""
    with running(request, tmp_path_factory.mktemp("restless"), RESTLESS) as broker:
        yield broker


@pytest.fixture(scope="module", params=BROKERS)
def brief(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The same, and discards what was asked about once in vain."""
    with running(request, tmp_path_factory.mktemp("brief"), BRIEF) as broker:
        yield broker


def long_ago() -> dict[str, str]:
    """The change of a send by which its message was born two days ago."""
    return {"g": str(int(time.time() * 1000) - 48 * HOUR)}


def txn(broker: Running, *args: Any, by: str = "-n") -> Result:
    where = broker.namesrv if by == "-n" else broker.address
    command = ["admin", "txn", *map(str, args), by, where]
    result = CliRunner().invoke(main, command)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def objects(broker: Running, *args: Any, by: str = "-n") -> list[dict[str, Any]]:
    result = txn(broker, *args, "--json", by=by)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def pending(broker: Running, topic: str) -> list[str]:
    return [row["transactionId"] for row in objects(broker, "list", "--topic", topic)]


def shown(broker: Running, name: object) -> dict[str, Any]:
    (found,) = objects(broker, "show", name)
    return found


def until(condition: Any, what: str) -> None:
    """Brokers write op records, move offsets and enter keys some time after they answered."""
    eventually(condition, what, LONG)


def assert_delivered(client: Client, topic: str, *expected: bytes) -> None:
    """Consumers get these bodies and no others. Apache's broker enters messages into their queues
    some time after it answered."""
    until(lambda: client.max_offset(topic, 0) >= len(expected), f"{expected} are delivered")
    assert sorted(record.body for record in tx.delivered(client, topic, 1)) == list(expected)


def test_decided_by_hand(patient: Running, topic: str, group: str) -> None:
    with Client(patient.broker) as client:
        halves = [
            tx.send_half(client, topic, b"%d" % n, group=group, properties={"KEYS": f"k{n}"})
            for n in range(5)
        ]
        ids = [half.unique_key for half in halves]
        assert sorted(pending(patient, topic)) == sorted(ids)
        row = next(r for r in objects(patient, "list", "-t", topic) if r["keys"] == "k1")
        assert (row["transactionId"], row["producerGroup"]) == (ids[1], group)
        assert (row["halfOffset"], row["commitLogOffset"], row["offsetMsgId"]) == (
            halves[1].queue_offset,
            halves[1].phys,
            halves[1].offset_msg_id,
        )

        # One by each kind of name.
        assert txn(patient, "commit", "-y", ids[0]).exit_code == 0
        assert txn(patient, "commit", "-y", halves[1].queue_offset).exit_code == 0
        result = txn(patient, "rollback", "-y", halves[2].offset_msg_id, by="-b")
        assert result.exit_code == 0
        assert result.stdout == (
            f"{ids[2]} on {patient.address}: rollback: the broker answered 0 SUCCESS\n"
        )
        until(lambda: set(pending(patient, topic)) == set(ids[3:]), "op records are written")
        assert_delivered(client, topic, b"0", b"1")

        # A producer's own word counts as before, and what is settled is refused.
        assert tx.end(client, halves[3], tx.COMMIT).code == 0
        until(lambda: pending(patient, topic) == ids[4:], "the producer's commit")
        for n in range(4):
            for verb in ("commit", "rollback", "resume"):
                assert txn(patient, verb, "-y", ids[n]).exit_code == 2, (n, verb)
        assert_delivered(client, topic, b"0", b"1", b"3")
        states = [shown(patient, name)["state"] for name in ids]
        assert states == ["COMMITTED", "COMMITTED", "SETTLED", "COMMITTED", "PENDING"]


def test_a_second_commit_right_after_the_first(patient: Running, topic: str, group: str) -> None:
    """Apache's broker has no op record yet and would deliver again."""
    with Client(patient.broker) as client:
        half = tx.send_half(client, topic, b"once", group=group)
        assert txn(patient, "commit", "-y", half.unique_key).exit_code == 0
        until(lambda: shown(patient, half.unique_key)["committed"], "it can be found")
        assert txn(patient, "commit", "-y", half.unique_key).exit_code == 2
        assert_delivered(client, topic, b"once")


def test_everything_is_shown(patient: Running, topic: str, group: str) -> None:
    with Client(patient.broker) as client:
        immune = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60", "own": "value"}
        half = tx.send_half(client, topic, b"body \xff", group=group, properties=immune)
        found = shown(patient, half.queue_offset)
        assert (found["transactionId"], found["topic"]) == (half.unique_key, topic)
        assert (found["producerGroup"], found["state"]) == (group, "PENDING")
        assert found["immuneUntil"] == found["bornTimestamp"] + 60_000
        assert found["properties"]["own"] == "value"
        assert (found["body"], found["bodyEncoding"]) == (b"body \xff".hex(), "hex")
        assert [m["offsetMsgId"] for m in found["halves"]] == [half.offset_msg_id]
        assert txn(patient, "commit", "-y", half.unique_key).exit_code == 0
        until(lambda: shown(patient, half.unique_key)["ops"], "its op record")
        found = shown(patient, half.unique_key)
        assert [op["names"] for op in found["ops"]] == [[half.queue_offset]]
        (message,) = tx.delivered(client, topic, 1)
        assert [m["offsetMsgId"] for m in found["committed"]] == [message.offset_msg_id]
        assert shown(patient, message.offset_msg_id) == found


def test_what_is_not_there(patient: Running, topic: str) -> None:
    with Client(patient.broker) as client:
        sent = client.send(topic, b"plain")
        tx.send_half(client, topic)
    assert "is a message of" in txn(patient, "show", sent.ext["msgId"]).stderr
    for name in ("nothing", "999999999", "7F00000100002A9F00000000000F4240", tx.new_key()):
        result = txn(patient, "commit", "-y", name)
        assert result.exit_code == 2
        assert f"{name}: no such transaction" in result.stderr


def test_figures(patient: Running, topic: str, group: str) -> None:
    with Client(patient.broker) as client:
        for _ in range(3):
            tx.send_half(client, topic, group=group)
    (found,) = objects(patient, "stats")
    places = [p for p in found["places"] if p["topic"] == topic]
    assert [(p["producerGroup"], p["pending"]) for p in places] == [(group, 3)]
    assert found["pending"] >= 3
    assert found["oldestPendingAge"] >= places[0]["oldestPendingAge"] >= 0
    assert txn(patient, "stats").exit_code == 0


def test_a_half_that_is_asked_about_again_and_again(
    restless: Running, topic: str, group: str
) -> None:
    """Each check makes a copy; all of them are one transaction, and any of their names leads to the
    live one. The producer takes its checks and says nothing."""
    with Client(restless.broker) as client:
        tx.join_group(client, group)
        half = tx.send_half(client, topic, b"slow", group=group, change=long_ago())
        # Two checks may come while one look at the broker lasts.
        until(
            lambda: [m for m in shown(restless, half.unique_key)["halves"] if m["checks"] == "2"],
            "two checks",
        )
        (row,) = objects(restless, "list", "-t", topic)
        assert row["transactionId"] == half.unique_key
        assert row["checks"] >= 1
        assert row["halfOffset"] > half.queue_offset
        # A check that comes between its look and its request makes another copy the live one.
        until(
            lambda: txn(restless, "commit", "-y", half.offset_msg_id).exit_code == 0,
            "it is committed",
        )
        until(
            lambda: shown(restless, half.unique_key)["state"] == "COMMITTED",
            "the committed message can be found",
        )
        assert_delivered(client, topic, b"slow")
        if restless.kind == "pyrmq":
            assert pending(restless, topic) == []


def test_discarded_resumed_and_committed_late(brief: Running, topic: str, group: str) -> None:
    with Client(brief.broker) as client:
        tx.join_group(client, group)
        half = tx.send_half(client, topic, b"old", group=group, change=long_ago())
        name = half.unique_key
        until(lambda: shown(brief, name)["state"] == "DISCARDED", "it is discarded")
        assert pending(brief, topic) == []
        (row,) = objects(brief, "list", "--discarded", "-t", topic)
        assert row["transactionId"] == name
        (counted,) = objects(brief, "stats")
        assert counted["discarded"] >= 1
        assert txn(brief, "rollback", "-y", name).exit_code == 2

        # Resumed, it is a half again without checks; the producer still says nothing.
        result = txn(brief, "resume", "-y", row["offsetMsgId"])
        assert result.exit_code == 0, result.output
        until(lambda: len(shown(brief, name)["discarded"]) == 2, "it is discarded again")
        halves = shown(brief, name)["halves"]
        assert [m["checks"] or "0" for m in halves] == ["0", "1", "0", "1"]

        assert_delivered(client, topic)
        result = txn(brief, "commit", "-y", name)
        assert result.exit_code == 0, result.output
        assert_delivered(client, topic, b"old")
        until(lambda: shown(brief, name)["state"] == "COMMITTED", "the message can be found")
        for verb in ("commit", "resume"):
            assert txn(brief, verb, "-y", name).exit_code == 2
        assert_delivered(client, topic, b"old")
        assert objects(brief, "list", "--discarded", "-t", topic) == []
