//! Real-time video: frames of an encoder whose rate a controller sets, sent in paced packets.
//!
//! A frame is coded every 1/fps at the rate that the controller asks for at that time, cut into packets of about the
//! same size, and waits in a queue until pacing and, with SCReAM, the window let its packets go. The receiver reports
//! what has arrived every few milliseconds (as RFC 8888 does); [`Flight`] makes of it what controllers hear of.
//!
//! A controller may probe the link: packets leave at the probe's rate, and padding goes where no frame's packet waits.
//!
//! Not modelled: key frames, retransmissions and forward error correction, audio next to the video, and an encoder's
//! delay.

mod encoder;
mod flight;
mod gcc;
mod scream;

use super::{Arrival, Next, Reports, Source};
use crate::Given;
use crate::entry::{Entry, Make};
use encoder::Encoder;
use flight::Flight;
use gcc::Gcc;
use knee_core::convert::{saturating_u16, truncated, truncated_u32};
use knee_core::{Conflict, Rate, Rng, Time, choice, params};
use scream::Scream;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// The range of an encoder's rates: up to the last, a frame's bytes and its packets' numbers stay far from where they
/// would wrap.
const RATES: RangeInclusive<Rate> = Rate::from_bps(1)..=Rate::from_bps(10_000_000_000);

/// The entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "rtc",
    about: "real-time video in datagrams: an encoder whose rate a controller sets",
    source: "SCReAMv2 (draft-ietf-ccwg-rfc8298bis-screamv2-01); draft-ietf-rmcat-gcc-02 and WebRTC's goog_cc",
    params: Params::DECLARED,
    tables: &[],
    required: &[],
    pulls: false,
    echoes: false,
    // Ends of sockets do not report what has arrived.
    sockets: false,
    independent: |_| false,
    check,
    load: |given| Some(Params::from(&given.params).min_rate),
    make: Make::Source(|given, l4s, rng| Box::new(Rtc::new(&(&given.params).into(), l4s, rng))),
};

choice! {
    /// The controller that sets the encoder's rate.
    enum Control {
        /// SCReAM version 2.
        Scream = "scream",
        /// Google congestion control.
        Gcc = "gcc",
    }
}

choice! {
    /// How fast GCC's threshold follows the trend of the delay.
    enum Threshold {
        /// The rule of WebRTC's program.
        Program = "program",
        /// The rule of the draft.
        Draft = "draft",
    }
}

params! {
    /// Its parameters.
    struct Params {
        /// what sets the encoder's rate
        controller: Control = Control::Scream, from "ours: the later of the two";
        /// rate of the encoder at the start
        start_rate: Rate = Rate::from_bps(300_000), in RATES, from "WebRTC's start bitrate";
        /// lowest rate of the encoder
        min_rate: Rate = Rate::from_bps(100_000), in RATES, from "ours: a small picture";
        /// highest rate of the encoder
        max_rate: Rate = Rate::from_bps(2_500_000), in RATES, from "WebRTC's limit for 720p";
        /// frames per second
        fps: f64 = 30.0, in 1.0..=240.0, from "ours: the usual camera";
        /// how fast GCC's threshold of overuse follows the trend of the delay
        threshold: Threshold = Threshold::Program, from "WebRTC's goog_cc; draft-ietf-rmcat-gcc-02, 5.4";
        /// whether SCReAM heeds how much the queueing delay varies
        reduce_jitter: bool = false, from "REDUCE_JITTER of draft-ietf-ccwg-rfc8298bis-screamv2-01";
    }
}

fn check(given: &Given) -> Result<(), Conflict> {
    let Params { min_rate: min, start_rate: start, max_rate: max, controller, reduce_jitter, threshold, .. } =
        (&given.params).into();
    if reduce_jitter && !matches!(controller, Control::Scream) {
        let accepted = "expected it with the controller scream only".into();
        return Err(Conflict { key: "reduce_jitter", found: "reduce_jitter is true with gcc".into(), accepted });
    }
    if matches!((controller, threshold), (Control::Scream, Threshold::Draft)) {
        let accepted = "expected it with the controller gcc only".into();
        return Err(Conflict { key: "threshold", found: "threshold is draft with scream".into(), accepted });
    }
    if min <= start && start <= max {
        return Ok(());
    }
    let found = format!("min_rate, start_rate and max_rate are {min} then {start} then {max}");
    Err(Conflict { key: "start_rate", found, accepted: "expected them ascending".into() })
}

/// Payload of a packet at most, bytes, as WebRTC's senders have it.
const PAYLOAD: u32 = 1200;
/// IPv4, UDP and RTP headers.
const OVERHEAD: u32 = 40;
/// Headers that are not counted in a controller's bytes: IP's and UDP's.
const BELOW_RTP: u32 = 28;
/// The least rate at which packets leave, bit/s (SCReAM's `RATE_PACE_MIN`).
const MIN_PACING: f64 = 50_000.0;
/// A packet that has waited longer than this to be sent is discarded: nobody would watch it.
const MAX_WAIT: Time = Time::from_secs(1);
/// After this time without a report all under way counts as lost.
const SILENCE: Time = Time::from_secs(1);

/// The least number of packets in a probe (`min_probe_packets_sent` of WebRTC's `probe_controller.cc`).
const PROBE_PACKETS: u32 = 5;
/// A probe has at least the bytes of this time at its rate (`min_probe_duration`), a padding packet those of the other
/// (`min_probe_delta`).
const PROBE_BYTES_TIME: Time = Time::from_millis(15);
const PADDING_TIME: Time = Time::from_millis(2);

/// Packets that are to leave at a rate, so that their arrivals show what the link carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Probe {
    /// Its number, from 1 on.
    pub(super) number: u32,
    /// bit/s.
    pub(super) rate: f64,
}

/// A probe that is being sent.
#[derive(Clone, Copy)]
struct Burst {
    probe: Probe,
    began: Time,
    packets: u32,
    /// Bits from the RTP header on.
    bits: f64,
}

impl Burst {
    fn bits_in(&self, time: Time) -> f64 {
        self.probe.rate * time.as_secs_f64()
    }

    /// Bytes of a padding packet from the RTP header on.
    fn padding(&self) -> u32 {
        truncated_u32(self.bits_in(PADDING_TIME) / 8.0).clamp(OVERHEAD - BELOW_RTP, PAYLOAD + OVERHEAD - BELOW_RTP)
    }

    fn is_over(&self) -> bool {
        self.packets >= PROBE_PACKETS && self.bits >= self.bits_in(PROBE_BYTES_TIME)
    }
}

/// The rates of an encoder, bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Rate at the start.
    pub(super) start: f64,
    /// Least rate.
    pub(super) min: f64,
    /// Greatest rate.
    pub(super) max: f64,
}

impl Rates {
    fn limit(&self, rate: f64) -> f64 {
        rate.clamp(self.min, self.max)
    }
}

/// A report's entry for one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    /// Bytes from the RTP header on.
    pub(super) bytes: u32,
    /// When it was sent.
    pub(super) sent: Time,
    /// When it arrived, by the receiver's clock.
    pub(super) arrived: Time,
    /// It was marked CE.
    pub(super) ce: bool,
    /// Number of the probe that it belongs to; 0: to none.
    pub(super) probe: u32,
}

/// A receiver's report, taken together with the packets sent.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// The packets that have arrived, in that order.
    pub(super) acked: &'a [Acked],
    /// Bytes from the highest packet known before up to the highest one now, whether they arrived or not.
    pub(super) newly_acked: u64,
    /// Packets found to be lost.
    pub(super) lost: u64,
    /// Bytes sent after the highest packet that arrived.
    pub(super) in_flight: u64,
}

/// A frame that was coded.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its bytes.
    pub(super) bytes: f64,
    /// Bytes that the target rate called for.
    pub(super) nominal: f64,
    /// Time between two frames.
    pub(super) period: Time,
    /// For how long the oldest packet has waited to be sent.
    pub(super) waited: Time,
}

/// Sets the rate of an encoder.
pub(super) trait Controller: Send + CloneController {
    /// A report has come, with at least one packet in it.
    fn on_report(&mut self, report: &Report, now: Time);
    /// No report has come for long.
    fn on_silence(&mut self, now: Time);
    /// The rate of the encoder, bit/s.
    fn target_rate(&self) -> f64;
    /// Bytes that may be under way. `None` for any number.
    fn send_window(&self) -> Option<f64> {
        None
    }
    /// Packets leave at this multiple of the target rate, so that large frames pass.
    fn pacing_factor(&self) -> f64;
    /// The next probe to be sent.
    fn next_probe(&mut self, _now: Time) -> Option<Probe> {
        None
    }
    /// A frame was coded.
    fn on_frame(&mut self, _frame: &Frame) {}
}

knee_core::boxed_clone!(CloneController: Controller => Controller);

/// A sender of real-time video.
#[derive(Clone)]
struct Rtc {
    encoder: Encoder,
    controller: Box<dyn Controller>,
    reports: Reports,
    /// When the next frame is coded. `None` if it has not begun.
    frame_at: Option<Time>,
    /// Packets that wait, with the time at which their frame was coded: IP packets' bytes.
    queue: VecDeque<(Time, u32)>,
    /// When the next packet may leave.
    pace_at: Time,
    flight: Flight,
    burst: Option<Burst>,
    /// When the last report came, or the first packet under way was sent.
    heard: Time,
}

impl Rtc {
    /// A sender with these parameters and random numbers of its own; `l4s`: its packets are ECT(1).
    fn new(params: &Params, l4s: bool, rng: Rng) -> Self {
        let rate = |rate: Rate| rate.as_bps() as f64;
        let Params { start_rate, min_rate, max_rate, reduce_jitter, .. } = *params;
        let rates = Rates { start: rate(start_rate), min: rate(min_rate), max: rate(max_rate) };
        let (controller, reports): (Box<dyn Controller>, _) = match params.controller {
            Control::Scream => (Box::new(Scream::new(rates, l4s, reduce_jitter)), scream::REPORTS),
            Control::Gcc => (Box::new(Gcc::new(rates, params.threshold)), gcc::REPORTS),
        };
        Self {
            encoder: Encoder::new(params.fps, rng),
            controller,
            reports,
            frame_at: None,
            queue: VecDeque::new(),
            pace_at: Time::ZERO,
            flight: Flight::default(),
            burst: None,
            heard: Time::ZERO,
        }
    }

    /// Codes the frame that is due.
    fn code_frame(&mut self, at: Time) {
        let (bytes, nominal) = self.encoder.frame(self.controller.target_rate());
        let waited = self.queue.front().map_or(Time::ZERO, |(coded, _)| at - *coded);
        let period = self.encoder.period();
        self.controller.on_frame(&Frame { bytes: f64::from(bytes), nominal, period, waited });
        let packets = bytes.div_ceil(PAYLOAD);
        // The first ones are larger by a byte where it does not divide.
        let (each, larger) = (bytes / packets, bytes % packets);
        self.queue.extend((0..packets).map(|k| (at, each + u32::from(k < larger) + OVERHEAD)));
        while self.queue.front().is_some_and(|(coded, _)| at - *coded > MAX_WAIT) {
            self.queue.pop_front();
        }
    }

    /// Returns true if a probe is being sent. One begins with a frame's packet.
    fn is_probing(&mut self, now: Time) -> bool {
        self.burst = self.burst.filter(|burst| !burst.is_over());
        if self.burst.is_none() && !self.queue.is_empty() {
            let begin = |probe| Burst { probe, began: now, packets: 0, bits: 0.0 };
            self.burst = self.controller.next_probe(now).map(begin);
            if self.burst.is_some() {
                self.pace_at = now;
            }
        }
        self.burst.is_some()
    }

    /// Sends a packet of `size` bytes.
    fn send(&mut self, size: u32, now: Time) -> Next {
        if self.flight.in_flight() == 0 {
            self.heard = now;
        }
        let bytes = size - BELOW_RTP;
        self.flight.on_sent(now, bytes, self.burst.map_or(0, |burst| burst.probe.number));
        let rate = self.controller.target_rate().max(MIN_PACING) * self.controller.pacing_factor();
        let wait = |bits: f64, rate: f64| Time::from_nanos(truncated(bits * 1e9 / rate));
        self.pace_at = now + wait(8.0 * f64::from(size), rate);
        if let Some(burst) = &mut self.burst {
            burst.packets += 1;
            burst.bits += 8.0 * f64::from(bytes);
            if !burst.is_over() {
                self.pace_at = burst.began + wait(burst.bits, burst.probe.rate);
            }
        }
        Next::Send(saturating_u16(u64::from(size)))
    }

    fn may_send(&self, size: u32) -> bool {
        let window = self.controller.send_window();
        window.is_none_or(|window| (self.flight.in_flight() + u64::from(size - BELOW_RTP)) as f64 <= window)
            || self.flight.in_flight() == 0
    }
}

impl Source for Rtc {
    fn next(&mut self, now: Time) -> Next {
        let mut frame_at = *self.frame_at.get_or_insert(now);
        while frame_at <= now {
            self.code_frame(frame_at);
            frame_at += self.encoder.period();
        }
        self.frame_at = Some(frame_at);
        if self.flight.in_flight() > 0 && now >= self.heard + SILENCE {
            self.flight.forget();
            self.controller.on_silence(now);
            self.heard = now;
        }
        let probing = self.is_probing(now);
        let padding = self.burst.map(|burst| burst.padding() + BELOW_RTP);
        let Some(size) = self.queue.front().map(|(_, size)| *size).or(padding) else { return Next::Wait(frame_at) };
        if self.pace_at > now {
            return Next::Wait(self.pace_at.min(frame_at));
        }
        if !probing && !self.may_send(size) {
            return Next::Wait(frame_at.min(self.heard + SILENCE));
        }
        self.queue.pop_front();
        self.send(size, now)
    }

    fn reports(&self) -> Option<Reports> {
        Some(self.reports)
    }

    fn on_report(&mut self, arrivals: &[Arrival], now: Time) {
        self.heard = now;
        let (acked, newly_acked, lost) = self.flight.on_report(arrivals, now);
        if !acked.is_empty() {
            let report = Report { acked: &acked, newly_acked, lost, in_flight: self.flight.in_flight() };
            self.controller.on_report(&report, now);
        }
    }
}

#[cfg(test)]
mod tests;
