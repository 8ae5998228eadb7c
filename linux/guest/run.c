// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The run: executes everything at its time and copies rows from the probe to the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define SECOND		1000000000ULL
#define BATCH		64
#define TIMER		(~0ULL)

static char rows[4096 * KNEE_ROW_SIZE];
static uint64_t epoch;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

uint64_t run_now(void)
{
	uint64_t now = now_ns();

	return epoch && now > epoch ? now - epoch : 0;
}

/* Copies the probe's rows to the file; returns whether there were any. */
static int drain(int out_fd)
{
	ssize_t got = read(probe_fd, rows, sizeof(rows));
	ssize_t done = 0;

	if (got < 0)
		fail("the probe cannot be read");
	while (done < got) {
		ssize_t written = write(out_fd, rows + done, got - done);

		if (written <= 0)
			fail("cannot write the rows");
		done += written;
	}
	return got > 0;
}

static void mark_all(uint32_t kind)
{
	for (uint32_t i = 0; i < plan->flows + plan->links; i++) {
		uint32_t link = i - plan->flows;
		struct knee_mark told = { .kind = kind, .index = i < plan->flows ? i : link | KNEE_IS_LINK };

		probe_call(KNEE_MARK, &told, "cannot mark");
	}
}

static void finish(int out_fd, uint64_t end_ns, uint64_t sampled_ns)
{
	/* A run that is ended early has no sample of part of an interval. */
	if (sampled_ns < end_ns && end_ns >= plan->duration_ns)
		probe_call(KNEE_SAMPLE, &end_ns, "cannot sample");
	mark_all(KNEE_ROW_COMMON);
	mark_all(KNEE_ROW_END);
	errno = 0;
	probe_call(KNEE_FINISH, NULL, "more happened than there was room to record");
	while (drain(out_fd))
		;
}

static const struct plan_record *set_up(int epoll)
{
	struct knee_setup told = { .flows = plan->flows, .links = plan->links, .seed = plan->seed[0] };
	const struct plan_record *record = plan_next(NULL);

	probe_call(KNEE_SETUP, &told, "the probe cannot be set up");
	plan_namespaces();
	flows_init(plan->flows, epoll);
	programs_init(epoll);
	for (; record && record->setup; record = plan_next(record))
		plan_apply(record);
	return record;
}

static void wake_at(int timer, uint64_t at_ns)
{
	struct itimerspec when = { .it_value = { .tv_sec = at_ns / SECOND, .tv_nsec = at_ns % SECOND } };

	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL))
		fail("cannot set the timer");
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void run(int out_fd)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int progress_fd = open("/progress", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = TIMER }, events[BATCH];
	const struct plan_record *record;
	uint64_t sample_ns = plan->interval_ns, progress_ns = plan->progress_ns, sampled_ns = 0;
	uint64_t waiting_for = -1, end_ns = plan->duration_ns;
	int waited = 0;

	if (epoll < 0 || timer < 0 || progress_fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event))
		fail("cannot wait");
	record = set_up(epoll);
	/* A second for the network to come up; then whole seconds, so that clock ticks fall alike in all runs. */
	epoch = (now_ns() / SECOND + 2) * SECOND + plan->phase_ns;
	probe_call(KNEE_EPOCH, &epoch, "cannot set time zero");
	ends_begin(epoch);
	for (;;) {
		uint64_t next = least(least(sample_ns, progress_ns), plan->duration_ns);
		uint64_t expirations;
		int count, due = 0, ended = 0;

		if (record)
			next = least(next, record->at_ns);
		if (next != waiting_for)
			wake_at(timer, epoch + next);
		waiting_for = next;
		count = epoll_wait(epoll, events, BATCH, -1);
		for (int i = 0; i < count; i++)
			if (events[i].data.u64 == TIMER)
				due = 1;
			else if (events[i].data.u64 >> 32 >= ROLES_OF_PROGRAMS)
				ended |= programs_event(events[i].data.u64);
			else
				flows_event(events[i].data.u64, events[i].events);
		/* What the host ended may be the child of a program that goes on: of that nothing is heard, so not for
		 * long. */
		if ((due || ended) && programs_spun() && (ended || ++waited > 1)) {
			end_ns = least(run_now(), end_ns);
			break;
		}
		if (!due)
			continue;
		if (read(timer, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
			fail("cannot read the timer");
		for (; record && record->at_ns <= next && record->at_ns < plan->duration_ns; record = plan_next(record))
			plan_apply(record);
		if (sample_ns <= next) {
			probe_call(KNEE_SAMPLE, &sample_ns, "cannot sample");
			sampled_ns = sample_ns;
			sample_ns += plan->interval_ns;
		}
		while (drain(out_fd))
			;
		if (progress_ns <= next) {
			/* hostfs does this at once, whereas written data may wait. */
			if (ftruncate(progress_fd, next / (plan->duration_ns / 1e6)))
				fail("cannot write the progress");
			progress_ns += plan->progress_ns;
		}
		if (next >= plan->duration_ns)
			break;
	}
	finish(out_fd, end_ns, sampled_ns);
	ends_finish();
	programs_finish();
}
