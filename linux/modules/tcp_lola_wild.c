// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * LoLa for networks that others use too: on paths whose delay varies by itself
 * or changes for good, and beside flows that fill the buffer.
 *
 * This file ties knee_lola_wild.h, where the algorithm is, to a socket. Its
 * state does not fit into a socket's 104 bytes and has memory of its own; a
 * connection that gets none is Reno. Packets are paced, by fq where it is the
 * qdisc and by TCP itself where not: bursts would show as queueing delay.
 */
#include <linux/build_bug.h>
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "knee_compat.h"
#include "knee_lola_wild.h"
#include "uapi/knee_diag.h"

static struct knee_lola_wild_params wild_params __read_mostly =
	KNEE_LOLA_WILD_DEFAULTS;

KNEE_PARAM(wild_params, q_low, 1, 100000000,
	   "queueing delay that shows a full link, us");
KNEE_PARAM(wild_params, q_target, 1, 100000000,
	   "queueing delay that ends a round, us");
KNEE_PARAM(wild_params, t_sync, 1, 100000000,
	   "how long the window is held before the decrease, us");
KNEE_PARAM(wild_params, t_measure, 1, 100000000,
	   "shortest span of the minimum filter of the RTT, us");
KNEE_PARAM(wild_params, gamma, 1, 1024,
	   "further factor of tailored decrease, 1/1024");
KNEE_PARAM(wild_params, phi, 10, 10240000,
	   "steepness of the fair amount of queued data, X = (t/phi)^3, 1/1024");
KNEE_PARAM(wild_params, adapt, 0, 1,
	   "the filter's span follows the path's noise");
KNEE_PARAM(wild_params, routes, 0, 1,
	   "reset RTT_min when reductions change no delay");
KNEE_PARAM(wild_params, compete, 0, 1,
	   "compete as CUBIC where others keep a queue");
KNEE_PARAM(wild_params, one_way, 0, 1,
	   "leave the queue that ACKs meet out of the RTT, by timestamps");

struct wild_ca {
	struct knee_lola_wild *state;	/* NULL: no memory, the flow is Reno */
};

static struct knee_lola_wild *wild_state(struct sock *sk)
{
	return ((struct wild_ca *)inet_csk_ca(sk))->state;
}

static void wild_init(struct sock *sk)
{
	struct knee_lola_wild *w;

	/* A listener's connections begin in softirq. */
	w = kzalloc(sizeof(*w), GFP_NOWAIT | __GFP_NOWARN);
	((struct wild_ca *)inet_csk_ca(sk))->state = w;
	if (!w)
		return;
	knee_wild_init(w, tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->delivered);
	/* Unless the qdisc already paces. */
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void wild_release(struct sock *sk)
{
	struct wild_ca *ca = inet_csk_ca(sk);

	kfree(ca->state);
	ca->state = NULL;
}

static void wild_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct knee_lola_wild *w = wild_state(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct knee_wild_sample s = {
		.now = tp->tcp_mstamp,
		.rtt = sample->rtt_us,
		.delivered = tp->delivered,
		.tsval = tp->rx_opt.rcv_tsval,
		.stamped = tp->rx_opt.saw_tstamp,
	};

	if (w && sample->rtt_us >= 0)
		knee_wild_sample(w, &wild_params, &s);
}

static struct knee_wild_ack wild_event(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return (struct knee_wild_ack) {
		.now = tp->tcp_mstamp,
		.mss = tp->mss_cache,
		.cwnd = tcp_snd_cwnd(tp),
		.ssthresh = tp->snd_ssthresh,
	};
}

static void wild_apply(struct tcp_sock *tp, const struct knee_wild_ack *a)
{
	if (a->reduced)
		tp->snd_cwnd_cnt = 0;
	if (a->cwnd != tcp_snd_cwnd(tp))
		tcp_snd_cwnd_set(tp, min(a->cwnd, tp->snd_cwnd_clamp));
	tp->snd_ssthresh = a->ssthresh;
	if (a->count)
		tcp_cong_avoid_ai(tp, a->count, a->acked);
}

static void wild_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct knee_lola_wild *w = wild_state(sk);
	struct knee_wild_ack a = wild_event(sk);

	if (!w) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	a.acked = acked;
	a.limited = tcp_is_cwnd_limited(sk);
	knee_wild_on_ack(w, &wild_params, &a);
	wild_apply(tcp_sk(sk), &a);
}

static u32 wild_ssthresh(struct sock *sk)
{
	struct knee_lola_wild *w = wild_state(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!w)
		return tcp_reno_ssthresh(sk);
	return knee_wild_on_loss(w, &wild_params, tp->tcp_mstamp,
				 tcp_snd_cwnd(tp));
}

static void wild_set_state(struct sock *sk, u8 new_state)
{
	struct knee_lola_wild *w = wild_state(sk);

	if (w && new_state == TCP_CA_Loss)
		knee_wild_on_timeout(w, tcp_sk(sk)->tcp_mstamp);
}

static void wild_tx_start(struct sock *sk)
{
	struct knee_lola_wild *w = wild_state(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (w)
		knee_wild_on_restart(w, tp->tcp_mstamp, knee_idle_us(tp),
				     tp->delivered);
}

static void wild_reduced(struct sock *sk)
{
	struct knee_lola_wild *w = wild_state(sk);
	struct knee_wild_ack a = wild_event(sk);

	if (!w)
		return;
	knee_wild_on_reduced(w, &wild_params, &a);
	wild_apply(tcp_sk(sk), &a);
}

static void wild_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_COMPLETE_CWR)
		wild_reduced(sk);
	else if (!KNEE_HAS_TX_START && event == CA_EVENT_TX_START)
		wild_tx_start(sk);
}

static size_t wild_get_info(struct sock *sk, u32 ext, int *attr,
			    union tcp_cc_info *info)
{
	const struct knee_lola_wild *w = wild_state(sk);
	struct tcp_lola_info *out = (struct tcp_lola_info *)info;
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd = (u64)tcp_snd_cwnd(tp) * tp->mss_cache, queued;

	if (!w || !(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	out->enabled = 1;
	out->phase = w->phase;
	out->rtt_now = min_t(u32, w->rtt_now, KNEE_DIAG_NONE);
	out->rtt_min = min_t(u32, w->rtt_min, KNEE_DIAG_NONE);
	queued = knee_wild_q_data(w, cwnd, knee_wild_q_delay(w));
	out->q_data = min_t(u64, queued, U32_MAX);
	*attr = INET_DIAG_VEGASINFO;
	return sizeof(*out);
}

static struct tcp_congestion_ops tcp_lola_wild __read_mostly = {
	.init		= wild_init,
	.release	= wild_release,
	.ssthresh	= wild_ssthresh,
	.cong_avoid	= wild_cong_avoid,
	.set_state	= wild_set_state,
	.cwnd_event	= wild_cwnd_event,
#if KNEE_HAS_TX_START
	.cwnd_event_tx_start = wild_tx_start,
#endif
	.pkts_acked	= wild_pkts_acked,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.get_info	= wild_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED,
	/* BPF takes no hyphen in a name. */
	.name		= "lola_wild",
	.owner		= THIS_MODULE,
};

static int __init wild_register(void)
{
	BUILD_BUG_ON(sizeof(struct wild_ca) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&tcp_lola_wild);
}

static void __exit wild_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_lola_wild);
}

module_init(wild_register);
module_exit(wild_unregister);

MODULE_AUTHOR("The knee authors");
MODULE_DESCRIPTION("TCP LoLa for networks that others use too");
MODULE_LICENSE("Dual BSD/GPL");
