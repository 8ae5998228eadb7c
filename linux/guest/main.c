// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The guest's init, which makes namespaces, devices and queues as the plan says, then sends and
 * receives, or has programs do so (programs.c), and writes what the probe measured. Its root is
 * the run's folder on the host: /plan, /probe.ko and other modules, /rows.
 *
 * The length of /progress says how many millionths are done; on the console, at the end, is "@ done" or
 * "! WHAT" (it failed). Nothing is written there on the way: the host takes it when it likes, and its
 * interrupts would be chance.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest.h"

int probe_fd = -1;

static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

void fail(const char *format, ...)
{
	int error = errno;
	char text[400];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (error)
		printf("! %s: %s\n", text, strerror(error));
	else
		printf("! %s\n", text);
	fflush(stdout);
	power_off();
	abort();
}

void probe_call(unsigned long call, const void *argument, const char *what)
{
	if (ioctl(probe_fd, call, argument))
		fail("%s", what);
}

static void mount_at(const char *kind, const char *where)
{
	if (mount("none", where, kind, 0, NULL))
		fail("cannot mount %s", where);
}

static void console(void)
{
	int fd;

	if (mknod("/dev/console", S_IFCHR | 0600, makedev(5, 1)) ||
	    mknod("/dev/urandom", S_IFCHR | 0600, makedev(1, 9)) ||
	    mknod("/dev/knee", S_IFCHR | 0600, makedev(10, 200)))
		power_off();
	fd = open("/dev/console", O_RDWR);
	if (fd < 0)
		power_off();
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

/* The seed determines all random numbers of the kernel. */
static void seed(void)
{
	struct {
		struct rand_pool_info info;
		uint64_t words[4];
	} entropy = { .info = { .entropy_count = 256, .buf_size = 32 } };
	int fd = open("/dev/urandom", O_RDWR);

	memcpy(entropy.info.buf, plan->seed, sizeof(plan->seed));
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &entropy) || ioctl(fd, RNDRESEEDCRNG))
		fail("cannot seed the random numbers");
	close(fd);
}

/* The file /modules has a line per module: its file, a space, and its parameters. */
static void load_modules(void)
{
	char line[1024];
	FILE *list = fopen("/modules", "r");

	if (!list)
		fail("cannot read /modules");
	while (fgets(line, sizeof(line), list)) {
		char *parameters;
		int fd;

		line[strcspn(line, "\n")] = '\0';
		parameters = strchr(line, ' ');
		if (parameters)
			*parameters++ = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, parameters ? parameters : "", 0))
			fail("the module %s cannot be loaded", line);
		close(fd);
	}
	fclose(list);
}

int main(void)
{
	int out;

	mount_at("ramfs", "/dev");
	console();
	errno = 0;
	mount_at("proc", "/proc");
	plan_load("/plan");
	seed();
	load_modules();
	probe_fd = open("/dev/knee", O_RDONLY | O_CLOEXEC);
	if (probe_fd < 0)
		fail("the probe does not answer");
	out = open("/rows", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (out < 0)
		fail("cannot write the rows");
	run(out);
	if (fsync(out) || close(out))
		fail("cannot write the rows");
	printf("@ done\n");
	power_off();
}
