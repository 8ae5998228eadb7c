//! When a controller reduces its window (RFC 9002, 7.3.2): at most once for all that was sent before it last did; and
//! when a recovery ends.

use knee_cc::CaState;
use knee_quinn::proto::congestion::Controller as _;
use knee_quinn::{Control, Controller};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MTU: u16 = 1200;

struct Case {
    base: Instant,
    reno: Controller,
}

impl Case {
    /// Ten packets left, one each millisecond from 0 ms on; the first came back after 40 ms.
    fn new() -> Self {
        #[allow(clippy::disallowed_methods, reason = "quinn's clock cannot be made from a number")]
        let base = Instant::now();
        let mut case = Self { base, reno: Arc::new(Control::named("reno").unwrap()).controller(base, MTU) };
        for ms in 0..10 {
            case.reno.on_sent(case.at(ms), MTU.into(), ms);
        }
        case.acknowledge(40, 0);
        case
    }

    fn at(&self, ms: u64) -> Instant {
        self.base + Duration::from_millis(ms)
    }

    fn acknowledge(&mut self, now: u64, sent: u64) {
        self.reno.acknowledged(self.at(now), self.at(sent), MTU.into());
        self.reno.on_end_acks(self.at(now), 5 * u64::from(MTU), false, None);
    }

    /// The packet that left at `sent` is found lost; gives the window then, packets.
    fn lose(&mut self, now: u64, sent: u64) -> u32 {
        self.reno.on_congestion_event(self.at(now), self.at(sent), false, MTU.into());
        self.reno.control().cwnd
    }
}

#[test]
fn losses_of_one_window_reduce_it_once() {
    let mut case = Case::new();
    let before = case.reno.control().cwnd;
    let reduced = case.lose(44, 1);
    assert_eq!(reduced, before / 2);
    assert_eq!(case.lose(45, 2), reduced);
}

/// The ACK that ends recovery may be the one that shows another packet from before it to be lost.
#[test]
fn a_loss_from_before_the_reduction_does_not_reduce_again_once_recovery_is_over() {
    let mut case = Case::new();
    let reduced = case.lose(44, 1);
    case.reno.on_sent(case.at(46), MTU.into(), 10);
    case.acknowledge(86, 46);
    assert!(case.lose(86, 9) >= reduced);
}

#[test]
fn a_loss_of_what_was_sent_after_the_reduction_reduces_again() {
    let mut case = Case::new();
    let reduced = case.lose(44, 1);
    case.reno.on_sent(case.at(46), MTU.into(), 10);
    assert!(case.lose(90, 46) < reduced);
}

/// The states of an algorithm's recovery, from the first loss on: a packet a millisecond leaves, its ACK comes 40 ms
/// later, and of those in `lost` the fourth after it tells of the loss.
fn states(name: &str, lost: &[u64], until: u64) -> Vec<CaState> {
    #[allow(clippy::disallowed_methods, reason = "quinn's clock cannot be made from a number")]
    let base = Instant::now();
    let mut controller = Arc::new(Control::named(name).unwrap()).controller(base, MTU);
    let at = |ms: u64| base + Duration::from_millis(ms);
    let mut states = Vec::new();
    for now in 0..until {
        controller.on_sent(at(now), MTU.into(), now);
        let Some(sent) = now.checked_sub(40) else { continue };
        if !lost.contains(&sent) {
            controller.acknowledged(at(now), at(sent), MTU.into());
            controller.on_end_acks(at(now), 40 * u64::from(MTU), false, None);
        }
        if let Some(found) = sent.checked_sub(3).filter(|found| lost.contains(found)) {
            controller.on_congestion_event(at(now), at(found), false, MTU.into());
        }
        if states.last() != Some(&controller.view().ca) {
            states.push(controller.view().ca);
        }
    }
    states
}

/// Linux stays in recovery until what it lost there has come as well (`tcp_fastretrans_alert`). So the first round of
/// BBR's, a packet out for each in, is the first of all of these losses: on 10 Mbit/s and 100 ms with 10 % of loss it
/// carried half as much where each round began another. RFC 9002 ends a recovery with the first packet sent in it.
#[test]
fn an_algorithm_that_keeps_its_window_stays_in_recovery_while_losses_go_on() {
    use CaState::{Open, Recovery};
    // Each thirtieth packet is lost, which is found 43 ms after it left, for 300 ms.
    let often: Vec<u64> = (1..10).map(|n| 30 * n).collect();
    assert_eq!(states("bbr", &often, 400), [Open, Recovery, Open]);
    assert!(states("reno", &often, 400).len() > 6);
    // Each hundredth: all is repaired before the next.
    let seldom = [100, 200, 300];
    for name in ["bbr", "reno"] {
        assert_eq!(states(name, &seldom, 400), [Open, Recovery, Open, Recovery, Open, Recovery, Open], "{name}");
    }
}

/// A rate in bytes is one of packets of the size that the path takes now.
#[test]
fn a_pacing_rate_counts_packets_of_the_mtu_found() {
    #[allow(clippy::disallowed_methods, reason = "quinn's clock cannot be made from a number")]
    let base = Instant::now();
    let at = |ms: u64| base + Duration::from_millis(ms);
    for name in ["bbr", "bbr3", "c4", "copa", "timely"] {
        let rate = |mtu: u16, found: u16| {
            let mut controller = Arc::new(Control::named(name).unwrap()).controller(base, mtu);
            let mut size = u64::from(mtu);
            for now in 0..2000 {
                if now == 100 {
                    controller.on_mtu_update(found);
                    size = found.into();
                }
                controller.on_sent(at(now), size, now);
                if let Some(sent) = now.checked_sub(40) {
                    controller.acknowledged(at(now), at(sent), size);
                    controller.on_end_acks(at(now), 40 * size, false, None);
                }
            }
            controller.pacing_rate().unwrap().as_bps() as f64
        };
        let (told, found) = (rate(1452, 1452), rate(1200, 1452));
        assert!((found / told - 1.0).abs() < 0.02, "{name}: {told} and {found} bit/s");
    }
}
