// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Links: the watched queue's enqueue and dequeue are replaced by ones that look at each
 * packet and then do what the discipline does. A packet carries the moment of its
 * arrival in skb->tstamp, which is empty on a forwarded packet; for fq, which reads it as
 * the earliest departure, now is the same as none. Random loss strikes before the queue.
 */
#include <linux/netdevice.h>
#include <net/inet_ecn.h>
#include <net/net_namespace.h>
#include <linux/nsproxy.h>

#include "probe.h"

/* Drops of one flow within this time are one event. */
#define DROPS_TOGETHER_NS	NSEC_PER_MSEC

static struct probe_link *link_of(const struct Qdisc *queue)
{
	u32 i;

	for (i = 0; i + 1 < probe.link_count; i++)
		if (probe.links[i].queue == queue)
			break;
	return &probe.links[i];
}

static bool is_marked(const struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) && INET_ECN_is_ce(ip_hdr(skb)->tos);
}

/* Records the drops so far. */
void probe_queue_settle(u32 index)
{
	struct probe_link *link = &probe.links[index];

	if (link->dropping_count)
		probe_row_event(link->dropping_first_ns, link->dropping_flow, index, KNEE_EVENT_DROP, 0,
				link->dropping_count);
	link->dropping_count = 0;
}

static void dropped(struct probe_link *link, u32 flow, u32 count)
{
	u64 now = probe_now();

	if (link->dropping_count &&
	    (link->dropping_flow != flow || now - link->dropping_last_ns > DROPS_TOGETHER_NS))
		probe_queue_settle(link - probe.links);
	if (!link->dropping_count) {
		link->dropping_flow = flow;
		link->dropping_first_ns = now;
	}
	link->dropping_last_ns = now;
	link->dropping_count += count;
}

/* A program's packet was freed within a queue: dropped, wherever the discipline did it. */
static void lost_in_queue(struct sk_buff *skb)
{
	u32 index;
	struct probe_flow *flow = probe_flow_of(skb, &index);

	if (flow)
		flow->lost++;
}

/* The program whose data a packet carries; NULL: none. Its packet is counted as sent. */
static struct probe_flow *program_sends(const struct probe_link *link, const struct sk_buff *skb)
{
	u32 index;
	struct probe_flow *flow = probe.program_count ? probe_flow_of(skb, &index) : NULL;

	if (!flow || !flow->program || !probe_has_payload(flow, skb))
		return NULL;
	if (flow->first_link == link - probe.links) {
		flow->sent++;
		flow->sent_bytes += qdisc_pkt_len(skb);
	}
	return flow;
}

/*
 * Linux sends no ECT(1), so an L4S flow's packets get it here, as from a packet filter before the link. The handshake
 * stays as it is, since accurate ECN checks it for such changes.
 */
static void label_l4s(struct sk_buff *skb)
{
	u32 index;
	const struct probe_flow *flow = probe_flow_of(skb, &index);
	const struct tcphdr *tcp;

	if (!flow || !flow->ect1)
		return;
	tcp = (const struct tcphdr *)((const u8 *)ip_hdr(skb) + ip_hdr(skb)->ihl * 4);
	if (!tcp->syn)
		IP_ECN_set_ect1(ip_hdr(skb));
}

static int enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct probe_link *link = link_of(sch);
	struct probe_flow *program = program_sends(link, skb);
	struct sk_buff *freed, *before = *to_free;
	struct probe_cocoa seen;
	int ret;

	/* A forwarded packet has no owner that is told when it is freed. */
	if (program && !skb->sk && !skb->destructor)
		skb->destructor = lost_in_queue;
	if (link->loss && (u32)probe_random(&link->random) < link->loss) {
		__qdisc_drop(skb, to_free);
		return NET_XMIT_SUCCESS | __NET_XMIT_STOLEN;
	}
	if (probe.l4s)
		label_l4s(skb);
	skb->tstamp = ktime_get_ns();
	skb->mark = is_marked(skb);
	if (link->cocoa)
		probe_cocoa_before(link, skb, &seen);
	ret = link->enqueue(skb, sch, to_free);
	if (link->cocoa)
		probe_cocoa_after(link, &seen);
	for (freed = *to_free; freed && freed != before; freed = freed->next) {
		u32 index = KNEE_NOBODY;

		probe_flow_of(freed, &index);
		dropped(link, index, 1);
	}
	return ret;
}

/* A packet has left its link. */
static void departed(struct probe_link *link, const struct sk_buff *skb)
{
	u32 index;
	struct probe_flow *flow = probe_flow_of(skb, &index);

	link->bytes += qdisc_pkt_len(skb);
	link->packets++;
	if (flow && flow->last_link == link - probe.links && probe_has_payload(flow, skb)) {
		flow->received++;
		flow->received_bytes += qdisc_pkt_len(skb);
	}
}

/* A wire has sent the last bit of a packet from a queue that may be watched. */
void probe_queue_departed(const struct Qdisc *queue, const struct sk_buff *skb)
{
	struct probe_link *link = probe.link_count ? link_of(queue) : NULL;

	if (link && link->queue == queue)
		departed(link, skb);
}

static struct sk_buff *dequeue(struct Qdisc *sch)
{
	struct probe_link *link = link_of(sch);
	u32 drops = sch->qstats.drops, index;
	struct sk_buff *skb = link->dequeue(sch);
	struct probe_flow *flow;
	u64 waited;

	if (sch->qstats.drops != drops)
		dropped(link, KNEE_NOBODY, sch->qstats.drops - drops);
	if (!skb)
		return NULL;
	if (skb->destructor == lost_in_queue)
		skb->destructor = NULL;
	waited = ktime_get_ns() - skb->tstamp;
	if (is_marked(skb) && !skb->mark)
		link->marks++;
	link->delay_sum_ns += waited;
	link->delay_max_ns = max(link->delay_max_ns, waited);
	link->delay_count++;
	if (link->measured) {
		link->all_delay_sum_ns += waited;
		link->all_delay_max_ns = max(link->all_delay_max_ns, waited);
		link->all_delay_count++;
		link->delay[probe_bucket(waited, KNEE_DELAY_BITS, KNEE_DELAY_BUCKETS)]++;
	}
	flow = probe_flow_of(skb, &index);
	if (flow && probe_has_payload(flow, skb))
		flow->queued_ns += waited;
	if (!link->wire)
		departed(link, skb);
	skb->tstamp = 0;
	skb->mark = 0;
	return skb;
}

/* Begins to watch the packets of a flow that is a program; its delay is set before, and with it its receiver. */
int probe_program_watch(const struct knee_program *told)
{
	struct probe_flow *flow;

	if (told->flow >= probe.flow_count || told->program >= probe.flow_count ||
	    told->first_link >= probe.link_count || told->last_link >= probe.link_count)
		return -EINVAL;
	flow = &probe.flows[told->flow];
	flow->program = true;
	flow->first_link = told->first_link;
	flow->last_link = told->last_link;
	probe.programs[told->program] = told->flow;
	probe.program_count = max(probe.program_count, told->program + 1);
	return 0;
}

static struct Qdisc *find(struct net_device *device, u32 handle)
{
	struct Qdisc *queue;

	hash_for_each_possible(device->qdisc_hash, queue, hash, handle)
		if (queue->handle == handle)
			return queue;
	return NULL;
}

/* Starts to watch a queue of the caller's network namespace. */
int probe_queue_watch(const struct knee_link *told)
{
	struct net_device *device;
	struct probe_link *link;
	struct Qdisc *queue;
	int err = 0;

	if (told->link >= probe.link_count)
		return -EINVAL;
	link = &probe.links[told->link];
	link->delay = kvcalloc(KNEE_DELAY_BUCKETS, sizeof(*link->delay), GFP_KERNEL);
	if (!link->delay)
		return -ENOMEM;
	rtnl_lock();
	device = __dev_get_by_index(current->nsproxy->net_ns, told->ifindex);
	queue = device ? find(device, told->handle) : NULL;
	if (!queue || link->queue) {
		err = -ENODEV;
		goto out;
	}
	err = probe_cocoa_watch(link, queue);
	if (err)
		goto out;
	spin_lock_bh(qdisc_lock(queue));
	link->enqueue = queue->enqueue;
	link->dequeue = queue->dequeue;
	link->wire = probe_is_wire(rtnl_dereference(device->qdisc));
	link->loss = told->loss;
	link->random = probe.seed;
	/* Each link has its own random stream. */
	link->random = probe_random(&link->random) ^ (told->link * 0x9e3779b97f4a7c15ULL);
	link->dropping_flow = KNEE_NOBODY;
	link->queue = queue;
	queue->enqueue = enqueue;
	queue->dequeue = dequeue;
	spin_unlock_bh(qdisc_lock(queue));
out:
	rtnl_unlock();
	return err;
}

void probe_queues_exit(void)
{
	u32 i;

	for (i = 0; i < probe.link_count; i++) {
		struct probe_link *link = &probe.links[i];

		if (link->queue) {
			link->queue->enqueue = link->enqueue;
			link->queue->dequeue = link->dequeue;
		}
		kvfree(link->delay);
		kvfree(link->cocoa_flows);
	}
}
