"""What a run says at its end, and whether it has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.system.soak.flatness import Judgement
from tests.system.soak.ledgers import Ledgers

COLUMNS = (
    "", "sent", "acknowledged", "wanted", "delivered", "again", "unanswered", "lost",
    "must not be",
)  # fmt: skip

MOST_REFUSED = 0.1
"""Of all sends. A disk that is full or slow may refuse some; a run of refusals shows nothing."""


@dataclass(slots=True)
class Report:
    """`faults`: what went wrong while it ran; the rest is judged from what was counted."""

    ledgers: Ledgers
    counts: dict[str, int]
    faults: list[str]
    flatness: Sequence[Judgement] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Why the run has failed; none if it has passed."""
        found = self.ledgers.faults()
        found += [fault for judgement in self.flatness for fault in judgement.faults]
        found += self.faults
        refused = sum(count for name, count in self.counts.items() if name.startswith("refused: "))
        sent = self.counts.get("sent", 0)
        if refused > MOST_REFUSED * sent:
            found.append(f"{refused} of {sent} sends were refused: the server was not loaded")
        found += [f"{ledger.name}: nothing was delivered" for ledger in self.ledgers
                  if not ledger.receipts]  # fmt: skip
        return found

    def exit_code(self) -> int:
        return 1 if self.failures() else 0

    def lines(self) -> list[str]:
        rows = [COLUMNS, *self._rows()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(COLUMNS))]
        table = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        counts = [f"  {name}: {count}" for name, count in sorted(self.counts.items())]
        flatness = [judgement.said for judgement in self.flatness]
        failures = self.failures()
        verdict = [f"FAILED: {failure}" for failure in failures] or ["PASSED"]
        return [*table, "counts:", *counts, *flatness, *verdict]

    def _rows(self) -> list[tuple[str, ...]]:
        rows = []
        for ledger in self.ledgers:
            row = ledger.row()
            wrong = ", ".join(f"{count} {what}" for what, count in sorted(row.wrong.items()))
            numbers = (
                row.sent, row.acknowledged, row.wanted, row.received, row.again, row.unanswered,
                row.lost,
            )  # fmt: skip
            rows.append((row.name, *map(str, numbers), wrong or "0"))
        return rows
