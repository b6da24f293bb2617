"""The messages of a file of a compaction log. [dumpCompactionLog]"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pyrmq.errors import ProtocolError
from pyrmq.model.record import ReceivedMessage, decode_record

MAX_RECORD = 64 << 20
"""Most bytes of a message that is read. RocketMQ's brokers take 4 MiB unless told otherwise."""


def messages_of(path: str | Path) -> Iterator[ReceivedMessage]:
    """The messages of a file in order, up to its end, to blanks, or to what is no message; bodies
    stay compressed. The file is only read. OSError; ProtocolError, which says where, for a file
    that goes on with what is no message."""
    with Path(path).open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        at = 0
        while at + 4 <= end:
            head = file.read(4)
            size = int.from_bytes(head, "big", signed=True)
            if size == 0:  # not written yet
                return
            if not 4 < size <= min(MAX_RECORD, end - at):
                raise ProtocolError(f"no message at byte {at}: {size} bytes cannot be one")
            record = head + file.read(size - 4)
            try:
                yield decode_record(record, inflate_body=False)
            except ProtocolError as e:
                raise ProtocolError(f"no message at byte {at}: {e}") from None
            at += size
