// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * H-TCP: the longer since the last loss, the faster the window grows; a loss leaves the share of the window that just
 * fills the path.
 *
 * Leith and Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004, with what Linux's tcp_htcp
 * made of it (adaptive backoff only from the second loss in a row on and above 10 ms, RTT scaling, outliers of the
 * greatest RTT left out). With d the time since the last reduction, in s:
 *
 *	f(d)  = 1 for d <= 1, else 1 + 10 (d - 1) + ((d - 1) / 2)^2	times RTT_min / 100 ms
 *	alpha = 2 (1 - beta) f(d), packets per round trip
 *	beta  = RTT_min / RTT_max within 0.5 to 0.8; 0.5 where the throughput changed by more than 20 %
 *
 * Times are in microseconds here, not in the kernel's ticks, so that d and RTTs are finer than there.
 */
#include "knee_bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile bool use_rtt_scaling = true;
const volatile bool use_bandwidth_switch = true;

/* 1 in the unit of alpha and beta. */
#define ONE 128
#define BETA_MIN 64
#define BETA_MAX 102
#define SECOND 1000000ull
/* RTTs above that of the round by more than this are outliers. */
#define OUTLIER 20000
/* Below it RTT_min / RTT_max says little. */
#define LEAST_RTT 10000
/* d is at most 2^32 us, about 4295 s: (d / 2)^2 then stays below 2^62. */
#define MAX_D (1ull << 32)

struct htcp {
	__u64 last;		/* when the last reduction ended */
	__u64 undo_last;	/* as it was before the reduction that is under way */
	__u64 since;		/* when the sample of the throughput began */
	__u32 packets;		/* acknowledged since then */
	__u32 rate;		/* smoothed throughput, packets/s */
	__u32 max_rate;		/* greatest since the last reduction */
	__u32 old_max_rate;	/* and between the two before */
	__u32 undo_old_max_rate;
	__u32 rtt_min;		/* us; 0: none yet */
	__u32 rtt_max;
	__u32 undo_rtt_max;
	__u32 alpha;		/* 1/128 packets per round trip */
	__u32 pkts_acked;
	__u32 reductions;
	__u8 beta;		/* 1/128 */
	bool adaptive;		/* beta may follow the RTTs */
	bool reducing;
};

_Static_assert(sizeof(struct htcp) <= CA_STATE_SIZE, "fits the kernel's room");

static inline __u32 min_u32(__u64 a, __u32 b)
{
	return a < b ? a : b;
}

/* alpha from the time since the last reduction. */
static void update_alpha(const struct tcp_sock *tp, struct htcp *h)
{
	__u64 d = tp->tcp_mstamp - h->last, growth = 1;

	if (d > MAX_D)
		d = MAX_D;
	if (d > SECOND) {
		__u64 half = (d - SECOND) / 2;

		growth = 1 + (10 * (d - SECOND) + half * half / SECOND) / SECOND;
	}
	if (use_rtt_scaling && h->rtt_min) {
		/* 100 ms over RTT_min in eighths, within 0.5 to 10. */
		__u64 ratio = 800000ull / h->rtt_min;

		if (ratio < 4)
			ratio = 4;
		if (ratio > 80)
			ratio = 80;
		growth = growth * 8 / ratio;
		if (!growth)
			growth = 1;
	}
	h->alpha = min_u32(2 * growth * (ONE - h->beta), 1u << 30);
}

static void update_beta(struct htcp *h)
{
	if (use_bandwidth_switch) {
		__u64 rate = 5ull * h->max_rate, old = h->old_max_rate;

		h->old_max_rate = h->max_rate;
		if (rate < 4 * old || rate > 6 * old) {
			h->beta = BETA_MIN;
			h->adaptive = false;
			return;
		}
	}
	if (h->adaptive && h->rtt_min > LEAST_RTT && h->rtt_max) {
		__u32 beta = (__u64)h->rtt_min * ONE / h->rtt_max;

		if (beta < BETA_MIN)
			beta = BETA_MIN;
		if (beta > BETA_MAX)
			beta = BETA_MAX;
		h->beta = beta;
	} else {
		h->beta = BETA_MIN;
		h->adaptive = true;
	}
}

static void show(const struct sock *sk, const struct htcp *h)
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
	struct htcp *h = ca_state(sk);

	__builtin_memset(h, 0, sizeof(*h));
	h->alpha = ONE;
	h->beta = BETA_MIN;
	h->pkts_acked = 1;
	h->last = tcp_sk(sk)->tcp_mstamp;
	h->since = h->last;
	show(sk, h);
}

SEC("struct_ops")
void BPF_PROG(htcp_release, struct sock *sk)
{
	no_longer_shown(sk);
}

static void measure_rtt(struct htcp *h, __u32 rtt, bool open)
{
	if (!h->rtt_min || rtt < h->rtt_min)
		h->rtt_min = rtt;
	if (!open)
		return;
	if (h->rtt_max < h->rtt_min)
		h->rtt_max = h->rtt_min;
	if (rtt > h->rtt_max && rtt <= h->rtt_max + OUTLIER)
		h->rtt_max = rtt;
}

static void measure_throughput(const struct tcp_sock *tp, struct htcp *h, __u32 acked, bool in_order)
{
	__u64 now = tp->tcp_mstamp, span = now - h->since;
	__u32 step = h->alpha / ONE ? h->alpha / ONE : 1;
	__u32 rate;

	if (!in_order) {
		h->packets = 0;
		h->since = now;
		return;
	}
	h->packets += acked;
	/* About a window and a round trip make a sample. */
	if (tp->snd_cwnd < step || h->packets < tp->snd_cwnd - step || !h->rtt_min || span < h->rtt_min)
		return;
	/* packets < 2^31 and 10^6 < 2^20. */
	rate = min_u32(h->packets * SECOND / span, 1u << 30);
	if (now - h->last <= 3ull * h->rtt_min) {
		h->rate = rate;
		h->max_rate = rate;
	} else {
		h->rate = (3ull * h->rate + rate) / 4;
		if (h->rate > h->max_rate)
			h->max_rate = h->rate;
	}
	h->packets = 0;
	h->since = now;
}

SEC("struct_ops")
void BPF_PROG(htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *h = ca_state(sk);
	__u8 state = BPF_CORE_READ_BITFIELD((const struct inet_connection_sock *)sk, icsk_ca_state);

	if (state == CA_OPEN)
		h->pkts_acked = sample->pkts_acked;
	if (sample->rtt_us > 0)
		measure_rtt(h, sample->rtt_us, state == CA_OPEN);
	if (use_bandwidth_switch)
		measure_throughput(tp, h, sample->pkts_acked, state == CA_OPEN || state == CA_DISORDER);
}

SEC("struct_ops")
void BPF_PROG(htcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *h = ca_state(sk);

	show(sk, h);
	if (!is_cwnd_limited(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		tcp_slow_start(tp, acked);
		return;
	}
	if ((__u64)tp->snd_cwnd_cnt * h->alpha / ONE >= tp->snd_cwnd) {
		if (tp->snd_cwnd < tp->snd_cwnd_clamp)
			tp->snd_cwnd = tp->snd_cwnd + 1;
		tp->snd_cwnd_cnt = 0;
		update_alpha(tp, h);
	} else {
		tp->snd_cwnd_cnt = tp->snd_cwnd_cnt + h->pkts_acked;
	}
	h->pkts_acked = 1;
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *h = ca_state(sk);
	__u32 left;

	if (!h->reducing) {
		h->undo_last = h->last;
		h->undo_rtt_max = h->rtt_max;
		h->undo_old_max_rate = h->old_max_rate;
	}
	h->reducing = true;
	h->last = tp->tcp_mstamp;
	h->reductions++;
	update_beta(h);
	/* The greatest RTT fades, so that a path that became shorter shows. */
	if (h->rtt_max > h->rtt_min)
		h->rtt_max -= (h->rtt_max - h->rtt_min) / 20;
	update_alpha(tp, h);
	left = (__u64)tp->snd_cwnd * h->beta / ONE;
	return left < 2 ? 2 : left;
}

SEC("struct_ops")
void BPF_PROG(htcp_set_state, struct sock *sk, __u8 state)
{
	struct htcp *h = ca_state(sk);

	if (state == CA_OPEN && h->reducing) {
		h->last = tcp_sk(sk)->tcp_mstamp;
		h->reducing = false;
	}
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *h = ca_state(sk);

	if (h->reducing) {
		h->last = h->undo_last;
		h->rtt_max = h->undo_rtt_max;
		h->old_max_rate = h->undo_old_max_rate;
		h->reducing = false;
	}
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
	.name = "htcp",
};
