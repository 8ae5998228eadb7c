use super::*;
use crate::network::{Network, Route};
use crate::testing::{MS, ack, data, flow, link, ms, read, spec};
use knee_core::{ConnectionId, Payload};
use serde_json::{Value, json};

/// A packet at its end: when, whether at the sender, which segment.
type Arrival = (Time, bool, u64);

/// Packets that come to an end before `end`, while each event of the network is on schedule.
fn arrivals(driver: &mut Driver, network: &mut Network, end: Time) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    while driver.next() < end {
        let announced = driver.next();
        let (now, step) = driver.step(network, end).expect("something is due");
        assert_eq!(now, announced);
        match step {
            Step::Arrived(packet) => arrivals.push((now, packet.has(Packet::ACK), packet.payload.seq())),
            Step::Moved | Step::Due(_) => {}
        }
        driver.audit(network).expect("each link and pipe has its event");
    }
    assert!(driver.step(network, end).is_none());
    // What has nothing to do has no event.
    let waits =
        network.directions.iter().any(|link| link.link.due() < Time::MAX) || network.pipes.iter().any(|p| p.len() > 0);
    assert!(waits || driver.events.peek().is_none());
    arrivals
}

fn network(links: &[Value], flows: &[Value]) -> (Driver, Network) {
    (Driver::new(Events::default()), Network::new(&read(&spec(links, flows))).expect("a network"))
}

fn with(mut value: Value, key: &str, new: Value) -> Value {
    value[key] = new;
    value
}

#[test]
fn a_packet_takes_its_transmission_and_propagation_on_each_link_and_its_ack_the_rest_of_the_base_rtt() {
    let links = [with(link("a"), "delay", json!(3 * MS)), with(link("b"), "delay", json!(4 * MS))];
    let (mut driver, mut network) = network(&links, &[flow(&[0, 1])]);
    driver.forward(&mut network, data(7), 1, ms(0));
    // 1 ms to send and 3 ms of propagation, then 1 and 4.
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), [(ms(9), false, 7)]);
    // 13 of the 20 ms are left, and no link queues ACKs.
    driver.forward(&mut network, ack(8), 1, ms(9));
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), [(ms(22), true, 8)]);
}

#[test]
fn a_burst_is_sent_packet_by_packet_in_the_order_of_its_segments() {
    let (mut driver, mut network) = network(&[with(link("a"), "delay", json!(2 * MS))], &[flow(&[0])]);
    driver.forward(&mut network, data(0), 3, ms(0));
    driver.forward(&mut network, data(3), 1, ms(0));
    let expected = [(ms(3), false, 0), (ms(4), false, 1), (ms(5), false, 2), (ms(6), false, 3)];
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), expected);
    driver.forward(&mut network, ack(0), 2, ms(6));
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), [(ms(24), true, 0), (ms(24), true, 1)]);
}

#[test]
fn without_propagation_a_packet_comes_to_the_next_link_as_it_leaves_the_one_before() {
    let (mut driver, mut network) = network(&[link("a"), link("b")], &[flow(&[1, 0])]);
    driver.forward(&mut network, data(0), 2, ms(0));
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), [(ms(2), false, 0), (ms(3), false, 1)]);
}

#[test]
fn acks_cross_reverse_directions_that_queue_from_the_last_link_to_the_first_and_then_their_pipe() {
    let back = |rate: u64| json!({"capacity": {"rate": rate}, "queue": "pfifo", "limit": {"packets": 2}});
    let links = [with(link("a"), "reverse", back(6_000_000)), with(link("b"), "reverse", back(3_000_000))];
    let (mut driver, mut network) = network(&links, &[flow(&[0, 1])]);
    driver.forward(&mut network, ack(5), 1, ms(0));
    driver.forward(&mut network, ack(6), 1, ms(0));
    // 4 ms on b, 2 on a, and all of the base RTT; the second has waited for the first.
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), [(ms(26), true, 5), (ms(30), true, 6)]);
    assert_eq!(network.directions[3].link.counters().departed, 2);
}

#[test]
fn of_a_mirrored_path_data_goes_where_acks_go_and_acks_where_data_goes() {
    let (mut driver, mut network) = network(&[with(link("a"), "delay", json!(5 * MS))], &[flow(&[0])]);
    let path = network.flow_paths[0];
    let mirrored = network.mirrored(&path);
    network.flow_paths.push(mirrored);
    driver.forward(&mut network, Packet { flow: 1, ..data(1) }, 2, ms(0));
    driver.forward(&mut network, Packet { flow: 1, ..ack(9) }, 1, ms(0));
    // Data: the 15 ms of the pipe. The ACK: 1 ms to send and 5 of propagation.
    let expected = [(ms(6), true, 9), (ms(15), false, 1), (ms(15), false, 2)];
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), expected);
    let Route { data, acks } = &network.routes[mirrored.route as usize];
    assert_eq!((data.len(), acks.len()), (0, 1));
    let twice = network.mirrored(&mirrored);
    assert_eq!((twice.mirrored, twice.route), (false, path.route));
}

#[test]
fn what_a_full_queue_drops_is_to_be_booked() {
    let small = with(link("a"), "limit", json!({"packets": 1}));
    let (mut driver, mut network) = network(&[link("b"), small], &[flow(&[1])]);
    driver.forward(&mut network, data(0), 2, ms(0));
    assert!(network.unbooked.is_empty());
    driver.forward(&mut network, data(2), 1, ms(0));
    assert_eq!(network.unbooked, [1]);
    let dropped: Vec<_> =
        network.directions[1].link.unbooked().0.iter().map(|(at, packet)| (*at, packet.payload)).collect();
    assert_eq!(dropped, [(ms(0), Payload::segment(2))]);
    assert_eq!(arrivals(&mut driver, &mut network, ms(100)), [(ms(1), false, 0), (ms(2), false, 1)]);
}

#[test]
fn what_a_queue_drops_as_it_serves_is_to_be_booked_too() {
    // CoDel begins to drop when packets have waited for more than 5 ms throughout 100 ms (RFC 8289, 3.2).
    let codel = with(with(link("a"), "queue", json!("codel")), "limit", json!({"packets": 1000}));
    let (mut driver, mut network) = network(&[codel], &[flow(&[0])]);
    driver.forward(&mut network, data(0), 300, ms(0));
    let arrived = arrivals(&mut driver, &mut network, ms(150)).len();
    let dropped = network.directions[0].link.unbooked().0.len();
    assert!(dropped > 0 && arrived > 100, "{dropped} dropped, {arrived} arrived");
    assert!(!network.unbooked.is_empty() && network.unbooked.iter().all(|link| *link == 0));
}

#[test]
fn events_of_others_are_due_among_those_of_the_network() {
    let (mut driver, mut network) = network(&[link("a")], &[flow(&[0])]);
    driver.forward(&mut network, data(0), 1, ms(0));
    // It waits for the first: that one has an event, and no other is made.
    driver.forward(&mut network, data(1), 1, ms(0));
    driver.events.push(ms(2), Event::Sample);
    driver.events.push(ms(2), Event::Start(3));
    let mut seen = Vec::new();
    while let Some((now, step)) = driver.step(&mut network, ms(3)) {
        seen.push((now, format!("{step:?}").chars().take_while(|c| c.is_alphanumeric()).collect::<String>()));
    }
    // Of events at the same time, that of a wire goes first.
    let expected = [(1, "Arrived"), (2, "Arrived"), (2, "Due"), (2, "Due")].map(|(at, what)| (ms(at), what.to_owned()));
    assert_eq!(seen, expected);
    assert_eq!(driver.next(), Time::MAX);
}

#[test]
fn an_event_at_the_end_is_left_to_whoever_goes_on() {
    let (mut driver, mut network) = network(&[link("a")], &[flow(&[0])]);
    driver.forward(&mut network, data(0), 1, ms(0));
    assert!(driver.step(&mut network, ms(1)).is_none());
    assert_eq!(driver.next(), ms(1));
    let Some((at, Step::Arrived(packet))) = driver.step(&mut network, ms(2)) else { panic!("it arrives") };
    assert_eq!((at, packet.hop, packet.at), (ms(1), 1, ms(0)), "it came to the queue at 0");
}

#[test]
fn overtaking_packets_arrive_in_the_order_of_their_delays_and_others_in_that_of_their_departures() {
    for reorder in [false, true] {
        let jitter = with(with(link("a"), "delay", json!(MS)), "jitter", json!(50 * MS));
        let (mut driver, mut network) = network(&[with(jitter, "reorder", json!(reorder))], &[flow(&[0])]);
        driver.forward(&mut network, data(0), 100, ms(0));
        let seqs: Vec<_> = arrivals(&mut driver, &mut network, ms(1000)).into_iter().map(|arrival| arrival.2).collect();
        assert_eq!(seqs.len(), 100);
        assert_eq!(seqs.is_sorted(), !reorder);
    }
}

#[test]
fn a_token_bucket_sends_what_it_has_saved_at_once_and_then_keeps_its_rate() {
    // Tokens for two packets; one comes every ms after that.
    let bucket = with(link("a"), "burst", json!(3000));
    let (mut driver, mut network) = network(&[bucket], &[flow(&[0])]);
    driver.forward(&mut network, data(0), 5, ms(10));
    let arrivals = arrivals(&mut driver, &mut network, ms(100));
    assert_eq!(arrivals.iter().map(|arrival| arrival.2).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let (first, last) = (arrivals[0].0, arrivals[4].0);
    assert!(first < ms(11) && last <= ms(14) && last >= ms(12), "{first} to {last}");
}

#[test]
fn the_audit_misses_the_event_of_a_link_and_of_a_pipe() {
    let (mut driver, mut network) = network(&[with(link("a"), "delay", json!(MS))], &[flow(&[0])]);
    driver.forward(&mut network, data(0), 1, ms(0));
    assert!(driver.audit(&network).is_ok());
    driver.events = Events::default();
    assert!(driver.audit(&network).unwrap_err().contains("Wire(0)"));
    let pipe = network.flow_paths[0].ack_pipe;
    network.directions[0].link.serve(ms(1));
    assert!(driver.audit(&network).is_ok());
    network.pipes[pipe as usize].push(ms(5), ack(0));
    assert!(driver.audit(&network).unwrap_err().contains(&format!("Pipe({pipe})")));
}

#[test]
fn what_comes_next_out_of_the_part_that_acted_last_is_known() {
    let (mut driver, mut network) = network(&[link("a")], &[flow(&[0])]);
    assert!(matches!(driver.upcoming(&network), Upcoming::Nothing));
    driver.forward(&mut network, data(0), 3, ms(0));
    driver.step(&mut network, ms(100));
    let Upcoming::Departure(packet) = driver.upcoming(&network) else { panic!("a packet is on the wire") };
    assert_eq!(packet.payload.seq(), 1);
    arrivals(&mut driver, &mut network, ms(100));
    driver.forward(&mut network, ack(1), 2, ms(10));
    assert!(matches!(driver.upcoming(&network), Upcoming::Nothing));
    driver.step(&mut network, ms(100));
    let Upcoming::Arrivals(pipe) = driver.upcoming(&network) else { panic!("an ACK is in the pipe") };
    assert_eq!(pipe.len(), 1);
}

#[test]
fn of_links_that_are_due_at_one_time_the_lower_one_goes_first() {
    let (mut driver, mut network) = network(&[link("a"), link("b")], &[flow(&[0]), flow(&[1])]);
    driver.forward(&mut network, data(0), 3, ms(0));
    driver.forward(&mut network, Packet { flow: 1, ..data(10) }, 3, ms(0));
    let seqs: Vec<_> = arrivals(&mut driver, &mut network, ms(100)).into_iter().map(|arrival| arrival.2).collect();
    assert_eq!(seqs, [0, 10, 1, 11, 2, 12]);
}

#[test]
fn nothing_arrives_at_senders_next_where_a_pipe_ends_at_a_link() {
    let (mut driver, mut network) = network(&[with(link("a"), "delay", json!(10 * MS)), link("b")], &[flow(&[0, 1])]);
    driver.forward(&mut network, data(0), 3, ms(0));
    while network.directions[1].link.counters().arrived == 0 {
        driver.step(&mut network, ms(100));
    }
    assert!(network.pipes[0].len() == 2 && matches!(driver.upcoming(&network), Upcoming::Nothing));
}

#[test]
fn flows_that_are_identified_as_one_connection_share_a_queue() {
    let last = |identified: bool| {
        let fair = with(link("a"), "queue", json!("fq_codel"));
        let (mut driver, mut network) = network(&[fair], &[flow(&[0]), flow(&[0])]);
        if identified {
            network.identify(1, ConnectionId::of_flow(0), network.flow_paths[1].route);
        }
        driver.forward(&mut network, data(0), 6, ms(0));
        driver.forward(&mut network, Packet { flow: 1, ..data(10) }, 1, ms(0));
        arrivals(&mut driver, &mut network, ms(100)).last().expect("all arrive").2
    };
    // A queue of its own is served in turn (RFC 8290, 4.2).
    assert_eq!((last(false), last(true)), (5, 10));
}

#[test]
fn flows_of_one_tunnel_share_a_queue_in_either_direction() {
    // When a packet of another flow, which comes behind six, is at its end.
    let arrival = |tunnels: [Option<u32>; 2], reverse: bool| {
        let mut flows = [flow(&[0]), with(flow(&[0]), "reverse", json!(reverse))];
        for (flow, tunnel) in flows.iter_mut().zip(tunnels) {
            flow["tunnel"] = json!(tunnel);
        }
        let back = json!({"capacity": {"rate": 12_000_000}, "queue": "pfifo", "limit": null});
        let fair = with(with(link("a"), "queue", json!("fq_codel")), "reverse", back);
        let (mut driver, mut network) = network(&[fair], &flows);
        driver.forward(&mut network, data(0), 6, ms(0));
        // What it sends over this direction: its data, or the ACKs of data that comes back.
        let other = if reverse { ack(10) } else { data(10) };
        driver.forward(&mut network, Packet { flow: 1, ..other }, 1, ms(0));
        let order = arrivals(&mut driver, &mut network, ms(100));
        order.into_iter().find(|arrival| arrival.2 == 10).expect("all arrive").0
    };
    for reverse in [false, true] {
        let apart = arrival([None, None], reverse);
        assert_eq!([arrival([Some(0), Some(1)], reverse), arrival([None, Some(3)], reverse)], [apart; 2]);
        // The four that it passed in a queue of its own, behind the first quantum, are before it.
        assert_eq!(arrival([Some(3), Some(3)], reverse), apart + ms(4), "reverse: {reverse}");
    }
}

#[test]
fn a_codepoint_is_that_of_data_and_acks_on_all_links_of_the_path() {
    let cake = |name| with(link(name), "queue", json!("cake"));
    let back = json!({"capacity": {"rate": 12_000_000}, "queue": "cake", "limit": null});
    let links = [with(cake("a"), "reverse", back), cake("b")];
    let (_, mut network) = network(&links, &[flow(&[0]), with(flow(&[0, 1]), "dscp", json!(46))]);
    // A connection of the second flow's application.
    network.identify(5, ConnectionId::new(1, 3, true), network.flow_paths[1].route);
    let of = |link: usize| {
        let dscp = |flow| network.directions[link].link.dscp(&Packet { flow, ..data(0) });
        [0, 1, 5, 6].map(dscp)
    };
    assert_eq!([of(0), of(1), of(2)], [[0, 46, 46, 0]; 3]);
}
