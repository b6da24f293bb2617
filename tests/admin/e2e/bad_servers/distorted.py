"""Answers with one thing in them that is not as it should be."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from tests.support.wire import Command, encode

_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')
EVIL = "\x1b[2J\x1b]0;title\x07\u202e\r\nname"
_JSON = (
    b"null", b"true", b"-1", b"0", b"1.5", b"1e999", b"9223372036854775808", b"1" * 400, b'""',
    b'"x"', b'"' + EVIL.encode("unicode_escape").replace(b"\\x", b"\\u00") + b'"', b"[]", b"{}",
    b"[null]", b'{"a":{}}', b"[" * 3000, b"", b",", b'"\xff\xfe"',
)  # fmt: skip
_TEXT = ("", "-1", "x", "1.5", "9223372036854775808", "9" * 400, EVIL, "null", " 1", "true")


def distort(chance: random.Random, answer: Command) -> bytes:
    """The frame of an answer with something wrong in it."""
    kinds: list[Callable[[random.Random, Command], bytes]] = [_field, _code]
    if answer.body:
        kinds += [_value] * 6 if answer.body[:1] in b"{[" else [_bytes] * 4
    if answer.ext:
        kinds += [_ext] * 3
    if chance.random() < 0.05:
        kinds = [_frame]
    return chance.choice(kinds)(chance, answer)


def _value(chance: random.Random, answer: Command) -> bytes:
    """A value, or a key, of its JSON is another one."""
    found = [m.span() for m in _VALUE.finditer(answer.body)]
    if not found:
        return _bytes(chance, answer)
    begin, end = chance.choice(found)
    body = answer.body[:begin] + chance.choice(_JSON) + answer.body[end:]
    return encode(replace(answer, body=body))


def _bytes(chance: random.Random, answer: Command) -> bytes:
    """Its body is cut, longer, or has other bytes in it."""
    body = bytearray(answer.body or b"{}")
    what = chance.randrange(4)
    if what == 0:
        del body[chance.randrange(len(body)) :]
    elif what == 1:
        body += chance.randbytes(chance.randint(1, 40))
    else:
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    return encode(replace(answer, body=bytes(body)))


def _ext(chance: random.Random, answer: Command) -> bytes:
    """A field of its header is another one, or gone."""
    ext = dict(answer.ext)
    name = chance.choice(sorted(ext))
    if chance.random() < 0.3:
        del ext[name]
    else:
        ext[name] = chance.choice(_TEXT)
    return encode(replace(answer, ext=ext))


def _field(chance: random.Random, answer: Command) -> bytes:
    """It succeeds with nothing in it, or with what it would not have."""
    return encode(
        chance.choice(
            (
                replace(answer, body=b""),
                replace(answer, body=b"null"),
                replace(answer, body=b"{}"),
                replace(answer, body=b"[]"),
                replace(answer, ext={}),
                replace(answer, remark=EVIL),
                replace(answer, body=b"{" * 20000),
            )
        )
    )


def _code(chance: random.Random, answer: Command) -> bytes:
    """It refuses, with a text for the terminal."""
    code = chance.choice((1, 2, 3, 13, 16, 17, 22, 24, 26, 206, 212, -1, 32767))
    return encode(replace(answer, code=code, remark=EVIL))


def _frame(chance: random.Random, answer: Command) -> bytes:
    """What comes is no frame."""
    raw = bytearray(encode(answer))
    what = chance.randrange(4)
    if what == 0:
        return chance.randbytes(64)
    if what == 1:
        raw[0:4] = b"\x7f\xff\xff\xff"
    elif what == 2:
        raw[4:8] = b"\xff\xff\xff\xff"
    else:
        raw[4] = 9
    return bytes(raw)
