/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Startup, its end on a plateau of the bandwidth or by loss (5.3.1), and drain (5.3.2). */
#ifndef KNEE_BBR3_STARTUP_H
#define KNEE_BBR3_STARTUP_H

#include "loss.h"

/* Rounds without growth that show a plateau. */
#define FULL_ROUNDS 3
/* Rounds after which drain ends even if the queue remains: the bandwidth was overestimated. */
#define MAX_DRAIN_ROUNDS 3

/* Once per round that the application did not limit: growth by a quarter restarts the count (5.3.1.2). */
static void update_full_pipe(struct bbr3 *b, const struct sample *s)
{
	if (!b->round_start || s->app_limited || b->full_now)
		return;
	if (4ull * s->bw >= 5ull * b->full_bw) {
		restart_full_pipe(b, s->bw);
		return;
	}
	b->full_rounds++;
	b->full_now = b->full_rounds >= FULL_ROUNDS;
	b->full_reached |= b->full_now;
}

/* Ends startup if a full round of recovery lost more than the threshold, in several ranges (5.3.1.3). */
static void check_startup_loss(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	u32 ranges = 0;

	if (b->loss_round_start) {
		ranges = b->ranges_in_round;
		b->ranges_in_round = 0;
	}
	if (b->state == STARTUP && v->ca_state == CA_RECOVERY && ranges >= READ_ONCE(bbr3_params()->startup_full_loss_cnt) &&
	    is_inflight_too_high(s)) {
		b->origin = STARTUP;
		b->full_now = true;
		b->full_reached = true;
		b->inflight_longterm = knee_max(bdp(b, bw_of(b), UNIT), b->inflight_latest);
	}
}

static void check_startup_done(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	check_startup_loss(b, v, s);
	if (b->state == STARTUP && b->full_reached) {
		b->state = DRAIN;
		b->drain_round = b->round;
	}
}

static void check_drain_done(struct bbr3 *b, const struct view *v)
{
	if (b->state == DRAIN &&
	    (v->in_flight <= inflight(b, bw_of(b)) || b->round - b->drain_round > MAX_DRAIN_ROUNDS))
		start_down(b, v);
}

#endif
