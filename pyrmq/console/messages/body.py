"""Bodies and texts of strangers, made fit to be shown: bounded, and without hidden characters."""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from pyrmq.model.compression import COMPRESSED, COMPRESSION_MASK, CompressionType
from pyrmq.model.record import ReceivedMessage

SHOWN = 64 << 10
"""Bytes of a body that a page shows as text."""
ESCAPED = 2 * SHOWN
"""Characters of that text, with escapes."""
SHOWN_HEX = 4 << 10
"""Bytes of a body that a page shows as hex."""
JSON_DEPTH = 200
"""Levels of nested JSON that are laid out; deeper bodies stay text."""
INDENTED = 32
"""Levels that are indented: each line of a deeper one would be longer than what it says."""
JSON_SHOWN = 4 * SHOWN
"""Characters of JSON that is laid out."""
WINDOW = 64 << 20
"""Largest window of a Zstandard frame."""
_CODECS = {0: CompressionType.ZLIB} | {kind.value: kind for kind in CompressionType}
_BYTES_A_LINE = 16
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_HIDDEN = re.compile(r"[^\n\t\x20-\x7e]+")


def visible(text: str) -> str:
    """A text of several lines in which each character is seen: controls, marks that turn the
    direction of text, and others without a shape become escapes such as \\x1b. Line feeds and tabs
    stay."""
    return _HIDDEN.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    text = found.group()
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def codec_of(message: ReceivedMessage) -> str:
    """How the body is compressed as it is stored here; empty if it is not."""
    if not message.sys_flag & COMPRESSED:
        return ""
    kind = _CODECS.get(message.sys_flag & COMPRESSION_MASK)
    return "unknown" if kind is None else str(kind)


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a body, unpacked. `whole`: that is all of it. `error`: why it could not be
    unpacked; `data` is as stored then."""

    data: bytes
    whole: bool
    error: str = ""


def head_of(message: ReceivedMessage, most: int) -> Head:
    """The first `most` bytes of a body. What a compressed one would become is never allocated."""
    raw = message.raw_body
    if message.body_error is not None:
        return Head(raw[:most], len(raw) <= most, str(message.body_error))
    codec = codec_of(message)
    if not codec:
        return Head(raw[:most], len(raw) <= most)
    try:
        data, ended = _unpacked(raw, codec, most + 1)
    except Exception as e:  # three libraries, each with errors of its own
        why = f"compressed with {codec}, but not readable: {visible(str(e))[:200]}"
        return Head(raw[:most], len(raw) <= most, why)
    if len(data) > most:
        return Head(data[:most], False)
    return Head(data, ended, "" if ended else f"compressed with {codec}, and it ends too early")


def _unpacked(raw: bytes, codec: str, most: int) -> tuple[bytes, bool]:
    """At most `most` bytes, and whether the body ends there."""
    if codec == str(CompressionType.ZLIB):
        inflater = zlib.decompressobj()
        return inflater.decompress(raw, most), inflater.eof
    if codec == str(CompressionType.LZ4):
        import lz4.frame

        frame = lz4.frame.LZ4FrameDecompressor()
        found: bytes = frame.decompress(raw, max_length=most)
        while len(found) < most and not frame.eof:
            piece: bytes = frame.decompress(b"", max_length=most - len(found))
            if not piece:
                break
            found += piece
        return found, frame.eof
    if codec == str(CompressionType.ZSTD):
        import zstandard

        unpack = zstandard.ZstdDecompressor(max_window_size=WINDOW)
        with unpack.stream_reader(raw) as reader:
            return bytes(reader.read(most)), True
    raise ValueError("no such compression")


@dataclass(frozen=True, slots=True)
class BodyView:
    """A body in the forms that it has. `form`: the one that is shown first: json, text or hex."""

    stored: int
    """Bytes, as stored."""
    codec: str
    size: int | None
    """Bytes, unpacked; None if it is larger than what is shown."""
    whole: bool
    error: str
    form: str
    text: str
    json: str
    """Laid out; empty if it is no JSON, or too large or too deep."""
    json_note: str
    hex: str
    hex_whole: bool
    utf8: bool


def view_of(message: ReceivedMessage) -> BodyView:
    """A body for a page."""
    raw = message.raw_body
    head = head_of(message, SHOWN)
    text, utf8 = _decoded(head)
    laid_out, note = _json_of(text, head.whole) if utf8 and not head.error else ("", "")
    binary = not utf8 or _is_binary(text)
    form = "hex" if binary else "json" if laid_out else "text"
    return BodyView(
        stored=len(raw),
        codec=codec_of(message),
        size=len(head.data) if head.whole else None if codec_of(message) else len(raw),
        whole=head.whole,
        error=head.error,
        form=form,
        text=visible(text)[:ESCAPED],
        json=laid_out,
        json_note=note,
        hex="\n".join(hex_lines(head.data[:SHOWN_HEX])),
        hex_whole=head.whole and len(head.data) <= SHOWN_HEX,
        utf8=utf8,
    )


def preview_of(message: ReceivedMessage, most: int = 96) -> str:
    """The beginning of a body in one line, for lists."""
    head = head_of(message, most)
    text, utf8 = _decoded(head)
    if not utf8 or _is_binary(text):
        shown = head.data[:24].hex(" ")
        return shown + (" …" if len(head.data) > 24 or not head.whole else "")
    line = visible(" ".join(text.split()))[:most]
    return line + ("" if head.whole else " …")


def _decoded(head: Head) -> tuple[str, bool]:
    """The text of a body, and whether it is UTF-8. A character that the bound cuts is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(head.data, head.whole), True
    except UnicodeDecodeError:
        return head.data.decode(errors="backslashreplace"), False


def _is_binary(text: str) -> bool:
    """Whether a tenth of the first characters are controls."""
    first = text[:1024]
    return sum(c < " " and c not in "\n\r\t" for c in first) * 10 > len(first)


def _json_of(text: str, whole: bool) -> tuple[str, str]:
    """JSON laid out, and what is to be said of it; numbers and strings stay as they are written."""
    if text.lstrip()[:1] not in ("{", "["):
        return "", ""
    if not whole:
        return "", "The body is too large to be laid out as JSON here: download it."
    if _depth(text) > JSON_DEPTH:
        return "", f"The JSON is nested deeper than {JSON_DEPTH} levels: it is shown as text."
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return "", ""
    pieces, size = [], 0
    for piece in _laid_out(text):
        pieces.append(piece)
        size += len(piece)
        if size > JSON_SHOWN:
            return "", "Laid out, the JSON is too large for a page: it is shown as text."
    return visible("".join(pieces)), ""


def _depth(text: str) -> int:
    """How deep brackets are nested, outside of strings."""
    deepest = depth = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif first in "}]":
            depth -= 1
    return deepest


def _laid_out(text: str) -> Iterator[str]:
    """The tokens of valid JSON with line feeds and blanks between them."""
    depth, before = 0, ""
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token in "}]":
            depth -= 1
            if before not in "{[":
                yield _line(depth)
        elif before and before in "{[,":
            yield _line(depth)
        yield token
        if token == ":":
            yield " "
        if token in "{[":
            depth += 1
        before = token


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, INDENTED)


def hex_lines(data: bytes) -> Iterator[str]:
    """Lines as `hexdump -C` prints them."""
    for at in range(0, len(data), _BYTES_A_LINE):
        part = data[at : at + _BYTES_A_LINE]
        digits = f"{part[:8].hex(' ')}  {part[8:].hex(' ')}".ljust(49)
        shown = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in part)
        yield f"{at:08x}  {digits} |{shown}|"
