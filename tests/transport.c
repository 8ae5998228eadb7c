/*
 * A transport of the tests' own, over UDP: the sender sends packets at a rate, the receiver sends each one's head back,
 * and the sender prints the RTT. How it waits for the next packet is its first word.
 *
 *	transport receive PORT
 *	transport sleep|poll|clock|yield ADDRESS PORT MBIT_PER_S SECONDS
 *	transport compute|cycles|fork|flood
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SIZE 1000

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

static int endpoint(const char *address, int port, int server)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (address)
		inet_pton(AF_INET, address, &at.sin_addr);
	if (server ? bind(fd, (void *)&at, sizeof(at)) : connect(fd, (void *)&at, sizeof(at))) {
		perror("endpoint");
		exit(1);
	}
	return fd;
}

__attribute__((noreturn)) static void receive(int port)
{
	int fd = endpoint(NULL, port, 1);
	struct sockaddr_in from;
	char packet[SIZE];

	for (;;) {
		socklen_t size = sizeof(from);

		recvfrom(fd, packet, sizeof(packet), 0, (void *)&from, &size);
		sendto(fd, packet, sizeof(double), 0, (void *)&from, size);
	}
}

static void take_answers(int fd)
{
	double sent;

	while (recv(fd, &sent, sizeof(sent), MSG_DONTWAIT) == sizeof(sent))
		printf("rtt %.3f ms\n", (now() - sent) * 1e3);
}

static void wait_in(const char *how, int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };

	if (!strcmp(how, "sleep"))
		usleep(100);
	else if (!strcmp(how, "poll"))
		poll(&polled, 1, 0);
	else if (!strcmp(how, "yield"))
		sched_yield();
}

static int send_at(const char *how, const char *address, int port, double mbps, double seconds)
{
	int fd = endpoint(address, port, 0);
	double begin = now(), step = (SIZE + 28) * 8 / (mbps * 1e6), next = begin;
	char packet[SIZE] = { 0 };

	while (now() < begin + seconds) {
		if (now() >= next) {
			double at = now();

			memcpy(packet, &at, sizeof(at));
			send(fd, packet, sizeof(packet), 0);
			next += step;
		}
		take_answers(fd);
		wait_in(how, fd);
	}
	return 0;
}

static int misbehave(const char *how)
{
	printf("about to %s\n", how);
	if (!strcmp(how, "compute"))
		for (volatile unsigned long i = 0;; i++)
			;
	if (!strcmp(how, "cycles"))
		return !__builtin_ia32_rdtsc();
	if (!strcmp(how, "flood"))
		for (;;)
			puts("0123456789012345678901234567890123456789012345678901234567890123456789");
	if (!strcmp(how, "fork") && fork())
		return 0;
	sleep(1000);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "receive"))
		receive(atoi(argv[2]));
	if (argc == 6)
		return send_at(argv[1], argv[2], atoi(argv[3]), atof(argv[4]), atof(argv[5]));
	return argc == 2 ? misbehave(argv[1]) : 2;
}
