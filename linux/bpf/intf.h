/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What BPF programs show to user space, which reads names and layout from the object's type information. */
#ifndef KNEE_INTF_H
#define KNEE_INTF_H

#include <linux/types.h>

/*
 * State of a connection. Times in microseconds, windows in packets, data in bytes. Fields that an algorithm does not
 * have stay 0.
 */
struct knee_connection {
	__be32 remote_0; /* the peer's IPv6 address; IPv4 as ::ffff:a.b.c.d */
	__be32 remote_1;
	__be32 remote_2;
	__be32 remote_3;
	__be16 remote_port;
	__u16 local_port;
	__u32 phase; /* index into the algorithm's list of phases */
	__u32 cwnd;
	__u32 rtt_now;
	__u32 rtt_min;
	__u32 q_delay;
	__u64 q_data;
	__u64 updated; /* the kernel's monotonic clock, us */
	__u32 rounds;
	__u32 unused;
};

#endif
