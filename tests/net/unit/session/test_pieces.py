"""However a stream is cut into pieces, its session answers, hands over and stores the same."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.net.unit.session.exchange import BORN, Exchange, Outcome, exchanges, serving
from tests.support import scratch
from tests.support.client import batch_command, send_command
from tests.support.thorough import examples
from tests.support.wire import BINARY, JSON, Command, FrameReader, encode

GARBAGE = {
    "length 0": bytes(4),
    "negative length": b"\xff" * 8,
    "too long": (16_777_213).to_bytes(4, "big"),
    "serialize type": b"\0\0\0\x09\x02\0\0\x05hello",
    "header longer than the frame": b"\0\0\0\x09\0\0\0\x06hello",
    "no JSON": b"\0\0\0\x09\0\0\0\x05hello",
    "short binary header": b"\0\0\0\x09\x01\0\0\x05hello",
}
Feed = Callable[[Exchange], None]


def run(feed: Feed) -> Outcome:
    with (
        tempfile.TemporaryDirectory(dir=scratch.place()) as folder,
        serving(Path(folder)) as (store, listener),
    ):
        exchange = Exchange(store, listener)
        feed(exchange)
        return exchange.outcome()


def whole(stream: bytes) -> Outcome:
    return run(lambda exchange: exchange.feed(stream))


def cut(stream: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(ends)]


def in_pieces(pieces: Sequence[bytes]) -> Outcome:
    def feed(exchange: Exchange) -> None:
        for piece in pieces:
            exchange.feed(piece)

    return run(feed)


def as_server(pieces: Sequence[bytes]) -> Outcome:
    return run(lambda exchange: exchange.feed_as_server(pieces))


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    exchanges(),
    st.sampled_from([b"", b"", *GARBAGE.values()]),
    st.lists(st.integers(0, 1 << 20), max_size=20),
)
@example([encode(send_command("T", b"b", change={"g": str(BORN)}))], b"", [])
def test_whole_in_pieces_and_byte_by_byte(frames: list[bytes], garbage: bytes, places: list[int]):
    stream = b"".join(frames) + garbage
    expected = whole(stream)
    assert (expected.error is None) == (garbage == b"")
    assert in_pieces(frames + [garbage] * bool(garbage)) == expected
    assert in_pieces(cut(stream, places)) == expected
    assert as_server(cut(stream, places)) == expected
    assert in_pieces([stream[n : n + 1] for n in range(len(stream))]) == expected


@settings(max_examples=examples(75), deadline=None, suppress_health_check=list(HealthCheck))
@given(exchanges())
def test_every_request_is_answered_stored_or_handed_over(frames: list[bytes]):
    """One answer for each two-way send that is not handed over; answers parse strictly."""
    sent = FrameReader().feed(b"".join(frames))
    outcome = whole(b"".join(frames))
    handed = [command[1] for command in outcome.commands]
    mine = {c.opaque: c for c in sent if c.code in (10, 310, 320) and not c.is_response}
    assert [o for o in handed if o not in mine] == [c.opaque for c in sent if c.opaque not in mine]
    two_way = [o for o, c in mine.items() if not c.is_oneway and o not in handed]
    answers = FrameReader().feed(outcome.replies)
    assert [answer.opaque for answer in answers] == two_way
    for answer in answers:
        assert answer.is_response
        assert answer.serialize == mine[answer.opaque].serialize
        assert (answer.code == 0) == ("msgId" in answer.ext)
    for command in outcome.commands:
        assert (command[-1] is not None) == (command[1] in mine)


def mixed(sizes: Sequence[int]) -> bytes:
    """Sends with large bodies between small frames of all kinds."""
    change = {"g": str(BORN)}
    parts = []
    for n, size in enumerate(sizes):
        kind = (JSON, BINARY)[n % 2]
        data = bytes([n]) * size
        parts.append(encode(send_command("T", data, serialize=kind, change=change)))
        parts.append(encode(Command(11, {"n": str(n)}, b"x" * (size // 3), serialize=kind)))
        parts.append(encode(batch_command("T", [(data[: size // 4], {})] * 3, change=change)))
    return b"".join(parts)


@pytest.fixture(scope="module")
def large() -> bytes:
    return mixed([70_000, 10, 200_000, 65_536, 65_528, 130_000])


def random_cuts(stream: bytes, largest: int) -> Iterator[list[bytes]]:
    chance = random.Random(largest)
    for _ in range(6):
        pieces, at = [], 0
        while at < len(stream):
            size = chance.randrange(1, largest)
            pieces.append(stream[at : at + size])
            at += size
        yield pieces


@pytest.mark.parametrize("largest", [1500, 20_000, 70_000, 300_000])
def test_large_frames_through_the_space(large: bytes, largest: int):
    expected = whole(large)
    assert len(expected.stored) == 6 + 18
    for pieces in random_cuts(large, largest):
        assert as_server(pieces) == expected
        assert in_pieces(pieces) == expected


def test_large_frames_really_go_through_the_space(large: bytes):
    with (
        tempfile.TemporaryDirectory(dir=scratch.place()) as folder,
        serving(Path(folder)) as (store, listener),
    ):
        exchange = Exchange(store, listener)
        exchange.feed_as_server([large[n : n + 8192] for n in range(0, len(large), 8192)])
        assert exchange.spaces > 20
        assert exchange.session.space() is None
        assert listener.partial_bytes() == 0


def test_large_frame_byte_by_byte_into_the_space():
    stream = mixed([65_700])
    expected = whole(stream)

    def feed(exchange: Exchange) -> None:
        exchange.feed_as_server([stream[n : n + 1] for n in range(3000)])
        exchange.feed_as_server([stream[n : n + 7] for n in range(3000, len(stream), 7)])

    assert run(feed) == expected


def test_a_space_that_got_nothing(large: bytes):
    """A receive that would block, or fills a part: the session goes on where it was."""
    expected = whole(large)

    def feed(exchange: Exchange) -> None:
        at = 0
        while at < len(large):
            session = exchange.session
            if session.large:
                assert session.space() is not None
                session.filled(0)
                assert session.space() is not None
                session.filled(-1)
                place = session.space()
                assert place is not None
                n = min(len(place), 1000)
                memoryview(place)[:n] = large[at : at + n]
                session.filled(n)
                exchange.feed(b"")
            else:
                n = 777
                exchange.feed(large[at : at + n])
            at += n

    assert run(feed) == expected


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("commands", [0, 3, 63, 64, 65, 128])
def test_garbage_behind_valid_frames(name: str, commands: int):
    """What came before is answered and handed over; then the error stands, however it was cut."""
    frames = [encode(send_command("T", b"b", change={"g": str(BORN)}))]
    frames += [encode(Command(11, {"n": str(n)})) for n in range(commands)]
    stream = b"".join(frames) + GARBAGE[name]
    expected = in_pieces([*frames, GARBAGE[name]])
    assert expected.error
    assert len(expected.commands) == commands
    assert len(expected.stored) == 1
    assert expected.replies
    assert whole(stream) == expected
    assert as_server([stream]) == expected
    assert as_server(cut(stream, range(0, 5000, 97))) == expected
