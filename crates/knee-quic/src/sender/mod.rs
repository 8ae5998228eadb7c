//! The sending end of a QUIC connection, after RFC 9002.
//!
//! An ACK goes through `ack.rs`, after RFC 9002, A.7: packets leave the list of those in flight (`flight.rs`), the RTT
//! is sampled (`rtt.rs`), ECN counts are validated (`ecn.rs`), the delivery rate is sampled, the algorithm measures,
//! marks and then losses (`loss.rs`) reduce the window (`congestion.rs`), the window grows, and packets leave
//! (`transmit.rs`) as the window and the pacer (`pacer.rs`) let them: lost data first, then new data. At last the timer
//! is set.
//!
//! A packet number is used once. Data is sent again by its place in the stream, in packets with new numbers, so an ACK
//! always says which transmission arrived. All packets elicit an ACK: one that carries no data is a PING.
//!
//! The algorithm sees packets where the RFC counts bytes: `snd_una` is the largest packet acknowledged plus one,
//! `acked` and `delivered` are packets newly acknowledged, and the window is full datagrams. The window itself is held
//! in bytes.
//!
//! A connection has one stream in each direction, or several at once (`streams.rs`), which are served by their
//! priorities (`schedule.rs`). A packet of several streams has a record of its own, and its frames are kept by its
//! number.
//!
//! Not modelled here: the handshake, other packet number spaces, PMTU search, migration.

mod ack;
mod congestion;
mod datagrams;
mod ecn;
mod flight;
#[cfg(test)]
mod laws;
mod loss;
mod pacer;
#[cfg(test)]
mod presets;
#[cfg(test)]
mod reference;
mod rtt;
mod schedule;
#[cfg(test)]
mod seen;
#[cfg(test)]
mod shared;
mod streams;
#[cfg(test)]
mod testing;
mod transmit;
#[cfg(test)]
mod worked;

use crate::config::Config;
use crate::frame::Mark;
use crate::ranges::{Range, Ranges};
use datagrams::Datagrams;
use ecn::Validation;
use flight::{Flight, LostPacket, Record};
use knee_cc::{Control, DynCongestionControl, Ecn, Needs, StateEvent, View};
use knee_core::Time;
use knee_tcp::sender::Micros;
use knee_tcp::timer::Timer;
use pacer::Pacer;
pub use rtt::RttEstimator;
use std::collections::VecDeque;
use std::sync::Arc;
use streams::Streams;
use thiserror::Error;

/// How a sender is made.
#[derive(Clone, Copy, Debug)]
pub struct SenderInit {
    /// Requirements of the algorithm.
    pub needs: Needs,
    /// Packets are ECN-capable, also where the algorithm does not need it.
    pub ecn: bool,
    /// Bytes to send; none for an endless flow.
    pub bytes: Option<u64>,
}

impl Default for SenderInit {
    fn default() -> Self {
        Self { needs: Needs::NONE, ecn: false, bytes: None }
    }
}

/// Consecutive packets of one size that leave at once, with consecutive data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Number of the first packet.
    pub first: u64,
    /// How many packets.
    pub count: u32,
    /// Place of the first one's data in the stream, or the number of the datagram.
    pub offset: u64,
    /// Bytes of data in each; 0: a PING.
    pub len: u16,
    /// The data is a datagram.
    pub datagram: bool,
    /// It is one packet with frames of several streams ([`Sender::frames`]), which are `len` bytes with what the head
    /// of one frame lacks of theirs.
    pub framed: bool,
    /// Their data was sent before.
    pub again: bool,
    /// The ECN field that they leave with.
    pub mark: Mark,
}

/// An error of the peer, which ends the connection (RFC 9000, 11.1).
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledgment of a packet that was never sent.
    #[error("PROTOCOL_VIOLATION: packet {largest} is acknowledged; the next one to be sent is {next}")]
    Unsent {
        /// The largest packet acknowledged.
        largest: u64,
        /// The next number.
        next: u64,
    },
    /// An ACK frame without a range.
    #[error("FRAME_ENCODING_ERROR: an ACK frame acknowledges no packet")]
    Empty,
}

/// Counters since the start, for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of datagrams sent, as UDP's payload.
    pub sent_bytes: u64,
    /// Packets with data that was sent before.
    pub again: u64,
    /// Their bytes of data.
    pub again_bytes: u64,
    /// Packets found lost that were acknowledged later.
    pub spurious: u64,
    /// The largest distance, in packets, of such a packet from the largest one acknowledged by then.
    pub spurious_reach: u64,
    /// Probe timeouts.
    pub timeouts: u64,
    /// Periods of persistent congestion.
    pub persistent: u64,
}

/// The sending end of one connection.
#[derive(Clone)]
pub struct Sender {
    /// The algorithm; none until it is there, and the window stays as it is.
    cc: Option<Box<dyn DynCongestionControl>>,
    /// Window, threshold, pacing rate, phase.
    pub control: Control,
    /// The state that the algorithm sees. Its `snd_nxt` is the next packet number.
    view: View,
    needs: Needs,
    flight: Flight,
    bytes_in_flight: u64,
    /// The next byte of the stream that was never sent.
    next: u64,
    /// Bytes there are to send: `u64::MAX` for an endless flow.
    end: u64,
    /// Bytes of the stream that were acknowledged.
    acked: Ranges,
    /// Bytes of the stream that have to be sent again.
    lost: Ranges,
    /// The streams of a connection that has several at once; `next` counts the new bytes of all.
    streams: Option<Box<Streams>>,
    /// Datagrams that have not left.
    datagrams: Datagrams,
    /// Packets found lost, while their acknowledgment may still come, by number.
    lost_packets: VecDeque<LostPacket>,
    /// The lower ranges of the last frame that had others than the one before.
    seen_below: Option<Arc<[Range]>>,
    rtt: RttEstimator,
    /// The timer of loss detection.
    pub timer: Timer,
    /// Packets by which a packet is reordered before it is lost.
    packet_threshold: u32,
    /// When the next packet counts as lost by its age.
    loss_time: Option<Time>,
    /// Probe timeouts since the last packet was newly acknowledged.
    pto_count: u32,
    /// When a packet left last.
    last_sent: Time,
    /// The handshake is not over: packets leave as 0-RTT, or behind a server's flight.
    early: bool,
    /// Bytes that may have been sent until then, as UDP's payload: few to an address that is not validated.
    allowed: u64,
    /// Its pacing clock.
    pub pacer: Pacer,
    ecn: Validation,
    /// Start of the recovery period: losses of packets sent until then reduce nothing, their ACKs let nothing grow.
    recovery_start: Option<Time>,
    /// When the state of recovery began, which packets sent later end.
    state_since: Time,
    /// When packets were last found lost: their data leaves again from then on.
    lost_at: Time,
    /// The window held it back when it last sent.
    held_back: bool,
    app_limited_until: u64,
    /// Start of the send interval and of the ACK interval of rate samples.
    first_tx: Micros,
    delivered_at: Micros,
    totals: Totals,
}

impl Sender {
    /// A sender of a connection whose handshake is over. It sends nothing before [`Sender::send`] is called.
    pub fn new(init: &SenderInit, config: &Config) -> Self {
        let mark = match (init.needs.ecn, init.ecn) {
            (Ecn::Scalable, _) => Mark::Ect1,
            (Ecn::PerPacket, _) | (_, true) => Mark::Ect0,
            _ => Mark::NotEct,
        };
        Self {
            cc: None,
            control: Control::initial(config.initial_window),
            view: View { mss: u32::from(config.datagram), ..View::INITIAL },
            needs: init.needs,
            flight: Flight::new(init.needs.rate),
            bytes_in_flight: 0,
            next: 0,
            end: init.bytes.unwrap_or(u64::MAX),
            acked: Ranges::default(),
            lost: Ranges::default(),
            streams: None,
            datagrams: Datagrams::default(),
            lost_packets: VecDeque::new(),
            seen_below: None,
            rtt: RttEstimator::new(config),
            timer: Timer::OFF,
            packet_threshold: config.settings.packet_threshold,
            loss_time: None,
            pto_count: 0,
            last_sent: Time::ZERO,
            early: false,
            allowed: u64::MAX,
            pacer: Pacer::new(init.needs.pacing || config.settings.pacing),
            ecn: Validation::new(mark),
            recovery_start: None,
            state_since: Time::ZERO,
            lost_at: Time::ZERO,
            held_back: false,
            app_limited_until: 0,
            first_tx: Micros(0),
            delivered_at: Micros(0),
            totals: Totals::default(),
        }
    }

    /// Puts the algorithm in place. `rtt` is the RTT of the handshake, where there was one.
    pub fn adopt(&mut self, cc: Box<dyn DynCongestionControl>, rtt: Option<Time>, now: Time, config: &Config) {
        self.view.now = now;
        if let Some(rtt) = rtt {
            self.take_rtt(rtt, Time::ZERO, now, config);
        }
        (self.first_tx, self.delivered_at) = (Micros::of(now), Micros::of(now));
        self.cc = Some(cc);
        self.tell(StateEvent::Start);
    }

    /// The algorithm is in place before the handshake is over, whose RTT [`Sender::confirm`] tells.
    pub fn adopt_early(&mut self, cc: Box<dyn DynCongestionControl>, now: Time, config: &Config) {
        self.early = true;
        self.adopt(cc, None, now, config);
    }

    /// This many bytes may leave from now on, as UDP's payload.
    pub const fn allow(&mut self, bytes: u64) {
        self.allowed = self.totals.sent_bytes.saturating_add(bytes);
    }

    /// The handshake, of this RTT, is over for a sender that began before: [`Sender::send`] is to be called.
    pub fn confirm(&mut self, rtt: Time, now: Time, config: &Config) {
        if std::mem::take(&mut self.early) {
            self.view.now = now;
            self.take_rtt(rtt, Time::ZERO, now, config);
        }
    }

    /// The application has `bytes` more to send.
    pub const fn write(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
    }

    /// No new data from now on; lost data is still sent again.
    pub fn stop(&mut self) {
        self.end = self.end.min(self.next);
    }

    /// Bytes there are to send, sent ones included; `u64::MAX` for an endless flow.
    pub const fn written(&self) -> u64 {
        self.end
    }

    /// Bytes of the stream that are acknowledged without a hole.
    pub fn acked(&self) -> u64 {
        self.acked.first_missing(0)
    }

    /// Bytes of the stream that were sent at least once.
    pub const fn new_bytes(&self) -> u64 {
        self.next
    }

    /// When it has something to do by itself, at the earliest.
    pub fn due(&self) -> Time {
        self.timer.not_before().min(self.pacer.due)
    }

    /// True once all there is to send was acknowledged.
    pub fn done(&self) -> bool {
        self.streams.as_ref().map_or_else(|| self.acked.first_missing(0) >= self.end, |streams| streams.done())
    }

    /// The algorithm's view of the connection.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// Packets sent, acknowledged, in flight, and found lost and not acknowledged since.
    pub fn packets(&self) -> (u64, u64, u32, u64) {
        let acknowledged = self.view.delivered + self.totals.spurious;
        (self.view.snd_nxt, acknowledged, self.view.in_flight, self.view.lost - self.totals.spurious)
    }

    /// Bytes of the packets in flight.
    pub const fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Smoothed RTT; none before the first sample.
    pub const fn srtt(&self) -> Option<Time> {
        if self.rtt.first_sample().is_some() { Some(self.rtt.smoothed()) } else { None }
    }

    /// The RTT.
    pub const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Probe timeouts since the last packet was newly acknowledged.
    pub const fn pto_count(&self) -> u32 {
        self.pto_count
    }

    /// The numbers of the last `count` packets found lost, in the order in which they were.
    pub fn last_lost(&self, count: usize) -> impl Iterator<Item = u64> + '_ {
        let lost = &self.lost_packets;
        lost.range(lost.len().saturating_sub(count)..).map(|packet| packet.number)
    }

    /// Counters since the start.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The ECN field with which packets leave.
    pub const fn mark(&self) -> Mark {
        self.ecn.mark()
    }

    /// True if packets are paced.
    pub const fn paces(&self) -> bool {
        self.pacer.is_on()
    }
}
