"""How many images a run takes, and from which seed. Set by environment variables:

PYRMQ_FAULT_IMAGES: a factor on the default numbers, or `full`: every torn image, 20,000 flips.
PYRMQ_FAULT_SEED: the seed of the run; `random` for a new one. The same seed gives the same images.
PYRMQ_FAULT_JOBS: workers at a time (1).
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from functools import cache

TORN, FLIPS = 1_200, 1_500
"""Images of a default run."""
FULL_FLIPS = 20_000


@dataclass(frozen=True)
class Scale:
    """`torn` None: all of them."""

    torn: int | None
    flips: int
    seed: int
    jobs: int


@cache
def scale() -> Scale:
    images = os.environ.get("PYRMQ_FAULT_IMAGES", "1")
    text = os.environ.get("PYRMQ_FAULT_SEED", "1")
    seed = secrets.randbits(32) if text == "random" else int(text)
    jobs = int(os.environ.get("PYRMQ_FAULT_JOBS", "1"))
    if images == "full":
        return Scale(None, FULL_FLIPS, seed, jobs)
    factor = float(images)
    return Scale(max(int(TORN * factor), 1), max(int(FLIPS * factor), 1), seed, jobs)
