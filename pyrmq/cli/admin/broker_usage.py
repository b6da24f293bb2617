"""`pyrmq admin broker …`: who uses brokers, and their disks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.disk_usage import DiskUsage, LogFile
    from pyrmq.admin.usage import Figures, Usage, User
    from pyrmq.cli.admin.view import View

LAST = {"10s": 10, "1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600}
BY = ("client", "group", "producer", "consumer", "topic")
SORTS = (
    "bytes", "messages", "requests", "bytes-in", "bytes-out", "messages-in", "messages-out",
)  # fmt: skip
HEADS = {"client": "CLIENT", "topic": "TOPIC"}

_broker = click.option("-b", "--broker", metavar="HOST:PORT", help="This broker only.")
_cluster = click.option("-c", "--cluster", metavar="NAME", help="All brokers of this cluster.")


def _check(broker: str | None, cluster: str | None) -> None:
    if broker and cluster:
        raise click.UsageError("say at most one of --broker HOST:PORT and --cluster NAME")


@click.command()
@session(watch=True)
@_broker
@_cluster
@click.option("--by", type=click.Choice(BY), default="client", show_default=True,
              help="What the rows are of.")  # fmt: skip
@click.option("--last", type=click.Choice(list(LAST)), default="1m", show_default=True,
              help="How far to look back.")  # fmt: skip
@click.option("--sort", type=click.Choice(SORTS), default="bytes", show_default=True,
              help="What counts. -in: sent to brokers, -out: got from them.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1024), default=20, show_default=True,
              help="At most so many rows.")  # fmt: skip
def hogs(
    session: Session,
    broker: str | None,
    cluster: str | None,
    by: str,
    last: str,
    sort: str,
    limit: int,
) -> None:
    """Show who uses brokers most, over all of them. Without --broker and --cluster: of all."""
    _check(broker, cluster)

    async def work(admin: Admin) -> View:
        usage = await admin.usage.top(
            by, seconds=LAST[last], sort=sort, limit=limit, broker=broker, cluster=cluster
        )
        return _view(usage)

    session.report(work)


def _view(usage: Usage) -> View:
    from pyrmq.cli.admin.view import Column, View

    whole = usage.total_per_second.sorted_by(usage.sort)

    def rate(name: str) -> Any:
        is_bytes = name.startswith("bytes")
        return lambda u: (bytes_text if is_bytes else number_text)(getattr(u.per_second, name))

    def share(user: User) -> str:
        part = user.per_second.sorted_by(usage.sort)
        return f"{part / whole:.1%}" if whole else ""

    columns = [Column(HEADS.get(usage.by, "GROUP"), _name)]
    if usage.by == "client":
        columns.append(Column("ADDRESS", "host"))
    if usage.by == "group":
        columns.append(Column("ROLE", "kind"))
    columns += [
        Column("MSG IN/S", rate("messages_in"), right=True),
        Column("BYTES IN/S", rate("bytes_in"), right=True),
        Column("MSG OUT/S", rate("messages_out"), right=True),
        Column("BYTES OUT/S", rate("bytes_out"), right=True),
        Column("REQUESTS/S", rate("requests"), right=True),
        Column("SHARE", share, right=True),
    ]
    failed = [outcome.problem for outcome in usage.failed]
    answered = len(usage.brokers)
    notes = []
    if usage.seconds > 0:
        brokers = "1 broker" if answered == 1 else f"{answered} brokers"
        notes.append(
            f"average of {usage.seconds:.0f} s, {brokers}; all: {_text(usage.total_per_second)}"
        )
    elif answered:
        notes.append("nothing was sampled yet: a broker does that every 10 s")
    if usage.more or usage.folded:
        what = [f"{usage.more} more"] if usage.more else []
        what += [f"at least {usage.folded} without rows of their own"] if usage.folded else []
        notes.append(f"others ({', '.join(what)}): {_text(usage.others_per_second)}")
    users = [u for u in usage.users if not whole or u.per_second.sorted_by(usage.sort)]
    if len(users) < len(usage.users):
        figure = usage.sort.partition("-")[0]
        other = "" if figure == "requests" else " (--sort requests shows them)"
        notes.append(f"{len(usage.users) - len(users)} without {figure} are not shown{other}")
    empty = "" if failed and not answered else "nobody used them"
    return View(usage, users, columns, notes, empty, failed, all_failed=not answered)


def _name(user: User) -> str:
    return user.name or "(no heartbeat)"


def _text(figures: Figures) -> str:
    return (
        f"in {number_text(figures.messages_in)} messages/s, {bytes_text(figures.bytes_in)}/s, "
        f"out {number_text(figures.messages_out)} messages/s, {bytes_text(figures.bytes_out)}/s, "
        f"{number_text(figures.requests)} requests/s"
    )


def number_text(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def bytes_text(value: float) -> str:
    """`1.5 KiB`."""
    if value < 1024:
        return f"{value:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


@click.command()
@session(watch=True)
@_broker
@_cluster
@click.option("-t", "--topic", metavar="NAME", help="This topic, with its queues.")
@click.option("--files", type=click.IntRange(1, 64),
              help="Look into so many of the files that are deleted next.  "
              "[default: those of the next day]")  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1024), default=20, show_default=True,
              help="At most so many rows of each table.")  # fmt: skip
def disk(
    session: Session,
    broker: str | None,
    cluster: str | None,
    topic: str | None,
    files: int | None,
    limit: int,
) -> None:
    """Show what topics take of the log, and what retention frees next."""
    from pyrmq.cli.admin.view import Column, View

    _check(broker, cluster)

    async def work(admin: Admin) -> View:
        found = await admin.usage.disk(
            topic=topic, files=files, limit=limit, broker=broker, cluster=cluster
        )
        failed = [of.outcome.problem for of in found if of.outcome.error]
        data = {of.replica.address: of.outcome.value for of in found if of.outcome.value}
        names = {of.replica.address: of.replica.label for of in found}
        rows = [row for at, usage in data.items() for row in _rows(names[at], usage, topic)]
        columns = [
            Column("WHAT", lambda r: r[1]),
            Column("BYTES", lambda r: bytes_text(r[2]), right=True),
            Column("SHARE", lambda r: r[3], right=True),
            Column("MESSAGES", lambda r: r[4], right=True),
            Column("FREED NEXT", lambda r: r[5], right=True),
        ]
        if len(found) > 1:
            columns.insert(0, Column("BROKER", lambda r: r[0]))
        notes = [note for at, usage in data.items() for note in _notes(names[at], usage)]
        empty = (
            "" if failed else f"topic {topic}: nothing is stored" if topic else "nothing is stored"
        )
        return View(data, rows, columns, notes, empty, failed, all_failed=not data)

    session.report(work)


def _rows(broker: str, usage: DiskUsage, topic: str | None) -> list[tuple[Any, ...]]:
    """What, bytes, share, messages, bytes that are freed next."""
    log = usage.log_end - usage.log_begin

    def row(what: str, nbytes: int, messages: Any, exact: bool, freed: str) -> tuple[Any, ...]:
        share = f"{nbytes / log:.1%}" if log else ""
        return broker, what, nbytes, share if exact else f"~{share}", messages, freed

    freed = {part.topic: part for part in usage.next.topics}
    found = []
    for one in usage.topics:
        next_ = freed.get(one.topic)
        text = bytes_text(next_.bytes) if next_ else ""
        found.append(row(one.topic, one.bytes, one.messages, one.exact, text))
        for queue in one.by_queue:
            what = f"{one.topic}, queue {queue.queue_id}"
            found.append(row(what, queue.bytes, queue.messages, queue.exact, ""))
    if topic is None:
        more = usage.topic_count - len(usage.topics)
        if more > 0:
            left = usage.measured - sum(one.bytes for one in usage.topics)
            found.append(row(f"({more} more topics)", max(left, 0), "", usage.exact, ""))
        rest = max(log - usage.measured, 0)
        found.append(row("(in no queue)", rest, "", usage.exact, ""))
        found.append(row("(the whole log)", log, "", True, bytes_text(usage.next.bytes)))
    return found


def _notes(broker: str, usage: DiskUsage) -> list[str]:
    notes = []
    ratios = ("diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio")
    rate = usage.bytes_per_second
    for disk in usage.disks:
        used = "unknown" if disk.used_percent < 0 else f"{disk.used_percent} %"
        parts = [f"{broker}: {disk.path}: {used} in use, {bytes_text(disk.free)} free"]
        for name in ratios:
            if name in disk.left_until and name in usage.settings and disk.used_percent >= 0:
                parts.append(_until(name, usage.settings[name], disk.left_until[name], rate))
        notes.append("; ".join(parts))
    if rate is not None:
        since = "average of the last hour, or since the start"
        notes.append(f"{broker}: the log grows by {bytes_text(rate)}/s ({since})")
    if not usage.exact:
        unmeasured = f", {usage.unmeasured} topics are not measured" if usage.unmeasured else ""
        notes.append(f"{broker}: sizes with ~ are estimated{unmeasured}")
    return notes + _retention_notes(broker, usage) + _reclaim_notes(broker, usage)


def _until(name: str, ratio: Any, left: int, rate: float | None) -> str:
    if not left:
        return f"above {name}={ratio}"
    time = f", {duration(left / rate)} at this rate" if rate else ""
    return f"{bytes_text(left)} to {name}={ratio}{time}"


def _reclaim_notes(broker: str, usage: DiskUsage) -> list[str]:
    """What reclaimAfter=table frees, and what keeps the rest."""
    if usage.reclaim is None:
        return []
    early = sum(file.in_tables for file in usage.files)
    files = "1 file is" if early == 1 else f"{early or 'no'} files are"
    text = f"{broker}: {files} done with before fileReservedTime (reclaimAfter=table)"
    return [f"{text}; what follows is needed: {usage.reclaim.why}"]


def _retention_notes(broker: str, usage: DiskUsage) -> list[str]:
    from pyrmq.cli.admin.view import moment

    due = [file for file in usage.files if file.due is not None]
    if not due or not usage.next.files:
        why = usage.files[0].why if usage.files else "there is none"
        return [f"{broker}: no file of the log can be deleted: {why}"]
    some = due[: usage.next.files]
    first, last = some[0], some[-1]
    when = moment(first.due or 0)
    if last.due != first.due:
        when += f" to {moment(last.due or 0)}"
    files = "1 file" if len(some) == 1 else f"{len(some)} files"
    freed = bytes_text(usage.next.bytes)
    notes = [f"{broker}: retention deletes {files} next, {freed}, {when}: {_names(some)}"]
    for one in usage.next.groups:
        notes.append(
            f"{broker}: group {one.group} would lose {one.messages} messages of {one.topic} "
            "that it has not consumed"
        )
    hidden = usage.next.group_count - len(usage.next.groups)
    if hidden > 0:
        notes.append(f"{broker}: {hidden} more groups and topics would lose messages")
    return notes


def _names(files: Sequence[LogFile]) -> str:
    names = [file.file.rpartition("/")[2] for file in files]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def duration(seconds: float) -> str:
    """About how long: `3 h`."""
    for length, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


@click.command()
@session(watch=True)
@_broker
@_cluster
@click.option("--last", type=click.Choice(list(LAST)), default="5m", show_default=True,
              help="How far to look back.")  # fmt: skip
def history(session: Session, broker: str | None, cluster: str | None, last: str) -> None:
    """Show the figures of brokers in the last hour, a row for each ten seconds."""
    from pyrmq.cli.admin.view import Column, View, moment

    _check(broker, cluster)

    def rate(name: str) -> Any:
        def text(row: Any) -> str:
            value = row[1].figures.get(name, 0) / row[1].seconds if row[1].seconds > 0 else 0
            return bytes_text(value) if name.startswith("bytes") else number_text(value)

        return text

    def state(name: str) -> Any:
        return lambda row: row[1].figures.get(name)

    def cpu(row: Any) -> str | None:
        spent, seconds = row[1].figures.get("cpuMs"), row[1].seconds
        return f"{spent / seconds / 10:.1f}" if spent is not None and seconds > 0 else None

    async def work(admin: Admin) -> View:
        found = await admin.usage.history(seconds=LAST[last], broker=broker, cluster=cluster)
        failed = [of.outcome.problem for of in found if of.outcome.error]
        data = {of.replica.address: of.outcome.value for of in found if not of.outcome.error}
        names = {of.replica.address: of.replica.label for of in found}
        rows = [(names[at], point) for at, points in data.items() for point in points or ()]
        columns = [
            Column("TIME", lambda r: moment(r[1].end)),
            Column("MSG IN/S", rate("messagesIn"), right=True),
            Column("BYTES IN/S", rate("bytesIn"), right=True),
            Column("MSG OUT/S", rate("messagesOut"), right=True),
            Column("BYTES OUT/S", rate("bytesOut"), right=True),
            Column("CONNECTIONS", state("connections"), right=True),
            Column("NOT CONSUMED", state("backlog"), right=True),
            Column("CPU %", cpu, right=True),
            Column("LOOP LATE MS", state("loopLateMs"), right=True),
            Column("DISK %", state("diskUsed"), right=True),
            Column(
                "NOT FLUSHED", lambda r: bytes_text(r[1].figures.get("flushBehind", 0)), right=True
            ),
        ]
        if len(found) > 1:
            columns.insert(0, Column("BROKER", lambda r: r[0]))
        return View(
            data, rows, columns, (), "" if failed else "nothing was sampled yet", failed,
            all_failed=not data,
        )  # fmt: skip

    session.report(work)
