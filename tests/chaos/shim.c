/* Preloaded into a daemon: syncs that are slow or fail, and a wall clock that jumps.

   What to do stands in a page shared with the test (see shim.py), so it changes at run time.
   The monotonic clock is left alone: no machine's jumps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    volatile int64_t wall_offset_ns;
    volatile int64_t sync_delay_us;
    volatile int64_t sync_errno;
    int64_t syncs_hit;
};

static struct page *page;

__attribute__((constructor)) static void open_page(void) {
    const char *path = getenv("CHAOS_PAGE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) page = at;
    close(fd);
}

static int sync_fault(void) {
    if (!page || (!page->sync_delay_us && !page->sync_errno)) return 0;
    __atomic_add_fetch(&page->syncs_hit, 1, __ATOMIC_RELAXED);
    if (page->sync_delay_us) usleep((useconds_t)page->sync_delay_us);
    return (int)page->sync_errno;
}

#define SYNC(name)                                            \
    int name(int fd) {                                        \
        static int (*real)(int);                              \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        int fault = sync_fault();                             \
        if (!fault) return real(fd);                          \
        errno = fault;                                        \
        return -1;                                            \
    }

SYNC(fsync)
SYNC(fdatasync)

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, out);
    if (result || clock != CLOCK_REALTIME || !page || !page->wall_offset_ns) return result;
    int64_t now = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + page->wall_offset_ns;
    out->tv_sec = now / 1000000000;
    out->tv_nsec = now % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
