# Many connections in one native call: part of engine.pyx.
#
# What most connections need most of the time is the same: receive, feed, write what all of them
# stored, send the answers. The engine (native/crates/server) does it for all that are ready, without the
# GIL and without Python objects. It says which sessions need more; the server does that.

cdef tuple outcome(object key, Session session, const pyrmq_left *left):
    """An entry of `Left`: what a native call left to do for a session."""
    cdef object failure = None, rest = None
    if left.called:
        try:
            session.take_over(left.status)
        except EngineError as e:
            failure = e
    if left.failed and not left.ended:
        failure = OSError(left.failed, "send")
    if left.rest.len:
        rest = PyBytes_FromStringAndSize(<const char *>left.rest.ptr, left.rest.len)
    return key, bool(left.ended), rest, failure


cdef class AnswerSender:
    """Sends the answers of many sessions in one call. One thread uses it at a time."""

    cdef void *native
    cdef pyrmq_addressee *to
    cdef Py_ssize_t most

    def __cinit__(self, Py_ssize_t most):
        """`most`: sessions at most."""
        self.most = max(most, 1)
        self.to = <pyrmq_addressee *>calloc(self.most, sizeof(pyrmq_addressee))
        self.native = C.answer_sender_new()
        if self.to == NULL or self.native == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.to)
        if self.native != NULL:
            C.answer_sender_free(self.native)

    cdef Py_ssize_t begin(self, list sessions) except -1:
        cdef Py_ssize_t n = len(sessions), i
        cdef Session session
        if n > self.most:
            raise ValueError(f"{n} connections; at most {self.most}")
        for i in range(n):
            try:
                session = sessions[i]
                if session is None:
                    raise TypeError("a session is missing")
                session.begin()
                if session.descriptor < 0:
                    session.finish()
                    raise ValueError("a session without a socket")
            except BaseException:
                for session in sessions[:i]:
                    session.finish()
                raise
            self.to[i].session = session.native
            self.to[i].fd = session.descriptor
        return n

    def release(self, list sessions, long long now_ms, long long timeout_ms):
        """Sends the answers of sessions that need not wait any longer (`Session.fd`, non-blocking).

        Returns what is left to do, a list of (index of the session, whether its stream has ended or
        failed, bytes that its socket did not take or None, what failed or None: an OSError of its
        socket or an EngineError). Sessions for which nothing is left are not in it.
        """
        cdef Py_ssize_t n = self.begin(sessions)
        cdef pyrmq_left_list found
        cdef size_t i
        cdef int32_t rc
        cdef Session session
        with nogil:
            rc = C.answer_sender_send(self.native, self.to, n, now_ms, timeout_ms, &found)
        for session in sessions:
            session.finish()
        if rc != PYRMQ_OK:
            raise_failed(rc)
        return [outcome(found.left[i].key, sessions[found.left[i].key], &found.left[i])
                for i in range(found.n_left)]


cdef class ReadyLoop:
    """Serves the watched sessions of one epoll, as long as nothing else is to be done.

    A round: all watched sessions that are ready receive once (`Session.fd`, non-blocking) and are fed,
    what they stored is written, and what is confirmed by that is answered. One thread uses it and the
    sessions that it watches at a time.
    """

    cdef void *native
    cdef object store
    cdef dict sessions              # by descriptor
    cdef Py_ssize_t in_use          # watched sessions in a native call of their own
    cdef bint serving
    cdef readonly bint arrivals
    """After `serve` and `finish`: queues may have grown that somebody watches."""
    cdef readonly bint idle
    """After `serve`: nothing else was ready."""
    cdef readonly unsigned int served
    """After `serve`: rounds that it has served."""
    cdef readonly bint confirmed
    """After `serve`: more may be confirmed, so who keeps answers elsewhere is to look."""
    cdef readonly Py_ssize_t waiting
    """Watched sessions that wait for `finish`."""

    def __cinit__(self, int epoll_fd, Py_ssize_t most, Py_ssize_t receive, Store store,
                  long long timeout_ms):
        """`most`: connections of one round at most; `receive`: bytes that are received from each of
        them in one round at most; `store`: what the sessions store to, None if they do not;
        `timeout_ms`: an answer waits so long for its record to be confirmed."""
        cdef const void *storage = NULL if store is None else store.ptr
        self.sessions = {}
        self.store = store
        self.native = C.ready_loop_new(epoll_fd, max(most, 1), max(receive, 1), storage, timeout_ms)
        if self.native == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.native != NULL:
            C.ready_loop_free(self.native)

    cdef int check_free(self) except -1:
        if self.serving or self.in_use:
            raise RuntimeError("a ready loop is used by one thread at a time")
        return 0

    def watch(self, Session session not None):
        """Serves the session from now on, whenever its descriptor is ready to be read and nothing else
        is said of it. Again: changes nothing."""
        cdef int fd = session.descriptor
        self.check_free()
        if session.watched_by is self:
            return
        if session.watched_by is not None:
            raise ValueError("the session is watched already")
        session.check_free()
        if C.ready_loop_watch(self.native, session.native, fd) != PYRMQ_OK:
            raise ValueError("the session has no descriptor, or one that is watched already")
        self.sessions[fd] = session
        session.watched_by = self

    def forget(self, Session session not None):
        """Leaves the session to others. One that is not watched: changes nothing."""
        if session.watched_by is not self:
            return
        self.check_free()
        C.ready_loop_forget(self.native, session.descriptor)
        del self.sessions[session.descriptor]
        session.watched_by = None

    def keep(self, Session session not None):
        """Sends the answers that a watched session keeps once they are confirmed. False if that is left
        to others: another session, or one that stores nothing or with ASYNC_FLUSH."""
        if session.watched_by is not self:
            return False
        self.check_free()
        return C.ready_loop_keep(self.native, session.descriptor) == PYRMQ_OK

    def keeping(self):
        """The descriptors of the watched sessions that keep answers."""
        cdef Session session
        cdef list found = []
        for session in self.sessions.values():
            if session.report.unconfirmed:
                found.append(session.descriptor)
        return found

    cdef tuple run(self, const pyrmq_serve *how):
        cdef pyrmq_served did
        cdef size_t i
        cdef int32_t rc
        cdef list left, others
        cdef int fd
        self.check_free()
        self.serving = True
        with nogil:
            rc = C.ready_loop_serve(self.native, how, &did)
        self.serving = False
        if rc != PYRMQ_OK:
            raise_failed(rc)
        self.arrivals = did.arrivals != 0
        self.waiting = did.waiting
        if not how.finish:
            self.idle = did.idle != 0
            self.served = did.rounds
            self.confirmed = did.confirmed != 0
        failure = failure_of(did.written)
        others = [(did.others[i].fd, did.others[i].events) for i in range(did.n_others)]
        left = []
        for i in range(did.n_left):
            fd = did.left[i].key
            left.append(outcome(fd, self.sessions[fd], &did.left[i]))
        return others, left, failure

    def serve(self, double active, long long end_ns, long long linger_ns, bint hold,
              bint others_keep=False):
        """Round after round, until something else is to be done, nothing is ready, or `end_ns` (of the
        monotonic clock). Where nothing is ready it waits for `linger_ns` (Linux 5.11).

        What is written is answered with ASYNC_FLUSH, else once the store's event says that it is
        confirmed. `others_keep`: an `AnswerSender` has sessions for that event as well, and it ends
        with the event. While the store fails, the event is for others. `active`: a time to note for
        the sessions. Returns what is ready and not watched, a list of (descriptor, epoll
        events): then, and with `hold`, the watched ones that are ready wait for `finish`. Second, what
        is left to do of a round as `AnswerSender.release` says it, by descriptor. Third, the error of
        the write or None.
        """
        cdef pyrmq_serve how
        how.active = active
        how.end_ns = end_ns
        how.linger_ns = linger_ns
        how.hold = hold
        how.others_keep = others_keep
        how.finish = False
        return self.run(&how)

    def finish(self, double active):
        """The round that `serve` left, without sessions that are not watched any more. Also writes what
        others have stored. Returns what is left to do and the error of the write, as `serve`."""
        cdef pyrmq_serve how
        how.active = active
        how.end_ns = how.linger_ns = 0
        how.hold = how.others_keep = False
        how.finish = True
        return self.run(&how)[1:]


cdef object failure_of(int32_t written):
    """The error of a write of the log, None if there is none."""
    if written == PYRMQ_OK:
        return None
    try:
        raise_failed(written)
    except (EngineError, ServiceNotAvailableError) as e:
        return e
