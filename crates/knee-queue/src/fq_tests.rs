use super::*;
use crate::testing::{FULL, init, params};
use crate::{Backlog, Limit, Queue, Resize, Verdict};
use knee_core::{Payload, Value};
use proptest::prelude::*;

fn packet(flow: u32, seq: u64, size: u16) -> Packet {
    Packet { payload: Payload::segment(seq), flow, size, ..FULL }
}

fn queue(limit: Option<Limit>, given: &[(&str, Value)]) -> FairQueue<FixedBuffer> {
    let params: Params = params(&ENTRY, given);
    let rule = FixedBuffer { limit: params.flow_limit };
    FairQueue::new(rule, &params, &init(&ENTRY, limit, 100))
}

/// With more buckets, so that a few flows do not fall together.
const WIDE: (&str, Value) = ("orphan_mask", Value::Count((1 << 20) - 1));

fn at(ms: u64) -> Context {
    Context::at(Time::from_millis(ms))
}

#[test]
fn a_flow_is_limited_and_the_others_keep_their_room() {
    let (mut q, mut cx) = (queue(None, &[WIDE]), at(0));
    // The first eight into the empty queue go past the flows (fast path), then a hundred into the flow.
    let taken = (0..500).filter(|&seq| q.enqueue(packet(1, seq, 1500), &mut cx) == Verdict::Queued).count();
    assert_eq!(taken, 108);
    let taken = (0..500).filter(|&seq| q.enqueue(packet(2, seq, 1500), &mut cx) == Verdict::Queued).count();
    assert_eq!(taken, 100);
}

#[test]
fn the_limit_holds_for_all_flows_together() {
    let (mut q, mut cx) = (queue(Some(Limit::Packets(50)), &[WIDE]), at(0));
    for seq in 0..100 {
        q.enqueue(packet(seq as u32, seq, 1500), &mut cx);
    }
    assert_eq!((q.backlog().packets, cx.dropped.len()), (50, 50));
    q.resize(Resize::Limit(Limit::Packets(20)), &mut cx);
    assert_eq!(q.backlog(), Backlog { packets: 20, bytes: Bytes(20 * 1514) });
    assert_eq!(cx.dropped.len(), 80);
}

#[test]
fn a_new_flow_goes_before_old_ones_until_its_initial_quantum_is_spent() {
    let (mut q, mut cx) = (queue(None, &[WIDE]), at(0));
    for seq in 0..60 {
        q.enqueue(packet(1, seq, 1500), &mut cx);
    }
    // Eight of the fast path, ten of the initial quantum of 10 x 1514 bytes; then flow 1 is old, and has one frame left
    // of a quantum of two.
    for _ in 0..19 {
        q.dequeue(&mut cx);
    }
    for seq in 0..30 {
        q.enqueue(packet(2, seq, 1500), &mut cx);
    }
    let order: Vec<u32> = (0..18).map(|_| q.dequeue(&mut cx).unwrap().flow).collect();
    assert_eq!(order, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 1, 2, 2, 1]);
}

#[test]
fn flows_that_fall_together_are_noted_and_share_a_queue() {
    let (mut q, mut cx) = (queue(None, &[("orphan_mask", Value::Count(0))]), at(0));
    for seq in 0..9 {
        q.enqueue(packet(1, seq, 1500), &mut cx);
    }
    for seq in 0..200 {
        q.enqueue(packet(2, seq, 1500), &mut cx);
    }
    assert_eq!(cx.notes.len(), 1);
    // The value is the flow's number in results, one more than its index.
    assert_eq!((cx.notes[0].flow, cx.notes[0].value), (Some(2), 2.0));
    assert_eq!(q.backlog().packets, 108, "one flow's buffer for both");
}

#[test]
fn idle_flows_are_forgotten_and_their_memory_given_back() {
    let (mut q, mut cx) = (queue(None, &[WIDE]), at(0));
    for flow in 0..9_000 {
        q.enqueue(packet(flow, 0, 1500), &mut cx);
    }
    while q.dequeue(&mut cx).is_some() {}
    let (flows, _, packets) = q.memory();
    assert!(flows > 8_000);
    assert_eq!(packets, 0);
    // One flow goes on; as it comes and goes the others are detached, and after 3 s forgotten.
    for seq in 0..4_000 {
        cx.now = Time::from_millis(seq * 2);
        for _ in 0..9 {
            q.enqueue(packet(0, seq, 1500), &mut cx);
        }
        while q.dequeue(&mut cx).is_some() {}
    }
    let (flows, room, _) = q.memory();
    assert_eq!(flows, 1);
    assert!(room <= 16, "{room}");
}

#[test]
fn a_paced_flow_leaves_a_quantum_at_a_time_at_its_rate() {
    let rate = ("flow_max_rate", Value::Rate(Rate::from_bps(2 * 1514 * 8 * 100)));
    let (mut q, mut cx) = (queue(None, &[WIDE, rate, ("initial_quantum", Value::Bytes(Bytes(3028)))]), at(0));
    for seq in 0..10 {
        q.enqueue(packet(1, seq, 1500), &mut cx);
    }
    // 3028 bytes, a quantum, take 10 ms at this rate.
    let mut left = vec![];
    while q.backlog().packets > 0 {
        match q.dequeue(&mut cx) {
            Some(_) => left.push(cx.now.as_millis()),
            None => cx.now = q.next_wake().unwrap(),
        }
    }
    assert_eq!(left, [0, 0, 10, 10, 20, 20, 30, 30, 40, 40]);
}

#[test]
fn up_to_the_low_rate_threshold_a_flow_is_paced_by_the_packet() {
    let rate = ("flow_max_rate", Value::Rate(Rate::from_bps(1514 * 8 * 10)));
    let (mut q, mut cx) = (queue(None, &[WIDE, rate]), at(0));
    for seq in 0..4 {
        q.enqueue(packet(1, seq, 1500), &mut cx);
    }
    let mut left = vec![];
    while q.backlog().packets > 0 {
        match q.dequeue(&mut cx) {
            Some(_) => left.push(cx.now.as_millis()),
            None => cx.now = q.next_wake().unwrap(),
        }
    }
    assert_eq!(left, [0, 100, 200, 300]);
}

proptest! {
    /// Shreedhar and Varghese, "Efficient fair queuing using deficit round robin" (1995), Theorem: over any span in
    /// which two flows are backlogged, what they get differs by less than a quantum and twice the largest packet.
    #[test]
    fn backlogged_flows_get_the_same_within_a_quantum(
        sizes in prop::collection::vec(40u16..1500, 2..8),
        rounds in 100usize..1000,
    ) {
        let (mut q, mut cx) = (queue(None, &[WIDE]), at(0));
        let largest = u64::from(*sizes.iter().max().unwrap()) + 14;
        let mut sent = vec![0u64; sizes.len()];
        let fill = |q: &mut FairQueue<FixedBuffer>, cx: &mut Context| {
            for (flow, size) in sizes.iter().enumerate() {
                while q.enqueue(packet(flow as u32, 0, *size), cx) == Verdict::Queued {}
            }
        };
        fill(&mut q, &mut cx);
        // The initial quanta and the fast path first: a round and a half of twelve full frames each.
        for _ in 0..rounds + 800 {
            fill(&mut q, &mut cx);
            q.dequeue(&mut cx);
        }
        for _ in 0..rounds {
            fill(&mut q, &mut cx);
            let left = q.dequeue(&mut cx).unwrap();
            sent[left.flow as usize] += u64::from(left.size) + 14;
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            prop_assert!(most - least < 3028 + 2 * largest, "{:?}", sent);
        }
    }
}
