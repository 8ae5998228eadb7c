//! LEDBAT as libutp does it: background traffic that adds a fixed delay and makes room for everybody else.
//!
//! Source: RFC 6817, Sec. 2.4.2, and libutp (utp_internal.cpp, commit 2b364cb), which takes precedence where the two
//! differ.
//!
//! With `S` the bytes of a packet, `W` the window in whole bytes, `acked` the bytes that an ACK acknowledges and
//! `delay` the least of the last three samples, each taken against the base of its time, but never above the RTT:
//!
//! - `share = min(acked, W) / max(acked, W)`, `off_target = (target - delay) / target`
//! - `W += 3000 share off_target`: up to 3000 bytes per round trip, where the RFC has one packet; no growth where
//!   the window has not been full for a second, but no bound at the flight either
//! - a connection begins with one packet and in slow start, which adds `S share` where that is more; it ends beyond
//!   `ssthresh`, or where `delay` exceeds nine tenths of the target, on an ACK that leaves `W` alone
//! - loss: half the window; timeout: one packet, and slow start
//! - the base is the least of the last 13 minutes, which begin with the connection
//! - the least window is 10 bytes. Less than a packet lets nothing go until the timer fires, after a second or more,
//!   which makes `W` one packet and begins slow start; here such a window is one packet from the next ACK on, without
//!   the wait
//!
//! The RTT stands for the one-way delay, so a queue of the ACKs' way counts as well. Not modelled: the correction for
//! clocks that drift apart, and the window of at most 1 MB that users may raise.

use crate::entry::{Entry, Family, edges};
use crate::{Ack, Congestion, CongestionControl, Control, Needs, Signal, StateChange, StateEvent};
use knee_core::convert::truncated_u32;
use knee_core::{Time, params};
use std::collections::VecDeque;

/// LEDBAT's registry entry.
pub const ENTRY: Entry = Entry {
    name: "ledbat",
    family: Family::DelayBased,
    about: "background traffic: holds the queue at a target delay and yields to others",
    source: "RFC 6817",
    params: Params::DECLARED,
    phases: &["slow_start", "below_target", "above_target"],
    edges: edges![Phase:
        SlowStart => BelowTarget,
        SlowStart => AboveTarget,
        BelowTarget => AboveTarget,
        AboveTarget => BelowTarget,
        BelowTarget => SlowStart,
        AboveTarget => SlowStart,
    ],
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| Box::new(Ledbat::new(Params::from(params).target, init.mss.max(1).into(), init.now)),
};

params! {
    /// LEDBAT's parameters.
    struct Params {
        /// queueing delay to hold
        target: Time = Time::from_millis(100), in Time::from_millis(1)..=Time::from_millis(100),
            from "RFC 6817, Sec. 2.5: at most 100 ms";
    }
}

/// The phases, in the order of the entry.
#[derive(Clone, Copy)]
enum Phase {
    SlowStart,
    BelowTarget,
    AboveTarget,
}

const MINUTE: u64 = 60_000_000_000;
/// Greatest growth of the window in a round trip, bytes.
const MOST_PER_ROUND: f64 = 3000.0;
/// Delay samples of the filter.
const FILTER: usize = 3;
/// Minutes of the base.
const HISTORY: usize = 13;
/// The least window, bytes.
const LEAST: f64 = 10.0;
/// Without a full window for that long it does not grow.
const NOT_FULL: Time = Time::from_secs(1);
/// The part of the target at which slow start ends.
const SLOW_START_ENDS: f64 = 0.9;
/// The largest window, bytes: far beyond any path.
const MOST: f64 = 1e12;

/// The minimum delay of each of the last minutes.
#[derive(Clone)]
struct BaseDelay {
    /// The first minute begins here.
    start: Time,
    minutes: VecDeque<Time>,
    /// The number of the newest.
    minute: u64,
}

impl BaseDelay {
    fn since(start: Time) -> Self {
        Self { start, minutes: VecDeque::new(), minute: 0 }
    }

    /// Takes a sample and gives the least of the history.
    fn least(&mut self, now: Time, delay: Time) -> Time {
        let minute = now.saturating_sub(self.start).as_nanos() / MINUTE;
        match self.minutes.back_mut() {
            Some(least) if minute == self.minute => *least = (*least).min(delay),
            _ => {
                self.minute = minute;
                self.minutes.push_back(delay);
                if self.minutes.len() > HISTORY {
                    self.minutes.pop_front();
                }
            }
        }
        self.minutes.iter().copied().min().unwrap_or(delay)
    }
}

#[derive(Clone)]
struct Ledbat {
    target: Time,
    /// Bytes of payload in a packet.
    packet: f64,
    /// Whole bytes.
    window: f64,
    slow_start: bool,
    ssthresh: f64,
    base: BaseDelay,
    /// The last samples less their bases.
    queueing: [Time; FILTER],
    next: usize,
    /// When the window last held the sender back.
    full_at: Time,
    /// The window last given to the sender.
    written: u32,
}

/// By how many bytes an ACK moves a window that is `off_target` of the target away from it.
fn change(window: f64, acked: f64, off_target: f64) -> f64 {
    MOST_PER_ROUND * share(window, acked) * off_target
}

/// The part of the window that an ACK acknowledges.
fn share(window: f64, acked: f64) -> f64 {
    acked.min(window) / acked.max(window)
}

impl Ledbat {
    /// `packet`: bytes of payload in a packet.
    fn new(target: Time, packet: f64, now: Time) -> Self {
        Self {
            target,
            packet,
            window: packet,
            slow_start: true,
            ssthresh: MOST,
            base: BaseDelay::since(now),
            queueing: [Time::ZERO; FILTER],
            next: 0,
            full_at: now,
            written: 1,
        }
    }

    fn sample(&mut self, now: Time, delay: Time) {
        self.queueing[self.next] = delay.saturating_sub(self.base.least(now, delay));
        self.next = (self.next + 1) % FILTER;
    }

    fn delay(&self) -> Time {
        self.queueing.iter().copied().min().unwrap_or_default()
    }

    /// Moves the window on an ACK of `acked` bytes.
    fn steer(&mut self, now: Time, acked: f64, rtt: Time) {
        let (target, delay) = (self.target.as_secs_f64(), self.delay().min(rtt).as_secs_f64());
        let mut by = change(self.window, acked, (target - delay) / target);
        if by > 0.0 && now.saturating_sub(self.full_at) > NOT_FULL {
            by = 0.0;
        }
        let steered = libm::floor(self.window + by).clamp(LEAST, MOST);
        if !self.slow_start {
            self.window = steered;
            return;
        }
        let doubled = libm::floor(self.window + share(self.window, acked) * self.packet);
        if doubled > self.ssthresh {
            self.slow_start = false;
        } else if delay > SLOW_START_ENDS * target {
            self.slow_start = false;
            self.ssthresh = self.window;
        } else {
            self.window = doubled.max(steered);
        }
    }

    /// The sender changes the window too; its value takes precedence.
    fn read(&mut self, cwnd: u32) {
        if cwnd != self.written {
            self.window = f64::from(cwnd) * self.packet;
        }
    }

    fn write(&mut self, control: &mut Control) {
        self.written = (truncated_u32(self.window / self.packet)).max(1);
        control.cwnd = self.written;
    }

    fn phase(&self) -> u8 {
        let phase = match () {
            () if self.slow_start => Phase::SlowStart,
            () if self.delay() > self.target => Phase::AboveTarget,
            () => Phase::BelowTarget,
        };
        phase as u8
    }
}

impl CongestionControl for Ledbat {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            self.sample(ack.view.now, rtt);
        }
        if ack.cwnd_limited {
            self.full_at = ack.view.now;
        }
        control.phase = self.phase();
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.packet = ack.view.mss.max(1).into();
        self.read(control.cwnd);
        if self.window < self.packet {
            (self.window, self.slow_start) = (self.packet, true);
        }
        let acked = f64::from(ack.delivered) * self.packet;
        if acked > 0.0 {
            self.steer(ack.view.now, acked, ack.rtt.unwrap_or(ack.view.srtt));
        }
        self.write(control);
        control.ssthresh = control.ssthresh.min(control.cwnd);
        control.phase = self.phase();
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.read(control.cwnd);
        self.slow_start = congestion.signal == Signal::Timeout;
        if !self.slow_start {
            self.ssthresh = libm::floor(self.window / 2.0).max(LEAST);
        }
        control.ssthresh = (control.cwnd / 2).max(2);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        if change.event == StateEvent::Start {
            self.write(control);
            control.ssthresh = control.cwnd;
        }
        control.phase = self.phase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    #[test]
    fn a_window_acknowledged_at_once_moves_it_by_up_to_3000_bytes() {
        assert!(close(change(6000.0, 6000.0, 1.0), 3000.0) && close(change(6000.0, 6000.0, -1.0), -3000.0));
        // A tenth of it; and more than it, which counts as one.
        assert!(close(change(15_000.0, 1500.0, 0.5), 150.0) && close(change(1500.0, 3000.0, 1.0), 1500.0));
    }

    #[test]
    fn the_base_is_the_least_of_thirteen_minutes() {
        let mut base = BaseDelay::since(Time::ZERO);
        let mut least = |s, ms| base.least(Time::from_secs(s), Time::from_millis(ms)).as_millis();
        assert_eq!([least(0, 40), least(10, 90)], [40, 40]);
        // Minutes 1 to 12 keep minute 0; minute 13 pushes it out.
        let seen: Vec<_> = (1..=13).map(|minute| least(60 * minute, 60)).collect();
        assert_eq!((&seen[..12], seen[12]), (&[40; 12][..], 60));
    }

    /// Each ACK that libutp's own `apply_ccontrol` saw, with the window that it left: the first of a connection on 1
    /// Mbit/s with a base RTT of 20 ms, through slow start to the target and beyond it. docs/fidelity.md says how they
    /// were taken.
    #[test]
    fn ack_by_ack_the_window_is_libutps() {
        let mut ledbat: Option<Ledbat> = None;
        let mut ended = false;
        let rows = include_str!("libutp.csv");
        for (number, row) in rows.lines().skip(1).enumerate() {
            let figures: Vec<u64> = row.split(',').map(|figure| figure.parse().unwrap()).collect();
            let &[at_us, acked, delay_us, min_rtt_us, packet, window, slow_start] = &figures[..] else {
                panic!("row {number} has {} columns", figures.len());
            };
            let now = Time::from_micros(at_us);
            let ledbat = ledbat.get_or_insert_with(|| Ledbat::new(Time::from_millis(100), 1452.0, Time::ZERO));
            // libutp looks for the path's MTU meanwhile.
            ledbat.packet = packet as f64;
            ledbat.full_at = now;
            ledbat.sample(now, Time::from_micros(delay_us));
            ledbat.steer(now, acked as f64, Time::from_micros(min_rtt_us));
            assert!(close(ledbat.window, window as f64), "row {number}: {} and not {window}", ledbat.window);
            assert_eq!(ledbat.slow_start, slow_start == 1, "row {number}");
            ended |= !ledbat.slow_start;
        }
        assert!(ended && rows.lines().count() > 300);
    }
}
