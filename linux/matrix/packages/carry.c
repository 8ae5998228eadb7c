// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* carry NAME: a connection with the congestion control NAME on the loopback device carries TRANSFER bytes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../guest.h"

int main(int count, char **words)
{
	int ends[2];

	if (count != 2) {
		fprintf(stderr, "usage: carry NAME\n");
		return 2;
	}
	if (connected(words[1], ends) && sent(ends, TRANSFER, NULL))
		return 0;
	fprintf(stderr, "%s: %s\n", words[1], strerror(errno));
	return 1;
}
