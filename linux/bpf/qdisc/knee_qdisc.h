/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel's types and functions for BPF queue disciplines (Linux 6.16 and later, CONFIG_NET_SCH_BPF). As in
 * ../knee_bpf.h, only the fields that are used are declared, and the loader relocates them.
 */
#ifndef KNEE_QDISC_H
#define KNEE_QDISC_H

#include <linux/types.h>
/* The verifier knows these by name and size. Headers of Linux 6.1 lack them, and later ones have other sizes. */
#define bpf_list_head	bpf_list_head_of_headers
#define bpf_list_node	bpf_list_node_of_headers
#define bpf_rb_root	bpf_rb_root_of_headers
#define bpf_rb_node	bpf_rb_node_of_headers
#define bpf_iter_num	bpf_iter_num_of_headers
#include <linux/bpf.h>
#undef bpf_list_head
#undef bpf_list_node
#undef bpf_rb_root
#undef bpf_rb_node
#undef bpf_iter_num
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct bpf_list_head {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_list_node {
	__u64 opaque[3];
} __attribute__((aligned(8)));

struct bpf_rb_root {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_rb_node {
	__u64 opaque[4];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	unsigned int mtu;
	unsigned short hard_header_len;
	int ifindex;
	possible_net_t nd_net;
	__u8 reg_state;
};

struct netdev_queue {
	struct net_device *dev;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 qlen;
	__u32 backlog;
	__u32 drops;
};

struct Qdisc {
	__u32 limit;
	__u32 handle;
	__u32 parent;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct qdisc_skb_cb {
	unsigned int pkt_len;
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};

struct sk_buff {
	char cb[48];
	unsigned int truesize;
	unsigned int end; /* an offset from head, as on all 64-bit machines */
	unsigned char *head;
};

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

#pragma clang attribute pop

struct nlattr;
struct netlink_ext_ack;

/* The operations, by the kernel's names. A BPF discipline has no private data, options or statistics over netlink. */
struct Qdisc_ops {
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	char id[16];
};

/* Of reg_state: the device is neither new nor being removed. */
#define NETREG_REGISTERED	1

#define NET_XMIT_SUCCESS	0
#define NET_XMIT_DROP		1

extern __u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta_ns) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;

/* Objects, lists and trees: the verifier fills in `meta` and `offset`. */
extern void *bpf_obj_new_impl(__u64 type, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *object, void *meta) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta,
				   __u64 offset) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head) __ksym;
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       bool (*less)(struct bpf_rb_node *a, const struct bpf_rb_node *b), void *meta,
			       __u64 offset) __ksym;
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;

/* Loops of many turns, through which the verifier goes once. */
extern int bpf_iter_num_new(struct bpf_iter_num *iterator, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *iterator) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *iterator) __ksym;

#define repeat(times)										\
	for (struct bpf_iter_num iterator __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),	\
	     *begun __attribute__((unused)) = (bpf_iter_num_new(&iterator, 0, (times)),			\
					       (void)bpf_iter_num_destroy, NULL);			\
	     bpf_iter_num_next(&iterator);)

#define contains(type, node)	__attribute__((btf_decl_tag("contains:" #type ":" #node)))
#ifndef __kptr
#define __kptr			__attribute__((btf_type_tag("kptr")))
#endif
#define new_object(type)	((type *)bpf_obj_new_impl(bpf_core_type_id_local(type), NULL))

/* The packet's length as the qdisc layer counts it: with the headers of all segments. */
static inline __u32 packet_length(const struct sk_buff *skb)
{
	return ((const struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* Packets of the link that offloads will make of it. */
static inline __u32 packet_segments(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared =
		bpf_rdonly_cast(skb->head + skb->end, bpf_core_type_id_kernel(struct skb_shared_info));

	return shared->gso_size && shared->gso_segs > 1 ? shared->gso_segs : 1;
}

#endif
