// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Vegas: keeps a few packets of its own in the queue, by comparing the expected with the actual rate. The algorithm is
 * in knee_vegas.h; this file ties it to a socket.
 */
#include "knee_bpf.h"
#include "knee_vegas.h"

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile struct knee_vegas_params params = KNEE_VEGAS_DEFAULTS;
#define PARAMS	((const struct knee_vegas_params *)&params)

_Static_assert(sizeof(struct knee_vegas) <= CA_STATE_SIZE, "fits the kernel's room");

static void show(const struct sock *sk, const struct knee_vegas *v)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = tp->snd_cwnd < tp->snd_ssthresh ? 0 : 1;
	entry->cwnd = tp->snd_cwnd;
	entry->rounds = v->rounds;
	entry->updated = tp->tcp_mstamp;
	if (v->rtt == KNEE_VEGAS_NONE)
		return;
	entry->rtt_now = v->rtt;
	entry->rtt_min = v->base;
	entry->q_delay = v->rtt - v->base;
	entry->q_data = (__u64)tp->snd_cwnd * tp->mss_cache * (v->rtt - v->base) / v->rtt;
}

SEC("struct_ops")
void BPF_PROG(vegas_init, struct sock *sk)
{
	struct knee_vegas *v = ca_state(sk);

	v->rounds = 0;
	knee_vegas_restart(v, tcp_sk(sk)->snd_nxt);
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
	knee_vegas_on_state(ca_state(sk), tcp_sk(sk)->snd_nxt, state);
}

SEC("struct_ops")
void BPF_PROG(vegas_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == EVENT_TX_START || event == EVENT_CWND_RESTART)
		knee_vegas_restart(ca_state(sk), tcp_sk(sk)->snd_nxt);
}

SEC("struct_ops")
void BPF_PROG(vegas_tx_start, struct sock *sk)
{
	knee_vegas_restart(ca_state(sk), tcp_sk(sk)->snd_nxt);
}

SEC("struct_ops")
void BPF_PROG(vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	if (sample->rtt_us >= 0)
		knee_vegas_sample(ca_state(sk), sample->rtt_us);
}

SEC("struct_ops")
void BPF_PROG(vegas_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_vegas *v = ca_state(sk);
	struct knee_vegas_ack a = {
		.una = ack,
		.snd_nxt = tp->snd_nxt,
		.cwnd = tp->snd_cwnd,
		.ssthresh = tp->snd_ssthresh,
	};
	enum knee_vegas_growth growth = knee_vegas_on_ack(v, PARAMS, &a);

	tp->snd_cwnd = a.cwnd;
	tp->snd_ssthresh = a.ssthresh;
	if (growth == KNEE_VEGAS_RENO)
		tcp_reno_cong_avoid(sk, ack, acked);
	else if (growth == KNEE_VEGAS_SLOW_START)
		tcp_slow_start(tp, acked);
	if (a.decided) {
		a.cwnd = tp->snd_cwnd;
		a.ssthresh = tp->snd_ssthresh;
		knee_vegas_bounds(&a);
		tp->snd_cwnd = a.cwnd;
		tp->snd_ssthresh = a.ssthresh;
	}
	if (a.round_over) {
		show(sk, v);
		knee_vegas_begin_round(v, tp->snd_nxt);
	}
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
	.cwnd_event_tx_start = (void *)vegas_tx_start,
	.undo_cwnd = (void *)vegas_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "vegas",
};
