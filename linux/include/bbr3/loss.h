/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Response to loss: lowers the long-term bound while probing, otherwise the short-term bounds (5.5.10). */
#ifndef KNEE_BBR3_LOSS_H
#define KNEE_BBR3_LOSS_H

#include "probe_bw.h"
#include "undo.h"

/* What was in flight when the `lost`th loss among `in_flight` packets crossed the threshold; both at least 1. */
static inline u32 inflight_at_loss(u32 in_flight, u32 lost)
{
	u64 kept = in_flight - 1, lost_before = lost - 1, thresh = READ_ONCE(bbr3_params()->loss_thresh);

	return kept + knee_sub(kept * thresh, lost_before * UNIT) / (UNIT - thresh);
}

/* A probe put too much in flight: stores how much and ends the probe (5.5.10.2). */
static void handle_inflight_too_high(struct bbr3 *b, const struct view *v, u32 in_flight, bool app_limited)
{
	b->prev_too_high = true;
	b->probe_samples = false;
	if (!app_limited)
		b->inflight_longterm = knee_max(in_flight, part(target_inflight(b, v), READ_ONCE(bbr3_params()->beta)));
	if (b->state == PROBE_BW_UP) {
		b->origin = PROBE_BW_UP;
		start_down(b, v);
	}
}

static void note_loss(struct bbr3 *b, const struct view *v)
{
	if (!b->loss_in_round) {
		b->loss_round_end = v->delivered;
		save_state(b, v);
	}
	b->loss_in_round = true;
}

/* The packets lost on this ACK, and those lost on a timer since the last one. */
static void handle_losses(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	u32 lost = v->lost - b->lost_seen, crossing;

	b->lost_seen = v->lost;
	if (!lost)
		return;
	note_loss(b, v);
	b->ranges_in_round = add(b->ranges_in_round, 1);
	if (!b->probe_samples || !s->tx_in_flight)
		return;
	/* Counts them one by one: the first that crosses the threshold decides, with what was in flight up to it. */
	crossing = knee_max(knee_sub(s->lost, lost), part(s->tx_in_flight, READ_ONCE(bbr3_params()->loss_thresh))) + 1;
	if (crossing <= s->lost)
		handle_inflight_too_high(b, v, inflight_at_loss(s->tx_in_flight, crossing), s->app_limited);
}

/* A CE echo: congestion in this round, and too much in flight if it is feedback on a probe. */
static void handle_echo(struct bbr3 *b, const struct view *v)
{
	note_loss(b, v);
	if (b->probe_samples)
		handle_inflight_too_high(b, v, v->in_flight, false);
}

/* The highest bandwidth and delivery of the latest round (5.5.10.3). */
static void update_latest_delivery(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	b->bw_latest = knee_max(b->bw_latest, s->bw);
	b->inflight_latest = knee_max(b->inflight_latest, s->delivered);
	b->loss_round_start = s->valid && !before(s->prior_delivered, b->loss_round_end);
	if (b->loss_round_start)
		b->loss_round_end = v->delivered;
}

/*
 * After a round with loss the short-term bounds are what it delivered, yet no less than beta of what they were. A first
 * loss starts from what is in force.
 */
static void update_congestion_signals(struct bbr3 *b, const struct view *v, const struct sample *s)
{
	update_max_bw(b, v, s);
	if (!b->loss_round_start)
		return;
	if (b->loss_in_round && !is_probing(b)) {
		u32 bw = b->bw_shortterm == INFINITE ? max_bw_of(b) : b->bw_shortterm;
		u32 in_flight = b->inflight_shortterm == INFINITE ? v->cwnd : b->inflight_shortterm;

		b->bw_shortterm = knee_max(b->bw_latest, part(bw, READ_ONCE(bbr3_params()->beta)));
		b->inflight_shortterm = knee_max(b->inflight_latest, part(in_flight, READ_ONCE(bbr3_params()->beta)));
	}
	b->loss_in_round = false;
}

/* A new round begins with this ACK's delivery. */
static inline void advance_latest_delivery(struct bbr3 *b, const struct sample *s)
{
	if (b->loss_round_start) {
		b->bw_latest = s->bw;
		b->inflight_latest = s->delivered;
	}
}

#endif
