/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * LoLa for networks that others use too, without the socket: the decisions of
 * knee's simulator, event by event (crates/knee-cc/src/lola_wild, which says
 * what each part is for).
 *
 * Rounds, hold and decrease are LoLa's (knee_lola.h). Added are
 *
 *   noise	RTT_now is the least RTT of a span that follows the path's own
 *		variation (knee_noise.h)
 *   routes	two reductions that change no delay: RTT_min is RTT_now
 *   one way	the queue that ACKs meet is left out of the RTT (knee_reverse.h)
 *   compete	two reductions after which others keep a queue: CUBIC
 *		(knee_cubic_flow.h), until a probe drains the queue
 *
 * Units: us, windows in packets, ratios in 1/1024. The state has its own memory
 * (some 1000 bytes), so that points in time have 64 bits and no fast path is
 * needed: a socket's 104 bytes hold no more than LoLa's.
 *
 * Here alone: X(t) is that of knee_lola.h, CUBIC counts time in ms, and an
 * offset from its plateau counts for at most 1024 s.
 */
#ifndef KNEE_LOLA_WILD_H
#define KNEE_LOLA_WILD_H

#include "knee_lola_wild_drain.h"

/* Growth as CUBIC's: slow start up to ssthresh, then the cubic function. */
static inline void knee_wild_grow(struct knee_lola_wild *w,
				  struct knee_wild_ack *a)
{
	u32 before = a->cwnd;

	if (!a->limited)
		return;
	if (a->cwnd < a->ssthresh) {
		a->cwnd = knee_min((u64)a->cwnd + a->acked, a->ssthresh);
		a->acked -= a->cwnd - before;
	}
	if (a->acked)
		a->count = knee_cubic_grow(&w->cubic, a->now, a->cwnd,
					   a->acked);
}

/* Section III-A, with the least of the last RTTs. */
static inline void knee_wild_slow_start(struct knee_lola_wild *w,
					const struct knee_lola_wild_params *p,
					struct knee_wild_ack *a)
{
	u32 least = KNEE_NOISE_NONE;
	int i;

	if (!a->limited) {
		w->recent_count = 0;
		return;
	}
	if (w->recent_count >= KNEE_WILD_RECENT) {
		for (i = 0; i < KNEE_WILD_RECENT; i++)
			least = knee_min(least, w->recent[i]);
		if (knee_lola_q_delay(least, w->rtt_min) >
		    2ull * READ_ONCE(p->q_low)) {
			if (!w->known) {
				knee_wild_tailored_decrease(w, p, a, least);
				return;
			}
			/* After idle time the cubic function goes on. */
			a->ssthresh = a->cwnd;
		}
	}
	if (a->cwnd < a->ssthresh)
		a->cwnd = knee_min((u64)a->cwnd + a->acked, a->ssthresh);
	if (a->cwnd >= a->ssthresh)
		knee_wild_enter(w, KNEE_WILD_CUBIC_INCREASE, a->now);
}

/* Eq. 1 and the watch for a standing queue. */
static inline void
knee_wild_cubic_increase(struct knee_lola_wild *w,
			 const struct knee_lola_wild_params *p,
			 struct knee_wild_ack *a)
{
	if (a->now < w->settled || w->rtt_now == KNEE_NOISE_NONE ||
	    knee_wild_q_delay(w) <= READ_ONCE(p->q_low)) {
		if (a->now >= w->settled)
			knee_wild_follow_acks(w, a);
		knee_wild_grow(w, a);
	} else if (!w->drain.pending) {
		/* A second decrease would hide what the first one did. */
		knee_wild_enter(w, KNEE_WILD_FAIR_FLOW_BALANCING, a->now);
	}
}

/* Fig. 2. */
static inline void knee_wild_balance(struct knee_lola_wild *w,
				     const struct knee_lola_wild_params *p,
				     struct knee_wild_ack *a)
{
	u32 q_delay = knee_wild_q_delay(w);
	u64 feedback, age, target, queued, packets;

	if (q_delay > READ_ONCE(p->q_target)) {
		w->rtt_hold = w->rtt_now;
		knee_wild_enter(w, KNEE_WILD_CWND_HOLD, a->now);
		return;
	}
	if (q_delay <= READ_ONCE(p->q_low) / 2) {
		knee_wild_enter(w, KNEE_WILD_CUBIC_INCREASE, a->now);
		return;
	}
	if (!a->limited || a->now < w->adjusted)
		return;
	feedback = knee_wild_feedback(w, p);
	age = knee_min(knee_sub(a->now, w->since) + feedback, KNEE_U32_MAX);
	target = knee_lola_fair_target(age, READ_ONCE(p->phi));
	queued = knee_wild_q_data(w, (u64)a->cwnd * a->mss, q_delay);
	packets = knee_div(knee_sub(target, queued), knee_max(a->mss, 1));
	packets = knee_min(packets, a->cwnd);
	if (!packets)
		return;
	w->adjusted = a->now + feedback;
	a->cwnd = knee_min(a->cwnd + packets, KNEE_WILD_NO_THRESHOLD);
}

static inline void knee_wild_compete(struct knee_lola_wild *w,
				     const struct knee_lola_wild_params *p,
				     struct knee_wild_ack *a)
{
	u32 queue = knee_wild_q_delay(w);

	if (queue >= w->peak) {
		w->peak = queue;
		w->peak_cwnd = a->cwnd;
	}
	if (knee_sub(a->now, w->since) >= KNEE_WILD_PROBE)
		knee_wild_probe(w, p, a,
				knee_sub(a->cwnd, knee_wild_q_data(w, a->cwnd,
								   queue)));
	else if (queue < w->peak / 2 && knee_wild_may_join(w, a->now))
		knee_wild_join(w, p, a);
	else
		knee_wild_grow(w, a);
}

/* An ACK came. */
static inline void knee_wild_on_ack(struct knee_lola_wild *w,
				    const struct knee_lola_wild_params *p,
				    struct knee_wild_ack *a)
{
	u8 before = w->phase;

	knee_wild_await(w, p, a);
	if (w->phase != before)
		return;
	if (w->phase != KNEE_WILD_SLOW_START &&
	    w->phase != KNEE_WILD_COMPETING && a->cwnd < a->ssthresh)
		knee_wild_enter_slow_start(w, a->now);
	switch (w->phase) {
	case KNEE_WILD_SLOW_START:
		knee_wild_slow_start(w, p, a);
		break;
	case KNEE_WILD_CUBIC_INCREASE:
		knee_wild_cubic_increase(w, p, a);
		break;
	case KNEE_WILD_FAIR_FLOW_BALANCING:
		knee_wild_balance(w, p, a);
		break;
	case KNEE_WILD_CWND_HOLD:
		if (knee_sub(a->now, w->since) >= READ_ONCE(p->t_sync))
			knee_wild_tailored_decrease(w, p, a, w->rtt_hold);
		break;
	case KNEE_WILD_TAILORED_DECREASE:
		knee_wild_enter(w, KNEE_WILD_CUBIC_INCREASE, a->now);
		break;
	case KNEE_WILD_COMPETING:
		knee_wild_compete(w, p, a);
		break;
	default:
		break;
	}
}

/* A loss or a mark, as CUBIC: the new ssthresh. */
static inline u32 knee_wild_on_loss(struct knee_lola_wild *w,
				    const struct knee_lola_wild_params *p,
				    u64 now, u32 cwnd)
{
	bool pending = w->drain.pending;

	w->settled_before = w->settled;
	w->lost_at = now;
	w->drain.pending = false;
	if (w->phase == KNEE_WILD_PROBING) {
		/*
		 * A loss counts for the window that the flow competes with, of
		 * which the probe has taken a part already.
		 */
		u32 competing = pending ? knee_max(w->drain.before, cwnd) :
					  cwnd;

		knee_wild_enter(w, KNEE_WILD_COMPETING, now);
		competing = knee_cubic_on_loss(&w->cubic, competing);
		return knee_max(knee_min(competing, cwnd), 2);
	}
	if (w->phase != KNEE_WILD_COMPETING) {
		knee_wild_enter(w, KNEE_WILD_CUBIC_INCREASE, now);
		w->settled = now + knee_wild_feedback(w, p);
	}
	return knee_cubic_on_loss(&w->cubic, cwnd);
}

/*
 * A retransmission timeout, told of as a loss before, at the same time. What
 * comes after slow start needs not wait for that to settle.
 */
static inline void knee_wild_on_timeout(struct knee_lola_wild *w, u64 now)
{
	if (w->lost_at == now)
		w->settled = w->settled_before;
	knee_cubic_forget(&w->cubic);
	w->kept = 0;
	knee_wild_enter_slow_start(w, now);
	w->known = false;
}

/*
 * The reduction is complete only now; its effect shows an RTT later. Others
 * that lost packets drain the queue too.
 */
static inline void knee_wild_on_reduced(struct knee_lola_wild *w,
					const struct knee_lola_wild_params *p,
					struct knee_wild_ack *a)
{
	w->settled = a->now + knee_wild_feedback(w, p);
	if (w->phase == KNEE_WILD_COMPETING && knee_wild_may_join(w, a->now))
		knee_wild_join(w, p, a);
}

/* Sending begins again after `idle` us in which nothing was in flight. */
static inline void knee_wild_on_restart(struct knee_lola_wild *w, u64 now,
					u64 idle, u32 delivered)
{
	knee_cubic_on_restart(&w->cubic, now);
	if (!idle)
		return;
	w->recent_count = 0;
	w->rate_since = now;
	w->rate_delivered = delivered;
}

#endif
