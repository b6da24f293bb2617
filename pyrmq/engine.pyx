# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The only door to native code: nothing else imports `pyrmq._native`.

`Store` opens a store and reads from it, `Session` is a connection without its socket, `Slice` a
part of the log that stays valid while it is exported. Hot calls go through the engine's C table
without the GIL; see native/include/pyrmq_capi.h.
"""
from cpython.buffer cimport PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer, PyBUF_SIMPLE, PyBUF_WRITABLE
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.errno cimport EIO
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from pyrmq.capi cimport (
    PYRMQ_ABI_VERSION, PYRMQ_CAPI_NAME, PYRMQ_CLOSE, PYRMQ_COLD, PYRMQ_FAILED, PYRMQ_N_ALIKE, PYRMQ_NONE,
    PYRMQ_OK, PYRMQ_UNREADABLE, pyrmq_addressee, pyrmq_bytes, pyrmq_capi, pyrmq_chunk,
    pyrmq_command, pyrmq_get, pyrmq_left, pyrmq_left_list, pyrmq_piece, pyrmq_received, pyrmq_report, pyrmq_sent,
    pyrmq_serve, pyrmq_served, pyrmq_used,
)

from pyrmq import _native
from pyrmq.errors import EngineError, ServiceNotAvailableError

set_log_level = _native.set_log_level
keep_log_lines = _native.keep_log_lines
take_log_lines = _native.take_log_lines
java_hash = _native.java_hash
parse_json = _native.parse_json
json_members = _native.json_members
JsonBodies = _native.JsonBodies
scan_option_rows = _native.scan_option_rows
scan_options = _native.scan_options
scan_option_value = _native.scan_option_value
scan_check_cases = _native.scan_check_cases
scan_through_brokers = _native.scan_through_brokers
scan_columns = _native.scan_columns
scan_schema = _native.scan_schema
read_records = _native.read_records
MessageText = _native.MessageText
unique_key = _native.unique_key
Listener = _native.Listener
TlsClient = _native.TlsClient
TlsContext = _native.TlsContext
PullGrants = _native.PullGrants
PutWatch = _native.PutWatch
RpcFigures = _native.RpcFigures
Keyring = _native.Keyring
BenchFloor = _native.BenchFloor
BenchRun = _native.BenchRun
NativeStore = _native.Store
Transactions = _native.Transactions
half_timing = _native.half_timing
Delays = _native.Delays
Timers = _native.Timers
HaMaster = _native.HaMaster
HaSlave = _native.HaSlave
newest_record = _native.newest_record
SqlFilter = _native.SqlFilter
bitmap_bits = _native.bitmap_bits
subscription_bits = _native.subscription_bits
Returned = _native.Returned
Revived = _native.Revived
delay_levels = _native.delay_levels
Verifier = _native.Verifier
Records = _native.Records
SendRows = _native.SendRows
SendRequest = _native.SendRequest
inspect_store = _native.inspect_store
store_is_locked = _native.store_is_locked
key_places = _native.key_places
SegmentReader = _native.SegmentReader
LogRange = _native.LogRange
LogPlaces = _native.LogPlaces
RecordBytes = _native.RecordBytes
topic_sizes = _native.topic_sizes
stored_topics = _native.stored_topics
log_files = _native.log_files
log_bounds = _native.log_bounds
needed_from = _native.needed_from
reclaim_to = _native.reclaim_to
timers_needed_from = _native.timers_needed_from
SegmentStore = _native.SegmentStore
SegmentSelection = _native.SegmentSelection
SegmentForm = _native.SegmentForm
Split = _native.Split
SplitReader = _native.SplitReader
SegmentStream = _native.SegmentStream
open_segment_stores = _native.open_segment_stores
plan_segments = _native.plan_segments
splits_of_at_most = _native.splits_of_at_most
joined_splits = _native.joined_splits
parse_offsets = _native.parse_offsets
parse_assign = _native.parse_assign
parse_tags = _native.parse_tags
parse_topics = _native.parse_topics
unknown_topic = _native.unknown_topic
segment_end = _native.segment_end
segment_advance = _native.segment_advance
segment_times = _native.segment_times
DEFAULT_COLUMNS = _native.DEFAULT_COLUMNS
ALL_COLUMNS = _native.ALL_COLUMNS

ACCESS_SEND = _native.ACCESS_SEND
ACCESS_END = _native.ACCESS_END
ACCESS_ACK = _native.ACCESS_ACK
ALIKE = _native.PULL_ALIKE
RPC_BOUNDS_US = _native.RPC_BOUNDS_US
TIME_BOUNDS_US = _native.TIME_BOUNDS_US
SIZE_BOUNDS = _native.SIZE_BOUNDS
FINISH_BOUNDS = _native.FINISH_BOUNDS
DELAY_BOUNDS = _native.DELAY_BOUNDS
# Whether the engine was built as wheels are; False: for development (scripts/dev_engine.sh).
RELEASE_BUILD = _native.RELEASE_BUILD

cdef pyrmq_capi *C = <pyrmq_capi *>PyCapsule_GetPointer(_native._C_API, PYRMQ_CAPI_NAME)
if (C.abi_version != PYRMQ_ABI_VERSION or C.struct_size != sizeof(pyrmq_capi)
        or len(ALIKE) != PYRMQ_N_ALIKE):
    raise ImportError(
        "pyrmq.engine and pyrmq._native are of different builds: install pyrmq again"
    )

DEF MAX_CHUNKS = 256


cdef class Slice:
    """A read-only part of the commit log (buffer protocol, no copy).

    Keeps the mapping of its file alive while it, or any memoryview of it, exists: also after
    the store was closed or the file deleted.
    """

    cdef const void *segment
    cdef const uint8_t *ptr
    cdef readonly Py_ssize_t nbytes

    def __cinit__(self):
        self.segment = NULL

    def __dealloc__(self):
        if self.segment != NULL:
            C.chunk_release(self.segment)

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, <void *>self.ptr, self.nbytes, 1, flags)

    def __repr__(self):
        return f"<Slice of {self.nbytes} bytes>"


cdef Slice make_slice(pyrmq_chunk *chunk):
    cdef Slice s = Slice.__new__(Slice)
    s.segment = chunk.segment
    s.ptr = chunk.ptr
    s.nbytes = chunk.len
    return s


cdef Slice exported_slice(tuple exported):
    """Takes over what the native side exported: (segment, address, bytes)."""
    cdef size_t segment = exported[0]
    cdef size_t address = exported[1]
    cdef Slice s = Slice.__new__(Slice)
    s.segment = <const void *>segment
    s.ptr = <const uint8_t *>address
    s.nbytes = exported[2]
    return s


ENTRY_DTYPE = [("physicalOffset", ">i8"), ("size", ">i4"), ("tagsCode", ">i8")]
"""A ConsumeQueue entry for numpy."""


cdef class GetResult:
    """What a read gave: `status` (0 FOUND, then RocketMQ's order of GetMessageStatus), the offset
    to continue from, the queue's bounds, and the records as slices (neighbours are one slice)."""

    cdef readonly int status
    cdef readonly long long next_offset, min_offset, max_offset, nbytes
    cdef readonly int count
    cdef readonly list slices


SLOW = 1
BUSY = 2
"""What `Store.stall` says."""


class Popped:
    """What a pop or a read of one queue gave: see engine.pyi."""

    __slots__ = (
        "status", "start_offset", "next_offset", "min_offset", "max_offset", "rest", "count",
        "nbytes", "slices", "offsets", "log_end",
    )

    def __init__(self, tuple row):
        cdef list slices
        places, sizes, exported, copies, self.offsets, self.log_end = row
        (self.status, self.start_offset, self.next_offset, self.min_offset, self.max_offset,
         self.rest) = places
        self.count, self.nbytes = sizes
        slices = [exported_slice(one) for one in exported]
        if copies:
            slices.append(copies)
        self.slices = slices


class Pops:
    """Pops, acknowledgements and changes of invisible time of a store: see engine.pyi."""

    def __init__(self, store, **settings):
        self.native = _native.Pops(store, **settings)
        self.revive_topic = self.native.revive_topic
        self.ack = self.native.ack
        self.answer_acks = self.native.answer_acks
        self.done_in_order = self.native.done_in_order
        self.change_invisible_time = self.native.change_invisible_time

    def pop(self, *args, **asked):
        row = self.native.pop(*args, **asked)
        return None if row is None else Popped(row)

    def read(self, *args, **asked):
        row = self.native.read(*args, **asked)
        return None if row is None else Popped(row)


class Reviver:
    """Revives what was popped and not acknowledged: see engine.pyi."""

    def __init__(self, pops, **settings):
        self.native = _native.Reviver(pops.native, **settings)
        self.revive = self.native.revive
        self.progress = self.native.progress
        self.lags = self.native.lags
        self.totals = self.native.totals


def popped_to(pops, start):
    """How far groups have popped, by the check points of the log: see engine.pyi."""
    return _native.popped_to(pops.native, start)


def oldest_popped(pops, waiting, revived, most):
    """Where the first message stands that is popped and not settled: see engine.pyi."""
    return _native.oldest_popped(pops.native, waiting, revived, most)


cdef class Store:
    """A store on disk. Opening recovers it; one process at a time may have it open.

    `root` is storePathRootDir; keywords are those of `NativeStore`, named after RocketMQ's keys.
    `is_sync`: what is stored is confirmed once it is on disk (SYNC_FLUSH). The other attributes are
    those of the native object (rare operations).
    """

    cdef readonly object native
    cdef readonly bint is_sync
    cdef const void *ptr

    def __cinit__(self):
        self.ptr = NULL

    def __init__(self, root, **options):
        if self.ptr != NULL:
            raise RuntimeError("a store is initialised once")
        self.native = NativeStore(root, **options)
        self.is_sync = self.native.is_sync
        self.ptr = <const void *><size_t>self.native._ptr()

    def __getattr__(self, name):
        return getattr(self.native, name)

    def get(self, str topic, unsigned int queue_id, long long offset, unsigned int max_count=32,
            unsigned int max_bytes=0x7fffffff, tags=None, bint wait=True, sql=None):
        """Reads records of a queue from `offset` on.

        `tags`: tag hashes (int32) to select by, as `array('i')` or another contiguous buffer of
        int32; None or empty for all. `sql`: a SqlFilter that their properties have to satisfy as
        well; a read that has examined many ends early. At most 256 records. Without `wait` the disk is not waited for:
        what is found before the first place that is not in memory is given, None if that is
        nothing.
        """
        cdef Py_ssize_t topic_len
        cdef const char *topic_ptr = PyUnicode_AsUTF8AndSize(topic, &topic_len)
        cdef pyrmq_get got
        cdef pyrmq_chunk chunks[MAX_CHUNKS]
        cdef Py_buffer view
        cdef const int32_t *tag_ptr = NULL
        cdef size_t n_tags = 0
        cdef int32_t rc
        cdef const void *program = NULL if sql is None else <const void *><size_t>sql._ptr()
        if tags is not None:
            PyObject_GetBuffer(tags, &view, PyBUF_SIMPLE)
            tag_ptr = <const int32_t *>view.buf
            n_tags = view.len // sizeof(int32_t)
            if <size_t>view.buf % sizeof(int32_t):
                PyBuffer_Release(&view)
                tags = bytes(tags)  # an aligned copy
                PyObject_GetBuffer(tags, &view, PyBUF_SIMPLE)
                tag_ptr = <const int32_t *>view.buf
        with nogil:
            rc = C.store_get(self.ptr, <const uint8_t *>topic_ptr, topic_len, queue_id, offset,
                             max_count, max_bytes, tag_ptr, n_tags, program, wait, &got, chunks,
                             MAX_CHUNKS)
        if tags is not None:
            PyBuffer_Release(&view)
        if rc == PYRMQ_COLD:
            return None
        if rc != PYRMQ_OK:
            raise_failed(rc)
        cdef GetResult r = GetResult.__new__(GetResult)
        cdef list slices = []
        cdef uint32_t i
        for i in range(got.n_chunks):
            slices.append(make_slice(&chunks[i]))
        r.status = got.status
        r.next_offset = got.next
        r.min_offset = got.min
        r.max_offset = got.max
        r.nbytes = got.bytes
        r.count = got.count
        r.slices = slices
        return r

    def write_staged(self):
        """Writes what sessions have staged (`Session.feed` with `defer_write`) into the commit log. True if
        there are arrivals.

        Raises ServiceNotAvailableError if the disk does not take it; `release` then says so to
        those who wait, and later sends try again, at most ten times a second."""
        cdef int32_t rc
        cdef uint8_t arrivals = 0
        with nogil:
            rc = C.store_write_staged(self.ptr, &arrivals)
        if rc != PYRMQ_OK:
            raise_failed(rc)
        return bool(arrivals)

    cpdef int stall(self):
        """0; SLOW where the disk takes long, so that the next write may; BUSY where a write takes
        longer than osPageCacheBusyTimeOutMills: messages are refused (SYSTEM_BUSY)."""
        return C.store_stall(self.ptr)

    def query_message(self, str topic, str key, size_t max_num=32, long long begin=0,
                      long long end=0x7fffffffffffffff):
        """Records with this key (one of KEYS, or the unique key) that were stored between `begin`
        and `end` (ms): ([Slice], oldest first, at most 64; store time and physical offset of what
        was indexed last). The index is a few milliseconds behind the log."""
        found, time, phys = self.native._query_message(topic, key, max_num, begin, end)
        return [exported_slice(one) for one in found], time, phys

    def entries(self, str topic, unsigned int queue_id, offset=None):
        """The queue's entries from `offset` (default: its first) to the end of their file, without
        a copy: (queue offset of the first, numpy array of ENTRY_DTYPE). Continue with the offset
        behind the last one; the array is empty at the queue's end."""
        import numpy

        found = self.native._entries(topic, queue_id, offset)
        dtype = numpy.dtype(ENTRY_DTYPE)
        if found is None:
            return 0 if offset is None else offset, numpy.empty(0, dtype)
        first, exported = found
        return first, numpy.frombuffer(exported_slice(exported), dtype)

    def notify_on_arrival(self, str topic, unsigned int queue_id):
        """Asks that the queue's next message be reported by `drain_arrivals`, once. A message that
        is not confirmed yet is reported when it is."""
        cdef Py_ssize_t n
        cdef const char *p = PyUnicode_AsUTF8AndSize(topic, &n)
        cdef int32_t rc = C.store_notify_on_arrival(self.ptr, <const uint8_t *>p, n,
                                                      queue_id)
        if rc != PYRMQ_OK:
            raise_failed(rc)


cdef raise_failed(int32_t rc):
    cdef pyrmq_bytes text
    if rc == PYRMQ_FAILED and C.error_text(&text) == PYRMQ_OK:
        raise ServiceNotAvailableError(as_text(&text))
    if rc == PYRMQ_UNREADABLE and C.error_text(&text) == PYRMQ_OK:
        raise OSError(EIO, as_text(&text))
    raise EngineError(f"the native engine failed with status {rc}: this is a bug in pyrmq")


cdef int raise_failed_call(int errno, str what) except -1:
    """OSError if a call on a socket failed, with this errno."""
    if errno != 0:
        raise OSError(errno, what)
    return 0


cdef int text_of(str text, pyrmq_bytes *out) except -1:
    """The bytes of a text, for as long as it lives."""
    cdef Py_ssize_t n
    out.ptr = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &n)
    out.len = n
    return 0


cdef int optional_text_of(object text, pyrmq_bytes *out) except -1:
    """The same; a null pointer for None."""
    out.ptr = NULL
    out.len = 0
    return 0 if text is None else text_of(<str>text, out)


cdef inline str as_text(pyrmq_bytes *b):
    return PyUnicode_DecodeUTF8(<const char *>b.ptr, b.len, "replace")


cdef inline bytes as_bytes(pyrmq_bytes *b):
    return PyBytes_FromStringAndSize(<const char *>b.ptr, b.len)


cdef class RecvBuffer:
    """A writable buffer that sockets receive into and sessions are fed from."""

    cdef uint8_t *ptr
    cdef readonly Py_ssize_t nbytes

    def __cinit__(self, Py_ssize_t nbytes):
        self.ptr = <uint8_t *>calloc(nbytes, 1)  # the engine gets initialised memory
        if self.ptr == NULL:
            raise MemoryError()
        self.nbytes = nbytes

    def __dealloc__(self):
        free(self.ptr)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, self.nbytes, 0, flags)


cdef class Command:
    """A frame for Python: a request that the engine does not handle itself, or a response.

    `codec` is the serialize type (0 JSON, 1 ROCKETMQ), `ext` the ext fields, `frame` the whole
    frame (bytes) of a send that the broker has to decide about, else None; `size` the bytes of the frame
    that it was read from. `subject`: the access key of who has signed it, if the listener has a keyring
    and the signature was verified with it, and if nothing was revoked since then; else None.
    """

    cdef readonly int code, opaque, flag, language, version, codec
    cdef readonly dict ext
    cdef readonly str remark, subject
    cdef readonly bytes body, frame
    cdef readonly Py_ssize_t size
    cdef readonly long long since_us, taken_us
    """When it was ready to be received, and when it was taken from its session: µs of the monotonic clock."""

    def drop_body(self):
        """Forgets the body: a request of this code has none."""
        self.size -= len(self.body)
        self.body = b""

    @property
    def is_response(self):
        return bool(self.flag & 1)

    @property
    def is_oneway(self):
        return bool(self.flag & 2)

    def __repr__(self):
        return f"<Command code={self.code} opaque={self.opaque} flag={self.flag} ext={self.ext}>"


include "session.pxi"
include "ready_loop.pxi"


def scan_tags(entries, tags, out):
    """Positions of the 20-byte queue entries whose tag hash is one of `tags`.

    `entries`: bytes-like, whole entries; `tags`: buffer of int32; `out`: writable buffer of
    uint32 that takes the positions. Returns how many were found (at most len(out)).
    """
    cdef Py_buffer e, t, o
    cdef size_t n
    PyObject_GetBuffer(entries, &e, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(tags, &t, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(out, &o, PyBUF_WRITABLE)
            if (t.len and <size_t>t.buf % sizeof(int32_t)) or <size_t>o.buf % sizeof(uint32_t):
                PyBuffer_Release(&o)
                raise ValueError("tags and out must be aligned")
            with nogil:
                n = C.scan_tags(<const uint8_t *>e.buf, e.len, <const int32_t *>t.buf,
                                t.len // sizeof(int32_t), <uint32_t *>o.buf,
                                o.len // sizeof(uint32_t))
            PyBuffer_Release(&o)
        finally:
            PyBuffer_Release(&t)
    finally:
        PyBuffer_Release(&e)
    return n
