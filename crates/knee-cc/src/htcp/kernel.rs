//! The BPF program's arithmetic and states (`linux/include/knee_htcp.h`) beside these, on random input.

use super::*;
use crate::testing::{self, ack_of_nothing};
use crate::{Signal, View};
use knee_core::Rng;
use knee_kernel_check as c;

const RUNS: u32 = 1_000_000;
/// The program counts microseconds where Linux counts ticks.
const TICK: Time = Time::from_micros(1);
const HZ: u64 = 1_000_000;

/// A number below 2^bits, small ones as likely as large ones.
fn up_to(rng: &mut Rng, bits: u64) -> u64 {
    rng.next_u64() >> (64 - 1 - rng.below(bits))
}

#[test]
fn growth_alpha_beta_and_the_throughput_switch_are_the_same() {
    let rng = &mut Rng::stream(1, "htcp");
    for _ in 0..RUNS {
        // 2^31 us are 2147 s; from 2^32 on the program counts no further.
        let (d, rtt_min, rtt_max) = (up_to(rng, 31), up_to(rng, 27), up_to(rng, 27));
        let f = growth(d, HZ);
        assert_eq!(c::htcp_growth(d), f, "{d}");
        let scaled = rtt_scaled(f, rtt_min, HZ);
        assert_eq!(c::htcp_rtt_scaled(f, rtt_min as u32), scaled, "{f} {rtt_min}");
        let beta = BETA_MIN + rng.below(BETA_MAX - BETA_MIN + 1);
        assert_eq!(u64::from(c::htcp_alpha(scaled, beta as u32)), alpha(scaled, beta), "{scaled} {beta}");
        assert_eq!(u64::from(c::htcp_adaptive_beta(rtt_min as u32, rtt_max as u32)), adaptive_beta(rtt_min, rtt_max));
        let (rate, old) = (up_to(rng, 30), up_to(rng, 30));
        assert_eq!(c::htcp_is_steady(rate as u32, old as u32), steady(rate, old), "{rate} {old}");
    }
}

/// A connection in both implementations. It begins 4000 s after boot, so that the first throughput sample, which
/// reaches back to there, is zero in both.
struct Twins {
    rust: Htcp,
    program: c::Htcp,
    params: c::HtcpParams,
    control: Control,
    now: Time,
    ca: CaState,
}

impl Twins {
    fn new(rng: &mut Rng) -> Self {
        let p = Params { use_rtt_scaling: rng.chance(0.5), use_bandwidth_switch: rng.chance(0.5), ..Params::default() };
        let now = Time::from_secs(4_000);
        let rust = Htcp::new(p, &Init { now, tick: TICK, ..testing::init() });
        let mut program = c::Htcp::default();
        c::htcp_init(&mut program, now.as_micros());
        let params = c::HtcpParams {
            use_rtt_scaling: p.use_rtt_scaling.into(),
            use_bandwidth_switch: p.use_bandwidth_switch.into(),
        };
        Self { rust, program, params, control: Control::initial(10), now, ca: CaState::Open }
    }

    fn view(&self) -> View {
        View { now: self.now, ca: self.ca, ..testing::view() }
    }

    fn ack(&mut self, rtt: Option<Time>, acked: u32, limited: bool) {
        let view = self.view();
        let ack = Ack { view: &view, rtt, acked, delivered: acked, cwnd_limited: limited, ..ack_of_nothing() };
        self.rust.on_measure(&ack, &mut self.control);
        let before = self.control;
        let (now, us) = (self.now.as_micros(), rtt.map_or(0, |rtt| rtt.as_micros() as u32));
        c::htcp_on_measure(&mut self.program, &self.params, now, us, before.cwnd, acked, self.ca as u8);
        if self.ca == CaState::Open {
            self.rust.on_ack(&ack, &mut self.control);
            let (mut cwnd, mut count) = (before.cwnd, before.cwnd_cnt);
            if limited && before.in_slow_start() {
                // The kernel's own, in both.
                (cwnd, count) = (self.control.cwnd, self.control.cwnd_cnt);
            } else if limited {
                c::htcp_increase(&mut self.program, &self.params, now, &mut cwnd, &mut count);
            }
            assert_eq!((cwnd, count), (self.control.cwnd, self.control.cwnd_cnt));
        }
        self.compare();
    }

    fn lose(&mut self, signal: Signal) {
        let congestion = Congestion { view: &self.view(), signal };
        self.rust.on_congestion(&congestion, &mut self.control);
        let mine = self.control.ssthresh;
        let theirs = c::htcp_on_congestion(&mut self.program, &self.params, self.now.as_micros(), self.control.cwnd);
        assert_eq!(mine, theirs);
        self.control = Control { cwnd: mine, ssthresh: mine, cwnd_cnt: 0, ..self.control };
        self.enter(if signal == Signal::Timeout { CaState::Loss } else { CaState::Recovery });
    }

    fn enter(&mut self, ca: CaState) {
        self.ca = ca;
        let change = StateChange { view: &self.view(), event: StateEvent::Entered(ca) };
        self.rust.on_state(&change, &mut self.control);
        c::htcp_on_state(&mut self.program, self.now.as_micros(), ca as u8);
        self.compare();
    }

    fn undo(&mut self) {
        let undo = Undo { view: &self.view(), prior_cwnd: self.control.cwnd };
        self.rust.on_undo(&undo, &mut self.control);
        c::htcp_on_undo(&mut self.program);
        self.compare();
    }

    fn compare(&self) {
        let (mine, theirs) = (&self.rust, &self.program);
        assert_eq!(
            [mine.alpha, mine.beta, mine.rtt_min, mine.rtt_max, mine.last_cong, mine.rate.smoothed],
            [
                theirs.alpha.into(),
                theirs.beta.into(),
                theirs.rtt_min.into(),
                theirs.rtt_max.into(),
                theirs.last,
                theirs.rate.into()
            ]
        );
        assert_eq!([mine.rate.max, mine.rate.old_max], [theirs.max_rate.into(), theirs.old_max_rate.into()]);
        assert_eq!((mine.adaptive, mine.before.is_some()), (theirs.adaptive, theirs.reducing));
    }
}

#[test]
fn whole_connections_take_the_same_course_ack_by_ack() {
    let rng = &mut Rng::stream(1, "htcp connections");
    let (mut adaptive, mut undone) = (0, 0);
    for _ in 0..500 {
        let mut twins = Twins::new(rng);
        let (base, pace) = (1 + rng.below(100), 1 + rng.below(30));
        for _ in 0..1_000 {
            twins.now += Time::from_micros(rng.below(2 * 1000 * pace));
            match rng.below(200) {
                0 => twins.lose(Signal::Timeout),
                1..=2 => twins.lose(Signal::Loss),
                3 => twins.now += Time::from_secs(up_to(rng, 6)),
                4 => {
                    undone += u32::from(twins.rust.before.is_some());
                    twins.undo();
                }
                5 => twins.enter(CaState::Disorder),
                6..=30 => twins.enter(CaState::Open),
                _ => {
                    let rtt = rng.chance(0.9).then(|| Time::from_micros(1000 * base + rng.below(40_000)));
                    twins.ack(rtt, rng.below(40) as u32, rng.chance(0.95));
                }
            }
            adaptive += u32::from(twins.rust.beta > BETA_MIN);
        }
    }
    // What is rare was gone through too.
    assert!(adaptive > 5_000 && undone > 100, "{adaptive} {undone}");
}
