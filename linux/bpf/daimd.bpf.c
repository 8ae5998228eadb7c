// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Delay-based AIMD: backs off at a queueing delay rather than at a loss, and only by what is queued. The
 * algorithm is in knee_daimd.h, as for the kernel module; this file ties it to a socket.
 */
#include "knee_bpf.h"
#include "knee_daimd.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Times in us, ratios in millionths; tcp_daimd.c describes each. */
const volatile struct knee_daimd_params params = KNEE_DAIMD_DEFAULTS;
#define PARAMS	((const struct knee_daimd_params *)&params)

_Static_assert(sizeof(struct knee_daimd) <= CA_STATE_SIZE, "fits the kernel's room");

/* A round is an epoch: from one backoff to the next. */
static void show(const struct sock *sk, const struct knee_daimd *d, bool round)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = tp->snd_cwnd < tp->snd_ssthresh ? 0 : 1;
	entry->cwnd = tp->snd_cwnd;
	entry->updated = tp->tcp_mstamp;
	entry->rounds += round;
	if (!d->srtt)
		return;
	entry->rtt_now = d->srtt / 1000;
	entry->rtt_min = d->rtt_min / 1000;
	entry->q_delay = knee_sub(d->srtt, d->rtt_min) / 1000;
	entry->q_data = knee_mul_div((u64)tp->snd_cwnd * tp->mss_cache, knee_sub(d->srtt, d->rtt_min), d->srtt);
}

SEC("struct_ops")
void BPF_PROG(daimd_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_daimd *d = ca_state(sk);

	knee_daimd_init(d, PARAMS, tp->tcp_mstamp);
	if (READ_ONCE(params.slow_start) == KNEE_DAIMD_OFF)
		tp->snd_ssthresh = tp->snd_cwnd;
	show(sk, d, false);
}

SEC("struct_ops")
void BPF_PROG(daimd_release, struct sock *sk)
{
	no_longer_shown(sk);
}

SEC("struct_ops")
void BPF_PROG(daimd_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (sample->rtt_us >= 0)
		knee_daimd_sample(ca_state(sk), PARAMS, tp->tcp_mstamp, sample->rtt_us, sample->pkts_acked, tp->snd_una,
				  tp->snd_cwnd, tp->snd_ssthresh);
}

SEC("struct_ops")
void BPF_PROG(daimd_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_daimd *d = ca_state(sk);
	bool settling = d->settling;
	struct knee_daimd_ack a = {
		.now = tp->tcp_mstamp,
		.acked = acked,
		.snd_nxt = tp->snd_nxt,
		.limited = is_cwnd_limited(tp),
		.cwnd = tp->snd_cwnd,
		.ssthresh = tp->snd_ssthresh,
	};

	knee_daimd_on_ack(d, PARAMS, &a);
	if (a.cwnd != tp->snd_cwnd) {
		if (a.cwnd < tp->snd_cwnd)
			tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd = a.cwnd < tp->snd_cwnd_clamp ? a.cwnd : tp->snd_cwnd_clamp;
	}
	tp->snd_ssthresh = a.ssthresh;
	show(sk, d, !settling && d->settling);
}

SEC("struct_ops")
__u32 BPF_PROG(daimd_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return knee_daimd_on_loss(ca_state(sk), PARAMS, tp->tcp_mstamp, tp->snd_nxt, tp->snd_cwnd);
}

static void on_restart(struct sock *sk)
{
	knee_daimd_on_restart(ca_state(sk), tcp_sk(sk)->tcp_mstamp, idle_us(tcp_sk(sk)));
}

SEC("struct_ops")
void BPF_PROG(daimd_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == EVENT_TX_START)
		on_restart(sk);
}

SEC("struct_ops")
void BPF_PROG(daimd_tx_start, struct sock *sk)
{
	on_restart(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(daimd_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops daimd = {
	.init = (void *)daimd_init,
	.release = (void *)daimd_release,
	.ssthresh = (void *)daimd_ssthresh,
	.cong_avoid = (void *)daimd_cong_avoid,
	.pkts_acked = (void *)daimd_pkts_acked,
	.cwnd_event = (void *)daimd_cwnd_event,
	.cwnd_event_tx_start = (void *)daimd_tx_start,
	.undo_cwnd = (void *)daimd_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "daimd",
};
