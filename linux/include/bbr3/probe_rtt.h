/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Probe_rtt and min_rtt: every 5 s without a lower RTT, half a BDP in flight for 200 ms and a round (5.3.4). */
#ifndef KNEE_BBR3_PROBE_RTT_H
#define KNEE_BBR3_PROBE_RTT_H

#include "control.h"
#include "undo.h"

/* 5.3.4.3. */
static void update_min_rtt(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	b->rtt_expired = v->now > b->recent_rtt_stamp + READ_ONCE(bbr3_params()->probe_rtt_interval);
	if (s->rtt != INFINITE && (s->rtt < b->recent_rtt || b->rtt_expired)) {
		b->recent_rtt = s->rtt;
		b->recent_rtt_stamp = v->now;
	}
	if (b->recent_rtt < b->min_rtt || v->now > b->min_rtt_stamp + READ_ONCE(bbr3_params()->min_rtt_filter_len)) {
		b->min_rtt = b->recent_rtt;
		b->min_rtt_stamp = b->recent_rtt_stamp;
	}
}

/* Goes to cruise when the time is over, and restores the window (5.3.4.4). */
static void check_probe_rtt_done(struct bbr3 *b, struct view *v)
{
	if (!b->probe_rtt_done || v->now <= b->probe_rtt_done)
		return;
	b->recent_rtt_stamp = v->now;
	v->cwnd = knee_max(v->cwnd, b->prior_cwnd);
	reset_short_term(b);
	if (b->full_reached) {
		start_down(b, v);
		b->state = PROBE_BW_CRUISE;
	} else {
		b->state = STARTUP;
	}
}

static void stay_in_probe_rtt(struct bbr3 *b, struct view *v)
{
	mark(b, v);
	if (!b->probe_rtt_done) {
		if (v->in_flight <= probe_rtt_cwnd(b)) {
			b->probe_rtt_done = v->now + READ_ONCE(bbr3_params()->probe_rtt_duration);
			b->probe_rtt_round_done = false;
			start_round(b, v);
		}
		return;
	}
	b->probe_rtt_round_done |= b->round_start;
	if (b->probe_rtt_round_done)
		check_probe_rtt_done(b, v);
}

static void check_probe_rtt(struct bbr3 *b, struct view *v, const struct sample *s)
{
	if (b->state != PROBE_RTT && b->rtt_expired && !b->idle_restart) {
		b->state = PROBE_RTT;
		save_cwnd(b, v);
		b->probe_rtt_done = 0;
		b->acks = ACKS_PROBE_STOPPING;
		start_round(b, v);
	}
	if (b->state == PROBE_RTT)
		stay_in_probe_rtt(b, v);
	if (s->delivered)
		b->idle_restart = false;
}

/* The application sends again after a pause (5.4.1). */
static void restart_from_idle(struct bbr3 *b, struct view *v)
{
	b->idle_restart = true;
	b->interval_start = v->now;
	if (in_probe_bw(b))
		set_rate(b, UNIT);
	else if (b->state == PROBE_RTT)
		check_probe_rtt_done(b, v);
}

#endif
