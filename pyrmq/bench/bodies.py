"""Bodies of messages: sizes by a distribution, with content that compresses as text does."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from pyrmq.bench.options import OptionError, parse_bytes
from pyrmq.escape import escape

DRAWN = 256
"""Bodies that are drawn from a distribution, and then sent in turns."""
MOST = 4 << 20
"""Longest body."""
MOST_ALL = 256 << 20
"""Bytes of all bodies that are kept."""
COMPRESS_LEVEL = 5
"""That of clients. [compressLevel]"""
_SEED = 20_160_601


def sizes(text: str) -> list[int]:
    """`1024`; `100-2000`: even; `exp:1024`: exponential with that mean, 1 to 16 times it. The same
    text gives the same sizes. OptionError."""
    chance = random.Random(_SEED)
    if match := re.fullmatch(r"exp:(\w+)", text):
        mean = _limited(parse_bytes(match[1]))
        most = min(16 * mean, MOST)
        return [min(max(round(chance.expovariate(1 / mean)), 1), most) for _ in range(DRAWN)]
    if match := re.fullmatch(r"(\w+)-(\w+)", text):
        low, high = (_limited(parse_bytes(part)) for part in match.groups())
        if low > high:
            raise OptionError(f"--size {escape(text)}: {low} is above {high}")
        return [chance.randint(low, high) for _ in range(DRAWN)]
    try:
        size = parse_bytes(text)
    except OptionError:
        raise OptionError(
            f"--size {escape(text[:40])}: write 1024, 64k, 100-2000 (even) or exp:1024 (a mean)"
        ) from None
    return [_limited(size)]


def _limited(size: int) -> int:
    if not 1 <= size <= MOST:
        raise OptionError(f"a body has 1 to {MOST} bytes, not {size}: brokers refuse others")
    return size


def bodies(size: str, files: Sequence[Path] = (), compression: str = "none") -> list[bytes]:
    """What is sent in turns: the content of files, or else made by the sizes."""
    if files:
        found = [_content(path) for path in files]
    else:
        wanted = sizes(size)
        text = _text(max(wanted))
        found = [text[:n] for n in wanted]
    if sum(map(len, found)) > MOST_ALL:
        raise OptionError(f"bodies of more than {MOST_ALL >> 20} MiB in all")
    return packed(found, compression)


def packed(found: list[bytes], compression: str) -> list[bytes]:
    """As clients compress them."""
    if compression == "zlib":
        return [zlib.compress(body, COMPRESS_LEVEL) for body in found]
    return found


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MOST + 1)
    if not content:
        raise OptionError(f"{escape(str(path))} is empty: a message needs a body")
    _limited(len(content))
    return content


def _text(size: int) -> bytes:
    """Digits and letters by chance: about 6 of 8 bits. Nothing on the way takes it for zeros."""
    letters = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
    table = bytes(letters[i % 64] for i in range(256))
    return random.Random(_SEED).randbytes(size).translate(table)
