/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * BBRv3's arithmetic and states, without the socket: BBR with bounds learned from loss, so that it leaves room for
 * others and loses no more than 2 % probing.
 *
 * draft-ietf-ccwg-bbr-06, "BBR Congestion Control" (IETF CCWG, 2026); numbers in comments are its sections. A file per
 * part, as in the simulator's (crates/knee-cc/src/bbr3):
 *
 *	max_bw = max(delivery rate) over this and the previous probing cycle		model.h
 *	bw = min(max_bw, bw_shortterm), pacing rate = gain * bw * 0.99			control.h
 *	max_inflight = gain * bw * min_rtt + extra_acked, at least 3 bursts and 4 packets
 *	cwnd goes there, at most inflight_shortterm and inflight_longterm, cruising 85 % of it
 *	probing with loss above 2 %: inflight_longterm = max(in flight then,		loss.h
 *	                                                     0.7 * min(bdp, cwnd))
 *	a round with loss, not probing: short-term bounds = max(latest round's, 0.7 * bound)
 *
 *	startup -> drain -> probe_bw: down -> cruise -> refill -> up -> down ...  probe_bw.h
 *	probe_rtt from every state where the least RTT is 5 s old			probe_rtt.h
 */
#ifndef KNEE_BBR3_H
#define KNEE_BBR3_H

#include "startup.h"
#include "probe_rtt.h"

/* Initialises a new connection; rtt: the handshake's, 0 if unknown. */
static void init(struct bbr3 *b, const struct view *v, u32 rtt, u32 mss)
{
	__builtin_memset(b, 0, __builtin_offsetof(struct bbr3, departures));
	b->state = STARTUP;
	b->round_end = v->delivered;
	b->loss_round_end = v->delivered;
	b->lost_seen = v->lost;
	b->interval_start = v->now;
	b->inflight_longterm = INFINITE;
	reset_short_term(b);
	b->acked_per_step = INFINITE;
	b->min_rtt = rtt ? rtt : INFINITE;
	b->recent_rtt = b->min_rtt;
	b->min_rtt_stamp = v->now;
	b->recent_rtt_stamp = v->now;
	b->origin = NO_ORIGIN;
	b->initial_cwnd = v->cwnd;
	b->mss = mss;
	/* The window per RTT (1 ms if unknown), times startup's gain. */
	b->rate = rate_of(knee_min(((u64)v->cwnd << BW_SHIFT) / (rtt ? rtt : 1000), INFINITE),
			  READ_ONCE(bbr3_params()->startup_pacing_gain), mss, 0);
	b->rate = knee_max(b->rate, 1);
}

/* The steps of 5.2.3, losses first. */
KNEE_APART take_signals(struct bbr3 *b KNEE_NONNULL, struct view *v KNEE_NONNULL, const struct sample *s KNEE_NONNULL)
{
	handle_losses(b, v, s);
	update_latest_delivery(b, v, s);
	update_congestion_signals(b, v, s);
	return 0;
}

KNEE_APART leave_startup(struct bbr3 *b KNEE_NONNULL, struct view *v KNEE_NONNULL, const struct sample *s KNEE_NONNULL)
{
	update_extra_acked(b, v, s);
	update_full_pipe(b, s);
	check_startup_done(b, v, s);
	check_drain_done(b, v);
	return 0;
}

KNEE_APART probe_bw(struct bbr3 *b KNEE_NONNULL, struct view *v KNEE_NONNULL, const struct sample *s KNEE_NONNULL)
{
	update_probe_bw(b, v, s);
	return 0;
}

KNEE_APART probe_rtt(struct bbr3 *b KNEE_NONNULL, struct view *v KNEE_NONNULL, const struct sample *s KNEE_NONNULL)
{
	update_min_rtt(b, v, s);
	check_probe_rtt(b, v, s);
	advance_latest_delivery(b, s);
	return 0;
}

KNEE_APART control(struct bbr3 *b KNEE_NONNULL, struct view *v KNEE_NONNULL, const struct sample *s KNEE_NONNULL)
{
	set_rate(b, pacing_gain_of(b));
	set_cwnd(b, v, s);
	return 0;
}

static void on_sample(struct bbr3 *b, struct view *v, const struct sample *s)
{
	take_signals(b, v, s);
	leave_startup(b, v, s);
	probe_bw(b, v, s);
	probe_rtt(b, v, s);
	control(b, v, s);
}

#endif
