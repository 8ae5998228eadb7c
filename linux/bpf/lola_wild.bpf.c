// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * LoLa for networks that others use too. The algorithm is in knee_lola_wild.h, as for the kernel module; this file ties
 * it to a socket. The state does not fit into the space that the kernel provides, so it lies in the socket's storage; a
 * connection that gets none is Reno.
 */
#include "knee_bpf.h"
#include "knee_lola_wild.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Times in us, ratios in 1/1024. */
const volatile struct knee_lola_wild_params params = KNEE_LOLA_WILD_DEFAULTS;
#define PARAMS	((const struct knee_lola_wild_params *)&params)

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct knee_lola_wild);
} states SEC(".maps");

static inline struct knee_lola_wild *state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&states, sk, NULL, 0);
}

static void show(const struct sock *sk, const struct knee_lola_wild *w, bool round)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = w->phase;
	entry->cwnd = tp->snd_cwnd;
	entry->updated = tp->tcp_mstamp;
	entry->rounds += round;
	if (w->rtt_now == KNEE_NOISE_NONE)
		return;
	entry->rtt_now = w->rtt_now;
	entry->rtt_min = w->rtt_min;
	entry->q_delay = knee_wild_q_delay(w);
	entry->q_data = knee_wild_q_data(w, (u64)tp->snd_cwnd * tp->mss_cache, entry->q_delay);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_init, struct sock *sk)
{
	struct knee_lola_wild *w = bpf_sk_storage_get(&states, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!w)
		return;
	/* All 0: a socket that is connected again has released the former one. */
	knee_wild_init(w, tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->delivered);
	/* Bursts would show as queueing delay. fq paces if it is the qdisc, otherwise TCP does. */
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
	show(sk, w, false);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_release, struct sock *sk)
{
	no_longer_shown(sk);
	bpf_sk_storage_delete(&states, sk);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct knee_lola_wild *w = state_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_wild_sample s = {
		.now = tp->tcp_mstamp,
		.rtt = sample->rtt_us,
		.delivered = tp->delivered,
		.tsval = tp->rx_opt.rcv_tsval,
		.stamped = BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp),
	};

	if (w && sample->rtt_us >= 0)
		knee_wild_sample(w, PARAMS, &s);
}

static inline void look(const struct tcp_sock *tp, struct knee_wild_ack *a)
{
	__builtin_memset(a, 0, sizeof(*a));
	a->now = tp->tcp_mstamp;
	a->mss = tp->mss_cache;
	a->cwnd = tp->snd_cwnd;
	a->ssthresh = tp->snd_ssthresh;
}

static inline void apply(struct tcp_sock *tp, const struct knee_wild_ack *a)
{
	if (a->reduced)
		tp->snd_cwnd_cnt = 0;
	if (a->cwnd != tp->snd_cwnd)
		tp->snd_cwnd = a->cwnd < tp->snd_cwnd_clamp ? a->cwnd : tp->snd_cwnd_clamp;
	tp->snd_ssthresh = a->ssthresh;
	if (a->count)
		tcp_cong_avoid_ai(tp, a->count, a->acked);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct knee_lola_wild *w = state_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_wild_ack a;
	u8 before;

	if (!w) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	before = w->phase;
	look(tp, &a);
	a.acked = acked;
	a.limited = is_cwnd_limited(tp);
	knee_wild_on_ack(w, PARAMS, &a);
	apply(tp, &a);
	show(sk, w, before == KNEE_WILD_CWND_HOLD && w->phase == KNEE_WILD_TAILORED_DECREASE);
}

SEC("struct_ops")
__u32 BPF_PROG(lola_wild_ssthresh, struct sock *sk)
{
	struct knee_lola_wild *w = state_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!w)
		return tcp_reno_ssthresh(sk);
	return knee_wild_on_loss(w, PARAMS, tp->tcp_mstamp, tp->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_set_state, struct sock *sk, __u8 state)
{
	struct knee_lola_wild *w = state_of(sk);

	if (w && state == CA_LOSS)
		knee_wild_on_timeout(w, tcp_sk(sk)->tcp_mstamp);
}

static void on_restart(struct sock *sk)
{
	struct knee_lola_wild *w = state_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (w)
		knee_wild_on_restart(w, tp->tcp_mstamp, idle_us(tp), tp->delivered);
}

static void on_reduced(struct sock *sk)
{
	struct knee_lola_wild *w = state_of(sk);
	struct knee_wild_ack a;

	if (!w)
		return;
	look(tcp_sk(sk), &a);
	knee_wild_on_reduced(w, PARAMS, &a);
	apply(tcp_sk(sk), &a);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == EVENT_COMPLETE_CWR)
		on_reduced(sk);
	else if (event == EVENT_TX_START)
		on_restart(sk);
}

SEC("struct_ops")
void BPF_PROG(lola_wild_tx_start, struct sock *sk)
{
	on_restart(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(lola_wild_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops lola_wild = {
	.init = (void *)lola_wild_init,
	.release = (void *)lola_wild_release,
	.ssthresh = (void *)lola_wild_ssthresh,
	.cong_avoid = (void *)lola_wild_cong_avoid,
	.pkts_acked = (void *)lola_wild_pkts_acked,
	.set_state = (void *)lola_wild_set_state,
	.cwnd_event = (void *)lola_wild_cwnd_event,
	.cwnd_event_tx_start = (void *)lola_wild_tx_start,
	.undo_cwnd = (void *)lola_wild_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	/* The kernel takes no hyphen in the name of a BPF object. */
	.name = "lola_wild",
};
