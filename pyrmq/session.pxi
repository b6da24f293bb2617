# Connections without their sockets: part of engine.pyx.

cdef inline bint is_send(int code):
    return code == 10 or code == 310 or code == 320


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


cdef struct pyrmq_line:
    void *session           # the engine's
    int fd                  # of the socket; -1: none
    double active           # seconds of the server's clock: when a round received from it
    pyrmq_feed fed          # what the last native call reported


cdef inline bint wants_care(pyrmq_line *line) noexcept nogil:
    """Whether something is left to do after a call: commands, answers that wait, more to feed, a large
    frame."""
    return (line.fed.commands != 0 or line.fed.unconfirmed != 0 or line.fed.full or line.fed.more
            or line.fed.large or line.fed.heavy)


cdef class Session:
    """A connection without its socket. One thread uses it at a time.

    Feed it what arrived; it returns what to send (None if nothing) and sets `commands` (how many
    `next_command` has), `unconfirmed` (answers that wait until what they acknowledge is confirmed,
    see `release`), `full` (so many of them that the peer is not to be read on), `more` (feed again
    with nothing, a bound was met), `arrivals` (ask the store for them), `large` (receive the rest of
    a large frame into `space`), `heavy` (an unfinished frame takes much memory) and `error` (a text once the peer broke the protocol: send what was
    returned, then close).
    """

    cdef pyrmq_line line
    cdef object listener
    cdef readonly str error
    cdef readonly Py_ssize_t received
    cdef Space place
    cdef bint busy
    cdef Rounds rounds
    """Where it is watched, None elsewhere."""

    def __init__(self, listener, bytes ip, unsigned int port):
        """`listener`: a Listener; `ip`: 4 or 16 bytes of the peer's address."""
        if self.line.session != NULL:
            raise RuntimeError("a session is initialised once")
        self.listener = listener
        self.line.session = C.session_new(<const void *><size_t>listener._ptr(),
                                 <const uint8_t *><const char *>ip, len(ip), port)
        if self.line.session == NULL:
            raise ValueError("ip must have 4 or 16 bytes")

    def __dealloc__(self):
        if self.line.session != NULL:
            C.session_free(self.line.session)

    def __cinit__(self):
        memset(&self.line, 0, sizeof(self.line))
        self.line.fd = -1

    @property
    def fd(self):
        """The socket's descriptor, for `Turn` and `Rounds`; -1: none."""
        return self.line.fd

    @fd.setter
    def fd(self, int fd):
        if self.rounds is not None:
            raise RuntimeError("the session is watched by its descriptor")
        self.line.fd = fd

    @property
    def active(self):
        """When a round last received something from it, by the clock that `Rounds.serve` was given."""
        return self.line.active

    @property
    def commands(self):
        return self.line.fed.commands

    @property
    def unconfirmed(self):
        return self.line.fed.unconfirmed

    @property
    def full(self):
        return self.line.fed.full != 0

    @property
    def more(self):
        return self.line.fed.more != 0

    @property
    def arrivals(self):
        return self.line.fed.arrivals != 0

    @property
    def large(self):
        return self.line.fed.large != 0

    @property
    def heavy(self):
        return self.line.fed.heavy != 0

    cdef inline int begin(self) except -1:
        """A native call begins: no other is under way, and nobody receives into the session."""
        self.check_free()
        if self.place is not None:
            raise RuntimeError("call `filled` for the space that was given first")
        self.busy = True
        if self.rounds is not None:
            self.rounds.in_use += 1
        return 0

    cdef inline void finish(self) noexcept:
        """The call that `begin` announced has ended."""
        self.busy = False
        if self.rounds is not None:
            self.rounds.in_use -= 1

    cdef inline int check_free(self) except -1:
        if self.busy or (self.rounds is not None and self.rounds.serving):
            raise RuntimeError("a session is used by one thread at a time")
        return 0

    cdef bytes report(self, int32_t rc):
        self.finish()
        self.take_over(rc)
        return as_bytes(&self.line.fed.out) if self.line.fed.out.len else None

    cdef int take_over(self, int32_t rc) except -1:
        cdef pyrmq_bytes text
        if rc != PYRMQ_OK and rc != PYRMQ_CLOSE:
            raise_failed(rc)
        if rc == PYRMQ_CLOSE:
            C.session_error(self.line.session, &text)
            self.error = as_text(&text)
        return 0

    def feed(self, RecvBuffer buffer, Py_ssize_t n, long long now_ms, bint more=False):
        """Takes the first `n` bytes of `buffer`.

        `more`: other sessions are fed next. What is stored stays staged, and its answers are kept
        until `Store.write_staged` and then `release` have been called."""
        cdef int32_t rc
        if n < 0 or n > buffer.nbytes:
            raise ValueError("n is beyond the buffer")
        self.begin()
        with nogil:
            rc = C.session_feed(self.line.session, buffer.ptr, n, now_ms, more, &self.line.fed)
        return self.report(rc)

    def receive(self, int fd, RecvBuffer buffer, long long now_ms, bint more=False):
        """Receives once from a non-blocking socket and takes what came, as `feed` does.

        Sets `received`: bytes, 0 at the stream's end, -1 if nothing was there. Raises OSError."""
        cdef ssize_t n
        cdef int failed = 0
        cdef int32_t rc = PYRMQ_OK
        self.begin()
        with nogil:
            n = recv(fd, buffer.ptr, buffer.nbytes, 0)
            if n > 0:
                rc = C.session_feed(self.line.session, buffer.ptr, n, now_ms, more, &self.line.fed)
            elif n < 0:
                failed = errno
        self.received = n
        if n > 0:
            return self.report(rc)
        self.finish()
        raise_unless_later(failed, "recv")
        return None

    def feed_bytes(self, bytes data, long long now_ms, bint more=False):
        """Takes a bytes object (tests, and the in-memory transport)."""
        cdef const uint8_t *p = <const uint8_t *><const char *>data
        cdef Py_ssize_t n = len(data)
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_feed(self.line.session, p, n, now_ms, more, &self.line.fed)
        return self.report(rc)

    def resend(self, bytes frame, long long now_ms, str topic="", bint dead=False):
        """Handles a send again after a decision; refuses it if its topic is still unknown.

        `topic`: the message goes back to a consumer group, to this retry topic or (`dead`) to this
        dead-letter topic. Empty: it is stored as it was asked for.
        """
        cdef const uint8_t *p = <const uint8_t *><const char *>frame
        cdef Py_ssize_t n = len(frame)
        cdef Py_ssize_t topic_len
        cdef const char *topic_ptr = PyUnicode_AsUTF8AndSize(topic, &topic_len)
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_resend(self.line.session, p, n, <const uint8_t *>topic_ptr, topic_len, dead,
                                  now_ms, &self.line.fed)
        return self.report(rc)

    def answer(self, bytes answer, int codec, int opaque, unsigned long long end,
               long long now_ms):
        """Takes an encoded answer of code 0 that counts once the log is confirmed up to `end`: it is
        kept until `release`. Returned at once if that is so already."""
        cdef const uint8_t *p = <const uint8_t *><const char *>answer
        cdef Py_ssize_t n = len(answer)
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_answer(self.line.session, p, n, codec, opaque, end, now_ms, &self.line.fed)
        return self.report(rc)

    def release(self, long long now_ms, long long timeout_ms):
        """The unconfirmed answers that are settled now: confirmed, timed out, or failed."""
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_release(self.line.session, now_ms, timeout_ms, &self.line.fed)
        return self.report(rc)

    def send_released(self, int fd, long long now_ms, long long timeout_ms):
        """Sends what `release` would return to a non-blocking socket; returns what the socket does
        not take, None if it takes all. Raises OSError."""
        cdef ssize_t sent = 0
        cdef int failed = 0
        cdef int32_t rc
        self.begin()
        with nogil:
            rc = C.session_release(self.line.session, now_ms, timeout_ms, &self.line.fed)
            if rc == PYRMQ_OK and self.line.fed.out.len:
                sent = send(fd, self.line.fed.out.ptr, self.line.fed.out.len, MSG_NOSIGNAL)
                if sent < 0:
                    failed = errno
                    sent = 0
        self.line.fed.out.ptr += sent
        self.line.fed.out.len -= sent
        rest = self.report(rc)
        raise_unless_later(failed, "send")
        return rest

    def grant_pull(self, Command command, str topic, str group, unsigned int queue_id, tags):
        """Has pulls like `command` answered in `feed` from now on, as those of `group` from this queue.
        `tags`: as in `Store.get`. Until `PullGrants.revoke`, and only what is in memory: another pull
        is a command as before."""
        cdef pyrmq_bytes alike[PYRMQ_ALIKE]
        cdef pyrmq_bytes topic_text, group_text
        cdef Py_buffer view
        cdef size_t i = 0
        cdef int32_t rc
        for name in ALIKE:
            alike[i].ptr = NULL
            alike[i].len = 0
            value = command.ext.get(name)
            if value is not None:
                text_of(<str>value, &alike[i])
            i += 1
        text_of(topic, &topic_text)
        text_of(group, &group_text)
        self.begin()
        try:
            PyObject_GetBuffer(tags, &view, PyBUF_SIMPLE)
            try:
                if view.len and <size_t>view.buf % sizeof(int32_t):
                    raise ValueError("tags must be aligned")
                rc = C.session_grant_pull(self.line.session, command.code, alike, topic_text, group_text,
                                          queue_id, <const int32_t *>view.buf,
                                          view.len // sizeof(int32_t))
            finally:
                PyBuffer_Release(&view)
        finally:
            self.finish()
        if rc != PYRMQ_OK and rc != PYRMQ_NONE:
            raise_failed(rc)

    def next_command(self):
        """The next Command, None if there is none."""
        cdef pyrmq_command c
        cdef pyrmq_bytes name, value
        cdef uint32_t i
        self.check_free()
        if C.session_command(self.line.session, &c) != PYRMQ_OK:
            return None
        if self.line.fed.commands:
            self.line.fed.commands -= 1
        cdef Command out = Command.__new__(Command)
        cdef dict ext = {}
        for i in range(c.n_ext):
            C.session_ext(self.line.session, i, &name, &value)
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
            if C.session_space(self.line.session, &p, &n) != PYRMQ_OK:
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
        if not self.busy and self.place is None and (self.rounds is None or not self.rounds.serving):
            C.session_give_up(self.line.session)

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
        C.session_filled(self.line.session, room, max(n, 0))
