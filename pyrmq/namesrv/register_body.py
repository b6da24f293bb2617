"""The body of REGISTER_BROKER: JSON, or a zlib stream of pieces. [RegisterBrokerBody]"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.inflate import inflate
from pyrmq.model.topic import DataVersion, TopicConfig, as_int
from pyrmq.net import fastjson

MAX_PLAIN = 64 << 20
"""Largest body after decompression, bytes."""


def check_crc(body: bytes, crc: int) -> None:
    """`crc` as the header states it; 0 means unchecked."""
    if crc and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise ResponseError("crc32 not match", ResponseCode.SYSTEM_ERROR)


def parse(body: bytes) -> tuple[dict[str, TopicConfig], DataVersion]:
    """Topics and data version. The first byte decides the form: 5.x brokers may state it wrong."""
    if not body:
        return {}, DataVersion()
    if body[0] == 0x78:
        return _parse_compressed(body)
    value = fastjson.loads_object(body)
    wrapper = value.get("topicConfigSerializeWrapper", value)
    return parse_wrapper(wrapper if isinstance(wrapper, dict) else {})


def parse_wrapper(wrapper: dict[Any, Any]) -> tuple[dict[str, TopicConfig], DataVersion]:
    """TopicConfigSerializeWrapper."""
    table = wrapper.get("topicConfigTable")
    topics = {
        str(name): TopicConfig.from_json(str(name), config)
        for name, config in (table.items() if isinstance(table, dict) else ())
        if isinstance(config, dict)
    }
    return topics, DataVersion.from_json(wrapper.get("dataVersion"))


class _Pieces:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int(self) -> int:
        try:
            (n,) = struct.unpack_from(">i", self._data, self._at)
        except struct.error as e:
            raise ProtocolError("register body ends too early") from e
        self._at += 4
        if n < 0:
            raise ProtocolError("register body states a negative length")
        return int(n)

    def piece(self) -> bytes:
        size = self.int()
        piece = self._data[self._at : self._at + size]
        if len(piece) != size:
            raise ProtocolError("register body ends too early")
        self._at += size
        return piece


def _parse_compressed(body: bytes) -> tuple[dict[str, TopicConfig], DataVersion]:
    data = inflate(body, MAX_PLAIN, "register body")
    pieces = _Pieces(data)
    version = DataVersion.from_json(fastjson.loads(pieces.piece()))
    topics = {}
    for _ in range(pieces.int()):
        config = _topic_line(pieces.piece().decode(errors="replace"))
        topics[config.topic_name] = config
    return topics, version


def _topic_line(line: str) -> TopicConfig:
    """`name readNums writeNums perm filterType [attributesJson]`. [TopicConfig.encode]"""
    parts = line.split(" ", 5)
    if len(parts) < 5:
        raise ProtocolError(f"not a topic line: {line[:80]!r}")
    config = TopicConfig(
        parts[0], as_int(parts[1], 16), as_int(parts[2], 16), as_int(parts[3], 6), parts[4]
    )
    if len(parts) == 6 and parts[5].strip():
        attributes = fastjson.loads(parts[5].encode())
        config.attributes = dict(attributes) if isinstance(attributes, dict) else {}
    return config
