// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Writes files of the kernel, and inserts and removes modules. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

void write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		printf("knee guest %s %s\n", path, strerror(errno));
	if (file >= 0)
		close(file);
}

int insert_module(const char *path)
{
	return insert_module_with(path, "");
}

int insert_module_with(const char *path, const char *parameters)
{
	int file = open(path, O_RDONLY | O_CLOEXEC), why = 0;

	if (file < 0 || syscall(SYS_finit_module, file, parameters, 0))
		why = errno;
	if (file >= 0)
		close(file);
	return why;
}

int remove_module(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? errno : 0;
}
