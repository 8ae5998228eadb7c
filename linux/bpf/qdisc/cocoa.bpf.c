// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * cocoa as a BPF queue discipline, for kernels from 6.16 on. knee_cocoa.h has the mechanism and its source,
 * cocoa_flow.h what is kept; the rest follows the module (../../modules/sch_cocoa.c), whose decisions on the same
 * packets are the same. It differs where the kernel leaves a BPF discipline no choice:
 *
 * - It is the root of a device or a child of mq, below nothing else.
 * - Packets that offloads have merged stay whole. Each counts as the packets of the link that it will be: it is taken
 *   where one more packet is, so that a buffer is exceeded by less than one merged packet, and by less than two after
 *   it was enlarged for one; it leaves as one.
 *   A buffer that is reduced drops whole ones, never below its new size.
 * - It cannot write to packets, so there is no ce_threshold.
 * - There are no options and statistics over netlink: they are in maps, options by interface (cocoa_shown.h).
 * - A lower limit drops nothing that is queued, and holds for the packets that come.
 */
#include "cocoa_flow.h"

#define ENOMEM	12

#define NS_PER_US	1000ull
#define NS_PER_S	1000000000ull
/* The longest time for which pacing holds a packet back, as in fq. */
#define MAX_GAP		NS_PER_S
/* The most turns of a loop. What is left is for the next call. */
#define TURNS		(1 << 20)

char _license[] SEC("license") = "Dual BSD/GPL";

/* Of interfaces that have no options of their own. */
const volatile struct knee_cocoa_options defaults = {
	.limit = 10000,
	.memory_limit = 32 << 20,
	.flow_limit = 100,
	.refill_delay = 40000,
	.orphan_mask = 1023,
	.multiplier = KNEE_COCOA_ONE * 5 / 4,
	.max_increase = KNEE_COCOA_ONE * 2,
	.max_guard_interval = 1000000,
	.base_rtt = 100000,
	.low_rate_threshold = 550000 / 8,
};

/* Of interfaces that have some. User space writes it, and adds one to the version. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, QDISCS_MAX);
	__type(key, struct knee_interface);
	__type(value, struct knee_cocoa_options);
} options SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} version SEC(".maps");

/* The id of the discipline that was set up last. */
__u32 last_id;

static __u32 current_version(void)
{
	__u32 first = 0, *found = bpf_map_lookup_elem(&version, &first);

	return found ? *found : 0;
}

/* Reads the options of the interface. With another mask, flows get new buckets, and packets may overtake each other
 * once. */
static void read_options(struct qdisc *q, const struct Qdisc *sch)
{
	struct knee_interface interface = { .netns = q->shown.netns, .ifindex = q->shown.ifindex };
	const struct net_device *device = sch->dev_queue->dev;
	__u32 packet = device->mtu + device->hard_header_len;
	struct knee_cocoa_options *o = &q->shown.options, *found;

	/* Before the options, so that a change in between is read with the next packet. */
	q->version = current_version();
	found = bpf_map_lookup_elem(&options, &interface);
	*o = found ? *found : *(const struct knee_cocoa_options *)&defaults;
	packet = packet < 128 ? 128 : packet > 1 << 16 ? 1 << 16 : packet;
	q->shown.default_quantum = 2 * packet;
	q->shown.default_initial_quantum = 10 * packet;
	if (!o->quantum)
		o->quantum = q->shown.default_quantum;
	if (!o->initial_quantum)
		o->initial_quantum = q->shown.default_initial_quantum;
	q->refill_delay = o->refill_delay * NS_PER_US;
	q->params.multiplier = o->multiplier;
	q->params.max_increase = o->max_increase;
	q->params.max_guard = o->max_guard_interval * NS_PER_US;
	q->params.max_guard_rtts = o->max_guard_rtts;
	q->params.base_rtt = o->base_rtt * NS_PER_US;
	q->params.initial_buffer = o->flow_limit;
	q->params.learn_initial = o->learn_initial;
}

static struct qdisc *find_qdisc(struct Qdisc *sch)
{
	__u64 key = (__u64)sch;

	return bpf_map_lookup_elem(&qdiscs, &key);
}

/* Flows are told apart by the packet's hash. The random part makes the bucket unpredictable. */
static __u32 bucket_of(const struct qdisc *q, __u32 hash)
{
	__u64 mixed = (hash ^ q->perturbation) * 0x9e3779b97f4a7c15ull;

	return mixed >> 32 & q->shown.options.orphan_mask;
}

static void forget(struct qdisc *q, struct flow *f)
{
	__u64 key = flow_key(q, f->shown.bucket);

	take_off(q, f);
	bpf_map_delete_elem(&flows, &key);
	q->shown.stats.flows--;
	q->shown.stats.inactive_flows--;
}

/* Forgets flows that have been idle for long, a few at a time. */
static void forget_idle(struct qdisc *q, __u64 now)
{
	struct flow *f;
	int i;

	for (i = 0; i < FORGET_MAX; i++) {
		f = find_flow(q, q->lists[IDLE].first);
		if (!f || now <= f->shown.idle_at + REMEMBER_NS)
			break;
		forget(q, f);
		q->shown.stats.gc_flows++;
	}
	f = find_flow(q, q->lists[IDLE].first);
	q->gc_at = f ? f->shown.idle_at + REMEMBER_NS + 1 : KNEE_U64_MAX;
}

static struct flow *new_flow(struct qdisc *q, __u32 bucket, __u64 now)
{
	__u64 key = flow_key(q, bucket);
	struct flow fresh = {}, *f;

	fresh.shown.bucket = bucket;
	fresh.shown.place = IDLE;
	fresh.shown.qdisc = q->shown.id;
	fresh.shown.credit = q->shown.options.initial_quantum;
	fresh.shown.idle_at = now;
	knee_cocoa_init(&fresh.shown.cocoa, knee_cocoa_initial(&q->params, &q->learned), now);
	if (bpf_map_update_elem(&flows, &key, &fresh, BPF_NOEXIST))
		return NULL;
	f = find_flow(q, bucket);
	if (!f)
		return NULL;
	append(q, IDLE, f);
	q->gc_at = knee_min(q->gc_at, now + REMEMBER_NS);
	q->shown.stats.flows++;
	q->shown.stats.inactive_flows++;
	return f;
}

static struct flow *classify(struct qdisc *q, __u32 hash, __u64 now)
{
	__u32 bucket = bucket_of(q, hash);
	struct flow *f;

	if (now >= q->gc_at)
		forget_idle(q, now);
	f = find_flow(q, bucket);
	return f ? f : new_flow(q, bucket, now);
}

/* A packet of `segments` that leaves a flow or is dropped out of it. */
static void take_out(struct Qdisc *sch, struct qdisc *q, struct flow *f, const struct packet *p)
{
	f->shown.backlog_packets -= p->segments;
	f->shown.backlog_bytes -= p->length;
	q->shown.backlog_packets -= p->segments;
	q->shown.backlog_bytes -= p->length;
	q->shown.stats.memory -= p->memory;
	sch->q.qlen--;
	sch->qstats.backlog -= p->length;
	if (!f->shown.backlog_packets)
		q->shown.stats.inactive_flows++;
}

/* Drops what a flow holds beyond its buffer. */
static void trim(struct Qdisc *sch, struct qdisc *q, struct flow *f, struct bpf_sk_buff_ptr *to_free)
{
	repeat(TURNS) {
		struct bpf_list_node *node;
		struct sk_buff *skb;
		struct packet *p;

		if (f->shown.backlog_packets <= f->shown.cocoa.buffer)
			break;
		bpf_spin_lock(&f->lock);
		node = bpf_list_pop_back(&f->packets);
		bpf_spin_unlock(&f->lock);
		if (!node)
			break;
		p = container_of(node, struct packet, node);
		if (f->shown.backlog_packets - p->segments < f->shown.cocoa.buffer) {
			bpf_spin_lock(&f->lock);
			bpf_list_push_back_impl(&f->packets, &p->node, NULL, 0);
			bpf_spin_unlock(&f->lock);
			break;
		}
		take_out(sch, q, f, p);
		q->shown.stats.trim_drops += p->segments;
		sch->qstats.drops += p->segments;
		skb = bpf_kptr_xchg(&p->skb, NULL);
		free_packet(q, p);
		if (skb)
			bpf_qdisc_skb_drop(skb, to_free);
	}
}

static __u32 us(__u64 ns)
{
	return knee_min(ns / NS_PER_US, KNEE_U32_MAX);
}

/* The flow's buffer is full. Returns whether the packet is queued anyway. */
static bool on_full(struct Qdisc *sch, struct qdisc *q, struct flow *f, __u32 segments, __u64 now,
		    struct bpf_sk_buff_ptr *to_free)
{
	struct tc_cocoa_qd_stats *stats = &q->shown.stats;
	struct knee_cocoa *c = &f->shown.cocoa;
	__u64 longest = c->longest, start = c->start;
	enum knee_cocoa_branch branch;
	bool enlarged = c->enlarged;
	__u32 before = c->buffer;

	branch = knee_cocoa_on_full(c, &q->params, &q->learned, now);
	if (branch == KNEE_COCOA_ENLARGE) {
		stats->enlargements++;
		return true;
	}
	stats->flow_drops += segments;
	stats->intervals++;
	if (branch == KNEE_COCOA_LOSS)
		return false;
	stats->guard_intervals++;
	stats->learned_buffer = (q->learned.buffer + KNEE_COCOA_ONE / 2) >> 16;
	stats->longest_interval = us(enlarged ? now - start : knee_max(longest, now - start));
	stats->guard_interval = us(c->guard_end - now);
	if (branch == KNEE_COCOA_REDUCE && c->buffer < before) {
		stats->reductions++;
		trim(sch, q, f, to_free);
	}
	return false;
}

SEC("struct_ops")
int BPF_PROG(cocoa_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 segments = packet_segments(skb), length = packet_length(skb);
	struct qdisc *q = find_qdisc(sch);
	struct packet *p;
	struct flow *f;
	__u64 now;

	if (!q)
		goto drop;
	if (q->version != current_version())
		read_options(q, sch);
	if (q->shown.backlog_packets >= q->shown.options.limit ||
	    q->shown.stats.memory >= q->shown.options.memory_limit) {
		q->shown.stats.limit_drops += segments;
		goto drop;
	}
	now = bpf_ktime_get_ns();
	f = classify(q, bpf_skb_get_hash(skb), now);
	p = f ? new_packet(q) : NULL;
	if (!f || !p) {
		q->shown.stats.allocation_errors += segments;
		goto drop;
	}
	if (f->shown.backlog_packets < f->shown.cocoa.buffer) {
		knee_cocoa_on_arrival(&f->shown.cocoa, now);
	} else if (!on_full(sch, q, f, segments, now, to_free)) {
		free_packet(q, p);
		goto drop;
	}
	p->enqueued = now;
	p->segments = segments;
	p->length = length;
	p->memory = skb->truesize;
	if (!f->shown.backlog_packets)
		q->shown.stats.inactive_flows--;
	f->shown.backlog_packets += segments;
	f->shown.backlog_bytes += length;
	q->shown.backlog_packets += segments;
	q->shown.backlog_bytes += length;
	q->shown.stats.memory += p->memory;
	skb = bpf_kptr_xchg(&p->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	bpf_spin_lock(&f->lock);
	bpf_list_push_back_impl(&f->packets, &p->node, NULL, 0);
	bpf_spin_unlock(&f->lock);
	if (f->shown.place == IDLE) {
		if (now > f->shown.idle_at + q->refill_delay && f->shown.credit < (__s32)q->shown.options.quantum)
			f->shown.credit = q->shown.options.quantum;
		put(q, NEW, f);
	}
	sch->q.qlen++;
	sch->qstats.backlog += length;
	return NET_XMIT_SUCCESS;
drop:
	sch->qstats.drops += segments;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* Sets when a paced flow may send again after `bytes`. */
static void pace(const struct knee_cocoa_options *o, struct knee_cocoa_flow *f, __u32 bytes, __u64 now)
{
	__u64 gap;

	if (o->flow_max_rate <= o->low_rate_threshold) {
		f->credit = 0;
	} else {
		if (f->credit > 0)
			return;
		bytes = knee_max(bytes, o->quantum);
	}
	/* bytes < 2^32, so that the product is below 2^62. */
	gap = knee_min(bytes * NS_PER_S / o->flow_max_rate, MAX_GAP);
	/* Compensates for a packet sent late, by at most half a gap. */
	if (f->next_packet_at)
		gap -= knee_min(gap / 2, now - f->next_packet_at);
	f->next_packet_at = now + gap;
}

/* Takes the packet at the head of a flow out of the discipline. */
static struct sk_buff *take(struct Qdisc *sch, struct qdisc *q, struct flow *f, __u64 now)
{
	struct bpf_list_node *node;
	struct sk_buff *skb;
	struct packet *p;

	bpf_spin_lock(&f->lock);
	node = bpf_list_pop_front(&f->packets);
	bpf_spin_unlock(&f->lock);
	if (!node)
		return NULL;
	p = container_of(node, struct packet, node);
	take_out(sch, q, f, p);
	f->shown.cocoa.sent += p->segments - 1;
	knee_cocoa_on_departure(&f->shown.cocoa, f->shown.backlog_packets, now, now - p->enqueued);
	q->shown.packets += p->segments;
	q->shown.bytes += p->length;
	f->shown.credit -= p->length;
	if (q->shown.options.flow_max_rate)
		pace(&q->shown.options, &f->shown, p->length, now);
	skb = bpf_kptr_xchg(&p->skb, NULL);
	free_packet(q, p);
	return skb;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(cocoa_dequeue, struct Qdisc *sch)
{
	struct qdisc *q = find_qdisc(sch);
	struct sk_buff *skb = NULL;
	__u64 now, due = 0;

	if (!q || !sch->q.qlen)
		return NULL;
	now = bpf_ktime_get_ns();
	/* Where pacing holds none back, neither lock nor loop. */
	if (q->shown.stats.throttled_flows) {
		repeat(TURNS) {
			due = release_first(q, now);
			if (!due || due > now)
				break;
		}
	}
	repeat(TURNS) {
		struct flow *f = find_flow(q, q->lists[NEW].first);

		if (!f)
			f = find_flow(q, q->lists[OLD].first);
		if (!f)
			break;
		if (f->shown.credit <= 0) {
			f->shown.credit += q->shown.options.quantum;
			put(q, OLD, f);
		} else if (f->shown.next_packet_at > now && f->shown.backlog_packets) {
			/* Without memory, its packet is not held back. */
			if (put_paced(q, f)) {
				q->shown.stats.throttled++;
			} else {
				q->shown.stats.allocation_errors++;
				f->shown.next_packet_at = now;
			}
		} else {
			skb = take(sch, q, f, now);
			if (skb)
				break;
			/* Empty at its turn: a new flow becomes old, an old one idle. */
			if (f->shown.place == NEW)
				put(q, OLD, f);
			else
				put_idle(q, f, now);
		}
	}
	if (skb) {
		bpf_qdisc_bstats_update(sch, skb);
		return skb;
	}
	due = release_first(q, now);
	if (due)
		bpf_qdisc_watchdog_schedule(sch, due, 0);
	return NULL;
}

/* Frees the packets of a flow. Linux 7.2 would leave them in the memory of the map, which the next flow gets. */
static void drain(struct flow *f)
{
	repeat(TURNS) {
		struct bpf_list_node *node;
		struct sk_buff *skb;
		struct packet *p;

		bpf_spin_lock(&f->lock);
		node = bpf_list_pop_front(&f->packets);
		bpf_spin_unlock(&f->lock);
		if (!node)
			break;
		p = container_of(node, struct packet, node);
		skb = bpf_kptr_xchg(&p->skb, NULL);
		bpf_obj_drop_impl(p, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
}

/* Frees the list nodes that were kept for packets to come. */
static void drop_spares(struct qdisc *q)
{
	repeat(TURNS) {
		struct bpf_list_node *node;

		bpf_spin_lock(&q->lock);
		node = bpf_list_pop_front(&q->spare);
		bpf_spin_unlock(&q->lock);
		if (!node)
			break;
		bpf_obj_drop_impl(container_of(node, struct packet, node), NULL);
	}
	q->spares = 0;
}

/* Forgets all flows, with their packets. */
static void clear(struct qdisc *q)
{
	struct tc_cocoa_qd_stats *stats = &q->shown.stats;

	repeat(TURNS) {
		__u64 due = release_first(q, KNEE_U64_MAX);

		if (!due)
			break;
	}
	repeat(TURNS) {
		struct flow *f = find_flow(q, q->lists[NEW].first);

		if (!f)
			f = find_flow(q, q->lists[OLD].first);
		if (!f)
			f = find_flow(q, q->lists[IDLE].first);
		if (!f)
			break;
		drain(f);
		forget(q, f);
	}
	drop_spares(q);
	q->gc_at = KNEE_U64_MAX;
	q->learned.buffer = 0;
	stats->learned_buffer = 0;
	q->shown.backlog_packets = 0;
	q->shown.backlog_bytes = 0;
	stats->memory = 0;
	stats->flows = 0;
	stats->inactive_flows = 0;
}

SEC("struct_ops")
int BPF_PROG(cocoa_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	const struct net_device *device = sch->dev_queue->dev;
	__u64 key = (__u64)sch;
	struct qdisc fresh = {}, *q;
	int place;

	fresh.shown.netns = device->nd_net.net->ns.inum;
	fresh.shown.ifindex = device->ifindex;
	fresh.shown.handle = sch->handle;
	fresh.shown.parent = sch->parent;
	fresh.shown.id = __sync_fetch_and_add(&last_id, 1);
	fresh.perturbation = bpf_get_prandom_u32();
	fresh.gc_at = KNEE_U64_MAX;
	for (place = 0; place < PLACES; place++) {
		fresh.lists[place].first = NO_BUCKET;
		fresh.lists[place].last = NO_BUCKET;
	}
	if (bpf_map_update_elem(&qdiscs, &key, &fresh, BPF_NOEXIST))
		return -ENOMEM;
	q = find_qdisc(sch);
	if (!q)
		return -ENOMEM;
	read_options(q, sch);
	return 0;
}

SEC("struct_ops")
void BPF_PROG(cocoa_reset, struct Qdisc *sch)
{
	struct qdisc *q = find_qdisc(sch);

	if (q)
		clear(q);
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

/*
 * The kernel resets it before; not after an init that failed, which leaves nothing. Options stay with the interface,
 * but not longer than that: another one may come to have its index.
 */
SEC("struct_ops")
void BPF_PROG(cocoa_destroy, struct Qdisc *sch)
{
	const struct net_device *device = sch->dev_queue->dev;
	struct knee_interface interface = { .netns = device->nd_net.net->ns.inum, .ifindex = device->ifindex };
	__u64 key = (__u64)sch;

	bpf_map_delete_elem(&qdiscs, &key);
	if (device->reg_state != NETREG_REGISTERED)
		bpf_map_delete_elem(&options, &interface);
}

SEC(".struct_ops.link")
struct Qdisc_ops cocoa = {
	.enqueue = (void *)cocoa_enqueue,
	.dequeue = (void *)cocoa_dequeue,
	.init = (void *)cocoa_init,
	.reset = (void *)cocoa_reset,
	.destroy = (void *)cocoa_destroy,
	.id = "cocoa_bpf",
};
