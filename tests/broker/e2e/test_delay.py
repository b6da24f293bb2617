"""Delayed messages: they wait in the queue of their level and arrive as they were sent, once, not
before their time, in both flush modes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.model.message import Message, MessageQueue
from tests.support.client import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    SEND_MESSAGE,
    Client,
    batch_command,
    pull_command,
    send_command,
)
from tests.support.consumed import take
from tests.support.delays import (
    SCHEDULE_TOPIC,
    await_records,
    is_unknown,
    levels,
    log_end,
    parked,
    place,
    quiet_log_end,
    record_at,
)
from tests.support.operators import await_hits
from tests.support.records import Record, decode_records
from tests.support.server import ServerProcess
from tests.support.transactions import half_command
from tests.support.wire import BINARY, JSON

CONF = "messageDelayLevel=1s 2s 1h\n"
SECOND = 1000
HOLD = PULL_SUSPEND | PULL_SUBSCRIPTION
NO_PERMISSION = 16
MESSAGE_ILLEGAL = 13

_numbers = count()


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("delay")
    with ServerProcess(folder / "store", flush=request.param, conf=CONF) as server:
        yield server


@pytest.fixture
def topic(client: Client) -> str:
    """A topic of the test's own with 4 queues."""
    name = f"Later{next(_numbers)}"
    client.send(name, b"first", queue_id=3)
    return name


def assert_not_early(waited: Record, arrived: Record, delay: int) -> None:
    assert arrived.store_timestamp >= waited.store_timestamp + delay
    assert arrived.prepared_offset == waited.physical_offset, "where in the log it waited"


# What arrives.


def test_it_arrives_as_it_was_sent(client: Client, topic: str) -> None:
    properties = {"TAGS": "red", "KEYS": f"key-{topic}", "UNIQ_KEY": f"U{topic}", "a": "ü"}
    answer = client.send(
        topic,
        b"later",
        queue_id=2,
        properties={**properties, "DELAY": "1"},
        change={"h": "7", "g": "1700000000000"},
    )
    assert (answer.ext["queueId"], answer.ext["transactionId"]) == ("2", f"U{topic}")
    waited = record_at(client, place(answer))
    assert (waited.topic, waited.queue_id) == (SCHEDULE_TOPIC, 0)
    assert client.max_offset(topic, 2) == 0, "consumers see nothing of it yet"

    (arrived,) = await_records(client, topic, 1, queue_id=2)
    assert_not_early(waited, arrived, SECOND)
    assert (arrived.body, arrived.flag, arrived.sys_flag) == (b"later", 7, 0)
    assert (arrived.born_timestamp, arrived.born_host) == (1700000000000, waited.born_host)
    assert arrived.reconsume_times == 0
    own = {"DELAY": "1", "REAL_TOPIC": topic, "REAL_QID": "2"}
    assert {**properties, **own}.items() <= arrived.properties.items()
    assert arrived.properties == waited.properties
    # By its tag, and by its key, as if it had been sent just now.
    assert client.pull(topic, 2, 0, subscription="blue").records == []
    assert client.pull(topic, 2, 0, subscription="red").records == [arrived]
    assert await_hits(client, topic, f"key-{topic}", 1) == [arrived]


async def test_a_consumer_gets_it_from_a_producer(
    client: Client, process: ServerProcess, topic: str, deadline: None
) -> None:
    namesrv = f"{process.namesrv[0]}:{process.namesrv[1]}"
    queue = MessageQueue(topic, "broker-a", 1)
    message = Message(topic, b"x" * 5000, tags="red", keys="k", delay_time_level=1)
    async with (
        Producer("pg", namesrv=namesrv) as producer,
        PushConsumer(
            topic, {topic: "red"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer,
    ):
        result = await producer.send(message, queue=queue)
        await producer.send(Message(topic, b"blue", tags="blue", delay_time_level=1), queue=queue)
        await producer.send(Message(topic, b"last", tags="red", delay_time_level=1), queue=queue)
        got, last = await take(consumer, 2)
    assert result.queue == queue
    assert (got.body, got.tags, got.keys) == (message.body, "red", ["k"])
    assert got.msg_id == result.msg_id
    assert got.properties["DELAY"] == "1"
    # Levels are delivered in order: nothing of this topic comes once the last one is there.
    assert (got.queue_id, got.queue_offset) == (1, 0)
    assert (last.body, last.queue_offset) == (b"last", 2)
    waited = record_at(client, int(result.offset_msg_id[-16:], 16))
    assert got.store_timestamp >= waited.store_timestamp + SECOND


def test_levels_do_not_wait_for_each_other(client: Client, topic: str) -> None:
    """What waits for longer was sent first; within a level the order is that of the sends."""
    for level, number in [("3", 0), ("2", 1), ("1", 2), ("1", 3), ("2", 4)]:
        client.send(topic, b"%d" % number, properties={"DELAY": level})
    arrived = await_records(client, topic, 4)
    assert [r.body for r in arrived] == [b"2", b"3", b"1", b"4"]
    for level, delay in [(1, SECOND), (2, 2 * SECOND)]:
        waited = [r for r in parked(client, level) if r.properties["REAL_TOPIC"] == topic]
        mine = [r for r in arrived if r.properties["DELAY"] == str(level)]
        for before, after in zip(waited, mine, strict=True):
            assert_not_early(before, after, delay)
    given, end = levels(client)[2]
    assert given == 0 < end, "an hour is not over"


def test_a_message_to_an_unknown_topic_creates_it(client: Client) -> None:
    name = f"Made{next(_numbers)}"
    answer = client.send(name, b"later", queue_id=3, properties={"DELAY": "1"})
    assert answer.code == 0, answer.remark
    (waited,) = [r for r in parked(client, 1) if r.properties["REAL_TOPIC"] == name]
    assert not is_unknown(client, name)
    assert client.max_offset(name, 3) == 0
    (arrived,) = await_records(client, name, 1, queue_id=3)
    assert_not_early(waited, arrived, SECOND)


def test_what_a_consumer_could_not_send_back_comes_to_its_retry_topic(client: Client) -> None:
    """Clients send a plain message where CONSUMER_SEND_MSG_BACK has failed."""
    group = f"Group{next(_numbers)}"
    own = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "AB" * 16, "UNIQ_KEY": f"U{group}"}
    answer = client.send(
        f"%RETRY%{group}", b"x", properties={**own, "DELAY": "1"}, change={"j": "3", "l": "16"}
    )
    waited = record_at(client, place(answer))
    assert (waited.topic, waited.queue_id, waited.reconsume_times) == (SCHEDULE_TOPIC, 0, 3)
    (arrived,) = await_records(client, f"%RETRY%{group}", 1)
    assert_not_early(waited, arrived, SECOND)
    assert (arrived.body, arrived.reconsume_times) == (b"x", 3)
    assert own.items() <= arrived.properties.items()


# Levels.


@pytest.mark.parametrize("level", ["3", "4", "99", "2147483648", "9223372036854775807"])
def test_a_level_above_the_highest_is_the_highest(client: Client, topic: str, level: str) -> None:
    answer = client.send(topic, properties={"DELAY": level})
    waited = record_at(client, place(answer))
    assert (waited.topic, waited.queue_id) == (SCHEDULE_TOPIC, 2)
    assert waited.properties["DELAY"] == "3"


def test_any_level_may_create_a_topic(client: Client) -> None:
    """The largest number is a level in a topic that is new as it is in one that is known."""
    name = f"Made{next(_numbers)}"
    answer = client.send(name, properties={"DELAY": "9223372036854775807"})
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize("level", ["0", "-1", "-9223372036854775808"])
@pytest.mark.parametrize("new", [False, True], ids=["known", "new"])
def test_zero_and_less_ask_for_no_delay(client: Client, topic: str, level: str, new: bool) -> None:
    name = f"{topic}New" if new else topic
    before = levels(client)
    answer = client.send(name, b"now", properties={"DELAY": level})
    assert answer.code == 0, answer.remark
    assert [r.body for r in client.pull_all(name, 0, 0, 1)] == [b"now"]
    assert [end for _, end in levels(client)] == [end for _, end in before]


@pytest.mark.parametrize("level", ["x", "1.5", "1s", "--1", "٣", "99999999999999999999"])
@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize("code", [SEND_MESSAGE, 310])
def test_a_level_that_is_no_number_is_refused(
    client: Client, topic: str, level: str, serialize: int, code: int
) -> None:
    """Nothing is stored, and no topic is made."""
    end = quiet_log_end(client, 1, 2)
    for name in (topic, f"{topic}New", f"%RETRY%{topic}"):
        answer = client.send(name, properties={"DELAY": level}, serialize=serialize, code=code)
        assert answer.code == MESSAGE_ILLEGAL
        assert "DELAY" in (answer.remark or "")
    assert is_unknown(client, f"{topic}New")
    assert is_unknown(client, f"%RETRY%{topic}")
    assert log_end(client) == end


def test_a_level_that_only_unicode_calls_a_number_creates_no_topic(
    client: Client, topic: str
) -> None:
    """A space that is none in ASCII: what refuses the message also decides about the topic."""
    answer = client.send(f"{topic}New", properties={"DELAY": "\u00a03"})
    assert answer.code == MESSAGE_ILLEGAL
    assert is_unknown(client, f"{topic}New")


# What is refused.


def test_a_batch_cannot_be_delayed(client: Client, topic: str) -> None:
    end = quiet_log_end(client, 1, 2)
    pairs: list[tuple[bytes, dict[str, str]]] = [(b"a", {}), (b"b", {"DELAY": "1"})]
    inside = client.request(batch_command(topic, pairs))
    around = client.request(batch_command(topic, pairs[:1], properties={"DELAY": "1"}))
    for answer in (inside, around):
        assert answer.code == MESSAGE_ILLEGAL
        assert "batch" in (answer.remark or "")
    assert log_end(client) == end


def test_a_refused_delayed_batch_creates_no_topic(client: Client, topic: str) -> None:
    batch = batch_command(f"{topic}New", [(b"a", {})], properties={"DELAY": "1"})
    assert client.request(batch).code == MESSAGE_ILLEGAL
    assert is_unknown(client, f"{topic}New")


@pytest.mark.parametrize("new", [False, True], ids=["known", "new"])
def test_a_half_cannot_be_delayed(client: Client, topic: str, new: bool) -> None:
    name = f"{topic}New" if new else topic
    end = quiet_log_end(client, 1, 2)
    answer = client.request(half_command(name, properties={"DELAY": "1"}))
    assert answer.code == MESSAGE_ILLEGAL
    assert "DELAY: a half message cannot be delayed" in (answer.remark or "")
    assert log_end(client) == end
    assert is_unknown(client, name) == new


TIMERS = {
    "TIMER_DELAY_SEC": "1",
    "TIMER_DELAY_MS": "1000",
    "TIMER_DELIVER_MS": "1700000000000",
    "TIMER_DEL_UNIQKEY": "x",
}


@pytest.mark.parametrize("new", [False, True], ids=["known", "new"])
def test_a_level_displaces_timers(client: Client, topic: str, new: bool) -> None:
    answer = client.send(f"{topic}New" if new else topic, properties={**TIMERS, "DELAY": "3"})
    waited = record_at(client, place(answer))
    assert waited.topic == SCHEDULE_TOPIC
    assert not TIMERS.keys() & waited.properties.keys()


def test_where_it_belongs_cannot_be_forged(client: Client, topic: str) -> None:
    forged = {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "9"}
    answer = client.send(topic, b"mine", queue_id=1, properties={**forged, "DELAY": "1"})
    waited = record_at(client, place(answer))
    assert (waited.properties["REAL_TOPIC"], waited.properties["REAL_QID"]) == (topic, "1")
    (arrived,) = await_records(client, topic, 1, queue_id=1)
    assert arrived.body == b"mine"


@pytest.mark.parametrize("properties", [{}, {"DELAY": "1"}, {"DELAY": "0"}])
def test_a_client_sends_nothing_to_the_schedule_topic(
    client: Client, properties: dict[str, str]
) -> None:
    end = quiet_log_end(client, 1, 2)
    own = {"REAL_TOPIC": "T", "REAL_QID": "0", **properties}
    for command in (
        send_command(SCHEDULE_TOPIC, properties=own),
        batch_command(SCHEDULE_TOPIC, [(b"x", own)]),
        half_command(SCHEDULE_TOPIC, properties=properties),
    ):
        answer = client.request(command)
        assert answer.code == NO_PERMISSION
        assert SCHEDULE_TOPIC in (answer.remark or "")
    assert log_end(client) == end


# Pulls that wait.


def test_a_parked_pull_is_woken_by_a_delivery(
    client: Client, process: ServerProcess, topic: str
) -> None:
    with Client(process.broker) as waiting:
        waiting.post(pull_command(topic, 0, 0, sys_flag=HOLD, suspend_ms=60_000))
        waited = record_at(client, place(client.send(topic, b"x", properties={"DELAY": "1"})))
        answer = waiting.receive()
    assert answer.code == 0
    (arrived,) = decode_records(answer.body)
    assert arrived.body == b"x"
    assert_not_early(waited, arrived, SECOND)


def test_each_of_many_deliveries_wakes_the_pull_that_waits_for_it(
    client: Client, process: ServerProcess, topic: str
) -> None:
    """Deliveries, their flushes and the pulls behind them race: none waits out its 60 s."""
    for n in range(300):
        client.post(send_command(topic, b"%03d" % n, properties={"DELAY": "1"}))
        client.receive()
    bodies: list[bytes] = []
    with Client(process.broker) as waiting:
        while len(bodies) < 300:
            waiting.post(pull_command(topic, 0, len(bodies), sys_flag=HOLD, suspend_ms=60_000))
            answer = waiting.receive()
            assert answer.code == 0, len(bodies)
            bodies += [r.body for r in decode_records(answer.body)]
    assert bodies == [b"%03d" % n for n in range(300)]


# What operators see.


def test_the_broker_says_how_far_each_level_is(client: Client, topic: str) -> None:
    before = levels(client)
    assert len(before) == 3
    for level in "1133":
        client.send(topic, properties={"DELAY": level})
    assert [end for _, end in levels(client)] == [before[0][1] + 2, before[1][1], before[2][1] + 2]
    await_records(client, topic, 2)
    after = levels(client)
    assert after[0] == (before[0][1] + 2, before[0][1] + 2)
    assert after[2] == (0, before[2][1] + 2)
