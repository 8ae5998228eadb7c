// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tries cocoa alone on the loopback device and below other queue disciplines, with packets merged for offloads (GSO)
 * and without. A step's result is the goodput of a transfer, and of the backlogs seen the greatest and the greatest
 * length of a packet in them on average.
 *
 * plain, gso  "18.9 Mbit/s, 60 kB, 1514 B"
 * remove      the discipline is deleted while a connection sends
 * tc          the plugin of tc sets options, and shows them and the statistics
 * unload      at the end, the module; it stays while a device has the discipline
 *
 * COCOA_BELOW=NAME on the kernel's command line leaves out all parents but that one.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define TC		"/tc"
#define PLUGINS		"/plugins"
#define RATE		"20mbit"
#define MTU		1500
/* Between two looks at the backlog, s. */
#define INTERVAL	0.05

#define TBF		"qdisc add dev lo root handle 1: tbf rate " RATE " burst 20k limit 10m"
#define FILTER		"filter add dev lo parent 2: protocol all matchall classid 2:1"

/* Options as tc shows them, which is as it takes them. */
#define OPTIONS		"limit 5000 multiplier 0.5 max_guard_interval 500ms learn_initial on quantum 1514b " \
			"flow_max_rate 20Mbit low_rate_threshold 550Kbit ce_threshold 2ms orphan_mask 255"

/* What cocoa is tried below, and the commands of tc that set it up. */
static const struct {
	const char *name;
	const char *commands[5];
} PARENTS[] = {
	{ "nothing", { "qdisc add dev lo root handle 9: cocoa" } },
	{ "htb",
	  { "qdisc add dev lo root handle 1: htb default 1",
	    "class add dev lo parent 1: classid 1:1 htb rate " RATE,
	    "qdisc add dev lo parent 1:1 handle 9: cocoa" } },
	{ "tbf", { TBF, "qdisc add dev lo parent 1:1 handle 9: cocoa" } },
	{ "hfsc",
	  { "qdisc add dev lo root handle 1: hfsc default 1",
	    "class add dev lo parent 1: classid 1:1 hfsc sc rate " RATE " ul rate " RATE,
	    "qdisc add dev lo parent 1:1 handle 9: cocoa" } },
	{ "drr",
	  { TBF, "qdisc add dev lo parent 1:1 handle 2: drr", "class add dev lo parent 2: classid 2:1 drr", FILTER,
	    "qdisc add dev lo parent 2:1 handle 9: cocoa" } },
	{ "qfq",
	  { TBF, "qdisc add dev lo parent 1:1 handle 2: qfq", "class add dev lo parent 2: classid 2:1 qfq weight 10",
	    FILTER, "qdisc add dev lo parent 2:1 handle 9: cocoa" } },
	{ "netem",
	  { "qdisc add dev lo root handle 1: netem delay 5ms rate " RATE,
	    "qdisc add dev lo parent 1:1 handle 9: cocoa" } },
};

static double next_look;
static long greatest, longest, before;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

bool run_tc(const char *command)
{
	return run(TC, command, NULL, 0);
}

/*
 * Notes cocoa's backlog, every INTERVAL. The kernel reads packets and bytes one
 * after the other while packets come and go: packets are as long as two looks in a
 * row say.
 */
static void look(void)
{
	bool ours = false;
	char shown[4096];
	long bytes, packets, mean;

	if (seconds() < next_look)
		return;
	next_look = seconds() + INTERVAL;
	run(TC, "-s qdisc show dev lo", shown, sizeof(shown));
	for (char *line = strtok(shown, "\n"); line; line = strtok(NULL, "\n")) {
		char *backlog = strstr(line, "backlog ");

		if (!strncmp(line, "qdisc ", 6))
			ours = !strncmp(line, "qdisc cocoa", 11);
		if (!ours || !backlog)
			continue;
		/* "30280b 20p", "124Kb 82p" */
		bytes = strtol(backlog + 8, &backlog, 10);
		bytes *= *backlog == 'K' ? 1024 : *backlog == 'M' ? 1 << 20 : 1;
		backlog = strchr(backlog, ' ');
		packets = backlog ? strtol(backlog, NULL, 10) : 0;
		mean = packets ? bytes / packets : 0;
		if (mean < before ? mean > longest : before > longest)
			longest = mean < before ? mean : before;
		before = mean;
		if (bytes > greatest)
			greatest = bytes;
	}
}

/* Lets senders merge packets or not. Switching offloads off would not do: TCP merges, and the device splits. */
static bool set_offloads(bool on)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg device;
		struct rtattr attribute;
		unsigned int segments;
	} message = {
		.header = { .nlmsg_len = sizeof(message), .nlmsg_type = RTM_NEWLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.device = { .ifi_index = if_nametoindex("lo") },
		.attribute = { .rta_len = RTA_LENGTH(sizeof(message.segments)), .rta_type = IFLA_GSO_MAX_SEGS },
		.segments = on ? 65535 : 1,
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[256];
	} answer;
	int socket_ = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	bool done = send(socket_, &message, sizeof(message), 0) == sizeof(message) &&
		    recv(socket_, &answer, sizeof(answer), 0) > 0 && answer.header.nlmsg_type == NLMSG_ERROR;

	close(socket_);
	errno = done ? -answer.error.error : errno;
	return done && !answer.error.error;
}

static bool set_mtu(int mtu)
{
	struct ifreq device = { .ifr_name = "lo", .ifr_mtu = mtu };
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
	bool done = !ioctl(socket_, SIOCSIFMTU, &device);

	close(socket_);
	return done;
}

/* NULL, or the command of a discipline that failed. */
static const char *set_up(int parent)
{
	for (int i = 0; i < 5 && PARENTS[parent].commands[i]; i++)
		if (!run_tc(PARENTS[parent].commands[i]))
			return PARENTS[parent].commands[i];
	return NULL;
}

static void try_transfer(const char *name, const char *step, bool offloads)
{
	double began = seconds();
	int ends[2];

	greatest = longest = before = 0;
	next_look = began;
	if (!set_offloads(offloads) || !connected("cubic", ends) || !sent(ends, TRANSFER, look)) {
		printf("knee cocoa/%s %s %s\n", name, step, strerror(errno));
		return;
	}
	printf("knee cocoa/%s %s %.1f Mbit/s, %.0f kB, %ld B\n", name, step, TRANSFER * 8 / 1e6 / (seconds() - began),
	       greatest / 1e3, longest);
	close(ends[0]);
	close(ends[1]);
}

/* Deletes the discipline in the middle of a transfer, which has to go on without it. */
static void try_remove(const char *name)
{
	static char data[1 << 18];
	size_t sent_bytes = 0, received = 0;
	bool busy, removed;
	int ends[2], left;

	if (!connected("cubic", ends)) {
		printf("knee cocoa/%s remove no connection\n", name);
		return;
	}
	while (sent_bytes < sizeof(data)) {
		ssize_t done = send(ends[0], data, sizeof(data) - sent_bytes, MSG_DONTWAIT);

		if (done <= 0)
			break;
		sent_bytes += done;
	}
	busy = remove_module("sch_cocoa") != 0;
	removed = run_tc("qdisc del dev lo root");
	/* What was queued is lost, and sent again. */
	for (left = 5000; left && received < sent_bytes; left--) {
		ssize_t done = recv(ends[1], data, sizeof(data), MSG_DONTWAIT);

		received += done > 0 ? done : 0;
		usleep(1000);
	}
	printf("knee cocoa/%s remove %s\n", name,
	       !busy ? "module gone" : !removed ? "refused" : !left ? "the transfer stopped" : "ok");
	close(ends[0]);
	close(ends[1]);
}

static void insert_other(const char *name)
{
	char path[320];
	int why;

	if (!strcmp(name, "sch_cocoa"))
		return;
	snprintf(path, sizeof(path), SCHEDULERS "/%s.ko", name);
	why = insert_module(path);
	if (why)
		printf("knee guest %s %s\n", name, strerror(why));
}

/* The words of OPTIONS are pairs, and tc shows them in another order. */
static void try_options(void)
{
	char shown[4096] = "", given[] = OPTIONS, pair[64];
	const char *missing = NULL;

	if (!run_tc("qdisc add dev lo root handle 9: cocoa " OPTIONS)) {
		printf("knee cocoa tc refused\n");
		return;
	}
	run(TC, "-s qdisc show dev lo", shown, sizeof(shown));
	for (char *name = strtok(given, " "), *value; !missing && name; name = strtok(NULL, " ")) {
		value = strtok(NULL, " ");
		snprintf(pair, sizeof(pair), " %s %s ", name, value);
		missing = strstr(shown, pair) ? NULL : pair;
	}
	if (!missing && !strstr(shown, "enlargements 0"))
		missing = " enlargements";
	printf("knee cocoa tc %s%s\n", missing ? "does not show" : "ok", missing ? missing : "");
	run_tc("qdisc del dev lo root");
}

void try_cocoa(void)
{
	const char *only = getenv("COCOA_BELOW");
	int why = insert_module(SCHEDULERS "/sch_cocoa.ko");

	if (why == ENOENT)
		return;
	printf("knee cocoa load %s\n", why ? strerror(why) : "ok");
	setenv("TC_LIB_DIR", PLUGINS, 1);
	each_file(SCHEDULERS, ".ko", insert_other);
	set_mtu(MTU);
	for (int i = 0; !why && i < (int)(sizeof(PARENTS) / sizeof(PARENTS[0])); i++) {
		const char *name = PARENTS[i].name, *command;

		if (only && strcmp(only, name))
			continue;
		command = set_up(i);
		if (command) {
			printf("knee cocoa/%s plain failed: tc %s\n", name, command);
		} else {
			try_transfer(name, "plain", false);
			try_transfer(name, "gso", true);
			try_remove(name);
		}
		/* Also what was set up in part. */
		run_tc("qdisc del dev lo root");
		fflush(stdout);
	}
	if (!why)
		try_options();
	why = remove_module("sch_cocoa");
	printf("knee cocoa unload %s\n", why ? strerror(why) : "ok");
}
