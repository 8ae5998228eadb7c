//! The interface of an implementation under test: events of its connection, and what it shows after each.

use knee_core::Time;

/// Bytes of a full packet: what QUIC sends before it has looked for the path's MTU.
pub const MSS: u64 = 1200;

/// How a connection begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Chooses random numbers, where the implementation lets somebody choose them.
    pub seed: u64,
    /// Initial window, packets of [`MSS`] bytes.
    pub initial_cwnd: u64,
    /// RTT of the handshake, for those that know it.
    pub rtt: Time,
}

/// A packet that was acknowledged or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number; packets are counted from 0.
    pub number: u64,
    /// When it left.
    pub sent: Time,
}

/// Packets left at once.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Number of the first one.
    pub first: u64,
    /// How many.
    pub packets: u64,
    /// Nothing was in flight before.
    pub idle: bool,
    /// Packets in flight, these included.
    pub in_flight: u64,
    /// The application limited sending before (draft-ietf-ccwg-bbr, 4.1.2.4).
    pub app_limited: bool,
}

/// A sample of the delivery rate (draft-ietf-ccwg-bbr, 4.1).
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Packets delivered in the interval.
    pub delivered: u64,
    /// The longer of the send and the ACK interval; none if it is below the least RTT.
    pub interval: Option<Time>,
    /// Packets delivered when the newest packet of the sample left.
    pub prior_delivered: u64,
    /// Packets lost by then.
    pub prior_lost: u64,
    /// Packets in flight then, it included.
    pub tx_in_flight: u64,
    /// The application limited sending then.
    pub app_limited: bool,
}

/// An ACK.
#[derive(Clone, Debug)]
pub struct Acked {
    /// The acknowledged packets, in the order of their numbers; never empty.
    pub packets: Vec<Packet>,
    /// Packets in flight before it.
    pub prior_in_flight: u64,
    /// Packets in flight after it.
    pub in_flight: u64,
    /// The lowest number that is neither acknowledged nor lost.
    pub una: u64,
    /// The application limits sending.
    pub app_limited: bool,
    /// The window held a packet back since the ACK before.
    pub blocked: bool,
    /// The window held a packet back in the last round trip (draft-ietf-ccwg-bbr, `C.is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// RTT sample of the newest packet.
    pub rtt: Time,
    /// Smoothed RTT, this sample included.
    pub srtt: Time,
    /// Least RTT.
    pub min_rtt: Time,
    /// The sample of the delivery rate.
    pub rate: Rate,
}

/// Packets found lost.
#[derive(Clone, Debug)]
pub struct Lost {
    /// They, in the order of their numbers; never empty.
    pub packets: Vec<Packet>,
    /// All packets of a long span were lost (RFC 9002, 7.6).
    pub persistent: bool,
    /// Packets in flight after it.
    pub in_flight: u64,
    /// An ACK shows the loss and comes as the next event; else a timer shows it.
    pub with_ack: bool,
}

/// An event of the connection.
#[derive(Clone, Debug)]
pub enum Event {
    /// Packets left.
    Sent(Sent),
    /// An ACK came.
    Acked(Acked),
    /// Packets were found lost.
    Lost(Lost),
    /// The next ACK acknowledges these packets, which had a CE mark.
    Marked(Vec<Packet>),
    /// Everything that the latest loss event called lost was delivered.
    Spurious,
}

impl Event {
    /// Its name in the protocol.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sent(_) => "sent",
            Self::Acked(_) => "acked",
            Self::Lost(_) => "lost",
            Self::Marked(_) => "ecn",
            Self::Spurious => "spurious",
        }
    }
}

/// The values that an implementation shows. Sizes in bytes, rates in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// Window.
    pub cwnd: f64,
    /// Threshold of slow start; infinite before the first reduction, none where it is not shown.
    pub ssthresh: Option<f64>,
    /// Pacing rate; none where it does not pace or does not show it.
    pub pacing: Option<f64>,
    /// Estimate of the bandwidth.
    pub max_bw: Option<f64>,
    /// Estimate of the least RTT, seconds.
    pub min_rtt: Option<f64>,
    /// Long-term bound on what is in flight.
    pub inflight_longterm: Option<f64>,
    /// The name of its state.
    pub phase: Option<&'static str>,
}

/// An implementation under test, in one connection.
pub trait Subject {
    /// Takes an event at `now`. False: its interface has no such event.
    ///
    /// # Errors
    /// A sentence that says how it failed.
    fn take(&mut self, now: Time, event: &Event) -> Result<bool, String>;

    /// The values it shows now.
    fn shown(&mut self) -> Shown;
}

/// Makes an implementation for each connection.
pub trait Implementation {
    /// Its name in reports.
    fn name(&self) -> String;

    /// A connection begins.
    ///
    /// # Errors
    /// A sentence that says why it does not.
    fn connect(&self, start: &Start) -> Result<Box<dyn Subject>, String>;
}
