"""Half messages and END_TRANSACTION on the wire, as producers send them.

Field names: EndTransactionRequestHeader, CheckTransactionStateRequestHeader.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from tests.support.client import HEART_BEAT, Client, send_command
from tests.support.records import Record, decode_records
from tests.support.wire import JSON, Command

END_TRANSACTION = 37
CHECK_TRANSACTION_STATE = 39
RESUME_CHECK_HALF_MESSAGE = 323
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
OVERFLOW_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"

_keys = count()


@dataclass(frozen=True, slots=True)
class Half:
    """A stored half as its producer knows it."""

    group: str
    unique_key: str
    queue_id: int
    queue_offset: int
    phys: int
    offset_msg_id: str
    transaction_id: str


def half_command(
    topic: str,
    body: bytes = b"half",
    *,
    group: str = "PG_tx",
    key: str | None = None,
    properties: Mapping[str, str] | None = None,
    **options: object,
) -> Command:
    """SEND_MESSAGE_V2 of a half message; `key` is its UNIQ_KEY."""
    known = {"UNIQ_KEY": key or new_key(), "TRAN_MSG": "true", "PGROUP": group, "WAIT": "true"}
    change = {"a": group, "f": "4", **options.pop("change", {})}  # type: ignore[dict-item]
    return send_command(
        topic, body, properties={**known, **(properties or {})}, change=change, **options
    )


def new_key() -> str:
    return f"7F0000010001{time.time_ns() & 0xFFFFFFFFFFFF:012X}{next(_keys):08X}"


def stored_half(command: Command, answer: Command) -> Half:
    """What a producer makes of the answer to a half."""
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    properties = dict(
        pair.split("\x01", 1) for pair in command.ext["i"].split("\x02") if "\x01" in pair
    )
    offset_msg_id = answer.ext["msgId"]
    return Half(
        group=command.ext["a"],
        unique_key=properties.get("UNIQ_KEY", ""),
        queue_id=int(answer.ext["queueId"]),
        queue_offset=int(answer.ext["queueOffset"]),
        phys=int(offset_msg_id[-16:], 16),
        offset_msg_id=offset_msg_id,
        transaction_id=answer.ext.get("transactionId", ""),
    )


def send_half(client: Client, topic: str, body: bytes = b"half", **options: object) -> Half:
    command = half_command(topic, body, **options)  # type: ignore[arg-type]
    return stored_half(command, client.request(command))


def end_command(
    half: Half,
    state: int,
    *,
    from_check: bool = False,
    serialize: int = JSON,
    change: Mapping[str, str | None] | None = None,
) -> Command:
    ext: dict[str, str | None] = {
        "producerGroup": half.group,
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.phys),
        "commitOrRollback": str(state),
        "fromTransactionCheck": "true" if from_check else "false",
        "msgId": half.unique_key,
        "transactionId": half.transaction_id,
    }
    ext |= change or {}
    present = {k: v for k, v in ext.items() if v is not None}
    return Command(END_TRANSACTION, present, serialize=serialize)


def end(client: Client, half: Half, state: int, **options: object) -> Command:
    """Settles a half and waits for the answer, which no client library does."""
    return client.request(end_command(half, state, **options))  # type: ignore[arg-type]


def join_group(client: Client, *groups: str, client_id: str = "tx@1") -> None:
    """Registers as a producer of groups."""
    data = {
        "clientID": client_id,
        "consumerDataSet": [],
        "producerDataSet": [{"groupName": group} for group in groups],
    }
    answer = client.call(HEART_BEAT, json.dumps(data).encode())
    assert answer.code == 0, answer.remark


def next_check(client: Client, timeout: float = 30.0) -> tuple[Half, Record]:
    """The next check-back on this connection: the half that it names, and the message in it."""
    deadline = time.monotonic() + timeout
    while True:
        for i, command in enumerate(client.pushed):
            if command.code == CHECK_TRANSACTION_STATE:
                del client.pushed[i]
                return _checked(command)
        if (left := deadline - time.monotonic()) <= 0:
            raise TimeoutError(f"no check-back within {timeout} s")
        client.wait_pushed(left)


def _checked(command: Command) -> tuple[Half, Record]:
    (record,) = decode_records(command.body)
    ext = command.ext
    assert ext["topic"] == HALF_TOPIC
    half = Half(
        group=record.properties["PGROUP"],
        unique_key=ext["msgId"],
        queue_id=record.queue_id,
        queue_offset=int(ext["tranStateTableOffset"]),
        phys=int(ext["commitLogOffset"]),
        offset_msg_id=ext["offsetMsgId"],
        transaction_id=ext["transactionId"],
    )
    assert int(half.offset_msg_id[-16:], 16) == half.phys
    return half, record


def delivered(client: Client, topic: str, queues: int = 4) -> list[Record]:
    """Everything that consumers of a topic get."""
    found: list[Record] = []
    for queue in range(queues):
        start, stop = client.min_offset(topic, queue), client.max_offset(topic, queue)
        found += client.pull_all(topic, queue, start, stop)
    return found


def op_offsets(client: Client) -> list[int]:
    """The halves that op records name, in order."""
    records = delivered(client, OP_TOPIC, 1)
    assert all(r.properties["TAGS"] == "d" for r in records)
    return [int(n) for r in records for n in r.body.decode().split(",") if n]
