// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Runs a kernel such that nothing of it outlives whoever asked for it, and that it knows no
 * chance: the host's random numbers are denied to it, so that all of its own follow from the
 * run's seed.
 *
 *	launch PARENT FOLDER PROGRAM [ARGUMENT ...]
 *
 * When the process PARENT dies, even by SIGKILL, or on SIGTERM, the kernel and all its processes
 * are killed; in the first case FOLDER is removed too, since nobody else will.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * What a parent's end comes as. Not SIGTERM, and getppid() does not tell it either: of a process
 * with threads that is killed some may live on for a moment, and are the parent until then.
 */
#define ORPHANED SIGUSR1

#define REFUSE(call, answer)						\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),		\
	BPF_STMT(BPF_RET | BPF_K, answer)

/*
 * The guest's processes are ours, held by ptrace. Should the kernel die first, they would run
 * free for a moment: then no call of theirs may reach the host that only an init makes.
 */
static int confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(getrandom, SECCOMP_RET_ERRNO | ENOSYS),
		REFUSE(reboot, SECCOMP_RET_KILL_PROCESS),
		REFUSE(mount, SECCOMP_RET_KILL_PROCESS),
		REFUSE(umount2, SECCOMP_RET_KILL_PROCESS),
		REFUSE(setns, SECCOMP_RET_KILL_PROCESS),
		REFUSE(unshare, SECCOMP_RET_KILL_PROCESS),
		REFUSE(finit_module, SECCOMP_RET_KILL_PROCESS),
		REFUSE(init_module, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(*filter), .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int unlink_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
	(void)about;
	(void)kind;
	(void)where;
	remove(path);
	return 0;
}

/* Kills all descendants: as the subreaper, this process inherits all orphans. */
static void kill_all(pid_t kernel)
{
	char path[64];

	kill(kernel, SIGKILL);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	for (;;) {
		FILE *list = fopen(path, "r");
		int child, any = 0;

		while (list && fscanf(list, "%d", &child) == 1) {
			kill(child, SIGKILL);
			any = 1;
		}
		if (list)
			fclose(list);
		if (waitpid(-1, NULL, any ? 0 : WNOHANG) < 0 && errno == ECHILD)
			return;
	}
}

static int start(char **argv)
{
	struct rlimit no_core = { 0, 0 };
	sigset_t none;
	pid_t launcher = getppid();

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
		return 1;
	setrlimit(RLIMIT_CORE, &no_core);
	if (personality(ADDR_NO_RANDOMIZE) < 0 || confine()) {
		perror("launch: the kernel cannot be confined");
		return 1;
	}
	execv(argv[0], argv);
	perror(argv[0]);
	return 1;
}

/* A watcher waits for the end of a child or of its parent, or for a signal. */
static sigset_t awaited(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, ORPHANED);
	return set;
}

/*
 * Waits for what ends the run, and kills all that is left. Gives the child's exit code, and in
 * `orphaned` whether our own parent is gone.
 */
static int watch(pid_t child, int *orphaned)
{
	sigset_t waited = awaited();
	int status = 0, signal;

	do
		sigwait(&waited, &signal);
	while (signal == SIGCHLD && waitpid(child, &status, WNOHANG) != child);
	kill_all(child);
	sigpending(&waited);
	*orphaned = signal == ORPHANED || sigismember(&waited, ORPHANED);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Dies with `parent` and inherits orphans; returns whether the parent still exists. */
static int serve(pid_t parent)
{
	return !prctl(PR_SET_PDEATHSIG, ORPHANED) && !prctl(PR_SET_CHILD_SUBREAPER, 1) && getppid() == parent;
}

/* There are two watchers: if one is killed, the other one cleans up. */
static int watch_inside(pid_t parent, char **argv)
{
	pid_t kernel;
	int orphaned;

	if (!serve(parent))
		return 1;
	kernel = fork();
	if (kernel < 0)
		return 1;
	return kernel ? watch(kernel, &orphaned) : start(argv);
}

/* Runs both watchers; gives the kernel's exit code and whether the parent died meanwhile. */
static int run(pid_t parent, char **argv, int *orphaned)
{
	pid_t inside, self = getpid();

	*orphaned = !serve(parent);
	if (*orphaned)
		return 1;
	inside = fork();
	if (inside < 0) {
		perror("launch");
		return 1;
	}
	if (!inside)
		_exit(watch_inside(self, argv));
	return watch(inside, orphaned);
}

int main(int argc, char **argv)
{
	sigset_t waited = awaited();
	int code, orphaned;

	if (argc < 4) {
		fprintf(stderr, "launch PARENT FOLDER PROGRAM [ARGUMENT ...]\n");
		return 2;
	}
	sigprocmask(SIG_BLOCK, &waited, NULL);
	code = run(atoi(argv[1]), argv + 3, &orphaned);
	if (orphaned)
		nftw(argv[2], unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	return code;
}
