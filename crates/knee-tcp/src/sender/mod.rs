//! The sending end of a TCP connection, as Linux's.
//!
//! Nearly all ACKs take the fast path (`fast.rs`). Any other goes through `ack.rs`, in the order of Linux's `tcp_ack`:
//! SACK blocks are tagged, acknowledged segments leave the retransmission queue (`queue.rs`), RTT (`rtt.rs`) and
//! delivery rate are sampled, the algorithm measures; RACK marks losses and the recovery state machine moves
//! (`recovery.rs`); the window grows, is reduced proportionally, or is set by the algorithm; then lost segments and new
//! ones leave (`transmit.rs`).
//!
//! Sources: Linux net/ipv4/tcp_input.c, tcp_output.c, tcp_recovery.c, tcp_rate.c, tcp_timer.c; RFC 8985 (RACK-TLP),
//! RFC 6937 (proportional rate reduction), RFC 5682 (F-RTO), RFC 3522 and 2883 (undo), RFC 6298 (timeouts).
//! Segments are counted where Linux counts bytes. Not modelled: path MTU probing, urgent data, fast open, segments
//! lost inside the host.

mod ack;
mod bursts;
mod counters;
mod cwnd;
mod fast;
#[cfg(any(test, feature = "testing"))]
pub mod invariants;
mod micros;
mod pacing;
mod probe;
mod prr;
mod queue;
mod rack;
mod rate;
mod recovery;
#[cfg(test)]
mod reference;
mod ring;
mod rtt;
mod sack;
mod start;
mod stream;
#[cfg(test)]
mod testing;
mod timers;
mod tracking;
mod transmit;
mod undo;
#[cfg(test)]
mod worked;

use crate::ecn::Ecn;
use crate::timer::{Clock, Timer};
use cwnd::WindowUse;
use knee_cc::{CaState, Control, DynCongestionControl, Needs, StateChange, StateEvent, View};
use knee_core::cache::{fetch_first, fetch_range};
use knee_core::convert::count_u32;
use knee_core::{Packet, Time};
use probe::Tlp;
use queue::RetransmitQueue;
use rack::Rack;
use rate::RateClock;
use recovery::Recovery;
use rtt::{LeastRtts, RttEstimator};
use sack::Scoreboard;

pub use counters::{Counters, Totals};
pub use micros::Micros;
pub use pacing::Pacer;
pub use rate::RateStart;
pub use ring::Ring;
pub use start::SenderInit;
use std::mem::offset_of;
use stream::Stream;

/// Flags of a segment (Linux's `TCPCB_*`).
mod flags {
    /// The receiver has it.
    pub const SACKED: u8 = 1 << 0;
    /// It is deemed lost.
    pub const LOST: u8 = 1 << 1;
    /// Its retransmission is in flight.
    pub const RETRANSMITTED: u8 = 1 << 2;
    /// It was retransmitted at some time.
    pub const EVER_RETRANSMITTED: u8 = 1 << 3;
    /// RACK still waits for the outcome of its last transmission.
    pub const LISTED: u8 = 1 << 4;
}

/// Settings that all senders of a simulation share.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The kernel's clock.
    pub clock: Clock,
    /// Initial window in packets.
    pub initial_window: u32,
    /// Least retransmission timeout.
    pub rto_min: Time,
    /// Segments leave in bursts sized to a millisecond.
    pub tso: bool,
    /// Their larger part on short paths halves for every 2^this us of the least RTT (tcp_tso_rtt_log), up to 31.
    pub tso_rtt_log: u32,
    /// A window that is idle or not used shrinks (tcp_slow_start_after_idle).
    pub slow_start_after_idle: bool,
    /// Receive window in packets, once it has grown.
    pub receive_window: u64,
    /// Bytes up to which it grows with each packet that arrives.
    pub window_growth: u64,
}

/// The event that the retransmission timer is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// RACK waits for reordered packets.
    Reordering,
    /// A tail loss probe.
    Probe,
    /// The retransmission timeout.
    Timeout,
}

/// The order in which segments may leave after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resend {
    None,
    /// Lost ones first.
    Lost,
    /// New ones first, to see whether a timeout was spurious (F-RTO).
    New,
}

/// Consecutive segments that leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// First segment.
    pub start: u64,
    /// How many.
    pub count: u32,
    /// They were sent before.
    pub retransmission: bool,
}

/// An ACK as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub struct AckInfo<'a> {
    /// Next segment the receiver expects.
    pub seq: u64,
    /// Bytes of that segment that are acknowledged too, which only receivers that divide ACKs do.
    pub part: u16,
    /// SACK blocks.
    pub blocks: &'a [(u64, u64)],
    /// The first block is a D-SACK (RFC 2883).
    pub dsack: bool,
    /// Echoed timestamp, ms.
    pub tsecr: u32,
    /// The lower half of its own timestamp.
    pub tsval: u16,
    /// Flags of its [`Packet`].
    pub flags: u8,
}

impl AckInfo<'_> {
    /// One that acknowledges all segments before `seq`, and nothing beyond.
    pub const fn plain(seq: u64, tsecr: u32, flags: u8) -> Self {
        Self { seq, part: 0, blocks: &[], dsack: false, tsecr, tsval: 0, flags }
    }

    /// The same with this TSval, of which the lower half is known.
    #[must_use]
    pub const fn stamped(self, tsval: u16) -> Self {
        Self { tsval, ..self }
    }

    /// ECN echo, where ACKs do not count marks.
    pub const fn ece(&self) -> bool {
        self.flags & Packet::ECE != 0
    }
}

/// The sending end of one flow.
///
/// The fields that ACKs on the fast path need come first and together: of thousands of flows, each is out of the caches
/// when its next ACK comes.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Sender {
    /// The algorithm; none before the connection is there.
    cc: Option<Box<dyn DynCongestionControl>>,
    /// Window, threshold, pacing rate, phase.
    pub control: Control,
    /// The state that the algorithm sees, and the sender's own where both are the same. `now`, `srtt` and `in_flight`
    /// are brought up to date when it is lent ([`Sender::ask`]).
    view: View,
    rtx: RetransmitQueue,
    /// Segments there are to send: `u64::MAX` for an endless flow.
    pub end: u64,
    /// Its pacing clock.
    pub pacer: Pacer,
    rtt: RttEstimator,
    /// The retransmission timer.
    pub timer: Timer,
    tlp: Tlp,
    tsecr: u32,
    scoreboard: Scoreboard,
    pending: Pending,
    /// RACK's reordering window is wider than at first, or about to be.
    widened: bool,
    /// The window held the sender back when it last sent.
    held_back: bool,
    established: bool,
    /// All packets are full ones without ECN, except the last one of the transfer.
    pub plain_packets: bool,
    /// How it uses ECN.
    pub ecn: Ecn,
    /// Last ACE counter received (accurate ECN), 0 without; an ACK that carries it reports no new mark.
    known_marks: u8,
    needs: Needs,
    // From here on the fast path reads nothing, but for what it notes of RACK and of the window's use, and rate
    // samples.
    rate_clock: RateClock,
    /// What it has done so far.
    pub totals: Totals,
    rack: Rack,
    window_use: WindowUse,
    recovery: Recovery,
    cwr_to_signal: bool,
    // From here on loss recovery reads nothing, mostly.
    least_rtts: LeastRtts,
    /// The farthest part of a segment that was acknowledged by itself, which says nothing once the whole is.
    reached: (u64, u16),
    /// Payload of the last segment of a finite transfer.
    last_payload: u32,
    /// The writes of an application. `None` for an endless flow or a finite transfer.
    stream: Option<Box<Stream>>,
}

// Whole cache lines: there may be a million. The fast path needs the first five, loss recovery four more.
const _: () = assert!(size_of::<Sender>() <= 640 && offset_of!(Sender, rate_clock) <= 320);
const _: () = assert!(offset_of!(Sender, least_rtts) <= 576);

impl Sender {
    /// True once the handshake is over.
    pub const fn established(&self) -> bool {
        self.established
    }

    //= RFC 6675, 4 (departs: counters in packets, kept up to date, stand for the traversal)
    //# This routine traverses the sequence space from HighACK to HighData and MUST set the "pipe" variable to an
    //# estimate of the number of octets that are currently in transit between the TCP sender and the TCP receiver.
    /// Packets in flight.
    pub const fn in_flight(&self) -> u32 {
        (self.packets_out() + self.scoreboard.retransmitted)
            .saturating_sub(self.scoreboard.sacked + self.scoreboard.lost)
    }

    const fn packets_out(&self) -> u32 {
        count_u32(self.view.snd_nxt - self.view.snd_una)
    }

    /// First unacknowledged segment.
    pub const fn snd_una(&self) -> u64 {
        self.view.snd_una
    }

    /// Next segment to be sent.
    pub const fn snd_nxt(&self) -> u64 {
        self.view.snd_nxt
    }

    /// Smoothed RTT; zero before the first sample.
    pub const fn srtt(&self) -> Time {
        self.rtt.srtt()
    }

    /// State of loss recovery.
    pub const fn state(&self) -> CaState {
        self.view.ca
    }

    /// Fetches what an ACK on the fast path will need of the sender.
    pub fn fetch(&self) {
        fetch_first(self, offset_of!(Self, rate_clock));
    }

    /// Fetches what an ACK will need apart from the sender itself.
    pub fn fetch_behind(&self) {
        self.rtx.fetch_behind();
        if self.rtx.tracking() {
            fetch_range(self, offset_of!(Self, rate_clock)..offset_of!(Self, least_rtts));
        }
        if let Some(cc) = &self.cc {
            fetch_first(cc.as_ref(), 128.min(size_of_val(cc.as_ref())));
        }
    }

    /// Returns true if the next data packet must carry CWR, and clears the request; asked once per burst.
    pub const fn take_cwr(&mut self) -> bool {
        std::mem::replace(&mut self.cwr_to_signal, false)
    }

    /// Calls the algorithm for an event; it changes `control` in place.
    fn ask(&mut self, now: Time, event: impl FnOnce(&mut dyn DynCongestionControl, &View, &mut Control)) {
        self.ask_with(self.in_flight(), now, event);
    }

    /// Calls the algorithm with `in_flight` packets in flight, where the caller has counted them already.
    fn ask_with(
        &mut self,
        in_flight: u32,
        now: Time,
        event: impl FnOnce(&mut dyn DynCongestionControl, &View, &mut Control),
    ) {
        let Some(cc) = &mut self.cc else { return };
        self.view.in_flight = in_flight;
        self.view.now = now;
        self.view.srtt = self.rtt.srtt();
        let before = self.control.cwnd;
        event(cc.as_mut(), &self.view, &mut self.control);
        self.control.cwnd = self.control.cwnd.max(1);
        if self.control.cwnd != before {
            self.cwnd_was(before, now);
        }
    }

    fn tell(&mut self, event: StateEvent, now: Time) {
        self.ask(now, |cc, view, control| cc.on_state(&StateChange { view, event }, control));
    }

    fn set_state(&mut self, state: CaState, now: Time) {
        if self.view.ca != state || state == CaState::Loss {
            self.view.ca = state;
            self.recovery.reneged &= state != CaState::Open;
            self.tell(StateEvent::Entered(state), now);
        }
    }

    /// True if an ACK reports no new mark.
    const fn tells_no_mark(&self, ack: &AckInfo) -> bool {
        ack.flags & Packet::ACE == self.known_marks
    }

    const fn reducing(&self) -> bool {
        matches!(self.view.ca, CaState::Cwr | CaState::Recovery)
    }
}
