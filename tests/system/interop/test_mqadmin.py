"""mqadmin of Apache RocketMQ against our server: queries, old files, topic attributes, and what it
asks of name servers.

All commands are run in one JVM, and the tests look at what each has said and done.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq import ConsumeFrom, Message, sync
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, Client, batch_command
from tests.support.disk_room import needs_room
from tests.support.operators import await_hits, no_hits
from tests.support.server import ServerProcess

from . import halves
from .store.tool import Tool

FILE = 65_536
OLD_FILES = 3
TOPIC = "Asked"
BATCHES = "+queue.type=BatchCQ"
CONF = f"""\
mappedFileSizeCommitLog={FILE}
fileReservedTime=1
deleteWhen={(time.localtime().tm_hour + 12) % 24:02d}
diskMaxUsedSpaceRatio=95
cleanFileForciblyEnable=false
traceTopicEnable=true
"""

KV = ["-s", "Space", "-k", "key"]
ORDERED = ["updateOrderConf", "-t", TOPIC]
NAME_SERVER = {
    "put": ["updateKvConfig", *KV, "-v", "value"],
    "delete key": ["deleteKvConfig", *KV],
    "wipe": ["wipeWritePerm", "-b", "broker-a"],
    "add": ["addWritePerm", "-b", "broker-a"],
    "configure": ["updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"],
    "forbidden": ["updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/tmp/x"],
    "configuration": ["getNamesrvConfig"],
    "order": [*ORDERED, "-m", "put", "-v", "broker-a:2"],
    "shown order": [*ORDERED, "-m", "get"],
    "topics": ["topicList", "-c"],
}
"""mqadmin of 5.5 often takes three seconds to end, also beside Apache's servers: these are few, and
what they have done is looked up without it."""


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[ServerProcess]:
    with ServerProcess(home / "store", flush="SYNC_FLUSH", conf=CONF) as running:
        yield running


@pytest.fixture(scope="module")
def sent(server: ServerProcess) -> list[dict[str, str]]:
    """The answers to 60 sends of 8 KB in one queue, indexed; the first files are old already."""
    with Client(server.broker) as client:
        answers = []
        for n in range(60):
            keys = {"KEYS": f"k{n} {'asked' if n > 56 else 'other'}", "TAGS": "TagA"}
            answer = client.send(TOPIC, b"%04d" % n * 2000, properties=keys)
            assert answer.code == 0, answer.remark
            answers.append(answer.ext)
        client.send("Plain")
        await_hits(client, TOPIC, "k59", 1)
    then = time.time() - 2 * 3600
    for path in sorted((server.store / "commitlog").iterdir())[:OLD_FILES]:
        os.utime(path, (then, then))
    return answers


@pytest.fixture(scope="module")
def half(server: ServerProcess, sent: list[dict[str, str]]) -> dict[str, str]:
    """The answer to a transactional message that nobody decides about."""
    properties = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "half-1", "KEYS": "kept"}
    with Client(server.broker) as client:
        answer = client.send(TOPIC, b"half", queue_id=2, properties=properties)
        assert answer.code == 0, answer.remark
        await_hits(client, halves.HALF, "kept", 1)
    return answer.ext


@pytest.fixture(scope="module")
def traced(server: ServerProcess, half: dict[str, str]) -> str:
    """The id of a message that our own clients sent and consumed, with trace."""
    done = threading.Event()
    options: Any = {"namesrv": "{}:{}".format(*server.namesrv), "trace": True}
    with (
        sync.Producer("traced-producers", **options) as producer,
        sync.PushConsumer(
            "traced-consumers",
            {"Traced": "*"},
            listener=lambda message: done.set(),
            consume_from=ConsumeFrom.FIRST_OFFSET,
            **options,
        ),
    ):
        result = producer.send(Message("Traced", b"x", tags="TagT", keys="order-1"))
        assert done.wait(20)
    with Client(server.broker) as client:
        await_hits(client, "RMQ_SYS_TRACE_TOPIC", result.msg_id, 2)
    return result.msg_id


Said = tuple[str, str, str]
"""stdout and stderr of a command; its exit code is 0 also when it failed. The route of TOPIC as it
is then."""


@pytest.fixture(scope="module")
def said(
    home: Path,
    server: ServerProcess,
    sent: list[dict[str, str]],
    half: dict[str, str],
    traced: str,
) -> dict[str, Said]:
    """What each command printed, without the noise of logging."""
    broker = ["-b", "{}:{}".format(*server.broker)]
    cluster = ["-c", "DefaultCluster"]
    commands = {
        "by key": ["queryMsgByKey", "-t", TOPIC, "-k", "asked"],
        "by unique key": ["queryMsgByUniqueKey", "-t", TOPIC, "-i", sent[57]["transactionId"]],
        "by id": ["queryMsgById", "-t", TOPIC, "-i", sent[58]["msgId"]],
        "half by id": ["queryMsgById", "-t", halves.HALF, "-i", half["msgId"]],
        "half by key": ["queryMsgByKey", "-t", halves.HALF, "-k", "kept"],
        "trace": ["queryMsgTraceById", "-i", traced],
        "delete": ["deleteExpiredCommitLog", *cluster],
        "clean": ["cleanExpiredCQ", *broker],
        "make": ["updateTopic", *cluster, "-t", "Made", "-a", BATCHES, "-w", "2", "-r", "2"],
        "change": ["updateTopic", *broker, "-t", "Plain", "-a", BATCHES],
        **NAME_SERVER,
    }
    names = "{}:{}".format(*server.namesrv)
    texts = {}
    with Tool(home / "tool") as tool, Client(server.namesrv) as client:
        for key, words in commands.items():
            out, err = tool.command(names, *words)
            route = client.call(GET_ROUTEINFO_BY_TOPIC, topic=TOPIC).body.decode()
            texts[key] = _without_log(out), _without_log(err), route
    return texts


def _without_log(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if " |-" not in line).strip()


def described(text: str) -> dict[str, str]:
    """The lines "Name:   value" of a message that mqadmin shows."""
    return dict(re.findall(r"^([A-Z][\w ]+):\s+(.*)$", text, re.MULTILINE))


def check_message(
    text: str, number: int, answer: dict[str, str], properties: dict[str, str]
) -> None:
    shown = described(text)
    assert (shown["Topic"], shown["Tags"]) == (TOPIC, "[TagA]")
    assert (shown["Queue ID"], shown["Queue Offset"]) == ("0", str(number))
    assert shown["CommitLog Offset"] == str(int(answer["msgId"][16:], 16))
    for name, value in properties.items():
        assert f"{name}={value}" in shown["Properties"]
    body = Path(shown["Message Body Path"])  # below /tmp: the tool's own choice
    assert body.read_bytes() == b"%04d" % number * 2000
    body.unlink()


def test_queries(said: dict[str, Said], sent: list[dict[str, str]]) -> None:
    # From 5.5 on, the tool adds a column of its own making.
    lines = [line for line in said["by key"][0].splitlines() if not line.startswith("#")]
    rows = [line.split()[:3] for line in lines]
    assert sorted(rows) == sorted([sent[n]["transactionId"], "0", str(n)] for n in (57, 58, 59))
    unique = {"UNIQ_KEY": sent[57]["transactionId"], "KEYS": "k57 asked"}
    check_message(said["by unique key"][0], 57, sent[57], unique)
    assert described(said["by id"][0])["OffsetID"] == sent[58]["msgId"]
    check_message(said["by id"][0], 58, sent[58], {"KEYS": "k58 asked"})


def test_a_half(said: dict[str, Said], half: dict[str, str]) -> None:
    """It stands in the half topic under its own keys, and says where it wants to go."""
    row = said["half by key"][0].splitlines()[-1].split()
    assert row[:3] == ["half-1", "0", half["queueOffset"]]
    shown = described(said["half by id"][0])
    assert (shown["Topic"], shown["Queue ID"]) == (halves.HALF, "0")
    for text in (f"REAL_TOPIC={TOPIC}", "REAL_QID=2", "PGROUP=PG", "__transactionId__=half-1"):
        assert text in shown["Properties"]
    Path(shown["Message Body Path"]).unlink()


def test_a_trace_of_our_own_clients(said: dict[str, Said], traced: str) -> None:
    text, complaint, _ = said["trace"]
    for kind, group in (("Pub", "traced-producers"), ("Sub", "traced-consumers")):
        assert re.search(rf"^{kind} +{group} .* success", text, re.MULTILINE), (text, complaint)


def test_topic_attributes(server: ServerProcess, said: dict[str, Said]) -> None:
    assert "success" in said["make"][0], said["make"]
    assert "queue.type of a topic that exists cannot be changed" in said["change"][1]
    table = json.loads((server.store / "config" / "topics.json").read_text())["topicConfigTable"]
    assert table["Made"]["attributes"] == {"queue.type": "BatchCQ"}
    assert table["Made"]["writeQueueNums"] == 2
    batch = [(b"a", {}), (b"b", {})]
    with Client(server.broker) as client:
        for topic, one_record in (("Made", True), ("Plain", False)):
            command = batch_command(topic, batch, properties={"UNIQ_KEY": "u"})
            assert ("batchUniqId" in client.request(command).ext) == one_record


def test_kv_configuration(server: ServerProcess, said: dict[str, Said]) -> None:
    assert said["put"][0] == "create or update kv config to namespace success."
    assert said["delete key"][0] == "delete kv config from namespace success."
    file = server.store / "config" / "kvConfig.json"
    saved = json.loads(file.read_text())["configTable"]
    assert saved == {"ORDER_TOPIC_CONFIG": {TOPIC: "broker-a:2"}}


def test_write_permission_of_a_broker(said: dict[str, Said]) -> None:
    for done, perm in (("wipe", 4), ("add", 6)):
        text, complaint, route = said[done]
        assert f"{done} write perm of broker[broker-a]" in text, complaint
        assert int(re.findall(r"OK, (\d+)", text)[0]) > 10
        assert json.loads(route)["queueDatas"][0]["perm"] == perm


def test_configuration_of_the_name_server(said: dict[str, Said]) -> None:
    assert "update name server config success!" in said["configure"][0]
    assert "kvConfigPath cannot be changed" in "".join(said["forbidden"])
    lines = dict(re.findall(r"^(\w+)\s+=\s+(.*)$", said["configuration"][0], re.MULTILINE))
    assert lines["orderMessageEnable"] == "true"
    assert lines["kvConfigPath"].endswith("kvConfig.json")


def test_order_configuration(said: dict[str, Said]) -> None:
    assert "update orderConf success" in said["order"][0]
    assert "orderTopicConf" not in json.loads(said["configuration"][2])
    assert json.loads(said["order"][2])["orderTopicConf"] == "broker-a:2"
    assert f"topic=[{TOPIC}], orderConf=[broker-a:2]" in said["shown order"][0]


def test_topics_by_cluster(said: dict[str, Said]) -> None:
    rows = [line.split() for line in said["topics"][0].splitlines()]
    assert ["DefaultCluster", TOPIC] in [row[:2] for row in rows]


@needs_room
def test_old_files(
    server: ServerProcess, said: dict[str, Said], sent: list[dict[str, str]]
) -> None:
    assert said["delete"][0] == said["clean"][0] == "success"
    names = [path.name for path in (server.store / "commitlog").iterdir()]
    assert min(names) == f"{OLD_FILES * FILE:020d}"
    places = [int(answer["msgId"][16:], 16) for answer in sent]
    first = next(n for n, place in enumerate(places) if place >= OLD_FILES * FILE)
    assert first > 15
    with Client(server.broker) as client:
        assert (client.min_offset(TOPIC, 0), client.max_offset(TOPIC, 0)) == (first, len(sent))
        assert no_hits(client, TOPIC, f"k{first - 1}")
        await_hits(client, TOPIC, f"k{first}", 1)
