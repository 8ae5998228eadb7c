/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * Options and statistics of the queue discipline cocoa, over netlink. knee's
 * Python reads this file's constants (python/knee/kernel/qdisc.py); a test
 * compares the two.
 */
#ifndef KNEE_PKT_SCHED_H
#define KNEE_PKT_SCHED_H

#include <linux/types.h>

/* Within TCA_OPTIONS. Factors have 16 bits behind the point. */
enum {
	TCA_COCOA_UNSPEC,
	TCA_COCOA_LIMIT,		/* u32: total packets */
	TCA_COCOA_FLOW_LIMIT,		/* u32: first buffer, packets */
	TCA_COCOA_QUANTUM,		/* u32: bytes per round */
	TCA_COCOA_INITIAL_QUANTUM,	/* u32: bytes of a new flow */
	TCA_COCOA_REFILL_DELAY,		/* u32: us */
	TCA_COCOA_ORPHAN_MASK,		/* u32: bits of the hash in use */
	TCA_COCOA_FLOW_MAX_RATE,	/* u64: bytes/s, 0: off */
	TCA_COCOA_LOW_RATE_THRESHOLD,	/* u64: bytes/s */
	TCA_COCOA_CE_THRESHOLD,		/* u32: us, 0: off */
	TCA_COCOA_MULTIPLIER,		/* u32: factor */
	TCA_COCOA_MAX_INCREASE,		/* u32: factor */
	TCA_COCOA_MAX_GUARD_INTERVAL,	/* u32: us */
	TCA_COCOA_MAX_GUARD_RTTS,	/* u32: factor, 0: off */
	TCA_COCOA_BASE_RTT,		/* u32: us */
	TCA_COCOA_LEARN_INITIAL,	/* u8: 0 or 1 */
	TCA_COCOA_PAD,
	TCA_COCOA_MEMORY_LIMIT,		/* u32: bytes */
	__TCA_COCOA_MAX
};

#define TCA_COCOA_MAX	(__TCA_COCOA_MAX - 1)

/* Of the qdisc. Numbers since it was added if not said otherwise. */
struct tc_cocoa_qd_stats {
	__u64 enlargements;	/* of a buffer, as the queue ran empty */
	__u64 reductions;	/* of a buffer, by a standing queue */
	__u64 guard_intervals;	/* begun */
	__u64 intervals;	/* between losses, ended */
	__u64 limit_drops;	/* packets: the qdisc was full */
	__u64 flow_drops;	/* packets: the flow's buffer was full */
	__u64 trim_drops;	/* packets: beyond a buffer that was reduced */
	__u64 ce_marks;		/* packets */
	__u64 throttled;	/* times that pacing held a flow back */
	__u64 gc_flows;		/* idle flows forgotten */
	__u64 allocation_errors;	/* packets dropped for lack of memory */
	__u32 flows;		/* now */
	__u32 inactive_flows;	/* of them without a packet */
	__u32 throttled_flows;	/* of them held back by pacing */
	__u32 buffer_min;	/* least buffer of a flow now, packets */
	__u32 buffer_max;	/* greatest */
	__u32 buffer_mean;	/* mean, rounded down */
	__u32 learned_buffer;	/* packets, rounded; 0: nothing yet */
	__u32 longest_interval;	/* LI that the last GI follows, us */
	__u32 guard_interval;	/* length of the GI that began last, us */
	__u32 memory;		/* bytes of all packets now */
};

/* Of a flow, which is a class with the flow's bucket + 1 as minor number. */
struct tc_cocoa_cl_stats {
	__u32 buffer;		/* packets */
	__u32 longest_interval;	/* of this GI so far, us */
	__s32 guard_left;	/* until this GI may end, us; below 0: it may */
	__s32 credit;		/* bytes */
	__u32 idle;		/* in this interval, us */
	__u32 enlarged;		/* in this interval: 1 */
};

enum {
	TCA_COCOA_XSTATS_QDISC,
	TCA_COCOA_XSTATS_CLASS,
};

/*
 * TCA_STATS_APP of the qdisc and of its classes. The type says which part is
 * filled in; the other one is 0.
 */
struct tc_cocoa_xstats {
	__u32 type;
	__u32 reserved;		/* 0 */
	struct tc_cocoa_qd_stats qdisc;
	struct tc_cocoa_cl_stats flow;
};

#endif
