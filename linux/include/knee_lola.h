/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * TCP LoLa's arithmetic and states, without the socket.
 *
 * M. Hock, F. Neumeister, M. Zitterbart, R. Bless, "TCP LoLa: Congestion
 * Control for Low Latencies and High Throughput", IEEE LCN 2017 (its numbers of
 * equations, figures and sections below):
 *
 *   X(t) = (t / phi)^3, t in ms, X in bytes				(2)
 *   K = cbrt((CWnd_max - RTT_min CWnd_max / RTT_now gamma) / C)	(3)
 *   RTT_now = min{RTT(t_k) | t_k in [t - t_measure, t]}		(4)
 *   RTT_min = min(RTT_min, RTT_now)					(5)
 *   Q_delay = RTT_now - RTT_min					(6)
 *   Q_data = Q_delay CWnd / RTT_now					(7)
 *
 * slow start -- RTT_max - RTT_min > 2 Q_low --> cubic increase <-----------.
 *                                                     | Q_delay > Q_low    |
 *                                            fair flow balancing           |
 *                                                     | Q_delay > Q_target |
 *                                                 CWnd hold                |
 *                                                     | after t_sync       |
 *                                             tailored decrease -----------'
 *
 * Units: times and RTTs in us, windows in packets, ratios in 1/1024.
 *
 * What the paper leaves open is answered as in knee's simulator, and said there
 * why (crates/knee-cc/src/lola/mod.rs). In short: X(t) - Q_data is added at
 * most once per RTT_now + t_measure and at most doubles the window; t counts
 * from that span before the state was entered; for that span after a decrease
 * no state is left; the decrease takes Q_data at the greatest RTT_now of the
 * hold; below Q_low / 2 balancing goes back to cubic increase; slow start looks
 * at unfiltered RTTs; time with nothing in flight is not part of t of Eq. 1.
 * Here alone: the filter of Eq. 4 has 8 slots, not 16, ages end at 2^31 us (36
 * minutes), and what depends on the time alone is looked at once per
 * millisecond.
 */
#ifndef KNEE_LOLA_H
#define KNEE_LOLA_H

#include "knee_cubic.h"
#include "knee_filter.h"

/* Eq. 2 in bytes, rounded down; phi in 1/1024, not 0; at most 8 GiB. */
static inline u64 knee_lola_fair_target(u32 t, u32 phi)
{
	/* t / phi in 2^-10 ms: t < 2^32, so that 20 more bits fit. */
	u64 ratio = knee_div((u64)t << 20, (u64)phi * 1000);

	/*
	 * Its cube has 30 fractional bits: ratio <= 2^21 keeps it below 2^64.
	 */
	if (ratio >= 1 << 21)
		return 1ull << 33;
	return (ratio * ratio * ratio) >> 30;
}

/* Eq. 6. */
static inline u32 knee_lola_q_delay(u32 rtt_now, u32 rtt_min)
{
	return rtt_now > rtt_min ? rtt_now - rtt_min : 0;
}

/*
 * Eq. 7 in the unit of the window, rounded down. Exact for RTTs below 2^27 us
 * (134 s) and windows up to 2^36 (64 GiB): the product stays below 2^63. RTTs
 * above count as that.
 */
static inline u64 knee_lola_q_data(u64 cwnd, u32 rtt_now, u32 rtt_min)
{
	u32 rtt = knee_min(rtt_now, (1 << 27) - 1);

	if (!rtt)
		return 0;
	cwnd = knee_min(cwnd, 1ull << 36);
	return knee_div(cwnd * knee_lola_q_delay(rtt, rtt_min), rtt);
}

/*
 * Section III-E and the window in Eq. 3: (CWnd - Q_data) gamma, at least 2,
 * rounded down once.
 */
static inline u32 knee_lola_decreased(u32 cwnd, u32 rtt_now, u32 rtt_min,
				      u32 gamma)
{
	u64 rtt = knee_max(rtt_now, 1), left = knee_min(rtt_min, rtt);

	/*
	 * gamma <= 2^10, so that both products of gamma have at most 42 bits.
	 */
	return knee_max(knee_mul_div(cwnd, left * gamma, rtt << 10), 2);
}

enum knee_lola_phase {
	KNEE_LOLA_SLOW_START,
	KNEE_LOLA_CUBIC_INCREASE,
	KNEE_LOLA_FAIR_FLOW_BALANCING,
	KNEE_LOLA_CWND_HOLD,
	KNEE_LOLA_TAILORED_DECREASE,
};

/* Section V-A and CUBIC. */
struct knee_lola_params {
	u32 q_low;		/* queueing delay that shows a full link */
	u32 q_target;		/* queueing delay that ends a round */
	u32 t_sync;		/* how long the window is held */
	u32 t_measure;		/* span of the filter of Eq. 4 */
	u32 gamma;		/* further factor of tailored decrease */
	u32 phi;		/* steepness of X(t) */
	u32 c;			/* C of Eq. 1 */
	u32 min_rtt_resets;	/* decreases without RTT_min until its reset */
	u32 min_rtt_close;	/* how close an RTT confirms RTT_min */
	u32 beta;		/* what a loss leaves of the window */
	u32 fast_convergence;	/* 0 or 1 */
	u32 filter_slow_start;	/* 1: slow start sees RTT_now; 0: each RTT */
};

/* The defaults; tests compare them with the registry. */
#define KNEE_LOLA_DEFAULTS {		\
	.q_low = 1000,			\
	.q_target = 5000,		\
	.t_sync = 250000,		\
	.t_measure = 40000,		\
	.gamma = 973,			\
	.phi = 35 * 1024,		\
	.c = 410,			\
	.min_rtt_resets = 100,		\
	.min_rtt_close = 500,		\
	.beta = 717,			\
	.fast_convergence = 1,		\
	.filter_slow_start = 0,		\
}

/*
 * What is kept per connection: 104 bytes, all that a socket has for it.
 *
 * Points in time of 32 bits are the lower ones. Those that were reached are
 * moved along at least every eighth of t_measure that ACKs come, and where none
 * came for long (knee_lola_tidy), so that a comparison never spans 2^31 us.
 */
struct knee_lola {
	struct knee_filter filter;	/* its byte `owner`: the phase */
	u32 rtt_now;		/* Eq. 4; KNEE_FILTER_EMPTY: none yet */
	u32 rtt_min;		/* Eq. 5; the same */
	u32 cwnd_max;		/* of Eq. 1; 0: no reduction yet */
	u32 k;			/* of Eq. 1, in 2^-10 s */
	u32 count;		/* packets per increase by one; 0: none */
	u32 decided;		/* when phase and count were looked at last */
	u32 unconfirmed;	/* decreases since an RTT close to RTT_min */
	/*
	 * Slow start: its least and greatest RTT; hold: its greatest RTT_now.
	 */
	u32 rtt_least;
	u32 rtt_greatest;
	u32 since;		/* when the phase began */
	u32 settled;		/* then Q_delay shows the last reduction */
	u32 adjusted;		/* then Q_data shows the last increase */
	u64 epoch;		/* when t of Eq. 1 begins; 0: next ACK */
};

/* An ACK, and how the window changes. */
struct knee_lola_ack {
	u64 now;
	u32 acked;		/* packets */
	u32 mss;		/* bytes of payload per packet */
	bool limited;		/* the window was in full use */
	u32 cwnd;		/* in: as it is; out: as it shall be */
	u32 ssthresh;		/* likewise */
	u32 count;		/* out: packets per increase by one; 0: none */
};

static inline u8 knee_lola_phase(const struct knee_lola *l)
{
	return l->filter.owner;
}

/* The next ACK is due for a decision. */
static inline void knee_lola_outdate(struct knee_lola *l, u64 now)
{
	l->decided = now - 1000;
}

/* Whether the window does not follow Eq. 1 and comes back to it. */
static inline bool knee_lola_in_round(const struct knee_lola *l)
{
	return knee_lola_phase(l) == KNEE_LOLA_FAIR_FLOW_BALANCING ||
	       knee_lola_phase(l) == KNEE_LOLA_CWND_HOLD;
}

static inline void knee_lola_enter(struct knee_lola *l, u8 phase, u64 now)
{
	/* Eq. 1 continues where it stopped. */
	if (l->epoch && knee_lola_in_round(l))
		l->epoch += (u32)now - l->since;
	l->filter.owner = phase;
	l->since = now;
	l->count = 0;
	knee_lola_outdate(l, now);
}

static inline bool knee_lola_reached(u32 when, u64 now)
{
	return (s32)((u32)now - when) >= 0;
}

static inline void knee_lola_forget_slow_start(struct knee_lola *l)
{
	l->rtt_least = KNEE_FILTER_EMPTY;
	l->rtt_greatest = 0;
}

static inline void knee_lola_enter_slow_start(struct knee_lola *l, u64 now)
{
	knee_lola_enter(l, KNEE_LOLA_SLOW_START, now);
	knee_lola_forget_slow_start(l);
}

static inline void knee_lola_init(struct knee_lola *l, u64 now)
{
	knee_filter_init(&l->filter, now);
	l->rtt_now = KNEE_FILTER_EMPTY;
	l->rtt_min = KNEE_FILTER_EMPTY;
	l->cwnd_max = 0;
	l->k = 0;
	l->unconfirmed = 0;
	l->settled = now;
	l->adjusted = now;
	l->epoch = 0;
	knee_lola_enter_slow_start(l, now);
}

/* How long it takes until a change of the window shows in the RTT. */
static inline u32 knee_lola_feedback(const struct knee_lola *l,
				     const struct knee_lola_params *p)
{
	u32 rtt = l->rtt_now == KNEE_FILTER_EMPTY ? 0 : l->rtt_now;

	/* Less than half of the range of points in time: 2^30 + 10^8 us. */
	return knee_min(rtt, 1 << 30) + READ_ONCE(p->t_measure);
}

/* Moves points in time along; `gap`: since the last slot of the filter, us. */
static inline void knee_lola_tidy(struct knee_lola *l, u64 now, u64 gap)
{
	bool all = gap >= 1 << 30;

	if (all || knee_lola_reached(l->settled, now))
		l->settled = now;
	if (all || knee_lola_reached(l->adjusted, now))
		l->adjusted = now;
	if (all || (u32)now - l->since > 1u << 31)
		l->since = (u32)now - (1u << 31);
}

/*
 * The fast path of an RTT: one that is not below RTT_now changes the minimum of
 * its slot and nothing else, but in slow start, and after a decrease, which it
 * may confirm. Returns whether that was it.
 */
static inline bool knee_lola_fast_sample(struct knee_lola *l, u64 now, u32 rtt)
{
	if (rtt < l->rtt_now || knee_filter_is_over(&l->filter, now) ||
	    knee_lola_phase(l) == KNEE_LOLA_SLOW_START ||
	    knee_lola_phase(l) == KNEE_LOLA_TAILORED_DECREASE)
		return false;
	knee_filter_add(&l->filter, 0, rtt);
	return true;
}

/* An RTT was measured: Eqs. 4 and 5. */
static inline void knee_lola_sample(struct knee_lola *l,
				    const struct knee_lola_params *p, u64 now,
				    u32 rtt)
{
	rtt = knee_max(rtt, 1);
	if (knee_lola_fast_sample(l, now, rtt))
		return;
	knee_lola_outdate(l, now);
	if (knee_filter_is_over(&l->filter, now)) {
		knee_lola_tidy(l, now, now - l->filter.end);
		l->rtt_now = knee_filter_advance(&l->filter, now,
						 READ_ONCE(p->t_measure));
	}
	l->rtt_now = knee_filter_add(&l->filter, l->rtt_now, rtt);
	l->rtt_min = knee_min(l->rtt_min, l->rtt_now);
	if (l->rtt_now - l->rtt_min <= READ_ONCE(p->min_rtt_close))
		l->unconfirmed = 0;
	if (knee_lola_phase(l) == KNEE_LOLA_CWND_HOLD) {
		l->rtt_greatest = knee_max(l->rtt_greatest, l->rtt_now);
	} else if (knee_lola_phase(l) == KNEE_LOLA_SLOW_START) {
		if (READ_ONCE(p->filter_slow_start))
			rtt = l->rtt_now;
		l->rtt_least = knee_min(l->rtt_least, rtt);
		l->rtt_greatest = knee_max(l->rtt_greatest, rtt);
	}
}

/* Section III-A. */
static inline void knee_lola_slow_start(struct knee_lola *l,
					const struct knee_lola_params *p,
					struct knee_lola_ack *a)
{
	if (!a->limited) {
		knee_lola_forget_slow_start(l);
	} else if (l->rtt_greatest > l->rtt_least &&
		   l->rtt_greatest - l->rtt_least > 2 * READ_ONCE(p->q_low)) {
		a->ssthresh = knee_min(a->ssthresh, a->cwnd);
		if (!l->epoch)
			l->cwnd_max = 0;
	} else if (a->cwnd < a->ssthresh) {
		a->cwnd = knee_min((u64)a->cwnd + a->acked, a->ssthresh);
	}
	if (a->cwnd >= a->ssthresh)
		knee_lola_enter(l, KNEE_LOLA_CUBIC_INCREASE, a->now);
}

/* Sets the rate of increase by Eq. 1. */
static inline void knee_lola_follow_cubic(struct knee_lola *l,
					  const struct knee_lola_params *p,
					  const struct knee_lola_ack *a)
{
	u64 t, window;

	if (!l->epoch) {
		l->epoch = knee_max(a->now, 1);
		l->cwnd_max = knee_max(l->cwnd_max, a->cwnd);
		l->k = knee_cubic_k(READ_ONCE(p->c), l->cwnd_max - a->cwnd);
	}
	/* One RTT ahead, as CUBIC: what is acknowledged by then is sent now. */
	t = knee_sub(a->now, l->epoch) +
	    (l->rtt_min == KNEE_FILTER_EMPTY ? 0 : l->rtt_min);
	window = knee_cubic_window(READ_ONCE(p->c), knee_cubic_time(t), l->k,
				   l->cwnd_max);
	l->count = knee_cubic_count(window, a->cwnd);
}

/* Section III-B and the watch for a standing queue. */
static inline void knee_lola_cubic_increase(struct knee_lola *l,
					    const struct knee_lola_params *p,
					    struct knee_lola_ack *a)
{
	if (l->rtt_now != KNEE_FILTER_EMPTY &&
	    knee_lola_reached(l->settled, a->now)) {
		/*
		 * Section IV: an RTT_min that is no longer reached is
		 * forgotten.
		 */
		if (l->unconfirmed >= READ_ONCE(p->min_rtt_resets)) {
			l->rtt_min = l->rtt_now;
			l->unconfirmed = 0;
		}
		if (knee_lola_q_delay(l->rtt_now, l->rtt_min) >
		    READ_ONCE(p->q_low)) {
			knee_lola_enter(l, KNEE_LOLA_FAIR_FLOW_BALANCING,
					a->now);
			return;
		}
	}
	if (!a->limited)
		return;
	knee_lola_follow_cubic(l, p, a);
	a->count = l->count;
}

/* Fig. 2. */
static inline void knee_lola_balance(struct knee_lola *l,
				     const struct knee_lola_params *p,
				     struct knee_lola_ack *a)
{
	u32 q_delay = knee_lola_q_delay(l->rtt_now, l->rtt_min);
	u32 age = (u32)a->now - l->since, feedback, packets;
	u64 target, queued, added;

	if (q_delay > READ_ONCE(p->q_target)) {
		knee_lola_enter(l, KNEE_LOLA_CWND_HOLD, a->now);
		l->rtt_greatest = l->rtt_now;
		return;
	}
	if (q_delay <= READ_ONCE(p->q_low) / 2) {
		knee_lola_enter(l, KNEE_LOLA_CUBIC_INCREASE, a->now);
		return;
	}
	if (!a->limited || !knee_lola_reached(l->adjusted, a->now))
		return;
	/* age <= 2^31 and feedback < 2^31: no overflow. */
	feedback = knee_lola_feedback(l, p);
	target = knee_lola_fair_target(age + feedback, READ_ONCE(p->phi));
	queued = knee_lola_q_data((u64)a->cwnd * a->mss, l->rtt_now,
				  l->rtt_min);
	added = knee_div(knee_sub(target, queued), knee_max(a->mss, 1));
	packets = knee_min(added, a->cwnd);
	if (packets) {
		/* A window of 2^30 packets cannot be doubled. */
		a->cwnd = knee_min((u64)a->cwnd + packets, 1 << 30);
		l->adjusted = (u32)a->now + feedback;
	}
}

/* Section III-E. K follows with the next ACK (knee_lola_follow_cubic). */
static inline void knee_lola_tailored_decrease(struct knee_lola *l,
					       const struct knee_lola_params *p,
					       struct knee_lola_ack *a)
{
	u32 window;

	knee_lola_enter(l, KNEE_LOLA_TAILORED_DECREASE, a->now);
	l->cwnd_max = a->cwnd;
	l->epoch = 0;
	window = knee_lola_decreased(a->cwnd, l->rtt_greatest, l->rtt_min,
				     READ_ONCE(p->gamma));
	a->cwnd = knee_min(window, a->cwnd);
	a->ssthresh = a->cwnd;
	l->unconfirmed++;
	l->settled = (u32)a->now + knee_lola_feedback(l, p);
}

/*
 * Whether an ACK does more than let the window grow by count: the first after
 * RTT_now was set, and one per millisecond. What depends on the time alone, as
 * the end of the hold and X(t), is that much later at most.
 */
static inline bool knee_lola_is_due(const struct knee_lola *l, u64 now,
				    bool limited)
{
	return !limited || (u32)now - l->decided >= 1000;
}

/* An ACK came: Fig. 1. */
static inline void knee_lola_on_ack(struct knee_lola *l,
				    const struct knee_lola_params *p,
				    struct knee_lola_ack *a)
{
	if (!knee_lola_is_due(l, a->now, a->limited)) {
		a->count = l->count;
		return;
	}
	if (knee_lola_phase(l) != KNEE_LOLA_SLOW_START && a->cwnd < a->ssthresh)
		knee_lola_enter_slow_start(l, a->now);
	if (a->limited && knee_lola_phase(l) != KNEE_LOLA_SLOW_START)
		l->decided = a->now;
	switch (knee_lola_phase(l)) {
	case KNEE_LOLA_SLOW_START:
		knee_lola_slow_start(l, p, a);
		break;
	case KNEE_LOLA_CUBIC_INCREASE:
		knee_lola_cubic_increase(l, p, a);
		break;
	case KNEE_LOLA_FAIR_FLOW_BALANCING:
		knee_lola_balance(l, p, a);
		break;
	case KNEE_LOLA_CWND_HOLD:
		if ((u32)a->now - l->since >= READ_ONCE(p->t_sync))
			knee_lola_tailored_decrease(l, p, a);
		break;
	default:
		knee_lola_enter(l, KNEE_LOLA_CUBIC_INCREASE, a->now);
	}
}

/* A loss, as CUBIC: the new ssthresh. */
static inline u32 knee_lola_on_loss(struct knee_lola *l,
				    const struct knee_lola_params *p, u64 now,
				    u32 cwnd)
{
	l->cwnd_max = knee_cubic_w_max(cwnd, l->cwnd_max, READ_ONCE(p->beta),
				       READ_ONCE(p->fast_convergence));
	l->epoch = 0;
	knee_lola_enter(l, KNEE_LOLA_CUBIC_INCREASE, now);
	l->settled = (u32)now + knee_lola_feedback(l, p);
	return knee_cubic_ssthresh(cwnd, READ_ONCE(p->beta));
}

/* The reduction ends now; its effect shows an RTT later. */
static inline void knee_lola_on_reduced(struct knee_lola *l,
					const struct knee_lola_params *p,
					u64 now)
{
	l->settled = (u32)now + knee_lola_feedback(l, p);
}

/*
 * A retransmission timeout: slow start (Section III-A). It was told of as a
 * loss before; but what comes after slow start needs not wait for that to
 * settle.
 */
static inline void knee_lola_on_timeout(struct knee_lola *l, u64 now)
{
	l->settled = now;
	l->epoch = 0;
	knee_lola_enter_slow_start(l, now);
}

/*
 * Sending begins again after `idle` us in which nothing was in flight: that is
 * no time of growth. It does not include the wait for the ACK that left nothing
 * in flight, as CUBIC's does: a flow whose window one ACK covers would always
 * be idle. A round takes out all of its own time (knee_lola_enter). The kernel
 * may have reduced the window before (tcp_cwnd_restart): the next ACK sees it.
 */
static inline void knee_lola_on_restart(struct knee_lola *l, u64 now, u64 idle)
{
	if (!idle)
		return;
	knee_lola_outdate(l, now);
	if (knee_lola_phase(l) == KNEE_LOLA_SLOW_START)
		knee_lola_forget_slow_start(l);
	if (l->epoch && !knee_lola_in_round(l))
		l->epoch = knee_min(l->epoch + idle, now);
}

#endif
