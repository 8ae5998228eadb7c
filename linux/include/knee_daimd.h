/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Delay-based AIMD's arithmetic and state, without the socket.
 *
 * D. Leith, R. Shorten, G. McCullagh, J. Heffner, L. Dunn, F. Baker,
 * "Delay-based AIMD congestion control", PFLDnet 2007 (its numbers below):
 *
 *   increase where tau <= raised:
 *     cwnd += 2 (1 - beta) alpha(D) / cwnd			(line 19)
 *   alpha(D) = 1 + 10 (D - 1) + 0.5 (D - 1)^2, D > 1 s since the
 *     backoff							(2)
 *   backoff where tau >= tau0 and D > Delta0: cwnd = beta cwnd	(line 22)
 *   beta = min(delta RTT_min / RTT, beta_max)			   (3), (4)
 *   raised = (1 - gamma) tau0 + gamma (RTT_max - RTT_min)		(5)
 *   max_ssthresh = cwnd raised / (4 (RTT_max - RTT_min))		(7)
 *
 * with tau = sRTT - RTT_min. Units: RTTs and delays in ns, points in time in
 * us, windows in packets, ratios in millionths.
 *
 * Where the paper's text and Algorithm 1 disagree, or are silent, this does
 * what knee's simulator does, and says there why (crates/knee-cc/src/daimd.rs).
 * Here alone: RTTs count for at most 34 s, the time since a backoff for at most
 * 2147 s, and thresholds and rates are worked out once per millisecond.
 */
#ifndef KNEE_DAIMD_H
#define KNEE_DAIMD_H

#include "knee_math.h"

/* A ratio of one. */
#define KNEE_DAIMD_ONE		1000000u
/* Greatest RTT, ns: RTT * 10^6 and cwnd * RTT then fit in 64 bits. */
#define KNEE_DAIMD_MAX_RTT	((1ull << 35) - 1)
/* Greatest window, packets. */
#define KNEE_DAIMD_MAX_CWND	(1u << 27)

enum knee_daimd_increase {
	KNEE_DAIMD_HTCP,	/* as the paper prints it (Eq. 2) */
	KNEE_DAIMD_HTCP_DRAFT,	/* as its draft has it and Table I was made */
	KNEE_DAIMD_RENO,	/* one packet */
	KNEE_DAIMD_SCALABLE,	/* a hundredth of the window */
};

enum knee_daimd_slow_start {
	KNEE_DAIMD_LIMITED,	/* by max_ssthresh (Eq. 7) */
	KNEE_DAIMD_STANDARD,	/* until the delay backoff */
	KNEE_DAIMD_OFF,		/* as for Fig. 8 */
};

/*
 * time * ratio in millionths, rounded down: exact below 2^42 ns, as ratio <
 * 2^32.
 */
static inline u64 knee_daimd_scaled(u64 time, u32 ratio)
{
	u64 whole = knee_div(time, KNEE_DAIMD_ONE);
	u64 part = time - whole * KNEE_DAIMD_ONE;

	return whole * ratio + knee_div(part * ratio, KNEE_DAIMD_ONE);
}

/*
 * Eq. 2 in millionths of a packet per round trip; since the last backoff, us.
 * beyond < 2^31, so that twice its square is below 2^63; the result is below
 * 2^42.
 */
static inline u64 knee_daimd_alpha(u32 increase, u64 since, u32 cwnd)
{
	u64 beyond = knee_min(knee_sub(since, KNEE_DAIMD_ONE),
			      (1ull << 31) - 1);
	u32 per = increase == KNEE_DAIMD_HTCP ? 2 : 4;

	if (increase == KNEE_DAIMD_RENO)
		return KNEE_DAIMD_ONE;
	if (increase == KNEE_DAIMD_SCALABLE)
		return (u64)cwnd * (KNEE_DAIMD_ONE / 100);
	return KNEE_DAIMD_ONE + 10 * beyond +
	       knee_div(beyond * beyond, per * KNEE_DAIMD_ONE);
}

/* Eqs. 3 and 4 with line 5's cap. RTTs <= KNEE_DAIMD_MAX_RTT: below 2^55. */
static inline u32 knee_daimd_beta(u32 delta, u64 rtt_min, u64 rtt, u32 max)
{
	if (!rtt)
		return max;
	return knee_min(knee_div(knee_min(rtt_min, rtt) * delta, rtt), max);
}

/* Eq. 5; gamma <= 10^6. */
static inline u64 knee_daimd_threshold(u64 base, u32 gamma, u64 occupancy)
{
	return knee_daimd_scaled(base, KNEE_DAIMD_ONE - gamma) +
	       knee_daimd_scaled(occupancy, gamma);
}

/* Line 3: RTT_max decays by a RTT per window, this much per packet. */
static inline u64 knee_daimd_decay(u64 rtt, u32 cwnd, u32 a)
{
	return knee_div(knee_daimd_scaled(rtt, a), knee_max(cwnd, 1));
}

/*
 * Eq. 7 in packets, at least 1; KNEE_U32_MAX while there is no queue. With
 * cwnd <= 2^27 and tau0 < 2^35 the product is below 2^62.
 */
static inline u32 knee_daimd_max_ssthresh(u32 cwnd, u64 tau0, u64 occupancy)
{
	u64 limit;

	if (!occupancy)
		return KNEE_U32_MAX;
	limit = knee_div(knee_min(cwnd, KNEE_DAIMD_MAX_CWND) * tau0,
			 4 * occupancy);
	return knee_min(knee_max(limit, 1), KNEE_U32_MAX);
}

/*
 * What a packet acknowledged gives at `rate` millionths of a packet per round
 * trip, in 2^-16 millionths: rate / cwnd, at most a packet. The rate counts for
 * at most cwnd * 10^6 < 2^47, so that 16 more bits fit.
 */
static inline u64 knee_daimd_gain(u64 rate, u32 cwnd)
{
	u64 window = knee_min(knee_max(cwnd, 1), KNEE_DAIMD_MAX_CWND);

	return knee_div(knee_min(rate, window * KNEE_DAIMD_ONE) << 16, window);
}

/* See the parameters of tcp_daimd.c; those of time in us. */
struct knee_daimd_params {
	u32 tau0, w0, increase, scale_increase, adaptive_backoff, delta,
	    beta_max, beta, loss_backoff, gamma, backoff_threshold, decay,
	    hold, delta0_mode, delta0_factor, delta0, slow_start,
	    fixed_backoffs, rtt_min_initial;
};

/* The defaults; tests hold them against the registry. */
#define KNEE_DAIMD_DEFAULTS {		\
	.tau0 = 20000,			\
	.w0 = 4,			\
	.increase = KNEE_DAIMD_HTCP,	\
	.scale_increase = 1,		\
	.adaptive_backoff = 1,		\
	.delta = 900000,		\
	.beta_max = 900000,		\
	.beta = 500000,			\
	.loss_backoff = 0,		\
	.gamma = 750000,		\
	.backoff_threshold = 0,		\
	.decay = 100000,		\
	.hold = 1,			\
	.delta0_mode = 0,		\
	.delta0_factor = 20000000,	\
	.delta0 = 1000000,		\
	.slow_start = KNEE_DAIMD_LIMITED,	\
	.fixed_backoffs = 0,		\
	.rtt_min_initial = 0,		\
}

/*
 * What is kept per connection: 88 bytes.
 *
 * What takes divisions is worked out with the first RTT of each millisecond, in
 * which it changes by little: RTT_max decays, D counts in seconds.
 */
struct knee_daimd {
	u64 rtt_min;		/* KNEE_U64_MAX: no sample yet, none set */
	u64 rtt_max;		/* decays */
	u64 srtt;		/* of packets since the backoff; 0: none yet */
	u64 last_backoff;	/* or the begin; later by idle times since */
	u64 credit;		/* increase not yet given, 2^-16 millionths */
	u64 decay;		/* of RTT_max per packet acknowledged */
	u64 raised;		/* up to this tau the window grows (Eq. 5) */
	u64 delta0;		/* least time between delay backoffs */
	u64 gain;		/* per packet acknowledged, 2^-16 millionths */
	u32 refreshed;		/* when the last four were set; lower bits */
	u32 until;		/* settling: no RTT counts up to this number */
	u32 max_ssthresh;	/* window above which slow start is limited */
	u32 backoffs:30;	/* reductions so far */
	u32 resumed:1;		/* idle time since the first RTT sample */
	u32 settling:1;
};

/* An ACK, and the answer to it. */
struct knee_daimd_ack {
	u64 now;
	u32 acked;		/* packets */
	u32 snd_nxt;		/* sequence number */
	bool limited;		/* the window was in full use */
	u32 cwnd;		/* in: as it is; out: as it shall be */
	u32 ssthresh;		/* likewise */
};

/* RTT_max - RTT_min: an estimate of the recent queue. */
static inline u64 knee_daimd_occupancy(const struct knee_daimd *d)
{
	return knee_sub(d->rtt_max, d->rtt_min);
}

/* The raised threshold as of now, ns. */
static inline u64 knee_daimd_raised(const struct knee_daimd *d,
				    const struct knee_daimd_params *p)
{
	return knee_daimd_threshold((u64)READ_ONCE(p->tau0) * 1000,
				    READ_ONCE(p->gamma),
				    knee_daimd_occupancy(d));
}

static inline u32 knee_daimd_beta_now(const struct knee_daimd *d,
				      const struct knee_daimd_params *p)
{
	if (!READ_ONCE(p->adaptive_backoff) || !d->srtt ||
	    d->backoffs < READ_ONCE(p->fixed_backoffs))
		return READ_ONCE(p->beta);
	return knee_daimd_beta(READ_ONCE(p->delta), d->rtt_min, d->srtt,
			       READ_ONCE(p->beta_max));
}

/* Least time between delay backoffs as of now, ns. */
static inline u64 knee_daimd_delta0(const struct knee_daimd *d,
				    const struct knee_daimd_params *p)
{
	if (READ_ONCE(p->delta0_mode))
		return (u64)READ_ONCE(p->delta0) * 1000;
	return knee_daimd_scaled(knee_daimd_occupancy(d),
				 READ_ONCE(p->delta0_factor));
}

/* Line 19: 2 (1 - beta) alpha; alpha < 2^42 and the scale <= 2^21. */
static inline u64 knee_daimd_rate(const struct knee_daimd *d,
				  const struct knee_daimd_params *p, u64 now,
				  u32 cwnd)
{
	u64 alpha = knee_daimd_alpha(READ_ONCE(p->increase),
				     now - d->last_backoff, cwnd);
	u32 beta = knee_min(knee_daimd_beta_now(d, p), KNEE_DAIMD_ONE);

	if (!READ_ONCE(p->scale_increase))
		return alpha;
	return knee_div(alpha * (2 * (KNEE_DAIMD_ONE - beta)), KNEE_DAIMD_ONE);
}

/* What is worked out once per millisecond is due with the next RTT. */
static inline void knee_daimd_outdate(struct knee_daimd *d, u64 now)
{
	d->refreshed = now - 1000;
}

static inline void knee_daimd_init(struct knee_daimd *d,
				   const struct knee_daimd_params *p, u64 now)
{
	u32 initial = READ_ONCE(p->rtt_min_initial);

	d->rtt_min = initial ? (u64)initial * 1000 : KNEE_U64_MAX;
	d->rtt_max = 0;
	d->srtt = 0;
	d->last_backoff = now;
	d->credit = 0;
	d->decay = 0;
	d->raised = knee_daimd_raised(d, p);
	d->delta0 = knee_daimd_delta0(d, p);
	d->gain = 0;
	knee_daimd_outdate(d, now);
	d->until = 0;
	d->max_ssthresh = KNEE_U32_MAX;
	d->backoffs = 0;
	d->resumed = 0;
	d->settling = 0;
}

static inline u64 knee_daimd_rtt(u32 rtt_us)
{
	return knee_min(knee_max((u64)rtt_us * 1000, 1), KNEE_DAIMD_MAX_RTT);
}

static inline void knee_daimd_smooth(struct knee_daimd *d, u64 rtt)
{
	d->srtt = d->srtt - d->srtt / 8 + rtt / 8;
}

/* decay < 2^35, and acked counts for at most 2^16. */
static inline u64 knee_daimd_decayed(const struct knee_daimd *d, u32 acked)
{
	return knee_sub(d->rtt_max, d->decay * knee_min(acked, 1 << 16));
}

/*
 * The fast path of an RTT in congestion avoidance that is no new RTT_min,
 * before anything is worked out anew. Returns whether that was it.
 */
static inline bool knee_daimd_fast_sample(struct knee_daimd *d, u64 now,
					  u32 rtt_us, u32 acked, u32 cwnd,
					  u32 ssthresh)
{
	u64 rtt = knee_daimd_rtt(rtt_us);

	if ((u32)now - d->refreshed >= 1000 || rtt < d->rtt_min ||
	    cwnd < ssthresh || d->settling || !d->srtt)
		return false;
	d->rtt_max = knee_max(knee_daimd_decayed(d, acked), rtt);
	knee_daimd_smooth(d, rtt);
	return true;
}

/* Eq. 7 as of now. */
static inline u32 knee_daimd_limit(const struct knee_daimd *d,
				   const struct knee_daimd_params *p, u32 cwnd)
{
	return knee_daimd_max_ssthresh(cwnd, knee_daimd_raised(d, p),
				       knee_daimd_occupancy(d));
}

/*
 * Eq. 7 gave `limit`. After the initial slow start, whose estimate it is, it
 * only rises.
 */
static inline void knee_daimd_estimate(struct knee_daimd *d, u32 limit)
{
	if ((!d->backoffs && !d->resumed) || d->max_ssthresh == KNEE_U32_MAX ||
	    limit > d->max_ssthresh)
		d->max_ssthresh = limit;
}

/*
 * An RTT in us was measured on an ACK of `acked` packets, up to sequence number
 * una (lines 2 to 4, 8 to 10).
 */
static inline void knee_daimd_sample(struct knee_daimd *d,
				     const struct knee_daimd_params *p, u64 now,
				     u32 rtt_us, u32 acked, u32 una, u32 cwnd,
				     u32 ssthresh)
{
	u64 rtt = knee_daimd_rtt(rtt_us);
	bool due = (u32)now - d->refreshed >= 1000;
	u64 rtt_max;

	if (knee_daimd_fast_sample(d, now, rtt_us, acked, cwnd, ssthresh))
		return;
	if (due)
		d->decay = knee_daimd_decay(rtt, cwnd, READ_ONCE(p->decay));
	rtt_max = knee_daimd_decayed(d, acked);
	/* For Figs. 3 and 4, what was set holds until the first backoff. */
	if (!READ_ONCE(p->rtt_min_initial) || d->backoffs)
		d->rtt_min = knee_min(d->rtt_min, rtt);
	d->rtt_max = knee_max(rtt_max, rtt);
	if (!d->settling) {
		if (d->srtt)
			knee_daimd_smooth(d, rtt);
		else
			d->srtt = rtt;
	} else if ((s32)(una - d->until) > 0) {
		d->settling = 0;
		d->srtt = rtt;
	}
	if (rtt > rtt_max && cwnd < ssthresh && knee_daimd_occupancy(d))
		knee_daimd_estimate(d, knee_daimd_limit(d, p, cwnd));
	if (due) {
		d->raised = knee_daimd_raised(d, p);
		d->delta0 = knee_daimd_delta0(d, p);
		d->gain = knee_daimd_gain(knee_daimd_rate(d, p, now, cwnd),
					  cwnd);
		d->refreshed = now;
	}
}

/* Notes a reduction; returns what it leaves of the window. */
static inline u32 knee_daimd_reduced(struct knee_daimd *d, u64 now, u32 snd_nxt,
				     u32 cwnd, u32 beta)
{
	d->last_backoff = now;
	if (d->backoffs < (1u << 30) - 1)
		d->backoffs++;
	d->settling = 1;
	d->until = snd_nxt;
	d->credit = 0;
	knee_daimd_outdate(d, now);
	return knee_max(knee_div((u64)cwnd * beta, KNEE_DAIMD_ONE), 2);
}

/* A packet, in the unit of credit. */
#define KNEE_DAIMD_PACKET	((u64)KNEE_DAIMD_ONE << 16)

/* gain <= 2^36, and acked counts for at most 2^16. */
static inline u64 knee_daimd_credit(const struct knee_daimd *d, u32 acked,
				    u64 gain)
{
	return d->credit + gain * knee_min(acked, 1 << 16);
}

static inline void knee_daimd_add(struct knee_daimd *d,
				  struct knee_daimd_ack *a, u64 gain)
{
	u64 packets;

	d->credit = knee_daimd_credit(d, a->acked, gain);
	packets = knee_div(d->credit, KNEE_DAIMD_PACKET);
	d->credit -= packets * KNEE_DAIMD_PACKET;
	a->cwnd = knee_min(a->cwnd + packets, KNEE_DAIMD_MAX_CWND);
}

static inline void knee_daimd_slow_start(struct knee_daimd *d,
					 const struct knee_daimd_params *p,
					 struct knee_daimd_ack *a)
{
	u64 rate = (u64)d->max_ssthresh * KNEE_DAIMD_ONE / 2;

	if (READ_ONCE(p->slow_start) == KNEE_DAIMD_LIMITED &&
	    a->cwnd > d->max_ssthresh)
		knee_daimd_add(d, a, knee_daimd_gain(rate, a->cwnd));
	else
		a->cwnd = knee_min((u64)a->cwnd + a->acked, a->ssthresh);
}

/* The queueing delay at which to back off. */
static inline u64 knee_daimd_backoff_at(const struct knee_daimd *d,
					const struct knee_daimd_params *p)
{
	return READ_ONCE(p->backoff_threshold) ? d->raised :
						 (u64)READ_ONCE(p->tau0) * 1000;
}

/*
 * Whether to back off on the queueing delay tau (line 22); the first backoff
 * has no Delta0 to wait for.
 */
static inline bool knee_daimd_backs_off(const struct knee_daimd *d,
					const struct knee_daimd_params *p,
					const struct knee_daimd_ack *a, u64 tau)
{
	return tau >= knee_daimd_backoff_at(d, p) && !d->settling &&
	       a->cwnd > READ_ONCE(p->w0) &&
	       (!d->backoffs || (a->now - d->last_backoff) * 1000 > d->delta0);
}

/* Whether the window increases at the queueing delay tau (line 19). */
static inline bool knee_daimd_increases(const struct knee_daimd *d,
					const struct knee_daimd_params *p,
					u32 cwnd, u64 tau)
{
	return tau <= d->raised || cwnd <= READ_ONCE(p->w0) ||
	       !READ_ONCE(p->hold);
}

/*
 * The fast path of an ACK in congestion avoidance that leaves the window as it
 * is. Returns whether that was it.
 */
static inline bool knee_daimd_fast_ack(struct knee_daimd *d,
				       const struct knee_daimd_params *p,
				       const struct knee_daimd_ack *a)
{
	u64 tau = knee_sub(d->srtt, d->rtt_min), credit;

	if (!a->limited || a->cwnd < a->ssthresh ||
	    tau >= knee_daimd_backoff_at(d, p))
		return false;
	if (!knee_daimd_increases(d, p, a->cwnd, tau))
		return true;
	credit = knee_daimd_credit(d, a->acked, d->gain);
	if (credit >= KNEE_DAIMD_PACKET)
		return false;
	d->credit = credit;
	return true;
}

/* An ACK came: lines 6 to 26. */
static inline void knee_daimd_on_ack(struct knee_daimd *d,
				     const struct knee_daimd_params *p,
				     struct knee_daimd_ack *a)
{
	u64 tau = knee_sub(d->srtt, d->rtt_min);

	if (knee_daimd_fast_ack(d, p, a))
		return;
	if (knee_daimd_backs_off(d, p, a, tau)) {
		a->cwnd = knee_daimd_reduced(d, a->now, a->snd_nxt, a->cwnd,
					     knee_daimd_beta_now(d, p));
		a->ssthresh = a->cwnd;
	} else if (!a->limited) {
		return;
	} else if (a->cwnd < a->ssthresh) {
		knee_daimd_slow_start(d, p, a);
	} else if (knee_daimd_increases(d, p, a->cwnd, tau)) {
		knee_daimd_add(d, a, d->gain);
	}
}

/* A loss: the new ssthresh. */
static inline u32 knee_daimd_on_loss(struct knee_daimd *d,
				     const struct knee_daimd_params *p, u64 now,
				     u32 snd_nxt, u32 cwnd)
{
	u32 window = knee_daimd_reduced(d, now, snd_nxt, cwnd,
					knee_daimd_beta_now(d, p));

	return READ_ONCE(p->loss_backoff) ? knee_max(cwnd / 2, 2) : window;
}

/*
 * Sending begins after nothing was in flight for `idle` us, which is no part of
 * the epoch. It does not include the wait for the ACK that left nothing in
 * flight: a flow whose window one ACK covers would always be idle.
 */
static inline void knee_daimd_on_restart(struct knee_daimd *d, u64 now,
					 u64 idle)
{
	if (!idle)
		return;
	d->last_backoff = knee_min(d->last_backoff + idle, now);
	d->srtt = 0;
	/* Slow start after a wait before the first data is the initial one. */
	if (d->rtt_max)
		d->resumed = 1;
	knee_daimd_outdate(d, now);
}

#endif
