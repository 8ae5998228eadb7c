/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inline functions of linux/include as functions that Rust can call. */
#include "knee_cocoa.h"
#include "knee_daimd.h"
#include "knee_lola.h"
#include "knee_lola_wild.h"
#include "shim.h"

FUNCTION(u64, mul_div, (u64 a, u64 b, u64 c), (a, b, c))
FUNCTION(u64, mul_shift, (u64 a, u64 b, u32 shift), (a, b, shift))
FUNCTION(u32, cube_root, (u64 a), (a))
FUNCTION(u64, cubic_time, (u64 us), (us))
FUNCTION(u64, cubic_window, (u32 scale, u64 t, u32 k, u32 w_max), (scale, t, k, w_max))
FUNCTION(u32, cubic_k, (u32 scale, u32 packets), (scale, packets))
FUNCTION(u32, cubic_ssthresh, (u32 cwnd, u32 beta), (cwnd, beta))
FUNCTION(u32, cubic_w_max, (u32 cwnd, u32 w_max, u32 beta, bool fast), (cwnd, w_max, beta, fast))

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

FUNCTION(u64, lola_fair_target, (u32 t, u32 phi), (t, phi))
FUNCTION(u64, lola_q_data, (u64 cwnd, u32 rtt_now, u32 rtt_min), (cwnd, rtt_now, rtt_min))
FUNCTION(u32, lola_decreased, (u32 cwnd, u32 rtt_now, u32 rtt_min, u32 gamma), (cwnd, rtt_now, rtt_min, gamma))
FUNCTION(void, lola_init, (struct knee_lola *l, u64 now), (l, now))
FUNCTION(u8, lola_phase, (const struct knee_lola *l), (l))
SHIM(u32, lola_rtt_now, , (const struct knee_lola *l), (l->rtt_now))
FUNCTION(void, lola_sample, (struct knee_lola *l, const struct knee_lola_params *p, u64 now, u32 rtt), (l, p, now, rtt))
FUNCTION(void, lola_on_ack, (struct knee_lola *l, const struct knee_lola_params *p, struct knee_lola_ack *a), (l, p, a))
FUNCTION(u32, lola_on_loss, (struct knee_lola *l, const struct knee_lola_params *p, u64 now, u32 cwnd), (l, p, now, cwnd))
FUNCTION(void, lola_on_reduced, (struct knee_lola *l, const struct knee_lola_params *p, u64 now), (l, p, now))
FUNCTION(void, lola_on_timeout, (struct knee_lola *l, u64 now), (l, now))
FUNCTION(void, lola_on_restart, (struct knee_lola *l, u64 now, u64 idle), (l, now, idle))

FUNCTION(u32, noise_update,
     (struct knee_noise *n, u64 now, u32 rtt, u32 shortest, u32 first, u32 quiet), (n, now, rtt, shortest, first, quiet))
FUNCTION(void, noise_init, (struct knee_noise *n), (n))
FUNCTION(u32, noise_span, (const struct knee_noise *n, u32 shortest), (n, shortest))
FUNCTION(u32, noise_level, (const struct knee_noise *n), (n))
FUNCTION(void, wild_init, (struct knee_lola_wild *w, u64 now, u32 delivered), (w, now, delivered))
SHIM(u8, wild_phase, , (const struct knee_lola_wild *w), (w->phase))
FUNCTION(u32, reverse_queue, (struct knee_reverse *r, u64 now, u32 rtt, u32 tsval), (r, now, rtt, tsval))
FUNCTION(void, wild_sample,
     (struct knee_lola_wild *w, const struct knee_lola_wild_params *p, const struct knee_wild_sample *s), (w, p, s))
FUNCTION(void, wild_on_ack,
     (struct knee_lola_wild *w, const struct knee_lola_wild_params *p, struct knee_wild_ack *a), (w, p, a))
FUNCTION(u32, wild_on_loss,
     (struct knee_lola_wild *w, const struct knee_lola_wild_params *p, u64 now, u32 cwnd), (w, p, now, cwnd))
FUNCTION(void, wild_on_reduced,
     (struct knee_lola_wild *w, const struct knee_lola_wild_params *p, struct knee_wild_ack *a), (w, p, a))
FUNCTION(void, wild_on_timeout, (struct knee_lola_wild *w, u64 now), (w, now))
FUNCTION(void, wild_on_restart, (struct knee_lola_wild *w, u64 now, u64 idle, u32 delivered), (w, now, idle, delivered))

FUNCTION(u64, daimd_scaled, (u64 time, u32 ratio), (time, ratio))
FUNCTION(u64, daimd_alpha, (u32 increase, u64 since, u32 cwnd), (increase, since, cwnd))
FUNCTION(u32, daimd_beta, (u32 delta, u64 rtt_min, u64 rtt, u32 max), (delta, rtt_min, rtt, max))
FUNCTION(u64, daimd_threshold, (u64 base, u32 gamma, u64 occupancy), (base, gamma, occupancy))
FUNCTION(u64, daimd_decay, (u64 rtt, u32 cwnd, u32 a), (rtt, cwnd, a))
FUNCTION(u64, daimd_gain, (u64 rate, u32 cwnd), (rate, cwnd))
FUNCTION(u32, daimd_max_ssthresh, (u32 cwnd, u64 tau0, u64 occupancy), (cwnd, tau0, occupancy))
FUNCTION(void, daimd_init, (struct knee_daimd *d, const struct knee_daimd_params *p, u64 now), (d, p, now))
FUNCTION(void, daimd_sample,
     (struct knee_daimd *d, const struct knee_daimd_params *p, u64 now, u32 rtt_us, u32 acked, u32 una, u32 cwnd,
      u32 ssthresh),
     (d, p, now, rtt_us, acked, una, cwnd, ssthresh))
FUNCTION(void, daimd_on_ack, (struct knee_daimd *d, const struct knee_daimd_params *p, struct knee_daimd_ack *a), (d, p, a))
SHIM(u64, daimd_srtt, , (const struct knee_daimd *d), (d->srtt))
SHIM(u64, daimd_rtt_min, , (const struct knee_daimd *d), (d->rtt_min))
SHIM(u64, daimd_rtt_max, , (const struct knee_daimd *d), (d->rtt_max))
FUNCTION(u32, daimd_on_loss,
     (struct knee_daimd *d, const struct knee_daimd_params *p, u64 now, u32 snd_nxt, u32 cwnd),
     (d, p, now, snd_nxt, cwnd))
FUNCTION(void, daimd_on_restart, (struct knee_daimd *d, u64 now, u64 idle), (d, now, idle))

FUNCTION(u64, cocoa_times, (u32 factor, u64 time), (factor, time))
FUNCTION(u32, cocoa_packets, (u32 factor, u32 packets), (factor, packets))
FUNCTION(u32, cocoa_missed, (u64 sent, u64 active, u64 idle), (sent, active, idle))
FUNCTION(u32, cocoa_initial, (const struct knee_cocoa_params *p, const struct knee_cocoa_learned *learned), (p, learned))
FUNCTION(void, cocoa_init, (struct knee_cocoa *c, u32 buffer, u64 now), (c, buffer, now))
FUNCTION(u32, cocoa_on_full,
     (struct knee_cocoa *c, const struct knee_cocoa_params *p, struct knee_cocoa_learned *learned, u64 now),
     (c, p, learned, now))
FUNCTION(void, cocoa_on_arrival, (struct knee_cocoa *c, u64 now), (c, now))
FUNCTION(void, cocoa_on_departure, (struct knee_cocoa *c, u32 held, u64 now, u64 sojourn), (c, held, now, sojourn))
