"""Which snapshots of a table an expiry keeps: what branches and tags need, the newest ones, and the
one that says how far the table goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq.tables.ends import ENDS, line

AGE = "history.expire.max-snapshot-age-ms"
KEEP = "history.expire.min-snapshots-to-keep"
"""Properties of Iceberg tables; a branch may have its own."""
DAYS_5 = 5 * 24 * 3600 * 1000
KEPT = 10
"""Snapshots of each branch that stay however old they are, unless the caller or the table says."""


def retained(metadata: Any, now: int, age: int | None, keep: int | None) -> set[int]:
    """Ids of the snapshots that stay.

    Of each branch: its first `keep` snapshots from its head on, those that are not older than
    `age` ms before `now`, and all down to the newest whose summary has the ends. Without these two
    the settings of the branch count, then the table's. Of each tag: its snapshot. A snapshot that
    no branch and no tag leads to (after a rollback) stays while it is not older than `age`."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    of_table = age if age is not None else _number(metadata.properties, AGE, DAYS_5)
    count = keep if keep is not None else _number(metadata.properties, KEEP, KEPT)
    kept: set[int] = set()
    known: set[int] = set()
    for ref in metadata.refs.values():
        if ref.snapshot_ref_type == "tag":
            kept.add(ref.snapshot_id)
            known.update(one.snapshot_id for one in line(by_id, ref.snapshot_id))
            continue
        most = age if age is not None else ref.max_snapshot_age_ms or of_table
        least = keep if keep is not None else ref.min_snapshots_to_keep or count
        ancestors = list(line(by_id, ref.snapshot_id))
        known.update(one.snapshot_id for one in ancestors)
        for place, one in enumerate(ancestors):
            if place >= max(least, 1) and one.timestamp_ms < now - most:
                break
            kept.add(one.snapshot_id)
        kept.update(one.snapshot_id for one in _to_ends(ancestors))
    kept.update(
        one for one, snapshot in by_id.items()
        if one not in known and snapshot.timestamp_ms >= now - of_table
    )  # fmt: skip
    return kept & by_id.keys()


def _to_ends(ancestors: list[Any]) -> list[Any]:
    """The beginning of a line of ancestors up to the first that has the ends; none has: nothing.
    Whoever looks for them goes from parent to parent, so those between are needed as well."""
    for place, one in enumerate(ancestors):
        if one.summary is not None and ENDS in one.summary.additional_properties:
            return ancestors[: place + 1]
    return []


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default
