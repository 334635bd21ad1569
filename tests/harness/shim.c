/*
 * What a test puts under the agent with LD_PRELOAD: a clock that can be set, a disk
 * that can be stopped or filled, and an end at any step.
 *
 * SHIM_CLOCK  a file with a number of nanoseconds, 8 bytes in the host's order,
 *             that CLOCK_REALTIME is off by
 * SHIM_STALL  while there is a file of that name, writes to files wait
 * SHIM_FULL   set: a limit on the size of files (setrlimit(2)) is the end of the disk
 * SHIM_KILL   a number n: instead of changing anything in the file system for the
 *             nth time, the process kills itself
 * SHIM_THREAD the name of a thread: only its changes are counted, so that their
 *             order does not depend on the others
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile int64_t *offset;
static const char *stall;
static int is_limit_full;
static atomic_long steps_left;
static const char *counted_thread;

__attribute__((constructor)) static void prepare(void)
{
    const char *name = getenv("SHIM_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

    stall = getenv("SHIM_STALL");
    is_limit_full = getenv("SHIM_FULL") != NULL;
    if (getenv("SHIM_KILL"))
        steps_left = atol(getenv("SHIM_KILL"));
    counted_thread = getenv("SHIM_THREAD");
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED)
        abort();
    offset = map;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);

    if (result == 0 && clock == CLOCK_REALTIME && offset) {
        int64_t now = time->tv_sec * SECOND + time->tv_nsec + *offset;
        time->tv_sec = now / SECOND;
        time->tv_nsec = now % SECOND;
    }
    return result;
}

static void step(void)
{
    char thread[16] = "";

    prctl(PR_GET_NAME, thread);
    if (counted_thread && strcmp(thread, counted_thread) != 0)
        return;
    if (atomic_fetch_sub(&steps_left, 1) == 1)
        kill(getpid(), SIGKILL);
}

/* Only files: what is written to standard error, and to sockets, goes on. */
static int is_file(int file)
{
    struct stat stat;

    return file > 2 && fstat(file, &stat) == 0 && S_ISREG(stat.st_mode);
}

static void before_write(int file)
{
    if (!is_file(file))
        return;
    while (stall && access(stall, F_OK) == 0)
        usleep(2000);
    step();
}

static ssize_t after_write(ssize_t result)
{
    if (result < 0 && errno == EFBIG && is_limit_full)
        errno = ENOSPC;
    return result;
}

ssize_t write(int file, const void *bytes, size_t count)
{
    before_write(file);
    return after_write(syscall(SYS_write, file, bytes, count));
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    before_write(file);
    return after_write(syscall(SYS_pwrite64, file, bytes, count, at));
}

int open64(const char *name, int flags, ...)
{
    va_list rest;
    mode_t mode = 0;

    if (flags & (O_CREAT | O_TRUNC)) {
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
        step();
    }
    return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

int ftruncate64(int file, off64_t size)
{
    step();
    return (int)syscall(SYS_ftruncate, file, size);
}

int rename(const char *from, const char *to)
{
    step();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *name)
{
    step();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0);
}

int unlinkat(int directory, const char *name, int flags)
{
    step();
    return (int)syscall(SYS_unlinkat, directory, name, flags);
}

int mkdir(const char *name, mode_t mode)
{
    step();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode);
}

int rmdir(const char *name)
{
    step();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, name, AT_REMOVEDIR);
}
