//! Watches what an algorithm asks for, so that one that cannot run ends its run with a reason.

use knee_cc::{Ack, Congestion, CongestionControl, Control, DynCongestionControl, Sent, StateChange, Undo, View};
use knee_core::packet::MSS;
use knee_quinn::proto::RttEstimator;
use knee_quinn::proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Largest window, packets; `knee` holds algorithms written in Python to the same (`crates/knee-py/src/own.rs`).
const MAX_WINDOW: u64 = 1_000_000_000;
/// Bytes that a flow may send for each byte that the link could have carried, and beside these. A flow that sends ten
/// times that much loses nine packets of ten; the spare is more than any path and buffer of the criteria hold.
const MAX_EXCESS: f64 = 10.0;
const SPARE_BYTES: u64 = 32_000_000;
/// The window that a flow has from a failure on until its run has been stopped, packets.
const SAFE_WINDOW: u32 = 2;

/// Limits of window and volume for the flows of a run, and the first reason why the run failed.
#[derive(Clone)]
pub(crate) struct Guard {
    failure: Arc<Mutex<Option<String>>>,
    /// The greatest rate of the link, bit/s.
    rate: u64,
}

impl Guard {
    pub(crate) fn new(rate: u64) -> Self {
        Self { failure: Arc::default(), rate }
    }

    fn fail(&self, reason: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// Succeeds while the run may go on.
    ///
    /// # Errors
    /// The reason why the run failed.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    /// Returns true if a window is within 1 to `most`; else the run fails at `at_s`. `what` names the window, `unit`
    /// the unit of `window` and `most`.
    fn allows_window(&self, what: &str, unit: &str, window: u64, most: u64, at_s: f64) -> bool {
        let allowed = (1..=most).contains(&window);
        if !allowed {
            self.fail(format!("At {at_s:.3} s {what} is {window} {unit}; expected 1 to {most}."));
        }
        allowed
    }

    /// Returns true if a flow may have sent this many bytes by `at_s`; else the run fails.
    fn allows_sent(&self, bytes: u64, at_s: f64) -> bool {
        let carried = self.rate as f64 / 8.0 * at_s;
        let allowed = bytes <= SPARE_BYTES || (bytes - SPARE_BYTES) as f64 <= MAX_EXCESS * carried;
        if !allowed {
            let (sent, carried) = (bytes as f64 / 1e6, carried / 1e6);
            self.fail(format!(
                "It sends without end: by {at_s:.3} s one flow has sent {sent:.1} MB; the link could have carried {carried:.1} MB."
            ));
        }
        allowed
    }
}

/// An algorithm of knee's interface under watch.
#[derive(Clone)]
pub(crate) struct GuardedAlgorithm {
    inner: Box<dyn DynCongestionControl>,
    guard: Guard,
}

impl GuardedAlgorithm {
    pub(crate) const fn new(inner: Box<dyn DynCongestionControl>, guard: Guard) -> Self {
        Self { inner, guard }
    }

    fn check(&self, view: &View, control: &mut Control) {
        let at_s = view.now.as_secs_f64();
        let sent = (view.delivered + view.lost + u64::from(view.in_flight)) * u64::from(MSS);
        if !self.guard.allows_window("control.cwnd", "packets", u64::from(control.cwnd), MAX_WINDOW, at_s)
            || !self.guard.allows_sent(sent, at_s)
        {
            control.cwnd = SAFE_WINDOW;
        }
    }
}

impl CongestionControl for GuardedAlgorithm {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        self.inner.on_measure(ack, control);
        self.check(ack.view, control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.inner.on_ack(ack, control);
        self.check(ack.view, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.inner.on_congestion(congestion, control);
        self.check(congestion.view, control);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        self.inner.on_state(change, control);
        self.check(change.view, control);
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        self.inner.on_undo(undo, control);
        self.check(undo.view, control);
    }

    fn on_sent(&mut self, sent: &Sent, control: &mut Control) {
        self.inner.on_sent(sent, control);
        self.check(sent.view, control);
    }
}

/// Makes controllers of quinn's interface under watch.
pub(crate) struct GuardedFactory {
    pub(crate) inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub(crate) guard: Guard,
    /// A pacing rate is followed.
    pub(crate) paced: bool,
}

impl ControllerFactory for GuardedFactory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, mtu);
        Box::new(GuardedController {
            inner,
            guard: self.guard.clone(),
            paced: self.paced,
            mtu: mtu.max(1),
            start: now,
            now,
            sent: 0,
            allowed: true,
        })
    }
}

struct GuardedController {
    inner: Box<dyn Controller>,
    guard: Guard,
    /// Its pacing rate is followed.
    paced: bool,
    /// Bytes of a full datagram.
    mtu: u16,
    /// When its connection began.
    start: Instant,
    /// The latest event.
    now: Instant,
    /// Bytes sent.
    sent: u64,
    /// The bytes sent so far were within the limit of the guard.
    allowed: bool,
}

impl GuardedController {
    /// Time since its connection began, s.
    fn at_s(&self) -> f64 {
        self.now.saturating_duration_since(self.start).as_secs_f64()
    }
}

impl Controller for GuardedController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.now = now;
        self.sent = self.sent.saturating_add(bytes);
        self.allowed = self.allowed && self.guard.allows_sent(self.sent, self.at_s());
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.now = now;
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.now = now;
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.now = now;
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
        self.mtu = new_mtu.max(1);
    }

    fn window(&self) -> u64 {
        let (window, most) = (self.inner.window(), MAX_WINDOW * u64::from(self.mtu));
        if self.allowed && self.guard.allows_window("window()", "bytes", window, most, self.at_s()) {
            window
        } else {
            u64::from(SAFE_WINDOW) * u64::from(self.mtu)
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.pacing_rate = metrics.pacing_rate.filter(|_| self.paced);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), guard: self.guard.clone(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
