"""What brokers say of waiting timer messages: the bounds of a histogram, as a request has them.

RocketMQ's GET_TIMER_METRICS (61) answers the number of each topic (`timingCount`). pyrmq's brokers
add when they are due: `distribution`, a list of {"upTo": seconds, "count": n} in order; the last
one has no `upTo`. The request may state the bounds. [TimerMetrics]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pyrmq.errors import InvalidParameterError

BOUNDS = (10, 60, 300, 900, 3600, 14_400, 28_800, 86_400, 172_800)
"""Seconds from now, unless the request says others."""
MAX_BOUNDS = 100
"""Bounds of one request."""
MAX_SECONDS = 10 * 366 * 86_400
FIELD = "bounds"
"""The request's field: seconds, separated by commas. RocketMQ's brokers ignore it."""
_TEXT = re.compile(r"[0-9]{1,9}(?:,[0-9]{1,9})*", re.ASCII)


def check_bounds(bounds: Sequence[int]) -> list[int]:
    """Raises InvalidParameterError unless they are whole seconds in rising order."""
    found = list(bounds)
    if not found or any(type(n) is not int or not 0 < n <= MAX_SECONDS for n in found):
        raise InvalidParameterError(
            f"bounds are whole seconds from 1 to {MAX_SECONDS}, not {str(found)[:80]}"
        )
    if len(found) > MAX_BOUNDS:
        raise InvalidParameterError(f"at most {MAX_BOUNDS} bounds at once, not {len(found)}")
    if any(a >= b for a, b in pairwise(found)):
        raise InvalidParameterError("bounds rise: each is higher than the one before")
    return found


def parse_bounds(text: str | None) -> list[int]:
    """The bounds of a request; the usual ones if it states none. Raises InvalidParameterError."""
    if not text:
        return list(BOUNDS)
    if len(text) > MAX_BOUNDS * 10 or not _TEXT.fullmatch(text):
        raise InvalidParameterError(f"bounds are seconds such as 60,3600, not {text[:80]!r}")
    return check_bounds([int(part) for part in text.split(",")])


def bounds_text(bounds: Sequence[int]) -> str:
    return ",".join(str(bound) for bound in bounds)
