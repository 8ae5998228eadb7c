// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Rows on their way to the traffic program: one buffer, emptied by each read. */
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "probe.h"

/* Histograms omit empty buckets at both ends. */
struct row {
	u8 bytes[KNEE_ROW_SIZE];
};

static struct {
	struct row *rows;
	u32 count, room;
	u32 lost;		/* rows that did not fit */
	u32 next;		/* histogram to be read next, flows before links */
	bool finishing;
} out;

int probe_rows_init(u32 rows)
{
	out.rows = vmalloc(array_size(rows, sizeof(*out.rows)));
	out.room = rows;
	return out.rows ? 0 : -ENOMEM;
}

void probe_rows_exit(void)
{
	vfree(out.rows);
}

/* A zeroed row, with interrupts of the network held off by the caller; NULL: full. */
static void *new_row(void)
{
	if (out.count == out.room) {
		out.lost++;
		return NULL;
	}
	return memset(&out.rows[out.count++], 0, sizeof(struct row));
}

/* A row of a flow with what is counted on the way; as new_row(). */
static struct knee_flow_row *new_flow_row(u32 kind, u32 index)
{
	const struct probe_flow *flow = &probe.flows[index];
	struct knee_flow_row *row = new_row();

	if (!row)
		return NULL;
	row->at_ns = kind == KNEE_ROW_SAMPLE ? probe.sample_ns : probe_now();
	row->kind = kind;
	row->index = index;
	row->received = flow->received;
	row->received_bytes = flow->received_bytes;
	row->queued_ns = flow->queued_ns;
	return row;
}

/* A flow's RTT samples. Those of an interval end with its row; others are kept while figures are taken. */
static void put_rtts(struct knee_flow_row *row, struct probe_flow *flow)
{
	row->rtt_sum_us = flow->rtt_sum_us;
	row->rtt_count = flow->rtt_count;
	row->rtt_min_us = flow->rtt_min_us;
	row->rtt_max_us = flow->rtt_max_us;
	row->all_rtt_sum_us = flow->all_rtt_sum_us;
	row->all_rtt_count = flow->all_rtt_count;
	row->all_rtt_min_us = flow->all_rtt_min_us;
	row->all_rtt_max_us = flow->all_rtt_max_us;
	if (row->kind == KNEE_ROW_SAMPLE) {
		flow->rtt_sum_us = flow->rtt_count = flow->rtt_max_us = 0;
		flow->rtt_min_us = U32_MAX;
	}
	if (row->kind == KNEE_ROW_BEGIN || row->kind == KNEE_ROW_END || row->kind == KNEE_ROW_DONE)
		flow->measured = row->kind == KNEE_ROW_BEGIN;
}

/* A row of a flow whose socket the caller holds, or of which only counts on the way matter. */
void probe_row_flow_locked(u32 kind, u32 index)
{
	struct probe_flow *flow = &probe.flows[index];
	struct tcp_sock *tp = tcp_sk(flow->sk);
	struct knee_flow_row *row;

	row = flow->sk ? new_flow_row(kind, index) : NULL;
	if (!row)
		return;
	if (flow->cwnd_since_ns)
		probe_socket_window(flow);
	row->delivered_bytes = tp->bytes_acked;
	/* The SYN counts as a byte. */
	row->delivered_bytes -= row->delivered_bytes > 0;
	/* What is SACKed waits for a gap to be filled; all but the last of a transfer are full segments. */
	row->delivered_bytes += (u64)tp->sacked_out * tp->mss_cache;
	row->sent_bytes = tp->bytes_sent;
	row->sent = tp->data_segs_out;
	row->cwnd_ns = flow->cwnd_ns;
	row->pacing_rate = smp_load_acquire(&flow->sk->sk_pacing_status) == SK_PACING_NONE ?
		~0ULL : flow->sk->sk_pacing_rate;
	row->srtt_us = tp->srtt_us;
	row->cwnd = tcp_snd_cwnd(tp);
	row->in_flight = tcp_packets_in_flight(tp);
	row->lost = tp->lost;
	row->retransmitted = tp->total_retrans;
	row->timeouts = flow->timeouts;
	row->state = inet_csk(flow->sk)->icsk_ca_state;
	row->phase = flow->phase;
	put_rtts(row, flow);
}

/* A row of a flow that is a program, from its packets, and from its connections where they are watched. */
void probe_row_program(u32 kind, u32 index)
{
	struct probe_flow *flow = &probe.flows[index];
	struct knee_flow_row *row;

	local_bh_disable();
	row = new_flow_row(kind, index);
	if (row) {
		row->sent_bytes = flow->sent_bytes;
		row->sent = flow->sent;
		row->pacing_rate = ~0ULL;
		row->lost = flow->lost;
		if (flow->real) {
			probe_connections_row(flow, row);
			put_rtts(row, flow);
		}
	}
	local_bh_enable();
}

void probe_row_flow(u32 kind, u32 index)
{
	struct sock *sk = probe.flows[index].sk;

	if (probe.flows[index].program)
		probe_row_program(kind, index);
	if (!sk)
		return;
	lock_sock(sk);
	local_bh_disable();
	probe_row_flow_locked(kind, index);
	local_bh_enable();
	release_sock(sk);
}

void probe_row_link(u32 kind, u32 index)
{
	struct probe_link *link = &probe.links[index];
	struct knee_link_row *row;

	if (!link->queue)
		return;
	local_bh_disable();
	row = new_row();
	if (!row)
		goto out;
	row->at_ns = kind == KNEE_ROW_SAMPLE ? probe.sample_ns : probe_now();
	row->kind = kind;
	row->index = index | KNEE_IS_LINK;
	row->bytes = link->bytes;
	row->packets = link->packets;
	row->delay_sum_ns = link->delay_sum_ns;
	row->delay_max_ns = link->delay_max_ns;
	row->delay_count = link->delay_count;
	row->all_delay_sum_ns = link->all_delay_sum_ns;
	row->all_delay_max_ns = link->all_delay_max_ns;
	row->all_delay_count = link->all_delay_count;
	row->drops = link->queue->qstats.drops;
	row->marks = link->marks;
	row->backlog_packets = link->queue->q.qlen;
	row->backlog_bytes = link->queue->qstats.backlog;
	if (kind == KNEE_ROW_SAMPLE)
		link->delay_sum_ns = link->delay_max_ns = link->delay_count = 0;
	if (kind == KNEE_ROW_SAMPLE && link->cocoa)
		probe_cocoa_sample(link);
	if (kind == KNEE_ROW_BEGIN)
		link->measured = true;
out:
	local_bh_enable();
}

void probe_row_event(u64 at_ns, u32 flow, u32 link, u16 event, u16 code, u64 value)
{
	struct knee_event_row *row;

	local_bh_disable();
	row = new_row();
	if (row) {
		row->at_ns = at_ns;
		row->kind = KNEE_ROW_EVENT;
		row->flow = flow;
		row->link = link;
		row->event = event;
		row->code = code;
		row->value = value;
	}
	local_bh_enable();
}

/* A row of a packet, to be filled with interrupts of the network held off; NULL: full. */
struct knee_packet_row *probe_row_packet(u32 flow)
{
	struct knee_packet_row *row = new_row();

	if (row) {
		row->at_ns = probe_now();
		row->kind = KNEE_ROW_PACKET;
		row->index = flow;
	}
	return row;
}

static u32 rows_of(u32 counts)
{
	return DIV_ROUND_UP(counts * sizeof(u32), sizeof(struct row));
}

/* Adds a histogram if there is room; returns whether there was. */
static bool add_histogram(u32 index, const u32 *counts, u32 buckets)
{
	struct knee_histogram_row *row;
	u32 first = 0, last = buckets;

	while (first < buckets && !counts[first])
		first++;
	while (last > first && !counts[last - 1])
		last--;
	if (out.count + 1 + rows_of(last - first) > out.room)
		return false;
	row = new_row();
	row->kind = KNEE_ROW_HISTOGRAM;
	row->index = index;
	row->first = first;
	row->counts = last - first;
	memset(row + 1, 0, rows_of(last - first) * sizeof(struct row));
	memcpy(row + 1, counts + first, (last - first) * sizeof(u32));
	out.count += rows_of(last - first);
	return true;
}

static void add_histograms(void)
{
	for (; out.next < probe.flow_count + probe.link_count; out.next++) {
		u32 link = out.next - probe.flow_count;
		bool fits = true;

		if (out.next < probe.flow_count) {
			if (probe.flows[out.next].rtt)
				fits = add_histogram(out.next, probe.flows[out.next].rtt, KNEE_RTT_BUCKETS);
		} else if (probe.links[link].delay) {
			fits = add_histogram(link | KNEE_IS_LINK, probe.links[link].delay, KNEE_DELAY_BUCKETS);
		}
		if (!fits)
			return;
	}
}

/* From now on reads give histograms, when the rows so far are out; an error: rows were lost. */
int probe_rows_finish(void)
{
	u32 i;

	for (i = 0; i < probe.link_count; i++)
		probe_queue_settle(i);
	out.finishing = true;
	return out.lost ? -EOVERFLOW : 0;
}

/* Gives whole rows, each once. */
ssize_t probe_rows_read(char __user *to, size_t size)
{
	u32 count;
	int err;

	local_bh_disable();
	if (!out.count && out.finishing)
		add_histograms();
	count = min_t(u32, out.count, size / sizeof(struct row));
	local_bh_enable();
	err = copy_to_user(to, out.rows, count * sizeof(struct row)) ? -EFAULT : 0;
	if (err)
		return err;
	local_bh_disable();
	out.count -= count;
	memmove(out.rows, out.rows + count, out.count * sizeof(struct row));
	local_bh_enable();
	return count * sizeof(struct row);
}
