"""Spans of transactions: half, local transaction, end, check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from pyrmq import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    ReceivedMessage,
    TransactionalProducer,
    TransactionState,
)
from pyrmq.outbox import Outbox, create_table
from tests.otel.spans import Recorded, linked, said, span_id
from tests.support.fixtures import Serve
from tests.support.waiting import eventually_trio

pytestmark = pytest.mark.usefixtures("deadline")


class Local:
    """A listener that says what it is told to, and in which span it was."""

    def __init__(self, state: TransactionState | Exception, checked: Any = None) -> None:
        self.inside: list[int] = []
        self._answers = [state, checked]

    def _answer(self, number: int) -> TransactionState:
        self.inside.append(trace.get_current_span().get_span_context().span_id)
        answer = self._answers[number]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, TransactionState)
        return answer

    def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
        return self._answer(0)

    async def check_local_transaction(self, message: ReceivedMessage) -> TransactionState:
        return self._answer(1)


@pytest.mark.parametrize("state", [TransactionState.COMMIT, TransactionState.ROLLBACK])
async def test_a_transaction_is_one_trace(
    serve: Serve, recorded: Recorded, state: TransactionState
) -> None:
    local = Local(state)
    async with (
        serve() as server,
        TransactionalProducer("tx", local, namesrv=server.namesrv) as producer,
    ):
        await producer.send_in_transaction(Message("T", b"body"))
        assert trace.get_current_span() is trace.INVALID_SPAN
        if state is TransactionState.COMMIT:
            async with LitePullConsumer(
                "g", {"T": "*"}, namesrv=server.namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
            ) as consumer:
                assert len(await consumer.poll(30)) == 1
            assert linked(recorded.one("receive")) == [span_id(recorded.one("send"))]
    whole, half, run = (recorded.one(name) for name in ("transaction", "send", "execute"))
    end = recorded.one(state.name.lower())
    assert [span.kind for span in (whole, half, run, end)] == [
        SpanKind.INTERNAL,
        SpanKind.PRODUCER,
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
    ]
    assert whole.parent is None
    assert [s.parent and s.parent.span_id for s in (half, run, end)] == [span_id(whole)] * 3
    assert local.inside == [span_id(run)]
    assert said(half)["messaging.rocketmq.message.type"] == "transaction"
    assert {said(span)["pyrmq.transaction.state"] for span in (whole, run, end)} == {state.name}


async def test_a_failed_local_transaction(serve: Serve, recorded: Recorded) -> None:
    async with (
        serve() as server,
        TransactionalProducer("tx", Local(LookupError("x")), namesrv=server.namesrv) as producer,
    ):
        await producer.send_in_transaction(Message("T", b"body"))
    run = recorded.one("execute")
    assert (run.status.status_code, said(run)["error.type"]) == (StatusCode.ERROR, "LookupError")
    assert said(recorded.one("unknown"))["messaging.operation.type"] == "settle"


async def test_a_check_goes_on_with_the_trace(serve: Serve, recorded: Recorded) -> None:
    local = Local(TransactionState.UNKNOWN, TransactionState.COMMIT)
    async with (
        serve(transaction_time_out=100, transaction_check_interval=100) as server,
        TransactionalProducer("tx", local, namesrv=server.namesrv) as producer,
    ):
        await producer.send_in_transaction(Message("T", b"body"))
        await eventually_trio(lambda: recorded.all("commit"), "the check is answered")
    half, check, end = recorded.one("send"), recorded.one("check"), recorded.one("commit")
    assert (check.name, check.kind) == ("check T", SpanKind.CONSUMER)
    assert check.parent is not None
    assert (check.parent.span_id, check.parent.is_remote) == (span_id(half), True)
    assert linked(check) == linked(end) == [span_id(half)]
    assert local.inside[1] == span_id(check)
    assert said(check)["pyrmq.transaction.state"] == "COMMIT"


async def test_an_outbox(serve: Serve, recorded: Recorded, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/outbox.db")
    create_table(engine)
    inside: list[int] = []

    def work(session: Session) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    outbox = Outbox(engine)
    try:
        async with (
            serve() as server,
            TransactionalProducer("tx", outbox, namesrv=server.namesrv) as producer,
        ):
            await outbox.send(producer, Message("T", b"body"), work)
    finally:
        engine.dispose()
    assert inside == [span_id(recorded.one("execute"))]
    assert said(recorded.one("commit"))["pyrmq.transaction.state"] == "COMMIT"
