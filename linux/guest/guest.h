/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Interfaces between the parts of the traffic program. */
#ifndef KNEE_GUEST_H
#define KNEE_GUEST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../probe/knee_probe.h"
#include "plan.h"

extern const struct plan_header *plan;
extern int probe_fd;

/* Prints what failed, with errno if it is set, and ends the guest. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A call of the probe that must succeed. */
void probe_call(unsigned long call, const void *argument, const char *what);

/* plan.c */
void plan_load(const char *path);
void plan_namespaces(void);
void plan_enter(uint32_t namespace);
/* The record after this one; NULL if it was the last. For NULL, the first. */
const struct plan_record *plan_next(const struct plan_record *record);
void plan_apply(const struct plan_record *record);
void plan_write_sysctl(const char *path, const char *value);

/* netlink.c */
void netlink_send(uint32_t namespace, const void *message, size_t size);

/* flows.c */
void flows_init(uint32_t count, int epoll_fd);
void flows_start(uint32_t index, const struct plan_flow *told);
void flows_watch_connections(uint32_t index, const struct plan_connections *told);
void flows_stop(uint32_t index);
void flows_event(uint64_t data, uint32_t events);

/* programs.c */
void programs_init(int epoll_fd);
void programs_start(uint32_t index, const struct plan_program *told);
void programs_signal(uint32_t index, int signal);
int programs_event(uint64_t data);
int programs_spun(void);
void programs_finish(void);

/* ends.c */
void ends_start(uint32_t index, const struct plan_end *told);
/* Tells them about time zero, on the monotonic clock. */
void ends_begin(uint64_t epoch);
/* Whether it was one of them that ended; fails where it failed. */
int ends_reap(pid_t pid, int status);
void ends_finish(void);

/* run.c */
void run(int out_fd);
/* Nanoseconds since time zero of the run; before it, 0. */
uint64_t run_now(void);

/* The kind of an epoll event, in the bits above the number of a flow, or from here on of a program. */
#define ROLES_OF_PROGRAMS	16

#endif
