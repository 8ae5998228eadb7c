/* Preloaded: makes one system call on a folder's files fail, the one whose turn it is.
 *
 * fault_arm(n, error) makes the n-th call from now on (from 0) fail with that errno; fault_calls() counts those since.
 * Calls on other files than those below the folder that KNEE_FAULTS names are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long turn = LONG_MAX, calls;
static atomic_int given = EIO;
static char hit[64];

void fault_arm(long n, int error)
{
	given = error;
	calls = 0;
	hit[0] = 0;
	turn = n;
}

long fault_calls(void)
{
	return calls;
}

const char *fault_hit(void)
{
	return hit;
}

static int below(const char *path)
{
	const char *folder = getenv("KNEE_FAULTS");

	return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_below(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return below(path);
}

/* Whether this call is the one that fails; errno is set then. */
static int fails(int ours, const char *name)
{
	if (!ours || turn == LONG_MAX || atomic_fetch_add(&calls, 1) != turn)
		return 0;
	snprintf(hit, sizeof(hit), "%s", name);
	errno = given;
	return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
	return fails(is_below(fd), "write") ? -1 : REAL(write)(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	return fails(is_below(fd), "pwrite") ? -1 : REAL(pwrite64)(fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	return fails(is_below(fd), "writev") ? -1 : REAL(writev)(fd, parts, count);
}

int fsync(int fd)
{
	return fails(is_below(fd), "fsync") ? -1 : REAL(fsync)(fd);
}

#define MMAP(name)                                                             \
	void *name(void *at, size_t size, int protection, int flags, int fd,   \
		   off_t offset)                                               \
	{                                                                      \
		if (fd >= 0 && fails(is_below(fd), "mmap"))                    \
			return MAP_FAILED;                                     \
		return REAL(name)(at, size, protection, flags, fd, offset);    \
	}
MMAP(mmap)
MMAP(mmap64)

int mkdir(const char *path, mode_t mode)
{
	return fails(below(path), "mkdir") ? -1 : REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to)
{
	return fails(below(from), "rename") ? -1 : REAL(rename)(from, to);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags)
{
	return fails(below(from), "renameat2") ? -1 : REAL(renameat2)(from_at, from, to_at, to, flags);
}

static int creates(int flags)
{
	return (flags & O_CREAT) != 0 || (flags & O_ACCMODE) != O_RDONLY;
}

#define OPEN(name)                                                             \
	int name(const char *path, int flags, ...)                             \
	{                                                                      \
		mode_t mode;                                                   \
		va_list more;                                                  \
		va_start(more, flags);                                         \
		mode = va_arg(more, mode_t);                                   \
		va_end(more);                                                  \
		if (creates(flags) && fails(below(path), #name))               \
			return -1;                                             \
		return REAL(name)(path, flags, mode);                          \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                           \
	int name(int at, const char *path, int flags, ...)                     \
	{                                                                      \
		mode_t mode;                                                   \
		va_list more;                                                  \
		va_start(more, flags);                                         \
		mode = va_arg(more, mode_t);                                   \
		va_end(more);                                                  \
		if (creates(flags) && fails(below(path), #name))               \
			return -1;                                             \
		return REAL(name)(at, path, flags, mode);                      \
	}
OPENAT(openat)
OPENAT(openat64)
