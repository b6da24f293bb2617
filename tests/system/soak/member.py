"""A member of a consumer group: it pulls its share of the queues, commits, leaves or is cut off.

It works as RocketMQ's push consumers do: heartbeats, the list of members and the same split of the
queues in each of them, pulls that wait at the broker, offsets committed by requests or along with
pulls, queue locks if the group consumes in order, and CONSUMER_SEND_MSG_BACK for what it fails on.
[DefaultMQPushConsumerImpl, RebalanceImpl]
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Literal

from pyrmq.model.allocate import average
from pyrmq.model.message import MessageQueue
from tests.support.client import (
    HEART_BEAT,
    LOCK_BATCH_MQ,
    PULL_COMMIT,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    QUERY_CONSUMER_OFFSET,
    UNLOCK_BATCH_MQ,
    UNREGISTER_CLIENT,
    UPDATE_CONSUMER_OFFSET,
    pull_command,
    pulled,
)
from tests.support.delays import back_command
from tests.support.records import Record, java_hash
from tests.support.wire import Command
from tests.system.soak.handling import MOST_RETRIES, Handle
from tests.system.soak.locks import LockTable
from tests.system.soak.shared import Role, Shared

BROKER = "broker-a"
GET_CONSUMER_LIST_BY_GROUP = 38
FOUND, NOT_FOUND, RETRY, MOVED, UNKNOWN_OFFSET = 0, 19, 20, 21, 22
NOT_YET = (2, 24, 25)
"""SYSTEM_BUSY, SUBSCRIPTION_NOT_EXIST, SUBSCRIPTION_NOT_LATEST: the next heartbeat helps."""
TURN = 0.5
"""Seconds between looks at who else is there; offsets are committed as often."""
HEARTBEATS = 5.0
SUSPEND_MS = 5000
SEND_BACK_TRIES = 10


@dataclass(slots=True)
class Group:
    """What all members of a group have in common. topics: the number of queues and the expression
    (its type and text) of each. places: where a broadcasting member has kept how far it is."""

    name: str
    topics: dict[str, tuple[int, str, str]]
    handle: Handle
    ordered: LockTable | None = None
    places: dict[MessageQueue, int] | None = None
    version: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def queues(self) -> list[MessageQueue]:
        return sorted(
            MessageQueue(topic, BROKER, n)
            for topic, (count, _, _) in self.topics.items()
            for n in range(count)
        )

    def heartbeat(self, client_id: str) -> bytes:
        subscriptions = []
        for topic, (_, kind, text) in self.topics.items():
            tags = text.split(" || ") if kind == "TAG" and text != "*" else []
            subscriptions.append({
                "classFilterMode": False, "codeSet": [java_hash(tag) for tag in tags],
                "expressionType": kind, "subString": text, "subVersion": self.version,
                "tagsSet": tags, "topic": topic,
            })  # fmt: skip
        consumer = {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
            "groupName": self.name, "unitMode": False, "subscriptionDataSet": subscriptions,
            "messageModel": "CLUSTERING" if self.places is None else "BROADCASTING",
        }  # fmt: skip
        data = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}
        return json.dumps(data).encode()


@dataclass(slots=True, eq=False)
class _Held:
    """A queue that this member has: everything below `done` is consumed."""

    queue: MessageQueue
    done: int
    committed: int


Going = Literal["", "leave", "crash"]


class Member(Role):
    def __init__(self, shared: Shared, group: Group, client_id: str) -> None:
        super().__init__(shared, client_id)
        self.client_id = client_id
        self.going: Going = ""
        self._group = group
        self._commits_with_pulls = self.chance.random() < 0.5
        self._says_subscription = self.chance.random() < 0.5
        self._held: dict[MessageQueue, _Held] = {}
        self._asked: dict[int, _Held] = {}

    def wanted(self) -> bool:
        return not self.going and not self.shared.over.is_set()

    def work(self) -> None:
        self._held.clear()
        self._asked.clear()
        self._life = self.shared.life
        try:
            with self.shared.connect() as self._control, self.shared.connect() as self._pulls:
                self._serve()
                if self.going == "crash":
                    self._control.reset()
                    self._pulls.reset()
                else:
                    self._leave()
        finally:
            self._drop_locks(list(self._held))

    def _serve(self) -> None:
        turn = heartbeat = 0.0
        while self.wanted():
            now = time.monotonic()
            if now >= heartbeat:
                self._ask(HEART_BEAT, self._group.heartbeat(self.client_id))
                heartbeat = now + HEARTBEATS
            if now >= turn:
                self._commit()
                self._rebalance()
                turn = now + TURN
            try:
                answer = self._pulls.receive(0.1)
            except TimeoutError:
                continue
            held = self._asked.pop(answer.opaque)
            if self._held.get(held.queue) is held:
                self._take(held, answer)

    def _ask(self, code: int, body: bytes = b"", **ext: object) -> Command:
        """A request that has to succeed."""
        answer = self._control.call(code, body, **ext)
        if answer.code != 0:
            self.shared.fault(f"{self.name}: request {code}: {answer.code} {answer.remark}")
        return answer

    # Which queues are ours.

    def _rebalance(self) -> None:
        wanted = set(self._share())
        for queue in self._held.keys() - wanted:
            held = self._held.pop(queue)
            self._commit_one(held)
            self._unlock([queue])
        for queue in self._lock(wanted):
            if queue not in self._held:
                start = self._start(queue)
                held = self._held[queue] = _Held(queue, start, start)
                self._pull(held)

    def _share(self) -> list[MessageQueue]:
        if self._group.places is not None:
            return self._group.queues()
        answer = self._control.call(GET_CONSUMER_LIST_BY_GROUP, consumerGroup=self._group.name)
        ids = sorted(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []
        return average(self._group.queues(), ids, self.client_id)

    def _start(self, queue: MessageQueue) -> int:
        if self._group.places is not None:
            return self._group.places.get(queue, 0)
        ext = {"consumerGroup": self._group.name, "topic": queue.topic, "queueId": queue.queue_id}
        answer = self._control.call(QUERY_CONSUMER_OFFSET, **ext)
        if answer.code == UNKNOWN_OFFSET:
            return 0
        if answer.code != 0:
            self.shared.fault(f"{self.name}: offset of {queue}: {answer.code} {answer.remark}")
            return 0
        return int(answer.ext["offset"])

    # Locks of queues that are consumed in order. [RebalanceImpl.lockAll]

    def _lock(self, wanted: set[MessageQueue]) -> set[MessageQueue]:
        """Takes or renews the locks; the queues that we may consume."""
        if self._group.ordered is None or not wanted:
            return wanted
        answer = self._ask(LOCK_BATCH_MQ, self._lock_body(wanted))
        granted = {MessageQueue.from_json(q) for q in json.loads(answer.body)["lockOKMQSet"]}
        for queue in self._held.keys() - granted:
            del self._held[queue]
        self._group.ordered.taken(self.client_id, granted, self._life)
        return granted

    def _unlock(self, queues: list[MessageQueue]) -> None:
        if self._group.ordered is not None:
            self._drop_locks(queues)
            self._ask(UNLOCK_BATCH_MQ, self._lock_body(queues))

    def _drop_locks(self, queues: list[MessageQueue]) -> None:
        if self._group.ordered is not None:
            self._group.ordered.given_up(self.client_id, queues)

    def _lock_body(self, queues: set[MessageQueue] | list[MessageQueue]) -> bytes:
        return json.dumps({
            "consumerGroup": self._group.name, "clientId": self.client_id,
            "mqSet": [queue.to_json() for queue in queues],
        }).encode()  # fmt: skip

    # Pulling.

    def _pull(self, held: _Held) -> None:
        _, kind, text = self._group.topics[held.queue.topic]
        flag = PULL_SUSPEND
        if self._says_subscription:
            flag |= PULL_SUBSCRIPTION
        change = {"expressionType": kind, "subVersion": str(self._group.version)}
        if self._commits_with_pulls and self._group.places is None:
            flag |= PULL_COMMIT
            change["commitOffset"] = str(held.done)
            held.committed = held.done
        command = pull_command(
            held.queue.topic, held.queue.queue_id, held.done, group=self._group.name,
            sys_flag=flag, suspend_ms=SUSPEND_MS, subscription=text, change=change,
        )  # fmt: skip
        self._asked[self._pulls.post(command)] = held

    def _take(self, held: _Held, answer: Command) -> None:
        found = pulled(answer)
        if found.code == FOUND:
            if not all(self._consume(held, record) for record in found.records):
                return
            held.done = max(held.done, found.next_offset)
        elif found.code in (NOT_FOUND, RETRY, MOVED):
            held.done = found.next_offset
        elif found.code in NOT_YET:
            self._ask(HEART_BEAT, self._group.heartbeat(self.client_id))
            time.sleep(0.05)
        else:
            self.shared.fault(f"{self.name}: pull of {held.queue}: {found.code} {answer.remark}")
            time.sleep(1)
        if self._group.places is not None:
            self._group.places[held.queue] = held.done
        self._pull(held)

    def _consume(self, held: _Held, record: Record) -> bool:
        """False if we are cut off with the message in hand."""
        if self.going == "crash":
            return False
        level = self._group.handle(record)
        if level is not None:
            self._send_back(record, level)
        held.done = record.queue_offset + 1
        return True

    def _send_back(self, record: Record, level: int) -> None:
        command = back_command(
            record.physical_offset, self._group.name, level, maxReconsumeTimes=MOST_RETRIES
        )
        for _ in range(SEND_BACK_TRIES):
            answer = self._control.request(command)
            if answer.code == 0:
                self.shared.count("sent back")
                return
            time.sleep(0.5)  # the broker has one code for all that its store refuses
        self.shared.fault(f"{self.name}: sent back: {answer.code} {answer.remark}")

    # Offsets.

    def _commit(self) -> None:
        for held in self._held.values():
            self._commit_one(held)

    def _commit_one(self, held: _Held) -> None:
        if self._group.places is None and held.committed != held.done:
            held.committed = held.done
            self._ask(
                UPDATE_CONSUMER_OFFSET,
                consumerGroup=self._group.name,
                topic=held.queue.topic,
                queueId=held.queue.queue_id,
                commitOffset=held.done,
            )

    def _leave(self) -> None:
        self._commit()
        if self._held:
            self._unlock(list(self._held))
        self._ask(UNREGISTER_CLIENT, clientID=self.client_id, consumerGroup=self._group.name)
