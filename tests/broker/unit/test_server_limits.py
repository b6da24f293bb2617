"""Bounds of servers that no other test meets: each is reached, with the parts around it played."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import trio
import trio.testing

from pyrmq.broker.config.broker_config import BrokerConfig, LiveConfig
from pyrmq.broker.requests import admin_queries, ask_clients, assignment, reply
from pyrmq.broker.requests.admin_queries import MAX_QUEUES, ConsumeQueryProcessor
from pyrmq.broker.requests.ask_clients import ClientQuestions
from pyrmq.broker.requests.assignment import RequestModes
from pyrmq.broker.requests.reply import ReplyProcessor
from pyrmq.broker.tables.clients import MAX_KEPT, Client, ConsumerGroup, Notices, tell
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.topic_creation import open_topics
from pyrmq.engine import Command, Listener, Session, Store
from pyrmq.errors import (
    InvalidParameterError,
    ProtocolError,
    ResponseError,
    ServiceNotAvailableError,
    SystemBusyError,
)
from pyrmq.model.codes import RequestCode as Code
from pyrmq.model.topic import TopicConfig
from pyrmq.namesrv import brokers
from pyrmq.namesrv.brokers import BrokerProcessor, MinimumNotifier
from pyrmq.namesrv.routes import NewMinimum, Routes
from pyrmq.net import fastjson
from pyrmq.net.server.turns import TURN_SECONDS
from tests.support.build import FakeConnection
from tests.support.wire import Command as Frame
from tests.support.wire import encode
from tests.system.hostile.requests import broker_rows, namesrv_rows

CONNECTION: Any = FakeConnection()
UNUSED: Any = None


def command(frame: Frame) -> Command:
    """As a server gets it."""
    session = Session(Listener(), b"\x7f\0\0\1", 1)
    session.feed_bytes(encode(frame), 0)
    found = session.next_command()
    assert found is not None
    return found


def test_values_of_a_body() -> None:
    assert fastjson.loads(b"[" + b"0," * 98 + b"0]", 100) == [0] * 99
    with pytest.raises(ProtocolError, match="body is no JSON"):
        fastjson.loads(b"[" + b"0," * 200 + b"0]", 100)


def test_notices_that_are_not_taken() -> None:
    """A member that does not read its notices gets no more of them."""

    class Member(FakeConnection):
        def __init__(self, waiting: int) -> None:
            super().__init__()
            self.out = [b""] * waiting
            self.sent = 0

        def send(self, frame: bytes) -> None:
            self.sent += 1

    members: list[Any] = [Member(0), Member(MAX_KEPT - 1), Member(MAX_KEPT)]
    for member in members:
        tell(member, b"notice")
    assert [m.sent for m in members] == [1, 1, 0]


async def test_notices_of_many_members_are_sent_in_turns() -> None:
    """Each group once for all that happened meanwhile, while other tasks run."""
    turns: list[int] = []
    sent: list[str] = []

    class Member(FakeConnection):
        out: ClassVar[list[bytes]] = []

        def send(self, frame: bytes) -> None:
            sent.append("notice")
            end = time.monotonic() + TURN_SECONDS / 4
            while time.monotonic() < end:
                pass

    groups = {name: ConsumerGroup(name) for name in ("A", "B")}
    for group in groups.values():
        clients: Any = {Member(): Client("c", 0, 0, 0.0) for _ in range(50)}
        group.clients = clients
    notices = Notices()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notices.run)
        for _ in range(3):
            for group in [*groups.values(), ConsumerGroup("without members")]:
                notices.changed(group)
        while len(sent) < 100:
            await trio.lowlevel.checkpoint()
            turns.append(len(sent))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(sent) == 100
    assert len(set(turns)) >= 10


class Asking:
    """Questions of operators to one client, which answers what the test says."""

    def __init__(self, answer: bytes = b"", members: int = 1) -> None:
        group = ConsumerGroup("G")
        clients: Any = {FakeConnection(): Client(f"c{n}", 0, 400, 0.0) for n in range(members)}
        group.clients = clients
        found = next(iter(clients.items()))
        self.gate = trio.Event()
        table: Any = SimpleNamespace(
            consumers={"G": group}, find_consumer=lambda name, client_id: found
        )
        self.answer = answer
        questions: Any = SimpleNamespace(ask=self._ask)
        self.questions = ClientQuestions("b", UNUSED, UNUSED, UNUSED, table, questions)

    async def _ask(self, *_: object, **__: object) -> Any:
        await self.gate.wait()
        return SimpleNamespace(code=0, remark=None, ext={}, body=self.answer)

    async def running_info(self) -> Any:
        ext = {"consumerGroup": "G", "clientId": "c0"}
        asked = command(Frame(Code.GET_CONSUMER_RUNNING_INFO, ext))
        operator: Any = FakeConnection()
        return await self.questions.running_info(operator, asked).answer


async def test_questions_of_all_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_clients, "MAX_ASKED", 2)
    asking = Asking()
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(asking.running_info)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SystemBusyError):
            await asking.running_info()
        asking.gate.set()


async def test_an_answer_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_clients, "MAX_ANSWER", 100)
    asking = Asking(b"x" * 100)
    asking.gate.set()
    assert (await asking.running_info()).code == 0
    asking.answer = b"x" * 101
    with pytest.raises(ResponseError, match="more than 100 bytes"):
        await asking.running_info()


async def test_answers_of_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    table = b'{"messageQueueTable":{}}'
    monkeypatch.setattr(ask_clients, "MAX_STATUS_BYTES", 2 * len(table))
    asking = Asking(table, members=3)
    asking.gate.set()
    asked = command(Frame(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "T", "group": "G"}))
    answer: Any = await asking.questions.consumer_status(CONNECTION, asked).answer
    assert len(fastjson.loads_object(answer.body)["consumerTable"]) == 2


def test_replies_that_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "MAX_BYTES", 20)
    config: Any = SimpleNamespace(
        now=SimpleNamespace(broker_permission=6, broker_name="b", max_message_size=100)
    )
    topics: Any = SimpleNamespace(
        get=lambda name: SimpleNamespace(read_queue_nums=4, write_queue_nums=4),
        is_saved=lambda name: True,
    )
    processor = ReplyProcessor(config, UNUSED, topics, UNUSED, UNUSED, ("h", 1))
    row = broker_rows.ROWS[Code.SEND_REPLY_MESSAGE]
    asked = command(row.request(Code.SEND_REPLY_MESSAGE))
    processor._bytes = 20 - len(asked.body)
    processor._check(asked)
    processor._bytes += 1
    with pytest.raises(SystemBusyError):
        processor._check(asked)


async def test_request_modes(
    tmp_path: Path, config: BrokerConfig, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "MAX_MODES", 1)
    live = LiveConfig(config)
    topics = open_topics(tmp_path / "topics.json", live, store).table
    topics.put(TopicConfig("T", 1, 1))
    groups = GroupTable(tmp_path / "subscriptionGroup.json", live)
    modes = RequestModes(tmp_path / "messageRequestMode.json", live, topics, groups)
    body = b'{"topic":"T","consumerGroup":"%b","mode":"POP"}'
    connection: Any = FakeConnection()
    for _ in range(2):
        assert (await modes._set(body % b"G", connection)).code == 0
    with pytest.raises(ServiceNotAvailableError, match="1 request modes already"):
        await modes._set(body % b"H", connection)


def test_a_table_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_queries, "MAX_TABLE", 10)
    assert admin_queries._answer(bytes(10)).body == bytes(10)
    with pytest.raises(ResponseError, match="the table has 11 bytes"):
        admin_queries._answer(bytes(11))


def test_times_of_many_queues() -> None:
    topics: Any = SimpleNamespace(
        require=lambda name: SimpleNamespace(write_queue_nums=MAX_QUEUES + 1)
    )
    processor = ConsumeQueryProcessor("b", ("h", 1), UNUSED, topics, UNUSED, UNUSED)
    asked = command(Frame(Code.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "G"}))
    with pytest.raises(InvalidParameterError, match="more than 4096 queues"):
        processor.time_span(CONNECTION, asked)


def test_registrations_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    row = namesrv_rows.ROWS[Code.REGISTER_BROKER]
    asked = command(row.request(Code.REGISTER_BROKER))
    monkeypatch.setattr(brokers, "MAX_WAITING", 2 * len(asked.body))
    processor = BrokerProcessor(UNUSED, Routes(), UNUSED, UNUSED, UNUSED)
    waiting: list[Any] = [processor.register(CONNECTION, asked).answer for _ in range(2)]
    with pytest.raises(SystemBusyError):
        processor.register(CONNECTION, asked)
    for one in waiting:
        one.close()


def test_changes_that_wait_to_be_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(brokers, "MAX_CHANGES", 2)
    config: Any = SimpleNamespace(now=SimpleNamespace(notify_min_broker_id_changed=True))
    notifier = MinimumNotifier(config)
    notifier.tell([NewMinimum({0: "h:1"})] * 3)
    assert len(notifier._changes) == 2
    assert "is not told" in caplog.text
