"""How long writes, flushes and sends take: a source of a page, from the engine's counters."""

from __future__ import annotations

from pyrmq.broker.metrics import families as f
from pyrmq.engine import Store
from pyrmq.metrics.page import Page

HISTOGRAMS = {
    "putLatency": f.PUT_TIME,
    "flushLatency": f.FLUSH_TIME,
    "commitLatency": f.COMMIT_TIME,
    "lockWait": f.LOCK_WAIT,
    "barrierWait": f.BARRIER_WAIT,
    "sendLatency": f.SEND_TIME,
}
NUMBERS = {
    "flushedBytes": f.FLUSHED,
    "writeStalls": f.WRITE_STALLS,
    "busyRefusals": f.BUSY,
    "confirmLagBytes": f.CONFIRM_LAG,
    "recoveredRecords": f.RECOVERED,
    "recoveredBytes": f.RECOVERED_BYTES,
}


class EngineRows:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, page: Page) -> None:
        figures = self._store.figures()
        for name, family in HISTOGRAMS.items():
            row = figures[name]
            assert isinstance(row, list)
            _, total, _, *counts = row
            page.rows(family).add_histogram("", counts, total / 1e6)
        for name, family in NUMBERS.items():
            number = figures[name]
            assert isinstance(number, int)
            page.add(family, number)
        took = figures["recoveryUs"]
        assert isinstance(took, int)
        page.add(f.RECOVERY, took / 1e6)
