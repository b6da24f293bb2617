"""`pyrmq.scan`: the messages of segments as an Arrow stream, without a broker or Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol

from pyrmq.engine import Split, joined_splits
from pyrmq.errors import Parameter, SegmentOptionError
from pyrmq.segments.filesystem import need
from pyrmq.segments.offsets import check_assign, check_offsets, parse_assign, parse_offsets
from pyrmq.segments.plan import SPLIT_BYTES, plan
from pyrmq.segments.read_options import ReadOptions
from pyrmq.segments.selection import Selection, parse_tags
from pyrmq.segments.store import open_stores

Path = str | os.PathLike[str]
_MAX_THREADS = 8


class Scan:
    """The selected messages, up to the ends that the logs had when the scan was made.

    Programs with Arrow's PyCapsule interface can read it: `pyarrow.table(scan)`,
    `polars.DataFrame(scan)`, `duckdb.sql("select … from scan")`. Each of them reads the files
    again.
    """

    def __init__(self, splits: Sequence[Split], how: ReadOptions) -> None:
        self.splits = list(splits)
        """Parts of logs that are read one after the other, in log order for each broker."""
        self._how = how

    @property
    def schema(self) -> Any:
        """The schema as a pyarrow.Schema. Raises MissingPackageError without pyarrow."""
        return self._how.schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        if not self.splits:
            return self._how.empty().__arrow_c_stream__(requested_schema)
        splits = joined_splits(self.splits)
        if len(splits) == 1:  # natively throughout
            return splits[0].reader().__arrow_c_stream__(requested_schema)
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> Any:
        """A pyarrow.RecordBatchReader, which holds one batch at a time."""
        arrow = need("pyarrow", "a reader of record batches")
        return arrow.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self, threads: int | None = None) -> Any:
        """A pyarrow.Table. `threads` read at the same time; default: the number of cores."""
        return collected(self.splits, self.schema, threads)

    def _batches(self) -> Iterator[Any]:
        for split in self.splits:
            yield from split.read()


class Readable(Protocol):
    """A part of a scan: a `Split`, or another task that reads record batches."""

    def read(self) -> Iterator[Any]: ...


def collected(parts: Sequence[Readable], schema: Any, threads: int | None) -> Any:
    """All rows of some parts as a pyarrow.Table. `threads` read at the same time; None: as many as
    there are cores."""
    arrow = need("pyarrow", "a table")
    if threads is not None and threads < 1:
        raise SegmentOptionError((Parameter("threads"), f": {threads}"), "expected at least 1")
    count = min(threads or os.cpu_count() or 1, len(parts), _MAX_THREADS)
    if count < 2:
        return arrow.Table.from_batches((b for part in parts for b in part.read()), schema)
    with ThreadPoolExecutor(count) as pool:
        read = list(pool.map(lambda part: list(part.read()), parts))
    return arrow.Table.from_batches([b for batches in read for b in batches], schema)


def scan(
    path: Path | Sequence[Path],
    *,
    topic: str | None = None,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    assign: str | Mapping[str, Any] | None = None,
    queues: Sequence[int] = (),
    include_system_topics: bool = False,
    tags: str | Sequence[str] | None = None,
    key: str | None = None,
    starting_offsets: str | Mapping[str, Any] = "earliest",
    ending_offsets: str | Mapping[str, Any] = "latest",
    start_time: int | datetime | None = None,
    end_time: int | datetime | None = None,
    broker_names: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    columns: Sequence[str] = (),
    properties: str = "map",
    decompress: bool = True,
    verify_crc: str = "tail",
    on_corruption: str = "fail",
    plan: str = "auto",
    fail_on_data_loss: bool = True,
    batch_rows: int = 10_000,
    batch_bytes: int = 1 << 20,
    views: bool = False,
) -> Scan:
    """The messages of the segments at `path`: a store folder, a commitlog folder, segment files, a
    pattern such as `/data/store-*`, or several of them; local, or URIs that pyarrow or fsspec
    (`storage_options`) open.

    Selection: `topic`, `topics`, `pattern` (a regular expression for the whole name) or `assign`
    ({topic: {broker: [queues]}}); without these all user topics, with `include_system_topics` also
    the broker's own. `queues`: queue ids of each topic. `tags`: "A || B", or several. `key`. Store
    times in ms, or as datetimes with a zone, from `start_time` to before `end_time`. Queue offsets
    from `starting_offsets` to before `ending_offsets` ({topic: {broker: {queue: offset}}}, also as
    JSON); times have precedence over offsets.

    Reading: `columns` by name; `properties` as map, json, raw or none; `decompress`: decompress
    bodies; `verify_crc`: none, tail or all; `on_corruption`: fail or skip; `plan`: auto, scan,
    index or file; `batch_rows` and `batch_bytes` limit an Arrow batch; `views`: bodies are not
    copied but binary_view over the mapped files, which must not change meanwhile. `broker_names`:
    names of the stores' brokers, by default those in the stores. `fail_on_data_loss=False`
    continues after deleted messages or segments.

    Raises SegmentError, which names the parameter and says what to do: SegmentPathError and
    SegmentLayoutError for the path, SegmentOptionError for the parameters (including
    UnknownTopicError and OffsetOutOfRangeError), DataLossError for deleted messages, and while
    reading SegmentDamagedError for a damaged record.
    """
    return Scan(
        *_planned(
            as_paths(path),
            Selection(
                topics=_topics(topic, topics),
                pattern=pattern,
                assign=_assign(assign),
                queues=tuple(queues),
                include_system_topics=include_system_topics,
                tags=as_tags(tags),
                key=key,
                starting_offsets=_offsets(starting_offsets, "starting_offsets"),
                ending_offsets=_offsets(ending_offsets, "ending_offsets"),
                start_time=milliseconds(start_time, "start_time"),
                end_time=milliseconds(end_time, "end_time"),
                timestamp_strategy="latest",
            ),
            ReadOptions(
                columns=tuple(columns),
                properties=properties,
                decompress=decompress,
                verify_crc=verify_crc,
                on_corruption=on_corruption,
                batch_rows=batch_rows,
                batch_bytes=batch_bytes,
                views=views,
            ),
            broker_names,
            storage_options,
            plan,
            fail_on_data_loss,
        )
    )


def _planned(
    paths: list[str],
    selection: Selection,
    how: ReadOptions,
    broker_names: Sequence[str],
    storage_options: Mapping[str, Any] | None,
    mode: str,
    fail_on_data_loss: bool,
) -> tuple[list[Split], ReadOptions]:
    stores = open_stores(paths, broker_names, storage_options)
    splits = plan(
        stores,
        selection,
        how,
        split_bytes=SPLIT_BYTES,
        mode=mode,
        fail_on_data_loss=fail_on_data_loss,
    )
    return splits, how


def as_paths(path: Path | Sequence[Path]) -> list[str]:
    """A parameter `path` as a list."""
    many = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return [os.fspath(one) for one in many]


def _topics(topic: str | None, topics: Sequence[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise SegmentOptionError(
            (Parameter("topics"), f": {topics!r} is one name"), ("give it as ", Parameter("topic"))
        )
    if topic is not None and topics:
        raise SegmentOptionError(
            (Parameter("topic"), " and ", Parameter("topics"), " are given"), "give one of them"
        )
    return tuple(topics) if topic is None else (topic,)


def as_tags(tags: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A parameter `tags`; None: all."""
    if tags is None:
        return None
    return parse_tags(tags) if isinstance(tags, str) else tuple(tags)


def _assign(assign: str | Mapping[str, Any] | None) -> dict[str, dict[str, tuple[int, ...]]] | None:
    if assign is None:
        return None
    return parse_assign(assign) if isinstance(assign, str) else check_assign(assign)


def _offsets(value: str | Mapping[str, Any], parameter: str) -> Any:
    if isinstance(value, str):
        return parse_offsets(value, parameter)
    return check_offsets(value, parameter)


def milliseconds(time: int | datetime | None, parameter: str) -> int | None:
    """A time in ms; a part of a millisecond counts as a whole one."""
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise SegmentOptionError(
            (Parameter(parameter), f": {time} has no zone"),
            "give a datetime with tzinfo, or milliseconds",
        )
    return -int(-time.timestamp() * 1000 // 1)
