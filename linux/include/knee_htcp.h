/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * H-TCP's arithmetic and states, without the socket.
 *
 * Leith and Shorten, "H-TCP: TCP for high-speed and long-distance networks",
 * PFLDnet 2004, with what Linux's tcp_htcp made of it. With d the time since the
 * last reduction ended, in s:
 *
 *   f(d)  = 1 for d <= 1, else 1 + 10 (d - 1) + ((d - 1) / 2)^2, over
 *           100 ms / RTT_min, which is kept within 0.5 to 10
 *   alpha = 2 (1 - beta) f(d), packets per round trip
 *   beta  = RTT_min / RTT_max within 0.5 to 0.8; 0.5 where the throughput
 *           changed by more than 20 % since the reduction before
 *
 * Units: times and RTTs in us, alpha and beta in 1/128, windows in packets.
 * Linux counts times in its ticks; in us d and RTTs are finer than there, and
 * otherwise the same as in knee's simulator (crates/knee-cc/src/htcp.rs).
 */
#ifndef KNEE_HTCP_H
#define KNEE_HTCP_H

#include "knee_tcp.h"

/* 1 in the unit of alpha and beta. */
#define KNEE_HTCP_ONE		128
#define KNEE_HTCP_BETA_MIN	64
#define KNEE_HTCP_BETA_MAX	102
#define KNEE_HTCP_SECOND	1000000ull
/* RTT_max does not follow RTTs above it by more than this. */
#define KNEE_HTCP_OUTLIER	20000
/* RTT_min / RTT_max says little where RTT_min is not above it. */
#define KNEE_HTCP_LEAST_RTT	10000
/* d counts up to 2^32 us, about 4295 s: (d / 2)^2 stays below 2^62. */
#define KNEE_HTCP_MAX_D		(1ull << 32)

struct knee_htcp_params {
	u32 use_rtt_scaling;		/* 0 or 1: f(d) over 100 ms / RTT_min */
	u32 use_bandwidth_switch;	/* 0 or 1: beta = 0.5 where the throughput changed */
};

/* The defaults; tests hold them against the registry. */
#define KNEE_HTCP_DEFAULTS {		\
	.use_rtt_scaling = 1,		\
	.use_bandwidth_switch = 1,	\
}

/* f(d) for an RTT of 100 ms, rounded down. */
static inline u64 knee_htcp_growth(u64 d)
{
	u64 half;

	d = knee_min(d, KNEE_HTCP_MAX_D);
	if (d <= KNEE_HTCP_SECOND)
		return 1;
	d -= KNEE_HTCP_SECOND;
	half = d / 2;
	return 1 + knee_div(10 * d + knee_div(half * half, KNEE_HTCP_SECOND), KNEE_HTCP_SECOND);
}

/* f over 100 ms / RTT_min: that ratio in eighths and within 0.5 to 10. */
static inline u64 knee_htcp_rtt_scaled(u64 growth, u32 rtt_min)
{
	u64 ratio = knee_min(knee_max(knee_div(800000, knee_max(rtt_min, 1)), 4), 80);

	return knee_max(knee_div(growth * 8, ratio), 1);
}

/* 2 (1 - beta) f, below 2^30: f <= 2^23 up to 2700 s. */
static inline u32 knee_htcp_alpha(u64 growth, u32 beta)
{
	return knee_min(2 * growth * (KNEE_HTCP_ONE - beta), 1u << 30);
}

/* RTT_min / RTT_max within 0.5 to 0.8. */
static inline u32 knee_htcp_adaptive_beta(u32 rtt_min, u32 rtt_max)
{
	u64 beta = knee_div((u64)rtt_min * KNEE_HTCP_ONE, knee_max(rtt_max, 1));

	return knee_min(knee_max(beta, KNEE_HTCP_BETA_MIN), KNEE_HTCP_BETA_MAX);
}

/* Whether a throughput lies within 20 % of the one before. */
static inline bool knee_htcp_is_steady(u32 rate, u32 old)
{
	return 5ull * rate >= 4ull * old && 5ull * rate <= 6ull * old;
}

struct knee_htcp {
	u64 last;		/* when the last reduction ended */
	u64 undo_last;		/* as it was before the reduction that is under way */
	u64 since;		/* when the sample of the throughput began; 0: at boot, so that the first one is about 0 */
	u32 packets;		/* acknowledged since then */
	u32 rate;		/* smoothed throughput, packets/s */
	u32 max_rate;		/* greatest since the last reduction */
	u32 old_max_rate;	/* and between the two before */
	u32 undo_old_max_rate;
	u32 rtt_min;		/* 0: none yet */
	u32 rtt_max;
	u32 undo_rtt_max;
	u32 alpha;
	u32 pkts_acked;		/* what the next ACK in congestion avoidance counts for */
	u32 reductions;
	u8 beta;
	bool adaptive;		/* beta may follow the RTTs */
	bool reducing;
};

static inline void knee_htcp_init(struct knee_htcp *h, u64 now)
{
	__builtin_memset(h, 0, sizeof(*h));
	h->alpha = KNEE_HTCP_ONE;
	h->beta = KNEE_HTCP_BETA_MIN;
	h->pkts_acked = 1;
	h->last = now;
}

static inline void knee_htcp_update_alpha(struct knee_htcp *h, const struct knee_htcp_params *p, u64 now)
{
	u64 growth = knee_htcp_growth(knee_sub(now, h->last));

	if (READ_ONCE(p->use_rtt_scaling) && h->rtt_min)
		growth = knee_htcp_rtt_scaled(growth, h->rtt_min);
	h->alpha = knee_htcp_alpha(growth, h->beta);
}

static inline void knee_htcp_update_beta(struct knee_htcp *h, const struct knee_htcp_params *p)
{
	if (READ_ONCE(p->use_bandwidth_switch)) {
		u32 old = h->old_max_rate;

		h->old_max_rate = h->max_rate;
		if (!knee_htcp_is_steady(h->max_rate, old)) {
			h->beta = KNEE_HTCP_BETA_MIN;
			h->adaptive = false;
			return;
		}
	}
	if (h->adaptive && h->rtt_min > KNEE_HTCP_LEAST_RTT && h->rtt_max) {
		h->beta = knee_htcp_adaptive_beta(h->rtt_min, h->rtt_max);
	} else {
		h->beta = KNEE_HTCP_BETA_MIN;
		h->adaptive = true;
	}
}

static inline void knee_htcp_sample_rtt(struct knee_htcp *h, u32 rtt, u8 state)
{
	if (!h->rtt_min || rtt < h->rtt_min)
		h->rtt_min = rtt;
	if (state != CA_OPEN)
		return;
	h->rtt_max = knee_max(h->rtt_max, h->rtt_min);
	if (rtt <= h->rtt_max + KNEE_HTCP_OUTLIER)
		h->rtt_max = knee_max(h->rtt_max, rtt);
}

/* Packets acknowledged over at least a window and a round trip make a sample. */
static inline void knee_htcp_sample_throughput(struct knee_htcp *h, u64 now, u32 cwnd, u32 acked, u8 state)
{
	u32 step = knee_max(h->alpha / KNEE_HTCP_ONE, 1), rate;
	u64 span = knee_sub(now, h->since);

	if (state != CA_OPEN && state != CA_DISORDER) {
		h->packets = 0;
		h->since = now;
		return;
	}
	h->packets += acked;
	if (cwnd < step || h->packets < cwnd - step || !h->rtt_min || span < h->rtt_min)
		return;
	/* packets < 2^32 and 10^6 < 2^20. */
	rate = knee_min(knee_div(h->packets * KNEE_HTCP_SECOND, knee_max(span, 1)), 1u << 30);
	if (knee_div(knee_sub(now, h->last), h->rtt_min) <= 3) {
		h->rate = rate;
		h->max_rate = rate;
	} else {
		h->rate = (3ull * h->rate + rate) / 4;
		h->max_rate = knee_max(h->max_rate, h->rate);
	}
	h->packets = 0;
	h->since = now;
}

/* An ACK of `acked` packets, whatever the state; rtt 0: it gave no sample. */
static inline void knee_htcp_on_measure(struct knee_htcp *h, const struct knee_htcp_params *p, u64 now,
					u32 rtt, u32 cwnd, u32 acked, u8 state)
{
	if (state == CA_OPEN)
		h->pkts_acked = acked;
	if (rtt)
		knee_htcp_sample_rtt(h, rtt, state);
	if (READ_ONCE(p->use_bandwidth_switch))
		knee_htcp_sample_throughput(h, now, cwnd, acked, state);
}

/*
 * An ACK in congestion avoidance. alpha is computed anew only when the window
 * has grown. count is below 2^32 and alpha at most 2^30.
 */
static inline void knee_htcp_increase(struct knee_htcp *h, const struct knee_htcp_params *p, u64 now,
				      u32 *cwnd, u32 *count)
{
	if ((u64)*count * h->alpha / KNEE_HTCP_ONE >= *cwnd) {
		*cwnd = knee_min((u64)*cwnd + 1, KNEE_U32_MAX);
		*count = 0;
		knee_htcp_update_alpha(h, p, now);
	} else {
		*count = knee_min((u64)*count + h->pkts_acked, KNEE_U32_MAX);
	}
	h->pkts_acked = 1;
}

/* The threshold after a congestion signal; the state of recovery follows. RTT_max fades. */
static inline u32 knee_htcp_on_congestion(struct knee_htcp *h, const struct knee_htcp_params *p, u64 now,
					  u32 cwnd)
{
	knee_htcp_update_beta(h, p);
	knee_htcp_update_alpha(h, p, now);
	if (h->rtt_min && h->rtt_max > h->rtt_min)
		h->rtt_max = h->rtt_min + (u64)(h->rtt_max - h->rtt_min) * 95 / 100;
	return knee_max((u64)cwnd * h->beta / KNEE_HTCP_ONE, 2);
}

/* Loss recovery enters a state: d counts from the begin of a reduction, and anew from its end. */
static inline void knee_htcp_on_state(struct knee_htcp *h, u64 now, u8 state)
{
	if (state == CA_DISORDER || (state == CA_OPEN && !h->reducing))
		return;
	h->reducing = state != CA_OPEN;
	if (h->reducing) {
		h->undo_last = h->last;
		h->undo_rtt_max = h->rtt_max;
		h->undo_old_max_rate = h->old_max_rate;
		h->reductions++;
	}
	h->last = now;
}

/* The reduction under way was wrong. */
static inline void knee_htcp_on_undo(struct knee_htcp *h)
{
	if (!h->reducing)
		return;
	h->last = h->undo_last;
	h->rtt_max = h->undo_rtt_max;
	h->old_max_rate = h->undo_old_max_rate;
	h->reducing = false;
}

#endif
