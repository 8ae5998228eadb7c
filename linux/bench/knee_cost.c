// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What congestion controls cost per ACK and queue disciplines per packet, in
 * cycles of the time stamp counter; loading it measures, the kernel's log has
 * the result, and it does not stay loaded.
 *
 * Those to be compared take turns in batches, so that all see the same machine,
 * and the median over the batches counts. docs/linux.md says how to run it.
 */
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sort.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <net/sch_generic.h>
#include <net/tcp.h>

#define BATCH	2048

static char *cc = "cubic,lola,daimd";
module_param(cc, charp, 0444);
MODULE_PARM_DESC(cc, "congestion controls, the first is what the others are compared with");

static char *devices = "";
module_param(devices, charp, 0444);
MODULE_PARM_DESC(devices, "devices whose root queue disciplines are compared with that of the first");

static uint batches = 1000;
module_param(batches, uint, 0444);

static uint flows = 1;
module_param(flows, uint, 0444);
MODULE_PARM_DESC(flows, "among which the packets are spread");

static uint standing = 50;
module_param(standing, uint, 0444);
MODULE_PARM_DESC(standing, "packets per flow that wait all the time");

#define MOST	8

static u64 stamp(void)
{
#ifdef __x86_64__
	u32 low, high;

	asm volatile("lfence; rdtsc" : "=a"(low), "=d"(high) :: "memory");
	return (u64)high << 32 | low;
#else
	return get_cycles();
#endif
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 median(u64 *costs)
{
	sort(costs, batches, sizeof(*costs), by_size, NULL);
	return costs[batches / 2] * 100 / BATCH;
}

/* Prints the median cost of each, less what measuring costs, and its ratio to the first. */
static void say(const char *what, char *names[], u64 *costs, int count, u64 measuring)
{
	u64 first = 0;
	int i;

	for (i = 0; i < count; i++) {
		u64 own = median(costs + (size_t)i * batches);

		own = own > measuring ? own - measuring : 0;
		first = i ? first : max_t(u64, own, 1);
		pr_info("%s %s: %llu.%02llu cycles, %llu%% of %s\n", what, names[i], own / 100, own % 100,
			own * 100 / first, names[0]);
	}
}

static int split(char *list, char *names[])
{
	char *name;
	int count = 0;

	while (list && count < MOST && (name = strsep(&list, ",")))
		if (*name)
			names[count++] = name;
	return count;
}

/* A connection over 1 Gbit/s, 20 ms and a buffer of 600 packets, without the packets. */
struct link {
	struct socket *sock;
	u64 now;	/* ns */
	u64 cost;	/* of the batch so far */
	u32 acks;	/* likewise */
	uint batch;
};

#define NS_PER_PACKET	12112ull
#define BASE_US		20000u
#define MOST_PACKETS	(BASE_US * 1000 / NS_PER_PACKET + 600)

/* What an ACK costs here without a congestion control, which has to have a cong_avoid. */
static void nothing_init(struct sock *sk)
{
	tcp_snd_cwnd_set(tcp_sk(sk), MOST_PACKETS);
}

static void nothing_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
}

static struct tcp_congestion_ops nothing = {
	.init		= nothing_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= nothing_cong_avoid,
	.name		= "knee_nothing",
	.owner		= THIS_MODULE,
};

static int open_link(struct link *link, const char *name)
{
	struct tcp_sock *tp;
	struct sock *sk;
	int err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &link->sock);

	if (err)
		return err;
	sk = link->sock->sk;
	tp = tcp_sk(sk);
	err = link->sock->ops->setsockopt(link->sock, SOL_TCP, TCP_CONGESTION,
					  KERNEL_SOCKPTR((void *)name), strlen(name));
	if (err) {
		pr_err("no congestion control %s\n", name);
		sock_release(link->sock);
		link->sock = NULL;
		return err;
	}
	link->now = 1000000000;
	tp->mss_cache = 1448;
	tp->snd_cwnd_clamp = ~0;
	tcp_snd_cwnd_set(tp, 10);
	tp->tcp_mstamp = link->now / 1000;
	if (inet_csk(sk)->icsk_ca_ops->init)
		inet_csk(sk)->icsk_ca_ops->init(sk);
	return 0;
}

static void lose(struct sock *sk)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	struct tcp_sock *tp = tcp_sk(sk);

	tp->prior_cwnd = tcp_snd_cwnd(tp);
	tp->snd_ssthresh = ops->ssthresh(sk);
	if (ops->set_state)
		ops->set_state(sk, TCP_CA_Recovery);
	tcp_snd_cwnd_set(tp, tp->snd_ssthresh);
	tp->snd_cwnd_cnt = 0;
	if (ops->cwnd_event)
		ops->cwnd_event(sk, CA_EVENT_COMPLETE_CWR);
	if (ops->set_state)
		ops->set_state(sk, TCP_CA_Open);
}

/* Of an algorithm that sets rate and window by itself, as BBR: a round trip has delivered a window. */
static void control(struct sock *sk, u32 cwnd, u32 rtt)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	struct tcp_sock *tp = tcp_sk(sk);
	struct rate_sample rate = {
		.delivered = cwnd, .interval_us = rtt, .rtt_us = rtt, .acked_sacked = 2, .prior_in_flight = cwnd,
	};

	tp->delivered += 2;
	tp->delivered_mstamp = tp->tcp_mstamp;
	rate.prior_delivered = tp->delivered - cwnd;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
	ops->cong_control(sk, tp->snd_una, 0, &rate);
#else
	ops->cong_control(sk, &rate);
#endif
}

/* Takes the ACKs until `until`, ns. Every second packet is acknowledged, as receivers do. */
static void take_acks(struct link *link, u64 until)
{
	struct sock *sk = link->sock->sk;
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	struct tcp_sock *tp = tcp_sk(sk);
	u64 begin = stamp();

	for (; link->now < until; link->acks++) {
		u32 cwnd = tcp_snd_cwnd(tp), rtt = max_t(u32, BASE_US, cwnd * NS_PER_PACKET / 1000);
		struct ack_sample sample = { .pkts_acked = 2, .rtt_us = rtt, .in_flight = cwnd };

		link->now += max(2 * NS_PER_PACKET, 2 * BASE_US * 1000ull / cwnd);
		tp->tcp_mstamp = link->now / 1000;
		tp->snd_una += 2 * 1448;
		tp->snd_nxt = tp->snd_una + cwnd * 1448;
		tp->is_cwnd_limited = 1;
		if (ops->pkts_acked)
			ops->pkts_acked(sk, &sample);
		if (ops->cong_control)
			control(sk, cwnd, rtt);
		else
			ops->cong_avoid(sk, tp->snd_una, 2);
		if (unlikely(tcp_snd_cwnd(tp) > MOST_PACKETS))
			lose(sk);
	}
	link->cost += stamp() - begin;
}

/* Counts a batch that is complete, at the rate of BATCH. */
static void end_batch(struct link *link, u64 *costs)
{
	if (link->acks < BATCH || link->batch == batches)
		return;
	costs[link->batch++] = div_u64(link->cost * BATCH, link->acks);
	link->cost = 0;
	link->acks = 0;
}

/*
 * The kernel's clock goes on with the connections', tick by tick, since cubic
 * works once per tick.
 */
static void measure_links(struct link *links, int count, u64 *costs)
{
	unsigned long began = jiffies, last;
	u64 start = links[0].now;
	int i, complete;

	for (last = began, complete = 0; complete < count; last = jiffies) {
		while (jiffies == last)
			usleep_range(100, 200);
		for (i = 0, complete = 0; i < count; i++) {
			local_bh_disable();
			take_acks(&links[i], start + (jiffies - began) * TICK_NSEC);
			local_bh_enable();
			end_batch(&links[i], costs + (size_t)i * batches);
			complete += links[i].batch == batches;
		}
	}
}

static int measure_cc(void)
{
	struct link links[MOST + 1] = {};
	char *names[MOST + 1] = { nothing.name };
	int count = 1 + split(cc, names + 1), i, err;
	u64 *costs = vzalloc(array3_size(sizeof(u64), batches, MOST + 1));

	err = costs ? tcp_register_congestion_control(&nothing) : -ENOMEM;
	if (err)
		goto out;
	for (i = 0; !err && i < count; i++)
		err = open_link(&links[i], names[i]);
	if (!err) {
		measure_links(links, count, costs);
		say("per ACK", names + 1, costs + batches, count - 1, median(costs));
	}
	for (i = 0; i < count; i++)
		if (links[i].sock)
			sock_release(links[i].sock);
	tcp_unregister_congestion_control(&nothing);
out:
	vfree(costs);
	return err;
}

static struct sk_buff *packet(struct net_device *dev, u32 flow)
{
	struct sk_buff *skb = alloc_skb(1600, GFP_KERNEL);

	if (!skb)
		return NULL;
	skb_put(skb, 1514);
	skb->dev = dev;
	skb->protocol = htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_hash(skb, (flow + 1) * 0x9e3779b9u, PKT_HASH_TYPE_L4);
	qdisc_skb_cb(skb)->pkt_len = 1514;
	return skb;
}

/* A packet arrives for each that leaves: the same one. */
static u64 packet_batch(struct Qdisc *sch)
{
	struct sk_buff *to_free = NULL, *skb;
	u64 begin = stamp();
	int i;

	for (i = 0; i < BATCH; i++) {
		skb = sch->dequeue(sch);
		if (unlikely(!skb))
			break;
		sch->enqueue(skb, sch, &to_free);
	}
	kfree_skb_list(to_free);
	return i < BATCH ? 0 : stamp() - begin;
}

static int measure_qdiscs(void)
{
	struct net_device *devs[MOST] = {};
	char *names[MOST], shown[MOST][IFNAMSIZ], *kinds[MOST];
	int count = split(devices, names), i, err = 0;
	u64 *costs = vzalloc(array3_size(sizeof(u64), batches, MOST));
	uint b, n;

	rtnl_lock();
	for (i = 0; costs && !err && i < count; i++) {
		struct sk_buff *to_free = NULL;
		struct Qdisc *sch;

		devs[i] = dev_get_by_name(&init_net, names[i]);
		if (!devs[i]) {
			pr_err("no device %s\n", names[i]);
			err = -ENODEV;
			break;
		}
		sch = rtnl_dereference(devs[i]->qdisc);
		strscpy(shown[i], sch->ops->id, IFNAMSIZ);
		kinds[i] = shown[i];
		for (n = 0; n < standing * flows; n++) {
			struct sk_buff *skb = packet(devs[i], n % flows);

			local_bh_disable();
			if (skb)
				sch->enqueue(skb, sch, &to_free);
			local_bh_enable();
		}
		kfree_skb_list(to_free);
	}
	for (b = 0; costs && !err && b < batches; b++) {
		for (i = 0; i < count; i++) {
			struct Qdisc *sch = rtnl_dereference(devs[i]->qdisc);

			spin_lock_bh(qdisc_lock(sch));
			costs[(size_t)i * batches + b] = packet_batch(sch);
			spin_unlock_bh(qdisc_lock(sch));
		}
	}
	if (costs && !err)
		say("per packet", kinds, costs, count, 0);
	for (i = 0; i < count; i++) {
		if (!devs[i])
			continue;
		spin_lock_bh(qdisc_lock(rtnl_dereference(devs[i]->qdisc)));
		qdisc_reset(rtnl_dereference(devs[i]->qdisc));
		spin_unlock_bh(qdisc_lock(rtnl_dereference(devs[i]->qdisc)));
		dev_put(devs[i]);
	}
	rtnl_unlock();
	vfree(costs);
	return costs ? err : -ENOMEM;
}

static int __init cost_init(void)
{
	int err;

	batches = clamp(batches, 1u, 1000000u);
	flows = clamp(flows, 1u, 1000u);
	err = *devices ? measure_qdiscs() : measure_cc();
	return err ?: -ECANCELED;
}
module_init(cost_init);

MODULE_AUTHOR("The knee authors");
MODULE_DESCRIPTION("Cost of congestion controls per ACK and of queue disciplines per packet");
MODULE_LICENSE("Dual BSD/GPL");
