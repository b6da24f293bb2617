"""Writing command frames from Python, in both serialize types, and reading the code and the fields
of requests and answers. [RemotingCommand]

Frames are read by the engine (`pyrmq.engine.Session`), which also writes the answers to plain
sends."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring

from pyrmq.engine import Command, Slice
from pyrmq.errors import ProtocolError, ResponseError
from pyrmq.model.codes import LANGUAGE_PYTHON, VERSION, ResponseCode
from pyrmq.model.request_kinds import MAX_FRAME
from pyrmq.net.about import NOTHING, About, about

JSON = 0
ROCKETMQ = 1
FLAG_RESPONSE = 1
FLAG_ONEWAY = 2
MAX_NUMBER = 2**63 - 1
"""The largest offset that an answer may state."""

json_text: Callable[[str], str] = encode_basestring  # what a JSONEncoder calls for a str
_TAIL = f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'


@dataclass(slots=True)
class Response:
    """What a processor answers. `body` is one buffer or several that are sent as they are."""

    code: int = 0
    remark: str | None = None
    ext: Mapping[str, str | int | bool] = field(default_factory=dict)
    body: bytes | Sequence[bytes | Slice] = b""
    failed: bool = field(default=False, compare=False)
    """It says that something went wrong which is no refusal."""


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """What an answer needs of its request: all that is kept of one that waits."""

    code: int
    codec: int
    opaque: int
    flag: int
    since_us: int = 0
    """When the request was ready to be received, of `monotonic_us`."""
    taken_us: int = 0
    """When it was processed."""
    size: int = 0
    about: About = NOTHING
    long_polling: bool = False
    """It waits for messages."""


def reply_to(command: Command | ReplyTo) -> ReplyTo:
    """Without ext fields, body and frame, which may have 16 MiB."""
    if isinstance(command, ReplyTo):
        return command
    return ReplyTo(
        command.code,
        command.codec,
        command.opaque,
        command.flag,
        command.since_us,
        command.taken_us,
        command.size,
        about(command.code, command.ext),
    )


def ext_text(value: str | int | bool) -> str:
    """An ext value as text; booleans as Java writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def json_fields(ext: Mapping[str, str | int | bool]) -> str:
    """Ext fields as they stand in a JSON header, without the braces. Names are identifiers."""
    # Numbers need no escapes: most answers have nothing else.
    return ",".join(
        [
            f'"{k}":"{v}"' if type(v) is int else f'"{k}":{json_text(ext_text(v))}'
            for k, v in ext.items()
        ]
    )


def encode_header(
    codec: int,
    code: int,
    opaque: int,
    flag: int,
    ext: Mapping[str, str | int | bool] | str | None,
    remark: str | None = None,
) -> bytes:
    """The header's bytes, without the frame around it. `ext` may be what `json_fields` makes, for
    the serialize type JSON. Half a surrogate pair in the remark, which may quote a request, becomes
    `?`."""
    if remark is not None and not remark.isascii():
        remark = remark.encode(errors="replace").decode()
    if codec == ROCKETMQ:
        if isinstance(ext, str):
            raise ValueError("fields that are JSON go into a JSON header")
        return _encode_binary(code, opaque, flag, ext, remark)
    fields = ""
    if ext is not None:
        fields = f',"extFields":{{{ext if isinstance(ext, str) else json_fields(ext)}}}'
    note = f',"remark":{json_text(remark)}' if remark is not None else ""
    return (
        f'{{"code":{code}{fields},"flag":{flag},"language":"PYTHON","opaque":{opaque}{note}{_TAIL}'
    ).encode()


def _encode_binary(
    code: int,
    opaque: int,
    flag: int,
    ext: Mapping[str, str | int | bool] | None,
    remark: str | None,
) -> bytes:
    note = (remark or "").encode()
    fields = bytearray()
    for name, value in (ext or {}).items():
        key, text = name.encode(), ext_text(value).encode()
        fields += struct.pack(">H", len(key)) + key + struct.pack(">i", len(text)) + text
    # Codes above 16 bits are sent truncated, as Java does.
    head = struct.pack(">HBhiii", code & 0xFFFF, LANGUAGE_PYTHON, VERSION, opaque, flag, len(note))
    return head + note + struct.pack(">i", len(fields)) + bytes(fields)


def frame_head(codec: int, header: bytes, body_len: int) -> bytes:
    """Lengths, type and header: what goes before the body. ValueError for a header that is too
    long to be stated."""
    if len(header) >= 1 << 24:
        raise ValueError(f"a header of {len(header)} bytes")
    return struct.pack(">iI", 4 + len(header) + body_len, codec << 24 | len(header)) + header


def encode_request(
    code: int,
    opaque: int,
    ext: Mapping[str, str | int | bool] | None = None,
    body: bytes = b"",
    *,
    oneway: bool = False,
    codec: int = JSON,
    remark: str | None = None,
) -> bytes:
    """A whole request frame."""
    flag = FLAG_ONEWAY if oneway else 0
    header = encode_header(codec, code, opaque, flag, ext, remark)
    return frame_head(codec, header, len(body)) + body


class AnswerTooLong(ValueError):
    """An answer that does not fit into a frame."""


def encode_response(command: Command | ReplyTo, response: Response) -> list[bytes | Slice]:
    """The buffers of an answer frame, in the request's serialize type. AnswerTooLong."""
    body = response.body
    buffers: list[bytes | Slice] = [body] if isinstance(body, bytes) else list(body)
    size = sum(len(p) for p in buffers)
    header = encode_header(
        command.codec, response.code, command.opaque, FLAG_RESPONSE, response.ext, response.remark
    )
    if 8 + len(header) + size > MAX_FRAME:
        raise AnswerTooLong(f"the answer has {8 + len(header) + size} bytes: at most {MAX_FRAME}")
    head = frame_head(command.codec, header, size)
    return [head, *buffers] if size else [head]


def check_success(answer: Command) -> Command:
    """The answer, if its code is SUCCESS; the ResponseError of its code otherwise."""
    if answer.code != ResponseCode.SUCCESS:
        raise ResponseError.of(answer.code, answer.remark or "")
    return answer


def number(answer: Command, name: str) -> int:
    """An ext field that has to be an offset: -1 to 2^63-1. ProtocolError."""
    try:
        value = int(answer.ext[name])
    except (KeyError, ValueError) as e:
        raise ProtocolError(f"answer without {name}") from e
    if not -1 <= value <= MAX_NUMBER:
        raise ProtocolError(f"answer with {name}={value}")
    return value


def text(command: Command, name: str) -> str:
    """A field that must be there."""
    value = command.ext.get(name)
    if value is None:
        raise ResponseError(f"the custom field <{name}> is null", ResponseCode.SYSTEM_ERROR)
    return value
