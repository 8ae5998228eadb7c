//! Transfers: connections that come, send and go, or messages on one connection that stays.
//!
//! Arrivals do not wait for what came before (an open loop): where a path cannot carry what is offered, transfers pile
//! up. On a persistent connection they queue, and the time of each counts from its arrival in the queue.
//!
//! Arrivals and sizes draw from random streams of their own, each in the order of arrivals. So transfers of two runs
//! with one seed are the same, whatever the path and its congestion control make of them.

use knee_core::convert::saturating_index;
use std::collections::{BTreeMap, VecDeque};
use std::iter::Take;

use knee_core::{Rng, Time, params};

use crate::arrivals::ArrivalTimes;
use crate::spec::{Arrivals, Size};
use crate::{Application, Completion, Conn, Entry, Exchange, Form, Make, Net, Table, What};

/// The entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "transfers",
    about: "connections that come, send and go, or messages on one connection that stays",
    source: "sizes by measured or heavy-tailed distributions (DCTCP, SIGCOMM 2010; VL2, SIGCOMM 2009)",
    params: Params::DECLARED,
    tables: &[
        Table { name: "arrivals", form: Form::Arrivals, about: "when they start" },
        Table { name: "size", form: Form::Size, about: "how large they are" },
    ],
    required: &["arrivals", "size"],
    pulls: false,
    echoes: false,
    sockets: true,
    independent: |given| !Params::from(&given.params).persistent,
    check: |_| Ok(()),
    load: |given| given.table::<Arrivals>("arrivals").load(given.table::<Size>("size").mean()),
    make: Make::Application(|given, rng| {
        let Params { persistent, number } = (&given.params).into();
        Box::new(Transfers::new(given.table("arrivals"), given.table("size"), persistent, number, rng))
    }),
};

params! {
    /// Its parameters.
    struct Params {
        /// whether all go over one connection that stays
        persistent: bool = false, from "ours: a connection each";
        /// how many there are at most
        number: u64 = u64::MAX, in 0..=u64::MAX, from "ours: no limit";
    }
}

/// The application. It puts each on record as [`What::Transfer`].
#[derive(Clone)]
pub struct Transfers {
    arrivals: Take<ArrivalTimes>,
    size: Size,
    sizes: Rng,
    /// When its flow started.
    began: Time,
    /// When the next transfer starts. `None` if there are no more.
    next: Option<Time>,
    /// Transfers on connections of their own.
    running: BTreeMap<Conn, Transfer>,
    /// Where all go over one connection: that connection once it exists, and what is on it, oldest first.
    line: Option<Line>,
}

#[derive(Clone, Default)]
struct Line {
    conn: Option<Conn>,
    queue: VecDeque<Transfer>,
}

#[derive(Clone)]
struct Transfer {
    started: Time,
    bytes: u64,
}

impl Transfers {
    /// At most `number` transfers, all of them over one connection if `persistent`.
    pub fn new(arrivals: &Arrivals, size: &Size, persistent: bool, number: u64, mut rng: Rng) -> Self {
        let gaps = Rng::stream(rng.next_u64(), "arrivals");
        Self {
            arrivals: ArrivalTimes::new(arrivals, gaps).take(saturating_index(number)),
            size: size.clone(),
            sizes: Rng::stream(rng.next_u64(), "sizes"),
            began: Time::ZERO,
            next: None,
            running: BTreeMap::new(),
            line: persistent.then(Line::default),
        }
    }

    fn advance(&mut self) {
        self.next = self.arrivals.next().map(|after| self.began.saturating_add(after));
    }

    /// Starts all transfers that are due.
    fn begin(&mut self, net: &mut dyn Net) {
        while self.next.is_some_and(|at| at <= net.now()) {
            let transfer = Transfer { started: net.now(), bytes: self.size.draw(&mut self.sizes) };
            let exchange = Exchange::of(transfer.bytes);
            if let Some(line) = &mut self.line {
                let conn = *line.conn.get_or_insert_with(|| net.open());
                line.queue.push_back(transfer);
                net.exchange(conn, exchange);
            } else {
                let conn = net.open();
                self.running.insert(conn, transfer);
                net.exchange(conn, exchange);
            }
            self.advance();
        }
        match self.next {
            Some(Time::MAX) | None => self.close_if_over(net),
            Some(at) => net.wake(at),
        }
    }

    /// Closes the connection that stays once there is nothing more to send on it.
    fn close_if_over(&mut self, net: &mut dyn Net) {
        if let Some(line) = &mut self.line
            && self.next.is_none()
            && line.queue.is_empty()
            && let Some(conn) = line.conn.take()
        {
            net.close(conn);
        }
    }
}

impl Application for Transfers {
    fn start(&mut self, net: &mut dyn Net) {
        self.began = net.now();
        self.advance();
        self.begin(net);
    }

    fn on_connected(&mut self, _: Conn, _: &mut dyn Net) {}

    fn on_complete(&mut self, conn: Conn, _: u64, net: &mut dyn Net) {
        let transfer = match &mut self.line {
            Some(line) => line.queue.pop_front(),
            None => self.running.remove(&conn),
        };
        let Transfer { started, bytes } = transfer.expect("what completes was begun");
        net.record(Completion::new(What::Transfer, started, net.now(), bytes, f64::NAN));
        if self.line.is_some() {
            self.close_if_over(net);
        } else {
            net.close(conn);
        }
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        self.begin(net);
    }

    fn stop(&mut self, net: &mut dyn Net) {
        self.next = None;
        self.close_if_over(net);
    }
}

#[cfg(test)]
mod tests {
    use knee_core::Rate;

    use super::*;
    use crate::testing::Ideal;

    const RTT: Time = Time::from_millis(20);

    fn run(arrivals: &Arrivals, size: &Size, persistent: bool, number: Option<u64>, stop: Option<Time>) -> Ideal {
        let mut net = Ideal::new(RTT, Rate::from_mbps(8));
        net.run(
            &mut Transfers::new(arrivals, size, persistent, number.unwrap_or(u64::MAX), Rng::stream(3, "transfers")),
            stop,
        );
        net
    }

    #[test]
    fn a_transfer_takes_the_handshake_its_bytes_and_the_last_ack() {
        let net = run(&Arrivals::Times(vec![5_000_000]), &Size::Fixed(10_000), false, None, None);
        // 10 kB at 8 Mbit/s are 10 ms; two round trips are 40 ms.
        let [Completion { t_s, started_s, value, bytes: 10_000, flow: 0, what: 0 }] = net.records[..] else {
            panic!("{:?}", net.records)
        };
        assert_eq!([t_s, started_s].map(f64::to_bits), [0.055, 0.005].map(f64::to_bits));
        assert!(value.is_nan());
    }

    #[test]
    fn each_has_a_connection_of_its_own_and_waits_for_no_other() {
        let net = run(&Arrivals::Periodic(1_000.0), &Size::Fixed(10_000), false, Some(30), None);
        assert_eq!((net.opened(), net.records.len()), (30, 30));
        // 50 ms each, one more each millisecond: all 30 are there at once.
        assert_eq!(net.most_open, 30);
        assert!(net.records.iter().all(|c| (c.t_s - c.started_s - 0.05).abs() < 1e-12));
    }

    #[test]
    fn on_one_connection_they_queue_and_their_time_counts_from_their_arrival() {
        let net = run(&Arrivals::Times(vec![0, 0, 0]), &Size::Fixed(10_000), true, None, None);
        let times: Vec<f64> = net.records.iter().map(|c| c.t_s - c.started_s).collect();
        assert_eq!(net.opened(), 1);
        assert_eq!(times, [0.05, 0.06, 0.07]);
    }

    #[test]
    fn an_idle_connection_stays_until_the_last_transfer() {
        let net = run(&Arrivals::Times(vec![0, 1_000_000_000]), &Size::Fixed(10_000), true, None, None);
        let times: Vec<f64> = net.records.iter().map(|c| c.t_s - c.started_s).collect();
        assert_eq!((net.opened(), times), (1, vec![0.05, 1.03 - 1.0]));
    }

    #[test]
    fn it_ends_with_its_number_or_when_it_is_stopped_and_finishes_what_runs() {
        for persistent in [false, true] {
            let size = Size::Fixed(1_000);
            let of = |number, stop| run(&Arrivals::Periodic(100.0), &size, persistent, number, stop).records.len();
            assert_eq!(of(Some(7), None), 7);
            assert_eq!(of(Some(0), None), 0);
            // The arrivals at 0, 10, 20 and 30 ms; the last ones are complete after the stop.
            assert_eq!(of(None, Some(Time::from_millis(35))), 4);
            assert_eq!(of(Some(2), Some(Time::from_millis(35))), 2);
            assert_eq!(of(Some(7), Some(Time::from_secs(35))), 7);
        }
    }

    /// Bytes offered in T seconds are a compound Poisson sum: mean `l T E[S]`, variance `l T E[S^2]`.
    #[test]
    #[cfg_attr(miri, ignore = "draws too often for Miri")]
    fn the_offered_load_is_that_of_arrivals_times_mean_size() {
        let size = Size::Pareto(1_000.0, 2.5, 100_000);
        let net = run(&Arrivals::Poisson(200.0), &size, false, None, Some(Time::from_secs(100)));
        let n = 20_000.0;
        let squares =
            net.records.iter().map(|c| c.bytes as f64 * c.bytes as f64).sum::<f64>() / net.records.len() as f64;
        let offered = net.records.iter().map(|c| c.bytes).sum::<u64>() as f64;
        assert!((offered - n * size.mean()).abs() < 3.0 * libm::sqrt(n * squares), "{offered}");
        assert!((net.records.len() as f64 - n).abs() < 3.0 * libm::sqrt(n));
    }

    #[test]
    fn arrivals_and_sizes_do_not_depend_on_each_other_or_on_the_path() {
        let (arrivals, size) = (Arrivals::Poisson(50.0), Size::Lognormal(5_000.0, 1.0, 1_000_000));
        let stop = Some(Time::from_secs(2));
        let own = run(&arrivals, &size, false, None, stop);
        let fixed = run(&arrivals, &Size::Fixed(1), false, None, stop);
        let line = run(&arrivals, &size, true, None, stop);
        let asked = |net: &Ideal| -> Vec<(Time, u64)> { net.exchanges.iter().map(|(at, _, e)| (*at, e.up)).collect() };
        let times = |net: &Ideal| -> Vec<Time> { net.exchanges.iter().map(|(at, ..)| *at).collect() };
        assert_eq!(asked(&own), asked(&line));
        assert_eq!(times(&own), times(&fixed));
    }
}
