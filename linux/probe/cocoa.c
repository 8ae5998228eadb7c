// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What cocoa decides at a full buffer, as events with the names that the simulator has for them.
 * sch_cocoa knows nothing of this: its flow is looked at before and after the packet.
 */
#include "probe.h"
#include "../modules/cocoa_flow.h"

/* Starts to watch a queue, if it is cocoa. */
int probe_cocoa_watch(struct probe_link *link, struct Qdisc *queue)
{
	struct cocoa_sched_data *cocoa = qdisc_priv(queue);

	if (strcmp(queue->ops->id, "cocoa"))
		return 0;
	link->cocoa_flows = kvmalloc_array(cocoa->flows.mask + 1, sizeof(*link->cocoa_flows), GFP_KERNEL);
	if (!link->cocoa_flows)
		return -ENOMEM;
	link->cocoa = cocoa;
	return 0;
}

/* The flow of a packet before it is enqueued. */
void probe_cocoa_before(struct probe_link *link, struct sk_buff *skb, struct probe_cocoa *seen)
{
	const struct cocoa_flow *f;

	seen->bucket = cocoa_bucket(link->cocoa, skb);
	f = link->cocoa->flows.table[seen->bucket];
	seen->full = f && f->qlen >= f->cocoa.buffer;
	seen->flow = KNEE_NOBODY;
	probe_flow_of(skb, &seen->flow);
	seen->start = f ? f->cocoa.start : 0;
	if (seen->full)
		seen->before = f->cocoa;
}

/* Recognises the branches of Algorithm 1 by their effects. */
static void tell_full(const struct probe_cocoa *seen, const struct knee_cocoa *after, u32 link)
{
	const struct knee_cocoa *before = &seen->before;
	u64 now = probe_now(), length = after->start - before->start;
	u64 longest = before->enlarged ? 0 : before->longest;
	u32 least = before->least == KNEE_COCOA_NONE ? 0 : before->least;

	probe_row_event(now, seen->flow, link, KNEE_EVENT_IDLE, 0, before->idle);
	if (after->enlarged && !before->enlarged) {
		probe_row_event(now, seen->flow, link, KNEE_EVENT_ENLARGE, 0, after->buffer - before->buffer);
	} else if (after->guard_end == before->guard_end) {
		probe_row_event(now, seen->flow, link, KNEE_EVENT_LOSS, 0, length);
		return;
	} else if (before->enlarged || !before->guard_end) {
		probe_row_event(now, seen->flow, link, KNEE_EVENT_RESTART, 0, length);
	} else {
		probe_row_event(now, seen->flow, link, KNEE_EVENT_REDUCE, 0,
				length >= longest ? least : before->standing);
	}
	if (after->buffer != before->buffer)
		probe_row_event(now, seen->flow, link, KNEE_EVENT_BUFFER, 0, after->buffer);
	if (after->guard_end == before->guard_end)
		return;
	probe_row_event(now, seen->flow, link, KNEE_EVENT_LONGEST_INTERVAL, 0, max(longest, length));
	probe_row_event(now, seen->flow, link, KNEE_EVENT_GUARD_INTERVAL, 0, after->guard_end - after->start);
}

/* What happened to the flow: it is new, or its buffer was full. */
void probe_cocoa_after(struct probe_link *link, const struct probe_cocoa *seen)
{
	u32 index = link - probe.links;
	const struct cocoa_flow *f = link->cocoa->flows.table[seen->bucket];

	if (!f)
		return;
	link->cocoa_flows[seen->bucket] = seen->flow;
	if (seen->full)
		tell_full(seen, &f->cocoa, index);
	else if (f->cocoa.start != seen->start)
		probe_row_event(probe_now(), seen->flow, index, KNEE_EVENT_BUFFER, 0, f->cocoa.buffer);
}

/* At the end of an interval: what each flow has queued. */
void probe_cocoa_sample(const struct probe_link *link)
{
	u32 bucket;

	for (bucket = 0; bucket <= link->cocoa->flows.mask; bucket++) {
		const struct cocoa_flow *f = link->cocoa->flows.table[bucket];

		if (f)
			probe_row_event(probe.sample_ns, link->cocoa_flows[bucket], link - probe.links,
					KNEE_EVENT_BACKLOG, 0, f->qlen);
	}
}
