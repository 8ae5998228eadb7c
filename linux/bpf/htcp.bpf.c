// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * H-TCP: the longer since the last loss, the faster the window grows; a loss leaves the share of the window that just
 * fills the path. The algorithm is in knee_htcp.h; this file ties it to a socket.
 */
#include "knee_bpf.h"
#include "knee_htcp.h"

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile struct knee_htcp_params params = KNEE_HTCP_DEFAULTS;
#define PARAMS	((const struct knee_htcp_params *)&params)

_Static_assert(sizeof(struct knee_htcp) <= CA_STATE_SIZE, "fits the kernel's room");

static void show(const struct sock *sk, const struct knee_htcp *h)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = tp->snd_cwnd < tp->snd_ssthresh ? 0 : 1;
	entry->cwnd = tp->snd_cwnd;
	entry->rtt_now = tp->srtt_us >> 3;
	entry->rtt_min = h->rtt_min;
	entry->q_delay = entry->rtt_now > h->rtt_min ? entry->rtt_now - h->rtt_min : 0;
	entry->q_data = entry->rtt_now ? (__u64)tp->snd_cwnd * tp->mss_cache * entry->q_delay / entry->rtt_now : 0;
	entry->rounds = h->reductions;
	entry->updated = tp->tcp_mstamp;
}

SEC("struct_ops")
void BPF_PROG(htcp_init, struct sock *sk)
{
	struct knee_htcp *h = ca_state(sk);

	knee_htcp_init(h, tcp_sk(sk)->tcp_mstamp);
	show(sk, h);
}

SEC("struct_ops")
void BPF_PROG(htcp_release, struct sock *sk)
{
	no_longer_shown(sk);
}

SEC("struct_ops")
void BPF_PROG(htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u8 state = BPF_CORE_READ_BITFIELD((const struct inet_connection_sock *)sk, icsk_ca_state);

	knee_htcp_on_measure(ca_state(sk), PARAMS, tp->tcp_mstamp, sample->rtt_us > 0 ? sample->rtt_us : 0,
			     tp->snd_cwnd, sample->pkts_acked, state);
}

SEC("struct_ops")
void BPF_PROG(htcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_htcp *h = ca_state(sk);
	__u32 cwnd = tp->snd_cwnd, count = tp->snd_cwnd_cnt;

	show(sk, h);
	if (!is_cwnd_limited(tp))
		return;
	if (cwnd < tp->snd_ssthresh) {
		tcp_slow_start(tp, acked);
		return;
	}
	knee_htcp_increase(h, PARAMS, tp->tcp_mstamp, &cwnd, &count);
	tp->snd_cwnd = cwnd < tp->snd_cwnd_clamp ? cwnd : tp->snd_cwnd_clamp;
	tp->snd_cwnd_cnt = count;
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return knee_htcp_on_congestion(ca_state(sk), PARAMS, tp->tcp_mstamp, tp->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(htcp_set_state, struct sock *sk, __u8 state)
{
	knee_htcp_on_state(ca_state(sk), tcp_sk(sk)->tcp_mstamp, state);
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	knee_htcp_on_undo(ca_state(sk));
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops htcp = {
	.init = (void *)htcp_init,
	.release = (void *)htcp_release,
	.ssthresh = (void *)htcp_ssthresh,
	.cong_avoid = (void *)htcp_cong_avoid,
	.pkts_acked = (void *)htcp_pkts_acked,
	.set_state = (void *)htcp_set_state,
	.undo_cwnd = (void *)htcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "htcp",
};
