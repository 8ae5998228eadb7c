/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * How programs are kept from the processor's cycle counter, which runs in host time. hold.c has it trapped on the host,
 * for the guest's processes. A process that wait.c has marked gets its reads as faults, and says so. One that is not
 * marked yet is in its loader, which measures itself: it gets zeros.
 */
#ifndef KNEE_CYCLES_H
#define KNEE_CYCLES_H

#include <stdint.h>

/* Exit code of a program that reads the counter. */
#define CYCLES_EXIT_CODE	113
/* Where a marked process has a page, and what is there. A fork keeps it, an exec does not. */
#define CYCLES_MARK_AT		0x3000000000ULL
#define CYCLES_MARK		0x656e6b2064614d21ULL

/* Length of an instruction that reads the counter; 0 for any other. */
static inline int cycles_instruction(const uint8_t *at)
{
	if (at[0] == 0x0f && at[1] == 0x31)
		return 2;
	return at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9 ? 3 : 0;
}

#endif
