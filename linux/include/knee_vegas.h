/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Vegas's arithmetic and states, without the socket.
 *
 * Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global
 * Internet", IEEE JSAC 13(8), 1995, with what Linux's tcp_vegas made of it. Once
 * per round trip, with base and rtt the least RTT ever and of that round trip:
 *
 *   diff = cwnd (rtt - base) / base	packets of its own in the queue
 *
 * Slow start ends where diff > gamma; after it the window shrinks by one where
 * diff > beta and grows by one where diff < alpha. A round trip with fewer than
 * three samples, and the one after a loss, go as Reno does.
 *
 * Units: RTTs in us, windows and thresholds in packets.
 */
#ifndef KNEE_VEGAS_H
#define KNEE_VEGAS_H

#include "knee_tcp.h"

/* Larger than every RTT sample. */
#define KNEE_VEGAS_NONE		0x7fffffff
/* With fewer samples, all may come from one delayed ACK. */
#define KNEE_VEGAS_ENOUGH	3
/* Decisions are made below windows of 2^20 packets and RTTs of 2^31 us: products stay below 2^51. */
#define KNEE_VEGAS_MAX_CWND	(1u << 20)

struct knee_vegas_params {
	u32 alpha;	/* grows with fewer packets than this in the queue */
	u32 beta;	/* shrinks with more */
	u32 gamma;	/* leaves slow start with more */
};

/* The defaults; tests compare them with the registry. */
#define KNEE_VEGAS_DEFAULTS {	\
	.alpha = 2,		\
	.beta = 4,		\
	.gamma = 1,		\
}

/* Packets of its own in the queue, rounded down. */
static inline u64 knee_vegas_diff(u32 cwnd, u32 rtt, u32 base)
{
	return knee_div((u64)cwnd * (u32)knee_sub(rtt, base), knee_max(base, 1));
}

/* The window at the actual rate with an empty queue, rounded down. */
static inline u64 knee_vegas_target(u32 cwnd, u32 rtt, u32 base)
{
	return knee_div((u64)cwnd * base, knee_max(rtt, 1));
}

struct knee_vegas {
	u32 round_end;	/* snd_nxt when the round began; it ends when that is acknowledged */
	u32 rtt;	/* least RTT of the round */
	u32 base;	/* least RTT ever */
	u16 samples;
	bool enabled;	/* false while losses are repaired */
	u32 rounds;
};

/* How the window grows on an ACK. */
enum knee_vegas_growth {
	KNEE_VEGAS_HOLD,	/* not at all, or by the decision of the last round trip */
	KNEE_VEGAS_SLOW_START,
	KNEE_VEGAS_RENO,
};

/* An ACK, and how the window changes. */
struct knee_vegas_ack {
	u32 una;
	u32 snd_nxt;
	u32 cwnd;
	u32 ssthresh;
	bool round_over;	/* answer: knee_vegas_begin_round follows */
	bool decided;		/* answer: knee_vegas_bounds follows the growth */
};

static inline void knee_vegas_begin_round(struct knee_vegas *v, u32 snd_nxt)
{
	v->round_end = snd_nxt;
	v->samples = 0;
	v->rtt = KNEE_VEGAS_NONE;
	v->rounds++;
}

static inline void knee_vegas_enable(struct knee_vegas *v, u32 snd_nxt)
{
	v->enabled = true;
	knee_vegas_begin_round(v, snd_nxt);
}

/* A new connection, or one after a pause: earlier measurements may no longer fit the path. */
static inline void knee_vegas_restart(struct knee_vegas *v, u32 snd_nxt)
{
	v->base = KNEE_VEGAS_NONE;
	knee_vegas_enable(v, snd_nxt);
}

static inline void knee_vegas_on_state(struct knee_vegas *v, u32 snd_nxt, u8 state)
{
	if (state == CA_OPEN)
		knee_vegas_enable(v, snd_nxt);
	else
		v->enabled = false;
}

static inline void knee_vegas_sample(struct knee_vegas *v, u32 rtt)
{
	/* Never 0: it is a divisor. */
	rtt = knee_min((u64)rtt + 1, KNEE_VEGAS_NONE);
	v->base = knee_min(v->base, rtt);
	v->rtt = knee_min(v->rtt, rtt);
	v->samples++;
}

/* The decision at the end of a round trip. */
static inline enum knee_vegas_growth knee_vegas_decide(const struct knee_vegas *v,
						       const struct knee_vegas_params *p,
						       struct knee_vegas_ack *a)
{
	u32 cwnd = knee_min(a->cwnd, KNEE_VEGAS_MAX_CWND);
	u64 diff = knee_vegas_diff(cwnd, v->rtt, v->base);

	a->decided = true;
	if (cwnd < a->ssthresh) {
		if (diff <= READ_ONCE(p->gamma))
			return KNEE_VEGAS_SLOW_START;
		/* One more than the target, since that is rounded down. */
		a->cwnd = knee_min(cwnd, knee_vegas_target(cwnd, v->rtt, v->base) + 1);
		a->ssthresh = knee_min(a->ssthresh, a->cwnd);
	} else if (diff > READ_ONCE(p->beta)) {
		a->cwnd = knee_sub(cwnd, 1);
		a->ssthresh = knee_min(a->ssthresh, a->cwnd);
	} else if (diff < READ_ONCE(p->alpha)) {
		a->cwnd = cwnd + 1;
	}
	return KNEE_VEGAS_HOLD;
}

static inline enum knee_vegas_growth knee_vegas_on_ack(const struct knee_vegas *v,
						       const struct knee_vegas_params *p,
						       struct knee_vegas_ack *a)
{
	a->round_over = false;
	a->decided = false;
	if (!v->enabled)
		return KNEE_VEGAS_RENO;
	if (!after(a->una, v->round_end))
		return a->cwnd < a->ssthresh ? KNEE_VEGAS_SLOW_START : KNEE_VEGAS_HOLD;
	a->round_over = true;
	if (v->samples < KNEE_VEGAS_ENOUGH)
		return KNEE_VEGAS_RENO;
	return knee_vegas_decide(v, p, a);
}

/* After a decision the window is at least 2 and the threshold at least three quarters of it. */
static inline void knee_vegas_bounds(struct knee_vegas_ack *a)
{
	a->cwnd = knee_max(a->cwnd, 2);
	a->ssthresh = knee_max(a->ssthresh, (a->cwnd >> 1) + (a->cwnd >> 2));
}

#endif
