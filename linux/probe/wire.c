// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The discipline knee_wire: a link of a fixed rate, as the simulator's (crates/knee-link/src/wire.rs). It takes one
 * packet at a time from the discipline below, where the others wait, and hands it on when its last bit has left.
 * Fractions of nanoseconds carry over, so that a busy wire keeps its rate exactly.
 */
#include <linux/math64.h>

#include "probe.h"

struct wire_data {
	struct Qdisc *below;
	struct sk_buff *sending;	/* NULL: the wire is idle */
	u64 done_ns;			/* when the last bit of `sending` leaves, or of the one before left */
	u64 rate;			/* bit/s */
	u64 carry;			/* of earlier packets, in 1/rate ns */
	u32 overhead;			/* bytes beyond the frame */
	bool atm;			/* packets go in cells */
	struct qdisc_watchdog watchdog;
};

static const struct nla_policy wire_policy[KNEE_WIRE_MAX + 1] = {
	[KNEE_WIRE_RATE] = { .type = NLA_U64 },
	[KNEE_WIRE_OVERHEAD] = { .type = NLA_U32 },
	[KNEE_WIRE_ATM] = { .type = NLA_U32 },
};

/* How long a packet takes: below 2^64 / (8 * 10^9) bytes, 2 GB. */
static u64 time_for(struct wire_data *wire, u32 bytes)
{
	u64 ns, rest;

	bytes += wire->overhead;
	if (wire->atm)
		bytes = DIV_ROUND_UP(bytes, 48) * 53;
	ns = div64_u64_rem(bytes * 8ULL * NSEC_PER_SEC, wire->rate, &rest);
	wire->carry += rest;
	if (wire->carry >= wire->rate) {
		wire->carry -= wire->rate;
		ns++;
	}
	return ns;
}

static int wire_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct wire_data *wire = qdisc_priv(sch);
	u32 bytes = qdisc_pkt_len(skb);
	int ret = qdisc_enqueue(skb, wire->below, to_free);

	if (ret != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(ret))
			qdisc_qstats_drop(sch);
		return ret;
	}
	sch->qstats.backlog += bytes;
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

/* Begins to send the next packet, if there is one: now, or when the last one ended, for which a timer may be late. */
static void begin(struct wire_data *wire, u64 at_ns)
{
	wire->sending = wire->below->dequeue(wire->below);
	if (!wire->sending)
		return;
	wire->done_ns = at_ns + time_for(wire, qdisc_pkt_len(wire->sending));
	qdisc_watchdog_schedule_ns(&wire->watchdog, wire->done_ns);
}

static struct sk_buff *wire_dequeue(struct Qdisc *sch)
{
	struct wire_data *wire = qdisc_priv(sch);
	struct sk_buff *skb = wire->sending;
	u64 now = ktime_get_ns();

	if (!skb) {
		begin(wire, now);
		return NULL;
	}
	if (wire->done_ns > now) {
		qdisc_watchdog_schedule_ns(&wire->watchdog, wire->done_ns);
		return NULL;
	}
	begin(wire, wire->done_ns);
	probe_queue_departed(wire->below, skb);
	qdisc_bstats_update(sch, skb);
	qdisc_qstats_backlog_dec(sch, skb);
	sch->q.qlen--;
	return skb;
}

static int wire_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct wire_data *wire = qdisc_priv(sch);
	struct nlattr *told[KNEE_WIRE_MAX + 1];
	u64 rate;
	int err;

	if (!opt)
		return -EINVAL;
	err = nla_parse_nested(told, KNEE_WIRE_MAX, opt, wire_policy, extack);
	if (err)
		return err;
	rate = told[KNEE_WIRE_RATE] ? nla_get_u64(told[KNEE_WIRE_RATE]) : 0;
	if (!rate)
		return -EINVAL;
	sch_tree_lock(sch);
	/* The packet that is being sent goes out as it began. */
	if (rate != wire->rate)
		wire->carry = 0;
	wire->rate = rate;
	wire->overhead = told[KNEE_WIRE_OVERHEAD] ? nla_get_u32(told[KNEE_WIRE_OVERHEAD]) : 0;
	wire->atm = told[KNEE_WIRE_ATM] && nla_get_u32(told[KNEE_WIRE_ATM]);
	sch_tree_unlock(sch);
	return 0;
}

static int wire_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct wire_data *wire = qdisc_priv(sch);

	qdisc_watchdog_init(&wire->watchdog, sch);
	wire->below = &noop_qdisc;
	return wire_change(sch, opt, extack);
}

static void wire_reset(struct Qdisc *sch)
{
	struct wire_data *wire = qdisc_priv(sch);

	qdisc_reset(wire->below);
	kfree_skb(wire->sending);
	wire->sending = NULL;
	qdisc_watchdog_cancel(&wire->watchdog);
}

static void wire_destroy(struct Qdisc *sch)
{
	struct wire_data *wire = qdisc_priv(sch);

	qdisc_watchdog_cancel(&wire->watchdog);
	qdisc_put(wire->below);
}

/* Its only class, below which its queue is. */

static int wire_graft(struct Qdisc *sch, unsigned long class, struct Qdisc *new, struct Qdisc **old,
		      struct netlink_ext_ack *extack)
{
	struct wire_data *wire = qdisc_priv(sch);

	*old = qdisc_replace(sch, new ? new : &noop_qdisc, &wire->below);
	return 0;
}

static struct Qdisc *wire_leaf(struct Qdisc *sch, unsigned long class)
{
	struct wire_data *wire = qdisc_priv(sch);

	return wire->below;
}

static unsigned long wire_find(struct Qdisc *sch, u32 id)
{
	return 1;
}

static void wire_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop && walker->count >= walker->skip && walker->fn(sch, 1, walker) < 0)
		walker->stop = 1;
	walker->count++;
}

static int wire_dump_class(struct Qdisc *sch, unsigned long class, struct sk_buff *skb, struct tcmsg *tcm)
{
	struct wire_data *wire = qdisc_priv(sch);

	tcm->tcm_handle |= TC_H_MIN(1);
	tcm->tcm_info = wire->below->handle;
	return 0;
}

static const struct Qdisc_class_ops wire_class_ops = {
	.graft = wire_graft,
	.leaf = wire_leaf,
	.find = wire_find,
	.walk = wire_walk,
	.dump = wire_dump_class,
};

static struct Qdisc_ops wire_ops __read_mostly = {
	.cl_ops = &wire_class_ops,
	.id = "knee_wire",
	.priv_size = sizeof(struct wire_data),
	.enqueue = wire_enqueue,
	.dequeue = wire_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = wire_init,
	.change = wire_change,
	.reset = wire_reset,
	.destroy = wire_destroy,
	.owner = THIS_MODULE,
};

bool probe_is_wire(const struct Qdisc *root)
{
	return root->ops == &wire_ops;
}

int probe_wire_init(void)
{
	return register_qdisc(&wire_ops);
}

void probe_wire_exit(void)
{
	unregister_qdisc(&wire_ops);
}
