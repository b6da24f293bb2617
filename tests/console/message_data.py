"""What the tests of the rooms of messages send: bodies that try something, and messages that wait.

bodies      one message of each BODIES, with its name as key; a bomb, compressed as each type
letters     dead letters of the group GROUP: from topic orders, and one that names no topic
waiting     a delayed message, a timer message, and a transaction that nobody decides
"""

from __future__ import annotations

import json
import zlib

from pyrmq.admin import Admin
from pyrmq.client import Producer, TransactionalProducer
from pyrmq.model.codes import RequestCode
from pyrmq.model.compression import CompressionType, compress
from pyrmq.model.message import Message
from pyrmq.model.names import DLQ_PREFIX
from pyrmq.model.properties import KEYS, encode_properties
from pyrmq.model.transaction import TransactionState
from pyrmq.net.client.requests import queue_fields, send_fields
from tests.support.dead_letters import die, make_group
from tests.support.dead_letters import send_all as deliver

SCRIPT = "<script>alert(1)</script>"
GROUP = "letters-group"
LETTERS = 3
UNDECIDED = "txn-producers"
BOMB = b"\x00" * (16 << 20)
"""It is 16 KiB when it is compressed with zlib."""
PROPERTIES = {f"p{i}": "v" for i in range(4000)}
BODIES: dict[str, bytes] = {
    "html": f"<h1>{SCRIPT}</h1>".encode(),
    "json": b'{"a": 1.0000000000000000000001, "a": [1e400, {}], "b": "<img src=x>\\u202e"}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "nested": b"[" * 150 + b"]" * 150,
    "latin": "Größe".encode("latin-1"),
    "controls": b"\x1b[2J\x07\x00bell" * 20,
    "bidi": "user\u202egnp.exe \u2066x\u2069".encode(),
    "lines": b"one\r\ntwo\n\tthree",
    "large": (b"0123456789abcdef" * 64 + b"\n") * 3900,
}


async def send_bodies(namesrv: str) -> None:
    async with Producer("bodies-producers", namesrv=namesrv, compress_over=1 << 30) as producer:
        for name, body in BODIES.items():
            await producer.send(Message("bodies", body, keys=name, tags="odd"))
        await producer.send(Message("bodies", b"many", keys="many", properties=PROPERTIES))
        note = {"note": SCRIPT, "\u202ename": "\u202evalue"}
        await producer.send(Message("bodies", b"properties", keys="hostile", properties=note))


async def send_packed(admin: Admin, broker: str) -> None:
    """The bomb in each compression, one that is damaged, and one of a type that there is not."""
    for kind in CompressionType:
        await _put(admin, broker, compress(BOMB, kind, 9), kind.sys_flag, f"bomb-{kind}")
    zlib_flag = CompressionType.ZLIB.sys_flag
    await _put(admin, broker, zlib.compress(b"x" * 9999)[:20], zlib_flag, "cut")
    await _put(admin, broker, b"not packed", zlib_flag, "damaged")
    await _put(admin, broker, b"unknown", 0x701, "unknown")


async def _put(admin: Admin, broker: str, body: bytes, sys_flag: int, key: str) -> None:
    """A message as it is, which a producer would refuse to send."""
    fields = send_fields(
        "bodies-producers", "bodies", encode_properties({KEYS: key}), flag=0, sys_flag=sys_flag
    )
    ext = fields | queue_fields(0, "broker-a")
    await admin.link.ask(broker, RequestCode.SEND_MESSAGE_V2, ext, body)


async def send_letters(admin: Admin, namesrv: str, broker: str) -> None:
    """Three dead letters that came from topic orders, and one that names no topic."""
    await make_group(admin, namesrv, GROUP, broker)
    sent = await deliver(
        namesrv,
        *(
            Message("orders", json.dumps({"order": i, "note": SCRIPT}).encode(), keys=f"letter-{i}")
            for i in range(LETTERS)
        ),
    )
    await die(admin, GROUP, broker, *sent)
    await deliver(namesrv, Message(DLQ_PREFIX + GROUP, b"\xff\xfe", keys="nameless"))


async def send_waiting(namesrv: str) -> None:
    async with Producer("waiting-producers", namesrv=namesrv) as producer:
        await producer.send(Message("later", b"level", keys="level", delay_time_level=17))
        await producer.send(Message("later", b"timer", keys="timer", delay=3600))
    async with TransactionalProducer(UNDECIDED, _Undecided(), namesrv=namesrv) as producer:
        for i in range(2):
            await producer.send_in_transaction(Message("txn", b"half", keys=f"half-{i}"))


class _Undecided:
    async def execute_local_transaction(
        self, message: object, argument: object
    ) -> TransactionState:
        return TransactionState.UNKNOWN

    async def check_local_transaction(self, message: object) -> TransactionState:
        return TransactionState.UNKNOWN


async def send_all(namesrv: str) -> None:
    """All of it."""
    await send_bodies(namesrv)
    await send_waiting(namesrv)
    async with Admin(namesrv) as admin:
        (master,) = await admin.link.masters(default_all=True)
        await send_packed(admin, master.address)
        await send_letters(admin, namesrv, master.address)
