use super::*;
use crate::Limit;
use crate::testing::{FULL, init, params};
use knee_core::{ConnectionId, Payload, Seq, Value};

fn queue(limit: Option<Limit>, given: &[(&str, Value)]) -> Cake {
    Cake::new(&params(&ENTRY, given), &init(&ENTRY, limit, 100))
}

fn packet(flow: u32, seq: u64, at: Time) -> Packet {
    Packet { at, payload: Payload::segment(seq), flow, ..FULL }
}

fn fill(q: &mut Cake, flow: u32, n: u64, cx: &mut Context) {
    for seq in 0..n {
        q.enqueue(packet(flow, seq, cx.now), cx);
    }
}

/// Counts by flow, of four, the next `n` packets that leave.
fn shares(q: &mut Cake, n: usize, cx: &mut Context) -> [usize; 4] {
    let mut shares = [0; 4];
    for _ in 0..n {
        shares[q.dequeue(cx).unwrap().flow as usize] += 1;
    }
    shares
}

#[test]
fn backlogged_flows_get_equal_bytes_within_a_quantum() {
    let (mut q, mut cx) = (queue(None, &[]), Context::default());
    for flow in 0..4 {
        fill(&mut q, flow, 500, &mut cx);
    }
    for n in [40, 401, 700] {
        let shares = shares(&mut q, n, &mut cx);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(most - least <= 2, "{shares:?}");
    }
}

#[test]
fn a_sparse_flow_goes_first() {
    let (mut q, mut cx) = (queue(None, &[]), Context::default());
    fill(&mut q, 0, 100, &mut cx);
    shares(&mut q, 10, &mut cx);
    fill(&mut q, 1, 1, &mut cx);
    // Flow 0 still has its turn in the old rotation; the new one is served before it.
    assert_eq!(q.dequeue(&mut cx).unwrap().flow, 1);
    assert_eq!(q.dequeue(&mut cx).unwrap().flow, 0);
}

#[test]
fn hosts_get_equal_shares_whatever_their_flows() {
    // Flows 0 to 2 come from one host, flow 3 from another; all go to hosts of their own.
    for (isolation, third, single) in [("triple-isolate", 100, 300), ("dual-srchost", 100, 300), ("flows", 150, 150)] {
        let given = [("isolation", Value::Choice(isolation)), ("flows_per_source", Value::Count(3))];
        let (mut q, mut cx) = (queue(None, &given), Context::default());
        for flow in 0..4 {
            fill(&mut q, flow, 1000, &mut cx);
        }
        let shares = shares(&mut q, 600, &mut cx);
        // A quantum of three for each round of rounding: within 4 packets and the random remainders.
        assert!(shares[..3].iter().all(|n| n.abs_diff(third) <= 8), "{isolation}: {shares:?}");
        assert!(shares[3].abs_diff(single) <= 16, "{isolation}: {shares:?}");
    }
}

#[test]
fn on_either_side_the_busier_host_counts() {
    // Flows 0 and 1 share a source; flows 0, 1, 2 a destination: loads 3, 3, 3 and 1.
    let given = [("flows_per_source", Value::Count(2)), ("flows_per_destination", Value::Count(3))];
    let (mut q, mut cx) = (queue(None, &given), Context::default());
    for flow in 0..4 {
        fill(&mut q, flow, 1000, &mut cx);
    }
    let shares = shares(&mut q, 600, &mut cx);
    // Flows 2 and 3 share a source too: flow 3's load is 2. Shares 1/3 : 1/3 : 1/3 : 1/2 of 600 are 133 and 200.
    assert!(shares[..3].iter().all(|n| n.abs_diff(133) <= 8) && shares[3].abs_diff(200) <= 16, "{shares:?}");
}

#[test]
fn credit_is_shared_by_the_hosts_flows_and_rounded_at_random() {
    assert_eq!((credit(1514, 1, 0), credit(1514, 1, 65_535)), (1513, 1514));
    assert_eq!((credit(1514, 4, 0), credit(1514, 4, 65_535)), (378, 379));
    // Half of the time each: 1514/1000 is 1.49 with Linux's rounding of 65535/1000 to 65.
    let mean = (0..65_536).map(|noise| credit(1514, 1000, noise)).sum::<i64>() as f64 / 65_536.0;
    assert!((mean - 1514.0 * 65.0 / 65_536.0).abs() < 1e-3, "{mean}");
}

#[test]
fn the_shaper_spaces_packets_by_their_size_at_its_rate() {
    // 1514 bytes at 12.112 Mbit/s take 1 ms.
    let given = [("bandwidth", Value::Rate(Rate::from_bps(12_112_000)))];
    let (mut q, mut cx) = (queue(None, &given), Context::at(Time::from_millis(7)));
    fill(&mut q, 0, 10, &mut cx);
    for n in 0..5 {
        assert!(q.dequeue(&mut cx).is_some());
        assert!(q.dequeue(&mut cx).is_none());
        assert_eq!(q.next_wake(), Some(Time::from_millis(8 + n)));
        cx.now = Time::from_millis(8 + n);
    }
    // Late by 2.5 ms: what was missed is made up for.
    cx.now += Time::from_micros(2500);
    let at_once = (0..5).filter(|_| q.dequeue(&mut cx).is_some()).count();
    assert_eq!((at_once, q.next_wake()), (3, Some(Time::from_millis(15))));
}

#[test]
fn time_for_which_a_shaped_queue_was_empty_is_not_made_up_for() {
    let given = [("bandwidth", Value::Rate(Rate::from_bps(12_112_000)))];
    let (mut q, mut cx) = (queue(None, &given), Context::at(Time::from_millis(7)));
    for now in [7, 100] {
        cx.now = Time::from_millis(now);
        fill(&mut q, 0, 1, &mut cx);
        assert!(q.dequeue(&mut cx).is_some());
    }
    fill(&mut q, 0, 1, &mut cx);
    assert!(q.dequeue(&mut cx).is_none());
    assert_eq!(q.next_wake(), Some(Time::from_millis(101)));
}

#[test]
fn a_slow_shaper_raises_target_and_interval() {
    let ms = Time::from_millis;
    let settings = |mbps: u64| {
        let s = cobalt_settings(ms(5), ms(100), Some(Rate::from_bps(mbps * 1_514_000)), 1514);
        (s.mtu_time.as_micros(), s.target.as_micros(), s.interval.as_micros())
    };
    // A full frame takes 8 ms at 1.514 Mbit/s, so the target is 12 ms and the interval 107 ms; 0.8 ms at ten times.
    assert_eq!((settings(1), settings(10)), ((8_000, 12_000, 107_000), (800, 5_000, 100_000)));
}

#[test]
fn over_the_limit_the_longest_queue_loses_its_head() {
    let (mut q, mut cx) = (queue(Some(Limit::Packets(10)), &[]), Context::default());
    fill(&mut q, 0, 7, &mut cx);
    fill(&mut q, 1, 5, &mut cx);
    assert_eq!(cx.dropped.iter().map(|p| (p.flow, p.payload.seq())).collect::<Vec<_>>(), [(0, 0), (0, 1)]);
    assert_eq!(q.backlog(), Backlog { packets: 10, bytes: Bytes(10 * 1514) });
}

#[test]
fn without_a_limit_memory_is_that_of_10240_full_frames_and_with_a_shaper_of_four_intervals() {
    assert_eq!(queue(None, &[]).memory_limit, 10_240 * 1514);
    let rate = |mbps| ("bandwidth", Value::Rate(Rate::from_mbps(mbps)));
    // 4 x 100 ms at 100 Mbit/s are 5 MB; at 10 Mbit/s 0.5 MB, so 4 MiB.
    assert_eq!(queue(None, &[rate(100)]).memory_limit, 5_000_000);
    assert_eq!(queue(None, &[rate(10)]).memory_limit, 4 << 20);
    assert_eq!(queue(None, &[rate(10), ("memlimit", Value::Bytes(Bytes(1 << 20)))]).memory_limit, 1 << 20);
}

#[test]
fn five_hundred_flows_hardly_ever_collide() {
    // Plain hashing of 500 flows into 1024 queues puts 500 - 1024 (1 - (1 - 1/1024)^500) = 105 flows with others; here
    // a flow collides only where more than eight fall into a set of eight: with a mean of 3.9 about 0.5 % of flows.
    let (mut q, mut cx) = (queue(None, &[]), Context::default());
    for flow in 0..500 {
        fill(&mut q, flow, 1, &mut cx);
    }
    assert!(cx.notes.len() < 15, "{}", cx.notes.len());
    assert!(cx.notes.iter().all(|note| note.event == "collision"));
}

#[test]
fn colliding_flows_share_a_queue_and_keep_their_order() {
    let (mut q, mut cx) = (queue(None, &[]), Context::default());
    for round in 0..2 {
        for flow in 0..3000 {
            q.enqueue(packet(flow, round, cx.now), &mut cx);
        }
    }
    assert!(cx.notes.len() >= 3000 - ways::PLACES);
    let mut last = vec![None; 3000];
    while let Some(p) = q.dequeue(&mut cx) {
        assert!(last[p.flow as usize] < Some(p.payload.seq()));
        last[p.flow as usize] = Some(p.payload.seq());
    }
    assert!(last.iter().all(|seq| *seq == Some(1)));
}

#[test]
fn an_empty_queue_comes_to_rest_and_frees_its_place() {
    let (mut q, mut cx) = (queue(None, &[]), Context::at(Time::from_millis(1)));
    fill(&mut q, 0, 1, &mut cx);
    q.dequeue(&mut cx);
    // One packet at a time of another flow; each dequeue gives a decaying queue one look.
    for ms in [50, 90, 102, 103] {
        cx.now = Time::from_millis(ms);
        fill(&mut q, 1, 1, &mut cx);
        q.dequeue(&mut cx);
    }
    let used = q.tins[0].sets.iter().filter(|set| **set != Set::None).count();
    assert_eq!(used, 1, "flow 0 is at rest 100 ms after its packet, flow 1 is not");
}

#[test]
fn memory_of_idle_flows_is_given_back() {
    let (mut q, mut cx) = (queue(None, &[]), Context::default());
    for flow in 0..6000 {
        fill(&mut q, flow, 1, &mut cx);
    }
    assert!(q.tins[0].homes.len() == 11_999 && q.shared.pool.capacity() >= 6000);
    while q.dequeue(&mut cx).is_some() {}
    assert_eq!((q.tins[0].homes.capacity(), q.shared.pool.capacity(), q.memory), (0, 0, 0));
}

/// How many packets of each of three flows leave in `span`, one each time that the queue asks to be woken.
fn paced(q: &mut Cake, span: Time, cx: &mut Context) -> [usize; 3] {
    let mut shares = [0; 3];
    while cx.now < span {
        while let Some(p) = q.dequeue(cx) {
            shares[p.flow as usize] += 1;
        }
        cx.now = q.next_wake().unwrap();
    }
    shares
}

#[test]
fn the_shaper_counts_headers_and_cells() {
    // 1500 + 40 bytes are 33 cells of 53 bytes, 1749 bytes, which take 1 ms at 13.992 Mbit/s.
    let mut given = vec![("bandwidth", Value::Rate(Rate::from_bps(13_992_000)))];
    given.extend([("overhead", Value::Bytes(Bytes(40))), ("linklayer", Value::Choice("atm"))]);
    let (mut q, mut cx) = (queue(None, &given), Context::default());
    fill(&mut q, 0, 5, &mut cx);
    assert!(q.dequeue(&mut cx).is_some());
    assert_eq!((q.dequeue(&mut cx), q.next_wake()), (None, Some(Time::from_millis(1))));
    // Packets held are counted as the link counts them.
    assert_eq!(q.backlog(), Backlog { packets: 4, bytes: Bytes(4 * 1514) });
}

fn ack(flow: u32, next: u64) -> Packet {
    let payload = Payload::Ack { next: Seq::new(next), tsecr: 0, tsval: 0 };
    Packet { flow, payload, size: 52, flags: Packet::ACK, ..FULL }
}

#[test]
fn the_ack_filter_leaves_the_newest_acks_of_each_connection() {
    let left = |filter: &'static str, id: Option<ConnectionId>| {
        let (mut q, mut cx) = (queue(None, &[("ack_filter", Value::Choice(filter))]), Context::default());
        (0..2).for_each(|flow| cx.connections.set(flow, id.unwrap_or(ConnectionId::of_flow(flow))));
        for next in 1..=6 {
            q.enqueue(ack(0, next), &mut cx);
            q.enqueue(ack(1, 10 * next), &mut cx);
        }
        assert_eq!(q.backlog().packets, 12 - cx.dropped.len() as u64);
        assert_eq!(q.backlog().bytes.0, 66 * q.backlog().packets);
        let mut left: Vec<_> = std::iter::from_fn(|| q.dequeue(&mut cx)).collect();
        assert_eq!((q.backlog, q.memory, left.len()), (Backlog::default(), 0, 12 - cx.dropped.len()));
        left.retain(|packet| packet.flow == 0);
        left.into_iter().map(|packet| packet.payload).collect::<Vec<_>>()
    };
    let acks = |next: std::ops::RangeInclusive<u64>| next.map(|next| ack(0, next).payload).collect::<Vec<_>>();
    assert_eq!(left("no-ack-filter", None), acks(1..=6));
    assert_eq!(left("ack-filter", None), acks(5..=6));
    assert_eq!(left("ack-filter-aggressive", None), acks(6..=6));
    // Nobody sees what is in a tunnel.
    assert_eq!(left("ack-filter-aggressive", Some(ConnectionId::of_tunnel(0))), acks(1..=6));
}

/// Backlogged flows 0, 1 and 2: best effort, bulk (CS1) and voice (EF).
fn three_classes(given: &[(&str, Value)]) -> (Cake, Context) {
    let (mut q, mut cx) = (queue(None, given), Context::default());
    (0..).zip([0, 8, 46]).for_each(|(flow, dscp)| cx.codepoints.set(flow, dscp));
    (0..3).for_each(|flow| fill(&mut q, flow, 2000, &mut cx));
    (q, cx)
}

#[test]
fn a_tin_goes_first_up_to_its_rate_and_takes_what_others_leave() {
    // A packet of 1514 bytes each millisecond; a target and memory that drop nothing.
    let mut given = vec![("bandwidth", Value::Rate(Rate::from_bps(12_112_000)))];
    given.push(("target", Value::Time(Time::from_secs(10))));
    given.push(("memlimit", Value::Bytes(Bytes(100_000_000))));
    let (mut q, mut cx) = three_classes(&given);
    let shares = paced(&mut q, Time::from_millis(1600), &mut cx);
    // A sixteenth for bulk, a quarter for voice, and the rest.
    for (found, expected) in shares.into_iter().zip([1100, 100, 400]) {
        assert!(found.abs_diff(expected) <= 2, "{shares:?}");
    }
    given.push(("diffserv", Value::Choice("besteffort")));
    let (mut q, mut cx) = three_classes(&given);
    let shares = paced(&mut q, Time::from_millis(1600), &mut cx);
    assert!(shares.iter().all(|n| n.abs_diff(533) <= 2), "{shares:?}");
    // Alone, bulk has all.
    given.pop();
    let (mut q, mut cx) = (queue(None, &given), Context::default());
    cx.codepoints.set(0, 8);
    fill(&mut q, 0, 2000, &mut cx);
    assert!(paced(&mut q, Time::from_millis(1000), &mut cx)[0] >= 1000);
}

#[test]
fn without_a_shaper_tins_share_by_their_weights() {
    let (mut q, mut cx) = three_classes(&[]);
    let [best_effort, bulk, voice, _] = shares(&mut q, 1050, &mut cx);
    // 16 : 1 : 4.
    for (found, expected) in [best_effort, bulk, voice].into_iter().zip([800, 50, 200]) {
        assert!(found.abs_diff(expected) <= 4, "{best_effort} {bulk} {voice}");
    }
}

#[test]
fn over_the_limit_the_longest_queue_of_all_tins_loses_its_head() {
    let (mut q, mut cx) = (queue(Some(Limit::Packets(10)), &[]), Context::default());
    cx.codepoints.set(1, 46);
    fill(&mut q, 0, 4, &mut cx);
    fill(&mut q, 1, 7, &mut cx);
    assert_eq!(cx.dropped.iter().map(|p| (p.flow, p.payload.seq())).collect::<Vec<_>>(), [(1, 0)]);
}
