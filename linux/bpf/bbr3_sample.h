/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Delivery samples: the kernel's rate sample, and two values that the draft stores with every packet and a stock kernel
 * does not: how much was in flight and how much had been lost when it was sent.
 *
 * A packet sent between two ACKs is identified by what the first of them had delivered (prior_delivered). The losses
 * are those up to that ACK. In flight were the packets that the ACK left and those sent up to the packet's end; for a
 * retransmission the latter are unknown, so it gets what the second ACK found in flight. One entry per ACK is therefore
 * enough. Entries closer than 1/64 of a window are merged unless losses lie between them.
 */
#ifndef KNEE_BBR3_SAMPLE_H
#define KNEE_BBR3_SAMPLE_H

#include "bbr3/bbr3.h"

static void look(const struct tcp_sock *tp, struct view *v)
{
	v->now = tp->tcp_mstamp;
	v->cwnd = tp->snd_cwnd;
	v->in_flight = tp->packets_out + tp->retrans_out - tp->sacked_out - tp->lost_out;
	v->delivered = tp->delivered;
	v->lost = tp->lost;
	v->snd_nxt = tp->snd_nxt;
	v->ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	v->app_limited = tp->app_limited;
	v->cwnd_limited = is_cwnd_limited(tp);
}

/* Completes the entry of the packets sent since the last ACK; packets sent from now on go into the next entry. */
static inline void note_departures(struct bbr3 *b, const struct view *v)
{
	struct departure *next, *newest = &b->departures[b->newest % DEPARTURES];

	if (v->lost == newest->lost && v->delivered - newest->delivered < v->cwnd / DEPARTURES_PER_WINDOW + 1)
		return;
	b->newest++;
	next = &b->departures[b->newest % DEPARTURES];
	next->delivered = v->delivered;
	next->lost = v->lost;
	next->snd_nxt = v->snd_nxt;
	next->in_flight = v->in_flight;
	/* The oldest entry was overwritten. */
	if (b->newest - b->found >= DEPARTURES)
		b->found = b->newest - DEPARTURES + 1;
}

/* The entry of the packets sent after `delivered`. Searches go forward, since later calls ask for newer ones. */
static const struct departure *departure(struct bbr3 *b, __u32 delivered)
{
	int i;

	for (i = 0; i < DEPARTURES; i++) {
		if (b->found == b->newest || after(b->departures[(b->found + 1) % DEPARTURES].delivered, delivered))
			break;
		b->found++;
	}
	return &b->departures[b->found % DEPARTURES];
}

/* Packets in flight when the packet that ends at `end` was sent. */
static inline __u32 in_flight_with(const struct bbr3 *b, const struct departure *left, __u32 end)
{
	__u32 sent;

	if (!after(end, left->snd_nxt) || !b->mss)
		return left->in_flight_after;
	sent = (end - left->snd_nxt + b->mss - 1) / b->mss;
	return knee_min(add(left->in_flight, sent), left->in_flight_after);
}

static void take_sample(struct bbr3 *b, const struct view *v, const struct rate_sample *rs, struct sample *s)
{
	const struct departure *left;

	__builtin_memset(s, 0, sizeof(*s));
	s->acked = rs->acked_sacked;
	s->rtt = rs->rtt_us < 0 ? INFINITE : knee_max(knee_min(rs->rtt_us, INFINITE - 1), 1);
	s->valid = rs->delivered > 0 && rs->interval_us > 0 && s->acked;
	s->prior_delivered = rs->prior_delivered;
	/* Counts wrap: an old mark must not match again. */
	if (b->marked && after(s->prior_delivered, b->mark_until))
		b->marked = false;
	s->app_limited = rs->is_app_limited || is_marked(b, s->prior_delivered);
	if (s->valid) {
		s->delivered = rs->delivered;
		s->bw = knee_min(((__u64)s->delivered << BW_SHIFT) / (__u64)rs->interval_us, INFINITE);
	}
	b->departures[b->newest % DEPARTURES].in_flight_after = rs->prior_in_flight;
	/* Nothing was delivered, so there is nothing to look up. */
	if (rs->prior_mstamp) {
		left = departure(b, s->prior_delivered);
		s->tx_in_flight = in_flight_with(b, left, rs->last_end_seq);
		s->lost = v->lost - left->lost;
	}
	note_departures(b, v);
}

#endif
