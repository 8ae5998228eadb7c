// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tries modules of congestion controls: loading, parameters, use, and unloading under load. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define PREFIX		"tcp_"
#define VALUE		64
/* A module is let go of some time after its last connection was closed. */
#define PATIENCE	100

static bool read_value(const char *path, char *value)
{
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, value, VALUE - 1);

	if (file >= 0)
		close(file);
	value[length > 0 ? length : 0] = 0;
	return length > 0;
}

static bool write_value(const char *path, const char *value)
{
	int file = open(path, O_WRONLY);
	bool done = file >= 0 && write(file, value, strlen(value)) > 0;

	if (file >= 0)
		close(file);
	return done;
}

/* Whether a parameter keeps its value when that is written to it, and refuses what is no number. */
static bool is_sound(const char *path)
{
	char before[VALUE], after[VALUE];

	return read_value(path, before) && write_value(path, before) && !write_value(path, "nonsense\n") &&
	       read_value(path, after) && !strcmp(before, after);
}

static void try_parameters(const char *part, const char *module)
{
	char folder[320], path[640];
	struct dirent *entry;
	int sound = 0;
	DIR *found;

	snprintf(folder, sizeof(folder), "/sys/module/%s/parameters", module);
	found = opendir(folder);
	while (found && (entry = readdir(found))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (!is_sound(path)) {
			printf("knee %s parameters %s\n", part, entry->d_name);
			closedir(found);
			return;
		}
		sound++;
	}
	if (found)
		closedir(found);
	printf("knee %s parameters %s\n", part, sound ? "ok" : "none");
}

static void try_unload(const char *part, const char *name, const char *module)
{
	int ends[2], left, why;

	if (!connected(name, ends) || !sent(ends, TRANSFER / 4, NULL)) {
		printf("knee %s unload no connection\n", part);
		return;
	}
	why = remove_module(module);
	if (!why || !sent(ends, TRANSFER / 4, NULL)) {
		printf("knee %s unload while in use\n", part);
		return;
	}
	close(ends[0]);
	close(ends[1]);
	for (left = PATIENCE; left && (why = remove_module(module)); left--)
		usleep(10000);
	printf("knee %s unload %s\n", part, why ? strerror(why) : is_available(name) ? "still there" : "ok");
}

void try_module(const char *module)
{
	const char *name = module + strlen(PREFIX);
	char part[64], path[320];
	int why;

	if (strncmp(module, PREFIX, strlen(PREFIX)))
		return;
	snprintf(part, sizeof(part), "%s.ko", name);
	snprintf(path, sizeof(path), MODULES "/%s.ko", module);
	why = insert_module(path);
	if (why || !is_available(name)) {
		printf("knee %s load %s\n", part, why ? strerror(why) : "not there");
		return;
	}
	printf("knee %s load ok\n", part);
	try_parameters(part, module);
	try_selected(part, name);
	try_unload(part, name, module);
}
