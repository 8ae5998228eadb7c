// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Runs a kernel such that nothing of it outlives whoever asked for it, and that it knows no
 * chance: the host's random numbers are denied to it, so that all of its own follow from the
 * run's seed.
 *
 *	launch [-c] [-u UID -g GID] [-n PROCESSES] [-q BYTES] [-m BYTES] [-r PATH] ... PARENT FOLDER PROGRAM [ARGUMENT
 *	...]
 *
 * With -c it is confined besides (confine.c): to a user (-u, -g), a number of processes (-n), so much in its folder
 * `folders` (-q) and for its memory (-m), and of the machine's files to those of the system and of each PATH.
 *
 * When the process PARENT dies, even by SIGKILL, or on SIGTERM, the kernel and all its processes
 * are killed; in the first case FOLDER is removed too, since nobody else will.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
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

#include "confine.h"

/*
 * What a parent's end comes as. Not SIGTERM, and getppid() does not tell it either: of a process
 * with threads that is killed some may live on for a moment, and are the parent until then.
 */
#define ORPHANED SIGUSR1

#define CALL_OF_X32	0x40000000	/* __X32_SYSCALL_BIT */
#define CLONE3		435
#define NEW_NAMESPACES								\
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* No process of the guest makes these; what does is killed. */
static const unsigned int deadly[] = {
	SYS_reboot, SYS_mount, SYS_umount2, SYS_setns, SYS_unshare, SYS_finit_module, SYS_init_module,
	SYS_pivot_root, SYS_kexec_load, SYS_open_by_handle_at, SYS_bpf, SYS_perf_event_open,
	SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl,
};

/* Most instructions of the filter: two for each of these calls, and all others. */
#define MOST_STEPS	(2 * sizeof(deadly) / sizeof(*deadly) + 16)

struct steps {
	struct sock_filter filter[MOST_STEPS];
	unsigned short len;
};

static void step(struct steps *steps, struct sock_filter one)
{
	steps->filter[steps->len++] = one;
}

static void answer(struct steps *steps, unsigned int call, unsigned int what)
{
	step(steps, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
	step(steps, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void load(struct steps *steps, unsigned int at)
{
	step(steps, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at));
}

/*
 * The guest's processes are ours, held by ptrace. Should the kernel die first, they would run
 * free for a moment: then no call of theirs may reach the host that only an init makes, and none
 * that User-Mode Linux never makes but that much of the host's kernel is behind.
 */
static int confine(void)
{
	struct steps steps = { .len = 0 };
	struct sock_fprog program = { .filter = steps.filter };

	load(&steps, offsetof(struct seccomp_data, arch));
	step(&steps, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	step(&steps, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	load(&steps, offsetof(struct seccomp_data, nr));
	step(&steps, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CALL_OF_X32, 0, 1));
	step(&steps, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	/* Its flags are out of a filter's sight; the C library then calls clone. */
	answer(&steps, CLONE3, SECCOMP_RET_ERRNO | ENOSYS);
	answer(&steps, SYS_getrandom, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		answer(&steps, deadly[i], SECCOMP_RET_KILL_PROCESS);
	step(&steps, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
	load(&steps, offsetof(struct seccomp_data, args[0]));
	step(&steps, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1));
	step(&steps, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	step(&steps, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	program.len = steps.len;
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
	/* The first process of a namespace: all others in it are descendants. */
	if (getpid() == 1) {
		kill(-1, SIGKILL);
		while (waitpid(-1, NULL, 0) > 0 || errno != ECHILD)
			;
		return;
	}
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

static int start(const struct confinement *how, char **argv)
{
	struct rlimit no_core = { 0, 0 };
	sigset_t none;
	pid_t launcher = getppid();

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	/* A change of user ends what was asked for about the parent's death. */
	if (confine_kernel(how) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
		return 1;
	setrlimit(RLIMIT_CORE, &no_core);
	if (personality(ADDR_NO_RANDOMIZE) < 0 || confine()) {
		perror("launch: the kernel cannot be confined");
		return 1;
	}
	syscall(SYS_execveat, how->program, "", argv, environ, AT_EMPTY_PATH);
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

/* The same in a namespace of its own, from which the parent cannot be seen: `gate` is closed when it has died. */
static int serve_from_inside(int gate)
{
	struct pollfd parent = { .fd = gate };

	return !prctl(PR_SET_PDEATHSIG, ORPHANED) && !poll(&parent, 1, 0);
}

/* There are two watchers: if one is killed, the other one cleans up. */
static int watch_inside(const struct confinement *how, pid_t parent, int gate, char **argv)
{
	pid_t kernel;
	int orphaned;

	if (gate >= 0 ? confine_enter(how) || !serve_from_inside(gate) : !serve(parent))
		return 1;
	kernel = fork();
	if (kernel < 0)
		return 1;
	return kernel ? watch(kernel, &orphaned) : start(how, argv);
}

/* Runs both watchers; gives the kernel's exit code and whether the parent died meanwhile. */
static int run(const struct confinement *how, pid_t parent, char **argv, int *orphaned)
{
	pid_t inside, self = getpid();
	int gate = -1;

	*orphaned = !serve(parent);
	if (*orphaned)
		return 1;
	inside = how->wanted ? confine_fork(how, &gate) : fork();
	if (inside < 0) {
		perror("launch");
		return 1;
	}
	if (!inside)
		_exit(watch_inside(how, self, gate, argv));
	return watch(inside, orphaned);
}

/* Reads the options; returns where the rest of the command line begins, 0 if it is wrong. */
static int read_options(int argc, char **argv, struct confinement *how)
{
	char *paths[CONFINE_MOST_PATHS];
	int option, count = 0;

	while ((option = getopt(argc, argv, "+cu:g:n:q:m:r:")) != -1) {
		switch (option) {
		case 'c':
			how->wanted = 1;
			break;
		case 'u':
			how->uid = strtoul(optarg, NULL, 10);
			break;
		case 'g':
			how->gid = strtoul(optarg, NULL, 10);
			break;
		case 'n':
			how->processes = strtoul(optarg, NULL, 10);
			break;
		case 'q':
			how->quota = strtoul(optarg, NULL, 10);
			break;
		case 'm':
			how->memory = strtoul(optarg, NULL, 10);
			break;
		case 'r':
			if (count == CONFINE_MOST_PATHS)
				return 0;
			paths[count++] = optarg;
			break;
		default:
			return 0;
		}
	}
	if (argc - optind < 3)
		return 0;
	return confine_open(how, argv[optind + 2], paths, count) ? 0 : optind;
}

int main(int argc, char **argv)
{
	struct confinement how = { 0 };
	sigset_t waited = awaited();
	int code, orphaned, first = read_options(argc, argv, &how);

	if (!first) {
		fprintf(stderr, "launch [-c] [-u UID -g GID] [-n PROCESSES] [-q BYTES] [-m BYTES] [-r PATH] ... "
				"PARENT FOLDER PROGRAM [ARGUMENT ...]\n");
		return 2;
	}
	argv += first;
	sigprocmask(SIG_BLOCK, &waited, NULL);
	code = run(&how, atoi(argv[0]), argv + 2, &orphaned);
	if (orphaned)
		nftw(argv[1], unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	return code;
}
