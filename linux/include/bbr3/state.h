/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * BBRv3 of a connection without the socket: its parameters, what it keeps, and what an event finds. Numbers in comments
 * are sections of draft-ietf-ccwg-bbr-06; bbr3.h has all of it.
 */
#ifndef KNEE_BBR3_STATE_H
#define KNEE_BBR3_STATE_H

#include "knee_tcp.h"

/* Parameters; gains and shares in 1/1000, times in us. The registry's entry describes each. */
struct knee_bbr3_params {
	u32 startup_pacing_gain;
	u32 drain_pacing_gain;
	u32 cwnd_gain;
	u32 probe_rtt_cwnd_gain;
	u32 loss_thresh;
	u32 beta;
	u32 headroom;
	u32 extra_acked_filter_len;	/* rounds */
	u32 startup_full_loss_cnt;	/* ranges */
	u32 pacing_margin_percent;
	u64 min_rtt_filter_len;
	u64 probe_rtt_interval;
	u64 probe_rtt_duration;
};

/* The defaults; tests compare them with the registry. */
#define KNEE_BBR3_DEFAULTS {			\
	.startup_pacing_gain = 2770,		\
	.drain_pacing_gain = 500,		\
	.cwnd_gain = 2000,			\
	.probe_rtt_cwnd_gain = 500,		\
	.loss_thresh = 20,			\
	.beta = 700,				\
	.headroom = 150,			\
	.extra_acked_filter_len = 10,		\
	.startup_full_loss_cnt = 6,		\
	.pacing_margin_percent = 1,		\
	.min_rtt_filter_len = 10000000,		\
	.probe_rtt_interval = 5000000,		\
	.probe_rtt_duration = 200000,		\
}

/* A gain or share of 1. */
#define UNIT 1000
/* A bandwidth of one packet per microsecond is 2^24; the highest that fits is 256 times that. */
#define BW_SHIFT 24
/* No bound; as an RTT, none yet. */
#define INFINITE KNEE_U32_MAX
/* Minimum window in packets (2.7): two in each direction, with every second packet acknowledged. */
#define MIN_PIPE_CWND 4

/* In the order of the registry's phases. */
enum {
	STARTUP,
	DRAIN,
	PROBE_BW_DOWN,
	PROBE_BW_CRUISE,
	PROBE_BW_REFILL,
	PROBE_BW_UP,
	PROBE_RTT,
};

/* What incoming ACKs say about a probe (2.13). */
enum {
	ACKS_INIT,		/* nothing */
	ACKS_REFILLING,		/* they are of the refill */
	ACKS_PROBE_STARTING,	/* in flight is rising */
	ACKS_PROBE_FEEDBACK,	/* they are of the probe */
	ACKS_PROBE_STOPPING,	/* the probe is over, they may still be of it */
};

/* State of the connection while some packets were sent. */
struct departure {
	u32 delivered;	/* packets delivered before */
	u32 lost;		/* packets considered lost before */
	u32 snd_nxt;		/* sequence number of the first, if it is new */
	u32 in_flight;	/* packets in flight before the first of them */
	u32 in_flight_after;	/* and after the last */
};

/* 64 departures for each of two windows, and room for one more per ACK that reports a loss. */
#define DEPARTURES 256
#define DEPARTURES_PER_WINDOW 64

/* A maximum with the round in which it was. */
struct maximum {
	u32 round;
	u32 value;
};

/* Counts and windows in packets, bandwidths in packets/us << BW_SHIFT, times in us of the connection's clock. */
struct bbr3 {
	u8 state;
	u8 acks;		/* ACKS_... */
	bool idle_restart;	/* starting again after a pause of the application */

	/* The long-term model (model.h). */
	bool round_start;	/* the last ACK began a round */
	u32 round;
	u32 round_end;	/* delivered at which the round ends */
	u32 max_bw[2];	/* of the previous and of the current probing cycle */
	bool marked;		/* packets left under probe_rtt's mark: */
	u32 mark_from;	/* delivered before the first of them */
	u32 mark_until;	/* and before the last */
	struct maximum extra_acked[3]; /* choices for the greatest aggregation */
	u64 interval_start;	/* of the aggregation's interval */
	u32 interval_delivered;

	/* Response to loss (loss.h). */
	u32 inflight_longterm;
	u32 inflight_shortterm;
	u32 bw_shortterm;
	u32 bw_latest;	/* greatest of the latest round */
	u32 inflight_latest;	/* greatest delivered in a round trip of the latest round */
	u32 loss_round_end;	/* delivered at which the round of the losses ends */
	bool loss_round_start;
	bool loss_in_round;
	u32 ranges_in_round;	/* ACKs that told of losses */
	u32 lost_seen;	/* the connection's losses up to which they were handled */

	/* The search for a plateau (startup.h). */
	bool full_reached;	/* the pipe was ever full */
	bool full_now;		/* it is since the search began */
	u8 full_rounds;	/* rounds without growth */
	u32 full_bw;		/* bandwidth to grow from */

	/* The probing cycle (probe_bw.h). */
	bool probe_samples;	/* samples are of a probe that was not reacted to yet */
	bool prev_too_high;	/* the last probe lost too much */
	bool prev_precautionary; /* the last probe stopped where the one before had lost too much */
	u32 drain_round;	/* round in which drain began */
	u32 rounds_since_probe;
	u64 cycle_start;
	u32 wait;		/* before the next probe */
	u32 up_rounds;	/* rounds the bound has been growing */
	u32 up_acked;		/* packets delivered towards its next step */
	u32 acked_per_step;

	/* The least RTT (probe_rtt.h). */
	u32 min_rtt;		/* least of min_rtt_filter_len; INFINITE: none */
	u32 recent_rtt;	/* least of probe_rtt_interval */
	u64 min_rtt_stamp;
	u64 recent_rtt_stamp;
	bool rtt_expired;	/* recent_rtt was due for a refresh on the last ACK */
	bool probe_rtt_round_done;
	u64 probe_rtt_done;	/* when probe_rtt may end; 0: not low enough in flight yet */

	/* State of before a loss (undo.h). */
	u32 prior_cwnd;	/* the last good window */
	u8 origin;		/* the state a loss ended: STARTUP or PROBE_BW_UP; PROBE_RTT: none */
	bool repairing;
	u32 undo_bw_shortterm;
	u32 undo_inflight_shortterm;
	u32 undo_inflight_longterm;

	/* What comes of it (control.h). */
	u32 initial_cwnd;
	u32 mss;		/* payload of a packet, bytes */
	u64 rate;		/* pacing rate, payload bytes/s */

	/* When packets left (sample.h): places of the newest and of the last one looked up. */
	u32 newest;
	u32 found;
	struct departure departures[DEPARTURES];
};

/* The sender as an event finds it; the window is also the answer. */
struct view {
	u64 now;
	u32 cwnd;
	u32 in_flight;
	u32 delivered;
	u32 lost;
	u32 snd_nxt;
	u8 ca_state;
	bool app_limited;
	bool cwnd_limited;
};

/* What an ACK tells about the delivery. */
struct sample {
	bool valid;
	bool app_limited;	/* the application, or probe_rtt, limited sending when its newest packet left */
	u32 bw;		/* 0 where there is none */
	u32 delivered;	/* since that packet left */
	u32 acked;		/* delivered by this ACK */
	u32 prior_delivered;	/* delivered before that packet left */
	u32 tx_in_flight;	/* in flight then */
	u32 lost;		/* lost since */
	u32 rtt;		/* us; INFINITE: none */
};

static inline bool in_probe_bw(const struct bbr3 *b)
{
	return b->state >= PROBE_BW_DOWN && b->state <= PROBE_BW_UP;
}

/* Whether the flow looks for more bandwidth. */
static inline bool is_probing(const struct bbr3 *b)
{
	return b->state == STARTUP || b->state == PROBE_BW_REFILL || b->state == PROBE_BW_UP;
}

/* a + b, not above INFINITE. */
static inline u32 add(u32 a, u32 b)
{
	return knee_min((u64)a + b, INFINITE);
}

/* share of a bound, in 1/1000. */
static inline u32 part(u32 bound, u32 share)
{
	return (u64)bound * share / UNIT;
}

#endif
