/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Samples of the delivery: the kernel's rate sample, and what the draft keeps with every packet but a stock kernel does
 * not: what was in flight and what had been lost when it left.
 *
 * A packet that left between two ACKs is known by what the first of them had delivered (prior_delivered). Losses until
 * then are those up to that ACK. In flight was what that ACK left, and what was sent up to the packet's end; of a
 * retransmission that is not known, so it counts with what the second ACK found in flight. So one entry per ACK says it
 * all; entries closer than 1/64 of a window are merged, unless losses lie between.
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

/* The entry of what left between the last ACK and this one is complete; what leaves from now on goes into the next. */
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
	/* The oldest had to make room. */
	if (b->newest - b->found >= DEPARTURES)
		b->found = b->newest - DEPARTURES + 1;
}

/* The entry of the packets that left after `delivered`. Newer ones are looked up later, so the search goes on. */
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

/* What was in flight when the packet that ends at `end` left. */
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
	/* Counts wrap: a mark must not come back. */
	if (b->marked && after(s->prior_delivered, b->mark_until))
		b->marked = false;
	s->app_limited = rs->is_app_limited || is_marked(b, s->prior_delivered);
	if (s->valid) {
		s->delivered = rs->delivered;
		s->bw = knee_min(((__u64)s->delivered << BW_SHIFT) / (__u64)rs->interval_us, INFINITE);
	}
	b->departures[b->newest % DEPARTURES].in_flight_after = rs->prior_in_flight;
	/* Without a packet delivered there is nothing to look up. */
	if (rs->prior_mstamp) {
		left = departure(b, s->prior_delivered);
		s->tx_in_flight = in_flight_with(b, left, rs->last_end_seq);
		s->lost = v->lost - left->lost;
	}
	note_departures(b, v);
}

#endif
