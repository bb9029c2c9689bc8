/* Counts what is made durable: preloaded, it stands before the C library's fsync and fdatasync. */
#define _GNU_SOURCE
#include <dlfcn.h>

static long calls;

long sync_calls(void) { return calls; }

int fsync(int fd)
{
    calls++;
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd)
{
    calls++;
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
