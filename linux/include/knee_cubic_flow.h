/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUBIC of a connection without HyStart, for algorithms that grow as CUBIC
 * does: net/ipv4/tcp_cubic.c with its default parameters, as in knee's
 * simulator (crates/knee-cc/src/cubic.rs).
 *
 * Units: us, windows in packets. Time counts in ms, as where HZ is 1000. When
 * the newest acknowledged packet was sent follows from its RTT.
 */
#ifndef KNEE_CUBIC_FLOW_H
#define KNEE_CUBIC_FLOW_H

#include "knee_cubic.h"

/*
 * tcp_cubic.c's defaults: beta, 10 bic_scale, and
 * 8 (1 + beta) / (3 (1 - beta)).
 */
#define KNEE_CUBIC_BETA		717
#define KNEE_CUBIC_SCALE	410
#define KNEE_CUBIC_RENO		(8 * (1024 + KNEE_CUBIC_BETA) / 3 / \
				 (1024 - KNEE_CUBIC_BETA))
#define KNEE_CUBIC_TICK		1000
/* For so long the rate of increase holds while the window stays: HZ / 32. */
#define KNEE_CUBIC_REST		31000
/* Begins at the next ACK. */
#define KNEE_CUBIC_NOT_BEGUN	KNEE_U64_MAX

struct knee_cubic_flow {
	u64 start;	/* of the epoch, or KNEE_CUBIC_NOT_BEGUN */
	u64 last_time;	/* when count was worked out */
	u64 last_sent;	/* when the newest acknowledged packet was sent */
	u32 last_cwnd;	/* the window then */
	u32 count;	/* packets per increase by one */
	u32 acked;	/* of which Reno's window has not grown yet */
	u32 reno;	/* the window that Reno would have */
	u32 delay_min;	/* least RTT; 0: none yet */
	u32 origin;	/* plateau of the cubic function */
	u32 k;		/* time to it, 2^-10 s */
	u32 w_max;	/* window at the last loss; 0: none yet */
};

/* The state before the first loss; when packets were sent stays. */
static inline void knee_cubic_forget(struct knee_cubic_flow *c)
{
	c->start = KNEE_CUBIC_NOT_BEGUN;
	c->last_time = 0;
	c->last_cwnd = 0;
	c->count = 0;
	c->acked = 0;
	c->reno = 0;
	c->delay_min = 0;
	c->origin = 0;
	c->k = 0;
	c->w_max = 0;
}

static inline void knee_cubic_init(struct knee_cubic_flow *c, u64 now)
{
	knee_cubic_forget(c);
	c->last_sent = now;
}

/* Begins an epoch at the next ACK, of which the plateau is at w_max. */
static inline void knee_cubic_begin_epoch(struct knee_cubic_flow *c, u32 w_max)
{
	c->start = KNEE_CUBIC_NOT_BEGUN;
	c->w_max = w_max;
}

/* Takes a time without growth by the cubic function out of the epoch. */
static inline void knee_cubic_pause(struct knee_cubic_flow *c, u64 away)
{
	if (c->start != KNEE_CUBIC_NOT_BEGUN)
		c->start += away;
}

static inline u64 knee_cubic_ticks(u64 us)
{
	return knee_div(us, KNEE_CUBIC_TICK) * KNEE_CUBIC_TICK;
}

/* An RTT was measured; those right after a recovery are too long. */
static inline void knee_cubic_sample(struct knee_cubic_flow *c, u64 now,
				     u32 rtt)
{
	c->last_sent = knee_max(c->last_sent, knee_sub(now, rtt));
	if (c->start != KNEE_CUBIC_NOT_BEGUN &&
	    knee_sub(knee_cubic_ticks(now), c->start) < 1000000)
		return;
	if (!c->delay_min || rtt < c->delay_min)
		c->delay_min = rtt;
}

/* bictcp_update() once in a tick; `now` in whole ticks. */
KNEE_APART knee_cubic_renew(struct knee_cubic_flow *c KNEE_NONNULL, u64 now,
			    u32 cwnd, u32 acked)
{
	u64 t, target, per_packet, growth;

	if (c->start == KNEE_CUBIC_NOT_BEGUN || now != c->last_time) {
		c->last_cwnd = cwnd;
		c->last_time = now;
		if (c->start == KNEE_CUBIC_NOT_BEGUN) {
			c->start = now;
			c->acked = acked;
			c->reno = cwnd;
			c->origin = knee_max(cwnd, c->w_max);
			c->k = knee_cubic_k(KNEE_CUBIC_SCALE, c->origin - cwnd);
		}
		/* One RTT ahead: what is acknowledged by then is sent now. */
		t = knee_sub(now, c->start) +
		    knee_cubic_ticks((u64)c->delay_min + KNEE_CUBIC_TICK - 1);
		target = knee_cubic_window(KNEE_CUBIC_SCALE, knee_cubic_time(t),
					   c->k, c->origin);
		growth = target > cwnd ? knee_div(cwnd, target - cwnd) :
					 100ull * cwnd;
		/* Before the first loss at least 5 % per RTT. */
		c->count = knee_min(growth, c->w_max ? KNEE_U32_MAX : 20);
	}
	/* At least as fast as Reno with this beta. */
	per_packet = knee_min(knee_max((u64)cwnd * KNEE_CUBIC_RENO / 8, 1),
			      KNEE_U32_MAX);
	if (c->acked > per_packet) {
		growth = knee_div(c->acked + per_packet - 1, per_packet) - 1;
		c->acked -= growth * per_packet;
		c->reno = knee_min(c->reno + growth, KNEE_U32_MAX);
	}
	if (c->reno > cwnd)
		c->count = knee_min(c->count,
				    knee_div32(cwnd, c->reno - cwnd));
	/* At most 1.5 times the window per RTT. */
	c->count = knee_max(c->count, 2);
	return 0;
}

/* Packets per increase by one, after `acked` packets at a window of `cwnd`. */
static inline u32 knee_cubic_grow(struct knee_cubic_flow *c, u64 now, u32 cwnd,
				  u32 acked)
{
	now = knee_cubic_ticks(now);
	c->acked = knee_min((u64)c->acked + acked, KNEE_U32_MAX);
	if (c->last_cwnd != cwnd ||
	    knee_sub(now, c->last_time) > KNEE_CUBIC_REST)
		knee_cubic_renew(c, now, cwnd, acked);
	return c->count;
}

/* A loss: the new ssthresh. */
static inline u32 knee_cubic_on_loss(struct knee_cubic_flow *c, u32 cwnd)
{
	c->start = KNEE_CUBIC_NOT_BEGUN;
	c->w_max = knee_cubic_w_max(cwnd, c->w_max, KNEE_CUBIC_BETA, true);
	return knee_cubic_ssthresh(cwnd, KNEE_CUBIC_BETA);
}

/* Sending begins again: what passed since the last packet is no growth. */
static inline void knee_cubic_on_restart(struct knee_cubic_flow *c, u64 now)
{
	u64 idle;

	now = knee_cubic_ticks(now);
	idle = knee_sub(now, knee_cubic_ticks(c->last_sent));
	if (c->start != KNEE_CUBIC_NOT_BEGUN)
		c->start = knee_min(c->start + idle, now);
}

#endif
