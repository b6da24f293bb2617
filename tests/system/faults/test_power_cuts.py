"""Power cuts: whatever is lost that was not flushed of the files that follow the log, over however
many files, every message of the log is delivered, in order, once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Delays, Store, Transactions
from pyrmq.errors import StoreDamagedError
from tests.support.records import decode_records, java_hash
from tests.support.thorough import seed, size
from tests.system.faults.expected import Row, rows
from tests.system.faults.images import take, workspace, write
from tests.system.faults.inject.calls import build
from tests.system.faults.inject.cases import PROJECT
from tests.system.faults.power_cuts import (
    COMMITTED,
    DELAYED,
    HALVES,
    KINDS,
    ROLLED_BACK,
    UNITS,
    Cut,
    Made,
    Queue,
    apply,
    make,
)

FILES = 24
"""More files than any queue has here."""
FOUND = 0
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Made]]:
    with workspace() as root:
        yield {kind: make(kind, root / kind) for kind in KINDS}


def durable(made: Made) -> list[int | None]:
    """Checkpoints: none, of the start, of the middle, of just before the end."""
    count = len(made.records)
    return [None, 3, count // 3, count * 2 // 3, count - 4]


def check(cut: Cut, made: Made, root: Path) -> None:
    """Opens the image: all messages of the log come, in order, once, and new ones behind."""
    write(apply(cut, made), root, holes=cut.number % 2 == 0)
    end = made.records[-1].end if cut.log_end is None else cut.log_end
    expected = rows([stored for stored in made.records if stored.end <= end])
    for _ in range(2):
        store = Store(root, **made.options)
        try:
            compare(store, expected, made)
            (topic, queue_id), row = next(iter(expected.items()))
            _, _, offset, _ = store.put(topic, queue_id, b"new")
            assert offset == len(row)
            expected[topic, queue_id] = [*row, None]
        finally:
            store.close()


def compare(store: Store, expected: dict[Queue, Row], made: Made) -> None:
    known = {(topic, queue): (low, high) for topic, queue, low, high in store.queues() if high}
    assert known == {queue: (0, len(row)) for queue, row in expected.items()}
    for queue, row in expected.items():
        wanted = [s.raw if s else b"new" for s in row]
        got = read(store, queue)
        new = [n for n, raw in enumerate(wanted) if raw == b"new"]
        assert [g for n, g in enumerate(got) if n not in new] == [w for w in wanted if w != b"new"]
        assert [decode_records(got[n])[0].body for n in new] == [b"new"] * len(new)
        if queue[0] == "T":
            assert read(store, queue, "red") == [
                s.raw for s in row if s and "TAGS\x01red" in s.record.properties_raw.decode()
            ]


def read(store: Store, queue: Queue, tag: str | None = None) -> list[bytes]:
    found: list[bytes] = []
    offset, end = store.queue_range(*queue)
    while offset < end:
        tags = None if tag is None else array("i", [java_hash(tag)])
        result = store.get(*queue, offset, 32, tags=tags)
        assert result.next_offset > offset
        data = b"".join(bytes(piece) for piece in result.slices)
        while data:
            length = int.from_bytes(data[:4])
            found.append(data[:length])
            data = data[length:]
        offset = result.next_offset
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_tails_of_any_number_of_files_are_blank(
    stores: dict[str, Made], room: Path, kind: str
) -> None:
    made = stores[kind]
    for last in durable(made):
        for files in range(FILES):
            check(Cut(last, "tail", files), made, room / "image")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_in_the_middle_is_blank(stores: dict[str, Made], room: Path, kind: str) -> None:
    made = stores[kind]
    for last in durable(made):
        for file in range(FILES):
            check(Cut(last, "hole", file), made, room / "image")


@pytest.mark.parametrize("loss", ["some", "older", "misplaced"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_blocks_are_lost(stores: dict[str, Made], room: Path, kind: str, loss: str) -> None:
    """Also with the end of the log, as far as it was not flushed."""
    made = stores[kind]
    draw = random.Random(f"{seed()}:{kind}:{loss}")
    for number in range(size("PYRMQ_POWER_CUTS", 40, 4000)):
        last = draw.choice(durable(made))
        ends = [stored.end for stored in made.records[(last or 0) :]]
        cut = Cut(last, loss, draw.randrange(1 << 30), draw.choice([None, *ends]))
        try:
            check(cut, made, room / "image")
        except StoreDamagedError as error:
            # A misplaced block may look like messages of a log file that is missing.
            if loss != "misplaced" or "Nothing was changed" not in str(error):
                raise
        except BaseException as error:
            raise AssertionError(f"image {number} of seed {seed()}: {cut}") from error


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_goes_on_where_it_was(stores: dict[str, Made], room: Path, kind: str) -> None:
    """Halves that nobody settled wait, others do not; each delayed message is delivered once."""
    made = stores[kind]
    offsets, log_end = made.progress
    for last in durable(made):
        for cut in (*(Cut(last, "tail", n) for n in range(8)), Cut(last, "some", 7)):
            write(apply(cut, made), room / "image", holes=True)
            store = Store(room / "image", **made.options)
            try:
                waiting = Transactions(store.native).before(HALVES, HALVES)
                assert waiting == sorted({*range(HALVES)} - {*COMMITTED, *ROLLED_BACK})
                assert bodies(store, ("Tx", 0)) == [b"half %d" % n for n in COMMITTED]
                delays = Delays(store.native, offsets=offsets, log_end=log_end)
                while delays.deliver(1 << 50, 1 << 20):
                    pass
                assert bodies(store, ("Late", 0)) == [b"late %d" % n for n in range(DELAYED)]
            finally:
                store.close()


def bodies(store: Store, queue: Queue) -> list[bytes]:
    return [record.body for raw in read(store, queue) for record in decode_records(raw)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_where_nothing_is_damaged(
    stores: dict[str, Made], room: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing is told of."""
    made = stores[kind]
    for last in durable(made):
        check(Cut(last, "nothing"), made, room / "image")
        assert "WARNING" not in capfd.readouterr().err


def test_what_was_flushed_and_is_gone_is_told_and_made_again(
    stores: dict[str, Made], room: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk that lies: a file of a queue is blank although it was flushed."""
    made = stores["simple"]
    image = apply(Cut(len(made.records) - 4, "nothing"), made)
    names = sorted(name for name in image if name.startswith("consumequeue/T/0/"))
    for name in names[:-1]:
        write({**image, name: bytes(len(image[name]))}, room / "image", holes=True)
        store = Store(room / "image", **made.options)
        try:
            compare(store, rows(made.records), made)
        finally:
            store.close()
        told = capfd.readouterr().err
        assert "consumequeue/T/0: entries of messages behind" in told
        assert "all are rebuilt from the log" in told


@pytest.mark.parametrize("kind", KINDS)
def test_the_power_fails_again(
    stores: dict[str, Made], room: Path, tmp_path: Path, kind: str
) -> None:
    """Entries are gone from the disk before the files of the log that they lead to are: else the
    next start would miss these files."""
    library = build(tmp_path)
    if library is None:
        pytest.skip("no C compiler")
    made = stores[kind]
    last = made.records[-1].end - made.log_size
    end = next(stored.end for stored in made.records if stored.end > last - made.log_size)
    image = apply(Cut(3, "nothing", log_end=end), made)
    root = room / "image"
    write(image, root, holes=False)
    store = Store(root, **made.options)
    try:
        left = take(root)
    finally:
        store.close()
    erased = [n for n in left if n.split("/")[0] in UNITS and left[n] != image.get(n)]
    entries = [name for name in erased if not name.startswith("consumequeue_ext")]
    assert {name for name in image if name.startswith("commitlog")} - set(left)
    assert len(entries) > 1
    write(image, root, holes=False)
    command = [sys.executable, "-m", "tests.system.faults.inject.half_way", str(root)]
    command += ["unlink", "commitlog/*", json.dumps(made.options), json.dumps(entries)]
    done = subprocess.run(
        command, cwd=PROJECT, env=os.environ | {"LD_PRELOAD": str(library)}, text=True,
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == dict.fromkeys(entries, True), done.stderr


def test_the_images_lose_what_they_say(stores: dict[str, Made]) -> None:
    """A test of the test: the flushed part stays, and what is behind goes."""
    made = stores["simple"]
    whole = apply(Cut(3, "nothing"), made)
    assert apply(Cut(3, "tail", 0), made) == whole
    lost = apply(Cut(3, "tail", FILES), made)
    changed = {name for name in whole if whole[name] != lost[name]}
    assert len([name for name in changed if "/T/0/" in name]) > 10
    assert all(name in whole for name in changed)
