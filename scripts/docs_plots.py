"""Draws the pictures of README.md and docs/pipeline.md: plots of jobs, of made-up numbers.

python scripts/docs_plots.py            # or: make docs-plots
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_ext.jobs import lag, local, transactions

IMAGES = Path(__file__).parents[1] / "docs" / "images"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TOPICS = {
    "Payments": (18, 412, 37, 0),
    "Orders": (3, 655, 12, 0),
    "Refunds": (9, 96, 21, 4),
    "Invoices-of-all-subsidiaries-in-Europe": (0, 230, 8, 1),
}
"""Transactions that are pending, committed, rolled back, discarded."""
MINUTES = 90
NOTE = "/data/rocketmq/store: all times\nmeasured 2026-01-31 13:30:00Z"


def draw(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    here = local.engine()
    states = [
        (topic, state)
        for topic, counts in TOPICS.items()
        for state, count in zip(transactions.STATES, counts, strict=True)
        for _ in range(count)
    ]
    found = here.values(states, "topic string, state string")
    transactions.plot(found, str(folder / "transactions.png"), NOTE)
    chance = random.Random(7)
    rows = []
    backlog = {"shipping": 900, "billing": 250, "search-index": 40}
    for minute in range(0, MINUTES, 3):
        for group, before in backlog.items():
            stuck = group == "shipping" and 30 <= minute < 54
            change = chance.randint(150, 320) if stuck else -before * chance.uniform(0.02, 0.22)
            backlog[group] = max(round(before + change + chance.randint(0, 60)), 0)
            age = backlog[group] * 400
            rows.append((NOON + timedelta(minutes=minute), group, backlog[group], 0, age))
    schema = "measuredAt timestamp, group string, backlog bigint, gone bigint, behindMs bigint"
    lag.plot(here.values(rows, schema), str(folder / "lag.png"), NOTE)
    return sorted(folder.glob("*.png"))


if __name__ == "__main__":
    for path in draw(IMAGES):
        print(path)
