//! Algorithm 1 by hand-written sequences: times in milliseconds, one flow, a buffer of four packets unless said.

use super::*;
use crate::testing::{FULL, init, params};
use crate::{Limit, Queue, Resize, Verdict};
use knee_core::Value;

struct Bench {
    q: FairQueue<Cocoa>,
    cx: Context,
}

impl Bench {
    fn new(given: &[(&str, Value)]) -> Self {
        let given: Vec<_> = [("flow_limit", Value::Count(4))].into_iter().chain(given.iter().copied()).collect();
        let params = params(&ENTRY, &given);
        Self { q: FairQueue::new(Cocoa::new(&params), &params.fq, &init(&ENTRY, None, 12)), cx: Context::default() }
    }

    /// `n` packets of flow `flow` come at `ms`; how many are taken.
    fn come_to(&mut self, flow: u32, ms: u64, n: usize) -> usize {
        self.cx.now = Time::from_millis(ms);
        let arrived = self.cx.now;
        let packet = Packet { at: arrived, flow, ..FULL };
        (0..n).filter(|_| self.q.enqueue(packet, &mut self.cx) == Verdict::Queued).count()
    }

    fn come(&mut self, ms: u64, n: usize) -> usize {
        self.come_to(0, ms, n)
    }

    /// One packet leaves at each of these times.
    fn leave(&mut self, at: &[u64]) {
        for ms in at {
            self.cx.now = Time::from_millis(*ms);
            assert!(self.q.dequeue(&mut self.cx).is_some());
        }
    }

    /// The figures of all notes `event` so far.
    fn noted(&self, event: &str) -> Vec<f64> {
        self.cx.notes.iter().filter(|n| n.event == event).map(|n| n.value).collect()
    }

    /// The first loss, at 10 ms: LI = 10 ms, and the first GI lasts till 22.5 ms. The queue is full.
    fn after_first_loss(given: &[(&str, Value)]) -> Self {
        let mut bench = Self::new(given);
        assert_eq!(bench.come(0, 4), 4);
        assert_eq!(bench.come(10, 1), 0);
        bench
    }
}

#[test]
fn the_first_interval_only_starts_a_guard_interval() {
    let bench = Bench::after_first_loss(&[]);
    assert_eq!(bench.noted("restart"), [0.01]);
    assert_eq!((bench.noted("longest_interval"), bench.noted("guard_interval")), (vec![0.01], vec![0.0125]));
    assert_eq!(bench.noted("buffer"), [4.0]);
    assert_eq!(bench.cx.dropped.len(), 1);
}

#[test]
fn idle_in_the_first_interval_does_not_enlarge() {
    let mut bench = Bench::new(&[]);
    bench.come(0, 1);
    bench.leave(&[1]);
    assert_eq!(bench.come(50, 5), 4);
    assert_eq!((bench.noted("enlarge"), bench.noted("restart")), (vec![], vec![0.05]));
}

#[test]
fn a_loss_within_the_guard_interval_only_starts_an_interval() {
    let mut bench = Bench::after_first_loss(&[]);
    bench.leave(&[12]);
    assert_eq!(bench.come(22, 2), 1, "22 ms are before 22.5 ms");
    assert_eq!(bench.noted("loss"), [0.012]);
    assert_eq!(bench.noted("buffer"), [4.0]);
}

#[test]
fn after_the_guard_interval_the_standing_queue_goes_from_buffer_and_tail() {
    let mut bench = Bench::after_first_loss(&[]);
    // Least left in the interval: two packets.
    bench.leave(&[12, 14]);
    bench.come(16, 2);
    bench.cx.dropped.clear();
    assert_eq!(bench.come(30, 1), 0);
    assert_eq!((bench.noted("reduce"), bench.noted("buffer")), (vec![2.0], vec![4.0, 2.0]));
    let came: Vec<_> = bench.cx.dropped.iter().map(|p| p.at.as_millis()).collect();
    assert_eq!(came, [16, 16, 30], "the two last ones and the one that came");
    assert_eq!(bench.q.backlog().packets, 2);
    // LI = 30 - 10 ms, the next GI 1.25 of it.
    assert_eq!((bench.noted("longest_interval")[1], bench.noted("guard_interval")[1]), (0.02, 0.025));
}

#[test]
fn without_standing_queue_or_idle_time_the_buffer_stays() {
    let mut bench = Bench::after_first_loss(&[]);
    bench.leave(&[12, 14, 16, 18]);
    // The last packet left when the next came: empty, but idle for no time.
    bench.come(18, 4);
    assert_eq!(bench.come(30, 1), 0);
    assert_eq!((bench.noted("reduce"), bench.noted("buffer")), (vec![0.0], vec![4.0]));
}

#[test]
fn idle_time_enlarges_by_what_could_have_been_sent() {
    let mut bench = Bench::after_first_loss(&[]);
    bench.leave(&[12, 14, 16, 18]);
    assert_eq!(bench.come(22, 4), 4);
    // 4 packets in 26 - 10 - 4 = 12 ms of activity, 4 ms idle: 1.33 packets, one whole.
    assert_eq!(bench.come(26, 1), 1, "the packet is taken");
    assert_eq!((bench.noted("idle")[1], bench.noted("enlarge")[0]), (0.004, 1.0));
    assert_eq!(bench.noted("buffer"), [4.0, 5.0]);
    // The next loss finds the buffer enlarged: a new GI from the interval of 10 to 27 ms.
    assert_eq!(bench.come(27, 1), 0);
    assert_eq!((bench.noted("restart")[1], bench.noted("guard_interval")[1]), (0.017, 0.02125));
    assert_eq!(bench.noted("buffer"), [4.0, 5.0]);
}

#[test]
fn idle_time_enlarges_within_the_guard_interval_too() {
    let mut bench = Bench::after_first_loss(&[]);
    bench.leave(&[11, 12, 13, 14]);
    // At 20 ms, before the end of the GI: 4 packets in 4 ms and 6 ms idle would be 6 more, max_increase allows 4.
    bench.come(20, 5);
    assert_eq!(bench.noted("buffer"), [4.0, 8.0]);
}

#[test]
fn a_buffer_grows_at_most_by_max_increase() {
    for (max_increase, expected) in [(1.0, 4.0), (1.5, 6.0), (2.0, 8.0)] {
        let mut bench = Bench::after_first_loss(&[("max_increase", Value::Ratio(max_increase))]);
        bench.leave(&[12, 14, 16, 18]);
        bench.come(118, 4);
        // 4 packets in 9 ms, 100 ms idle: 44 packets more.
        bench.come(119, 1);
        assert_eq!(bench.noted("buffer").last(), Some(&expected), "max_increase {max_increase}");
    }
}

#[test]
fn the_longest_interval_of_the_guard_interval_counts_not_the_last() {
    // A GI of ten LI: 10 to 110 ms.
    let mut bench = Bench::after_first_loss(&[("multiplier", Value::Ratio(10.0))]);
    bench.leave(&[20, 30]);
    bench.come(40, 2);
    bench.come(60, 1); // 50 ms, standing queue 2
    bench.leave(&[65]);
    bench.come(66, 1);
    bench.come(111, 1); // 51 ms, standing queue 3
    bench.leave(&[112]);
    bench.come(113, 1);
    assert_eq!(bench.noted("reduce"), [3.0]);

    let mut bench = Bench::after_first_loss(&[("multiplier", Value::Ratio(10.0))]);
    bench.leave(&[20, 30]);
    bench.come(40, 2);
    bench.come(62, 1); // 52 ms, standing queue 2
    bench.leave(&[65]);
    bench.come(66, 1);
    bench.come(111, 1); // 49 ms, standing queue 3
    assert_eq!((bench.noted("reduce"), bench.noted("longest_interval")[1]), (vec![2.0], 0.052));
}

#[test]
fn a_guard_interval_need_not_exceed_the_maximum() {
    let mut bench = Bench::new(&[]);
    bench.come(0, 4);
    bench.come(5_000, 1);
    assert_eq!((bench.noted("longest_interval"), bench.noted("guard_interval")), (vec![5.0], vec![1.0]));
}

#[test]
fn the_maximum_may_be_in_round_trip_times() {
    let given = [("max_guard_rtts", Value::Ratio(4.0)), ("base_rtt", Value::Time(Time::from_millis(20)))];
    let mut bench = Bench::new(&given);
    bench.come(0, 4);
    bench.leave(&[10]);
    bench.come(5_000, 2);
    // The packet that left had stayed for 10 ms: 4 (20 + 10) ms.
    assert_eq!(bench.noted("guard_interval"), [0.12]);
}

/// The queue runs empty at 15 ms, after the first loss, and fills again after `pause` ms; what enlarged it.
fn enlarged_after(pause: u64, max_idle_ms: u64) -> (Vec<f64>, Vec<f64>) {
    let mut bench = Bench::after_first_loss(&[("max_idle", Value::Time(Time::from_millis(max_idle_ms)))]);
    bench.leave(&[12, 13, 14, 15]);
    bench.come(15 + pause, 4);
    bench.leave(&[15 + pause + 1]);
    assert_eq!(bench.come(15 + pause + 2, 1), 1);
    bench.come(15 + pause + 3, 1);
    (bench.noted("enlarge"), bench.noted("restart"))
}

/// The buffer of 4 at most doubles. A pause that is the application's begins a first interval, 3 ms long at its loss.
#[test]
fn an_idle_time_beyond_the_limit_is_the_applications() {
    for max_idle_ms in [0, 100] {
        assert_eq!(enlarged_after(100, max_idle_ms), (vec![4.0], vec![0.01]), "{max_idle_ms}");
    }
    assert_eq!(enlarged_after(100, 99), (vec![], vec![0.01, 0.003]));
}

fn pausing(max_idle_ms: u64) -> Bench {
    Bench::after_first_loss(&[("max_idle", Value::Time(Time::from_millis(max_idle_ms)))])
}

/// After the loss at 10 ms packets meet two others, the last at 30 ms; the queue is empty from 35 ms on.
#[test]
fn a_pause_takes_the_least_queue_that_a_packet_met() {
    for (max_idle, reductions, buffers) in [(19, vec![2.0], vec![4.0, 2.0]), (20, vec![], vec![4.0])] {
        let mut bench = pausing(max_idle);
        bench.leave(&[12, 14]);
        bench.come(16, 1);
        bench.leave(&[18]);
        bench.come(30, 1);
        bench.leave(&[32, 33, 35]);
        bench.come(100, 1);
        assert_eq!((bench.noted("reduce"), bench.noted("buffer")), (reductions, buffers), "{max_idle}");
    }
}

#[test]
fn a_pause_after_a_drain_alone_takes_nothing() {
    let mut bench = pausing(20);
    bench.leave(&[20, 40, 60, 80]);
    bench.come(200, 1);
    assert_eq!(bench.noted("reduce"), []);
}

/// The queue is empty from 18 to 27 ms; eight packets leave in the other 12 ms: six more could have.
#[test]
fn after_idle_time_a_pause_enlarges_the_buffer_by_at_most_a_half() {
    for (max_idle, gains) in [(16, vec![2.0]), (17, vec![])] {
        let mut bench = pausing(max_idle);
        bench.leave(&[12, 14, 16, 18]);
        bench.come(27, 4);
        bench.leave(&[28, 29, 30, 31]);
        bench.come(100, 1);
        assert_eq!(bench.noted("enlarge"), gains, "{max_idle}");
    }
}

/// The guard interval after a pause lasts by the 20 ms before it, not by the 3 ms until the next loss.
#[test]
fn the_longest_interval_before_a_pause_counts_after_it() {
    let mut bench = pausing(19);
    bench.leave(&[12]);
    bench.come(30, 1);
    bench.leave(&[32, 33, 34, 35]);
    bench.come(100, 1);
    assert_eq!(bench.noted("buffer"), [4.0, 1.0]);
    bench.come(103, 1);
    assert_eq!((bench.noted("restart"), bench.noted("guard_interval")), (vec![0.01, 0.003], vec![0.0125, 0.025]));
}

#[test]
fn a_new_flow_may_start_with_what_others_came_to() {
    for (learn, expected) in [(false, 100.0), (true, 90.0)] {
        let given = [
            ("flow_limit", Value::Count(100)),
            ("learn_initial", Value::Bool(learn)),
            ("orphan_mask", Value::Count((1 << 20) - 1)),
        ];
        let mut bench = Bench::new(&given);
        bench.come(0, 100);
        bench.come(10, 1);
        let leaving: Vec<u64> = (11..31).collect();
        bench.leave(&leaving);
        bench.come(31, 20);
        // 80 of 100 stood: the buffer is 20. Learned: 100, then 100 + (20 - 100) / 8 = 90.
        bench.come(40, 1);
        assert_eq!(bench.noted("buffer"), [100.0, 20.0]);
        bench.come_to(1, 41, 1);
        assert_eq!(bench.noted("buffer"), [100.0, 20.0, expected]);
    }
}

#[test]
fn what_each_of_a_few_flows_holds_is_noted_when_asked() {
    let mut bench = Bench::new(&[("orphan_mask", Value::Count((1 << 20) - 1))]);
    bench.come_to(0, 0, 3);
    bench.come_to(1, 0, 2);
    bench.leave(&[1]);
    bench.q.observe(&mut bench.cx);
    let mut held: Vec<_> = bench.cx.notes.iter().filter(|n| n.event == "backlog").map(|n| (n.flow, n.value)).collect();
    held.sort_by_key(|(flow, _)| *flow);
    assert_eq!(held, [(Some(0), 2.0), (Some(1), 2.0)]);
    // No rows for nine flows: nobody could see them apart, and a row for each would grow without bound.
    (2..9).for_each(|flow| assert_eq!(bench.come_to(flow, 2, 1), 1));
    bench.q.observe(&mut bench.cx);
    assert_eq!(bench.noted("backlog").len(), 2);
}

#[test]
fn idle_flows_are_forgotten_after_ten_seconds_and_their_memory_given_back() {
    let mut bench = Bench::new(&[("orphan_mask", Value::Count((1 << 20) - 1))]);
    bench.q.resize(Resize::Limit(Limit::Packets(100_000)), &mut bench.cx);
    (0..9_000).for_each(|flow| assert_eq!(bench.come_to(flow, 0, 1), 1));
    bench.leave(&vec![1; 9_000]);
    let (flows, room, packets) = bench.q.memory();
    assert!(flows > 8_900 && room >= flows, "but for a few collisions all are remembered");
    assert_eq!(packets, 0);
    // One flow goes on: in its first 10 s the others keep their buffers, then eight go with each of its packets.
    let go_on = |bench: &mut Bench, ms: std::ops::Range<u64>| {
        for ms in ms.step_by(2) {
            bench.come_to(0, ms, 1);
            bench.leave(&[ms]);
        }
        bench.q.memory().0
    };
    assert!(go_on(&mut bench, 10..9_990) > 8_900);
    assert_eq!(go_on(&mut bench, 10_000..20_000), 1);
    assert!(bench.q.memory().1 <= 16, "{:?}", bench.q.memory());
}

#[test]
fn a_flood_leaves_a_flow_one_packet_and_never_less() {
    // Ten packets come for each that could leave: all intervals are short, and what is left in them is a full buffer
    // less one packet. At one packet each departure leaves the queue empty for a millisecond, which asks for one more.
    let mut bench = Bench::new(&[]);
    for ms in 0..500 {
        bench.come(ms, 10);
        if ms % 3 == 0 {
            bench.leave(&[ms]);
        }
        let buffer = *bench.noted("buffer").last().unwrap();
        assert!((1.0..=if ms < 50 { 4.0 } else { 2.0 }).contains(&buffer), "{buffer} at {ms} ms");
    }
    assert!(bench.noted("buffer").contains(&1.0));
}
