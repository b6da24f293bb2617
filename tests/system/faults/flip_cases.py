"""Random damage to the files of a store: flipped bits, bytes overwritten, ranges of noise, blocks
with the content of an earlier time or of another place.

An image is given by its seed and number alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.system.faults.bases import Base
from tests.system.faults.images import Image, checkpoint

KINDS = {"commitlog": 40, "consumequeue": 24, "index": 14, "config": 12, "checkpoint": 7, "lock": 3}
"""How often each kind of file is hit; `abort` goes with `lock`."""
BLOCKS = (64, 512, 4096)
"""Bytes that a disk writes at once; the smallest is of these small stores."""
INSIDE = 0.9
"""Part of the hits that go where a file has content, not into the zeros behind."""


@dataclass(frozen=True)
class Flip:
    seed: int
    number: int


@dataclass(frozen=True)
class Damaged:
    """`hits`: what was done, for people; `files`: the names of what was hit; `clean`: without
    `abort`."""

    image: Image
    base: Base
    clean: bool
    files: frozenset[str]
    hits: tuple[str, ...]


def apply(case: Flip, bases: dict[str, Base], config: Image) -> Damaged:
    """The image of a case; `config` has the JSON files that stand beside the store."""
    draw = random.Random(f"{case.seed}:{case.number}")
    base = bases[draw.choice(sorted(bases))]
    clean = draw.random() < 0.5
    image = {**(base.stopped if clean else base.killed), **config}
    if not clean and draw.random() < 0.5:
        last = draw.choice(base.records)
        image["checkpoint"] = checkpoint(last.record.store_timestamp, last.end)
    present = {name.split("/")[0] for name in image}
    kinds = [kind for kind in KINDS if kind in present]
    weights = [KINDS[kind] for kind in kinds]
    kind = draw.choices(kinds, weights)[0]
    hits: list[str] = []
    files: set[str] = set()
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        if draw.random() < 0.1:
            kind = draw.choices(kinds, weights)[0]
        names = [
            n for n in sorted(image) if n.split("/")[0] in ((kind, "abort")[: 1 + (kind == "lock")])
        ]
        name = draw.choice(names)
        content, hit = damage(image[name], draw, image)
        if content != image[name]:
            image[name] = content
            files.add(name)
            hits.append(f"{name} {hit}")
    return Damaged(image, base, clean, frozenset(files), tuple(hits))


def damage(content: bytes, draw: random.Random, image: Image) -> tuple[bytes, str]:
    """The bytes with one hit of some kind, and what it was."""
    if not content:
        return content, ""
    used = len(content.rstrip(b"\0")) or len(content)
    at = draw.randrange(used if draw.random() < INSIDE else len(content))
    new = bytearray(content)
    kinds = ["bit", "bit", "bit", "bit", "byte", "noise", "zeros", "high", "older", "misplaced"]
    kind = draw.choice(kinds)
    if kind in ("older", "misplaced"):
        return lie(content, draw, at, image if kind == "misplaced" else None)
    if kind == "bit":
        bit = draw.randrange(8)
        new[at] ^= 1 << bit
        return bytes(new), f"bit {bit} of byte {at}"
    if kind == "byte":
        new[at] = draw.randrange(256)
        return bytes(new), f"byte {at} is {new[at]:#04x}"
    if kind == "high":
        new[at] = draw.choice((0x00, 0x7F, 0x80, 0xFF))
        return bytes(new), f"byte {at} is {new[at]:#04x}"
    length = min(draw.choice((2, 4, 8, 20, 64)), len(new) - at)
    new[at : at + length] = draw.randbytes(length) if kind == "noise" else bytes(length)
    return bytes(new), f"{kind} in bytes {at} to {at + length}"


def lie(content: bytes, draw: random.Random, at: int, image: Image | None) -> tuple[bytes, str]:
    """A block around a place has the content of another one, of any file of the image; without an
    image that of an earlier time: what stood in it first, then zeros."""
    size = draw.choice(BLOCKS)
    start = at - at % size
    end = min(start + size, len(content))
    if image is None:
        new, what = content[start:at], f"as before byte {at}"
    else:
        source = draw.choice(sorted(image))
        used = max(len(image[source].rstrip(b"\0")), 1)
        other = draw.randrange(0, used, size)
        if other == start and source.startswith("consumequeue/"):
            other += size  # a reader compares queue id and offset with the record, no topic
        new, what = image[source][other : other + end - start], f"that of {other} of {source}"
    new = new.ljust(end - start, b"\0")
    return content[:start] + new + content[end:], f"block {start} to {end} is {what}"
