// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Vegas: keeps a few packets of its own in the queue, by comparing the expected with the actual rate.
 *
 * Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995, with
 * what Linux's tcp_vegas made of it. Once per round trip, with base and rtt the least RTT ever and of that round trip:
 *
 *	diff = cwnd * (rtt - base) / base	packets of its own in the queue
 *
 * Slow start ends where diff > gamma; after it the window shrinks by one where diff > beta and grows by one where
 * diff < alpha. A round trip with fewer than three samples, and the one after a loss, go as Reno does.
 */
#include "knee_bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 alpha = 2;
const volatile __u32 beta = 4;
const volatile __u32 gamma = 1;

/* An RTT that no sample has. */
#define NONE 0x7fffffff
/* More samples than one delayed ACK may give; below it rtt may be that of a delayed ACK. */
#define ENOUGH 3
/* Rounds happen below windows of 2^20 packets and RTTs of 2^31 us, so products stay below 2^51. */
#define MAX_CWND (1u << 20)

struct vegas {
	__u32 round_end;	/* snd_nxt when the round began; it ends when that is acknowledged */
	__u32 rtt;		/* least RTT of the round, us */
	__u32 base;		/* least RTT ever, us */
	__u16 samples;
	bool enabled;		/* false while losses are repaired */
	__u32 rounds;
};

_Static_assert(sizeof(struct vegas) <= CA_STATE_SIZE, "fits the kernel's room");

static void begin_round(const struct tcp_sock *tp, struct vegas *v)
{
	v->round_end = tp->snd_nxt;
	v->samples = 0;
	v->rtt = NONE;
	v->rounds++;
}

static void enable(const struct sock *sk)
{
	struct vegas *v = ca_state(sk);

	v->enabled = true;
	begin_round(tcp_sk(sk), v);
}

static void show(const struct sock *sk, const struct vegas *v)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = tp->snd_cwnd < tp->snd_ssthresh ? 0 : 1;
	entry->cwnd = tp->snd_cwnd;
	entry->rounds = v->rounds;
	entry->updated = tp->tcp_mstamp;
	if (v->rtt == NONE)
		return;
	entry->rtt_now = v->rtt;
	entry->rtt_min = v->base;
	entry->q_delay = v->rtt - v->base;
	entry->q_data = (__u64)tp->snd_cwnd * tp->mss_cache * (v->rtt - v->base) / v->rtt;
}

SEC("struct_ops")
void BPF_PROG(vegas_init, struct sock *sk)
{
	struct vegas *v = ca_state(sk);

	v->base = NONE;
	v->rounds = 0;
	enable(sk);
	show(sk, v);
}

SEC("struct_ops")
void BPF_PROG(vegas_release, struct sock *sk)
{
	no_longer_shown(sk);
}

SEC("struct_ops")
void BPF_PROG(vegas_set_state, struct sock *sk, __u8 state)
{
	struct vegas *v = ca_state(sk);

	if (state == CA_OPEN)
		enable(sk);
	else
		v->enabled = false;
}

SEC("struct_ops")
void BPF_PROG(vegas_cwnd_event, struct sock *sk, __u32 event)
{
	/* After a pause the window may no longer fit the path: what was measured before says nothing. */
	if (event == EVENT_TX_START || event == EVENT_CWND_RESTART) {
		struct vegas *v = ca_state(sk);

		v->base = NONE;
		enable(sk);
	}
}

SEC("struct_ops")
void BPF_PROG(vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *v = ca_state(sk);
	__u32 rtt;

	if (sample->rtt_us < 0)
		return;
	/* Never 0, which divides. */
	rtt = sample->rtt_us + 1;
	if (rtt < v->base)
		v->base = rtt;
	if (rtt < v->rtt)
		v->rtt = rtt;
	v->samples++;
}

static void once_per_round(struct tcp_sock *tp, const struct vegas *v, __u32 acked)
{
	__u32 cwnd = tp->snd_cwnd < MAX_CWND ? tp->snd_cwnd : MAX_CWND;
	__u64 diff = (__u64)cwnd * (v->rtt - v->base) / v->base;
	__u32 least;

	if (cwnd < tp->snd_ssthresh) {
		if (diff > gamma) {
			/* The window at the actual rate with an empty queue, rounded up. */
			__u32 target = (__u64)cwnd * v->base / v->rtt + 1;

			if (target < cwnd)
				cwnd = target;
			if (cwnd < tp->snd_ssthresh)
				tp->snd_ssthresh = cwnd;
			tp->snd_cwnd = cwnd;
		} else {
			tcp_slow_start(tp, acked);
		}
	} else if (diff > beta) {
		cwnd--;
		if (cwnd < tp->snd_ssthresh)
			tp->snd_ssthresh = cwnd;
		tp->snd_cwnd = cwnd;
	} else if (diff < alpha) {
		tp->snd_cwnd = cwnd + 1;
	}
	if (tp->snd_cwnd < 2)
		tp->snd_cwnd = 2;
	least = (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2);
	if (tp->snd_ssthresh < least)
		tp->snd_ssthresh = least;
}

SEC("struct_ops")
void BPF_PROG(vegas_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *v = ca_state(sk);

	if (!v->enabled) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (!after(ack, v->round_end)) {
		if (tp->snd_cwnd < tp->snd_ssthresh)
			tcp_slow_start(tp, acked);
		return;
	}
	if (v->samples < ENOUGH) {
		tcp_reno_cong_avoid(sk, ack, acked);
	} else {
		once_per_round(tp, v, acked);
	}
	show(sk, v);
	begin_round(tp, v);
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops vegas = {
	.init = (void *)vegas_init,
	.release = (void *)vegas_release,
	.ssthresh = (void *)vegas_ssthresh,
	.cong_avoid = (void *)vegas_cong_avoid,
	.pkts_acked = (void *)vegas_pkts_acked,
	.set_state = (void *)vegas_set_state,
	.cwnd_event = (void *)vegas_cwnd_event,
	.undo_cwnd = (void *)vegas_undo_cwnd,
	.name = "vegas",
};
