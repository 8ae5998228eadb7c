//! noq, n0's fork of quinn: its connections under its own controllers.
//!
//! Scenario files call them `noq:cubic`, `noq:reno` and `noq:bbr3`. They are used as they are, and paced as noq paces:
//! at the rate that a controller computes, else at 1.25 windows per smoothed RTT.

pub mod conform;
mod connection;
mod plain;
mod watched;

use connection::End;
use knee_cc::{DynCongestionControl, Entry, Family, Init, Needs};
use knee_core::{Params, Time};
use knee_quinn::connection::Connection;
use knee_quinn::{Settings, Stack, Watch};
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use std::sync::Arc;
use watched::Factory;

const CUBIC: Entry = Entry {
    name: "noq:cubic",
    family: Family::LossBased,
    about: "noq's own CUBIC, the default of that QUIC stack; for flows over QUIC",
    source: "noq-proto 1.4, congestion/cubic.rs; RFC 8312",
    params: &[],
    phases: &["running"],
    edges: &[],
    min_cwnd: 2,
    needs: Needs::NONE,
    make: no_algorithm,
};

const RENO: Entry = Entry {
    name: "noq:reno",
    about: "noq's own NewReno; for flows over QUIC",
    source: "noq-proto 1.4, congestion/new_reno.rs; RFC 9002, 7",
    ..CUBIC
};

const BBR3: Entry = Entry {
    name: "noq:bbr3",
    family: Family::Hybrid,
    about: "noq's own BBRv3; for flows over QUIC",
    source: "noq-proto 1.4, congestion/bbr3; draft-ietf-ccwg-bbr-05",
    min_cwnd: 4,
    ..CUBIC
};

/// noq's controllers, with the names that scenario files give them.
pub static ENTRIES: [Entry; 3] = [CUBIC, RENO, BBR3];

/// noq makes its controllers from its own factories ([`Noq`]).
fn no_algorithm(_: &Params, _: &Init) -> Box<dyn DynCongestionControl> {
    unreachable!("noq's controllers are no algorithms of the registry: only flows over QUIC have them")
}

/// Connections of noq's under one of its controllers, which a [`Watch`] sees.
pub struct Noq(Arc<Factory>);

impl Noq {
    /// The controller of an entry of [`ENTRIES`]; none for any other entry.
    pub fn of(entry: &Entry, watch: Arc<Watch>) -> Option<Self> {
        let inner: Arc<dyn ControllerFactory + Send + Sync> = match entry.name {
            "noq:cubic" => Arc::new(CubicConfig::default()),
            "noq:reno" => Arc::new(NewRenoConfig::default()),
            "noq:bbr3" => Arc::new(Bbr3Config::default()),
            _ => return None,
        };
        Some(Self(Arc::new(Factory { inner, watch })))
    }
}

impl Stack for Noq {
    fn connect(&self, settings: &Settings, now: Time) -> Box<dyn Connection> {
        Box::new(End::connect(self.0.clone(), settings, now))
    }

    fn listen(&self, settings: &Settings) -> Box<dyn Connection> {
        Box::new(End::listen(self.0.clone(), settings))
    }
}
