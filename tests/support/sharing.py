"""Which test files run one after another in one worker of pytest-xdist, and which of them first.

A file always stays together: its fixtures are built once. Files that share something that costs
more than it saves to build it twice (a JVM with Spark in it) are one group.
"""

from __future__ import annotations

GROUPS: dict[str, tuple[str, ...]] = {}
"""Beginnings of the paths of a group's files, the longest groups first."""

LONG: tuple[str, ...] = ()


def group(nodeid: str) -> str:
    """The group of a test by its id: a name of GROUPS, or its file."""
    file = nodeid.partition("::")[0]
    return next((name for name, starts in GROUPS.items() if file.startswith(starts)), file)


def rank(nodeid: str) -> int:
    """Sorts tests: what takes longest comes first, as the last group to end ends the run."""
    mine, order = group(nodeid), [*GROUPS, *LONG]
    return order.index(mine) if mine in order else len(order)
