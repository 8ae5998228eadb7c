//! The sending end of a TCP connection, as Linux's.
//!
//! What an ACK goes through (`ack.rs`, in the order of Linux's `tcp_ack`): SACK blocks are tagged, acknowledged
//! segments leave the retransmission queue (`queue.rs`), RTT (`rtt.rs`) and delivery rate are sampled, the algorithm
//! measures; RACK marks losses and the recovery state machine moves (`recovery.rs`); the window grows, is reduced
//! proportionally, or is set by the algorithm; then lost segments and new ones leave (`transmit.rs`).
//!
//! Sources: Linux net/ipv4/tcp_input.c, tcp_output.c, tcp_recovery.c, tcp_rate.c, tcp_timer.c; RFC 8985 (RACK-TLP),
//! RFC 6937 (proportional rate reduction), RFC 5682 (F-RTO), RFC 3522 and 2883 (undo), RFC 6298 (timeouts).
//! Segments are counted where Linux counts bytes. Not modelled: path MTU probing, urgent data, fast open, segments
//! lost inside the host.

mod ack;
mod fast;
#[cfg(any(test, feature = "testing"))]
pub mod invariants;
mod micros;
mod next_sack;
mod queue;
mod recovery;
mod ring;
mod rtt;
mod start;
#[cfg(test)]
mod testing;
mod tracking;
mod transmit;
mod window;

use crate::timer::{Clock, Timer};
use knee_cc::{CaState, Control, DynCongestionControl, INFINITE_SSTHRESH, Needs, StateChange, StateEvent, View};
use knee_core::cache::{fetch_first, fetch_range};
use knee_core::packet::{MSS, MTU};
use knee_core::{Packet, Rate, Time};
use micros::Micros;
use queue::RetransmitQueue;
use rtt::{LeastRtts, RttEstimator};

pub use start::SenderInit;
use std::mem::offset_of;
pub use tracking::Spares;

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
    /// Whether segments leave in bursts sized to a millisecond.
    pub tso: bool,
    /// Their larger part on short paths halves for every 2^this us of the least RTT (tcp_tso_rtt_log), up to 31.
    pub tso_rtt_log: u32,
    /// Receive window in packets.
    pub receive_window: u64,
}

/// What the retransmission timer is set for.
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

/// Which segments may leave after an ACK.
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
pub struct Departure {
    /// First segment.
    pub start: u64,
    /// How many.
    pub count: u32,
    /// Whether they were sent before.
    pub retransmission: bool,
}

/// An ACK as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub struct AckInfo<'a> {
    /// Next segment the receiver expects.
    pub seq: u64,
    /// SACK blocks.
    pub blocks: &'a [(u64, u64)],
    /// Echoed timestamp, ms.
    pub tsecr: u32,
    /// Of its [`Packet`].
    pub flags: u8,
}

impl AckInfo<'_> {
    /// Whether the first of `blocks` is a D-SACK.
    #[inline]
    pub const fn dsack(&self) -> bool {
        self.flags & Packet::DSACK != 0
    }

    /// ECN echo.
    #[inline]
    pub const fn ece(&self) -> bool {
        self.flags & Packet::ECE != 0
    }
}

/// State of RACK (RFC 8985, 5.2).
#[derive(Debug, Default)]
struct Rack {
    /// Latest transmission time of a delivered segment, and the segment after it.
    newest: (Micros, u64),
    rtt: Micros,
    advanced: bool,
    reorder_seen: bool,
    reorder_steps: u32,
    reorder_persist: u32,
    dsack_seen: bool,
    last_delivered: u64,
}

/// What the sender's own pacing rate follows beside the smoothed RTT. Few ask for the rate, so it is divided when asked.
#[derive(Clone, Copy, Debug, Default)]
struct OwnPace {
    /// Packets in the window or, where there are more, in flight.
    window: u32,
    /// Whether the window may double in an RTT.
    doubled: bool,
}

/// What the observers read: counters since the start.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Their bytes as IP packets.
    pub sent_bytes: u64,
    /// Payload bytes acknowledged.
    pub acked_bytes: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Packets deemed lost, each transmission once.
    pub lost: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// The sending end of one flow.
///
/// What ACKs on the fast path need comes first and together: of thousands of flows, each is out of the caches when its next ACK comes.
#[repr(C, align(64))]
pub struct Sender {
    /// The algorithm; none before the connection is there.
    cc: Option<Box<dyn DynCongestionControl>>,
    /// Window, threshold, pacing rate, phase.
    pub control: Control,
    /// What the algorithm sees, and the sender's own state where that is the same. `now`, `srtt` and `in_flight` are brought
    /// up to date when it is lent ([`Sender::ask`]).
    view: View,
    rtx: RetransmitQueue,
    /// Segments there are to send: `u64::MAX` for an endless flow.
    pub end: u64,
    /// When the pacing timer is due; `Time::MAX`: it is not set.
    pub pace_at: Time,
    rtt: RttEstimator,
    /// The retransmission timer.
    pub timer: Timer,
    tsecr: u32,
    /// Retransmission timeouts so far.
    pub timeouts: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    pending: Pending,
    /// Whether the outcome of a tail loss probe is awaited.
    probing: bool,
    /// Whether RACK's reordering window is or is about to be wider than at first.
    widened: bool,
    cwnd_limited: bool,
    /// Whether window-based algorithms are paced too.
    paced: bool,
    /// Whether the window held the sender back when it last sent.
    held_back: bool,
    established: bool,
    /// Whether packets are ECN-capable.
    pub ecn: bool,
    needs: Needs,
    // From here on the fast path reads nothing, but for what it notes of RACK and of the window's use, and rate samples.
    first_tx: Micros,
    delivered_at: Micros,
    /// Losses of a transmission that was taken for lost before, which had turned out wrong.
    lost_again: u64,
    /// Transmissions that were taken for lost, which was undone.
    unmarked: u32,
    /// Integral of the window over time, packets times ns, and when it was last brought up to date.
    pub cwnd_integral: (u128, Time),
    rack: Rack,
    retransmitted: u64,
    /// Bytes that packets sent have been shorter than full ones.
    short_bytes: u64,
    high_seq: u64,
    undo_marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; -1: there was none.
    undo_retrans: i64,
    cwnd_usage_end: u64,
    cwnd_stamp: Time,
    cwnd_used: u32,
    max_packets_out: u32,
    own_pace: OwnPace,
    /// Timeouts in a row without progress.
    backoffs: u32,
    prior_cwnd: u32,
    /// `ssthresh` before the reduction under way; 0: it may not be undone.
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// Timestamp of the first retransmission of the episode, ms; 0: none.
    retrans_stamp: u32,
    reordering: u32,
    frto: bool,
    tlp_retransmitted: bool,
    cwr_to_signal: bool,
    // From here on loss recovery reads nothing, mostly.
    least_rtts: LeastRtts,
    app_limited_until: u64,
    tlp_end: u64,
    /// Payload of the last segment of a finite transfer.
    last_payload: u32,
    dsack_segments: u32,
}

// Whole cache lines: there may be a million. The fast path needs the first five, loss recovery four more.
const _: () = assert!(size_of::<Sender>() <= 640 && offset_of!(Sender, first_tx) <= 320);
const _: () = assert!(offset_of!(Sender, least_rtts) <= 576);

impl Sender {
    /// Whether it is paced.
    pub const fn paced(&self) -> bool {
        self.paced
    }

    /// Whether the handshake is over.
    pub const fn established(&self) -> bool {
        self.established
    }

    /// When its next timer is due, at the earliest.
    #[inline]
    pub fn due(&self) -> Time {
        self.timer.not_before().min(self.pace_at)
    }

    /// Whether all there is to send has been acknowledged.
    pub const fn done(&self) -> bool {
        self.established && self.view.snd_una >= self.end
    }

    /// No new data from now on; what is under way is still repaired.
    pub fn stop(&mut self) {
        if self.view.snd_nxt < self.end {
            self.end = self.view.snd_nxt;
            self.last_payload = u32::from(MSS);
        }
    }

    /// IP packet size of a segment.
    pub const fn packet_size(&self, seq: u64) -> u16 {
        let headers = MTU - MSS;
        headers + if seq + 1 == self.end { self.last_payload as u16 } else { MSS }
    }

    /// Packets in flight.
    pub const fn in_flight(&self) -> u32 {
        (self.packets_out() + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    const fn packets_out(&self) -> u32 {
        (self.view.snd_nxt - self.view.snd_una) as u32
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

    /// Rate at which bursts leave, where they are paced.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.paced.then(|| self.control.pacing_rate.unwrap_or_else(|| self.own_pacing_rate()))
    }

    /// Counters since the start. What follows from others is not kept.
    pub fn counters(&self) -> Counters {
        let sent = self.view.snd_nxt + self.retransmitted;
        Counters {
            sent,
            sent_bytes: sent * u64::from(MTU) - self.short_bytes,
            acked_bytes: self.acked_bytes(),
            retransmitted: self.retransmitted,
            lost: self.view.lost - self.lost_again,
            timeouts: u64::from(self.timeouts),
        }
    }

    /// Payload bytes acknowledged.
    #[inline]
    pub fn acked_bytes(&self) -> u64 {
        self.payload_before(self.view.snd_una)
    }

    /// Payload bytes sent at least once.
    pub fn new_bytes(&self) -> u64 {
        self.payload_before(self.view.snd_nxt)
    }

    /// Payload bytes of the segments before `seq`.
    #[inline]
    fn payload_before(&self, seq: u64) -> u64 {
        let mss = u64::from(MSS);
        let bytes = seq * mss;
        if seq == self.end { bytes - (mss - u64::from(self.last_payload)) } else { bytes }
    }

    /// Fetches what an ACK on the fast path will need of the sender.
    #[inline]
    pub fn fetch(&self) {
        fetch_first(self, offset_of!(Self, first_tx));
    }

    /// Fetches what an ACK will need beside the sender itself.
    #[inline]
    pub fn fetch_behind(&self) {
        self.rtx.fetch_behind();
        if self.rtx.tracking() {
            fetch_range(self, offset_of!(Self, first_tx)..offset_of!(Self, least_rtts));
        }
        if let Some(cc) = &self.cc {
            fetch_first(cc.as_ref(), 128.min(size_of_val(cc.as_ref())));
        }
    }

    /// Whether the next data packet must carry CWR; asked once per burst.
    pub const fn take_cwr(&mut self) -> bool {
        std::mem::replace(&mut self.cwr_to_signal, false)
    }

    /// Segments SACKed, lost and retransmitted but not resolved, for checks.
    pub const fn scoreboard(&self) -> (u32, u32, u32) {
        (self.sacked_out, self.lost_out, self.retrans_out)
    }

    /// Shows the algorithm an event, which it takes up in the control in force.
    #[inline]
    fn ask(&mut self, now: Time, event: impl FnOnce(&mut dyn DynCongestionControl, &View, &mut Control)) {
        self.ask_with(self.in_flight(), now, event);
    }

    /// The same where it is known how many packets are in flight.
    #[inline]
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

    fn set_cwnd(&mut self, cwnd: u32, now: Time) {
        self.note_cwnd(now);
        self.control.cwnd = cwnd.max(1);
    }

    /// Brings the integral of the window up to date.
    pub fn note_cwnd(&mut self, now: Time) {
        self.cwnd_was(self.control.cwnd, now);
    }

    /// The same where the window was `cwnd` until now.
    fn cwnd_was(&mut self, cwnd: u32, now: Time) {
        let span = now.saturating_sub(self.cwnd_integral.1);
        self.cwnd_integral.0 += u128::from(cwnd) * u128::from(span.as_nanos());
        self.cwnd_integral.1 = now;
    }

    fn tell(&mut self, event: StateEvent, now: Time) {
        self.ask(now, |cc, view, control| cc.on_state(&StateChange { view, event }, control));
    }

    fn set_state(&mut self, state: CaState, now: Time) {
        if self.view.ca != state || state == CaState::Loss {
            self.view.ca = state;
            self.tell(StateEvent::Entered(state), now);
        }
    }

    /// A loss probe that ends before `end` is under way; 0: none is.
    const fn set_probe_end(&mut self, end: u64) {
        self.tlp_end = end;
        self.probing = end != 0;
    }

    const fn reducing(&self) -> bool {
        matches!(self.view.ca, CaState::Cwr | CaState::Recovery)
    }

    /// The threshold to return to if a reduction proves wrong (Linux's `tcp_current_ssthresh`).
    fn current_ssthresh(&self) -> u32 {
        if self.reducing() {
            self.control.ssthresh
        } else {
            self.control.ssthresh.max((self.control.cwnd >> 1) + (self.control.cwnd >> 2))
        }
    }

    /// Notes what the sender's own pacing rate follows until the next ACK.
    #[inline]
    const fn update_pacing_rate(&mut self) {
        let (cwnd, packets_out) = (self.control.cwnd, self.packets_out());
        let window = if cwnd > packets_out { cwnd } else { packets_out };
        self.own_pace = OwnPace { window, doubled: cwnd < self.control.ssthresh / 2 };
    }

    /// The sender's own pacing rate: twice `cwnd / srtt` in slow start, 1.2 times beyond (tcp_update_pacing_rate). It
    /// sizes bursts also where nothing is paced.
    #[inline]
    fn own_pacing_rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.own_bytes_per_sec())
    }

    /// The same in bytes per second.
    #[inline]
    fn own_bytes_per_sec(&self) -> u64 {
        let OwnPace { window, doubled } = self.own_pace;
        let percent = if doubled { 200 } else { 120 };
        let numerator = (u64::from(MSS) * 80_000 * percent).saturating_mul(u64::from(window));
        let bytes_per_s = numerator.checked_div(self.rtt.srtt8_us()).unwrap_or(numerator);
        bytes_per_s.min(Rate::MAX.as_bytes_per_sec())
    }

    /// The timestamp clock: milliseconds, never 0.
    fn stamp(now: Time) -> u32 {
        (now.as_millis() as u32).wrapping_add(1)
    }

    /// TSval for packets sent now.
    pub fn tsval(now: Time) -> u32 {
        Self::stamp(now)
    }

    fn echoed_before(&self, stamp: u32) -> bool {
        self.tsecr != 0 && (self.tsecr.wrapping_sub(stamp) as i32) < 0
    }

    /// Whether a reduction was ever made.
    pub const fn reduced(&self) -> bool {
        self.control.ssthresh < INFINITE_SSTHRESH
    }
}
