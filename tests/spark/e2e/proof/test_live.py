"""A store that is being written: every read is the log up to some point, and nothing torn."""

from __future__ import annotations

from pathlib import Path

from pyrmq.engine import segment_end

from .native import batches, cuts, files_of, reader_of
from .rows import from_arrow
from .writer import FILE, Writer, number_of, place_of

COLUMNS = ["topic", "queueId", "queueOffset", "commitLogOffset", "storeSize", "body"]


def test_reads_while_it_is_written(tmp_path: Path):
    """The writer goes at full speed; each read takes what is there at its start."""
    store, total = tmp_path / "store", 30_000
    sizes = []
    with Writer(store, total) as writer:
        while True:
            last = not writer.running
            files = files_of(store / "commitlog")
            end, _ = segment_end(files)
            rows = []
            for start, stop in cuts(0, end, max(end // 3, 1)) if end else []:
                reader = reader_of(files, start, stop, columns=COLUMNS, verify_crc="all")
                rows += [row for batch in batches(reader) for row in from_arrow(batch)]
            numbers = [number_of(row["body"]) for row in rows]
            assert numbers == list(range(len(numbers)))
            for number, row in zip(numbers, rows, strict=True):
                assert (row["topic"], row["queueId"], row["queueOffset"]) == place_of(number)
            rest = end - rows[-1]["commitLogOffset"] - rows[-1]["storeSize"] if rows else 0
            assert rest == 0 or (rest < 800 and end % FILE == 0)  # the filler of a full file
            sizes.append(len(rows))
            if last:
                break
        writer.wait()
    assert sizes == sorted(sizes)
    assert sizes[-1] == total
    assert len(set(sizes)) > 3


def test_ends_while_it_is_written(tmp_path: Path):
    """Where a read may end, asked as often as possible, walking on from the end before."""
    store, total = tmp_path / "store", 50_000
    end: int | None = None
    looked = 0
    with Writer(store, total) as writer:
        while writer.running:
            files = files_of(store / "commitlog")
            now, why = segment_end(files, end)
            assert end is None or now >= end
            assert segment_end(files)[0] >= now, why
            end, looked = now, looked + 1
        writer.wait()
    files = files_of(store / "commitlog")
    end, why = segment_end(files, end)
    assert why == ""
    reader = reader_of(files, 0, end, columns=["body"])
    numbers = [number_of(body) for batch in batches(reader) for body in batch["body"].to_pylist()]
    assert numbers == list(range(total))
    assert looked > 20
