"""Reads HdrHistogram's interval logs by the rules of its format, and not with the library that
wrote them: V2 with DEFLATE, counts as ZigZag LEB128."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter
from pathlib import Path


def counts(path: Path, tag: str) -> Counter[int]:
    """How often each value was recorded, as the lowest that its bucket stands for."""
    found: Counter[int] = Counter()
    for line in path.read_text().splitlines():
        if line.startswith(f"Tag={tag},"):
            found += _histogram(base64.b64decode(line.split(",")[4]))
    return found


def _histogram(packed: bytes) -> Counter[int]:
    cookie, length = struct.unpack(">ii", packed[:8])
    assert cookie == 0x1C849304 | 0x10
    raw = zlib.decompress(packed[8 : 8 + length])
    cookie, length, shift, digits, lowest, _, _ = struct.unpack(">iiiiqqd", raw[:40])
    assert cookie == 0x1C849303 | 0x10
    assert (shift, lowest) == (0, 1)
    # Values up to twice 10^digits have a bucket each; from there on buckets double in width.
    half = 1 << (2 * 10**digits - 1).bit_length() - 1
    found: Counter[int] = Counter()
    at, index = 40, 0
    while at < 40 + length:
        number, at = _leb128(raw, at)
        count = number >> 1 ^ -(number & 1)
        if count < 0:
            index -= count
            continue
        if count:
            bucket = max(index // half - 1, 0)
            found[(index - bucket * half) << bucket] += count
        index += 1
    return found


def _leb128(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = raw[at]
        at += 1
        if shift == 56:  # the ninth has all its bits
            return number | byte << shift, at
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def percentile(found: Counter[int], part: float) -> int:
    """The lowest value that this part of all is not above."""
    wanted, seen = part * found.total(), 0
    for value in sorted(found):
        seen += found[value]
        if seen >= wanted:
            return value
    raise ValueError("no values")
