/* The C function table of the native engine, published as the PyCapsule `pyrmq._native._C_API`
 * named PYRMQ_CAPI_NAME. native/src/python/capi/mod.rs is the other side; both state the same
 * PYRMQ_ABI_VERSION. No Python objects cross here, and every function may be called without the
 * GIL. A session is used by one thread at a time. */
#ifndef PYRMQ_CAPI_H
#define PYRMQ_CAPI_H

#include <stddef.h>
#include <stdint.h>

#define PYRMQ_ABI_VERSION 6
#define PYRMQ_ALIKE 7 /* ext fields by which pulls are told apart: ALIKE in native/crates/broker/src/wire/pull.rs */
#define PYRMQ_CAPI_NAME "pyrmq._native._C_API"

/* Status codes of all functions that return int32_t. */
#define PYRMQ_OK 0
#define PYRMQ_NONE 1       /* there is nothing (more) */
#define PYRMQ_COLD 2       /* store_get was not to wait for the disk, and would have to */
#define PYRMQ_CLOSE (-1)   /* the peer broke the protocol; session_error has the text */
#define PYRMQ_FAILED (-2)  /* the store refused; error_text has the text */
#define PYRMQ_UNREADABLE (-3) /* the disk cannot read it; error_text has the text */
#define PYRMQ_PANIC (-100) /* a bug in the engine */

typedef struct {
    const uint8_t *ptr;
    size_t len;
} pyrmq_bytes;

/* What a feed, resend, answer or release gave. `out` is valid until the next call on the same thread. */
typedef struct {
    pyrmq_bytes out;
    uint32_t commands;    /* commands waiting in the session */
    uint32_t unconfirmed; /* answers that wait until what they acknowledge is confirmed */
    uint8_t full;         /* so many answers wait that the peer is not to be read on */
    uint8_t more;         /* a whole frame waits for the next feed */
    uint8_t arrivals;     /* the store has arrivals: queues with a new message that somebody asked for */
    uint8_t large;        /* a large frame is under way: receive into session_space */
    uint8_t heavy;        /* an unfinished frame takes much memory */
} pyrmq_feed;

/* Valid until the next session_command on the same session. */
typedef struct {
    int32_t code, opaque, flag, language, version, codec;
    uint32_t n_ext;
    uint8_t has_remark;
    pyrmq_bytes remark, body, frame;
} pyrmq_command;

/* Consecutive bytes of the log; `segment` is owned by the receiver until chunk_release. */
typedef struct {
    const void *segment;
    const uint8_t *ptr;
    size_t len;
} pyrmq_chunk;

typedef struct {
    int32_t status; /* GetMessageStatus, in RocketMQ's order */
    uint32_t count, n_chunks;
    int64_t next, min, max, bytes;
} pyrmq_get;

typedef struct {
    uint32_t abi_version, struct_size;
    void *(*session_new)(const void *listener, const uint8_t *ip, size_t ip_len, uint16_t port);
    void (*session_free)(void *session);
    /* `more`: others are fed next. What is stored stays staged, and its answers are kept until
     * store_write_staged and then session_release have been called. */
    int32_t (*session_feed)(void *session, const uint8_t *data, size_t len, int64_t now_ms,
                            int32_t more, pyrmq_feed *out);
    /* A send again after a decision. `topic` (may be empty) and `dead`: it goes back to a group, to
     * this retry topic or dead-letter topic. */
    int32_t (*session_resend)(void *session, const uint8_t *frame, size_t len, const uint8_t *topic,
                              size_t topic_len, int32_t dead, int64_t now_ms, pyrmq_feed *out);
    /* An encoded answer of code 0 that counts once the log is confirmed up to `end`. */
    int32_t (*session_answer)(void *session, const uint8_t *answer, size_t len, int32_t codec,
                              int32_t opaque, uint64_t end, int64_t now_ms, pyrmq_feed *out);
    int32_t (*session_release)(void *session, int64_t now_ms, int64_t timeout_ms, pyrmq_feed *out);
    int32_t (*session_command)(void *session, pyrmq_command *out);
    int32_t (*session_ext)(void *session, uint32_t index, pyrmq_bytes *name, pyrmq_bytes *value);
    int32_t (*session_error)(void *session, pyrmq_bytes *text);
    int32_t (*session_space)(void *session, uint8_t **ptr, size_t *len);
    void (*session_filled)(void *session, size_t room, size_t n);
    /* Pulls with this code and these fields (PYRMQ_ALIKE of them; a null pointer: no such field) are
     * answered in session_feed from now on, until PullGrants.revoke. `tags`: codes to select by. */
    int32_t (*session_grant_pull)(void *session, int32_t code, const pyrmq_bytes *alike,
                                  pyrmq_bytes topic, pyrmq_bytes group, uint32_t queue_id,
                                  const int32_t *tags, size_t n_tags);
    /* Gives back the memory of an unfinished frame. The connection is of no use then. */
    void (*session_give_up)(void *session);
    /* `program`: a compiled SQL92 expression that properties have to satisfy, or null.
     * Without `wait` what is found before the first place that is not in memory is given. */
    int32_t (*store_get)(const void *store, const uint8_t *topic, size_t topic_len, uint32_t queue_id,
                         int64_t offset, uint32_t max_count, uint32_t max_bytes,
                         const int32_t *tags, size_t n_tags, const void *program, uint8_t wait,
                         pyrmq_get *out, pyrmq_chunk *chunks, size_t n_chunks);
    /* Writes what is staged into the commit log and dispatches it. `arrivals`: as in pyrmq_feed. */
    int32_t (*store_write_staged)(const void *store, uint8_t *arrivals);
    /* 0; 1: the disk is slow, a write may take long; 2: one takes longer than
     * osPageCacheBusyTimeOutMills, messages are refused (SYSTEM_BUSY). */
    int32_t (*store_stall)(const void *store);
    /* Asks that the queue's next message be reported as an arrival, once. */
    int32_t (*store_notify_on_arrival)(const void *store, const uint8_t *topic, size_t topic_len,
                                       uint32_t queue_id);
    void (*chunk_release)(const void *segment);
    size_t (*scan_tags)(const uint8_t *entries, size_t len, const int32_t *tags, size_t n_tags,
                        uint32_t *out, size_t n_out);
    int32_t (*error_text)(pyrmq_bytes *text); /* of the last PYRMQ_FAILED on this thread */
} pyrmq_capi;

#endif
