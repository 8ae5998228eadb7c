//! Applications, and the data that they send.
//!
//! An [`Application`] runs at one end of a flow's path, opens connections and exchanges messages over them. A [`Net`]
//! carries them out: the simulator, or real sockets in a real kernel. So one application runs everywhere, and means the
//! same. Applications that send datagrams are in [`datagrams`].
//!
//! An exchange in steps: the application calls [`Net::exchange`]; the bytes go to the other end, which answers, once it
//! has all of them, with as many as it was asked for; the application learns of the end of it
//! ([`Application::on_complete`]) and puts it on record ([`Net::record`]).

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod arrivals;
mod bursts;
mod check;
pub mod completion;
pub mod datagrams;
mod entry;
mod given;
#[cfg(test)]
mod laws;
mod limited;
#[cfg(any(test, feature = "testing"))]
pub mod random;
mod registry;
pub mod requests;
pub mod sizes;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod transfers;
pub mod video;

pub use completion::{Completion, What};
pub use entry::{Entry, Make};
pub use given::{Content, Form, Given, Table};
pub use registry::{add, find, registry};
pub use spec::TrafficSpec;

use knee_core::{Priority, Rng, Time};

/// A connection of an application, by the number that [`Net::open`] gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub u32);

/// A message and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes that the application sends, at least 1.
    pub up: u64,
    /// Bytes that the other end answers with once it has these; 0: it does not answer, and the exchange is complete
    /// when all is acknowledged.
    pub down: u64,
    /// How long the other end takes before it answers.
    pub service: Time,
    /// Its priority among those of its connection that run at once.
    pub priority: Priority,
}

impl Exchange {
    /// One of `up` bytes, without an answer.
    pub fn of(up: u64) -> Self {
        Self { up, down: 0, service: Time::ZERO, priority: Priority::default() }
    }
}

/// An application's access to the ground it runs on: time, connections, exchanges, records.
pub trait Net {
    /// The time.
    fn now(&self) -> Time;
    /// Opens a connection to the other end; [`Application::on_connected`] follows, or nothing does.
    fn open(&mut self) -> Conn;
    /// Starts an exchange on a connection that is open or being opened. Gives its number among those of the connection,
    /// from 0. Exchanges of one connection go one after the other in each direction and complete in their order; where
    /// it has several streams ([`TrafficSpec::streams`]), each goes on one of its own.
    fn exchange(&mut self, conn: Conn, exchange: Exchange) -> u64;
    /// Closes a connection, once all exchanges on it are complete.
    fn close(&mut self, conn: Conn);
    /// Asks for a call of [`Application::on_wake`] at `at`. There is one such time: a later call replaces it.
    fn wake(&mut self, at: Time);
    /// Puts on record what has been completed.
    fn record(&mut self, completion: Completion);
}

/// An application: a state machine that knows nothing of packets.
pub trait Application: Send + CloneApplication {
    /// Its flow starts.
    fn start(&mut self, net: &mut dyn Net);
    /// A connection is open: the handshake is over.
    fn on_connected(&mut self, conn: Conn, net: &mut dyn Net);
    /// A handshake is over that it did not wait for, and that began at `since`: requests left with 0-RTT, or the
    /// connection took the place of one that had timed out.
    fn on_handshake(&mut self, _since: Time, _net: &mut dyn Net) {}
    /// The exchange of this number is complete: where the connection has one stream, its oldest.
    fn on_complete(&mut self, conn: Conn, exchange: u64, net: &mut dyn Net);
    /// The time it asked for has come.
    fn on_wake(&mut self, net: &mut dyn Net);
    /// Its flow stops: nothing new from now on.
    fn stop(&mut self, net: &mut dyn Net);
}

knee_core::boxed_clone!(CloneApplication: Application => Application);

/// The application that a specification asks for, with its random numbers. `None` if it sends datagrams, or does not
/// pass [`TrafficSpec::check`].
pub fn application(spec: &TrafficSpec, rng: Rng) -> Option<Box<dyn Application>> {
    match spec.resolved()? {
        (Entry { make: Make::Application(make), .. }, given) => Some(make(given, rng)),
        _ => None,
    }
}
