"""What an archive holds, for people and as a table: all of it from the manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_ext.jobs import report
from spark_ext.jobs.archive_read import leftovers, opened
from spark_ext.jobs.engine import Where, engine_of

if TYPE_CHECKING:
    from spark_ext.jobs.archive_manifest import Archived


def table(where: Where, root: str) -> Any:
    """An archive's files: run, topic, day, path, rows, bytes, first and last store time."""
    manifest, _ = opened(where, root)
    rows = [
        (run.run, f.topic, f.day, f.path, f.rows, f.fileBytes, f.firstTimestamp, f.lastTimestamp)
        for run in manifest.runs()
        for f in run.files
    ]
    engine = engine_of(where)
    schema = (
        "run int, topic string, day string, path string, `rows` bigint, bytes bigint, "
        "`first` bigint, `last` bigint"
    )
    return engine.sql(
        """SELECT run, topic, CAST(day AS date) AS day, path, `rows`, bytes,
            timestamp_millis(`first`) AS firstTimestamp, timestamp_millis(`last`) AS lastTimestamp
        FROM {files}""",
        files=engine.values(rows, schema),
    )


def summary(where: Where, root: str, added: Archived | None = None, top: int = 20) -> str:
    """What an archive holds, by topic, and what a call added."""
    manifest, _ = opened(where, root)
    runs = list(manifest.runs())
    text = []
    if added is not None:
        text.append(
            f"added {report.number(added.rows, 'message')}, {report.size(added.file_bytes)} of "
            f"Parquet, in {report.number(len(added.runs), 'run')}"
        )
    days = sorted({f.day for run in runs for f in run.files})
    text.append(
        f"{root} holds {report.number(sum(run.rows for run in runs), 'message')}, "
        f"{report.size(sum(run.fileBytes for run in runs))}, of {report.number(len(runs), 'run')}"
        + (f", {days[0]} to {days[-1]}" if days else "")
    )
    topics: dict[str, list[int]] = {}
    for file in (f for run in runs for f in run.files):
        sums = topics.setdefault(file.topic, [0, 0, 0])
        for at, value in enumerate((file.rows, file.fileBytes, 1)):
            sums[at] += value
    queues: dict[str, set[tuple[str, int]]] = {}
    for q in (q for run in runs for q in run.queues):
        queues.setdefault(q.topic, set()).add((q.brokerName, q.queueId))
    rows = sorted(topics.items(), key=lambda item: (-item[1][0], item[0]))
    if rows:
        lines = [
            [topic, count, report.size(size), files, len(queues.get(topic, ()))]
            for topic, (count, size, files) in rows[:top]
        ]
        titles = ("topic", "messages", "bytes", "files", "queues")
        text += ["", report.lines(titles, lines)]
    if len(rows) > top:
        text.append(f"... and {report.number(len(rows) - top, 'more topic')}")
    rest = leftovers(manifest)
    if rest:
        text.append(f"of a run that did not finish, to be replaced: {', '.join(rest)}")
    return "\n".join(text)


def plot(where: Where, root: str, path: str, note: str = "") -> None:
    """Messages by day, coloured by topic (the eight largest, and the others)."""
    from spark_ext.jobs.plot import columns

    manifest, _ = opened(where, root)
    counts: dict[tuple[str, str], int] = {}
    sums: dict[str, int] = {}
    for file in (f for run in manifest.runs() for f in run.files):
        key = file.topic, file.day
        counts[key] = counts.get(key, 0) + file.rows
        sums[file.topic] = sums.get(file.topic, 0) + file.rows
    large = sorted(sums, key=lambda topic: (-sums[topic], topic))[:8]
    days = sorted({day for _, day in counts})[-40:]
    series: dict[str, list[float]] = {t: [counts.get((t, d), 0) for d in days] for t in large}
    others = [sum(n for (t, d), n in counts.items() if d == day and t not in large) for day in days]
    if any(others):
        series["others"] = [float(count) for count in others]
    columns(path, "Archived messages by day", days, series, "messages", note=note)
