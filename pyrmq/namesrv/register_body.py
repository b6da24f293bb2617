"""The body of REGISTER_BROKER: JSON, or a zlib stream of blocks. [RegisterBrokerBody, TopicConfig]

A broker may have tens of thousands of topics, so a body is read in steps
(`pyrmq.net.server.turns`). Topics are read strictly: their numbers end up in routes.
"""

from __future__ import annotations

import hashlib
import re
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Any

from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.route import MAX_ROUTE_QUEUES
from pyrmq.model.topic import DataVersion
from pyrmq.namesrv.fields import check_topic
from pyrmq.net import fastjson
from pyrmq.net.server.turns import Steps

MAX_ROW = 64 << 10
"""Longest topic of a registration, bytes."""

Queues = tuple[int, int, int, int]
"""readQueueNums, writeQueueNums, perm and topicSysFlag. Plain tuples of numbers are nothing that
Python's garbage collector looks at again and again, however many topics there are."""

_NUMBERS = (
    ("readQueueNums", MAX_ROUTE_QUEUES),
    ("writeQueueNums", MAX_ROUTE_QUEUES),
    ("perm", 15),
    ("topicSysFlag", (1 << 31) - 1),
)
"""With the largest of each."""
MAX_PLAIN = 64 << 20
"""Largest body after decompression, bytes."""
MAX_TOPICS = 1 << 17
"""Most topics of one body."""
MAX_REST = 256 << 10
"""Largest part of a JSON body beside its topics, bytes: it is read in one step."""
SOME = 16
"""Topics that are read in one step, at most."""
PIECE = 64 << 10
"""Bytes that are read or unpacked in one step, about."""

_TABLE = re.compile(rb'[{,]\s*"topicConfigTable"\s*:\s*\{')
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_MAP = rb'\{(?:[^{}"]++|' + _STRING + rb")*+\}"
_OBJECT = rb'\{(?:[^{}"]++|' + _STRING + rb"|" + _MAP + rb")*+\}"
_ROW = re.compile(rb"\s*+" + _STRING + rb"\s*+:\s*+" + _OBJECT + rb"\s*+([,}])", re.DOTALL)
_NO_ROWS = re.compile(rb"\s*+\}")


def queues_of(name: Any, row: Any) -> Queues:
    """ProtocolError for what is no topic, InvalidParameterError for a name that none can have."""
    if not isinstance(name, str) or not isinstance(row, dict):
        raise ProtocolError("topicConfigTable: a topic is no JSON object")
    check_topic(name)
    if "$ref" in row:
        raise ProtocolError(f"topic {name!r} refers to another one")
    numbers = read, write, perm, flag = (
        row.get("readQueueNums", 16),
        row.get("writeQueueNums", 16),
        row.get("perm", 6),
        row.get("topicSysFlag", 0),
    )
    # As nearly all are: `checked` says what is wrong with the others.
    if (
        type(read) is type(write) is type(perm) is type(flag) is int
        and 0 <= read <= MAX_ROUTE_QUEUES
        and 0 <= write <= MAX_ROUTE_QUEUES
        and 0 <= perm <= 15
        and 0 <= flag < 1 << 31
    ):
        return numbers
    return checked(name, list(numbers))


def checked(name: str, numbers: list[Any]) -> Queues:
    """The numbers of a topic as `Queues`. ProtocolError if one is out of bounds, or none."""
    for number, (key, limit) in zip(numbers, _NUMBERS, strict=True):
        if type(number) is not int or not 0 <= number <= limit:
            raise ProtocolError(f"topic {name!r}: {key} must be a number from 0 to {limit}")
    read, write, perm, flag = numbers
    return read, write, perm, flag


def topic_from_line(line: bytes) -> tuple[str, Queues]:
    """`name readNums writeNums perm filterType [attributesJson]`. [TopicConfig.encode]"""
    parts = line.decode(errors="replace").split(" ", 5)
    if len(parts) < 5:
        raise ProtocolError(f"not a topic line: {line[:80]!r}")
    name = parts[0]
    check_topic(name)
    numbers = [int(n) if n.isdecimal() and len(n) < 10 else n for n in parts[1:4]]
    if len(parts) == 6 and parts[5].strip():
        fastjson.loads_object(parts[5].encode())
    return name, checked(name, [*numbers, 0])


@dataclass(slots=True)
class RegisterBody:
    topics: dict[str, Queues]
    version: DataVersion
    static: bool = False
    """Whether the broker has static topics, which have mappings beside the topics."""


def check_crc(body: bytes, crc: int) -> None:
    """`crc` as the header states it; 0 means unchecked."""
    if crc and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise ResponseError("crc32 not match", ResponseCode.SYSTEM_ERROR)


def digest(body: bytes) -> Steps[bytes]:
    """16 bytes that no other body has; some of it in each step."""
    found = hashlib.blake2b(digest_size=16)
    for start in range(0, len(body), PIECE):
        found.update(body[start : start + PIECE])
        yield
    return found.digest()


def read(body: bytes) -> Steps[RegisterBody]:
    """The first byte says the form, as 5.x brokers may state it wrong. ProtocolError."""
    if not body:
        return RegisterBody({}, DataVersion())
    if body[0] == 0x78:
        return (yield from _read_compressed(body))
    return (yield from _read_json(body))


def _read_json(body: bytes) -> Steps[RegisterBody]:
    """The rows of the table of topics are cut out and read a few at a time, the rest at once."""
    topics: dict[str, Queues] = {}
    table = _TABLE.search(body, 0, MAX_REST)
    if table is None:
        rest = body
    else:
        end = yield from _read_rows(body, table.end(), topics)
        rest = body[: table.end()] + body[end:]
    if len(rest) > MAX_REST:
        raise ProtocolError(
            f"register body has {len(rest)} bytes beside its topics: at most {MAX_REST} can be read"
        )
    value = fastjson.loads_object(rest)
    wrapper = value.get("topicConfigSerializeWrapper", value)  # 3.x brokers send it by itself
    if not isinstance(wrapper, dict):
        raise ProtocolError("topicConfigSerializeWrapper is no JSON object")
    if wrapper.get("topicConfigTable", {} if table is None else None) != {}:
        raise ProtocolError("topicConfigTable is no JSON object, or stands in the wrong place")
    static = bool(wrapper.get("topicQueueMappingInfoMap"))
    return RegisterBody(topics, _version(wrapper.get("dataVersion")), static)


def _read_rows(body: bytes, at: int, topics: dict[str, Queues]) -> Steps[int]:
    """Reads the rows from `at` on; returns where the brace behind them is."""
    if (none := _NO_ROWS.match(body, at)) is not None:
        return none.end() - 1
    more = True
    while more:
        start = at
        for _ in range(SOME):
            row = _ROW.match(body, at, at + MAX_ROW)
            if row is None:
                raise ProtocolError(
                    f"topicConfigTable: no topic of at most {MAX_ROW} bytes at byte {at}"
                )
            at = row.end()
            more = row[1] == b","
            if not more or at - start > PIECE:
                break
        for name, value in fastjson.loads_object(b"{" + body[start : at - 1] + b"}").items():
            _put(topics, name, queues_of(name, value))
        yield
    return at - 1


def _put(topics: dict[str, Queues], name: str, queues: Queues) -> None:
    # A hundred brokers have the same names, and nearly all topics the same numbers.
    same = topics.get(next(reversed(topics), ""))
    topics[sys.intern(name)] = same if same == queues else queues
    if len(topics) > MAX_TOPICS:
        raise ProtocolError(f"register body has more than {MAX_TOPICS} topics")


def _version(value: Any) -> DataVersion:
    if value is None:
        return DataVersion()
    if not isinstance(value, dict):
        raise ProtocolError("dataVersion is no JSON object")
    for key in ("timestamp", "counter", "stateVersion"):
        number = value.get(key, 0)
        if type(number) is not int or not -(1 << 63) <= number < 1 << 63:
            raise ProtocolError(f"dataVersion: {key} is no number of 64 bits")
    return DataVersion.from_json(value)


def read_version(body: bytes) -> DataVersion:
    """A DataVersion alone, as QUERY_DATA_VERSION has it."""
    if len(body) > PIECE:
        raise ProtocolError("the body is longer than a data version")
    return _version(fastjson.loads_object(body)) if body else DataVersion()


class _Unpacked:
    """The content of a zlib stream, unpacked as it is taken."""

    def __init__(self, body: bytes) -> None:
        self._inflater = zlib.decompressobj()
        self._packed = body
        self._plain = b""
        self._at = 0
        """How much of `_plain` is taken."""
        self._size = 0

    def _more(self) -> bool:
        """Unpacks a piece; False at the end."""
        if self._inflater.eof:
            return False
        try:
            piece = self._inflater.decompress(self._packed, PIECE)
        except zlib.error as e:
            raise ProtocolError(f"register body: {e}") from e
        self._packed = self._inflater.unconsumed_tail
        if not piece and not self._inflater.eof:
            raise ProtocolError("register body ends too early")
        self._size += len(piece)
        if self._size > MAX_PLAIN:
            raise ProtocolError(f"register body has more than {MAX_PLAIN} bytes")
        self._plain, self._at = self._plain[self._at :] + piece, 0
        return True

    def take(self, size: int) -> bytes:
        while len(self._plain) - self._at < size:
            if not self._more():
                raise ProtocolError("register body ends too early")
        taken = self._plain[self._at : self._at + size]
        self._at += size
        return taken

    def int(self) -> int:
        (n,) = struct.unpack(">i", self.take(4))
        if n < 0:
            raise ProtocolError("register body states a negative length")
        return int(n)

    def block(self) -> bytes:
        size = self.int()
        if size > MAX_ROW:
            raise ProtocolError(f"register body has a block of {size} bytes: at most {MAX_ROW}")
        return self.take(size)

    def to_the_end(self) -> Steps[None]:
        """Unpacks all that is left, so that damage is found."""
        while self._more():
            self._at = len(self._plain)
            yield

    @property
    def is_empty(self) -> bool:
        return self._at == len(self._plain) and not self._more()


def _read_compressed(body: bytes) -> Steps[RegisterBody]:
    data = _Unpacked(body)
    version = _version(fastjson.loads(data.block()))
    topics: dict[str, Queues] = {}
    for n in range(data.int()):
        _put(topics, *topic_from_line(data.block()))
        if n % SOME == 0:
            yield
    data.block()  # filter servers: there are none any more
    static = not data.is_empty and data.int() > 0
    yield from data.to_the_end()
    return RegisterBody(topics, version, static)
