// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * TCP LoLa: keeps the queueing delay around a fixed target, whatever the number
 * of flows, and gives all of them the same rate.
 *
 * This file ties knee_lola.h, where the algorithm is, to a socket. Packets are
 * paced, as in the paper, by fq where it is the qdisc and by TCP itself where
 * not: bursts would show as queueing delay.
 */
#include <linux/build_bug.h>
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <net/tcp.h>

#include "knee_compat.h"
#include "knee_lola.h"
#include "uapi/knee_diag.h"

static struct knee_lola_params lola_params __read_mostly = KNEE_LOLA_DEFAULTS;

KNEE_PARAM(lola_params, q_low, 1, 100000000,
	   "queueing delay that shows a full link, us");
KNEE_PARAM(lola_params, q_target, 1, 100000000,
	   "queueing delay that ends a round, us");
KNEE_PARAM(lola_params, t_sync, 1, 100000000,
	   "how long the window is held before the decrease, us");
KNEE_PARAM(lola_params, t_measure, 1, 100000000,
	   "span of the minimum filter of the RTT, us");
KNEE_PARAM(lola_params, gamma, 1, 1024,
	   "further factor of tailored decrease, 1/1024");
KNEE_PARAM(lola_params, phi, 10, 10240000,
	   "steepness of the fair amount of queued data, X = (t/phi)^3, 1/1024");
KNEE_PARAM(lola_params, c, 1, 102400, "factor C of the cubic function, 1/1024");
KNEE_PARAM(lola_params, min_rtt_resets, 1, 4294967295,
	   "decreases without RTT_min until it is reset");
KNEE_PARAM(lola_params, min_rtt_close, 1, 100000000,
	   "how close an RTT confirms RTT_min, us");
KNEE_PARAM(lola_params, beta, 1, 1023,
	   "what a loss leaves of the window, 1/1024");
KNEE_PARAM(lola_params, fast_convergence, 0, 1,
	   "lower CWnd_max where losses come earlier");
KNEE_PARAM(lola_params, filter_slow_start, 0, 1,
	   "slow start sees the filtered RTT");

static void lola_init(struct sock *sk)
{
	knee_lola_init(inet_csk_ca(sk), tcp_sk(sk)->tcp_mstamp);
	/* Unless the qdisc already paces. */
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* The slow paths are apart: on the fast ones, no register is saved for them. */
static noinline void lola_slow_sample(struct sock *sk, u32 rtt_us)
{
	knee_lola_sample(inet_csk_ca(sk), &lola_params, tcp_sk(sk)->tcp_mstamp,
			 rtt_us);
}

static void lola_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	if (sample->rtt_us >= 0 &&
	    !knee_lola_fast_sample(inet_csk_ca(sk), tcp_sk(sk)->tcp_mstamp,
				   sample->rtt_us))
		lola_slow_sample(sk, sample->rtt_us);
}

static noinline void lola_slow_ack(struct sock *sk, u32 acked, bool limited)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_lola_ack a = {
		.now = tp->tcp_mstamp,
		.acked = acked,
		.mss = tp->mss_cache,
		.limited = limited,
		.cwnd = tcp_snd_cwnd(tp),
		.ssthresh = tp->snd_ssthresh,
	};

	knee_lola_on_ack(inet_csk_ca(sk), &lola_params, &a);
	if (a.cwnd != tcp_snd_cwnd(tp)) {
		if (a.cwnd < tcp_snd_cwnd(tp))
			tp->snd_cwnd_cnt = 0;
		tcp_snd_cwnd_set(tp, min(a.cwnd, tp->snd_cwnd_clamp));
	}
	tp->snd_ssthresh = a.ssthresh;
	if (a.count)
		tcp_cong_avoid_ai(tp, a.count, acked);
}

static void lola_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	const struct knee_lola *l = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	bool limited = tcp_is_cwnd_limited(sk);

	if (knee_lola_is_due(l, tp->tcp_mstamp, limited))
		lola_slow_ack(sk, acked, limited);
	else if (l->count)
		tcp_cong_avoid_ai(tp, l->count, acked);
}

static u32 lola_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return knee_lola_on_loss(inet_csk_ca(sk), &lola_params, tp->tcp_mstamp,
				 tcp_snd_cwnd(tp));
}

static void lola_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		knee_lola_on_timeout(inet_csk_ca(sk), tcp_sk(sk)->tcp_mstamp);
}

static void lola_tx_start(struct sock *sk)
{
	knee_lola_on_restart(inet_csk_ca(sk), tcp_sk(sk)->tcp_mstamp,
			     knee_idle_us(tcp_sk(sk)));
}

static void lola_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_COMPLETE_CWR)
		knee_lola_on_reduced(inet_csk_ca(sk), &lola_params,
				     tcp_sk(sk)->tcp_mstamp);
	else if (!KNEE_HAS_TX_START && event == CA_EVENT_TX_START)
		lola_tx_start(sk);
}

static size_t lola_get_info(struct sock *sk, u32 ext, int *attr,
			    union tcp_cc_info *info)
{
	const struct knee_lola *l = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct tcp_lola_info *out = (struct tcp_lola_info *)info;
	u64 cwnd = (u64)tcp_snd_cwnd(tp) * tp->mss_cache;

	BUILD_BUG_ON(sizeof(*out) > sizeof(*info));
	if (!(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	out->enabled = 1;
	out->phase = knee_lola_phase(l);
	out->rtt_now = min_t(u32, l->rtt_now, KNEE_DIAG_NONE);
	out->rtt_min = min_t(u32, l->rtt_min, KNEE_DIAG_NONE);
	out->q_data = min_t(u64, knee_lola_q_data(cwnd, l->rtt_now, l->rtt_min),
			    U32_MAX);
	*attr = INET_DIAG_VEGASINFO;
	return sizeof(*out);
}

static struct tcp_congestion_ops tcp_lola __read_mostly = {
	.init		= lola_init,
	.ssthresh	= lola_ssthresh,
	.cong_avoid	= lola_cong_avoid,
	.set_state	= lola_set_state,
	.cwnd_event	= lola_cwnd_event,
#if KNEE_HAS_TX_START
	.cwnd_event_tx_start = lola_tx_start,
#endif
	.pkts_acked	= lola_pkts_acked,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.get_info	= lola_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "lola",
	.owner		= THIS_MODULE,
};

static int __init lola_register(void)
{
	BUILD_BUG_ON(sizeof(struct knee_lola) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&tcp_lola);
}

static void __exit lola_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_lola);
}

module_init(lola_register);
module_exit(lola_unregister);

MODULE_AUTHOR("The knee authors");
MODULE_DESCRIPTION("TCP LoLa");
MODULE_LICENSE("Dual BSD/GPL");
