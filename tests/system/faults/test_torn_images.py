"""Torn tails: whatever a power cut takes from the end of the log, exactly the longest valid prefix
comes back, in the log and in every queue, and the store goes on behind it.

The format's CRC covers bodies only. After a crash, a record that lost the end of its properties,
with nothing behind it, is cut; after a clean stop it is whole by the format, as for the original.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.engine import Store
from pyrmq.errors import StoreDamagedError
from tests.system.faults import report
from tests.system.faults.bases import Base
from tests.system.faults.expected import predict, rows
from tests.system.faults.images import SECTOR, Image, base_of, log_files, queue_files, write, zeroed
from tests.system.faults.run import run
from tests.system.faults.scale import FAILED_LIES, FAILED_TORN, scale
from tests.system.faults.torn_cases import Torn, all_cases, apply, lies
from tests.system.faults.torn_check import (
    Wrong,
    check,
    compare_entries,
    compare_log,
    compare_queues,
    untold,
)


def known(fault: str) -> pytest.MarkDecorator:
    """A fault of the engine that is still there."""
    return pytest.mark.xfail(raises=(AssertionError, Wrong), reason=fault)


def test_the_check_notices(bases: dict[str, Base], room: Path):
    """Too short a log, a byte behind its end, entries too many or too few, damage that is not told
    of: each is found."""
    base, root = bases["one file"], room / "image"
    name, last = log_files(base.killed)[0], base.records[-1]
    write(base.killed, root, holes=False)
    compare_log(root, base.killed, base.end, base.log_size)
    compare_entries(root, rows(base.records), base)
    with pytest.raises(Wrong, match="not zero"):
        compare_log(root, base.killed, last.phys, base.log_size)
    with pytest.raises(Wrong, match="entries of"):
        compare_entries(root, rows(base.records[:-1]), base)
    write({**base.killed, name: zeroed(base.killed[name], last.phys, base.end)}, root, holes=False)
    with pytest.raises(Wrong, match="changed"):
        compare_log(root, base.killed, base.end, base.log_size)
    queue = queue_files(base.killed)["T", 0][-1]
    write({**base.killed, queue: zeroed(base.killed[queue], 20, 40)}, root, holes=False)
    with pytest.raises(Wrong, match="entries of"):
        compare_entries(root, rows(base.records), base)
    lost = base.records[5]
    image = {**base.stopped, name: zeroed(base.stopped[name], lost.phys, lost.end)}
    (found,) = predict(image, base.log_size, True)
    assert found.left_out == ((lost.phys, lost.end),)
    assert found.records == [stored for stored in base.records if stored != lost]
    told = (
        f"2026-11-23 09:05:07,123 ERROR x: /a/{name}: {len(lost.raw)} bytes at {lost.phys} are gone"
    )
    assert not untold(found, told, base.log_size)
    assert "no ERROR" in untold(found, told.replace(str(len(lost.raw)), "1"), base.log_size)
    assert "without reason" in untold(found, f"{told}\n2026 WARNING x: /a/{name}: 1", base.log_size)


def test_the_check_of_answers_notices(bases: dict[str, Base], room: Path):
    """A message too many, one that is missing, one in the wrong place, a queue too short."""
    base = bases["one file"]
    write(base.killed, room / "image", holes=False)
    store = Store(room / "image", **base.options)
    try:
        right = rows(base.records)
        row = right["T", 1]
        compare_queues(store, right)
        for bad in (
            [*row[:2], None, *row[3:]],
            [*row[:2], row[3], row[2], *row[4:]],
            [*row, None],
            row[:-1],
            [None, *row[1:]],
        ):
            with pytest.raises(Wrong):
                compare_queues(store, {**right, ("T", 1): bad})
    finally:
        store.close()


def test_torn_images(bases: dict[str, Base], room: Path):
    cases = list(enumerate(case for base in bases.values() for case in all_cases(base)))
    wanted = scale().torn
    if wanted is not None:
        chosen = random.Random(scale().seed).sample(range(len(cases)), min(wanted, len(cases)))
        cases = [cases[number] for number in sorted({*chosen, *FAILED_TORN})]
    begun = time.monotonic()
    found = run("torn", bases, cases, room, scale().jobs)
    counts = found.counts
    report.note(
        f"torn tail: {found.images} images, {counts['exact']} recovered exactly, "
        f"{counts['kept']} without the damage before durable records, {counts['refused']} refused, "
        f"{counts['unseen']} not looked at, {len(found.failures)} wrong; "
        f"{time.monotonic() - begun:.0f} s"
    )
    assert not found.failures, "\n".join(text for _, text in found.failures[:5])
    assert found.images == sum(counts.values()) == len(cases)


def test_sectors_that_lie(bases: dict[str, Base], room: Path):
    """Sectors that were not flushed have the content of an earlier time or of another place."""
    cases = list(enumerate(case for base in bases.values() for case in lies(base)))
    wanted = scale().torn
    if wanted is not None:
        chosen = random.Random(scale().seed).sample(range(len(cases)), min(wanted, len(cases)))
        cases = [cases[number] for number in sorted({*chosen, *FAILED_LIES})]
    found = run("torn", bases, cases, room, scale().jobs)
    report.note(
        f"lying sectors: {found.images} images, {found.counts['exact']} recovered exactly, "
        f"{found.counts['refused']} refused, {len(found.failures)} wrong"
    )
    assert not found.failures, "\n".join(text for _, text in found.failures[:5])
    assert found.images == sum(found.counts.values()) == len(cases)


def middle_sectors(base: Base) -> list[tuple[str, int]]:
    """Each sector of the log's files but the last."""
    names = log_files(base.killed)[:-1]
    return [(name, at) for name in names for at in range(0, base.log_size, SECTOR)]


@pytest.mark.parametrize(
    ("clean", "flushed", "expected"),
    [
        (False, None, {"refused"}),
        (False, 45, {"exact", "kept", "unseen"}),
        (False, 80, {"exact", "kept", "unseen"}),
        (True, None, {"exact", "unseen"}),
    ],
)
def test_a_sector_lost_in_the_middle(
    bases: dict[str, Base],
    room: Path,
    capfd: pytest.CaptureFixture[str],
    clean: bool,
    flushed: int | None,
    expected: set[str],
):
    """Where nothing is known of what stands behind, the store is refused: it may be complete.
    Otherwise the damage is left out when it is met, and not met in a file that is not read."""
    base = bases["many files"]
    outcomes = set()
    for place in middle_sectors(base)[(flushed or 0) % 2 :: 2]:
        case = Torn(base.name, lost=(place,), clean=clean, flushed=flushed)
        outcomes.add(
            check(case, base, room / "image", again=False, read_log=lambda: capfd.readouterr().err)
        )
    assert outcomes == expected


def test_the_first_file_of_a_queue_is_lost(
    bases: dict[str, Base], room: Path, capfd: pytest.CaptureFixture[str]
):
    """A hole in front of entries that were never looked at: none of these may come back."""
    for base in bases.values():
        for names in queue_files(base.killed).values():
            size = len(base.killed[names[0]])
            for cut in (None, base.records[-2].phys, base.records[-3].phys):
                lost = tuple((names[0], at) for at in range(0, size, SECTOR))
                case = Torn(base.name, cut, lost, holes=True)
                check(
                    case, base, room / "image", again=True, read_log=lambda: capfd.readouterr().err
                )


def test_files_that_were_cut_short_are_refused(bases: dict[str, Base], room: Path):
    """A length other than the configured one is no crash of ours: nothing is changed."""
    base = bases["rolled"]
    names = [*log_files(base.killed), *(n[0] for n in queue_files(base.killed).values())]
    for name in names:
        for length in (1, len(base.killed[name]) - 1):
            image = {**base.killed, name: base.killed[name][:length]}
            write(image, room / "image", holes=False)
            with pytest.raises(StoreDamagedError, match=f"has {length} bytes"):
                Store(room / "image", **base.options)


def torn_entry(base: Base, torn: int) -> Image:
    """After a clean stop an entry lacks the last bytes of its tag code."""
    image = dict(base.stopped)
    name = queue_files(image)["T", 0][-1]
    end = -(-len(image[name].rstrip(b"\0")) // 20) * 20 - 20  # the last has no tag
    return image | {name: zeroed(image[name], end - torn, end)}


def lost_end(base: Base, clean: bool) -> Image:
    """A queue lacks its last entry. It has no record in the files that are read at the start."""
    image = apply(Torn(base.name, clean=clean, flushed=None if clean else 80), base)
    name = queue_files(image)["Batch", 1][-1]
    return image | {name: zeroed(image[name], 40, 60)}


@known("a tag code is not compared with its record after a clean stop: docs/store.md says so")
@pytest.mark.parametrize("torn", [3, 8])
def test_torn_entries_after_a_clean_stop(bases: dict[str, Base], room: Path, torn: int):
    base = bases["one file"]
    opened_exactly(torn_entry(base, torn), base, room / "image")


@known("entries of files that are not scanned are not missed: docs/store.md says so")
@pytest.mark.parametrize("clean", [True, False])
def test_the_end_of_a_quiet_queue_is_lost(bases: dict[str, Base], room: Path, clean: bool):
    """Its next message gets the queue offset of one that was lost."""
    base = bases["many files"]
    opened_exactly(lost_end(base, clean), base, room / "image")


@pytest.mark.parametrize("damage", ["tag", "end"])
def test_what_a_start_does_not_notice_verify_finds_and_repair_mends(
    bases: dict[str, Base], room: Path, damage: str
):
    """As docs/store.md says, of damage after a clean stop."""
    base = bases["one file" if damage == "tag" else "many files"]
    root = room / "image"
    write(torn_entry(base, 8) if damage == "tag" else lost_end(base, True), root, holes=False)

    def pyrmq(*command: str) -> int:
        return CliRunner().invoke(main, ["store", *command]).exit_code

    assert pyrmq("verify", str(root)) != 0
    sizes = ("--queue-file-size", str(base.options["consume_queue_file_size"]))
    assert pyrmq("repair", str(root), "--queues", "-y", *sizes) == 0
    assert pyrmq("verify", str(root)) == 0
    with opened_again(base, root) as store:
        compare_queues(store, rows(base.records))


@contextmanager
def opened_again(base: Base, root: Path) -> Iterator[Store]:
    store = Store(root, **base.options)
    try:
        yield store
    finally:
        store.close()


@pytest.mark.parametrize("recipe", ["one file", "rolled"])
def test_a_last_entry_that_points_behind_the_log(bases: dict[str, Base], room: Path, recipe: str):
    """One flipped bit after a clean stop. The record is in the file that is read at the start: no
    other message may get its queue offset."""
    base = bases[recipe]
    for queue, names in queue_files(base.stopped).items():
        content = base.stopped[names[-1]]
        end = -(-len(content.rstrip(b"\0")) // 20) * 20
        if base.queues()[queue][-1].phys >= base_of(log_files(base.stopped)[-1]):
            harmed = bytearray(content)
            harmed[end - 20 + 2] ^= 1
            opened_exactly({**base.stopped, names[-1]: bytes(harmed)}, base, room / "image")


def opened_exactly(image: dict[str, bytes], base: Base, root: Path) -> None:
    """Every queue gives all records, and those who want a tag get it."""
    write(image, root, holes=False)
    with opened_again(base, root) as store:
        compare_queues(store, rows(base.records))
    compare_entries(root, rows(base.records), base)
