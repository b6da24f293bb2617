"""Where in a log a stream starts: earliest, latest, a time, or offsets by queue. How a limit of one
of its batches is shared by logs, and where it ends in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyrmq.engine import LogRange, SegmentReader
from pyrmq.errors import Parameter, SegmentOptionError
from pyrmq.segments import log_ranges
from pyrmq.segments.at_times import first_at
from pyrmq.segments.bounds import (
    Key,
    QueueExtent,
    as_bounds,
    check_not_behind_end,
    of_broker,
    queue_extents,
    walk_log,
    without_deleted,
)
from pyrmq.segments.filesystem import need
from pyrmq.segments.offsets import EARLIEST, LATEST
from pyrmq.segments.queues import dispatched, phys_at, place_of
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Rule, Selection
from pyrmq.segments.store import SegmentStore

_SEARCHED = 8 << 20
"""Bytes before a limit in which the start of a record is looked for."""


@dataclass(frozen=True)
class Start:
    """A position in one broker's log."""

    phys: int
    offsets: Mapping[Key, int] = field(default_factory=dict)
    """First queue offsets, for queues whose earlier messages stand behind `phys`."""
    until: int = 0
    """Physical offset from which on `offsets` select everything."""
    found: bool = True
    """False: everything is older than the time that is asked for."""


def starting_at(
    store: SegmentStore,
    end: int,
    selection: Selection,
    how: ReadOptions,
    *,
    fail_on_data_loss: bool,
) -> Start:
    """Where a stream over a log that ends at `end` starts. Errors are those of the selection."""
    if selection.start_time is not None:
        for low, high in log_ranges.present_ranges(
            store, store.first, end, fail_on_data_loss=False
        ):
            phys = first_at(store, low, high, selection.start_time, how.on_corruption)
            if phys is not None:
                return Start(phys)
        return Start(end, found=False)
    if selection.starting_offsets == "latest":
        return Start(end)
    named = of_broker(selection.starting_offsets, store.name)
    if not named:
        return Start(store.first)
    return _by_queue(store, end, selection, named, fail_on_data_loss)


def _by_queue(
    store: SegmentStore, end: int, selection: Selection, named: dict[Key, int], fail: bool
) -> Start:
    rule = selection.rule(store.name)
    # What has no entry yet stands behind the last message that has one; looked for first, as a
    # broker may go on dispatching.
    last = end if store.queues is None else max(dispatched(store, end, end), store.first)
    extents = queue_extents(store, rule, store.first, end)
    for key, offset in named.items():
        if offset == LATEST:
            named[key] = extents.get(key, QueueExtent(0, 0)).high
    check_not_behind_end("starting_offsets", named, extents, store.name)
    wanted = {key: offset for key, offset in named.items() if offset != EARLIEST}
    wanted = without_deleted(wanted, extents, store.name, fail)
    places = _places(store, rule, extents, wanted, last, end)
    # Else some queue starts at its earliest; it may have no entry yet.
    all_named = all(key in wanted for key in {*extents, *named})
    phys = min(places.values(), default=end) if all_named else store.first
    offsets = {key: n for key, n in wanted.items() if n > extents.get(key, QueueExtent(0, 0)).low}
    until = max((places[key] for key in offsets), default=phys)
    return Start(phys, offsets, until) if until > phys else Start(phys)


def _places(
    store: SegmentStore,
    rule: Rule,
    extents: Mapping[Key, QueueExtent],
    wanted: Mapping[Key, int],
    last: int,
    end: int,
) -> dict[Key, int]:
    """Physical offset at or before that of the first message of each queue from its offset on."""
    if store.queues is None:
        chosen = Rule(rule.selection, rule.queues, as_bounds(wanted))
        found = walk_log(store, chosen, store.first, end)
        return {key: found[key][2] if key in found else end for key in wanted}
    reaches = {key: h.reach for key, h in extents.items() if h.reach is not None}
    return {
        key: min(phys_at(reaches[key], place_of(reaches[key], n), end), last)
        if key in reaches
        else last
        for key, n in wanted.items()
    }


def by_folder(stores: Sequence[SegmentStore]) -> list[str]:
    """The names that the stores' folders give them."""
    return [store.folder_name or store.name for store in stores]


def check_names(stores: Sequence[SegmentStore]) -> None:
    """SegmentOptionError where the folder of one store has the name of another one's broker: a
    checkpoint with that name might be of either."""
    names = {store.name: store.root for store in stores}
    for store, folder in zip(stores, by_folder(stores), strict=True):
        if folder != store.name and folder in names:
            raise SegmentOptionError(
                f"{store.root} is of broker {store.name!r}, but its folder has the name of the "
                f"broker of {names[folder]}: a checkpoint could mean either",
                ("give ", Parameter("broker_names"), ", one for each path"),
            )


def record_near(store: SegmentStore, start: int, end: int) -> int:
    """The start of a record: `start`, or one shortly before `end`."""
    near = end - _SEARCHED
    if near <= start:
        return start
    files = log_ranges.overlapping(store.files, near, end)
    reader = SegmentReader(
        LogRange(files, near, end, opener=store.opener()),
        None,
        ReadOptions(
            columns=("commitLogOffset",), verify_crc="none", batch_rows=1, on_corruption="skip"
        ),
    )
    batch = reader.next_batch()
    if batch is None:
        return start
    return int(need("pyarrow", "limits in bytes").record_batch(batch)[0][0].as_py())


def shares(limit: int | None, todo: Mapping[str, int]) -> dict[str, int | None]:
    """A limit shared by what there is to do, at least 1 each as far as it goes; the rest of a
    division goes to the one with the most."""
    busy = sorted((name for name in todo if todo[name]), key=lambda n: (-todo[n], n))
    if limit is None or not busy:
        return dict.fromkeys(todo)
    shares: dict[str, int | None] = dict.fromkeys(todo, 0)
    if limit < len(busy):
        return {**shares, **dict.fromkeys(busy[:limit], 1)}
    spare, total = limit - len(busy), sum(todo.values())
    given = {name: 1 + spare * todo[name] // total for name in busy}
    given[busy[0]] += limit - sum(given.values())
    return {**shares, **given}
