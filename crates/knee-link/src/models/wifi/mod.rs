//! `wifi`: DCF or EDCA contention, aggregation into A-MPDUs, errors of single frames with block acknowledgement and
//! retries, and PHY rates that change.
//!
//! ```text
//!   AIFS  backoff   preamble  frames (an A-MPDU)   SIFS  block ack
//! ──┼────┼─┼─┼─┼───┼─────────┼────┼────┼────┼─────┼────┼─────────┼── next
//!                   airtime = preamble + bits / PHY rate, in whole symbols
//! ```
//!
//! The link's `rate` is the PHY rate. As the link may send, it takes what waits, up to `max_frames` and `max_airtime`:
//! so packets come out in bursts, and a queue is served the better the longer it is. A frame fails with probability
//! `error` and goes again with the next aggregate, up to `retries` times; the receiver hands frames up in order, so
//! that those behind a failed one wait. Frames under way, waiting or failed, span at most 64, as block acknowledgement
//! allows.
//!
//! With `mcs_steps` the rate walks down and up the ladder of the modulation and coding schemes of 802.11ac (VHT-MCS 0
//! to 9, IEEE 802.11-2020, 21.5), at most that many steps below the link's `rate`, a step after each `mcs_hold` on
//! average.
//!
//! With `edca` a station has four access categories (`categories.rs`), with a queue and a backoff each; of two that may
//! send at one slot the more important one does, and the other backs off as after a collision. The first packet of a
//! category leaves its queue when the category begins to contend, not when it sends.
//!
//! Both directions of a link share its air where both are `wifi`: half duplex, by contention. Links that name the same
//! `channel` share it, too, as the stations of one access point do.
//!
//! Sources: IEEE 802.11-2020 (10.3.4, 10.23.2 for contention, 9.7 for A-MPDUs, 17.3 and 21 for OFDM's figures).
//! Validated against the saturation throughput of G. Bianchi, "Performance Analysis of the IEEE 802.11 Distributed
//! Coordination Function", IEEE JSAC 18(3), 2000, with the figures that ns-3 publishes of it (wifi-bianchi.cc), and
//! against the share of the PHY rate in B. Ginzburg, A. Kesselman, "Performance Analysis of A-MPDU and A-MSDU
//! Aggregation in IEEE 802.11n", Sarnoff Symposium 2007.

mod air;
mod categories;

use crate::entry::{Choice, Copies, Init, Model};
use crate::medium::{Capacity, Frame, Medium, Port};
pub(crate) use air::SharedAir;
use air::{Air, Attempt, Contention, Rules};
use categories::CATEGORIES;
use knee_core::Conflict;
use knee_core::convert::{index, saturating_u64, truncated};
use knee_core::packet::MTU;
use knee_core::{Bytes, Rate, Rng, Time, params};
use std::collections::VecDeque;

const OFDM: &str = "IEEE 802.11-2020, 17.4.4 (OFDM, 20 MHz)";
const BE: &str = "IEEE 802.11-2020, table 9-155 (best effort)";

/// The registry entry.
pub const ENTRY: Model = Model {
    choice: Choice {
        name: "wifi",
        about: "Wi-Fi: contention, aggregation into A-MPDUs, retries, changing PHY rates; rate is the PHY rate",
        source: "IEEE 802.11-2020; Bianchi 2000; Ginzburg and Kesselman 2007",
        params: Params::DECLARED,
    },
    check,
    access,
    path: None,
    categories: |params| {
        let edca = Params::from(params).edca;
        edca.then_some((categories::COUNT, categories::category as fn(u8) -> u8))
    },
    make: Some(|params, init| Box::new(Wifi::new(params.into(), init))),
};

params! {
    /// The parameters of the channel and its stations.
    struct Params {
        /// other stations on the channel that always have a frame to send
        contenders: u64 = 0, in 0..=200, from "ours";
        /// length of their frames
        contender_airtime: Time = Time::from_micros(1500), in Time::from_micros(20)..=Time::from_millis(10),
            from "ours: an aggregate of some 30 frames at 300 Mbit/s";
        /// frames of an aggregate; 0: as many as max_airtime allows, up to 64; 1: no aggregation
        max_frames: u64 = 0, in 0..=64, from "ours";
        /// length of an aggregate without its preamble
        max_airtime: Time = Time::from_micros(4000), in Time::from_micros(100)..=Time::from_micros(5484),
            from "Linux ath9k; at most aPPDUMaxTime, IEEE 802.11-2020, 21.4.4";
        /// probability that a frame of an aggregate fails
        error: f64 = 0.0, in 0.0..=1.0, from "ours";
        /// how often a frame is sent again before it is dropped
        retries: u64 = 7, in 0..=255, from "dot11ShortRetryLimit, IEEE 802.11-2020, annex C";
        /// how many steps of modulation and coding the rate may fall
        mcs_steps: u64 = 0, in 0..=9, from "ours";
        /// mean time between two changes of the PHY rate
        mcs_hold: Time = Time::from_millis(500), in Time::from_millis(1)..=Time::from_secs(1000), from "ours";
        /// length of a slot
        slot: Time = Time::from_micros(9), in Time::from_micros(1)..=Time::from_micros(100), from OFDM;
        /// time between a frame and its acknowledgement
        sifs: Time = Time::from_micros(16), in Time::from_micros(1)..=Time::from_micros(100), from OFDM;
        /// access categories by DSCP, with a queue each; aifsn, cw_min and cw_max are the contenders' then
        edca: bool = false, from "IEEE 802.11-2020, 10.23.2; mapped by RFC 8325, as in Linux since 6.8";
        /// slots of idle channel, after a SIFS, before backoff counts; 2 is DCF's DIFS
        aifsn: u64 = 3, in 1..=15, from BE;
        /// the least contention window, in slots
        cw_min: u64 = 15, in 0..=32767, from BE;
        /// the greatest contention window, in slots
        cw_max: u64 = 1023, in 0..=32767, from BE;
        /// preamble and PHY header of a data frame
        preamble: Time = Time::from_micros(40), in Time::from_micros(1)..=Time::from_millis(1),
            from "IEEE 802.11-2020, 21.3.2 (VHT, one stream)";
        /// length of a symbol: frames are whole ones
        symbol: Time = Time::from_micros(4), in Time::from_nanos(100)..=Time::from_micros(20),
            from "IEEE 802.11-2020, 17.3.2.4";
        /// bytes besides a packet in its frame
        header: Bytes = Bytes(38), in Bytes(0)..=Bytes(500), from "QoS data header 26, FCS 4, LLC and SNAP 8";
        /// length of an acknowledgement
        ack: Time = Time::from_micros(32), in Time::from_micros(1)..=Time::from_millis(1),
            from "32 B at 24 Mbit/s and a preamble of 20 us";
    }
}

/// Frames that block acknowledgement spans.
const BLOCK_ACK_WINDOW: usize = 64;
/// Delimiter of a frame in an aggregate, and what frames are padded to.
const DELIMITER: u64 = 4;
/// SERVICE and tail bits of a PPDU.
const SERVICE_AND_TAIL: u64 = 22;
/// Data bits per symbol and carrier of VHT-MCS 0 to 9, in sixths: 1/2, 1, 3/2, 2, 3, 4, 9/2, 5, 6, 20/3.
const LADDER: [u64; 10] = [3, 6, 9, 12, 18, 24, 27, 30, 36, 40];

fn check(params: &knee_core::Params, rate: Rate) -> Result<(), Conflict> {
    let params = Params::from(params);
    let conflict = |key, found, accepted| Err(Conflict { key, found, accepted });
    let (cw_min, cw_max) = (params.cw_min, params.cw_max);
    if cw_min > cw_max {
        return conflict(
            "cw_min",
            format!("{cw_min} is more than cw_max, {cw_max}"),
            format!("expected at most {cw_max}"),
        );
    }
    let frame = u64::from(MTU) + params.header.0 + DELIMITER;
    let (frames, most) = (params.max_frames.max(1), params.max_airtime);
    let airtime = rate.time_for(Bytes(frame * frames));
    if airtime > most {
        let ms = |time: Time| format!("{:.3} ms", time.as_millis_f64());
        let found = format!(
            "{frames} full frames take {} at the link's rate, longer than max_airtime, {}",
            ms(airtime),
            ms(most)
        );
        let key = if params.max_frames > 1 { "max_frames" } else { "max_airtime" };
        let fit = most.as_nanos() / rate.time_for(Bytes(frame)).as_nanos().max(1);
        let accepted = if fit > 0 {
            format!("expected at most {fit} frames, or a longer max_airtime")
        } else {
            "expected a higher rate, or a longer max_airtime".into()
        };
        return conflict(key, found, accepted);
    }
    Ok(())
}

/// A packet waits until the aggregate before it has been sent and acknowledged, for each contender's frame once, and
/// for the longest first backoff.
fn access(params: &knee_core::Params, rate: Rate) -> Time {
    let params = Params::from(params);
    let frame = u64::from(MTU) + params.header.0 + DELIMITER;
    let frames = match params.max_frames {
        0 => BLOCK_ACK_WINDOW as u64,
        most => most,
    };
    let aggregate = rate.time_for(Bytes(frame * frames)).min(params.max_airtime);
    let answer = params.sifs + params.ack;
    let idle = params.sifs + params.slot * (params.aifsn + params.cw_min);
    let others = (params.contender_airtime + answer + idle) * params.contenders;
    params.preamble + aggregate + answer + idle + others
}

/// A frame that was sent and is not done with.
#[derive(Clone)]
struct SentFrame {
    frame: Frame,
    tries: u64,
    received: bool,
}

#[derive(Clone)]
enum FunctionState {
    /// Nothing to send.
    Idle,
    /// The next aggregate waits for its turn.
    Contending,
    /// An aggregate is being sent.
    Sending,
}

/// A queue of a station with a backoff of its own: that of a category, or the only one.
#[derive(Clone)]
struct Function {
    /// Its place on the air.
    station: usize,
    /// Its category, where there are any.
    category: Option<u8>,
    phase: FunctionState,
    /// When the channel is free after what it sends.
    free: Time,
    /// Frames sent and not acknowledged, in order, and those behind them that were.
    window: VecDeque<SentFrame>,
    /// Length of an aggregate at the most.
    max_airtime: Time,
}

impl Function {
    fn take(&self, port: &mut dyn Port) -> Option<Frame> {
        match self.category {
            Some(category) => port.take_from(category),
            None => port.take(),
        }
    }

    /// Returns true if there is a packet to send. The first of a category is taken in then.
    fn has_some(&mut self, port: &mut dyn Port) -> bool {
        if self.category.is_none() {
            return !self.window.is_empty() || port.backlog().packets > 0;
        }
        if self.window.is_empty()
            && let Some(frame) = self.take(port)
        {
            self.window.push_back(SentFrame { frame, tries: 0, received: false });
        }
        !self.window.is_empty()
    }

    /// Frames leave in order, behind those that will not be sent again.
    fn hand_up(&mut self, retries: u64, at: Time, port: &mut dyn Port) {
        while let Some(first) = self.window.front()
            && (first.received || first.tries > retries)
        {
            let Some(first) = self.window.pop_front() else { return };
            if first.received { port.leave(first.frame, at) } else { port.lose(first.frame) }
        }
    }
}

/// A station that sends in one direction of a link.
#[derive(Clone)]
pub struct Wifi {
    air: SharedAir,
    rng: Rng,
    /// By priority.
    functions: Vec<Function>,
    sends_until: Time,
    rate: Rate,
    params: Params,
    /// Steps below the link's rate, and when that changes.
    steps: u64,
    changes_at: Time,
    /// Frames of an aggregate at the most.
    max_frames: usize,
    /// SIFS and acknowledgement.
    answer: Time,
}

impl Wifi {
    fn new(params: Params, init: &Init) -> Self {
        let answer = params.sifs + params.ack;
        let contention = Contention { aifsn: params.aifsn, cw_min: params.cw_min, cw_max: params.cw_max };
        let air = init.shared.air.get_or_init(|| {
            let rules = Rules { slot: params.slot, sifs: params.sifs, contender: params.contender_airtime + answer };
            let rng = Rng::stream(init.seed, &format!("air/{}", init.link));
            SharedAir::new(Air::new(rules, params.contenders, contention, rng))
        });
        let most = params.max_airtime;
        let kinds: Vec<(Option<u8>, Contention, Time)> = if params.edca {
            let of = |(i, category): (u8, &categories::Category)| {
                (Some(i), category.contention, category.txop.map_or(most, |txop| txop.min(most)))
            };
            (0..).zip(&CATEGORIES).map(of).collect()
        } else {
            vec![(None, contention, most)]
        };
        let contentions: Vec<Contention> = kinds.iter().map(|kind| kind.1).collect();
        let first = air.with(|air| air.join(&contentions));
        let function = |(i, (category, _, max_airtime)): (usize, (Option<u8>, Contention, Time))| Function {
            station: first + i,
            category,
            phase: FunctionState::Idle,
            free: Time::ZERO,
            window: VecDeque::new(),
            max_airtime,
        };
        Self {
            air: air.clone(),
            rng: Rng::stream(init.seed, &format!("wifi/{}", init.name)),
            functions: kinds.into_iter().enumerate().map(function).collect(),
            sends_until: Time::ZERO,
            rate: init.rate,
            steps: 0,
            params,
            changes_at: if params.mcs_steps > 0 { Time::ZERO } else { Time::MAX },
            max_frames: match params.max_frames {
                0 => BLOCK_ACK_WINDOW,
                frames => index(frames),
            },
            answer,
        }
    }

    /// The PHY rate `now`, in bit/s.
    fn phy_rate(&mut self, now: Time) -> u64 {
        while self.changes_at <= now {
            let down = self.steps == 0 || self.steps < self.params.mcs_steps && self.rng.chance(0.5);
            self.steps = if down { (self.steps + 1).min(self.params.mcs_steps) } else { self.steps - 1 };
            let hold = -libm::log(1.0 - self.rng.unit()) * self.params.mcs_hold.as_nanos() as f64;
            self.changes_at += Time::from_nanos(1 + truncated(hold));
        }
        let top = LADDER.len() - 1;
        (self.rate.as_bps() / LADDER[top] * LADDER[top - index(self.steps)]).max(1)
    }

    /// Bytes of a packet's frame on the air.
    fn air_bytes(&self, frame: &Frame) -> u64 {
        // The link's own overhead is the figures' part; what is counted as carried is sent in any case.
        let bytes = (u64::from(frame.packet.size) + self.params.header.0).max(frame.bytes);
        if self.max_frames == 1 { bytes } else { (bytes + DELIMITER).next_multiple_of(4) }
    }

    /// Fills an aggregate of function `f` with what is in its window and with packets of its queue. Gives its bytes,
    /// and how much of the window is in it: 0 if there was nothing to send.
    fn fill(&mut self, f: usize, rate: u64, port: &mut dyn Port) -> (u64, usize) {
        let airtime =
            |bytes: u64| Time::from_nanos(saturating_u64(u128::from(bytes) * 8_000_000_000 / u128::from(rate)));
        let max = self.functions[f].max_airtime;
        let fits = |bytes: u64, frames: usize| frames == 0 || airtime(bytes) <= max;
        let (mut bytes, mut frames) = (0, 0);
        let mut sent = 0; // of those in the window
        while frames < self.max_frames && sent < self.functions[f].window.len() {
            let pending = &self.functions[f].window[sent];
            let more = if pending.received { 0 } else { self.air_bytes(&pending.frame) };
            if more > 0 && !fits(bytes + more, frames) {
                break;
            }
            (bytes, frames, sent) = (bytes + more, frames + usize::from(more > 0), sent + 1);
        }
        let full = u64::from(MTU) + self.params.header.0 + DELIMITER + 3;
        while sent == self.functions[f].window.len()
            && frames < self.max_frames
            && sent < BLOCK_ACK_WINDOW
            && fits(bytes + full, frames)
        {
            let Some(frame) = self.functions[f].take(port) else { break };
            bytes += self.air_bytes(&frame);
            self.functions[f].window.push_back(SentFrame { frame, tries: 0, received: false });
            (frames, sent) = (frames + 1, sent + 1);
        }
        (bytes, if frames == 0 { 0 } else { sent })
    }

    /// Function `f` sends an aggregate `now`. Gives when the channel is free for the next one. `None` if there was
    /// nothing to send.
    fn send(&mut self, f: usize, now: Time, collides: bool, port: &mut dyn Port) -> Option<Time> {
        let rate = self.phy_rate(now);
        let (bytes, sent) = self.fill(f, rate, port);
        if sent == 0 {
            return None;
        }
        let (bits, span) =
            (u128::from(bytes * 8 + SERVICE_AND_TAIL), u128::from(rate) * u128::from(self.params.symbol.as_nanos()));
        // A symbol carries whole bits; where it is too short for one, a bit takes several.
        let symbols = match span / 1_000_000_000 {
            0 => (bits * 1_000_000_000).div_ceil(span.max(1)),
            each => bits.div_ceil(each),
        };
        let arrives = now + self.params.preamble + self.params.symbol * saturating_u64(symbols);
        let Self { functions, rng, params, answer, .. } = self;
        let function = &mut functions[f];
        let mut bits = 0;
        for pending in function.window.iter_mut().take(sent).filter(|pending| !pending.received) {
            pending.tries += 1;
            pending.received = !collides && !rng.chance(params.error);
            bits += if pending.received { pending.frame.bytes * 8 } else { 0 };
        }
        port.carry(bits, now, arrives);
        function.hand_up(params.retries, arrives, port);
        (self.sends_until, function.free) = (arrives, arrives + *answer);
        let (station, free) = (function.station, function.free);
        self.air.with(|air| air.occupy(station, free, bits > 0));
        Some(free)
    }

    /// Function `f` does what it does `now`. Gives when to ask it again.
    fn serve_function(&mut self, f: usize, now: Time, port: &mut dyn Port) -> Time {
        let Function { station, phase, free, .. } = &self.functions[f];
        let (station, free) = (*station, *free);
        match phase {
            FunctionState::Contending => {
                let collides = match self.air.with(|air| air.claim(station, now)) {
                    Attempt::Later(at) => return at,
                    Attempt::Now { collides } => collides,
                };
                if let Some(free) = self.send(f, now, collides, port) {
                    self.functions[f].phase = FunctionState::Sending;
                    return free;
                }
                self.air.with(|air| air.withdraw(station));
                self.functions[f].phase = FunctionState::Idle;
                return Time::MAX;
            }
            FunctionState::Sending if now < free => return free,
            FunctionState::Sending | FunctionState::Idle => {}
        }
        let function = &mut self.functions[f];
        if !function.has_some(port) {
            function.phase = FunctionState::Idle;
            return Time::MAX;
        }
        function.phase = FunctionState::Contending;
        self.air.with(|air| air.contend(station, now))
    }
}

impl Medium for Wifi {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        if self.functions.len() > 1 {
            // Another category may be idle.
            port.listen();
        }
        (0..self.functions.len()).map(|f| self.serve_function(f, now, port)).min().unwrap_or(Time::MAX)
    }

    fn capacity(&self, _now: Time) -> Capacity {
        Capacity::rate(self.rate.as_bps())
    }

    fn set_rate(&mut self, rate: Rate, now: Time) -> Time {
        self.rate = rate;
        now.max(self.sends_until)
    }

    fn separate(&mut self, copies: &mut Copies) {
        self.air = self.air.copied(&mut copies.airs);
    }
}

#[cfg(test)]
mod tests;
