//! What sends datagrams: constant and on-off sources, recorded packets, calls with an encoder that adapts, probes.

use knee_core::Time;

/// What a source of datagrams does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It sends a datagram of this size, in bytes as an IP packet, now.
    Send(u16),
    /// It waits until then.
    Wait(Time),
}

/// A datagram as the receiver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the datagram, from 0.
    pub number: u32,
    /// When it arrived.
    pub at: Time,
    /// Whether it was marked CE.
    pub ce: bool,
}

/// The sending end.
pub trait Source: Send {
    /// What it does now, called from its flow's start on, and again after each datagram and at each time it waits for.
    fn next(&mut self, now: Time) -> Next;
    /// A report of the receiver has come.
    fn on_report(&mut self, arrivals: &[Arrival], now: Time);
}
