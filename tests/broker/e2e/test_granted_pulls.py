"""A pull is answered in the same way by a connection that has pulled like that before, where the
session answers, and by a new one, where the broker checks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.support.client import (
    HEART_BEAT,
    PULL_COMMIT,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    QUERY_CONSUMER_OFFSET,
    UPDATE_CONSUMER_OFFSET,
    Client,
    pull_command,
    pulled,
)
from tests.support.operators import create_topic
from tests.support.server import ServerProcess
from tests.support.thorough import examples
from tests.support.wire import Command

UPDATE_BROKER_CONFIG = 25
UPDATE_GROUP, UNREGISTER, RESET, CONSUME_STATS = 200, 35, 222, 208
PULL_TIMES = 3
"""Of the same pull: the first one is checked, later ones may be granted."""
CHECKED = (0, 19, 20, 21)
"""Codes of pulls that were allowed."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("granted") / "store") as running:
        yield running


def heartbeat(client: Client, group: str, topic: str, tags: str | None, version: int) -> None:
    """As a member of a group with a subscription to one topic, or (None) to nothing."""
    subscription = {
        "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": tags,
        "subVersion": version, "tagsSet": [], "topic": topic,
    }  # fmt: skip
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "groupName": group, "messageModel": "CLUSTERING", "unitMode": False,
        "subscriptionDataSet": [subscription] if tags is not None else [],
    }  # fmt: skip
    data = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
    assert client.call(HEART_BEAT, json.dumps(data).encode()).code == 0


TAGS = st.sampled_from(["*", "a", "b", "a||b"])


class Pulls(RuleBasedStateMachine):
    """Whatever changes in between, an old connection gets what a new one gets."""

    server: ServerProcess
    runs = 0

    @initialize()
    def begin(self) -> None:
        Pulls.runs += 1
        self.topic, self.group = f"T{Pulls.runs}", f"G{Pulls.runs}"
        self.old, self.member = Client(self.server.broker), Client(self.server.broker)
        self.version = 0
        self.found: list[Command] = []
        """Pulls that found messages: granted, unless something was revoked."""
        self.offset: int | None = None
        """What the group has committed."""
        assert create_topic(self.old, self.topic, 2).code == 0
        self.send(4)
        self.subscribe("a||b")
        for own in (None, "*", "b"):
            self.pull(0, 0, 3, own, 0, None)
        assert len(self.found) == 3

    def teardown(self) -> None:
        if hasattr(self, "old"):
            self.change_broker(6)
            self.old.close()
            self.member.close()

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        for n in range(count):
            tag = {"TAGS": "ab"[n % 2]}
            assert self.old.send(self.topic, properties=tag).code in (0, 16)

    @rule(
        offset=st.integers(-1, 5),
        queue_id=st.integers(0, 2),
        maximum=st.integers(0, 3),
        own=st.sampled_from([None, "*", "a", "b"]),
        version=st.integers(0, 2),
        commit=st.sampled_from([None, -1, 0, 1, 7]),
    )
    def pull(
        self, offset: int, queue_id: int, maximum: int, own: str | None, version: int,
        commit: int | None,
    ) -> None:  # fmt: skip
        flag = (0 if own is None else PULL_SUBSCRIPTION) | (0 if commit is None else PULL_COMMIT)
        command = pull_command(
            self.topic, queue_id, offset, group=self.group, maximum=maximum, sys_flag=flag,
            subscription=own or "",
            change={"subVersion": str(version), "commitOffset": str(commit or 0)},
        )  # fmt: skip
        answer = self._compare(command, PULL_TIMES)
        if answer.code in CHECKED and queue_id == 0 and commit not in (None, -1):
            self.offset = commit
        if answer.code == 0 and commit is None and len(self.found) < 5:
            self.found.append(command)

    def _compare(self, command: Command, times: int) -> Command:
        answers = [self.old.request(command) for _ in range(times)]
        with Client(self.server.broker) as new:
            answers.append(new.request(command))
        shown = {(a.code, a.remark, tuple(sorted(a.ext.items())), a.body) for a in answers[-2:]}
        assert len(shown) == 1, shown
        return answers[-1]

    @invariant()
    def what_was_found_once_is_as_a_new_connection_finds_it(self) -> None:
        for command in getattr(self, "found", ()):
            self._compare(command, 1)

    @rule(perm=st.sampled_from([6, 2, 4]), queues=st.sampled_from([1, 2]))
    def change_topic(self, perm: int, queues: int) -> None:
        assert create_topic(self.old, self.topic, queues, perm=perm).code == 0

    @rule(enabled=st.booleans(), broadcast=st.booleans())
    def change_group(self, enabled: bool, broadcast: bool) -> None:
        values: dict[str, Any] = {"groupName": self.group, "consumeEnable": enabled}
        values["consumeBroadcastEnable"] = broadcast
        assert self.old.call(UPDATE_GROUP, json.dumps(values).encode()).code == 0

    @rule(perm=st.sampled_from([6, 2]))
    def change_broker(self, perm: int) -> None:
        assert self.old.call(UPDATE_BROKER_CONFIG, b"brokerPermission=%d" % perm).code == 0

    @rule(tags=st.none() | TAGS)
    def subscribe(self, tags: str | None) -> None:
        self.version += 1
        heartbeat(self.member, self.group, self.topic, tags, self.version)

    @rule()
    def leave(self) -> None:
        answer = self.member.call(UNREGISTER, clientID="c", consumerGroup=self.group)
        assert answer.code == 0

    @rule(offset=st.integers(0, 5))
    def commit(self, offset: int) -> None:
        answer = self.old.call(
            UPDATE_CONSUMER_OFFSET, consumerGroup=self.group, topic=self.topic, queueId=0,
            commitOffset=offset,
        )  # fmt: skip
        assert answer.code in (0, 16, 17)
        if answer.code == 0:
            self.offset = offset

    @invariant()
    def the_offset_is_the_last_that_was_committed(self) -> None:
        if not hasattr(self, "old") or self.offset is None:
            return
        answer = self.old.call(
            QUERY_CONSUMER_OFFSET, consumerGroup=self.group, topic=self.topic, queueId=0
        )
        assert (answer.code, answer.ext.get("offset")) == (0, str(self.offset))


@pytest.mark.random
def test_old_and_new_connections_agree(server: ServerProcess) -> None:
    Pulls.server = server
    run_state_machine_as_test(
        Pulls, settings=settings(max_examples=examples(12), stateful_step_count=25, deadline=None)
    )


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.broker) as client:
        yield client


def sent(client: Client, topic: str, count: int) -> None:
    for n in range(count):
        assert client.send(topic, b"%d" % n, queues=1).code == 0


def test_a_reset_reaches_a_consumer_that_pulls_on(client: Client) -> None:
    sent(client, "Moved", 6)
    for offset in (0, 1, 2, 3):
        assert client.pull("Moved", 0, offset, maximum=1, group="MG").code == 0
    answer = client.call(RESET, group="MG", topic="Moved", timestamp=-1, isForce="true")
    assert answer.code == 0, answer.remark
    moved = client.pull("Moved", 0, 4, maximum=1, group="MG")
    assert (moved.code, moved.next_offset) == (21, 6), "to the end"
    assert client.pull("Moved", 0, 6, maximum=1, group="MG").code == 19
    assert client.pull("Moved", 0, 2, maximum=1, group="MG").code == 0, "it may go back"


def test_a_pull_that_waits_is_checked_again_when_the_rules_have_changed(
    server: ServerProcess, client: Client
) -> None:
    """The message that comes is not given to a group that may not consume any more."""
    sent(client, "Waits", 1)
    with Client(server.broker) as waiting:
        pull = pull_command(
            "Waits", 0, 1, group="WG", suspend_ms=15_000, sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION
        )
        opaque = waiting.post(pull)
        waiting.max_offset("Waits", 0)  # is answered behind the pull
        values = {"groupName": "WG", "consumeEnable": False}
        assert client.call(UPDATE_GROUP, json.dumps(values).encode()).code == 0
        sent(client, "Waits", 1)
        answer = waiting.receive(30)
        assert (answer.opaque, answer.code, answer.body) == (opaque, 16, b"")
        values["consumeEnable"] = True
        assert client.call(UPDATE_GROUP, json.dumps(values).encode()).code == 0
        assert pulled(waiting.request(pull)).next_offset == 2


def test_what_is_committed_with_granted_pulls_stays(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        sent(client, "Kept", 6)
        for offset in range(5):
            pull = pull_command(
                "Kept", 0, offset, maximum=1, group="KG", change={"commitOffset": str(offset)},
                sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT,
            )  # fmt: skip
            assert pulled(client.request(pull)).code == 0
        stats = client.call(CONSUME_STATS, consumerGroup="KG").body.decode()
        assert '"consumerOffset":4' in stats, "what was committed last"
        assert '"pullOffset":5' in stats, "where the next pull is expected"
    server.restart()
    with Client(server.broker) as client:
        answer = client.call(QUERY_CONSUMER_OFFSET, consumerGroup="KG", topic="Kept", queueId=0)
        assert answer.ext["offset"] == "4"
