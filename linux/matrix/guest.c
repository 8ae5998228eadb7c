// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The init of a guest of "knee_house matrix": tries the kernel parts on the kernel that booted, and writes a line per
 * step to the console, "knee PART STEP RESULT". A PART is an algorithm as BPF (lola.bpf) or as a module (lola.ko), or
 * cocoa below another queue discipline (cocoa/htb). The result is "ok", figures, or what went wrong.
 *
 * load        the kernel takes the program or module, and has the algorithm
 * user        an ordinary user may select it
 * transfer    a connection on the loopback device carries TRANSFER bytes
 * restarts    BPF: number of calls of the hook for sending after idle time, out of RESTARTS such sends
 * parameters  modules: each is read and written, and none takes nonsense
 * unload      the algorithm is no longer available; a module stays while a connection has it
 */
#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "guest.h"

#define RESTARTS	5

bool loads_bpf;

static void mounted(const char *type, const char *place)
{
	mkdir(place, 0755);
	if (mount(type, place, type, 0, NULL))
		printf("knee guest mount-%s %s\n", type, strerror(errno));
}

static void loopback_up(void)
{
	struct ifreq device = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0);

	if (socket_ < 0 || ioctl(socket_, SIOCSIFFLAGS, &device))
		printf("knee guest loopback %s\n", strerror(errno));
	close(socket_);
}

static long bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

/* Calls of all programs of `name` that hear of a send after idle time; -1: it has none. */
static long calls(const char *name)
{
	char event[64], start[64];
	union bpf_attr next = {};
	long sum = -1;

	/* The kernel keeps 15 characters of a program's name. */
	snprintf(event, sizeof(event), "%s_cwnd_event", name);
	snprintf(start, sizeof(start), "%s_tx_start", name);
	while (!bpf(BPF_PROG_GET_NEXT_ID, &next)) {
		struct bpf_prog_info info = {};
		union bpf_attr of = { .prog_id = next.next_id };
		union bpf_attr about = { .info = { .info_len = sizeof(info), .info = (uintptr_t)&info } };
		int program = bpf(BPF_PROG_GET_FD_BY_ID, &of);

		next.start_id = next.next_id;
		if (program < 0)
			continue;
		about.info.bpf_fd = program;
		if (!bpf(BPF_OBJ_GET_INFO_BY_FD, &about) &&
		    (!strncmp(info.name, event, sizeof(info.name) - 1) || !strncmp(info.name, start, sizeof(info.name) - 1)))
			sum = (sum < 0 ? 0 : sum) + info.run_cnt;
		close(program);
	}
	return sum;
}

static void try_restarts(const char *name)
{
	long before;
	int ends[2], i;

	if (!connected(name, ends) || !sent(ends, 1000, NULL)) {
		printf("knee %s.bpf restarts %s\n", name, strerror(errno));
		return;
	}
	before = calls(name);
	for (i = 0; i < RESTARTS; i++) {
		usleep(100000);
		sent(ends, 1000, NULL);
	}
	if (before < 0)
		printf("knee %s.bpf restarts -\n", name);
	else
		printf("knee %s.bpf restarts %ld of %d\n", name, calls(name) - before, RESTARTS);
	close(ends[0]);
	close(ends[1]);
}

void try_selected(const char *part, const char *name)
{
	int ends[2], why = select_as_user(name);

	printf("knee %s user %s\n", part, why ? strerror(why) : "ok");
	if (!connected(name, ends) || !sent(ends, TRANSFER, NULL)) {
		printf("knee %s transfer %s\n", part, strerror(errno));
		return;
	}
	printf("knee %s transfer ok\n", part);
	close(ends[0]);
	close(ends[1]);
}

static void try_object(const char *name)
{
	char object[320], part[64], pin[320], command[700];

	snprintf(object, sizeof(object), OBJECTS "/%s.o", name);
	snprintf(part, sizeof(part), "%s.bpf", name);
	snprintf(pin, sizeof(pin), BPFFS "/%s", name);
	snprintf(command, sizeof(command), "load %s %s", object, pin);
	if (!load_bpf(part, command)) {
		printf("knee %s load refused\n", part);
		return;
	}
	printf("knee %s load ok\n", part);
	loads_bpf = true;
	try_selected(part, name);
	try_restarts(name);
	snprintf(command, sizeof(command), "unload %s", pin);
	if (!load_bpf(part, command))
		printf("knee %s unload failed\n", part);
	else
		printf("knee %s unload %s\n", part, is_available(name) ? "still there" : "ok");
}

void each_file(const char *folder, const char *suffix, void (*try)(const char *name))
{
	struct dirent **found;
	int i, count = scandir(folder, &found, NULL, alphasort);

	for (i = 0; i < count; i++) {
		char name[256], *dot;

		snprintf(name, sizeof(name), "%s", found[i]->d_name);
		dot = strrchr(name, '.');
		if (dot && !strcmp(dot, suffix)) {
			*dot = 0;
			try(name);
			fflush(stdout);
		}
	}
}

int main(void)
{
	struct utsname kernel;

	mounted("proc", "/proc");
	mounted("sysfs", "/sys");
	mounted("bpf", BPFFS);
	loopback_up();
	write_file("/proc/sys/kernel/bpf_stats_enabled", "1");
	/* The kernel's messages would get between ours. */
	write_file("/proc/sys/kernel/printk", "1");
	uname(&kernel);
	printf("\nknee guest kernel %s\n", kernel.release);
	each_file(OBJECTS, ".o", try_object);
	each_file(MODULES, ".ko", try_module);
	try_cocoa();
	try_bpf_qdisc();
	/* Counting the calls of BPF programs and their time takes 264 instructions per packet of cocoa. */
	write_file("/proc/sys/kernel/bpf_stats_enabled", "0");
	try_costs();
	printf("knee guest end ok\n");
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
