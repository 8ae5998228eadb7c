//! The BPF program's arithmetic and states (`linux/include/bbr3`) beside these, on random input.
//!
//! Samples are the same for both here. On a stock kernel the program makes them of less (`linux/bpf/bbr3_sample.h`).

use super::control::rate_bytes_per_sec;
use super::loss::inflight_at_loss;
use super::model::bdp_multiple;
use super::probe_bw::with_headroom;
use super::*;
use crate::testing::{self, ack_of_nothing};
use crate::{CaState, RateSample};
use knee_kernel_check as c;

const RUNS: u32 = 1_000_000;
const MSS: u32 = 1448;

/// A number below 2^bits, small ones as likely as large ones.
fn up_to(rng: &mut Rng, bits: u64) -> u64 {
    rng.next_u64() >> (64 - 1 - rng.below(bits))
}

/// A bound of the simulator as the program has it.
fn bound(value: u64) -> u32 {
    value.min(u64::from(u32::MAX)) as u32
}

#[test]
fn rates_bdps_headroom_and_the_point_of_loss_are_the_same() {
    let rng = &mut Rng::stream(1, "bbr3");
    for _ in 0..RUNS {
        let (bw, gain, mss, margin) = (up_to(rng, 32), rng.below(4001), up_to(rng, 16), rng.below(51));
        let rate = rate_bytes_per_sec(bw, gain, mss, margin);
        assert_eq!(c::bbr3_rate(bw as u32, gain as u32, mss as u32, margin as u32), rate, "{bw} {gain} {mss} {margin}");
        // Below 2^27 packets, where the program ends.
        let rtt = up_to(rng, 27);
        if bw * rtt < 1 << (27 + 24) {
            let program = c::Bbr3 { min_rtt: rtt as u32, ..Default::default() };
            let bdp = bdp_multiple(bw, Time::from_micros(rtt), gain);
            assert_eq!(u64::from(c::bbr3_bdp(&program, bw as u32, gain as u32)), bdp, "{bw} {rtt} {gain}");
        }
        let limit = up_to(rng, 31);
        assert_eq!(u64::from(c::bbr3_with_headroom(limit as u32)), with_headroom(limit, 150), "{limit}");
        let (in_flight, lost) = (1 + up_to(rng, 24), 1 + up_to(rng, 24));
        let theirs = c::bbr3_inflight_at_loss(in_flight as u32, lost as u32);
        assert_eq!(u64::from(theirs), inflight_at_loss(in_flight, lost, 1, 20), "{in_flight} {lost}");
    }
    assert_eq!(c::bbr3_with_headroom(u32::MAX), bound(with_headroom(INFINITE, 150)));
}

/// A connection in both implementations, over a path that a test makes up.
struct Twins {
    rust: Bbr3,
    program: c::Bbr3,
    control: Control,
    view: View,
}

impl Twins {
    fn new(rng: &Rng) -> Self {
        let now = Time::from_secs(4_000);
        let init = Init { now, rng: rng.clone(), ..testing::init() };
        let rust = Bbr3::new(Params::default(), &init);
        let control = Control::initial(init.cwnd);
        let mut twins =
            Self { rust, program: c::Bbr3::default(), control, view: View { now, in_flight: 10, ..testing::view() } };
        let view = twins.program_view();
        c::bbr3_init(&mut twins.program, &view, init.rtt.as_micros() as u32, MSS);
        twins
    }

    fn program_view(&self) -> c::Bbr3View {
        c::Bbr3View {
            now: self.view.now.as_micros(),
            cwnd: self.control.cwnd,
            in_flight: self.view.in_flight,
            delivered: self.view.delivered as u32,
            lost: self.view.lost as u32,
            snd_nxt: 0,
            ca_state: self.view.ca as u8,
            app_limited: self.view.app_limited,
            cwnd_limited: false,
        }
    }

    /// Lets the program draw what the simulator will draw next.
    fn same_draws(&self) {
        let mut rng = self.rust.rng.clone();
        c::bbr3_draws(rng.below(2) as u32, (rng.below(1_000_000_000) / 1_000) as u32);
    }

    fn ack(&mut self, rtt: Option<Time>, delivered: u32, limited: bool, rate: RateSample) {
        let ack = Ack {
            view: &self.view,
            rtt,
            acked: delivered,
            delivered,
            cwnd_limited: limited,
            rate: &rate,
            ..ack_of_nothing()
        };
        let sample = Sample::new(&ack, &self.rust.model.mark);
        let theirs = c::Bbr3Sample {
            valid: sample.valid,
            app_limited: sample.app_limited,
            bw: sample.bw as u32,
            delivered: sample.delivered as u32,
            acked: delivered,
            prior_delivered: rate.prior_delivered as u32,
            tx_in_flight: rate.tx_in_flight,
            lost: sample.lost as u32,
            rtt: rtt.map_or(u32::MAX, |rtt| rtt.as_micros() as u32),
        };
        self.same_draws();
        let mut view = c::Bbr3View { cwnd_limited: limited, ..self.program_view() };
        self.rust.on_ack(&ack, &mut self.control);
        c::bbr3_on_sample(&mut self.program, &mut view, &theirs);
        assert_eq!(view.cwnd, self.control.cwnd);
        self.compare();
    }

    fn lose(&mut self, signal: Signal) {
        self.same_draws();
        let view = self.program_view();
        self.rust.on_congestion(&Congestion { view: &self.view, signal }, &mut self.control);
        match signal {
            Signal::Ecn => c::bbr3_handle_echo(&mut self.program, &view),
            Signal::Loss | Signal::Timeout => c::bbr3_save_state(&mut self.program, &view),
        }
        self.compare();
    }

    fn enter(&mut self, ca: CaState) {
        self.view.ca = ca;
        let before = self.control.cwnd;
        let change = StateChange { view: &self.view, event: StateEvent::Entered(ca) };
        self.rust.on_state(&change, &mut self.control);
        let left = c::bbr3_left_recovery(&mut self.program, ca as u8);
        let cwnd = if left { before.max(self.program.prior_cwnd) } else { before };
        assert_eq!(cwnd, self.control.cwnd);
        self.compare();
    }

    fn restart(&mut self) {
        self.same_draws();
        self.view.app_limited = true;
        let mut view = self.program_view();
        let change = StateChange { view: &self.view, event: StateEvent::Restart };
        self.rust.on_state(&change, &mut self.control);
        c::bbr3_restart(&mut self.program, &mut view);
        assert_eq!(view.cwnd, self.control.cwnd);
        self.view.app_limited = false;
        self.compare();
    }

    fn undo(&mut self) {
        let undo = Undo { view: &self.view, prior_cwnd: self.control.cwnd };
        let view = self.program_view();
        self.rust.on_undo(&undo, &mut self.control);
        c::bbr3_restore_state(&mut self.program, &view);
        assert_eq!(view.cwnd.max(self.program.prior_cwnd), self.control.cwnd);
        self.compare();
    }

    fn compare(&self) {
        let (mine, theirs) = (&self.rust, &self.program);
        assert_eq!(mine.state as u8, theirs.state);
        assert_eq!(mine.output.rate(), knee_core::Rate::from_bytes_per_sec(theirs.rate), "in {:?}", mine.state);
        let rtt = mine.min_rtt.rtt().map_or(u32::MAX, |rtt| rtt.as_micros() as u32);
        assert_eq!((rtt, mine.model.round as u32), (theirs.min_rtt, theirs.round));
        assert_eq!(mine.model.max_bw() as u32, theirs.max_bw[0].max(theirs.max_bw[1]));
        assert_eq!(mine.model.extra_acked() as u32, theirs.extra_acked[0][1]);
        assert_eq!(
            [bound(mine.inflight_longterm), bound(mine.short_term.inflight), bound(mine.short_term.bw)],
            [theirs.inflight_longterm, theirs.inflight_shortterm, theirs.bw_shortterm]
        );
        assert_eq!((mine.full_pipe.reached, mine.full_pipe.now), (theirs.full_reached, theirs.full_now));
        assert_eq!((mine.probe.ack_phase as u8, mine.probe.is_sample), (theirs.acks, theirs.probe_samples));
        assert_eq!(mine.saved.prior_cwnd, theirs.prior_cwnd);
    }
}

#[test]
fn whole_connections_take_the_same_course_ack_by_ack() {
    let rng = &mut Rng::stream(1, "bbr3 connections");
    let mut seen = [0; 7];
    for _ in 0..300 {
        let mut twins = Twins::new(rng);
        // A path of some packets per ms and some ms, whose queue holds some of them.
        let (per_ms, base) = (1 + rng.below(20), 5 + rng.below(60));
        let room = 1 + rng.below(2 * per_ms * base);
        let mut lost_seen = 0;
        for _ in 0..2_000 {
            let step = 1 + rng.below(10);
            twins.view.now += Time::from_millis(step);
            let window = u64::from(twins.control.cwnd);
            let queue = window.saturating_sub(per_ms * base).min(room);
            let lost = window.saturating_sub(per_ms * base + room).min(3) * u64::from(rng.chance(0.2));
            let delivered = (per_ms * step).min(window) as u32;
            twins.view.delivered += u64::from(delivered);
            twins.view.lost += lost;
            twins.view.in_flight = (window - window.min(rng.below(3))) as u32;
            let rtt = base + queue / per_ms;
            let valid = rng.chance(0.95);
            let rate = RateSample {
                delivered: twins.view.in_flight.min((per_ms * rtt) as u32) * u32::from(valid),
                interval: valid.then(|| Time::from_millis(rtt)),
                prior_delivered: twins.view.delivered.saturating_sub(window),
                prior_lost: lost_seen,
                tx_in_flight: twins.view.in_flight,
                app_limited: rng.chance(0.05),
                ..RateSample::NONE
            };
            if rng.chance(0.1) {
                lost_seen = twins.view.lost;
            }
            twins.ack(rng.chance(0.9).then(|| Time::from_millis(rtt)), delivered, rng.chance(0.8), rate);
            match rng.below(400) {
                0 => {
                    twins.lose(Signal::Timeout);
                    twins.enter(CaState::Loss);
                }
                1..=4 => {
                    twins.lose(Signal::Loss);
                    twins.enter(CaState::Recovery);
                }
                5 => twins.lose(Signal::Ecn),
                6..=60 if twins.view.ca != CaState::Open => twins.enter(CaState::Open),
                61 if twins.view.ca != CaState::Open => twins.undo(),
                62 => {
                    twins.view.now += Time::from_millis(rng.below(3_000));
                    twins.restart();
                }
                _ => {}
            }
            seen[usize::from(twins.control.phase)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 1_000), "{seen:?}");
}
