"""Exchanges: valid frames for a session, ways to feed them, and what came of it in one value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from pyrmq.engine import Listener, RecvBuffer, Session, Store
from tests.store.tools import data
from tests.support.client import SEND_MESSAGE, SEND_MESSAGE_V2, batch_command, send_command
from tests.support.records import Record, decode_records, encode_properties
from tests.support.wire import BINARY, FLAG_ONEWAY, FLAG_RESPONSE, JSON, Command, encode

HOST = "10.1.2.3:10911"
MADE_KEY = re.compile(rb"0A010203[0-9A-F]{20}[0-9A-F]{4}")
"""A UNIQ_KEY that the session made: its last four digits are a counter of the process.

An offsetMsgId of this host has zeros in places 9 to 12, where a key has the process id.
"""
BORN = 1_700_000_000_000
QUEUES = 4


@contextmanager
def serving(root: Path, **options: Any) -> Iterator[tuple[Store, Listener]]:
    """A store with the topics `T` (4 queues), `Multi` (MULTI_TAG) and `Closed` (not sendable)."""
    sizes = {"commit_log_file_size": 256 * 1024, "consume_queue_file_size": 2000}
    store = Store(root, store_host=HOST, **{**sizes, **options})
    try:
        store.set_topic("T", read_queues=QUEUES, write_queues=QUEUES)
        store.set_topic("Multi", read_queues=1, write_queues=1, multi_tag=True)
        store.set_topic("Closed", read_queues=1, write_queues=1, sendable=False)
        yield store, Listener(store.native)
    finally:
        store.close()


def new_session(listener: Listener) -> Session:
    return Session(listener, bytes([10, 9, 8, 7]), 40_000)


CommandKey = tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """All that an exchange shows to the outside; made keys and store times are masked."""

    replies: bytes
    commands: list[CommandKey]
    error: str | None
    stored: list[tuple[Any, ...]]


def mask(raw: bytes) -> bytes:
    return MADE_KEY.sub(b"<key>" + b"#" * 27, raw)


def _stored(store: Store) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for topic, queue_id, low, high in store.queues():
        records: list[Record] = []
        while low < high:
            result = store.get(topic, queue_id, low, 256)
            records += decode_records(data(result))
            low = result.next_offset
        for record in records:
            properties = mask(record.properties_raw)
            found.append((topic, queue_id, replace(record, store_timestamp=0,
                                                   properties_raw=properties)))  # fmt: skip
    return found


class Exchange:
    """Feeds one session and keeps what it gives."""

    def __init__(self, store: Store, listener: Listener) -> None:
        self.store = store
        self.session = new_session(listener)
        self.replies = b""
        self.commands: list[CommandKey] = []
        self.spaces = 0

    def take(self, reply: bytes | None) -> None:
        """Keeps a reply and the commands, then feeds again as long as `more` asks for it."""
        while True:
            self.replies += reply or b""
            self._take_commands()
            if not self.session.more or self.session.error:
                return
            reply = self.session.feed_bytes(b"", BORN)

    def feed(self, piece: bytes) -> None:
        if self.session.error is None:
            self.take(self.session.feed_bytes(piece, BORN))

    def feed_as_server(self, pieces: Sequence[bytes]) -> None:
        """As a server does: the rest of a large frame goes into the session's own space."""
        buffer = RecvBuffer(max(map(len, pieces), default=0) + 1)
        for piece in pieces:
            left = memoryview(piece)
            while left and self.session.error is None:
                if self.session.large and (place := self.session.space()) is not None:
                    n = min(len(place), len(left))
                    memoryview(place)[:n] = left[:n]
                    self.session.filled(n)
                    self.spaces += 1
                    self.take(self.session.feed(buffer, 0, BORN))
                else:
                    n = len(left)
                    memoryview(buffer)[:n] = left
                    self.take(self.session.feed(buffer, n, BORN))
                left = left[n:]

    def outcome(self) -> Outcome:
        error = self.session.error
        return Outcome(mask(self.replies), self.commands, error, _stored(self.store))

    def _take_commands(self) -> None:
        assert self.session.commands <= 64
        while (c := self.session.next_command()) is not None:
            self.commands.append(
                (c.code, c.opaque, c.flag, c.language, c.version, c.codec, c.ext, c.remark, c.body,
                 c.frame)
            )  # fmt: skip
        assert self.session.commands == 0


# -- frames of any kind ---------------------------------------------------------------------------

serialize = st.sampled_from([JSON, BINARY])
opaque = st.integers(-(2**31), 2**31 - 20)
text = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=12)
properties = st.fixed_dictionaries(
    {},
    optional={
        "UNIQ_KEY": st.sampled_from(["FD00000000000000000000000000000100", "k"]),
        "TAGS": st.sampled_from(["a", "ü", '"quoted"', "x\\y"]),
        "KEYS": text,
        "WAIT": st.sampled_from(["true", "false"]),
        "CLUSTER": text,
        "DELAY": st.sampled_from(["0", "3"]),
        "odd": text,
    },
).map(encode_properties)
body = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda b, n: bytes([b]) * n, st.integers(0, 255), st.integers(1000, 3000)),
)
topics = st.sampled_from(["T", "T", "T", "Multi", "Closed", "Unknown", "%RETRY%g", "bad/name", ""])
changes = st.sampled_from(
    [{}, {}, {}, {"e": "-1"}, {"e": "99"}, {"e": "x"}, {"e": None}, {"f": "4"}, {"f": "1"},
     {"h": "-7"}, {"j": "3"}, {"g": None}, {"f": "128"}]
)  # fmt: skip
flags = st.sampled_from([0, 0, 0, FLAG_ONEWAY, FLAG_RESPONSE])


@st.composite
def sends(draw: st.DrawFn) -> Command:
    return send_command(
        draw(topics), draw(body), queue_id=draw(st.integers(0, QUEUES - 1)),
        properties=draw(properties), code=draw(st.sampled_from([SEND_MESSAGE, SEND_MESSAGE_V2])),
        serialize=draw(serialize), change={"g": str(BORN), **draw(changes)},
    )  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> Command:
    messages = draw(st.lists(st.tuples(st.binary(max_size=30), st.sampled_from(
        [{}, {"TAGS": "a"}, {"KEYS": "k", "TAGS": "b"}, {"DELAY": "1"}])), max_size=4))  # fmt: skip
    command = batch_command(
        draw(topics), messages, queue_id=draw(st.integers(0, QUEUES - 1)),
        serialize=draw(serialize), change={"g": str(BORN)},
    )  # fmt: skip
    if draw(st.booleans()) and command.body:
        command.body = command.body[: draw(st.integers(0, len(command.body)))]
    return command


others = st.builds(
    Command,
    st.sampled_from([11, 34, 35, 105, 0, -1, 32767]),
    st.dictionaries(text.filter(bool), text, max_size=4),
    body,
    remark=st.one_of(st.none(), text.filter(bool)),
    language=st.sampled_from(["JAVA", "GO", "RUST", "NODE_JS"]),
    version=st.integers(0, 500),
    serialize=serialize,
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[bytes]:
    """Valid frames of any kind; no two have the same opaque."""
    commands = draw(
        st.lists(st.one_of(sends(), sends(), batches(), others), min_size=1, max_size=12)
    )
    first = draw(opaque)
    for n, command in enumerate(commands):
        command.opaque, command.flag = first + n, draw(flags)
    return [encode(command) for command in commands]
