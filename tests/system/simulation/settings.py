"""What a run is like: drawn from its seed, so that runs differ in kind and not only in order."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

HOUR = 3_600_000


@dataclass(slots=True)
class Settings:
    sync: bool
    check_max: int
    interval: int
    time_out: int
    log_file: int
    max_op_body: int
    chunk: int
    looked_at: int
    max_behind: int
    progress_pause: float
    """As the service's CHUNK, EXAMINED, MAX_BEHIND and PROGRESS_INTERVAL."""
    producers: int
    transactions: int
    pause: float
    """Mean seconds between two transactions of a producer."""
    length: float
    """Seconds until nothing bad happens any more."""
    kills: int
    deaths: int
    jumps: int
    stalls: int
    resumes: int
    die_in_call: float
    lose: float
    slow: float
    """How often a frame takes seconds, so that its sender gives up."""
    answer_checks: float
    forget_end: float
    repeat_end: float
    immune: float
    same_birth: float
    index_pause: float
    """Most seconds that the index takes after a start."""
    far_jumps: bool
    topics: tuple[str, ...] = ("T0", "T1")
    groups: tuple[str, ...] = ("PG_a", "PG_b")
    hook: str | None = None
    """What on_exhausted does: "keep" what waits, "decide", or there is none."""


def draw(random: Random) -> Settings:
    pick, rare = random.choice, lambda share: random.random() < share
    interval = pick((1_000, 4_000, 10_000))
    producers = random.randint(1, 4)
    return Settings(
        sync=rare(0.4),
        check_max=pick((1, 2, 3, 3, 5, 15)),
        interval=interval,
        time_out=pick((0, 1_000, 6_000)),
        log_file=pick((8, 16, 64)) * 1024,
        max_op_body=pick((1, 16, 4096)),
        chunk=pick((1, 3, 64)),
        looked_at=pick((2, 20_000)),
        max_behind=pick((2, 6, 100_000)),
        progress_pause=pick((0.1, 0.5, 2)) * interval / 1000,
        producers=producers,
        transactions=random.randint(1, 16),
        pause=pick((0.2, 2.0, 10.0)),
        length=pick((2, 6, 12)) * interval / 1000,
        kills=random.randint(0, 6),
        deaths=random.randint(0, 4),
        jumps=pick((0, 0, 0, 2, 4)),
        stalls=pick((0, 0, 3)),
        resumes=pick((0, 0, 2)),
        die_in_call=pick((0.0, 0.03, 0.15)),
        lose=pick((0.0, 0.02, 0.1)),
        slow=pick((0.0, 0.0, 0.05)),
        answer_checks=pick((1.0, 0.8, 0.3, 0.0)),
        forget_end=pick((0.0, 0.3, 0.9)),
        repeat_end=pick((0.0, 0.2, 0.5)),
        immune=pick((0.0, 0.0, 0.3)),
        same_birth=pick((0.0, 0.0, 0.2)),
        index_pause=pick((0.0, 0.0, 1.0)) * interval / 1000,
        far_jumps=rare(0.05),
        hook=pick((None, None, None, "keep", "decide")),
    )
