/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The reductions of lola-wild's window, and what their effect says: a new
 * route, competitors, or a queue that is gone.
 */
#ifndef KNEE_LOLA_WILD_DRAIN_H
#define KNEE_LOLA_WILD_DRAIN_H

#include "knee_lola_wild_state.h"

/* Reduces the window to `left` times gamma; RTTs of `rtt` show the effect. */
static inline void knee_wild_reduce(struct knee_lola_wild *w,
				    const struct knee_lola_wild_params *p,
				    struct knee_wild_ack *a, u32 left, u32 rtt)
{
	struct knee_wild_drain *d = &w->drain;
	u64 feedback = knee_wild_feedback(w, p);
	u32 before = a->cwnd;

	left = knee_max((u64)left * READ_ONCE(p->gamma) / 1024, 2);
	a->cwnd = knee_min(left, before);
	a->ssthresh = a->cwnd;
	a->reduced = true;
	w->settled = a->now + feedback;
	d->pending = true;
	d->before = before;
	d->rtt = rtt;
	d->least = KNEE_NOISE_NONE;
	d->cut = knee_div((u64)(before - a->cwnd) * 1000000,
			  knee_max(w->rate_last, 1));
	d->shows = w->settled;
	d->until = d->shows + rtt + KNEE_WILD_OTHERS;
}

/* Section III-E. */
static inline void
knee_wild_tailored_decrease(struct knee_lola_wild *w,
			    const struct knee_lola_wild_params *p,
			    struct knee_wild_ack *a, u32 rtt)
{
	u64 own;

	knee_wild_enter(w, KNEE_WILD_TAILORED_DECREASE, a->now);
	knee_cubic_begin_epoch(&w->cubic, a->cwnd);
	own = knee_wild_q_data(w, a->cwnd, knee_lola_q_delay(rtt, w->rtt_min));
	knee_wild_reduce(w, p, a, knee_sub(a->cwnd, own), rtt);
}

static inline void knee_wild_probe(struct knee_lola_wild *w,
				   const struct knee_lola_wild_params *p,
				   struct knee_wild_ack *a, u32 left)
{
	w->probed = a->now;
	w->peak = 0;
	w->peak_cwnd = 0;
	knee_wild_enter(w, KNEE_WILD_PROBING, a->now);
	knee_wild_reduce(w, p, a, left, w->rtt_now);
}

static inline bool knee_wild_may_join(const struct knee_lola_wild *w, u64 now)
{
	return knee_sub(now, w->probed) > KNEE_WILD_GAP;
}

/*
 * Drains the queue while others seem to. The peak gives the flow's part of the
 * path: the RTT has fallen since.
 */
static inline void knee_wild_join(struct knee_lola_wild *w,
				  const struct knee_lola_wild_params *p,
				  struct knee_wild_ack *a)
{
	u64 rtt = (u64)w->rtt_min + w->peak;
	/* Both factors have 32 bits. */
	u64 left = knee_div((u64)w->peak_cwnd * w->rtt_min, knee_max(rtt, 1));
	u64 own = knee_wild_q_data(w, a->cwnd, knee_wild_q_delay(w));

	knee_wild_probe(w, p, a, knee_min(knee_sub(a->cwnd, own), left));
}

/* The effect of the last reduction. */
static inline enum knee_wild_effect
knee_wild_effect(struct knee_lola_wild *w, u64 now, u32 target, u32 tolerance)
{
	struct knee_wild_drain *d = &w->drain;
	u32 rtt = w->rtt_now;
	u32 moved = d->rtt > rtt ? d->rtt - rtt : rtt - d->rtt;

	if (now < d->shows)
		return KNEE_WILD_PENDING;
	d->least = knee_min(d->least, rtt);
	if (knee_wild_q_delay(w) <= target)
		return KNEE_WILD_DRAINED;
	if (moved <= tolerance && d->cut > KNEE_WILD_VISIBLE * (u64)tolerance &&
	    d->least >= knee_sub(d->rtt, tolerance))
		return KNEE_WILD_SILENT;
	return now < d->until ? KNEE_WILD_PENDING : KNEE_WILD_KEPT;
}

/* True if silent reductions at the same RTT are enough with this one. */
static inline bool knee_wild_stays_silent(struct knee_lola_wild *w,
					  u32 tolerance)
{
	u32 moved = w->rtt_now > w->silent_rtt ? w->rtt_now - w->silent_rtt :
						 w->silent_rtt - w->rtt_now;
	bool same = !w->silent || moved <= tolerance;

	if (!w->silent || !same)
		w->silent_rtt = w->rtt_now;
	w->silent = knee_min((u64)w->silent + 1, KNEE_U32_MAX);
	return same && w->silent >= KNEE_WILD_SILENCES;
}

static inline void knee_wild_hears(struct knee_lola_wild *w)
{
	w->silent = 0;
	w->silent_rtt = 0;
}

/* Packets that this many microseconds carry at the greatest rate. */
static inline u32 knee_wild_carried(const struct knee_lola_wild *w, u64 us)
{
	u64 rate = knee_max(w->rate_greatest[0], w->rate_greatest[1]);

	/* Both have at most 32 bits. */
	rate = knee_min(rate, KNEE_U32_MAX) * knee_min(us, KNEE_U32_MAX);
	return knee_min(knee_div(rate, 1000000), KNEE_U32_MAX);
}

/*
 * Leads slow start to the window of the greatest rate, once the ACKs' queue has
 * made the path longer.
 */
static inline void knee_wild_follow_acks(const struct knee_lola_wild *w,
					 struct knee_wild_ack *a)
{
	u32 needed = knee_wild_carried(w, (u64)w->rtt_min + w->acks_queue);

	if (w->acks_queue && needed > (u64)a->cwnd + a->cwnd / 4)
		a->ssthresh = needed;
}

/*
 * Takes the RTT for that of a path without a queue. Slow start leads to what
 * the greatest rate needs there.
 */
static inline void knee_wild_follow_route(struct knee_lola_wild *w,
					  struct knee_wild_ack *a)
{
	w->kept = 0;
	knee_wild_hears(w);
	w->rtt_min = w->rtt_now;
	a->ssthresh = knee_max(knee_wild_carried(w, w->rtt_min), a->cwnd);
	a->cwnd = knee_max(a->cwnd, knee_min(w->drain.before, a->ssthresh));
	knee_wild_enter(w, KNEE_WILD_CUBIC_INCREASE, a->now);
}

static inline bool knee_wild_competed_lately(const struct knee_lola_wild *w,
					     u64 now)
{
	return w->has_competed &&
	       knee_sub(now, w->competed_end) < KNEE_WILD_MEMORY;
}

/* Competes, lately interrupted or for the first time. */
static inline void knee_wild_compete_again(struct knee_lola_wild *w,
					   struct knee_wild_ack *a)
{
	a->cwnd = knee_max(a->cwnd, w->drain.before);
	a->ssthresh = a->cwnd;
	if (w->phase != KNEE_WILD_PROBING) {
		w->peak = 0;
		w->peak_cwnd = 0;
		if (knee_wild_competed_lately(w, a->now)) {
			w->cubic = w->competed;
			a->ssthresh = knee_max(a->ssthresh, w->competed_cwnd);
		}
		w->has_competed = false;
	}
	knee_wild_enter(w, KNEE_WILD_COMPETING, a->now);
}

static inline void knee_wild_drained(struct knee_lola_wild *w,
				     struct knee_wild_ack *a)
{
	w->kept = knee_sub(w->kept, 1);
	knee_wild_hears(w);
	if (w->phase != KNEE_WILD_PROBING)
		return;
	w->kept = 0;
	w->has_competed = true;
	w->competed_end = a->now;
	w->competed = w->cubic;
	w->competed_cwnd = w->drain.before;
	knee_cubic_begin_epoch(&w->cubic, a->cwnd);
	knee_wild_enter(w, KNEE_WILD_CUBIC_INCREASE, a->now);
}

/* Acts on the effect of the last reduction, once it is known. */
static inline void knee_wild_await(struct knee_lola_wild *w,
				   const struct knee_lola_wild_params *p,
				   struct knee_wild_ack *a)
{
	u32 tolerance = knee_wild_tolerance(w, p), enough;
	enum knee_wild_effect effect;

	if (!w->drain.pending)
		return;
	effect = knee_wild_effect(w, a->now, READ_ONCE(p->q_target), tolerance);
	if (effect == KNEE_WILD_PENDING)
		return;
	w->drain.pending = false;
	if (effect == KNEE_WILD_DRAINED) {
		knee_wild_drained(w, a);
		return;
	}
	if (effect == KNEE_WILD_SILENT && READ_ONCE(p->routes)) {
		if (knee_wild_stays_silent(w, tolerance)) {
			knee_wild_follow_route(w, a);
			return;
		}
		/* Once may be chance. */
		if (w->silent == 1 && w->phase != KNEE_WILD_PROBING)
			return;
	}
	w->kept = knee_min(w->kept + 2, KNEE_WILD_ENOUGH);
	if (effect == KNEE_WILD_KEPT)
		knee_wild_hears(w);
	enough = knee_wild_competed_lately(w, a->now) ? 2 : KNEE_WILD_ENOUGH;
	if (READ_ONCE(p->compete) &&
	    (w->phase == KNEE_WILD_PROBING || w->kept >= enough))
		knee_wild_compete_again(w, a);
}

#endif
