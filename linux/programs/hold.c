// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Preloaded into the kernel of a run with programs, which it holds by ptrace, as processes of the host:
 *
 * - They are killed with it, however it ends. Else they would run on for a moment, and their calls reach the host.
 * - The processor's cycle counter is trapped in them (PR_SET_TSC, which processes inherit), since its time is the
 *   host's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cycles.h"

#define OLD_SET_OPTIONS	21	/* PTRACE_OLDSETOPTIONS, of linux/ptrace.h */
/* An unmarked process may read the counter this often; a loader does so some tens of times. */
#define FREE_READS	1000

static long (*real_ptrace)(int request, ...);
static pid_t (*real_waitpid)(pid_t pid, int *status, int options);
static int (*real_clone)(int (*)(void *), void *, int, void *);
static int resumed_by = PTRACE_SYSEMU;
static struct {
	pid_t pid;
	int count;
} reads[256];

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	pid_t pid;
	void *address, *data;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	switch ((int)request) {
	case PTRACE_CONT:
	case PTRACE_SYSCALL:
	case PTRACE_SINGLESTEP:
	case PTRACE_SYSEMU:
	case PTRACE_SYSEMU_SINGLESTEP:
		resumed_by = request;
		break;
	case OLD_SET_OPTIONS:
	case PTRACE_SETOPTIONS:
		data = (void *)((uintptr_t)data | PTRACE_O_EXITKILL);
		break;
	}
	return real_ptrace(request, pid, address, data);
}

static int is_marked(pid_t pid)
{
	errno = 0;
	return (uint64_t)real_ptrace(PTRACE_PEEKDATA, pid, CYCLES_MARK_AT, 0) == CYCLES_MARK && !errno;
}

static int reads_too_often(pid_t pid)
{
	unsigned int i = pid % (sizeof(reads) / sizeof(*reads));

	if (reads[i].pid != pid)
		reads[i].count = 0;
	reads[i].pid = pid;
	return ++reads[i].count > FREE_READS;
}

static struct {
	int (*function)(void *);
	void *argument;
} held;

static int begin_held(void *unused)
{
	(void)unused;
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
		_exit(1);
	return held.function(held.argument);
}

/*
 * A guest's process has memory of its own: from the start, or from the stub it becomes, until which its parent waits
 * (from Linux 6.13). What else the kernel starts are its own threads and helpers.
 */
int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
	if ((flags & CLONE_VM) && !(flags & CLONE_VFORK))
		return real_clone(function, stack, flags, argument);
	held.function = function;
	held.argument = argument;
	return real_clone(begin_held, stack, flags, NULL);
}

/* Whether a process stopped at its loader's read of the counter; if so, it gets a zero and continues. */
static int answered(pid_t pid)
{
	struct user_regs_struct registers;
	siginfo_t info;
	uint8_t code[sizeof(long)];
	long word;
	int length;

	/* What the processor forbids, other than a page, comes from the kernel and has no address. */
	if (real_ptrace(PTRACE_GETSIGINFO, pid, 0, &info) || info.si_code != SI_KERNEL || info.si_addr)
		return 0;
	if (real_ptrace(PTRACE_GETREGS, pid, 0, &registers))
		return 0;
	errno = 0;
	word = real_ptrace(PTRACE_PEEKTEXT, pid, registers.rip, 0);
	if (errno)
		return 0;
	memcpy(code, &word, sizeof(code));
	length = cycles_instruction(code);
	if (!length || is_marked(pid) || reads_too_often(pid))
		return 0;
	registers.rip += length;
	registers.rax = registers.rdx = 0;
	return !real_ptrace(PTRACE_SETREGS, pid, 0, &registers) && !real_ptrace(resumed_by, pid, 0, 0);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	pid_t found;

	do
		found = real_waitpid(pid, status, options);
	while (found > 0 && status && WIFSTOPPED(*status) && WSTOPSIG(*status) == SIGSEGV && answered(found));
	return found;
}

__attribute__((constructor)) static void begin(void)
{
	real_ptrace = (__typeof__(real_ptrace))dlsym(RTLD_NEXT, "ptrace");
	real_waitpid = (__typeof__(real_waitpid))dlsym(RTLD_NEXT, "waitpid");
	real_clone = (__typeof__(real_clone))dlsym(RTLD_NEXT, "clone");
	if (!real_ptrace || !real_waitpid || !real_clone) {
		perror("hold: programs cannot be held");
		_Exit(1);
	}
}
