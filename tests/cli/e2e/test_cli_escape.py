"""What others wrote cannot steer the terminal of whoever looks at it, nor forge lines of a log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyrmq.cli import main
from tests.store.tools import opened
from tests.support.client import Client
from tests.support.command import run
from tests.support.namesrv import GET_BROKER_CLUSTER_INFO, name_server, place, register
from tests.support.records import encode_properties
from tests.support.scripted.script import Script, route
from tests.support.scripted.sockets import SocketServer
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import Command

PUT_KV_CONFIG, UPDATE_NAMESRV_CONFIG = 100, 318

TITLE = "\x1b]0;owned\x07"
SHOWN = r"\x1b]0;owned\x07"
EVIL = f"{TITLE}\r\nINFO forged\x9b31m\u202e"
TOPIC = f"T{TITLE}\u202e"
BODY = f"grüße {EVIL}".encode() + b"\xff"


def check(*outputs: bytes | str) -> None:
    """Lines of printable characters and nothing else."""
    for output in outputs:
        text = output.decode() if isinstance(output, bytes) else output
        for line in text.split("\n"):
            assert line.isprintable(), repr(line)
        assert "\nINFO forged" not in text


@pytest.fixture
def sent(process: ServerProcess) -> str:
    """A topic with one message; its name server."""
    properties = {"TAGS": TITLE, "KEYS": f"k {TITLE}", "UNIQ_KEY": f"U{TITLE}"}
    with Client(process.broker) as client:
        answer = client.send("Escape", BODY, properties=properties)
        assert answer.code == 0
    return f"{process.namesrv[0]}:{process.namesrv[1]}"


def consume(namesrv: str, group: str, *args: str) -> bytes:
    options = ("--from-first", "--count", "1", "--timeout", "10", "-g", group)
    result = run("consume", "-n", namesrv, "-t", "Escape", *options, *args)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout


def test_consume(sent: str) -> None:
    line = consume(sent, "escaped")
    check(line)
    text = line.decode()
    assert f"tags={SHOWN} keys=k {SHOWN} grüße {SHOWN}" in text
    assert text.endswith("\\r\\nINFO forged\\x9b31m\\u202e\\xff\n")


def test_consume_raw(sent: str) -> None:
    assert consume(sent, "raw", "--raw") == BODY + b"\n"


def test_a_name_server_logs_names(tmp_path: Path) -> None:
    """What it takes into its log is either refused, or escaped."""
    with name_server(tmp_path) as server:
        with Client(server.address("namesrv")) as client:
            where = {**place(f"b{EVIL}", 1), "brokerAddr": f"127.0.0.1:1{EVIL}"}
            assert register(client, where, topics=("Foreign", "Other")).code == 29
            refused = client.call(PUT_KV_CONFIG, namespace=f"n{EVIL}", key="k", value=EVIL)
            assert refused.code == 29
            assert client.call(PUT_KV_CONFIG, namespace="n", key="k", value=EVIL).code == 0
            config = f"configBlackList={EVIL}".encode()
            assert client.call(UPDATE_NAMESRV_CONFIG, config).code != 0
            assert register(client, place("good", 1)).code == 0
        eventually(lambda: "is gone" in server.stderr(), "the broker is dropped")
        log = server.stderr()
        check(log)
        assert len(log.splitlines()) == 4, "it starts, a key is set, a broker comes and goes"


class EvilNameServer(Script):
    """Routes every topic to a broker with a name that a terminal would obey."""

    def usual(self, command: Command) -> Command:
        name, address = f"b{EVIL}", f"{TITLE}:{EVIL}"
        found = route({name: 4}, {name: {0: address}})
        if command.code == GET_BROKER_CLUSTER_INFO:
            (data,) = found["brokerDatas"]  # type: ignore[misc]
            found = {"brokerAddrTable": {name: data}, "clusterAddrTable": {"C": [name]}}
        return command.reply(0, {}, json.dumps(found).encode())


def test_routes_with_names_of_others() -> None:
    """A client's own errors and warnings name brokers of its routes."""
    with SocketServer(EvilNameServer()).serving() as namesrv:
        for args in (
            ("send", "-t", "Foreign", "-b", "x"),
            ("consume", "-t", "Foreign", "--timeout", "1"),
            ("admin", "txn", "stats"),
        ):
            command = [*args[:3], "-n", namesrv, *args[3:]] if args[0] == "admin" else [
                args[0], "-n", namesrv, *args[1:]
            ]  # fmt: skip
            result = run(*command)
            check(result.stdout, result.stderr)
            assert SHOWN.encode() in result.stderr or b"\\x1b" in result.stderr, args


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a topic, a key and a body that a terminal would obey."""
    root = tmp_path / "store"
    with opened(root) as one:
        one.put("T" * len(TOPIC.encode()), 0, BODY[:-1], encode_properties({"KEYS": TITLE}))
    (log,) = (root / "commitlog").iterdir()
    log.write_bytes(log.read_bytes().replace(b"T" * len(TOPIC.encode()), TOPIC.encode()))
    (queue,) = (root / "consumequeue").iterdir()
    queue.rename(queue.with_name(TOPIC))
    (root / f"odd{TITLE}").write_bytes(b"")
    return root


def pyrmq(*args: object, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["store", *map(str, args)], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_inspect_and_verify(store: Path) -> None:
    for args in (["inspect"], ["inspect", "--json"], ["verify"], ["verify", "--json"]):
        result = pyrmq(*args, store)
        check(result.output)
    assert rf"T{SHOWN}\u202e-0" in pyrmq("inspect", store).stdout
    (queue,) = json.loads(pyrmq("inspect", store, "--json").stdout)["queues"]
    assert queue["topic"] == TOPIC


def test_verify_names_damage(store: Path) -> None:
    (queue,) = (store / "consumequeue").glob("*/0/" + "0" * 20)
    with queue.open("r+b") as file:
        file.write(b"\x01")
    result = pyrmq("verify", store)
    assert result.exit_code == 1
    check(result.output)
    assert SHOWN in result.output


def test_repair(store: Path) -> None:
    result = pyrmq("repair", "--yes", store)
    assert result.exit_code == 1, "no queue can have this topic"
    check(result.output)
    assert r"]0;owned" in result.stdout


@pytest.mark.parametrize("body", ["text", "hex", "base64", "none"])
def test_dump(store: Path, body: str) -> None:
    result = pyrmq("dump", store, "--body", body)
    check(result.output)
    record = json.loads(result.stdout)
    assert record["topic"] == TOPIC, "JSON says the same"
    if body == "text":
        assert record["body"] == BODY[:-1].decode()
        assert "grüße" in result.stdout


def test_dump_raw(store: Path) -> None:
    assert pyrmq("dump", store, "--raw").stdout_bytes == BODY[:-1] + b"\n"
    result = pyrmq("dump", store, "--raw", "--body", "hex")
    assert result.exit_code == 2
    assert re.search("--raw and --body", result.stderr)
