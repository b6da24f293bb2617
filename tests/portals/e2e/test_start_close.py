"""`start` and `close` beside `with`, and the outbox of each portal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from pyrmq import ClientError, aio, sync
from pyrmq.outbox import create_table
from pyrmq.server import Running
from pyrmq.sync import Message


def test_in_plain_code(server: Running) -> None:
    producer = sync.Producer("pg", namesrv=server.namesrv)
    producer.close()  # it was not started
    assert producer.start() is producer
    assert producer.send(Message("Started", b"1")).status is sync.SendStatus.SEND_OK
    producer.close()
    producer.close()
    with pytest.raises(ClientError, match="not connected"):
        producer.send(Message("Started", b"2"))
    with pytest.raises(ClientError, match="once only"):
        producer.start()


def test_in_asyncio(server: Running) -> None:
    async def main() -> None:
        producer = aio.Producer("pg", namesrv=server.namesrv)
        await producer.close()
        assert await producer.start() is producer
        result = await producer.send(aio.Message("Started", b"1"))
        assert result.status is aio.SendStatus.SEND_OK
        await producer.close()
        await producer.close()

    asyncio.run(main())


@pytest.mark.parametrize("portal", [sync, aio])
def test_an_outbox(server: Running, tmp_path: Path, portal: Any) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    create_table(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
    outbox = portal.Outbox(engine)

    def work(session: Any) -> None:
        session.execute(text("INSERT INTO orders VALUES (1)"))

    def fails(session: Any) -> None:
        raise LookupError("out of stock")

    def in_plain_code() -> Any:
        with sync.TransactionalProducer("og", outbox, namesrv=server.namesrv) as producer:
            with pytest.raises(LookupError):
                outbox.send(producer, Message("Placed", b"x"), fails)
            return outbox.send(producer, Message("Placed", b"x"), work, timeout=5.0)

    async def in_asyncio() -> Any:
        async with aio.TransactionalProducer("og", outbox, namesrv=server.namesrv) as producer:
            with pytest.raises(LookupError):
                await outbox.send(producer, Message("Placed", b"x"), fails)
            return await outbox.send(producer, Message("Placed", b"x"), work, timeout=5.0)

    result = in_plain_code() if portal is sync else asyncio.run(in_asyncio())
    assert result.local_state is sync.TransactionState.COMMIT
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM orders")).all() == [(1,)]
    engine.dispose()
