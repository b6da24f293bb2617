"""What is watched: a table of figures with the thresholds that count unless a file says others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Part(Enum):
    """What is asked together: it is known as a whole in a round, or not at all."""

    PROGRESS = "how far a group is"
    RUNNING = "how the members of a group run"
    DEAD_LETTERS = "the dead letters of a group"
    EVENTS = "offsets that brokers moved"
    TRANSACTIONS = "the transactions of a broker"
    SERVERS = "whether a server answers"
    REPLICATION = "how far the slaves of a master are"
    REPLICAS = "which brokers of a name are there"
    RUNTIME = "the figures of a broker"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure. `raise_at`, `clear_at`, `rounds`: the defaults of its threshold."""

    name: str
    part: Part
    per: str
    """Of what there is one."""
    unit: str
    raise_at: float
    clear_at: float
    rounds: int
    doc: str
    changes: bool = False
    """Whether it is what came since the round before: a single round cannot tell."""

    @property
    def is_yes_or_no(self) -> bool:
        """Whether the figure is 1 or 0."""
        return self.unit.startswith("(1: ")


METRICS = {
    m.name: m
    for m in (
        Metric("lag", Part.PROGRESS, "group and topic", "messages", 10_000, 5_000, 2,
               "Messages that the group has not consumed, in all queues together."),
        Metric("queue_lag", Part.PROGRESS, "group and topic", "messages", 5_000, 2_500, 2,
               "Messages that the group has not consumed, in the queue that has most of them."),
        Metric("gone", Part.PROGRESS, "group and topic", "messages", 1, 0, 1,
               "Messages of `lag` that were deleted before the group consumed them."),
        Metric("delay", Part.PROGRESS, "group and topic", "seconds", 600, 300, 2,
               "From the last message consumed of a queue to its newest, by store time; of the "
               "queue where that is most."),
        Metric("blocked_queues", Part.RUNNING, "group", "queues", 1, 0, 2,
               "Queues that members hold and do not consume: nothing for 60 s although messages "
               "are there, or a lock that is not had or not given back."),
        Metric("pull_stalled", Part.RUNNING, "group", "queues", 1, 0, 2,
               "Queues that members hold and have not pulled from for 2 minutes: pulls fail."),
        Metric("failed_tps", Part.RUNNING, "group and topic", "messages/s", 1, 0.1, 2,
               "Messages whose consumption fails, a second, of all members."),
        Metric("failed_hour", Part.RUNNING, "group and topic", "messages", 1_000, 500, 1,
               "Messages whose consumption failed within the last hour, of all members."),
        Metric("subscriptions", Part.RUNNING, "group", "(1: they differ)", 1, 0, 2,
               "Members of the group subscribe to different topics or expressions."),
        Metric("offline", Part.RUNNING, "group", "(1: no member)", 1, 0, 2,
               "The group has no member, although messages wait for it."),
        Metric("dlq_growth", Part.DEAD_LETTERS, "group", "messages", 1, 0, 1,
               "Messages that came to the group's dead letters since the round before.",
               changes=True),
        Metric("offset_moved", Part.EVENTS, "group and topic", "events", 1, 0, 1,
               "Pulls from offsets that the broker no longer has, since the round before: "
               "messages were deleted before they were consumed. Read from OFFSET_MOVED_EVENT, "
               "where a broker writes that (offsetCheckInSlave of Apache's).",
               changes=True),
        Metric("transactions", Part.TRANSACTIONS, "broker", "transactions", 1_000, 500, 2,
               "Half messages that are neither committed nor rolled back."),
        Metric("transaction_age", Part.TRANSACTIONS, "broker", "seconds", 600, 300, 2,
               "For how long the oldest half message waits."),
        Metric("server_down", Part.SERVERS, "server", "(1: no answer)", 1, 0, 2,
               "A broker or a name server does not answer."),
        Metric("replication_behind", Part.REPLICATION, "broker", "bytes", 256 << 20, 64 << 20, 2,
               "Bytes of a master's log that the slave lacks that is farthest behind."),
        Metric("master_missing", Part.REPLICAS, "broker name", "(1: no master)", 1, 0, 2,
               "No master of a broker name is there: nothing is stored there, and what only it has "
               "is not read."),
        Metric("slaves_missing", Part.REPLICAS, "broker name", "slaves", 1, 0, 2,
               "Slaves of a broker name that should be there and are not, do not answer, or are "
               "not connected to their master."),
        Metric("disk", Part.RUNTIME, "broker", "percent", 80, 78, 1,
               "How full the disk of the log or of the queues is, the fuller one. Above 85 old "
               "files are deleted whatever their age, above 90 messages are refused."),
        Metric("refused_sends", Part.RUNTIME, "broker", "(1: refused)", 1, 0, 1,
               "The broker refuses messages: its disk is full, a write failed, too few replicas "
               "are in sync, or its permission. Apache's brokers do not say so."),
        Metric("connections", Part.RUNTIME, "broker", "connections", 5_000, 4_000, 2,
               "Connections of clients and servers that a broker has. Apache's do not say so."),
    )
}  # fmt: skip
"""By name, in the order in which they are printed."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What a figure is of. What does not belong to it is empty."""

    metric: str
    group: str = ""
    topic: str = ""
    server: str = ""
    """`host:port`, for a broker with its name in front."""

    @property
    def scope(self) -> str:
        """What was asked to know it."""
        return self.server or self.group

    @property
    def text(self) -> str:
        named = (("group", self.group), ("topic", self.topic), ("server", self.server))
        parts = [f"{kind} {name}" for kind, name in named if name]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Threshold:
    """When an alarm is raised, and when it is over."""

    raise_at: float
    """At this and above it the figure is too high."""
    clear_at: float
    """At this and below it the figure is good again; lower than `raise_at`."""
    rounds: int = 1
    """For how many rounds in a row it is too high until that is told."""
    clear_rounds: int = 1
    """For how many rounds in a row it is good until that is told."""
    repeat: float = 3600.0
    """Seconds after which an alarm that goes on is told again; 0: never."""
    enabled: bool = True
