# Many connections in one native call: part of engine.pyx.
#
# What most connections need most of the time is the same: receive, feed, write what all of them stored,
# send the answers. Here that is done for all that are ready, round after round, without the GIL and
# without Python objects. What is left to do for a session is said of it; the server does that.

cdef struct pyrmq_slot:
    pyrmq_line *line
    int fd
    bint settled            # `line.fed` is of this call
    ssize_t received        # bytes; 0 at the stream's end, -1 if nothing came or `failed`
    int failed              # errno of recv or send, 0 if none
    int32_t rc
    uint8_t *rest           # what the socket did not take (malloc)
    size_t rest_len


cdef void send_out(pyrmq_slot *s) noexcept nogil:
    """Sends what a native call has put out; keeps what the socket does not take."""
    cdef pyrmq_bytes out = s.line.fed.out
    cdef ssize_t sent
    cdef uint8_t *kept
    if not out.len or s.failed:
        return
    sent = 0
    if s.rest == NULL:
        sent = send(s.fd, out.ptr, out.len, MSG_NOSIGNAL)
        if sent < 0:
            if errno != EAGAIN and errno != EINTR:
                s.failed = errno
                return
            sent = 0
    if <size_t>sent == out.len:
        return
    kept = <uint8_t *>realloc(s.rest, s.rest_len + out.len - sent)
    if kept == NULL:
        s.failed = ENOMEM
        return
    memcpy(kept + s.rest_len, out.ptr + sent, out.len - sent)
    s.rest = kept
    s.rest_len += out.len - sent


cdef void receive_one(pyrmq_slot *s, RecvBuffer buffer, int64_t now, bint several) noexcept nogil:
    s.received = recv(s.fd, buffer.ptr, buffer.nbytes, 0)
    if s.received < 0:
        if errno != EAGAIN and errno != EINTR:
            s.failed = errno
        return
    if s.received == 0:
        return
    s.settled = True
    s.rc = C.session_feed(s.line.session, buffer.ptr, s.received, now, several, &s.line.fed)
    if s.rc == PYRMQ_OK or s.rc == PYRMQ_CLOSE:
        send_out(s)


cdef void release_one(pyrmq_slot *s, int64_t now, int64_t timeout) noexcept nogil:
    s.settled = True
    s.rc = C.session_release(s.line.session, now, timeout, &s.line.fed)
    if s.rc == PYRMQ_OK:
        send_out(s)


cdef inline bint is_left(pyrmq_slot *s) noexcept nogil:
    """Whether something is left to do for it that the native side does not do."""
    return (s.failed or s.rest != NULL or s.rc != PYRMQ_OK
            or (s.received == 0 if not s.settled else wants_care(s.line)))


cdef tuple outcome(object key, Session session, pyrmq_slot *s):
    """Takes over what the native calls said: an entry of `Left`."""
    cdef object failure = None, rest = None
    cdef bint ended = not s.settled and (s.received == 0 or s.failed != 0)
    if s.settled:
        try:
            session.take_over(s.rc)
        except EngineError as e:
            failure = e
    if s.failed and not ended:
        failure = OSError(s.failed, "send")
    if s.rest != NULL:
        rest = PyBytes_FromStringAndSize(<const char *>s.rest, s.rest_len)
        free(s.rest)
        s.rest = NULL
    return key, ended, rest, failure


cdef class Turn:
    """Answers that are settled, of many sessions in one call. One thread uses it at a time."""

    cdef pyrmq_slot *slots
    cdef Py_ssize_t room

    def __cinit__(self, Py_ssize_t room):
        """`room`: sessions at most."""
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
            try:
                session = sessions[i]
                if session is None:
                    raise TypeError("a session is missing")
                session.begin()
                if session.line.fd < 0:
                    session.finish()
                    raise ValueError("a session without a socket")
            except BaseException:
                for session in sessions[:i]:
                    session.finish()
                raise
            self.slots[i].line = &session.line
            self.slots[i].fd = session.line.fd
        return n

    def release(self, list sessions, long long now_ms, long long timeout_ms):
        """Sends the answers of sessions that are settled (`Session.fd`, non-blocking).

        Returns what is left to do, a list of (index of the session, whether its stream has ended or
        failed, bytes that its socket did not take or None, what failed or None: an OSError of its
        socket or an EngineError). Sessions for which nothing is left are not in it.
        """
        cdef Py_ssize_t n = self.begin(sessions), i
        cdef Session session
        with nogil:
            for i in range(n):
                release_one(&self.slots[i], now_ms, timeout_ms)
        left = []
        for i in range(n):
            session = sessions[i]
            session.finish()
            if is_left(&self.slots[i]):
                left.append(outcome(i, session, &self.slots[i]))
        return left


cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef enum:
    MOST_DESCRIPTORS = 1 << 22  # there is a place for each up to the highest one that is watched


cdef class Rounds:
    """Serves the watched sessions of one epoll, as long as nothing else is to be done.

    A round: all watched sessions that are ready receive once (`Session.fd`, non-blocking) and are fed,
    what they stored is written, and what is confirmed by that is answered. One thread uses it and the
    sessions that it watches at a time.
    """

    cdef pyrmq_slot *slots
    cdef epoll_event *events
    cdef Py_ssize_t room, n_slots, n_others
    cdef pyrmq_line **lines         # by descriptor; NULL: not watched
    cdef Py_ssize_t n_lines
    cdef dict sessions              # by descriptor
    cdef Py_ssize_t in_use          # watched sessions in a native call of their own
    cdef bint serving
    cdef int32_t rc                 # of the last write
    cdef readonly bint arrivals
    """After `serve` and `finish`: queues may have grown that somebody watches."""
    cdef readonly bint idle
    """After `serve`: nothing else was ready."""
    cdef readonly unsigned int served
    """After `serve`: rounds that it has served."""

    def __cinit__(self, Py_ssize_t room):
        """`room`: connections of one round at most."""
        self.room = max(room, 1)
        self.slots = <pyrmq_slot *>calloc(self.room, sizeof(pyrmq_slot))
        self.events = <epoll_event *>calloc(self.room, sizeof(epoll_event))
        self.sessions = {}
        if self.slots == NULL or self.events == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.slots)
        free(self.events)
        free(self.lines)

    cdef int check_free(self) except -1:
        if self.serving or self.in_use:
            raise RuntimeError("rounds are used by one thread at a time")
        return 0

    def watch(self, Session session not None):
        """Serves the session from now on, whenever its descriptor is ready to be read and nothing else
        is said of it. Again: changes nothing."""
        cdef int fd = session.line.fd
        cdef Py_ssize_t n
        cdef pyrmq_line **lines
        self.check_free()
        if session.rounds is self:
            return
        if not 0 <= fd < MOST_DESCRIPTORS or session.rounds is not None or fd in self.sessions:
            raise ValueError("the session has no descriptor, or one that is watched already")
        session.check_free()
        if fd >= self.n_lines:
            n = max(2 * self.n_lines, <Py_ssize_t>fd + 64)
            lines = <pyrmq_line **>realloc(self.lines, n * sizeof(pyrmq_line *))
            if lines == NULL:
                raise MemoryError
            memset(lines + self.n_lines, 0, (n - self.n_lines) * sizeof(pyrmq_line *))
            self.lines, self.n_lines = lines, n
        self.sessions[fd] = session
        self.lines[fd] = &session.line
        session.rounds = self

    def forget(self, Session session not None):
        """Leaves the session to others. One that is not watched: changes nothing."""
        if session.rounds is not self:
            return
        self.check_free()
        self.lines[session.line.fd] = NULL
        del self.sessions[session.line.fd]
        session.rounds = None

    cdef pyrmq_line *line_of(self, int fd) noexcept nogil:
        return self.lines[fd] if 0 <= fd < self.n_lines else NULL

    cdef void sort(self, int n) noexcept nogil:
        """Parts what is ready into slots and `events[:n_others]`."""
        cdef int i
        cdef pyrmq_line *line
        cdef pyrmq_slot *s
        self.n_slots = self.n_others = 0
        for i in range(n):
            line = NULL
            if self.events[i].events == EPOLLIN:
                line = self.line_of(self.events[i].data.fd)
            if line == NULL or line.fed.large or line.fed.heavy:
                self.events[self.n_others] = self.events[i]
                self.n_others += 1
                continue
            s = &self.slots[self.n_slots]
            memset(s, 0, sizeof(pyrmq_slot))
            s.line = line
            s.fd = self.events[i].data.fd
            self.n_slots += 1

    cdef bint round(self, RecvBuffer buffer, const void *storage, int64_t timeout, bint answers,
                    bint several, double active) noexcept nogil:
        """Serves the slots. Whether something is left to do. `several`: others have stored something
        as well that is not written."""
        cdef Py_ssize_t i
        cdef int64_t now = monotonic_ns() // 1_000_000
        cdef pyrmq_slot *s
        cdef bint left = False
        cdef uint8_t arrivals = 0
        several = several or self.n_slots > 1
        for i in range(self.n_slots):
            s = &self.slots[i]
            s.line.active = active
            receive_one(s, buffer, now, several)
            if s.settled and s.line.fed.arrivals:
                arrivals = True
        if storage != NULL and several:
            self.rc = C.store_write_staged(storage, &arrivals)
        for i in range(self.n_slots):
            s = &self.slots[i]
            if answers and s.settled and s.rc == PYRMQ_OK and s.line.fed.unconfirmed:
                release_one(s, now, timeout)
            left |= is_left(s)
        if arrivals:
            self.arrivals = True
        return left or self.arrivals or self.rc != PYRMQ_OK

    cdef int wait(self, int epoll_fd, int64_t ns) noexcept nogil:
        """What is ready within `ns` nanoseconds, into `events`; 0 or less if nothing is."""
        cdef timespec most
        if ns <= 0:
            return epoll_wait(epoll_fd, self.events, self.room, 0)
        most.tv_sec = ns // 1_000_000_000
        most.tv_nsec = ns % 1_000_000_000
        return syscall(EPOLL_PWAIT2, epoll_fd, self.events, <int>self.room, &most, NULL, 0)

    cdef bint rounds(self, int epoll_fd, RecvBuffer buffer, const void *storage, int64_t timeout,
                     bint answers, double active, int64_t end_ns, int64_t linger_ns,
                     bint hold) noexcept nogil:
        """Whether it ended because nothing was ready."""
        cdef int n
        cdef int64_t ns = 0
        while True:
            if linger_ns > 0 and not hold:
                ns = min(end_ns - monotonic_ns(), linger_ns)
            n = self.wait(epoll_fd, ns)
            if n < 0 and ns > 0:
                linger_ns = ns = 0  # no such call: Linux before 5.11
                continue
            if n <= 0:
                self.n_slots = self.n_others = 0
                return True
            self.sort(n)
            if hold or self.n_others:
                return False
            self.served += 1
            if self.round(buffer, storage, timeout, answers, False, active):
                return False
            if monotonic_ns() >= end_ns or (storage != NULL and C.store_stall(storage)):
                self.n_slots = 0
                return False

    cdef list take_left(self):
        """What is left to do for the slots, which are empty then."""
        cdef Py_ssize_t i
        cdef list left = []
        for i in range(self.n_slots):
            if is_left(&self.slots[i]):
                left.append(outcome(self.slots[i].fd, self.sessions[self.slots[i].fd], &self.slots[i]))
        self.n_slots = 0
        return left

    cdef object take_failure(self):
        """The error of the last write, None if there is none."""
        cdef int32_t rc = self.rc
        self.rc = PYRMQ_OK
        if rc == PYRMQ_OK:
            return None
        try:
            raise_failed(rc)
        except (EngineError, ServiceNotAvailableError) as e:
            return e

    def serve(self, int epoll_fd, RecvBuffer buffer not None, Store store, long long timeout_ms,
              bint answers, double active, long long end_ns, long long linger_ns, bint hold):
        """Round after round, until something else is to be done, nothing is ready, or `end_ns` (of the
        monotonic clock). Where nothing is ready it waits for `linger_ns` (Linux 5.11).

        `store`: what the sessions store to, None if they do not; `answers`: what is written is
        answered (ASYNC_FLUSH), else later by `Turn.release`; `active`: a time to note for the
        sessions. Returns what is ready and not watched, a list of (descriptor, epoll events): then, and
        with `hold`, the watched ones that are ready wait for `finish`. Second, what is left to do of
        a round as `Turn.release` says it, by descriptor. Third, the error of the write or None.
        """
        cdef const void *storage = NULL if store is None else store.ptr
        cdef Py_ssize_t i
        self.check_free()
        self.arrivals = False
        self.served = 0
        self.serving = True
        with nogil:
            self.idle = self.rounds(epoll_fd, buffer, storage, timeout_ms, answers, active, end_ns,
                                    linger_ns, hold)
        self.serving = False
        if self.n_others or hold:
            return [(self.events[i].data.fd, self.events[i].events) for i in range(self.n_others)], [], None
        return [], self.take_left(), self.take_failure()

    @property
    def waiting(self):
        """Watched sessions that wait for `finish`."""
        return self.n_slots

    def finish(self, RecvBuffer buffer not None, Store store, long long timeout_ms, bint answers,
               double active):
        """The round that `serve` left, without sessions that are not watched any more. Also writes what
        others have stored. Returns what is left to do and the error of the write, as `serve`."""
        cdef const void *storage = NULL if store is None else store.ptr
        cdef Py_ssize_t i, kept = 0
        self.check_free()
        self.arrivals = False
        for i in range(self.n_slots):
            # The line of one that is not watched may be gone: it is compared, not read.
            if self.line_of(self.slots[i].fd) == self.slots[i].line:
                self.slots[kept] = self.slots[i]
                kept += 1
        self.n_slots = kept
        self.serving = True
        with nogil:
            self.round(buffer, storage, timeout_ms, answers, True, active)
        self.serving = False
        return self.take_left(), self.take_failure()
