//! HyStart++: a delay that rises from one round trip to the next ends slow start, through some rounds of slower growth
//! in which it may prove to have been a mistake.
//!
//! Source: P. Balasubramanian, Y. Huang, M. Olson, "HyStart++: Modified Slow Start for TCP", RFC 9406. Its terms, with
//! the constants of Sec. 4.3:
//!
//! - a round ends when the segment is acknowledged that was to be sent next as it began (Sec. 4.2)
//! - slow start: `cwnd += min(N, L)` per ACK of N packets, L = 8, or without limit where the sender paces
//! - with at least eight samples, `currentRoundMinRTT >= lastRoundMinRTT + clamp(lastRoundMinRTT / 8, 4 ms, 16 ms)`
//!   begins Conservative Slow Start (CSS)
//! - CSS: `cwnd += min(N, L) / 4`; a round whose least RTT falls below that with which CSS began goes back to slow
//!   start; after five rounds, the one in which it began among them, `ssthresh = cwnd`
//!
//! Counted in packets; what a division by four leaves over is kept for the next ACK.

use super::SlowStart;
use crate::{Ack, Control, Init};
use knee_core::Time;

//= RFC 9406, 4.3
//# N_RTT_SAMPLE = 8
/// Samples that a round needs before its minimum counts (`N_RTT_SAMPLE`).
const SAMPLES: u8 = 8;
//= RFC 9406, 4.3
//# MIN_RTT_DIVISOR = 8
/// The rise that counts is this part of the last round's minimum (`MIN_RTT_DIVISOR`) ...
const RISE_DIVISOR: u64 = 8;
//= RFC 9406, 4.3
//# MIN_RTT_THRESH = 4 msec MAX_RTT_THRESH = 16 msec
/// ... but at least this (`MIN_RTT_THRESH`), and at most this (`MAX_RTT_THRESH`).
const LEAST_RISE: Time = Time::from_millis(4);
const GREATEST_RISE: Time = Time::from_millis(16);
//= RFC 9406, 4.3
//# CSS_GROWTH_DIVISOR = 4
//= RFC 9406, 4.3
//# The minimum value of CSS_GROWTH_DIVISOR MUST be at least 2.
/// How much slower the window grows in CSS (`CSS_GROWTH_DIVISOR`).
const CSS_DIVISOR: u32 = 4;
//= RFC 9406, 4.3
//# CSS_ROUNDS = 5
/// How many rounds that lasts (`CSS_ROUNDS`).
const CSS_ROUNDS: u8 = 5;
//= RFC 9406, 4.3
//# L = 8 if non-paced
/// Packets of one ACK that count where the sender does not pace (`L`).
const UNPACED_LIMIT: u32 = 8;

/// Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// Least RTT of the round in which it began (`cssBaselineMinRtt`).
    baseline: Time,
    /// Rounds completed.
    rounds: u8,
}

/// The state of a connection.
#[derive(Clone)]
pub(super) struct HyStartPlusPlus {
    /// Packets of one ACK that count.
    limit: u32,
    css: Option<Css>,
    /// The round ends when everything before this segment is acknowledged (`windowEnd`).
    window_end: u64,
    /// Least RTT of the last round and of this one; [`Time::MAX`] for none.
    last_min: Time,
    current_min: Time,
    samples: u8,
    /// Packets acknowledged in CSS that have not grown the window yet.
    credit: u32,
}

/// How far the least RTT has to rise from one round to the next (`RttThresh`).
fn rise(last_min: Time) -> Time {
    //= RFC 9406, 4.2
    //# RttThresh = max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))
    (last_min / RISE_DIVISOR).clamp(LEAST_RISE, GREATEST_RISE)
}

impl HyStartPlusPlus {
    pub fn new(init: &Init) -> Self {
        Self {
            //= RFC 9406, 4.3
            //# A paced TCP implementation SHOULD use L = infinity.
            limit: if init.paced { u32::MAX } else { UNPACED_LIMIT },
            css: None,
            window_end: 0,
            last_min: Time::MAX,
            current_min: Time::MAX,
            samples: 0,
            credit: 0,
        }
    }

    /// Begins another round. Gives whether it was CSS's last.
    fn end_round(&mut self, snd_nxt: u64) -> bool {
        self.window_end = snd_nxt;
        //= RFC 9406, 4.2
        //# lastRoundMinRTT = currentRoundMinRTT currentRoundMinRTT = infinity rttSampleCount = 0
        self.last_min = std::mem::replace(&mut self.current_min, Time::MAX);
        self.samples = 0;
        self.css.as_mut().is_some_and(|css| {
            css.rounds += 1;
            //= RFC 9406, 4.2
            //# CSS lasts at most CSS_ROUNDS rounds. If the transition into CSS happens in the middle of a round, that
            //# partial round counts towards the limit.
            css.rounds == CSS_ROUNDS
        })
    }

    /// True if the least RTT has risen since the last round.
    fn rises(&self) -> bool {
        self.last_min < Time::MAX && self.current_min >= self.last_min.saturating_add(rise(self.last_min))
    }

    fn take(&mut self, rtt: Time) {
        //= RFC 9406, 4.2
        //# currentRoundMinRTT = min(currentRoundMinRTT, currRTT) rttSampleCount += 1
        self.current_min = self.current_min.min(rtt);
        self.samples = self.samples.saturating_add(1);
        //= RFC 9406, 4.2
        //# For rounds where at least N_RTT_SAMPLE RTT samples have been obtained and currentRoundMinRTT and
        //# lastRoundMinRTT are valid, check to see if delay increase triggers slow start exit:
        if self.samples < SAMPLES {
            return;
        }
        self.css = match self.css {
            //= RFC 9406, 4.2
            //# if (currentRoundMinRTT >= (lastRoundMinRTT + RttThresh)) cssBaselineMinRtt = currentRoundMinRTT exit
            //# slow start and enter CSS
            None if self.rises() => Some(Css { baseline: self.current_min, rounds: 0 }),
            //= RFC 9406, 4.2
            //# if (currentRoundMinRTT < cssBaselineMinRtt) cssBaselineMinRtt = infinity resume slow start including
            //# HyStart++
            Some(css) if self.current_min < css.baseline => None,
            css => css,
        };
    }
}

impl SlowStart for HyStartPlusPlus {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        //= RFC 9406, 4.2
        //# When windowEnd is ACKed, the current round ends and windowEnd is set to SND.NXT.
        if ack.view.snd_una >= self.window_end && self.end_round(ack.view.snd_nxt) {
            //= RFC 9406, 4.2
            //# If CSS_ROUNDS rounds are complete, enter congestion avoidance by setting the ssthresh to the current
            //# cwnd.
            control.ssthresh = control.cwnd;
            return;
        }
        if let Some(rtt) = ack.rtt {
            self.take(rtt);
        }
    }

    fn growth(&mut self, ack: &Ack) -> u32 {
        //= RFC 9406, 4.2 (departs: counted in packets, SACKed ones included)
        //# While an arriving ACK may newly acknowledge an arbitrary number of bytes, the HyStart++ algorithm limits the
        //# number of those bytes applied to increase the cwnd to L*SMSS bytes.
        let counted = ack.delivered.min(self.limit);
        if self.css.is_none() {
            return counted;
        }
        let packets = self.credit.saturating_add(counted);
        self.credit = packets % CSS_DIVISOR;
        //= RFC 9406, 4.2
        //# cwnd = cwnd + (min(N, L * SMSS) / CSS_GROWTH_DIVISOR)
        packets / CSS_DIVISOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{INFINITE_SSTHRESH, View, testing};

    /// A connection in whose rounds this many packets are acknowledged, one by one.
    struct Rounds {
        start: HyStartPlusPlus,
        control: Control,
        una: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self { start: HyStartPlusPlus::new(&testing::init()), control: Control::initial(100), una: 0 }
        }

        /// ACKs of the next round, with these RTTs in ms. Gives how much the window may grow.
        fn round(&mut self, rtts_ms: &[u64]) -> u32 {
            let nxt = self.una + rtts_ms.len() as u64;
            let mut growth = 0;
            for &ms in rtts_ms {
                self.una += 1;
                let view = testing::lent(View { snd_una: self.una, snd_nxt: nxt + 1, ..testing::view() });
                let ack = Ack { view, rtt: Some(Time::from_millis(ms)), delivered: 1, ..testing::ack_of_nothing() };
                self.start.on_measure(&ack, &mut self.control);
                growth += self.start.growth(&ack);
            }
            growth
        }
    }

    #[test]
    fn the_rise_is_an_eighth_of_the_last_minimum_from_4_to_16_ms() {
        // RFC 9406, Sec. 4.2 and 4.3: 8 ms / 8 = 1 ms, 80 ms / 8 = 10 ms, 400 ms / 8 = 50 ms.
        assert_eq!([8, 80, 400].map(|ms| rise(Time::from_millis(ms))), [4, 10, 16].map(Time::from_millis));
    }

    #[test]
    fn the_eighth_sample_above_the_rise_begins_a_quarter_of_the_growth() {
        for (ms, packets) in [(90, 7 + 13 / 4), (89, 20)] {
            let mut r = Rounds::new();
            assert_eq!(r.round(&[80; 20]), 20);
            // The eighth of twenty ACKs is the first that counts a quarter: 13 of them are 3 packets.
            assert_eq!(r.round(&[ms; 20]), packets);
            assert_eq!(r.control.ssthresh, INFINITE_SSTHRESH);
        }
    }

    #[test]
    fn a_round_of_seven_samples_does_not_count() {
        let mut r = Rounds::new();
        r.round(&[80; 20]);
        assert_eq!(r.round(&[120; 7]), 7);
    }

    #[test]
    fn css_ends_slow_start_after_five_rounds_the_one_in_which_it_began_among_them() {
        let mut r = Rounds::new();
        r.round(&[80; 20]);
        for _ in 0..5 {
            r.round(&[120; 20]);
            assert_eq!(r.control.ssthresh, INFINITE_SSTHRESH);
        }
        // The ACK that ends the fifth.
        r.round(&[120; 1]);
        assert_eq!(r.control.ssthresh, r.control.cwnd);
    }

    #[test]
    fn a_round_below_the_rtt_with_which_css_began_goes_back_to_slow_start() {
        let mut r = Rounds::new();
        r.round(&[80; 20]);
        r.round(&[120; 20]);
        assert!(r.start.css.is_some());
        // Seven samples are a quarter each, which with one packet left over from the last round are two.
        assert_eq!(r.round(&[119; 20]), 2 + 13);
        assert!(r.start.css.is_none());
    }

    #[test]
    fn an_ack_counts_eight_packets_at_most_unless_the_sender_paces() {
        let growth = |paced| {
            let mut start = HyStartPlusPlus::new(&Init { paced, ..testing::init() });
            [3, 8, 20].map(|packets| start.growth(&testing::ack(packets)))
        };
        assert_eq!((growth(false), growth(true)), ([3, 8, 8], [3, 8, 20]));
    }
}
