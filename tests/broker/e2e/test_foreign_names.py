"""A store of another broker has topics that nobody can make here: `.` of older tools, `+` of POP's
retry topics. Their rows stay, their messages are read, nobody sends to them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyrmq.engine import Verifier
from tests.segments.making import put, small
from tests.store.tools import LOG_FILE, QUEUE_FILE, rename_topic
from tests.support.client import Client
from tests.support.operators import create_topic
from tests.support.server import ServerProcess

TOPIC_CONFIG, DELETE, ROUTE, VIEW_BY_ID = 351, 215, 105, 33
DOT, PLUS, DROPPED, ODD = "test.test1", "%RETRY%group+Topic", "dropped.before", "../x"
"""The row of `DROPPED` is lost already; `ODD` is not understood at all."""
SIZES = f"mappedFileSizeCommitLog={LOG_FILE}\nmappedFileSizeConsumeQueue={QUEUE_FILE}\n"


def _stand_in(name: str) -> str:
    return name.replace(".", "-").replace("+", "-")


def row(name: str) -> dict[str, object]:
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "new": [1]}


def table(server: ServerProcess) -> dict[str, object]:
    text = (server.store / "config" / "topics.json").read_text()
    found: dict[str, object] = json.loads(text)["topicConfigTable"]
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    root = tmp_path_factory.mktemp("foreign") / "store"
    with small(root) as store:
        for name in (DOT, PLUS, DROPPED):
            for n in range(3):
                put(store, _stand_in(name), 1, f"{name} {n}".encode())
    for name in (DOT, PLUS, DROPPED):
        rename_topic(root, _stand_in(name), name)
    (root / "config").mkdir(exist_ok=True)
    rows = {name: row(name) for name in (DOT, PLUS, ODD)} | {ODD: 5}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": rows}))
    with ServerProcess(root, conf=SIZES) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


@pytest.mark.parametrize("name", [DOT, PLUS, DROPPED])
def test_they_are_read_and_take_nothing(server: ServerProcess, client: Client, name: str) -> None:
    records = client.pull_all(name, 1, 0, 3)
    assert [record.body for record in records] == [f"{name} {n}".encode() for n in range(3)]
    viewed = client.call(VIEW_BY_ID, offset=records[1].physical_offset)
    assert viewed.code == 0
    assert client.send(name).code != 0
    with Client(server.namesrv) as names:
        assert names.call(ROUTE, topic=name).code == 0


def test_their_rows_stay(server: ServerProcess, client: Client) -> None:
    create_topic(client, "Made", 2)
    written = table(server)
    for name in (DOT, PLUS):
        assert row(name).items() <= written[name].items()  # type: ignore[attr-defined]
    assert written[ODD] == 5
    assert {"Made", DROPPED} <= written.keys(), "a row that was lost comes back"
    assert server.log.read_text().count("kept as they are") == 1


def test_an_operator_deletes_one(server: ServerProcess, client: Client) -> None:
    assert client.call(DELETE, topic="no.such").code == 29
    assert client.call(DELETE, topic=DROPPED).code == 0
    assert client.call(TOPIC_CONFIG, topic=DROPPED).code == 17
    assert DROPPED not in table(server)


def test_the_store_is_sound(server: ServerProcess) -> None:
    server.terminate()
    verifier = Verifier(server.store)
    while not verifier.step(1 << 30)[2]:
        pass
    assert verifier.summary()["damage"] == 0, verifier.findings()
    server.start()
