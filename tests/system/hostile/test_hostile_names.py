"""Topic and group names, queue ids: what may not become a file, a queue or a topic.

Names: percent, bar, hyphen, underscore, digits, letters; topics up to 127 bytes. Codes: 29 for a
bad topic or queue id, 16 for topics that clients may not write, 17 for unknown ones that cannot be
created, 26 for a group that cannot be (broker sheet 2.1, 2.2, 3.1; TopicValidator).
"""

from __future__ import annotations

import pytest

from tests.support.client import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    GET_ROUTEINFO_BY_TOPIC,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_CONSUMER_OFFSET,
    Client,
    batch_command,
    pull_command,
    send_command,
)
from tests.support.server import ServerProcess
from tests.support.wire import BINARY, JSON, Command, frame
from tests.system.hostile.probe import assert_refused

BOTH = pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])

BAD_NAMES = {
    "parent": "../x",
    "parents": "../../../../../../tmp/pyrmq-was-here",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "root": "/etc/passwd",
    "backslash": "a\\b",
    "extension": "a.b",
    "retry-parent": "%RETRY%../x",
    "blank": " ",
    "inner-blank": "a b",
    "zero": "\x00",
    "inner-zero": "a\x00b",
    "newline": "a\nb",
    "escape": "\x1b[31m",
    "separator": "a\x01b\x02",
    "accent": "caf\u00e9",
    "bidi": "\u202etopic",
    "emoji": "\U0001f600",
    "at": "topic@group",
    "hash": "topic#key",
    "128": "t" * 128,
    "256": "t" * 256,
    "retry-256": "%RETRY%" + "g" * 249,
    "70000": "t" * 70_000,
}
NAMES = pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())

#: Topics no client may send to (broker sheet 14.3).
FORBIDDEN = [
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
]


@BOTH
@NAMES
@pytest.mark.parametrize("code", [SEND_MESSAGE, SEND_MESSAGE_V2], ids=["v1", "v2"])
def test_send_to_bad_topic(client: Client, name: str, code: int, serialize: int) -> None:
    answer = client.send(name, code=code, serialize=serialize)
    assert answer.code == 29, f"{answer.code} {answer.remark}"
    assert len(answer.remark or "") < 10_000


@NAMES
def test_batch_to_bad_topic(client: Client, name: str) -> None:
    """29, or 13 where the batch rule (topic of 127 bytes at most) is asked first."""
    answer = client.request(batch_command(name, [(b"x", {})]))
    assert answer.code in (13, 29), f"{answer.code} {answer.remark}"


@BOTH
def test_send_to_empty_topic(client: Client, serialize: int) -> None:
    """A zero-length value is null in the binary form, so 1 is as right as 29."""
    assert client.send("", serialize=serialize).code in (1, 29)


@pytest.mark.parametrize(
    "raw", [b'"\\ud800"', b'"a\\u0000b"', b'"\\u002e\\u002e\\u002fx"', b'"\xed\xa0\x80"'], ids=repr
)
def test_topic_in_escapes(server: ServerProcess, raw: bytes) -> None:
    """Lone surrogates (escaped and raw), an escaped zero, an escaped "../x"."""
    fields = b'"a":"PG","c":"TBW102","d":"4","e":"0","f":"0","g":"0","h":"0","b":' + raw
    header = b'{"code":310,"opaque":1,"extFields":{' + fields + b"}}"
    assert_refused(server.broker, frame(header, b"x"))


@NAMES
def test_create_bad_topic(client: Client, name: str) -> None:
    ext = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4"}
    ext |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false", "topicSysFlag": "0"}
    answer = client.request(Command(UPDATE_AND_CREATE_TOPIC, ext))
    assert answer.code == 29, f"{answer.code} {answer.remark}"


@pytest.mark.parametrize("queues", ["-1", "0", "2147483647", "x", ""])
def test_create_topic_with_bad_queue_numbers(client: Client, queues: str) -> None:
    """Whatever the answer: a topic of two billion queues must not cost two billion of anything."""
    ext = {"topic": "ManyQueues", "defaultTopic": "TBW102", "readQueueNums": queues}
    ext |= {"writeQueueNums": queues, "perm": "6", "topicFilterType": "SINGLE_TAG"}
    client.request(Command(UPDATE_AND_CREATE_TOPIC, ext | {"order": "false"}))


@NAMES
def test_pull_from_bad_topic(client: Client, name: str) -> None:
    pulled = client.pull(name, 0, 0)
    assert pulled.code in (17, 29), pulled.code


def is_only_long(name: str) -> bool:
    """Whether a name is too long for a topic and has no other fault."""
    return len(name) > 127 and name.isalnum() and name.isascii()


@NAMES
def test_pull_as_bad_group(client: Client, name: str) -> None:
    """Names that hold for topics hold for groups, which may have 255 characters."""
    pulled = client.pull("GoodTopic", 0, 0, group=name + "x" * 128 if is_only_long(name) else name)
    assert pulled.code in (26, 29), pulled.code


@NAMES
def test_offsets_of_bad_names(client: Client, name: str) -> None:
    group = name + "x" * 128 if is_only_long(name) else name
    ext = {"consumerGroup": group, "topic": "GoodTopic", "queueId": "0", "commitOffset": "1"}
    assert client.request(Command(UPDATE_CONSUMER_OFFSET, ext)).code in (26, 29)
    ext |= {"consumerGroup": "CG_good", "topic": name}
    assert client.request(Command(UPDATE_CONSUMER_OFFSET, ext)).code in (17, 29)
    assert client.request(Command(QUERY_CONSUMER_OFFSET, ext)).code != 0


@NAMES
def test_heartbeat_of_bad_group_is_harmless(client: Client, name: str) -> None:
    """Such a group is skipped in silence; the answer is still 0 (remoting sheet 4.7)."""
    assert client.heartbeat("client@1", name, "GoodTopic").code in (0, 29)
    assert client.heartbeat("client@1", "CG_names", name).code in (0, 29)


@NAMES
def test_route_of_bad_topic(server: ServerProcess, name: str) -> None:
    with Client(server.namesrv) as namesrv:
        answer = namesrv.call(GET_ROUTEINFO_BY_TOPIC, topic=name)
        assert answer.code in (1, 17, 29), answer.code


@pytest.mark.parametrize("topic", ["NotThere", "..", "a/b", "t" * 70_000], ids=lambda t: t[:9])
@pytest.mark.parametrize("code", [GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP])
def test_asking_for_offsets_creates_nothing(
    client: Client, server: ServerProcess, code: int, topic: str
) -> None:
    for queue_id in (0, -1, 2**31 - 1):
        client.call(code, topic=topic, queueId=queue_id, timestamp=1, committed="true")
    assert not (server.store / "consumequeue" / topic[:200]).joinpath("2147483647").exists()
    assert not (server.store / "consumequeue" / "NotThere").exists()


@BOTH
@pytest.mark.parametrize("topic", FORBIDDEN)
def test_send_to_forbidden_topic(client: Client, topic: str, serialize: int) -> None:
    assert client.send(topic, serialize=serialize).code == 16
    assert client.request(batch_command(topic, [(b"x", {})], serialize=serialize)).code == 16


@BOTH
@pytest.mark.parametrize("default", ["NotThere", "BenchmarkTest", "../x"])
def test_topic_that_cannot_be_created(client: Client, default: str, serialize: int) -> None:
    """The template topic is unknown, or lacks the inherit bit: TOPIC_NOT_EXIST."""
    answer = client.send("CannotBe", serialize=serialize, change={"c": default})
    assert answer.code == 17, f"{answer.code} {answer.remark}"


@BOTH
@pytest.mark.parametrize("queues", [-1, 0])
def test_topic_with_no_queues(client: Client, queues: int, serialize: int) -> None:
    """min(asked, 8) with floor 0 queues: queue 0 is then out of range, or nothing is created."""
    name = f"NoQueues{-queues}-{serialize}"
    assert client.send(name, serialize=serialize, queues=queues).code in (17, 29)


@BOTH
@pytest.mark.parametrize("queue_id", [4, 5, 8, 1024, 2**31 - 1])
def test_send_to_queue_out_of_range(client: Client, queue_id: int, serialize: int) -> None:
    assert client.send("FourQueues", serialize=serialize, queues=4).code == 0
    answer = client.send("FourQueues", queue_id=queue_id, serialize=serialize)
    assert answer.code == 29, f"{answer.code} {answer.remark}"
    batch = batch_command("FourQueues", [(b"x", {})], queue_id=queue_id, serialize=serialize)
    assert client.request(batch).code == 29


@BOTH
@pytest.mark.parametrize("queue_id", [-1, -2, -(2**31)])
def test_negative_queue_lets_the_broker_choose(
    client: Client, queue_id: int, serialize: int
) -> None:
    answer = client.request(send_command("FourQueues", queue_id=queue_id, serialize=serialize))
    assert answer.code == 0
    assert int(answer.ext["queueId"]) in range(4)


@BOTH
@pytest.mark.parametrize("queue_id", [-1, -(2**31), 4, 2**31 - 1])
def test_pull_from_queue_out_of_range(client: Client, queue_id: int, serialize: int) -> None:
    client.send("FourQueues", queues=4)
    answer = client.request(pull_command("FourQueues", queue_id, 0, serialize=serialize))
    assert answer.code == 29, f"{answer.code} {answer.remark}"
