"""Room for what later steps add to a message: what is acknowledged can be pulled, can come back to
its group and can become a dead letter. A message of an older log for which there is no room blocks
nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Store
from tests.support.client import Client, batch_command, send_command
from tests.support.delays import await_records, dead_letters, place, record_at, send_back
from tests.support.records import encode_properties
from tests.support.server import ServerProcess
from tests.support.transactions import COMMIT, end, half_command, stored_half

ROOM = 31_743
"""Bytes of properties, as they are stored, that a message may be sent with."""
MAX_FRAME = 16 << 20
CONF = f"messageDelayLevel=1h 2h 1s 1h\nmaxMessageSize={MAX_FRAME}\n"
ILLEGAL = 13


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("room")
    with ServerProcess(folder / "store", conf=CONF) as server:
        yield server


def padded(client: Client, topic: str, stored: int, **known: str) -> dict[str, str]:
    """Properties with which a message is stored with so many bytes of them."""
    answer = client.send(topic, b"x", properties={**known, "p": "x"})
    least = len(record_at(client, place(answer)).properties_raw)
    return {**known, "p": "x" * (1 + stored - least)}


def test_the_largest_properties_go_all_ways(client: Client) -> None:
    """Through a retry of a group with the longest name that is allowed, into its dead letters."""
    topic, group = "T" * 127, "G" * 248
    properties = padded(client, topic, ROOM, UNIQ_KEY="K" * 32)
    answer = client.send(topic, b"x", properties={**properties, "p": properties["p"] + "x"})
    assert answer.code == ILLEGAL
    assert f"{ROOM + 1} over max value {ROOM}" in (answer.remark or "")
    failed = place(client.send(topic, b"x", properties=properties))
    assert len(record_at(client, failed).properties_raw) == ROOM
    assert send_back(client, failed, group).code == 0
    (retried,) = await_records(client, f"%RETRY%{group}", 1)
    assert retried.properties["p"] == properties["p"]
    assert send_back(client, retried.physical_offset, group, -1).code == 0
    (dead,) = dead_letters(client, group)
    assert (dead.properties["RETRY_TOPIC"], dead.properties["p"]) == (topic, properties["p"])


def test_every_form_of_a_send_leaves_room(client: Client) -> None:
    large = {"p": "x" * ROOM}
    for command in (
        send_command("Forms", properties=large),
        send_command("Forms", properties={"DELAY": "3", **large}),
        half_command("Forms", properties=large),
        batch_command("Forms", [(b"small", {}), (b"large", large)]),
    ):
        answer = client.request(command)
        assert (answer.code, str(ROOM) in (answer.remark or "")) == (ILLEGAL, True)
    assert client.max_offset("Forms", 0) == 0


def test_a_half_with_the_largest_properties_is_committed(client: Client) -> None:
    known = {"UNIQ_KEY": "H" * 32, "TRAN_MSG": "true", "PGROUP": "P"}
    command = half_command("Whole", group="P", properties={**known, "p": "x"})
    least = len(record_at(client, place(client.request(command))).properties_raw)
    known["UNIQ_KEY"] = "I" * 32
    properties = {**known, "p": "x" * (1 + ROOM - least)}
    command = half_command("Whole", group="P", properties=properties)
    half = stored_half(command, client.request(command))
    assert end(client, half, COMMIT).code == 0
    (record,) = await_records(client, "Whole", 1)
    assert record.properties["p"] == properties["p"]


def test_what_is_acknowledged_fits_into_an_answer(client: Client) -> None:
    """maxMessageSize may be as large as a frame; a message with its record and an answer's header
    may not."""
    largest = MAX_FRAME - (64 << 10) - 512
    stored = len(record_at(client, place(client.send("Large", b"x"))).properties_raw)
    for size, code in ((largest - stored, 0), (largest - stored + 1, ILLEGAL)):
        answer = client.send("Large", b"x" * size)
        assert answer.code == code, answer.remark
    assert "16711168 bytes" in (answer.remark or "")
    assert client.send("Large", b"behind").code == 0
    pulled = client.pull_all("Large", 0, 0, 3)
    assert [len(record.body) for record in pulled] == [1, largest - stored, 6]
    record = pulled[1]
    assert len(record_at(client, record.physical_offset).body) == len(record.body)
    assert send_back(client, record.physical_offset, "Heavy").code == 0
    (retried,) = await_records(client, "%RETRY%Heavy", 1)
    assert len(retried.body) == len(record.body)


@pytest.mark.parametrize(
    ("first", "stored", "added"),
    [
        ({}, 32_767, set()),
        ({}, 32_740, {"RETRY_TOPIC"}),
        ({"MSG_REGION": "DefaultRegion"}, 32_767, {"RETRY_TOPIC"}),
    ],
)
def test_a_message_of_an_older_log_without_room_becomes_a_dead_letter(
    tmp_path: Path, first: dict[str, str], stored: int, added: set[str]
) -> None:
    """With as much of what is added as has room; the sender's own properties stay, those that the
    broker gave it make room."""
    own = {"UNIQ_KEY": "K", "p": "x"}
    own["p"] = "x" * (1 + stored - len(encode_properties({**own, **first})))
    store = Store(tmp_path / "store")
    store.put("Old", 0, b"x", encode_properties({**own, **first}))
    store.close()
    log = tmp_path / "log"
    with ServerProcess(tmp_path / "store", log=log) as server, Client(server.broker) as client:
        (record,) = client.pull_all("Old", 0, 0, 1)
        assert len(record.properties_raw) == stored
        assert send_back(client, record.physical_offset, "Group").code == 0
        (dead,) = dead_letters(client, "Group")
        assert {name: dead.properties[name] for name in own} == own
        assert dead.properties.keys() - own.keys() == added
    assert "no room for what a retry adds" in log.read_text()
