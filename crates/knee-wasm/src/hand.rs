//! The congestion control `hand`: somebody else says at which rate to send, at any time.
//!
//! The rates that were given are kept with their times, and a sender follows the last one that is not later than its
//! ACK. So a run that is repeated with the list gives the same bits, and whoever steers adds to its end.

use crate::session::lock;
use knee_cc::{Ack, Congestion, CongestionControl, Control, Entry, Family, Needs, Sent};
use knee_core::convert::truncated_u32;
use knee_core::{Rate, Time};
use knee_sim::{Own, OwnMake};
use std::sync::{Arc, Mutex};

/// Its name in a scene.
pub const NAME: &str = "hand";

/// Rate until the first one is given, bit/s.
const FIRST_RATE: u64 = 1_000_000;
/// Least rate, bit/s: ACKs have to come, which bring the next rate.
const LEAST_RATE: u64 = 100_000;
/// The window is this many times what the rate sends in an RTT: the rate limits, and what a full queue adds to the RTT
/// has room in it.
const WINDOW: f64 = 4.0;
/// Least window, packets.
const LEAST_WINDOW: u32 = 10;

static ENTRY: Entry = Entry {
    name: NAME,
    family: Family::Hybrid,
    about: "sends at the rate that somebody points at",
    source: "this file",
    params: &[],
    phases: &["steered"],
    edges: &[],
    min_cwnd: LEAST_WINDOW,
    needs: Needs { pacing: true, full_control: true, sent: true, ..Needs::NONE },
    make: |_, _| Box::new(Steered(Arc::default())),
};

/// The rates that were given.
#[derive(Default)]
pub struct Hand {
    /// From when on, and bit/s on the link; in the order of time.
    pub rates: Vec<(Time, u64)>,
}

impl Hand {
    fn rate_at(&self, now: Time) -> u64 {
        let later = self.rates.iter().rev().take_while(|(at, _)| *at > now).count();
        let known = self.rates.len() - later;
        known.checked_sub(1).map_or(FIRST_RATE, |last| self.rates[last].1).max(LEAST_RATE)
    }
}

/// The algorithm that follows `hand`.
pub fn own(hand: &Arc<Mutex<Hand>>) -> Own {
    let hand = Arc::clone(hand);
    let make = OwnMake::Algorithm(Arc::new(move |_, _, _| Box::new(Steered(Arc::clone(&hand)))));
    Own { name: NAME.into(), entry: &ENTRY, make }
}

#[derive(Clone)]
struct Steered(Arc<Mutex<Hand>>);

impl Steered {
    fn follow(&self, now: Time, srtt: Time, control: &mut Control) {
        let rate = lock(&self.0).rate_at(now);
        let packets = rate as f64 * srtt.as_secs_f64() / (8.0 * 1500.0);
        control.cwnd = truncated_u32(WINDOW * packets).max(LEAST_WINDOW);
        control.pacing_rate = Some(Rate::from_bps(rate));
    }
}

impl CongestionControl for Steered {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.follow(ack.view.now, ack.view.srtt, control);
    }

    fn on_sent(&mut self, sent: &Sent, control: &mut Control) {
        self.follow(sent.view.now, sent.view.srtt, control);
    }

    /// Losses change nothing: whoever steers sees them.
    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = control.cwnd.max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rate_that_is_not_later_counts() {
        let at = Time::from_millis;
        let hand = Hand { rates: vec![(at(5), 7_000_000), (at(9), 1), (at(12), 9_000_000)] };
        let found = [4, 5, 8, 9, 11, 12, 99].map(|ms| hand.rate_at(at(ms)));
        assert_eq!(found, [FIRST_RATE, 7_000_000, 7_000_000, LEAST_RATE, LEAST_RATE, 9_000_000, 9_000_000]);
    }
}
