/*
 * What a test puts under the agent with LD_PRELOAD: a clock that can be set, and a
 * disk that can be stopped.
 *
 * SHIM_CLOCK  a file with a number of nanoseconds, 8 bytes in the host's order,
 *             that CLOCK_REALTIME is off by
 * SHIM_STALL  while there is a file of that name, writes to files wait
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile int64_t *offset;
static const char *stall;

__attribute__((constructor)) static void prepare(void)
{
    const char *name = getenv("SHIM_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

    stall = getenv("SHIM_STALL");
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

/* Only files: what is written to standard error, and to sockets, goes on. */
static int is_stalled(int file)
{
    struct stat stat;

    return stall && file > 2 && fstat(file, &stat) == 0 && S_ISREG(stat.st_mode) &&
           access(stall, F_OK) == 0;
}

ssize_t write(int file, const void *bytes, size_t count)
{
    while (is_stalled(file))
        usleep(2000);
    return syscall(SYS_write, file, bytes, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    while (is_stalled(file))
        usleep(2000);
    return syscall(SYS_pwrite64, file, bytes, count, at);
}
