// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Senders and receivers. What costs time here is waking up, so both do it rarely: a sender when
 * little that is unsent is left, and then it writes much; a receiver for half a megabyte, which it
 * throws away unread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"

#define RECEIVE_LOW_WATER	(512 * 1024)
#define WRITE_SIZE		(512 * 1024)

enum role { LISTENER, RECEIVER, SENDER };

struct flow {
	int sender, receiver;	/* -1: none */
	uint64_t left;		/* bytes still to be written */
	uint64_t window_clamp;
};

static struct flow *flows;
static int epoll;
static char zeros[WRITE_SIZE];

void flows_init(uint32_t count, int epoll_fd)
{
	epoll = epoll_fd;
	flows = calloc(count ? count : 1, sizeof(*flows));
	if (!flows)
		fail("no memory for the flows");
	for (uint32_t i = 0; i < count; i++)
		flows[i].sender = flows[i].receiver = -1;
}

static void set(int fd, int level, int name, const void *value, socklen_t size, const char *what)
{
	if (setsockopt(fd, level, name, value, size))
		fail("cannot set %s", what);
}

static void set_int(int fd, int level, int name, int value, const char *what)
{
	set(fd, level, name, &value, sizeof(value), what);
}

static void watch(int fd, uint32_t events, uint32_t flow, enum role role)
{
	struct epoll_event event = { .events = events, .data.u64 = (uint64_t)role << 32 | flow };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		fail("cannot wait for a socket");
}

/* A socket bound to the flow's port; buffers have at most 2^30 bytes (the kernel doubles them). */
static int bound(uint32_t namespace, uint32_t address, uint32_t flow)
{
	struct sockaddr_in here = {
		.sin_family = AF_INET,
		.sin_port = htons(KNEE_PORT + flow),
		.sin_addr.s_addr = address,
	};
	int fd;

	plan_enter(namespace);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0)
		fail("no socket for flow %u", flow + 1);
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (bind(fd, (struct sockaddr *)&here, sizeof(here)))
		fail("no port for flow %u", flow + 1);
	return fd;
}

static void listen_for(uint32_t index, const struct plan_flow *told)
{
	int fd = bound(told->receiver, told->destination, index);

	set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, told->receive_buffer, "SO_RCVBUF");
	if (told->window_clamp)
		set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, told->window_clamp, "TCP_WINDOW_CLAMP");
	if (told->same_at_receiver)
		set(fd, IPPROTO_TCP, TCP_CONGESTION, told->cc, strlen(told->cc), told->cc);
	if (listen(fd, 1))
		fail("flow %u cannot listen", index + 1);
	flows[index].receiver = fd;
	flows[index].window_clamp = told->window_clamp;
	watch(fd, EPOLLIN, index, LISTENER);
}

/* What connections of this namespace negotiate; a SYN follows it at once. */
static void set_ecn(uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	plan_write_sysctl("net/ipv4/tcp_ecn", text);
}

void flows_start(uint32_t index, const struct plan_flow *told)
{
	struct sockaddr_in there = {
		.sin_family = AF_INET,
		.sin_port = htons(KNEE_PORT + index),
		.sin_addr.s_addr = told->destination,
	};
	struct knee_flow probe = {
		.flow = index,
		.last_link = told->last_link,
		.phases = told->phases,
		.bytes = told->bytes,
		.ect1 = told->ect1,
	};
	/* The highest rate but one, so that the algorithm's own rate paces. */
	uint64_t paced = ~0ULL - 1;
	int fd;

	listen_for(index, told);
	fd = bound(told->sender, told->source, index);
	set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, told->send_buffer, "SO_SNDBUF");
	set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, told->unsent, "TCP_NOTSENT_LOWAT");
	set(fd, IPPROTO_TCP, TCP_CONGESTION, told->cc, strlen(told->cc), told->cc);
	if (told->paced)
		set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &paced, sizeof(paced), "SO_MAX_PACING_RATE");
	probe.fd = fd;
	probe_call(KNEE_FLOW, &probe, "cannot watch a flow");
	flows[index].sender = fd;
	flows[index].left = told->bytes ? told->bytes : UINT64_MAX;
	if (told->ecn)
		set_ecn(told->ecn);
	if (connect(fd, (struct sockaddr *)&there, sizeof(there)) && errno != EINPROGRESS)
		fail("flow %u cannot connect", index + 1);
	if (told->ecn)
		set_ecn(told->ecn_otherwise);
	watch(fd, EPOLLOUT | EPOLLET, index, SENDER);
}

/* The probe copies the algorithm of a socket, which stays open so that the algorithm stays loaded. */
void flows_watch_connections(uint32_t index, const struct plan_connections *told)
{
	struct knee_flow probe = { .flow = index, .ect1 = told->ect1 };

	probe.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (probe.fd < 0)
		fail("no socket for flow %u", index + 1);
	set(probe.fd, IPPROTO_TCP, TCP_CONGESTION, told->cc, strlen(told->cc), told->cc);
	probe_call(KNEE_CONNECTIONS, &probe, "cannot watch connections");
}

void flows_stop(uint32_t index)
{
	flows[index].left = 0;
}

/* From Linux 6.11 on a kernel forgets the clamp as it learns the size of packets (tcp_measure_rcv_mss). */
static void clamp_window(const struct flow *flow)
{
	int now = 0;
	socklen_t size = sizeof(now);

	if (!flow->window_clamp)
		return;
	getsockopt(flow->receiver, IPPROTO_TCP, TCP_WINDOW_CLAMP, &now, &size);
	if ((uint64_t)now != flow->window_clamp)
		set_int(flow->receiver, IPPROTO_TCP, TCP_WINDOW_CLAMP, flow->window_clamp, "TCP_WINDOW_CLAMP");
}

static void accept_one(uint32_t index)
{
	struct flow *flow = &flows[index];
	int fd = accept4(flow->receiver, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	close(flow->receiver);
	flow->receiver = fd;
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, RECEIVE_LOW_WATER, "SO_RCVLOWAT");
	clamp_window(flow);
	watch(fd, EPOLLIN, index, RECEIVER);
}

/* Reads everything; if more arrives meanwhile, epoll reports it again. */
static void receive(uint32_t index)
{
	recv(flows[index].receiver, NULL, 1 << 30, MSG_TRUNC | MSG_DONTWAIT);
	clamp_window(&flows[index]);
}

static void send_on(uint32_t index)
{
	struct flow *flow = &flows[index];

	while (flow->left) {
		size_t size = flow->left < WRITE_SIZE ? flow->left : WRITE_SIZE;
		ssize_t sent = send(flow->sender, zeros, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN)
			fail("flow %u cannot send", index + 1);
		if (sent > 0 && flow->left != UINT64_MAX)
			flow->left -= sent;
		/* It was taken only in part, so the next write would fail. */
		if (sent < (ssize_t)size)
			break;
	}
}

void flows_event(uint64_t data, uint32_t events)
{
	uint32_t index = (uint32_t)data;

	switch (data >> 32) {
	case LISTENER:
		accept_one(index);
		break;
	case RECEIVER:
		receive(index);
		break;
	case SENDER:
		if (events & (EPOLLERR | EPOLLHUP)) {
			int error = 0;
			socklen_t size = sizeof(error);

			getsockopt(flows[index].sender, SOL_SOCKET, SO_ERROR, &error, &size);
			errno = error;
			fail("flow %u lost its connection", index + 1);
		}
		send_on(index);
		break;
	}
}
