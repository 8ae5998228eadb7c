/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF form of cocoa keeps: disciplines, flows, packets. The lists are those of the module, whose cocoa_flow.h
 * has them drawn. A flow is a value in a hash map, and its neighbours on a list are buckets, not pointers: the verifier
 * then needs no references to flows. The qdisc layer holds the discipline's lock around all but user space's reading.
 */
#ifndef COCOA_FLOW_H
#define COCOA_FLOW_H

#include "knee_qdisc.h"
#include "knee_cocoa.h"
#include "cocoa_shown.h"

/* How long an idle flow is remembered; the authors' value. */
#define REMEMBER_NS	10000000000ull
/* The most idle flows forgotten per packet, as in fq. */
#define FORGET_MAX	8
/* Of all disciplines together. */
#define FLOWS_MAX	(1 << 20)
#define QDISCS_MAX	4096
/* Of a discipline: 56 KiB. */
#define SPARES_MAX	1024
#define NO_BUCKET	KNEE_U32_MAX

enum place {
	IDLE,
	NEW,
	OLD,
	PACED,
	PLACES,
};

/* clang 14 leaves out the tag of a pointer to a structure that has no other name. */
typedef struct sk_buff owned_skb;

struct packet {
	struct bpf_list_node node;
	owned_skb __kptr *skb;
	__u64 enqueued;
	__u32 segments; /* packets of the link */
	__u32 length; /* bytes */
	__u32 memory; /* bytes */
};

struct flow {
	struct knee_cocoa_flow shown;
	__u32 next; /* on the list of its place; NO_BUCKET: it is the last */
	__u32 previous;
	struct bpf_spin_lock lock;
	struct bpf_list_head packets contains(packet, node);
};

/* A flow that pacing holds back. */
struct turn {
	struct bpf_rb_node node;
	__u64 at;
	__u32 bucket;
};

struct list {
	__u32 first; /* NO_BUCKET: it is empty */
	__u32 last;
};

struct qdisc {
	struct knee_cocoa_qdisc shown;
	struct list lists[PLACES]; /* not of PACED */
	__u64 gc_at; /* earliest time to forget a flow */
	struct knee_cocoa_params params; /* by the options */
	struct knee_cocoa_learned learned;
	__u64 refill_delay; /* by the options, ns */
	__u32 perturbation; /* of hashes */
	__u32 version; /* of the options that it has read */
	__u32 spares; /* how many there are */
	struct bpf_spin_lock lock;
	struct bpf_rb_root paced contains(turn, node); /* by `at` */
	struct bpf_list_head spare contains(packet, node);
};

/* By the address of the kernel's structure. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, QDISCS_MAX);
	__type(key, __u64);
	__type(value, struct qdisc);
} qdiscs SEC(".maps");

/* By the discipline's id and the bucket of the flow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, FLOWS_MAX);
	__type(key, __u64);
	__type(value, struct flow);
} flows SEC(".maps");

static inline __u64 flow_key(const struct qdisc *q, __u32 bucket)
{
	return (__u64)q->shown.id << 32 | bucket;
}

static inline struct flow *find_flow(const struct qdisc *q, __u32 bucket)
{
	__u64 key = flow_key(q, bucket);

	return bucket == NO_BUCKET ? NULL : bpf_map_lookup_elem(&flows, &key);
}

/* Of the three lists, that of a place. The verifier wants to see the bound. */
static inline struct list *list_of(struct qdisc *q, __u32 place)
{
	return &q->lists[place == NEW ? NEW : place == OLD ? OLD : IDLE];
}

static inline void take_off(struct qdisc *q, struct flow *f)
{
	struct list *list = list_of(q, f->shown.place);
	struct flow *previous = find_flow(q, f->previous), *next = find_flow(q, f->next);

	if (previous)
		previous->next = f->next;
	else
		list->first = f->next;
	if (next)
		next->previous = f->previous;
	else
		list->last = f->previous;
}

static inline void append(struct qdisc *q, __u32 place, struct flow *f)
{
	struct list *list = list_of(q, place);
	struct flow *last = find_flow(q, list->last);

	f->shown.place = place;
	f->previous = list->last;
	f->next = NO_BUCKET;
	if (last)
		last->next = f->shown.bucket;
	else
		list->first = f->shown.bucket;
	list->last = f->shown.bucket;
}

/* Moves a flow to the end of a list. */
static inline void put(struct qdisc *q, __u32 place, struct flow *f)
{
	/* It stays where it is the only one. */
	if (place == f->shown.place && list_of(q, place)->last == f->shown.bucket)
		return;
	take_off(q, f);
	append(q, place, f);
}

static inline void put_idle(struct qdisc *q, struct flow *f, __u64 now)
{
	put(q, IDLE, f);
	f->shown.idle_at = now;
	q->gc_at = knee_min(q->gc_at, now + REMEMBER_NS);
}

/* A packet's place in a list: a spare one, or a new one; NULL where there is no memory. */
static inline struct packet *new_packet(struct qdisc *q)
{
	struct bpf_list_node *node;

	if (q->spares) {
		bpf_spin_lock(&q->lock);
		node = bpf_list_pop_front(&q->spare);
		bpf_spin_unlock(&q->lock);
		if (node) {
			q->spares--;
			return container_of(node, struct packet, node);
		}
	}
	return new_object(struct packet);
}

/* Keeps it as a spare one: allocating and freeing one for each packet takes a tenth more instructions. */
static inline void free_packet(struct qdisc *q, struct packet *p)
{
	if (q->spares >= SPARES_MAX) {
		bpf_obj_drop_impl(p, NULL);
		return;
	}
	q->spares++;
	bpf_spin_lock(&q->lock);
	bpf_list_push_back_impl(&q->spare, &p->node, NULL, 0);
	bpf_spin_unlock(&q->lock);
}

static bool is_due_before(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct turn, node)->at < container_of(b, struct turn, node)->at;
}

/* Holds a flow back until its next packet is due. Returns false where there is no memory for that. */
static inline bool put_paced(struct qdisc *q, struct flow *f)
{
	struct turn *turn = new_object(struct turn);

	if (!turn)
		return false;
	turn->at = f->shown.next_packet_at;
	turn->bucket = f->shown.bucket;
	take_off(q, f);
	f->shown.place = PACED;
	q->shown.stats.throttled_flows++;
	bpf_spin_lock(&q->lock);
	bpf_rbtree_add_impl(&q->paced, &turn->node, is_due_before, NULL, 0);
	bpf_spin_unlock(&q->lock);
	return true;
}

/* Puts the first flow that is due by `now` back on the old flows. Returns when the first of the others is; 0: none
 * left. */
static inline __u64 release_first(struct qdisc *q, __u64 now)
{
	struct bpf_rb_node *node;
	struct turn *turn;
	struct flow *f;
	__u64 at;

	bpf_spin_lock(&q->lock);
	node = bpf_rbtree_first(&q->paced);
	if (!node) {
		bpf_spin_unlock(&q->lock);
		return 0;
	}
	at = container_of(node, struct turn, node)->at;
	if (at > now) {
		bpf_spin_unlock(&q->lock);
		return at;
	}
	node = bpf_rbtree_remove(&q->paced, node);
	bpf_spin_unlock(&q->lock);
	if (!node)
		return 0;
	turn = container_of(node, struct turn, node);
	f = find_flow(q, turn->bucket);
	bpf_obj_drop_impl(turn, NULL);
	q->shown.stats.throttled_flows--;
	if (f)
		append(q, OLD, f);
	return at;
}

#endif
