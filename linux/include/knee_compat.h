/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What differs between the kernels 6.1 to 7.2, in one place. */
#ifndef KNEE_COMPAT_H
#define KNEE_COMPAT_H

#include <linux/moduleparam.h>
#include <linux/version.h>
#include <net/sch_generic.h>
#include <net/tcp.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#include <net/gso.h>
#endif

/*
 * The first transmission after all was acknowledged has a hook of its own from
 * 7.1 on; before, it was one of the events of cwnd_event.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0)
#define KNEE_HAS_TX_START 1
#else
#define KNEE_HAS_TX_START 0
#endif

/* The ranges of netlink's policies are constant from 6.7 on. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define KNEE_RANGE static const struct netlink_range_validation
#else
#define KNEE_RANGE static struct netlink_range_validation
#endif

/* Makes a qdisc's notes on a segment those of a packet of its own. */
static inline void knee_set_single(struct sk_buff *segment)
{
	qdisc_skb_cb(segment)->pkt_len = segment->len;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	qdisc_skb_cb(segment)->pkt_segs = 1;
#endif
}

/*
 * For how long nothing was in flight, where nothing is: microseconds since the
 * last ACK that delivered something. Less than a millisecond is what the stack
 * takes from an ACK of the whole window to the packets that it allows.
 */
static inline u64 knee_idle_us(const struct tcp_sock *tp)
{
	if (tp->tcp_mstamp < tp->delivered_mstamp + 1000)
		return 0;
	return tp->tcp_mstamp - tp->delivered_mstamp;
}

/*
 * A module parameter: an unsigned number within a range, in a field of
 * `params`. What is outside is refused.
 */
#define KNEE_PARAM(params, name, min, max, description) \
	static int knee_set_##name(const char *text, \
				   const struct kernel_param *kp) \
	{ \
		return param_set_uint_minmax(text, kp, min, max); \
	} \
	static const struct kernel_param_ops knee_ops_##name = { \
		.set = knee_set_##name, \
		.get = param_get_uint, \
	}; \
	module_param_cb(name, &knee_ops_##name, &(params).name, 0644); \
	__MODULE_PARM_TYPE(name, "uint"); \
	MODULE_PARM_DESC(name, description " (" #min " to " #max ")")

#endif
