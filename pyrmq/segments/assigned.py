"""The queues that `assign` names, compared with those that a store has."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from pyrmq.errors import Parameter, SegmentOptionError
from pyrmq.segments import config_folder
from pyrmq.segments.queues import queue_id
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import SegmentStore

_SHOWN = 8


def check_assigned(selection: Selection, stores: Sequence[SegmentStore]) -> None:
    """SegmentOptionError for a queue of a topic that is there but has no such queue.

    A queue is there if config/topics.json says so, also while it is empty, or if it has a folder.
    Where the log alone was given, or queues are in RocksDB and there is no topics.json, nothing can
    be said."""
    for store in stores:
        assigned = {t: of.get(store.name, ()) for t, of in (selection.assign or {}).items()}
        counts = _counts(store) if any(assigned.values()) else None
        for topic, ids in assigned.items():
            there = _queues(store, topic, counts) if ids else None
            for number in ids:
                if there and number not in there:
                    shown = ", ".join(map(str, sorted(there)[:_SHOWN]))
                    raise SegmentOptionError(
                        (
                            Parameter("assign"),
                            f": there is no queue {number} of topic {topic} on broker {store.name}",
                        ),
                        f"it has {shown}{', …' if len(there) > _SHOWN else ''}",
                    )


def _counts(store: SegmentStore) -> dict[str, int] | None:
    if not store.base:
        return None
    return config_folder.queue_counts(store.place, posixpath.join(store.base, "config"))


def _queues(store: SegmentStore, topic: str, counts: dict[str, int] | None) -> set[int]:
    """Queue ids of a topic; empty: they are not known."""
    if not store.base or topic in (".", "..") or "/" in topic:
        return set()
    found = set(range((counts or {}).get(topic, 0)))
    for kind in ("consumequeue", "batchconsumequeue"):
        folder = posixpath.join(store.base, kind, topic)
        if store.place.kind(folder) == "folder":
            names = (one.name for one in store.place.list(folder) if not one.is_file)
            found.update(number for name in names if (number := queue_id(name)) is not None)
    return found
