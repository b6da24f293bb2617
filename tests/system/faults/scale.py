"""How many images a run takes, and from which seed. Set by environment variables:

PYRMQ_FAULT_IMAGES: a factor on the default numbers, or `full` (unless set, what `make thorough`
takes): every torn image, 20,000 flips. PYRMQ_SEED: the same seed gives the same images.
PYRMQ_FAULT_JOBS: workers at a time (1; as many as cores where it is full).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from tests.support.thorough import THOROUGH, seed

FULL = "full"
TORN, FLIPS = 300, 300
"""Images of a default run."""
FULL_FLIPS = 20_000
FAILED_FLIPS: tuple[tuple[int, int], ...] = ()
"""Seed and number of flipped images that failed once."""
FAILED_TORN: tuple[int, ...] = ()
"""Numbers of torn images that failed once."""
FAILED_LIES: tuple[int, ...] = (198, 219, 237, 252)
"""Numbers of images with lying sectors that failed once."""


@dataclass(frozen=True)
class Scale:
    """`torn` None: all of them."""

    torn: int | None
    flips: int
    seed: int
    jobs: int


@cache
def scale() -> Scale:
    images = os.environ.get("PYRMQ_FAULT_IMAGES", FULL if THOROUGH else "1")
    cores = (os.cpu_count() or 1) if images == FULL else 1
    jobs = int(os.environ.get("PYRMQ_FAULT_JOBS", cores))
    if images == FULL:
        return Scale(None, FULL_FLIPS, seed(), jobs)
    factor = float(images)
    return Scale(max(int(TORN * factor), 1), max(int(FLIPS * factor), 1), seed(), jobs)
