// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The init of the guest of "make stress": several processors use the modules at
 * once, in all ways that user space has, for SECONDS of the command line, and
 * longer where the machine is too busy for each to be done often enough.
 *
 * connections  carry data with LoLa, delay-based AIMD and CUBIC, and end
 * datagrams    of many flows, more than the queues take
 * changed      cocoa's options
 * dumped       its options, statistics and flows
 * replaced     cocoa is deleted and added, alone and below others
 * asked        inet_diag, for the state of all connections
 * set          the parameters of LoLa and delay-based AIMD
 * reloaded     the modules are removed, where nothing has them, and inserted
 *
 * It writes "knee stress WHAT COUNT of LEAST" for each to the console, and at the end
 * whether the modules can be removed, whether lockdep still works, and what
 * kmemleak found. The kernel's own messages are on the console too: the host
 * looks for reports in them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../include/uapi/knee_pkt_sched.h"
#include "../matrix/guest.h"

#define TC		"/tc"
#define LEAKS		"/sys/kernel/debug/kmemleak"
#define LOCKS		"/proc/lockdep_stats"
#define MTU		1500
/* kmemleak takes what is younger than 5 s for in use. */
#define LEAK_AGE	6
/* What a step may take beyond the end, s. */
#define GRACE		10
/* How much longer it may take on a busy machine. */
#define LONGEST		10
/* How long cocoa remembers a flow without packets, s; it has to stay longer, or it never forgets one. */
#define REMEMBERED	10
/* A module is let go of some time after its last use, s. */
#define PATIENCE	30

#define LENGTH(array)	(int)(sizeof(array) / sizeof((array)[0]))

static const char *const CONTROLS[] = { "lola", "daimd", "lola_wild", "lola", "daimd", "lola_wild", "cubic" };
static const char *const NAMES[] = { "tcp_lola", "tcp_lola_wild", "tcp_daimd", "sch_cocoa" };

/* The ways in which tc adds cocoa. */
static const char *const PLACES[][3] = {
	{ "qdisc add dev lo root handle 9: cocoa" },
	{ "qdisc add dev lo root handle 9: cocoa orphan_mask 15 limit 200" },
	{ "qdisc add dev lo root handle 1: htb default 1",
	  "class add dev lo parent 1: classid 1:1 htb rate 5mbit",
	  "qdisc add dev lo parent 1:1 handle 9: cocoa flow_limit 20" },
	{ "qdisc add dev lo root handle 1: tbf rate 3mbit burst 20k limit 10m",
	  "qdisc add dev lo parent 1:1 handle 9: cocoa learn_initial on" },
	{ "qdisc add dev lo root handle 1: netem delay 2ms",
	  "qdisc add dev lo parent 1:1 handle 9: cocoa flow_max_rate 2mbit" },
	/* Nowhere, so that its module can be removed. */
	{ NULL },
};

struct worker {
	const char *what;
	bool (*step)(void);	/* whether it was done */
	int count;		/* that many at once */
	unsigned long least;	/* how often it has to be done */
};

/* Shared by all processes: how often each worker's step was done, and whether that is enough. */
static struct {
	unsigned long done[16];
	bool over;
} *shared;

static unsigned int any(unsigned int below)
{
	return (unsigned int)random() % below;
}

static bool connection(void)
{
	/* From time to time none has the modules, so that they can be removed. */
	bool ours = time(NULL) % 16 >= 4;
	int ends[2] = { -1, -1 };
	bool carried;

	carried = connected(ours ? CONTROLS[any(LENGTH(CONTROLS))] : "cubic", ends);
	carried = carried && sent(ends, 1 << (10 + any(8)), NULL);
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	return carried;
}

static bool datagrams(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static char data[40000];
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0), segment = 1000;

	/* Many ports are many flows. The kernel cuts what is sent at once: queues fill however slow the guest is. */
	setsockopt(socket_, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	for (int i = 0; i < 50; i++) {
		to.sin_port = htons(10000 + any(3000));
		sendto(socket_, data, 1 + any(sizeof(data)), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
	}
	close(socket_);
	usleep(100000);
	return true;
}

static bool tc(const char *command)
{
	static char shown[1 << 16];

	return run(TC, command, shown, sizeof(shown));
}

/* Sends a request over netlink and takes the whole answer; whether it ended without an error. */
static bool request(int protocol, struct nlmsghdr *header)
{
	static char answer[1 << 16];
	int socket_ = socket(AF_NETLINK, SOCK_RAW, protocol);
	ssize_t length = send(socket_, header, header->nlmsg_len, 0);
	int error = 1;

	while (error > 0 && length > 0) {
		struct nlmsghdr *part = (struct nlmsghdr *)answer;

		length = recv(socket_, answer, sizeof(answer), 0);
		for (int left = length; NLMSG_OK(part, left); part = NLMSG_NEXT(part, left))
			if (part->nlmsg_type == NLMSG_DONE || part->nlmsg_type == NLMSG_ERROR)
				error = *(int *)NLMSG_DATA(part);
	}
	close(socket_);
	return !error;
}

/* A request of the traffic control, without attributes. */
static struct traffic {
	struct nlmsghdr header;
	struct tcmsg tc;
	char attributes[512];
} traffic(int type, int flags)
{
	return (struct traffic){
		.header = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)),
			.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | flags,
		},
		.tc = { .tcm_family = AF_UNSPEC, .tcm_ifindex = if_nametoindex("lo") },
	};
}

static struct rtattr *attribute(struct traffic *message, int type, const void *value, size_t size)
{
	struct rtattr *added = (void *)message + NLMSG_ALIGN(message->header.nlmsg_len);

	added->rta_type = type;
	added->rta_len = RTA_LENGTH(size);
	memcpy(RTA_DATA(added), value, size);
	message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + RTA_SPACE(size);
	return added;
}

/* Adds cocoa or changes its options; over netlink and not by tc, which takes long to start. */
static bool set_cocoa(unsigned int parent, int flags)
{
	static const struct {
		int type;
		size_t size;
		unsigned int least, below, unit;
		unsigned int halved;	/* at most so often */
	} OPTIONS[] = {
		/* Often below what is queued, which is then dropped within the change. */
		{ TCA_COCOA_LIMIT, 4, 1, 5000, 1, 10 },
		{ TCA_COCOA_FLOW_LIMIT, 4, 1, 200, 1, 0 },
		{ TCA_COCOA_MEMORY_LIMIT, 4, 10000, 1 << 22, 1, 6 },
		{ TCA_COCOA_FLOW_MAX_RATE, 8, 0, 50, 5000, 0 },
		{ TCA_COCOA_CE_THRESHOLD, 4, 0, 5, 1000, 0 },
		{ TCA_COCOA_MULTIPLIER, 4, 1 << 16, 1 << 16, 1, 0 },
		{ TCA_COCOA_LEARN_INITIAL, 1, 0, 2, 1, 0 },
		{ TCA_COCOA_MAX_GUARD_INTERVAL, 4, 0, 2000, 1000, 0 },
	};
	struct traffic message = traffic(RTM_NEWQDISC, NLM_F_ACK | flags);
	struct rtattr *options;

	message.tc.tcm_parent = parent;
	message.tc.tcm_handle = TC_H_MAKE(9 << 16, 0);
	attribute(&message, TCA_KIND, "cocoa", sizeof("cocoa"));
	options = attribute(&message, TCA_OPTIONS | NLA_F_NESTED, "", 0);
	for (int i = 0; i < LENGTH(OPTIONS); i++) {
		unsigned int more = any(OPTIONS[i].below) >> any(1 + OPTIONS[i].halved);
		unsigned long value = (OPTIONS[i].least + more) * OPTIONS[i].unit;

		attribute(&message, OPTIONS[i].type, &value, OPTIONS[i].size);
	}
	options->rta_len = (char *)&message + message.header.nlmsg_len - (char *)options;
	return request(NETLINK_ROUTE, &message.header);
}

static bool change(void)
{
	bool changed = set_cocoa(TC_H_ROOT, 0) || set_cocoa(TC_H_MAKE(1 << 16, 1), 0);

	usleep(5000);
	return changed;
}

static bool dump(void)
{
	static const int TYPES[] = { RTM_GETQDISC, RTM_GETTCLASS };
	bool dumped = true;

	for (int i = 0; i < LENGTH(TYPES); i++) {
		struct traffic message = traffic(TYPES[i], NLM_F_DUMP);

		dumped = request(NETLINK_ROUTE, &message.header) && dumped;
	}
	usleep(5000);
	return dumped;
}

static bool remove_root(void)
{
	struct traffic message = traffic(RTM_DELQDISC, NLM_F_ACK);

	message.tc.tcm_parent = TC_H_ROOT;
	return request(NETLINK_ROUTE, &message.header);
}

static bool replace(void)
{
	int place = any(2 * LENGTH(PLACES));
	bool added = true;

	remove_root();
	if (place >= LENGTH(PLACES))
		added = set_cocoa(TC_H_ROOT, NLM_F_CREATE | NLM_F_EXCL);
	else
		for (int i = 0; i < LENGTH(PLACES[place]) && PLACES[place][i]; i++)
			added = added && tc(PLACES[place][i]);
	if (any(8))
		usleep(any(500000));
	else
		sleep(REMEMBERED + 5);
	return added;
}

static bool ask(void)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} message = {
		.header = {
			.nlmsg_len = sizeof(message),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.request = {
			.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = 1 << (INET_DIAG_VEGASINFO - 1) | 1 << (INET_DIAG_INFO - 1),
			.idiag_states = -1,
		},
	};
	bool answered = request(NETLINK_SOCK_DIAG, &message.header);

	usleep(2000);
	return answered;
}

static bool write_number(const char *path, unsigned int number)
{
	int file = open(path, O_WRONLY);
	bool written = file >= 0 && dprintf(file, "%u\n", number) > 0;

	if (file >= 0)
		close(file);
	return written;
}

static bool set(void)
{
	bool written = write_number("/sys/module/tcp_lola/parameters/q_target", 2000 + any(10000));

	written &= write_number("/sys/module/tcp_lola/parameters/t_measure", 1000 + any(100000));
	written &= write_number("/sys/module/tcp_lola_wild/parameters/t_measure", 1000 + any(100000));
	written &= write_number("/sys/module/tcp_lola_wild/parameters/adapt", any(2));
	written &= write_number("/sys/module/tcp_daimd/parameters/tau0", 1 + any(50000));
	written &= write_number("/sys/module/tcp_daimd/parameters/increase", any(4));
	usleep(20000);
	return written;
}

static int insert(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), MODULES "/%s.ko", name);
	return insert_module(path);
}

/* Modules of the kernel that a distribution does not build in; in this order, since some need others. */
static void insert_others(void)
{
	static const char *const OTHERS[] = { "inet_diag", "tcp_diag", "sch_htb", "sch_tbf", "sch_netem" };

	for (int i = 0; i < LENGTH(OTHERS); i++) {
		char path[64];
		int why;

		snprintf(path, sizeof(path), SCHEDULERS "/%s.ko", OTHERS[i]);
		why = insert_module(path);
		if (why && why != ENOENT)
			printf("knee stress %s %s\n", OTHERS[i], strerror(why));
	}
}

/*
 * Where a module is in use it stays, and that is as good. It is seldom away: otherwise cocoa, which "replace" deletes
 * for a moment, would hardly ever be there to be added.
 */
static bool reload(void)
{
	const char *name = NAMES[any(LENGTH(NAMES))];
	bool removed;

	usleep(any(3000000));
	removed = !remove_module(name);
	usleep(any(100000));
	return removed && !insert(name);
}

static const struct worker WORKERS[] = {
	{ "connections", connection, 4, 200 }, { "datagrams", datagrams, 2, 100 }, { "changed", change, 2, 30 },
	{ "dumped", dump, 2, 30 },	       { "replaced", replace, 1, 30 },	   { "asked", ask, 1, 50 },
	{ "set", set, 1, 100 },		       { "reloaded", reload, 1, 3 },
};

static void work(int which, int number)
{
	srandom(1000 * which + number);
	while (!__atomic_load_n(&shared->over, __ATOMIC_RELAXED))
		if (WORKERS[which].step())
			__atomic_fetch_add(&shared->done[which], 1, __ATOMIC_RELAXED);
	_exit(0);
}

static bool are_done(void)
{
	for (int i = 0; i < LENGTH(WORKERS); i++)
		if (__atomic_load_n(&shared->done[i], __ATOMIC_RELAXED) < WORKERS[i].least)
			return false;
	return true;
}

static void mounted(const char *type, const char *place)
{
	mkdir(place, 0755);
	if (mount(type, place, type, 0, NULL))
		printf("knee stress mount-%s %s\n", type, strerror(errno));
}

static void loopback_up(void)
{
	struct ifreq device = { .ifr_name = "lo", .ifr_mtu = MTU };
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
	int why = ioctl(socket_, SIOCSIFMTU, &device);

	device.ifr_flags = IFF_UP | IFF_RUNNING;
	if (why || ioctl(socket_, SIOCSIFFLAGS, &device))
		printf("knee stress loopback %s\n", strerror(errno));
	close(socket_);
}

static void stressed(int seconds)
{
	time_t begin = time(NULL);
	pid_t children[64];
	int count = 0;

	for (int i = 0; i < LENGTH(WORKERS); i++)
		for (int number = 0; number < WORKERS[i].count; number++) {
			children[count] = fork();
			if (!children[count++])
				work(i, number);
		}
	while (time(NULL) < begin + seconds || (!are_done() && time(NULL) < begin + LONGEST * seconds)) {
		sleep(1);
		if ((time(NULL) - begin) % 15)
			continue;
		printf("knee stress after %ld s:", (long)(time(NULL) - begin));
		for (int i = 0; i < LENGTH(WORKERS); i++)
			printf(" %s %lu", WORKERS[i].what, shared->done[i]);
		printf("\n");
		fflush(stdout);
	}
	shared->over = true;
	/* A connection whose packets are all dropped would wait for long. */
	sleep(GRACE);
	while (count--)
		kill(children[count], SIGKILL);
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < LENGTH(WORKERS); i++)
		printf("knee stress %s %lu of %lu\n", WORKERS[i].what, shared->done[i], WORKERS[i].least);
	printf("knee stress seconds %ld\n", (long)(time(NULL) - begin));
}

static void removed(void)
{
	remove_root();
	for (int i = 0; i < LENGTH(NAMES); i++) {
		int left = PATIENCE, why = remove_module(NAMES[i]);

		/* A reload may have ended in between. */
		while (why && why != ENOENT && left--) {
			sleep(1);
			why = remove_module(NAMES[i]);
		}
		printf("knee stress %s-removed %s\n", NAMES[i], why && why != ENOENT ? strerror(why) : "ok");
	}
}

/* Copies the lines of a file to the console, or those with a word. */
static void show(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (!word || strstr(line, word))
			printf("knee stress log %s", line);
	if (file)
		fclose(file);
	else
		printf("knee stress log %s: %s\n", path, strerror(errno));
}

int main(void)
{
	const char *seconds = getenv("SECONDS");

	mounted("proc", "/proc");
	mounted("sysfs", "/sys");
	mounted("debugfs", "/sys/kernel/debug");
	/* From here on the console has the kernel's messages. */
	write_file("/proc/sys/kernel/printk", "7");
	loopback_up();
	setenv("TC_LIB_DIR", "/plugins", 1);
	insert_others();
	for (int i = 0; i < LENGTH(NAMES); i++) {
		int why = insert(NAMES[i]);

		printf("knee stress %s-inserted %s\n", NAMES[i], why ? strerror(why) : "ok");
	}
	printf("knee stress processors %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
	fflush(stdout);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	stressed(seconds ? atoi(seconds) : 60);
	removed();
	fflush(stdout);
	if (!access(LEAKS, F_OK)) {
		write_file(LEAKS, "scan");
		sleep(LEAK_AGE);
		write_file(LEAKS, "scan");
		show(LEAKS, NULL);
		show(LOCKS, "debug_locks");
	}
	printf("knee stress end ok\n");
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
