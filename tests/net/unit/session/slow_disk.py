"""Sends to a store whose disk does not flush in time, in a process with the held calls preloaded.

Arguments: an empty folder, how headers are written (a serialize type). See test_sync_flush.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyrmq.engine import Listener, Session
from pyrmq.net.command import Response, encode_response
from tests.net.unit.session.exchange import new_session, serving
from tests.support.client import send_command
from tests.support.waiting import eventually
from tests.support.wire import Command, FrameReader, encode
from tests.system.faults.inject.calls import HELD, FailingCalls, Fault

FLUSH_DISK_TIMEOUT = 10
NOW = 1_000_000
COUNT = 20


def processor_answer(serialize: int) -> bytes:
    """The answer of a processor in Python, to request number COUNT."""
    asking = Session(Listener(), b"\x7f\0\0\1", 1)
    asking.feed_bytes(encode(Command(code=1, opaque=COUNT, serialize=serialize)), 0)
    command = asking.next_command()
    assert command is not None
    return b"".join(encode_response(command, Response(ext={"n": 1}, body=b"body")))


def fill(session: Session, answer: bytes, serialize: int, end: int) -> None:
    """A connection is not read on when too many answers, or bytes of them, wait."""
    for n in range(4096):
        assert (session.unconfirmed, session.full) == (n, False)
        session.answer(answer, serialize, COUNT, end, NOW)
    assert (session.unconfirmed, session.full) == (4096, True)
    session.release(NOW + 5000, 5000)
    assert (session.unconfirmed, session.full) == (0, False)
    session.answer(bytes(5 << 20), serialize, COUNT, end, NOW)
    assert (session.unconfirmed, session.full) == (1, True)


def main(root: Path, serialize: int) -> None:
    calls = FailingCalls()
    with serving(root, sync_flush=True) as (store, listener):
        calls.arm(root, Fault("fdatasync", "commitlog/*", 1, mode=HELD))
        session = new_session(listener)
        for opaque in range(COUNT):
            command = send_command("T", b"%d" % opaque, serialize=serialize)
            command.opaque = opaque
            assert session.feed_bytes(encode(command), NOW) is None
        eventually(lambda: calls.fired, "the flush waits for the disk")
        own = processor_answer(serialize)
        end = store.stats()["maxPhyOffset"]
        assert session.answer(own, serialize, COUNT, end, NOW) is None, "behind those of the sends"
        assert session.answer(own, serialize, COUNT, 0, NOW) == own, "it waits for nothing"
        assert session.release(NOW + 4999, 5000) is None
        assert session.unconfirmed == COUNT + 1
        *late, last = FrameReader().feed(session.release(NOW + 5000, 5000) or b"")
        assert session.unconfirmed == 0
        assert [(a.opaque, a.code) for a in late] == [
            (opaque, FLUSH_DISK_TIMEOUT) for opaque in range(COUNT)
        ]
        assert (last.opaque, last.code, last.serialize) == (COUNT, FLUSH_DISK_TIMEOUT, serialize)
        assert (last.ext, last.body) == ({"n": "1"}, b"body")
        for answer in late:
            assert answer.serialize == serialize
            assert answer.is_response
            assert answer.ext["queueOffset"] == str(answer.opaque)
            assert len(answer.ext["msgId"]) == 32
            assert answer.ext["TRACE_ON"] == "true"
        assert store.queue_range("T", 0) == (0, 0), "not on disk, so nobody sees it"
        fill(session, own, serialize, end)
        calls.disarm()
        what = "stored they are, only later"
        eventually(lambda: store.queue_range("T", 0), what, until=lambda seen: seen == (0, COUNT))
    print(f"{len(late)} answers timed out")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
