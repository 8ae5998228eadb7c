// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Flows of applications: each of their two ends is a process of the program /endpoint in a namespace of the network.
 * Its task is the file /ends/N.task, and what it saw /ends/N.out; they tell each other about messages through a named
 * pipe. The processes are started before time zero and hear of it through a pipe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

struct end {
	pid_t pid;		/* 0: not started, or ended */
	int begin;		/* where it is told about time zero */
};

static struct end *ends;
static uint32_t room;

static struct end *end(uint32_t index)
{
	if (index >= room) {
		uint32_t more = index + 64;

		ends = realloc(ends, more * sizeof(*ends));
		if (!ends)
			fail("no memory for the applications");
		memset(ends + room, 0, (more - room) * sizeof(*ends));
		room = more;
	}
	return &ends[index];
}

/* In the child. What it cannot do the file of errors says, or its exit code. */
__attribute__((noreturn)) static void become(uint32_t index, int begin)
{
	static const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	char task[48], out[48], errors[48];
	char *words[] = { "/endpoint", task, NULL }, *none[] = { NULL };
	int out_fd, errors_fd;

	snprintf(task, sizeof(task), "/ends/%u.task", index);
	snprintf(out, sizeof(out), "/ends/%u.out", index);
	snprintf(errors, sizeof(errors), "/ends/%u.errors", index);
	out_fd = open(out, flags, 0600);
	errors_fd = open(errors, flags, 0600);
	if (out_fd < 0 || errors_fd < 0 || dup2(begin, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(errors_fd, 2) < 0)
		_exit(126);
	close(out_fd);
	close(errors_fd);
	execve("/endpoint", words, none);
	perror("/endpoint");
	_exit(127);
}

void ends_start(uint32_t index, const struct plan_end *told)
{
	struct end *mine = end(index);
	char control[48];
	int pipe_fds[2];

	snprintf(control, sizeof(control), "/dev/control%u", told->flow);
	if (mkfifo(control, 0600) && errno != EEXIST)
		fail("no named pipe for flow %u", told->flow + 1);
	plan_enter(told->namespace);
	if (pipe2(pipe_fds, O_CLOEXEC))
		fail("no pipe for flow %u", told->flow + 1);
	fflush(stdout);
	mine->pid = fork();
	if (mine->pid < 0)
		fail("no process for flow %u", told->flow + 1);
	if (!mine->pid)
		become(index, pipe_fds[0]);
	close(pipe_fds[0]);
	mine->begin = pipe_fds[1];
}

void ends_begin(uint64_t epoch)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)epoch);

	for (uint32_t i = 0; i < room; i++)
		if (ends[i].pid && write(ends[i].begin, text, size) != size)
			fail("an application did not start");
}

int ends_reap(pid_t pid, int status)
{
	for (uint32_t i = 0; i < room; i++) {
		if (ends[i].pid != pid)
			continue;
		ends[i].pid = 0;
		errno = 0;
		if (status)
			fail("end %u of an application failed", i);
		return 1;
	}
	return 0;
}

/* They end by themselves when the run does, and then write what they saw. */
void ends_finish(void)
{
	for (uint32_t i = 0; i < room; i++) {
		pid_t pid = ends[i].pid;
		int status;

		while (pid && ends[i].pid)
			if (waitpid(pid, &status, 0) == pid)
				ends_reap(pid, status);
			else if (errno != EINTR)
				fail("an application is lost");
	}
}
