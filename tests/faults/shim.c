/* Stands between a server and the C library: fails, delays and lies on request, and notes what a power
 * cut would undo. Built by shim.py, loaded with LD_PRELOAD. Only files below $SHIM_ROOT are touched.
 *
 * $SHIM_CONTROL  a small file, shared with the test: see struct control and shim.py
 * $SHIM_UNDO     a log of what is not durable yet: the old bytes of every write, every change of a name,
 *                and every sync; powercut.py reads it. Files that lose their last name get another one
 *                beside it, so that their bytes can come back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t full;          /* writes that need more room fail with ENOSPC */
    volatile int64_t fail_sync;     /* the n-th sync of the journal from now fails with EIO; 0: none */
    volatile int64_t delay_sync_us; /* every sync of the journal takes so much longer */
    volatile int64_t clock_us;      /* added to the wall clock */
    volatile int64_t fail_again;    /* and, if that did not end the process, so many syncs later again */
    volatile int64_t failed;        /* how many syncs failed by our doing */
    volatile int64_t refused;       /* how many writes found no room by our doing */
};

enum { WRITE = 1, SYNC, SYNC_FAILED, CREATE, RENAME, UNLINK, SYNC_NAMES };

struct record {
    uint32_t kind, path_bytes;
    uint64_t inode, position, bytes, size;
};

#define SECTOR 512
static struct control none, *control = &none;
static char root[4096], undo[4096];
static int undo_fd = -1;
static uint64_t saved_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void setup(void) {
    const char *path = getenv("SHIM_CONTROL"), *below = getenv("SHIM_ROOT"), *log = getenv("SHIM_UNDO");
    if (below) snprintf(root, sizeof root, "%s/", below);
    if (path) {
        int fd = REAL(open64)(path, O_RDWR | O_CLOEXEC);
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) control = at;
        if (fd >= 0) REAL(close)(fd);
    }
    if (log) {
        snprintf(undo, sizeof undo, "%s", log);
        undo_fd = REAL(open64)(undo, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        saved_count = (uint64_t)getpid() << 32;
    }
}

static int ready(void) { pthread_once(&once, setup); return root[0] != 0; }

/* Whether the file is below the root; its path goes into `path` (4096 bytes). */
static int ours(int fd, char *path) {
    char link[64];
    if (!ready()) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    if (n <= 0) return 0;
    path[n] = 0;
    return !strncmp(path, root, strlen(root)) || (!strncmp(path, root, n) && root[n] == '/' && !root[n + 1]);
}

static int is_journal(const char *path) { return strstr(path, "/journal/") != NULL; }
static int is_kept(const char *path) { return strstr(path, "/journal") || strstr(path, "/cold"); }

static void note(uint32_t kind, const char *path, uint64_t inode, uint64_t position, uint64_t bytes,
                 uint64_t size, const void *data) {
    struct record head = {kind, (uint32_t)strlen(path), inode, position, bytes, size};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.path_bytes}, {(void *)data, bytes}};
    if (undo_fd >= 0) (void)!REAL(writev)(undo_fd, parts, data ? 3 : 2);
}

static uint64_t now_at(void) { return undo_fd < 0 ? 0 : (uint64_t)lseek(undo_fd, 0, SEEK_END); }

/* Before a write: whether there is room for it, and what it will overwrite. Returns -1 with errno set. */
static int before_write(int fd, off_t position, size_t bytes) {
    char path[4096];
    struct stat status;
    if (!bytes || !ready() || fd == undo_fd || (undo_fd < 0 && !control->full)) return 0;
    if (!ours(fd, path) || fstat(fd, &status) || !S_ISREG(status.st_mode)) return 0;
    if (position < 0) position = lseek(fd, 0, SEEK_CUR);
    if (control->full && position + (off_t)bytes > status.st_size) {
        __sync_fetch_and_add(&control->refused, 1);
        errno = ENOSPC;
        return -1;
    }
    if (undo_fd < 0 || !is_kept(path)) return 0;
    off_t start = position / SECTOR * SECTOR, end = (position + bytes + SECTOR - 1) / SECTOR * SECTOR;
    off_t stop = end < status.st_size ? end : status.st_size;
    char *old = NULL;
    if (stop > start && (old = malloc(stop - start))) {
        int copy = REAL(open64)(path, O_RDONLY | O_CLOEXEC); /* the file may be open for direct I/O */
        if (copy >= 0) {
            if (pread64(copy, old, stop - start, start) != stop - start) stop = start;
            REAL(close)(copy);
        }
    }
    if (stop > start) note(WRITE, path, status.st_ino, start, stop - start, 0, old);
    free(old);
    /* What it adds to the file: a record of its own, without old bytes, up to `size`. */
    if (position + (off_t)bytes > status.st_size)
        note(WRITE, path, status.st_ino, status.st_size, 0, position + bytes, NULL);
    return 0;
}

#define WRITING(call, fd, position, bytes)              \
    pthread_mutex_lock(&lock);                          \
    ssize_t done = before_write(fd, position, bytes);   \
    if (!done) done = call;                             \
    int kept = errno;                                   \
    pthread_mutex_unlock(&lock);                        \
    errno = kept;                                       \
    return done

static size_t total(const struct iovec *parts, int count) {
    size_t sum = 0;
    for (int n = 0; n < count; n++) sum += parts[n].iov_len;
    return sum;
}

/* Sockets and pipes come through here as well: they go on at once, since a write to them may block. */
static int plain(int fd) {
    struct stat status;
    return !ready() || fstat(fd, &status) || !S_ISREG(status.st_mode);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    if (plain(fd)) return REAL(write)(fd, data, bytes);
    WRITING(REAL(write)(fd, data, bytes), fd, -1, bytes);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    WRITING(REAL(pwrite)(fd, data, bytes, at), fd, at, bytes);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
    WRITING(REAL(pwrite64)(fd, data, bytes, at), fd, at, bytes);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    WRITING(REAL(pwritev64v2)(fd, parts, count, at, flags), fd, at, total(parts, count));
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    WRITING(REAL(pwritev64)(fd, parts, count, at), fd, at, total(parts, count));
}

static int syncing(int fd, int (*sync)(int)) {
    char path[4096];
    struct stat status;
    if (!ours(fd, path) || fstat(fd, &status)) return sync(fd);
    int journal = is_journal(path) && S_ISREG(status.st_mode);
    uint64_t upto = now_at();
    if (journal && control->delay_sync_us) usleep(control->delay_sync_us);
    if (journal && control->fail_sync > 0 && __sync_sub_and_fetch(&control->fail_sync, 1) == 0) {
        /* As ext4, XFS and Btrfs do it: the pages count as clean from now on and are not on the disk. */
        __sync_fetch_and_add(&control->failed, 1);
        control->fail_sync = control->fail_again;
        note(SYNC_FAILED, path, status.st_ino, upto, 0, 0, NULL);
        errno = EIO;
        return -1;
    }
    int result = undo_fd < 0 ? sync(fd) : 0; /* a real sync would only cost time: the log decides */
    if (!result) note(S_ISDIR(status.st_mode) ? SYNC_NAMES : SYNC, path, status.st_ino, upto, 0, 0, NULL);
    return result;
}
int fsync(int fd) { return syncing(fd, REAL(fsync)); }
int fdatasync(int fd) { return syncing(fd, REAL(fdatasync)); }

/* An absolute path below the root and worth keeping, or 0. */
static int named(int folder, const char *name, char *path) {
    if (!ready() || undo_fd < 0) return 0;
    if (name[0] == '/') {
        snprintf(path, 4096, "%s", name);
    } else {
        char above[4096];
        if (folder == AT_FDCWD ? !getcwd(above, sizeof above) : !ours(folder, above)) return 0;
        if (snprintf(path, 4096, "%s/%s", above, name) >= 4096) return 0;
    }
    return !strncmp(path, root, strlen(root)) && is_kept(path);
}

/* Give a file that is about to lose this name another one; the name goes into `saved`. */
static void save(const char *path, char *saved) {
    saved[0] = 0;
    snprintf(saved, 4200, "%s.%llu", undo, (unsigned long long)++saved_count);
    if (REAL(linkat)(AT_FDCWD, path, AT_FDCWD, saved, 0)) saved[0] = 0;
}

static int opening(int folder, const char *name, int flags, mode_t mode) {
    char path[4096];
    struct stat status;
    int kept = (flags & O_CREAT) && named(folder, name, path), fresh = kept && lstat(path, &status);
    int fd = REAL(openat64)(folder, name, flags, mode);
    if (fd >= 0 && fresh && !fstat(fd, &status)) note(CREATE, path, status.st_ino, 0, 0, 0, NULL);
    return fd;
}
#define MODE(flags)                                     \
    mode_t mode = 0;                                    \
    if ((flags) & (O_CREAT | O_TMPFILE)) {              \
        va_list more;                                   \
        va_start(more, flags);                          \
        mode = va_arg(more, mode_t);                    \
        va_end(more);                                   \
    }
int open64(const char *name, int flags, ...) { MODE(flags) return opening(AT_FDCWD, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return opening(folder, name, flags, mode); }

int renameat(int from, const char *old, int to, const char *new) {
    char a[4096], b[4096], saved[4200] = "", both[8300];
    int kept = named(to, new, b) && named(from, old, a);
    struct stat status;
    if (kept && !lstat(b, &status)) save(b, saved);
    int result = REAL(renameat)(from, old, to, new);
    if (!result && kept && !lstat(b, &status)) {
        size_t bytes = snprintf(both, sizeof both, "%s%c%s", a, '\n', saved);
        note(RENAME, b, status.st_ino, 0, bytes, 0, both);
    }
    return result;
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
    char path[4096];
    struct stat status;
    int result = REAL(linkat)(from, old, to, new, flags);
    if (!result && named(to, new, path) && !lstat(path, &status)) note(CREATE, path, 0, 0, 0, 0, NULL);
    return result;
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int folder, const char *name, int flags) {
    char path[4096], saved[4200] = "";
    int kept = !(flags & AT_REMOVEDIR) && named(folder, name, path);
    if (kept) save(path, saved);
    int result = REAL(unlinkat)(folder, name, flags);
    if (!result && kept) note(UNLINK, path, 0, 0, strlen(saved), 0, saved);
    return result;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

int statvfs64(const char *path, struct statvfs64 *into) {
    int result = REAL(statvfs64)(path, into);
    if (!result && ready() && control->full) into->f_bavail = into->f_bfree = 0;
    return result;
}

int clock_gettime(clockid_t id, struct timespec *into) {
    int result = REAL(clock_gettime)(id, into);
    if (!result && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) && ready() && control->clock_us) {
        int64_t ns = into->tv_nsec + control->clock_us % 1000000 * 1000;
        into->tv_sec += control->clock_us / 1000000 + (ns < 0 ? -1 : ns / 1000000000);
        into->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    }
    return result;
}
int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    *into = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return result;
}
time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
