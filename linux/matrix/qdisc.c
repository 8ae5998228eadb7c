// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tries cocoa as a BPF queue discipline, and gives it and the module the same packets. The part is cocoa.bpf.
 *
 * load      the kernel takes the program
 * transfer  a connection sends through it, with packets merged for offloads, and it shows them
 * options   those of an interface are taken by the discipline that is there
 * remove    the discipline is deleted while a connection sends, and leaves nothing in the maps
 * same, paced  the decisions of module and BPF are the same, packet by packet, and after each round their counters and
 *           buffers: "20000 packets, 900 dropped"
 * merged    merged packets count as the packets of the link that they will be
 * unload    no new discipline can be made
 */
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"

#define TC		"/tc"
#define DUMMY		"/devices/dummy.ko"
#define DECISIONS	"/cost/knee_decisions.ko"
#define NO_IPV6		"/proc/sys/net/ipv6/conf/default/disable_ipv6"
#define PART		"cocoa.bpf"
#define SHOW		"show " DISCIPLINE_PIN
/* Loads of the module that compares; between them, counters and buffers are compared. */
#define ROUNDS		6
#define STEPS		400
#define FLOWS		3
#define MERGED		7
#define CLEAR		5
#define READ_ALL	3

static char here[1 << 16], there[1 << 16];

static void result(const char *step, const char *what)
{
	printf("knee " PART " %s %s\n", step, what);
	fflush(stdout);
}

/* The number that follows a name at or after `*text`, which then is behind it; -1: there is none. */
static long number(const char **text, const char *name)
{
	const char *found = *text;
	size_t length = strlen(name);

	while ((found = strstr(found, name))) {
		bool begins = found == *text || strchr(" \t\n\"", found[-1]);

		found += length;
		if (!begins || !strchr(" \"", *found))
			continue;
		found += strspn(found, " \":");
		/* In JSON, a list may have the name too. */
		if (!isdigit(*found) && *found != '-')
			continue;
		*text = found;
		return strtol(found, NULL, 10);
	}
	return -1;
}

static long first(const char *text, const char *name)
{
	return number(&text, name);
}

static int by_size(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

static int buffers(const char *text, long *found)
{
	int count = 0;

	while (count < FLOWS + 1 && (found[count] = number(&text, "buffer")) >= 0)
		count++;
	qsort(found, count, sizeof(*found), by_size);
	return count;
}

/* What differs between the module's statistics and those of BPF, or NULL. */
static const char *compare(long late)
{
	static const char *const EQUAL[] = {
		"enlargements", "reductions", "guard_intervals", "intervals", "limit_drops", "flow_drops", "trim_drops",
		"throttled", "allocation_errors", "flows", "inactive_flows", "throttled_flows", "memory", "learned_buffer",
	};
	/* In us, rounded down, of times that differ by what `late` says. */
	static const char *const NEARLY[] = { "longest_interval", "guard_interval" };
	static char difference[256];
	long ours[FLOWS + 2], theirs[FLOWS + 2];
	int count;

	if (!run(TC, "-s qdisc show dev dummy0", here, sizeof(here)) || !run(LOADER, SHOW, there, sizeof(there)))
		return "no statistics";
	for (size_t i = 0; i < sizeof(EQUAL) / sizeof(EQUAL[0]); i++) {
		long a = first(here, EQUAL[i]), b = first(there, EQUAL[i]);

		snprintf(difference, sizeof(difference), "%s: %ld and %ld", EQUAL[i], a, b);
		if (a < 0 || a != b)
			return difference;
	}
	for (size_t i = 0; i < sizeof(NEARLY) / sizeof(NEARLY[0]); i++) {
		long a = first(here, NEARLY[i]), b = first(there, NEARLY[i]);

		snprintf(difference, sizeof(difference), "%s: %ld and %ld", NEARLY[i], a, b);
		if (a < 0 || labs(a - b) > late / 1000 + 1)
			return difference;
	}
	if (!run(TC, "-s class show dev dummy0", here, sizeof(here)))
		return "no flows";
	count = buffers(here, ours);
	if (count != FLOWS || buffers(there, theirs) != count || memcmp(ours, theirs, count * sizeof(*ours))) {
		snprintf(difference, sizeof(difference), "buffers of %d flows: %ld, %ld, %ld and %ld, %ld, %ld", count,
			 ours[0], ours[1], ours[2], theirs[0], theirs[1], theirs[2]);
		return difference;
	}
	return NULL;
}

/* The last line of the module that compares. */
static const char *told(void)
{
	static char log[1 << 14];
	int length = klogctl(READ_ALL, log, sizeof(log) - 1);
	char *found = NULL, *next = log;

	log[length > 0 ? length : 0] = 0;
	while ((next = strstr(next, "knee_decisions: ")))
		found = next += strlen("knee_decisions: ");
	if (!found)
		return "no answer";
	found[strcspn(found, "\n")] = 0;
	return found;
}

/* Both forms with the same options, the same packets at the same times, and the same answers. */
static void try_same(const char *step, const char *module, const char *bpf)
{
	char command[512];
	const char *differs = NULL;
	unsigned long packets = 0, dropped = 0, of, lost;
	long late, latest = 0;

	snprintf(command, sizeof(command), "qdisc replace dev dummy0 root handle 9: cocoa %s", module);
	if (!run(TC, command, NULL, 0) || !run(TC, "qdisc replace dev dummy1 root handle 9: cocoa_bpf", NULL, 0)) {
		result(step, "no discipline");
		return;
	}
	snprintf(command, sizeof(command), "options " DISCIPLINE_PIN " %u --replace %s",
		 if_nametoindex("dummy1"), bpf);
	if (!load_bpf(PART, command))
		differs = "no options";
	for (int round = 1; round <= ROUNDS && !differs; round++) {
		int why;

		snprintf(command, sizeof(command), "devices=dummy0,dummy1 steps=%d flows=%d seed=%d", STEPS, FLOWS, round);
		klogctl(CLEAR, NULL, 0);
		why = insert_module_with(DECISIONS, command);
		if (why == ECANCELED &&
		    sscanf(told(), "same: %lu packets, %lu dropped, late by up to %ld", &of, &lost, &late) == 3) {
			packets += of;
			dropped += lost;
			latest = late > latest ? late : latest;
			differs = compare(late);
		} else {
			differs = why == ECANCELED || why == EINVAL ? told() : strerror(why);
		}
		if (!differs)
			printf("%s, round %d: late %ld ns, buffer %ld, flow_drops %ld, trim_drops %ld, enlargements %ld, "
			       "reductions %ld, guard_intervals %ld\n", step, round, latest, first(there, "buffer"),
			       first(there, "flow_drops"), first(there, "trim_drops"), first(there, "enlargements"),
			       first(there, "reductions"), first(there, "guard_intervals"));
	}
	/* A comparison in which hardly anything was decided would say nothing. */
	if (!differs && (!first(there, "enlargements") || !first(there, "reductions") || dropped < 100))
		differs = "hardly anything was dropped";
	if (differs)
		result(step, differs);
	else
		printf("knee " PART " %s %lu packets, %lu dropped\n", step, packets, dropped);
	run(TC, "qdisc del dev dummy0 root", NULL, 0);
	run(TC, "qdisc del dev dummy1 root", NULL, 0);
}

static void set_merged(const char *device)
{
	char command[256];

	snprintf(command, sizeof(command), "qdisc replace dev %s root handle 9: cocoa_bpf", device);
	run(TC, command, NULL, 0);
	snprintf(command, sizeof(command), "options " DISCIPLINE_PIN " %u --replace --set flow_limit=20 "
		 "--set orphan_mask=65535",
		 if_nametoindex(device));
	load_bpf(PART, command);
}

/* NULL, or what is wrong with the flows that are shown; adds to what they hold. */
static const char *merged(long *flows, long *queued)
{
	/* The names in a flow's row are in the order of the alphabet. */
	const char *at = strstr(there, "\"flows\":[{");
	static char wrong[128];
	long packets, buffer;

	while (at && (packets = number(&at, "backlog_packets")) >= 0 && (buffer = number(&at, "buffer")) >= 0) {
		snprintf(wrong, sizeof(wrong), "%ld packets in a buffer of %ld", packets, buffer);
		if (packets % MERGED || packets > buffer + 2 * MERGED - 1)
			return wrong;
		*queued += packets;
		(*flows)++;
	}
	return NULL;
}

/*
 * Packets marked as merged of MERGED: each counts as MERGED packets. One is taken while one more packet fits, and
 * another one as the buffer is enlarged, perhaps by less: a buffer is exceeded by less than two, as by one packet where
 * none is merged.
 */
static void try_gso(void)
{
	long flows = 0, queued = 0;
	const char *wrong = NULL;
	char command[512];

	set_merged("dummy0");
	set_merged("dummy1");
	for (int round = 1; round <= ROUNDS && !wrong; round++) {
		/* Of several lengths, so that some end with much queued. */
		snprintf(command, sizeof(command), "devices=dummy0,dummy1 steps=%d flows=%d seed=%d segments=%d",
			 50 + 7 * round, FLOWS, round, MERGED);
		klogctl(CLEAR, NULL, 0);
		if (insert_module_with(DECISIONS, command) != ECANCELED)
			wrong = told();
		else
			wrong = run(LOADER, SHOW, there, sizeof(there)) ? merged(&flows, &queued) : "no statistics";
	}
	if (!wrong && (!flows || !queued || first(there, "flow_drops") < MERGED))
		wrong = "hardly anything was queued";
	result("merged", wrong ? wrong : "ok");
	run(TC, "qdisc del dev dummy0 root", NULL, 0);
	run(TC, "qdisc del dev dummy1 root", NULL, 0);
}

static void up(const char *name)
{
	struct ifreq device = { .ifr_flags = IFF_UP | IFF_RUNNING };
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(device.ifr_name, sizeof(device.ifr_name), "%s", name);
	if (ioctl(socket_, SIOCSIFFLAGS, &device))
		result("same", strerror(errno));
	close(socket_);
}

static void compare_all(void)
{
	int why;

	if (access(DECISIONS, F_OK) || access(DUMMY, F_OK))
		return;
	/* Not all kernels have IPv6. It would send packets of its own. */
	if (!access(NO_IPV6, F_OK))
		write_file(NO_IPV6, "1");
	why = insert_module(SCHEDULERS "/sch_cocoa.ko");
	why = why ? why : insert_module_with(DUMMY, "numdummies=2");
	if (why) {
		result("same", strerror(why));
		return;
	}
	up("dummy0");
	up("dummy1");
	try_same("same", "limit 200 flow_limit 10 quantum 1514 orphan_mask 65535 max_guard_interval 40ms max_increase 1.5",
		 "--set limit=200 --set flow_limit=10 --set quantum=1514 --set orphan_mask=65535 "
		 "--set max_guard_interval=40000 --set max_increase=98304");
	try_same("paced",
		 "flow_limit 10 orphan_mask 65535 learn_initial on max_guard_rtts 2 base_rtt 20ms flow_max_rate 8mbit",
		 "--set flow_limit=10 --set orphan_mask=65535 --set learn_initial=1 --set max_guard_rtts=131072 "
		 "--set base_rtt=20000 --set flow_max_rate=1000000");
	try_gso();
	remove_module("dummy");
	remove_module("sch_cocoa");
}

/* Whether the maps have a discipline, or a flow. */
static bool shows(const char *name)
{
	char key[64];

	snprintf(key, sizeof(key), "\"%s\":[{", name);
	return run(LOADER, SHOW, there, sizeof(there)) && strstr(there, key);
}

static void try_transfer(void)
{
	int ends[2];

	if (!connected("cubic", ends) || !sent(ends, TRANSFER, NULL)) {
		result("transfer", strerror(errno));
		return;
	}
	if (!shows("qdiscs") || first(there, "bytes") < TRANSFER)
		result("transfer", "the discipline does not show it");
	else
		result("transfer", "ok");
	close(ends[0]);
	close(ends[1]);
}

static void try_options(void)
{
	char command[256];

	snprintf(command, sizeof(command), "options " DISCIPLINE_PIN " %u --set limit=777",
		 if_nametoindex("lo"));
	if (!load_bpf(PART, command)) {
		result("options", "refused");
		return;
	}
	/* It reads them with the next packet. */
	try_transfer();
	result("options", first(there, "limit") == 777 ? "ok" : "not taken");
}

static void try_remove(void)
{
	static char data[1 << 18];
	size_t sent_bytes = 0, received = 0;
	bool removed;
	int ends[2], left;

	if (!connected("cubic", ends)) {
		result("remove", "no connection");
		return;
	}
	while (sent_bytes < sizeof(data)) {
		ssize_t done = send(ends[0], data, sizeof(data) - sent_bytes, MSG_DONTWAIT);

		if (done <= 0)
			break;
		sent_bytes += done;
	}
	removed = run(TC, "qdisc del dev lo root", NULL, 0);
	for (left = 5000; left && received < sent_bytes; left--) {
		ssize_t done = recv(ends[1], data, sizeof(data), MSG_DONTWAIT);

		received += done > 0 ? done : 0;
		usleep(1000);
	}
	result("remove", !removed ? "refused" : !left ? "the transfer stopped" : shows("qdiscs") || shows("flows") ?
	       "something is left" : "ok");
	close(ends[0]);
	close(ends[1]);
}

void try_bpf_qdisc(void)
{
	if (access(DISCIPLINE, F_OK))
		return;
	if (!load_bpf(PART, "load " DISCIPLINE " " DISCIPLINE_PIN)) {
		result("load", "refused");
		return;
	}
	result("load", "ok");
	if (run(TC, "qdisc add dev lo root handle 9: cocoa_bpf", NULL, 0)) {
		try_transfer();
		try_options();
		try_remove();
	} else {
		result("transfer", "tc is refused");
	}
	compare_all();
	if (!load_bpf(PART, "unload " DISCIPLINE_PIN))
		result("unload", "failed");
	else
		result("unload", run(TC, "qdisc add dev lo root cocoa_bpf", NULL, 0) ? "still there" : "ok");
	run(TC, "qdisc del dev lo root", NULL, 0);
}
