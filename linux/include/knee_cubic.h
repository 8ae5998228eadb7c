/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The cubic function of CUBIC (RFC 9438, 4.2) and its decrease: windows in
 * packets, time in 2^-10 s, factors in 1/1024.
 */
#ifndef KNEE_CUBIC_H
#define KNEE_CUBIC_H

#include "knee_math.h"

/* Fractional bits of a second. */
#define KNEE_CUBIC_TIME_BITS	10

/* Microseconds in 2^-10 s, rounded down; exact below 2^54 us. */
static inline u64 knee_cubic_time(u64 us)
{
	return knee_div(us << KNEE_CUBIC_TIME_BITS, 1000000);
}

/*
 * C |t - K|^3 in packets, rounded down; offset = |t - K|, scale = C in 1/1024.
 *
 * An offset counts for at most 2^20 (1024 s). Then offset^3 <= 2^60, and with
 * scale < 2^17 the product is below 2^77; shifted by 40 bits it fits.
 */
static inline u64 knee_cubic_rise(u32 scale, u64 offset)
{
	offset = knee_min(offset, 1 << 20);
	return knee_mul_shift(offset * offset * offset, scale,
			      10 + 3 * KNEE_CUBIC_TIME_BITS);
}

/* Eq. 1 of RFC 9438 in packets, not below 0: C (t - K)^3 + w_max. */
static inline u64 knee_cubic_window(u32 scale, u64 t, u32 k, u32 w_max)
{
	if (t < k)
		return knee_sub(w_max, knee_cubic_rise(scale, k - t));
	return w_max + knee_cubic_rise(scale, t - k);
}

/*
 * K in 2^-10 s: how long the function takes to rise by `packets` to its
 * plateau. At most KNEE_GREATEST_ROOT.
 */
static inline u32 knee_cubic_k(u32 scale, u32 packets)
{
	u64 per_packet = knee_div(1ull << (10 + 3 * KNEE_CUBIC_TIME_BITS),
				  knee_max(scale, 1));
	/* per_packet <= 2^40: the product may need 72 bits. */
	u64 high, cube = knee_mul(per_packet, packets, &high);

	return high ? KNEE_GREATEST_ROOT : knee_cube_root(cube);
}

/*
 * Packets to be acknowledged per increase by one, so that the window reaches
 * `target` in a round trip; at least 2 (1.5 times the window per round trip,
 * as CUBIC); 0: do not increase.
 */
static inline u32 knee_cubic_count(u64 target, u32 cwnd)
{
	if (target <= cwnd)
		return 0;
	return knee_max(knee_div(cwnd, target - cwnd), 2);
}

/* What a loss leaves of the window (RFC 9438, 4.6); beta in 1/1024. */
static inline u32 knee_cubic_ssthresh(u32 cwnd, u32 beta)
{
	return knee_max((u64)cwnd * beta / 1024, 2);
}

/* The new w_max after a loss at `cwnd` (RFC 9438, 4.7). */
static inline u32 knee_cubic_w_max(u32 cwnd, u32 w_max, u32 beta, bool fast)
{
	if (cwnd < w_max && fast)
		return (u64)cwnd * (1024 + beta) / 2048;
	return cwnd;
}

#endif
