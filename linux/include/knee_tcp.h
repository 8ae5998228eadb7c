/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What congestion controls share in the kernel and in BPF: sequence numbers and
 * the states of loss recovery.
 */
#ifndef KNEE_TCP_H
#define KNEE_TCP_H

#include "knee_math.h"

/*
 * Values of enum tcp_ca_state, which the kernel promises to keep (TCP_INFO
 * shows them).
 */
enum {
	CA_OPEN = 0,
	CA_DISORDER = 1,
	CA_CWR = 2,
	CA_RECOVERY = 3,
	CA_LOSS = 4,
};

/* Whether sequence number a comes before b, which may have wrapped. */
static inline bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline bool after(u32 a, u32 b)
{
	return before(b, a);
}

#endif
