//! Counters that the endpoints of a QUIC flow, on a thread of their own, share with the switch. The switch cannot read
//! them from packets, which are encrypted.

use knee_cc::{CaState, Entry};
use knee_core::Time;
use knee_net::observe::{FlowCounts, States};
use knee_net::output::SenderState;
use knee_qlog::Log;
use knee_quinn::{Peer, Watch};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The account of a flow.
pub struct Account {
    entry: &'static Entry,
    /// Sees the sender's controller.
    pub watch: Arc<Watch>,
    /// Log of the sender's events.
    pub log: Option<Log>,
    figures: Mutex<Figures>,
    /// True if all has been acknowledged.
    complete: AtomicBool,
}

/// The counters.
#[derive(Debug)]
struct Figures {
    received: u64,
    lost: u64,
    mtu: u16,
    /// Integral of the window over time, packets times ns, when it was last brought up to date, and the window then.
    cwnd_integral: (u128, Time, u32),
    completed: Option<Time>,
    states: States,
    /// When, what, and the window then, since the switch last asked.
    events: Vec<(Time, &'static str, f64)>,
}

impl Account {
    /// The account of a flow that starts at `start` with an algorithm of `entry`, whose controllers `watch` sees.
    pub fn new(entry: &'static Entry, watch: Arc<Watch>, start: Time, log: Option<Log>) -> Self {
        let states = States { phase: 0, ca: CaState::Open, timeouts: 0 };
        let cwnd_integral = (0, start, 0);
        let figures =
            Figures { received: 0, lost: 0, mtu: 0, cwnd_integral, completed: None, states, events: Vec::new() };
        let complete = AtomicBool::new(false);
        Self { entry, watch, log, figures: Mutex::new(figures), complete }
    }

    fn look<T>(&self, look: impl FnOnce(&mut Figures) -> T) -> T {
        look(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what sender and receiver have come to at `now`.
    pub(crate) fn note(&self, sender: &mut Peer, receiver: &Peer, now: Time) {
        let (control, ca, timeouts) =
            self.watch.look(|seen| (seen.control, seen.view.map_or(CaState::Open, |view| view.ca), seen.persistent));
        let stats = sender.stats();
        self.look(|figures| {
            figures.received = receiver.received();
            if let Some(stats) = stats {
                (figures.lost, figures.mtu) = (stats.lost_packets, stats.mtu);
            }
            let Some(control) = control else { return };
            figures.advance(now, control.cwnd);
            let after = States { phase: control.phase, ca, timeouts };
            let before = std::mem::replace(&mut figures.states, after);
            for event in after.events_since(before, self.entry.phases) {
                figures.events.push((now, event, f64::from(control.cwnd)));
                if let Some(log) = &self.log {
                    log.state(now, event);
                }
            }
        });
        if sender.finished() && !self.complete.load(Relaxed) {
            self.look(|figures| figures.completed = Some(now));
            self.complete.store(true, Relaxed);
        }
    }

    /// Returns true if all of a finite transfer has been acknowledged.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Relaxed)
    }

    /// When that was.
    pub(crate) fn completed(&self) -> Option<Time> {
        self.look(|figures| figures.completed)
    }

    /// The RTT samples and the events since this was last called.
    pub(crate) fn take_news(&self) -> (Vec<Time>, Vec<(Time, &'static str, f64)>) {
        let rtts = self.watch.look(|seen| std::mem::take(&mut seen.rtts));
        (rtts, self.look(|figures| std::mem::take(&mut figures.events)))
    }

    /// The counts of the switch at `now` with those of the endpoints.
    pub(crate) fn counts(&self, counts: FlowCounts, now: Time) -> FlowCounts {
        let in_flight = self.watch.look(|seen| seen.view).map_or(0, |view| u64::from(view.in_flight));
        self.look(|figures| {
            figures.advance(now, figures.cwnd_integral.2);
            FlowCounts {
                delivered_bytes: figures.received,
                new_bytes: figures.received + in_flight * u64::from(figures.mtu),
                outstanding: in_flight,
                lost: figures.lost,
                retransmitted: figures.lost,
                timeouts: u64::from(figures.states.timeouts),
                cwnd_integral: figures.cwnd_integral.0,
                ..counts
            }
        })
    }

    /// The sender's part of a row of the time series.
    pub(crate) fn sender(&self) -> SenderState {
        let (control, view) = self.watch.look(|seen| (seen.control, seen.view));
        SenderState {
            phase: control.map_or(0, |control| control.phase),
            ca: view.map_or(CaState::Open, |view| view.ca),
            full_control: self.entry.needs.full_control,
            srtt: view.map_or(Time::ZERO, |view| view.srtt),
            cwnd: Some(control.map_or(0, |control| control.cwnd)),
            in_flight: view.map_or(0, |view| view.in_flight),
            pacing_rate_bps: control.and_then(|control| control.pacing_rate).map(knee_core::Rate::as_bps),
        }
    }
}

impl Figures {
    /// Counts the window up to `now`, from when on it is `cwnd`.
    fn advance(&mut self, now: Time, cwnd: u32) {
        let (sum, until, before) = &mut self.cwnd_integral;
        *sum += u128::from(*before) * u128::from(now.saturating_sub(*until).as_nanos());
        (*until, *before) = (now.max(*until), cwnd);
    }
}
