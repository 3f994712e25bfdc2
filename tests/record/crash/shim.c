/* Preloaded before the C library: logs the calls that change the files of one folder and makes one of them fail.
 *
 * Python and native code are seen alike. The test arms it through `shim_arm` and reads the log file that the
 * environment names in SHIM_LOG; SHIM_FOLDER is the folder. A failure hits the call of a given number, counted from
 * the arming on: FULL and EIO return an error, SHORT writes half of what was asked for, KILL ends the process.
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
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, FULL, EIO_ERROR, SHORT, KILL };
enum { GO_ON, FAIL, HALF };

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
    if (number != armed_at) return GO_ON;
    switch (kind) {
        case FULL: errno = ENOSPC; return FAIL;
        case EIO_ERROR: errno = EIO; return FAIL;
        case SHORT: return HALF;
        case KILL: raise(SIGKILL);
    }
    return GO_ON;
}

static int on_descriptor(const char *call, int descriptor, size_t bytes) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return GO_ON;
    path[length] = 0;
    return watched(path) ? enter(call, path, bytes) : GO_ON;
}

static int on_path(const char *call, const char *path) { return watched(path) ? enter(call, path, 0) : GO_ON; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRITE(name, parameters, arguments, halved)                          \
    ssize_t name parameters {                                               \
        int what = on_descriptor("write", descriptor, count);               \
        if (what == FAIL) return -1;                                        \
        return what == HALF && count > 1 ? REAL(name) halved : REAL(name) arguments; \
    }
WRITE(write, (int descriptor, const void *data, size_t count), (descriptor, data, count), (descriptor, data, count / 2))
WRITE(pwrite, (int descriptor, const void *data, size_t count, off_t at), (descriptor, data, count, at), (descriptor, data, count / 2, at))
WRITE(pwrite64, (int descriptor, const void *data, size_t count, off64_t at), (descriptor, data, count, at), (descriptor, data, count / 2, at))

static size_t total(const struct iovec *parts, int number) {
    size_t bytes = 0;
    for (int i = 0; i < number; i++) bytes += parts[i].iov_len;
    return bytes;
}

#define WRITE_MANY(name, parameters, arguments, halved)                                \
    ssize_t name parameters {                                                          \
        int what = on_descriptor("write", descriptor, total(parts, number));           \
        if (what == FAIL) return -1;                                                   \
        struct iovec first = {parts[0].iov_base, (parts[0].iov_len + 1) / 2};          \
        return what == HALF ? REAL(name) halved : REAL(name) arguments;                \
    }
WRITE_MANY(writev, (int descriptor, const struct iovec *parts, int number), (descriptor, parts, number), (descriptor, &first, 1))
WRITE_MANY(pwritev, (int descriptor, const struct iovec *parts, int number, off_t at), (descriptor, parts, number, at), (descriptor, &first, 1, at))
WRITE_MANY(pwritev64, (int descriptor, const struct iovec *parts, int number, off64_t at), (descriptor, parts, number, at), (descriptor, &first, 1, at))
WRITE_MANY(pwritev2, (int descriptor, const struct iovec *parts, int number, off_t at, int flags), (descriptor, parts, number, at, flags), (descriptor, &first, 1, at, flags))

#define ON_DESCRIPTOR(call, name, parameters, arguments) \
    int name parameters { return on_descriptor(call, descriptor, 0) == FAIL ? -1 : REAL(name) arguments; }
ON_DESCRIPTOR("fsync", fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR("fsync", fdatasync, (int descriptor), (descriptor))
ON_DESCRIPTOR("truncate", ftruncate, (int descriptor, off_t length), (descriptor, length))
ON_DESCRIPTOR("truncate", ftruncate64, (int descriptor, off64_t length), (descriptor, length))
ON_DESCRIPTOR("allocate", fallocate, (int descriptor, int mode, off_t at, off_t length), (descriptor, mode, at, length))
ON_DESCRIPTOR("allocate", fallocate64, (int descriptor, int mode, off64_t at, off64_t length), (descriptor, mode, at, length))

#define ON_PATH(call, name, path, parameters, arguments) \
    int name parameters { return on_path(call, path) == FAIL ? -1 : REAL(name) arguments; }
ON_PATH("rename", rename, to, (const char *from, const char *to), (from, to))
ON_PATH("rename", renameat, to, (int below, const char *from, int other, const char *to), (below, from, other, to))
ON_PATH("rename", renameat2, to, (int below, const char *from, int other, const char *to, unsigned flags), (below, from, other, to, flags))
ON_PATH("link", link, to, (const char *from, const char *to), (from, to))
ON_PATH("unlink", unlink, path, (const char *path), (path))
ON_PATH("unlink", unlinkat, path, (int below, const char *path, int flags), (below, path, flags))
ON_PATH("mkdir", mkdir, path, (const char *path, mode_t mode), (path, mode))

#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        va_list rest;                                                       \
        va_start(rest, flags);                                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                       \
        if (flags & O_CREAT && on_path("create", path) == FAIL) return -1;  \
        return REAL(name)(path, flags, mode);                               \
    }
OPEN(open)
OPEN(open64)
