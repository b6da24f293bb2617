"""Where a log is cut: at places that queues or the fronts of files vouch for, never at what a body
says to be a record."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

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
