"""Bounds of a session: commands of one feed, memory of unfinished frames, resent sends."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from pyrmq.engine import Listener, RecvBuffer, Session
from tests.net.unit.session.exchange import BORN, new_session, serving
from tests.support.client import SEND_MESSAGE, batch_command, send_command
from tests.support.wire import BINARY, JSON, Command, decode, encode

KIB = 1024


def large_frame(size: int) -> bytes:
    return encode(Command(11, {}, bytes(size)))


@pytest.mark.parametrize("count", [63, 64, 65, 128, 129, 1000])
def test_at_most_64_commands_of_one_feed(count: int):
    session = new_session(Listener())
    stream = b"".join(encode(Command(34, {"n": str(n)}, opaque=n)) for n in range(count))
    found: list[int] = []
    assert session.feed_bytes(stream, BORN) is None
    while True:
        left = count - len(found)
        assert session.commands == min(left, 64)
        assert session.more == (left > 64)
        while (command := session.next_command()) is not None:
            found.append(command.opaque)
        if not session.more:
            break
        session.feed_bytes(b"", BORN)
    assert found == list(range(count))


def test_more_data_while_commands_wait():
    """Nothing is lost or reordered when a feed comes before the commands were taken."""
    session = new_session(Listener())
    frames = [encode(Command(34, {}, bytes(n % 7), opaque=n)) for n in range(300)]
    found: list[int] = []
    for n in range(0, 300, 50):
        session.feed_bytes(b"".join(frames[n : n + 50]), BORN)
        assert session.commands <= 64
        command = session.next_command()
        assert command is not None
        found.append(command.opaque)
    while session.commands or session.more:
        while (command := session.next_command()) is not None:
            found.append(command.opaque)
        session.feed_bytes(b"", BORN)
    assert found == list(range(300))


def test_sends_do_not_count(tmp_path: Path):
    with serving(tmp_path) as (store, listener):
        session = new_session(listener)
        session.feed_bytes(encode(send_command("T", b"b")) * 500, BORN)
        assert (session.commands, session.more) == (0, False)
        assert store.queue_range("T", 0) == (0, 500)


def test_order_of_sends_behind_the_bound(tmp_path: Path):
    """A send behind the 64th command is stored only once the commands before it were taken."""
    with serving(tmp_path) as (store, listener):
        session = new_session(listener)
        stream = encode(Command(34)) * 64 + encode(send_command("T", b"b"))
        assert session.feed_bytes(stream, BORN) is None
        assert session.more
        assert store.queue_range("T", 0) == (0, 0)
        while session.next_command() is not None:
            pass
        assert session.feed_bytes(b"", BORN) is not None
        assert store.queue_range("T", 0) == (0, 1)


def test_without_a_store_every_frame_is_a_command():
    session = new_session(Listener())
    frame = encode(send_command("T", b"body", code=SEND_MESSAGE))
    answer = encode(Command(0, {"a": "b"}, flag=1, opaque=9, remark="r", serialize=BINARY))
    assert session.feed_bytes(frame + answer, BORN) is None
    first, second = session.next_command(), session.next_command()
    assert first is not None
    assert second is not None
    assert (first.code, first.frame, first.ext["topic"]) == (10, frame, "T")
    assert (second.is_response, second.ext, second.remark) == (True, {"a": "b"}, "r")
    assert (second.codec, second.frame) == (BINARY, None)


# -- memory of unfinished frames ------------------------------------------------------------------


def test_unfinished_frames_are_counted_and_given_back():
    listener = Listener()
    frame = large_frame(300 * KIB)
    sessions = [new_session(listener) for _ in range(4)]
    for session in sessions:
        session.feed_bytes(frame[: 200 * KIB], BORN)
        assert session.error is None
    assert 800 * KIB <= listener.partial_bytes() < 2000 * KIB
    sessions[0].feed_bytes(frame[200 * KIB :], BORN)
    assert sessions[0].commands == 1
    assert listener.partial_bytes() < 1500 * KIB
    del session, sessions
    gc.collect()
    assert listener.partial_bytes() == 0


def test_beyond_the_limit_a_large_frame_costs_its_connection():
    listener = Listener(partial_limit=1000 * KIB)
    frame = large_frame(300 * KIB)
    sessions: list[Session] = []
    for _ in range(20):
        sessions.append(new_session(listener))
        sessions[-1].feed_bytes(frame[: 200 * KIB], BORN)
        if sessions[-1].error:
            break
    assert 3 <= len(sessions) <= 6
    assert "too much memory" in str(sessions[-1].error)
    assert not any(session.error for session in sessions[:-1])
    small = new_session(listener)
    small.feed_bytes(large_frame(10)[:15], BORN)
    assert small.error is None, "a small unfinished frame is nobody's problem"
    sessions.pop()
    gc.collect()
    sessions[0].feed_bytes(frame[200 * KIB :], BORN)
    assert (sessions[0].commands, sessions[0].error) == (1, None)


def test_the_limit_holds_for_frames_received_into_the_space():
    listener = Listener(partial_limit=1000 * KIB)
    frame = large_frame(8000 * KIB)
    session, buffer = new_session(listener), RecvBuffer(64 * KIB)
    session.feed_bytes(frame[: 100 * KIB], BORN)
    at = 100 * KIB
    while session.error is None:
        assert session.large
        assert at < 2000 * KIB
        place = session.space()
        assert place is not None
        memoryview(place)[:] = frame[at : at + len(place)]
        at += len(place)
        session.filled(len(place))
        session.feed(buffer, 0, BORN)
    assert listener.partial_bytes() < 4000 * KIB


def test_a_stated_length_takes_no_memory():
    """16 MiB announced by each of many: what counts is what arrived."""
    listener = Listener()
    sessions = [new_session(listener) for _ in range(200)]
    for session in sessions:
        session.feed_bytes((16 * KIB * KIB - 4).to_bytes(4, "big") + bytes(100), BORN)
        assert session.error is None
        assert session.large
        assert session.space() is not None
        session.filled(0)
        session.feed_bytes(b"", BORN)
    assert listener.partial_bytes() <= 200 * 600 * KIB


def test_space_is_for_large_frames_only():
    session = new_session(Listener())
    assert session.space() is None
    frame = large_frame(60 * KIB)
    session.feed_bytes(frame[:100], BORN)
    assert not session.large
    assert session.space() is None
    session.feed_bytes(frame[100:], BORN)
    assert session.commands == 1


def test_feed_takes_no_more_than_the_buffer():
    session, buffer = new_session(Listener()), RecvBuffer(10)
    for n in (-1, 11):
        with pytest.raises(ValueError, match="beyond the buffer"):
            session.feed(buffer, n, BORN)
    assert session.feed(buffer, 0, BORN) is None


@pytest.mark.parametrize("ip", [b"", b"123", b"12345", bytes(17)])
def test_an_address_has_4_or_16_bytes(ip: bytes):
    with pytest.raises(ValueError, match="4 or 16"):
        Session(Listener(), ip, 1)


# -- sends that the broker looked at --------------------------------------------------------------


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize("batch", [False, True])
def test_a_send_to_a_topic_that_is_made_meanwhile(tmp_path: Path, serialize: int, batch: bool):
    with serving(tmp_path) as (store, listener):
        session = new_session(listener)
        command = send_command("New", b"b", serialize=serialize)
        if batch:
            command = batch_command("New", [(b"a", {}), (b"b", {})], serialize=serialize)
        command.opaque = 77
        assert session.feed_bytes(encode(command), BORN) is None
        handed = session.next_command()
        assert handed is not None
        assert handed.frame == encode(command)
        refused = session.resend(handed.frame, BORN)
        assert refused is not None
        assert (decode(refused).code, decode(refused).opaque) == (17, 77)
        store.set_topic("New", read_queues=1, write_queues=1)
        stored = session.resend(handed.frame, BORN)
        assert stored is not None
        assert (decode(stored).code, decode(stored).opaque) == (0, 77)
        assert store.queue_range("New", 0) == (0, 1 + batch)
        store.forget_topic("New")
        session.feed_bytes(encode(command), BORN)
        assert session.commands == 1


def test_arrivals_are_reported_to_the_session_that_brought_them(tmp_path: Path):
    with serving(tmp_path) as (store, listener):
        session = new_session(listener)
        store.notify_on_arrival("T", 2)
        session.feed_bytes(encode(send_command("T", b"b", queue_id=1)), BORN)
        assert (session.arrivals, store.drain_arrivals()) == (False, [])
        session.feed_bytes(encode(send_command("T", b"b", queue_id=2)) * 3, BORN)
        assert (session.arrivals, store.drain_arrivals()) == (True, [("T", 2)])
        session.feed_bytes(encode(send_command("T", b"b", queue_id=2)), BORN)
        assert (session.arrivals, store.drain_arrivals()) == (False, [])
