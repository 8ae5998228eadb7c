//! The events that an algorithm sees, in their order, worked by hand: measure, losses, growth (RFC 9002, A.7).

use super::testing::{config, frame};
use super::{Sender, SenderInit};
use crate::config::{Config, Settings};
use crate::frame::EcnCounts;
use crate::ranges::Range;
use knee_cc::{Ack, Congestion, CongestionControl, Control, Needs, RateSample, Sent, StateChange, StateEvent};
use knee_core::{Rate, Time};
use std::sync::{Arc, Mutex};

/// Data of a full packet.
const FULL: u64 = 1167;

/// Writes down its events; halves the threshold and grows by what it is told.
#[derive(Clone)]
struct Recorder {
    log: Arc<Mutex<Vec<String>>>,
    rates: Arc<Mutex<Vec<RateSample>>>,
}

impl Recorder {
    fn note(&self, event: String) {
        self.log.lock().unwrap().push(event);
    }
}

fn ack_line(name: &str, ack: &Ack) -> String {
    let &Ack { view, delivered, lost, prior_in_flight, prior_una, cwnd_limited, ece, .. } = ack;
    let rtt = ack.rtt.map_or(0, Time::as_millis);
    let limited = if cwnd_limited { "" } else { " unused" };
    let marked = if ece { format!(" marks {}", view.delivered_ce) } else { String::new() };
    assert_eq!((ack.acked, ack.part), (delivered, false));
    format!(
        "{name} {delivered}, lost {lost}, rtt {rtt}, una {prior_una} to {}, flight {prior_in_flight} to {}{limited}{marked}",
        view.snd_una, view.in_flight
    )
}

impl CongestionControl for Recorder {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        self.rates.lock().unwrap().push(*ack.rate);
        self.note(ack_line("measure", ack));
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.note(ack_line("ack", ack));
        control.cwnd += ack.delivered;
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.note(format!("{:?}", congestion.signal));
        control.ssthresh = control.cwnd / 2;
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        self.note(match change.event {
            StateEvent::Entered(state) => format!("{state:?}, cwnd {}", control.cwnd),
            event => format!("{event:?}"),
        });
    }

    fn on_sent(&mut self, sent: &Sent, _: &mut Control) {
        let again = if sent.retransmission { " again" } else { "" };
        self.note(format!("sent {}{again}, flight {}", sent.packets, sent.view.in_flight));
    }
}

struct Bench {
    sender: Sender,
    config: Config,
    seen: Recorder,
}

impl Bench {
    fn new(needs: Needs, packets: Option<u64>, change: impl FnOnce(&mut Settings)) -> Self {
        let config = config(|settings| {
            settings.pacing = false;
            change(settings);
        });
        let init = SenderInit { needs, ecn: true, bytes: packets.map(|packets| packets * FULL) };
        let mut sender = Sender::new(&init, &config);
        let seen = Recorder { log: Arc::default(), rates: Arc::default() };
        sender.adopt(Box::new(seen.clone()), None, Time::ZERO, &config);
        Self { sender, config, seen }
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.log.lock().unwrap())
    }

    fn send(&mut self, ms: u64) -> Vec<String> {
        self.sender.send(Time::from_millis(ms), &self.config, &mut Vec::new());
        self.log()
    }

    /// An ACK at `ms` of these packets, all of which arrived with ECT(0) but for `ce` of them.
    fn ack(&mut self, ms: u64, ranges: &[Range], ce: u64) -> Vec<String> {
        let arrived: u64 = ranges.iter().map(|range| range.1 - range.0).sum();
        let counts = EcnCounts { ect0: arrived - ce, ect1: 0, ce };
        let frame = frame(ranges, Time::ZERO, Some(counts));
        self.sender.on_ack(&frame, Time::from_millis(ms), &self.config, &mut Vec::new()).unwrap();
        self.log()
    }
}

const SENT: Needs = Needs { sent: true, ..Needs::NONE };
const FULL_CONTROL: Needs = Needs { full_control: true, ..Needs::NONE };
const RATE: Needs = Needs { rate: true, ..Needs::NONE };

#[test]
fn an_ack_is_measured_and_then_lets_the_window_grow() {
    let mut bench = Bench::new(SENT, None, |_| {});
    assert_eq!(bench.send(0), ["Start", "Restart", "sent 10, flight 10"]);
    assert_eq!(
        bench.ack(100, &[(0, 2)], 0),
        [
            "measure 2, lost 0, rtt 100, una 0 to 2, flight 10 to 8",
            "ack 2, lost 0, rtt 100, una 0 to 2, flight 10 to 8",
            "sent 4, flight 12",
        ]
    );
    // A repeated ACK newly acknowledges nothing: A.7 returns.
    assert!(bench.ack(101, &[(0, 2)], 0).is_empty());
}

#[test]
fn losses_come_between_measure_and_growth_and_a_period_ends_with_a_packet_sent_in_it() {
    let mut bench = Bench::new(SENT, None, |_| {});
    bench.send(0);
    // 1 to 6 are lost, the window falls to 5: three packets leave at 100 ms, when the period begins.
    assert_eq!(
        bench.ack(100, &[(0, 1), (9, 10)], 0),
        [
            "measure 2, lost 0, rtt 100, una 0 to 10, flight 10 to 8",
            "Loss",
            "Recovery, cwnd 10",
            "sent 3 again, flight 5",
        ]
    );
    // Packets 7 and 8 were sent before, 10 when it began: neither ends it nor grows (B.5: sent_time <= start).
    assert_eq!(
        bench.ack(150, &[(0, 1), (7, 10)], 0),
        ["measure 2, lost 0, rtt 0, una 10 to 10, flight 5 to 3", "sent 2 again, flight 5"]
    );
    assert_eq!(
        bench.ack(200, &[(0, 1), (7, 11)], 0),
        ["measure 1, lost 0, rtt 100, una 10 to 11, flight 5 to 4", "sent 1 again, flight 5"]
    );
    // Packet 13 left at 150 ms; of it and 11 and 12, only it lets the window grow.
    assert_eq!(
        bench.ack(250, &[(0, 1), (7, 14)], 0),
        [
            "ReductionDone",
            "Open, cwnd 5",
            "measure 3, lost 0, rtt 100, una 11 to 14, flight 5 to 2",
            "ack 1, lost 0, rtt 100, una 11 to 14, flight 5 to 2",
            "sent 4, flight 6",
        ]
    );
}

#[test]
fn marks_are_told_with_the_ack_that_reports_them_and_reduce_once() {
    let mut bench = Bench::new(Needs::NONE, None, |_| {});
    bench.send(0);
    assert_eq!(
        bench.ack(100, &[(0, 2)], 1),
        ["measure 2, lost 0, rtt 100, una 0 to 2, flight 10 to 8 marks 1", "Ecn", "Cwr, cwnd 10"]
    );
    assert_eq!(bench.ack(101, &[(0, 4)], 3), ["measure 2, lost 0, rtt 101, una 2 to 4, flight 8 to 6 marks 3"]);
}

#[test]
fn an_algorithm_with_full_control_sees_all_and_stays_in_recovery_until_lost_data_has_arrived() {
    let mut bench = Bench::new(FULL_CONTROL, None, |_| {});
    bench.send(0);
    assert_eq!(
        bench.ack(100, &[(3, 4)], 0),
        [
            "measure 1, lost 0, rtt 100, una 0 to 4, flight 10 to 9",
            "Loss",
            "Recovery, cwnd 10",
            "ack 1, lost 1, rtt 100, una 0 to 4, flight 10 to 8",
        ]
    );
    // Packet 1 is lost at 110 ms, packet 2 at 120 ms; three packets leave with each of these ACKs.
    bench.ack(110, &[(3, 5)], 0);
    bench.ack(120, &[(3, 6)], 0);
    assert_eq!(bench.sender.packets(), (19, 3, 13, 3));
    let ended = |log: &[String]| log.iter().any(|line| line.starts_with("Open"));
    assert!(!ended(&bench.ack(215, &[(3, 14)], 0)), "packet 13 left at 110 ms, before the last loss was found");
    assert!(!ended(&bench.ack(220, &[(3, 19)], 0)), "packet 18 left when it was found");
    // Packet 19 left at 215 ms. The window is 10 + 3 + 8 + 5, and no reduction is done.
    assert_eq!(bench.ack(315, &[(3, 20)], 0)[0], "Open, cwnd 26");
}

#[test]
fn persistent_congestion_is_a_timeout_that_a_later_packet_ends() {
    let mut bench = Bench::new(Needs::NONE, Some(1), |settings| settings.max_ack_delay = Time::ZERO);
    bench.send(0);
    bench.ack(100, &[(0, 1)], 0);
    // PTO = 100 + 4 * 50 ms, and 3 * (100 + 4 * 37.5) = 750 ms after one more sample of 100 ms.
    for ms in [200, 951, 1_000] {
        bench.sender.write(FULL);
        assert_eq!(bench.send(ms), if ms == 200 { vec!["Restart"] } else { vec![] });
    }
    // Packets 1 and 2 left 751 ms apart. B.8: the least window; B.5: then the ACK lets it grow.
    assert_eq!(
        bench.ack(1_100, &[(0, 1), (3, 4)], 0),
        [
            "measure 1, lost 0, rtt 100, una 1 to 4, flight 3 to 2 unused",
            "Timeout",
            "Timeout",
            "Loss, cwnd 2",
            "ack 1, lost 2, rtt 100, una 1 to 4, flight 3 to 0 unused",
            "Restart",
        ]
    );
    bench.sender.write(FULL);
    bench.send(1_150);
    // Packets 4 and 5 left at 1,100 ms, when that began; 6 left later.
    assert_eq!(bench.ack(1_200, &[(0, 1), (3, 5)], 0)[0], "measure 1, lost 0, rtt 100, una 4 to 5, flight 3 to 2");
    assert_eq!(bench.ack(1_250, &[(0, 1), (3, 7)], 0)[..2], ["ReductionDone", "Open, cwnd 4"]);
}

/// B.8: OnCongestionEvent does nothing in a recovery period, so the threshold stays, and the window falls all the same.
/// RTT = 100 ms five times: 3 * (100 + 4 * 15.8) = 490 ms. Packets 4 and 5 left 590 ms apart, and a late timer finds
/// both.
#[test]
fn persistent_congestion_in_a_recovery_period_leaves_the_threshold() {
    let mut bench = Bench::new(Needs::NONE, Some(0), |settings| {
        (settings.packet_threshold, settings.time_threshold) = (1_000, 8.0);
        settings.max_ack_delay = Time::ZERO;
    });
    let write = |bench: &mut Bench, ms| {
        bench.sender.write(FULL);
        bench.send(ms);
    };
    for number in 0..4 {
        write(&mut bench, number * 110);
        bench.ack(number * 110 + 100, &[(0, number + 1)], 0);
    }
    for ms in [500, 1_090, 1_100] {
        write(&mut bench, ms);
    }
    assert_eq!(bench.ack(1_200, &[(0, 4), (6, 7)], 1)[1..], ["Ecn", "Cwr, cwnd 14"]);
    bench.sender.on_timer(Time::from_millis(1_950), &bench.config, &mut Vec::new());
    assert_eq!(bench.log(), ["Timeout", "Loss, cwnd 2", "Restart"]);
    assert_eq!((bench.sender.control.ssthresh, bench.sender.totals().persistent), (7, 1));
}

/// Two packets of ten in 100 ms; then ten more in the 100 ms after, as packet 11 took along what there was at 100 ms.
#[test]
fn a_rate_sample_spans_from_the_departure_of_the_newest_packet() {
    let mut bench = Bench::new(RATE, None, |_| {});
    bench.send(0);
    bench.ack(100, &[(0, 2)], 0);
    bench.ack(200, &[(0, 12)], 0);
    let rates = bench.seen.rates.lock().unwrap();
    let of = |i: usize| {
        let rate: &RateSample = &rates[i];
        (rate.delivered, rate.interval.map(Time::as_millis), rate.prior_delivered, rate.tx_in_flight, rate.app_limited)
    };
    assert_eq!([of(0), of(1)], [(2, Some(100), 0, 10, false), (10, Some(100), 2, 12, false)]);
}

/// Samples are limited by the application until more is delivered than was when data ran out.
#[test]
fn the_limit_by_the_application_ends_when_more_is_delivered() {
    let mut bench = Bench::new(RATE, Some(5), |_| {});
    bench.send(0);
    bench.ack(100, &[(0, 4)], 0);
    assert!(bench.sender.view().app_limited);
    bench.sender.write(40 * FULL);
    bench.send(101);
    bench.ack(102, &[(0, 5)], 0);
    assert!(bench.sender.view().app_limited, "five were sent when data ran out");
    bench.ack(201, &[(0, 6)], 0);
    assert!(!bench.sender.view().app_limited);
}

/// 1.2 Mbit/s: 8 ms a packet. The bucket is full again when the window opens, unless the algorithm asks otherwise.
#[test]
fn pacing_restarts_after_the_window_where_the_algorithm_asks_for_it() {
    for (restart, leaves) in [(false, 1_000), (true, 1_008)] {
        let mut bench = Bench::new(Needs { pacing: true, ..SENT }, None, |_| {});
        bench.sender.control.pacing_rate = Some(Rate::from_bps(1_200_000));
        bench.sender.control.restart_pacing = restart;
        // The window holds ten packets.
        (0..=10).for_each(|k| drop(bench.send(8 * k)));
        let sent = bench.ack(1_000, &[(0, 1)], 0).into_iter().filter(|line| line.starts_with("sent")).count();
        let next = if sent > 0 { 1_000 } else { bench.sender.pacer.due.as_millis() };
        assert_eq!(next, leaves);
    }
}
