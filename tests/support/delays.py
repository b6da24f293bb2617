"""Delayed messages on the wire: where they wait, how far their levels are, and sending back.

Field names: ConsumerSendMsgBackRequestHeader. Levels: scheduleMessageOffset_<level> of
GET_BROKER_RUNTIME_INFO.
"""

from __future__ import annotations

import json

from tests.support.client import VIEW_MESSAGE_BY_ID, Client
from tests.support.records import Record, decode_record, parse_message_id
from tests.support.waiting import eventually
from tests.support.wire import Command

GET_BROKER_RUNTIME_INFO = 28
CONSUMER_SEND_MSG_BACK = 36
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TOPIC_NOT_EXIST = 17


def place(answer: Command) -> int:
    """The physical offset of the one message that a send stored."""
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    return parse_message_id(answer.ext["msgId"])[1]


def record_at(client: Client, phys: int) -> Record:
    """The record that starts at a physical offset."""
    answer = client.call(VIEW_MESSAGE_BY_ID, offset=phys)
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    return decode_record(answer.body)


def runtime_info(client: Client) -> dict[str, str]:
    """What a broker tells about itself.

    Apache's fails until it has taken its first sample, a second after its start.
    [StoreStatsService.getPutTps takes the last of a list that is empty]
    """
    answer = eventually(
        lambda: client.call(GET_BROKER_RUNTIME_INFO),
        "a broker that has taken a sample of its counts",
        until=lambda found: "LinkedList.getLast" not in (found.remark or ""),
    )
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    table: dict[str, str] = json.loads(answer.body)["table"]
    return table


def quiet_log_end(client: Client, *short: int) -> int:
    """The same once nothing waits in these levels, so that nothing but requests adds to the log."""
    eventually(
        lambda: [levels(client)[level - 1] for level in short],
        "what other tests have sent is delivered",
        until=lambda found: all(given == end for given, end in found),
    )
    return log_end(client)


def log_end(client: Client) -> int:
    return int(runtime_info(client)["commitLogMaxOffset"])


def levels(client: Client) -> list[tuple[int, int]]:
    """By level, from 1 on: how many messages were delivered, and how many there are."""
    prefix = "scheduleMessageOffset_"
    found = {
        int(name.removeprefix(prefix)): tuple(map(int, value.split(",")))
        for name, value in runtime_info(client).items()
        if name.startswith(prefix)
    }
    assert sorted(found) == list(range(1, len(found) + 1))
    return [(found[level][0], found[level][1]) for level in sorted(found)]


def parked(client: Client, level: int) -> list[Record]:
    """All records of a level, also those that were delivered."""
    queue_id = level - 1
    start, end = (get(SCHEDULE_TOPIC, queue_id) for get in (client.min_offset, client.max_offset))
    return client.pull_all(SCHEDULE_TOPIC, queue_id, start, end)


def await_records(client: Client, topic: str, count: int, queue_id: int = 0) -> list[Record]:
    """The records of a queue once there are `count`; fails if there are more."""
    what = f"{count} messages in queue {queue_id} of {topic}"
    end = eventually(
        lambda: client.max_offset(topic, queue_id), what, until=lambda found: found >= count
    )
    assert end == count, f"{end} instead of {what}"
    return client.pull_all(topic, queue_id, 0, count)


def is_unknown(client: Client, topic: str) -> bool:
    """Whether the broker has no such topic."""
    return client.pull(topic, 0, 0).code == TOPIC_NOT_EXIST


def back_command(offset: object, group: str, level: object = 0, **change: object) -> Command:
    """CONSUMER_SEND_MSG_BACK as the Java client sends it; a change to None leaves a field out."""
    ext: dict[str, object] = {
        "offset": offset, "group": group, "delayLevel": level, "originMsgId": "",
        "originTopic": "", "unitMode": "false",
    }  # fmt: skip
    ext |= change
    present = {name: str(value) for name, value in ext.items() if value is not None}
    return Command(CONSUMER_SEND_MSG_BACK, present)


def send_back(
    client: Client, offset: object, group: str, level: object = 0, **change: object
) -> Command:
    """Sends back the message at a physical offset."""
    return client.request(back_command(offset, group, level, **change))


def sent(client: Client, topic: str = "T", times: int = 0, **options: object) -> int:
    """The physical offset of a new message that says that it came back so often before."""
    return place(client.send(topic, b"x", change={"j": str(times)}, **options))


def waiting(client: Client, group: str) -> list[tuple[int, Record]]:
    """What waits or waited for the retry topic of a group, with its level."""
    return [
        (level, record)
        for level in range(1, len(levels(client)) + 1)
        for record in parked(client, level)
        if record.properties["REAL_TOPIC"] == f"%RETRY%{group}"
    ]


def dead_letters(client: Client, group: str, count: int = 1) -> list[Record]:
    """The first dead letters of a group, which must be there."""
    return client.pull_all(f"%DLQ%{group}", 0, 0, count)
