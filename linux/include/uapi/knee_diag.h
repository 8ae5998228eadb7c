/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * What tcp_lola, tcp_lola_wild and tcp_daimd say of a connection:
 * getsockopt(TCP_CC_INFO), and inet_diag's attribute INET_DIAG_VEGASINFO. Both
 * begin as struct tcpvegas_info, so that ss -i shows the RTT; its second field,
 * which ss does not read, says the phase. Times in microseconds,
 * KNEE_DIAG_NONE: no sample yet.
 */
#ifndef KNEE_DIAG_H
#define KNEE_DIAG_H

#include <linux/types.h>

#define KNEE_DIAG_NONE	0x7fffffff

/* The state of tcp_lola and tcp_lola_wild. */
struct tcp_lola_info {
	__u32 enabled;		/* 1 */
	__u32 phase;		/* 0 slow start, 1 cubic increase, 2 fair flow
				 * balancing, 3 CWnd hold, 4 tailored decrease;
				 * tcp_lola_wild: 5 competing, 6 probing
				 */
	__u32 rtt_now;		/* Eq. 4 */
	__u32 rtt_min;		/* Eq. 5 */
	__u32 q_data;		/* Eq. 7, bytes */
};

struct tcp_daimd_info {
	__u32 enabled;		/* 1 */
	__u32 phase;		/* 0 slow start, 1 congestion avoidance */
	__u32 srtt;		/* of packets sent since the last backoff */
	__u32 rtt_min;
	__u32 tau0;		/* raised threshold (Eq. 5) */
};

#endif
