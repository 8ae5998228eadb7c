/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What sch_cocoa shows over netlink: options, statistics and flows. */
#ifndef COCOA_SHOW_H
#define COCOA_SHOW_H

#include <linux/ktime.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "cocoa_flow.h"

/* Buckets that are looked at while packets wait. */
#define COCOA_SHOW_PART	1024

/* Microseconds of `ns` for statistics. */
static inline u32 cocoa_us(u64 ns)
{
	return min_t(u64, div_u64(ns, NSEC_PER_USEC), U32_MAX);
}

static int cocoa_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	const struct cocoa_sched_data *q = qdisc_priv(sch);
	u64 ce_threshold = READ_ONCE(q->ce_threshold);
	struct nlattr *opts = nla_nest_start(skb, TCA_OPTIONS);

	if (!opts)
		return -EMSGSIZE;
	/* Whoever changes the options holds a lock that this does not. */
	if (ce_threshold == U64_MAX)
		ce_threshold = 0;
	if (nla_put_u32(skb, TCA_COCOA_LIMIT, READ_ONCE(sch->limit)) ||
	    nla_put_u32(skb, TCA_COCOA_FLOW_LIMIT,
			READ_ONCE(q->params.initial_buffer)) ||
	    nla_put_u32(skb, TCA_COCOA_QUANTUM, READ_ONCE(q->quantum)) ||
	    nla_put_u32(skb, TCA_COCOA_INITIAL_QUANTUM,
			READ_ONCE(q->initial_quantum)) ||
	    nla_put_u32(skb, TCA_COCOA_REFILL_DELAY,
			cocoa_us(READ_ONCE(q->refill_delay))) ||
	    nla_put_u32(skb, TCA_COCOA_ORPHAN_MASK,
			READ_ONCE(q->flows.mask)) ||
	    nla_put_u64_64bit(skb, TCA_COCOA_FLOW_MAX_RATE,
			      READ_ONCE(q->flow_max_rate), TCA_COCOA_PAD) ||
	    nla_put_u64_64bit(skb, TCA_COCOA_LOW_RATE_THRESHOLD,
			      READ_ONCE(q->low_rate_threshold),
			      TCA_COCOA_PAD) ||
	    nla_put_u32(skb, TCA_COCOA_CE_THRESHOLD, cocoa_us(ce_threshold)) ||
	    nla_put_u32(skb, TCA_COCOA_MULTIPLIER,
			READ_ONCE(q->params.multiplier)) ||
	    nla_put_u32(skb, TCA_COCOA_MAX_INCREASE,
			READ_ONCE(q->params.max_increase)) ||
	    nla_put_u32(skb, TCA_COCOA_MAX_GUARD_INTERVAL,
			cocoa_us(READ_ONCE(q->params.max_guard))) ||
	    nla_put_u32(skb, TCA_COCOA_MAX_GUARD_RTTS,
			READ_ONCE(q->params.max_guard_rtts)) ||
	    nla_put_u32(skb, TCA_COCOA_BASE_RTT,
			cocoa_us(READ_ONCE(q->params.base_rtt))) ||
	    nla_put_u8(skb, TCA_COCOA_LEARN_INITIAL,
		       READ_ONCE(q->params.learn_initial)) ||
	    nla_put_u32(skb, TCA_COCOA_MEMORY_LIMIT,
			READ_ONCE(q->memory_limit))) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

/*
 * The buffers of the flows. The table is looked at in parts, so that packets
 * wait for one part at most; flows may come and go in between.
 */
static void cocoa_buffers(struct Qdisc *sch, struct tc_cocoa_qd_stats *st)
{
	const struct cocoa_sched_data *q = qdisc_priv(sch);
	u32 begin, bucket, end, count = 0;
	u64 sum = 0;

	for (begin = 0; begin <= q->flows.mask; begin = end) {
		end = min(begin + COCOA_SHOW_PART, q->flows.mask + 1);
		sch_tree_lock(sch);
		for (bucket = begin; bucket < end; bucket++) {
			const struct cocoa_flow *f = q->flows.table[bucket];
			u32 buffer;

			if (!f)
				continue;
			buffer = f->cocoa.buffer;
			if (!count || buffer < st->buffer_min)
				st->buffer_min = buffer;
			st->buffer_max = max(st->buffer_max, buffer);
			sum += buffer;
			count++;
		}
		sch_tree_unlock(sch);
	}
	st->buffer_mean = count ? div_u64(sum, count) : 0;
}

static int cocoa_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	struct tc_cocoa_xstats st = { .type = TCA_COCOA_XSTATS_QDISC };

	sch_tree_lock(sch);
	st.qdisc = q->stats;
	st.qdisc.flows = q->flows.count;
	st.qdisc.inactive_flows = q->flows.idle_count;
	st.qdisc.throttled_flows = q->flows.paced_count;
	st.qdisc.memory = q->memory;
	st.qdisc.learned_buffer =
		(q->learned.buffer + KNEE_COCOA_ONE / 2) >> 16;
	sch_tree_unlock(sch);
	cocoa_buffers(sch, &st.qdisc);
	return gnet_stats_copy_app(d, &st, sizeof(st));
}

/*
 * A flow is shown as a class whose minor number is its bucket + 1; those beyond
 * 2^16 - 2 are not.
 */
static struct Qdisc *cocoa_leaf(struct Qdisc *sch, unsigned long cl)
{
	return NULL;
}

static unsigned long cocoa_find(struct Qdisc *sch, u32 classid)
{
	return 0;
}

static int cocoa_dump_class(struct Qdisc *sch, unsigned long cl,
			    struct sk_buff *skb, struct tcmsg *tcm)
{
	tcm->tcm_handle |= TC_H_MIN(cl);
	return 0;
}

static int cocoa_dump_class_stats(struct Qdisc *sch, unsigned long cl,
				  struct gnet_dump *d)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	struct tc_cocoa_xstats st = { .type = TCA_COCOA_XSTATS_CLASS };
	struct gnet_stats_queue qs = {};
	const struct cocoa_flow *f;

	sch_tree_lock(sch);
	f = cl - 1 <= q->flows.mask ? q->flows.table[cl - 1] : NULL;
	if (f) {
		s64 left = div_s64(f->cocoa.guard_end - ktime_get_ns(),
				   NSEC_PER_USEC);

		st.flow.buffer = f->cocoa.buffer;
		st.flow.longest_interval = cocoa_us(f->cocoa.longest);
		if (f->cocoa.guard_end)
			st.flow.guard_left =
				clamp_t(s64, left, S32_MIN, S32_MAX);
		st.flow.credit = f->credit;
		st.flow.idle = cocoa_us(f->cocoa.idle);
		st.flow.enlarged = f->cocoa.enlarged;
		qs.backlog = f->backlog;
		qs.qlen = f->qlen;
	}
	sch_tree_unlock(sch);
	if (gnet_stats_copy_queue(d, NULL, &qs, qs.qlen) < 0)
		return -1;
	return f ? gnet_stats_copy_app(d, &st, sizeof(st)) : 0;
}

static void cocoa_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	u32 bucket;

	for (bucket = 0; !walker->stop && bucket <= min(q->flows.mask, 0xfffdu);
	     bucket++) {
		if (!q->flows.table[bucket])
			continue;
		if (walker->count >= walker->skip &&
		    walker->fn(sch, bucket + 1, walker) < 0)
			walker->stop = 1;
		else
			walker->count++;
	}
}

static const struct Qdisc_class_ops cocoa_class_ops = {
	.leaf		= cocoa_leaf,
	.find		= cocoa_find,
	.walk		= cocoa_walk,
	.dump		= cocoa_dump_class,
	.dump_stats	= cocoa_dump_class_stats,
};

#endif
