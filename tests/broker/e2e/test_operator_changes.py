"""What operators change: one line of the log each, and nothing where the disk takes no change.

A folder in place of a file's `.tmp` keeps that file from being written, whoever runs the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.operators import create_topic, saved_topics
from tests.support.server import ServerProcess
from tests.support.waiting import eventually
from tests.support.wire import Command

UPDATE_BROKER_CONFIG = 25
GET_BROKER_CONFIG = 26
UPDATE_GROUP = 200
DELETE_GROUP = 207
DELETE_TOPIC = 215
GET_TOPIC_CONFIG = 351
GET_GROUP_CONFIG = 352
SERVICE_NOT_AVAILABLE = 14
NO_TOPIC, NO_GROUP = 17, 26


@contextmanager
def unwritable(process: ServerProcess, name: str) -> Iterator[None]:
    """A file in the folder `config` that cannot be replaced."""
    blocked = process.store / "config" / f"{name}.tmp"

    def block() -> bool:
        """Not while the broker has a file of that name on its way."""
        try:
            blocked.mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    eventually(block, f"{name} cannot be replaced")
    try:
        yield
    finally:
        blocked.rmdir()


def assert_unsaved(answer: Command, *words: str) -> None:
    assert answer.code == SERVICE_NOT_AVAILABLE, f"{answer.code} {answer.remark}"
    assert answer.remark is not None
    for word in ("cannot be saved", *words):
        assert word in answer.remark
    assert "/" not in answer.remark


def group(client: Client, name: str, **values: object) -> Command:
    return client.call(UPDATE_GROUP, json.dumps({"groupName": name, **values}).encode())


def saved_groups(store: Path) -> dict[str, dict[str, object]]:
    text = (store / "config" / "subscriptionGroup.json").read_text()
    table: dict[str, dict[str, object]] = json.loads(text)["subscriptionGroupTable"]
    return table


def test_a_new_topic_that_cannot_be_saved(process: ServerProcess, client: Client) -> None:
    with unwritable(process, "topics.json"):
        assert_unsaved(create_topic(client, "Unsaved"), "topic[Unsaved]", "Nothing is changed")
        assert client.call(GET_TOPIC_CONFIG, topic="Unsaved").code == NO_TOPIC
    assert client.call(GET_TOPIC_CONFIG, topic="Unsaved").code == NO_TOPIC
    assert create_topic(client, "Unsaved", 3).code == 0
    assert saved_topics(process.store)["Unsaved"]["readQueueNums"] == 3
    assert client.send("Unsaved").code == 0


def test_a_topic_whose_change_cannot_be_saved(process: ServerProcess, client: Client) -> None:
    assert create_topic(client, "Kept", 2).code == 0
    with unwritable(process, "topics.json"):
        assert_unsaved(create_topic(client, "Kept", 8, perm=4), "topic[Kept]")
        shown = json.loads(client.call(GET_TOPIC_CONFIG, topic="Kept").body)
        assert (shown["readQueueNums"], shown["perm"]) == (2, 6)
        assert client.send("Kept", queue_id=1).code == 0
        assert client.send("Kept", queue_id=2).code == 29
    assert create_topic(client, "Kept", 8).code == 0
    assert client.send("Kept", queue_id=7).code == 0


def test_groups_that_cannot_be_saved(process: ServerProcess, client: Client) -> None:
    assert group(client, "CG_kept", retryMaxTimes=5).code == 0
    with unwritable(process, "subscriptionGroup.json"):
        assert_unsaved(group(client, "CG_unsaved"), "group[CG_unsaved]", "Nothing is changed")
        assert client.call(GET_GROUP_CONFIG, group="CG_unsaved").code == NO_GROUP
        assert_unsaved(group(client, "CG_kept", retryMaxTimes=9), "group[CG_kept]")
        answer = client.call(DELETE_GROUP, groupName="CG_kept", cleanOffset="true")
        assert_unsaved(answer, "group[CG_kept]", "Nothing is deleted")
        shown = json.loads(client.call(GET_GROUP_CONFIG, group="CG_kept").body)
        assert shown["retryMaxTimes"] == 5
    assert group(client, "CG_kept", retryMaxTimes=9).code == 0
    assert saved_groups(process.store)["CG_kept"]["retryMaxTimes"] == 9
    assert "CG_unsaved" not in saved_groups(process.store)


def test_offsets_stay_with_a_group_that_stays(process: ServerProcess, client: Client) -> None:
    where = {"consumerGroup": "CG_offsets", "topic": "Offsets", "queueId": 0}
    assert create_topic(client, "Offsets").code == 0
    assert group(client, "CG_offsets").code == 0
    assert client.call(15, commitOffset=7, **where).code == 0
    with unwritable(process, "subscriptionGroup.json"):
        assert_unsaved(client.call(DELETE_GROUP, groupName="CG_offsets", cleanOffset="true"))
    assert client.call(14, **where).ext["offset"] == "7"


def test_an_update_of_the_configuration_that_cannot_be_saved(
    process: ServerProcess, client: Client
) -> None:
    before = client.call(GET_BROKER_CONFIG).body
    with unwritable(process, "brokerConfigUpdates.json"):
        assert_unsaved(client.call(UPDATE_BROKER_CONFIG, b"shortPollingTimeMills=77"))
        assert client.call(GET_BROKER_CONFIG).body == before


def lines(process: ServerProcess, word: str) -> list[str]:
    return [line for line in process.stderr_text().splitlines() if word in line]


def test_each_change_is_one_line_of_the_log(process: ServerProcess) -> None:
    with Client(process.broker) as client:
        peer = client.address
        create_topic(client, "Logged", 2)
        create_topic(client, "Logged", 2)  # nothing new
        create_topic(client, "Logged", 4)
        client.call(DELETE_TOPIC, topic="Logged")
        group(client, "CG_logged", note="a\nb\x1b[31m")
        group(client, "CG_logged", retryMaxTimes=3)
        client.call(DELETE_GROUP, groupName="CG_logged")
        client.call(DELETE_GROUP, groupName="CG_logged")  # there is none any more
    wanted = [
        "makes topic", "changes topic", "deletes topic", "makes group", "changes group",
        "deletes group",
    ]  # fmt: skip
    found = eventually(  # a thread writes the log
        lambda: lines(process, "Logged") + lines(process, "CG_logged"),
        "the log has all lines",
        until=lambda found: len(found) >= len(wanted),
    )
    assert len(found) == len(wanted), found
    for line, words in zip(found, wanted, strict=True):
        assert f"{peer} {words} " in line
        assert " INFO " in line
        assert line.isprintable()


@pytest.mark.parametrize("name", ["bad name", "../up"])
def test_what_was_refused_is_not_logged_as_done(
    process: ServerProcess, client: Client, name: str
) -> None:
    assert create_topic(client, name).code == 29
    assert group(client, name).code == 29
    assert not lines(process, name)
