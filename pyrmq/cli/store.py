"""`pyrmq store …`: inspect, verify, dump and repair a store folder that no broker has open."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from pyrmq.cli.store_checks import (
    DAMAGED,
    SOUND,
    STEP,
    Finding,
    alone_option,
    body_as_sent,
    commit_log_option,
    finding_line,
    name_left_out,
    path_argument,
    reading,
    refuse_if_open,
    result_lines,
    run_check,
    stores_at,
    with_body,
)
from pyrmq.cli.store_repair import rejoin, repair
from pyrmq.escape import escape, json_line


def moment(ms: int) -> str:
    """A time in ms for people; what no calendar has stays a number."""
    try:
        return datetime.fromtimestamp(ms / 1000).astimezone().isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(ms)


@click.group()
def store() -> None:
    """Look into a store folder without a broker: ours, or one of Apache RocketMQ."""


@store.command()
@path_argument
@commit_log_option
@alone_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def inspect(path: Path, commit_log: tuple[Path, ...], alone: bool, as_json: bool) -> None:
    """Say what PATH holds: files, log, topics and queues, index, checkpoint.

    Reads ends only, so it is fast, and changes nothing; a broker may be running. The stores of
    further brokers (`pyrmq server --brokers N`) follow; in JSON they are under "brokers".
    """
    from pyrmq.engine import inspect_store

    stores = stores_at(path, alone)
    with reading():
        report, *others = [
            inspect_store(store, list(commit_log) if store == path else []) for store in stores
        ]
    if as_json:
        click.echo(json_line({**report, "brokers": others} if others else report))
        return
    for one in (report, *others):
        for line in report_lines(one):
            click.echo(escape(line))


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    log, index = report["commitLog"], report["index"]
    state = "stopped cleanly" if report["cleanStop"] else "not stopped cleanly (killed?)"
    if report["open"]:
        state = "open in a broker"
    elif report["open"] is None:
        state += "; its lock cannot be read"
    yield f"store       {report['path']}: {state}"
    yield (
        f"commit log  {log['minPhyOffset']} to {log['maxPhyOffset']}, "
        f"files of {log['fileSize']} bytes"
    )
    if log["firstStoreTimestamp"] >= 0:
        yield f"messages    {moment(log['firstStoreTimestamp'])} to"
        yield f"            {moment(log['lastStoreTimestamp'])}"
    if report["checkpoint"]:
        for name, value in report["checkpoint"].items():
            time_of = f"  {moment(value)}" if name.endswith("Timestamp") and value > 0 else ""
            yield f"checkpoint  {name}={value}{time_of}"
    else:
        yield f"checkpoint  none: {report['checkpointFault'] or 'no such file'}"
    if report["timers"]:
        yield from timer_lines(report["timers"])
    for file in index:
        if file.get("entries"):
            yield (
                f"index       {file['path']}: {file['entries']} entries, "
                f"{file['beginPhyOffset']} to {file['endPhyOffset']}"
            )
        else:
            yield f"index       {file['path']}: empty"
    yield f"{'files':<24} {'count':>8} {'bytes':>16} {'on disk':>16}"
    for kind, group in report["files"].items():
        yield f"  {kind:<22} {group['files']:>8} {group['bytes']:>16} {group['allocated']:>16}"
    for name in report["unknown"]:
        yield f"  unknown: {name}"
    if report["rocksdb"]:
        yield "queues are in a RocksDB, which is not read here"
        return
    yield f"{'topic-queue':<40} {'min':>12} {'max':>12} {'messages':>12}"
    for q in report["queues"]:
        name = f"{escape(q['topic'])}-{q['queueId']}"
        count = q["maxOffset"] - q["minOffset"]
        yield f"  {name:<38} {q['minOffset']:>12} {q['maxOffset']:>12} {count:>12}"


def timer_lines(timers: dict[str, Any]) -> Iterator[str]:
    t = timers
    if t["waiting"] is None:
        length = "no file" if t["wheelBytes"] is None else f"{t['wheelBytes']} bytes"
        yield f"timers      no wheel that can be read: {length}"
    elif not t["slots"]:
        yield "timers      none wait"
    else:
        yield f"timers      {t['waiting']} wait in {t['slots']} slots, {moment(t['firstMs'])} to"
        yield f"            {moment(t['lastMs'])}"
    yield f"timer log   {t['logMin']} to {t['logEnd']}, {t['logFiles']} files"
    if t["readMs"] is not None:
        end = "" if t["queueEnd"] is None else f" of {t['queueEnd']}"
        yield f"timer check delivered up to {moment(t['readMs'])}"
        yield f"            in the wheel {t['queueOffset']}{end}, log flushed to {t['logFlushed']}"
    for fault in t["faults"]:
        yield f"timer fault {fault}"


@store.command()
@path_argument
@commit_log_option
@alone_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object: findings and summary.")
@click.pass_context
def verify(
    ctx: click.Context, path: Path, commit_log: tuple[Path, ...], alone: bool, as_json: bool
) -> None:
    """Read all of PATH and hold log, queues and index against each other.

    Prints one finding a line: severity, file:byte, what. Exit code 0: sound, 1: damage, 2: it
    cannot be read. Changes nothing; no broker may have the store open. The stores of further
    brokers (`pyrmq server --brokers N`) are read as well, each behind a line with its path; in
    JSON they are under "brokers".
    """
    from pyrmq.engine import Verifier

    stores = stores_at(path, alone)
    for store in stores:
        refuse_if_open(store)
    results = []
    for store in stores:
        with reading():
            verifier = Verifier(store, list(commit_log) if store == path else [])
        found = run_check(store, verifier, "verify")
        summary = verifier.summary()
        results.append((store, found, summary))
        if not as_json:
            if len(stores) > 1:
                click.echo(escape(f"store {store}"))
            for one in found:
                click.echo(finding_line(one))
            for line in result_lines(summary):
                click.echo(line)
    if as_json:
        first, *others = [_verified(*result) for result in results]
        click.echo(json_line({**first, "brokers": others} if others else first))
    ctx.exit(DAMAGED if any(summary["damage"] for _, _, summary in results) else SOUND)


def _verified(store: Path, found: list[Finding], summary: dict[str, Any]) -> dict[str, Any]:
    names = ("severity", "kind", "path", "at", "text")
    findings = [dict(zip(names, one, strict=True)) for one in found]
    return {"store": str(store), "findings": findings, "summary": summary}


@store.command()
@path_argument
@commit_log_option
@click.option("-t", "--topic", help="Messages of this topic.")
@click.option("-q", "--queue", type=click.IntRange(0), help="Messages of this queue (queueId).")
@click.option("-o", "--offset", type=click.IntRange(0), help="From this queue offset on.")
@click.option("--phys", type=click.IntRange(0), help="From this physical offset on.")
@click.option("-k", "--key", help="Messages with this key (KEYS or UNIQ_KEY).")
@click.option("--msg-id", help="The message with this offsetMsgId or UNIQ_KEY.")
@click.option("-n", "--max", "limit", type=click.IntRange(1), help="At most so many.")
@click.option(
    "--body",
    type=click.Choice(["none", "text", "base64", "hex"]),
    default="text",
    show_default=True,
    help="How bodies are shown; text that is none is shown in Base64.",
)
@click.option("--raw", is_flag=True, help="Print bodies alone, byte for byte.")
@click.option("--scan", is_flag=True, help="Walk the log, whatever queues and index say.")
@click.pass_context
def dump(
    ctx: click.Context,
    path: Path,
    commit_log: tuple[Path, ...],
    topic: str | None,
    queue: int | None,
    offset: int | None,
    phys: int | None,
    key: str | None,
    msg_id: str | None,
    limit: int | None,
    body: str,
    raw: bool,
    scan: bool,
) -> None:
    """Print records as JSON, one a line, under RocketMQ's field names.

    Controls and other characters that a terminal would obey are escaped. --raw prints the bodies
    instead, byte for byte with a newline after each, for a file or a pipe.

    With a topic its queues say where the records are, with a topic and a key the index; otherwise
    the log is walked through. What should be a record and is none is reported on stderr, with exit
    code 1 at the end. A broker may be running. Stores of further brokers in PATH/brokers are not
    read: name one of them as PATH.
    """
    from pyrmq.engine import Records

    if sum(x is not None for x in (phys, key, msg_id)) > 1:
        raise click.UsageError("--phys, --key and --msg-id exclude each other")
    if raw and ctx.get_parameter_source("body") is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError("--raw and --body exclude each other")
    if (queue is not None or offset is not None) and topic is None:
        raise click.UsageError("--queue and --offset need a --topic")
    name_left_out(path)
    with reading():
        records = Records(
            path, list(commit_log), topic=topic, queue=queue, offset=offset, phys=phys, key=key,
            msg_id=msg_id, scan=scan,
        )  # fmt: skip
    shown, faults, finished = 0, 0, False
    try:
        while not finished and (limit is None or shown < limit):
            want = 256 if limit is None else min(256, limit - shown)
            found, finished = records.next(want, STEP)
            for one in found:
                if isinstance(one, dict):
                    shown += 1
                    if raw:
                        sent = body_as_sent(one)
                        click.echo(one["body"] if sent is None else sent)
                    else:
                        click.echo(json_line(with_body(one, body)))
                elif isinstance(one, str):
                    click.echo(escape(one), err=True)
                else:
                    faults += 1
                    click.echo(finding_line(("damage", "record", *one)), err=True)
    except BrokenPipeError:
        # The reader has enough (`| head`): what Python would flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ctx.exit(DAMAGED if faults else SOUND)


store.add_command(repair)
store.add_command(rejoin)
