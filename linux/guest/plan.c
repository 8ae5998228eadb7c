// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Reads the plan and executes its records. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

const struct plan_header *plan;

void plan_load(const char *path)
{
	struct stat about;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t done = 0;
	char *bytes;

	if (fd < 0 || fstat(fd, &about))
		fail("cannot read the plan");
	bytes = malloc(about.st_size);
	if (!bytes)
		fail("no memory for the plan");
	while (done < (size_t)about.st_size) {
		ssize_t got = read(fd, bytes + done, about.st_size - done);

		if (got <= 0)
			fail("cannot read the plan");
		done += got;
	}
	close(fd);
	plan = (const void *)bytes;
	if (done < sizeof(*plan) || plan->magic != PLAN_MAGIC || plan->size != done)
		fail("the plan is not whole");
}

const struct plan_record *plan_next(const struct plan_record *record)
{
	const char *next;

	if (record)
		next = (const char *)(record + 1) + ((record->size + 7) & ~7U);
	else
		next = (const char *)(plan + 1);
	return next < (const char *)plan + plan->size ? (const void *)next : NULL;
}

void plan_namespaces(void)
{
	int first = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (first < 0 || dup3(first, PLAN_NAMESPACE_FD - 1, O_CLOEXEC) < 0)
		fail("no network namespace");
	close(first);
	for (uint32_t i = 0; i < plan->namespaces; i++) {
		int fd;

		if (unshare(CLONE_NEWNET))
			fail("no network namespace");
		fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (fd < 0 || dup3(fd, PLAN_NAMESPACE_FD + i, O_CLOEXEC) < 0)
			fail("no network namespace");
		close(fd);
	}
}

void plan_enter(uint32_t namespace)
{
	static uint32_t where = PLAN_NOWHERE;

	if (namespace == where)
		return;
	if (setns(PLAN_NAMESPACE_FD + namespace, CLONE_NEWNET))
		fail("cannot enter namespace %u", namespace);
	where = namespace;
}

void plan_write_sysctl(const char *path, const char *value)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "/proc/sys/%s", path);
	fd = open(full, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		fail("cannot set %s to %s", path, value);
	close(fd);
}

static void no_offloads(const char *device)
{
	static const uint32_t commands[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		struct ethtool_value off = { .cmd = commands[i] };
		struct ifreq request = { .ifr_data = (void *)&off };

		strncpy(request.ifr_name, device, sizeof(request.ifr_name) - 1);
		if (ioctl(fd, SIOCETHTOOL, &request))
			fail("cannot set the offloads of %s", device);
	}
	close(fd);
}

static void mark(uint32_t kind, uint32_t index)
{
	struct knee_mark told = { .kind = kind, .index = index };

	probe_call(KNEE_MARK, &told, "cannot mark");
}

void plan_apply(const struct plan_record *record)
{
	const void *payload = record + 1;

	switch (record->kind) {
	case PLAN_SYSCTL:
		plan_enter(record->index);
		plan_write_sysctl(payload, (const char *)payload + strlen(payload) + 1);
		break;
	case PLAN_NETLINK:
		netlink_send(record->index, payload, record->size);
		break;
	case PLAN_OFFLOADS:
		plan_enter(record->index);
		no_offloads(payload);
		break;
	case PLAN_LINK:
		plan_enter(record->index);
		probe_call(KNEE_LINK, payload, "cannot watch a queue");
		break;
	case PLAN_DELAY:
		probe_call(KNEE_DELAY, payload, "cannot set a delay");
		break;
	case PLAN_LOSS:
		probe_call(KNEE_LOSS, payload, "cannot set a loss");
		break;
	case PLAN_START:
		flows_start(record->index, payload);
		break;
	case PLAN_STOP:
		flows_stop(record->index);
		break;
	case PLAN_MARK:
		probe_call(KNEE_MARK, payload, "cannot mark");
		break;
	case PLAN_COMMON:
		for (uint32_t i = 0; i < plan->flows; i++)
			mark(KNEE_ROW_COMMON, i);
		break;
	case PLAN_PROGRAM:
		programs_start(record->index, payload);
		break;
	case PLAN_ENDPOINT:
		ends_start(record->index, payload);
		break;
	case PLAN_WATCH:
		probe_call(KNEE_PROGRAM, payload, "cannot watch a program");
		break;
	case PLAN_CONNECTIONS:
		flows_watch_connections(record->index, payload);
		break;
	case PLAN_END:
		programs_signal(record->index, SIGTERM);
		break;
	case PLAN_KILL:
		programs_signal(record->index, SIGKILL);
		break;
	case PLAN_CAPTURE:
		plan_enter(record->index);
		probe_call(KNEE_CAPTURE, payload, "cannot capture packets");
		break;
	case PLAN_UNLOAD:
		if (syscall(SYS_delete_module, payload, O_NONBLOCK))
			fail("the module %s cannot be removed", (const char *)payload);
		break;
	default:
		errno = 0;
		fail("record %u of the plan is not known", record->kind);
	}
}
