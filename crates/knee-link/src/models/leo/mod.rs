//! `leo`: a terminal of a satellite constellation in low Earth orbit, which is given another satellite every 15 s.
//!
//! At each reconfiguration nothing is sent for `outage`; then the link has another propagation delay, uniform from 0 to
//! `delay_spread` on top of its own, and another share of its rate, uniform from `capacity` to 1. Between them it is a
//! wire, which loses packets in bursts: times between bursts and their lengths are exponentially distributed, and in
//! one a packet is lost with probability `burst_loss`. What waits during an outage stays in the queue. Packets stay in
//! order.
//!
//! Both directions of a link have the same times, delays, shares and bursts.
//!
//! Sources: G. Huston, "A transport protocol's view of Starlink", APNIC blog, 17 May 2024: the minimum RTT changes
//! every 15 s, with an additional 30 to 50 ms at handovers and loss that is unrelated to congestion of 1 to 2 %; H.
//! Tanveer et al., "Making Sense of Constellations", arXiv 2307.00402: a global controller that allocates satellites to
//! terminals. Losses: Kassem et al., "A Browser-side View of Starlink Connectivity", IMC 2022: up to half of the
//! packets at a time; M. Sauter, "Starlink, Part 3" and "Part 4", blog.wirelessmoves.com, August 2023: in 30 s CUBIC
//! brings about 20 Mbit/s and BBR over 120, from which follows how many bursts the losses come in.

mod bursts;
mod orbit;

use crate::entry::{Choice, Init, Model};
use crate::medium::{Capacity, Frame, Medium, Port};
use crate::wire::Wire;
use bursts::LossBursts;
use knee_core::Conflict;
use knee_core::convert::truncated;
use knee_core::{Rate, Time, params};
use orbit::Orbit;

/// The registry entry.
pub const ENTRY: Model = Model {
    choice: Choice {
        name: "leo",
        about: "a satellite link that loses packets in bursts and is reconfigured every 15 s: an outage, another delay and \
                another capacity",
        source: "Huston 2024 (APNIC blog); Tanveer et al., arXiv 2307.00402; Kassem et al., IMC 2022; Sauter 2023",
        params: Params::DECLARED,
    },
    check,
    // A wire between two reconfigurations.
    access: |_, _| Time::ZERO,
    path: Some(|params, init| Box::new(Orbit::new(params, init))),
    categories: |_| None,
    make: Some(|params, init| Box::new(Satellite::new(params, init))),
};

params! {
    /// The parameters of the constellation.
    struct Params {
        /// time between two reconfigurations
        period: Time = Time::from_secs(15), in Time::from_millis(1)..=Time::from_secs(100_000), from "Huston 2024";
        /// when the first one is
        first: Time = Time::from_secs(12), in Time::ZERO..=Time::from_secs(100_000), from "ours";
        /// how long nothing is sent at each
        outage: Time = Time::from_millis(100), in Time::ZERO..=Time::from_secs(100), from "ours";
        /// the largest extra propagation delay
        delay_spread: Time = Time::from_millis(20), in Time::ZERO..=Time::from_secs(10),
            from "ours: with both directions a step of the RTT of 13 ms on average";
        /// the least share of the rate that a reconfiguration leaves
        capacity: f64 = 0.5, in 0.01..=1.0, from "ours";
        /// mean time from the end of a burst of losses to the next
        burst_gap: Time = Time::from_secs(1), in Time::from_millis(1)..=Time::from_secs(100_000),
            from "ours: CUBIC then brings the 20 Mbit/s of Sauter 2023";
        /// mean length of a burst of losses
        burst_length: Time = Time::from_millis(30), in Time::from_micros(1)..=Time::from_secs(100),
            from "ours: 1.5 % are lost, Huston 2024 has 1 to 2 %";
        /// probability that a packet is lost in a burst; 0: no losses
        burst_loss: f64 = 0.5, in 0.0..=1.0, from "Kassem et al., IMC 2022: losses of up to 50 %";
    }
}

fn check(params: &knee_core::Params, _rate: Rate) -> Result<(), Conflict> {
    let params = Params::from(params);
    let (outage, period) = (params.outage, params.period);
    if outage < period {
        return Ok(());
    }
    let found = format!("{} ms is not less than period, {} ms", outage.as_millis(), period.as_millis());
    Err(Conflict { key: "outage", found, accepted: "expected less than period: nothing would ever be sent".into() })
}

/// The sending end.
#[derive(Clone)]
pub struct Satellite {
    orbit: Orbit,
    bursts: LossBursts,
    rate: Rate,
    wire: Wire,
    /// When the next reconfiguration is, and the end of the current outage.
    until: Time,
    outage_ends: Time,
    free_at: Time,
}

impl Satellite {
    fn new(params: &knee_core::Params, init: &Init) -> Self {
        let mut satellite = Self {
            orbit: Orbit::new(params, init),
            bursts: LossBursts::new(params, init),
            rate: init.rate,
            wire: Wire::new(init.rate),
            until: Time::ZERO,
            outage_ends: Time::ZERO,
            free_at: Time::ZERO,
        };
        satellite.reconfigure(Time::ZERO);
        satellite
    }

    #[cold]
    fn reconfigure(&mut self, now: Time) {
        let (epoch, since) = self.orbit.epoch(now);
        self.orbit.go_to(epoch);
        self.outage_ends = if epoch == 0 { Time::ZERO } else { since + self.orbit.params.outage };
        self.until = if epoch == 0 { self.orbit.params.first } else { since + self.orbit.params.period };
        let rate = truncated(self.rate.as_bps() as f64 * self.orbit.current.2);
        self.wire = Wire::new(Rate::from_bps(rate.max(1)));
    }
}

impl Medium for Satellite {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        if now < self.free_at {
            return self.free_at;
        }
        if now >= self.until {
            self.reconfigure(now);
            // The last packet's end was rounded down to a nanosecond, which a new wire knows nothing of.
            if now == self.free_at && now >= self.outage_ends {
                return now + Time::from_nanos(1);
            }
        }
        if now < self.outage_ends {
            return self.outage_ends;
        }
        let Some(frame) = port.take() else { return Time::MAX };
        let Frame { bytes, .. } = frame;
        self.free_at = now + self.wire.time_for(bytes);
        if self.bursts.loses(now) {
            port.lose(frame);
            return self.free_at;
        }
        port.carry(bytes * 8, now, self.free_at);
        port.leave(frame, self.free_at);
        self.free_at
    }

    fn capacity(&self, _now: Time) -> Capacity {
        Capacity::rate(self.rate.as_bps())
    }

    fn set_rate(&mut self, rate: Rate, now: Time) -> Time {
        self.rate = rate;
        self.reconfigure(now);
        now.max(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing::{Bench, make};
    use knee_core::Value;

    const MS: Time = Time::from_millis(1);

    #[test]
    fn nothing_leaves_in_an_outage_and_capacity_stays_within_its_bounds() {
        let mut bench =
            Bench::new(make(&ENTRY, &[("outage", Value::Time(MS * 200)), ("burst_loss", Value::Ratio(0.0))], 100));
        for ms in 0..60_000 {
            bench.arrive(MS * ms, 9);
        }
        let left = bench.departures(Time::from_secs(60));
        for second in [12, 27, 42, 57] {
            let (from, until) = (Time::from_secs(second) + Time::from_micros(200), Time::from_secs(second) + MS * 200);
            assert!(!left.iter().any(|at| *at > from && *at < until), "in the outage at {second} s");
        }
        for second in [5, 20, 35, 50] {
            let within = |at: &&Time| **at >= Time::from_secs(second) && **at < Time::from_secs(second + 1);
            let mbps = left.iter().filter(within).count() as f64 * 1514.0 * 8.0 / 1e6;
            assert!((49.9..100.1).contains(&mbps), "{mbps} Mbit/s at {second} s");
        }
    }

    #[test]
    fn an_outage_as_long_as_the_period_is_refused() {
        let conflict = |ms| {
            let given = [("outage", Value::Time(MS * ms)), ("period", Value::Time(MS * 15_000))];
            let params = knee_core::Params::resolve(ENTRY.choice.params, given).unwrap();
            (ENTRY.check)(&params, Rate::from_mbps(100)).err().map(|conflict| conflict.found)
        };
        assert_eq!(conflict(14_999), None);
        assert_eq!(conflict(15_000).as_deref(), Some("15000 ms is not less than period, 15000 ms"));
    }

    #[test]
    fn packets_are_lost_in_bursts_as_often_as_measured() {
        let mut bench = Bench::new(make(&ENTRY, &[], 10));
        bench.saturate();
        let (left, lost) = bench.fates(Time::from_secs(3000));
        // 0.5 · 30 / 1030 = 1.46 % of the packets; Huston has 1 to 2 %.
        let share = lost.len() as f64 / (left.len() + lost.len()) as f64;
        assert!((share / 0.0146 - 1.0).abs() < 0.1, "{share}");
        // Bursts with a loss begin where none was lost for 100 ms, 83 packets. Of 3000 s / 1.03 s they are those that
        // lose one of their 25 packets, nearly all, and that do not follow another within 100 ms, exp(-0.1).
        let begin = 1 + lost.windows(2).filter(|pair| pair[1] - pair[0] > 83).count();
        assert!((2200..2700).contains(&begin), "{begin}");
        let mut clean = Bench::new(make(&ENTRY, &[("burst_loss", Value::Ratio(0.0))], 10));
        clean.saturate();
        assert_eq!(clean.fates(Time::from_secs(30)).1, []);
    }
}
