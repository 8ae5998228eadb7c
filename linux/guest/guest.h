/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the parts of the traffic program know of each other. */
#ifndef KNEE_GUEST_H
#define KNEE_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "../probe/knee_probe.h"
#include "plan.h"

extern const struct plan_header *plan;
extern int probe_fd;

/* Says what went wrong, with errno where it is set, and ends the guest. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A call on the probe that has to succeed. */
void probe_call(unsigned long call, const void *argument, const char *what);

/* plan.c */
void plan_load(const char *path);
void plan_namespaces(void);
void plan_enter(uint32_t namespace);
/* The record after this one; NULL: it was the last. The first for NULL. */
const struct plan_record *plan_next(const struct plan_record *record);
void plan_apply(const struct plan_record *record);
void plan_write_sysctl(const char *path, const char *value);

/* netlink.c */
void netlink_send(uint32_t namespace, const void *message, size_t size);

/* flows.c */
void flows_init(uint32_t count, int epoll_fd);
void flows_start(uint32_t index, const struct plan_flow *told);
void flows_stop(uint32_t index);
void flows_event(uint64_t data, uint32_t events);

/* programs.c */
void programs_init(int epoll_fd);
void programs_start(uint32_t index, const struct plan_program *told);
void programs_signal(uint32_t index, int signal);
int programs_event(uint64_t data);
int programs_spun(void);
void programs_finish(void);

/* run.c */
void run(int out_fd);
/* Nanoseconds since time zero of the run; before it, 0. */
uint64_t run_now(void);

/* What an epoll event is about, above the flow's or the program's number: of flows, and from here on of programs. */
#define ROLES_OF_PROGRAMS	16

#endif
