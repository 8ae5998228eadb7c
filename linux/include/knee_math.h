/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Integer arithmetic that the kernel modules, BPF programs and tests in user
 * space share: no floating point, no 128-bit types, no calls into libgcc, and
 * loops with fixed bounds only. 64 bits are divided by knee_div() and
 * knee_div32(): kernels of 32 bits have no other way.
 *
 * Algorithms read their parameters by READ_ONCE: user space may change those of
 * a module at any time, and sets those of a BPF program when it loads it. A
 * plain read would have clang put a BPF program's defaults into its code.
 */
#ifndef KNEE_MATH_H
#define KNEE_MATH_H

#if defined(__KERNEL__)
#include <linux/compiler.h>
#include <linux/math64.h>
#include <linux/types.h>
#define knee_div(a, b)	div64_u64((a), (b))
#define knee_div32(a, b)	div_u64((a), (b))
#else
#if !defined(__VMLINUX_H__)
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
#endif
#define knee_div(a, b)	((u64)(a) / (u64)(b))
#define knee_div32(a, b)	((u64)(a) / (u32)(b))
#define READ_ONCE(x)	(*(const volatile typeof(x) *)&(x))
#endif

/*
 * Hides from clang what it knows of a variable, and keeps it in one register.
 * clang copies a variable to compare it, and what the BPF verifier of Linux
 * 6.12 learns of a copy it does not know of the original. clang 17 and later
 * turn `>> 63` of a comparison's arithmetic back into a branch.
 */
#if defined(__bpf__)
#define knee_one_register(variable)	({ asm volatile("" : "+r"(variable)); })
#else
#define knee_one_register(variable)	((void)(variable))
#endif

/*
 * A function of several steps that the BPF verifier follows once, since it is
 * global: otherwise it follows every path of one step after every path of those
 * before. Such a function returns an integer.
 */
#if defined(__bpf__)
#define KNEE_APART	__attribute__((noinline)) int
#define KNEE_NONNULL	__attribute__((btf_decl_tag("arg:nonnull")))
#else
#define KNEE_APART	static int
#define KNEE_NONNULL
#endif

#define KNEE_U32_MAX	0xffffffffu
#define KNEE_U64_MAX	0xffffffffffffffffull

static inline __attribute__((always_inline)) u64 knee_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline __attribute__((always_inline)) u64 knee_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* a - b, at least 0 */
static inline __attribute__((always_inline)) u64 knee_sub(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* a + b, at most KNEE_U64_MAX */
static inline __attribute__((always_inline)) u64 knee_add(u64 a, u64 b)
{
	return a > KNEE_U64_MAX - b ? KNEE_U64_MAX : a + b;
}

/*
 * a * b as 128 bits: returns the lower 64, *high the upper.
 *
 * Each partial product of 32-bit halves is below 2^64 - 2^33 + 2, so that two
 * 32-bit carries can be added to it.
 */
static inline u64 knee_mul(u64 a, u64 b, u64 *high)
{
	u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
	u64 low = a0 * b0;
	u64 middle = a1 * b0 + (low >> 32);
	u64 other = a0 * b1 + (u32)middle;

	*high = a1 * b1 + (middle >> 32) + (other >> 32);
	return other << 32 | (u32)low;
}

/*
 * 1 where a < b, else 0: the borrow of a - b. By arithmetic, since each branch
 * in a loop would double the paths that the BPF verifier follows.
 */
static inline u64 knee_below(u64 a, u64 b)
{
	u64 borrow = ((~a & b) | ((~a | b) & (a - b))) >> 63;

	knee_one_register(borrow);
	return borrow;
}

/*
 * a * b / c, rounded down, exactly; KNEE_U64_MAX where that is too large or c
 * is 0. Long division bit by bit where the product has more than 64 bits: not
 * for every packet.
 */
static inline u64 knee_mul_div(u64 a, u64 b, u64 c)
{
	u64 high, low = knee_mul(a, b, &high);
	int i;

	if (high >= c)
		return KNEE_U64_MAX;
	if (!high)
		return knee_div(low, c);
	/* Invariant: high < c, so the quotient's bits fit as they shift in. */
	for (i = 0; i < 64; i++) {
		u64 fits = high >> 63;

		knee_one_register(fits);
		high = high << 1 | low >> 63;
		fits |= 1 ^ knee_below(high, c);
		high -= c & -fits;
		low = low << 1 | fits;
	}
	return low;
}

/*
 * (a * b) >> shift, exactly, 0 < shift < 64; KNEE_U64_MAX where that is too
 * large.
 */
static inline u64 knee_mul_shift(u64 a, u64 b, u32 shift)
{
	u64 high, low = knee_mul(a, b, &high);

	if (high >> shift)
		return KNEE_U64_MAX;
	return high << (64 - shift) | low >> shift;
}

/* The root of the greatest cube below 2^64. */
#define KNEE_GREATEST_ROOT	2642245

/* Bits up to the highest that is set; 0 for 0. */
static inline u32 knee_bits(u64 a)
{
	u32 bits = 0;
	int step;

	for (step = 32; step; step /= 2) {
		if (a >> step) {
			a >>= step;
			bits += step;
		}
	}
	return bits + (u32)a;
}

/*
 * Cube root, rounded down: Newton's method from above, where each step comes
 * closer but never below the result. It starts at less than 2^(4/3) times the
 * root, so that seven steps leave less than 2^-28 of it. With x <= 2^22,
 * x^2 <= 2^44.
 */
static inline u32 knee_cube_root(u64 a)
{
	u64 x = 1ull << (knee_bits(a) + 2) / 3;
	int i;

	if (!a)
		return 0;
	for (i = 0; i < 7; i++)
		x = knee_min(x, knee_div32(2 * x + knee_div(a, x * x), 3));
	return x;
}

#endif
