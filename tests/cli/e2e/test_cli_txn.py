"""`pyrmq admin txn …`: output, exit codes, prompts; brokers that lie, are gone or never end.

Decisions of a real broker: ../interop/test_admin_txn.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyrmq.cli import main
from pyrmq.engine import Store
from tests.support.client import Client
from tests.support.command import PYRMQ, assert_refused, environment, run
from tests.support.records import encode_properties, encode_record
from tests.support.scripted.broker import BORN, DISCARDED, HALF, OP, ScriptedBroker
from tests.support.server import ServerProcess
from tests.support.wire import Command

GONE = "127.0.0.1:1"


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def address(broker: ScriptedBroker) -> Iterator[str]:
    with broker.serving() as where:
        yield where


def txn(*args: Any, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
    # NAMESRV_ADDR of a developer must not lead anywhere.
    own = {"NAMESRV_ADDR": GONE, **(env or {})}
    result = CliRunner().invoke(main, ["admin", "txn", *map(str, args)], input=stdin, env=own)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


class Terminal:
    """As the module `sys`, with a stdin that somebody sits at."""

    def __getattr__(self, name: str) -> Any:
        return self if name == "stdin" else getattr(sys, name)

    def isatty(self) -> bool:
        return True


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_table_of_what_is_pending(broker: ScriptedBroker, address: str) -> None:
    broker.half("K0", KEYS="a b")
    broker.half("K1", group="Other", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    broker.half("K2")
    broker.op(2)
    result = txn("list", "-b", address)
    assert result.exit_code == 0
    head, first, second = result.stdout.splitlines()
    columns = ["HALF", "TRANSACTION ID", "TOPIC", "PRODUCER GROUP", "KEYS", "AGE", "CHECKS"]
    assert re.split(r" {2,}", head) == [*columns, "SIZE", "IMMUNE UNTIL"]
    cells = re.split(r" {2,}", first)
    assert [*cells[:5], cells[6], cells[8]] == ["0", "K0", "T", "PG", "a b", "0", "-"]
    cells = re.split(r" {2,}", second)
    assert cells[:5] == ["1", "K1", "T", "Other", "-"]
    assert cells[8].startswith("2023-11-1")
    assert f"{address}: 2 pending, the oldest for" in result.stderr


def test_objects_line_by_line(broker: ScriptedBroker, address: str) -> None:
    half = broker.half("K0", TRANSACTION_CHECK_TIMES="3", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    (only,) = lines(txn("list", "-b", address, "--json"))
    assert only == {
        "broker": address,
        "halfOffset": 0,
        "commitLogOffset": 0,
        "offsetMsgId": half.offset_msg_id,
        "transactionId": "K0",
        "topic": "T",
        "queueId": 0,
        "producerGroup": "PG",
        "keys": None,
        "bornTimestamp": BORN,
        "storeTimestamp": BORN,
        "checks": 3,
        "size": half.size,
        "immuneUntil": BORN + 60_000,
    }


def test_forms_of_output(broker: ScriptedBroker, address: str) -> None:
    """As all of `pyrmq admin`: -o json prints one value, and results of changes have one form."""
    broker.half("K0")
    broker.half("K1")
    listed = json.loads(txn("list", "-b", address, "-o", "json").stdout)
    assert [row["transactionId"] for row in listed] == ["K0", "K1"]
    (counted,) = json.loads(txn("stats", "-b", address, "-o", "json").stdout)
    assert counted["pending"] == 2
    assert "transactionId: K1" in txn("show", "K1", "-b", address, "-o", "yaml").stdout
    done = json.loads(txn("commit", "-y", "K1", "-b", address, "-o", "json").stdout)
    assert done == [
        {
            "target": address, "transactionId": "K1", "topic": "T", "ok": True, "code": 0,
            "message": "0 SUCCESS",
        }
    ]  # fmt: skip
    listed = json.loads(txn("list", "-b", address, "-o", "json").stdout)
    assert [row["transactionId"] for row in listed] == ["K0"]
    broker.op(0)
    assert txn("list", "-b", address, "-o", "json").stdout == "[]\n"


def test_choices(broker: ScriptedBroker, address: str) -> None:
    for n in range(6):
        broker.half(f"K{n}", topic=f"T{n % 2}", group=f"G{n % 3}", born=BORN - n)

    def ids(*args: str) -> list[str]:
        return [row["transactionId"] for row in lines(txn("list", "-b", address, "--json", *args))]

    assert ids() == ["K5", "K4", "K3", "K2", "K1", "K0"]
    assert ids("--topic", "T1") == ["K5", "K3", "K1"]
    assert ids("--group", "G2", "--topic", "T1") == ["K5"]
    assert ids("--limit", "2") == ["K5", "K4"]
    assert ids("--older-than", "1") == ids()
    assert ids("--older-than", "100000000000") == []
    assert ids("--older-than", "1s") == ids()
    assert ids("--older-than", "9000d") == []
    assert "the oldest 2 are shown" in txn("list", "-b", address, "--limit", "2").stderr


def test_what_a_message_says_does_not_reach_the_terminal(
    broker: ScriptedBroker, address: str
) -> None:
    broker.half("K\x1b[2J", KEYS="a\r\nb", topic="T\x07", body=b"\x1b]0;evil\x07")
    for args in (["list"], ["show", "0"], ["stats"], ["rollback", "--yes", "0"]):
        result = txn(*args, "-b", address)
        assert result.exit_code == 0, result.stderr
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.output), args
        assert r"\x1b" in result.output or args == ["stats"]


def test_what_a_broker_says_does_not_reach_the_terminal(
    broker: ScriptedBroker, address: str
) -> None:
    broker.half("K\x9b2J\x7f")
    evil = "\x1b[2J\x07\x9b"
    for code in (11, 37):
        broker.change = {code: lambda c: replace(c.reply(1), remark=evil)}
        for args in (["list"], ["stats"], ["show", "0"], ["commit", "--yes", "0"]):
            result = txn(*args, "-b", address)
            failed = code == 11 or args[0] == "commit"
            assert result.exit_code == (2 if failed else 0), args
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.output), args
    broker.change = {}
    result = txn("list", "-b", address, "--json")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)
    assert json.loads(result.stdout)["transactionId"] == "K\x9b2J\x7f"


def test_show_in_words_and_as_an_object(broker: ScriptedBroker, address: str) -> None:
    half = broker.half("K", body=b"hello \xc3\xa9", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    result = txn("commit", "K", "-b", address, "--yes")
    assert result.stdout == f"K on {address}: commit: the broker answered 0 SUCCESS\n"
    text = txn("show", "K", "-b", address).stdout
    for words in (
        "committed: its message",
        half.offset_msg_id,
        "settles 0",
        "PGROUP=PG",
        "hello é",
    ):
        assert words in text
    (found,) = lines(txn("show", "K", "0", half.offset_msg_id, "-b", address, "--json"))
    assert (found["state"], found["body"], found["bodyEncoding"]) == (
        "COMMITTED",
        "hello é",
        "text",
    )
    assert [m["commitLogOffset"] for m in found["halves"]] == [0]
    assert [op["names"] for op in found["ops"]] == [[0]]
    assert [m["queueOffset"] for m in found["committed"]] == [0]
    (cut,) = lines(txn("show", "K", "-b", address, "--json", "--body", "7"))
    assert (cut["body"], cut["bodyLength"]) == ("hello ", 8)
    broker.half("B", body=b"\xff\x00")
    (binary,) = lines(txn("show", "B", "-b", address, "--json"))
    assert (binary["body"], binary["bodyEncoding"]) == ("ff00", "hex")


def test_a_decision_is_asked_for(
    broker: ScriptedBroker, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.half("K")
    nobody = txn("commit", "K", "-b", address)
    assert nobody.exit_code == 1
    assert "Commit 1 of them? Say --yes: nobody can be asked here" in nobody.stderr
    monkeypatch.setattr("pyrmq.cli.admin.session.sys", Terminal())
    for answer in ("n\n", ""):
        result = txn("commit", "K", "-b", address, stdin=answer)
        assert result.exit_code == 1
        assert "topic T, producer group PG" in result.stderr
        assert result.stdout == ""
        assert not [c for c in broker.asked if c.code == 37]
    result = txn("rollback", "K", "-b", address, stdin="y\n")
    assert result.exit_code == 0
    assert [c.ext["commitOrRollback"] for c in broker.asked if c.code == 37] == ["12"]


def test_several_at_once_and_what_is_wrong_with_some(broker: ScriptedBroker, address: str) -> None:
    for key in ("A", "B", "C"):
        broker.half(key)
    broker.op(1)
    result = txn("commit", "-y", "A", "B", "0", "none", "C", "-b", address)
    assert result.exit_code == 3
    assert re.findall(r"^(\w) on", result.stdout, re.MULTILINE) == ["A", "C"]
    assert "Error: B is settled" in result.stderr
    assert f"Error: none: no such transaction on {address}" in result.stderr


def test_an_id_of_two_transactions_decides_none(broker: ScriptedBroker, address: str) -> None:
    first, second = broker.half("K"), broker.half("K", born=BORN + 1)
    result = txn("commit", "-y", "K", "-b", address)
    assert result.exit_code == 2
    for half in (first, second):
        assert half.offset_msg_id in result.stderr
    assert not [c for c in broker.asked if c.code == 37]
    assert txn("commit", "-y", second.offset_msg_id, "-b", address).exit_code == 0


def test_what_settles_while_the_question_stands(broker: ScriptedBroker, address: str) -> None:
    """It is looked at again before it is decided."""
    half = broker.half("K")

    def late(command: Command) -> Command:
        if sum(c.code == 33 for c in broker.asked) == 1:
            broker.commit(half)
        return broker._view(command)

    broker.change[33] = late
    result = txn("commit", "-y", "K", "-b", address)
    assert result.exit_code == 2
    assert "K is committed" in result.stderr
    assert not [c for c in broker.asked if c.code == 37]


def test_what_goes_while_the_question_stands(broker: ScriptedBroker, address: str) -> None:
    half = broker.half("K")
    broker.change[33] = lambda c: c.reply(1)
    result = txn("commit", "-y", "K", "-b", address)
    assert result.exit_code == 2
    assert f"Error: K on {address}: {half.offset_msg_id}: no such transaction" in result.stderr
    assert not [c for c in broker.asked if c.code == 37]


def test_a_refusal_of_the_broker(broker: ScriptedBroker, address: str) -> None:
    broker.half("K")
    broker.change[37] = lambda c: c.reply(1)
    result = txn("commit", "-y", "K", "-b", address)
    assert result.exit_code == 2
    assert "the broker answered 1 SYSTEM_ERROR" in result.stderr


def test_resume(broker: ScriptedBroker, address: str) -> None:
    broker.half("K")
    discarded = broker.half("K", where=DISCARDED, TRANSACTION_CHECK_TIMES="15")
    broker.offsets[HALF] = 1
    (row,) = lines(txn("list", "--discarded", "-b", address, "--json"))
    assert (row["discardedOffset"], row["transactionId"], row["checks"]) == (0, "K", 15)
    assert "DISCARDED AT" in txn("list", "--discarded", "-b", address).stdout
    result = txn("resume", "-y", discarded.offset_msg_id, "-b", address)
    assert result.stdout == f"K on {address}: resume: the broker answered 0 SUCCESS\n"
    assert [r["halfOffset"] for r in lines(txn("list", "-b", address, "--json"))] == [1]
    assert lines(txn("list", "--discarded", "-b", address, "--json")) == []
    assert (
        "only what is in TRANS_CHECK_MAX_TIME_TOPIC"
        in txn("resume", "-y", "K", "-b", address).stderr
    )


def test_statistics(broker: ScriptedBroker, address: str) -> None:
    for n in range(5):
        broker.half(f"K{n}", topic=f"T{n % 2}")
    broker.half("K9", where=DISCARDED)
    broker.op(0)
    broker.info = {"transactionHalfCount": "5", "transactionCheckCount": "\x1b[1m"}
    result = txn("stats", "-b", address)
    assert result.exit_code == 0
    assert "4 pending, the oldest for" in result.stdout
    assert "  T0 PG: 2 pending" in result.stdout
    assert f"{address}: 1 in TRANS_CHECK_MAX_TIME_TOPIC" in result.stdout
    assert "transactionHalfCount=5" in result.stdout
    (found,) = lines(txn("stats", "-b", address, "--json"))
    assert (found["pending"], found["discarded"]) == (4, 1)
    assert [(p["topic"], p["pending"]) for p in found["places"]] == [("T0", 2), ("T1", 2)]
    assert found["counters"] == {"transactionHalfCount": 5, "transactionCheckCount": "\x1b[1m"}


@pytest.mark.parametrize("command", ["list", "stats", "show K", "commit K", "resume K"])
def test_nobody_there(command: str, address: str) -> None:
    words = command.split()
    gone = txn(*words, "-b", GONE)
    assert gone.exit_code == 2
    assert f"cannot connect to {GONE}" in gone.stderr
    unreachable = txn(*words, "-n", GONE)
    assert unreachable.exit_code == 2
    assert "no name server answered" in unreachable.stderr
    if command != "stats":
        without = txn(*words, "-b", address)
        assert without.exit_code == 2
        assert "no transaction was ever sent to it" in without.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["list", "-b", "nowhere"],
        ["list", "-b", "a:1;b:2"],
        ["list", "-n", "x"],
        ["list", "-n", ""],
        ["list", "-b", "a:1", "--all-brokers"],
        ["list", "-b", "a:1", "--cluster", "c"],
        ["list", "--limit", "0"],
        ["list", "--older-than", "-1"],
        ["list", "--older-than", "1w"],
        ["list", "--older-than", "s"],
        ["show"],
        ["commit"],
        ["nonsense"],
    ],
)
def test_wrong_use(args: list[str]) -> None:
    assert txn(*args).exit_code == 1


class Cluster:
    """A name server that knows the given brokers, on a socket."""

    def __init__(self, **brokers: str) -> None:
        self.server = ScriptedBroker()
        table = {
            name: {"brokerName": name, "cluster": name[0], "brokerAddrs": {"0": address}}
            for name, address in brokers.items()
        }
        body = json.dumps({"brokerAddrTable": table, "clusterAddrTable": {}}).encode()
        self.server.change[106] = lambda c: c.reply(0, {}, body)


def test_a_cluster_of_brokers(broker: ScriptedBroker, address: str) -> None:
    broker.half("K0")
    other = ScriptedBroker()
    other.half("K1", born=BORN - 1)
    empty = ScriptedBroker()
    with other.serving() as second, empty.serving() as third:
        names = Cluster(a1=address, a2=second, b1=third)
        with names.server.serving() as namesrv:
            for args in (
                ["-n", namesrv],
                ["-n", namesrv, "--all-brokers"],
                ["-n", f"{GONE};{namesrv}", "--all-brokers"],
            ):
                rows = lines(txn("list", "--json", *args))
                assert [(r["broker"], r["transactionId"]) for r in rows] == [
                    (second, "K1"),
                    (address, "K0"),
                ]
            assert "BROKER" in txn("list", "-n", namesrv, "--all-brokers").stdout
            assert "there is no cluster c" in txn("list", "-n", namesrv, "-c", "c").stderr
            single = txn("list", "-n", namesrv, "--cluster", "b")
            assert "no transaction was ever sent to it" in single.stderr
            done = txn("commit", "-y", "K1", "-n", namesrv, "--all-brokers")
            assert (done.exit_code, done.stdout.split(":")[0]) == (0, "K1 on 127.0.0.1")
            assert [c.code for c in other.asked if c.code == 37] == [37]
            assert not [c for c in broker.asked if c.code == 37]
            names = Cluster(a1=address, a2=GONE)
    with names.server.serving() as namesrv:
        partly = txn("list", "-n", namesrv, "--all-brokers", "--json")
        assert partly.exit_code == 3
        assert [json.loads(row)["transactionId"] for row in partly.stdout.splitlines()] == ["K0"]
        assert f"cannot connect to {GONE}" in partly.stderr


# Brokers that lie.


def test_op_records_that_name_half_the_world(broker: ScriptedBroker, address: str) -> None:
    """A million offsets far from each other, and a queue that is said to be that long."""
    broker.half("K")
    text = b"".join(b"%d," % (n << 40) for n in range(1_000_00))
    broker.op(body=text)
    broker.change[30] = lambda c: c.reply(
        0, {"offset": str(2**62) if c.ext["topic"] == HALF else "1"}
    )
    result = txn("list", "-b", address)
    assert result.exit_code == 2
    assert "op records name more half messages" in result.stderr


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (30, {}),
        (30, {"offset": "x"}),
        (30, {"offset": str(2**64)}),
        (31, {"offset": "-7"}),
        (14, {"offset": "1e9"}),
        (11, {"nextBeginOffset": "0"}),
    ],
)
def test_answers_that_are_none(
    broker: ScriptedBroker, address: str, code: int, ext: dict[str, str]
) -> None:
    broker.half("K")
    broker.op(0)
    broker.change[code] = lambda c: c.reply(0, ext, encode_record(broker.records[HALF][0]))
    result = txn("list", "-b", address)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")


def test_brokers_that_answer_with_errors(broker: ScriptedBroker, address: str) -> None:
    broker.half("K")
    for code in (11, 14, 30, 31):
        broker.change = {code: lambda c: c.reply(16)}
        result = txn("list", "-b", address)
        assert (result.exit_code, "CODE 16" in result.stderr) == (2, True), code


@pytest.mark.parametrize("as_json", [False, True])
def test_interrupted(broker: ScriptedBroker, address: str, as_json: bool) -> None:
    """A scan without end ends with Ctrl-C: no traceback, no partial output, exit code 130."""
    broker.half("K")
    record = encode_record(broker.records[HALF][0])
    endless = [0]

    def pull(command: Command) -> Command:
        endless[0] += 1
        if endless[0] == 50:
            os.kill(process.pid, signal.SIGINT)
        following = str(int(command.ext["queueOffset"]) + 1)
        return command.reply(0, {"nextBeginOffset": following}, record)

    broker.change[30] = lambda c: c.reply(0, {"offset": str(2**62)})
    broker.change[11] = pull
    process = subprocess.Popen(
        [*PYRMQ, "admin", "txn", "list", "-b", address, *(["--json"] if as_json else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


# Our own broker.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a store that holds three halves, one of them settled. Nobody checks them."""
    root = tmp_path_factory.mktemp("txn") / "store"
    store = Store(root)
    for n in range(3):
        own = {"TRAN_MSG": "true", "PGROUP": "PG", "REAL_TOPIC": "T", "REAL_QID": "0"}
        own |= {"UNIQ_KEY": f"K{n}", "TAGS": "A"}
        store.put(HALF, 0, b"%d" % n, encode_properties(own), born_timestamp=BORN)
    store.put(OP, 0, b"1,", encode_properties({"TAGS": "d"}))
    store.close()
    conf = "transactionCheckInterval=3600000\nfileReservedTime=1000000\n"
    with ServerProcess(root, conf=conf) as process:
        yield process


def test_our_broker_over_its_name_server(server: ServerProcess) -> None:
    namesrv = f"{server.namesrv[0]}:{server.namesrv[1]}"
    rows = lines(txn("list", "-n", namesrv, "--json"))
    assert [r["transactionId"] for r in rows] == ["K0", "K2"]
    for name in ("K2", "2"):
        (found,) = lines(txn("show", name, "-n", namesrv, "--json"))
        assert (found["state"], found["body"]) == ("PENDING", "2")
    (settled,) = lines(txn("show", "K1", "-n", namesrv, "--json"))
    assert settled["state"] == "SETTLED"
    (counted,) = lines(txn("stats", "-n", namesrv, "--json"))
    assert (counted["pending"], counted["discarded"]) == (2, 0)
    assert counted["counters"]["transactionPendingCount"] == 2
    assert counted["counters"]["transactionOldestPendingAgeMs"] > 0


def test_our_broker_without_transactions(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "store") as empty:
        address = f"{empty.broker[0]}:{empty.broker[1]}"
        with Client(empty.broker) as client:
            assert client.send("T").code == 0
        result = run("admin", "txn", "show", "K", "-b", address)
        assert result.returncode == 2
        assert_refused(result)
