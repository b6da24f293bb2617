"""Flipped bits and overwritten bytes anywhere in a store: no crash, no wrong body.

What the store promises at the border to clients: a record whose CRC fits has the body that was sent
for its queue offset. The store reads bodies only when it scans them at the start; a body that was
harmed in a file that is not scanned is served as it is, and its CRC tells.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from tests.support.records import crc31
from tests.system.faults import report, tables
from tests.system.faults.bases import Base
from tests.system.faults.flip_cases import Damaged, Flip, apply
from tests.system.faults.flip_check import Reader
from tests.system.faults.images import log_files, queue_files, workspace
from tests.system.faults.run import Report, run
from tests.system.faults.scale import FAILED_FLIPS, scale

OUTCOME = "outcome: "


@pytest.fixture(scope="module")
def flipped(bases: dict[str, Base]) -> Report:
    """The outcome of all images of this run."""
    chosen = scale()
    flips = [Flip(chosen.seed, number) for number in range(chosen.flips)]
    cases = list(enumerate([*flips, *(Flip(*failed) for failed in FAILED_FLIPS)]))
    begun = time.monotonic()
    with workspace() as root:
        found = run("flip", bases, cases, root, chosen.jobs)
    outcomes = [(k.removeprefix(OUTCOME), n) for k, n in found.counts.items() if OUTCOME in k]
    served = [(k, n) for k, n in found.counts.items() if OUTCOME not in k]
    report.note(
        f"bit flips: {found.images} images of seed {chosen.seed}, "
        + ", ".join(f"{n} {name}" for name, n in sorted(outcomes))
        + f", {len(found.failures)} crashes, errors or wrong bodies; "
        + f"{time.monotonic() - begun:.0f} s"
    )
    report.note(
        "  messages in these images: " + ", ".join(f"{n} {name}" for name, n in sorted(served))
    )
    assert found.images == len(cases)
    return found


def test_no_crash_no_hang_no_wrong_body(flipped: Report):
    assert not flipped.failures, "\n".join(text for _, text in flipped.failures[:5])
    assert sum(n for k, n in flipped.counts.items() if OUTCOME in k) == flipped.images


def test_no_message_takes_the_place_of_another(flipped: Report):
    assert flipped.counts["ANOTHER MESSAGE"] == 0


def test_only_records_are_served(flipped: Report):
    kinds = ("NO RECORD", "FOUND WITHOUT BYTES", "HIDDEN IN ITS ANSWER")
    assert {kind: flipped.counts[kind] for kind in kinds} == dict.fromkeys(kinds, 0)


def test_images_are_the_same_each_time(bases: dict[str, Base]):
    for number in range(50):
        first, second = (apply(Flip(3, number), bases, {}) for _ in range(2))
        assert first == second
    assert apply(Flip(3, 1), bases, {}) != apply(Flip(4, 1), bases, {})


def test_the_check_notices(bases: dict[str, Base], room: Path):
    """Bodies exchanged with their CRCs, queue entries harmed, a record cut out: each counts."""
    base = bases["one file"]
    config = tables.make(room / "config")
    first, second = base.queues()["T", 1][2:4]
    log, queue = log_files(base.stopped)[0], queue_files(base.stopped)["T", 1][0]

    def counts(name: str, content: bytes) -> dict[str, int]:
        image = {**base.stopped, **config, name: content}
        damaged = Damaged(image, base, True, frozenset({name}), ())
        return dict(Reader(damaged, room / "image").check(False))

    assert not {"absent", "WRONG BODY"} & counts(log, base.stopped[log]).keys()
    body = b"x" * len(first.record.body)
    at = first.raw.index(first.record.body)
    raw = first.raw[:8] + struct.pack(">i", crc31(body)) + first.raw[12:at] + body
    raw += first.raw[at + len(body) :]
    content = base.stopped[log]
    assert "WRONG BODY" in str(counts(log, content[: first.phys] + raw + content[first.end :]))
    content = base.stopped[queue]
    harmed = bytearray(content)
    harmed[40 + 11] ^= 1
    harmed[60 + 11] ^= 1
    assert counts(queue, bytes(harmed)).get("absent", 0) >= 2
    gone = base.stopped[log][: first.phys] + bytes(len(first.raw)) + base.stopped[log][first.end :]
    assert counts(log, gone)["absent"] == 1
    assert counts(log, base.stopped[log][: first.phys].ljust(len(gone), b"\0"))["absent"] > 2
    assert second.record.queue_offset == 3
