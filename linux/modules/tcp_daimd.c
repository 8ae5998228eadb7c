// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Delay-based AIMD: a sawtooth that turns at a queueing delay rather than at a
 * loss, and cuts just what is queued.
 *
 * This file ties knee_daimd.h, where the algorithm is, to a socket.
 */
#include <linux/build_bug.h>
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <net/tcp.h>

#include "knee_compat.h"
#include "knee_daimd.h"
#include "uapi/knee_diag.h"

static struct knee_daimd_params daimd_params __read_mostly =
	KNEE_DAIMD_DEFAULTS;

KNEE_PARAM(daimd_params, tau0, 1, 10000000,
	   "base threshold: queueing delay at which to back off, us");
KNEE_PARAM(daimd_params, w0, 0, 1048576,
	   "no delay backoff up to this window, packets");
KNEE_PARAM(daimd_params, increase, 0, 3,
	   "alpha: 0 H-TCP's of Eq. 2, 1 of H-TCP's draft, 2 Reno's, 3 Scalable TCP's");
KNEE_PARAM(daimd_params, scale_increase, 0, 1, "scale alpha by 2 (1 - beta)");
KNEE_PARAM(daimd_params, adaptive_backoff, 0, 1,
	   "beta from the RTTs; else the fixed one");
KNEE_PARAM(daimd_params, delta, 10000, 1000000,
	   "how far below RTT_min a backoff aims, 10^-6");
KNEE_PARAM(daimd_params, beta_max, 10000, 1000000, "greatest beta, 10^-6");
KNEE_PARAM(daimd_params, beta, 10000, 990000,
	   "beta where it is not adaptive, 10^-6");
KNEE_PARAM(daimd_params, loss_backoff, 0, 1,
	   "a loss leaves 0 beta, 1 half of the window");
KNEE_PARAM(daimd_params, gamma, 0, 1000000,
	   "weight of RTT_max - RTT_min in the raised threshold, 10^-6");
KNEE_PARAM(daimd_params, backoff_threshold, 0, 1,
	   "back off at 0 the base threshold, 1 the raised one");
KNEE_PARAM(daimd_params, decay, 0, 1000000,
	   "decay of RTT_max per round trip, in 10^-6 of the RTT");
KNEE_PARAM(daimd_params, hold, 0, 1,
	   "increase only up to the raised threshold");
KNEE_PARAM(daimd_params, delta0_mode, 0, 1,
	   "least time between delay backoffs: 0 proportional, 1 fixed");
KNEE_PARAM(daimd_params, delta0_factor, 0, 4294967295,
	   "proportional Delta0 over RTT_max - RTT_min, 10^-6");
KNEE_PARAM(daimd_params, delta0, 0, 3600000000, "fixed Delta0, us");
KNEE_PARAM(daimd_params, slow_start, 0, 2,
	   "slow start: 0 limited, 1 standard, 2 off");
KNEE_PARAM(daimd_params, fixed_backoffs, 0, 1073741824,
	   "number of first backoffs that use the fixed beta");
KNEE_PARAM(daimd_params, rtt_min_initial, 0, 10000000,
	   "RTT_min until the first backoff, us; 0: measured");

static void daimd_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	knee_daimd_init(inet_csk_ca(sk), &daimd_params, tp->tcp_mstamp);
	if (READ_ONCE(daimd_params.slow_start) == KNEE_DAIMD_OFF)
		tp->snd_ssthresh = tcp_snd_cwnd(tp);
}

/* The slow paths are apart: on the fast ones, no register is saved for them. */
static noinline void daimd_slow_sample(struct sock *sk, u32 rtt_us, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	knee_daimd_sample(inet_csk_ca(sk), &daimd_params, tp->tcp_mstamp,
			  rtt_us, acked, tp->snd_una, tcp_snd_cwnd(tp),
			  tp->snd_ssthresh);
}

static void daimd_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (sample->rtt_us >= 0 &&
	    !knee_daimd_fast_sample(inet_csk_ca(sk), tp->tcp_mstamp,
				    sample->rtt_us, sample->pkts_acked,
				    tcp_snd_cwnd(tp), tp->snd_ssthresh))
		daimd_slow_sample(sk, sample->rtt_us,
				  sample->pkts_acked);
}

static struct knee_daimd_ack daimd_ack(const struct sock *sk, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct knee_daimd_ack){
		.now = tp->tcp_mstamp,
		.acked = acked,
		.snd_nxt = tp->snd_nxt,
		.limited = tcp_is_cwnd_limited(sk),
		.cwnd = tcp_snd_cwnd(tp),
		.ssthresh = tp->snd_ssthresh,
	};
}

static noinline void daimd_slow_ack(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct knee_daimd_ack a = daimd_ack(sk, acked);

	knee_daimd_on_ack(inet_csk_ca(sk), &daimd_params, &a);
	if (a.cwnd != tcp_snd_cwnd(tp)) {
		if (a.cwnd < tcp_snd_cwnd(tp))
			tp->snd_cwnd_cnt = 0;
		tcp_snd_cwnd_set(tp, min(a.cwnd, tp->snd_cwnd_clamp));
	}
	tp->snd_ssthresh = a.ssthresh;
}

static void daimd_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct knee_daimd_ack a = daimd_ack(sk, acked);

	if (!knee_daimd_fast_ack(inet_csk_ca(sk), &daimd_params, &a))
		daimd_slow_ack(sk, acked);
}

static u32 daimd_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return knee_daimd_on_loss(inet_csk_ca(sk), &daimd_params,
				  tp->tcp_mstamp, tp->snd_nxt,
				  tcp_snd_cwnd(tp));
}

static void daimd_tx_start(struct sock *sk)
{
	knee_daimd_on_restart(inet_csk_ca(sk), tcp_sk(sk)->tcp_mstamp,
			      knee_idle_us(tcp_sk(sk)));
}

static void daimd_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (!KNEE_HAS_TX_START && event == CA_EVENT_TX_START)
		daimd_tx_start(sk);
}

static size_t daimd_get_info(struct sock *sk, u32 ext, int *attr,
			     union tcp_cc_info *info)
{
	const struct knee_daimd *d = inet_csk_ca(sk);
	struct tcp_daimd_info *out = (struct tcp_daimd_info *)info;

	BUILD_BUG_ON(sizeof(*out) > sizeof(*info));
	if (!(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	out->enabled = 1;
	out->phase = !tcp_in_slow_start(tcp_sk(sk));
	out->srtt = d->srtt ? div_u64(d->srtt, NSEC_PER_USEC) : KNEE_DIAG_NONE;
	out->rtt_min =
		min_t(u64, div_u64(d->rtt_min, NSEC_PER_USEC), KNEE_DIAG_NONE);
	out->tau0 = div_u64(d->raised, NSEC_PER_USEC);
	*attr = INET_DIAG_VEGASINFO;
	return sizeof(*out);
}

static struct tcp_congestion_ops tcp_daimd __read_mostly = {
	.init		= daimd_init,
	.ssthresh	= daimd_ssthresh,
	.cong_avoid	= daimd_cong_avoid,
	.cwnd_event	= daimd_cwnd_event,
#if KNEE_HAS_TX_START
	.cwnd_event_tx_start = daimd_tx_start,
#endif
	.pkts_acked	= daimd_pkts_acked,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.get_info	= daimd_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "daimd",
	.owner		= THIS_MODULE,
};

static int __init daimd_register(void)
{
	BUILD_BUG_ON(sizeof(struct knee_daimd) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&tcp_daimd);
}

static void __exit daimd_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_daimd);
}

module_init(daimd_register);
module_exit(daimd_unregister);

MODULE_AUTHOR("The knee authors");
MODULE_DESCRIPTION("Delay-based AIMD");
MODULE_LICENSE("Dual BSD/GPL");
