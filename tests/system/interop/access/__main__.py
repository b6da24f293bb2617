"""Starts Apache's servers and writes what they answer to tests/support/data: all records, or those
that are named."""

from __future__ import annotations

import datetime
import sys

from .records import DATA, RECORDS, path_of

for name in sys.argv[1:] or RECORDS:
    record = RECORDS[name]()
    DATA.mkdir(exist_ok=True)
    path_of(name).write_text(record.text(datetime.date.today().isoformat()))
    print(f"{name}: {', '.join(f'{part} {len(rows)}' for part, rows in record.parts.items())}")
