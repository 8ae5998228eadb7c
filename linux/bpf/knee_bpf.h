/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel's types for BPF congestion controls. Only the fields that are used are declared; the loader relocates
 * them with the running kernel's BTF (CO-RE), so that one object fits every kernel. Bit fields are relocated only if
 * read with BPF_CORE_READ_BITFIELD; a plain read takes the bits as declared here.
 */
#ifndef KNEE_BPF_H
#define KNEE_BPF_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define AF_INET6 10

#include "intf.h"
#include "knee_tcp.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	__u64 icsk_ca_priv[13];
};

struct tcp_options_received {
	__u32 rcv_tsval;
	__u16 saw_tstamp : 1;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 srtt_us;
	__u64 tcp_mstamp;
	__u64 delivered_mstamp;
	__u32 max_packets_out;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 delivered;
	__u32 lost;
	__u32 app_limited;
	__u8 is_cwnd_limited : 1;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

struct rate_sample {
	__u64 prior_mstamp;
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	long rtt_us;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	__u32 last_end_seq;
	bool is_app_limited;
};

#pragma clang attribute pop

/*
 * The operations, by the kernel's names. The loader matches members by name. From 7.1 on, the kernel calls
 * cwnd_event_tx_start where it called cwnd_event with EVENT_TX_START before; the loader leaves out the former where the
 * kernel's type lacks it.
 */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, __u32 event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
	__u32 flags;
};

/* The flag of algorithms that every user may select, as in the kernel. */
#define TCP_CONG_NON_RESTRICTED 1

/* Values of enum tcp_ca_event. */
enum {
	EVENT_TX_START = 0,
	EVENT_CWND_RESTART = 1,
	EVENT_COMPLETE_CWR = 2,
};

enum {
	PACING_NONE = 0,
	PACING_NEEDED = 1,
	PACING_FQ = 2,
};

/* Slow start and additive increase as in the kernel's Reno. */
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* The 104 bytes that the kernel reserves in a socket for its congestion control. */
static inline void *ca_state(const struct sock *sk)
{
	return (void *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

#define CA_STATE_SIZE sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv)

/*
 * For how long nothing was in flight, where nothing is: microseconds since the last ACK that delivered something. Less
 * than a millisecond is what the stack takes from an ACK of the whole window to the packets that it allows.
 */
static inline __u64 idle_us(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp >= tp->delivered_mstamp + 1000 ? tp->tcp_mstamp - tp->delivered_mstamp : 0;
}

/* Whether the window limits what is in flight, decided as in the kernel (see RFC 7661). */
static inline bool is_cwnd_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * The state of each connection, by the address of its socket. A connection has an entry from its first ACK until it
 * ends.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct knee_connection);
} connections SEC(".maps");

/* The entry of a connection, created if necessary; NULL if the map is full. */
static inline struct knee_connection *shown(const struct sock *sk)
{
	__u64 key = (__u64)sk;
	struct knee_connection *entry = bpf_map_lookup_elem(&connections, &key);

	if (!entry) {
		struct knee_connection fresh = {};

		fresh.local_port = sk->__sk_common.skc_num;
		fresh.remote_port = sk->__sk_common.skc_dport;
		if (sk->__sk_common.skc_family == AF_INET6) {
			fresh.remote_0 = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
			fresh.remote_1 = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1];
			fresh.remote_2 = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2];
			fresh.remote_3 = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
		} else {
			fresh.remote_2 = bpf_htonl(0xffff);
			fresh.remote_3 = sk->__sk_common.skc_daddr;
		}
		bpf_map_update_elem(&connections, &key, &fresh, BPF_ANY);
		entry = bpf_map_lookup_elem(&connections, &key);
	}
	return entry;
}

static inline void no_longer_shown(const struct sock *sk)
{
	__u64 key = (__u64)sk;

	bpf_map_delete_elem(&connections, &key);
}

#endif
