"""SYNC_FLUSH: answers wait for the disk, come in order, and say when the disk was too slow."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Listener, Session, Store
from tests.net.unit.session.exchange import new_session, serving
from tests.store.tools import FOUND
from tests.support.client import SEND_MESSAGE, batch_command, send_command
from tests.support.waiting import eventually
from tests.support.wire import BINARY, JSON, Command, FrameReader, encode
from tests.system.faults.inject.calls import build

NOW = 1_000_000


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[tuple[Store, Listener]]:
    with serving(tmp_path, sync_flush=True, commit_log_file_size=64 << 20) as both:
        yield both


@pytest.fixture(scope="module")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library to be preloaded that holds up the flush of a file."""
    library = build(tmp_path_factory.mktemp("library"))
    if library is None:
        pytest.skip("no C compiler")
    return library


def send(opaque: int, body: bytes = b"b", *, serialize: int = JSON, **options: object) -> bytes:
    command = send_command("T", body, serialize=serialize, **options)
    command.opaque = opaque
    return encode(command)


def answers(raw: bytes | None) -> list[Command]:
    return FrameReader().feed(raw or b"")


def release_all(store: Store, session: Session) -> list[Command]:
    """Waits for the event of the flush and takes what it settles, until no answer waits."""
    found: list[Command] = []

    def look() -> int:
        found.extend(answers(session.release(NOW, 60_000)))
        if session.unconfirmed:
            select.select([store.event_fd()], [], [], 0.05)
        return session.unconfirmed

    eventually(look, "no answer is held", until=lambda held: held == 0)
    return found


def await_end(store: Store, end: int) -> None:
    """Until queue 0 has so many messages that consumers see."""
    what = f"{end} messages are seen"
    eventually(lambda: store.queue_range("T", 0), what, until=lambda seen: seen == (0, end))


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_answers_are_unconfirmed_until_the_flush(serve: tuple[Store, Listener], serialize: int):
    store, listener = serve
    session = new_session(listener)
    frames = [send(n, serialize=serialize) for n in range(5)]
    frames.append(send(5, code=SEND_MESSAGE, serialize=serialize))
    batch = batch_command("T", [(b"a", {}), (b"c", {})], serialize=serialize)
    batch.opaque = 6
    assert session.feed_bytes(b"".join([*frames, encode(batch)]), NOW) is None
    assert session.unconfirmed == 7
    found = release_all(store, session)
    assert [(a.opaque, a.code) for a in found] == [(n, 0) for n in range(7)]
    assert [a.ext["queueOffset"] for a in found] == [str(n) for n in range(7)]
    assert store.stats()["flushedWhere"] == store.stats()["maxPhyOffset"] == store.flushed()
    assert store.confirmed() == store.flushed()
    result = store.get("T", 0, 0)
    assert (result.status, result.count) == (FOUND, 8)
    assert session.release(NOW, 60_000) is None


def test_the_event_reports_a_flush(serve: tuple[Store, Listener]):
    store, listener = serve
    session = new_session(listener)
    session.feed_bytes(send(1), NOW)
    ready, _, _ = select.select([store.event_fd()], [], [], 10)
    assert ready
    assert [a.code for a in answers(session.release(NOW, 60_000))] == [0]


def test_what_need_not_wait_does_not(serve: tuple[Store, Listener]):
    """WAIT=false, refusals and one-way sends; the first is answered before the others' flush."""
    store, listener = serve
    session = new_session(listener)
    oneway = send_command("T", b"o")
    oneway.flag |= 2
    stream = send(1) + send(2, properties={"WAIT": "false"}) + encode(oneway)
    stream += send(3, queue_id=77) + send(4)
    found = answers(session.feed_bytes(stream, NOW))
    assert [(a.opaque, a.code) for a in found] == [(2, 0), (3, 29)]
    assert session.unconfirmed == 2
    assert [a.opaque for a in release_all(store, session)] == [1, 4]
    assert store.queue_range("T", 0) == (0, 4)


@pytest.mark.parametrize("properties", [{"WAIT": "false"}, {}])
def test_sends_that_nobody_waits_for_are_flushed_at_once(
    tmp_path: Path, properties: dict[str, str]
):
    """Not at the next interval: consumers see only what is flushed."""
    with serving(tmp_path, sync_flush=True, flush_interval_commit_log=60_000) as (store, listener):
        command = send_command("T", b"b", properties=properties)
        command.flag |= 0 if properties else 2
        new_session(listener).feed_bytes(encode(command), NOW)
        await_end(store, 1)


def test_with_async_flush_nothing_is_unconfirmed(tmp_path: Path):
    """Nor is anything hidden: all of the log is confirmed."""
    with serving(tmp_path, flush_interval_commit_log=60_000) as (store, listener):
        session = new_session(listener)
        assert [a.code for a in answers(session.feed_bytes(send(1), NOW))] == [0]
        assert session.unconfirmed == 0
        assert session.release(NOW, 0) is None
        assert store.confirmed() == store.stats()["maxPhyOffset"] > 0
        assert store.queue_range("T", 0) == (0, 1)


def test_what_is_not_flushed_is_not_shown(serve: tuple[Store, Listener]):
    store, listener = serve
    session = new_session(listener)
    for round_ in range(20):
        session.feed_bytes(send(round_, bytes(200_000)), NOW)
        before = store.flushed()
        result = store.get("T", 0, round_, 1)
        if result.status == FOUND:
            assert store.flushed() == store.stats()["maxPhyOffset"]
        else:
            assert result.max_offset <= round_
        assert store.flushed() >= before
        release_all(store, session)
        assert store.get("T", 0, round_, 1).status == FOUND


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_disk_that_is_too_slow(slow_disk: Path, tmp_path: Path, serialize: int):
    """Its flush takes until the answers have timed out; see slow_disk.py."""
    command = [
        sys.executable,
        "-m",
        "tests.net.unit.session.slow_disk",
        str(tmp_path),
        str(serialize),
    ]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[4],
        env={**os.environ, "LD_PRELOAD": str(slow_disk)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "20 answers timed out\n"), done.stderr


def test_unconfirmed_answers_of_many_sessions(serve: tuple[Store, Listener]):
    store, listener = serve
    sessions = [new_session(listener) for _ in range(20)]
    for n, session in enumerate(sessions):
        assert session.feed_bytes(send(n) + send(n + 100), NOW) is None
    for n, session in enumerate(sessions):
        assert [a.opaque for a in release_all(store, session)] == [n, n + 100]
    assert store.queue_range("T", 0) == (0, 40)


def test_a_session_that_goes_leaves_its_messages(serve: tuple[Store, Listener]):
    store, listener = serve
    session = new_session(listener)
    session.feed_bytes(send(1), NOW)
    del session
    await_end(store, 1)


def test_garbage_behind_an_unconfirmed_send(serve: tuple[Store, Listener]):
    store, listener = serve
    session = new_session(listener)
    assert session.feed_bytes(send(1) + bytes(8), NOW) is None
    assert session.error
    assert session.unconfirmed == 1
    assert [a.code for a in release_all(store, session)] == [0]
