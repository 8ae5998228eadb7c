/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Probe_bw: down, cruise, refill, up, and the long-term bound on what is in flight (5.3.3). */
#ifndef KNEE_BBR3_PROBE_BW_H
#define KNEE_BBR3_PROBE_BW_H

#include "model.h"

/* The longest wait between probes in rounds, so that Reno and CUBIC reach a fair share (5.3.3.8). */
#define MAX_PROBE_ROUNDS 63
/* Minimum wait between probes in us, to which a random time up to SPREAD is added. */
#define MIN_WAIT 2000000
#define SPREAD 1000000
/* The slope doubles at most this often. */
#define MAX_UP_ROUNDS 30

/* Starts to look for a plateau at the given bandwidth. */
static inline void restart_full_pipe(struct bbr3 *b, u32 bw)
{
	b->full_bw = bw;
	b->full_rounds = 0;
	b->full_now = false;
}

static inline void reset_short_term(struct bbr3 *b)
{
	b->bw_shortterm = INFINITE;
	b->inflight_shortterm = INFINITE;
}

/* Whether more than the tolerated share was lost since the sample's packet was sent. */
static inline bool is_inflight_too_high(const struct sample *s)
{
	return (u64)s->lost * UNIT > (u64)s->tx_in_flight * READ_ONCE(bbr3_params()->loss_thresh);
}

/* The long-term bound less the headroom for others, at least one packet. */
static inline u32 with_headroom(u32 bound)
{
	if (bound == INFINITE)
		return INFINITE;
	return knee_max(knee_sub(bound, knee_max(part(bound, READ_ONCE(bbr3_params()->headroom)), 1)), MIN_PIPE_CWND);
}

static void start_down(struct bbr3 *b, const struct view *v)
{
	b->loss_in_round = false;
	b->bw_latest = 0;
	b->inflight_latest = 0;
	b->acked_per_step = INFINITE;
	b->rounds_since_probe = bbr3_random() % 2;
	b->wait = MIN_WAIT + bbr3_random() % SPREAD;
	b->cycle_start = v->now;
	b->acks = ACKS_PROBE_STOPPING;
	start_round(b, v);
	b->state = PROBE_BW_DOWN;
}

static void start_refill(struct bbr3 *b, const struct view *v)
{
	reset_short_term(b);
	b->up_rounds = 0;
	b->up_acked = 0;
	b->prev_precautionary = false;
	b->acks = ACKS_REFILLING;
	start_round(b, v);
	b->state = PROBE_BW_REFILL;
}

/* Doubles the bound's growth per round: 1, 2, 4, ... packets. */
static void raise_slope(struct bbr3 *b, const struct view *v)
{
	b->acked_per_step = knee_max(v->cwnd >> b->up_rounds, 1);
	b->up_rounds = knee_min(b->up_rounds + 1, MAX_UP_ROUNDS);
}

static void start_up(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	b->probe_samples = true;
	b->acks = ACKS_PROBE_STARTING;
	start_round(b, v);
	restart_full_pipe(b, s->bw);
	b->state = PROBE_BW_UP;
	raise_slope(b, v);
}

/* After 2 to 3 s, or after as many rounds as Reno would take to regain its window. */
static bool is_time_to_probe(const struct bbr3 *b, const struct view *v)
{
	return v->now > b->cycle_start + b->wait ||
	       b->rounds_since_probe >= knee_min(target_inflight(b, v), MAX_PROBE_ROUNDS);
}

/* There is headroom, and this flow has no queue. */
static bool is_time_to_cruise(const struct bbr3 *b, const struct view *v)
{
	return v->in_flight <= with_headroom(b->inflight_longterm) && v->in_flight <= inflight(b, max_bw_of(b));
}

/* If the last probe lost too much: at the bound it set; otherwise where the bandwidth no longer grows. */
static bool is_time_to_go_down(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	if (b->prev_too_high && v->in_flight >= b->inflight_longterm) {
		b->prev_precautionary = true;
		return true;
	}
	if (v->cwnd_limited && v->cwnd >= b->inflight_longterm) {
		/* The bound limits the bandwidth, not the path. */
		restart_full_pipe(b, s->bw);
		return false;
	}
	return b->full_now;
}

/* A round after a probe its samples are complete; a cautious probe that lost little is repeated at once. */
static bool advance_acks(struct bbr3 *b, const struct sample *s)
{
	if (b->acks == ACKS_PROBE_STARTING) {
		b->acks = ACKS_PROBE_FEEDBACK;
	} else if (b->acks == ACKS_PROBE_STOPPING) {
		b->probe_samples = false;
		b->acks = ACKS_INIT;
		if (in_probe_bw(b)) {
			if (!s->app_limited)
				advance_cycle(b);
			return b->prev_precautionary && !b->prev_too_high;
		}
	}
	return false;
}

/* Raises the bound if it is the limit. */
static void probe_upward(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	if (!v->cwnd_limited || v->cwnd < b->inflight_longterm)
		return;
	b->up_acked = add(b->up_acked, s->acked);
	b->inflight_longterm = knee_min(add(b->inflight_longterm, b->up_acked / b->acked_per_step), INFINITE - 1);
	b->up_acked %= b->acked_per_step;
	if (b->round_start)
		raise_slope(b, v);
}

/* Takes a probe's feedback and raises the long-term bound if losses allow; returns whether it changed the state. */
static bool adapt_long_term(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	if (b->round_start && advance_acks(b, s)) {
		start_refill(b, v);
		return true;
	}
	if (!is_inflight_too_high(s) && b->inflight_longterm != INFINITE) {
		b->inflight_longterm = knee_max(b->inflight_longterm, s->tx_in_flight);
		if (b->state == PROBE_BW_UP)
			probe_upward(b, v, s);
	}
	return false;
}

static void update_probe_bw(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	if (!b->full_reached || !s->acked || adapt_long_term(b, v, s))
		return;
	if (b->state == PROBE_BW_DOWN || b->state == PROBE_BW_CRUISE) {
		if (is_time_to_probe(b, v))
			start_refill(b, v);
		else if (is_time_to_cruise(b, v))
			b->state = PROBE_BW_CRUISE;
	} else if (b->state == PROBE_BW_REFILL) {
		if (b->round_start)
			start_up(b, v, s);
	} else if (b->state == PROBE_BW_UP && is_time_to_go_down(b, v, s)) {
		b->prev_too_high = false;
		start_down(b, v);
	}
}

#endif
