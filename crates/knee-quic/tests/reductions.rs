//! When a controller reduces its window (RFC 9002, 7.3.2): at most once for all that was sent before it last did.

use knee_quic::proto::congestion::Controller as _;
use knee_quic::{Control, Controller};
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
