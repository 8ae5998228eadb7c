//! Congestion controls. Each has its own file, implements [`CongestionControl`] and is listed in [`mod@registry`].
//!
//! The sender processes an ACK in Linux's order (`tcp_ack`). It passes RTT and delivery-rate samples to
//! [`CongestionControl::on_measure`]. Loss detection may then call [`CongestionControl::on_congestion`] for a new
//! `ssthresh`, and [`CongestionControl::on_state`] on a change of state. Finally, if the window may grow,
//! [`CongestionControl::on_ack`] grows it. During a reduction the sender itself moves the window to `ssthresh`
//! (proportional rate reduction), unless the algorithm has [`Needs::full_control`].

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod entry;
pub mod increase;
#[cfg(any(test, feature = "testing"))]
pub mod invariants;
pub mod registry;

mod bandwidth;
mod bbr;
mod bbr3;
mod bic;
mod c4;
mod cdg;
mod compound;
mod copa;
mod cubic;
mod cubic_fn;
mod daimd;
mod dctcp;
mod fast;
mod filter;
mod highspeed;
mod htcp;
mod hybla;
mod illinois;
mod jiffies;
mod ledbat;
mod ledbat_pp;
mod lola;
mod lola_wild;
mod lp;
mod minmax;
mod nv;
mod prague;
mod reno;
mod scalable;
pub mod slow_start;
#[cfg(test)]
mod testing;
mod timely;
mod vegas;
mod vegas_rtt;
mod veno;
mod vivace;
mod westwood;
mod window;
mod yeah;

pub use entry::{Ecn, Entry, Family, Make, Needs};
pub use registry::{add, find, registry};

use knee_core::convert::{low_u16, low_u32};
use knee_core::packet::MSS;
use knee_core::{Rate, Rng, Time};

//= RFC 5681, 3.1
//# The initial value of ssthresh SHOULD be set arbitrarily high (e.g., to the size of the largest possible advertised
//# window), but ssthresh MUST be reduced in response to congestion.
/// The value of `ssthresh` before any reduction: larger than every window.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The sender's settings that an algorithm controls: how many packets may be in flight, and how fast they leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Congestion window in packets, at least 1.
    pub cwnd: u32,
    /// Slow-start threshold in packets; [`INFINITE_SSTHRESH`] before the first reduction.
    pub ssthresh: u32,
    /// Packets acknowledged towards the next increase of `cwnd` by one (Linux's `snd_cwnd_cnt`). The sender resets it
    /// on reductions and timeouts, as Linux does.
    pub cwnd_cnt: u32,
    /// Minimum number of packets in a burst, even if pacing or the ACK clock would allow fewer (Linux's
    /// `min_tso_segs`).
    pub min_burst: u8,
    /// Maximum number of packets in a burst, even if that is below `min_burst` (with it, Linux's `tso_segs`); 255
    /// leaves it to the sender.
    pub max_burst: u8,
    /// The algorithm's phase, an index into [`Entry::phases`], for the `state` column and events.
    pub phase: u8,
    /// Pacing rate of payload bytes without headers (Linux's `sk_pacing_rate`); `None` for the sender's own rate, a
    /// factor times `cwnd · mss / srtt` as in Linux.
    pub pacing_rate: Option<Rate>,
    /// The pacing clock restarts after the window limited the sender: the next packet then leaves a whole pacing
    /// interval after the ACK that allowed it, without the credit that Linux gives.
    pub restart_pacing: bool,
}

impl Control {
    /// The window a connection starts with.
    pub const fn initial(cwnd: u32) -> Self {
        Self {
            cwnd,
            ssthresh: INFINITE_SSTHRESH,
            cwnd_cnt: 0,
            min_burst: 2,
            max_burst: u8::MAX,
            phase: 0,
            pacing_rate: None,
            restart_pacing: false,
        }
    }

    /// True if the window is below the threshold.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// State of the sender's loss recovery (Linux's `tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaState {
    /// No sign of loss.
    Open,
    /// SACKs or duplicate ACKs arrived, but nothing counts as lost yet.
    Disorder,
    /// The window is being reduced after an ECN echo.
    Cwr,
    /// The window is being reduced after a loss, losses are repaired.
    Recovery,
    /// A retransmission timeout fired.
    Loss,
}

/// The sender's state at an event.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Current time.
    pub now: Time,
    /// Smoothed RTT in whole microseconds; zero before the first sample.
    pub srtt: Time,
    /// Minimum RTT of the last 300 s in whole microseconds; [`Time::MAX`] before the first sample.
    pub min_rtt: Time,
    /// First segment not yet acknowledged.
    pub snd_una: u64,
    /// Next segment to be sent.
    pub snd_nxt: u64,
    /// Packets in flight (sent, and neither delivered nor considered lost).
    pub in_flight: u32,
    /// Packets delivered so far, SACKed ones included.
    pub delivered: u64,
    /// Packets delivered with a CE mark so far.
    pub delivered_ce: u64,
    /// Packets considered lost so far.
    pub lost: u64,
    /// Rate samples of packets sent now are marked as limited by the application (Linux's `app_limited`).
    pub app_limited: bool,
    /// Time until which pacing sends nothing; not in the future if pacing does not hold packets back (Linux's
    /// `tcp_wstamp_ns`).
    pub paced_until: Time,
    /// Loss recovery's state.
    pub ca: CaState,
    /// Payload of a full packet in bytes, at least 1 (Linux's `mss_cache`). QUIC's grows when the path's MTU is found.
    pub mss: u32,
    /// Lower half of the TSval of the last ACK (RFC 7323, 3; Linux's `rx_opt.rcv_tsval`), for [`View::tsval`]; `None`
    /// over QUIC, which has no timestamps.
    pub tsval_half: Option<u16>,
}

impl View {
    /// The sender of a new connection.
    pub const INITIAL: Self = Self {
        now: Time::ZERO,
        srtt: Time::ZERO,
        min_rtt: Time::MAX,
        snd_una: 0,
        snd_nxt: 0,
        in_flight: 0,
        delivered: 0,
        delivered_ce: 0,
        lost: 0,
        app_limited: false,
        paced_until: Time::ZERO,
        ca: CaState::Open,
        mss: MSS as u32,
        tsval_half: None,
    };

    /// The receiver's clock in whole milliseconds, modulo 2^32, when the last ACK left. Its offset from the sender's is
    /// unknown: differences of these times count. `now` less this is the delay of the ACKs' way, and that changes by
    /// what is queued there, and by what the clocks drift apart.
    pub fn tsval(&self) -> Option<u32> {
        // Both clocks are the simulator's, and no ACK is on its way for 65 s.
        let latest = low_u32(self.now.as_millis()).wrapping_add(1);
        self.tsval_half.map(|half| latest.wrapping_sub(low_u16(latest.into()).wrapping_sub(half).into()))
    }
}

/// A sample of the delivery rate, taken per ACK (Cheng et al., draft-cheng-iccrg-delivery-rate-estimation, and
/// Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Packets delivered over `interval`.
    pub delivered: u32,
    /// How many of them had a CE mark.
    pub delivered_ce: u32,
    /// The longer of the send interval and the ACK interval; `None` if the sample is not valid.
    pub interval: Option<Time>,
    /// `delivered` of the connection when the newest packet of the sample was sent.
    pub prior_delivered: u64,
    /// `lost` of the connection when that packet was sent.
    pub prior_lost: u64,
    /// Packets in flight just after that packet was sent, itself included.
    pub tx_in_flight: u32,
    /// The application, not the window, limited sending at that time.
    pub app_limited: bool,
    /// The packet was a retransmission.
    pub is_retrans: bool,
    /// The receiver probably delayed the ACK.
    pub ack_delayed: bool,
}

impl RateSample {
    /// An invalid sample.
    pub const NONE: Self = Self {
        delivered: 0,
        delivered_ce: 0,
        interval: None,
        prior_delivered: 0,
        prior_lost: 0,
        tx_in_flight: 0,
        app_limited: false,
        is_retrans: false,
        ack_delayed: false,
    };
}

/// An ACK, after RTT, delivery rate and scoreboard have been updated.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The sender after this ACK.
    pub view: &'a View,
    /// RTT sample of this ACK in whole microseconds, from the newest packet acknowledged that was not retransmitted.
    pub rtt: Option<Time>,
    /// Packets acknowledged cumulatively by this ACK (Linux's `pkts_acked`), including those SACKed before.
    pub acked: u32,
    /// Packets acknowledged or SACKed for the first time by this ACK (Linux's `acked_sacked`).
    pub delivered: u32,
    /// Packets newly marked lost on this ACK.
    pub lost: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// First unacknowledged segment before this ACK.
    pub prior_una: u64,
    /// It acknowledges a part of a segment and no whole one: it is no duplicate, although `snd_una` stays.
    pub part: bool,
    /// The window recently limited sending; if false, it should not grow (RFC 7661; Linux's `tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// The ACK carries an ECN echo.
    pub ece: bool,
    /// Delivery rate; [`RateSample::NONE`] unless [`Needs::rate`] asks for it.
    pub rate: &'a RateSample,
}

/// Why the window must be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Packets were lost.
    Loss,
    /// The receiver echoed a CE mark.
    Ecn,
    /// The retransmission timer fired.
    Timeout,
}

/// A congestion signal, at most one per round trip (RFC 5681).
#[derive(Clone, Copy, Debug)]
pub struct Congestion<'a> {
    /// The sender.
    pub view: &'a View,
    /// The sign of congestion.
    pub signal: Signal,
}

/// A change of the connection's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateEvent {
    /// The connection is established and the algorithm was just created; it may set the initial control (Linux's
    /// `init`).
    Start,
    /// Loss recovery entered this state (Linux's `set_state`).
    Entered(CaState),
    /// A timeout is about to be handled (Linux's `CA_EVENT_LOSS`).
    Timeout,
    /// A reduction is complete: `cwnd` is at `ssthresh` (Linux's `CA_EVENT_COMPLETE_CWR`).
    ReductionDone,
    /// First transmission after nothing was in flight (Linux's `CA_EVENT_TX_START`).
    Restart,
    /// The window is about to decay, since nothing was sent for longer than the timeout (Linux's
    /// `CA_EVENT_CWND_RESTART`).
    Idle,
}

/// A [`StateEvent`] and the sender.
#[derive(Clone, Copy, Debug)]
pub struct StateChange<'a> {
    /// The sender.
    pub view: &'a View,
    /// The change.
    pub event: StateEvent,
}

/// A reduction proved wrong, because nothing had been lost.
#[derive(Clone, Copy, Debug)]
pub struct Undo<'a> {
    /// The sender.
    pub view: &'a View,
    /// The window before the reduction.
    pub prior_cwnd: u32,
}

/// The sender sent data.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// The sender after the transmission.
    pub view: &'a View,
    /// How many packets left in this burst.
    pub packets: u32,
    /// The packets are retransmissions.
    pub retransmission: bool,
}

/// The parameters of a new connection for its algorithm.
#[derive(Clone, Debug)]
pub struct Init {
    /// The end of the handshake.
    pub now: Time,
    /// RTT of the handshake in whole microseconds.
    pub rtt: Time,
    /// Initial window in packets.
    pub cwnd: u32,
    /// Payload of a full segment in bytes; [`View::mss`] is that of the moment.
    pub mss: u32,
    /// The kernel's clock tick, 1/HZ; zero for an ideal clock. Algorithms that use jiffies in Linux see time at this
    /// resolution.
    pub tick: Time,
    /// The sender paces, because the algorithm or the scenario asks for it.
    pub paced: bool,
    /// The receiver counts CE marks (accurate ECN, RFC 9768).
    pub accurate_ecn: bool,
    /// The sender hands down several segments as one packet (segmentation offload).
    pub tso: bool,
    /// The connection's own random stream.
    pub rng: Rng,
}

/// A congestion control.
///
/// Each method is called on one kind of event and changes the [`Control`] in place. The sender raises a window of 0 to
/// 1. Methods must not panic, whatever the sequence of events.
pub trait CongestionControl: Send {
    /// Called on every ACK, even if it acknowledges nothing new, before loss detection (Linux's `pkts_acked` and
    /// `in_ack_event`).
    fn on_measure(&mut self, _ack: &Ack, _control: &mut Control) {}

    /// Grows the window on an ACK of new data outside of reductions (Linux's `cong_avoid`). With
    /// [`Needs::full_control`] it is called on every ACK and sets the window (Linux's `cong_control`).
    fn on_ack(&mut self, ack: &Ack, control: &mut Control);

    /// Sets `ssthresh` after a congestion signal (Linux's `ssthresh`); `cwnd` is still the window before the reduction.
    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control);

    /// Called on changes of state.
    fn on_state(&mut self, _change: &StateChange, _control: &mut Control) {}

    /// Sets `cwnd` when a reduction is undone (Linux's `undo_cwnd`); by default to the previous window, if that is
    /// larger.
    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        control.cwnd = control.cwnd.max(undo.prior_cwnd);
    }

    /// Called on transmissions, with [`Needs::sent`] only.
    fn on_sent(&mut self, _sent: &Sent, _control: &mut Control) {}
}

/// A [`CongestionControl`] as senders hold it, with one combined call for most ACKs. It is implemented for every
/// [`CongestionControl`] that is `Clone`.
pub trait DynCongestionControl: CongestionControl + CloneCongestionControl {
    /// [`CongestionControl::on_measure`] and then [`CongestionControl::on_ack`], compiled as one call for ACKs between
    /// whose two calls nothing can happen.
    fn on_fast_ack(&mut self, ack: &Ack, control: &mut Control);
}

impl<T: CongestionControl + CloneCongestionControl> DynCongestionControl for T {
    fn on_fast_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.on_measure(ack, control);
        control.cwnd = control.cwnd.max(1);
        self.on_ack(ack, control);
    }
}

knee_core::boxed_clone!(CloneCongestionControl: CongestionControl => DynCongestionControl);
