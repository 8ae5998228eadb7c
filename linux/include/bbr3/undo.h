/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What recovery and probe_rtt keep of the time before, and the way back where a loss was none (5.5.11, 5.6.4.4). */
#ifndef KNEE_BBR3_UNDO_H
#define KNEE_BBR3_UNDO_H

#include "probe_bw.h"

/* No state was ended by a loss. */
#define NO_ORIGIN PROBE_RTT

/* Remembers the window; while it is cut already, only a larger one. */
static inline void save_cwnd(struct bbr3 *b, const struct view *v)
{
	if (b->repairing || b->state == PROBE_RTT)
		b->prior_cwnd = knee_max(b->prior_cwnd, v->cwnd);
	else
		b->prior_cwnd = v->cwnd;
}

static void save_state(struct bbr3 *b, const struct view *v)
{
	save_cwnd(b, v);
	b->origin = NO_ORIGIN;
	b->undo_bw_shortterm = b->bw_shortterm;
	b->undo_inflight_shortterm = b->inflight_shortterm;
	b->undo_inflight_longterm = b->inflight_longterm;
}

/* Follows loss recovery's state; tells whether this left recovery. */
static inline bool left_recovery(struct bbr3 *b, u8 ca_state)
{
	bool before = b->repairing;

	b->repairing = ca_state == CA_RECOVERY || ca_state == CA_LOSS;
	return before && !b->repairing;
}

/* A loss was none: bounds are at least what they were, and the probe it ended starts again. */
static void restore_state(struct bbr3 *b, const struct view *v)
{
	u8 origin = b->origin;

	b->origin = NO_ORIGIN;
	b->loss_in_round = false;
	restart_full_pipe(b, 0);
	b->bw_shortterm = knee_max(b->bw_shortterm, b->undo_bw_shortterm);
	b->inflight_shortterm = knee_max(b->inflight_shortterm, b->undo_inflight_shortterm);
	b->inflight_longterm = knee_max(b->inflight_longterm, b->undo_inflight_longterm);
	if (origin == STARTUP && b->state != STARTUP) {
		b->full_reached = false;
		if (b->state != PROBE_RTT)
			b->state = STARTUP;
	} else if (origin == PROBE_BW_UP && b->state != PROBE_BW_UP && b->state != PROBE_RTT) {
		start_refill(b, v);
	}
}

#endif
