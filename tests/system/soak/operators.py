"""Operators: they look at everything, make and delete topics, and move the offsets of groups.

Offsets are only moved back, and never behind what retention.py keeps: messages come again, none is
left out.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

from tests.support.client import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    GET_ROUTEINFO_BY_TOPIC,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    VIEW_MESSAGE_BY_ID,
    Client,
)
from tests.support.delays import GET_BROKER_RUNTIME_INFO
from tests.support.operators import CLEAN_EXPIRED_CONSUMEQUEUE, create_topic, query
from tests.support.wire import Command
from tests.system.soak.groups import MOVABLE
from tests.system.soak.settings import PLAIN, QUEUES, TAGGED
from tests.system.soak.shared import Role, Shared

RATE = 4.0
SCRATCH = [f"SoakScratch{n}" for n in range(12)]
"""Topics that are made, used and deleted all the time."""
NOT_SUPPORTED, QUERY_NOT_FOUND = 3, 22
"""REQUEST_CODE_NOT_SUPPORTED, which is counted."""
DELETE_TOPIC_IN_BROKER = 215
GET_BROKER_CONFIG, UPDATE_BROKER_CONFIG = 26, 25
RESET = 222
RESET_SECONDS = 10.0
BACK_MS = 5000
"""How far offsets are moved back, at most."""
BACK_MESSAGES = 30

Answers = list[tuple[Command, tuple[int, ...]]]
"""With the codes that are right, beside SUCCESS."""
Look = Callable[[Client, random.Random], Answers]
"""Asks something."""


def _named(code: int, *ok: int, **ext: object) -> Look:
    def look(client: Client, chance: random.Random) -> Answers:
        return [(client.call(code, **ext), ok)]

    return look


def _make(client: Client, chance: random.Random) -> Answers:
    topic = chance.choice(SCRATCH)
    answers = [create_topic(client, topic, chance.randint(1, 8))]
    answers += [client.send(topic, b"scratch") for _ in range(5)]
    return [(answer, ()) for answer in answers]


def _delete(client: Client, chance: random.Random) -> Answers:
    topic = chance.choice(SCRATCH)
    return [(client.call(DELETE_TOPIC_IN_BROKER, topic=topic), (NOT_SUPPORTED,))]


def _configure(client: Client, chance: random.Random) -> Answers:
    text = f"flushConsumerOffsetInterval={chance.choice((300, 500, 800))}\n"
    return [(client.call(UPDATE_BROKER_CONFIG, text.encode()), ())]


def _group(client: Client, chance: random.Random) -> Answers:
    config = {"groupName": "CG_scratch", "retryMaxTimes": chance.randint(1, 16)}
    made = client.call(200, json.dumps(config).encode())
    source = chance.choice(list(MOVABLE))
    cloned = client.call(314, srcGroup=source, destGroup="CG_scratch", topic=MOVABLE[source])
    return [(made, ()), (cloned, ())]


def _by_time(client: Client, chance: random.Random) -> Answers:
    then = int(time.time() * 1000) - chance.randrange(20_000)
    ext = {"topic": PLAIN, "queueId": chance.randrange(QUEUES[PLAIN])}
    return [(client.call(SEARCH_OFFSET_BY_TIMESTAMP, timestamp=then, **ext), ())]


def _view(client: Client, chance: random.Random) -> Answers:
    """The newest message of a queue, by its place and by its unique key."""
    queue = chance.randrange(QUEUES[TAGGED])
    end = client.max_offset(TAGGED, queue)
    found = client.pull(TAGGED, queue, end - 1, group="CG_looking").records if end else []
    answers: Answers = []
    for record in found[:1]:
        answers.append((client.call(VIEW_MESSAGE_BY_ID, offset=record.physical_offset), ()))
        # The index follows the log by a moment.
        key = record.properties["UNIQ_KEY"]
        answers.append((query(client, TAGGED, key, unique=True), (QUERY_NOT_FOUND,)))
    return answers


BROKER: dict[str, Look] = {
    "runtime info": _named(GET_BROKER_RUNTIME_INFO),
    "broker configuration": _named(GET_BROKER_CONFIG),
    "updates of the configuration": _configure,
    "topic configuration": _named(351, topic=PLAIN),
    "topic statistics": _named(202, topic=PLAIN),
    "consumer statistics": _named(208, consumerGroup="CG_moving"),
    "consumer connections": _named(203, 206, consumerGroup="CG_failing"),
    "producer connections": _named(204, 1, producerGroup="PG_load_0"),
    "groups": _named(201),
    "groups of a topic": _named(300, topic=PLAIN),
    "first offset": _named(GET_MIN_OFFSET, topic=PLAIN, queueId=0),
    "last offset": _named(GET_MAX_OFFSET, topic=PLAIN, queueId=0),
    "first time": _named(32, topic=PLAIN, queueId=0),
    "offset by time": _by_time,
    "looking messages up": _view,
    "scratch topics": _make,
    "scratch topics deleted": _delete,
    "scratch groups": _group,
    "queues cleaned": _named(CLEAN_EXPIRED_CONSUMEQUEUE),
}
NAMESRV: dict[str, Look] = {
    "routes": _named(GET_ROUTEINFO_BY_TOPIC, topic=PLAIN),
    "cluster": _named(106),
    "topics of the name server": _named(206),
}


class Operator(Role):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "operator")
        self._next_reset = time.monotonic() + 3

    def work(self) -> None:
        with self.shared.connect() as broker, Client(self.shared.server.namesrv) as namesrv:
            while self.wanted():
                name = self.chance.choice([*BROKER, *NAMESRV])
                if name in BROKER:
                    self._look(name, BROKER[name], broker)
                else:
                    self._look(name, NAMESRV[name], namesrv)
                if time.monotonic() >= self._next_reset:
                    self._next_reset = time.monotonic() + RESET_SECONDS
                    self._move_back(broker)
                time.sleep(1 / (RATE * self.shared.settings.rate))

    def _look(self, name: str, look: Look, client: Client) -> None:
        for answer, ok in look(client, self.chance):
            self.shared.count("admin requests")
            if answer.code == NOT_SUPPORTED and answer.code in ok:
                self.shared.count(f"{name}: not supported")
            elif answer.code not in (0, *ok) and not self.shared.refused(answer.code):
                self.shared.fault(f"operator, {name}: {answer.code} {answer.remark}")

    def _move_back(self, client: Client) -> None:
        """One queue by so many messages, or all queues to a time before what is consumed."""
        group = self.chance.choice(list(MOVABLE))
        topic = MOVABLE[group]
        queue = self.chance.randrange(QUEUES[topic])
        committed = self._committed(client, group, topic)
        if committed is None:
            return
        self.shared.count("offsets moved back")
        ext: dict[str, object] = {"group": group, "topic": topic, "isForce": "true"}
        then = int(time.time() * 1000) - BACK_MS
        if self.chance.random() < 0.5 and self._all_before(client, topic, then, committed):
            answer = client.call(RESET, timestamp=then, **ext)
        else:
            low = client.min_offset(topic, queue)
            back = max(low, committed[queue] - BACK_MESSAGES)
            answer = client.call(RESET, timestamp=0, queueId=queue, offset=back, **ext)
        if answer.code != 0 and not self.shared.refused(answer.code):
            self.shared.fault(f"operator, offsets of {group}: {answer.code} {answer.remark}")

    def _committed(self, client: Client, group: str, topic: str) -> list[int] | None:
        """By queue: everything before it is consumed. None while the group has none of a queue."""
        found = []
        for queue in range(QUEUES[topic]):
            ext = {"consumerGroup": group, "topic": topic, "queueId": queue}
            answer = client.call(QUERY_CONSUMER_OFFSET, **ext, setZeroIfNotFound="false")
            if answer.code != 0:
                return None
            found.append(int(answer.ext["offset"]))
        return found

    def _all_before(self, client: Client, topic: str, then: int, committed: list[int]) -> bool:
        for queue, offset in enumerate(committed):
            answer = client.call(
                SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=queue, timestamp=then
            )
            if answer.code != 0 or int(answer.ext["offset"]) > offset:
                return False
        return True
