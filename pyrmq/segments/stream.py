"""Positions of a stream over growing segments; there is no Spark in it. The engine plans.

A position is a dict, as a checkpoint keeps it: integers and strings only, as Spark compares it as
text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrmq.engine import SegmentStream, Split
from pyrmq.errors import CheckpointError
from pyrmq.segments.plan import SPLIT_BYTES
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection
from pyrmq.segments.store import check_utf8

Position = dict[str, Any]


@dataclass(frozen=True)
class Behind:
    bytes: Mapping[str, int]
    """By broker, of the whole log."""
    messages: Mapping[tuple[str, tuple[str, int]], int] | None
    """By broker and queue (topic, id), of the chosen topics; None where no queues say, or too
    many."""


class StreamPlanner:
    """Positions and tasks of a stream; lives on the driver, one for each query.

    Tags and the key of the selection apply to every batch; the starting time is a position. The
    places are listed anew for every position and every batch.
    """

    def __init__(
        self,
        paths: Sequence[str],
        selection: Selection,
        how: ReadOptions,
        *,
        broker_names: Sequence[str] = (),
        storage_options: Mapping[str, Any] | None = None,
        split_bytes: int = SPLIT_BYTES,
        min_partitions: int | None = None,
        mode: str = "auto",
        fail_on_data_loss: bool = True,
    ) -> None:
        check_utf8(paths, broker_names)
        self._stream = SegmentStream(
            list(paths),
            selection.native,
            how.native,
            broker_names=list(broker_names),
            storage_options=dict(storage_options or {}),
            split_bytes=split_bytes,
            min_partitions=min_partitions,
            mode=mode,
            fail_on_data_loss=fail_on_data_loss,
        )

    def __reduce__(self) -> Any:
        return _elsewhere, ()

    def initial(self) -> Position:
        """Where a new query starts; the same however often it is asked for, as Spark does so anew
        when it plans the first batch."""
        return _position(self._stream.initial())

    def end(self) -> Position:
        """The end of the logs now."""
        return _position(self._stream.end())

    def behind(self) -> Behind:
        """How far the end of the batch that `latest` named last is behind the end of the logs, as
        it was seen last."""
        size, queues = self._stream.behind()
        if queues is None:
            return Behind(size, None)
        return Behind(size, {(broker, (topic, queue)): n for broker, topic, queue, n in queues})

    def count(self, start: Mapping[str, Any], wanted: int) -> int:
        """How many messages there are to read from `start` on, counted up to `wanted`. Topics that
        were added count as enough."""
        return self._stream.count(_json(start), wanted)

    def pin(self) -> None:
        """From here on `latest` stays at or below the end of the logs now."""
        self._stream.pin()

    def latest(
        self,
        start: Mapping[str, Any] | None = None,
        max_offsets: int | None = None,
        max_bytes: int | None = None,
    ) -> Position:
        """How far the next batch goes. Without `start` to the end of the logs.

        `max_offsets`: messages of the chosen topics, `max_bytes`: of the logs, at most; what there
        is to do is shared over the brokers by their bytes. A batch has at least one record if there
        is one.
        """
        at = None if start is None else _json(start)
        return _position(self._stream.latest(at, max_offsets, max_bytes))

    def splits(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Split]:
        """The tasks of the batch between two positions; none if they are the same."""
        return self._stream.splits(_json(start), _json(end))


def _elsewhere() -> None:
    """A reader that travels to a worker needs no planner there."""


def _position(text: str) -> Position:
    found: Position = json.loads(text)
    return found


def _json(position: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(position).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"the checkpoint has no position: {position!r}") from error
