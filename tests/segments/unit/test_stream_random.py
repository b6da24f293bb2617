"""A stream over a store that lives: messages come, segments go, the query stops and starts anew."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.stream import StreamPlanner
from tests.segments.making import BROKER, ROW, put, read, rows_of, small
from tests.support.thorough import seeds, size

ROUNDS = size("PYRMQ_SEGMENTS_ROUNDS", 8, 300)


@pytest.mark.parametrize("seed", seeds("segments-stream"))
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_nothing_twice_and_nothing_left_out(tmp_path: Path, round_: int, seed: int) -> None:
    chance = random.Random(seed * 1000 + round_)
    root = tmp_path / BROKER
    options: dict[str, Any] = chance.choice(
        [{}, {"topics": ("T0", "T2")}, {"pattern": "T[12]"}, {"include_system_topics": True}]
    )
    limits: dict[str, int | None] = {
        "max_offsets": chance.choice([None, 1, 7, 60, 5000]),
        "max_bytes": chance.choice([None, 1, 3000, 100_000]),
    }
    seen: list[tuple[Any, ...]] = []
    with small(root) as store:
        put(store, "T0", 0, b"first")

        def query() -> StreamPlanner:
            how = ReadOptions(columns=tuple(ROW), batch_rows=chance.choice([1, 13, 10_000]))
            split_bytes = chance.choice([1024, 9000, 1 << 28])
            return StreamPlanner([str(root)], Selection(**options), how, split_bytes=split_bytes)

        stream = query()
        at = stream.initial()
        number = 0
        for _ in range(25):
            for _ in range(chance.choice([0, 1, 5, 100])):
                topic = f"T{chance.randrange(3)}"
                put(store, topic, chance.randrange(3), b"%d " % number * chance.randrange(60))
                number += 1
            if chance.random() < 0.3:
                stream = query()
            for _ in range(chance.randrange(4)):
                end = json.loads(json.dumps(stream.latest(at, **limits)))
                assert end["log"][BROKER] >= at["log"][BROKER]
                rows = read(stream.splits(at, end))
                assert len(rows) <= (limits["max_offsets"] or len(rows))
                if chance.random() < 0.2:
                    continue  # the batch is lost with the query: it comes again
                seen += rows
                at = end
        end = stream.latest(at)
        seen += read(stream.splits(at, end))
        chosen = Selection(**options)
        assert seen == [row for row in rows_of(store) if chosen.selects(row[0])]
