// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Preloaded into programs that are flows. In virtual time a loop that never sleeps stands still: nothing it waits for
 * ever comes. So calls that ask without waiting wait for KNEE_WAIT_NS here: poll(), select() and epoll_wait() with a
 * time-out of zero, sched_yield(); and after IDLE_CALLS looks at the clock, or attempts to receive where there is
 * nothing, without anything received or sent in between, so does the next one.
 *
 * It also names whoever reads the processor's cycle counter, which knows no virtual time; see cycles.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "cycles.h"

#define IDLE_CALLS	20
#define SECOND		1000000000L
/* The number of that processor fault. */
#define GENERAL_PROTECTION	13

static struct timespec wait_time = { 0, 50000 };
static __thread unsigned int idle __attribute__((tls_model("initial-exec")));

static void wait_a_while(void)
{
	idle = 0;
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &wait_time, NULL);
}

static void call_was_idle(void)
{
	int error = errno;

	if (++idle >= IDLE_CALLS)
		wait_a_while();
	errno = error;
}

/* The C library's function of this name; looked up unless it is known. */
static void *libc(void *known, const char *name)
{
	return known ? known : dlsym(RTLD_NEXT, name);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	static __typeof__(poll) *real;
	struct timespec time = wait_time;

	real = libc(real, "poll");
	idle = 0;
	return timeout ? real(fds, count, timeout) : (int)syscall(SYS_ppoll, fds, count, &time, NULL, 0);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	static __typeof__(ppoll) *real;

	real = libc(real, "ppoll");
	idle = 0;
	return real(fds, count, timeout && !timeout->tv_sec && !timeout->tv_nsec ? &wait_time : timeout, mask);
}

int select(int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout)
{
	static __typeof__(select) *real;
	struct timespec time = wait_time;

	real = libc(real, "select");
	idle = 0;
	if (!timeout || timeout->tv_sec || timeout->tv_usec)
		return real(count, read, write, except, timeout);
	return syscall(SYS_pselect6, count, read, write, except, &time, NULL);
}

int pselect(int count, fd_set *read, fd_set *write, fd_set *except, const struct timespec *timeout,
	    const sigset_t *mask)
{
	static __typeof__(pselect) *real;

	real = libc(real, "pselect");
	idle = 0;
	if (timeout && !timeout->tv_sec && !timeout->tv_nsec)
		timeout = &wait_time;
	return real(count, read, write, except, timeout, mask);
}

int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *mask)
{
	static __typeof__(epoll_pwait2) *real;

	real = libc(real, "epoll_pwait2");
	idle = 0;
	if (timeout && !timeout->tv_sec && !timeout->tv_nsec)
		timeout = &wait_time;
	return real(fd, events, most, timeout, mask);
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
	static __typeof__(epoll_pwait) *real;

	real = libc(real, "epoll_pwait");
	return timeout ? real(fd, events, most, timeout, mask) : epoll_pwait2(fd, events, most, &wait_time, mask);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	static __typeof__(epoll_wait) *real;

	real = libc(real, "epoll_wait");
	return timeout ? real(fd, events, most, timeout) : epoll_pwait2(fd, events, most, &wait_time, NULL);
}

int sched_yield(void)
{
	wait_a_while();
	return 0;
}

/* The clock. */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = syscall(SYS_clock_gettime, clock, now);

	call_was_idle();
	return result;
}

/* The declaration excludes a null `now`, which callers may still pass. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	int result = syscall(SYS_gettimeofday, now, zone);

	call_was_idle();
	return result;
}

time_t time(time_t *now)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	if (now)
		*now = at.tv_sec;
	return at.tv_sec;
}

/* Sending and receiving: a call that found nothing was idle. */

static ssize_t counted(ssize_t result)
{
	if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		call_was_idle();
	else
		idle = 0;
	return result;
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
	static __typeof__(recv) *real;

	real = libc(real, "recv");
	return counted(real(fd, to, size, flags));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	static __typeof__(recvmsg) *real;

	real = libc(real, "recvmsg");
	return counted(real(fd, message, flags));
}

ssize_t send(int fd, const void *from, size_t size, int flags)
{
	static __typeof__(send) *real;

	real = libc(real, "send");
	return counted(real(fd, from, size, flags));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static __typeof__(sendmsg) *real;

	real = libc(real, "sendmsg");
	return counted(real(fd, message, flags));
}

ssize_t read(int fd, void *to, size_t size)
{
	static __typeof__(read) *real;

	real = libc(real, "read");
	return counted(real(fd, to, size));
}

ssize_t write(int fd, const void *from, size_t size)
{
	static __typeof__(write) *real;

	real = libc(real, "write");
	return counted(real(fd, from, size));
}

ssize_t recvfrom(int fd, void *restrict to, size_t size, int flags, __SOCKADDR_ARG from,
		 socklen_t *restrict length)
{
	static __typeof__(recvfrom) *real;

	real = libc(real, "recvfrom");
	return counted(real(fd, to, size, flags, from, length));
}

ssize_t sendto(int fd, const void *from, size_t size, int flags, __CONST_SOCKADDR_ARG to,
	       socklen_t length)
{
	static __typeof__(sendto) *real;

	real = libc(real, "sendto");
	return counted(real(fd, from, size, flags, to, length));
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	static __typeof__(recvmmsg) *real;

	real = libc(real, "recvmmsg");
	return counted(real(fd, messages, count, flags, timeout));
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	static __typeof__(sendmmsg) *real;

	real = libc(real, "sendmmsg");
	return counted(real(fd, messages, count, flags));
}

/* The cycle counter. */

static struct {
	const char *name;	/* of the object with the instruction */
	uintptr_t at, base;
} reader;

static int look_at_object(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		uintptr_t begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

		if (object->dlpi_phdr[i].p_type == PT_LOAD && reader.at >= begin &&
		    reader.at < begin + object->dlpi_phdr[i].p_memsz) {
			reader.name = object->dlpi_name[0] ? object->dlpi_name : program_invocation_name;
			reader.base = object->dlpi_addr;
			return 1;
		}
	}
	return 0;
}

/* The C library draws jitter from it where a lock is contended, and the loader measures itself. */
static int is_the_c_librarys(const char *name)
{
	const char *file = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;

	return !strncmp(file, "libc.so", 7) || !strncmp(file, "ld-linux", 8) || !strncmp(file, "libpthread.so", 13);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	/* Not a page fault: the instruction itself was forbidden, so its bytes can be read. */
	int forbidden = registers[REG_TRAPNO] == GENERAL_PROTECTION;
	int length = forbidden ? cycles_instruction((const uint8_t *)registers[REG_RIP]) : 0;
	char text[400];

	(void)info;
	if (!length) {
		/* Any other fault ends the program as it would without this library: it occurs again. */
		struct sigaction usual = { .sa_handler = SIG_DFL };

		sigaction(signal, &usual, NULL);
		return;
	}
	reader.at = registers[REG_RIP];
	reader.name = NULL;
	dl_iterate_phdr(look_at_object, NULL);
	if (reader.name && is_the_c_librarys(reader.name)) {
		registers[REG_RAX] = registers[REG_RDX] = 0;
		registers[REG_RIP] += length;
		return;
	}
	snprintf(text, sizeof(text), "%s reads the processor's cycle counter (%s at 0x%lx of %s)\n",
		 program_invocation_short_name, length == 2 ? "rdtsc" : "rdtscp",
		 (unsigned long)(reader.at - reader.base), reader.name ? reader.name : "code made while it ran");
	if (syscall(SYS_write, STDERR_FILENO, text, strlen(text)) < 0)
		text[0] = '\0';
	_exit(CYCLES_EXIT_CODE);
}

__attribute__((constructor)) static void begin(void)
{
	const char *told = getenv("KNEE_WAIT_NS");
	long ns = told ? atol(told) : 0;
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	uint64_t *mark;

	if (ns > 0)
		wait_time = (struct timespec){ ns / SECOND, ns % SECOND };
	/* Lines are written out at once, with their time. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGSEGV, &action, NULL);
	mark = mmap((void *)CYCLES_MARK_AT, sizeof(*mark), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (mark != MAP_FAILED)
		*mark = CYCLES_MARK;
}
