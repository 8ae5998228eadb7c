/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What BBRv3 keeps of a connection, what an event finds, and the parameters. */
#ifndef KNEE_BBR3_STATE_H
#define KNEE_BBR3_STATE_H

/* Gains and shares in 1/1000; what each is stands with the parameters of the registry's entry. */
const volatile __u32 startup_pacing_gain = 2770;
const volatile __u32 drain_pacing_gain = 500;
const volatile __u32 cwnd_gain = 2000;
const volatile __u32 probe_rtt_cwnd_gain = 500;
const volatile __u32 loss_thresh = 20;
const volatile __u32 beta = 700;
const volatile __u32 headroom = 150;
/* Times in us. */
const volatile __u64 min_rtt_filter_len = 10000000;
const volatile __u64 probe_rtt_interval = 5000000;
const volatile __u64 probe_rtt_duration = 200000;
const volatile __u32 extra_acked_filter_len = 10; /* rounds */
const volatile __u32 startup_full_loss_cnt = 6;	  /* ranges */
const volatile __u32 pacing_margin_percent = 1;

/* A gain or share of 1. */
#define UNIT 1000
/* A bandwidth of one packet per microsecond is 2^24; the greatest that fits is 256 of them. */
#define BW_SHIFT 24
/* No bound; as an RTT, none yet. */
#define INFINITE KNEE_U32_MAX
/* Least window aimed at, in packets (2.7): two in each direction with every other one acknowledged. */
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

/* What the ACKs coming in tell about a probe (2.13). */
enum {
	ACKS_INIT,		/* nothing */
	ACKS_REFILLING,		/* they are of the refill */
	ACKS_PROBE_STARTING,	/* in flight is rising */
	ACKS_PROBE_FEEDBACK,	/* they are of the probe */
	ACKS_PROBE_STOPPING,	/* the probe is over, they may still be of it */
};

/* How the connection stood while some packets left. */
struct departure {
	__u32 delivered;	/* packets delivered before */
	__u32 lost;		/* packets deemed lost before */
	__u32 snd_nxt;		/* sequence number of the first, if it is new */
	__u32 in_flight;	/* packets in flight before the first of them */
	__u32 in_flight_after;	/* and after the last */
};

/* Of two windows 64 departures each are kept, and room for one more per ACK that tells of a loss. */
#define DEPARTURES 256
#define DEPARTURES_PER_WINDOW 64

/* A maximum with the round in which it was. */
struct maximum {
	__u32 round;
	__u32 value;
};

/* Counts and windows in packets, bandwidths in packets/us << BW_SHIFT, times in us of the connection's clock. */
struct bbr3 {
	__u8 state;
	__u8 acks;		/* ACKS_... */
	bool idle_restart;	/* starting again after a pause of the application */

	/* The long-term model (model.h). */
	bool round_start;	/* the last ACK began a round */
	__u32 round;
	__u32 round_end;	/* delivered at which the round ends */
	__u32 max_bw[2];	/* of the previous and of the current probing cycle */
	bool marked;		/* packets left under probe_rtt's mark: */
	__u32 mark_from;	/* delivered before the first of them */
	__u32 mark_until;	/* and before the last */
	struct maximum extra_acked[3]; /* choices for the greatest aggregation */
	__u64 interval_start;	/* of the aggregation's interval */
	__u32 interval_delivered;

	/* Response to loss (loss.h). */
	__u32 inflight_longterm;
	__u32 inflight_shortterm;
	__u32 bw_shortterm;
	__u32 bw_latest;	/* greatest of the latest round */
	__u32 inflight_latest;	/* greatest delivered in a round trip of the latest round */
	__u32 loss_round_end;	/* delivered at which the round of the losses ends */
	bool loss_round_start;
	bool loss_in_round;
	__u32 ranges_in_round;	/* ACKs that told of losses */
	__u32 lost_seen;	/* the connection's losses up to which they were handled */

	/* The search for a plateau (startup.h). */
	bool full_reached;	/* the pipe was ever full */
	bool full_now;		/* it is since the search began */
	__u8 full_rounds;	/* rounds without growth */
	__u32 full_bw;		/* bandwidth to grow from */

	/* The probing cycle (probe_bw.h). */
	bool probe_samples;	/* samples are of a probe that was not reacted to yet */
	bool prev_too_high;	/* the last probe lost too much */
	bool prev_precautionary; /* the last probe stopped where the one before had lost too much */
	__u32 drain_round;	/* round in which drain began */
	__u32 rounds_since_probe;
	__u64 cycle_start;
	__u32 wait;		/* before the next probe */
	__u32 up_rounds;	/* rounds the bound has been growing */
	__u32 up_acked;		/* packets delivered towards its next step */
	__u32 acked_per_step;

	/* The least RTT (probe_rtt.h). */
	__u32 min_rtt;		/* least of min_rtt_filter_len; INFINITE: none */
	__u32 recent_rtt;	/* least of probe_rtt_interval */
	__u64 min_rtt_stamp;
	__u64 recent_rtt_stamp;
	bool rtt_expired;	/* recent_rtt was due for a refresh on the last ACK */
	bool probe_rtt_round_done;
	__u64 probe_rtt_done;	/* when probe_rtt may end; 0: not low enough in flight yet */

	/* State of before a loss (undo.h). */
	__u32 prior_cwnd;	/* the last good window */
	__u8 origin;		/* the state a loss ended: STARTUP or PROBE_BW_UP; PROBE_RTT: none */
	bool repairing;
	__u32 undo_bw_shortterm;
	__u32 undo_inflight_shortterm;
	__u32 undo_inflight_longterm;

	/* What comes of it (control.h). */
	__u32 initial_cwnd;
	__u32 mss;		/* payload of a packet, bytes */
	__u64 rate;		/* pacing rate, payload bytes/s */

	/* When packets left (sample.h): places of the newest and of the last one looked up. */
	__u32 newest;
	__u32 found;
	struct departure departures[DEPARTURES];
};

/* The sender as an event finds it; the window is also the answer. */
struct view {
	__u64 now;
	__u32 cwnd;
	__u32 in_flight;
	__u32 delivered;
	__u32 lost;
	__u32 snd_nxt;
	__u8 ca_state;
	bool app_limited;
	bool cwnd_limited;
};

/* What an ACK tells about the delivery. */
struct sample {
	bool valid;
	bool app_limited;	/* the application, or probe_rtt, limited sending when its newest packet left */
	__u32 bw;		/* 0 where there is none */
	__u32 delivered;	/* since that packet left */
	__u32 acked;		/* delivered by this ACK */
	__u32 prior_delivered;	/* delivered before that packet left */
	__u32 tx_in_flight;	/* in flight then */
	__u32 lost;		/* lost since */
	__u32 rtt;		/* us; INFINITE: none */
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
static inline __u32 add(__u32 a, __u32 b)
{
	return knee_min((__u64)a + b, INFINITE);
}

/* share of a bound, in 1/1000. */
static inline __u32 part(__u32 bound, __u32 share)
{
	return (__u64)bound * share / UNIT;
}

#endif
