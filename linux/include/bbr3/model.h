/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The long-term model: rounds, the bandwidth of two probing cycles, the BDP, and ACK aggregation (5.5.1 to 5.5.9). */
#ifndef KNEE_BBR3_MODEL_H
#define KNEE_BBR3_MODEL_H

#include "state.h"

/* Whoever includes this file supplies the parameters and random numbers. */
static const struct knee_bbr3_params *bbr3_params(void);
static u32 bbr3_random(void);

/* A BDP is below 2^27 packets; with gains below 2^12 its products stay below 2^63. */
#define MAX_BDP_SHIFTED ((1ull << (27 + BW_SHIFT)) - 1)
/* Bursts carry at most this many bytes (5.6.3). */
#define MAX_BURST 65536

static inline u32 max_bw_of(const struct bbr3 *b)
{
	return knee_max(b->max_bw[0], b->max_bw[1]);
}

/* The bandwidth in force (5.5.10.3). */
static inline u32 bw_of(const struct bbr3 *b)
{
	return knee_min(max_bw_of(b), b->bw_shortterm);
}

/* gain * bw * min_rtt in packets, rounded up; the initial window while there is no RTT (5.6.4.2). */
static u32 bdp(const struct bbr3 *b, u32 bw, u32 gain)
{
	u64 product;

	if (b->min_rtt == INFINITE)
		return b->initial_cwnd;
	product = knee_min((u64)bw * b->min_rtt, MAX_BDP_SHIFTED) * gain;
	return (product + ((u64)UNIT << BW_SHIFT) - 1) / ((u64)UNIT << BW_SHIFT);
}

/* Packets per burst: a millisecond of the rate, at least two (5.6.3). */
static inline u32 quantum(const struct bbr3 *b)
{
	return knee_max(knee_min(b->rate / 1000, MAX_BURST) / knee_max(b->mss, 1), 2);
}

/* Room for offload and pipelining (5.6.4.2). */
static inline u32 quantization_budget(const struct bbr3 *b, u32 inflight)
{
	u32 least = knee_max(3 * quantum(b), MIN_PIPE_CWND);

	return add(knee_max(inflight, least), b->state == PROBE_BW_UP ? 2 : 0);
}

/* Packets in flight that fill the path at the given bandwidth. */
static inline u32 inflight(const struct bbr3 *b, u32 bw)
{
	return quantization_budget(b, bdp(b, bw, UNIT));
}

/* Target for packets in flight: the BDP, unless congestion reduced the window (5.3.3.8). */
static inline u32 target_inflight(const struct bbr3 *b, const struct view *v)
{
	return knee_min(bdp(b, bw_of(b), UNIT), v->cwnd);
}

/* Whether packets sent after `delivered` carry probe_rtt's mark: the window was far below the BDP. */
static inline bool is_marked(const struct bbr3 *b, u32 delivered)
{
	return b->marked && !before(delivered, b->mark_from) && !after(delivered, b->mark_until);
}

/* Marks packets sent from now on, until all packets now in flight are delivered. */
static inline void mark(struct bbr3 *b, const struct view *v)
{
	if (!b->marked || after(v->delivered, b->mark_until))
		b->mark_from = v->delivered;
	b->marked = true;
	b->mark_until = v->delivered + v->in_flight;
}

/* Starts a round. */
static inline void start_round(struct bbr3 *b, const struct view *v)
{
	b->round_end = v->delivered;
}

/* Starts a cycle, unless the current one has no sample yet. */
static inline void advance_cycle(struct bbr3 *b)
{
	if (b->max_bw[1]) {
		b->max_bw[0] = b->max_bw[1];
		b->max_bw[1] = 0;
	}
}

/*
 * A round has passed when a packet that left after its begin is delivered (5.5.1). A bandwidth goes into the current
 * cycle, unless the application explains why it is low (5.5.5).
 */
static void update_max_bw(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	b->round_start = s->valid && !before(s->prior_delivered, b->round_end);
	if (b->round_start) {
		start_round(b, v);
		b->round++;
		b->rounds_since_probe = add(b->rounds_since_probe, 1);
	}
	if (s->bw && (s->bw >= max_bw_of(b) || !s->app_limited))
		b->max_bw[1] = knee_max(b->max_bw[1], s->bw);
}

/*
 * A windowed maximum in three samples (Nichols): the best of the window, the best after it, and the best after that.
 */
static void take_extra_acked(struct bbr3 *b, u32 value, u32 window)
{
	struct maximum *best = b->extra_acked, now = { .round = b->round, .value = value };

	if (value >= best[0].value || now.round - best[2].round > window) {
		best[0] = best[1] = best[2] = now;
		return;
	}
	if (value >= best[1].value)
		best[1] = best[2] = now;
	else if (value >= best[2].value)
		best[2] = now;
	if (now.round - best[0].round > window) {
		best[0] = best[1];
		best[1] = best[2];
		best[2] = now;
		if (now.round - best[0].round > window) {
			best[0] = best[1];
			best[1] = now;
		}
	} else if (best[1].round == best[0].round && now.round - best[0].round > window / 4) {
		best[1] = best[2] = now;
	} else if (best[2].round == best[1].round && now.round - best[0].round > window / 2) {
		best[2] = now;
	}
}

/*
 * How much more came than the bandwidth explains (5.5.9). During startup the aggregation of one round is remembered,
 * later of ten.
 */
static void update_extra_acked(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	u64 elapsed = knee_min(knee_sub(v->now, b->interval_start), KNEE_U32_MAX);
	u64 expected = (bw_of(b) * elapsed) >> BW_SHIFT;

	if (!s->acked)
		return;
	if (b->interval_delivered <= expected) {
		b->interval_delivered = 0;
		b->interval_start = v->now;
		expected = 0;
	}
	b->interval_delivered = add(b->interval_delivered, s->acked);
	take_extra_acked(b, knee_min(knee_sub(b->interval_delivered, expected), v->cwnd),
			 b->full_reached ? READ_ONCE(bbr3_params()->extra_acked_filter_len) : 1);
}

#endif
