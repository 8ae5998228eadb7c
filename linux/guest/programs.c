// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Flows that are programs: starts them, keeps what they say, and sees how they end. Each has a namespace of the
 * network with one route, to its partner; the host's files, read-only; and a folder to write to.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

/* Bytes of a program's output that are kept, and of that of all together. */
#define MOST_WORDS	(16 << 20)
#define MOST_OF_ALL	(128 << 20)
/* The largest file that it may write, bytes. */
#define MOST_FILE	(64 << 20)
/* Where the host's files are while a program's root is made, and where it may write. */
#define ROOT		"/host"
#define FOLDER		"/dev/folder"
#define LIBRARY		"/dev/wait.so"

enum role { OUTPUT = ROLES_OF_PROGRAMS, CHILD };

struct program {
	pid_t pid;		/* 0: not started, or ended */
	int output;		/* -1: none */
	uint32_t namespace;
	uint64_t said;		/* bytes */
	int muted;
};

static struct program *programs;
static uint32_t room;
static int epoll, notes = -1, ended_fd = -1;
static uint64_t all_said;

static void on_child(int signal)
{
	uint64_t one = 1;
	int error = errno;

	(void)signal;
	if (write(ended_fd, &one, sizeof(one)) < 0)
		_exit(1);
	errno = error;
}

static void watch(int fd, enum role role, uint32_t index)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)role << 32 | index };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		fail("cannot wait for a program");
}

void programs_init(int epoll_fd)
{
	epoll = epoll_fd;
}

/* State that only runs with programs need. */
static void begin(void)
{
	struct sigaction action = { .sa_handler = on_child, .sa_flags = SA_NOCLDSTOP | SA_RESTART };

	notes = open("/programs", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (notes < 0 || ended_fd < 0 || sigaction(SIGCHLD, &action, NULL))
		fail("programs cannot be watched");
	watch(ended_fd, CHILD, 0);
}

static struct program *program(uint32_t index)
{
	if (notes < 0)
		begin();
	if (index >= room) {
		uint32_t more = index + 64;

		programs = realloc(programs, more * sizeof(*programs));
		if (!programs)
			fail("no memory for the programs");
		memset(programs + room, 0, (more - room) * sizeof(*programs));
		for (; room < more; room++)
			programs[room].output = -1;
	}
	return &programs[index];
}

static void note(uint32_t index, uint32_t kind, uint32_t value, const void *bytes, uint32_t size)
{
	static const char padding[8];
	struct program_note head = {
		.at_ns = run_now(), .program = index, .kind = kind, .value = value, .size = size,
	};

	if (write(notes, &head, sizeof(head)) != sizeof(head) || write(notes, bytes, size) != (ssize_t)size ||
	    write(notes, padding, -size & 7) != (ssize_t)(-size & 7))
		fail("cannot write what the programs say");
}

/* In the child: reports an error before the program runs. */
__attribute__((noreturn)) static void give_up(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(127);
}

static void must(int result, const char *what)
{
	if (result)
		give_up(what);
}

static void device(const char *path, unsigned int minor)
{
	must(mknod(path, S_IFCHR | 0666, makedev(1, minor)) || chmod(path, 0666), path);
}

/* Its own devices, and in them the folder that it may write to. */
static void make_devices(uint32_t index)
{
	char folder[32];
	int fd;

	must(mount("none", ROOT "/dev", "ramfs", MS_NOSUID, NULL), "its folder dev cannot be mounted");
	device(ROOT "/dev/null", 3);
	device(ROOT "/dev/zero", 5);
	device(ROOT "/dev/full", 7);
	device(ROOT "/dev/random", 8);
	device(ROOT "/dev/urandom", 9);
	must(symlink("/proc/self/fd", ROOT "/dev/fd") || symlink("fd/0", ROOT "/dev/stdin") ||
	     symlink("fd/1", ROOT "/dev/stdout") || symlink("fd/2", ROOT "/dev/stderr") ||
	     symlink("folder", ROOT "/dev/shm"), "its devices");
	snprintf(folder, sizeof(folder), "/folders/%u", index);
	must(mkdir(folder, 0700) || mkdir(ROOT FOLDER, 0700) || mount(folder, ROOT FOLDER, NULL, MS_BIND, NULL), "its folder");
	fd = open(ROOT LIBRARY, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	must(fd < 0 || close(fd) || mount("/wait.so", ROOT LIBRARY, NULL, MS_BIND, NULL), "its library");
	must(mount(NULL, ROOT "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL), "its devices");
}

static void make_root(uint32_t index, const char *root)
{
	const unsigned long careful = MS_RDONLY | MS_NOSUID | MS_NODEV;

	must(unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "its files");
	must(mount("none", ROOT, "hostfs", careful, root), "its root cannot be mounted");
	make_devices(index);
	must(mount("none", ROOT "/proc", "proc", careful, NULL), "its folder proc cannot be mounted");
	/* The machine's settings are the guest's, not the host's; a program with its own root may lack them. */
	if (mount("none", ROOT "/sys", "sysfs", careful, NULL) && errno != ENOENT)
		give_up("its folder sys cannot be mounted");
	must(chroot(ROOT) || chdir(FOLDER), "its root cannot be entered");
}

/* From here on it has only the rights of the host files' owner. */
static void drop(const struct plan_program *told)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
	struct rlimit file = { MOST_FILE, MOST_FILE }, core = { 0, 0 };
	struct rlimit processes = { told->processes, told->processes };

	for (int i = 0; i <= CAP_LAST_CAP; i++)
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) && errno != EINVAL)
			give_up("its privileges");
	must(setrlimit(RLIMIT_FSIZE, &file) || setrlimit(RLIMIT_CORE, &core) || setrlimit(RLIMIT_NPROC, &processes),
	     "its limits");
	must(setresgid(told->gid, told->gid, told->gid) || setresuid(told->uid, told->uid, told->uid), "its owner");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &head, none), "its privileges");
}

__attribute__((noreturn)) static void become(uint32_t index, const struct plan_program *told, int output)
{
	const char *root = (const char *)(told + 1), *file = root + strlen(root) + 1;
	const char *word = file + strlen(file) + 1;
	char wait[48];
	char *environment[] = {
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "HOME=" FOLDER,
		"TMPDIR=" FOLDER, "LD_PRELOAD=" LIBRARY, wait, NULL,
	};
	char **words = calloc(told->words + 1, sizeof(*words));
	int nothing = open("/dev/null", O_RDWR);
	sigset_t none;

	if (!words)
		_exit(127);
	for (uint32_t i = 0; i < told->words; i++, word += strlen(word) + 1)
		words[i] = (char *)word;
	snprintf(wait, sizeof(wait), "KNEE_WAIT_NS=%llu", (unsigned long long)told->wait_ns);
	if (nothing >= 0)
		dup2(nothing, 0);
	dup2(output, 1);
	dup2(output, 2);
	if (nothing > 2)
		close(nothing);
	setsid();
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	make_root(index, root);
	drop(told);
	execve(file, words, environment);
	give_up(file);
}

void programs_start(uint32_t index, const struct plan_program *told)
{
	struct program *mine = program(index);
	int ends[2];
	pid_t pid;

	plan_enter(told->namespace);
	if (pipe2(ends, O_CLOEXEC))
		fail("no pipe for a program");
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		fail("no process for a program");
	if (!pid)
		become(index, told, ends[1]);
	close(ends[1]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	mine->pid = pid;
	mine->output = ends[0];
	mine->namespace = told->namespace;
	watch(ends[0], OUTPUT, index);
}

/* Stores a program's new output; returns whether there may be more. */
static int listen_to(uint32_t index)
{
	struct program *mine = &programs[index];
	char words[65536];
	ssize_t got = read(mine->output, words, sizeof(words));

	if (got < 0)
		return errno == EINTR;
	if (!got) {
		/* A child that has not called exec yet shares it, so closing alone would leave it in epoll. */
		epoll_ctl(epoll, EPOLL_CTL_DEL, mine->output, NULL);
		close(mine->output);
		mine->output = -1;
		return 0;
	}
	if (mine->muted)
		return 1;
	note(index, PROGRAM_SAID, 0, words, got);
	mine->said += got;
	all_said += got;
	mine->muted = mine->said >= MOST_WORDS || all_said >= MOST_OF_ALL;
	if (mine->muted)
		note(index, PROGRAM_MUTED, mine->said < MOST_WORDS, NULL, 0);
	return 1;
}

/* Whether a process lives in a program's namespace; zombies live in none. */
static int lives_in(const char *pid, uint32_t namespace)
{
	char path[64];
	struct stat mine, its;

	snprintf(path, sizeof(path), "/proc/%.16s/ns/net", pid);
	return !fstat(PLAN_NAMESPACE_FD + namespace, &mine) && !stat(path, &its) && its.st_ino == mine.st_ino &&
	       atoi(pid) != 1;
}

/* Signals all processes of a program but one; gives the first one's name, empty if there was none. */
static const char *signal_all(uint32_t index, int signal, pid_t but)
{
	static char name[32];
	struct dirent *entry;
	DIR *all = opendir("/proc");

	name[0] = '\0';
	if (!all)
		fail("cannot read /proc");
	while ((entry = readdir(all))) {
		pid_t pid = atoi(entry->d_name);
		char path[64];
		FILE *file;

		if (pid <= 1 || pid == but || !lives_in(entry->d_name, programs[index].namespace))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		file = name[0] ? NULL : fopen(path, "re");
		if (file) {
			if (!fgets(name, sizeof(name), file))
				name[0] = '\0';
			name[strcspn(name, "\n")] = '\0';
			fclose(file);
		}
		kill(pid, signal);
	}
	closedir(all);
	return name;
}

/* How often a program tried an address without a route. */
static void count_strays(uint32_t index)
{
	char names[2048], values[2048];
	uint32_t strays = 0;
	FILE *file;

	plan_enter(programs[index].namespace);
	file = fopen("/proc/thread-self/net/snmp", "re");
	/* The first two lines are for IP: names, then values. */
	if (file && fgets(names, sizeof(names), file) && fgets(values, sizeof(values), file)) {
		char *at_name, *at_value;
		char *name = strtok_r(names, " \n", &at_name), *value = strtok_r(values, " \n", &at_value);

		for (; name && value; name = strtok_r(NULL, " \n", &at_name), value = strtok_r(NULL, " \n", &at_value))
			if (!strcmp(name, "OutNoRoutes"))
				strays = strtoul(value, NULL, 10);
	}
	if (file)
		fclose(file);
	if (strays)
		note(index, PROGRAM_STRAYED, strays, NULL, 0);
}

static void ended(uint32_t index, int status)
{
	struct program *mine = &programs[index];
	const char *left;

	mine->pid = 0;
	while (mine->output >= 0 && listen_to(index))
		;
	note(index, PROGRAM_ENDED, status, NULL, 0);
	left = signal_all(index, SIGKILL, 0);
	if (left[0])
		note(index, PROGRAM_WENT_ON, 0, left, strlen(left));
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (uint32_t i = ends_reap(pid, status) ? room : 0; i < room; i++)
			if (programs[i].pid == pid)
				ended(i, status);
}

/* Whether processes have ended. */
int programs_event(uint64_t data)
{
	uint64_t count;

	if (data >> 32 != CHILD) {
		if (programs[(uint32_t)data].output >= 0)
			listen_to((uint32_t)data);
		return 0;
	}
	while (read(ended_fd, &count, sizeof(count)) > 0)
		;
	reap();
	return 1;
}

void programs_signal(uint32_t index, int signal)
{
	if (index >= room)
		return;
	if (signal == SIGKILL)
		signal_all(index, SIGKILL, 0);
	else if (programs[index].pid)
		kill(-programs[index].pid, signal);
}

/* Whether the host ended a process that let no virtual time pass. The file is there before the process is gone. */
int programs_spun(void)
{
	return notes >= 0 && !access("/spun", F_OK);
}

void programs_finish(void)
{
	if (notes < 0)
		return;
	reap();
	for (uint32_t i = 0; i < room; i++) {
		while (programs[i].output >= 0 && listen_to(i))
			;
		if (programs[i].namespace)
			count_strays(i);
	}
	if (fsync(notes) || close(notes))
		fail("cannot write what the programs say");
}
