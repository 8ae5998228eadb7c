// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BBRv3 (draft-ietf-ccwg-bbr-06). The algorithm is in bbr3/bbr3.h; this file ties it to a socket, and bbr3_sample.h
 * makes its samples.
 *
 * Differences from the draft and from the simulator:
 * - A stock kernel does not store with a packet how much was in flight and lost when it was sent. Both are estimated
 *   from what each ACK saw (bbr3_sample.h): to 1/64 of a window for new data; for a retransmission too high by at most
 *   what was sent between two ACKs, so a probe that causes loss lasts slightly longer. Only the number of lost packets
 *   is known, as in the simulator: the newest delivered packet stands for them, and losses on an ACK form one range.
 * - CE echoes count once per round trip, when the kernel enters CWR, which it also does when a queue of this host
 *   drops a packet. BBRv3's own use of ECN (DCTCP's signal) and PLB are omitted, as in the draft and the simulator.
 * - The kernel chooses the burst size: a millisecond of the rate, and more at RTTs of a few milliseconds. The model
 *   assumes a millisecond.
 * - Packets sent during probe_rtt are recognised as application-limited by what was delivered before them, because not
 *   every kernel lets a program write the socket's mark.
 *
 * The state does not fit into the space that the kernel provides, so it lies in the socket's storage.
 */
#include "knee_bpf.h"
#include "bbr3_sample.h"

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile struct knee_bbr3_params params = KNEE_BBR3_DEFAULTS;

static const struct knee_bbr3_params *bbr3_params(void)
{
	return (const struct knee_bbr3_params *)&params;
}

static __u32 bbr3_random(void)
{
	return bpf_get_prandom_u32();
}

extern int LINUX_KERNEL_VERSION __kconfig;

/* Minimum number of packets in a burst (5.6.3). */
#define LEAST_BURST 2
/* The send buffer may hold three windows, so that it is never the limit during loss recovery. */
#define SNDBUF_WINDOWS 3

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bbr3);
} states SEC(".maps");

static inline struct bbr3 *state_of(struct sock *sk)
{
	return bpf_sk_storage_get(&states, sk, NULL, 0);
}

static void show(const struct sock *sk, const struct bbr3 *b, const struct view *v)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_connection *entry = shown(sk);

	if (!entry)
		return;
	entry->phase = b->state;
	entry->cwnd = v->cwnd;
	entry->rounds = b->round;
	entry->updated = v->now;
	if (b->min_rtt == INFINITE)
		return;
	entry->rtt_now = tp->srtt_us >> 3;
	entry->rtt_min = b->min_rtt;
	entry->q_delay = knee_sub(entry->rtt_now, b->min_rtt);
	/* The window does not show what is queued: it is twice the BDP. */
	entry->q_data = entry->rtt_now ? (__u64)v->in_flight * b->mss * entry->q_delay / entry->rtt_now : 0;
}

static inline void set_window(struct tcp_sock *tp, const struct view *v)
{
	tp->snd_cwnd = knee_min(knee_max(v->cwnd, 1), tp->snd_cwnd_clamp);
}

static inline void pace(struct sock *sk, const struct bbr3 *b)
{
	sk->sk_pacing_rate = knee_min(b->rate, sk->sk_max_pacing_rate);
}

/* The state of a new connection, with the handshake's RTT as the first sample; NULL if memory runs out. */
static struct bbr3 *begin(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = bpf_sk_storage_get(&states, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	struct view v;

	if (!b)
		return NULL;
	look(tp, &v);
	init(b, &v, tp->srtt_us >> 3, tp->mss_cache);
	b->departures[0].delivered = v.delivered;
	b->departures[0].lost = v.lost;
	b->departures[0].snd_nxt = v.snd_nxt;
	b->departures[0].in_flight = v.in_flight;
	pace(sk, b);
	/* fq paces if it is the qdisc, otherwise TCP does. */
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
	show(sk, b, &v);
	return b;
}

SEC("struct_ops")
void BPF_PROG(bbr3_init, struct sock *sk)
{
	begin(sk);
}

SEC("struct_ops")
void BPF_PROG(bbr3_release, struct sock *sk)
{
	no_longer_shown(sk);
	bpf_sk_storage_delete(&states, sk);
}

static void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = state_of(sk);
	struct sample s;
	struct view v;

	if (!b)
		b = begin(sk);
	if (!b)
		return;
	look(tp, &v);
	b->mss = tp->mss_cache;
	take_sample(b, &v, rs, &s);
	on_sample(b, &v, &s);
	pace(sk, b);
	set_window(tp, &v);
	show(sk, b, &v);
}

/*
 * The rate sample is the second argument before Linux 6.10 and the fourth since. The verifier knows the version and
 * checks only one branch; the asm keeps the compiler from merging the two loads. On a kernel whose order does not match
 * its version, the verifier rejects the program. Tested on 6.18.
 */
SEC("struct_ops")
void bbr3_cong_control(unsigned long long *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct rate_sample *rs;

	if (LINUX_KERNEL_VERSION < KERNEL_VERSION(6, 10, 0)) {
		rs = (const struct rate_sample *)ctx[1];
		asm volatile("" : "+r"(rs));
	} else {
		rs = (const struct rate_sample *)ctx[3];
		asm volatile("" : "+r"(rs));
	}
	on_ack(sk, rs);
}

/* BBR does not use the threshold; the call means that loss recovery begins. */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	struct bbr3 *b = state_of(sk);
	struct view v;

	if (b) {
		look(tcp_sk(sk), &v);
		save_state(b, &v);
	}
	return tcp_sk(sk)->snd_ssthresh;
}

/* Leaving recovery restores the previous window (5.6.4.4); the model's bounds apply with the ACK. */
SEC("struct_ops")
void BPF_PROG(bbr3_set_state, struct sock *sk, __u8 ca_state)
{
	struct bbr3 *b = state_of(sk);
	struct view v;

	if (!b)
		return;
	look(tcp_sk(sk), &v);
	if (ca_state == CA_CWR)
		handle_echo(b, &v);
	if (left_recovery(b, ca_state)) {
		v.cwnd = knee_max(v.cwnd, b->prior_cwnd);
		set_window(tcp_sk(sk), &v);
	}
}

static void on_restart(struct sock *sk)
{
	struct bbr3 *b = state_of(sk);
	struct view v;

	if (!b)
		return;
	look(tcp_sk(sk), &v);
	if (v.app_limited || is_marked(b, v.delivered)) {
		restart_from_idle(b, &v);
		pace(sk, b);
		set_window(tcp_sk(sk), &v);
	}
}

SEC("struct_ops")
void BPF_PROG(bbr3_cwnd_event, struct sock *sk, __u32 event)
{
	if (event == EVENT_TX_START)
		on_restart(sk);
}

SEC("struct_ops")
void BPF_PROG(bbr3_tx_start, struct sock *sk)
{
	on_restart(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	struct bbr3 *b = state_of(sk);
	struct view v;

	if (!b)
		return tcp_sk(sk)->snd_cwnd;
	look(tcp_sk(sk), &v);
	restore_state(b, &v);
	return knee_max(v.cwnd, b->prior_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_min_tso_segs, struct sock *sk)
{
	return LEAST_BURST;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_sndbuf_expand, struct sock *sk)
{
	return SNDBUF_WINDOWS;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bbr3 = {
	.init = (void *)bbr3_init,
	.release = (void *)bbr3_release,
	.cong_control = (void *)bbr3_cong_control,
	.ssthresh = (void *)bbr3_ssthresh,
	.set_state = (void *)bbr3_set_state,
	.cwnd_event = (void *)bbr3_cwnd_event,
	.cwnd_event_tx_start = (void *)bbr3_tx_start,
	.undo_cwnd = (void *)bbr3_undo_cwnd,
	.min_tso_segs = (void *)bbr3_min_tso_segs,
	.sndbuf_expand = (void *)bbr3_sndbuf_expand,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bbr3",
};
