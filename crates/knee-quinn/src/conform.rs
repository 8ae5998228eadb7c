//! Controllers of quinn's interface under conformance vectors (`knee_conform`).
//!
//! Nobody outside of a stack can make its estimator of the RTT, and controllers are handed one with each ACK. So a
//! connection of the stack exchanges packets over a path of that RTT, and the estimator is copied from there.

use crate::connection::{Connection, instant};
use crate::quinn::Quinn;
use crate::{Settings, Stack};
use bytes::Bytes;
use knee_conform::{Event, Implementation, Lost, MSS, Packet, Shown, Start, Subject};
use knee_core::Time;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Smoothed RTTs are told apart by this.
const GRAIN: Time = Time::from_micros(100);

/// Makes the controllers of a stack's connection.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// Shows more of a controller than its interface does. Sizes in bytes, rates in bytes per second.
pub trait Probe {
    /// Estimated bandwidth.
    fn max_bw(&self) -> Option<f64> {
        None
    }

    /// Estimated least RTT.
    fn min_rtt(&self) -> Option<std::time::Duration> {
        None
    }

    /// The name of its state.
    fn phase(&self) -> Option<&'static str> {
        None
    }

    /// Long-term bound on what is in flight; infinite if there is none yet.
    fn inflight_longterm(&self) -> Option<f64> {
        None
    }
}

/// Takes into `shown` what a probe shows.
pub fn probe(probe: &dyn Probe, shown: &mut Shown) {
    shown.max_bw = probe.max_bw().or(shown.max_bw);
    shown.min_rtt = probe.min_rtt().map(|rtt| rtt.as_secs_f64()).or(shown.min_rtt);
    shown.phase = probe.phase().or(shown.phase);
    shown.inflight_longterm = probe.inflight_longterm().or(shown.inflight_longterm);
}

/// Estimators of a stack, by their least and smoothed RTT.
pub struct Estimators<R> {
    known: BTreeMap<(Time, Time), R>,
    make: fn(Time, Time) -> R,
}

impl<R: Copy> Estimators<R> {
    /// No estimators yet; `make` makes them from least and smoothed RTT.
    pub const fn new(make: fn(Time, Time) -> R) -> Self {
        Self { known: BTreeMap::new(), make }
    }

    /// The estimator with this least and about this smoothed RTT.
    pub fn of(&mut self, min: Time, srtt: Time) -> R {
        let srtt = srtt.max(min).floor_to(GRAIN).max(min);
        *self.known.entry((min, srtt)).or_insert_with(|| (self.make)(min, srtt))
    }
}

/// Estimators that all connections of an implementation share: each takes a handshake.
pub type Shared<R> = Arc<Mutex<Estimators<R>>>;

/// Estimators that `make` makes.
pub fn shared<R: Copy>(make: fn(Time, Time) -> R) -> Shared<R> {
    Arc::new(Mutex::new(Estimators::new(make)))
}

/// The shared estimator with this least and about this smoothed RTT.
pub fn known<R: Copy>(estimators: &Shared<R>, min: Time, srtt: Time) -> R {
    estimators.lock().unwrap_or_else(PoisonError::into_inner).of(min, srtt)
}

/// Lets two ends exchange packets so that the RTT's samples are `min` and then one that makes the smoothed one `srtt`.
/// The connecting end's controller gets the estimator with the ACK of what is written last.
pub fn exchange(client: &mut dyn Connection, server: &mut dyn Connection, min: Time, srtt: Time) {
    let second = min + (srtt.saturating_sub(min)) * 8;
    let mut now = Time::ZERO;
    // Two round trips of the handshake, data whose ACK is the second sample, and data whose ACK comes after it.
    for (rtt, writes) in [(min, false), (min, false), (second, true), (min, true)] {
        if writes {
            client.write(Bytes::from_static(&[0; 4000]), 1 << 20);
        }
        carry(client, server, now, now + rtt / 2);
        now += rtt;
        carry(server, client, now - rtt / 2, now);
    }
}

/// Carries what an end sends at `left` to the other, at `came`.
fn carry(from: &mut dyn Connection, to: &mut dyn Connection, left: Time, came: Time) {
    while from.deadline().is_some_and(|deadline| deadline <= left) {
        from.fire(left);
    }
    let mut datagrams = Vec::new();
    while let Some(datagram) = from.transmit(left) {
        datagrams.push(datagram);
    }
    for datagram in datagrams {
        to.receive(came, datagram);
    }
    from.take_updates();
    to.take_updates();
}

/// A controller that keeps the newest estimator it was handed.
struct Recorder(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for Recorder {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone()))
    }
}

impl Controller for Recorder {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(*rtt);
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1 << 20
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone()))
    }

    fn initial_window(&self) -> u64 {
        1 << 20
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn estimator(min: Time, srtt: Time) -> RttEstimator {
    let seen = Arc::new(Mutex::new(None));
    let stack = Quinn(Arc::new(Recorder(seen.clone())));
    let settings = Settings { mtu: [1200; 3], ..Settings::default() };
    let (mut client, mut server) = (stack.connect(&settings, Time::ZERO), stack.listen(&settings));
    exchange(&mut *client, &mut *server, min, srtt);
    let estimator = *seen.lock().unwrap_or_else(PoisonError::into_inner);
    estimator.expect("what is sent is acknowledged")
}

/// How a controller is looked into.
type Look = Arc<dyn Fn(&dyn Controller, &mut Shown) + Send + Sync>;

/// Controllers of quinn's interface, as an implementation under vectors.
pub struct Controllers {
    name: String,
    make: Arc<dyn Fn() -> Factory + Send + Sync>,
    look: Option<Look>,
    estimators: Shared<RttEstimator>,
}

impl Controllers {
    /// The controllers whose factories `make` makes, one for each connection.
    pub fn new(name: &str, make: Arc<dyn Fn() -> Factory + Send + Sync>) -> Self {
        Self { name: name.into(), make, look: None, estimators: shared(estimator) }
    }

    /// One of quinn's own, by the name that scenarios give it.
    pub fn named(name: &str) -> Option<Self> {
        let make: fn() -> Factory = match name {
            "quinn:cubic" => || Arc::new(CubicConfig::default()),
            "quinn:reno" => || Arc::new(NewRenoConfig::default()),
            "quinn:bbr" => || Arc::new(BbrConfig::default()),
            _ => return None,
        };
        Some(Self::new(name, Arc::new(make)))
    }

    /// Shows what controllers of type `C` show as a [`Probe`].
    #[must_use]
    pub fn probed<C: Controller + Probe + 'static>(mut self) -> Self {
        self.look = Some(Arc::new(|controller, shown| {
            if let Ok(controller) = controller.clone_box().into_any().downcast::<C>() {
                probe(&*controller, shown);
            }
        }));
        self
    }
}

impl Implementation for Controllers {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn connect(&self, start: &Start) -> Result<Box<dyn Subject>, String> {
        let controller = (self.make)().build(instant(Time::ZERO), 1200);
        let look = self.look.clone();
        let (estimators, before) = (self.estimators.clone(), (start.rtt, start.rtt));
        Ok(Box::new(Running { controller, look, estimators, before, held: Held::default() }))
    }
}

/// Congestion that an ACK shows, which quinn reports after the ACK.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Losses.
    pub lost: Option<Lost>,
    /// Packets with a mark.
    pub marked: Vec<Packet>,
}

struct Running {
    controller: Box<dyn Controller>,
    look: Option<Look>,
    estimators: Shared<RttEstimator>,
    /// Least and smoothed RTT before the ACK at hand.
    before: (Time, Time),
    held: Held,
}

impl Running {
    fn congested(&mut self, now: Time, packets: &[Packet], persistent: bool, bytes: u64) {
        if let Some(newest) = packets.last() {
            self.controller.on_congestion_event(instant(now), instant(newest.sent), persistent, bytes);
        }
    }

    fn lost(&mut self, now: Time, lost: &Lost) {
        self.congested(now, &lost.packets, lost.persistent, lost.packets.len() as u64 * MSS);
    }
}

impl Subject for Running {
    fn take(&mut self, now: Time, event: &Event) -> Result<bool, String> {
        let at = instant(now);
        match event {
            Event::Sent(sent) => self.controller.on_sent(at, sent.packets * MSS, sent.first + sent.packets - 1),
            Event::Lost(lost) if lost.with_ack => self.held.lost = Some(lost.clone()),
            Event::Lost(lost) => self.lost(now, lost),
            Event::Marked(packets) => self.held.marked.clone_from(packets),
            Event::Acked(acked) => {
                let rtt = known(&self.estimators, self.before.0, self.before.1);
                for packet in &acked.packets {
                    self.controller.on_ack(at, instant(packet.sent), MSS, acked.app_limited, &rtt);
                }
                let newest = acked.packets.last().map(|packet| packet.number);
                self.controller.on_end_acks(at, acked.in_flight * MSS, acked.app_limited, newest);
                self.before = (acked.min_rtt, acked.srtt);
                let Held { lost, marked } = std::mem::take(&mut self.held);
                if let Some(lost) = lost {
                    self.lost(now, &lost);
                }
                self.congested(now, &marked, false, 0);
            }
            Event::Spurious => return Ok(false),
        }
        Ok(true)
    }

    fn shown(&mut self) -> Shown {
        let metrics = self.controller.metrics();
        let finite = |bytes: u64| if bytes == u64::MAX { f64::INFINITY } else { bytes as f64 };
        let mut shown = Shown {
            cwnd: self.controller.window() as f64,
            ssthresh: metrics.ssthresh.map(finite),
            pacing: metrics.pacing_rate.filter(|rate| *rate > 0).map(|rate| rate as f64 / 8.0),
            ..Shown::default()
        };
        if let Some(look) = &self.look {
            look(&*self.controller, &mut shown);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimators_have_the_rtts_that_are_asked_for() {
        for (min, srtt) in [(100, 100), (100, 130), (20, 25)] {
            let estimator = estimator(Time::from_millis(min), Time::from_millis(srtt));
            let rtts = [estimator.min(), estimator.get()].map(|rtt| rtt.as_micros());
            assert_eq!(rtts, [u128::from(min) * 1000, u128::from(srtt) * 1000]);
        }
    }
}
