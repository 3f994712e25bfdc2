/* Preloaded before the C library: logs the calls that change the files of one folder and makes one of them fail.
 *
 * Python and native code are seen alike. The test arms it through `shim_arm` and reads the log file that the
 * environment names in SHIM_LOG; SHIM_FOLDER is the folder. A failure hits the call of a given number, counted from
 * the arming on: FULL and EIO return an error, and so does EINTR of calls that may be interrupted; SHORT writes half of
 * what was asked for, KILL ends the process. FILLED is a disk that stays full: what takes space fails from that call on. Armed at JOURNAL, all that is changed is written to the file SHIM_JOURNAL, with the data,
 * for `replay.py`: a line `OPERATION INODE PLACE BYTES LENGTH LENGTH`, and behind it two paths of these lengths and the bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, FULL, EIO_ERROR, SHORT, KILL, INTERRUPTED, FILLED };
enum { GO_ON, FAIL, HALF };
enum { JOURNAL = -2 };

static atomic_int armed_at = -1, kind = NONE, counter = 0;

__attribute__((visibility("default"))) void shim_arm(int at, int failure) {
    counter = 0;
    kind = failure;
    armed_at = at;
}

__attribute__((visibility("default"))) int shim_count(void) { return counter; }

static int watched(const char *path) {
    const char *folder = getenv("SHIM_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int takes_space(const char *call) {
    return !strcmp(call, "write") || !strcmp(call, "create") || !strcmp(call, "mkdir") || !strcmp(call, "allocate");
}

/* Count and log one call; say what becomes of it. */
static int enter(const char *call, const char *path, size_t bytes) {
    int number = counter++;
    const char *log = getenv("SHIM_LOG");
    if (log) {
        char line[PATH_MAX + 100];
        int length = snprintf(line, sizeof line, "%d %s %zu %s\n", number, call, bytes, path);
        int file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0) {
            (void)!syscall(SYS_write, file, line, (size_t)length);
            syscall(SYS_close, file);
        }
    }
    if (kind == FILLED && armed_at >= 0 && number >= armed_at && takes_space(call)) {
        errno = ENOSPC;
        return FAIL;
    }
    if (number != armed_at) return GO_ON;
    switch (kind) {
        case FULL: errno = ENOSPC; return FAIL;
        case EIO_ERROR: errno = EIO; return FAIL;
        case SHORT: return HALF;
        case KILL: raise(SIGKILL); break;
        case INTERRUPTED:
            if (strcmp(call, "write") && strcmp(call, "create")) return GO_ON;
            errno = EINTR;
            return FAIL;
    }
    return GO_ON;
}

static int path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

static void journal(char operation, int descriptor, const char *from, const char *to, const void *data, size_t count, long long at) {
    const char *name = getenv("SHIM_JOURNAL");
    char path[PATH_MAX];
    if (!name || armed_at != JOURNAL) return;
    if (descriptor >= 0 ? !path_of(descriptor, path) || !watched(path) : !watched(from)) return;
    struct stat status = {0};
    (void)(descriptor >= 0 ? fstat(descriptor, &status) : lstat(from, &status));
    if (descriptor >= 0) from = path;
    size_t first = from ? strlen(from) : 0, second = to ? strlen(to) : 0;
    char *record = malloc(200 + first + second + count);
    size_t length = (size_t)sprintf(
        record, "%c %llu %lld %zu %zu %zu\n", operation, (unsigned long long)status.st_ino, at, count, first, second);
    if (first) memcpy(record + length, from, first);
    if (second) memcpy(record + length + first, to, second);
    if (count) memcpy(record + length + first + second, data, count);
    int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    (void)!syscall(SYS_write, file, record, length + first + second + count);
    syscall(SYS_close, file);
    free(record);
}

static int on_descriptor(const char *call, int descriptor, size_t bytes) {
    char path[PATH_MAX];
    return path_of(descriptor, path) && watched(path) ? enter(call, path, bytes) : GO_ON;
}

static int on_path(const char *call, const char *path) { return watched(path) ? enter(call, path, 0) : GO_ON; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long long position(int descriptor) {
    struct stat status;
    if (fcntl(descriptor, F_GETFL) & O_APPEND) return fstat(descriptor, &status) ? 0 : (long long)status.st_size;
    return (long long)lseek(descriptor, 0, SEEK_CUR);
}

#define WRITE(name, parameters, arguments, halved, place)                               \
    ssize_t name parameters {                                                           \
        int what = on_descriptor("write", descriptor, count);                           \
        if (what == FAIL) return -1;                                                    \
        long long where = place;                                                        \
        ssize_t done = what == HALF && count > 1 ? REAL(name) halved : REAL(name) arguments; \
        int error = errno;                                                              \
        if (done > 0) journal('W', descriptor, NULL, NULL, data, (size_t)done, where);  \
        errno = error;                                                                  \
        return done;                                                                    \
    }
WRITE(write, (int descriptor, const void *data, size_t count), (descriptor, data, count), (descriptor, data, count / 2), position(descriptor))
WRITE(pwrite, (int descriptor, const void *data, size_t count, off_t at), (descriptor, data, count, at), (descriptor, data, count / 2, at), at)
WRITE(pwrite64, (int descriptor, const void *data, size_t count, off64_t at), (descriptor, data, count, at), (descriptor, data, count / 2, at), at)

static size_t total(const struct iovec *parts, int number) {
    size_t bytes = 0;
    for (int i = 0; i < number; i++) bytes += parts[i].iov_len;
    return bytes;
}

static void journal_parts(int descriptor, const struct iovec *parts, size_t left, long long at) {
    for (; left; parts++) {
        size_t count = parts->iov_len < left ? parts->iov_len : left;
        if (count) journal('W', descriptor, NULL, NULL, parts->iov_base, count, at);
        left -= count;
        at += (long long)count;
    }
}

#define WRITE_MANY(name, parameters, arguments, halved, place)                         \
    ssize_t name parameters {                                                          \
        int what = on_descriptor("write", descriptor, total(parts, number));           \
        if (what == FAIL) return -1;                                                   \
        long long where = place;                                                       \
        struct iovec first = {parts[0].iov_base, (parts[0].iov_len + 1) / 2};          \
        ssize_t done = what == HALF ? REAL(name) halved : REAL(name) arguments;        \
        int error = errno;                                                             \
        if (done > 0) journal_parts(descriptor, parts, (size_t)done, where);           \
        errno = error;                                                                 \
        return done;                                                                   \
    }
WRITE_MANY(writev, (int descriptor, const struct iovec *parts, int number), (descriptor, parts, number), (descriptor, &first, 1), position(descriptor))
WRITE_MANY(pwritev, (int descriptor, const struct iovec *parts, int number, off_t at), (descriptor, parts, number, at), (descriptor, &first, 1, at), at)
WRITE_MANY(pwritev64, (int descriptor, const struct iovec *parts, int number, off64_t at), (descriptor, parts, number, at), (descriptor, &first, 1, at), at)
WRITE_MANY(pwritev2, (int descriptor, const struct iovec *parts, int number, off_t at, int flags), (descriptor, parts, number, at, flags), (descriptor, &first, 1, at, flags), at)

#define ON_DESCRIPTOR(call, name, parameters, arguments, operation, length)                      \
    int name parameters {                                                                        \
        if (on_descriptor(call, descriptor, 0) == FAIL) return -1;                               \
        int failed = REAL(name) arguments, error = errno;                                        \
        if (!failed) journal(operation, descriptor, NULL, NULL, NULL, 0, (long long)(length));   \
        errno = error;                                                                           \
        return failed;                                                                           \
    }
ON_DESCRIPTOR("fsync", fsync, (int descriptor), (descriptor), 'S', 0)
ON_DESCRIPTOR("fsync", fdatasync, (int descriptor), (descriptor), 'S', 0)
ON_DESCRIPTOR("truncate", ftruncate, (int descriptor, off_t length), (descriptor, length), 'T', length)
ON_DESCRIPTOR("truncate", ftruncate64, (int descriptor, off64_t length), (descriptor, length), 'T', length)
ON_DESCRIPTOR("allocate", fallocate, (int descriptor, int mode, off_t at, off_t length), (descriptor, mode, at, length), 'A', at + length)
ON_DESCRIPTOR("allocate", fallocate64, (int descriptor, int mode, off64_t at, off64_t length), (descriptor, mode, at, length), 'A', at + length)

/* The whole path of a name below a directory that is open. */
static const char *below(int directory, const char *path, char *whole) {
    if (path[0] == '/' || directory == AT_FDCWD || !path_of(directory, whole)) return path;
    size_t length = strlen(whole);
    snprintf(whole + length, PATH_MAX - length, "/%s", path);
    return whole;
}

#define ON_PATH(call, name, parameters, arguments, operation, first, second)             \
    int name parameters {                                                                \
        char one[PATH_MAX], other[PATH_MAX];                                             \
        (void)one, (void)other;                                                          \
        const char *from = first, *to = second;                                          \
        if (on_path(call, to ? to : from) == FAIL) return -1;                            \
        int failed = REAL(name) arguments, error = errno;                                \
        if (!failed) journal(operation, -1, from, to, NULL, 0, 0);                       \
        errno = error;                                                                   \
        return failed;                                                                   \
    }
ON_PATH("rename", rename, (const char *old, const char *new), (old, new), 'R', old, new)
ON_PATH("rename", renameat, (int in, const char *old, int at, const char *new), (in, old, at, new), 'R', below(in, old, one), below(at, new, other))
ON_PATH("rename", renameat2, (int in, const char *old, int at, const char *new, unsigned flags), (in, old, at, new, flags), flags & RENAME_EXCHANGE ? 'X' : 'R', below(in, old, one), below(at, new, other))
ON_PATH("link", link, (const char *old, const char *new), (old, new), 'L', old, new)
ON_PATH("unlink", unlink, (const char *path), (path), 'U', path, NULL)
ON_PATH("unlink", unlinkat, (int in, const char *path, int flags), (in, path, flags), 'U', below(in, path, one), NULL)
ON_PATH("unlink", rmdir, (const char *path), (path), 'U', path, NULL)
ON_PATH("mkdir", mkdir, (const char *path, mode_t mode), (path, mode), 'M', path, NULL)

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        if (flags & O_CREAT && on_path("create", path) == FAIL) return -1;      \
        int descriptor = REAL(name)(path, flags, mode), error = errno;          \
        if (descriptor >= 0 && flags & O_CREAT) journal('C', -1, path, NULL, NULL, 0, (flags & O_TRUNC) != 0); \
        errno = error;                                                          \
        return descriptor;                                                      \
    }
OPEN(open)
OPEN(open64)
