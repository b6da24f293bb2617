"""The two sizes of the test suite, and the seeds of its random tests.

`make test` guards all behaviour: fixed seeds, small numbers, the newest of each peer. The slices of
`make thorough` set PYRMQ_THOROUGH=1: they also run the tests that are marked `thorough` (the marker
says why a test is not in `make test`), larger numbers, and seeds that nobody has tried.

Environment: PYRMQ_THOROUGH=1 the long form; PYRMQ_SEED repeats a run of the random tests.
"""

from __future__ import annotations

import os
import secrets

THOROUGH = os.environ.get("PYRMQ_THOROUGH") == "1"
SEED = 20240229
"""What random tests of `make test` start from."""

FAILED: dict[str, tuple[int, ...]] = {
    "kill-loop": (),
    "transaction-kill-loop": (),
    "killed-deliveries": (),
    "killed-timers": (),
    "killed-pops": (),
    "simulation-pops": (43, 47, 1579),
    "hostile-fuzz": (),
    "reclaim-kill": (),
    "segments-stream": (),
    "simulation": (),
    "simulation-groups": (770046, 770086),
    "sql-filter": (),
    "local-archive-kill": (),
    "spark-archive-kill": (),
    "spark-filters": (),
    "spark-stream-kill": (),
    "spark-stream-stop": (),
    "outbox-races": (),
    "outbox-kill": (),
}
"""Seeds that failed once, by random test: `make test` runs each of them again. Put a seed that a
slice of `make thorough` printed here, with the fix. (Hypothesis prints an example: put it over its
test as `@example`.)"""

if THOROUGH:
    # Here, in the process that starts pytest-xdist's workers, so that all of them have the same.
    os.environ.setdefault("PYRMQ_SEED", str(secrets.randbits(31)))


def seed() -> int:
    """PYRMQ_SEED; without it a new one in the long form, which the header of the run prints, and
    always the same in `make test`."""
    return int(os.environ.get("PYRMQ_SEED", SEED))


def seeds(test: str) -> list[int]:
    """With what a random test is parametrized: the seed of this run, then those that failed."""
    first = seed()
    return [first, *(failed for failed in FAILED[test] if failed != first)]


def size(variable: str, short: int, long: int) -> int:
    """How many rounds, kills or images: `variable` of the environment, or what the form says."""
    return int(os.environ.get(variable, long if THOROUGH else short))


def examples(short: int) -> int:
    """How many examples a Hypothesis test of a costly property takes; ten times as many in the long
    form."""
    return size("PYRMQ_EXAMPLES", short, 10 * short)
