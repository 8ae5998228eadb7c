// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Senders: each watched socket's congestion control is replaced by a copy of itself
 * whose hooks count and then do what the original does. pkts_acked gives every RTT
 * sample and the window between ACKs, set_state recoveries and timeouts; the
 * algorithm notices nothing.
 */
#include <linux/inet_diag.h>
#include <linux/net.h>

#include "probe.h"

/* Extends the window's integral up to now. */
void probe_socket_window(struct probe_flow *flow)
{
	u64 now = ktime_get_ns();

	if (flow->cwnd_since_ns)
		flow->cwnd_ns += (now - flow->cwnd_since_ns) * tcp_snd_cwnd(tcp_sk(flow->sk));
	flow->cwnd_since_ns = now;
}

static u16 phase_by_info(struct sock *sk, u32 phases)
{
	union tcp_cc_info info;
	int attr;
	size_t size;

	if (!inet_csk(sk)->icsk_ca_ops->get_info)
		return 0;
	size = inet_csk(sk)->icsk_ca_ops->get_info(sk, 1 << (INET_DIAG_VEGASINFO - 1), &attr, &info);
	if (phases == KNEE_PHASES_INFO)
		return size >= 8 ? info.vegas.tcpv_rttcnt : 0;
	if (attr != INET_DIAG_BBRINFO || size < sizeof(info.bbr))
		return 0;
	/* Gains in 1/256: only probe_bw has a cwnd_gain of 2, only probe_rtt 1. */
	if (info.bbr.bbr_cwnd_gain == 256)
		return 3;
	if (info.bbr.bbr_cwnd_gain == 512)
		return 2;
	return info.bbr.bbr_pacing_gain < 256 ? 1 : 0;
}

static void look_at_phase(struct sock *sk, struct probe_flow *flow, bool first)
{
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));
	u16 phase;

	if (flow->phases == KNEE_PHASES_WINDOW)
		phase = cwnd >= tcp_sk(sk)->snd_ssthresh;
	else
		phase = phase_by_info(sk, flow->phases);
	if (phase == flow->phase && !first)
		return;
	flow->phase = phase;
	probe_row_event(probe_now(), flow - probe.flows, KNEE_NOBODY, KNEE_EVENT_PHASE, phase, cwnd);
}

static void hook(struct probe_flow *flow, struct sock *sk);

/* The connection is established. */
static void init(struct sock *sk)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);

	if (flow->real->init)
		flow->real->init(sk);
	/* Without ECN, dctcp has put another in its place. */
	if (inet_csk(sk)->icsk_ca_ops != &flow->ops)
		hook(flow, sk);
	flow->ready = true;
	look_at_phase(sk, flow, true);
}

/* Records that a finite transfer is acknowledged, which ends the time in which all flows run. */
static void look_at_end(struct sock *sk, struct probe_flow *flow)
{
	u32 i;

	/* The SYN counts as a byte. */
	if (!flow->bytes || tcp_sk(sk)->bytes_acked <= flow->bytes)
		return;
	flow->bytes = 0;
	probe_row_flow_locked(KNEE_ROW_DONE, flow - probe.flows);
	for (i = 0; i < probe.flow_count; i++)
		if (probe.flows[i].program)
			probe_row_program(KNEE_ROW_COMMON, i);
		else
			probe_row_flow_locked(KNEE_ROW_COMMON, i);
}

/* Counts an RTT sample, us; below 0: none. */
void probe_rtt(struct probe_flow *flow, s32 us)
{
	u32 rtt = us;

	if (us < 0)
		return;
	flow->rtt_sum_us += rtt;
	flow->rtt_min_us = min(flow->rtt_min_us, rtt);
	flow->rtt_max_us = max(flow->rtt_max_us, rtt);
	flow->rtt_count++;
	if (!flow->measured)
		return;
	flow->all_rtt_sum_us += rtt;
	flow->all_rtt_min_us = min(flow->all_rtt_min_us, rtt);
	flow->all_rtt_max_us = max(flow->all_rtt_max_us, rtt);
	flow->all_rtt_count++;
	flow->rtt[probe_bucket(rtt, KNEE_RTT_BITS, KNEE_RTT_BUCKETS)]++;
}

static void pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);

	if (flow->real->pkts_acked)
		flow->real->pkts_acked(sk, sample);
	probe_socket_window(flow);
	/* The SYN is acknowledged before the algorithm has begun: its RTT is none of the data's. */
	if (flow->ready) {
		look_at_phase(sk, flow, false);
		probe_rtt(flow, sample->rtt_us);
	}
	look_at_end(sk, flow);
}

static void set_state(struct sock *sk, u8 state)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);
	u8 before = inet_csk(sk)->icsk_ca_state;
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));
	u32 index = flow - probe.flows;

	if (flow->real->set_state)
		flow->real->set_state(sk, state);
	if (state == TCP_CA_Loss) {
		flow->timeouts++;
		probe_row_event(probe_now(), index, KNEE_NOBODY, KNEE_EVENT_TIMEOUT, 0, cwnd);
	} else if (state == TCP_CA_Recovery && state != before) {
		probe_row_event(probe_now(), index, KNEE_NOBODY, KNEE_EVENT_RECOVERY, 0, cwnd);
	} else if (state == TCP_CA_CWR && state != before) {
		probe_row_event(probe_now(), index, KNEE_NOBODY, KNEE_EVENT_CWR, 0, cwnd);
	}
}

/* Puts the copy of a socket's algorithm in its place. */
static void hook(struct probe_flow *flow, struct sock *sk)
{
	flow->real = inet_csk(sk)->icsk_ca_ops;
	flow->ops = *flow->real;
	flow->ops.init = init;
	flow->ops.pkts_acked = pkts_acked;
	flow->ops.set_state = set_state;
	inet_csk(sk)->icsk_ca_ops = &flow->ops;
}

/* Starts to watch; the socket's algorithm can no longer change. */
int probe_socket_watch(const struct knee_flow *told)
{
	struct probe_flow *flow;
	struct socket *socket;
	struct sock *sk;
	int err = 0;

	if (told->flow >= probe.flow_count || told->last_link >= probe.link_count)
		return -EINVAL;
	flow = &probe.flows[told->flow];
	socket = sockfd_lookup(told->fd, &err);
	if (!socket)
		return err;
	sk = socket->sk;
	lock_sock(sk);
	if (flow->sk || sk->sk_protocol != IPPROTO_TCP || sk->sk_state != TCP_CLOSE) {
		err = -EINVAL;
		goto out;
	}
	flow->rtt = kvcalloc(KNEE_RTT_BUCKETS, sizeof(*flow->rtt), GFP_KERNEL);
	if (!flow->rtt) {
		err = -ENOMEM;
		goto out;
	}
	sock_hold(sk);
	flow->sk = sk;
	flow->last_link = told->last_link;
	flow->phases = told->phases;
	flow->bytes = told->bytes;
	flow->ect1 = told->ect1;
	probe.l4s |= flow->ect1;
	flow->rtt_min_us = flow->all_rtt_min_us = U32_MAX;
	hook(flow, sk);
out:
	release_sock(sk);
	sockfd_put(socket);
	return err;
}

/* The device is closed only when the guest ends; the sockets end with their namespaces. */
void probe_sockets_exit(void)
{
	u32 i;

	for (i = 0; i < probe.flow_count; i++) {
		struct probe_flow *flow = &probe.flows[i];

		if (!flow->sk)
			continue;
		lock_sock(flow->sk);
		if (inet_csk(flow->sk)->icsk_ca_ops == &flow->ops)
			inet_csk(flow->sk)->icsk_ca_ops = flow->real;
		release_sock(flow->sk);
		sock_put(flow->sk);
		kvfree(flow->rtt);
	}
}
