// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The init of a guest that has this machine's files, as read-only virtiofs with the tag "machine": runs what the words
 * RUN=PROGRAM and OF=ARGUMENT of the kernel's command line say, with folders of its own for what programs write, and
 * ends the guest. Other words with "=" are in the program's environment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MACHINE	"/machine"

static const struct {
	const char *path;
	const char *parameters;
} MODULES[] = { { "/dummy.ko", "numdummies=0" }, { "/sch_htb.ko", "" } };

static const struct {
	const char *type;
	const char *place;
} OWN[] = {
	{ "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" }, { "tmpfs", "/run" }, { "tmpfs", "/var/cache" },
};

static void need(int result, const char *what)
{
	if (!result)
		return;
	printf("knee guest %s %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_AUTOBOOT);
}

int main(void)
{
	const char *run = getenv("RUN"), *of = getenv("OF");
	int status;

	need(mkdir(MACHINE, 0755), "mkdir");
	need(mount("machine", MACHINE, "virtiofs", MS_RDONLY, NULL), "virtiofs");
	for (size_t i = 0; i < sizeof(MODULES) / sizeof(MODULES[0]); i++)
		need(syscall(SYS_finit_module, open(MODULES[i].path, O_RDONLY), MODULES[i].parameters, 0), MODULES[i].path);
	need(chroot(MACHINE) || chdir("/"), "chroot");
	for (size_t i = 0; i < sizeof(OWN) / sizeof(OWN[0]); i++)
		need(mount(OWN[i].type, OWN[i].place, OWN[i].type, 0, NULL), OWN[i].place);
	if (!run || !of) {
		puts("knee guest run nothing");
	} else if (!fork()) {
		setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
		setenv("TMPDIR", "/run", 1);
		dup2(STDOUT_FILENO, STDERR_FILENO);
		execl(run, run, of, NULL);
		printf("knee guest %s %s\n", run, strerror(errno));
		fflush(stdout);
		_exit(1);
	}
	wait(&status);
	puts("knee guest end ok");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 0;
}
