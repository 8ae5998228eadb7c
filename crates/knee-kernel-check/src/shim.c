/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inline functions of the kernel modules' headers as functions that Rust can call. */
#include "knee_cocoa.h"
#include "knee_daimd.h"
#include "knee_lola.h"

#define SHIM(type, name, parameters, arguments)		\
	type check_##name parameters;			\
	type check_##name parameters			\
	{						\
		return knee_##name arguments;		\
	}

SHIM(u64, mul_div, (u64 a, u64 b, u64 c), (a, b, c))
SHIM(u64, mul_shift, (u64 a, u64 b, u32 shift), (a, b, shift))
SHIM(u32, cube_root, (u64 a), (a))
SHIM(u64, cubic_time, (u64 us), (us))
SHIM(u64, cubic_window, (u32 scale, u64 t, u32 k, u32 w_max), (scale, t, k, w_max))
SHIM(u32, cubic_k, (u32 scale, u32 packets), (scale, packets))
SHIM(u32, cubic_ssthresh, (u32 cwnd, u32 beta), (cwnd, beta))
SHIM(u32, cubic_w_max, (u32 cwnd, u32 w_max, u32 beta, bool fast), (cwnd, w_max, beta, fast))

void check_filter_init(struct knee_filter *f, u64 now);
void check_filter_init(struct knee_filter *f, u64 now)
{
	knee_filter_init(f, now);
}

u32 check_filter_update(struct knee_filter *f, u64 now, u32 least, u32 value, u32 span);
u32 check_filter_update(struct knee_filter *f, u64 now, u32 least, u32 value, u32 span)
{
	if (knee_filter_is_over(f, now))
		least = knee_filter_advance(f, now, span);
	return knee_filter_add(f, least, value);
}

SHIM(u64, lola_fair_target, (u32 t, u32 phi), (t, phi))
SHIM(u64, lola_q_data, (u64 cwnd, u32 rtt_now, u32 rtt_min), (cwnd, rtt_now, rtt_min))
SHIM(u32, lola_decreased, (u32 cwnd, u32 rtt_now, u32 rtt_min, u32 gamma), (cwnd, rtt_now, rtt_min, gamma))
SHIM(void, lola_init, (struct knee_lola *l, u64 now), (l, now))
SHIM(u8, lola_phase, (const struct knee_lola *l), (l))
SHIM(void, lola_sample, (struct knee_lola *l, const struct knee_lola_params *p, u64 now, u32 rtt), (l, p, now, rtt))
SHIM(void, lola_on_ack, (struct knee_lola *l, const struct knee_lola_params *p, struct knee_lola_ack *a), (l, p, a))
SHIM(u32, lola_on_loss, (struct knee_lola *l, const struct knee_lola_params *p, u64 now, u32 cwnd), (l, p, now, cwnd))
SHIM(void, lola_on_reduced, (struct knee_lola *l, const struct knee_lola_params *p, u64 now), (l, p, now))
SHIM(void, lola_on_timeout, (struct knee_lola *l, u64 now), (l, now))
SHIM(void, lola_on_restart, (struct knee_lola *l, u64 now, u64 idle), (l, now, idle))

SHIM(u64, daimd_scaled, (u64 time, u32 ratio), (time, ratio))
SHIM(u64, daimd_alpha, (u32 increase, u64 since, u32 cwnd), (increase, since, cwnd))
SHIM(u32, daimd_beta, (u32 delta, u64 rtt_min, u64 rtt, u32 max), (delta, rtt_min, rtt, max))
SHIM(u64, daimd_threshold, (u64 base, u32 gamma, u64 occupancy), (base, gamma, occupancy))
SHIM(u64, daimd_decay, (u64 rtt, u32 cwnd, u32 a), (rtt, cwnd, a))
SHIM(u64, daimd_gain, (u64 rate, u32 cwnd), (rate, cwnd))
SHIM(u32, daimd_max_ssthresh, (u32 cwnd, u64 tau0, u64 occupancy), (cwnd, tau0, occupancy))
SHIM(void, daimd_init, (struct knee_daimd *d, const struct knee_daimd_params *p, u64 now), (d, p, now))
SHIM(void, daimd_sample,
     (struct knee_daimd *d, const struct knee_daimd_params *p, u64 now, u32 rtt_us, u32 una, u32 cwnd, u32 ssthresh),
     (d, p, now, rtt_us, una, cwnd, ssthresh))
SHIM(void, daimd_on_ack, (struct knee_daimd *d, const struct knee_daimd_params *p, struct knee_daimd_ack *a), (d, p, a))
SHIM(u32, daimd_on_loss,
     (struct knee_daimd *d, const struct knee_daimd_params *p, u64 now, u32 snd_nxt, u32 cwnd),
     (d, p, now, snd_nxt, cwnd))
SHIM(void, daimd_on_restart, (struct knee_daimd *d, u64 now), (d, now))

SHIM(u64, cocoa_times, (u32 factor, u64 time), (factor, time))
SHIM(u32, cocoa_packets, (u32 factor, u32 packets), (factor, packets))
SHIM(u32, cocoa_missed, (u64 sent, u64 active, u64 idle), (sent, active, idle))
SHIM(u32, cocoa_initial, (const struct knee_cocoa_params *p, const struct knee_cocoa_learned *learned), (p, learned))
SHIM(void, cocoa_init, (struct knee_cocoa *c, u32 buffer, u64 now), (c, buffer, now))
SHIM(u32, cocoa_on_full,
     (struct knee_cocoa *c, const struct knee_cocoa_params *p, struct knee_cocoa_learned *learned, u64 now),
     (c, p, learned, now))
SHIM(void, cocoa_on_arrival, (struct knee_cocoa *c, u64 now), (c, now))
SHIM(void, cocoa_on_departure, (struct knee_cocoa *c, u32 held, u64 now, u64 sojourn), (c, held, now, sojourn))

/* Rust mirrors these, and a test compares the sizes. */
u64 check_size(u32 which);
u64 check_size(u32 which)
{
	const u64 sizes[] = {
		sizeof(struct knee_filter), sizeof(struct knee_lola), sizeof(struct knee_lola_params),
		sizeof(struct knee_lola_ack), sizeof(struct knee_daimd), sizeof(struct knee_daimd_params),
		sizeof(struct knee_daimd_ack), sizeof(struct knee_cocoa), sizeof(struct knee_cocoa_params),
		sizeof(struct knee_cocoa_learned),
	};

	return which < sizeof(sizes) / sizeof(sizes[0]) ? sizes[which] : 0;
}
