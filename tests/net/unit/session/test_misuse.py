"""What Python code may do wrong with sessions and stores is an error, no access to freed memory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pyrmq.engine import Listener, RecvBuffer, Session, Store
from pyrmq.errors import EngineError
from tests.net.unit.session.exchange import new_session, serving
from tests.support.client import send_command
from tests.support.wire import encode

NOW = 1_000_000
LARGE = encode(send_command("T", bytes(1 << 20)))
PIECE = 100_000


def begun(listener: Listener) -> Session:
    session = new_session(listener)
    session.feed_bytes(LARGE[:PIECE], NOW)
    assert session.large
    return session


def test_a_space_ends_with_filled(tmp_path: Path):
    with serving(tmp_path) as (_, listener):
        session = begun(listener)
        place = session.space()
        assert place is not None
        room = len(place)
        view = memoryview(place)
        view[:7] = LARGE[PIECE : PIECE + 7]
        part = view[3:]
        view.release()
        with pytest.raises(BufferError, match="still holds"):
            session.filled(7)
        part.release()
        session.filled(7)
        assert (room > 0, len(place)) == (True, 0)
        with pytest.raises(BufferError, match="ask the session"):
            memoryview(place)
        rest = LARGE[PIECE + 7 :]
        assert session.feed_bytes(rest, NOW) is not None, "nothing was lost"


def test_nothing_else_while_a_space_is_out(tmp_path: Path):
    with serving(tmp_path) as (_, listener):
        session = begun(listener)
        assert session.space() is not None
        for call in (
            session.space,
            lambda: session.feed_bytes(b"x", NOW),
            lambda: session.feed(RecvBuffer(16), 1, NOW),
            lambda: session.receive(0, RecvBuffer(16), NOW),
            lambda: session.release(NOW, 5000),
            lambda: session.resend(LARGE, NOW),
        ):
            with pytest.raises(RuntimeError, match="filled"):
                call()
        session.filled(0)
        assert session.feed_bytes(LARGE[PIECE:], NOW) is not None


def test_a_space_outlives_its_session(tmp_path: Path):
    with serving(tmp_path) as (_, listener):
        view = memoryview(begun(listener).space() or b"")
        view[:] = bytes(len(view))


def test_filled_without_a_space_changes_nothing(tmp_path: Path):
    with serving(tmp_path) as (_, listener):
        session = begun(listener)
        session.filled(1000)
        session.filled(-1)
        assert session.feed_bytes(LARGE[PIECE:], NOW) is not None


def test_one_thread_at_a_time(tmp_path: Path):
    """Feeds of large batches by many threads: every call is carried out or refused."""
    with serving(tmp_path, commit_log_file_size=64 << 20) as (store, listener):
        session = new_session(listener)
        stream = b"".join(encode(send_command("T", bytes(1000))) for _ in range(200))
        fed: list[int] = []
        refused: list[str] = []

        def feed() -> None:
            for _ in range(50):
                try:
                    session.feed_bytes(stream, NOW)
                    fed.append(1)
                except RuntimeError as error:
                    refused.append(str(error))

        threads = [threading.Thread(target=feed) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(fed) + len(refused) == 200
        assert all("one thread" in text for text in refused)
        assert store.queue_range("T", 0) == (0, 200 * len(fed))


def test_a_session_that_was_never_initialised():
    session = Session.__new__(Session)
    numbers = (session.commands, session.unconfirmed, session.active)
    flags = (session.full, session.more, session.arrivals, session.large, session.heavy)
    assert numbers == (0, 0, 0.0)
    assert flags == (False,) * 5
    with pytest.raises(EngineError):
        session.feed_bytes(b"x", NOW)


def test_a_store_is_initialised_once(tmp_path: Path):
    store = Store(tmp_path / "a")
    try:
        with pytest.raises(RuntimeError, match="once"):
            store.__init__(tmp_path / "b")  # type: ignore[misc]
        assert store.queue_range("T", 0) == (0, 0)
        assert not (tmp_path / "b").exists()
    finally:
        store.close()
