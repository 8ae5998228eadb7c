/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The least value of a sliding span of time (LoLa, Eq. 4) in 48 bytes: exact
 * for all values within the span, and a value may count for up to an eighth of
 * the span (in whole microseconds) longer, whatever the number of values.
 */
#ifndef KNEE_FILTER_H
#define KNEE_FILTER_H

#include "knee_math.h"

#define KNEE_FILTER_SLOTS	8
#define KNEE_FILTER_EMPTY	KNEE_U32_MAX

struct knee_filter {
	u64 end;	/* when the current slot ends, us */
	/* A ring of the slots' minima. The current slot and the last 8. */
	u32 minima[KNEE_FILTER_SLOTS + 1];
	u8 slot;		/* the current one */
	u8 owner;		/* as the owner likes */
	u16 unused;
};

static inline void knee_filter_init(struct knee_filter *f, u64 now)
{
	int i;

	f->end = now;
	f->slot = 0;
	for (i = 0; i <= KNEE_FILTER_SLOTS; i++)
		f->minima[i] = KNEE_FILTER_EMPTY;
}

/* Whether the current slot has ended, so that knee_filter_advance is due. */
static inline bool knee_filter_is_over(const struct knee_filter *f, u64 now)
{
	return now >= f->end;
}

/* Goes on to the slot of `now` and returns the minimum; span in us. */
static inline u32 knee_filter_advance(struct knee_filter *f, u64 now, u32 span)
{
	u64 length = knee_max(((u64)span + KNEE_FILTER_SLOTS - 1) /
				      KNEE_FILTER_SLOTS, 1);
	u64 passed = 1 + knee_div(now - f->end, length);
	u32 least = KNEE_FILTER_EMPTY;
	/* A local: the verifier of Linux 6.12 forgets bounds of memory. */
	u64 slot = f->slot;
	u8 i;

	for (i = 0; i <= KNEE_FILTER_SLOTS; i++) {
		if (i < passed) {
			slot++;
			knee_one_register(slot);
			if (slot > KNEE_FILTER_SLOTS)
				slot = 0;
			f->minima[slot] = KNEE_FILTER_EMPTY;
		}
	}
	f->slot = slot;
	for (i = 0; i <= KNEE_FILTER_SLOTS; i++)
		least = knee_min(least, f->minima[i]);
	f->end += passed * length;
	return least;
}

/* Takes a value of the current slot; `least` is the minimum so far. */
static inline u32 knee_filter_add(struct knee_filter *f, u32 least, u32 value)
{
	u64 slot = f->slot;

	/* The comparison tells the BPF verifier what it cannot see. */
	knee_one_register(slot);
	if (slot <= KNEE_FILTER_SLOTS && value < f->minima[slot])
		f->minima[slot] = value;
	return knee_min(least, value);
}

#endif
