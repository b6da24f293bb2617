"""Types of the compiled module; engine.pyx documents them."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar, final, overload

from typing_extensions import Buffer

_M = TypeVar("_M")

def set_log_level(level: str) -> None: ...
def keep_log_lines(on: bool) -> None: ...
def take_log_lines(
    milliseconds: int,
) -> tuple[list[tuple[int, str, str, int, str, list[tuple[str, int | str]]]], int]: ...
def java_hash(text: str) -> int: ...
def parse_json(text: bytes, max_values: int = ...) -> Any: ...
def json_members(text: bytes) -> list[tuple[Any, int, int, int]]: ...

@final
class JsonBodies:
    def __new__(cls, schema: str, headed: bool) -> Self: ...
    def decode(self, batch: Any, start: int) -> tuple[Any, list[int]]: ...

def scan_option_rows() -> list[dict[str, Any]]: ...
def scan_options(
    given: dict[str, str], query: str | None = ...
) -> tuple[dict[str, Any], list[str]]: ...
def scan_option_value(name: str, text: str) -> Any: ...
def scan_check_cases(given: dict[str, str]) -> None: ...
def scan_through_brokers(names: list[str]) -> bool: ...
def scan_columns() -> list[tuple[str, str]]: ...
def scan_schema(
    given: dict[str, str], query: str | None = ..., schema: str | None = ...
) -> tuple[tuple[str, ...], str, str]: ...
def read_records(
    data: bytes, made: Callable[..., _M], broker_name: str
) -> tuple[list[_M], list[str], bool]: ...
def unique_key(ip: str) -> str: ...

@final
class MessageText:
    def __new__(cls, class_: type, ip: str, namespace: str, max_message_size: int, /) -> Self: ...
    def properties(self, message: object) -> tuple[str, str] | None: ...
    def entry(self, message: object) -> tuple[str, bytes] | None: ...

def scan_tags(entries: Buffer, tags: Buffer, out: Buffer) -> int: ...
def store_is_locked(root: str | PathLike[str]) -> bool: ...
def inspect_store(
    root: str | PathLike[str], commit_log_dirs: Sequence[str | PathLike[str]] = ...
) -> dict[str, Any]: ...
def topic_sizes(
    store: NativeStore, topic: str, begin: int, end: int, most: int
) -> list[tuple[int, int, int, int, int, bool]]: ...
def stored_topics(store: NativeStore) -> list[str]: ...
def log_files(store: NativeStore) -> list[tuple[Path, int, int, int | None, str | None]]: ...
def log_bounds(store: NativeStore) -> tuple[int, int, int, int, int]: ...
def needed_from(
    store: NativeStore, done: list[tuple[str, int | None, int]]
) -> tuple[int, tuple[str, int] | None]:
    """Physical offset before which no queue needs a record, and the topic and the queue id of the
    record there (None: all is done, and it is the end of what is on disk and confirmed). `done`:
    topic, queue id (None: its other queues) and the queue offset before which nothing is needed. Of
    a queue without a row all is. May wait for the disk."""

def reclaim_to(store: NativeStore, offset: int) -> None:
    """From now on log files that end at this physical offset or before count as expired."""

def timers_needed_from(timers: Timers) -> int | None:
    """Physical offset of the first timer message that is still to be delivered, as the check point
    says that is on disk; None: there is none. May wait for the disk."""

def key_places(
    index: str | PathLike[str], topic: str, key: str
) -> tuple[list[int], tuple[int, int] | None]:
    """Physical offsets at which messages of a topic with a key may stand by the files of an index
    folder, ascending, and the first and last one of any message there (None: it has no entries).

    Only hashes are compared, and what is not in the log any more is named too. OSError with the
    path for a file that cannot be read.
    """

@final
class BenchFloor:
    """The floor of `pyrmq bench peers`, in a thread: see `pyrmq.bench.floor`. OSError."""

    def __new__(cls, directory: str | PathLike[str], sync: bool, port: int) -> Self: ...
    @property
    def port(self) -> int: ...
    def ended(self) -> bool: ...
    def stop(self) -> None: ...

@final
class BenchRun:
    """A run of the load generator: `pyrmq.bench.run` makes its configuration, reads its result."""

    def __new__(cls, config: dict[str, Any]) -> Self: ...
    def snapshot(self) -> dict[str, Any]:
        """`state` (connecting, warm-up, measuring, ending, ended); of the last second `seconds`
        since the start, `produced_rate` and `consumed_rate` in messages/s, `latency`: by kind p50,
        p99 and maximum in µs; of the whole run `produced`, `consumed`, `errors`; now `behind` and
        `unreceived`."""

    def stop(self) -> None:
        """The first call ends the window, the next the wait behind it."""

    def ended(self) -> bool: ...
    def finish(self) -> dict[str, Any]: ...

@final
class Verifier:
    def __new__(
        cls,
        root: str | PathLike[str],
        commit_log_dirs: Sequence[str | PathLike[str]] = ...,
        log_only: bool = False,
    ) -> Self: ...
    def step(self, budget: int) -> tuple[int, int, bool]: ...
    def findings(self) -> list[tuple[str, str, str, int | None, str]]: ...
    def records_by_queue(self) -> list[tuple[str, int, int]]: ...
    def summary(self) -> dict[str, Any]: ...

@final
class Records:
    def __new__(
        cls,
        root: str | PathLike[str],
        commit_log_dirs: Sequence[str | PathLike[str]] = ...,
        *,
        topic: str | None = None,
        queue: int | None = None,
        offset: int | None = None,
        phys: int | None = None,
        key: str | None = None,
        msg_id: str | None = None,
        scan: bool = False,
    ) -> Self: ...
    def next(
        self, max: int, budget: int
    ) -> tuple[list[dict[str, Any] | tuple[str, int | None, str] | str], bool]: ...

RELEASE_BUILD: bool
DEFAULT_COLUMNS: tuple[str, ...]
ALL_COLUMNS: tuple[str, ...]

File = tuple[int, int, str]
"""A segment: physical offset of its first byte, its length in bytes, path or URI."""

Opener = Callable[[str], Any]
"""Opens what is no local path: gives something with `read_at(nbytes, offset) -> bytes`, as a
pyarrow.NativeFile has it."""

TopicRule = Callable[[str], bool | dict[int, tuple[int, int]]]
"""Asked once for each topic met: False for nothing, True for all of it, or of each queue id the
queue offsets from and before; key -1 stands for any other queue."""

def segment_end(
    files: Sequence[File], start: int | None = None, *, opener: Opener | None = None
) -> tuple[int, str]:
    """Physical offset behind the last whole record, and why the log ends there ("" if what
    follows is empty).

    `start` is the start of some record to continue from; None searches. A writer may be half-way
    through the last record: it counts only if its body fits its CRC and its text reaches to its
    last byte. What is no record, with nothing valid behind it, is a torn tail and not part of the
    log.
    """

@final
class LogRange:
    """The records that start in `start..end` (physical offsets) of `files`.

    `exact`: `start` is the start of a record, else the first one is found by search. `log_end` is
    where the part of the log ends that is planned as a whole (None: `end`): damage between the last
    record of this range and the next one is reported by the reader of this range, wherever the next
    one is. Raises ValueError for files that are not in order.
    """

    def __new__(
        cls,
        files: Sequence[File],
        start: int,
        end: int,
        *,
        opener: Opener | None = None,
        exact: bool = False,
        log_end: int | None = None,
    ) -> Self: ...

@final
class LogPlaces:
    """The records at `positions` of `files`: pairs of little-endian int64 (physical offset; record
    size, 0 if not known), ascending. Raises ValueError for positions that are none."""

    def __new__(
        cls, files: Sequence[File], positions: Buffer, *, opener: Opener | None = None
    ) -> Self: ...

@final
class RecordBytes:
    """Whole records, back to back as in the answer to a pull."""

    def __new__(cls, data: Buffer) -> Self: ...

class Wanted(Protocol):
    """Which messages a reader gives: `pyrmq.segments.selection.Wanted`, or an object with the same
    attributes. Times are ms of store time, from and before. `tags` are compared exactly, `key` is a
    word of KEYS or the UNIQ_KEY."""

    @property
    def rule(self) -> TopicRule | None: ...
    @property
    def start_time(self) -> int | None: ...
    @property
    def end_time(self) -> int | None: ...
    @property
    def tags(self) -> Sequence[str] | None: ...
    @property
    def key(self) -> str | None: ...

class ReadForm(Protocol):
    """How rows are made: `pyrmq.segments.read_options.ReadOptions`, or an object with the same
    attributes. No `columns`: the default ones. `properties`: map, json, raw; none leaves that
    column out of the default ones. `verify_crc`: none, tail (the log's last record), all.
    `on_corruption`: fail, or skip and count. `views` gives bodies as binary_view over the mapped
    files, which nobody may cut short meanwhile."""

    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def properties(self) -> str: ...
    @property
    def decompress(self) -> bool: ...
    @property
    def verify_crc(self) -> str: ...
    @property
    def on_corruption(self) -> str: ...
    @property
    def batch_rows(self) -> int: ...
    @property
    def batch_bytes(self) -> int: ...
    @property
    def views(self) -> bool: ...

def segment_advance(
    log: LogRange,
    rule: TopicRule | None = None,
    *,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    on_corruption: str = "fail",
) -> tuple[int, int]:
    """How far a read of `log` goes, whose start is a record's start: the physical offset of the
    record in front of which it stops, and how many messages `rule` selects before that. At least
    one record is read."""

def segment_times(
    files: Sequence[File], *, opener: Opener | None = None
) -> list[tuple[int, int] | None]:
    """Of each file store time (ms) and physical offset of its first record; None if it has none."""

@final
class SegmentStore:
    """One broker's log. Can be sent to another process."""

    def __new__(cls, json: bytes, filesystem: object | None) -> Self: ...
    @property
    def name(self) -> str:
        """Name of the broker."""

    @property
    def root(self) -> str:
        """Path or URI as it was given, for messages."""

    @property
    def files(self) -> tuple[File, ...]:
        """Sorted; none is empty, no two overlap. There may be holes between them."""

    @property
    def queues(self) -> str | None:
        """The consumequeue folder; None if there is none that can be read here."""

    @property
    def index(self) -> str | None:
        """The index folder, likewise."""

    @property
    def filesystem(self) -> Any | None:
        """How to open the files (`pyrmq.segments.filesystem`); None: they are local."""

    @property
    def folder(self) -> str:
        """The commit-log folder; "" for single files."""

    @property
    def base(self) -> str:
        """The store folder; "" where the log alone was given."""

    @property
    def no_queues(self) -> str:
        """Why there are no queues."""

    @property
    def folder_name(self) -> str:
        """Name of its folder, where `name` is what the store itself says."""

    @property
    def first(self) -> int:
        """Physical offset of the first byte that is there."""

    @property
    def last(self) -> int:
        """Physical offset behind the last file, which may be room not yet written."""

    def holes(self) -> list[tuple[int, int]]:
        """Ranges of physical offsets between the files that no file holds."""

    def relisted(self) -> SegmentStore:
        """The same place listed again: files come at the end and go at the start."""

    def topics(self) -> frozenset[str] | None:
        """Topics that the store knows, by its queue folders and config/topics.json; None if it has
        neither, so that nothing can be said."""

@final
class SegmentSelection:
    """`pyrmq.segments.selection.Selection` as JSON, checked. SegmentOptionError where it
    contradicts itself."""

    def __new__(cls, json: str) -> Self: ...
    def selects(self, topic: str) -> bool: ...

@final
class SegmentForm:
    """`pyrmq.segments.read_options.ReadOptions` as JSON, checked: SegmentOptionError for a wrong
    value."""

    def __new__(cls, json: str) -> Self: ...

def parse_offsets(text: str, name: str) -> str | dict[str, dict[str, dict[int, int]]]:
    """`earliest`, `latest`, or offsets by topic, broker and queue, of JSON. SegmentOptionError
    names the parameter `name`: starting_offsets or ending_offsets."""

def parse_assign(text: str, name: str) -> dict[str, dict[str, list[int]]]:
    """Queues by topic and broker, of JSON, each once and in order. SegmentOptionError."""

def parse_tags(expression: str) -> list[str] | None: ...
def parse_topics(text: str) -> list[str]: ...
def unknown_topic(topic: str, known: set[str], place: str) -> Any:
    """The UnknownTopicError for a topic that is not in `place`; it names those that are near."""

def open_segment_stores(
    paths: Sequence[str], broker_names: Sequence[str], storage_options: dict[str, Any] | None
) -> list[SegmentStore]:
    """See `pyrmq.segments.store.open_stores`."""

@final
class Split:
    """One task of a read: where it reads, and how. Can be sent to another process.

    A segment that is not found was deleted, or cannot be seen from where the task runs.
    """

    def __new__(cls, json: bytes, filesystem: object | None) -> Self: ...
    @property
    def broker(self) -> str: ...
    @property
    def root(self) -> str:
        """Path or URI of the store as it was given, for messages."""

    @property
    def files(self) -> tuple[File, ...]: ...
    @property
    def start(self) -> int:
        """Physical offsets, from and before."""

    @property
    def end(self) -> int: ...
    @property
    def by_entries(self) -> bool:
        """Whether queue entries or the index name the records; else the log itself is read."""

    def describe(self) -> str:
        """What this is, for messages."""

    def reader(self) -> SplitReader: ...
    def read(self) -> Iterator[Any]:
        """Its messages as pyarrow record batches, none empty, in log order.

        SegmentDamagedError and OSError name the file; DataLossError if a file was deleted.
        SegmentPathError, whatever `fail_on_data_loss` says, if the log cannot be seen from here.
        """

@final
class SplitReader:
    """The messages of a split as Arrow batches (PyCapsule interface). Errors: see `Split.read`;
    through `__arrow_c_stream__` they arrive as what its consumer makes of a text. What is left out
    is logged (`pyrmq.segments`)."""

    @property
    def schema(self) -> BatchSchema: ...
    def next_batch(self) -> Batch | None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def stats(self) -> dict[str, int]: ...

def plan_segments(
    stores: Sequence[SegmentStore],
    selection: SegmentSelection,
    how: SegmentForm,
    *,
    split_bytes: int,
    min_partitions: int | None,
    mode: str,
    fail_on_data_loss: bool,
) -> list[Split]:
    """See `pyrmq.segments.plan.plan`."""

def splits_of_at_most(splits: Sequence[Split], count: int) -> list[Split]:
    """See `pyrmq.segments.split.at_most`."""

def joined_splits(splits: Sequence[Split]) -> list[Split]:
    """The same with adjacent ranges of a log joined."""

@final
class SegmentStream:
    """See `pyrmq.segments.stream.StreamPlanner`. Positions are JSON."""

    def __new__(
        cls,
        paths: Sequence[str],
        selection: SegmentSelection,
        how: SegmentForm,
        *,
        broker_names: Sequence[str],
        storage_options: dict[str, Any] | None,
        split_bytes: int,
        min_partitions: int | None,
        mode: str,
        fail_on_data_loss: bool,
    ) -> Self: ...
    def initial(self) -> str: ...
    def end(self) -> str: ...
    def latest(
        self, start: bytes | None, max_offsets: int | None, max_bytes: int | None
    ) -> str: ...
    def splits(self, start: bytes, end: bytes) -> list[Split]: ...
    def count(self, start: bytes, wanted: int) -> int: ...
    def pin(self) -> None: ...
    def behind(
        self,
    ) -> tuple[dict[str, int], list[tuple[str, str, int, int]] | None]:
        """Bytes by broker; messages by broker, topic and queue id, None where nobody knows."""

class Batch:
    """A batch of rows: `pyarrow.record_batch(batch)`."""

    num_rows: int
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...

class BatchSchema:
    def __arrow_c_schema__(self) -> Any: ...

@final
class SegmentReader:
    """Records of raw segments as Arrow batches (PyCapsule interface).

    Errors: StoreDamagedError with file, byte and physical offset (its `next_record` says where the
    next record is, if one was found); OSError with the path; ValueError and TypeError for arguments
    that are wrong. Through
    `__arrow_c_stream__`, which knows no classes, they arrive as what its consumer makes of a text.
    """

    def __new__(
        cls,
        source: LogRange | LogPlaces | RecordBytes,
        wanted: Wanted | None = None,
        form: ReadForm | None = None,
        *,
        broker_name: str = "",
    ) -> Self: ...
    @property
    def schema(self) -> BatchSchema: ...
    def next_batch(self) -> Batch | None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def stats(self) -> dict[str, int]: ...
    def damage(self) -> list[tuple[str, int, int, int, str]]: ...

@final
class SendRequest:
    topic: str
    queue_id: int | None
    broker_name: str | None
    nth: int
    batch: bool
    flag: int
    properties: str
    body: bytes
    rows: int
    first_row: int
    last_row: int
    key: str | None

@final
class SendRows:
    topics: list[str]
    rows: int
    def __new__(
        cls,
        batch: object,
        *,
        host: str,
        now_ms: int,
        topic: str | None = None,
        first_row: int = 0,
        wait: bool = True,
        drop_system: bool = False,
        max_message_size: int = ...,
        batch_bytes: int = ...,
        txn: tuple[str, int, int] | None = None,
    ) -> Self: ...
    def group(self, queues: Sequence[int]) -> None: ...
    def next_request(self) -> SendRequest | None: ...

RPC_BOUNDS_US: tuple[int, ...]
"""Upper bounds of the buckets of `RpcFigures.rows`, µs; one bucket more is above all."""
TIME_BOUNDS_US: tuple[int, ...]
"""The same of `Store.figures`, µs."""
SIZE_BOUNDS: tuple[int, ...]
"""The same of `Store.message_sizes`, bytes."""
FINISH_BOUNDS: tuple[int, ...]
"""The same of `Store.finished_halves`, s."""
DELAY_BOUNDS: tuple[int, ...]
"""The same of `Timers.totals`, s."""

@final
class RpcFigures:
    """How long the requests of a server took. A `Listener` enters what its sessions answer,
    `record` what Python answers. `slow_ms`: requests that take longer are kept for `take_slow`; 0:
    none."""

    def __new__(cls, slow_ms: int = 0) -> Self: ...
    def record(
        self, code: int, response_code: int, long_polling: bool, result: str, micros: int
    ) -> None:
        """A request was answered within so many µs. `result` is success, oneway, cancelled,
        process_request_failed or write_channel_failed."""

    def rows(self) -> list[tuple[int, int, bool, str, list[int]]]:
        """[(code, response code, long polling, result, [count, sum, max, bucket, …])], times in µs.
        A bucket has the values above the bound before it, up to its own: they are not cumulative.
        With long polling the time that a request was parked is included. The row of code -1 is for
        request codes that are too many to have rows."""

    def set_slow_ms(self, ms: int) -> None: ...
    def take_slow(self) -> tuple[list[SlowRow], int]:
        """The slow requests that the engine answered since the last call, and how many more there
        were."""

SlowRow = tuple[int, int, str, list[int], tuple[int, int, int] | None]
"""Code and response code, peer, µs (queued, processed, written, flushed, replicated), and where its
record is: queue, queue offset, physical offset."""

@final
class PullGrants:
    def revoke(self) -> None: ...
    def generation(self) -> int: ...
    def drain(
        self, most: int = ...
    ) -> list[tuple[str, str, int, int, int | None, int, int, int]]: ...

@final
class PutWatch:
    def grown(self) -> list[tuple[str, int]]: ...

@final
class Keyring:
    def __new__(cls) -> Self: ...
    def replace(self, keys: dict[str, str]) -> None: ...
    def revoke(self) -> None: ...
    def generation(self) -> int: ...
    def __len__(self) -> int: ...

@final
class TlsClient:
    def __new__(
        cls,
        *,
        trust: str | Path | None,
        system: Sequence[str | Path],
        insecure: bool,
        cert: str | Path | None,
        key: str | Path | None,
        key_password: str | None,
    ) -> Self: ...

@final
class TlsContext:
    def __new__(cls, mode: str) -> Self: ...
    def use_files(
        self,
        *,
        key: str | Path,
        key_password: str | None,
        cert: str | Path,
        client_auth: str,
        verify_clients: bool,
        trust: str | Path | None,
    ) -> None: ...
    def use_self_signed(self) -> None: ...

@final
class Listener:
    def __new__(
        cls,
        store: object | None = None,
        *,
        transactions: Transactions | None = ...,
        timers: Timers | None = ...,
        pulls: PullGrants | None = ...,
        pops: object | None = ...,
        keyring: Keyring | None = ...,
        tls: TlsContext | None = ...,
        figures: RpcFigures | None = ...,
        region: str = ...,
        cluster: str = ...,
        trace_on: bool = ...,
        broker_name: str = ...,
        timer_precision_ms: int | None = ...,
        timer_max_delay_ms: int = ...,
        timer_congested: int = ...,
        partial_limit: int = ...,
    ) -> Self: ...
    def partial_bytes(self) -> int: ...
    def is_short_of_memory(self) -> bool: ...

Facts = tuple[int, int, int, int, int, int, str, str]

def half_timing(
    born: int,
    since: int,
    immunity: int,
    checks: int,
    now: int,
    timeout: int,
    check_max: int,
    reserved: int,
) -> str: ...

@final
class Transactions:
    def __new__(
        cls,
        store: object,
        *,
        half_offset: int = ...,
        op_offset: int = ...,
        max_op_body: int = 4096,
        max_pending: int = 5_000_000,
    ) -> Self: ...
    def rebuilt(self) -> dict[str, int]: ...
    def due(
        self,
        now: int,
        timeout: int,
        check_max: int,
        reserved: int,
        start: int,
        until: int,
        limit: int,
        most: int,
    ) -> tuple[list[Facts], int]: ...
    def before(self, offset: int, limit: int) -> list[int]: ...
    def pending(self) -> int: ...
    def find(self, offset: int) -> Facts | None: ...
    def live(self, phys: int) -> int | None: ...
    def decided(self, phys: int) -> tuple[bool | None, bool]: ...
    def decide_discarded(self, phys: int, commit: bool) -> None: ...
    def record(self, phys: int, discarded: bool = False) -> bytes | None: ...
    def settle(self, offset: int, commit: bool) -> int: ...
    def renew(self, offsets: list[int], asked: bool) -> list[tuple[int, int, int, str, bytes]]: ...
    def discard(self, offset: int) -> tuple[str, int]: ...
    def resume(self, phys: int) -> tuple[int, int]: ...
    def deliver_late(self, phys: int, prepared: int) -> int: ...
    def write_owed(self) -> None: ...
    def progress(self) -> tuple[int, int, int]: ...
    def stats(self) -> dict[str, int]: ...
    def pending_by_topic(self) -> list[tuple[str, int]]: ...

@final
class SqlFilter:
    def __new__(cls, expression: str) -> Self: ...
    def matches(self, properties: bytes) -> bool: ...
    def with_bits(
        self, bits: list[int], bitmap_len: int, born_time: int, born_offset: int
    ) -> SqlFilter: ...

def bitmap_bits(error_percent: int, consumers: int) -> int: ...
def subscription_bits(group: str, topic: str, error_percent: int, consumers: int) -> list[int]: ...

@final
class Returned:
    reconsume_times: int

@final
class Delays:
    def __new__(
        cls, store: object, *, offsets: list[int] = ..., log_end: int | None = ...
    ) -> Self: ...
    def restored(self) -> tuple[int, int]: ...
    def take_unknown(self) -> list[str]: ...
    def due_in(self, now: int) -> int | None: ...
    def deliver(self, now: int, most: int) -> int: ...
    def progress(self) -> tuple[list[int], int]: ...
    def levels(self) -> list[tuple[int, int]]: ...
    def find_returned(self, phys: int, wait: bool) -> tuple[bool, Returned | None]: ...
    def has_room(self, returned: Returned, topic: str, level: int) -> bool: ...
    def send_back(self, returned: Returned, topic: str, queue_id: int, level: int) -> int: ...

class Popped:
    """What a pop or a read of one queue gave.

    `status` as in GetResult. `slices`: the records, in order. A message of a retry topic that is
    given under its original topic is a copy (`bytes`). `offsets`: the queue offset of each record.
    `start_offset`: the offset of the check point (the first field of the handles).
    `next_offset`: where the next pop of this queue begins, also if nothing matched or the offset
    was wrong: commit it for the group in any case. A pop whose offset lies outside of the queue
    goes on where the queue begins or ends. `rest`: how many messages of the
    queue are behind it. `log_end`: the check point counts once the log is confirmed up to here; 0
    without one."""

    def __init__(self, row: tuple[Any, ...]) -> None: ...
    status: int
    start_offset: int
    next_offset: int
    min_offset: int
    max_offset: int
    rest: int
    count: int
    nbytes: int
    slices: list[Slice | bytes]
    offsets: list[int]
    log_end: int

class Pops:
    """Pops, acknowledgements and changes of invisible time. All of them are stored as timer
    messages for the revive topic of `cluster`. Thread-safe; all times in ms.

    `store` is `Store.native`. Times of popped messages are bounded: see `max_invisible_time`.
    Raises MessageIllegalError (13) for a handle that this broker cannot have given: another
    broker's name, a revive queue beyond `revive_queues`, negative numbers, a pop time in the
    future, or more than `max_invisible_time`."""

    def __init__(
        self,
        store: NativeStore,
        *,
        cluster: str,
        broker_name: str,
        revive_queues: int = 8,
        precision: int = 1000,
        max_invisible_time: int = ...,
    ) -> None: ...
    native: object
    """For the Listener: its sessions then answer plain acks and changes of invisible time."""
    revive_topic: str
    def answer_acks(self, answers: bool, /) -> None:
        """Whether sessions do so from now on (at first they do). Else all of them are commands."""

    def pop(
        self,
        topic: str,
        queue_id: int,
        group: str,
        offset: int,
        max_count: int = 32,
        *,
        pop_time: int,
        invisible_time: int,
        revive_queue: int,
        max_bytes: int = ...,
        tags: Buffer | None = None,
        sql: SqlFilter | None = None,
        original_topic: str | None = None,
        wait: bool = True,
    ) -> Popped | None:
        """Pops from one queue and appends the check point. `topic` is the topic of the queue, which
        may be a retry topic. With `original_topic` its messages are given under that topic, with
        the property POP_CK. None: the disk would have to be waited for, and `wait` is False;
        nothing was appended then.

        Whoever calls it has the lock of this queue and group, and commits `next_offset`. That
        offset may be kept on disk once the log is durable up to `log_end`, no sooner."""

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        *,
        max_bytes: int = ...,
        tags: Buffer | None = None,
        sql: SqlFilter | None = None,
        wait: bool = True,
    ) -> Popped | None:
        """The same without a check point: for PEEK_MESSAGE and for orderly pops."""

    def ack(
        self,
        topic: str,
        queue_id: int,
        group: str,
        offsets: Sequence[int],
        *,
        start_offset: int,
        pop_time: int,
        invisible_time: int,
        revive_queue: int,
        broker_name: str | None = None,
    ) -> int:
        """Acknowledges messages of one check point, in one record: 1 to 32 ascending queue offsets,
        none before `start_offset`. Whether the queue has them is the caller's to check. Returns
        what the log has to be confirmed up to."""

    def change_invisible_time(
        self,
        topic: str,
        queue_id: int,
        group: str,
        offset: int,
        *,
        start_offset: int,
        pop_time: int,
        invisible_time: int,
        revive_queue: int,
        now: int,
        new_invisible_time: int,
        suspend: bool = False,
        broker_name: str | None = None,
    ) -> tuple[int, int]:
        """Makes one message invisible for `new_invisible_time` from `now` on. Appends a check point
        for it and then the ack of the old one, together. Returns what has to be confirmed, and the
        pop time of the new handle, whose start offset is `offset`. The pop time is `now`, or later
        than the old one's: two handles of a message never have the same. `suspend`: the message
        comes back without a count of one more consumption."""

    def done_in_order(self, topic: str, queue_id: int, group: str, next: int, now: int) -> int:
        """Notes in the log that an orderly group is done with all messages of a queue before
        `next`, which is above 0. `popped_to` finds it. Returns what has to be confirmed."""

@final
class Timers:
    def __new__(
        cls,
        store: object,
        *,
        now: int,
        precision: int = ...,
        roll_window: int = ...,
        log_file_size: int = ...,
        stop_enqueue: bool = ...,
    ) -> Self: ...
    def restored(self) -> tuple[int, int, bool]: ...
    def enqueue(self, now: int, most: int) -> int: ...
    def behind(self) -> int: ...
    def due_in(self, now: int) -> int | None: ...
    def deliver(self, now: int, most: int) -> tuple[int, int]: ...
    def take_unknown(self) -> list[str]: ...
    def check_point(self) -> tuple[bytes, int]: ...
    def prepare(self) -> int: ...
    def flush(self) -> None: ...
    def clean(self) -> int: ...
    def follow(self, now: int, check_point: bytes, log_end: int) -> bool: ...
    def histogram(self, now: int, bounds: list[int]) -> list[int]: ...
    def slot_count(self, out_ms: int) -> int: ...
    def topics(self) -> list[tuple[str, int, int]]: ...
    def totals(self) -> list[tuple[str, int, int, list[int]]]: ...
    def set_topics(self, rows: list[tuple[str, int, int]]) -> None: ...
    def forget_topic(self, name: str) -> None: ...
    def figures(self, now: int) -> dict[str, int]: ...

@final
class Revived:
    """What one call of `Reviver.revive` did. `read`: records of the revive topic; `judged`: check
    points. Of their messages: `revived`, by retry topic how many were appended, and their bytes;
    `missing` ones are in no queue any more; `put_off` ones could not be read or stored, they come
    again later; `gone` ones have no topic or group; `known` ones were revived before the start.
    `unknown`: (topic, group) without a target, which the next call has to be given. `more`: there
    is more to do at once."""

    read: int
    judged: int
    missing: int
    put_off: int
    gone: int
    known: int
    more: bool
    revived: list[tuple[str, int, int]]
    unknown: list[tuple[bytes, bytes]]

def popped_to(
    pops: Pops, start: int
) -> tuple[
    list[tuple[bytes, bytes, int, int]], tuple[tuple[bytes, bytes, int, int], int] | None, int
]:
    """How far groups have popped, by the check points that stand from a place of the queue of timer
    messages on: topic, group, queue and the offset behind the last pop. Then one more such row that
    counts only if the offset of the group is the one beside it. Then how many entries of the queue
    were read. May wait for the disk."""

def oldest_popped(pops: Pops, waiting: int, revived: Sequence[int], most: int) -> int | None:
    """Physical offset of the first message that is popped and not settled, None: there is none.
    `waiting`: no timer message before this physical offset waits. `revived`: by revive queue the
    place that is kept as dealt with. With more than `most` check points it is 0. May wait for the
    disk."""

class Reviver:
    """Messages that were popped and not acknowledged go to the retry topic of their group.
    Thread-safe; all times in ms.

    `next`: by revive queue the first place that is not dealt with, as `progress` said it.
    `drops_after_last`: RocketMQ's skipWhenCKRePutReachMaxTimes."""

    def __init__(
        self, pops: Pops, *, next: Sequence[int] = ..., drops_after_last: bool = False
    ) -> None: ...
    def revive(
        self,
        now: int,
        timers: int | None,
        most: int,
        targets: Sequence[tuple[bytes, bytes, str | None]],
    ) -> Revived:
        """Reads what has come to the revive topic and revives about `most` messages. `timers`: all
        timers that were due before this time have been delivered; None: not known. `targets`:
        topic, group and their retry topic, None for those that are gone. May wait for the disk.
        Raises what failed if nothing could be done."""

    def progress(self) -> tuple[list[int], int]:
        """By revive queue the first place that is not dealt with, and the physical offset up to
        which the log must be on disk for it to count. May wait."""

    def totals(
        self,
    ) -> list[tuple[str, str, tuple[int, int], int, list[tuple[int, tuple[int, int]]]]]:
        """Since the start, by topic and group: topic, group, (check points, acknowledgements) that
        were stored, messages that were revived, and by revive queue the (check points,
        acknowledgements) that were read from it. Both names are empty for what is too many to be
        counted apart."""

    def lags(self) -> list[tuple[int, int, int]]:
        """By revive queue, as of the last `revive`: records that are not dealt with, for how many
        ms the first of its messages has been visible, check points in memory."""

@final
class HaMaster:
    def __new__(
        cls,
        store: object,
        *,
        in_sync_replicas: int = ...,
        min_in_sync_replicas: int = ...,
        auto_in_sync_replicas: bool = ...,
        max_gap: int = ...,
        transfer_batch_size: int = ...,
        heartbeat_interval: int = ...,
        housekeeping_interval: int = ...,
        most_per_second: int | None = ...,
        tls: TlsContext | None = ...,
    ) -> Self: ...
    def serve(self, fd: int, peer: str) -> str | None: ...
    def stop(self) -> None: ...
    def want(self, in_sync: int, least: int) -> None: ...
    def look_again(self) -> None: ...
    def replicas(self) -> list[dict[str, Any]]: ...

@final
class HaSlave:
    def __new__(
        cls, store: object, *, heartbeat_interval: int = ..., housekeeping_interval: int = ...
    ) -> Self: ...
    def receive(
        self, fd: int, *, tls: TlsClient | None = ..., host: str = ...
    ) -> tuple[str, str]: ...
    def stop(self) -> None: ...
    def status(self) -> dict[str, Any]: ...

def newest_record(store: object) -> tuple[int, bytes] | None: ...
def delay_levels(text: str) -> list[int]: ...

ENTRY_DTYPE: list[tuple[str, str]]

class Slice(Buffer):
    nbytes: int
    def __len__(self) -> int: ...

class GetResult:
    status: int
    next_offset: int
    min_offset: int
    max_offset: int
    nbytes: int
    count: int
    slices: list[Slice]

SLOW: int
BUSY: int

class NativeStore:
    """The native object of a store: rare operations."""

    @property
    def is_sync(self) -> bool: ...
    def __new__(
        cls,
        root: str | PathLike[str],
        *,
        commit_log_dirs: list[Path] = ...,
        read_only_commit_log_dirs: list[Path] = ...,
        commit_log_file_size: int = ...,
        consume_queue_file_size: int = ...,
        batch_queue_file_size: int = ...,
        batch_topics: list[str] = ...,
        max_mapped_queue_files: int = ...,
        index_enable: bool = ...,
        index_slots: int = ...,
        index_entries: int = ...,
        queue_ext: bool = ...,
        queue_ext_file_size: int = ...,
        sync_flush: bool = ...,
        replica: bool = ...,
        replicated: bool = ...,
        slave_timeout: int = ...,
        flush_interval_commit_log: int = ...,
        busy_timeout: int = ...,
        flush_interval_consume_queue: int = ...,
        flush_queue_least_pages: int = ...,
        flush_queue_thorough_interval: int = ...,
        bitmap_len: int = ...,
        warm_mapped_file: bool = ...,
        message_delay_level: str = ...,
        max_message_size: int = ...,
        store_host: str = ...,
        check_crc_on_recover: bool = ...,
        in_memory_ratio: int = ...,
        transfer_memory: tuple[int, int] = ...,
        transfer_disk: tuple[int, int] = ...,
        max_filter_bytes: int = ...,
        file_reserved_time: int = ...,
        delete_when: list[int] = ...,
        disk_max_used_space_ratio: int = ...,
        disk_space_clean_forcibly_ratio: int = ...,
        disk_space_warning_level_ratio: int = ...,
        clean_file_forcibly: bool = ...,
        clean_resource_interval: int = ...,
        delete_commit_log_files_interval: int = ...,
        delete_file_batch_max: int = ...,
    ) -> Self: ...
    def write_later(self) -> None: ...
    def advance_clock(self, ms: int) -> None: ...
    def writes_later(self) -> bool: ...
    def consumed_to(self, next: list[tuple[str, int, int]]) -> int: ...
    def give_up_cache(self, offset: int) -> int: ...
    def clean(
        self, now_ms: int | None = ..., manual: bool = ..., log: bool = ...
    ) -> dict[str, int]: ...
    def close(self) -> None: ...
    def event_fd(self) -> int: ...
    def refuse_messages(self, why: str | None) -> None: ...
    def refusal(self) -> str | None: ...
    def failure(self) -> str | None: ...
    def confirmed(self) -> int: ...
    def flushed(self) -> int: ...
    def set_topic(
        self,
        topic: str,
        *,
        read_queues: int,
        write_queues: int,
        multi_tag: bool = False,
        sendable: bool = True,
        batch: bool = False,
        message_type: str | None = None,
    ) -> None: ...
    def set_expressions(
        self,
        topic: str,
        filters: list[tuple[SqlFilter, list[int]]],
        ended: list[SqlFilter] = ...,
    ) -> tuple[int, int] | None: ...
    def forget_topic(self, topic: str) -> None: ...
    def puts(self) -> list[tuple[str, int, int]]: ...
    def watch_puts(self) -> PutWatch: ...
    def log_end(self) -> int: ...
    def set_file_reserved_time(self, ms: int) -> None: ...
    def delete_topic(self, topic: str) -> list[tuple[int, int]]: ...
    def hide_messages(self, topic: str, queue_id: int, offset: int) -> None: ...
    def put(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: str = "",
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host: str = ...,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> tuple[int, int, int, int]: ...
    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]: ...
    def queue_end(self, topic: str, queue_id: int) -> int: ...
    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, upper: bool = False
    ) -> int: ...
    def earliest_time(self, topic: str, queue_id: int) -> int: ...
    def store_time(self, topic: str, queue_id: int, offset: int) -> int: ...
    def in_memory(
        self, topic: str, queue_id: int, offset: int, wait: bool = True
    ) -> bool | None: ...
    def record_at(self, offset: int) -> bytes | None: ...
    def drain_arrivals(self) -> list[tuple[str, int]]: ...
    def queues(self) -> list[tuple[str, int, int, int]]: ...
    def stats(self) -> dict[str, int]: ...
    def figures(self) -> dict[str, int | list[int]]:
        """Figures since the store was opened. A list is a histogram: [count, sum, max, bucket, …],
        in µs by TIME_BOUNDS_US, not cumulative.

        - putLatency: writes into the log, one for all that a round stored.
        - flushLatency: flushes (fdatasync) of a file of the log.
        - commitLatency: group commits, from the first write that one carries to the end of its
          flush.
        - lockWait: waits for the put lock; one that is free is not waited for.
        - barrierWait: how long answers waited to be confirmed, once their records were written.
        - sendLatency: from sends to their answers.
        - flushedBytes, writeStalls (writes above 100 ms), busyRefusals (SYSTEM_BUSY): counters.
        - flushLagBytes, confirmLagBytes, dispatchLagBytes: bytes of the log that are written, and
          not flushed, confirmed or indexed.
        - writeUnderWayMs: how long the write that is under way has taken; 0: none is.
        - recoveryUs, recoveredRecords, recoveredBytes: opening the store, and the part of the log
          that it read.
        """

    def message_sizes(self, topic: str) -> list[tuple[str, list[int]]]:
        """Sizes of the messages that clients sent to a topic since the store was opened, by type
        (NORMAL, FIFO, DELAY, TRANSACTION, …): [count, bucket, …, sum] in bytes of records by
        SIZE_BOUNDS. A batch counts once, with the average of its messages."""

    def finished_halves(self) -> list[tuple[str, list[int], int]]:
        """What became of halves since the store was opened: topic, [committed, bucket, …, sum] in
        whole seconds from birth to commit by FINISH_BOUNDS, halves that were rolled back."""

class Store(NativeStore):
    """Not derived from NativeStore, but it has all of its attributes (`__getattr__`)."""

    native: NativeStore
    @overload
    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        max_bytes: int = ...,
        tags: Buffer | None = None,
        wait: Literal[True] = True,
        sql: SqlFilter | None = None,
    ) -> GetResult: ...
    @overload
    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        max_bytes: int = ...,
        tags: Buffer | None = None,
        *,
        wait: bool,
        sql: SqlFilter | None = None,
    ) -> GetResult | None: ...
    def write_staged(self) -> bool: ...
    def stall(self) -> int: ...
    def query_message(
        self, topic: str, key: str, max_num: int = ..., begin: int = ..., end: int = ...
    ) -> tuple[list[Slice], int, int]: ...
    def entries(self, topic: str, queue_id: int, offset: int | None = ...) -> tuple[int, Any]: ...
    def notify_on_arrival(self, topic: str, queue_id: int) -> None: ...

class RecvBuffer(Buffer):
    nbytes: int
    def __new__(cls, nbytes: int) -> Self: ...

class Command:
    code: int
    opaque: int
    flag: int
    language: int
    version: int
    codec: int
    ext: dict[str, str]
    remark: str | None
    body: bytes
    frame: bytes | None
    size: int
    since_us: int
    taken_us: int
    subject: str | None
    def drop_body(self) -> None: ...
    @property
    def is_response(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...

class Space(Buffer):
    def __len__(self) -> int: ...

ALIKE: list[str]
ACCESS_SEND: int
ACCESS_END: int
ACCESS_ACK: int

Left = tuple[int, bool, bytes | None, Exception | None]

class AnswerSender:
    def __new__(cls, most: int) -> Self: ...
    def release(self, sessions: list[Session], now_ms: int, timeout_ms: int) -> list[Left]: ...

class ReadyLoop:
    def __new__(
        cls, epoll_fd: int, most: int, receive: int, store: Store | None, timeout_ms: int
    ) -> Self: ...
    @property
    def arrivals(self) -> bool: ...
    @property
    def idle(self) -> bool: ...
    @property
    def served(self) -> int: ...
    @property
    def confirmed(self) -> bool: ...
    @property
    def waiting(self) -> int: ...
    def watch(self, session: Session) -> None: ...
    def keep(self, session: Session) -> bool: ...
    def keeping(self) -> list[int]: ...
    def forget(self, session: Session) -> None: ...
    def serve(
        self, active: float, end_ns: int, linger_ns: int, hold: bool, others_keep: bool = False
    ) -> tuple[list[tuple[int, int]], list[Left], Exception | None]: ...
    def finish(self, active: float) -> tuple[list[Left], Exception | None]: ...

class Session:
    @property
    def commands(self) -> int: ...
    @property
    def unconfirmed(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def more(self) -> bool: ...
    @property
    def arrivals(self) -> bool: ...
    @property
    def large(self) -> bool: ...
    @property
    def heavy(self) -> bool: ...
    @property
    def sealed(self) -> bool: ...
    @property
    def handshaking(self) -> bool: ...
    @property
    def told_end(self) -> bool: ...
    @property
    def refused(self) -> bool: ...
    @property
    def pending(self) -> bool: ...
    @property
    def active(self) -> float: ...
    error: str | None
    def __init__(self, listener: Listener, ip: bytes, port: int) -> None: ...
    def feed(
        self, buffer: RecvBuffer, n: int, now_ms: int, defer_write: bool = False
    ) -> bytes | None: ...
    received: int
    fd: int
    def receive(
        self, fd: int, buffer: RecvBuffer, now_ms: int, defer_write: bool = False
    ) -> bytes | None: ...
    def send(self, fd: int, pieces: Iterable[Buffer]) -> tuple[int, bytes | None]: ...
    def send_close(self, fd: int) -> None: ...
    def send_released(self, fd: int, now_ms: int, timeout_ms: int) -> bytes | None: ...
    def feed_bytes(self, data: bytes, now_ms: int, defer_write: bool = False) -> bytes | None: ...
    def resend(
        self, frame: bytes, now_ms: int, topic: str = "", dead: bool = False, since_us: int = 0
    ) -> bytes | None: ...
    def answer(
        self,
        answer: bytes,
        codec: int,
        opaque: int,
        log_end: int,
        now_ms: int,
        code: int = 0,
        long_polling: bool = False,
        since_us: int = 0,
    ) -> bytes | None: ...
    def release(self, now_ms: int, timeout_ms: int) -> bytes | None: ...
    def grant_pull(
        self, command: Command, topic: str, group: str, queue_id: int, tags: array[int]
    ) -> None: ...
    def grant_access(self, rights: int, subject: str, resource: str) -> None: ...
    def next_command(self) -> Command | None: ...
    def space(self) -> Space | None: ...
    def give_up(self) -> None: ...
    def take_used(
        self,
    ) -> (
        tuple[
            tuple[int, int, int, int, int],
            tuple[int, int, int, int],
            list[tuple[str, int, int, int]],
        ]
        | None
    ): ...
    def filled(self, n: int) -> None: ...
