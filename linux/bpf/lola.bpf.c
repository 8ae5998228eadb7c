// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * TCP LoLa: keeps the queueing delay around a fixed target, whatever the number of flows, and gives all of them the
 * same rate. The algorithm is in knee_lola.h, as for the kernel module; this file ties it to a socket.
 */
#include "knee_bpf.h"
#include "knee_lola.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Times in us, ratios in 1/1024; the defaults of the paper's Section V-A. */
const volatile struct knee_lola_params params = KNEE_LOLA_DEFAULTS;
#define PARAMS	((const struct knee_lola_params *)&params)

_Static_assert(sizeof(struct knee_lola) <= CA_STATE_SIZE, "fits the kernel's room");

static void show(const struct sock *sk, const struct knee_lola *l, bool round)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = knee_lola_phase(l);
	entry->cwnd = tp->snd_cwnd;
	entry->updated = tp->tcp_mstamp;
	entry->rounds += round;
	if (l->rtt_now == KNEE_FILTER_EMPTY)
		return;
	entry->rtt_now = l->rtt_now;
	entry->rtt_min = l->rtt_min;
	entry->q_delay = knee_lola_q_delay(l->rtt_now, l->rtt_min);
	entry->q_data = knee_lola_q_data((u64)tp->snd_cwnd * tp->mss_cache, l->rtt_now, l->rtt_min);
}

SEC("struct_ops")
void BPF_PROG(lola_init, struct sock *sk)
{
	struct knee_lola *l = ca_state(sk);

	knee_lola_init(l, tcp_sk(sk)->tcp_mstamp);
	/* Bursts would show as queueing delay. fq paces if it is the qdisc, otherwise TCP does. */
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
	show(sk, l, false);
}

SEC("struct_ops")
void BPF_PROG(lola_release, struct sock *sk)
{
	no_longer_shown(sk);
}

/*
 * Copies to the stack four bytes at a time. Eight would be a spilled register, the rest of which the verifier of Linux
 * 6.18.15 refuses to read after a write to a part of it at a variable offset.
 */
static inline void copy_by_words(struct knee_lola *to, const struct knee_lola *from)
{
	volatile __u32 *words = (volatile __u32 *)to;
	int i;

	_Static_assert(sizeof(*to) % sizeof(*words) == 0, "whole words");
#pragma unroll
	for (i = 0; i < sizeof(*to) / sizeof(*words); i++)
		words[i] = ((const __u32 *)from)[i];
}

SEC("struct_ops")
void BPF_PROG(lola_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct knee_lola *l = ca_state(sk), copy;

	if (sample->rtt_us < 0)
		return;
	/* The filter's ring is indexed, which the verifier allows only on the stack. */
	copy_by_words(&copy, l);
	knee_lola_sample(&copy, PARAMS, tcp_sk(sk)->tcp_mstamp, sample->rtt_us);
	*l = copy;
}

SEC("struct_ops")
void BPF_PROG(lola_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_lola *l = ca_state(sk);
	__u8 before = knee_lola_phase(l);
	struct knee_lola_ack a = {
		.now = tp->tcp_mstamp,
		.acked = acked,
		.mss = tp->mss_cache,
		.limited = is_cwnd_limited(tp),
		.cwnd = tp->snd_cwnd,
		.ssthresh = tp->snd_ssthresh,
	};

	knee_lola_on_ack(l, PARAMS, &a);
	if (a.cwnd != tp->snd_cwnd) {
		if (a.cwnd < tp->snd_cwnd)
			tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd = a.cwnd < tp->snd_cwnd_clamp ? a.cwnd : tp->snd_cwnd_clamp;
	}
	tp->snd_ssthresh = a.ssthresh;
	if (a.count)
		tcp_cong_avoid_ai(tp, a.count, acked);
	show(sk, l, before == KNEE_LOLA_CWND_HOLD && knee_lola_phase(l) == KNEE_LOLA_TAILORED_DECREASE);
}

SEC("struct_ops")
__u32 BPF_PROG(lola_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return knee_lola_on_loss(ca_state(sk), PARAMS, tp->tcp_mstamp, tp->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(lola_set_state, struct sock *sk, __u8 state)
{
	if (state == CA_LOSS)
		knee_lola_on_timeout(ca_state(sk), tcp_sk(sk)->tcp_mstamp);
}

static void on_restart(struct sock *sk)
{
	knee_lola_on_restart(ca_state(sk), tcp_sk(sk)->tcp_mstamp, idle_us(tcp_sk(sk)));
}

SEC("struct_ops")
void BPF_PROG(lola_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == EVENT_COMPLETE_CWR)
		knee_lola_on_reduced(ca_state(sk), PARAMS, tcp_sk(sk)->tcp_mstamp);
	else if (event == EVENT_TX_START)
		on_restart(sk);
}

SEC("struct_ops")
void BPF_PROG(lola_tx_start, struct sock *sk)
{
	on_restart(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(lola_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops lola = {
	.init = (void *)lola_init,
	.release = (void *)lola_release,
	.ssthresh = (void *)lola_ssthresh,
	.cong_avoid = (void *)lola_cong_avoid,
	.pkts_acked = (void *)lola_pkts_acked,
	.set_state = (void *)lola_set_state,
	.cwnd_event = (void *)lola_cwnd_event,
	.cwnd_event_tx_start = (void *)lola_tx_start,
	.undo_cwnd = (void *)lola_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "lola",
};
