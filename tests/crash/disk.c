/* A disk that fails, and one whose power may be cut. Preloaded, it stands before the calls that write files or make them
   durable, and knows those of one folder (DISK_FOLDER).

   DISK_CONTROL names a file of `struct control`, shared with the test: calls with numbers in [from, until) fail with
   `error`. DISK_SHADOW, where set, names a folder that has each file as of its last sync: what a power cut leaves. A file's
   name is durable only when its folder was synced after it; until then its copy is called NAME.unnamed, and one whose
   removal is not durable NAME.gone. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct control { long calls, from, until, error, failed; };

static struct control *control;
static const char *folder, *shadow;
static pthread_mutex_t copying = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("DISK_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    folder = getenv("DISK_FOLDER");
    shadow = getenv("DISK_SHADOW");
    control = map == MAP_FAILED || !folder ? NULL : map;
    if (fd >= 0)
        close(fd);
}

/* The path of `fd` if it is the folder or in it, else "". */
static const char *known(int fd, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = control ? readlink(link, path, PATH_MAX) : -1;
    path[length > 0 ? length : 0] = 0;
    size_t prefix = control ? strlen(folder) : 0;
    return length > 0 && !strncmp(path, folder, prefix) && (!path[prefix] || path[prefix] == '/') ? path : "";
}

/* Whether this call is to fail; errno says how. */
static int fails(int fd)
{
    char path[PATH_MAX + 1];
    if (!*known(fd, path))
        return 0;
    long number = __atomic_fetch_add(&control->calls, 1, __ATOMIC_SEQ_CST);
    if (number < control->from || number >= control->until)
        return 0;
    control->failed++;
    errno = (int)control->error;
    return 1;
}

static void copy(int fd, const char *name)
{
    char young[PATH_MAX], old[PATH_MAX], block[65536];
    snprintf(old, sizeof old, "%s/%s", shadow, name);
    snprintf(young, sizeof young, "%s/copy", shadow);
    if (access(old, F_OK))
        snprintf(old, sizeof old, "%s/%s.unnamed", shadow, name);
    int to = open(young, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t count;
    for (off_t at = 0; (count = pread(fd, block, sizeof block, at)) > 0; at += count)
        if (write(to, block, (size_t)count) != count)
            abort();
    close(to);
    REAL(rename)(young, old);
}

/* The folder was synced: names and removals are durable. */
static void name_all(void)
{
    char from[PATH_MAX], to[PATH_MAX];
    DIR *all = opendir(shadow);
    for (struct dirent *one; all && (one = readdir(all));) {
        char *unnamed = strstr(one->d_name, ".unnamed");
        snprintf(from, sizeof from, "%s/%s", shadow, one->d_name);
        snprintf(to, sizeof to, "%s/%.*s", shadow, unnamed ? (int)(unnamed - one->d_name) : 0, one->d_name);
        if (unnamed)
            REAL(rename)(from, to);
        else if (strstr(one->d_name, ".gone"))
            REAL(unlink)(from);
    }
    if (all)
        closedir(all);
}

static int synced(int fd, int result)
{
    char path[PATH_MAX + 1];
    struct stat status;
    if (result || !shadow || !*known(fd, path) || fstat(fd, &status))
        return result;
    pthread_mutex_lock(&copying);
    if (S_ISDIR(status.st_mode))
        name_all();
    else
        copy(fd, strrchr(path, '/') + 1);
    pthread_mutex_unlock(&copying);
    return result;
}

ssize_t write(int fd, const void *data, size_t size) { return fails(fd) ? -1 : REAL(write)(fd, data, size); }

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return fails(fd) ? -1 : REAL(pwrite)(fd, data, size, at); }

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    return fails(fd) ? -1 : REAL(pwrite64)(fd, data, size, at);
}

/* What a name's change is to the copies: `from` of the folder is called `end` behind `to` from now on. */
static int renamed(const char *from, const char *to, const char *end, int result)
{
    char old[PATH_MAX], young[PATH_MAX];
    if (result || !control || !shadow || strncmp(from, folder, strlen(folder)))
        return result;
    pthread_mutex_lock(&copying);
    snprintf(young, sizeof young, "%s%s%s", shadow, strrchr(to, '/'), end);
    snprintf(old, sizeof old, "%s%s", shadow, strrchr(from, '/'));
    if (REAL(rename)(old, young)) {
        snprintf(old, sizeof old, "%s%s.unnamed", shadow, strrchr(from, '/'));
        REAL(rename)(old, young);
    }
    pthread_mutex_unlock(&copying);
    return result;
}

int rename(const char *from, const char *to) { return renamed(from, to, ".unnamed", REAL(rename)(from, to)); }

int unlink(const char *path) { return renamed(path, path, ".gone", REAL(unlink)(path)); }

int fsync(int fd) { return fails(fd) ? -1 : synced(fd, REAL(fsync)(fd)); }

int fdatasync(int fd) { return fails(fd) ? -1 : synced(fd, REAL(fdatasync)(fd)); }
