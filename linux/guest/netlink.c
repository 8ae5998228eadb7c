// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Sends encoded messages to rtnetlink and waits for the kernel's answer. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"

/* A socket per namespace, opened when it is first needed. */
static int *sockets;

static int socket_of(uint32_t namespace)
{
	int yes = 1;

	if (!sockets) {
		sockets = malloc(plan->namespaces * sizeof(*sockets));
		if (!sockets)
			fail("no memory");
		memset(sockets, -1, plan->namespaces * sizeof(*sockets));
	}
	if (sockets[namespace] < 0) {
		plan_enter(namespace);
		sockets[namespace] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (sockets[namespace] < 0)
			fail("no netlink socket");
		setsockopt(sockets[namespace], SOL_NETLINK, NETLINK_EXT_ACK, &yes, sizeof(yes));
	}
	return sockets[namespace];
}

/* The text of an error, which its attributes may hold. */
static const char *reason(const struct nlmsghdr *head, const struct nlmsgerr *error)
{
	const char *at = (const char *)(error + 1), *end = (const char *)head + head->nlmsg_len;

	if (!(head->nlmsg_flags & NLM_F_CAPPED))
		at += error->msg.nlmsg_len - sizeof(error->msg);
	while (at + sizeof(struct nlattr) <= end) {
		const struct nlattr *attribute = (const void *)at;

		if (attribute->nla_type == NLMSGERR_ATTR_MSG)
			return at + sizeof(*attribute);
		at += NLA_ALIGN(attribute->nla_len);
	}
	return "";
}

void netlink_send(uint32_t namespace, const void *message, size_t size)
{
	int fd = socket_of(namespace);
	union {
		struct nlmsghdr head;
		char bytes[8192];
	} answer;
	const struct nlmsgerr *error = NLMSG_DATA(&answer.head);
	ssize_t got;

	if (send(fd, message, size, 0) != (ssize_t)size)
		fail("cannot send to netlink");
	got = recv(fd, &answer, sizeof(answer), 0);
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(*error)) || answer.head.nlmsg_type != NLMSG_ERROR)
		fail("no answer from netlink");
	if (error->error) {
		const char *why = reason(&answer.head, error);

		errno = -error->error;
		fail("the kernel refuses message %d of rtnetlink %s",
		     ((const struct nlmsghdr *)message)->nlmsg_type, why);
	}
}
