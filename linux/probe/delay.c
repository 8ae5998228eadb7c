// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The discipline knee_delay: holds each packet for its flow's time, first in, first out
 * within each length of time, with no bound. It stands behind the receiver, where it makes up
 * the base RTT. netem does the same for all packets of a device; here flows differ.
 */
#include <linux/rbtree.h>

#include "probe.h"

/* Packets with the same delay. */
struct lane {
	struct rb_node node;	/* in `waiting`, by when its first packet leaves */
	struct list_head all;
	u64 delay_ns;
	struct sk_buff_head packets;
};

struct delay_data {
	struct list_head lanes;
	struct lane *last_used;
	struct rb_root_cached waiting;
	struct qdisc_watchdog watchdog;
};

struct delay_cb {
	u64 due_ns;
};

static struct delay_cb *delay_cb(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct delay_cb));
	return (struct delay_cb *)qdisc_skb_cb(skb)->data;
}

static u64 due(struct lane *lane)
{
	return delay_cb(skb_peek(&lane->packets))->due_ns;
}

static void wait_for_turn(struct delay_data *data, struct lane *lane)
{
	struct rb_node **link = &data->waiting.rb_root.rb_node, *parent = NULL;
	u64 at = due(lane);
	bool leftmost = true;

	while (*link) {
		parent = *link;
		if (at < due(rb_entry(parent, struct lane, node))) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			leftmost = false;
		}
	}
	rb_link_node(&lane->node, parent, link);
	rb_insert_color_cached(&lane->node, &data->waiting, leftmost);
}

static struct lane *lane_for(struct delay_data *data, u64 delay_ns)
{
	struct lane *lane = data->last_used;

	if (lane && lane->delay_ns == delay_ns)
		return lane;
	list_for_each_entry(lane, &data->lanes, all)
		if (lane->delay_ns == delay_ns)
			goto found;
	lane = kzalloc(sizeof(*lane), GFP_ATOMIC);
	if (!lane)
		return NULL;
	lane->delay_ns = delay_ns;
	__skb_queue_head_init(&lane->packets);
	list_add(&lane->all, &data->lanes);
found:
	data->last_used = lane;
	return lane;
}

static int delay_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct delay_data *data = qdisc_priv(sch);
	u32 index;
	struct probe_flow *flow = probe_flow_of(skb, &index);
	bool from_receiver = flow && ip_hdr(skb)->saddr == flow->receiver;
	struct lane *lane = lane_for(data, from_receiver ? flow->delay_ns : 0);

	if (!lane)
		return qdisc_drop(skb, sch, to_free);
	delay_cb(skb)->due_ns = ktime_get_ns() + lane->delay_ns;
	__skb_queue_tail(&lane->packets, skb);
	if (skb_queue_len(&lane->packets) == 1)
		wait_for_turn(data, lane);
	qdisc_qstats_backlog_inc(sch, skb);
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *delay_dequeue(struct Qdisc *sch)
{
	struct delay_data *data = qdisc_priv(sch);
	struct rb_node *first = rb_first_cached(&data->waiting);
	struct sk_buff *skb;
	struct lane *lane;

	if (!first)
		return NULL;
	lane = rb_entry(first, struct lane, node);
	if (due(lane) > ktime_get_ns()) {
		qdisc_watchdog_schedule_ns(&data->watchdog, due(lane));
		return NULL;
	}
	skb = __skb_dequeue(&lane->packets);
	rb_erase_cached(&lane->node, &data->waiting);
	if (!skb_queue_empty(&lane->packets))
		wait_for_turn(data, lane);
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_bstats_update(sch, skb);
	sch->q.qlen--;
	return skb;
}

static int delay_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct delay_data *data = qdisc_priv(sch);

	INIT_LIST_HEAD(&data->lanes);
	data->waiting = RB_ROOT_CACHED;
	qdisc_watchdog_init(&data->watchdog, sch);
	return 0;
}

static void delay_reset(struct Qdisc *sch)
{
	struct delay_data *data = qdisc_priv(sch);
	struct lane *lane;

	list_for_each_entry(lane, &data->lanes, all)
		__skb_queue_purge(&lane->packets);
	data->waiting = RB_ROOT_CACHED;
	qdisc_watchdog_cancel(&data->watchdog);
}

static void delay_destroy(struct Qdisc *sch)
{
	struct delay_data *data = qdisc_priv(sch);
	struct lane *lane, *next;

	qdisc_watchdog_cancel(&data->watchdog);
	list_for_each_entry_safe(lane, next, &data->lanes, all)
		kfree(lane);
}

static struct Qdisc_ops delay_ops __read_mostly = {
	.id = "knee_delay",
	.priv_size = sizeof(struct delay_data),
	.enqueue = delay_enqueue,
	.dequeue = delay_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = delay_init,
	.reset = delay_reset,
	.destroy = delay_destroy,
	.owner = THIS_MODULE,
};

int probe_delay_init(void)
{
	return register_qdisc(&delay_ops);
}

void probe_delay_exit(void)
{
	unregister_qdisc(&delay_ops);
}
