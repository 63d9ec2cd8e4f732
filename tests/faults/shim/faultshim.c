/* A library to preload into a Linux process under test.
 *
 * It numbers the libc calls that change a disk, and at a chosen one kills the process, lets the call fail, or writes only
 * half of what was to be written. It can also take the fractions of a second out of every stat result, so that a file
 * system with coarse times can be had anywhere.
 *
 * A preloaded process arms itself (shim_arm, through ctypes, so that one warmed process can be forked for every point) or
 * is armed by variables:
 *     SHIM_AT=12 SHIM_ACT=kill|fail|half|tear [SHIM_ERRNO=28] [SHIM_FOREVER=1]    what happens at call 12
 *     SHIM_LOG=file                                                               one line for every call
 *     SHIM_SECONDS=1                                                              whole seconds in stat results
 * Calls on descriptors 0 to 2 do not count. Programs that make their system calls without libc are not seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum act { NOTHING = 0, KILL = 1, FAIL = 2, HALF = 3, TEAR = 4 };
enum verdict { PASS, REFUSE, SHORTEN, SHORTEN_AND_DIE };

static atomic_long counted, fired;
static long wanted;          /* 0: only count; < 0: asleep */
static int action, failure, forever, log_fd = -1, whole_seconds;

__attribute__((visibility("default"))) void shim_arm(long at, int act, int error, int on_and_on)
{
    atomic_store(&counted, 0);
    atomic_store(&fired, 0);
    action = act;
    failure = error;
    forever = on_and_on;
    wanted = at;
}

__attribute__((visibility("default"))) void shim_rest(void) { wanted = -1; }
__attribute__((visibility("default"))) long shim_counted(void) { return atomic_load(&counted); }
__attribute__((visibility("default"))) long shim_fired(void) { return atomic_load(&fired); }
__attribute__((visibility("default"))) void shim_round(int on) { whole_seconds = on; }

static long number(const char *name, long otherwise)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? atol(value) : otherwise;
}

__attribute__((constructor)) static void start(void)
{
    static const char *const names[] = {"nothing", "kill", "fail", "half", "tear"};
    const char *act = getenv("SHIM_ACT"), *log = getenv("SHIM_LOG");

    whole_seconds = number("SHIM_SECONDS", 0) != 0;
    wanted = -1;
    if (log != NULL)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (int i = 0; act != NULL && i < 5; i++)
        if (strcmp(act, names[i]) == 0)
            shim_arm(number("SHIM_AT", 0), i, (int)number("SHIM_ERRNO", EIO), number("SHIM_FOREVER", 0) != 0);
}

static void die(void)
{
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;)
        syscall(SYS_pause);
}

static enum verdict reached(const char *call, const char *path)
{
    long here, at = wanted;

    if (at < 0 && log_fd < 0)
        return PASS;
    here = atomic_fetch_add(&counted, 1) + 1;
    if (log_fd >= 0) {
        char line[600];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", here, call, path != NULL ? path : "-");
        if (length > (int)sizeof line - 1)
            length = (int)sizeof line - 1;
        syscall(SYS_write, log_fd, line, length);
    }
    if (at <= 0 || !(here == at || (forever && here > at)))
        return PASS;
    atomic_fetch_add(&fired, 1);
    switch (action) {
    case KILL:
        die();
        return PASS;
    case FAIL:
        errno = failure;
        return REFUSE;
    case HALF:
        return SHORTEN;
    case TEAR:
        return SHORTEN_AND_DIE;
    default:
        return PASS;
    }
}

/* For calls that cannot be done by half, half is whole, and torn is dead. */
static int refused(const char *call, const char *path)
{
    enum verdict verdict = reached(call, path);

    if (verdict == SHORTEN_AND_DIE)
        die();
    return verdict == REFUSE;
}

#define EXPORT __attribute__((visibility("default")))
#define NEXT(name) \
    static __typeof__(name) *next; \
    if (next == NULL) \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
/* DO(name, path, (parameters), (arguments)): a call that returns int and is refused or passed on. */
#define DO(name, path, parameters, arguments) \
    EXPORT int name parameters \
    { \
        NEXT(name); \
        if (refused(#name, path)) \
            return -1; \
        return next arguments; \
    }

DO(fsync, NULL, (int fd), (fd))
DO(fdatasync, NULL, (int fd), (fd))
DO(syncfs, NULL, (int fd), (fd))
DO(msync, NULL, (void *at, size_t length, int flags), (at, length, flags))
DO(unlink, path, (const char *path), (path))
DO(unlinkat, path, (int dir, const char *path, int flags), (dir, path, flags))
DO(rmdir, path, (const char *path), (path))
DO(rename, to, (const char *from, const char *to), (from, to))
DO(renameat, to, (int dir, const char *from, int dir2, const char *to), (dir, from, dir2, to))
DO(renameat2, to, (int dir, const char *from, int dir2, const char *to, unsigned flags), (dir, from, dir2, to, flags))
DO(link, to, (const char *from, const char *to), (from, to))
DO(linkat, to, (int dir, const char *from, int dir2, const char *to, int flags), (dir, from, dir2, to, flags))
DO(symlink, to, (const char *target, const char *to), (target, to))
DO(symlinkat, to, (const char *target, int dir, const char *to), (target, dir, to))
DO(mkdir, path, (const char *path, mode_t mode), (path, mode))
DO(mkdirat, path, (int dir, const char *path, mode_t mode), (dir, path, mode))
DO(mknod, path, (const char *path, mode_t mode, dev_t device), (path, mode, device))
DO(mknodat, path, (int dir, const char *path, mode_t mode, dev_t device), (dir, path, mode, device))
DO(chmod, path, (const char *path, mode_t mode), (path, mode))
DO(fchmod, NULL, (int fd, mode_t mode), (fd, mode))
DO(fchmodat, path, (int dir, const char *path, mode_t mode, int flags), (dir, path, mode, flags))
DO(utimensat, path, (int dir, const char *path, const struct timespec times[2], int flags), (dir, path, times, flags))
DO(futimens, NULL, (int fd, const struct timespec times[2]), (fd, times))
DO(setxattr, path, (const char *path, const char *name, const void *value, size_t size, int flags), (path, name, value, size, flags))
DO(fsetxattr, NULL, (int fd, const char *name, const void *value, size_t size, int flags), (fd, name, value, size, flags))
DO(removexattr, path, (const char *path, const char *name), (path, name))
DO(fremovexattr, NULL, (int fd, const char *name), (fd, name))
DO(truncate64, path, (const char *path, off64_t length), (path, length))
DO(ftruncate64, NULL, (int fd, off64_t length), (fd, length))
DO(posix_fallocate64, NULL, (int fd, off64_t offset, off64_t length), (fd, offset, length))
EXPORT int truncate(const char *path, off_t length) { return truncate64(path, length); }
EXPORT int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

EXPORT void sync(void)
{
    NEXT(sync);
    if (!refused("sync", NULL))
        next();
}

/* -- calls that carry bytes */

EXPORT ssize_t write(int fd, const void *data, size_t length)
{
    NEXT(write);
    enum verdict verdict = fd <= 2 || fd == log_fd ? PASS : reached("write", NULL);
    ssize_t done;

    if (verdict == REFUSE)
        return -1;
    done = next(fd, data, verdict >= SHORTEN && length > 1 ? length / 2 : length);
    if (verdict == SHORTEN_AND_DIE)
        die();
    return done;
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset)
{
    NEXT(pwrite64);
    enum verdict verdict = reached("pwrite", NULL);
    ssize_t done;

    if (verdict == REFUSE)
        return -1;
    done = next(fd, data, verdict >= SHORTEN && length > 1 ? length / 2 : length, offset);
    if (verdict == SHORTEN_AND_DIE)
        die();
    return done;
}
EXPORT ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }

static int fewer(enum verdict verdict, int parts) { return verdict >= SHORTEN && parts > 1 ? parts / 2 : parts; }

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
    NEXT(writev);
    enum verdict verdict = fd <= 2 ? PASS : reached("writev", NULL);
    ssize_t done;

    if (verdict == REFUSE)
        return -1;
    done = next(fd, parts, fewer(verdict, count));
    if (verdict == SHORTEN_AND_DIE)
        die();
    return done;
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    NEXT(pwritev64);
    enum verdict verdict = reached("pwritev", NULL);
    ssize_t done;

    if (verdict == REFUSE)
        return -1;
    done = next(fd, parts, fewer(verdict, count), offset);
    if (verdict == SHORTEN_AND_DIE)
        die();
    return done;
}
EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return pwritev64(fd, parts, count, offset); }

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    NEXT(pwritev64v2);
    return refused("pwritev2", NULL) ? -1 : next(fd, parts, count, offset, flags);
}

EXPORT ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t length, unsigned flags)
{
    NEXT(copy_file_range);
    return refused("copy_file_range", NULL) ? -1 : next(in, from, out, to, length, flags);
}

extern ssize_t sendfile64(int out, int in, off64_t *offset, size_t length);
EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t length)
{
    NEXT(sendfile64);
    return refused("sendfile", NULL) ? -1 : next(out, in, offset, length);
}

/* -- open: counted when it may create or cut a file */

static int opened(int dir, const char *path, int flags, mode_t mode)
{
    int makes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;

    if (makes && refused("open", path))
        return -1;
    return (int)syscall(SYS_openat, dir, path, flags | (sizeof(void *) == 4 ? O_LARGEFILE : 0), mode);
}
#define MODE_ARGUMENT \
    mode_t mode = 0; \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }
EXPORT int open(const char *path, int flags, ...) { MODE_ARGUMENT return opened(AT_FDCWD, path, flags, mode); }
EXPORT int open64(const char *path, int flags, ...) { MODE_ARGUMENT return opened(AT_FDCWD, path, flags, mode); }
EXPORT int openat(int dir, const char *path, int flags, ...) { MODE_ARGUMENT return opened(dir, path, flags, mode); }
EXPORT int openat64(int dir, const char *path, int flags, ...) { MODE_ARGUMENT return opened(dir, path, flags, mode); }

/* -- stat: never counted; times without fractions where that is asked for */

#define STAT(name, parameters, arguments) \
    EXPORT int name parameters \
    { \
        NEXT(name); \
        int answer = next arguments; \
        if (answer == 0 && whole_seconds) \
            to->st_mtim.tv_nsec = to->st_ctim.tv_nsec = 0; \
        return answer; \
    }
STAT(stat, (const char *path, struct stat *to), (path, to))
STAT(lstat, (const char *path, struct stat *to), (path, to))
STAT(fstat, (int fd, struct stat *to), (fd, to))
STAT(fstatat, (int dir, const char *path, struct stat *to, int flags), (dir, path, to, flags))
STAT(stat64, (const char *path, struct stat64 *to), (path, to))
STAT(lstat64, (const char *path, struct stat64 *to), (path, to))
STAT(fstat64, (int fd, struct stat64 *to), (fd, to))
STAT(fstatat64, (int dir, const char *path, struct stat64 *to, int flags), (dir, path, to, flags))

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *to)
{
    NEXT(statx);
    int answer = next(dir, path, flags, mask, to);

    if (answer == 0 && whole_seconds)
        to->stx_mtime.tv_nsec = to->stx_ctime.tv_nsec = 0;
    return answer;
}
