/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Control parameters from the model: gains, pacing rate, window (5.6). */
#ifndef KNEE_BBR3_CONTROL_H
#define KNEE_BBR3_CONTROL_H

#include "probe_bw.h"

/* Gains of probe_bw's states in 1/1000 (5.6.1, 5.3.3.5). */
#define DOWN_PACING_GAIN 900
#define UP_PACING_GAIN 1250
#define UP_CWND_GAIN 2250

static inline u32 pacing_gain_of(const struct bbr3 *b)
{
	switch (b->state) {
	case STARTUP:
		return READ_ONCE(bbr3_params()->startup_pacing_gain);
	case DRAIN:
		return READ_ONCE(bbr3_params()->drain_pacing_gain);
	case PROBE_BW_DOWN:
		return DOWN_PACING_GAIN;
	case PROBE_BW_UP:
		return UP_PACING_GAIN;
	}
	return UNIT;
}

static inline u32 cwnd_gain_of(const struct bbr3 *b)
{
	switch (b->state) {
	case PROBE_BW_UP:
		return UP_CWND_GAIN;
	case PROBE_RTT:
		return READ_ONCE(bbr3_params()->probe_rtt_cwnd_gain);
	}
	return READ_ONCE(bbr3_params()->cwnd_gain);
}

/*
 * gain * bw in payload bytes/s less the margin, rounded down once: bytes/us << BW_SHIFT times 10^6, of which 10^3 are
 * the gain's unit and 10^2 the margin's. With bw < 2^32, mss < 2^16 and a gain below 2^12 the product is below 2^60,
 * its two parts times 1000 below 2^46 and 2^34.
 */
static inline u64 rate_of(u32 bw, u32 gain, u32 mss, u32 margin_percent)
{
	u64 product = (u64)bw * (mss & 0xffff) * gain, kept = 10 * (100 - margin_percent);

	return (product >> BW_SHIFT) * kept + (((product & ((1ull << BW_SHIFT) - 1)) * kept) >> BW_SHIFT);
}

/* Sets the pacing rate; until the pipe has been full, it only rises. */
static void set_rate(struct bbr3 *b, u32 gain)
{
	u64 rate = rate_of(bw_of(b), gain, b->mss, READ_ONCE(bbr3_params()->pacing_margin_percent));

	if (b->full_reached || rate > b->rate)
		b->rate = knee_max(rate, 1);
}

/* Window in probe_rtt: half a BDP (5.6.4.5). */
static inline u32 probe_rtt_cwnd(const struct bbr3 *b)
{
	return knee_max(bdp(b, bw_of(b), READ_ONCE(bbr3_params()->probe_rtt_cwnd_gain)), MIN_PIPE_CWND);
}

/* The bounds in force, in packets (5.6.4.5, 5.6.4.7). */
static u32 bound(const struct bbr3 *b)
{
	u32 bound = b->inflight_longterm;

	if (b->state == STARTUP || b->state == DRAIN)
		bound = INFINITE;
	else if (b->state == PROBE_BW_CRUISE || b->state == PROBE_RTT)
		bound = with_headroom(bound);
	bound = knee_max(knee_min(bound, b->inflight_shortterm), MIN_PIPE_CWND);
	return b->state == PROBE_RTT ? knee_min(bound, probe_rtt_cwnd(b)) : bound;
}

/* Grows the window by the packets delivered, up to the model's limit and the bounds (5.6.4.6). */
static void set_cwnd(const struct bbr3 *b, struct view *v, const struct sample *s)
{
	u32 wanted = add(bdp(b, bw_of(b), cwnd_gain_of(b)), b->extra_acked[0].value);
	u32 limit = quantization_budget(b, wanted), cwnd = v->cwnd;

	if (b->full_reached)
		cwnd = knee_min(add(cwnd, s->acked), limit);
	else if (cwnd < limit || v->delivered < b->initial_cwnd)
		cwnd = add(cwnd, s->acked);
	v->cwnd = knee_min(knee_max(cwnd, MIN_PIPE_CWND), bound(b));
}

#endif
