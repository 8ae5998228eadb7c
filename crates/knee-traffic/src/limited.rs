//! An application that gives TCP its data at a constant rate, over one connection.
//!
//! It writes full segments ([`MSS`] bytes), one at a time, so that neither the rate nor the size of packets is
//! distorted: one each `8 MSS / rate`, the first when the connection is open. Above 116 Mbit/s that would be more than
//! [`WRITES`] writes per second; there it writes as few segments at once as keep below that. At 10 Gbit/s these are 87
//! segments, two bursts of TSO at their largest.
//!
//! Where the connection carries less than the rate, what has not been written is owed: the application stops at
//! [`OWED`] writes that are not acknowledged and catches up later, as `iperf3 -b` does, whose average since the start
//! is the rate.

use knee_core::packet::MSS;
use knee_core::{Bytes, Rate, Time, params};

use crate::entry::{Entry, Make};
use crate::{Application, Conn, Exchange, Net};

/// The entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "app_limited",
    about: "a constant rate, which the application writes segment by segment over one connection",
    source: "iperf3 -b for what the connection does not carry",
    params: Params::DECLARED,
    tables: &[],
    required: &["rate"],
    pulls: false,
    echoes: false,
    sockets: true,
    independent: |_| false,
    check: |_| Ok(()),
    load: |given| Some(Params::from(&given.params).rate),
    make: Make::Application(|given, _| Box::new(AppLimited::new(Params::from(&given.params).rate))),
};

params! {
    /// Its parameters.
    struct Params {
        /// the rate of payload
        rate: Rate = Rate::from_mbps(5), in Rate::from_bps(1)..=Rate::from_bps(1_000_000_000_000_000), from "an example";
    }
}

/// Writes per second at most.
pub const WRITES: u64 = 10_000;
/// Writes at most that are not acknowledged: more than a second of them.
pub const OWED: u64 = 16_384;

/// The application. It puts nothing on record.
#[derive(Clone)]
struct AppLimited {
    rate: Rate,
    /// Bytes of a write.
    chunk: Bytes,
    conn: Option<Conn>,
    /// When the connection was open.
    began: Option<Time>,
    /// Chunks written.
    written: u64,
    /// Writes that are not acknowledged.
    pending: u64,
    stopped: bool,
}

impl AppLimited {
    /// An application of this rate of payload, above zero.
    fn new(rate: Rate) -> Self {
        let segments = rate.as_bps().div_ceil(8 * u64::from(MSS) * WRITES);
        Self {
            rate,
            chunk: Bytes(segments * u64::from(MSS)),
            conn: None,
            began: None,
            written: 0,
            pending: 0,
            stopped: false,
        }
    }

    /// When chunk `n` is due after the connection opened.
    fn due(&self, n: u64) -> Time {
        self.rate.time_for(Bytes(n.saturating_mul(self.chunk.0)))
    }

    /// Writes all that is due.
    fn write(&mut self, net: &mut dyn Net) {
        let (Some(conn), Some(began)) = (self.conn, self.began) else { return };
        if self.stopped || self.pending >= OWED {
            return;
        }
        let since = net.now() - began;
        let due = self.rate.bytes_in(since).0 / self.chunk.0 + 1;
        if due > self.written {
            net.exchange(conn, Exchange::of((due - self.written) * self.chunk.0));
            self.pending += 1;
            self.written = due;
        }
        net.wake(began.saturating_add(self.due(self.written)));
    }

    fn close_if_over(&mut self, net: &mut dyn Net) {
        if self.stopped
            && self.began.is_some()
            && self.pending == 0
            && let Some(conn) = self.conn.take()
        {
            net.close(conn);
        }
    }
}

impl Application for AppLimited {
    fn start(&mut self, net: &mut dyn Net) {
        self.conn = Some(net.open());
    }

    fn on_connected(&mut self, _: Conn, net: &mut dyn Net) {
        self.began = Some(net.now());
        self.write(net);
        self.close_if_over(net);
    }

    fn on_complete(&mut self, _: Conn, _: u64, net: &mut dyn Net) {
        let full = self.pending >= OWED;
        self.pending -= 1;
        if full {
            self.write(net);
        }
        self.close_if_over(net);
    }

    fn on_wake(&mut self, net: &mut dyn Net) {
        self.write(net);
    }

    fn stop(&mut self, net: &mut dyn Net) {
        self.stopped = true;
        self.close_if_over(net);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Ideal;

    fn run(rate: u64, link: u64, stop: Time) -> Ideal {
        let mut net = Ideal::new(Time::from_millis(10), Rate::from_bps(link));
        net.run(&mut AppLimited::new(Rate::from_bps(rate)), Some(stop));
        net
    }

    #[test]
    fn one_segment_is_written_each_mss_over_rate_from_the_open_connection_on() {
        // 11.584 Mbit/s: a segment each millisecond.
        let net = run(11_584_000, 1_000_000_000, Time::from_millis(15));
        let times: Vec<Time> = net.exchanges.iter().map(|(at, ..)| *at).collect();
        assert_eq!(
            times,
            [10, 11, 12, 13, 14, 15][..times.len()].iter().map(|ms| Time::from_millis(*ms)).collect::<Vec<_>>()
        );
        assert!(times.len() >= 5 && net.exchanges.iter().all(|(_, _, e)| (e.up, e.down) == (1_448, 0)));
        assert_eq!(net.opened(), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes too often for Miri")]
    fn above_116_mbit_it_writes_whole_segments_at_most_10_000_times_a_second() {
        for rate in [115_840_000, 115_840_001, 1_000_000_000, 10_000_000_000, 400_000_000_000] {
            let net = run(rate, 1_000_000_000_000, Time::from_millis(1_010));
            let chunk = net.exchanges[0].2.up;
            assert!(net.wakes <= WRITES + 1 && chunk.is_multiple_of(u64::from(MSS)), "{} wakes", net.wakes);
            assert!(net.carried().0.abs_diff(rate / 8) <= chunk);
        }
        let chunk = |rate| AppLimited::new(Rate::from_bps(rate)).chunk;
        assert_eq!((chunk(115_840_000), chunk(10_000_000_000)), (Bytes(1_448), Bytes(87 * 1_448)));
    }

    /// 20 Mbit/s for 100 s through 1 Mbit/s: what is queued stays bounded, and all that was due is written at last.
    #[test]
    #[cfg_attr(miri, ignore = "writes too often for Miri")]
    fn what_a_path_does_not_carry_is_owed_and_not_queued() {
        let net = run(20_000_000, 1_000_000, Time::from_secs(100));
        let first = net.exchanges.iter().take(OWED as usize).all(|(_, _, e)| e.up == 1_448);
        assert!(first && net.exchanges.last().unwrap().2.up > 1_448);
        // The first is acknowledged after 1448 B at 1 Mbit/s; then each acknowledgement lets one more be written.
        let acknowledged = 100 * 1_000_000 / (8 * 1_448);
        assert!(net.exchanges.len() <= OWED as usize + acknowledged);
        assert!(net.exchanges.last().unwrap().0 <= Time::from_secs(100));
    }

    #[test]
    fn it_closes_a_connection_that_opens_after_the_stop_and_writes_nothing() {
        let net = run(1_000_000, 1_000_000, Time::from_millis(5));
        assert_eq!((net.opened(), net.exchanges.len()), (1, 0));
    }

    proptest! {
        /// Never more than a chunk ahead or behind, at any rate and time.
        #[test]
        #[cfg_attr(miri, ignore = "writes too often for Miri")]
        fn the_rate_is_exact(rate in 1_000u64..2_000_000_000, ms in 1u64..300) {
            let net = run(rate, 1_000_000_000_000, Time::from_millis(10 + ms));
            let due = Rate::from_bps(rate).bytes_in(Time::from_millis(ms)).0;
            prop_assert!(net.carried().0.abs_diff(due) <= net.exchanges[0].2.up);
        }
    }
}
