# One turn of a server's reader in one native call: part of engine.pyx.
#
# What most connections of a turn need is the same: receive, feed, write what all of them stored,
# send the answers. Here that is done for all of them without the GIL and without Python objects.
# What is left to do for a session is said of it; the server does that one by one.

cdef struct pyrmq_slot:
    void *session
    int fd
    bint settled            # the counts below are of a feed or a release of this turn
    ssize_t received        # bytes; 0 at the stream's end, -1 if nothing came or `failed`
    int failed              # errno of recv or send, 0 if none
    int32_t rc
    pyrmq_feed fed
    uint8_t *rest           # what the socket did not take (malloc)
    size_t rest_len


cdef void send_out(pyrmq_slot *s) noexcept nogil:
    """Sends what a native call has put out; keeps what the socket does not take."""
    cdef ssize_t sent
    cdef uint8_t *kept
    if not s.fed.out.len or s.failed:
        return
    sent = 0
    if s.rest == NULL:
        sent = send(s.fd, s.fed.out.ptr, s.fed.out.len, MSG_NOSIGNAL)
        if sent < 0:
            if errno != EAGAIN and errno != EINTR:
                s.failed = errno
                return
            sent = 0
    if <size_t>sent == s.fed.out.len:
        return
    kept = <uint8_t *>realloc(s.rest, s.rest_len + s.fed.out.len - sent)
    if kept == NULL:
        s.failed = ENOMEM
        return
    memcpy(kept + s.rest_len, s.fed.out.ptr + sent, s.fed.out.len - sent)
    s.rest = kept
    s.rest_len += s.fed.out.len - sent


cdef void receive_one(pyrmq_slot *s, RecvBuffer buffer, int64_t now) noexcept nogil:
    s.received = recv(s.fd, buffer.ptr, buffer.nbytes, 0)
    if s.received < 0:
        if errno != EAGAIN and errno != EINTR:
            s.failed = errno
        return
    if s.received == 0:
        return
    s.settled = True
    s.rc = C.session_feed(s.session, buffer.ptr, s.received, now, True, &s.fed)
    if s.rc == PYRMQ_OK or s.rc == PYRMQ_CLOSE:
        send_out(s)


cdef void release_one(pyrmq_slot *s, int64_t now, int64_t timeout) noexcept nogil:
    s.settled = True
    s.rc = C.session_release(s.session, now, timeout, &s.fed)
    if s.rc == PYRMQ_OK:
        send_out(s)


cdef class Turn:
    """The connections of one turn. One thread uses it at a time."""

    cdef pyrmq_slot *slots
    cdef Py_ssize_t room
    cdef readonly bint arrivals
    """After `receive`: queues have grown that somebody watches."""

    def __cinit__(self, Py_ssize_t room):
        """`room`: connections at most."""
        self.slots = <pyrmq_slot *>calloc(max(room, 1), sizeof(pyrmq_slot))
        if self.slots == NULL:
            raise MemoryError
        self.room = room

    def __dealloc__(self):
        free(self.slots)

    cdef Py_ssize_t begin(self, list sessions) except -1:
        cdef Py_ssize_t n = len(sessions), i
        cdef Session session
        if n > self.room:
            raise ValueError(f"{n} connections; there is room for {self.room}")
        memset(self.slots, 0, n * sizeof(pyrmq_slot))
        for i in range(n):
            session = sessions[i]
            try:
                if session is None:
                    raise TypeError("a session is missing")
                session.begin()
                if session.fd < 0:
                    session.busy = False
                    raise ValueError("a session without a socket")
            except BaseException:
                for session in sessions[:i]:
                    session.busy = False
                raise
            self.slots[i].session = session.ptr
            self.slots[i].fd = session.fd
        return n

    cdef list end(self, list sessions):
        """Takes over what the native calls said; returns what is left to do, see `receive`."""
        cdef Py_ssize_t i
        cdef Session session
        cdef pyrmq_slot *s
        cdef list left = []
        cdef object failure
        cdef bint ended
        for i in range(len(sessions)):
            s = &self.slots[i]
            session = sessions[i]
            session.busy = False
            failure = None
            if s.settled:
                try:
                    session.take_over(s.rc, &s.fed)
                except EngineError as e:
                    failure = e
            ended = not s.settled and (s.received == 0 or s.failed)
            if s.failed and not ended:
                failure = OSError(s.failed, "send")
            rest = None
            if s.rest != NULL:
                rest = PyBytes_FromStringAndSize(<const char *>s.rest, s.rest_len)
                free(s.rest)
                s.rest = NULL
            if failure is not None or rest is not None or ended or session.needs_care():
                left.append((i, ended, rest, failure))
        return left

    def receive(self, list sessions, RecvBuffer buffer, Store store, long long now_ms,
                long long timeout_ms, bint answers):
        """Receives once on each session's socket (`Session.fd`, non-blocking), feeds what came, writes
        what all sessions have stored, also those that were fed before (`feed` with `more`), and with
        `answers` sends the answers that are confirmed by it.

        Returns what is left to do, a list of (index of the session, whether its stream has ended or
        failed, bytes that its socket did not take or None, what failed or None: an OSError of its
        socket or an EngineError). Sessions that need no care are not in it: see
        `Session.needs_care`. Second, the error of the write, None if there is none.
        """
        cdef Py_ssize_t n = self.begin(sessions), i
        cdef int32_t rc = PYRMQ_OK
        cdef uint8_t arrivals = 0
        cdef const void *storage = NULL if store is None else store.ptr
        cdef object failure = None
        with nogil:
            for i in range(n):
                receive_one(&self.slots[i], buffer, now_ms)
            if storage != NULL:
                rc = C.store_write_staged(storage, &arrivals)
            if answers:
                for i in range(n):
                    if self.slots[i].fed.unconfirmed and self.slots[i].rc == PYRMQ_OK:
                        release_one(&self.slots[i], now_ms, timeout_ms)
        self.arrivals = arrivals
        if rc != PYRMQ_OK:
            try:
                raise_failed(rc)
            except (EngineError, ServiceNotAvailableError) as e:
                failure = e
        return self.end(sessions), failure

    def release(self, list sessions, long long now_ms, long long timeout_ms):
        """Sends the answers of sessions that are settled; returns what is left to do, as `receive`."""
        cdef Py_ssize_t n = self.begin(sessions), i
        with nogil:
            for i in range(n):
                release_one(&self.slots[i], now_ms, timeout_ms)
        return self.end(sessions)
