"""What the commands of `pyrmq store` have in common: arguments, exit codes, running a check,
text of bodies."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyrmq.escape import escape

if TYPE_CHECKING:
    from pyrmq.engine import Verifier


def body_as_sent(record: dict[str, Any]) -> bytes | None:
    """The body of a record, decompressed; None if that cannot be done."""
    from pyrmq.errors import ProtocolError
    from pyrmq.model.compression import decompress

    try:
        return decompress(record["body"], record["sysFlag"])
    except ProtocolError:
        return None


def with_body(record: dict[str, Any], form: str) -> dict[str, Any]:
    """The record with its body as it is to be shown; compressed text is shown as what it was."""
    import base64

    sent = body_as_sent(record) if form == "text" else None
    raw: bytes = record.pop("body")
    record["bodyLength"] = len(raw)
    if form == "none":
        return record
    if form == "hex":
        return {**record, "body": raw.hex(), "bodyEncoding": "hex"}
    if sent is not None:
        try:
            return {**record, "body": sent.decode(), "bodyEncoding": "text"}
        except UnicodeDecodeError:
            pass  # it is no text
    return {**record, "body": base64.b64encode(raw).decode(), "bodyEncoding": "base64"}


STEP = 32 << 20
"""Bytes that the engine works on between two movements of the progress bar."""
SOUND, DAMAGED, UNREADABLE = 0, 1, 2
"""Exit codes of `verify`, and of the others as far as they apply."""

Finding = tuple[str, str, str, int | None, str]
"""severity, kind, path, byte, text"""


class CannotReadError(click.ClickException):
    """There is no store, or it cannot be read now."""

    exit_code = UNREADABLE


path_argument = click.argument("path", type=click.Path(path_type=Path))
commit_log_option = click.option(
    "--commitlog",
    "commit_log",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder of commit-log files, if not PATH/commitlog. May be repeated.",
)


alone_option = click.option(
    "--alone", is_flag=True, help="Leave out the stores of further brokers in PATH/brokers."
)


def stores_at(path: Path, alone: bool) -> list[Path]:
    """The store at PATH, then those of further brokers inside of it."""
    from pyrmq.errors import SegmentError
    from pyrmq.segments.beside import stores_beside

    try:
        others = [] if alone else stores_beside(path)
    except SegmentError as e:
        raise CannotReadError(escape(e)) from e
    return [path, *map(Path, others)]


def name_left_out(path: Path) -> None:
    """Says on stderr which stores a command does not look at that takes one only."""
    _, *others = stores_at(path, alone=False)
    if others:
        listed = ", ".join(map(str, others))
        text = f"{path} alone; left out, as each has a broker of its own: {listed}"
        click.echo(escape(text), err=True)


@contextmanager
def reading() -> Iterator[None]:
    """OSErrors become one line and exit code 2."""
    try:
        yield
    except OSError as e:
        raise CannotReadError(e.strerror or str(e)) from e


def refuse_if_open(path: Path) -> None:
    from pyrmq.engine import store_is_locked

    with reading():
        locked = store_is_locked(path)
    if locked:
        raise CannotReadError(f"{path}: a broker has this store open; stop it first")


def progress(total: int, label: str) -> AbstractContextManager[Any]:
    """A bar on stderr, or nothing where nobody looks."""
    if not sys.stderr.isatty():
        return nullcontext()
    return click.progressbar(length=max(total, 1), label=label, file=sys.stderr)


def run_check(path: Path, verifier: Verifier, label: str, watch: bool = True) -> list[Finding]:
    """Runs a check to its end; what it found. `watch`: a broker that starts meanwhile ends it."""
    found: list[Finding] = []
    done, total, finished = verifier.step(1)
    looked = time.monotonic()
    with progress(total, label) as bar:
        while not finished:
            before = done
            done, total, finished = verifier.step(STEP)
            found += verifier.findings()
            if bar is not None:
                bar.update(done - before)
            if watch and time.monotonic() - looked > 1:
                refuse_if_open(path)
                looked = time.monotonic()
    if watch:
        refuse_if_open(path)
    return found + verifier.findings()


def finding_line(finding: Finding) -> str:
    severity, _kind, path, at, text = finding
    place = path if at is None else f"{path}:{at}"
    return escape(f"{severity} {place} {text}")


def result_lines(summary: dict[str, Any]) -> Iterator[str]:
    """What a check comes to, in words."""
    s = summary
    yield (
        f"{s['records']} records ({s['minPhyOffset']} to {s['maxPhyOffset']}), "
        f"{s['queueEntries']} entries in {s['queues']} queues, "
        f"{s['indexEntries']} in {s['indexFiles']} index files"
    )
    if s["timerUnits"] or s["timersWaiting"]:
        yield (
            f"{s['timersWaiting']} timers wait in {s['timerSlots']} slots, "
            f"{s['timerUnits']} units in the timer log"
        )
    for key, text in (
        ("toDispatch", "records are not yet in their queues: the next start enters them"),
        ("keysToIndex", "keys are not yet in the index: the next start enters them"),
        ("keysOutsideIndex", "keys of older records are in no index file"),
        ("queueEntriesBehind", "queue entries lead behind the log's end: the next start cuts them"),
        ("deletedTopics", "records are of topics that no longer exist"),
        ("batch", "records of batch topics were checked in the log only"),
        ("leftOut", "findings more than are listed"),
    ):
        if s[key]:
            yield f"{s[key]} {text}"
    if s["damage"]:
        yield f"DAMAGED: {s['damage']} findings, {s['warnings']} warnings"
    else:
        yield f"sound, {s['warnings']} warnings"
