//! Controllers of noq's interface under conformance vectors.

use crate::noq::connection::End;
use knee_conform::{Event, Implementation, Lost, MSS, Packet, Shown, Start, Subject};
use knee_core::Time;
use knee_core::convert::saturating_u16;
use knee_quinn::Settings;
use knee_quinn::conform::{Held, Shared, exchange, known, shared};
use knee_quinn::connection::instant;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Makes the controllers of a connection.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// Controllers of noq's interface, as an implementation under vectors.
pub struct Controllers {
    name: String,
    make: Box<dyn Fn() -> Factory + Send + Sync>,
    estimators: Shared<RttEstimator>,
}

impl Controllers {
    /// The controllers whose factories `make` makes, one for each connection.
    pub fn new(name: &str, make: impl Fn() -> Factory + Send + Sync + 'static) -> Self {
        Self { name: name.into(), make: Box::new(make), estimators: shared(estimator) }
    }

    /// One of noq's own, by the name that scenarios give it.
    pub fn named(name: &str) -> Option<Self> {
        let make: fn() -> Factory = match name {
            "noq:cubic" => || Arc::new(CubicConfig::default()),
            "noq:reno" => || Arc::new(NewRenoConfig::default()),
            "noq:bbr3" => || Arc::new(Bbr3Config::default()),
            _ => return None,
        };
        Some(Self::new(name, make))
    }
}

impl Implementation for Controllers {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn connect(&self, start: &Start) -> Result<Box<dyn Subject>, String> {
        let controller = (self.make)().build(instant(Time::ZERO), saturating_u16(MSS));
        let (estimators, before) = (self.estimators.clone(), (start.rtt, start.rtt));
        Ok(Box::new(Running { controller, estimators, before, held: Held::default() }))
    }
}

struct Running {
    controller: Box<dyn Controller>,
    estimators: Shared<RttEstimator>,
    /// Least and smoothed RTT before the ACK at hand.
    before: (Time, Time),
    held: Held,
}

impl Running {
    fn lost(&mut self, now: Time, lost: &Lost) {
        let at = instant(now);
        for packet in &lost.packets {
            self.controller.on_packet_lost(saturating_u16(MSS), packet.number, at);
        }
        self.congested(now, &lost.packets, lost.persistent, false, lost.packets.len() as u64 * MSS);
    }

    fn congested(&mut self, now: Time, packets: &[Packet], persistent: bool, is_ecn: bool, bytes: u64) {
        if let Some(newest) = packets.last() {
            let (at, sent) = (instant(now), instant(newest.sent));
            self.controller.on_congestion_event(at, sent, persistent, is_ecn, bytes, newest.number);
        }
    }
}

impl Subject for Running {
    fn take(&mut self, now: Time, event: &Event) -> Result<bool, String> {
        let at = instant(now);
        match event {
            Event::Sent(sent) => {
                let last = sent.first + sent.packets - 1;
                for number in sent.first..=last {
                    self.controller.on_packet_sent(at, saturating_u16(MSS), number);
                }
                self.controller.on_sent(at, sent.packets * MSS, last);
            }
            Event::Lost(lost) if lost.with_ack => self.held.lost = Some(lost.clone()),
            Event::Lost(lost) => self.lost(now, lost),
            Event::Marked(packets) => self.held.marked.clone_from(packets),
            Event::Acked(acked) => {
                if acked.blocked {
                    self.controller.on_cwnd_limited();
                }
                let rtt = known(&self.estimators, self.before.0, self.before.1);
                for packet in &acked.packets {
                    let sent = instant(packet.sent);
                    self.controller.on_ack(at, sent, MSS, packet.number, acked.app_limited, &rtt);
                }
                let newest = acked.packets.last().map(|packet| packet.number);
                self.controller.on_end_acks(at, acked.in_flight * MSS, acked.app_limited, newest);
                self.before = (acked.min_rtt, acked.srtt);
                let Held { lost, marked } = std::mem::take(&mut self.held);
                if let Some(lost) = lost {
                    self.lost(now, &lost);
                }
                self.congested(now, &marked, false, true, 0);
            }
            Event::Spurious => self.controller.on_spurious_congestion_event(),
        }
        Ok(true)
    }

    fn shown(&mut self) -> Shown {
        let metrics = self.controller.metrics();
        let finite = |bytes: u64| if bytes == u64::MAX { f64::INFINITY } else { bytes as f64 };
        Shown {
            cwnd: self.controller.window() as f64,
            ssthresh: metrics.ssthresh.map(finite),
            // Bytes per second, as noq has it; the bandwidth is in bit/s.
            pacing: metrics.pacing_rate.filter(|rate| *rate > 0).map(|rate| rate as f64),
            max_bw: metrics.bandwidth_estimate.map(|rate| rate as f64 / 8.0),
            ..Shown::default()
        }
    }
}

/// A controller that keeps the newest estimator it was handed.
#[derive(Debug)]
struct Recorder(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for Recorder {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone()))
    }
}

impl Controller for Recorder {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: u64, _: bool, rtt: &RttEstimator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(*rtt);
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}

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
    let factory = || Arc::new(Recorder(seen.clone()));
    let settings = Settings { mtu: [1200; 3], ..Settings::default() };
    let (mut client, mut server) = (End::connect(factory(), &settings, Time::ZERO), End::listen(factory(), &settings));
    exchange(&mut client, &mut server, min, srtt);
    let estimator = *seen.lock().unwrap_or_else(PoisonError::into_inner);
    estimator.expect("what is sent is acknowledged")
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
