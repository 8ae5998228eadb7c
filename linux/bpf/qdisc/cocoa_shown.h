/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF form of cocoa shares with user space, which finds names and layout in the object's type information:
 * the options of an interface, and of each discipline and each flow what there is to see.
 */
#ifndef COCOA_SHOWN_H
#define COCOA_SHOWN_H

#include <linux/types.h>
#include <stdbool.h>

#include "knee_cocoa.h"
#include "uapi/knee_pkt_sched.h"

/* Names and units are those of the netlink attributes of the module. */
struct knee_cocoa_options {
	__u32 limit;
	__u32 memory_limit;
	__u32 flow_limit;
	__u32 quantum; /* 0: two full packets of the device */
	__u32 initial_quantum; /* 0: ten */
	__u32 refill_delay;
	__u32 orphan_mask;
	__u32 multiplier;
	__u32 max_increase;
	__u32 max_guard_interval;
	__u32 max_guard_rtts;
	__u32 base_rtt;
	__u64 flow_max_rate;
	__u64 low_rate_threshold;
	__u32 learn_initial;
	__u32 unused;
};

/* Interfaces of several network namespaces may have the same index. */
struct knee_interface {
	__u32 netns; /* as in /proc/PID/ns/net */
	__u32 ifindex;
};

struct knee_cocoa_qdisc {
	__u32 netns; /* as in /proc/PID/ns/net */
	__u32 ifindex;
	__u32 handle; /* as it was set up */
	__u32 parent;
	__u32 id;
	__u32 default_quantum; /* of this device, where an option is 0 */
	__u32 default_initial_quantum;
	__u32 unused;
	__u64 packets; /* sent, of the link */
	__u64 bytes; /* sent */
	__u32 backlog_packets; /* of the link */
	__u32 backlog_bytes;
	struct knee_cocoa_options options; /* as it has read them */
	struct tc_cocoa_qd_stats stats;
};

struct knee_cocoa_flow {
	__u32 qdisc; /* its id */
	__u32 bucket;
	__u32 place;
	__u32 backlog_packets; /* of the link */
	__u32 backlog_bytes;
	__s32 credit; /* bytes */
	__u32 unused;
	__u64 idle_at; /* without packets since */
	__u64 next_packet_at; /* paced; 0: never was */
	struct knee_cocoa cocoa;
};

#endif
