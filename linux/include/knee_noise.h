/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The least RTT of a sliding span that is as long as the path's own variation
 * asks for: crates/knee-cc/src/lola_wild/noise.rs, which says why.
 *
 * Each of five spans, twice as long as the one before, is cut into blocks one
 * after the other. With m(i) the least RTT of block i, the noise of a span is
 * the median of its last |m(i) - 2 m(i-1) + m(i-2)|. In use is the shortest
 * span that is quiet: its noise is at most `first`, for the shortest of all, or
 * `quiet`. All in us; RTTs below 2^31, so that a second difference has at most
 * 32 bits. For the least RTT, a gap between RTTs counts for at most the
 * shortest span: all that waited in it have long RTTs.
 */
#ifndef KNEE_NOISE_H
#define KNEE_NOISE_H

#include "knee_math.h"

#define KNEE_NOISE_SPANS	5
/* Second differences that a span keeps, and with how many it is known. */
#define KNEE_NOISE_KEPT		16
#define KNEE_NOISE_ENOUGH	4
/* Slots of the minimum filter: the current one and the last 16. */
#define KNEE_NOISE_SLOTS	16
/* No RTT. */
#define KNEE_NOISE_NONE		KNEE_U32_MAX

/* The minima of a span's successive blocks. */
struct knee_blocks {
	u64 end;	/* when the current block ends */
	u32 min;	/* its minimum */
	u32 last;	/* of the block before; KNEE_NOISE_NONE after a gap */
	u32 before;	/* of the one before that */
	u32 count;	/* second differences so far */
	u32 noise;	/* their median; 0 while too few are known */
	u32 unused;
	u32 differences[KNEE_NOISE_KEPT];	/* a ring */
};

/* The least value of a sliding span. All 0: none yet. */
struct knee_window {
	u64 end;	/* when the current slot ends */
	u32 slot;	/* the current one */
	u32 least;	/* of all slots */
	u32 minima[KNEE_NOISE_SLOTS + 1];	/* a ring */
	u32 unused;
};

struct knee_noise {
	struct knee_window window;
	u64 clock;	/* the window's time */
	u64 seen;	/* when the last RTT came */
	u32 chosen;	/* the span in use */
	u32 unused;
	struct knee_blocks blocks[KNEE_NOISE_SPANS];
};

static inline void knee_window_reset(struct knee_window *w)
{
	int i;

	w->end = 0;
	w->slot = 0;
	w->least = KNEE_NOISE_NONE;
	for (i = 0; i <= KNEE_NOISE_SLOTS; i++)
		w->minima[i] = KNEE_NOISE_NONE;
}

static inline void knee_noise_init(struct knee_noise *n)
{
	int i, j;

	knee_window_reset(&n->window);
	n->clock = 0;
	n->seen = 0;
	n->chosen = 0;
	for (i = 0; i < KNEE_NOISE_SPANS; i++) {
		struct knee_blocks *b = &n->blocks[i];

		b->end = 0;
		b->min = KNEE_NOISE_NONE;
		b->last = KNEE_NOISE_NONE;
		b->before = KNEE_NOISE_NONE;
		b->count = 0;
		b->noise = 0;
		for (j = 0; j < KNEE_NOISE_KEPT; j++)
			b->differences[j] = KNEE_U32_MAX;
	}
}

/*
 * 1 where a < b, else 0, for numbers below 2^63: by the sign of the difference,
 * which clang must not see through. A branch per comparison would double the
 * paths that the BPF verifier follows.
 */
static inline u64 knee_noise_below(u64 a, u64 b)
{
	u64 difference = a - b;

	knee_one_register(difference);
	return difference >> 63;
}

/*
 * Sets the noise: the value of rank count / 2 among the differences, where
 * places that have none hold the greatest value. Each value's rank is counted,
 * equal ones by their place.
 */
KNEE_APART knee_blocks_settle(struct knee_blocks *b KNEE_NONNULL)
{
	u64 middle = knee_min(b->count, KNEE_NOISE_KEPT) / 2, median = 0;
	u64 i, j;

	knee_one_register(middle);
	for (i = 0; i < KNEE_NOISE_KEPT; i++) {
		u64 own = b->differences[i], rank = 0;

		/* Those below it, and equal ones before it. */
		for (j = 0; j < KNEE_NOISE_KEPT; j++)
			rank += knee_noise_below(b->differences[j],
						 own + knee_noise_below(j, i));
		/* All bits for the value in the middle, none for others. */
		rank = knee_noise_below(rank, middle) |
		       knee_noise_below(middle, rank);
		median |= own & (rank - 1);
	}
	b->noise = median;
	return 0;
}

/* Takes an RTT; whether a block ended. */
KNEE_APART knee_blocks_update(struct knee_blocks *b KNEE_NONNULL, u64 now,
			      u32 rtt, u32 length)
{
	u64 outer, twice;

	if (now < b->end) {
		b->min = knee_min(b->min, rtt);
		return 0;
	}
	if (b->before != KNEE_NOISE_NONE) {
		u64 place = b->count % KNEE_NOISE_KEPT;

		outer = (u64)b->min + b->before;
		twice = 2ull * b->last;
		b->differences[place] = outer > twice ? outer - twice :
							twice - outer;
		b->count++;
		/* The ring's places only count, and it stays full. */
		if (b->count == 2 * KNEE_NOISE_KEPT)
			b->count = KNEE_NOISE_KEPT;
		if (b->count >= KNEE_NOISE_ENOUGH)
			knee_blocks_settle(b);
	}
	/* Minima before and after a gap say nothing about the path. */
	if (now - b->end >= length) {
		b->last = KNEE_NOISE_NONE;
		b->before = KNEE_NOISE_NONE;
	} else {
		b->before = b->last;
		b->last = b->min;
	}
	b->min = rtt;
	b->end = now + length;
	return 1;
}

/* Goes on to the slot of `now`; span in us. */
KNEE_APART knee_window_advance(struct knee_window *w KNEE_NONNULL, u64 now,
			       u32 span)
{
	u64 length = knee_max(((u64)span + KNEE_NOISE_SLOTS - 1) /
				      KNEE_NOISE_SLOTS, 1);
	u64 passed = 1 + knee_div(now - w->end, length);
	u32 least = KNEE_NOISE_NONE;
	/* A local: the verifier of Linux 6.12 forgets bounds of memory. */
	u64 slot = w->slot;
	u32 i;

	for (i = 0; i <= KNEE_NOISE_SLOTS; i++) {
		if (i < passed) {
			slot++;
			knee_one_register(slot);
			if (slot > KNEE_NOISE_SLOTS)
				slot = 0;
			w->minima[slot] = KNEE_NOISE_NONE;
		}
	}
	w->slot = slot;
	for (i = 0; i <= KNEE_NOISE_SLOTS; i++)
		least = knee_min(least, w->minima[i]);
	w->least = least;
	w->end += passed * length;
	return 0;
}

static inline void knee_window_add(struct knee_window *w, u64 now, u32 value,
				   u32 span)
{
	u64 slot;

	if (now >= w->end)
		knee_window_advance(w, now, span);
	slot = w->slot;
	/* The comparison tells the BPF verifier what it cannot see. */
	knee_one_register(slot);
	if (slot <= KNEE_NOISE_SLOTS && value < w->minima[slot])
		w->minima[slot] = value;
	w->least = knee_min(w->least, value);
}

/* The span in use. */
static inline u32 knee_noise_span(const struct knee_noise *n, u32 shortest)
{
	return knee_min((u64)shortest << (n->chosen & 7), KNEE_U32_MAX);
}

static inline u32 knee_noise_longest(u32 shortest)
{
	return knee_min((u64)shortest << (KNEE_NOISE_SPANS - 1), KNEE_U32_MAX);
}

/* The noise of the span in use. */
static inline u32 knee_noise_level(const struct knee_noise *n)
{
	u64 chosen = n->chosen;

	knee_one_register(chosen);
	return chosen < KNEE_NOISE_SPANS ? n->blocks[chosen].noise : 0;
}

/* Changes to the shortest span that is quiet. */
KNEE_APART knee_noise_choose(struct knee_noise *n KNEE_NONNULL, u32 shortest,
			     u32 first, u32 quiet)
{
	u64 chosen = KNEE_NOISE_SPANS - 1;
	const struct knee_blocks *b;
	int i;

	for (i = KNEE_NOISE_SPANS - 2; i >= 0; i--)
		if (n->blocks[i].noise <= (i ? quiet : first))
			chosen = i;
	if (chosen == n->chosen)
		return 0;
	n->chosen = chosen;
	knee_window_reset(&n->window);
	knee_one_register(chosen);
	if (chosen >= KNEE_NOISE_SPANS)
		return 0;
	b = &n->blocks[chosen];
	knee_window_add(&n->window, n->clock, knee_min(b->last, b->min),
			knee_noise_span(n, shortest));
	return 0;
}

/*
 * Takes an RTT and returns the least of the span in use; `first`
 * KNEE_U32_MAX: always the shortest.
 */
static inline u32 knee_noise_update(struct knee_noise *n, u64 now, u32 rtt,
				    u32 shortest, u32 first, u32 quiet)
{
	int i, ended = 0;

	n->clock += knee_min(knee_sub(now, n->seen), shortest);
	n->seen = now;
	for (i = 0; i < KNEE_NOISE_SPANS; i++)
		ended |= knee_blocks_update(&n->blocks[i], now, rtt,
					    knee_min((u64)shortest << i,
						     KNEE_U32_MAX));
	if (ended)
		knee_noise_choose(n, shortest, first, quiet);
	knee_window_add(&n->window, n->clock, rtt,
			knee_noise_span(n, shortest));
	return n->window.least;
}

#endif
