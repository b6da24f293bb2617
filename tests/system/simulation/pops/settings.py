"""What a run is like: drawn from its seed, so that runs differ in kind and not only in order."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class PopSettings:
    sync: bool
    interval: int
    """ms; the scale of waiting."""
    length: float
    """Seconds until nothing bad happens any more."""
    log_file: int
    queues: int
    messages: int
    pause: float
    """Mean seconds between two sends of a sender."""
    senders: int
    members: int
    pops: int
    """How many pops of a member wait or are dealt with at the same time."""
    invisible: int
    """ms for which a popped message is invisible."""
    timers: float
    """How many messages are timer messages."""
    farthest: int
    """Most ms until a timer is due."""
    recall: float
    kills: int
    deaths: int
    jumps: int
    die_in_call: float
    lose: float
    slow: float
    forget: float
    renew: float
    index_pause: float = 0.0
    topic: str = "T"
    groups: tuple[str, ...] = ("G", "GO")
    """The second one pops in order."""


def draw_pops(random: Random) -> PopSettings:
    pick, rare = random.choice, lambda share: random.random() < share
    return PopSettings(
        sync=rare(0.4),
        interval=4000,
        length=pick((10.0, 30.0, 60.0)),
        log_file=pick((16, 64)) * 1024,
        queues=pick((1, 2, 4)),
        messages=random.randint(1, 60),
        pause=pick((0.1, 0.5, 2.0)),
        senders=random.randint(1, 3),
        members=random.randint(1, 3),
        pops=pick((1, 1, 2)),
        invisible=pick((1000, 3000, 10_000)),
        timers=pick((0.0, 0.3, 1.0)),
        farthest=pick((3000, 20_000, 60_000)),
        recall=pick((0.0, 0.2)),
        kills=random.randint(0, 5),
        deaths=random.randint(0, 3),
        jumps=pick((0, 0, 0, 2)),
        die_in_call=pick((0.0, 0.01, 0.05)),
        lose=pick((0.0, 0.02, 0.1)),
        slow=pick((0.0, 0.0, 0.05)),
        forget=pick((0.0, 0.1, 0.5)),
        renew=pick((0.0, 0.2)),
    )
