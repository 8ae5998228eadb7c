// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Runs programs, whose words are in one string. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define WORDS	32

/* Starts a program with one of its outputs on `*output`, unless that is NULL. */
static pid_t start(const char *program, const char *command, int which, FILE **output)
{
	char text[1024], *words[WORDS] = { (char *)program };
	int count = 1, ends[2];
	pid_t child;

	snprintf(text, sizeof(text), "%s", command);
	for (char *word = strtok(text, " "); word && count < WORDS - 1; word = strtok(NULL, " "))
		words[count++] = word;
	words[count] = NULL;
	if (output && pipe(ends))
		return -1;
	fflush(stdout);
	child = fork();
	if (!child) {
		/* Of errors, the console hears. */
		dup2(STDOUT_FILENO, STDERR_FILENO);
		if (output) {
			dup2(ends[1], which);
			close(ends[0]);
			close(ends[1]);
		}
		execv(program, words);
		_exit(127);
	}
	if (output) {
		close(ends[1]);
		*output = fdopen(ends[0], "r");
	}
	return child;
}

static bool is_done(pid_t child)
{
	int status;

	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

bool run(const char *program, const char *command, char *text, size_t size)
{
	size_t length = 0, read;
	FILE *output = NULL;
	pid_t child = start(program, command, STDOUT_FILENO, text ? &output : NULL);
	char rest[512];

	if (!text)
		return is_done(child);
	while (output && (read = fread(rest, 1, sizeof(rest), output))) {
		read = read < size - 1 - length ? read : size - 1 - length;
		memcpy(text + length, rest, read);
		length += read;
	}
	text[length] = 0;
	if (output)
		fclose(output);
	return is_done(child);
}

bool load_bpf(const char *part, const char *command)
{
	FILE *output = NULL;
	pid_t child = start(LOADER, command, STDERR_FILENO, &output);
	char line[512];

	while (output && fgets(line, sizeof(line), output))
		printf("knee %s said %s", part, line);
	if (output)
		fclose(output);
	return is_done(child);
}
