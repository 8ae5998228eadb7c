/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The state of a flow of lola-wild, its parameters, and what each sample of the
 * RTT changes in it. knee_lola_wild.h says what the algorithm is.
 */
#ifndef KNEE_LOLA_WILD_STATE_H
#define KNEE_LOLA_WILD_STATE_H

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
#define KNEE_WILD_BURST		5
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
	u64 recent_began;	/* when the last burst of `recent` did */
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
	u32 recent_count;	/* bursts in `recent`, all of slow start */
	u32 recent[KNEE_WILD_RECENT];	/* their least RTTs, a ring */
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

/*
 * Takes an RTT of slow start. It is of the last burst of ACKs if that began
 * less than `burst` ago: an aggregate of the path is no queue.
 */
static inline void knee_wild_recent(struct knee_lola_wild *w, u64 now, u32 rtt,
				    u32 burst)
{
	u64 place;

	if (w->recent_count && knee_sub(now, w->recent_began) < burst) {
		place = (w->recent_count - 1) % KNEE_WILD_RECENT;
		w->recent[place] = knee_min(w->recent[place], rtt);
		return;
	}
	place = w->recent_count % KNEE_WILD_RECENT;
	w->recent[place] = rtt;
	w->recent_began = now;
	w->recent_count++;
	/* The ring's places only count, and it stays full. */
	if (w->recent_count == 2 * KNEE_WILD_RECENT)
		w->recent_count = KNEE_WILD_RECENT;
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
	u64 now = s->now;

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
		knee_wild_recent(w, now, rtt,
				 knee_div32(q_low, KNEE_WILD_BURST));
	} else if (w->phase == KNEE_WILD_CWND_HOLD) {
		w->rtt_hold = knee_max(w->rtt_hold, w->rtt_now);
	}
}

#endif
