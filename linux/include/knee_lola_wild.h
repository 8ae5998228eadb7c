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

#include "knee_cubic_flow.h"
#include "knee_lola.h"
#include "knee_noise.h"
#include "knee_reverse.h"

/* In the order of the registry's phases. */
enum knee_wild_phase {
	KNEE_WILD_SLOW_START,
	KNEE_WILD_CUBIC_INCREASE,
	KNEE_WILD_FAIR_FLOW_BALANCING,
	KNEE_WILD_CWND_HOLD,
	KNEE_WILD_TAILORED_DECREASE,
	KNEE_WILD_COMPETING,
	KNEE_WILD_PROBING,
};

enum knee_wild_effect {
	KNEE_WILD_PENDING,	/* not known yet */
	KNEE_WILD_DRAINED,	/* the queue is gone */
	KNEE_WILD_SILENT,	/* the delay did not move */
	KNEE_WILD_KEPT,		/* others keep a queue */
};

/* Constants of the simulator's class, where each is explained. */
#define KNEE_WILD_ENOUGH	4 /* knee_wild.kept that begins competition */
#define KNEE_WILD_SILENCES	2 /* silent reductions that reset RTT_min */
#define KNEE_WILD_VISIBLE	10
#define KNEE_WILD_OTHERS	150000
#define KNEE_WILD_PROBE		2000000
#define KNEE_WILD_GAP		1000000
#define KNEE_WILD_MEMORY	10000000
#define KNEE_WILD_RATE		5000000
#define KNEE_WILD_ROUND		40000
#define KNEE_WILD_RECENT	16
/* No threshold, as the kernel's TCP_INFINITE_SSTHRESH. */
#define KNEE_WILD_NO_THRESHOLD	0x7fffffff

struct knee_lola_wild_params {
	u32 q_low;	/* queueing delay that shows a full link */
	u32 q_target;	/* queueing delay that ends a round */
	u32 t_sync;	/* how long the window is held */
	u32 t_measure;	/* shortest span of the filter */
	u32 gamma;	/* further factor of tailored decrease */
	u32 phi;	/* steepness of X(t) */
	u32 adapt;	/* 0 or 1: the span follows the noise */
	u32 routes;	/* 0 or 1: reset RTT_min */
	u32 compete;	/* 0 or 1: compete as CUBIC */
	u32 one_way;	/* 0 or 1: leave out the queue that ACKs meet */
};

/* The defaults; tests compare them with the registry. */
#define KNEE_LOLA_WILD_DEFAULTS {	\
	.q_low = 1000,			\
	.q_target = 5000,		\
	.t_sync = 250000,		\
	.t_measure = 40000,		\
	.gamma = 973,			\
	.phi = 35 * 1024,		\
	.adapt = 1,			\
	.routes = 1,			\
	.compete = 1,			\
	.one_way = 1,			\
}

/* A reduction of the window whose effect is awaited. */
struct knee_wild_drain {
	u64 shows;	/* from then on RTTs show it */
	u64 until;	/* until then others may reduce their windows too */
	u64 cut;	/* how long it is at the flow's rate, us */
	u32 before;	/* the window before it */
	u32 rtt;	/* RTT before it */
	u32 least;	/* least RTT since it shows */
	bool pending;	/* there is one */
};

/* The state of a connection. */
struct knee_lola_wild {
	struct knee_noise noise;
	struct knee_cubic_flow cubic;
	struct knee_cubic_flow competed;	/* at the end of competition */
	struct knee_wild_drain drain;
	struct knee_reverse reverse;
	struct knee_window acks; /* the ACKs' queue over the longest span */
	u64 competed_end;	/* when that was; 0: it has not been */
	u64 since;	/* when the phase began */
	u64 settled;	/* then Q_delay shows the last reduction */
	u64 settled_before;	/* settled before a loss at lost_at */
	u64 lost_at;
	u64 adjusted;	/* then Q_data shows the last increase */
	u64 probed;	/* when the last probe began */
	u64 rtt_mean;	/* 1/64 us, some 64 samples, with the ACKs' queue */
	u64 rate_since;	/* begin of the round of the delivery rate */
	u64 rate_turned;	/* begin of the span of rate_greatest[0] */
	u64 rate_last;	/* packets per second in the last round */
	u64 rate_greatest[2];	/* of this span and of the one before */
	u32 rate_delivered;	/* packets delivered at rate_since */
	u32 competed_cwnd;
	u32 acks_queue;	/* in the last RTT, which the others are without */
	u32 unused;
	u32 rtt_now;	/* KNEE_NOISE_NONE: none yet */
	u32 rtt_min;	/* the same */
	u32 rtt_hold;	/* greatest rtt_now since the window is held */
	u32 kept;	/* 2 more where others kept a queue, 1 less else */
	u32 silent;	/* reductions in a row that changed nothing */
	u32 silent_rtt;	/* RTT of the first of them */
	u32 peak;	/* greatest queueing delay since the last probe */
	u32 peak_cwnd;	/* the window then */
	u32 recent_count;	/* RTTs in `recent`, all of slow start */
	u32 recent[KNEE_WILD_RECENT];	/* a ring */
	u8 phase;
	bool known;	/* slow start ended since the start or a timeout */
	bool has_competed;
};

/* An ACK or an event, and how the window changes. */
struct knee_wild_ack {
	u64 now;
	u32 acked;	/* packets; out: those left for `count` */
	u32 mss;	/* bytes of payload per packet */
	bool limited;	/* the window was in full use */
	bool reduced;	/* out: acknowledged packets no longer count */
	u32 cwnd;	/* in: as it is; out: as it shall be */
	u32 ssthresh;	/* likewise */
	u32 count;	/* out: packets per increase by one; 0: none */
};

static inline u32 knee_wild_q_delay(const struct knee_lola_wild *w)
{
	return knee_lola_q_delay(w->rtt_now, w->rtt_min);
}

/* Eq. 7 at the mean RTT, in the unit of the window, of a queue of `delay`. */
static inline u64 knee_wild_q_data(const struct knee_lola_wild *w, u64 cwnd,
				   u32 delay)
{
	u64 rtt = knee_max(w->rtt_mean / 64, w->rtt_now);

	return knee_mul_div(delay, cwnd, knee_max(rtt, 1));
}

static inline u32 knee_wild_span(const struct knee_lola_wild *w,
				 const struct knee_lola_wild_params *p)
{
	return knee_noise_span(&w->noise, READ_ONCE(p->t_measure));
}

/* How long it takes until the RTT shows a change of the window. */
static inline u64 knee_wild_feedback(const struct knee_lola_wild *w,
				     const struct knee_lola_wild_params *p)
{
	u32 rtt = w->rtt_now == KNEE_NOISE_NONE ? 0 : w->rtt_now;

	return (u64)rtt + w->acks_queue + knee_wild_span(w, p);
}

static inline u32 knee_wild_tolerance(const struct knee_lola_wild *w,
				      const struct knee_lola_wild_params *p)
{
	return knee_max(READ_ONCE(p->q_low), knee_noise_level(&w->noise));
}

static inline void knee_wild_enter(struct knee_lola_wild *w, u8 phase, u64 now)
{
	if (phase != KNEE_WILD_SLOW_START)
		w->known = true;
	/* A round and its hold are no time of growth by the cubic function. */
	if (w->phase == KNEE_WILD_FAIR_FLOW_BALANCING ||
	    w->phase == KNEE_WILD_CWND_HOLD)
		knee_cubic_pause(&w->cubic, knee_sub(now, w->since));
	w->phase = phase;
	w->since = now;
}

static inline void knee_wild_enter_slow_start(struct knee_lola_wild *w, u64 now)
{
	w->recent_count = 0;
	w->drain.pending = false;
	knee_wild_enter(w, KNEE_WILD_SLOW_START, now);
}

/* All bytes of the state are 0 before. */
static inline void knee_wild_init(struct knee_lola_wild *w, u64 now,
				  u32 delivered)
{
	knee_noise_init(&w->noise);
	knee_window_reset(&w->acks);
	knee_cubic_init(&w->cubic, now);
	w->since = now;
	w->settled = now;
	w->adjusted = now;
	w->probed = now;
	w->rate_since = now;
	w->rate_turned = now;
	w->rate_delivered = delivered;
	w->rtt_now = KNEE_NOISE_NONE;
	w->rtt_min = KNEE_NOISE_NONE;
}

/* The delivery rate of each round trip of at least 40 ms. */
static inline void knee_wild_rate(struct knee_lola_wild *w, u64 now, u32 rtt,
				  u32 delivered)
{
	u64 passed = knee_sub(now, w->rate_since);

	if (passed < knee_max(rtt, KNEE_WILD_ROUND))
		return;
	w->rate_last = knee_div((u64)(delivered - w->rate_delivered) * 1000000,
				passed);
	w->rate_since = now;
	w->rate_delivered = delivered;
	if (knee_sub(now, w->rate_turned) >= KNEE_WILD_RATE) {
		w->rate_greatest[1] = w->rate_greatest[0];
		w->rate_greatest[0] = 0;
		w->rate_turned = now;
	}
	w->rate_greatest[0] = knee_max(w->rate_greatest[0], w->rate_last);
}

/* A sample of the RTT. */
struct knee_wild_sample {
	u64 now;
	u32 rtt;
	u32 delivered;	/* packets in all */
	u32 tsval;	/* timestamp of the ACK, ms of the receiver's clock */
	bool stamped;	/* it has one */
};

/*
 * The part of an RTT that is a queue that ACKs meet: all that they wait where
 * some of it stands, and 0 where their delay varies, as over Wi-Fi, since that
 * is noise.
 */
static inline u32 knee_wild_acks_queue(struct knee_lola_wild *w,
				       const struct knee_lola_wild_params *p,
				       const struct knee_wild_sample *s,
				       u32 rtt)
{
	u32 queue = 0;

	if (s->stamped && READ_ONCE(p->one_way))
		queue = knee_reverse_queue(&w->reverse, s->now, rtt, s->tsval);
	knee_window_add(&w->acks, s->now, queue,
			knee_noise_longest(READ_ONCE(p->t_measure)));
	return w->acks.least > 2ull * READ_ONCE(p->q_low) ? queue : 0;
}

static inline void knee_wild_sample(struct knee_lola_wild *w,
				    const struct knee_lola_wild_params *p,
				    const struct knee_wild_sample *s)
{
	u64 q_low = READ_ONCE(p->q_low);
	u32 first = READ_ONCE(p->adapt) ? knee_div32(q_low * 4, 5) :
					  KNEE_U32_MAX;
	u32 quiet = knee_div32(q_low * 3, 5);
	u32 whole = knee_max(s->rtt, 1), rtt;
	u64 now = s->now, place;

	knee_cubic_sample(&w->cubic, now, whole);
	knee_wild_rate(w, now, whole, s->delivered);
	w->acks_queue = knee_wild_acks_queue(w, p, s, whole);
	rtt = knee_max(knee_sub(whole, w->acks_queue), 1);
	w->rtt_now = knee_noise_update(&w->noise, now, rtt,
				       READ_ONCE(p->t_measure), first, quiet);
	w->rtt_min = knee_min(w->rtt_min, w->rtt_now);
	w->rtt_mean = w->rtt_mean ? w->rtt_mean - w->rtt_mean / 64 + whole :
				    (u64)whole * 64;
	if (w->phase == KNEE_WILD_SLOW_START) {
		place = w->recent_count % KNEE_WILD_RECENT;
		w->recent[place] = rtt;
		w->recent_count++;
		/* The ring's places only count, and it stays full. */
		if (w->recent_count == 2 * KNEE_WILD_RECENT)
			w->recent_count = KNEE_WILD_RECENT;
	} else if (w->phase == KNEE_WILD_CWND_HOLD) {
		w->rtt_hold = knee_max(w->rtt_hold, w->rtt_now);
	}
}

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
