/* The C function table of the native engine, published as the PyCapsule PYRMQ_CAPI_NAME.
 * Generated from native/crates/capi by scripts/capi_header.sh: do not edit. */

#ifndef PYRMQ_CAPI_H
#define PYRMQ_CAPI_H

#include <stddef.h>
#include <stdint.h>

#define PYRMQ_OK 0

/**
 * There is nothing (more).
 */
#define PYRMQ_NONE 1

/**
 * `store_get` was not to wait for the disk, and would have to.
 */
#define PYRMQ_COLD 2

/**
 * The peer broke the protocol; `session_error` has the text.
 */
#define PYRMQ_CLOSE -1

/**
 * The store refused; `error_text` has the text.
 */
#define PYRMQ_FAILED -2

/**
 * The disk cannot read it; `error_text` has the text.
 */
#define PYRMQ_UNREADABLE -3

/**
 * A bug in the engine.
 */
#define PYRMQ_PANIC -100

/**
 * Changes whenever what stands in this header does.
 */
#define PYRMQ_ABI_VERSION 10

/**
 * Ext fields by which pulls are told apart: `ALIKE` in wire/pull.rs.
 */
#define PYRMQ_N_ALIKE 7

/**
 * The state of a session behind its last call. Any thread may read a field at any time; together
 * they are the result of one call once that call has returned.
 */
typedef struct {
  /**
   * Commands that wait in the session.
   */
  uint32_t commands;
  /**
   * Answers that wait until what they acknowledge is confirmed.
   */
  uint32_t unconfirmed;
  /**
   * So many answers wait that the peer is not to be read on.
   */
  uint8_t full;
  /**
   * A whole frame waits for the next feed.
   */
  uint8_t more;
  /**
   * The store has arrivals: queues with a new message that somebody asked for.
   */
  uint8_t arrivals;
  /**
   * A large frame is under way: receive into `session_space`.
   */
  uint8_t large;
  /**
   * An unfinished frame takes much memory.
   */
  uint8_t heavy;
  /**
   * How far TLS is: a `Tls`.
   */
  uint8_t tls;
  /**
   * TLS itself has something to be sent: `session_send` sends it, also with nothing else.
   */
  uint8_t pending;
} pyrmq_report;

/**
 * Bytes that belong to the engine.
 */
typedef struct {
  const uint8_t *ptr;
  size_t len;
} pyrmq_bytes;

/**
 * What receiving from a socket gave.
 */
typedef struct {
  /**
   * To be sent; valid until the next call on the same thread.
   */
  pyrmq_bytes out;
  /**
   * Bytes; 0 at the end of the stream, -1 if nothing came.
   */
  int64_t received;
  /**
   * What the socket failed with, 0 if it did not.
   */
  int32_t failed;
} pyrmq_received;

/**
 * What sending gave.
 */
typedef struct {
  /**
   * What the socket did not take, as it is to be sent; valid until the next call on the same
   * thread.
   */
  pyrmq_bytes rest;
  /**
   * How many plain bytes of the pieces are sent or in `rest` (`session_send`).
   */
  size_t taken;
  /**
   * What the socket failed with, 0 if it did not.
   */
  int32_t failed;
} pyrmq_sent;

/**
 * Plain bytes to be sent.
 */
typedef struct {
  pyrmq_bytes bytes;
  /**
   * They are a part of a mapped file, which the disk may not be able to read.
   */
  uint8_t mapped;
} pyrmq_piece;

/**
 * A request for Python, or a response. Valid until the next `session_command` of the same session.
 */
typedef struct {
  int32_t code;
  int32_t opaque;
  int32_t flag;
  int32_t language;
  int32_t version;
  int32_t codec;
  uint32_t n_ext;
  uint8_t has_remark;
  pyrmq_bytes remark;
  pyrmq_bytes body;
  pyrmq_bytes frame;
  /**
   * Who has signed it; a null pointer: nobody, as far as the session could verify that.
   */
  pyrmq_bytes subject;
  /**
   * When it was ready to be received, us of the monotonic clock.
   */
  int64_t since_us;
} pyrmq_command;

/**
 * What `ready_loop_serve` is to do.
 */
typedef struct {
  /**
   * A time to note for the sessions that receive something.
   */
  double active;
  /**
   * No round begins later than this, ns of the monotonic clock.
   */
  int64_t end_ns;
  /**
   * Where nothing is ready it waits so long, ns (Linux 5.11; else not at all).
   */
  int64_t linger_ns;
  /**
   * No round begins: what is ready waits for the call with `finish`.
   */
  uint8_t hold;
  /**
   * Others keep answers as well: it ends when more may be confirmed.
   */
  uint8_t others_keep;
  /**
   * Serves the round that the last call left, and nothing else. What others have stored is
   * written as well.
   */
  uint8_t finish;
} pyrmq_serve;

/**
 * A descriptor that is ready, and epoll's events.
 */
typedef struct {
  int32_t fd;
  uint32_t events;
} pyrmq_ready;

/**
 * A session for which something is left to do. `rest` is valid until the next call.
 */
typedef struct {
  /**
   * The session's descriptor, or its index for `answer_sender_send`.
   */
  int32_t key;
  /**
   * Of the last call of the session.
   */
  int32_t status;
  /**
   * What its socket failed with, 0 if it did not.
   */
  int32_t failed;
  /**
   * Its stream has ended or failed, and the session was not called.
   */
  uint8_t ended;
  /**
   * The session was called.
   */
  uint8_t called;
  /**
   * What its socket did not take, to be sent before anything else.
   */
  pyrmq_bytes rest;
} pyrmq_left;

/**
 * What a call of `ready_loop_serve` did. The lists are valid until the next call.
 */
typedef struct {
  /**
   * What is ready and not watched. If there is any, the round waits for the call with `finish`.
   */
  const pyrmq_ready *others;
  size_t n_others;
  const pyrmq_left *left;
  size_t n_left;
  /**
   * Sessions that are ready and wait for the call with `finish`.
   */
  size_t waiting;
  /**
   * Rounds that were served.
   */
  uint32_t rounds;
  /**
   * Status of the last write of the log; PYRMQ_FAILED: error_text has the text.
   */
  int32_t written;
  /**
   * Nothing was ready.
   */
  uint8_t idle;
  /**
   * Queues may have grown that somebody watches.
   */
  uint8_t arrivals;
  /**
   * More may be confirmed: others who keep answers are to look.
   */
  uint8_t confirmed;
} pyrmq_served;

/**
 * A session, and its socket.
 */
typedef struct {
  void *session;
  int32_t fd;
} pyrmq_addressee;

/**
 * Sessions for which something is left to do.
 */
typedef struct {
  const pyrmq_left *left;
  size_t n_left;
} pyrmq_left_list;

/**
 * What a read gave.
 */
typedef struct {
  /**
   * GetMessageStatus, in RocketMQ's order.
   */
  int32_t status;
  uint32_t count;
  uint32_t n_chunks;
  int64_t next;
  int64_t min;
  int64_t max;
  int64_t bytes;
} pyrmq_get;

/**
 * Consecutive bytes of the log. `segment` is owned by the receiver until `chunk_release`.
 */
typedef struct {
  const void *segment;
  const uint8_t *ptr;
  size_t len;
} pyrmq_chunk;

/**
 * The entries. All of them may be called without the GIL. A session, a loop and a sender are each
 * used by one thread at a time; the sessions that a loop watches by nobody while it serves.
 */
typedef struct {
  uint32_t abi_version;
  uint32_t struct_size;
  /**
   * `ip`: 4 or 16 bytes. NULL if it has others.
   */
  void *(*session_new)(const void *listener, const uint8_t *ip, size_t ip_len, uint16_t port);
  void (*session_free)(void *session);
  /**
   * What the last call of the session reported, as long as the session lives. It changes with
   * every call.
   */
  const pyrmq_report *(*session_report)(void *session);
  /**
   * When a loop received something from it last; see `ready_loop_serve`.
   */
  double (*session_active)(void *session);
  /**
   * What is put `out` is valid until the next call on the same thread, here and below.
   * `defer_write`: others are fed next. What is stored stays staged, and its answers are kept
   * until store_write_staged and then session_release have been called.
   */
  int32_t (*session_feed)(void *session,
                          const uint8_t *data,
                          size_t len,
                          int64_t now_ms,
                          int32_t defer_write,
                          pyrmq_bytes *out);
  /**
   * Receives once from a socket that does not block, and feeds what came.
   */
  int32_t (*session_receive)(void *session,
                             int32_t fd,
                             uint8_t *place,
                             size_t len,
                             int64_t now_ms,
                             int32_t defer_write,
                             pyrmq_received *out);
  /**
   * A send again after a decision. `topic` (may be empty) and `dead`: it goes back to a group, to
   * this retry topic or dead-letter topic. `since_us`: of its command.
   */
  int32_t (*session_resend)(void *session,
                            const uint8_t *frame,
                            size_t len,
                            const uint8_t *topic,
                            size_t topic_len,
                            int32_t dead,
                            int64_t since_us,
                            int64_t now_ms,
                            pyrmq_bytes *out);
  /**
   * An encoded answer of code 0 that counts once the log is confirmed up to `log_end`. `code` and
   * `since_us`: of the request, 0 for now; `long_polling`: it has waited for messages.
   */
  int32_t (*session_answer)(void *session,
                            const uint8_t *answer,
                            size_t len,
                            int32_t codec,
                            int32_t opaque,
                            int32_t code,
                            int32_t long_polling,
                            uint64_t log_end,
                            int64_t since_us,
                            int64_t now_ms,
                            pyrmq_bytes *out);
  /**
   * The answers that were kept and need not wait any longer.
   */
  int32_t (*session_release)(void *session, int64_t now_ms, int64_t timeout_ms, pyrmq_bytes *out);
  /**
   * The same, and sends them once to a socket that does not block.
   */
  int32_t (*session_send_released)(void *session,
                                   int32_t fd,
                                   int64_t now_ms,
                                   int64_t timeout_ms,
                                   pyrmq_sent *out);
  /**
   * Seals pieces of plain bytes and sends them to a socket that does not block, until it takes no
   * more. What TLS itself has to say goes in front; there may be no pieces.
   */
  int32_t (*session_send)(void *session, int32_t fd, const pyrmq_piece *pieces, size_t n, pyrmq_sent *out);
  /**
   * Says that nothing more is sent (TLS), as far as the socket takes it.
   */
  void (*session_send_close)(void *session, int32_t fd);
  int32_t (*session_command)(void *session, pyrmq_command *out);
  int32_t (*session_ext)(void *session, uint32_t index, pyrmq_bytes *name, pyrmq_bytes *value);
  int32_t (*session_error)(void *session, pyrmq_bytes *text);
  /**
   * A place for the rest of a large frame, until session_filled.
   */
  int32_t (*session_space)(void *session, uint8_t **ptr, size_t *len);
  void (*session_filled)(void *session, size_t room, size_t n);
  /**
   * Pulls with this code and these fields (PYRMQ_N_ALIKE of them; a null pointer: no such field)
   * are answered in session_feed from now on, until PullGrants.revoke. `tags`: codes to select by.
   * `subject`: with access control, who has to have signed them; a null pointer: none are answered.
   */
  int32_t (*session_grant_pull)(void *session,
                                int32_t code,
                                const pyrmq_bytes *alike,
                                pyrmq_bytes topic,
                                pyrmq_bytes group,
                                uint32_t queue_id,
                                const int32_t *tags,
                                size_t n_tags,
                                pyrmq_bytes subject);
  /**
   * Until the keyring is changed or revoked, what `subject` has signed may do this to `resource`.
   * PYRMQ_NONE without access control.
   */
  int32_t (*session_grant_access)(void *session, uint8_t rights, pyrmq_bytes subject, pyrmq_bytes resource);
  /**
   * Gives back the memory of an unfinished frame. The connection is of no use then.
   */
  void (*session_give_up)(void *session);
  /**
   * `epoll`: an epoll whose data are descriptors; `most`: sessions of one round at most; `receive`:
   * bytes that are received from each of them in one; `store`: what they store to, or NULL.
   */
  void *(*ready_loop_new)(int32_t epoll, size_t most, size_t receive, const void *store, int64_t timeout_ms);
  void (*ready_loop_free)(void *ready_loop);
  /**
   * Serves a session from now on. PYRMQ_NONE if the descriptor cannot be watched, or is already.
   */
  int32_t (*ready_loop_watch)(void *ready_loop, void *session, int32_t fd);
  void (*ready_loop_forget)(void *ready_loop, int32_t fd);
  /**
   * Sends the answers that a watched session keeps once they are confirmed. PYRMQ_NONE if that is
   * left to others: it is not watched, or stores nothing, or what is written is confirmed.
   */
  int32_t (*ready_loop_keep)(void *ready_loop, int32_t fd);
  /**
   * For all sessions that are ready: receives, feeds, writes what they stored and sends what they
   * answer; round after round, until something is left to do.
   */
  int32_t (*ready_loop_serve)(void *ready_loop, const pyrmq_serve *serve, pyrmq_served *out);
  void *(*answer_sender_new)(void);
  void (*answer_sender_free)(void *sender);
  /**
   * As session_send_released, for many sessions.
   */
  int32_t (*answer_sender_send)(void *sender,
                                const pyrmq_addressee *to,
                                size_t n,
                                int64_t now_ms,
                                int64_t timeout_ms,
                                pyrmq_left_list *out);
  /**
   * `sql`: a compiled SQL92 expression that properties have to satisfy, or NULL. Without `wait`
   * what is found before the first place that is not in memory is given.
   */
  int32_t (*store_get)(const void *store,
                       const uint8_t *topic,
                       size_t topic_len,
                       uint32_t queue_id,
                       int64_t offset,
                       uint32_t max_count,
                       uint32_t max_bytes,
                       const int32_t *tags,
                       size_t n_tags,
                       const void *sql,
                       uint8_t wait,
                       pyrmq_get *out,
                       pyrmq_chunk *chunks,
                       size_t n_chunks);
  /**
   * Writes what is staged into the commit log and dispatches it. `arrivals`: as in pyrmq_report.
   */
  int32_t (*store_write_staged)(const void *store, uint8_t *arrivals);
  /**
   * 0; 1: the disk is slow, a write may take long; 2: one takes longer than
   * osPageCacheBusyTimeOutMills, messages are refused (SYSTEM_BUSY).
   */
  int32_t (*store_stall)(const void *store);
  /**
   * Asks that the queue's next message be reported as an arrival, once.
   */
  int32_t (*store_notify_on_arrival)(const void *store,
                                     const uint8_t *topic,
                                     size_t topic_len,
                                     uint32_t queue_id);
  void (*chunk_release)(const void *segment);
  /**
   * Positions of the 20-byte entries whose tag hash is one of `tags`, and how many there are.
   */
  size_t (*scan_tags)(const uint8_t *entries,
                      size_t len,
                      const int32_t *tags,
                      size_t n_tags,
                      uint32_t *out,
                      size_t n_out);
  /**
   * Of the last PYRMQ_FAILED or PYRMQ_UNREADABLE on this thread.
   */
  int32_t (*error_text)(pyrmq_bytes *text);
} pyrmq_capi;

#define PYRMQ_CAPI_NAME "pyrmq._native._C_API"

/* The engine states the same layouts. */
_Static_assert(sizeof(pyrmq_bytes) == 16, "pyrmq_bytes");
_Static_assert(offsetof(pyrmq_bytes, ptr) == 0, "pyrmq_bytes.ptr");
_Static_assert(offsetof(pyrmq_bytes, len) == 8, "pyrmq_bytes.len");
_Static_assert(sizeof(pyrmq_report) == 16, "pyrmq_report");
_Static_assert(offsetof(pyrmq_report, commands) == 0, "pyrmq_report.commands");
_Static_assert(offsetof(pyrmq_report, unconfirmed) == 4, "pyrmq_report.unconfirmed");
_Static_assert(offsetof(pyrmq_report, full) == 8, "pyrmq_report.full");
_Static_assert(offsetof(pyrmq_report, more) == 9, "pyrmq_report.more");
_Static_assert(offsetof(pyrmq_report, arrivals) == 10, "pyrmq_report.arrivals");
_Static_assert(offsetof(pyrmq_report, large) == 11, "pyrmq_report.large");
_Static_assert(offsetof(pyrmq_report, heavy) == 12, "pyrmq_report.heavy");
_Static_assert(offsetof(pyrmq_report, tls) == 13, "pyrmq_report.tls");
_Static_assert(offsetof(pyrmq_report, pending) == 14, "pyrmq_report.pending");
_Static_assert(sizeof(pyrmq_received) == 32, "pyrmq_received");
_Static_assert(offsetof(pyrmq_received, out) == 0, "pyrmq_received.out");
_Static_assert(offsetof(pyrmq_received, received) == 16, "pyrmq_received.received");
_Static_assert(offsetof(pyrmq_received, failed) == 24, "pyrmq_received.failed");
_Static_assert(sizeof(pyrmq_piece) == 24, "pyrmq_piece");
_Static_assert(offsetof(pyrmq_piece, bytes) == 0, "pyrmq_piece.bytes");
_Static_assert(offsetof(pyrmq_piece, mapped) == 16, "pyrmq_piece.mapped");
_Static_assert(sizeof(pyrmq_sent) == 32, "pyrmq_sent");
_Static_assert(offsetof(pyrmq_sent, rest) == 0, "pyrmq_sent.rest");
_Static_assert(offsetof(pyrmq_sent, taken) == 16, "pyrmq_sent.taken");
_Static_assert(offsetof(pyrmq_sent, failed) == 24, "pyrmq_sent.failed");
_Static_assert(sizeof(pyrmq_command) == 104, "pyrmq_command");
_Static_assert(offsetof(pyrmq_command, code) == 0, "pyrmq_command.code");
_Static_assert(offsetof(pyrmq_command, opaque) == 4, "pyrmq_command.opaque");
_Static_assert(offsetof(pyrmq_command, flag) == 8, "pyrmq_command.flag");
_Static_assert(offsetof(pyrmq_command, language) == 12, "pyrmq_command.language");
_Static_assert(offsetof(pyrmq_command, version) == 16, "pyrmq_command.version");
_Static_assert(offsetof(pyrmq_command, codec) == 20, "pyrmq_command.codec");
_Static_assert(offsetof(pyrmq_command, n_ext) == 24, "pyrmq_command.n_ext");
_Static_assert(offsetof(pyrmq_command, has_remark) == 28, "pyrmq_command.has_remark");
_Static_assert(offsetof(pyrmq_command, remark) == 32, "pyrmq_command.remark");
_Static_assert(offsetof(pyrmq_command, body) == 48, "pyrmq_command.body");
_Static_assert(offsetof(pyrmq_command, frame) == 64, "pyrmq_command.frame");
_Static_assert(offsetof(pyrmq_command, subject) == 80, "pyrmq_command.subject");
_Static_assert(offsetof(pyrmq_command, since_us) == 96, "pyrmq_command.since_us");
_Static_assert(sizeof(pyrmq_ready) == 8, "pyrmq_ready");
_Static_assert(offsetof(pyrmq_ready, fd) == 0, "pyrmq_ready.fd");
_Static_assert(offsetof(pyrmq_ready, events) == 4, "pyrmq_ready.events");
_Static_assert(sizeof(pyrmq_serve) == 32, "pyrmq_serve");
_Static_assert(offsetof(pyrmq_serve, active) == 0, "pyrmq_serve.active");
_Static_assert(offsetof(pyrmq_serve, end_ns) == 8, "pyrmq_serve.end_ns");
_Static_assert(offsetof(pyrmq_serve, linger_ns) == 16, "pyrmq_serve.linger_ns");
_Static_assert(offsetof(pyrmq_serve, hold) == 24, "pyrmq_serve.hold");
_Static_assert(offsetof(pyrmq_serve, others_keep) == 25, "pyrmq_serve.others_keep");
_Static_assert(offsetof(pyrmq_serve, finish) == 26, "pyrmq_serve.finish");
_Static_assert(sizeof(pyrmq_left) == 32, "pyrmq_left");
_Static_assert(offsetof(pyrmq_left, key) == 0, "pyrmq_left.key");
_Static_assert(offsetof(pyrmq_left, status) == 4, "pyrmq_left.status");
_Static_assert(offsetof(pyrmq_left, failed) == 8, "pyrmq_left.failed");
_Static_assert(offsetof(pyrmq_left, ended) == 12, "pyrmq_left.ended");
_Static_assert(offsetof(pyrmq_left, called) == 13, "pyrmq_left.called");
_Static_assert(offsetof(pyrmq_left, rest) == 16, "pyrmq_left.rest");
_Static_assert(sizeof(pyrmq_served) == 56, "pyrmq_served");
_Static_assert(offsetof(pyrmq_served, others) == 0, "pyrmq_served.others");
_Static_assert(offsetof(pyrmq_served, n_others) == 8, "pyrmq_served.n_others");
_Static_assert(offsetof(pyrmq_served, left) == 16, "pyrmq_served.left");
_Static_assert(offsetof(pyrmq_served, n_left) == 24, "pyrmq_served.n_left");
_Static_assert(offsetof(pyrmq_served, waiting) == 32, "pyrmq_served.waiting");
_Static_assert(offsetof(pyrmq_served, rounds) == 40, "pyrmq_served.rounds");
_Static_assert(offsetof(pyrmq_served, written) == 44, "pyrmq_served.written");
_Static_assert(offsetof(pyrmq_served, idle) == 48, "pyrmq_served.idle");
_Static_assert(offsetof(pyrmq_served, arrivals) == 49, "pyrmq_served.arrivals");
_Static_assert(offsetof(pyrmq_served, confirmed) == 50, "pyrmq_served.confirmed");
_Static_assert(sizeof(pyrmq_addressee) == 16, "pyrmq_addressee");
_Static_assert(offsetof(pyrmq_addressee, session) == 0, "pyrmq_addressee.session");
_Static_assert(offsetof(pyrmq_addressee, fd) == 8, "pyrmq_addressee.fd");
_Static_assert(sizeof(pyrmq_left_list) == 16, "pyrmq_left_list");
_Static_assert(offsetof(pyrmq_left_list, left) == 0, "pyrmq_left_list.left");
_Static_assert(offsetof(pyrmq_left_list, n_left) == 8, "pyrmq_left_list.n_left");
_Static_assert(sizeof(pyrmq_chunk) == 24, "pyrmq_chunk");
_Static_assert(offsetof(pyrmq_chunk, segment) == 0, "pyrmq_chunk.segment");
_Static_assert(offsetof(pyrmq_chunk, ptr) == 8, "pyrmq_chunk.ptr");
_Static_assert(offsetof(pyrmq_chunk, len) == 16, "pyrmq_chunk.len");
_Static_assert(sizeof(pyrmq_get) == 48, "pyrmq_get");
_Static_assert(offsetof(pyrmq_get, status) == 0, "pyrmq_get.status");
_Static_assert(offsetof(pyrmq_get, count) == 4, "pyrmq_get.count");
_Static_assert(offsetof(pyrmq_get, n_chunks) == 8, "pyrmq_get.n_chunks");
_Static_assert(offsetof(pyrmq_get, next) == 16, "pyrmq_get.next");
_Static_assert(offsetof(pyrmq_get, min) == 24, "pyrmq_get.min");
_Static_assert(offsetof(pyrmq_get, max) == 32, "pyrmq_get.max");
_Static_assert(offsetof(pyrmq_get, bytes) == 40, "pyrmq_get.bytes");

#endif  /* PYRMQ_CAPI_H */
