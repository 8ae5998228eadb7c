//! A second sender in its simplest form, to compare the real one with: a record for each segment, one path for all
//! ACKs, and nothing remembered that can be worked out.
//!
//! Sources as in `sender/mod.rs`; functions carry the kernel's names where it has them. Rules are written here again
//! and not shared with the sender, also where both are alike (`enter_recovery`, `may_undo`): a mistake in a shared
//! function would show in neither.
//!
//! | file | kernel | what |
//! |---|---|---|
//! | `acks.rs` | tcp_ack | what an ACK does, its RTT and rate samples |
//! | `sack.rs` | tcp_sacktag_write_queue, tcp_clean_rtx_queue | which segments it delivers |
//! | `rack.rs` | tcp_rack_detect_loss, tcp_process_tlp_ack | which are lost |
//! | `recovery.rs` | tcp_fastretrans_alert | the state machine |
//! | `reduction.rs` | tcp_cwnd_reduction, tcp_undo_cwnd_reduction | the window's reductions, and undoing them |
//! | `rtt.rs` | tcp_rtt_estimator | RTT, RTO, the least RTT |
//! | `sending.rs` | tcp_write_xmit, tcp_xmit_retransmit_queue | what leaves |
//! | `timers.rs` | tcp_retransmit_timer, tcp_send_loss_probe | the timers |
//! | `tests.rs` | | the comparison |

mod acks;
mod rack;
mod recovery;
mod reduction;
mod rtt;
mod sack;
mod sending;
mod tests;
mod timers;

use super::invariants::Case;
use super::rate::RateStart;
use super::{Outgoing, Pending};
use crate::timer::Timer;
use knee_cc::{Control, DynCongestionControl, StateChange, StateEvent, View};
use knee_core::packet::MSS;
use knee_core::{Packet, Time};
use rtt::Rtt;
use std::collections::VecDeque;

/// A segment in flight, as it was sent last.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// us.
    sent: u64,
    delivered: u64,
    start: RateStart,
    sacked: bool,
    lost: bool,
    /// Its retransmission is in flight.
    retrans: bool,
    ever_retrans: bool,
    /// RACK's list has it (`tcp_tsorted_anchor`).
    listed: bool,
}

pub struct Reference {
    case: Case,
    cc: Box<dyn DynCongestionControl>,
    control: Control,
    view: View,
    /// From `snd_una` on.
    segments: VecDeque<Segment>,
    /// After the last segment, and payload of that.
    end: u64,
    last_payload: u64,
    rtt: Rtt,
    timer: Timer,
    pending: Pending,
    pace_at: Time,
    out: Vec<Outgoing>,
    sent: u64,
    sent_bytes: u64,
    retransmitted: u64,
    timeouts: u32,
    tsecr: u32,
    /// Flags of the last ACK whose count of marks was taken.
    ace: u8,
    backoffs: u32,
    first_tx: u64,
    delivered_at: u64,
    app_limited_until: u64,
    /// The transmission before: end, time, whether again.
    last_sent: Option<(u64, u64, bool, Segment)>,
    // RACK.
    newest: (u64, u64),
    rack_rtt: u64,
    rack_advanced: bool,
    reorder_seen: bool,
    reorder_steps: u64,
    reorder_persist: u32,
    dsack_seen: bool,
    rack_last_delivered: u64,
    reordering: u32,
    // Recovery and undo.
    high_seq: u64,
    undo_marker: Option<u64>,
    undo_retrans: i64,
    dsack_segments: u64,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    retrans_stamp: u32,
    frto: bool,
    is_sack_reneg: bool,
    tlp_end: u64,
    tlp_retrans: bool,
    cwr_to_signal: bool,
    // The window's use.
    cwnd_limited: bool,
    max_packets_out: u32,
    cwnd_usage_end: u64,
    cwnd_used: u32,
    cwnd_stamp: Time,
    held_back: bool,
    /// Inputs of the sender's own pacing rate.
    pace_window: u32,
    pace_doubled: bool,
}

impl Reference {
    /// A connection whose handshake has just ended, before its first window.
    pub fn new(case: &Case, cc: Box<dyn DynCongestionControl>) -> Self {
        let mss = u64::from(MSS);
        let end = case.init.bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(mss).max(1));
        let mut reference = Self {
            cc,
            control: Control::initial(case.config.initial_window),
            // The SYN counts as delivered.
            view: View { now: case.now, paced_until: case.now, delivered: 1, ..View::INITIAL },
            segments: VecDeque::new(),
            end,
            last_payload: case.init.bytes.map_or(mss, |bytes| bytes - (end - 1) * mss),
            rtt: Rtt::new(case.config.rto_min),
            timer: Timer::OFF,
            pending: Pending::Nothing,
            pace_at: Time::MAX,
            out: Vec::new(),
            sent: 0,
            sent_bytes: 0,
            retransmitted: 0,
            timeouts: 0,
            tsecr: 0,
            ace: Packet::ace(crate::ecn::FIRST_COUNT),
            backoffs: 0,
            first_tx: case.now.as_micros(),
            delivered_at: case.now.as_micros(),
            app_limited_until: 0,
            last_sent: None,
            newest: (0, 0),
            rack_rtt: 0,
            rack_advanced: false,
            reorder_seen: false,
            reorder_steps: 1,
            reorder_persist: 0,
            dsack_seen: false,
            rack_last_delivered: 0,
            reordering: 3,
            high_seq: 0,
            undo_marker: None,
            undo_retrans: -1,
            dsack_segments: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            retrans_stamp: 0,
            frto: false,
            is_sack_reneg: false,
            tlp_end: 0,
            tlp_retrans: false,
            cwr_to_signal: false,
            cwnd_limited: false,
            max_packets_out: 0,
            cwnd_usage_end: 0,
            cwnd_used: 0,
            cwnd_stamp: case.now,
            held_back: false,
            pace_window: 0,
            pace_doubled: false,
            case: case.clone(),
        };
        if let Some(rtt) = case.handshake {
            let rtt = rtt.as_micros();
            reference.sample(rtt, rtt, case.now.as_micros());
        }
        reference.update_pacing_rate();
        reference.tell(StateEvent::Start, case.now);
        reference
    }

    fn count(&self, of: impl Fn(&Segment) -> bool) -> u32 {
        self.segments.iter().filter(|segment| of(segment)).count() as u32
    }

    fn sacked_out(&self) -> u32 {
        self.count(|segment| segment.sacked)
    }

    fn lost_out(&self) -> u32 {
        self.count(|segment| segment.lost)
    }

    fn retrans_out(&self) -> u32 {
        self.count(|segment| segment.retrans)
    }

    fn packets_out(&self) -> u32 {
        self.segments.len() as u32
    }

    /// tcp_packets_in_flight.
    fn in_flight(&self) -> u32 {
        (self.packets_out() + self.retrans_out()).saturating_sub(self.sacked_out() + self.lost_out())
    }

    fn window_room(&self) -> u32 {
        self.control.cwnd.saturating_sub(self.in_flight())
    }

    /// Returns true if the receiver expects next what it has SACKed.
    fn head_is_sacked(&self) -> bool {
        self.segments.front().is_some_and(|head| head.sacked)
    }

    fn at(&mut self, seq: u64) -> &mut Segment {
        &mut self.segments[(seq - self.view.snd_una) as usize]
    }

    /// After the highest SACKed segment; `snd_una` where there is none.
    fn highest_sacked(&self) -> u64 {
        let sacked = self.segments.iter().rposition(|segment| segment.sacked);
        self.view.snd_una + sacked.map_or(0, |place| place as u64 + 1)
    }

    fn ask(&mut self, now: Time, event: impl FnOnce(&mut dyn DynCongestionControl, &View, &mut Control)) {
        self.view.in_flight = self.in_flight();
        self.view.now = now;
        self.view.srtt = Time::from_micros(self.rtt.srtt8 / 8);
        event(self.cc.as_mut(), &self.view, &mut self.control);
        self.control.cwnd = self.control.cwnd.max(1);
    }

    fn tell(&mut self, event: StateEvent, now: Time) {
        self.ask(now, |cc, view, control| cc.on_state(&StateChange { view, event }, control));
    }

    fn sample(&mut self, oldest: u64, newest: u64, us: u64) {
        self.rtt.sample(oldest, newest, us, self.view.snd_una, self.view.snd_nxt);
        self.view.min_rtt = self.rtt.min_rtt();
    }

    fn needs(&self) -> knee_cc::Needs {
        self.case.init.needs
    }
}

/// The timestamp clock: milliseconds from 1 on.
fn stamp(now: Time) -> u32 {
    (now.as_millis() as u32).wrapping_add(1)
}
