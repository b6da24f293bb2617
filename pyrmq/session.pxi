# Connections without their sockets: part of engine.pyx.

cdef inline bint is_send(int code):
    return code == 10 or code == 310 or code == 320


cdef inline long long monotonic_us() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long>now.tv_sec * 1000000 + now.tv_nsec // 1000


cdef class Space:
    """A writable place inside of a session, until `Session.filled` is called."""

    cdef object session
    cdef uint8_t *ptr
    cdef Py_ssize_t nbytes, exports

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.ptr == NULL:
            raise BufferError("the space was filled: ask the session for another one")
        PyBuffer_FillInfo(view, self, self.ptr, self.nbytes, 0, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1


cdef pyrmq_report NOTHING


cdef class Session:
    """A connection without its socket. One thread uses it at a time.

    Each call takes what arrived and returns what to send, None if nothing. It also updates these
    attributes:

    - `commands`: how many commands `next_command` has.
    - `unconfirmed`: how many answers wait until what they acknowledge is confirmed (see `release`).
    - `full`: so many answers wait that the server must not read from the peer.
    - `more`: a whole frame waits in the session: feed it again with nothing.
    - `arrivals`: the store has arrivals to drain.
    - `large`: a large frame is under way: receive the rest of it into `space`.
    - `heavy`: an unfinished frame takes much memory.
    - `sealed`: the connection speaks TLS: whatever is sent goes through `send`.
    - `handshaking`: the handshake of TLS has begun and is not done.
    - `told_end`: the peer has told by TLS that it sends nothing more.
    - `refused`: the peer broke TLS, or the mode does not take it; `error` says how.
    - `pending`: TLS itself has something to be sent: call `send`, also with nothing.
    - `error`: how the peer broke the protocol, else None. Send what was returned, then close.
    """

    cdef void *native
    cdef const pyrmq_report *report
    cdef object listener
    cdef int descriptor
    cdef readonly str error
    cdef readonly Py_ssize_t received
    cdef Space place
    cdef bint busy
    cdef ReadyLoop watched_by
    """The loop that watches it, or None."""

    def __cinit__(self):
        self.descriptor = -1
        self.report = &NOTHING  # until it is initialised

    def __init__(self, listener, bytes ip, unsigned int port):
        """`listener`: a Listener; `ip`: 4 or 16 bytes of the peer's address."""
        if self.native != NULL:
            raise RuntimeError("a session is initialised once")
        self.listener = listener
        self.native = C.session_new(<const void *><size_t>listener._ptr(),
                                    <const uint8_t *><const char *>ip, len(ip), port)
        if self.native == NULL:
            raise ValueError("ip must have 4 or 16 bytes")
        self.report = C.session_report(self.native)

    def __dealloc__(self):
        if self.native != NULL:
            C.session_free(self.native)

    @property
    def fd(self):
        """The socket's descriptor, for `AnswerSender` and `ReadyLoop`; -1: none."""
        return self.descriptor

    @fd.setter
    def fd(self, int fd):
        if self.watched_by is not None:
            raise RuntimeError("the session is watched by its descriptor")
        self.descriptor = fd

    @property
    def active(self):
        """When a ready loop last received something from it, by the clock that `ReadyLoop.serve` was
        given."""
        return C.session_active(self.native)

    @property
    def commands(self):
        return self.report.commands

    @property
    def unconfirmed(self):
        return self.report.unconfirmed

    @property
    def full(self):
        return self.report.full != 0

    @property
    def more(self):
        return self.report.more != 0

    @property
    def arrivals(self):
        return self.report.arrivals != 0

    @property
    def large(self):
        return self.report.large != 0

    @property
    def heavy(self):
        return self.report.heavy != 0

    @property
    def sealed(self):
        return self.report.tls != 0

    @property
    def handshaking(self):
        return self.report.tls == 1

    @property
    def told_end(self):
        return self.report.tls == 3

    @property
    def refused(self):
        return self.report.tls == 4

    @property
    def pending(self):
        return self.report.pending != 0

    cdef inline int begin(self) except -1:
        """A native call begins: no other is under way, and nobody receives into the session."""
        self.check_free()
        if self.place is not None:
            raise RuntimeError("call `filled` for the space that was given first")
        self.busy = True
        if self.watched_by is not None:
            self.watched_by.in_use += 1
        return 0

    cdef inline void finish(self) noexcept:
        """The call that `begin` announced has ended."""
        self.busy = False
        if self.watched_by is not None:
            self.watched_by.in_use -= 1

    cdef inline int check_free(self) except -1:
        if self.busy or (self.watched_by is not None and self.watched_by.serving):
            raise RuntimeError("a session is used by one thread at a time")
        return 0

    cdef bytes ended(self, int32_t rc, pyrmq_bytes *out):
        """The call that `begin` announced has ended with `rc`, and put `out` out."""
        self.finish()
        self.take_over(rc)
        return as_bytes(out) if out.len else None

    cdef int take_over(self, int32_t rc) except -1:
        cdef pyrmq_bytes text
        if rc != PYRMQ_OK and rc != PYRMQ_CLOSE:
            raise_failed(rc)
        if rc == PYRMQ_CLOSE:
            C.session_error(self.native, &text)
            self.error = as_text(&text)
        return 0

    def feed(self, RecvBuffer buffer, Py_ssize_t n, long long now_ms, bint defer_write=False):
        """Takes the first `n` bytes of `buffer`.

        `defer_write`: other sessions are fed next. What is stored stays staged, and its answers are
        kept until `Store.write_staged` and then `release` have been called."""
        cdef pyrmq_bytes out
        cdef int32_t rc
        if n < 0 or n > buffer.nbytes:
            raise ValueError("n is beyond the buffer")
        self.begin()
        with nogil:
            rc = C.session_feed(self.native, buffer.ptr, n, now_ms, defer_write, &out)
        return self.ended(rc, &out)

    def receive(self, int fd, RecvBuffer buffer, long long now_ms, bint defer_write=False):
        """Receives once from a non-blocking socket and takes what came, as `feed` does.

        Sets `received`: bytes, 0 at the stream's end, -1 if nothing was there. Raises OSError."""
        cdef pyrmq_received got
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_receive(self.native, fd, buffer.ptr, buffer.nbytes, now_ms, defer_write, &got)
        reply = self.ended(rc, &got.out)
        self.received = got.received
        raise_failed_call(got.failed, "recv")
        return reply

    def feed_bytes(self, bytes data, long long now_ms, bint defer_write=False):
        """Takes a bytes object (tests, and the in-memory transport)."""
        cdef const uint8_t *p = <const uint8_t *><const char *>data
        cdef Py_ssize_t n = len(data)
        cdef pyrmq_bytes out
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_feed(self.native, p, n, now_ms, defer_write, &out)
        return self.ended(rc, &out)

    def resend(self, bytes frame, long long now_ms, str topic="", bint dead=False, long long since_us=0):
        """Handles a send again after a decision; refuses it if its topic is still unknown.
        `since_us`: of its command.

        `topic`: the message goes back to a consumer group, to this retry topic or (`dead`) to this
        dead-letter topic. Empty: it is stored as it was asked for.
        """
        cdef const uint8_t *p = <const uint8_t *><const char *>frame
        cdef Py_ssize_t n = len(frame)
        cdef Py_ssize_t topic_len
        cdef const char *topic_ptr = PyUnicode_AsUTF8AndSize(topic, &topic_len)
        cdef pyrmq_bytes out
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_resend(self.native, p, n, <const uint8_t *>topic_ptr, topic_len, dead,
                                  since_us, now_ms, &out)
        return self.ended(rc, &out)

    def answer(self, bytes answer, int codec, int opaque, unsigned long long log_end,
               long long now_ms, int code=0, bint long_polling=False, long long since_us=0):
        """Takes an encoded answer of code 0 that counts once the log is confirmed up to `log_end`: it is
        kept until `release`. Returned at once if that is so already. `code` and `since_us`: of the
        request, for `RpcFigures`; `long_polling`: it has waited for messages."""
        cdef const uint8_t *p = <const uint8_t *><const char *>answer
        cdef Py_ssize_t n = len(answer)
        cdef pyrmq_bytes out
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_answer(self.native, p, n, codec, opaque, code, long_polling, log_end,
                                  since_us, now_ms, &out)
        return self.ended(rc, &out)

    def release(self, long long now_ms, long long timeout_ms):
        """The unconfirmed answers that need not wait any longer: what they acknowledge is confirmed,
        has failed, or took too long."""
        cdef pyrmq_bytes out
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_release(self.native, now_ms, timeout_ms, &out)
        return self.ended(rc, &out)

    def send_released(self, int fd, long long now_ms, long long timeout_ms):
        """Sends what `release` would return to a non-blocking socket; returns what the socket does
        not take, None if it takes all. Raises OSError."""
        cdef pyrmq_sent sent
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_send_released(self.native, fd, now_ms, timeout_ms, &sent)
        rest = self.ended(rc, &sent.rest)
        raise_failed_call(sent.failed, "send")
        return rest

    def send(self, int fd, pieces):
        """Seals plain buffers and sends them to a non-blocking socket, until it takes no more. Returns
        how many of their bytes were taken, and what the socket did not take of their records or None:
        that is to be sent as it is, before anything else. Raises OSError."""
        cdef list given = list(pieces)
        cdef Py_ssize_t n = len(given), held = 0, i
        cdef pyrmq_sent sent
        cdef int32_t rc
        cdef Py_buffer *views = <Py_buffer *>calloc(max(n, 1), sizeof(Py_buffer))
        cdef pyrmq_piece *parts = <pyrmq_piece *>calloc(max(n, 1), sizeof(pyrmq_piece))
        try:
            if views == NULL or parts == NULL:
                raise MemoryError
            for i in range(n):
                PyObject_GetBuffer(given[i], &views[i], PyBUF_SIMPLE)
                held += 1
                parts[i].bytes.ptr = <const uint8_t *>views[i].buf
                parts[i].bytes.len = views[i].len
                parts[i].mapped = not isinstance(given[i], bytes)
            self.begin()
            with nogil:
                rc = C.session_send(self.native, fd, parts, n, &sent)
            rest = self.ended(rc, &sent.rest)
        finally:
            for i in range(held):
                PyBuffer_Release(&views[i])
            free(views)
            free(parts)
        raise_failed_call(sent.failed, "send")
        return sent.taken, rest

    def send_close(self, int fd):
        """Tells the peer by TLS that nothing more is sent, as far as the socket takes it. Does nothing
        on a plain connection, or while a call is under way."""
        cdef bint serving = self.watched_by is not None and self.watched_by.serving
        if self.report.tls and not self.busy and not serving and self.place is None:
            C.session_send_close(self.native, fd)

    def grant_pull(self, Command command, str topic, str group, unsigned int queue_id, tags):
        """Has pulls like `command` answered in `feed` from now on, as those of `group` from this queue.
        `tags`: as in `Store.get`. Until `PullGrants.revoke`, and only what is in memory: another pull
        is a command as before. With access control: only pulls that the command's subject has signed,
        and until the keyring is changed or revoked; none if the command has no subject."""
        cdef pyrmq_bytes alike[PYRMQ_N_ALIKE]
        cdef pyrmq_bytes topic_text, group_text, subject_text
        cdef Py_buffer view
        cdef size_t i = 0
        cdef int32_t rc
        for name in ALIKE:
            optional_text_of(command.ext.get(name), &alike[i])
            i += 1
        text_of(topic, &topic_text)
        text_of(group, &group_text)
        optional_text_of(command.subject, &subject_text)
        self.begin()
        try:
            PyObject_GetBuffer(tags, &view, PyBUF_SIMPLE)
            try:
                if view.len and <size_t>view.buf % sizeof(int32_t):
                    raise ValueError("tags must be aligned")
                rc = C.session_grant_pull(self.native, command.code, alike, topic_text, group_text,
                                          queue_id, <const int32_t *>view.buf,
                                          view.len // sizeof(int32_t), subject_text)
            finally:
                PyBuffer_Release(&view)
        finally:
            self.finish()
        if rc != PYRMQ_OK and rc != PYRMQ_NONE:
            raise_failed(rc)

    def grant_access(self, unsigned int rights, str subject, str resource):
        """Has requests that `subject` has signed answered in `feed` from now on, if they need one of
        these `rights` to `resource`: ACCESS_SEND (sends to this topic, of every kind but to %RETRY%
        topics), ACCESS_END (ends of transactions whose messages go to this topic, and that name it).
        Until the keyring is changed or revoked: call it at once when that is decided, as a change in
        between would not count. ValueError without a keyring, and for other rights."""
        cdef pyrmq_bytes subject_text, resource_text
        cdef int32_t rc
        if not 0 < rights <= ACCESS_SEND | ACCESS_END:
            raise ValueError(f"rights must be of ACCESS_SEND and ACCESS_END: {rights}")
        text_of(subject, &subject_text)
        text_of(resource, &resource_text)
        self.begin()
        rc = C.session_grant_access(self.native, rights, subject_text, resource_text)
        self.finish()
        if rc == PYRMQ_NONE:
            raise ValueError("the session's listener has no keyring")
        if rc != PYRMQ_OK:
            raise_failed(rc)

    def next_command(self):
        """The next Command, None if there is none."""
        cdef pyrmq_command c
        cdef pyrmq_bytes name, value
        cdef uint32_t i
        self.check_free()
        if C.session_command(self.native, &c) != PYRMQ_OK:
            return None
        cdef Command out = Command.__new__(Command)
        cdef dict ext = {}
        for i in range(c.n_ext):
            C.session_ext(self.native, i, &name, &value)
            ext[as_text(&name)] = as_text(&value)
        out.code = c.code
        out.opaque = c.opaque
        out.flag = c.flag
        out.language = c.language
        out.version = c.version
        out.codec = c.codec
        out.ext = ext
        out.remark = as_text(&c.remark) if c.has_remark else None
        out.body = as_bytes(&c.body)
        out.size = c.frame.len
        out.subject = as_text(&c.subject) if c.subject.ptr != NULL else None
        out.since_us = c.since_us
        out.taken_us = monotonic_us()
        if is_send(c.code) and not c.flag & 1:
            out.frame = as_bytes(&c.frame)
        return out

    def space(self):
        """A `Space` for the rest of a large frame, None if no large frame is under way. Receive into
        it and call `filled` before anything else."""
        cdef uint8_t *p
        cdef size_t n
        self.begin()
        try:
            if C.session_space(self.native, &p, &n) != PYRMQ_OK:
                return None
            self.place = Space.__new__(Space)
            self.place.session = self
            self.place.ptr = p
            self.place.nbytes = n
            return self.place
        finally:
            self.finish()

    def give_up(self):
        """Gives back the memory of an unfinished frame: the connection is being closed. While a call
        is under way, or somebody holds a space, the memory goes with the session."""
        cdef bint serving = self.watched_by is not None and self.watched_by.serving
        if not self.busy and not serving and self.place is None:
            C.session_give_up(self.native)

    def filled(self, Py_ssize_t n):
        """`n` bytes of the last `space` were received. BufferError if somebody still holds it."""
        cdef size_t room = 0
        self.check_free()
        if self.place is not None:
            if self.place.exports:
                raise BufferError("somebody still holds the space that was filled")
            room = self.place.nbytes
            self.place.ptr = NULL
            self.place.nbytes = 0
            self.place = None
        C.session_filled(self.native, room, max(n, 0))
