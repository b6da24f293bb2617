"""Reading an archive, and checking it: by its manifests, so that what a killed run left is not
seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from spark_ext.jobs.archive_manifest import MANIFESTS, Head, Manifest, Run
from spark_ext.jobs.engine import Where, engine_of
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.report import number

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


MAX_PROBLEMS = 100
NEEDED = ("brokerName", "queueId", "queueOffset")
"""Columns that tell where there are gaps."""
PLACE = ("brokerName", "commitLogOffset", "topic", "queueId", "queueOffset")
"""Columns that tell one message from all others."""


def opened(where: Where, root: str) -> tuple[Manifest, Head]:
    """An archive that exists."""
    manifest = Manifest(engine_of(where).folder(root))
    head = manifest.head()
    if head is None:
        raise JobError(f"{manifest.folder.uri} is no archive: it has no {MANIFESTS}/archive.json")
    return manifest, head


def read_archive(
    where: Where,
    root: str,
    *,
    topics: Sequence[str] = (),
    days: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
    runs: Sequence[int] | None = None,
) -> Any:
    """The messages of an archive: its columns, run (int) and day (date), as a DataFrame or a
    LocalTable. Topics, days (2026-01-31, UTC), store times (ms, `until` excluded) and runs narrow
    it; files that cannot hold any of that are not opened."""
    engine = engine_of(where)
    manifest, head = opened(engine, root)
    if since is not None or until is not None:
        _need(head, "storeTimestamp")
    # By file: what else may lie in a folder is not of the archive.
    files = [
        file.path
        for run in (manifest.runs() if runs is None else map(manifest.run, runs))
        for file in run.files
        if (not topics or file.topic in topics)
        and (not days or file.day in days)
        and (since is None or file.lastTimestamp >= since)
        and (until is None or file.firstTimestamp < until)
    ]
    table: Any = engine.stored(root, files, head.columns)
    bounds = [
        f"unix_millis(storeTimestamp) {how} {time}"
        for how, time in ((">=", since), ("<", until))
        if time is not None
    ]
    if bounds:
        table = table.where(" AND ".join(bounds))
    return table


def _need(head: Head, column: str) -> None:
    if column not in head.columns:
        raise JobError(f"the archive has no column {column}")


def leftovers(manifest: Manifest) -> list[str]:
    """Folders of runs that did not finish. The next run replaces them."""
    whole = {manifest.data(number) for number in manifest.numbers()}
    return [n for n in manifest.folder.names() if n.startswith("run=") and n not in whole]


def verify(where: Where, root: str) -> list[str]:
    """What is wrong with an archive: files that are missing, foreign or hold other counts than the
    manifest says; messages that are in it twice; checkpoint and manifests that do not fit. At most
    100 are listed."""
    engine = engine_of(where)
    manifest, _ = opened(engine, root)
    problems: list[str] = []
    try:
        manifest.check_checkpoint()
    except JobError as e:
        problems.append(str(e))
    there: dict[str, int] = {}
    for run in manifest.runs():
        _check_files(manifest, run, problems)
        there |= {file.path: file.rows for file in run.files}
    if problems:
        return problems[:MAX_PROBLEMS]
    table = engine.stored(root, list(there), PLACE, paths=True)
    counts = engine.sql("SELECT path, count(*) AS n FROM {t} GROUP BY path", t=table).collect()
    for row in counts:
        name = unquote(row.path).rpartition("/run=")[2].removeprefix("run=")
        wanted = there.pop(f"run={name}", 0)
        if row.n != wanted:
            problems.append(f"run={name} has {number(row.n, 'row')}, the manifest says {wanted}")
    problems += [f"{name}: {number(rows, 'row')} gone" for name, rows in there.items() if rows]
    place = ", ".join(PLACE)
    twice = f"""SELECT {place}, count(*) AS n FROM {{t}} GROUP BY {place} HAVING count(*) > 1
        ORDER BY {place} LIMIT {MAX_PROBLEMS}"""
    for row in engine.sql(twice, t=table).collect():
        problems.append(
            f"{row.brokerName} {row.topic}-{row.queueId}@{row.queueOffset} is there {row.n} times"
        )
    return problems[:MAX_PROBLEMS]


def gaps(where: Where, root: str) -> list[str]:
    """Messages that should be in an archive and are not, at most 100 lines; nothing for one that
    was made with a filter by tag, whose gaps are meant."""
    manifest, head = opened(where, root)
    if is_filtered(head):
        return []
    found, backwards = find(manifest.runs())
    lines = list(backwards)
    for gap in found:
        if len(lines) >= MAX_PROBLEMS:
            break
        whole = gap.missing == gap.last - gap.first + 1
        parts = [gap] if whole else exact(gap, _offsets(where, root, manifest, gap))
        lines += [str(part) for part in parts]
    return lines[:MAX_PROBLEMS]


def _offsets(where: Where, root: str, manifest: Manifest, gap: Gap) -> list[int]:
    """Offsets around the missing ones of a run and queue, in order: a gap's two neighbours each."""
    engine = engine_of(where)
    files = [file.path for file in manifest.run(gap.run).files if file.topic == gap.topic]
    queue = engine.values([(gap.brokerName, gap.queueId)], "brokerName string, queueId int")
    near = f"""WITH own AS (
            SELECT DISTINCT queueOffset FROM {{stored}} JOIN {{queue}} USING (brokerName, queueId)
        ), near AS (
            SELECT queueOffset, lag(queueOffset) OVER (ORDER BY queueOffset) AS earlier,
                lead(queueOffset) OVER (ORDER BY queueOffset) AS later
            FROM own
        )
        SELECT queueOffset FROM near
        WHERE earlier IS NULL OR queueOffset > earlier + 1 OR later > queueOffset + 1
        ORDER BY queueOffset LIMIT {2 * MAX_PROBLEMS}"""
    stored = engine.stored(root, files, NEEDED)
    return [row.queueOffset for row in engine.sql(near, stored=stored, queue=queue).collect()]


def _check_files(manifest: Manifest, run: Run, problems: list[str]) -> None:
    data = manifest.data(run.run)
    found = {
        f"{data}/{name}": size
        for name, size in manifest.folder.sizes(data)
        if not name.rpartition("/")[2].startswith(("_", "."))
    }
    for file in run.files:
        size = found.pop(file.path, None)
        if size is None:
            problems.append(f"{file.path} is missing")
        elif size != file.fileBytes:
            problems.append(f"{file.path} has {size} bytes, the manifest says {file.fileBytes}")
    problems += [f"{name} is not in the manifest" for name in found]
