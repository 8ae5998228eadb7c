//! A quinn controller that asks an algorithm of `knee-cc`.
//!
//! The way of an ACK: quinn reports each packet it acknowledges ([`Controller::on_ack`]), then the end of the ACK
//! ([`Controller::on_end_acks`]): RTT and delivery rate are sampled, recovery may end, the algorithm measures and grows
//! its window. Packets that the ACK shows to be lost follow ([`Controller::on_congestion_event`]): at most once per
//! round trip the algorithm sets its threshold, and the window comes down to it at once (RFC 9002, 7.3.2).
//!
//! Windows are counted in packets inside and in bytes outside; a packet is a datagram of the current MTU.

use crate::factory::Control as Factory;
use crate::flight::{Counters, Flight, SentBurst};
use crate::rtt::Sampler;
use crate::watch::Watch;
use knee_cc::{
    Ack, CaState, Congestion, Control, DynCongestionControl, Entry, INFINITE_SSTHRESH, Init, RateSample, Sent, Signal,
    StateChange, StateEvent, View,
};
use knee_core::convert::saturating_u32;
use knee_core::{Bytes, Rate, Rng, Time};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller as QuicController, ControllerMetrics};
use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The least window (RFC 9002, 7.2), packets.
const MIN_WINDOW: u32 = 2;
/// The initial window is ten packets, but no more than this unless two are (RFC 9002, 7.2), bytes.
const INITIAL_BYTES: u64 = 14_720;
/// How many packets are remembered beyond four windows.
const SPARE_RECORDS: usize = 256;

/// The packets that the current ACK acknowledges.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    packets: u32,
    /// The burst of the newest one.
    newest: Option<SentBurst>,
    /// When that left, also where its burst is not known.
    sent: Time,
}

/// Turns quinn's instants into times from the start of the connection on.
#[derive(Clone, Copy, Debug)]
struct Clock {
    zero: Instant,
    latest: (Instant, Time),
}

impl Clock {
    const fn new(zero: Instant) -> Self {
        Self { zero, latest: (zero, Time::ZERO) }
    }

    fn time(&mut self, at: Instant) -> Time {
        if at != self.latest.0 {
            let since = at.saturating_duration_since(self.zero);
            let ns = since.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(since.subsec_nanos()));
            self.latest = (at, Time::from_nanos(ns.min(u64::MAX >> 1)));
        }
        self.latest.1
    }
}

/// Congestion control of one QUIC connection.
pub struct Controller {
    /// Input of a new algorithm.
    factory: Arc<Factory>,
    entry: &'static Entry,
    rng: Rng,
    /// The algorithm, from the first RTT sample on. quinn shares controllers between threads by contract, but calls
    /// those methods that reach the algorithm one at a time: the lock is never taken.
    cc: Option<Mutex<Box<dyn DynCongestionControl>>>,
    /// The connection's clock, and that of what it sent: packets that quinn reports one after the other often share
    /// both.
    clock: Clock,
    sent_clock: Clock,
    control: Control,
    view: View,
    flight: Flight,
    batch: Batch,
    mtu: u16,
    initial_window: u32,
    /// Bytes in flight.
    in_flight: u64,
    rtt: Sampler,
    /// Start of the latest reduction; losses of packets sent before it cause no other.
    recovery_start: Option<Time>,
    /// When packets were last found lost: their content leaves again from then on.
    lost_at: Time,
    app_limited_until: u64,
    /// Packets found lost since the last ACK.
    lost_since_ack: u32,
    watch: Option<Arc<Watch>>,
}

impl Controller {
    pub(crate) fn new(factory: Arc<Factory>, rng: Rng, now: Instant, mtu: u16, watch: Option<Arc<Watch>>) -> Self {
        let mtu = mtu.max(1);
        let initial_window = saturating_u32((INITIAL_BYTES / u64::from(mtu)).clamp(u64::from(MIN_WINDOW), 10));
        Self {
            entry: factory.entry(),
            factory,
            rng,
            cc: None,
            clock: Clock::new(now),
            sent_clock: Clock::new(now),
            control: Control::initial(initial_window),
            view: View { mss: mtu.into(), ..View::INITIAL },
            flight: Flight::new(),
            batch: Batch::default(),
            mtu,
            initial_window,
            in_flight: 0,
            rtt: Sampler::default(),
            recovery_start: None,
            lost_at: Time::ZERO,
            app_limited_until: 0,
            lost_since_ack: 0,
            watch,
        }
    }

    /// The algorithm's name.
    pub const fn name(&self) -> &'static str {
        self.entry.name
    }

    /// Window, threshold and phase, in packets of [`Controller::mtu`] bytes.
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// The algorithm's view of the connection, in packets.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The state the algorithm is in.
    pub fn phase(&self) -> Option<&'static str> {
        self.entry.phases.get(usize::from(self.control.phase)).copied()
    }

    /// Bytes of a full datagram (UDP payload).
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Rate at which datagrams should leave, where the algorithm sets one or asks for one. quinn does not ask for it:
    /// it paces at 1.25 windows per smoothed RTT, but lets ten packets go at once. Whoever drives the connection can.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.control.pacing_rate.or_else(|| self.factory.needs().pacing.then(|| self.own_pacing_rate()).flatten())
    }

    /// The rate of an algorithm that asks for pacing and sets none, as Linux has it (`tcp_update_pacing_rate`): twice
    /// `cwnd / srtt` in slow start, 1.2 times beyond. None before the first RTT sample.
    fn own_pacing_rate(&self) -> Option<Rate> {
        let Control { cwnd, ssthresh, .. } = self.control;
        let percent = if cwnd < ssthresh / 2 { 200 } else { 120 };
        let window = Bytes(u64::from(cwnd.max(self.view.in_flight)) * u64::from(self.mtu));
        let srtt = self.view.srtt;
        (srtt > Time::ZERO).then(|| Rate::over(window, srtt).mul_div(percent, 100))
    }

    /// The connection's clock. It does not go back.
    fn advance(&mut self, now: Instant) -> Time {
        let now = self.clock.time(now).max(self.view.now);
        self.view.now = now;
        now
    }

    /// Publishes control, view and RTT sample to the watcher.
    fn show(&self, rtt: Option<Time>) {
        if let Some(watch) = &self.watch {
            let control = Control { pacing_rate: self.pacing_rate(), ..self.control };
            watch.note(control, &self.view, rtt);
        }
    }

    fn packets(&self, bytes: u64) -> u32 {
        // The usual case; divisions are slow.
        if bytes == u64::from(self.mtu) {
            return 1;
        }
        saturating_u32(bytes.div_ceil(u64::from(self.mtu)).min(u64::from(u32::MAX >> 2)))
    }

    fn counters(&self) -> Counters {
        let View { delivered, delivered_ce, lost, in_flight, app_limited, .. } = self.view;
        Counters { delivered, delivered_ce, lost, in_flight, app_limited }
    }

    /// Asks the algorithm, once it is there.
    fn ask(&mut self, call: impl FnOnce(&mut dyn DynCongestionControl, &View, &mut Control)) {
        if let Some(cc) = &mut self.cc {
            let cc = cc.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
            call(&mut **cc, &self.view, &mut self.control);
            self.control.cwnd = self.control.cwnd.max(1);
        }
    }

    fn tell(&mut self, event: StateEvent) {
        self.ask(|cc, view, control| cc.on_state(&StateChange { view, event }, control));
    }

    fn enter(&mut self, state: CaState) {
        if self.view.ca != state {
            self.view.ca = state;
            self.tell(StateEvent::Entered(state));
        }
    }

    /// The first RTT is known: the algorithm takes over.
    fn start(&mut self, rtt: Time) {
        let init = Init {
            now: self.view.now,
            rtt,
            cwnd: self.control.cwnd,
            mss: u32::from(self.mtu),
            tick: Time::ZERO,
            paced: true,
            accurate_ecn: false,
            tso: true,
            rng: self.rng.clone(),
        };
        self.cc = Some(Mutex::new(self.factory.algorithm(&init)));
        self.tell(StateEvent::Start);
    }

    /// Notes whether what is sent from now on is limited by the application (Linux's `tcp_rate_check_app_limited`).
    fn note_app_limit(&mut self, app_limited: bool) {
        if app_limited {
            self.app_limited_until = self.view.delivered + u64::from(self.view.in_flight).max(1);
            self.view.app_limited = true;
        } else if self.view.delivered > self.app_limited_until {
            self.view.app_limited = false;
        }
    }

    fn recovering(&self) -> bool {
        self.view.ca != CaState::Open
    }

    /// Ends a reduction once a packet is acknowledged that was sent after it began (RFC 9002, 7.3.2).
    ///
    /// An algorithm with full control, which keeps its window through a recovery, stays in it as in Linux until what
    /// was lost has come: Linux repairs losses of what it sent in a recovery before it leaves that, or goes into the
    /// next one with the same ACK.
    fn end_recovery(&mut self, newest: Time) {
        let full_control = self.entry.needs.full_control;
        let repaired = !full_control || newest > self.lost_at;
        if self.recovering() && repaired && self.recovery_start.is_some_and(|start| newest > start) {
            if !full_control {
                self.tell(StateEvent::ReductionDone);
            }
            self.enter(CaState::Open);
        }
    }

    /// A packet of `bytes` that left at `sent` is acknowledged: quinn's [`QuicController::on_ack`] without its
    /// estimator of the RTT, which nobody else can make. That one is of the ACK before, so the RTT is sampled here.
    pub fn acknowledged(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.advance(now);
        let sent = self.sent_clock.time(sent);
        let burst = self.flight.acknowledge(sent, bytes);
        self.batch.packets += 1;
        if self.batch.packets == 1 || sent >= self.batch.sent {
            self.batch.sent = sent;
            self.batch.newest = burst.or(self.batch.newest);
        }
    }

    /// Begins a reduction.
    fn reduce(&mut self, signal: Signal) {
        self.recovery_start = Some(self.view.now);
        self.control.cwnd_cnt = 0;
        self.ask(|cc, view, control| cc.on_congestion(&Congestion { view, signal }, control));
        self.control.ssthresh = self.control.ssthresh.max(1);
        match signal {
            Signal::Loss => self.enter(CaState::Recovery),
            Signal::Ecn => self.enter(CaState::Cwr),
            Signal::Timeout => {
                self.tell(StateEvent::Timeout);
                self.control.cwnd = MIN_WINDOW;
                self.enter(CaState::Loss);
            }
        }
        if !self.entry.needs.full_control {
            self.control.cwnd = self.control.cwnd.min(self.control.ssthresh).max(MIN_WINDOW);
        }
    }

    /// Packets were lost, or marked (`is_ecn`): reduces once for what was sent before the last reduction.
    fn congested(&mut self, now: Instant, sent: Instant, is_persistent: bool, is_ecn: bool, lost_bytes: u64) {
        self.advance(now);
        let sent = self.sent_clock.time(sent);
        if is_ecn {
            // quinn does not say how many packets were marked.
            self.view.delivered_ce += 1;
        } else {
            let packets = self.packets(lost_bytes);
            self.view.lost += u64::from(packets);
            self.lost_since_ack = self.lost_since_ack.saturating_add(packets);
            self.in_flight = self.in_flight.saturating_sub(lost_bytes);
            self.view.in_flight = self.packets(self.in_flight);
            self.flight.lose(sent, lost_bytes);
            self.lost_at = self.view.now;
        }
        if is_persistent {
            if let Some(watch) = &self.watch {
                watch.note_persistent_congestion();
            }
            self.reduce(Signal::Timeout);
        } else if self.recovery_start.is_none_or(|start| sent > start) {
            self.reduce(if is_ecn { Signal::Ecn } else { Signal::Loss });
        }
        self.show(None);
    }

    /// Forgets what can no longer be acknowledged: what left before the newest packet acknowledged, longer ago than
    /// any stack waits before it declares a packet lost.
    fn forget_old(&mut self, newest: Time) {
        let patience = (self.view.srtt * 4).saturating_add(Time::from_millis(10));
        self.flight.forget_before(newest.min(self.view.now.saturating_sub(patience)));
    }
}

impl QuicController for Controller {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let now = self.advance(now);
        let idle = self.in_flight == 0;
        if idle {
            self.tell(StateEvent::Restart);
        }
        let packets = self.packets(bytes);
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.view.in_flight = self.packets(self.in_flight);
        self.view.snd_nxt += u64::from(packets);
        let most = (self.control.cwnd as usize).saturating_mul(4).saturating_add(SPARE_RECORDS);
        let counters = self.counters();
        self.flight.push(now, bytes, self.view.snd_nxt, &counters, idle, most);
        if self.entry.needs.sent {
            self.ask(|cc, view, control| cc.on_sent(&Sent { view, packets, retransmission: false }, control));
        }
        self.show(None);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, _rtt: &RttEstimator) {
        self.acknowledged(now, sent, bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        let now = self.advance(now);
        let Batch { packets, newest, sent } = std::mem::take(&mut self.batch);
        let prior_in_flight = self.view.in_flight;
        self.in_flight = in_flight;
        self.view.in_flight = self.packets(in_flight);
        if packets == 0 {
            return;
        }
        let prior_una = self.view.snd_una;
        self.view.delivered += u64::from(packets);
        if let Some(burst) = newest {
            self.view.snd_una = prior_una.max(burst.end);
        }
        let rtt = self.rtt.sample(sent, &mut self.view);
        let counters = self.counters();
        let rate =
            newest.map_or(RateSample::NONE, |burst| self.flight.sample(&burst, now, self.view.min_rtt, &counters));
        self.note_app_limit(app_limited);
        if self.cc.is_none()
            && let Some(rtt) = rtt
        {
            self.start(rtt);
        }
        self.end_recovery(sent);
        let lost = std::mem::take(&mut self.lost_since_ack);
        let (recovering, full_control) = (self.recovering(), self.entry.needs.full_control);
        let rate = if self.entry.needs.rate { rate } else { RateSample::NONE };
        self.ask(|cc, view, control| {
            let ack = Ack {
                view,
                rtt,
                acked: packets,
                delivered: packets,
                lost,
                prior_in_flight,
                prior_una,
                part: false,
                cwnd_limited: !app_limited,
                ece: false,
                rate: &rate,
            };
            cc.on_measure(&ack, control);
            control.cwnd = control.cwnd.max(1);
            if full_control || !recovering {
                cc.on_ack(&ack, control);
            }
        });
        self.forget_old(sent);
        self.show(rtt);
    }

    // quinn 0.12 says by itself whether the event is a mark.
    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.congested(now, sent, is_persistent_congestion, lost_bytes == 0, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let (old, new) = (u64::from(self.mtu), u64::from(new_mtu.max(1)));
        // The window keeps its bytes, as in Linux (tcp_mtup_probe_success).
        let scaled = |packets: u32| saturating_u32((u64::from(packets) * old / new).clamp(1, u64::from(u32::MAX >> 2)));
        self.mtu = new_mtu.max(1);
        self.view.mss = self.mtu.into();
        if self.cc.is_some() {
            self.control.cwnd = scaled(self.control.cwnd).max(MIN_WINDOW);
            if self.control.ssthresh < INFINITE_SSTHRESH {
                self.control.ssthresh = scaled(self.control.ssthresh).max(MIN_WINDOW);
            }
        }
        self.view.in_flight = self.packets(self.in_flight);
    }

    fn window(&self) -> u64 {
        // quinn sends while what is in flight stays below the window, so a byte more lets whole packets fill it.
        u64::from(self.control.cwnd.max(MIN_WINDOW)) * u64::from(self.mtu) + 1
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        let ssthresh = self.control.ssthresh;
        metrics.ssthresh = (ssthresh < INFINITE_SSTHRESH).then(|| u64::from(ssthresh) * u64::from(self.mtu));
        metrics.pacing_rate = self.pacing_rate().map(Rate::as_bps);
        metrics
    }

    /// A copy with an algorithm of its own that starts with the window reached. quinn copies controllers to show them,
    /// and where a peer's port changes.
    fn clone_box(&self) -> Box<dyn QuicController> {
        Box::new(Self {
            factory: self.factory.clone(),
            entry: self.entry,
            rng: self.rng.clone(),
            cc: None,
            clock: self.clock,
            sent_clock: self.sent_clock,
            control: self.control,
            view: self.view,
            flight: self.flight.clone(),
            batch: self.batch,
            mtu: self.mtu,
            initial_window: self.initial_window,
            in_flight: self.in_flight,
            rtt: self.rtt,
            recovery_start: self.recovery_start,
            lost_at: self.lost_at,
            app_limited_until: self.app_limited_until,
            lost_since_ack: self.lost_since_ack,
            watch: None,
        })
    }

    fn initial_window(&self) -> u64 {
        u64::from(self.initial_window) * u64::from(self.mtu)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
