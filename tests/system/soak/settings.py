"""What a run is told, what its server is told, and the names of what it uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PLAIN = "SoakPlain"
TAGGED = "SoakTagged"
ORDERED = "SoakOrdered"
BROADCAST = "SoakBroadcast"
REQUESTS = "SoakRequests"
CLIENT = "SoakClient"
QUEUES = {PLAIN: 4, TAGGED: 3, ORDERED: 4, BROADCAST: 2, REQUESTS: 2, CLIENT: 4}
"""The topics that a run makes, and how many queues they have."""

DELAYS = {1: 1000, 2: 2000, 3: 5000}
"""ms by level: messageDelayLevel below."""

CONF = """\
brokerName=broker-a
mappedFileSizeCommitLog=4194304
mappedFileSizeConsumeQueue=20000
maxHashSlotNum=5000
maxIndexNum=20000
flushIntervalCommitLog=100
flushIntervalConsumeQueue=200
flushConsumerOffsetInterval=500
fileReservedTime=10000
deleteCommitLogFilesInterval=0
deleteFileBatchMax=1000
cleanResourceInterval=1000
cleanFileForciblyEnable=false
enablePropertyFilter=true
enableConsumeQueueExt=true
mappedFileSizeConsumeQueueExt=20000
enableCalcFilterBitMap=true
messageDelayLevel=1s 2s 5s
transactionTimeOut=1000
transactionCheckInterval=500
transactionCheckMax=10000
"""
"""Small files, which roll all the time. Nothing expires by itself: see retention.py."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much more a server may hold late in its life than early in it."""

    memory_ratio: float = 0.20
    memory_kib: int = 20 * 1024
    """Private memory: so much of what it was, and so many KiB on top."""
    files: int = 20
    threads: int = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """`rate` is a factor for all loads. `calm`: the part of the run at its end in which nobody
    restarts the server, so that one process lives long enough to be judged."""

    folder: Path
    seconds: float = 600.0
    seed: int = 1
    flush: str = "ASYNC_FLUSH"
    rate: float = 1.0
    line_every: float = 10.0
    restart_every: float = 25.0
    calm: float = 0.55
    drain_seconds: float = 60.0
    limits: Limits = field(default_factory=Limits)
