//! `docsis`: a cable modem's upstream, which asks for what it sends (best-effort scheduling).
//!
//! Time runs in MAP intervals. As one begins, the modem may request grants for what its queue holds beyond what it has
//! requested; the grant is for the interval that begins `grant_delay` later, and for what does not fit into that, for
//! the following ones. What is granted is sent at the link's rate from the beginning of the interval.
//!
//! ```text
//!   packet   request                       grant
//! ────┼────────┼───────────────────────────┼──────────► time
//!     │ 0..MAP │        grant_delay        │ transmission
//! ```
//!
//! So an idle modem's packet waits between `grant_delay` and that plus a MAP interval. A request rides on data that is
//! being sent (piggyback); otherwise it contends with other modems' and fails with probability `collision`, after which
//! the modem waits a random number of intervals from a window that doubles from `backoff_start` to `backoff_end` slots.
//!
//! With a `guaranteed_grant_rate` the modem is granted that much in every MAP interval without asking, to be used then
//! or lost (Proactive Grant Service): while that suffices a packet waits for the next interval, and no longer.
//! `docsis-lld` has it by default, shorter MAP intervals and a shorter loop. The proactive grants are the modem's, and
//! what goes first is the queue's choice, where DOCSIS gives them to the low-latency service flow alone.
//!
//! The downstream is a shaped link: a `wire`, with `burst` if wanted.
//!
//! Sources: DOCSIS 3.1 MULPI (CM-SP-MULPIv3.1); its model in ns-2 (`DocsisLink`, MAP interval typically 2 ms), by
//! CableLabs. Validated against the latency of DOCSIS 3.1's access network in G. White, K. Sundaresan, B. Briscoe, "Low
//! Latency DOCSIS - Technology Overview", draft-white-tsvwg-lld-00. Proactive grants as CableLabs' model for ns-3 has
//! them (docsis-ns3), where the interval of the grants is the MAP interval if nothing else is said.

use crate::entry::{Choice, Init, Model};
use crate::medium::{Capacity, Frame, Medium, Port};
use crate::wire::Wire;
use knee_core::Conflict;
use knee_core::declare::with_defaults;
use knee_core::{Param, Rate, Rng, Time, Value, params};
use std::collections::VecDeque;

const NS2: &str = "ns-2 DocsisLink: typically 2 ms";
const LLD: &str = "draft-white-tsvwg-lld-00; docsis-ns3: 1 to 2 ms";

params! {
    /// The parameters of a modem; the defaults are those of `docsis`.
    struct Params {
        /// time between two MAPs, each of which describes such an interval
        map_interval: Time = Time::from_millis(2), in Time::ZERO..=Time::from_millis(50), from NS2;
        /// time from a request to the beginning of the interval with its grant
        grant_delay: Time = Time::from_millis(4), in Time::ZERO..=Time::from_millis(100),
            from "ours: two MAP intervals, one to schedule and one of lead";
        /// what is granted in each MAP interval without a request, at most the link's rate; 0: nothing
        guaranteed_grant_rate: Rate = Rate::ZERO, in Rate::ZERO..=Rate::from_mbps(100_000),
            from "best-effort scheduling";
        /// probability that a request that contends fails
        collision: f64 = 0.0, in 0.0..=1.0, from "ours";
        /// whether requests ride on data that is being sent
        piggyback: bool = true, from "DOCSIS 3.1 MULPI, 7.2.1.1";
        /// window, in MAP intervals, from which a failed request's backoff is drawn at first
        backoff_start: u64 = 1, in 1..=1024, from "ours";
        /// window after repeated failures
        backoff_end: u64 = 16, in 1..=1024, from "ours";
    }
}

/// The parameters of `docsis-lld`.
const LOW_LATENCY: [Param; Params::DECLARED.len()] = with_defaults(
    Params::DECLARED,
    &[
        ("map_interval", Value::Time(Time::from_millis(1)), LLD),
        ("grant_delay", Value::Time(Time::from_millis(2)), "ours: two MAP intervals"),
        ("guaranteed_grant_rate", Value::Rate(Rate::from_bps(12_500_000)), "ours: a full frame in each MAP interval"),
    ],
);

/// The registry entry.
pub const ENTRY: Model = Model {
    choice: Choice {
        name: "docsis",
        about: "a cable modem's upstream: what it sends has to be requested and granted, in MAP intervals",
        source: "DOCSIS 3.1 MULPI; ns-2 DocsisLink; draft-white-tsvwg-lld-00",
        params: Params::DECLARED,
    },
    check,
    access,
    path: None,
    categories: |_| None,
    make: Some(|params, init| Box::new(Docsis::new(params.into(), init))),
};

/// The registry entry of Low Latency DOCSIS.
pub const LLD_ENTRY: Model = Model {
    choice: Choice {
        name: "docsis-lld",
        about: "Low Latency DOCSIS: as docsis, with grants without requests and a shorter loop; use queue docsis-lld",
        source: "DOCSIS 3.1 MULPI; draft-white-tsvwg-lld-00; docsis-ns3",
        params: &LOW_LATENCY,
    },
    check,
    access,
    path: None,
    categories: |_| None,
    make: Some(|params, init| Box::new(Docsis::new(params.into(), init))),
};

/// A packet waits for the next interval, and for its grant where the proactive ones are not all of the rate.
fn access(params: &knee_core::Params, rate: Rate) -> Time {
    let params = Params::from(params);
    let asks = params.guaranteed_grant_rate < rate;
    params.map_interval + if asks { params.grant_delay } else { Time::ZERO }
}

fn check(params: &knee_core::Params, rate: Rate) -> Result<(), Conflict> {
    let params = Params::from(params);
    let conflict = |key, found: String, accepted: String| Err(Conflict { key, found, accepted });
    let (map, delay) = (params.map_interval, params.grant_delay);
    let (start, end) = (params.backoff_start, params.backoff_end);
    if map < Time::from_micros(100) {
        let found = format!("a MAP interval of {} us grants nothing", map.as_micros());
        return conflict("map_interval", found, "expected 100 us to 50 ms, such as \"2 ms\"".into());
    }
    if delay < map {
        let found = format!("{} us is less than map_interval, {} us", delay.as_micros(), map.as_micros());
        let accepted = "a grant comes with a later MAP: expected map_interval or more".into();
        return conflict("grant_delay", found, accepted);
    }
    if rate.bytes_in(map).0 == 0 {
        return conflict(
            "map_interval",
            "at the link's rate it carries not one byte".into(),
            "expected a longer one".into(),
        );
    }
    if start > end {
        let found = format!("{start} is more than backoff_end, {end}");
        return conflict("backoff_start", found, format!("expected at most {end}"));
    }
    Ok(())
}

/// A cable modem.
#[derive(Clone)]
pub struct Docsis {
    wire: Wire,
    params: Params,
    rng: Rng,
    idle: bool,
    /// Grants by when they come: bytes.
    grants: VecDeque<(Time, u64)>,
    /// Bytes granted and not yet used, and bytes requested and not yet granted.
    granted: u64,
    requested: u64,
    /// Failed requests in a row, and when the next one may be sent.
    failures: u32,
    request_at: Time,
    /// A packet of which a part was sent, and its bytes that are left.
    partial: Option<(Frame, u64)>,
    /// When the last byte of what was granted so far has been sent.
    free_at: Time,
}

impl Docsis {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            wire: Wire::new(init.rate),
            params,
            rng: Rng::stream(init.seed, &format!("docsis/{}", init.name)),
            idle: true,
            grants: VecDeque::new(),
            granted: 0,
            requested: 0,
            failures: 0,
            request_at: Time::ZERO,
            partial: None,
            free_at: Time::ZERO,
        }
    }

    /// Sends what is granted for the interval that begins `now`. Gives how many bytes that are.
    fn send(&mut self, now: Time, port: &mut dyn Port) -> u64 {
        while let Some(&(at, bytes)) = self.grants.front()
            && at <= now
        {
            self.grants.pop_front();
            self.requested -= bytes;
            self.granted += bytes;
        }
        let end = now + self.params.map_interval;
        let rate = Rate::from_bps(self.wire.rate());
        // Of this interval only.
        let mut proactive = self.params.guaranteed_grant_rate.min(rate).bytes_in(self.params.map_interval).0;
        let (mut at, mut sent) = (self.free_at.max(now), 0);
        let begun = at;
        while self.granted + proactive > 0 && at < end {
            let Some((frame, left)) = self.partial.take().or_else(|| port.take().map(|frame| (frame, frame.bytes)))
            else {
                // What was requested is no longer there.
                self.granted = 0;
                break;
            };
            let bytes = left.min(self.granted + proactive).min(rate.bytes_in(end - at).0.max(1));
            at += self.wire.time_for(bytes);
            let unasked = bytes.min(proactive);
            proactive -= unasked;
            self.granted -= bytes - unasked;
            sent += bytes;
            if bytes == left { port.leave(frame, at) } else { self.partial = Some((frame, left - bytes)) }
        }
        self.free_at = at;
        if sent > 0 {
            port.carry(sent * 8, begun, at);
        }
        sent
    }

    /// Requests what the queue holds and nobody has asked for, if a request gets through.
    fn request(&mut self, now: Time, sent: u64, port: &dyn Port) {
        let partial = self.partial.as_ref().map_or(0, |(_, left)| *left);
        let waits = (port.backlog().bytes.0 + partial).saturating_sub(self.granted + self.requested);
        let rides = self.params.piggyback && sent > 0;
        if waits == 0 || !rides && now < self.request_at {
            return;
        }
        if !rides && self.rng.chance(self.params.collision) {
            let window = (self.params.backoff_start << self.failures.min(16)).min(self.params.backoff_end);
            self.failures += 1;
            self.request_at = now + self.params.map_interval * (1 + self.rng.below(window));
            return;
        }
        self.failures = 0;
        self.requested += waits;
        self.grants.push_back((now + self.params.grant_delay, waits));
    }
}

impl Medium for Docsis {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        let begun = now.as_nanos() % self.params.map_interval.as_nanos();
        if begun > 0 || self.idle && port.backlog().packets == 0 {
            // A packet has come in the midst of an interval.
            self.idle = false;
            return Time::from_nanos(now.as_nanos() - begun) + self.params.map_interval;
        }
        let sent = self.send(now, port);
        self.request(now, sent, port);
        self.idle = self.partial.is_none() && port.backlog().packets == 0;
        if self.idle {
            (self.requested, self.granted) = (0, 0);
            self.grants.clear();
            return Time::MAX;
        }
        now + self.params.map_interval
    }

    fn capacity(&self, _now: Time) -> Capacity {
        Capacity::rate(self.wire.rate())
    }

    fn set_rate(&mut self, rate: Rate, now: Time) -> Time {
        self.wire = Wire::new(rate);
        now.max(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing::{Bench, make};
    use knee_core::Value;

    const MS: Time = Time::from_millis(1);

    fn modem(given: &[(&str, Value)], mbps: u64) -> Bench {
        Bench::new(make(&ENTRY, given, mbps))
    }

    #[test]
    fn a_lone_packet_waits_for_its_request_and_its_grant() {
        // It comes a third into an interval of 2 ms: the request goes at 2 ms, the grant is for 6 ms. 1514 bytes take
        // 121.12 us at 100 Mbit/s.
        let mut bench = modem(&[], 100);
        bench.arrive(Time::from_micros(667), 1);
        bench.arrive(MS * 20, 1);
        assert_eq!(bench.departures(MS * 100), [Time::from_nanos(6_121_120), Time::from_nanos(24_121_120)]);
    }

    #[test]
    fn latency_of_an_idle_modem_is_within_the_published_range() {
        // Grants follow requests by 4 ms, and requests wait for the next of the intervals of 2 ms: 4 to 6 ms, 5 ms on
        // average, which is within the latency of "around 10 ms" that draft-white-tsvwg-lld-00 gives for the access
        // network of DOCSIS 3.1, there and back, of which the downstream has the smaller part.
        let mut bench = modem(&[], 1000);
        // 10.37 ms is no multiple of 2 ms: arrivals are spread evenly over the interval.
        let comes: Vec<Time> = (0..2000).map(|i| Time::from_micros(10_370) * i).collect();
        for at in &comes {
            bench.arrive(*at, 1);
        }
        let leaves = bench.departures(Time::from_secs(30));
        let waits: Vec<f64> =
            leaves.iter().zip(&comes).map(|(leaves, comes)| (*leaves - *comes).as_millis_f64()).collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert_eq!(waits.len(), 2000);
        assert!(waits.iter().all(|ms| (4.0..=6.03).contains(ms)), "{waits:?}");
        assert!((mean - 5.012).abs() < 0.02, "{mean}");
    }

    #[test]
    fn a_queue_that_never_empties_gets_all_of_the_rate() {
        let mut bench = modem(&[], 100);
        for ms in 0..1000 {
            bench.arrive(MS * ms, 10);
        }
        // 10 packets a millisecond are 121.12 Mbit/s. The first request, at 0, is for 10 packets, which take 1.2 of the
        // 2 ms of their interval at 4 ms. All other intervals are full.
        let left = bench.departures(MS * 1000).len() as f64;
        assert!((left - 0.9952 * 1e8 / (1514.0 * 8.0)).abs() < 2.0, "{left}");
    }

    #[test]
    fn without_piggyback_and_with_collisions_requests_take_longer() {
        // Each request fails with probability 1/2, and the first window is one interval: on average 2 ms per failure at
        // least, one failure on average.
        let wait = |collision| {
            let mut bench = modem(&[("collision", Value::Ratio(collision)), ("backoff_end", Value::Count(1))], 1000);
            let comes: Vec<Time> = (0..3000).map(|i| MS * (100 * i)).collect();
            for at in &comes {
                bench.arrive(*at, 1);
            }
            let leaves = bench.departures(Time::from_secs(400));
            leaves.iter().zip(&comes).map(|(leaves, comes)| (*leaves - *comes).as_millis_f64()).sum::<f64>() / 3000.0
        };
        let (without, with) = (wait(0.0), wait(0.5));
        assert!((with - without - 2.0).abs() < 0.2, "{without} {with}");
    }

    #[test]
    fn with_proactive_grants_a_packet_waits_for_the_next_interval_only() {
        // Full frames fit: it comes a third into an interval of 1 ms and leaves with the next, where best effort takes
        // 6.121 ms.
        let mut bench = Bench::new(make(&LLD_ENTRY, &[], 100));
        bench.arrive(Time::from_micros(667), 1);
        assert_eq!(bench.departures(MS * 100), [Time::from_nanos(1_121_120)]);
    }

    #[test]
    fn what_exceeds_the_proactive_grants_is_requested() {
        // 12.5 Mbit/s are 1562 bytes per ms: of ten packets at 0.5 ms, 15,140 bytes, 1562 go at 1 ms, 2 ms and 3 ms
        // each. The rest was requested at 1 ms, and its grant comes at 3 ms: the last of 12,016 bytes leaves 961.28 us
        // later.
        let mut bench = Bench::new(make(&LLD_ENTRY, &[], 100));
        bench.arrive(Time::from_micros(500), 10);
        let leaves = bench.departures(MS * 100);
        assert_eq!((leaves.len(), leaves[9]), (10, Time::from_nanos(3_961_280)));
    }

    #[test]
    fn proactive_grants_of_all_of_the_rate_leave_nothing_to_request() {
        let mut bench = Bench::new(make(&LLD_ENTRY, &[], 10));
        bench.arrive(Time::from_micros(500), 2);
        assert_eq!(bench.departures(MS * 100)[1], MS + Time::from_nanos(2 * 1_211_200));
    }

    #[test]
    fn parameters_that_contradict_each_other_are_named() {
        let conflict = |given: &[(&str, Value)]| {
            let params = knee_core::Params::resolve(ENTRY.choice.params, given.iter().copied()).unwrap();
            (ENTRY.check)(&params, Rate::from_mbps(10)).err().map(|conflict| conflict.key)
        };
        assert_eq!(conflict(&[]), None);
        assert_eq!(conflict(&[("map_interval", Value::Time(Time::ZERO))]), Some("map_interval"));
        assert_eq!(conflict(&[("grant_delay", Value::Time(MS))]), Some("grant_delay"));
        assert_eq!(conflict(&[("backoff_start", Value::Count(17))]), Some("backoff_start"));
    }
}
