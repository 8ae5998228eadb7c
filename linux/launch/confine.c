// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Holds a kernel whose guest runs programs of others. User-Mode Linux is an ordinary process: what a program could
 * reach by a bug of the guest's kernel is what that process can reach. So it has an ordinary user, no network, no other
 * processes, and of the machine's files it reads only some and writes only those of the run's folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"

/* Newer than the headers of the oldest machines on which this is built. */
#define NR_OPEN_TREE			428
#define NR_MOVE_MOUNT			429
#define NR_CLONE3			435
#define NR_MOUNT_SETATTR		442
#define NR_LANDLOCK_CREATE_RULESET	444
#define NR_LANDLOCK_ADD_RULE		445
#define NR_LANDLOCK_RESTRICT_SELF	446
#define TREE_CLONE			1	/* OPEN_TREE_CLONE */
#define TREE_RECURSIVE			0x8000	/* AT_RECURSIVE */
#define MOVE_EMPTY_PATH			4	/* MOVE_MOUNT_F_EMPTY_PATH */

struct attributes {			/* struct mount_attr */
	uint64_t set, clear, propagation, namespace;
};

#define READ_ONLY	1		/* MOUNT_ATTR_RDONLY */
#define NO_SETUID	2		/* MOUNT_ATTR_NOSUID */

/* There on every machine, and nothing that the guest reads. */
#define PLACE		"/dev/shm"

/* Files in the folders of programs, of all of them together. */
#define MOST_FILES	"16384"

#define NAMESPACES	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* What knee looks for in the kernel's words (python/knee/grounds/uml/process.py). */
static int refused(const char *what)
{
	fprintf(stderr, "launch: cannot confine: %s: %s\n", what, strerror(errno));
	return -1;
}

int confine_open(struct confinement *how, const char *program, char **paths, int count)
{
	how->program = open(program, O_PATH | O_CLOEXEC);
	if (how->program < 0)
		return refused(program);
	for (int i = 0; i < count && how->paths < CONFINE_MOST_PATHS; i++) {
		int fd = open(paths[i], O_PATH | O_CLOEXEC);

		/* What is not there cannot be read. */
		if (fd >= 0)
			how->readable[how->paths++] = fd;
	}
	return 0;
}

static int write_file(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd, failed;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	failed = write(fd, text, strlen(text)) != (ssize_t)strlen(text);
	close(fd);
	return failed ? -1 : 0;
}

/* The namespace has one user and one group, with the numbers that they have outside. */
static int map_user(const struct confinement *how, pid_t pid)
{
	char user[64], group[64];

	snprintf(user, sizeof(user), "%u %u 1", how->uid, how->uid);
	snprintf(group, sizeof(group), "%u %u 1", how->gid, how->gid);
	/* Only root may leave setgroups() to the child, which then gives up root's groups. */
	if (geteuid() && write_file(pid, "setgroups", "deny"))
		return -1;
	return write_file(pid, "gid_map", group) || write_file(pid, "uid_map", user) ? -1 : 0;
}

pid_t confine_fork(const struct confinement *how, int *gate)
{
	int ends[2];
	pid_t pid;
	char go;

	if (pipe2(ends, O_CLOEXEC))
		return refused("a pipe");
	pid = syscall(SYS_clone, NAMESPACES | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		return refused("no user namespaces");
	if (!pid) {
		close(ends[1]);
		*gate = ends[0];
		if (read(ends[0], &go, 1) != 1)
			_exit(1);
		return 0;
	}
	close(ends[0]);
	if (map_user(how, pid)) {
		refused("the user of a namespace");
		kill(pid, SIGKILL);
		return -1;
	}
	/* Its end stays open as long as this process lives. */
	return write(ends[1], "", 1) == 1 ? pid : -1;
}

static int become(const struct confinement *how, int groups)
{
	if (groups && setgroups(0, NULL))
		return refused("groups");
	if (setresgid(how->gid, how->gid, how->gid) || setresuid(how->uid, how->uid, how->uid))
		return refused("an ordinary user");
	return 0;
}

/*
 * All of the machine's files become read-only, but for the current folder, which becomes a mount of its own at a place
 * that every user can reach: the guest's kernel opens its files by that path, and root's folders may be in the way.
 */
static int protect_files(void)
{
	struct attributes read_only = { .set = READ_ONLY | NO_SETUID };
	int here = syscall(NR_OPEN_TREE, AT_FDCWD, ".", TREE_CLONE | O_CLOEXEC);

	if (here < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    syscall(NR_MOUNT_SETATTR, AT_FDCWD, "/", TREE_RECURSIVE, &read_only, sizeof(read_only)) ||
	    syscall(NR_MOVE_MOUNT, here, "", AT_FDCWD, PLACE, MOVE_EMPTY_PATH) || fchdir(here))
		return refused("the machine's files cannot be made read-only");
	close(here);
	return 0;
}

/* A folder in memory that cannot grow beyond a size, and of which nothing remains. */
static int mount_limited(const char *folder, unsigned long bytes, const char *files, unsigned long flags)
{
	char options[96];

	snprintf(options, sizeof(options), "size=%lu,nr_inodes=%s,mode=0700", bytes, files);
	if (mkdir(folder, 0700) && errno != EEXIST)
		return refused(folder);
	return mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV | flags, options) ? refused(folder) : 0;
}

int confine_enter(const struct confinement *how)
{
	/* With one user mapped there is no root here, and the rights of the namespace last until the kernel is
	 * executed. */
	if (become(how, getuid() != how->uid) || protect_files())
		return -1;
	if (how->quota && mount_limited("folders", how->quota, MOST_FILES, MS_NOEXEC))
		return -1;
	return how->memory ? mount_limited("memory", how->memory, "16", 0) : 0;
}

/* Landlock's rights on files (include/uapi/linux/landlock.h), by the version of the interface that has them first. */
#define EXECUTE		(1ULL << 0)
#define WRITE_FILE	(1ULL << 1)
#define READ_FILE	(1ULL << 2)
#define READ_DIR	(1ULL << 3)
#define MAKE_CHAR	(1ULL << 6)
#define MAKE_BLOCK	(1ULL << 11)
#define FIRST_RIGHTS	((1ULL << 13) - 1)
#define REFER		(1ULL << 13)	/* 2 */
#define TRUNCATE	(1ULL << 14)	/* 3 */
#define IOCTL_DEVICE	(1ULL << 15)	/* 5 */
#define ALL_NET		3ULL		/* 4 */
#define ALL_SCOPES	3ULL		/* 6 */
#define PATH_BENEATH	1

struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_rule {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

static uint64_t rights_of(int version)
{
	return FIRST_RIGHTS | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0) |
	       (version >= 5 ? IOCTL_DEVICE : 0);
}

static int allow_fd(int rules, int fd, uint64_t rights)
{
	struct path_rule rule = { .allowed = rights, .parent = fd };
	struct stat about;

	if (fstat(fd, &about))
		return -1;
	if (!S_ISDIR(about.st_mode))
		rule.allowed &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
	return syscall(NR_LANDLOCK_ADD_RULE, rules, PATH_BENEATH, &rule, 0);
}

static int allow(int rules, const char *path, uint64_t rights)
{
	int fd = open(path, O_PATH | O_CLOEXEC), failed;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	failed = allow_fd(rules, fd, rights);
	close(fd);
	return failed;
}

static int restrict_files(const struct confinement *how)
{
	static const char *const system[] = { "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt" };
	int version = syscall(NR_LANDLOCK_CREATE_RULESET, NULL, 0, 1);
	const uint64_t read = EXECUTE | READ_FILE | READ_DIR;
	struct ruleset ruleset = { 0 };
	int rules, failed = 0;

	if (version < 1)
		return refused("no Landlock");
	ruleset.fs = rights_of(version);
	ruleset.net = version >= 4 ? ALL_NET : 0;
	ruleset.scoped = version >= 6 ? ALL_SCOPES : 0;
	rules = syscall(NR_LANDLOCK_CREATE_RULESET, &ruleset, version >= 6 ? 24 : version >= 4 ? 16 : 8, 0);
	if (rules < 0)
		return refused("Landlock");
	for (size_t i = 0; i < sizeof(system) / sizeof(*system); i++)
		failed |= allow(rules, system[i], read);
	for (int i = 0; i < how->paths; i++)
		failed |= allow_fd(rules, how->readable[i], read);
	failed |= allow_fd(rules, how->program, EXECUTE | READ_FILE);
	failed |= allow(rules, ".", ruleset.fs & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEVICE));
	failed |= allow(rules, "/proc", READ_FILE | READ_DIR);
	failed |= allow(rules, "/dev/null", READ_FILE | WRITE_FILE) | allow(rules, "/dev/zero", READ_FILE | WRITE_FILE);
	if (failed || syscall(NR_LANDLOCK_RESTRICT_SELF, rules, 0))
		return refused("Landlock");
	close(rules);
	return 0;
}

int confine_user(const struct confinement *how)
{
	struct rlimit processes = { how->processes, how->processes };

	if (how->uid && !how->wanted && getuid() != how->uid) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount(".", PLACE, NULL, MS_BIND, NULL) || chdir(PLACE))
			return refused("the folder of the run");
		if (become(how, 1))
			return -1;
	}
	return how->processes && setrlimit(RLIMIT_NPROC, &processes) ? refused("processes") : 0;
}

int confine_kernel(const struct confinement *how)
{
	if (confine_user(how))
		return -1;
	return how->wanted && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || restrict_files(how)) ? -1 : 0;
}
