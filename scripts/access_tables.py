"""The tables of docs/access.md: what each request needs, from the rows that decide."""

from __future__ import annotations

from collections.abc import Mapping

from pyrmq.auth.needs import Row
from pyrmq.auth.table import ACCESS, CLIENTS, NAMES, OPERATORS
from pyrmq.model.codes import RequestCode
from pyrmq.model.request_kinds import ACCESS_REQUESTS

HEAD = ["| Code | Request | Needs | Less in RocketMQ 5.5 |", "|---|---|---|---|"]


def _table(rows: Mapping[int, Row]) -> str:
    lines = list(HEAD)
    for code, row in sorted(rows.items()):
        lines.append(f"| {code} | {RequestCode(code).name} | {row} | {row.stricter} |")
    return "\n".join(lines) + "\n"


def of_broker() -> str:
    """What requests to a broker need."""
    return _table(CLIENTS | OPERATORS | ACCESS)


def of_name_server() -> str:
    """What requests to a name server need."""
    return _table(NAMES | {code: row for code, row in ACCESS.items() if code in ACCESS_REQUESTS})
