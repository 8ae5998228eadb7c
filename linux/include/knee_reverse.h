/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The queue of the ACKs' way, by TCP's timestamps (RFC 7323):
 * crates/knee-cc/src/lola_wild/reverse.rs, which says what limits it.
 *
 *   B = now - TSval, F = RTT - B, both with the offset of the receiver's clock
 *   queue = B - least B - 1 ms, at least 0
 *   F falls below its least: the clocks drift, and the least B rises as much,
 *   by at most 200 ppm of the time
 *
 * In us, relative to the first ACK. Both delays and the offset stay below 2^41,
 * as TSvals within 2^31 ms of the first (24 days) do.
 */
#ifndef KNEE_REVERSE_H
#define KNEE_REVERSE_H

#include "knee_math.h"

/* Timestamps are not trusted for so long. */
#define KNEE_REVERSE_TRIAL	1000000
/* The most by which B is too large. */
#define KNEE_REVERSE_GRAIN	1000
/* The least B follows a drift of one in this many. */
#define KNEE_REVERSE_DRIFT	5000

struct knee_reverse {
	u64 first;	/* when the first ACK came */
	s64 raised;	/* what the least B was raised by in all */
	s64 back;	/* least B */
	s64 forth;	/* least F */
	u32 tsval;	/* of the first ACK */
	bool begun;
	bool unusable;	/* the clock counts no milliseconds */
};

/* The part of an RTT that is a queue of the ACKs' way. All bytes begin as 0. */
static inline u32 knee_reverse_queue(struct knee_reverse *r, u64 now, u32 rtt,
				     u32 tsval)
{
	s64 back, forth, drift, queue;

	if (!r->begun) {
		r->begun = true;
		r->first = now;
		r->tsval = tsval;
		r->forth = rtt;
		return 0;
	}
	back = (s64)knee_sub(now, r->first) -
	       (s64)(s32)(tsval - r->tsval) * 1000;
	forth = (s64)rtt - back;
	if (forth < r->forth) {
		drift = knee_div32(knee_sub(now, r->first), KNEE_REVERSE_DRIFT);
		drift -= r->raised;
		if (drift < 0)
			drift = 0;
		if (drift > r->forth - forth)
			drift = r->forth - forth;
		r->back += drift;
		r->raised += drift;
		r->forth = forth;
	}
	if (back < r->back)
		r->back = back;
	queue = back - r->back - KNEE_REVERSE_GRAIN;
	if (queue > (s64)rtt)
		r->unusable = true;
	if (queue < 0 || r->unusable ||
	    knee_sub(now, r->first) < KNEE_REVERSE_TRIAL)
		return 0;
	return queue;
}

#endif
