// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Packets at the senders, as tcpdump there would see them: data as it leaves the sender's device, and ACKs as they
 * arrive there. Each is a row with the packet's first bytes. A tap hears of packets, and changes nothing.
 */
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <net/net_namespace.h>

#include "probe.h"

/* A device of senders for each direction. */
#define TAPS	2

static struct packet_type taps[TAPS];
static u32 tap_count;

static int heard(struct sk_buff *skb, struct net_device *device, struct packet_type *tap, struct net_device *original)
{
	bool leaves = skb->pkt_type == PACKET_OUTGOING;
	struct knee_packet_row *row;
	u32 index, length;
	struct probe_flow *flow = probe_flow_of(skb, &index);

	/* At the device are senders of flows in one direction, and receivers of those in the other. */
	if (!flow || (leaves ? ip_hdr(skb)->daddr : ip_hdr(skb)->saddr) != flow->receiver)
		goto out;
	local_bh_disable();
	row = probe_row_packet(index);
	if (row) {
		row->size = ntohs(ip_hdr(skb)->tot_len);
		length = min_t(u32, row->size, sizeof(row->bytes));
		if (!skb_copy_bits(skb, skb_network_offset(skb), row->bytes, length))
			row->captured = length;
	}
	local_bh_enable();
out:
	consume_skb(skb);
	return NET_RX_SUCCESS;
}

/* Captures at a device of the caller's network namespace. */
int probe_capture(u32 ifindex)
{
	struct packet_type *tap = &taps[tap_count];
	struct net_device *device;

	if (tap_count == TAPS)
		return -EINVAL;
	device = dev_get_by_index(current->nsproxy->net_ns, ifindex);
	if (!device)
		return -ENODEV;
	tap->type = htons(ETH_P_ALL);
	tap->dev = device;
	tap->func = heard;
	dev_add_pack(tap);
	tap_count++;
	/* The tap goes before the device does: both end with the guest. */
	dev_put(device);
	return 0;
}

void probe_capture_exit(void)
{
	while (tap_count)
		dev_remove_pack(&taps[--tap_count]);
}
