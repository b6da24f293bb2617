/* Makes chosen system calls fail: a library for LD_PRELOAD.
 *
 * It stands in front of the C library's file calls and counts those that concern a path below one
 * folder, per kind and path: threads take turns as they like, but what happens to one file happens
 * in an order. An armed fault makes call number `at` of its kind on paths of a pattern fail with an
 * errno, or all from that one on, or makes a write short, or holds the calls up until it is disarmed
 * (a slow disk: they succeed then). Descriptors are resolved through
 * /proc/self/fd, addresses through a table of the shared file mappings seen so far. Whatever
 * concerns other paths goes straight through.
 *
 * It is controlled from inside the process (ctypes): nothing happens before
 * `failing_calls_watch`. Counters and the fault are inherited by a fork.
 *
 * Flushes are counted but not carried out (nobody pulls the plug here); what a successful one
 * covered and no later write changed is remembered, so that an acknowledgement can be held against
 * it. A flush of a descriptor covers all of its file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, FTRUNCATE, FALLOCATE, FSYNC, FDATASYNC, MSYNC, SYNC_FILE_RANGE,
            RENAME, UNLINK, MKDIR, MMAP, MADVISE, OPENDIR, READDIR, STAT, KINDS };

/* In the order of `enum kind`; the driver reads the names from here. */
static const char *const NAMES =
    "open read write ftruncate fallocate fsync fdatasync msync sync_file_range rename unlink "
    "mkdir mmap madvise opendir readdir stat";

enum { ONCE = 0, STICKY = 1, SHORT = 2, HELD = 3 };
enum { PASS = 0, HALF = -1 };
enum { MAX_MAPS = 4096, MAX_SYNCS = 65536, MAX_HITS = 64, MAX_PLACES = 4096, MAX_PATTERN = 512 };

struct map { char *path; char *start; size_t length; off_t offset; };
struct sync { char *path; size_t from, to; };
struct place { char *path; int kind; long count; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static struct place places[MAX_PLACES];
static int place_count;
static struct {
    int kind;
    char pattern[MAX_PATTERN];
    long at, seen;
    int error, mode;
} fault = { .kind = -1 };
static long fired;
static char hits[MAX_HITS][PATH_MAX];
static struct map maps[MAX_MAPS];
static struct sync syncs[MAX_SYNCS];
static int sync_count;

/* -- control ------------------------------------------------------------------------------------ */

const char *failing_calls_kinds(void) { return NAMES; }

/* Counts and fails calls below `folder` (absolute, without a slash at its end); "": no more. */
void failing_calls_watch(const char *folder)
{
    pthread_mutex_lock(&lock);
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    pthread_mutex_unlock(&lock);
}

/* Sets all counters to 0 and the fault to come: call number `at` of a kind on paths that fit a
 * pattern (fnmatch, below the folder; "." is the folder itself). Kind -1: none. */
void failing_calls_arm(int kind, const char *pattern, long at, int error, int mode)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < place_count; i++)
        free(places[i].path);
    place_count = 0;
    fault.kind = kind;
    snprintf(fault.pattern, sizeof fault.pattern, "%s", pattern);
    fault.at = at;
    fault.seen = 0;
    fault.error = error;
    fault.mode = mode;
    fired = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* No more faults; counters and what was hit stay. */
void failing_calls_disarm(void)
{
    pthread_mutex_lock(&lock);
    fault.kind = -1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* The `i`th path (below the folder) that calls of some kind were made on, and how many; NULL
 * beyond the last. */
const char *failing_calls_place(int i, int *kind, long *count)
{
    const char *path = NULL;
    pthread_mutex_lock(&lock);
    if (i >= 0 && i < place_count) {
        path = places[i].path;
        *kind = places[i].kind;
        *count = places[i].count;
    }
    pthread_mutex_unlock(&lock);
    return path;
}

/* How many calls were failed. */
long failing_calls_fired(void)
{
    pthread_mutex_lock(&lock);
    long n = fired;
    pthread_mutex_unlock(&lock);
    return n;
}

/* The path of the `i`th failed call, "" beyond the last that was kept. */
const char *failing_calls_hit(long i)
{
    return i >= 0 && i < failing_calls_fired() && i < MAX_HITS ? hits[i] : "";
}

/* The `i`th range of a file that successful flushes covered; NULL beyond the last. */
const char *failing_calls_range(int i, size_t *from, size_t *to)
{
    const char *path = NULL;
    pthread_mutex_lock(&lock);
    if (i >= 0 && i < sync_count) {
        path = syncs[i].path;
        *from = syncs[i].from;
        *to = syncs[i].to;
    }
    pthread_mutex_unlock(&lock);
    return path;
}

/* Whether successful flushes together covered bytes [from, to) of a file. */
int failing_calls_synced(const char *path, size_t from, size_t to)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < sync_count && from < to; i++) {
        if (syncs[i].from <= from && from < syncs[i].to && strcmp(syncs[i].path, path) == 0) {
            from = syncs[i].to;
            i = -1;
        }
    }
    pthread_mutex_unlock(&lock);
    return from >= to;
}

/* -- decisions ---------------------------------------------------------------------------------- */

static int below_root(const char *path)
{
    return root_length && strncmp(path, root, root_length) == 0 &&
           (path[root_length] == 0 || path[root_length] == '/');
}

/* The file of a descriptor, if it lies below the root. */
static int fd_path(int fd, char *path)
{
    char link[64];
    if (!root_length || fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = 0;
    return below_root(path);
}

static void count(enum kind kind, const char *below)
{
    int i = 0;
    while (i < place_count && (places[i].kind != (int)kind || strcmp(places[i].path, below)))
        i++;
    if (i == MAX_PLACES) {
        fprintf(stderr, "failing_calls: more than %d places\n", MAX_PLACES);
        abort();
    }
    if (i == place_count)
        places[place_count++] = (struct place){ strdup(below), kind, 0 };
    places[i].count++;
}

/* PASS, HALF or the errno to fail with. */
static int decide(enum kind kind, const char *path)
{
    int verdict = PASS;
    const char *below = path[root_length] ? path + root_length + 1 : ".";
    pthread_mutex_lock(&lock);
    count(kind, below);
    if (fault.kind == (int)kind && fnmatch(fault.pattern, below, 0) == 0) {
        long n = ++fault.seen;
        if (fault.mode == HELD) {
            fired += n >= fault.at;
            while (n >= fault.at && fault.kind == (int)kind && fault.mode == HELD)
                pthread_cond_wait(&changed, &lock);
        } else if (fault.mode == SHORT)
            verdict = n == fault.at ? HALF : n == fault.at + 1 ? fault.error : PASS;
        else if (n == fault.at || (fault.mode == STICKY && n > fault.at))
            verdict = fault.error;
        if (verdict != PASS) {
            if (fired < MAX_HITS)
                snprintf(hits[fired], PATH_MAX, "%s", path);
            fired++;
        }
    }
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* Whether a call without a short form is to fail; sets errno. */
static int fails(enum kind kind, const char *path)
{
    int verdict = decide(kind, path);
    if (verdict > 0)
        errno = verdict;
    return verdict > 0;
}

static int path_fails(enum kind kind, const char *path)
{
    return path && below_root(path) && fails(kind, path);
}

static int fd_fails(enum kind kind, int fd)
{
    char path[PATH_MAX];
    return fd_path(fd, path) && fails(kind, path);
}

static void remember_sync(const char *path, size_t from, size_t to)
{
    pthread_mutex_lock(&lock);
    for (int i = sync_count - 1; i >= 0; i--) {
        if (strcmp(syncs[i].path, path) == 0 && from <= syncs[i].to && syncs[i].from <= to) {
            syncs[i].from = from < syncs[i].from ? from : syncs[i].from;
            syncs[i].to = to > syncs[i].to ? to : syncs[i].to;
            pthread_mutex_unlock(&lock);
            return;
        }
    }
    if (sync_count == MAX_SYNCS) {
        fprintf(stderr, "failing_calls: more than %d flushed ranges\n", MAX_SYNCS);
        abort();
    }
    syncs[sync_count++] = (struct sync){ strdup(path), from, to };
    pthread_mutex_unlock(&lock);
}

/* Bytes [from, to) of a file were written: no flush has covered them. The caller has the lock. */
static void forget_sync(const char *path, size_t from, size_t to)
{
    for (int i = sync_count - 1; i >= 0; i--) {
        struct sync old = syncs[i];
        if (strcmp(old.path, path) || old.to <= from || to <= old.from)
            continue;
        syncs[i].to = old.from < from ? from : old.from;
        if (to < old.to && sync_count < MAX_SYNCS)
            syncs[sync_count++] = (struct sync){ strdup(path), to, old.to };
    }
}

/* Flushes of watched files are not carried out: 0 without a call. */
static int flush(enum kind kind, int fd, int *result)
{
    char path[PATH_MAX];
    if (!fd_path(fd, path))
        return 0;
    *result = fails(kind, path) ? -1 : 0;
    if (!*result)
        remember_sync(path, 0, SIZE_MAX);
    return 1;
}

/* The definition that this one stands in front of. */
#define REAL(name)                                                     \
    static __typeof__(name) *real;                                     \
    if (!real)                                                         \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* -- opening and names -------------------------------------------------------------------------- */

#define MODE(flags)                                                    \
    mode_t mode = 0;                                                   \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                           \
        va_list rest;                                                  \
        va_start(rest, flags);                                         \
        mode = va_arg(rest, mode_t);                                   \
        va_end(rest);                                                  \
    }

#define DEFINE_OPEN(name)                                              \
    int name(const char *path, int flags, ...)                         \
    {                                                                  \
        REAL(name);                                                    \
        MODE(flags);                                                   \
        return path_fails(OPEN, path) ? -1 : real(path, flags, mode);  \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                            \
    int name(int dir, const char *path, int flags, ...)                \
    {                                                                  \
        REAL(name);                                                    \
        MODE(flags);                                                   \
        int bad = path[0] == '/' ? path_fails(OPEN, path) : fd_fails(OPEN, dir); \
        return bad ? -1 : real(dir, path, flags, mode);                \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int rename(const char *from, const char *to)
{
    REAL(rename);
    return path_fails(RENAME, from) ? -1 : real(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    REAL(renameat);
    int bad = from[0] == '/' ? path_fails(RENAME, from) : fd_fails(RENAME, from_dir);
    return bad ? -1 : real(from_dir, from, to_dir, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    return path_fails(UNLINK, path) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return path_fails(MKDIR, path) ? -1 : real(path, mode);
}

DIR *opendir(const char *path)
{
    REAL(opendir);
    return path_fails(OPENDIR, path) ? NULL : real(path);
}

#define DEFINE_READDIR(name, entry)                                    \
    struct entry *name(DIR *dir)                                       \
    {                                                                  \
        REAL(name);                                                    \
        return fd_fails(READDIR, dirfd(dir)) ? NULL : real(dir);       \
    }
DEFINE_READDIR(readdir, dirent)
DEFINE_READDIR(readdir64, dirent64)

#define DEFINE_STAT(name, form)                                        \
    int name(const char *path, struct form *out)                       \
    {                                                                  \
        REAL(name);                                                    \
        return path_fails(STAT, path) ? -1 : real(path, out);          \
    }
DEFINE_STAT(stat, stat)
DEFINE_STAT(stat64, stat64)

#define DEFINE_FSTAT(name, form)                                       \
    int name(int fd, struct form *out)                                 \
    {                                                                  \
        REAL(name);                                                    \
        return fd_fails(STAT, fd) ? -1 : real(fd, out);                \
    }
DEFINE_FSTAT(fstat, stat)
DEFINE_FSTAT(fstat64, stat64)

int statx(int dir, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict out)
{
    REAL(statx);
    /* Rust's library probes with a null path, which the prototype says cannot be. */
    const char *volatile given = path;
    const char *name = given ? given : "";
    int bad = name[0] == '/' ? path_fails(STAT, name) : fd_fails(STAT, dir);
    return bad ? -1 : real(dir, path, flags, mask, out);
}

/* -- content ------------------------------------------------------------------------------------ */

ssize_t read(int fd, void *data, size_t n)
{
    REAL(read);
    return fd_fails(READ, fd) ? -1 : real(fd, data, n);
}

/* Half of `n` bytes, all of them, or an error (-1): the length to go on with. */
static ssize_t length_of_write(int fd, size_t n)
{
    char path[PATH_MAX];
    int verdict = fd_path(fd, path) ? decide(WRITE, path) : PASS;
    if (verdict > 0) {
        errno = verdict;
        return -1;
    }
    return verdict == HALF ? (ssize_t)(n / 2) : (ssize_t)n;
}

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(write);
    ssize_t length = length_of_write(fd, n);
    return length < 0 ? -1 : real(fd, data, length);
}

#define DEFINE_PWRITE(name, offset_t)                                  \
    ssize_t name(int fd, const void *data, size_t n, offset_t at)      \
    {                                                                  \
        REAL(name);                                                    \
        ssize_t length = length_of_write(fd, n);                       \
        if (length < 0)                                                \
            return -1;                                                 \
        char path[PATH_MAX];                                           \
        if (!fd_path(fd, path))                                        \
            return real(fd, data, length, at);                         \
        /* Both under the lock: a flush between them would count for what it missed. */ \
        pthread_mutex_lock(&lock);                                     \
        ssize_t written = real(fd, data, length, at);                  \
        if (written > 0)                                               \
            forget_sync(path, at, at + written);                       \
        pthread_mutex_unlock(&lock);                                   \
        return written;                                                \
    }
DEFINE_PWRITE(pwrite, off_t)
DEFINE_PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    REAL(writev);
    size_t first = count > 0 ? pieces[0].iov_len : 0;
    ssize_t length = length_of_write(fd, first);
    if (length < 0)
        return -1;
    return (size_t)length == first ? real(fd, pieces, count)
                                   : write(fd, pieces[0].iov_base, length);
}

#define DEFINE_FTRUNCATE(name, offset_t)                               \
    int name(int fd, offset_t size)                                    \
    {                                                                  \
        REAL(name);                                                    \
        return fd_fails(FTRUNCATE, fd) ? -1 : real(fd, size);          \
    }
DEFINE_FTRUNCATE(ftruncate, off_t)
DEFINE_FTRUNCATE(ftruncate64, off64_t)

#define DEFINE_FALLOCATE(name, offset_t)                               \
    int name(int fd, int mode, offset_t at, offset_t n)                \
    {                                                                  \
        REAL(name);                                                    \
        return fd_fails(FALLOCATE, fd) ? -1 : real(fd, mode, at, n);   \
    }
DEFINE_FALLOCATE(fallocate, off_t)
DEFINE_FALLOCATE(fallocate64, off64_t)

int fsync(int fd)
{
    REAL(fsync);
    int result;
    return flush(FSYNC, fd, &result) ? result : real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    int result;
    return flush(FDATASYNC, fd, &result) ? result : real(fd);
}

int sync_file_range(int fd, off64_t from, off64_t n, unsigned flags)
{
    REAL(sync_file_range);
    int result;
    return flush(SYNC_FILE_RANGE, fd, &result) ? result : real(fd, from, n, flags);
}

/* -- mappings ----------------------------------------------------------------------------------- */

static void remember_map(const char *path, char *start, size_t length, off_t offset)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_MAPS; i++) {
        if (!maps[i].path) {
            maps[i] = (struct map){ strdup(path), start, length, offset };
            pthread_mutex_unlock(&lock);
            return;
        }
    }
    fprintf(stderr, "failing_calls: more than %d mappings\n", MAX_MAPS);
    abort();
}

/* The mapping that holds an address; its path is copied. */
static int map_of(const void *address, struct map *found, char *path)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    for (; i < MAX_MAPS; i++) {
        if (maps[i].path && (const char *)address >= maps[i].start &&
            (const char *)address < maps[i].start + maps[i].length) {
            *found = maps[i];
            snprintf(path, PATH_MAX, "%s", maps[i].path);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return i < MAX_MAPS && below_root(path);
}

#define DEFINE_MMAP(name, offset_t)                                    \
    void *name(void *at, size_t n, int protection, int flags, int fd, offset_t offset) \
    {                                                                  \
        REAL(name);                                                    \
        char path[PATH_MAX];                                           \
        if ((flags & MAP_ANONYMOUS) || !(flags & MAP_SHARED) || !fd_path(fd, path)) \
            return real(at, n, protection, flags, fd, offset);         \
        if (fails(MMAP, path))                                         \
            return MAP_FAILED;                                         \
        void *start = real(at, n, protection, flags, fd, offset);      \
        if (start != MAP_FAILED)                                       \
            remember_map(path, start, n, offset);                      \
        return start;                                                  \
    }
DEFINE_MMAP(mmap, off_t)
DEFINE_MMAP(mmap64, off64_t)

int munmap(void *start, size_t n)
{
    REAL(munmap);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_MAPS && root_length; i++) {
        if (maps[i].path && maps[i].start >= (char *)start &&
            maps[i].start + maps[i].length <= (char *)start + ((n + 4095) & ~(size_t)4095)) {
            free(maps[i].path);
            maps[i].path = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return real(start, n);
}

int msync(void *start, size_t n, int flags)
{
    REAL(msync);
    struct map map;
    char path[PATH_MAX];
    if (!root_length || !map_of(start, &map, path))
        return real(start, n, flags);
    if (fails(MSYNC, path))
        return -1;
    size_t from = map.offset + ((char *)start - map.start);
    if (flags & MS_SYNC)
        remember_sync(path, from, from + n);
    return 0;
}

int madvise(void *start, size_t n, int advice)
{
    REAL(madvise);
    struct map map;
    char path[PATH_MAX];
    if (root_length && map_of(start, &map, path) && fails(MADVISE, path))
        return -1;
    return real(start, n, advice);
}
