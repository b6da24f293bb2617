"""Starts Apache's broker and writes what it answers to tests/support/data."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from .run import FILE, PARTS, run, text
from .servers import broker

with tempfile.TemporaryDirectory() as folder, broker("apache", Path(folder)) as started:
    rows = [row for part in PARTS for row in run(started.address, part)]
FILE.write_text(text(rows, datetime.date.today().isoformat()))
print(f"{len(rows)} rows")
