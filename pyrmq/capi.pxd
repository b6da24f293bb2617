# The C side of the engine as Cython sees it; native/include/pyrmq_capi.h is the source.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "pyrmq_capi.h":
    const char* PYRMQ_CAPI_NAME
    const int PYRMQ_ABI_VERSION, PYRMQ_N_ALIKE
    const int PYRMQ_OK, PYRMQ_NONE, PYRMQ_CLOSE, PYRMQ_COLD, PYRMQ_FAILED, PYRMQ_UNREADABLE, PYRMQ_PANIC

    ctypedef struct pyrmq_bytes:
        const uint8_t *ptr
        size_t len

    ctypedef struct pyrmq_report:
        uint32_t commands, unconfirmed
        uint8_t full, more, arrivals, large, heavy, tls, pending

    ctypedef struct pyrmq_received:
        pyrmq_bytes out
        int64_t received
        int32_t failed

    ctypedef struct pyrmq_piece:
        pyrmq_bytes bytes
        uint8_t mapped

    ctypedef struct pyrmq_sent:
        pyrmq_bytes rest
        size_t taken
        int32_t failed

    ctypedef struct pyrmq_command:
        int32_t code, opaque, flag, language, version, codec
        uint32_t n_ext
        uint8_t has_remark
        pyrmq_bytes remark, body, frame, subject
        int64_t since_us

    ctypedef struct pyrmq_chunk:
        const void *segment
        const uint8_t *ptr
        size_t len

    ctypedef struct pyrmq_get:
        int32_t status
        uint32_t count, n_chunks
        int64_t next, min, max, bytes

    ctypedef struct pyrmq_ready:
        int32_t fd
        uint32_t events

    ctypedef struct pyrmq_serve:
        double active
        int64_t end_ns, linger_ns
        uint8_t hold, others_keep, finish

    ctypedef struct pyrmq_left:
        int32_t key, status, failed
        uint8_t ended, called
        pyrmq_bytes rest

    ctypedef struct pyrmq_served:
        const pyrmq_ready *others
        size_t n_others
        const pyrmq_left *left
        size_t n_left, waiting
        uint32_t rounds
        int32_t written
        uint8_t idle, arrivals, confirmed

    ctypedef struct pyrmq_addressee:
        void *session
        int32_t fd

    ctypedef struct pyrmq_left_list:
        const pyrmq_left *left
        size_t n_left

    ctypedef struct pyrmq_capi:
        uint32_t abi_version, struct_size
        void *(*session_new)(const void *, const uint8_t *, size_t, uint16_t) nogil
        void (*session_free)(void *) nogil
        const pyrmq_report *(*session_report)(void *) nogil
        double (*session_active)(void *) nogil
        int32_t (*session_feed)(void *, const uint8_t *, size_t, int64_t, int32_t,
                                pyrmq_bytes *) nogil
        int32_t (*session_receive)(void *, int32_t, uint8_t *, size_t, int64_t, int32_t,
                                   pyrmq_received *) nogil
        int32_t (*session_resend)(void *, const uint8_t *, size_t, const uint8_t *, size_t, int32_t,
                                  int64_t, int64_t, pyrmq_bytes *) nogil
        int32_t (*session_answer)(void *, const uint8_t *, size_t, int32_t, int32_t, int32_t,
                                  int32_t, uint64_t, int64_t, int64_t, pyrmq_bytes *) nogil
        int32_t (*session_release)(void *, int64_t, int64_t, pyrmq_bytes *) nogil
        int32_t (*session_send_released)(void *, int32_t, int64_t, int64_t, pyrmq_sent *) nogil
        int32_t (*session_send)(void *, int32_t, const pyrmq_piece *, size_t, pyrmq_sent *) nogil
        void (*session_send_close)(void *, int32_t) nogil
        int32_t (*session_command)(void *, pyrmq_command *) nogil
        int32_t (*session_ext)(void *, uint32_t, pyrmq_bytes *, pyrmq_bytes *) nogil
        int32_t (*session_error)(void *, pyrmq_bytes *) nogil
        int32_t (*session_space)(void *, uint8_t **, size_t *) nogil
        void (*session_filled)(void *, size_t, size_t) nogil
        int32_t (*session_grant_pull)(void *, int32_t, const pyrmq_bytes *, pyrmq_bytes, pyrmq_bytes,
                                      uint32_t, const int32_t *, size_t, pyrmq_bytes) nogil
        int32_t (*session_grant_access)(void *, uint8_t, pyrmq_bytes, pyrmq_bytes) nogil
        void (*session_give_up)(void *) nogil
        void *(*ready_loop_new)(int32_t, size_t, size_t, const void *, int64_t) nogil
        void (*ready_loop_free)(void *) nogil
        int32_t (*ready_loop_watch)(void *, void *, int32_t) nogil
        void (*ready_loop_forget)(void *, int32_t) nogil
        int32_t (*ready_loop_keep)(void *, int32_t) nogil
        int32_t (*ready_loop_serve)(void *, const pyrmq_serve *, pyrmq_served *) nogil
        void *(*answer_sender_new)() nogil
        void (*answer_sender_free)(void *) nogil
        int32_t (*answer_sender_send)(void *, const pyrmq_addressee *, size_t, int64_t, int64_t,
                                      pyrmq_left_list *) nogil
        int32_t (*store_get)(const void *, const uint8_t *, size_t, uint32_t, int64_t,
                             uint32_t, uint32_t, const int32_t *, size_t, const void *, uint8_t,
                             pyrmq_get *, pyrmq_chunk *, size_t) nogil
        int32_t (*store_write_staged)(const void *, uint8_t *) nogil
        int32_t (*store_stall)(const void *) nogil
        int32_t (*store_notify_on_arrival)(const void *, const uint8_t *, size_t, uint32_t) nogil
        void (*chunk_release)(const void *) nogil
        size_t (*scan_tags)(const uint8_t *, size_t, const int32_t *, size_t,
                            uint32_t *, size_t) nogil
        int32_t (*error_text)(pyrmq_bytes *) nogil
