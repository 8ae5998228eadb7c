//! `lte` and `nr`: a cellular link's transport blocks, HARQ and in-order delivery, scheduling requests, and fading.
//!
//! In each transmission time interval (TTI) with something to send, a transport block takes as many bytes as the rate
//! allows; packets are cut and joined as needed (RLC). A block fails with probability `bler` and is sent again
//! `harq_rtt` later, up to `max_retransmissions` times, in place of a new block. What a block carries is handed up in
//! order: all behind a failed one waits. A block that failed each time is sent again by RLC after `rlc_delay` (`am`),
//! or lost, and those behind it wait for `rlc_delay` (`um`).
//!
//! ```text
//! TTI   1  2  3  4  5  6  7  8  9  10
//! sent  a  b  c  d  e  f  g  h  b  i       b failed: c to h leave with it, as TTI 9 ends
//! ```
//!
//! In the uplink (`uplink = true`) a terminal that has been idle first waits for a chance to send a scheduling request,
//! every `sr_period`, and then `grant_delay` for the grant; as long as it has something to send, buffer status reports
//! bring further grants without delay.
//!
//! With `fading = "rayleigh"` the rate follows a channel gain h, a first-order Gauss-Markov process:
//!
//! ```text
//! rate = peak × min(1, max(0, 0.6 log2(1 + snr |h|²) / 4.4)),  h ← ρ h + sqrt(1 - ρ²) w,  ρ = 2^(-TTI / coherence)
//! ```
//!
//! The link's `rate` is the peak. The mapping is the attenuated and truncated Shannon bound of 3GPP TR 36.942, annex
//! A.1, for the downlink: none below -10 dB, 4.4 bit/s/Hz at the most.
//!
//! Sources: 3GPP TS 36.211/38.211 (TTIs), TS 36.213 (8 HARQ processes; a first BLER of at most 10 %, 7.2.3), TS 36.321
//! (HARQ, scheduling requests), TS 36.322/38.322 (RLC), TR 36.942, TR 38.913.

use crate::entry::{Choice, Init, Model};
use crate::medium::{Capacity, Frame, Medium, Port};
use knee_core::Conflict;
use knee_core::convert::{saturating_u64, truncated};
use knee_core::declare::with_defaults;
use knee_core::{Param, Rate, Rng, Time, Value, choice, params};

const MOST: Time = Time::from_secs(10);

const fn us(us: u64) -> Time {
    Time::from_micros(us)
}

choice! {
    /// RLC's handling of a block that failed each time.
    enum Rlc {
        Acknowledged = "am",
        Unacknowledged = "um",
    }
}

choice! {
    /// True if the rate follows a fading channel.
    enum FadingModel {
        None = "none",
        Rayleigh = "rayleigh",
    }
}

params! {
    /// The parameters of a cell; the defaults are those of `lte`.
    struct Params {
        /// transmission time interval
        tti: Time = us(1000), in us(62)..=us(10_000), from "3GPP TS 36.211, 4: subframes";
        /// time from a block's transmission to its retransmission
        harq_rtt: Time = us(8000), in us(62)..=us(100_000), from "3GPP TS 36.213: 8 HARQ processes (FDD)";
        /// probability that a transmission of a block fails
        bler: f64 = 0.1, in 0.0..=1.0, from "3GPP TS 36.213, 7.2.3: at most 10 %";
        /// HARQ retransmissions of a block
        max_retransmissions: u64 = 3, in 0..=7, from "usual configuration: four transmissions";
        /// what becomes of a block that failed each time: sent again (am), or lost (um)
        rlc: Rlc = Rlc::Acknowledged, from "3GPP TS 36.322";
        /// how long that takes
        rlc_delay: Time = us(40_000), in Time::ZERO..=MOST,
            from "t-Reordering of 35 ms (3GPP TS 36.331) and a status report";
        /// whether a terminal sends, which has to request
        uplink: bool = false, from "ours";
        /// time between two chances to send a scheduling request
        sr_period: Time = us(10_000), in us(62)..=us(1_000_000), from "usual configuration";
        /// time from a scheduling request to the transmission that it is granted
        grant_delay: Time = us(8000), in Time::ZERO..=MOST,
            from "3GPP TS 36.213: four subframes each for request and grant";
        /// whether the rate follows a fading channel
        fading: FadingModel = FadingModel::None, from "ours";
        /// time in which the correlation of the channel's gain halves
        coherence: Time = us(32_000), in us(100)..=MOST, from "9/(16 pi f_D) at 3 km/h and 2 GHz";
        /// mean signal-to-noise ratio of the fading channel, dB
        snr_db: f64 = 15.0, in -10.0..=60.0, from "ours";
    }
}

/// The parameters of `nr`.
const NR_PARAMS: [Param; Params::DECLARED.len()] = with_defaults(
    Params::DECLARED,
    &[
        ("tti", Value::Time(us(500)), "3GPP TS 38.211, 4.3.2: slots at 30 kHz"),
        ("harq_rtt", Value::Time(us(4000)), "ours: half of LTE's"),
        ("sr_period", Value::Time(us(5000)), "usual configuration"),
        ("grant_delay", Value::Time(us(3000)), "ours: three slots each for request and grant"),
    ],
);

/// The registry entry of LTE.
pub const LTE: Model = Model {
    choice: Choice {
        name: "lte",
        about: "4G: transport blocks each 1 ms, HARQ after 8 ms, in-order delivery, scheduling requests, fading",
        source: "3GPP TS 36.211, 36.213, 36.321, 36.322; TR 36.942",
        params: Params::DECLARED,
    },
    check,
    access,
    path: None,
    categories: |_| None,
    make: Some(|params, init| Box::new(Cellular::new(params.into(), init))),
};

/// The registry entry of NR.
pub const NR: Model = Model {
    choice: Choice {
        name: "nr",
        about: "5G: as lte, with slots of 0.5 ms and HARQ after 4 ms",
        source: "3GPP TS 38.211, 38.213, 38.321, 38.322; TR 36.942",
        params: &NR_PARAMS,
    },
    check,
    access,
    path: None,
    categories: |_| None,
    make: Some(|params, init| Box::new(Cellular::new(params.into(), init))),
};

/// Intervals ahead for which retransmissions can be booked.
const AHEAD: u64 = u128::BITS as u64;
/// TR 36.942, annex A.1.
const SHANNON: (f64, f64, f64) = (0.6, 4.4, 0.1);

fn check(params: &knee_core::Params, rate: Rate) -> Result<(), Conflict> {
    let params = Params::from(params);
    let conflict = |key, found: String, accepted: String| Err(Conflict { key, found, accepted });
    let (tti, harq) = (params.tti, params.harq_rtt);
    let us = |time: Time| format!("{} us", time.as_micros());
    if harq.as_nanos() % tti.as_nanos() > 0 {
        let found = format!("{} is not a multiple of tti, {}", us(harq), us(tti));
        return conflict("harq_rtt", found, "expected a whole number of intervals".into());
    }
    let ahead = harq.as_nanos() / tti.as_nanos() * params.max_retransmissions;
    if ahead >= AHEAD {
        let found = format!(
            "{} retransmissions after {} each reach {ahead} intervals ahead",
            params.max_retransmissions,
            us(harq)
        );
        return conflict(
            "max_retransmissions",
            found,
            format!("expected less than {AHEAD}: fewer, or a shorter harq_rtt"),
        );
    }
    if rate.bytes_in(tti).0 == 0 {
        return conflict("tti", "at the link's rate it carries not one byte".into(), "expected a longer one".into());
    }
    if params.bler >= 1.0 && params.rlc == Rlc::Acknowledged {
        return conflict("bler", "no block ever arrives".into(), "expected less than 1, or rlc = \"um\"".into());
    }
    Ok(())
}

/// A packet waits for the next interval, which a retransmission may take; an idle terminal for its request and grant.
fn access(params: &knee_core::Params, _: Rate) -> Time {
    let params = Params::from(params);
    let intervals = params.tti * if params.bler > 0.0 { 2 } else { 1 };
    let asks = params.sr_period + params.grant_delay;
    intervals + if params.uplink { asks } else { Time::ZERO }
}

/// A channel gain that changes with time.
#[derive(Clone)]
struct Fading {
    snr: f64,
    gain: [f64; 2],
    rng: Rng,
    /// Interval of the gain.
    at: u64,
    /// The correlation over one interval.
    step: f64,
}

impl Fading {
    /// A pair of standard normal numbers (Box and Muller).
    fn pair(rng: &mut Rng) -> [f64; 2] {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()));
        let angle = 2.0 * std::f64::consts::PI * rng.unit();
        [radius * libm::cos(angle), radius * libm::sin(angle)]
    }

    /// Share of the peak rate in the interval `tti`.
    fn share(&mut self, tti: u64) -> f64 {
        let passed = tti - self.at;
        if passed > 0 {
            let correlation = if passed == 1 { self.step } else { libm::pow(self.step, passed as f64) };
            let fresh = libm::sqrt(1.0 - correlation * correlation);
            let noise = Self::pair(&mut self.rng);
            for (gain, noise) in self.gain.iter_mut().zip(noise) {
                *gain = correlation * *gain + fresh * noise;
            }
            self.at = tti;
        }
        // Each part has variance 1: the mean of the squares' sum is 2.
        shannon(self.snr * 0.5 * (self.gain[0] * self.gain[0] + self.gain[1] * self.gain[1]))
    }

    fn new(params: &Params, mut rng: Rng) -> Option<Self> {
        if params.fading == FadingModel::None {
            return None;
        }
        let coherence = params.coherence.as_nanos() as f64 / params.tti.as_nanos() as f64;
        let gain = Self::pair(&mut rng);
        let snr = libm::pow(10.0, params.snr_db / 10.0);
        Some(Self { snr, gain, rng, at: 0, step: libm::pow(2.0, -1.0 / coherence) })
    }
}

/// Share of the peak rate at a signal-to-noise ratio.
fn shannon(snr: f64) -> f64 {
    let (attenuation, most, least) = SHANNON;
    if snr < least { 0.0 } else { (attenuation * libm::log2(1.0 + snr) / most).min(1.0) }
}

/// A sender of transport blocks.
#[derive(Clone)]
pub struct Cellular {
    rate: Rate,
    params: Params,
    /// In intervals.
    harq: u64,
    fading: Option<Fading>,
    rng: Rng,
    idle: bool,
    /// Retransmissions booked: the lowest bit is the interval `booked_from`.
    booked: u128,
    booked_from: u64,
    /// Fractions of bits left over from earlier blocks, in bits times 1e9.
    carry: u128,
    /// A packet of which a part is in earlier blocks, its bytes that are left, and whether one of those is lost.
    partial: Option<(Frame, u64, bool)>,
    /// When all that was sent so far has arrived, or is known to be lost.
    in_order: Time,
    sends_until: Time,
}

impl Cellular {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            rate: init.rate,
            harq: params.harq_rtt.as_nanos() / params.tti.as_nanos(),
            fading: Fading::new(&params, Rng::stream(init.seed, &format!("fading/{}", init.name))),
            rng: Rng::stream(init.seed, &format!("harq/{}", init.name)),
            params,
            idle: true,
            booked: 0,
            booked_from: 0,
            carry: 0,
            partial: None,
            in_order: Time::ZERO,
            sends_until: Time::ZERO,
        }
    }

    /// When a terminal that was idle may send a packet that has come `now`: in an interval that begins later, which all
    /// that comes now can share.
    fn begins(&self, now: Time) -> Time {
        let later = now + Time::from_nanos(1);
        let Params { uplink, sr_period, grant_delay, tti, .. } = self.params;
        if uplink { (later.ceil_to(sr_period) + grant_delay).ceil_to(tti) } else { later.ceil_to(tti) }
    }

    /// Bytes that a block in the interval `tti` takes.
    fn block(&mut self, tti: u64) -> u64 {
        let share = self.fading.as_mut().map_or(1.0, |fading| fading.share(tti));
        let rate = if share < 1.0 { truncated(self.rate.as_bps() as f64 * share) } else { self.rate.as_bps() };
        self.carry += u128::from(rate) * u128::from(self.params.tti.as_nanos());
        let bytes = self.carry / 8_000_000_000;
        self.carry -= bytes * 8_000_000_000;
        saturating_u64(bytes)
    }

    /// Returns true if a retransmission goes in the interval `tti`.
    fn is_booked(&mut self, tti: u64) -> bool {
        let passed = tti - self.booked_from;
        self.booked = if passed < AHEAD { self.booked >> passed } else { 0 };
        self.booked_from = tti;
        self.booked & 1 > 0
    }

    /// Sends a block in the interval `tti`. Gives whether it arrives, and when that is known.
    fn send(&mut self, tti: u64) -> (bool, Time) {
        let ends = |tti: u64| self.params.tti * (tti + 1);
        let mut tries = 0;
        while self.rng.chance(self.params.bler) {
            if tries == self.params.max_retransmissions {
                let mut known = ends(tti + tries * self.harq) + self.params.rlc_delay;
                // RLC's own retransmissions take little of the capacity: they are not booked.
                let acknowledged = self.params.rlc == Rlc::Acknowledged;
                while acknowledged && self.rng.chance(self.params.bler) {
                    known += self.params.tti * self.harq;
                }
                return (acknowledged, known);
            }
            tries += 1;
            self.booked |= 1 << (tries * self.harq);
        }
        (true, ends(tti + tries * self.harq))
    }
}

impl Medium for Cellular {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        if self.idle {
            self.idle = false;
            return self.begins(now);
        }
        let tti = now.as_nanos() / self.params.tti.as_nanos();
        let next = self.params.tti * (tti + 1);
        if self.is_booked(tti) {
            return next;
        }
        let mut room = self.block(tti);
        let mut sent = 0;
        let mut fate = None;
        while room > 0 {
            let taken = self.partial.take().or_else(|| port.take().map(|frame| (frame, frame.bytes, false)));
            let Some((frame, left, harmed)) = taken else { break };
            let (arrives, known) = *fate.get_or_insert_with(|| self.send(tti));
            let bytes = left.min(room);
            (room, sent) = (room - bytes, sent + bytes);
            let harmed = harmed || !arrives;
            self.in_order = self.in_order.max(known);
            if bytes < left {
                self.partial = Some((frame, left - bytes, harmed));
            } else if harmed {
                port.lose(frame);
            } else {
                port.leave(frame, self.in_order);
            }
        }
        if let Some((true, _)) = fate {
            port.carry(sent * 8, now, next);
            self.sends_until = next;
        }
        self.idle = self.partial.is_none() && port.backlog().packets == 0;
        if self.idle { Time::MAX } else { next }
    }

    fn capacity(&self, _now: Time) -> Capacity {
        Capacity::Rate { bps: self.rate.as_bps(), saved: self.carry.div_ceil(1_000_000_000).cast_signed() }
    }

    fn set_rate(&mut self, rate: Rate, now: Time) -> Time {
        self.rate = rate;
        now.max(self.sends_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing::{Bench, make};
    use knee_core::Value;

    const MS: Time = Time::from_millis(1);

    fn link(model: &Model, given: &[(&str, Value)], mbps: u64) -> Bench {
        Bench::new(make(model, given, mbps))
    }

    /// How long lone packets take, in ms: they come 97.3 ms apart.
    fn waits(model: &Model, given: &[(&str, Value)], packets: u64) -> Vec<f64> {
        let mut bench = link(model, given, 1000);
        let comes: Vec<Time> = (0..packets).map(|i| Time::from_micros(97_300) * i).collect();
        for at in &comes {
            bench.arrive(*at, 1);
        }
        let left = bench.departures(Time::from_secs(packets));
        left.iter().zip(&comes).map(|(left, comes)| (*left - *comes).as_millis_f64()).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn the_share_of_packets_with_k_retransmissions_is_geometric_and_each_takes_8_ms() {
        // A packet comes within an interval of 1 ms and leaves as the next one ends: 1 to 2 ms, and 8 ms for each
        // retransmission. With a BLER of 10 % the shares are 0.9, 0.09, 0.009.
        let all = waits(&LTE, &[("max_retransmissions", Value::Count(7))], 40_000);
        let count =
            |k: u32| all.iter().filter(|ms| (**ms - f64::from(8 * k)) > 0.99 && **ms - f64::from(8 * k) < 2.01).count();
        let (zero, one, two) = (count(0) as f64, count(1) as f64, count(2) as f64);
        // Four standard deviations of the binomial counts.
        assert!(
            (zero - 36_000.0).abs() < 240.0 && (one - 3600.0).abs() < 229.0 && (two - 360.0).abs() < 76.0,
            "{zero} {one} {two}"
        );
        // Without a request, the mean is 1.5 ms and 8/9 ms of HARQ: 0.1 / 0.9 x 8.
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 1.5 - 8.0 / 9.0).abs() < 0.06, "{mean}");
    }

    #[test]
    fn what_is_behind_a_failed_block_waits_for_it() {
        // Every block fails once or more: in order, and never fewer bytes than in their intervals.
        let mut bench = link(&LTE, &[("bler", Value::Ratio(0.5))], 50);
        (0..200).for_each(|ms| bench.arrive(MS * ms, 4));
        let (left, lost) = bench.fates(Time::from_secs(20));
        assert!(left.windows(2).all(|w| w[0] < w[1]) && left.len() == 800 && lost.is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn a_busy_link_loses_to_harq_what_it_sends_again() {
        // Of n blocks, each goes 1 / (1 - 0.1) times (the fifth time is RLC's, which happens once in 10^4).
        let mut bench = link(&LTE, &[], 20);
        (0..20_000).for_each(|ms| bench.arrive(MS * ms, 2));
        let carried = bench.carried(Time::from_secs(20)) as f64 / 20e6 / 20.0;
        assert!((carried - 0.9).abs() < 0.006, "{carried}: four standard deviations are 0.0085 / sqrt 2");
    }

    #[test]
    fn an_interval_has_one_block_whatever_comes_at_its_edges() {
        // 20 packets of 1514 bytes come at each edge of an interval: 242 Mbit/s, of which 100 are carried.
        let mut bench = link(&LTE, &[("bler", Value::Ratio(0.0))], 100);
        (0..100).for_each(|ms| (0..20).for_each(|_| bench.arrive(MS * ms, 1)));
        assert_eq!(bench.carried(MS * 100), 99 * 100_000, "nothing in the first interval");
    }

    #[test]
    fn in_the_uplink_an_idle_terminal_requests_first() {
        // LTE: a request every 10 ms, 8 ms for the grant, 1 ms for the block: 9 to 19 ms, 14 ms on average.
        let uplink = [("uplink", Value::Bool(true)), ("bler", Value::Ratio(0.0))];
        let all = waits(&LTE, &uplink, 1000);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!(all.iter().all(|ms| (8.99..19.01).contains(ms)) && (mean - 14.0).abs() < 0.2, "{mean}");
        // 5G: 5, 3 and 0.5 ms: 3.5 to 8.5 ms.
        let all = waits(&NR, &uplink, 1000);
        assert!(all.iter().all(|ms| (3.49..8.51).contains(ms)), "{all:?}");
    }

    #[test]
    fn access_takes_the_next_interval_its_repetition_and_in_the_uplink_a_request() {
        let access = |bler, uplink| {
            let given = [
                ("tti", Value::Time(MS)),
                ("bler", Value::Ratio(bler)),
                ("uplink", Value::Bool(uplink)),
                ("sr_period", Value::Time(MS * 10)),
                ("grant_delay", Value::Time(MS * 8)),
            ];
            (LTE.access)(&knee_core::Params::resolve(LTE.choice.params, given).unwrap(), Rate::from_mbps(10))
        };
        assert_eq!((access(0.0, false), access(0.1, false)), (MS, MS * 2));
        assert_eq!((access(0.0, true), access(0.1, true)), (MS * 19, MS * 20));
    }

    #[test]
    fn unacknowledged_mode_loses_blocks_that_fail_each_time() {
        let given =
            [("rlc", Value::Choice("um")), ("bler", Value::Ratio(0.5)), ("max_retransmissions", Value::Count(1))];
        let mut bench = link(&LTE, &given, 1000);
        (0..4000).for_each(|i| bench.arrive(MS * (10 * i), 1));
        let (left, lost) = bench.fates(Time::from_secs(100));
        // A quarter, give or take four standard deviations of 27.
        assert!((lost.len() as f64 - 1000.0).abs() < 110.0 && left.len() + lost.len() == 4000, "{}", lost.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn the_fading_rate_has_the_mean_and_the_correlation_of_its_channel() {
        let params = knee_core::Params::resolve(LTE.choice.params, [("fading", Value::Choice("rayleigh"))]).unwrap();
        let mut fading = Fading::new(&Params::from(&params), Rng::stream(1, "fading")).unwrap();
        let (mut gains, mut shares) = (Vec::new(), Vec::new());
        for tti in 0..400_000 {
            shares.push(fading.share(tti));
            gains.push(fading.gain[0]);
        }
        // The mean over an exponentially distributed |h|^2, by the midpoint rule.
        let snr = libm::pow(10.0, 1.5);
        let expected: f64 =
            (0..200_000).map(|i| (f64::from(i) + 0.5) * 1e-4).map(|x| shannon(snr * x) * libm::exp(-x) * 1e-4).sum();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} {expected}");
        // After the coherence time of 32 ms half of the correlation is left.
        let correlation =
            gains.windows(33).map(|w| w[0] * w[32]).sum::<f64>() / gains.iter().map(|g| g * g).sum::<f64>();
        assert!((correlation - 0.5).abs() < 0.05, "{correlation}");
    }

    #[test]
    fn the_mapping_is_that_of_tr_36_942() {
        // 0.6 log2(1 + 10^1) = 2.0757 bit/s/Hz at 10 dB, of 4.4; all of the peak from 22.05 dB on; nothing below -10
        // dB.
        assert!((shannon(10.0) * 4.4 - 2.0757).abs() < 1e-4);
        assert!(shannon(161.0) > 0.9999 && shannon(0.0999).abs() < 1e-9);
    }
}
