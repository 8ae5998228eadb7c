//! quinn's own controllers, by name and under watch, to hold knee's beside them; and any other of quinn's interface.
//!
//! Scenario files call them `quinn:cubic`, `quinn:reno` and `quinn:bbr`. They are used as they are: what
//! [`Watched`] adds is only that their window and RTT samples can be seen. quinn's BBR sets a pacing rate that
//! quinn does not follow, so by default nobody does.

use crate::observed::{Metrics, Observed};
use crate::watch::Watch;
use knee_cc::{DynCongestionControl, Entry, Family, Init, Needs};
use knee_core::{Param, Params};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller as QuicController, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// The parameter of controllers whose pacing rate quinn does not follow.
const PACED: Param = Param::switch(
    "paced",
    false,
    "knee: quinn computes a pacing rate and paces at 1.25 windows per RTT",
    "pace at the rate that the controller computes",
);

const CUBIC: Entry = Entry {
    name: "quinn:cubic",
    family: Family::LossBased,
    about: "quinn's own CUBIC, the default of that QUIC stack; for flows over QUIC",
    source: "quinn-proto 0.11, congestion/cubic.rs; RFC 8312",
    params: &[],
    phases: &["running"],
    edges: &[],
    min_cwnd: 2,
    needs: Needs::NONE,
    make: no_algorithm,
};

const RENO: Entry = Entry {
    name: "quinn:reno",
    about: "quinn's own NewReno; for flows over QUIC",
    source: "quinn-proto 0.11, congestion/new_reno.rs; RFC 9002, 7",
    ..CUBIC
};

const BBR: Entry = Entry {
    name: "quinn:bbr",
    family: Family::Hybrid,
    about: "quinn's own BBR, which quinn calls experimental; for flows over QUIC",
    source: "quinn-proto 0.11, congestion/bbr; draft-cardwell-iccrg-bbr-congestion-control",
    params: &[PACED],
    min_cwnd: 4,
    ..CUBIC
};

/// Any other controller of quinn's interface. No name finds it: a program hands it over ([`StackControl::new`]).
pub static OTHER: Entry = Entry {
    name: "quinn:other",
    family: Family::Hybrid,
    about: "a controller of quinn's interface; for flows over QUIC",
    source: "the program that brings it",
    ..CUBIC
};

/// quinn's controllers, with the names that scenario files give them.
pub static ENTRIES: [Entry; 3] = [CUBIC, RENO, BBR];

/// quinn makes its controllers from its own factories ([`StackControl`]).
fn no_algorithm(_: &Params, _: &Init) -> Box<dyn DynCongestionControl> {
    unreachable!("quinn's controllers are no algorithms of the registry: only flows over QUIC have them")
}

/// The entry of one of quinn's controllers.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// Makes one of quinn's controllers for connections whose state a [`Watch`] shows.
pub struct StackControl {
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    paced: bool,
    watch: Arc<Watch>,
}

impl StackControl {
    /// The controllers that `factory` makes. A pacing rate in their metrics is followed, which quinn itself does not
    /// do.
    pub const fn new(factory: Arc<dyn ControllerFactory + Send + Sync>, watch: Arc<Watch>) -> Self {
        Self { factory, paced: true, watch }
    }

    /// The controller of an entry of [`ENTRIES`], with its parameters; none for any other entry.
    pub fn of(entry: &Entry, params: &Params, watch: Arc<Watch>) -> Option<Self> {
        let (factory, paced): (Arc<dyn ControllerFactory + Send + Sync>, bool) = match entry.name {
            "quinn:cubic" => (Arc::new(CubicConfig::default()), false),
            "quinn:reno" => (Arc::new(NewRenoConfig::default()), false),
            "quinn:bbr" => (Arc::new(BbrConfig::default()), params.switch(PACED.name)),
            _ => return None,
        };
        Some(Self { factory, paced, watch })
    }
}

impl ControllerFactory for StackControl {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn QuicController> {
        Box::new(Watched {
            inner: self.factory.clone().build(now, current_mtu),
            paced: self.paced,
            seen: Observed::new(self.watch.clone(), now, current_mtu),
        })
    }
}

/// A controller of quinn's, which a [`Watch`] sees.
struct Watched {
    inner: Box<dyn QuicController>,
    paced: bool,
    seen: Observed,
}

impl Watched {
    fn now(&self) -> Metrics {
        let ControllerMetrics { congestion_window, ssthresh, pacing_rate, .. } = self.metrics();
        Metrics { window: congestion_window, ssthresh, pacing_rate }
    }
}

impl QuicController for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
        self.seen.on_sent(bytes, self.now());
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
        self.seen.on_ack(sent);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        self.seen.on_end_acks(now, in_flight, self.now());
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.seen.on_congestion(now, sent, is_persistent_congestion, lost_bytes, self.now());
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
        self.seen.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    /// Without the pacing rate, which quinn does not follow, unless it is asked for.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.pacing_rate = metrics.pacing_rate.filter(|rate| self.paced && *rate > 0);
        metrics
    }

    fn clone_box(&self) -> Box<dyn QuicController> {
        Box::new(Self { inner: self.inner.clone_box(), paced: self.paced, seen: self.seen.unwatched() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
