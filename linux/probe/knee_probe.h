/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the module knee_probe and the traffic program share: the device's calls and
 * the rows that come out of it. python/knee/grounds/uml/rows.py mirrors the rows.
 */
#ifndef KNEE_PROBE_H
#define KNEE_PROBE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Data and ACKs of flow i have this port plus i at both ends. */
#define KNEE_PORT	10000
/*
 * A flow that is a program has addresses of its own, since its ports are its own business: this bit in both, and
 * below it the program's number, from 1.
 */
#define KNEE_PROGRAM_BIT	0x8000U
#define KNEE_MAX_FLOWS	50000

/* Buckets of histograms: 2^bits per octave, of microseconds and of nanoseconds. */
#define KNEE_RTT_BITS	6
#define KNEE_RTT_TOP	27	/* octaves: up to 2^32 us */
#define KNEE_RTT_BUCKETS	((KNEE_RTT_TOP) << KNEE_RTT_BITS)
#define KNEE_DELAY_BITS	8
#define KNEE_DELAY_TOP	36	/* octaves: up to 2^43 ns */
#define KNEE_DELAY_BUCKETS	((KNEE_DELAY_TOP) << KNEE_DELAY_BITS)

enum knee_row_kind {
	KNEE_ROW_SAMPLE = 1,	/* end of an interval */
	KNEE_ROW_BEGIN,		/* figures begin */
	KNEE_ROW_END,		/* figures end: the flow stops, or the run does */
	KNEE_ROW_COMMON,	/* edges of the time in which all flows run */
	KNEE_ROW_DONE,		/* a finite transfer is acknowledged */
	KNEE_ROW_EVENT,
	KNEE_ROW_HISTOGRAM,	/* followed by its counts */
	KNEE_ROW_PACKET,
};

enum knee_event {
	KNEE_EVENT_PHASE = 1,	/* code: the new phase; value: cwnd */
	KNEE_EVENT_RECOVERY,	/* value: cwnd */
	KNEE_EVENT_CWR,
	KNEE_EVENT_TIMEOUT,
	KNEE_EVENT_DROP,	/* value: packets */
	/* cocoa's, of a flow and a link; values in packets or ns. */
	KNEE_EVENT_BUFFER,
	KNEE_EVENT_BACKLOG,
	KNEE_EVENT_IDLE,		/* ns */
	KNEE_EVENT_ENLARGE,
	KNEE_EVENT_REDUCE,
	KNEE_EVENT_LOSS,		/* ns: the interval that ended, as for the next three */
	KNEE_EVENT_RESTART,
	KNEE_EVENT_LONGEST_INTERVAL,
	KNEE_EVENT_GUARD_INTERVAL,
};

#define KNEE_IS_LINK	(1U << 31)	/* in `index`: a link, not a flow */
#define KNEE_NOBODY	0xffffffffU

/* A flow at one time; counts are since the flow's start. */
struct knee_flow_row {
	__u64 at_ns;
	__u32 kind;
	__u32 index;
	__u64 delivered_bytes;	/* payload that arrived, as far as the sender knows by ACKs and SACKs */
	__u64 sent_bytes;	/* payload sent, retransmissions too; of a program: with all headers */
	__u64 sent;		/* packets of it */
	__u64 received;		/* data packets that left the last link */
	__u64 received_bytes;	/* their bytes, IP headers and link overhead included */
	__u64 queued_ns;	/* their time in queues */
	__u64 cwnd_ns;		/* integral of the window over time, packets * ns */
	__u64 rtt_sum_us;	/* sum of the interval's RTT samples */
	__u64 pacing_rate;	/* bytes/s; ~0: none */
	__u32 rtt_count;
	__u32 rtt_min_us;
	__u32 rtt_max_us;
	__u32 srtt_us;		/* smoothed RTT times eight */
	__u32 cwnd;
	__u32 in_flight;
	__u32 lost;
	__u32 retransmitted;
	__u32 timeouts;
	__u16 state;		/* TCP_CA_... */
	__u16 phase;
	__u64 all_rtt_sum_us;	/* RTT samples since figures began */
	__u32 all_rtt_count;
	__u32 all_rtt_min_us;
	__u32 all_rtt_max_us;
	__u32 reserved;
};

/* A link; counts are since the start. */
struct knee_link_row {
	__u64 at_ns;
	__u32 kind;
	__u32 index;
	__u64 bytes;		/* that left, overhead included */
	__u64 packets;
	__u64 delay_sum_ns;	/* sum of the queueing delays of the interval's packets */
	__u64 delay_max_ns;
	__u64 delay_count;
	__u64 all_delay_sum_ns;	/* of those since figures began */
	__u64 all_delay_max_ns;
	__u64 all_delay_count;
	__u32 drops;
	__u32 marks;
	__u32 backlog_packets;
	__u32 backlog_bytes;
	__u64 reserved[7];
};

struct knee_event_row {
	__u64 at_ns;
	__u32 kind;
	__u32 flow;		/* KNEE_NOBODY: none */
	__u32 link;		/* KNEE_NOBODY: none */
	__u16 event;
	__u16 code;
	__u64 value;
	__u64 reserved[15];
};

/* A packet at its flow's sender. */
struct knee_packet_row {
	__u64 at_ns;
	__u32 kind;
	__u32 index;		/* the flow */
	__u32 size;		/* of the IP packet */
	__u32 captured;		/* bytes of its beginning that are here */
	__u8 bytes[128];
};

struct knee_histogram_row {
	__u64 at_ns;
	__u32 kind;
	__u32 index;
	__u32 first;		/* bucket of the first count */
	__u32 counts;		/* how many u32 follow, padded to whole rows */
	__u64 reserved[16];
};

/* How packets cross the lab, set once per run. */
struct knee_setup {
	__u32 flows;
	__u32 links;
	__u64 seed;
};

/* Watch the socket `fd` as flow `flow`; before it connects. */
struct knee_flow {
	__s32 fd;
	__u32 flow;
	__u32 last_link;	/* the link behind which its packets count as received */
	__u32 phases;		/* enum knee_phases: how to tell the phase */
	__u64 bytes;		/* of a finite transfer; 0: endless */
	__u32 ect1;		/* its ECT(0) becomes ECT(1) */
	__u32 reserved;
};

enum knee_phases {
	KNEE_PHASES_WINDOW,	/* slow start below ssthresh, else congestion avoidance */
	KNEE_PHASES_BBR,	/* startup, drain, probe_bw, probe_rtt by the gains */
	KNEE_PHASES_INFO,	/* the second word of the algorithm's info */
};

/* Watch the queue `handle` of a device of the caller's network namespace. */
struct knee_link {
	__u32 link;
	__s32 ifindex;
	__u32 handle;
	__u32 loss;		/* probability times 2^32 - 1 */
};

struct knee_mark {
	__u32 kind;
	__u32 index;
};

/* A flow's delay in queues of kind knee_delay, for what comes from this address: its receiver's. */
struct knee_delay {
	__u32 flow;
	__u32 receiver;		/* network order */
	__u64 ns;
};

/* Watch the packets of flow `flow` as those of program number `program`. */
struct knee_program {
	__u32 flow;
	__u32 program;
	__u32 first_link;	/* where its packets count as sent */
	__u32 last_link;	/* behind which they count as received */
};

/* Attributes of a queue of kind knee_wire. */
enum knee_wire {
	KNEE_WIRE_RATE = 1,	/* u64: bit/s */
	KNEE_WIRE_OVERHEAD,	/* u32: bytes beyond a frame of Ethernet */
	KNEE_WIRE_ATM,		/* u32: whether packets go in cells of ATM */
};
#define KNEE_WIRE_MAX	KNEE_WIRE_ATM

#define KNEE_SETUP	_IOW('k', 1, struct knee_setup)
#define KNEE_FLOW	_IOW('k', 2, struct knee_flow)
#define KNEE_LINK	_IOW('k', 3, struct knee_link)
#define KNEE_MARK	_IOW('k', 4, struct knee_mark)
#define KNEE_SAMPLE	_IOW('k', 5, __u64)	/* the end of the interval, ns since time zero */
#define KNEE_LOSS	_IOW('k', 6, struct knee_mark)	/* index: link; kind: loss */
#define KNEE_DELAY	_IOW('k', 7, struct knee_delay)
#define KNEE_FINISH	_IO('k', 8)	/* reads give histograms, as rows */
#define KNEE_EPOCH	_IOW('k', 9, __u64)	/* time zero of rows, CLOCK_MONOTONIC, ns */
#define KNEE_PROGRAM	_IOW('k', 10, struct knee_program)
/* A flow that is watched as a program: its connections too, if they have this algorithm, a copy of that of socket fd.
 * */
#define KNEE_CONNECTIONS	_IOW('k', 11, struct knee_flow)
#define KNEE_CONNECTIONS_CC	"knee_%u"

/* Capture the packets of flows whose senders are at this device (ifindex) of the caller's network namespace. */
#define KNEE_CAPTURE	_IOW('k', 12, __u64)

/* All rows have the same size. */
#define KNEE_ROW_SIZE	152
_Static_assert(sizeof(struct knee_flow_row) == KNEE_ROW_SIZE, "flow row");
_Static_assert(sizeof(struct knee_link_row) == KNEE_ROW_SIZE, "link row");
_Static_assert(sizeof(struct knee_event_row) == KNEE_ROW_SIZE, "event row");
_Static_assert(sizeof(struct knee_packet_row) == KNEE_ROW_SIZE, "packet row");
_Static_assert(sizeof(struct knee_histogram_row) == KNEE_ROW_SIZE, "histogram row");

#endif
