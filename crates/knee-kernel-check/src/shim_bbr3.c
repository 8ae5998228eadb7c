/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* BBRv3's functions, whose names have no prefix, as functions that Rust can call; with its default parameters. */
#include "bbr3/bbr3.h"
#include "shim.h"

static const struct knee_bbr3_params params = KNEE_BBR3_DEFAULTS;
/* What is drawn next, in turn: the test says it. */
static u32 draws[2];
static u32 drawn;

static const struct knee_bbr3_params *bbr3_params(void)
{
	return &params;
}

static u32 bbr3_random(void)
{
	return draws[drawn++ % 2];
}

void check_bbr3_draws(u32 first, u32 second);
void check_bbr3_draws(u32 first, u32 second)
{
	draws[0] = first;
	draws[1] = second;
	drawn = 0;
}

SHIM(u64, bbr3_rate, rate_of, (u32 bw, u32 gain, u32 mss, u32 margin_percent), (bw, gain, mss, margin_percent))
SHIM(u32, bbr3_bdp, bdp, (const struct bbr3 *b, u32 bw, u32 gain), (b, bw, gain))
SHIM(u32, bbr3_with_headroom, with_headroom, (u32 bound), (bound))
SHIM(u32, bbr3_inflight_at_loss, inflight_at_loss, (u32 in_flight, u32 lost), (in_flight, lost))
SHIM(void, bbr3_init, init, (struct bbr3 *b, const struct view *v, u32 rtt, u32 mss), (b, v, rtt, mss))
SHIM(void, bbr3_on_sample, on_sample, (struct bbr3 *b, struct view *v, const struct sample *s), (b, v, s))
SHIM(void, bbr3_handle_echo, handle_echo, (struct bbr3 *b, const struct view *v), (b, v))
SHIM(void, bbr3_save_state, save_state, (struct bbr3 *b, const struct view *v), (b, v))
SHIM(void, bbr3_restore_state, restore_state, (struct bbr3 *b, const struct view *v), (b, v))
SHIM(bool, bbr3_left_recovery, left_recovery, (struct bbr3 *b, u8 ca_state), (b, ca_state))
SHIM(void, bbr3_restart, restart_from_idle, (struct bbr3 *b, struct view *v), (b, v))
SHIM(bool, bbr3_is_marked, is_marked, (const struct bbr3 *b, u32 delivered), (b, delivered))
