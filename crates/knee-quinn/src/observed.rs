//! A [`Watch`] on a stack's own controller: its window, and RTT samples and state from the calls that it gets.

use crate::rtt::Sampler;
use crate::watch::Watch;
use knee_cc::{CaState, Control, INFINITE_SSTHRESH, View};
use knee_core::convert::{saturating_u32, saturating_u64};
use knee_core::{Rate, Time};
use std::sync::Arc;
use std::time::Instant;

/// Window and pacing rate of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    /// Window, bytes.
    pub window: u64,
    /// Threshold of slow start, bytes.
    pub ssthresh: Option<u64>,
    /// Pacing rate that is followed, bit/s.
    pub pacing_rate: Option<u64>,
}

/// The state of a connection as its controller's calls tell it.
#[derive(Clone, Debug)]
pub struct Observed {
    watch: Option<Arc<Watch>>,
    /// Time zero.
    base: Instant,
    mtu: u16,
    /// Bytes in flight.
    in_flight: u64,
    /// When the newest packet left that the ACK being taken acknowledges.
    newest: Option<Time>,
    /// The latest reduction, of what was sent until then, began then.
    recovery_start: Option<Time>,
    rtt: Sampler,
    view: View,
}

impl Observed {
    /// A connection that begins at `now`, whose datagrams have `mtu` bytes.
    pub fn new(watch: Arc<Watch>, now: Instant, mtu: u16) -> Self {
        Self {
            watch: Some(watch),
            base: now,
            mtu: mtu.max(1),
            in_flight: 0,
            newest: None,
            recovery_start: None,
            rtt: Sampler::default(),
            view: View::INITIAL,
        }
    }

    /// A copy that nobody watches.
    #[must_use]
    pub fn unwatched(&self) -> Self {
        Self { watch: None, ..self.clone() }
    }

    fn time(&self, at: Instant) -> Time {
        Time::from_nanos(saturating_u64(at.saturating_duration_since(self.base).as_nanos()))
    }

    fn packets(&self, bytes: u64) -> u32 {
        saturating_u32((bytes / u64::from(self.mtu)).min(u64::from(INFINITE_SSTHRESH)))
    }

    /// Publishes control, view and RTT sample to the watcher.
    fn show(&mut self, rtt: Option<Time>, metrics: Metrics) {
        let Some(watch) = &self.watch else { return };
        self.view.in_flight = self.packets(self.in_flight);
        let control = Control {
            ssthresh: metrics.ssthresh.map_or(INFINITE_SSTHRESH, |bytes| self.packets(bytes)),
            pacing_rate: metrics.pacing_rate.map(Rate::from_bps),
            ..Control::initial(self.packets(metrics.window))
        };
        watch.note(control, &self.view, rtt);
    }

    /// Packets of `bytes` have left.
    pub fn on_sent(&mut self, bytes: u64, metrics: Metrics) {
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.show(None, metrics);
    }

    /// A packet that left at `sent` is acknowledged.
    pub fn on_ack(&mut self, sent: Instant) {
        self.newest = self.newest.max(Some(self.time(sent)));
    }

    /// The last acknowledged packet of an ACK was taken; `in_flight` bytes are in flight after it.
    pub fn on_end_acks(&mut self, now: Instant, in_flight: u64, metrics: Metrics) {
        self.view.now = self.time(now);
        self.in_flight = in_flight;
        let newest = self.newest.take();
        if newest > self.recovery_start {
            self.view.ca = CaState::Open;
        }
        let rtt = newest.and_then(|sent| self.rtt.sample(sent, &mut self.view));
        self.show(rtt, metrics);
    }

    /// Packets were lost, the newest of which left at `sent`; or marked, where no bytes were lost.
    pub fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64, metrics: Metrics) {
        self.view.now = self.time(now);
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        if persistent && let Some(watch) = &self.watch {
            watch.note_persistent_congestion();
        }
        if self.recovery_start.is_none_or(|start| self.time(sent) > start) {
            self.recovery_start = Some(self.view.now);
            self.view.ca = if lost_bytes > 0 { CaState::Recovery } else { CaState::Cwr };
        }
        self.show(None, metrics);
    }

    /// Datagrams have `mtu` bytes from now on.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu.max(1);
    }
}
