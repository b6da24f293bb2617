"""Remoting frames and headers, written from the protocol description only (no pyrmq code).

This is the tests' second opinion: it shares nothing with the product, decodes strictly, and
complains where a real client would lose an answer (a JSON ext value that is not a string, a code
outside int16, a length that does not add up).

Frame, big-endian: int32 total (bytes that follow) | uint8 serialize type | uint24 header length
| header | body. Serialize type 0 is a JSON header, 1 the ROCKETMQ binary header.
Source: RemotingCommand, RocketMQSerializable, NettyDecoder (remoting sheet, section 1).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field, replace

JSON = 0
BINARY = 1

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

#: A frame with its length word may not be longer than this (NettyDecoder).
FRAME_LIMIT = 16_777_216

LANGUAGES = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
]  # fmt: skip

_HEADER_KEYS = {
    "code", "language", "version", "opaque", "flag", "remark", "extFields",
    "serializeTypeCurrentRPC",
}  # fmt: skip


class WireError(Exception):
    """The peer sent bytes that the protocol does not allow."""


@dataclass(slots=True)
class Command:
    """One request or response. ``ext`` holds text only; ``serialize`` is JSON or BINARY."""

    code: int
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: str = "JAVA"
    version: int = 479
    serialize: int = JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & FLAG_ONEWAY)

    def reply(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """A response to this command, in its serialize type."""
        return replace(self, code=code, ext=ext or {}, body=body, flag=FLAG_RESPONSE, remark=None)


def frame(header: bytes, body: bytes = b"", serialize: int = JSON) -> bytes:
    """Frame any header bytes, valid or not."""
    mark = (serialize & 0xFF) << 24 | len(header)
    return struct.pack(">iI", 4 + len(header) + len(body), mark) + header + body


def encode(command: Command) -> bytes:
    """The complete frame of a command, byte for byte as the Java encoder writes it.

    Ext fields keep the order of the dict: Java's own order is that of a HashMap.
    """
    header = json_header(command) if command.serialize == JSON else binary_header(command)
    return frame(header, command.body, command.serialize)


def json_header(command: Command) -> bytes:
    """JSON header text: keys in alphabetical order, no blanks, nulls left out."""
    fields: dict[str, object] = {"code": command.code, "extFields": command.ext}
    fields |= {"flag": command.flag, "language": command.language, "opaque": command.opaque}
    if command.remark is not None:
        fields["remark"] = command.remark
    fields |= {"serializeTypeCurrentRPC": "JSON", "version": command.version}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def binary_header(command: Command) -> bytes:
    """ROCKETMQ header; a code beyond 16 bits is cut to its low half, as Java does."""
    remark = (command.remark or "").encode()
    ext = bytearray()
    for key, value in command.ext.items():
        raw_key, raw_value = key.encode(), value.encode()
        ext += struct.pack(">H", len(raw_key)) + raw_key
        ext += struct.pack(">i", len(raw_value)) + raw_value
    return b"".join((
        struct.pack(">HB", command.code & 0xFFFF, LANGUAGES.index(command.language)),
        struct.pack(">hii", command.version, command.opaque, command.flag),
        struct.pack(">i", len(remark)), remark,
        struct.pack(">i", len(ext)), ext,
    ))  # fmt: skip


def decode(data: bytes) -> Command:
    """Decode exactly one complete frame, the length word included."""
    if len(data) < 8:
        raise WireError(f"frame of {len(data)} bytes")
    total, mark = struct.unpack_from(">iI", data)
    header_length = mark & 0xFFFFFF
    if total + 4 != len(data) or not 4 <= total <= FRAME_LIMIT - 4:
        raise WireError(f"total {total} in a frame of {len(data)} bytes")
    if header_length > total - 4:
        raise WireError(f"header length {header_length} in a frame of total {total}")
    header = data[8 : 8 + header_length]
    serialize = mark >> 24
    if serialize == JSON:
        command = _decode_json(header)
    elif serialize == BINARY:
        command = _decode_binary(header)
    else:
        raise WireError(f"serialize type {serialize}")
    command.body = data[8 + header_length :]
    return command


class FrameReader:
    """Turns a byte stream into commands; keeps an unfinished frame for the next feed."""

    def __init__(self) -> None:
        self._pending = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of an unfinished frame."""
        return len(self._pending)

    def feed(self, data: bytes) -> list[Command]:
        self._pending += data
        commands, at = [], 0
        while len(self._pending) - at >= 4:
            (total,) = struct.unpack_from(">i", self._pending, at)
            if not 4 <= total <= FRAME_LIMIT - 4:
                raise WireError(f"frame total {total}")
            end = at + 4 + total
            if end > len(self._pending):
                break
            commands.append(decode(bytes(self._pending[at:end])))
            at = end
        del self._pending[:at]
        return commands


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireError(f"a JSON key is there twice: {[key for key, _ in pairs]}")
    return found


def _decode_json(header: bytes) -> Command:
    try:
        fields = json.loads(header.decode(), object_pairs_hook=_unique)
    except ValueError as error:
        raise WireError(f"header is not JSON: {error}: {header[:200]!r}") from None
    if not isinstance(fields, dict):
        raise WireError(f"header is no object: {header[:200]!r}")
    if unknown := set(fields) - _HEADER_KEYS:
        raise WireError(f"unknown header keys {unknown}")
    ext = fields.get("extFields") or {}
    if not isinstance(ext, dict):
        raise WireError(f"extFields {ext!r}")
    for key, value in ext.items():
        if not isinstance(value, str):
            raise WireError(f"ext field {key} is {value!r}; the Go client drops such an answer")
    numbers = {}
    for key in ("code", "opaque", "flag", "version"):
        value = fields.get(key, 0)
        if type(value) is not int or not -(2**31) <= value < 2**31:
            raise WireError(f"header field {key} is {value!r}")
        numbers[key] = value
    if numbers["flag"] & FLAG_RESPONSE and not -(2**15) <= numbers["code"] < 2**15:
        raise WireError(f"response code {numbers['code']} does not fit the Go client's int16")
    language = fields.get("language", "JAVA")
    if language not in LANGUAGES:
        raise WireError(f"language {language!r}")
    remark = fields.get("remark")
    if not isinstance(remark, str | None):
        raise WireError(f"remark {remark!r}")
    return Command(
        code=numbers["code"],
        ext=ext,
        opaque=numbers["opaque"],
        flag=numbers["flag"],
        remark=remark,
        language=language,
        version=numbers["version"],
    )


def _decode_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag, size = struct.unpack_from(">hBhiii", header)
        remark, at = _slice(header, 17, size)
        (size,) = struct.unpack_from(">i", header, at)
        ext_bytes, at = _slice(header, at + 4, size)
        if at != len(header):
            raise WireError(f"{len(header) - at} bytes after the ext map")
        return Command(
            code=code,
            ext=_decode_map(ext_bytes),
            opaque=opaque,
            flag=flag,
            remark=remark.decode() if remark else None,
            language=LANGUAGES[language],
            version=version,
            serialize=BINARY,
        )
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"binary header: {error}: {header[:200]!r}") from None


def _decode_map(data: bytes) -> dict[str, str]:
    """Entries: key length uint16, key, value length int32, value. A later duplicate wins."""
    entries, at = {}, 0
    while at < len(data):
        (size,) = struct.unpack_from(">H", data, at)
        key, at = _slice(data, at + 2, size)
        (size,) = struct.unpack_from(">i", data, at)
        value, at = _slice(data, at + 4, size)
        entries[key.decode()] = value.decode()
    return entries


def _slice(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0 or at + size > len(data):
        raise WireError(f"length {size} at {at} in {len(data)} bytes")
    return data[at : at + size], at + size
