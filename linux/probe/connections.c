// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Connections of an application. Those that carry a flow's data ask for the congestion control "knee_FLOW", a copy of
 * the flow's own whose hooks count and then do what the original does; the algorithm notices nothing. A flow's figures
 * are of all its connections together, of those that are gone too.
 */
#include <linux/hashtable.h>
#include <linux/net.h>

#include "probe.h"

struct connection {
	struct hlist_node by_socket;
	struct list_head of_flow;
	const struct sock *sk;
	u64 since_ns;		/* its window until then is in the flow's integral */
};

static DEFINE_HASHTABLE(connections, 10);

static struct connection *find(const struct sock *sk)
{
	struct connection *each;

	hash_for_each_possible(connections, each, by_socket, (unsigned long)sk)
		if (each->sk == sk)
			return each;
	return NULL;
}

/* The window of a connection; 0 once it is closed, which it is when all is acknowledged, though its FINs take longer.
 * */
static u32 window(const struct connection *connection)
{
	return connection->sk->sk_state == TCP_ESTABLISHED ? tcp_snd_cwnd(tcp_sk(connection->sk)) : 0;
}

/* Extends the integral of the flow's windows by a connection's up to now. */
static void integrate(struct probe_flow *flow, struct connection *connection)
{
	u64 now = ktime_get_ns();

	flow->cwnd_ns += (now - connection->since_ns) * window(connection);
	connection->since_ns = now;
}

static void init(struct sock *sk)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);
	struct connection *connection;

	if (flow->real->init)
		flow->real->init(sk);
	/* Without ECN, dctcp has put another in its place. Both halve the window on a loss. */
	inet_csk(sk)->icsk_ca_ops = &flow->ops;
	connection = kzalloc(sizeof(*connection), GFP_ATOMIC);
	if (!connection) {
		pr_err("knee: no memory for a connection\n");
		return;
	}
	local_bh_disable();
	connection->sk = sk;
	hash_add(connections, &connection->by_socket, (unsigned long)sk);
	list_add(&connection->of_flow, &flow->connections);
	connection->since_ns = ktime_get_ns();
	local_bh_enable();
}

static void release(struct sock *sk)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);
	struct connection *connection;

	local_bh_disable();
	connection = find(sk);
	if (connection) {
		flow->gone_lost += tcp_sk(sk)->lost;
		flow->gone_retransmitted += tcp_sk(sk)->total_retrans;
		list_del(&connection->of_flow);
		hash_del(&connection->by_socket);
		kfree(connection);
	}
	local_bh_enable();
	if (flow->real->release)
		flow->real->release(sk);
}

static void pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);
	struct connection *connection;

	if (flow->real->pkts_acked)
		flow->real->pkts_acked(sk, sample);
	connection = find(sk);
	/* The SYN is acknowledged before the algorithm has begun: its RTT is none of the data's. */
	if (!connection)
		return;
	integrate(flow, connection);
	probe_rtt(flow, sample->rtt_us);
}

static void set_state(struct sock *sk, u8 state)
{
	struct probe_flow *flow = probe_flow_of_socket(sk);

	if (flow->real->set_state)
		flow->real->set_state(sk, state);
	flow->timeouts += state == TCP_CA_Loss;
}

/* Adds what is of the flow's connections together. */
void probe_connections_row(struct probe_flow *flow, struct knee_flow_row *row)
{
	struct connection *each;

	row->timeouts = flow->timeouts;
	row->lost = flow->gone_lost;
	row->retransmitted = flow->gone_retransmitted;
	list_for_each_entry(each, &flow->connections, of_flow) {
		integrate(flow, each);
		row->cwnd += window(each);
		row->in_flight += tcp_packets_in_flight(tcp_sk(each->sk));
		row->lost += tcp_sk(each->sk)->lost;
		row->retransmitted += tcp_sk(each->sk)->total_retrans;
	}
	row->cwnd_ns = flow->cwnd_ns;
}

/* Makes the congestion control of a flow's connections, from that of a socket which stays open. */
int probe_connections_watch(const struct knee_flow *told)
{
	struct probe_flow *flow;
	struct socket *socket;
	int err = 0;

	if (told->flow >= probe.flow_count)
		return -EINVAL;
	flow = &probe.flows[told->flow];
	if (!flow->program || flow->real)
		return -EINVAL;
	socket = sockfd_lookup(told->fd, &err);
	if (!socket)
		return err;
	if (socket->sk->sk_protocol != IPPROTO_TCP) {
		err = -EINVAL;
		goto out;
	}
	flow->rtt = kvcalloc(KNEE_RTT_BUCKETS, sizeof(*flow->rtt), GFP_KERNEL);
	if (!flow->rtt) {
		err = -ENOMEM;
		goto out;
	}
	flow->ect1 = told->ect1;
	probe.l4s |= flow->ect1;
	INIT_LIST_HEAD(&flow->connections);
	flow->rtt_min_us = flow->all_rtt_min_us = U32_MAX;
	flow->real = inet_csk(socket->sk)->icsk_ca_ops;
	flow->ops = *flow->real;
	snprintf(flow->ops.name, sizeof(flow->ops.name), KNEE_CONNECTIONS_CC, told->flow);
	flow->ops.owner = THIS_MODULE;
	flow->ops.init = init;
	flow->ops.release = release;
	flow->ops.pkts_acked = pkts_acked;
	flow->ops.set_state = set_state;
	err = tcp_register_congestion_control(&flow->ops);
	if (err) {
		kvfree(flow->rtt);
		flow->rtt = NULL;
		flow->real = NULL;
	}
out:
	sockfd_put(socket);
	return err;
}

/* The device is closed only when the guest ends: no connection is left. */
void probe_connections_exit(void)
{
	u32 i;

	for (i = 0; i < probe.flow_count; i++) {
		if (!probe.flows[i].program || !probe.flows[i].real)
			continue;
		tcp_unregister_congestion_control(&probe.flows[i].ops);
		kvfree(probe.flows[i].rtt);
	}
}
