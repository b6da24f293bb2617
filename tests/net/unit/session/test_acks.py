"""Acks and changes of invisible time are answered by the session, where they are plain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Listener, Pops, Session, Store
from pyrmq.net.clock import now_ms
from tests.net.unit.session.exchange import new_session
from tests.support.wire import Command, FrameReader, encode

ACK, CHANGE = 200051, 200053
NOW = 1_000_000
"""The clock of the loop, which is not that of handles."""
Setup = tuple[Store, Pops, Session]


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    store = Store(tmp_path, commit_log_file_size=1 << 20, consume_queue_file_size=2000)
    try:
        store.set_topic("T", read_queues=2, write_queues=2)
        for n in range(5):
            store.put("T", 0, b"%d" % n)
        pops = Pops(store.native, cluster="C", broker_name="b")
        yield store, pops, new_session(Listener(store.native, pops=pops.native))
    finally:
        store.close()


def command(code: int, offset: int, pop_time: int, **more: str) -> Command:
    handle = f"0 {pop_time} 60000 3 0 b 0 {offset}"
    place = {"topic": "T", "consumerGroup": "G", "queueId": "0", "offset": str(offset)}
    return Command(code, {**place, "extraInfo": handle, **more})


def feed(session: Session, *commands: Command) -> list[Command]:
    frames = b"".join(encode(one) for one in commands)
    return FrameReader().feed(session.feed_bytes(frames, NOW) or b"")


def popped(pops: Pops) -> int:
    """Pops three messages now; returns when."""
    time = now_ms()
    assert pops.pop("T", 0, "G", 0, 3, pop_time=time, invisible_time=60_000, revive_queue=3)
    return time


def tags(store: Store) -> list[str]:
    found = store.get("rmq_sys_wheel_timer", 0, 0)
    return [
        tag
        for part in found.slices
        for tag in ("ck", "ack", "bAck")
        for _ in range(bytes(part).count(b"TAGS\x01" + tag.encode() + b"\x02"))
    ]


def test_acks_that_come_together_are_one_record(setup: Setup) -> None:
    store, pops, session = setup
    time = popped(pops)
    answers = feed(session, *(command(ACK, n, time) for n in range(3)))
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert session.next_command() is None
    assert tags(store) == ["ck", "bAck"]


def test_a_change(setup: Setup) -> None:
    store, pops, session = setup
    time = popped(pops)
    (answer,) = feed(session, command(CHANGE, 1, time, invisibleTime="5000"))
    assert (answer.code, answer.ext["invisibleTime"], answer.ext["reviveQid"]) == (0, "5000", "3")
    assert time < int(answer.ext["popTime"]) <= max(now_ms(), time + 1)
    assert session.next_command() is None
    # The new handle is as good.
    handle = f"1 {answer.ext['popTime']} 5000 3 0 b 0 1"
    (answer,) = feed(session, command(ACK, 1, 0, extraInfo=handle))
    assert answer.code == 0
    assert tags(store) == ["ck", "ck", "ack", "ack"]


def test_what_is_to_be_refused_is_a_command(setup: Setup) -> None:
    store, pops, session = setup
    time = popped(pops)
    for wrong in (
        command(ACK, 1, time + 3_600_000),
        command(ACK, 6, time),
        command(ACK, 1, time, topic="Other"),
        command(CHANGE, 1, time, invisibleTime="-1"),
    ):
        assert feed(session, wrong) == []
        assert session.next_command() is not None
    assert tags(store) == ["ck"]


def test_all_are_commands_where_python_wants_them(setup: Setup) -> None:
    _, pops, session = setup
    time = popped(pops)
    for answers in (False, True):
        pops.answer_acks(answers)
        assert len(feed(session, command(ACK, 1, time))) == answers
        assert (session.next_command() is None) == answers
