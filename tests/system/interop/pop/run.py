"""Asks a broker everything, part by part; the record of what Apache's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.client import Client

from ..store import peer
from . import pops, timers, waits
from .asking import Asker, Row

FILE = Path(__file__).resolve().parents[3] / "support" / "data" / "pop_apache_5_5.json"
PARTS = {**pops.PARTS, **waits.PARTS, **timers.PARTS}
"""In this order over one broker: after the last one Apache's sets no timer any more."""


def run(address: peer.Address, part: str) -> list[Row]:
    with Client(address) as client:
        asker = Asker(client, part, f"{address[0]}:{address[1]}")
        PARTS[part](asker)
    rows: list[Row] = json.loads(json.dumps(asker.rows))
    return rows


def text(rows: list[Row], recorded: str) -> str:
    """JSON with one row a line, so that a change shows as the lines that it changes."""
    about = {
        "apache rocketmq": peer.VERSION, "recorded": recorded,
        "by": "python -m tests.system.interop.pop",
    }  # fmt: skip
    inside = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{"about": {json.dumps(about)},\n"rows": [\n{inside}\n]}}\n'


def kept(part: str) -> list[Row]:
    """The rows of a part as recorded."""
    record: dict[str, Any] = json.loads(FILE.read_text())
    return [row for row in record["rows"] if row["what"].startswith(f"{part}: ")]
