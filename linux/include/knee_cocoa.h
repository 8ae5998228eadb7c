/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * cocoa's arithmetic and the state of a flow, without its packets.
 *
 * M. Bachl, J. Fabini, T. Zseby, "Cocoa: Congestion Control Aware Queuing",
 * BS'19 (its sections below). Between two losses of a loss-based sender the
 * queue shows whether its buffer fits. If it never ran empty, its least length
 * served nothing: the buffer shrinks by it. If it ran empty, the link was idle:
 * the buffer grows by what could have been sent. The longest interval (LI)
 * between losses within a guard interval (GI) counts.
 *
 * A packet comes and the flow's buffer is full (Algorithm 1):
 *
 *   idle in this interval, not enlarged in it, not the first
 *	buffer += sent / active * idle (to buffer max_increase at most); take it
 *   first interval, or enlarged in it
 *	new interval, new GI; drop it
 *   now >= end of the GI
 *	buffer -= standing queue of the LI; new interval, new GI; drop it
 *   otherwise
 *	new interval; drop it
 *
 * end of a GI = its start + min(multiplier * LI before it, max_guard_interval)
 *
 * What the paper leaves open is as in knee's simulator, and said there
 * (crates/knee-queue/src/cocoa.rs). Units: ns, packets; factors with 16 bits
 * behind the point.
 */
#ifndef KNEE_COCOA_H
#define KNEE_COCOA_H

#include "knee_math.h"

#define KNEE_COCOA_ONE		(1u << 16)
/* More packets than any queue holds. */
#define KNEE_COCOA_MAX_BUFFER	(1u << 30)
/* Nothing left in the interval. */
#define KNEE_COCOA_NONE		KNEE_U32_MAX

/* factor * time, rounded down. */
static inline u64 knee_cocoa_times(u32 factor, u64 time)
{
	return knee_mul_shift(time, factor, 16);
}

/*
 * factor * packets, rounded down. packets <= 2^30, so that the product has 62
 * bits.
 */
static inline u32 knee_cocoa_packets(u32 factor, u32 packets)
{
	return knee_min((u64)packets * factor >> 16, KNEE_COCOA_MAX_BUFFER);
}

/* What could have been sent while idle: sent / active * idle, rounded down. */
static inline u32 knee_cocoa_missed(u64 sent, u64 active, u64 idle)
{
	if (!active)
		return sent ? KNEE_COCOA_MAX_BUFFER : 0;
	return knee_min(knee_mul_div(sent, idle, active),
			KNEE_COCOA_MAX_BUFFER);
}

/* What is set. */
struct knee_cocoa_params {
	u32 multiplier;		/* of the LI */
	u32 max_increase;	/* of a buffer */
	u64 max_guard;		/* ns */
	u32 max_guard_rtts;	/* the same in round-trip times; 0: off */
	u64 base_rtt;		/* round-trip time without this queue, ns */
	u32 initial_buffer;	/* packets */
	bool learn_initial;
};

/* What is learned from all flows. */
struct knee_cocoa_learned {
	u64 buffer;		/* average in 2^-16 packets; 0: nothing yet */
};

/* What is kept per flow. */
struct knee_cocoa {
	u32 buffer;		/* packets it may hold, at least 1 */
	u32 least;		/* least left as one went; KNEE_COCOA_NONE */
	u64 sent;		/* packets that left in this interval */
	u64 idle_since;		/* since nothing is queued; 0: something is */
	u64 idle;		/* time with nothing queued in this interval */
	u64 start;		/* of the interval */
	u64 longest;		/* LI of this GI so far */
	u64 guard_end;		/* 0: before the first loss */
	u64 sojourn;		/* stay of the packet that left last */
	u32 standing;		/* `least` of the LI */
	bool enlarged;		/* in this interval */
};

/* What a full buffer led to. */
enum knee_cocoa_branch {
	KNEE_COCOA_ENLARGE,	/* take the packet */
	KNEE_COCOA_RESTART,	/* drop it; a GI began */
	KNEE_COCOA_REDUCE,	/* drop it and what is too much; a GI began */
	KNEE_COCOA_LOSS,	/* drop it */
};

/* The buffer of a new flow. */
static inline u32 knee_cocoa_initial(const struct knee_cocoa_params *p,
				     const struct knee_cocoa_learned *learned)
{
	if (p->learn_initial && learned->buffer)
		return knee_max((learned->buffer + (1 << 15)) >> 16, 1);
	return p->initial_buffer;
}

static inline void knee_cocoa_init(struct knee_cocoa *c, u32 buffer, u64 now)
{
	c->buffer = buffer;
	c->least = KNEE_COCOA_NONE;
	c->sent = 0;
	c->idle_since = 0;
	c->idle = 0;
	c->start = now;
	c->longest = 0;
	c->guard_end = 0;
	c->sojourn = 0;
	c->standing = 0;
	c->enlarged = false;
}

/*
 * Ends the interval and begins the next; the last of equally long ones is the
 * longest.
 */
static inline void knee_cocoa_end_interval(struct knee_cocoa *c, u64 now)
{
	u64 length = now - c->start;

	if (length >= c->longest) {
		c->longest = length;
		c->standing = c->least == KNEE_COCOA_NONE ? 0 : c->least;
	}
	c->start = now;
	c->idle = 0;
	c->sent = 0;
	c->least = KNEE_COCOA_NONE;
}

/* Length of the GI that follows one with the LI `longest` (2.1 and 2.3). */
static inline u64 knee_cocoa_guard(const struct knee_cocoa_params *p,
				   u64 longest, u64 sojourn)
{
	u64 most = p->max_guard;

	if (p->max_guard_rtts)
		most = knee_cocoa_times(p->max_guard_rtts,
					p->base_rtt + sojourn);
	return knee_min(knee_cocoa_times(p->multiplier, longest), most);
}

/*
 * Begins a GI. What is learned moves by an eighth towards the flow's buffer
 * (6).
 */
static inline void knee_cocoa_start_guard(struct knee_cocoa *c,
					  const struct knee_cocoa_params *p,
					  struct knee_cocoa_learned *learned,
					  u64 now)
{
	u64 buffer = (u64)c->buffer << 16;

	c->guard_end = now + knee_cocoa_guard(p, c->longest, c->sojourn);
	c->longest = 0;
	c->standing = 0;
	if (!learned->buffer)
		learned->buffer = buffer;
	else if (buffer >= learned->buffer)
		learned->buffer += (buffer - learned->buffer) / 8;
	else
		learned->buffer -= (learned->buffer - buffer) / 8;
}

/* A packet comes and the buffer is full: Algorithm 1. */
static inline enum knee_cocoa_branch
knee_cocoa_on_full(struct knee_cocoa *c, const struct knee_cocoa_params *p,
		   struct knee_cocoa_learned *learned, u64 now)
{
	if (!c->guard_end || c->enlarged) {
		/*
		 * What was measured before an enlargement belongs to another
		 * buffer.
		 */
		if (c->enlarged)
			c->longest = 0;
		knee_cocoa_end_interval(c, now);
		c->enlarged = false;
		knee_cocoa_start_guard(c, p, learned, now);
		return KNEE_COCOA_RESTART;
	}
	if (c->idle) {
		u64 active = now - c->start - c->idle;
		u32 most = knee_cocoa_packets(p->max_increase, c->buffer);

		c->enlarged = true;
		c->buffer += knee_min(knee_sub(most, c->buffer),
				      knee_cocoa_missed(c->sent, active,
							c->idle));
		return KNEE_COCOA_ENLARGE;
	}
	knee_cocoa_end_interval(c, now);
	if (now < c->guard_end)
		return KNEE_COCOA_LOSS;
	c->buffer = knee_max(knee_sub(c->buffer, c->standing), 1);
	knee_cocoa_start_guard(c, p, learned, now);
	return KNEE_COCOA_REDUCE;
}

/* A packet is taken in and finds nothing queued. */
static inline void knee_cocoa_on_arrival(struct knee_cocoa *c, u64 now)
{
	if (c->idle_since) {
		c->idle += now - c->idle_since;
		c->idle_since = 0;
	}
}

/* A packet leaves and `held` stay. */
static inline void knee_cocoa_on_departure(struct knee_cocoa *c, u32 held,
					   u64 now, u64 sojourn)
{
	c->sent++;
	if (held < c->least)
		c->least = held;
	c->sojourn = sojourn;
	if (!held)
		c->idle_since = now;
}

#endif
