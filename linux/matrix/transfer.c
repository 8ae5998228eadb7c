// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Connections with a congestion control on the loopback device. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define AVAILABLE	"/proc/sys/net/ipv4/tcp_available_congestion_control"
#define ORDINARY	65534

/* Whether the kernel has an algorithm of that name. */
bool is_available(const char *name)
{
	char names[512] = "", *word;
	FILE *file = fopen(AVAILABLE, "r");
	bool found = false;

	if (file && fgets(names, sizeof(names), file))
		for (word = strtok(names, " \n"); word; word = strtok(NULL, " \n"))
			found |= !strcmp(word, name);
	if (file)
		fclose(file);
	return found;
}

/* 0, or why an ordinary user may not select the algorithm. */
int select_as_user(const char *name)
{
	int status;
	pid_t child = fork();

	if (!child) {
		int socket_ = socket(AF_INET, SOCK_STREAM, 0);

		if (setgid(ORDINARY) || setuid(ORDINARY))
			_exit(255);
		_exit(setsockopt(socket_, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)) ? errno : 0);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* A connection with the algorithm on the loopback device; its two ends. */
bool connected(const char *name, int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	bool connects;

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	connects = !(bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
		     getsockname(listener, (struct sockaddr *)&address, &length) ||
		     setsockopt(ends[0], IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)) ||
		     setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
		     connect(ends[0], (struct sockaddr *)&address, length));
	ends[1] = connects ? accept(listener, NULL, NULL) : -1;
	close(listener);
	return ends[1] >= 0;
}

/* Sends `bytes` and returns when all are acknowledged; calls `look`, unless it is NULL, each time it waits. */
bool sent(int ends[2], size_t bytes, void (*look)(void))
{
	static char data[1 << 16];
	size_t received = 0, left = bytes;
	int outstanding = 0;

	while (received < bytes) {
		ssize_t done = send(ends[0], data, left < sizeof(data) ? left : sizeof(data), MSG_DONTWAIT);

		if (done < 0 && errno != EAGAIN)
			return false;
		left -= done > 0 ? done : 0;
		done = recv(ends[1], data, sizeof(data), MSG_DONTWAIT);
		if (!done || (done < 0 && errno != EAGAIN))
			return false;
		received += done > 0 ? done : 0;
		/* Paced packets and delayed ACKs need time to pass, which it does only while all sleep. */
		if (done < 0) {
			usleep(200);
			if (look)
				look();
		}
	}
	do {
		usleep(1000);
	} while (!ioctl(ends[0], SIOCOUTQ, &outstanding) && outstanding);
	return true;
}
