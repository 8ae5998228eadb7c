//! A small interface to which controllers of other stacks can be fitted by hand.

use knee_quinn::proto::RttEstimator;
use knee_quinn::proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A controller that computes a window. Sizes are in bytes of UDP payload, times count from the start of the
/// connection.
///
/// It runs in quinn's connection, which finds losses and paces at 1.25 windows per smoothed RTT. For an ACK that shows
/// losses it calls [`on_ack`](Self::on_ack) for each packet, [`on_end_acks`](Self::on_end_acks) and
/// [`on_loss`](Self::on_loss), in this order. [`InFlight`](crate::InFlight) keeps what a controller notes of a packet.
pub trait Window: Clone + Send + Sync + 'static {
    /// A packet was acknowledged.
    fn on_ack(&mut self, ack: &Acked);

    /// Packets were found lost. It is called for each loss, not once per round trip.
    fn on_loss(&mut self, loss: &Lost);

    /// Bytes that may be in flight.
    fn window(&self) -> u64;

    /// A datagram of this many bytes left. It may have ACKs alone, which count as nothing in flight.
    fn on_sent(&mut self, _now: Duration, _bytes: u64) {}

    /// All packets that an ACK acknowledges have been told of; this many bytes are left in flight, with those that
    /// are found lost next.
    fn on_end_acks(&mut self, _now: Duration, _in_flight: u64) {}

    /// A full datagram has this many bytes from now on.
    fn on_mtu_update(&mut self, _mtu: u16) {}

    /// Rate at which datagrams are spaced, beside quinn's pacing, bit/s; `None`: that alone.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

/// A packet that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Now.
    pub now: Duration,
    /// When the packet left.
    pub sent: Duration,
    /// Its size, bytes.
    pub bytes: u64,
    /// Smoothed RTT, before this ACK: its own sample is `now - sent` of the newest packet.
    pub rtt: Duration,
    /// Least RTT so far, before this ACK.
    pub min_rtt: Duration,
    /// The application, and not the window, limited sending.
    pub app_limited: bool,
}

/// Packets that were found lost at one time.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Now.
    pub now: Duration,
    /// When the newest of them left.
    pub sent: Duration,
    /// Their size, bytes; 0 where packets were marked by ECN and not lost.
    pub bytes: u64,
    /// All packets of a long span were lost (persistent congestion: RFC 9002, 7.6).
    pub persistent: bool,
}

/// Makes controllers from windows.
pub(crate) struct Windows<F>(pub(crate) Arc<F>);

impl<W: Window, F: Fn(u16) -> W + Send + Sync> ControllerFactory for Windows<F> {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let window = (self.0)(mtu);
        Box::new(Fitted { initial: window.window(), window, start: now })
    }
}

#[derive(Clone)]
struct Fitted<W> {
    window: W,
    /// The window at the start, bytes.
    initial: u64,
    start: Instant,
}

impl<W> Fitted<W> {
    fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.start)
    }
}

impl<W: Window> Controller for Fitted<W> {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.window.on_sent(self.since(now), bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let (now, sent) = (self.since(now), self.since(sent));
        self.window.on_ack(&Acked { now, sent, bytes, rtt: rtt.get(), min_rtt: rtt.min(), app_limited });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, bytes: u64) {
        let (now, sent) = (self.since(now), self.since(sent));
        self.window.on_loss(&Lost { now, sent, bytes, persistent });
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.window.on_end_acks(self.since(now), in_flight);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.window.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.window.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window.window();
        metrics.pacing_rate = self.window.pacing_rate();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
