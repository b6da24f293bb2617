"""Reading messages as they are stored: records that nobody can read hide no others."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from pyrmq.console.messages import stored
from pyrmq.errors import BrokerMissingError, ClientError, NotFoundError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.compression import CompressionType
from pyrmq.model.message import MessageQueue
from pyrmq.model.record import INNER_BATCH
from tests.support.records import MAGIC_V1, Record, encode_record

QUEUE = MessageQueue("t", "a", 0)


def record(offset: int, body: bytes, sys_flag: int = 0) -> bytes:
    host = ("127.0.0.1", 10911)
    return encode_record(
        Record(0, MAGIC_V1, 0, 0, 0, offset, offset * 1000, sys_flag, 1, host, 2, host, 0, 0, body,
               "t", b"")
    )  # fmt: skip


def admin(*records: bytes) -> Any:
    """An Admin whose broker answers every pull with these records."""
    ext = {"nextBeginOffset": "9", "minOffset": "0", "maxOffset": "9"}
    answer: Any = SimpleNamespace(
        code=ResponseCode.SUCCESS, remark="", ext=ext, body=b"".join(records)
    )

    async def call(*_: Any, **__: Any) -> Any:
        return answer

    async def route(topic: str) -> Any:
        return SimpleNamespace(address_of=lambda name: "a:1" if name == "a" else None)

    async def broker_named(name: str) -> Any:
        if name == "gone":
            raise BrokerMissingError(f"{name} is missing")

    return SimpleNamespace(
        link=SimpleNamespace(
            call=call, route=route, broker_named=broker_named, patience=lambda usual: usual
        )
    )


async def test_a_damaged_batch_hides_no_other_message() -> None:
    packed = zlib.compress(b"no batch")
    flags = CompressionType.ZLIB.sys_flag
    there = admin(
        record(0, b"first"),
        record(1, b"no batch", INNER_BATCH),
        record(2, packed, INNER_BATCH | flags),
        record(3, packed, flags),
    )
    found = await stored.pull(there, "a:1", QUEUE, 0, 32)
    assert [(m.queue_offset, m.body) for m in found.messages] == [
        (0, b"first"), (2, packed), (3, packed),
    ]  # fmt: skip
    (why,) = found.damaged
    assert "inner batch" in why
    with pytest.raises(ClientError, match="offset 1 cannot be read"):
        await stored.at(there, QUEUE, 1)
    assert (await stored.at(there, QUEUE, 2)).body == packed


async def test_what_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="no message at offset 7"):
        await stored.at(admin(record(0, b"x")), QUEUE, 7)
    with pytest.raises(ClientError, match="not on broker b"):
        await stored.at(admin(), MessageQueue("t", "b", 0), 0)
    with pytest.raises(BrokerMissingError, match="gone is missing"):
        await stored.at(admin(), MessageQueue("t", "gone", 0), 0)
