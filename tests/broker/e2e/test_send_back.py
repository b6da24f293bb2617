"""CONSUMER_SEND_MSG_BACK: a message that a consumer could not deal with comes to its group's retry
topic after a delay, or to its dead-letter topic. In both flush modes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.client import PULL_SUBSCRIPTION, PULL_SUSPEND, Client, pull_command
from tests.support.delays import (
    SCHEDULE_TOPIC,
    await_records,
    back_command,
    dead_letters,
    is_unknown,
    levels,
    log_end,
    place,
    quiet_log_end,
    record_at,
    send_back,
    sent,
    waiting,
)
from tests.support.operators import create_topic, saved_topics
from tests.support.records import Record, decode_record, encode_properties, encode_record
from tests.support.server import ServerProcess
from tests.support.transactions import COMMIT, end, send_half
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, Command

CONF = "messageDelayLevel=1h 2h 1s 2s 1h 1h\n"
"""The first and the second retry come soon."""
HIGHEST = 6
SYSTEM_ERROR = 1
NO_PERMISSION = 16
SUBSCRIPTION_GROUP_NOT_EXIST = 26

_numbers = count()


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("back")
    with ServerProcess(folder / "store", flush=request.param, conf=CONF) as server:
        yield server


@pytest.fixture
def group() -> str:
    return f"Group{next(_numbers)}"


# What becomes of it.


def test_a_message_that_fails_again_and_again(client: Client, group: str) -> None:
    """From its topic through two retries to the dead letters, one level more each time."""
    topic, retry = f"T{group}", f"%RETRY%{group}"
    own = {"TAGS": "red", "KEYS": "k", "UNIQ_KEY": f"U{group}", "a": "b"}
    answer = client.send(
        topic, b"body", queue_id=2, properties=own, change={"h": "7", "g": "1700000000000"}
    )
    first = record_at(client, place(answer))
    failed = first
    for times in (1, 2):
        back = send_back(client, failed.physical_offset, group, maxReconsumeTimes=2)
        assert (back.code, back.remark) == (0, None)
        arrived = await_records(client, retry, times)[-1]
        level, waited = waiting(client, group)[-1]
        assert (level, waited.topic) == (2 + times, SCHEDULE_TOPIC)
        assert arrived.prepared_offset == waited.physical_offset
        assert arrived.store_timestamp >= waited.store_timestamp + times * 1000
        assert arrived.reconsume_times == waited.reconsume_times == times
        assert (arrived.body, arrived.flag, arrived.sys_flag) == (b"body", 7, 0)
        assert (arrived.born_timestamp, arrived.born_host) == (1700000000000, first.born_host)
        more = {"DELAY": str(level), "REAL_TOPIC": retry, "REAL_QID": "0"}
        # Where it came from first stays said.
        more |= {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": answer.ext["msgId"]}
        assert arrived.properties == {**first.properties, **more}
        assert arrived.properties_raw.count(b"DELAY\x01") == 1
        assert client.pull(retry, 0, times - 1, subscription="red").records == [arrived]
        failed = arrived

    assert send_back(client, failed.physical_offset, group, maxReconsumeTimes=2).code == 0
    (end_of_it,) = dead_letters(client, group)
    assert (end_of_it.body, end_of_it.reconsume_times) == (b"body", 3)
    origin = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": answer.ext["msgId"]}
    assert end_of_it.properties == {**first.properties, **origin}
    assert client.pull(f"%DLQ%{group}", 0, 0, subscription="blue").records == []
    assert client.pull(f"%DLQ%{group}", 0, 0, subscription="red").records == [end_of_it]
    assert len(waiting(client, group)) == 2


@pytest.mark.parametrize(
    ("times", "level", "expected"),
    [
        (0, 0, 3),
        (1, 0, 4),
        (2, 0, 5),
        (4, 0, HIGHEST),
        (15, 0, HIGHEST),
        (0, 1, 1),
        (9, 2, 2),
        (0, HIGHEST, HIGHEST),
        (0, 99, HIGHEST),
        (0, 2**31 - 1, HIGHEST),
    ],
)
def test_the_level(client: Client, group: str, times: int, level: int, expected: int) -> None:
    """0: the broker's choice, 3 and one more for each time before."""
    assert send_back(client, sent(client, times=times), group, level).code == 0
    ((found, record),) = waiting(client, group)
    assert (found, record.properties["DELAY"]) == (expected, str(expected))
    assert record.reconsume_times == times + 1
    assert is_unknown(client, f"%DLQ%{group}")


@pytest.mark.parametrize(
    ("times", "level", "most"),
    [
        (0, -1, None),
        (0, -(2**31), None),
        (0, -1, 16),
        (16, 0, None),
        (17, 5, None),
        (2, 0, 2),
        (3, 1, 2),
        (0, 0, 0),
        (0, 0, -1),
    ],
)
def test_dead_letters_do_not_wait(
    client: Client, group: str, times: int, level: int, most: int | None
) -> None:
    """Those that are not to be retried, and those that were retried often enough."""
    before = levels(client)
    answer = send_back(client, sent(client, times=times), group, level, maxReconsumeTimes=most)
    assert answer.code == 0, answer.remark
    (record,) = dead_letters(client, group)
    assert record.reconsume_times == times + 1
    assert not {"DELAY", "REAL_TOPIC", "REAL_QID"} & record.properties.keys()
    assert is_unknown(client, f"%RETRY%{group}")
    assert [entries for _, entries in levels(client)] == [entries for _, entries in before]


def test_the_consumers_maximum_takes_the_place_of_the_groups(client: Client, group: str) -> None:
    """Without one a group has 16."""
    message = sent(client, times=16)
    assert send_back(client, message, group, 1, maxReconsumeTimes=17).code == 0
    assert [level for level, _ in waiting(client, group)] == [1]
    assert send_back(client, message, group, 1).code == 0
    assert len(dead_letters(client, group)) == 1


def test_the_largest_numbers(client: Client, group: str) -> None:
    """The level that follows from them is above every level there is."""
    message = sent(client, times=2**31 - 2)
    answer = send_back(client, message, group, 0, maxReconsumeTimes=2**31 - 1)
    assert answer.code == 0, answer.remark
    ((level, record),) = waiting(client, group)
    assert (level, record.reconsume_times) == (HIGHEST, 2**31 - 1)


def test_a_delayed_message_comes_back(client: Client, group: str) -> None:
    """Its own level and place are of the past."""
    answer = client.send("T", b"x", properties={"DELAY": "3"})
    delivered = eventually(
        lambda: [r for r in _in_queue(client, "T") if r.prepared_offset == place(answer)],
        "it is delivered",
    )
    assert send_back(client, delivered[0].physical_offset, group, 5).code == 0
    ((level, record),) = waiting(client, group)
    assert (level, record.properties["RETRY_TOPIC"]) == (5, "T")
    for name in (b"DELAY\x01", b"REAL_TOPIC\x01", b"REAL_QID\x01"):
        assert record.properties_raw.count(name) == 1


def _in_queue(client: Client, topic: str) -> list[Record]:
    return client.pull_all(topic, 0, 0, client.max_offset(topic, 0))


@pytest.mark.parametrize("level", [0, -1])
def test_a_committed_message_comes_back_as_a_plain_one(
    client: Client, group: str, level: int
) -> None:
    topic = f"T{group}"
    client.send(topic, queue_id=3)
    half = send_half(client, topic, b"paid")
    assert end(client, half, COMMIT).code == 0
    (committed,) = await_records(client, topic, 1)
    assert (committed.properties["TRAN_MSG"], committed.sys_flag & 0xC) == ("true", COMMIT)
    assert send_back(client, committed.physical_offset, group, level).code == 0
    record = dead_letters(client, group)[0] if level else waiting(client, group)[0][1]
    assert (record.body, record.sys_flag & 0xC) == (b"paid", 0)
    assert "TRAN_MSG" not in record.properties
    assert record.properties["UNIQ_KEY"] == half.unique_key
    assert record.properties["RETRY_TOPIC"] == topic


def test_a_pull_that_waits_for_dead_letters_is_woken(
    client: Client, process: ServerProcess, group: str
) -> None:
    message = sent(client)
    assert send_back(client, message, group, -1).code == 0
    with Client(process.broker) as other:
        flags = PULL_SUSPEND | PULL_SUBSCRIPTION
        other.post(pull_command(f"%DLQ%{group}", 0, 1, sys_flag=flags, suspend_ms=60_000))
        other.max_offset("T", 0)  # answered behind the pull: that one waits
        assert send_back(client, message, group, -1).code == 0
        assert other.receive().code == 0


def test_what_is_sent_back_many_at_a_time(client: Client, group: str) -> None:
    """Also while the retry topic is made: each is answered, and each is stored."""
    messages = [sent(client) for _ in range(50)]
    opaques = [client.post(back_command(message, group, 1)) for message in messages]
    answers = [client.receive() for _ in messages]
    assert sorted(a.opaque for a in answers) == opaques
    assert {a.code for a in answers} == {0}
    origins = {r.properties["ORIGIN_MESSAGE_ID"][-16:] for _, r in waiting(client, group)}
    assert origins == {f"{message:016X}" for message in messages}


def test_one_way(client: Client, group: str) -> None:
    message = sent(client)
    client.oneway(back_command(message, group, -1))
    await_records(client, f"%DLQ%{group}", 1)


def test_unit_mode(client: Client, process: ServerProcess, group: str) -> None:
    """The retry topic of a group in unit mode says so. [TopicSysFlag, unit sub]"""
    assert send_back(client, sent(client), group, unitMode="true").code == 0
    assert saved_topics(process.store)[f"%RETRY%{group}"]["topicSysFlag"] == 2


# What is refused.


def assert_refused(client: Client, command: Command, group: str, code: int, words: str) -> None:
    """Nothing is stored, and no topic is made."""
    end_of_log = quiet_log_end(client, 3, 4)
    answer = client.request(command)
    assert answer.code == code, answer.remark
    assert words in (answer.remark or "")
    assert log_end(client) == end_of_log
    assert is_unknown(client, f"%RETRY%{group}")
    assert is_unknown(client, f"%DLQ%{group}")


@pytest.mark.parametrize("level", [0, -1])
@pytest.mark.parametrize("shift", [1, 8, 88, -1, 1 << 20, 1 << 40], ids=lambda shift: f"{shift:+}")
def test_no_message_starts_there(client: Client, group: str, shift: int, level: int) -> None:
    """Inside of a record, behind the end of the log, and far behind it."""
    offset = sent(client) + shift
    command = back_command(offset, group, level)
    assert_refused(client, command, group, SYSTEM_ERROR, str(offset))


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_a_negative_offset(client: Client, group: str, offset: int) -> None:
    command = back_command(offset, group)
    assert_refused(client, command, group, SYSTEM_ERROR, str(offset))


def test_a_record_inside_of_a_body(client: Client, process: ServerProcess, group: str) -> None:
    """A sender can lay out a body like a record that states the very place where it will be. Only
    the queue knows better."""
    topic = f"T{group}"
    real = record_at(client, sent(client, topic))
    body_at = 88  # in a record with IPv4 addresses
    forged_at = log_end(client) + body_at
    forged = Record(
        **{name: getattr(real, name) for name in Record.__slots__}
        | {
            "physical_offset": forged_at,
            "queue_offset": 1,  # that of the record around it
            "properties_raw": encode_properties({"UNIQ_KEY": "forged"}).encode(),
        }
    )
    answer = client.send(topic, encode_record(forged))
    assert place(answer) == forged_at - body_at
    (log,) = (process.store / "commitlog").glob("0*")
    with log.open("rb") as file:
        file.seek(forged_at)
        assert decode_record(file.read(1000)).properties == {"UNIQ_KEY": "forged"}
    for level in (0, -1):
        command = back_command(forged_at, group, level)
        assert_refused(client, command, group, SYSTEM_ERROR, str(forged_at))
    assert send_back(client, place(answer), group, 1).code == 0, "the one around it is a message"


@pytest.mark.parametrize("name", ["offset", "group", "delayLevel"])
@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_field_that_is_missing(client: Client, group: str, name: str, serialize: int) -> None:
    command = back_command(sent(client), group)
    del command.ext[name]
    command.serialize = serialize
    assert_refused(client, command, group, SYSTEM_ERROR, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset", "x"),
        ("offset", ""),
        ("offset", "1.5"),
        ("offset", str(2**63)),
        ("delayLevel", "3s"),
        ("delayLevel", str(2**31)),
        ("maxReconsumeTimes", "many"),
        ("maxReconsumeTimes", str(-(2**31) - 1)),
    ],
)
def test_a_field_that_is_no_number(client: Client, group: str, name: str, value: str) -> None:
    command = back_command(sent(client), group, maxReconsumeTimes=16)
    command.ext[name] = value
    assert_refused(client, command, group, SYSTEM_ERROR, name)


@pytest.mark.parametrize("name", ["", "bad group", "x/y", "G" * 256])
def test_a_name_that_no_group_can_have(client: Client, name: str) -> None:
    end_of_log = quiet_log_end(client, 3, 4)
    answer = send_back(client, 0, name)
    assert answer.code == SUBSCRIPTION_GROUP_NOT_EXIST
    assert log_end(client) == end_of_log


def test_a_retry_topic_that_takes_no_messages(client: Client, group: str) -> None:
    """As an operator has set it. Dead letters are not concerned."""
    retry = f"%RETRY%{group}"
    assert create_topic(client, retry, perm=4).code == 0
    message, end_of_log = sent(client), quiet_log_end(client, 3, 4)
    answer = send_back(client, message, group)
    assert (answer.code, retry in (answer.remark or "")) == (NO_PERMISSION, True)
    assert log_end(client) == end_of_log
    assert send_back(client, message, group, -1).code == 0
    assert create_topic(client, retry, perm=6).code == 0
    assert send_back(client, message, group).code == 0
