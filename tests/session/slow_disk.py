"""Sends to a store whose disk does not flush in time, in a process with the held calls preloaded.

Arguments: an empty folder, how headers are written (a serialize type). See test_sync_flush.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.inject.calls import HELD, FailingCalls, Fault
from tests.session.exchange import new_session, serving
from tests.support.client import send_command
from tests.support.waiting import eventually
from tests.support.wire import FrameReader, encode

FLUSH_DISK_TIMEOUT = 10
NOW = 1_000_000
COUNT = 20


def main(root: Path, serialize: int) -> None:
    calls = FailingCalls()
    with serving(root, sync_flush=True) as (store, listener):
        calls.arm(root, Fault("msync", "commitlog/*", 1, mode=HELD))
        session = new_session(listener)
        for opaque in range(COUNT):
            command = send_command("T", b"%d" % opaque, serialize=serialize)
            command.opaque = opaque
            assert session.feed_bytes(encode(command), NOW) is None
        eventually(lambda: calls.fired, "the flush waits for the disk")
        assert session.release(NOW + 4999, 5000) is None
        assert session.unconfirmed == COUNT
        late = FrameReader().feed(session.release(NOW + 5000, 5000) or b"")
        assert session.unconfirmed == 0
        assert [(a.opaque, a.code) for a in late] == [
            (opaque, FLUSH_DISK_TIMEOUT) for opaque in range(COUNT)
        ]
        for answer in late:
            assert answer.serialize == serialize
            assert answer.is_response
            assert answer.ext["queueOffset"] == str(answer.opaque)
            assert len(answer.ext["msgId"]) == 32
            assert answer.ext["TRACE_ON"] == "true"
        assert store.queue_range("T", 0) == (0, 0), "not on disk, so nobody sees it"
        calls.disarm()
        what = "stored they are, only later"
        eventually(lambda: store.queue_range("T", 0), what, until=lambda seen: seen == (0, COUNT))
    print(f"{len(late)} answers timed out")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
