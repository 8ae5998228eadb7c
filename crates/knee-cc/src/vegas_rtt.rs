//! Vegas's measurement: the least RTT ever seen and the least RTT of the current round trip.
//!
//! Source: Brakmo, Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995,
//! in the form of Linux's `struct vegas` (net/ipv4/tcp_vegas.c), which YeAH uses too.
//!
//! Every sample counts one microsecond more than measured, so that no RTT is ever zero. All RTTs are in microseconds.

use crate::{Ack, CaState, StateChange, StateEvent};
use knee_core::convert::saturating_u32;

/// The value of both minima before the first sample (Linux: 0x7fffffff).
const UNMEASURED: u32 = 0x7fff_ffff;

/// RTT minima over the connection and over the current round trip.
#[derive(Clone, Copy, Debug)]
pub struct VegasRtt {
    /// Least RTT since the connection began or last was idle, plus one, in microseconds (Linux's `baseRTT`).
    pub base: u32,
    /// Least RTT of this round trip, plus one, in microseconds (Linux's `minRTT`).
    pub min: u32,
    /// Samples in this round trip; 16 bits that wrap, as in Linux (`cntRTT`).
    pub count: u16,
    /// The round trip ends with the first ACK beyond this segment (Linux's `beg_snd_nxt`).
    round_end: u64,
    /// Off while losses are handled (Linux's `doing_vegas_now`).
    pub enabled: bool,
}

impl VegasRtt {
    /// No samples yet; the first round ends beyond segment `snd_nxt`.
    pub const fn new(snd_nxt: u64) -> Self {
        Self { base: UNMEASURED, min: UNMEASURED, count: 0, round_end: snd_nxt, enabled: true }
    }

    /// Takes the RTT sample of an ACK, if it has one.
    pub fn measure(&mut self, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        let rtt = saturating_u32(rtt.as_micros().saturating_add(1).min(u64::from(UNMEASURED)));
        self.base = self.base.min(rtt);
        self.min = self.min.min(rtt);
        self.count = self.count.wrapping_add(1);
    }

    /// True if this ACK ends a round trip.
    pub const fn round_ended(&self, ack: &Ack) -> bool {
        ack.view.snd_una > self.round_end
    }

    /// Starts the next round trip.
    pub const fn next_round(&mut self, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.count = 0;
        self.min = UNMEASURED;
    }

    /// True if the samples of the round trip suffice: with two or fewer, all of them may come from delayed ACKs.
    pub const fn enough(&self) -> bool {
        self.count > 2
    }

    /// Queueing delay of the round trip in microseconds, `min - base`.
    pub const fn queueing(&self) -> u32 {
        self.min.saturating_sub(self.base)
    }

    /// Pauses while losses are handled, and forgets everything after an idle time.
    pub const fn on_state(&mut self, change: &StateChange) {
        match change.event {
            StateEvent::Entered(CaState::Open) => {
                self.enabled = true;
                self.next_round(change.view.snd_nxt);
            }
            StateEvent::Entered(_) => self.enabled = false,
            StateEvent::Restart => *self = Self::new(change.view.snd_nxt),
            StateEvent::Start | StateEvent::Timeout | StateEvent::ReductionDone | StateEvent::Idle => {}
        }
    }
}
