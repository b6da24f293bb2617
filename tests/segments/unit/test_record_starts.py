"""Where a log is cut: at places that queues or the fronts of files vouch for, never at what a body
says to be a record."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from pyrmq.segments.log_ranges import RecordStarts
from pyrmq.segments.store import open_stores
from tests.segments.making import BROKER, read, small
from tests.segments.planning import planned
from tests.store.tools import LOG_FILE
from tests.support.records import decode_record, encode_record

BODY_AT = 88
"""Where the body of a record with IPv4 hosts begins."""


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    """A store in which every message's body is full of records that state their own places."""
    root = tmp_path / BROKER
    with small(root) as store:
        phys, _, _, _ = store.put("Secret", 0, b"genuine")
        raw = store.record_at(phys)
        assert raw is not None
        like = decode_record(raw)
        for n in range(60):
            carrier = store.stats()["maxPhyOffset"]
            if carrier % LOG_FILE + 3000 > LOG_FILE:
                store.put("T", n % 2, b"filler" * 300)  # the next one may be in the next file
                continue
            body = b""
            while len(body) < 2000:
                at = carrier + BODY_AT + len(body)
                body += encode_record(replace(like, physical_offset=at, queue_offset=n))
            assert store.put("T", n % 2, body)[0] == carrier
    return root


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("split_bytes", [1 << 10, 5_000, 1 << 28])
def test_a_body_gives_no_rows(forged: Path, split_bytes: int, queues: bool) -> None:
    whole = read(planned(forged, mode="file"))
    assert [row[0] for row in whole].count("Secret") == 1
    if not queues:
        shutil.rmtree(forged / "consumequeue")
    splits = planned(forged, mode="scan", split_bytes=split_bytes)
    assert read(splits) == whole
    if split_bytes == 1 << 10:
        assert (len(splits) > 40) is queues, "without queues a split is a file"


def test_entries_that_lead_elsewhere_are_no_starts(forged: Path) -> None:
    store = open_stores([str(forged)])[0]
    starts = RecordStarts(store)
    first = starts.behind(1, 1 << 40)
    assert first is not None
    assert starts.behind(first, 1 << 40) == first
    assert starts.behind(first + 1, first + 2) is None
    for queue in ("0", "1"):
        path = sorted((forged / "consumequeue" / "T" / queue).iterdir())[0]
        content = bytearray(path.read_bytes())
        for at in range(0, len(content), 20):
            phys, size = struct.unpack_from(">qi", content, at)
            if size:
                struct.pack_into(">q", content, at, phys + BODY_AT)
        path.write_bytes(content)
    assert RecordStarts(store).behind(first, 1 << 40) is None
