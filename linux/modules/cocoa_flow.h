/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sch_cocoa's flows: a table with one place per value of the masked hash, and
 * the lists they are on.
 *
 *             packet comes                    credit spent, or empty
 *  idle flows ------------> new flows -------------------------------.
 *      ^                                                             v
 *      '------------------------- empty ---------------------- old flows <--.
 *                                                                |  '-------'
 *        paced flows (only with flow_max_rate) <--- not yet due -' credit
 *                                                        spent: + quantum
 */
#ifndef COCOA_FLOW_H
#define COCOA_FLOW_H

#include <linux/jhash.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/skbuff.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "knee_cocoa.h"
#include "uapi/knee_pkt_sched.h"

/* How long an idle flow is remembered; the authors' value. */
#define COCOA_REMEMBER_NS	(10 * (u64)NSEC_PER_SEC)
/* The most idle flows forgotten per packet, as in fq. */
#define COCOA_GC_MAX		8

enum cocoa_place {
	COCOA_IDLE,
	COCOA_NEW,
	COCOA_OLD,
	COCOA_PACED,
};

struct cocoa_flow {
	struct sk_buff		*head;
	struct sk_buff		*tail;		/* valid with a head */
	struct list_head	chain;		/* on new, old or idle flows */
	u32			qlen;
	u32			backlog;	/* bytes */
	s32			credit;		/* bytes, >= -2^20 - a packet */
	u32			bucket;
	u8			place;
	struct knee_cocoa	cocoa;
	u64			idle_at;	/* on the idle flows since */
	u64			next_packet_at;	/* paced; 0: never was */
	struct rb_node		paced_node;
};

/* All flows of a qdisc. */
struct cocoa_flows {
	struct cocoa_flow	**table;	/* mask + 1 places */
	u32			mask;
	u32			count;
	u32			idle_count;	/* without a packet, any list */
	u32			paced_count;
	struct list_head	new;
	struct list_head	old;
	struct list_head	idle;		/* longest idle first */
	struct rb_root_cached	paced;		/* by next_packet_at */
	u64			gc_at;		/* earliest time to forget */
};

/* What a qdisc has. */
struct cocoa_sched_data {
	struct cocoa_flows		flows;
	struct knee_cocoa_params	params;
	struct knee_cocoa_learned	learned;
	u32				perturbation;	/* of hashes */
	u32				memory_limit;	/* bytes */
	u32				memory;	/* of all packets */
	u32				quantum;
	u32				initial_quantum;
	u64				refill_delay;	/* ns */
	u64				flow_max_rate;	/* bytes/s, 0: off */
	u64				low_rate_threshold;	/* bytes/s */
	u64				ce_threshold;	/* ns; U64_MAX: off */
	struct qdisc_watchdog		watchdog;
	struct tc_cocoa_qd_stats	stats;
};

/* What is kept per packet. */
struct cocoa_skb_cb {
	u64	enqueued;	/* when it came */
	u32	memory;		/* bytes that it takes */
};

static inline struct cocoa_skb_cb *cocoa_cb(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct cocoa_skb_cb));
	return (struct cocoa_skb_cb *)qdisc_skb_cb(skb)->data;
}

/* The place of a packet's flow. The random part makes it unpredictable. */
static inline u32 cocoa_bucket(const struct cocoa_sched_data *q,
			       struct sk_buff *skb)
{
	u32 hash = jhash_1word(skb_get_hash(skb), q->perturbation);

	return hash & q->flows.mask;
}

static inline void cocoa_flows_init(struct cocoa_flows *flows)
{
	flows->count = 0;
	flows->idle_count = 0;
	flows->paced_count = 0;
	INIT_LIST_HEAD(&flows->new);
	INIT_LIST_HEAD(&flows->old);
	INIT_LIST_HEAD(&flows->idle);
	flows->paced = RB_ROOT_CACHED;
	flows->gc_at = U64_MAX;
}

static inline void cocoa_put_idle(struct cocoa_flows *flows,
				  struct cocoa_flow *f, u64 now)
{
	f->idle_at = now;
	f->place = COCOA_IDLE;
	list_move_tail(&f->chain, &flows->idle);
	flows->gc_at = min(flows->gc_at, now + COCOA_REMEMBER_NS);
}

static inline void cocoa_put(struct list_head *list, enum cocoa_place place,
			     struct cocoa_flow *f)
{
	f->place = place;
	list_move_tail(&f->chain, list);
}

/* Holds a flow back until its next packet is due. */
static inline void cocoa_put_paced(struct cocoa_flows *flows,
				   struct cocoa_flow *f)
{
	struct rb_node **link = &flows->paced.rb_root.rb_node, *parent = NULL;
	bool first = true;

	while (*link) {
		const struct cocoa_flow *other;

		parent = *link;
		other = rb_entry(parent, struct cocoa_flow, paced_node);
		if (f->next_packet_at < other->next_packet_at) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			first = false;
		}
	}
	rb_link_node(&f->paced_node, parent, link);
	rb_insert_color_cached(&f->paced_node, &flows->paced, first);
	list_del_init(&f->chain);
	f->place = COCOA_PACED;
	flows->paced_count++;
}

/* Puts the flows whose next packet is due by `now` back on the old flows. */
static inline void cocoa_release_paced(struct cocoa_flows *flows, u64 now)
{
	struct rb_node *node;

	while ((node = rb_first_cached(&flows->paced))) {
		struct cocoa_flow *f =
			rb_entry(node, struct cocoa_flow, paced_node);

		if (f->next_packet_at > now)
			break;
		rb_erase_cached(node, &flows->paced);
		flows->paced_count--;
		cocoa_put(&flows->old, COCOA_OLD, f);
	}
}

static inline void cocoa_push(struct cocoa_flows *flows, struct cocoa_flow *f,
			      struct sk_buff *skb)
{
	if (f->head) {
		f->tail->next = skb;
	} else {
		f->head = skb;
		flows->idle_count--;
	}
	f->tail = skb;
	skb->next = NULL;
	f->qlen++;
	f->backlog += qdisc_pkt_len(skb);
}

static inline struct sk_buff *cocoa_pop(struct cocoa_flows *flows,
					struct cocoa_flow *f)
{
	struct sk_buff *skb = f->head;

	if (skb) {
		f->head = skb->next;
		if (!f->head)
			flows->idle_count++;
		skb_mark_not_on_list(skb);
		f->qlen--;
		f->backlog -= qdisc_pkt_len(skb);
	}
	return skb;
}

/* Removes all packets except the first `keep` >= 1 from a flow. */
static inline struct sk_buff *cocoa_cut(struct cocoa_flow *f, u32 keep)
{
	struct sk_buff *last = f->head, *rest;
	u32 i;

	if (f->qlen <= keep)
		return NULL;
	for (i = 1; i < keep; i++)
		last = last->next;
	rest = last->next;
	last->next = NULL;
	f->tail = last;
	f->qlen = keep;
	return rest;
}

#endif
