// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Gives the root queue disciplines of two devices the same packets and the same
 * chances to send, at times that differ by a constant, and compares what they
 * do: which packets they drop, which one leaves next, how many they hold.
 * Loading it does that; it does not stay loaded, and the kernel's log has the
 * result. The disciplines keep their state, so that a second load goes on.
 *
 * Flows take turns at being too fast for the link and at leaving it idle, so
 * that buffers fill, are enlarged and are reduced.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/prandom.h>
#include <linux/sort.h>
#include <net/sch_generic.h>

static char *devices = "";
module_param(devices, charp, 0444);
MODULE_PARM_DESC(devices, "two devices, as A,B");

static uint seed = 1;
module_param(seed, uint, 0444);

static uint steps = 1000;
module_param(steps, uint, 0444);
MODULE_PARM_DESC(steps, "of some packets in, or some out");

static uint flows = 3;
module_param(flows, uint, 0444);

static uint segments = 1;
module_param(segments, uint, 0444);
MODULE_PARM_DESC(segments, "above 1: of the link's packets of which each is marked as merged");

/* Between the two, longer than what one does in a step. */
#define SHIFT_NS	150000
/* Waits shorter than this read the clock; longer ones sleep. */
#define SLEEP_NS	500000
/*
 * The most by which the time between the two may differ from the shift: what
 * the memory allocator of BPF may take between two packets of a step.
 */
#define LATE_NS		100000
#define STEP_NS		1000000
/* Between two packets of a step, so that each finds the same time, whatever one before it took. */
#define GAP_NS		5000
#define MOST_PACKETS	12
/* Steps for which a flow is as fast as it is. */
#define PHASE		50
#define MOST_DROPS	512

struct side {
	struct net_device *dev;
	struct sk_buff *to_free;
	u32 dropped[MOST_DROPS];	/* marks of the packets, ascending */
	u32 drops;
	u64 all_drops;
};

static u32 last_mark;
static u64 latest;	/* the most by which that was more than the shift, ns */

static struct sk_buff *packet(struct net_device *dev, u32 flow, u32 mark)
{
	struct sk_buff *skb = alloc_skb(1600, GFP_ATOMIC);

	if (!skb)
		return NULL;
	skb_put(skb, 200 + mark % 1315);
	skb->dev = dev;
	skb->mark = mark;
	skb->protocol = htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_hash(skb, (flow + 1) * 0x9e3779b9u, PKT_HASH_TYPE_L4);
	qdisc_skb_cb(skb)->pkt_len = skb->len;
	if (segments > 1) {
		skb_shinfo(skb)->gso_size = 1;
		skb_shinfo(skb)->gso_segs = segments;
	}
	return skb;
}

/* Sleeps, and then reads the clock until it is the time, without interrupts. Returns what time it is. */
static u64 wait_until(u64 time, unsigned long *irqs)
{
	u64 now = ktime_get_ns(), most;
	unsigned long flags;

	if (time > now + SLEEP_NS) {
		most = div_u64(time - now, NSEC_PER_USEC);
		usleep_range(most - 10, most);
	}
	local_irq_save(flags);
	while ((now = ktime_get_ns()) < time)
		cpu_relax();
	*irqs = flags;
	return now;
}

/*
 * Waits for the time of a packet of a step, after which interrupts are off.
 * That of the first side is from `time` on, that of the second one a shift
 * after what the first one was.
 */
static void wait_for(u64 *times, bool second, u32 packet, u64 time, unsigned long *irqs)
{
	if (!second) {
		times[packet] = wait_until(time + packet * GAP_NS, irqs);
		return;
	}
	time = times[packet] + SHIFT_NS;
	latest = max(latest, wait_until(time, irqs) - time);
}

static int by_number(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static void note_drops(struct side *side)
{
	struct sk_buff *skb, *next;

	side->drops = 0;
	for (skb = side->to_free; skb; skb = next) {
		next = skb->next;
		if (side->drops < MOST_DROPS)
			side->dropped[side->drops++] = skb->mark;
		side->all_drops++;
		skb->next = NULL;
		kfree_skb(skb);
	}
	side->to_free = NULL;
	sort(side->dropped, side->drops, sizeof(u32), by_number, NULL);
}

/* Lets `count` packets of a flow come. */
static int arrive(struct side *side, u32 flow, u32 count, u32 mark, u64 *times, bool second, u64 time)
{
	struct Qdisc *sch = rtnl_dereference(side->dev->qdisc);
	unsigned long irqs;
	u32 i;

	for (i = 0; i < count; i++) {
		struct sk_buff *skb = packet(side->dev, flow, mark + i);

		if (!skb)
			return -ENOMEM;
		wait_for(times, second, i, time, &irqs);
		spin_lock(qdisc_lock(sch));
		sch->enqueue(skb, sch, &side->to_free);
		spin_unlock(qdisc_lock(sch));
		local_irq_restore(irqs);
	}
	note_drops(side);
	return 0;
}

/* Lets up to `count` packets leave; returns how many, and their marks. */
static u32 leave(struct side *side, u32 count, u32 *marks, u64 *times, bool second, u64 time)
{
	struct Qdisc *sch = rtnl_dereference(side->dev->qdisc);
	unsigned long irqs;
	u32 i;

	for (i = 0; i < count; i++) {
		struct sk_buff *skb;

		wait_for(times, second, i, time, &irqs);
		spin_lock(qdisc_lock(sch));
		skb = sch->dequeue(sch);
		spin_unlock(qdisc_lock(sch));
		local_irq_restore(irqs);
		if (!skb)
			break;
		marks[i] = skb->mark;
		consume_skb(skb);
	}
	return i;
}

/* One step on both. Returns what differs, or NULL. */
static const char *step(struct side sides[2], struct rnd_state *random, u32 phase, u64 time)
{
	u32 marks[2][MOST_PACKETS], left[2], i, count = 1 + prandom_u32_state(random) % MOST_PACKETS;
	u64 times[MOST_PACKETS];
	u32 flow = prandom_u32_state(random) % flows, chance = prandom_u32_state(random) % 100;
	u32 load = (hash_32(phase * 31 + flow * 7 + seed, 8) % 3) * 25 + 35;

	if (chance < load) {
		for (i = 0; i < 2; i++)
			if (arrive(&sides[i], flow, count, last_mark + 1, times, i, time))
				return "memory";
		last_mark += count;
		if (sides[0].drops != sides[1].drops)
			return "number of packets dropped";
		if (memcmp(sides[0].dropped, sides[1].dropped, sides[0].drops * sizeof(u32)))
			return "packets dropped";
	} else {
		left[0] = leave(&sides[0], count, marks[0], times, false, time);
		/* One more than that has a time, if it was asked for. */
		left[1] = leave(&sides[1], min(count, left[0] + 1), marks[1], times, true, time);
		if (left[0] != left[1])
			return "number of packets sent";
		for (i = 0; i < left[0]; i++) {
			if (marks[0][i] == marks[1][i])
				continue;
			pr_info("packet %u of %u: %u and %u\n", i, left[0], marks[0][i], marks[1][i]);
			return "packets sent";
		}
	}
	if (qdisc_qlen(rtnl_dereference(sides[0].dev->qdisc)) != qdisc_qlen(rtnl_dereference(sides[1].dev->qdisc)))
		return "queue length";
	return NULL;
}

static int compare(struct side sides[2])
{
	struct rnd_state random;
	const char *differs = NULL;
	u64 time;
	u32 i;

	prandom_seed_state(&random, seed);
	last_mark = seed << 16;
	latest = 0;
	time = ktime_get_ns() + 10 * STEP_NS;
	for (i = 0; i < steps && !differs; i++) {
		time += STEP_NS + prandom_u32_state(&random) % (8 * STEP_NS);
		differs = step(sides, &random, i / PHASE, time);
	}
	if (!differs && latest > LATE_NS)
		differs = "times";
	if (differs)
		pr_info("differ: %s, step %u of %u, seed %u; %u and %u packets dropped, late by up to %llu ns\n", differs, i,
			steps, seed, sides[0].drops, sides[1].drops, latest);
	else
		pr_info("same: %u packets, %llu dropped, late by up to %llu ns\n", last_mark - (seed << 16),
			sides[0].all_drops, latest);
	return differs ? -EINVAL : 0;
}

static int __init decisions_init(void)
{
	struct side *sides = kcalloc(2, sizeof(*sides), GFP_KERNEL);
	char *first = strsep(&devices, ",");
	int err = -ENODEV;

	if (!sides)
		return -ENOMEM;
	flows = clamp(flows, 1u, 64u);
	rtnl_lock();
	sides[0].dev = dev_get_by_name(&init_net, first);
	sides[1].dev = devices ? dev_get_by_name(&init_net, devices) : NULL;
	if (sides[0].dev && sides[1].dev) {
		/* Only we take packets out, not the stack after a watchdog. */
		netif_tx_stop_all_queues(sides[0].dev);
		netif_tx_stop_all_queues(sides[1].dev);
		err = compare(sides);
	}
	dev_put(sides[0].dev);
	dev_put(sides[1].dev);
	rtnl_unlock();
	kfree(sides);
	return err ?: -ECANCELED;
}
module_init(decisions_init);

MODULE_AUTHOR("The knee authors");
MODULE_DESCRIPTION("Compares the decisions of two queue disciplines on the same packets");
MODULE_LICENSE("Dual BSD/GPL");
