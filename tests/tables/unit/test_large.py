"""A large topic, row for row against its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq import scan
from pyrmq.tables.schema import COLUMNS
from tests.store.tools import opened
from tests.support.thorough import THOROUGH
from tests.tables.making import TOPIC, Log, World, write

COUNT = 10_000_000 if THOROUGH else 20_000
QUEUES = 4


def fill(root: Path) -> None:
    with opened(
        root, commit_log_file_size=1 << 28 if THOROUGH else 1 << 20, consume_queue_file_size=600_000
    ) as store:
        for number in range(COUNT):
            store.put(TOPIC, number % QUEUES, b"body of %d" % number, f"KEYS\x01{number}\x02")


@pytest.mark.slow
def test_row_for_row(world: World) -> None:
    log = Log(world.folder / "broker-a")
    fill(log.root)
    step = {} if THOROUGH else {"step_bytes": 300_000, "commit_bytes": 1_000_000}
    added = write(world, log, **step)
    assert added.rows == COUNT
    assert added.commits > 1 or THOROUGH
    order = "queueOffset"
    for queue in range(QUEUES):
        want = scan(log.root, topic=TOPIC, queues=[queue], columns=COLUMNS).to_arrow()
        have = world.table().scan(row_filter=f"queueId = {queue}").to_arrow().sort_by(order)
        assert have.num_rows == want.num_rows == COUNT // QUEUES
        for name in COLUMNS:
            kind = want.schema.field(name).type
            assert have.column(name).cast(kind).equals(want.column(name)), (queue, name)
