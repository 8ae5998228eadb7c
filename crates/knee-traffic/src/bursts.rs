//! An application that hands over a burst of data again and again, on one connection that stays.
//!
//! A sensor or a monitor reports at the ticks of its clock, whatever became of its last report: burst `k` is handed
//! over at `k period` after the flow's start, and where the network is too slow bursts queue on the connection. A step
//! of distributed training computes for a while, exchanges gradients, and goes on when all of them have arrived
//! (Rajasekaran, Ghobadi and Akella, CASSINI, NSDI 2024): with `waits` the period counts from the burst's last
//! acknowledgement, so that a step lasts as long as computing and communication together.
//!
//! `jitter` delays each burst by a random time, uniform from 0. The clock does not run late by it.

use std::collections::VecDeque;

use knee_core::{Bytes, Conflict, Rate, Rng, Time, params};

use crate::entry::{Entry, Make};
use crate::{Application, Completion, Conn, Exchange, Given, Net, What};

/// The entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "bursts",
    about: "a burst of data each period, over one connection: telemetry, sensors, steps of distributed training",
    source: "CASSINI (Rajasekaran et al., NSDI 2024) for bursts that wait",
    params: Params::DECLARED,
    tables: &[],
    required: &["period", "burst"],
    pulls: false,
    echoes: false,
    sockets: true,
    independent: |_| false,
    check,
    // One that waits offers less the slower the network is.
    load: |given| {
        let Params { burst, period, waits, .. } = (&given.params).into();
        (!waits).then(|| Rate::over(burst, period))
    },
    make: Make::Application(|given, rng| Box::new(Bursts::new((&given.params).into(), rng))),
};

params! {
    /// Its parameters.
    struct Params {
        /// the time from burst to burst
        period: Time = Time::from_secs(1), in Time::from_millis(1)..=Time::from_secs(86_400), from "an example";
        /// the payload of a burst
        burst: Bytes = Bytes(1_000_000), in Bytes(1)..=Bytes(1_000_000_000_000), from "an example";
        /// greatest random delay of a burst, at most the period
        jitter: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(86_400), from "ours: a clock without deviation";
        /// whether the period counts from the last acknowledgement of the burst before
        waits: bool = false, from "ours: sensors report on time";
    }
}

fn check(given: &Given) -> Result<(), Conflict> {
    let Params { jitter, period, .. } = (&given.params).into();
    if jitter <= period {
        return Ok(());
    }
    let found = format!("{jitter} is above the period, which is {period}");
    Err(Conflict { key: "jitter", found, accepted: format!("expected {period} or less") })
}

/// The application. It puts each burst on record as [`What::Transfer`], from its hand-over to its last acknowledgement.
#[derive(Clone)]
struct Bursts {
    params: Params,
    rng: Rng,
    conn: Option<Conn>,
    connected: bool,
    /// When the next burst is due without its jitter.
    clock: Time,
    /// When it is handed over. `None` for not before another is acknowledged, or never.
    next: Option<Time>,
    /// When those that are not acknowledged were handed over, oldest first.
    pending: VecDeque<Time>,
    stopped: bool,
}

impl Bursts {
    fn new(params: Params, rng: Rng) -> Self {
        Self {
            params,
            rng,
            conn: None,
            connected: false,
            clock: Time::ZERO,
            next: None,
            pending: VecDeque::new(),
            stopped: false,
        }
    }

    /// The next burst is due at `clock`, and later by its jitter.
    fn schedule(&mut self, clock: Time) {
        self.clock = clock;
        let late = self.rng.below(self.params.jitter.as_nanos() + 1);
        self.next = Some(clock.saturating_add(Time::from_nanos(late)));
    }

    /// Hands over all that is due.
    fn hand_over(&mut self, net: &mut dyn Net) {
        let Some(conn) = self.conn else { return };
        while self.next.is_some_and(|at| at <= net.now()) {
            net.exchange(conn, Exchange::of(self.params.burst.0));
            self.pending.push_back(net.now());
            if self.params.waits {
                self.next = None;
            } else {
                self.schedule(self.clock.saturating_add(self.params.period));
            }
        }
        if let Some(at) = self.next {
            net.wake(at);
        }
    }

    fn close_if_over(&mut self, net: &mut dyn Net) {
        if self.stopped
            && self.connected
            && self.pending.is_empty()
            && let Some(conn) = self.conn.take()
        {
            net.close(conn);
        }
    }
}

impl Application for Bursts {
    fn start(&mut self, net: &mut dyn Net) {
        self.conn = Some(net.open());
        self.schedule(net.now());
        self.hand_over(net);
    }

    fn on_connected(&mut self, _: Conn, net: &mut dyn Net) {
        self.connected = true;
        self.close_if_over(net);
    }

    fn on_complete(&mut self, _: Conn, _: u64, net: &mut dyn Net) {
        let started = self.pending.pop_front().expect("what completes was handed over");
        net.record(Completion::new(What::Transfer, started, net.now(), self.params.burst.0, f64::NAN));
        if self.params.waits && !self.stopped {
            self.schedule(net.now().saturating_add(self.params.period));
            self.hand_over(net);
        }
        self.close_if_over(net);
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        self.hand_over(net);
    }

    fn stop(&mut self, net: &mut dyn Net) {
        self.stopped = true;
        self.next = None;
        self.close_if_over(net);
    }
}

#[cfg(test)]
mod tests {
    use knee_core::Value;

    use super::*;
    use crate::testing::Ideal;

    const RTT: Time = Time::from_millis(20);
    const PERIOD: (&str, Value) = ("period", Value::Time(Time::from_millis(100)));

    /// Bursts of 10 kB each 100 ms, and what else is given, on 8 Mbit/s, on which one takes 10 ms.
    fn run(given: &[(&str, Value)], stop_ms: u64) -> Ideal {
        let given = [PERIOD, ("burst", Value::Bytes(Bytes(10_000)))].into_iter().chain(given.iter().copied());
        let params = knee_core::Params::resolve(ENTRY.params, given).unwrap();
        let mut net = Ideal::new(RTT, Rate::from_mbps(8));
        net.run(&mut Bursts::new((&params).into(), Rng::stream(5, "bursts")), Some(Time::from_millis(stop_ms)));
        net
    }

    fn handed_over_ms(net: &Ideal) -> Vec<f64> {
        net.exchanges.iter().map(|(at, ..)| at.as_millis_f64()).collect()
    }

    #[test]
    fn a_burst_is_handed_over_each_period_on_one_connection() {
        let net = run(&[], 450);
        assert_eq!(handed_over_ms(&net), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert!(net.exchanges.iter().all(|(_, _, e)| (e.up, e.down) == (10_000, 0)));
        assert_eq!((net.opened(), net.records.len()), (1, 5));
        // The handshake of the first, then 10 ms for 10 kB and a round trip for the acknowledgement.
        let took: Vec<f64> = net.records.iter().map(|c| ((c.t_s - c.started_s) * 1e3).round()).collect();
        assert_eq!(took, [50.0, 30.0, 30.0, 30.0, 30.0]);
    }

    #[test]
    fn the_clock_does_not_wait_for_a_path_that_is_too_slow() {
        // 200 kB take 200 ms, twice the period: each burst waits 100 ms longer than the one before.
        let net = run(&[("burst", Value::Bytes(Bytes(200_000)))], 350);
        assert_eq!(handed_over_ms(&net), [0.0, 100.0, 200.0, 300.0]);
        let took: Vec<f64> = net.records.iter().map(|c| ((c.t_s - c.started_s) * 1e3).round()).collect();
        assert_eq!(took, [240.0, 340.0, 440.0, 540.0]);
    }

    #[test]
    fn a_burst_that_waits_comes_a_period_after_the_last_acknowledgement() {
        // The first is complete at 50 ms, each of the others 30 ms after its hand-over.
        let net = run(&[("waits", Value::Bool(true))], 450);
        assert_eq!(handed_over_ms(&net), [0.0, 150.0, 280.0, 410.0]);
    }

    #[test]
    fn jitter_delays_each_burst_and_not_the_clock() {
        let net = run(&[("jitter", PERIOD.1)], 100_000);
        let late: Vec<f64> = handed_over_ms(&net).iter().enumerate().map(|(k, at)| at - 100.0 * k as f64).collect();
        assert!(late.iter().all(|late| (0.0..=100.0).contains(late)), "{late:?}");
        // Uniform from 0 to 100 ms: mean 50, standard deviation 100 / sqrt(12), of the mean of 1000 less than 1.
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        assert!(late.len() >= 999 && (mean - 50.0).abs() < 3.0, "{mean} of {}", late.len());
    }

    #[test]
    fn a_stop_before_the_connection_is_open_closes_it_once_it_is() {
        for (given, bursts) in [(vec![], 1), (vec![("jitter", PERIOD.1)], 0)] {
            let net = run(&given, 5);
            assert_eq!((net.opened(), net.exchanges.len()), (1, bursts), "{given:?}");
        }
    }

    #[test]
    fn the_load_is_a_burst_per_period_unless_it_waits() {
        let load = |waits| {
            let given = [("period", Value::Time(Time::from_millis(200))), ("waits", Value::Bool(waits))];
            (ENTRY.load)(&knee_core::Params::resolve(ENTRY.params, given).unwrap().into())
        };
        // 1 MB in 200 ms.
        assert_eq!((load(false), load(true)), (Some(Rate::from_mbps(40)), None));
    }

    #[test]
    fn a_jitter_above_the_period_is_rejected() {
        let params = knee_core::Params::resolve(ENTRY.params, [("jitter", Value::Time(Time::from_secs(2)))]).unwrap();
        let said = check(&params.into()).unwrap_err().to_string();
        assert_eq!(said, "`jitter`: 2 s is above the period, which is 1 s; expected 1 s or less");
    }
}
