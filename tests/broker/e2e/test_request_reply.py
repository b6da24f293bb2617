"""SEND_REPLY_MESSAGE: the broker hands a reply to the client that waits for it, and answers the one
that replied when it has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import SEND_MESSAGE_V2, Client, send_command
from tests.support.server import ServerProcess
from tests.support.transactions import join_group
from tests.support.wire import FLAG_RESPONSE, Command, encode

SEND_REPLY_MESSAGE, SEND_REPLY_MESSAGE_V2, PUSH_REPLY = 324, 325, 326
SYSTEM_ERROR, NO_PERMISSION, TOPIC_NOT_EXIST, INVALID_PARAMETER = 1, 16, 17, 29
REPLIES = "DefaultCluster_REPLY_TOPIC"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("reply") / "store") as running:
        yield running


@pytest.fixture
def asker(server: ServerProcess) -> Iterator[Client]:
    """A producer that waits for a reply."""
    with Client(server.broker) as client:
        join_group(client, "P", client_id="asker")
        yield client


@pytest.fixture
def replier(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


def reply(to: str | None = "asker", *, topic: str = REPLIES, queue_id: int = 0) -> Command:
    properties = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1"}
    if to is not None:
        properties["REPLY_TO_CLIENT"] = to
    return send_command(
        topic, b"the answer", properties=properties, queue_id=queue_id, code=SEND_REPLY_MESSAGE_V2
    )


def take(asker: Client, code: int = 0, remark: str | None = None) -> Command:
    """What was pushed to the asker, which answers it."""
    if not asker.pushed:
        asker.wait_pushed(30)
    pushed = asker.pushed.pop(0)
    assert pushed.code == PUSH_REPLY
    asker.send_raw(encode(Command(code, opaque=pushed.opaque, flag=FLAG_RESPONSE, remark=remark)))
    return pushed


def test_a_reply_reaches_the_client_and_is_stored(asker: Client, replier: Client) -> None:
    end = replier.max_offset(REPLIES, 0)
    opaque = replier.post(reply())
    pushed = take(asker)
    answer = replier.receive()
    assert (answer.opaque, answer.code) == (opaque, 0)
    assert pushed.body == b"the answer"
    ext = pushed.ext
    assert ext["topic"] == REPLIES
    assert "CORRELATION_ID\x01c-1\x02" in ext["properties"]
    assert "\x02PUSH_REPLY_TIME\x01" in ext["properties"]
    assert {"bornHost", "storeHost", "storeTimestamp", "bornTimestamp", "sysFlag"} <= ext.keys()
    assert answer.ext["queueOffset"] == str(end)
    (record,) = replier.pull_all(REPLIES, 0, end, end + 1)
    assert record.body == b"the answer"


def test_the_long_names_do_as_well(asker: Client, replier: Client) -> None:
    short = reply()
    names = {
        "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
        "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
        "j": "reconsumeTimes", "k": "unitMode", "m": "batch",
    }  # fmt: skip
    ext = {names[key]: value for key, value in short.ext.items() if key in names}
    replier.post(Command(SEND_REPLY_MESSAGE, ext, short.body))
    assert take(asker).body == b"the answer"
    assert replier.receive().code == 0


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (reply("nobody"), SYSTEM_ERROR, "nobody that waits for the reply is not connected"),
        (reply(None), SYSTEM_ERROR, "no property REPLY_TO_CLIENT"),
        (reply(topic="NoSuchTopic"), TOPIC_NOT_EXIST, "NoSuchTopic"),
        (reply(topic="../x"), INVALID_PARAMETER, "illegal"),
        (reply(queue_id=9), INVALID_PARAMETER, "queueId[9] is illegal"),
    ],
)
def test_refusals(asker: Client, replier: Client, command: Command, code: int, text: str) -> None:
    answer = replier.request(command)
    assert answer.code == code
    assert answer.remark is not None
    assert text in answer.remark
    assert asker.pushed == []


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"]
)
def test_no_reply_goes_to_the_brokers_own_topics(
    asker: Client, replier: Client, topic: str
) -> None:
    assert replier.request(reply(topic=topic)).code == NO_PERMISSION
    assert asker.pushed == []
    assert replier.max_offset(topic, 0) == 0


def test_a_stored_reply_is_a_plain_message(asker: Client, replier: Client) -> None:
    end = replier.max_offset(REPLIES, 0)
    command = reply()
    command.ext["f"] = str(0x1 | 0x300 | 0xC | 0x40 | 0x80)
    replier.post(command)
    take(asker)
    assert replier.receive().code == 0
    (record,) = replier.pull_all(REPLIES, 0, end, end + 1)
    assert record.sys_flag == 0x301


def test_a_client_that_answers_nothing_costs_only_itself(
    server: ServerProcess, asker: Client, replier: Client
) -> None:
    with Client(server.broker) as mute, Client(server.broker) as other:
        join_group(mute, "P", client_id="mute")
        for _ in range(80):
            other.post(reply("mute"))
        refused = [other.receive() for _ in range(16)]  # 64 wait for their answers
        assert {answer.code for answer in refused} == {SYSTEM_ERROR}
        replier.post(reply())
        take(asker)
        assert replier.receive(30).code == 0


def test_what_the_client_does_not_take_is_an_error(asker: Client, replier: Client) -> None:
    replier.post(reply())
    take(asker, 1, "nobody waits for it")
    answer = replier.receive()
    assert answer.code == SYSTEM_ERROR
    assert answer.remark == "the client did not take the reply: nobody waits for it"


def test_a_client_that_goes_away(server: ServerProcess, replier: Client) -> None:
    with Client(server.broker) as leaving:
        join_group(leaving, "P1", "P2", client_id="leaving")
        replier.post(reply("leaving"))
        leaving.wait_pushed(30)
    answer = replier.receive()
    assert answer.code == SYSTEM_ERROR
    assert answer.remark is not None
    assert "is gone" in answer.remark
    again = replier.request(reply("leaving"))
    assert again.remark is not None
    assert "is not connected" in again.remark


def test_leaving_one_of_two_groups_keeps_the_client_known(
    server: ServerProcess, replier: Client
) -> None:
    with Client(server.broker) as asker:
        join_group(asker, "P1", "P2", client_id="of-two")
        assert asker.call(35, clientID="of-two", producerGroup="P1").code == 0
        replier.post(reply("of-two"))
        take(asker)
        assert replier.receive().code == 0


def test_answers_that_nobody_waits_for_are_left_alone(asker: Client) -> None:
    asker.send_raw(encode(Command(0, opaque=77, flag=FLAG_RESPONSE)))
    assert asker.max_offset(REPLIES, 0) >= 0


def test_replies_need_not_be_stored(tmp_path: Path) -> None:
    conf = "storeReplyMessageEnable=false\n"
    with (
        ServerProcess(tmp_path / "store", conf=conf) as server,
        Client(server.broker) as asker,
        Client(server.broker) as replier,
    ):
        join_group(asker, "P", client_id="asker")
        replier.post(reply(queue_id=0))
        take(asker)
        answer = replier.receive()
        assert (answer.code, answer.ext["msgId"]) == (0, "0")
        assert replier.max_offset(REPLIES, 0) == 0


def test_a_plain_send_is_no_reply(replier: Client) -> None:
    command = reply()
    command.code = SEND_MESSAGE_V2
    assert replier.request(command).code == 0


def test_a_reply_fits_into_the_frame_that_its_client_gets(tmp_path: Path) -> None:
    """The request with it did; what the broker adds must have room as well."""
    with (
        ServerProcess(tmp_path / "store", conf="maxMessageSize=16777216\n") as server,
        Client(server.broker) as asker,
        Client(server.broker) as replier,
    ):
        join_group(asker, "P", client_id="asker")
        command = reply()
        command.body = b"x" * ((16 << 20) - 1000)
        answer = replier.request(command)
        assert (answer.code, "does not fit into a frame" in (answer.remark or "")) == (13, True)
        command.body = b"x" * ((16 << 20) - 8000)
        replier.post(command)
        assert len(take(asker).body) == len(command.body)
        assert replier.receive().code == 0
