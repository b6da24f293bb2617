"""Messages that an archive should have and has not: gaps in its queue offsets.

The manifests say which offsets each run has of a queue, and how many: runs must follow on each
other, and a run must be whole. Nothing is read but the runs that lack something, to say what. What
was archived of a selection by tag or key has gaps of its own, which nobody can tell from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_ext.jobs.archive_manifest import Head, Run

FILTERS = ("subexpression", "key")
"""Options that leave messages out in the middle of a queue."""


@dataclass(frozen=True)
class Gap:
    """Queue offsets `first` to `last` are missing, or `missing` of them if the run says no more."""

    brokerName: str
    topic: str
    queueId: int
    first: int
    last: int
    missing: int
    run: int
    """In which they should be: the run itself, or the one in front of which they are missing."""

    def __str__(self) -> str:
        place = f"{self.brokerName} {self.topic}-{self.queueId}"
        whole = self.missing == self.last - self.first + 1
        if whole and self.missing == 1:
            return f"{place}: offset {self.first} is missing, in run {self.run}"
        some = "" if whole else f"{self.missing} of "
        verb = "are missing"
        return f"{place}: {some}offsets {self.first} to {self.last} {verb}, in run {self.run}"


def is_filtered(head: Head) -> bool:
    """Whether messages were left out on purpose, so that gaps say nothing."""
    given = {name.lower(): text.strip() for name, text in head.selection.items()}
    return any(given.get(name, "*") not in ("*", "") for name in FILTERS)


def find(runs: Iterable[Run]) -> tuple[list[Gap], list[str]]:
    """Gaps between runs and inside of them, and what goes backwards: offsets of a queue or of the
    log that are not behind those of the run before. `runs` in their order."""
    gaps: list[Gap] = []
    backwards: list[str] = []
    ends: dict[tuple[str, str, int], int] = {}
    logs: dict[str, int] = {}
    for run in runs:
        for q in run.queues:
            key = q.brokerName, q.topic, q.queueId
            end = ends.get(key)
            if end is not None and q.first > end + 1:
                gaps.append(Gap(*key, end + 1, q.first - 1, q.first - end - 1, run.run))
            if end is not None and q.first <= end:
                backwards.append(
                    f"{key[0]} {key[1]}-{key[2]}: run {run.run} begins at offset {q.first}, those "
                    f"before it end at {end}"
                )
            missing = q.last - q.first + 1 - q.rows
            if missing > 0:
                gaps.append(Gap(*key, q.first, q.last, missing, run.run))
            ends[key] = max(q.last, -1 if end is None else end)
        for broker, there in run.log.items():
            if broker in logs and there.first <= logs[broker]:
                backwards.append(
                    f"{broker}: run {run.run} begins at physical offset {there.first}, those "
                    f"before it end at {logs[broker]}: is it another log?"
                )
            logs[broker] = max(there.last, logs.get(broker, -1))
    return gaps, backwards


def exact(gap: Gap, offsets: Sequence[int]) -> Iterator[Gap]:
    """What is missing of a run's range, by the offsets that are there, in order."""
    before = gap.first - 1
    for offset in offsets:
        if offset > before + 1:
            yield Gap(
                gap.brokerName, gap.topic, gap.queueId, before + 1, offset - 1,
                offset - before - 1, gap.run,
            )  # fmt: skip
        before = offset
