/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Interfaces between the parts of knee_probe. */
#ifndef KNEE_PROBE_PARTS_H
#define KNEE_PROBE_PARTS_H

#include <linux/ip.h>
#include <linux/ktime.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/pkt_sched.h>
#include <net/tcp.h>

#include "knee_cocoa.h"
#include "knee_probe.h"

/* A flow: its counters and its socket. */
struct probe_flow {
	struct sock *sk;		/* the sender; NULL: not yet, or a program */
	bool program;			/* only its packets are watched */
	u32 first_link;			/* of a program */
	const struct tcp_congestion_ops *real;
	struct tcp_congestion_ops ops;	/* the same, with our hooks */
	u32 last_link;
	u32 phases;
	u16 phase;
	u64 bytes;			/* of a finite transfer; 0: endless, or done */
	bool ect1;			/* an L4S flow, see queue.c */
	u64 delay_ns;			/* of its ACKs, behind the receiver */
	__be32 receiver;
	u64 received, received_bytes, queued_ns;
	u64 sent, sent_bytes;		/* of a program, as the next one */
	u32 lost;
	u64 cwnd_ns, cwnd_since_ns;
	u64 rtt_sum_us, all_rtt_sum_us;
	u32 rtt_count, rtt_min_us, rtt_max_us;
	u32 all_rtt_count, all_rtt_min_us, all_rtt_max_us;
	u32 timeouts;
	bool ready;			/* the algorithm has begun */
	bool measured;			/* while its figures are taken */
	u32 *rtt;			/* histogram */
	/* Of an application's connections; see connections.c. */
	struct list_head connections;
	u32 gone_lost, gone_retransmitted;	/* of those that are gone */
};

/* A link: the queue that is watched, and its own functions. */
struct probe_link {
	struct Qdisc *queue;		/* NULL: not yet */
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	bool wire;			/* its packets depart when a wire has sent them */
	u32 loss;
	u64 random;			/* state of the generator of losses */
	u64 bytes, packets;
	u64 delay_sum_ns, delay_max_ns, delay_count;
	u64 all_delay_sum_ns, all_delay_max_ns, all_delay_count;
	u32 marks;
	bool measured;
	u32 *delay;			/* histogram */
	const struct cocoa_sched_data *cocoa;	/* NULL: the queue is another */
	u32 *cocoa_flows;		/* the flow of each of its buckets */
	/* Drops not recorded yet. */
	u32 dropping_flow, dropping_count;
	u64 dropping_first_ns, dropping_last_ns;
};

/* A flow of cocoa when a packet arrives. */
struct probe_cocoa {
	struct knee_cocoa before;	/* where it is full */
	u64 start;			/* of its interval; 0: there was none */
	u32 bucket;
	u32 flow;			/* the packet's */
	bool full;
};

struct probe {
	u32 flow_count, link_count;
	u32 program_count;
	u32 *programs;			/* their flows, by number */
	bool l4s;			/* there are L4S flows */
	struct probe_flow *flows;
	struct probe_link *links;
	u64 seed;
	u64 epoch_ns;
	u64 sample_ns;			/* the end of the interval that is being written */
};

extern struct probe probe;

/* Nanoseconds since time zero of the run. */
static inline u64 probe_now(void)
{
	return ktime_get_ns() - probe.epoch_ns;
}

/* The flow of a socket that is watched, whose algorithm has our hooks. */
static inline struct probe_flow *probe_flow_of_socket(const struct sock *sk)
{
	return container_of(inet_csk(sk)->icsk_ca_ops, struct probe_flow, ops);
}

/* The flow that a packet belongs to, by the addresses of programs, else by its ports; NULL: none. */
static inline struct probe_flow *probe_flow_of(const struct sk_buff *skb, u32 *index)
{
	const struct iphdr *ip;
	const struct tcphdr *tcp;
	u32 i;

	if (skb->protocol != htons(ETH_P_IP))
		return NULL;
	ip = ip_hdr(skb);
	if (probe.program_count && ntohl(ip->daddr) & KNEE_PROGRAM_BIT) {
		i = (ntohl(ip->daddr) & (KNEE_PROGRAM_BIT - 1)) - 1;
		if (i >= probe.program_count)
			return NULL;
		*index = probe.programs[i];
		return &probe.flows[*index];
	}
	if (ip->protocol != IPPROTO_TCP ||
	    skb_network_offset(skb) + ip->ihl * 4 + sizeof(*tcp) > skb_headlen(skb))
		return NULL;
	tcp = (const struct tcphdr *)((const u8 *)ip + ip->ihl * 4);
	i = ntohs(tcp->dest) - KNEE_PORT;
	if (tcp->dest != tcp->source || i >= probe.flow_count)
		return NULL;
	*index = i;
	return &probe.flows[i];
}

/* Whether a packet of a flow carries its data: payload over TCP; of a program, anything else that goes to the receiver.
 * */
static inline bool probe_has_payload(const struct probe_flow *flow, const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	const struct tcphdr *tcp = (const struct tcphdr *)((const u8 *)ip + ip->ihl * 4);

	if (flow->program && ip->daddr != flow->receiver)
		return false;
	if (ip->protocol != IPPROTO_TCP)
		return true;
	return ntohs(ip->tot_len) > ip->ihl * 4 + tcp->doff * 4;
}

/* The bucket of a value: 2^bits per octave. */
static inline u32 probe_bucket(u64 value, u32 bits, u32 buckets)
{
	u32 width = fls64(value);
	u32 octave = width > bits + 1 ? width - bits - 1 : 0;
	u32 bucket = (octave << bits) + (u32)(value >> octave);

	return min(bucket, buckets - 1);
}

/* The next state of a generator (Steele, Lea, Flood: SplitMix64, OOPSLA 2014). */
static inline u64 probe_random(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* rows.c */
int probe_rows_init(u32 rows);
void probe_rows_exit(void);
ssize_t probe_rows_read(char __user *to, size_t size);
void probe_row_flow(u32 kind, u32 index);
void probe_row_flow_locked(u32 kind, u32 index);
void probe_row_program(u32 kind, u32 index);
void probe_row_link(u32 kind, u32 index);
void probe_row_event(u64 at_ns, u32 flow, u32 link, u16 event, u16 code, u64 value);
struct knee_packet_row *probe_row_packet(u32 flow);
int probe_rows_finish(void);

/* socket.c */
int probe_socket_watch(const struct knee_flow *told);
void probe_sockets_exit(void);
void probe_socket_window(struct probe_flow *flow);
void probe_rtt(struct probe_flow *flow, s32 us);

/* connections.c */
int probe_connections_watch(const struct knee_flow *told);
void probe_connections_exit(void);
void probe_connections_row(struct probe_flow *flow, struct knee_flow_row *row);

/* queue.c */
int probe_queue_watch(const struct knee_link *told);
void probe_queues_exit(void);
void probe_queue_settle(u32 link);
void probe_queue_departed(const struct Qdisc *queue, const struct sk_buff *skb);
int probe_program_watch(const struct knee_program *told);

/* cocoa.c */
int probe_cocoa_watch(struct probe_link *link, struct Qdisc *queue);
void probe_cocoa_before(struct probe_link *link, struct sk_buff *skb, struct probe_cocoa *seen);
void probe_cocoa_after(struct probe_link *link, const struct probe_cocoa *seen);
void probe_cocoa_sample(const struct probe_link *link);

/* delay.c */
int probe_delay_init(void);
void probe_delay_exit(void);

/* capture.c */
int probe_capture(u32 ifindex);
void probe_capture_exit(void);

/* wire.c */
int probe_wire_init(void);
void probe_wire_exit(void);
bool probe_is_wire(const struct Qdisc *root);

#endif
