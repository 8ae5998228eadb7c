// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * cocoa: flow queueing with a buffer per flow that follows what the flow's
 * congestion control needs. knee_cocoa.h has the mechanism and its source,
 * cocoa_flow.h the flows, cocoa_show.h what can be seen of them; here is what
 * ties them to packets and settings.
 *
 * Flows are served by deficit round robin as in fq on a router: new flows
 * before old ones, once through their credit. Flows are told apart by the
 * packets' hash. Departure times that senders set (skb->tstamp, sk_pacing_rate)
 * are left to fq: a router does not see them.
 */
#include <linux/errno.h>
#include <linux/hashtable.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "cocoa_flow.h"
#include "cocoa_show.h"
#include "knee_compat.h"

/* The longest time for which pacing holds a packet back, as in fq. */
#define COCOA_MAX_GAP	NSEC_PER_SEC

static struct kmem_cache *cocoa_flow_cachep __read_mostly;

/* Forgets flows that have been idle for long, a few at a time. */
static void cocoa_forget_idle(struct cocoa_sched_data *q, u64 now)
{
	struct cocoa_flows *flows = &q->flows;
	struct cocoa_flow *f;
	int i;

	for (i = 0; i < COCOA_GC_MAX; i++) {
		f = list_first_entry_or_null(&flows->idle, struct cocoa_flow,
					     chain);
		if (!f || now <= f->idle_at + COCOA_REMEMBER_NS)
			break;
		list_del(&f->chain);
		flows->table[f->bucket] = NULL;
		flows->count--;
		flows->idle_count--;
		q->stats.gc_flows++;
		kmem_cache_free(cocoa_flow_cachep, f);
	}
	f = list_first_entry_or_null(&flows->idle, struct cocoa_flow, chain);
	flows->gc_at = f ? f->idle_at + COCOA_REMEMBER_NS + 1 : U64_MAX;
}

static struct cocoa_flow *cocoa_new_flow(struct cocoa_sched_data *q, u32 bucket,
					 u64 now)
{
	struct cocoa_flow *f =
		kmem_cache_zalloc(cocoa_flow_cachep, GFP_ATOMIC | __GFP_NOWARN);

	if (unlikely(!f))
		return NULL;
	f->bucket = bucket;
	f->credit = q->initial_quantum;
	knee_cocoa_init(&f->cocoa, knee_cocoa_initial(&q->params, &q->learned),
			now);
	INIT_LIST_HEAD(&f->chain);
	cocoa_put_idle(&q->flows, f, now);
	q->flows.table[bucket] = f;
	q->flows.count++;
	q->flows.idle_count++;
	return f;
}

static struct cocoa_flow *cocoa_classify(struct cocoa_sched_data *q,
					 struct sk_buff *skb, u64 now)
{
	u32 bucket = cocoa_bucket(q, skb);
	struct cocoa_flow *f;

	if (unlikely(now >= q->flows.gc_at))
		cocoa_forget_idle(q, now);
	f = q->flows.table[bucket];
	return likely(f) ? f : cocoa_new_flow(q, bucket, now);
}

/* Drops what a flow holds beyond its buffer. */
static void cocoa_trim(struct Qdisc *sch, struct cocoa_flow *f,
		       struct sk_buff **to_free)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = cocoa_cut(f, f->cocoa.buffer), *next;

	for (; skb; skb = next) {
		next = skb->next;
		f->backlog -= qdisc_pkt_len(skb);
		q->memory -= cocoa_cb(skb)->memory;
		q->stats.trim_drops++;
		sch->q.qlen--;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_drop(skb, sch, to_free);
	}
}

/* The flow's buffer is full. Returns whether the packet is queued anyway. */
static bool cocoa_full(struct Qdisc *sch, struct cocoa_flow *f, u64 now,
		       struct sk_buff **to_free)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	u64 longest = f->cocoa.longest, start = f->cocoa.start;
	u32 before = f->cocoa.buffer;
	bool enlarged = f->cocoa.enlarged;
	enum knee_cocoa_branch branch;

	branch = knee_cocoa_on_full(&f->cocoa, &q->params, &q->learned, now);
	if (branch == KNEE_COCOA_ENLARGE) {
		q->stats.enlargements++;
		return true;
	}
	q->stats.flow_drops++;
	q->stats.intervals++;
	if (branch == KNEE_COCOA_LOSS)
		return false;
	q->stats.guard_intervals++;
	q->stats.longest_interval =
		cocoa_us(enlarged ? now - start : max(longest, now - start));
	q->stats.guard_interval = cocoa_us(f->cocoa.guard_end - now);
	if (branch == KNEE_COCOA_REDUCE && f->cocoa.buffer < before) {
		q->stats.reductions++;
		cocoa_trim(sch, f, to_free);
	}
	return false;
}

/* Whether no packet is taken, whatever its flow. */
static bool cocoa_at_limit(struct Qdisc *sch)
{
	const struct cocoa_sched_data *q = qdisc_priv(sch);

	return sch->q.qlen >= sch->limit || q->memory >= q->memory_limit;
}

/* Queues a packet, or drops it. Returns whether it is queued. */
static bool cocoa_admit(struct Qdisc *sch, struct cocoa_flow *f,
			struct sk_buff *skb, u64 now, struct sk_buff **to_free)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);

	if (unlikely(cocoa_at_limit(sch))) {
		q->stats.limit_drops++;
		qdisc_drop(skb, sch, to_free);
		return false;
	}
	if (unlikely(f->qlen >= f->cocoa.buffer)) {
		if (!cocoa_full(sch, f, now, to_free)) {
			qdisc_drop(skb, sch, to_free);
			return false;
		}
	} else {
		knee_cocoa_on_arrival(&f->cocoa, now);
	}
	cocoa_cb(skb)->enqueued = now;
	cocoa_cb(skb)->memory = skb->truesize;
	q->memory += skb->truesize;
	cocoa_push(&q->flows, f, skb);
	if (f->place == COCOA_IDLE) {
		if (now > f->idle_at + q->refill_delay)
			f->credit = max_t(s32, f->credit, q->quantum);
		cocoa_put(&q->flows.new, COCOA_NEW, f);
	}
	qdisc_qstats_backlog_inc(sch, skb);
	sch->q.qlen++;
	return true;
}

/*
 * Queues the segments of an offloaded packet one by one: buffers count packets
 * of the link. Returns whether one is queued.
 */
static bool cocoa_admit_segments(struct Qdisc *sch, struct cocoa_flow *f,
				 struct sk_buff *skb, u64 now,
				 struct sk_buff **to_free)
{
	netdev_features_t features = netif_skb_features(skb);
	struct sk_buff *segments, *segment, *next;
	bool queued = false;

	segments = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segments)) {
		qdisc_drop(skb, sch, to_free);
		return false;
	}
	skb_list_walk_safe(segments, segment, next) {
		skb_mark_not_on_list(segment);
		knee_set_single(segment);
		queued |= cocoa_admit(sch, f, segment, now, to_free);
	}
	consume_skb(skb);
	return queued;
}

static int cocoa_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			 struct sk_buff **to_free)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	int packets = sch->q.qlen, bytes = sch->qstats.backlog;
	unsigned int length = qdisc_pkt_len(skb);
	struct cocoa_flow *f;
	bool queued;
	u64 now;

	if (unlikely(cocoa_at_limit(sch))) {
		q->stats.limit_drops++;
		return qdisc_drop(skb, sch, to_free);
	}
	now = ktime_get_ns();
	f = cocoa_classify(q, skb, now);
	if (unlikely(!f)) {
		q->stats.allocation_errors++;
		return qdisc_drop(skb, sch, to_free);
	}
	if (skb_is_gso(skb))
		queued = cocoa_admit_segments(sch, f, skb, now, to_free);
	else
		queued = cocoa_admit(sch, f, skb, now, to_free);

	/*
	 * Parents count a packet of this length, but only if it is queued.
	 * Their counts must not reach 0 in between: that would make them idle.
	 */
	packets = sch->q.qlen - packets;
	bytes = sch->qstats.backlog - bytes;
	if (packets > 0) {
		if (packets > 1 || bytes != length)
			qdisc_tree_reduce_backlog(sch, 1 - packets,
						  length - bytes);
		return NET_XMIT_SUCCESS;
	}
	if (packets || bytes)
		qdisc_tree_reduce_backlog(sch, -packets, -bytes);
	return queued ? NET_XMIT_CN : NET_XMIT_DROP;
}

/* Sets when a paced flow may send again after `bytes`. */
static void cocoa_pace(struct cocoa_sched_data *q, struct cocoa_flow *f,
		       u32 bytes, u64 now)
{
	u64 gap;

	if (q->flow_max_rate <= q->low_rate_threshold) {
		f->credit = 0;
	} else {
		if (f->credit > 0)
			return;
		bytes = max(bytes, q->quantum);
	}
	/* bytes < 2^32, so that the product is below 2^62. */
	gap = min_t(u64, div64_u64((u64)bytes * NSEC_PER_SEC, q->flow_max_rate),
		    COCOA_MAX_GAP);
	/* Compensates for a packet sent late, by at most half a gap. */
	if (f->next_packet_at)
		gap -= min(gap / 2, now - f->next_packet_at);
	f->next_packet_at = now + gap;
}

/* Takes the packet at the head of a flow out of the qdisc. */
static struct sk_buff *cocoa_take(struct Qdisc *sch, struct cocoa_flow *f,
				  u64 now)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = cocoa_pop(&q->flows, f);

	if (!skb)
		return NULL;
	knee_cocoa_on_departure(&f->cocoa, f->qlen, now,
				now - cocoa_cb(skb)->enqueued);
	q->memory -= cocoa_cb(skb)->memory;
	qdisc_qstats_backlog_dec(sch, skb);
	sch->q.qlen--;
	return skb;
}

/* The flow whose turn it is. */
static struct cocoa_flow *cocoa_turn(struct cocoa_flows *flows)
{
	struct cocoa_flow *f =
		list_first_entry_or_null(&flows->new, struct cocoa_flow, chain);

	if (f)
		return f;
	return list_first_entry_or_null(&flows->old, struct cocoa_flow, chain);
}

/* A flow is empty at its turn: a new one becomes old, an old one idle. */
static void cocoa_pass(struct cocoa_flows *flows, struct cocoa_flow *f, u64 now)
{
	if (f->place == COCOA_NEW)
		cocoa_put(&flows->old, COCOA_OLD, f);
	else
		cocoa_put_idle(flows, f, now);
}

static struct sk_buff *cocoa_dequeue(struct Qdisc *sch)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	struct cocoa_flows *flows = &q->flows;
	struct cocoa_flow *f;
	struct sk_buff *skb;
	u64 now;

	if (!sch->q.qlen)
		return NULL;
	now = ktime_get_ns();
	if (unlikely(flows->paced_count))
		cocoa_release_paced(flows, now);
	while ((f = cocoa_turn(flows))) {
		u64 due = f->next_packet_at;

		if (f->credit <= 0) {
			f->credit += q->quantum;
			cocoa_put(&flows->old, COCOA_OLD, f);
			continue;
		}
		if (unlikely(due > now) && f->head) {
			q->stats.throttled++;
			cocoa_put_paced(flows, f);
			continue;
		}
		skb = cocoa_take(sch, f, now);
		if (!skb) {
			cocoa_pass(flows, f, now);
			continue;
		}
		if (unlikely(now - max(due, cocoa_cb(skb)->enqueued) >
			     q->ce_threshold) &&
		    INET_ECN_set_ce(skb))
			q->stats.ce_marks++;
		f->credit -= qdisc_pkt_len(skb);
		if (unlikely(q->flow_max_rate))
			cocoa_pace(q, f, qdisc_pkt_len(skb), now);
		qdisc_bstats_update(sch, skb);
		return skb;
	}
	if (flows->paced_count) {
		f = rb_entry(rb_first_cached(&flows->paced), struct cocoa_flow,
			     paced_node);
		qdisc_watchdog_schedule_ns(&q->watchdog, f->next_packet_at);
	}
	return NULL;
}

static void cocoa_reset(struct Qdisc *sch)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	u32 bucket;

	qdisc_watchdog_cancel(&q->watchdog);
	for (bucket = 0; q->flows.table && bucket <= q->flows.mask; bucket++) {
		struct cocoa_flow *f = q->flows.table[bucket];

		if (!f)
			continue;
		if (f->head)
			rtnl_kfree_skbs(f->head, f->tail);
		kmem_cache_free(cocoa_flow_cachep, f);
		q->flows.table[bucket] = NULL;
	}
	cocoa_flows_init(&q->flows);
	q->learned.buffer = 0;
	q->memory = 0;
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

static bool cocoa_beyond_limit(struct Qdisc *sch)
{
	const struct cocoa_sched_data *q = qdisc_priv(sch);

	return sch->q.qlen > sch->limit || q->memory > q->memory_limit;
}

/* Drops at the heads of the flows in turn until the limits hold. */
static void cocoa_shed(struct Qdisc *sch)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	unsigned int packets = 0, bytes = 0;
	u64 now = ktime_get_ns();
	struct cocoa_flow *f;

	/* The caller has it by sch_tree_lock(). */
	lockdep_assert_held(qdisc_root_sleeping_lock(sch));
	/* Paced flows lose packets too; their turn holds them back again. */
	if (cocoa_beyond_limit(sch))
		cocoa_release_paced(&q->flows, U64_MAX);
	while (cocoa_beyond_limit(sch) && (f = cocoa_turn(&q->flows))) {
		struct sk_buff *skb = cocoa_take(sch, f, now);

		if (!skb) {
			cocoa_pass(&q->flows, f, now);
			continue;
		}
		cocoa_put(&q->flows.old, COCOA_OLD, f);
		packets++;
		bytes += qdisc_pkt_len(skb);
		q->stats.limit_drops++;
		qdisc_qstats_drop(sch);
		rtnl_kfree_skbs(skb, skb);
	}
	qdisc_tree_reduce_backlog(sch, packets, bytes);
}

/* At least that of fq_codel: each turn without a packet takes time. */
KNEE_RANGE cocoa_quantum_range = { .min = 256, .max = 1 << 20 };
KNEE_RANGE cocoa_initial_range = { .max = 1 << 20 };
KNEE_RANGE cocoa_memory_range = { .min = 1, .max = S32_MAX };
KNEE_RANGE cocoa_buffer_range = { .min = 1, .max = 1 << 30 };
KNEE_RANGE cocoa_mask_range = { .max = (1 << 20) - 1 };
KNEE_RANGE cocoa_increase_range = { .min = 1 << 16, .max = 100 << 16 };
KNEE_RANGE cocoa_multiplier_range = { .max = 100 << 16 };
KNEE_RANGE cocoa_rtts_range = { .max = 1000 << 16 };
KNEE_RANGE cocoa_guard_range = { .max = 1000 * USEC_PER_SEC };
KNEE_RANGE cocoa_rtt_range = { .max = 10 * USEC_PER_SEC };
/* The time for 2^20 bytes, and rates times nanoseconds, fit in 64 bits. */
KNEE_RANGE cocoa_rate_range = { .max = 125000000000000ull };

#define COCOA_RANGE(type, name)	\
	NLA_POLICY_FULL_RANGE(type, &cocoa_##name##_range)

static const struct nla_policy cocoa_policy[TCA_COCOA_MAX + 1] = {
	[TCA_COCOA_LIMIT]		= { .type = NLA_U32 },
	[TCA_COCOA_FLOW_LIMIT]		= COCOA_RANGE(NLA_U32, buffer),
	[TCA_COCOA_QUANTUM]		= COCOA_RANGE(NLA_U32, quantum),
	[TCA_COCOA_INITIAL_QUANTUM]	= COCOA_RANGE(NLA_U32, initial),
	[TCA_COCOA_REFILL_DELAY]	= { .type = NLA_U32 },
	[TCA_COCOA_ORPHAN_MASK]		= COCOA_RANGE(NLA_U32, mask),
	[TCA_COCOA_FLOW_MAX_RATE]	= COCOA_RANGE(NLA_U64, rate),
	[TCA_COCOA_LOW_RATE_THRESHOLD]	= COCOA_RANGE(NLA_U64, rate),
	[TCA_COCOA_CE_THRESHOLD]	= { .type = NLA_U32 },
	[TCA_COCOA_MULTIPLIER]		= COCOA_RANGE(NLA_U32, multiplier),
	[TCA_COCOA_MAX_INCREASE]	= COCOA_RANGE(NLA_U32, increase),
	[TCA_COCOA_MAX_GUARD_INTERVAL]	= COCOA_RANGE(NLA_U32, guard),
	[TCA_COCOA_MAX_GUARD_RTTS]	= COCOA_RANGE(NLA_U32, rtts),
	[TCA_COCOA_BASE_RTT]		= COCOA_RANGE(NLA_U32, rtt),
	[TCA_COCOA_LEARN_INITIAL]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_COCOA_MEMORY_LIMIT]	= COCOA_RANGE(NLA_U32, memory),
};

/* A dump reads the options without a lock. */
static void cocoa_set_u32(const struct nlattr *attr, u32 *value)
{
	if (attr)
		WRITE_ONCE(*value, nla_get_u32(attr));
}

static void cocoa_set_u64(const struct nlattr *attr, u64 *value)
{
	if (attr)
		WRITE_ONCE(*value, nla_get_u64(attr));
}

/* A time given in microseconds. */
static void cocoa_set_time(const struct nlattr *attr, u64 *value)
{
	if (attr)
		WRITE_ONCE(*value, (u64)nla_get_u32(attr) * NSEC_PER_USEC);
}

/* The qdisc that this one is a child of. */
static const struct Qdisc *cocoa_parent(const struct Qdisc *sch)
{
	const struct Qdisc *root = rtnl_dereference(qdisc_dev(sch)->qdisc);
	const struct Qdisc *q;
	int i;

	if (sch->parent == TC_H_ROOT || !root)
		return NULL;
	if (root->handle == TC_H_MAJ(sch->parent))
		return root;
	hash_for_each(qdisc_dev(root)->qdisc_hash, i, q, hash)
		if (q->handle == TC_H_MAJ(sch->parent))
			return q;
	return NULL;
}

/* Whether the parent wants a packet of each child that holds some: those that
 * call qdisc_warn_nonwc().
 */
static bool cocoa_must_conserve_work(const struct Qdisc *sch)
{
	static const char * const demanding[] = { "drr", "ets", "hfsc", "qfq" };
	const struct Qdisc *parent = cocoa_parent(sch);
	int i;

	for (i = 0; parent && i < ARRAY_SIZE(demanding); i++)
		if (!strcmp(parent->ops->id, demanding[i]))
			return true;
	return false;
}

static int cocoa_change(struct Qdisc *sch, struct nlattr *opt,
			struct netlink_ext_ack *extack)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_COCOA_MAX + 1];
	int err;

	err = nla_parse_nested(tb, TCA_COCOA_MAX, opt, cocoa_policy, extack);
	if (err < 0)
		return err;
	if (tb[TCA_COCOA_FLOW_MAX_RATE] &&
	    nla_get_u64(tb[TCA_COCOA_FLOW_MAX_RATE]) &&
	    cocoa_must_conserve_work(sch)) {
		NL_SET_ERR_MSG_MOD(extack,
				   "flow_max_rate holds packets back, which drr, ets, hfsc and qfq do not allow a child");
		return -EOPNOTSUPP;
	}
	if (tb[TCA_COCOA_ORPHAN_MASK] && q->flows.table &&
	    nla_get_u32(tb[TCA_COCOA_ORPHAN_MASK]) != q->flows.mask) {
		NL_SET_ERR_MSG_MOD(extack,
				   "orphan_mask can be set only when the qdisc is added");
		return -EOPNOTSUPP;
	}

	sch_tree_lock(sch);
	cocoa_set_u32(tb[TCA_COCOA_LIMIT], &sch->limit);
	cocoa_set_u32(tb[TCA_COCOA_MEMORY_LIMIT], &q->memory_limit);
	cocoa_set_u32(tb[TCA_COCOA_FLOW_LIMIT], &q->params.initial_buffer);
	cocoa_set_u32(tb[TCA_COCOA_QUANTUM], &q->quantum);
	cocoa_set_u32(tb[TCA_COCOA_INITIAL_QUANTUM], &q->initial_quantum);
	cocoa_set_time(tb[TCA_COCOA_REFILL_DELAY], &q->refill_delay);
	cocoa_set_u32(tb[TCA_COCOA_ORPHAN_MASK], &q->flows.mask);
	cocoa_set_u64(tb[TCA_COCOA_FLOW_MAX_RATE], &q->flow_max_rate);
	cocoa_set_u64(tb[TCA_COCOA_LOW_RATE_THRESHOLD], &q->low_rate_threshold);
	cocoa_set_time(tb[TCA_COCOA_CE_THRESHOLD], &q->ce_threshold);
	if (!q->ce_threshold)
		WRITE_ONCE(q->ce_threshold, U64_MAX);
	cocoa_set_u32(tb[TCA_COCOA_MULTIPLIER], &q->params.multiplier);
	cocoa_set_u32(tb[TCA_COCOA_MAX_INCREASE], &q->params.max_increase);
	cocoa_set_time(tb[TCA_COCOA_MAX_GUARD_INTERVAL], &q->params.max_guard);
	cocoa_set_u32(tb[TCA_COCOA_MAX_GUARD_RTTS], &q->params.max_guard_rtts);
	cocoa_set_time(tb[TCA_COCOA_BASE_RTT], &q->params.base_rtt);
	if (tb[TCA_COCOA_LEARN_INITIAL])
		WRITE_ONCE(q->params.learn_initial,
			   nla_get_u8(tb[TCA_COCOA_LEARN_INITIAL]));
	cocoa_shed(sch);
	sch_tree_unlock(sch);
	return 0;
}

static int cocoa_init(struct Qdisc *sch, struct nlattr *opt,
		      struct netlink_ext_ack *extack)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);
	u32 mtu = clamp_t(u32, psched_mtu(qdisc_dev(sch)), 128, 1 << 16);
	int err;

	cocoa_flows_init(&q->flows);
	qdisc_watchdog_init_clockid(&q->watchdog, sch, CLOCK_MONOTONIC);
	sch->limit = 10000;
	q->memory_limit = 32 << 20;
	q->perturbation = get_random_u32();
	q->flows.mask = 1023;
	q->quantum = 2 * mtu;
	q->initial_quantum = 10 * mtu;
	q->refill_delay = 40 * NSEC_PER_MSEC;
	q->low_rate_threshold = 550000 / 8;
	q->ce_threshold = U64_MAX;
	q->params.multiplier = KNEE_COCOA_ONE * 5 / 4;
	q->params.max_increase = KNEE_COCOA_ONE * 2;
	q->params.max_guard = NSEC_PER_SEC;
	q->params.base_rtt = 100 * NSEC_PER_MSEC;
	q->params.initial_buffer = 100;
	if (opt) {
		err = cocoa_change(sch, opt, extack);
		if (err)
			return err;
	}
	q->flows.table = kvcalloc(q->flows.mask + 1, sizeof(*q->flows.table),
				  GFP_KERNEL);
	return q->flows.table ? 0 : -ENOMEM;
}

/* Also after an init that failed. */
static void cocoa_destroy(struct Qdisc *sch)
{
	struct cocoa_sched_data *q = qdisc_priv(sch);

	cocoa_reset(sch);
	kvfree(q->flows.table);
}

static struct Qdisc_ops cocoa_qdisc_ops __read_mostly = {
	.id		= "cocoa",
	.cl_ops		= &cocoa_class_ops,
	.priv_size	= sizeof(struct cocoa_sched_data),
	.enqueue	= cocoa_enqueue,
	.dequeue	= cocoa_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= cocoa_init,
	.reset		= cocoa_reset,
	.destroy	= cocoa_destroy,
	.change		= cocoa_change,
	.dump		= cocoa_dump,
	.dump_stats	= cocoa_dump_stats,
	.owner		= THIS_MODULE,
};
MODULE_ALIAS("net-sch-cocoa");

static int __init cocoa_module_init(void)
{
	int err;

	cocoa_flow_cachep = KMEM_CACHE(cocoa_flow, 0);
	if (!cocoa_flow_cachep)
		return -ENOMEM;
	err = register_qdisc(&cocoa_qdisc_ops);
	if (err)
		kmem_cache_destroy(cocoa_flow_cachep);
	return err;
}

static void __exit cocoa_module_exit(void)
{
	unregister_qdisc(&cocoa_qdisc_ops);
	kmem_cache_destroy(cocoa_flow_cachep);
}

module_init(cocoa_module_init);
module_exit(cocoa_module_exit);

MODULE_AUTHOR("The knee authors");
MODULE_DESCRIPTION("cocoa: flow queueing with buffers sized by the congestion control");
MODULE_LICENSE("Dual BSD/GPL");
