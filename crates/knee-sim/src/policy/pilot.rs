//! Monitor intervals of a flow, and its window or rate.

use super::features::Measured;
use super::{Length, Lever, Settings};
use knee_cc::{Ack, Control, Init, View};
use knee_core::convert::{truncated, truncated_u32};
use knee_core::{Rate, Time};

/// The range of the window, packets.
const WINDOWS: (f64, f64) = (2.0, 131_072.0);
/// The range of the rate, bit/s: a packet of 1500 bytes in a second, and more than any link.
const RATES: (f64, f64) = (12_000.0, 1e12);
/// The shortest interval: a mean RTT may be shorter than any action makes sense for.
const SHORTEST: Time = Time::from_micros(100);

/// Counters of the flow since its start, packets.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    delivered: u64,
    marked: u64,
    lost: u64,
}

impl Totals {
    const fn of(view: &View) -> Self {
        // All that was sent is delivered, lost or in flight, what was sent again too.
        let sent = view.delivered.saturating_add(view.lost).saturating_add(view.in_flight as u64);
        Self { sent, delivered: view.delivered, marked: view.delivered_ce, lost: view.lost }
    }
}

/// Events of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Its length, s.
    pub length_s: f64,
    /// Rate at which payload was delivered, bit/s.
    pub throughput_bps: f64,
    /// Mean RTT, s; of the last interval that had a sample.
    pub rtt_s: f64,
    /// Queueing delay, s: `rtt_s` less the least RTT of the flow.
    pub queueing_s: f64,
    /// Packets considered lost, as a share of these and of the packets delivered.
    pub loss: f64,
}

/// Measures one monitor interval after the other, and has the window or the rate.
#[derive(Clone, Debug)]
pub struct Pilot {
    settings: Settings,
    /// Payload of a full packet, bits.
    bits: f64,
    /// The window in packets, or the rate in bit/s.
    level: f64,
    begin: Time,
    end: Time,
    /// Length of the interval without extensions.
    length: Time,
    /// The interval had an ACK or a timeout.
    heard: bool,
    /// RTT samples of the interval, ns.
    rtts: Vec<u64>,
    /// At its begin, and at the last event.
    totals: (Totals, Totals),
    measured: Measured,
    figures: Figures,
    history: Vec<f32>,
}

impl Pilot {
    /// The start of a connection's first monitor interval.
    pub fn new(settings: &Settings, init: &Init) -> Self {
        let rtt = init.rtt.as_secs_f64();
        let bits = f64::from(init.mss) * 8.0;
        let level = match settings.lever {
            Lever::Window => f64::from(init.cwnd),
            Lever::Rate => f64::from(init.cwnd) * bits / rtt.max(SHORTEST.as_secs_f64()),
        };
        let mut pilot = Self {
            settings: *settings,
            bits,
            level: bounded(settings.lever, level),
            begin: init.now,
            end: init.now,
            length: SHORTEST,
            heard: false,
            rtts: Vec::new(),
            totals: Default::default(),
            measured: Measured { rtt, min_rtt: rtt, ..Measured::default() },
            figures: Figures::default(),
            history: settings.features.before().repeat(settings.history),
        };
        pilot.begin();
        pilot
    }

    /// When the interval ends.
    pub const fn end(&self) -> Time {
        self.end
    }

    /// Returns true if the interval had an ACK or a timeout.
    pub const fn has_heard(&self) -> bool {
        self.heard
    }

    /// Extends the interval, in which nothing was heard, by its length, until it ends at `now` or later.
    pub fn extend(&mut self, now: Time) {
        let (length, late) = (self.length.as_nanos(), now.saturating_sub(self.end).as_nanos());
        self.end = self.end.saturating_add(Time::from_nanos(late.div_ceil(length).saturating_mul(length)));
    }

    /// Returns true if the interval ended before `now`. One without an ACK or a timeout is extended instead.
    pub fn is_due(&mut self, now: Time) -> bool {
        if self.end < now && !self.heard {
            self.extend(now);
        }
        self.end < now
    }

    /// Ends the interval at `now`, if it has begun before and would end later.
    pub fn cut(&mut self, now: Time) {
        if self.begin < now {
            self.end = self.end.min(now);
        }
    }

    /// Takes an ACK.
    pub(super) fn take(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.rtts.push(rtt.as_nanos());
            let rtt = rtt.as_secs_f64();
            if rtt < self.measured.min_rtt {
                self.measured.min_rtt = rtt;
            }
        }
        self.hear(ack.view);
    }

    /// Takes note of the flow's counters at an event.
    pub(super) fn hear(&mut self, view: &View) {
        self.heard = true;
        self.bits = f64::from(view.mss) * 8.0;
        self.totals.1 = Totals::of(view);
    }

    /// Ends the interval: its figures and the observation are known then.
    pub fn close(&mut self) {
        let (from, to) = self.totals;
        let packets = |from: u64, to: u64| to.saturating_sub(from) as f64;
        let m = &mut self.measured;
        m.length = self.end.saturating_sub(self.begin).as_secs_f64();
        m.sent = packets(from.sent, to.sent);
        m.delivered = packets(from.delivered, to.delivered);
        m.marked = packets(from.marked, to.marked);
        m.lost = packets(from.lost, to.lost);
        let (first, second) = self.rtts.split_at(self.rtts.len() / 2);
        m.rtt_increase = match (mean(first), mean(second)) {
            (Some(first), Some(second)) => second - first,
            _ => 0.0,
        };
        if let Some(mean) = mean(&self.rtts) {
            m.rtt = mean;
            m.least_mean_rtt = if m.least_mean_rtt > 0.0 { m.least_mean_rtt.min(mean) } else { mean };
        }
        m.peak = m.peak.max(m.delivered / m.length);
        m.window = match self.settings.lever {
            Lever::Window => self.level,
            Lever::Rate => self.level * m.rtt / self.bits,
        };
        self.figures = Figures {
            length_s: m.length,
            throughput_bps: m.delivered * self.bits / m.length,
            rtt_s: m.rtt,
            queueing_s: (m.rtt - m.min_rtt).max(0.0),
            loss: if m.lost > 0.0 { m.lost / (m.lost + m.delivered) } else { 0.0 },
        };
        let width = self.settings.features.names().len();
        self.history.drain(..width);
        self.settings.features.append(m, &mut self.history);
    }

    /// The observation: the last intervals that have ended, oldest first.
    pub fn observation(&self) -> &[f32] {
        &self.history
    }

    /// The figures of the last interval that has ended.
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The window in packets, or the rate in bit/s.
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// Changes the window or rate, and begins the next interval where the last one ended. An action is a number of any
    /// size; NaN changes nothing.
    pub fn act(&mut self, action: f64) {
        let change = self.settings.gain * action;
        let level = if change >= 0.0 { self.level * (1.0 + change) } else { self.level / (1.0 - change) };
        if !level.is_nan() {
            self.level = bounded(self.settings.lever, level.min(self.most()));
        }
        self.begin();
    }

    /// The largest window or rate: four times what the flow ever delivered, and ten packets in a round trip more. A
    /// flow that doubles its window delivered half of it in the round trip before, so this does not slow its start.
    /// Beyond it, three packets of four are lost.
    fn most(&self) -> f64 {
        let Measured { peak, rtt, .. } = self.measured;
        match self.settings.lever {
            Lever::Window => 4.0 * peak * rtt + 10.0,
            Lever::Rate => (4.0 * peak + 10.0 / rtt.max(SHORTEST.as_secs_f64())) * self.bits,
        }
    }

    fn begin(&mut self) {
        let length = match self.settings.interval {
            Length::Time(ns) => Time::from_nanos(ns),
            Length::Rtts(rtts) => Time::from_nanos(truncated(rtts * self.measured.rtt * 1e9)),
        };
        self.length = length.max(SHORTEST);
        (self.begin, self.end) = (self.end, self.end.saturating_add(self.length));
        self.totals.0 = self.totals.1;
        self.heard = false;
        self.rtts.clear();
    }

    /// Puts the window or rate in force.
    pub(super) fn put_in_force(&self, control: &mut Control) {
        match self.settings.lever {
            Lever::Window => (control.cwnd, control.pacing_rate) = (truncated_u32(self.level), None),
            Lever::Rate => {
                let window = 2.0 * self.level * self.measured.rtt / self.bits;
                control.cwnd = truncated_u32(window.clamp(4.0, WINDOWS.1));
                control.pacing_rate = Some(Rate::from_bps(truncated(self.level)));
            }
        }
    }
}

const fn bounded(lever: Lever, level: f64) -> f64 {
    let (least, most) = match lever {
        Lever::Window => WINDOWS,
        Lever::Rate => RATES,
    };
    level.clamp(least, most)
}

/// Mean of times in ns, s.
fn mean(times: &[u64]) -> Option<f64> {
    let sum = times.iter().fold(0u64, |sum, &time| sum.saturating_add(time));
    (!times.is_empty()).then(|| sum as f64 / 1e9 / times.len() as f64)
}
