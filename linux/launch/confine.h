/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef KNEE_CONFINE_H
#define KNEE_CONFINE_H

#include <sys/types.h>

#define CONFINE_MOST_PATHS	512

/* How a kernel whose guest runs programs of others is held, beside what holds every kernel. */
struct confinement {
	int wanted;			/* namespaces and Landlock */
	uid_t uid;			/* whom it becomes; 0: whoever started this */
	gid_t gid;
	unsigned long processes;	/* that it may have; 0: any number */
	unsigned long quota;		/* of the folder `folders`, bytes; 0: none */
	unsigned long memory;		/* of the folder `memory`, bytes; 0: there is none */
	int readable[CONFINE_MOST_PATHS];
	int paths;
	int program;			/* descriptor of the kernel */
};

/* Opens what the kernel will run and read, before rights are given up. */
int confine_open(struct confinement *how, const char *program, char **paths, int count);

/*
 * Like fork(): the child is the first process of new namespaces for users, processes, files, the network and IPC. It
 * has its own user only, and at `gate` the end of a pipe that closes when the parent dies.
 */
pid_t confine_fork(const struct confinement *how, int *gate);

/* In that child: becomes the user, and makes read-only all files but those of the current folder. */
int confine_enter(const struct confinement *how);

/* In the process that becomes the kernel: limits, Landlock and the system calls that it may make. */
int confine_kernel(const struct confinement *how);

/* Without namespaces: gives up root's rights and limits the number of processes. */
int confine_user(const struct confinement *how);

#endif
