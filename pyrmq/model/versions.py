"""Names of the versions that clients and brokers state as a number. [MQVersion]"""

from __future__ import annotations

from bisect import bisect_right

_FIRST = (
    "V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3",
    "V3_0_0_BETA4", "V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6",
    "V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7", "V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8",
    "V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL",
)  # fmt: skip
_LINES = (
    (16, 3, 0, 1), (46, 3, 1, 0), (66, 3, 2, 0),
    *((86 + 18 * n, 3, 3 + n, 1) for n in range(7)),
    *((212 + 20 * n, 4 + n // 10, n % 10, 0) for n in range(20)),
)  # fmt: skip
"""The first number of each minor version, which version that is, and its first patch; each patch
has two numbers, its snapshot's and its own."""
_STARTS = [line[0] for line in _LINES]
_HIGHER = 612


def version_name(number: int) -> str:
    """`V5_3_3` for 479."""
    if not 0 <= number < _HIGHER:
        return "HIGHER_VERSION" if number >= _HIGHER else str(number)
    if number < len(_FIRST):
        return _FIRST[number]
    start, major, minor, patch = _LINES[bisect_right(_STARTS, number) - 1]
    step, released = divmod(number - start, 2)
    return f"V{major}_{minor}_{patch + step}" + ("" if released else "_SNAPSHOT")
