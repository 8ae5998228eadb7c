//! The kernel module's arithmetic and states (`linux/include/knee_lola.h`) beside these, on random input.

use super::equations::{fair_flow_target, q_data, tailored_decrease};
use super::*;
use crate::testing::{self, ack_of_nothing, change, congestion};
use crate::{CaState, cubic_fn};
use knee_core::Rng;
use knee_kernel_check as c;

const RUNS: u32 = 1_000_000;

/// A number below 2^bits, small ones as likely as large ones.
fn up_to(rng: &mut Rng, bits: u64) -> u64 {
    rng.next_u64() >> (64 - 1 - rng.below(bits))
}

#[test]
fn products_quotients_and_roots_are_exact() {
    let rng = &mut Rng::stream(1, "math");
    for _ in 0..RUNS {
        let [a, b, d] = [(); 3].map(|()| up_to(rng, 64));
        let product = u128::from(a) * u128::from(b);
        let quotient = product.checked_div(u128::from(d)).and_then(|q| u64::try_from(q).ok()).unwrap_or(u64::MAX);
        assert_eq!(c::mul_div(a, b, d), quotient, "{a} {b} {d}");
        let shift = 1 + rng.below(63) as u32;
        assert_eq!(c::mul_shift(a, b, shift), u64::try_from(product >> shift).unwrap_or(u64::MAX), "{a} {b} {shift}");
        assert_eq!(c::cube_root(a), cubic_fn::cube_root(a), "{a}");
    }
}

#[test]
fn the_cubic_function_and_its_k_are_the_same_up_to_1024_s_from_the_plateau() {
    let rng = &mut Rng::stream(1, "cubic");
    for _ in 0..RUNS {
        let (scale, w_max, cwnd) = (up_to(rng, 17) as u32, up_to(rng, 30) as u32, up_to(rng, 30) as u32);
        let time = Time::from_micros(up_to(rng, 29));
        let t = c::cubic_time(time.as_micros());
        // K beyond that is for windows that no link has.
        let k = c::cubic_k(scale, w_max);
        assert_eq!(u64::from(k), cubic_fn::k(scale.into(), w_max), "{scale} {w_max}");
        let k = k.min(1 << 20);
        let theirs = c::cubic_window(scale, t, k, w_max);
        assert_eq!(theirs, cubic_fn::w_cubic(scale.into(), time, k.into(), w_max), "{scale} {t} {k} {w_max}");
        let fast = rng.chance(0.5);
        let loss = Decrease { beta: 1 + rng.below(1023) as u32, fast_convergence: fast };
        assert_eq!(c::cubic_ssthresh(cwnd, loss.beta), loss.ssthresh(cwnd));
        assert_eq!(c::cubic_w_max(cwnd, w_max, loss.beta, fast), loss.w_max(cwnd, w_max));
    }
}

/// With `r = t / phi`, the module takes `r` in 2^-10, less than 2^-10 too small, so that its cube is too small by less
/// than `3 r² 2^-10`, and then rounds down: by less than one more. It ends at 8 GiB.
#[test]
fn the_fair_target_differs_by_less_than_its_rounding() {
    let rng = &mut Rng::stream(1, "target");
    for _ in 0..RUNS {
        let (t, phi) = (up_to(rng, 32) as u32, 10 + rng.below(10_240_000 - 9) as u32);
        let theirs = c::lola_fair_target(t, phi);
        let exact = fair_flow_target(Time::from_micros(t.into()), f64::from(phi) / 1024.0);
        let ratio = f64::from(t) / 1e3 / (f64::from(phi) / 1024.0);
        let bound = 3.0 * ratio * ratio / 1024.0 + 1.0;
        if ratio >= 2_048.0 {
            assert_eq!(theirs, 1 << 33);
        } else {
            // The float's own rounding may put `exact` one below.
            assert!(theirs <= exact + 1 && (exact - exact.min(theirs)) as f64 <= bound, "{t} {phi}: {theirs} {exact}");
        }
    }
}

#[test]
fn queued_data_and_the_decrease_are_the_same() {
    let rng = &mut Rng::stream(1, "decrease");
    for _ in 0..RUNS {
        let (cwnd, bytes) = (up_to(rng, 32) as u32, up_to(rng, 36));
        // No RTT is below a microsecond.
        let [now, min] = [(); 2].map(|()| up_to(rng, 27).max(1) as u32);
        assert_eq!(c::lola_q_data(bytes, now, min), q_data(bytes, now.into(), min.into()), "{bytes} {now} {min}");
        let gamma = 1 + rng.below(1024) as u32;
        let mine = tailored_decrease(cwnd, now.into(), min.into(), gamma.into());
        assert_eq!(c::lola_decreased(cwnd, now, min, gamma), mine, "{cwnd} {now} {min} {gamma}");
    }
}

/// Eq. 4: not above the minimum of the span, and not below that of nine slots, which are eighths of it in whole us.
#[test]
fn the_filter_gives_the_minimum_of_its_span_or_of_an_eighth_more() {
    let rng = &mut Rng::stream(1, "filter");
    for _ in 0..2_000 {
        let span = 1 + up_to(rng, 20) as u32;
        let mut now = up_to(rng, 40);
        let (mut filter, mut least, mut seen) = (c::Filter::default(), u32::MAX, Vec::new());
        c::filter_init(&mut filter, now);
        for _ in 0..500 {
            now += up_to(rng, 18);
            let value = up_to(rng, 32) as u32;
            seen.push((now, value));
            least = c::filter_update(&mut filter, now, least, value, span);
            let over = |span: u32| {
                let recent = seen.iter().rev().take_while(|(at, _)| at + u64::from(span) >= now);
                recent.map(|(_, value)| *value).min().unwrap()
            };
            assert!(least <= over(span) && least >= over(9 * span.div_ceil(8)), "{span}");
        }
    }
}

/// Parameters with which both compute exactly: phi a power of two and all times whole milliseconds. The filters, which
/// differ in their slots, forget before the next ACK.
const EXACT: Params = Params {
    form: Form::Paper,
    q_low: Time::from_millis(2),
    q_target: Time::from_millis(7),
    t_sync: Time::from_millis(100),
    t_measure: Time::from_millis(1),
    gamma: 973.0 / 1024.0,
    phi: 32.0,
    c: 410.0 / 1024.0,
    min_rtt_resets: 3,
    min_rtt_close: Time::from_millis(1),
    beta: 717.0 / 1024.0,
    fast_convergence: true,
    filter_slow_start: false,
};

fn exact() -> c::LolaParams {
    let scaled = Scaled::new(&EXACT);
    c::LolaParams {
        q_low: scaled.q_low as u32,
        q_target: scaled.q_target as u32,
        t_sync: EXACT.t_sync.as_micros() as u32,
        t_measure: EXACT.t_measure.as_micros() as u32,
        gamma: scaled.gamma as u32,
        phi: (EXACT.phi * 1024.0) as u32,
        c: scaled.c as u32,
        min_rtt_resets: EXACT.min_rtt_resets as u32,
        min_rtt_close: scaled.min_rtt_close as u32,
        beta: scaled.loss.beta,
        fast_convergence: EXACT.fast_convergence.into(),
        filter_slow_start: EXACT.filter_slow_start.into(),
    }
}

/// A connection in both implementations. Time begins late, so that the module's 32 bits of it wrap on the way.
struct Twins {
    rust: Lola,
    module: c::Lola,
    params: c::LolaParams,
    control: Control,
    now: Time,
    /// When the last ACK came.
    delivered: Time,
}

impl Twins {
    fn new(filter_slow_start: bool) -> Self {
        let now = Time::from_secs(4_000);
        let rust = Lola::new(Params { filter_slow_start, ..EXACT }, &Init { now, ..testing::init() });
        let mut module = c::Lola::default();
        c::lola_init(&mut module, now.as_micros());
        Self {
            rust,
            module,
            params: c::LolaParams { filter_slow_start: filter_slow_start.into(), ..exact() },
            control: Control::initial(10),
            now,
            delivered: now,
        }
    }

    fn view(&self) -> crate::View {
        crate::View { now: self.now, ..testing::view() }
    }

    fn ack(&mut self, rtt: Time, delivered: u32, limited: bool) {
        let theirs = self.answers(self.control, rtt, delivered, limited);
        assert_eq!(theirs, self.control);
    }

    /// Gives both an ACK; what the module makes of its own `control`.
    fn answers(&mut self, control: Control, rtt: Time, delivered: u32, limited: bool) -> Control {
        self.delivered = self.now;
        let ack = Ack {
            view: &self.view(),
            rtt: Some(rtt),
            delivered,
            acked: delivered,
            cwnd_limited: limited,
            ..ack_of_nothing()
        };
        let before = crate::testing::after(self.control, |c| self.rust.on_measure(&ack, c));
        c::lola_sample(&mut self.module, &self.params, self.now.as_micros(), rtt.as_micros() as u32);
        let mut answer = c::LolaAck {
            now: self.now.as_micros(),
            acked: delivered,
            mss: 1448,
            limited,
            cwnd: control.cwnd,
            ssthresh: control.ssthresh,
            count: 0,
        };
        c::lola_on_ack(&mut self.module, &self.params, &mut answer);
        self.control = crate::testing::after(before, |c| self.rust.on_ack(&ack, c));
        // The module tcp_lola.c applies the answer in this way.
        let mut theirs = Control { cwnd: answer.cwnd, ssthresh: answer.ssthresh, ..control };
        if answer.cwnd < control.cwnd {
            theirs.cwnd_cnt = 0;
        }
        if answer.count > 0 {
            increase::additive_increase(&mut theirs, answer.count, delivered);
        }
        theirs.phase = c::lola_phase(&self.module);
        theirs
    }

    fn lose(&mut self, signal: Signal) {
        let view = self.view();
        let mine =
            crate::testing::after(self.control, |c| self.rust.on_congestion(&congestion(view, signal), c)).ssthresh;
        let theirs = c::lola_on_loss(&mut self.module, &self.params, self.now.as_micros(), self.control.cwnd);
        assert_eq!(mine, theirs);
        self.control = Control { cwnd: mine, ssthresh: mine, cwnd_cnt: 0, ..self.control };
        if signal == Signal::Timeout {
            self.control.cwnd = 1;
            self.tell(StateEvent::Entered(CaState::Loss));
        } else {
            self.tell(StateEvent::ReductionDone);
        }
    }

    /// The sender did not use its window: it is 10 packets after idle time, or else comes halfway down to them
    /// (`tcp_cwnd_restart`, `tcp_cwnd_application_limited`).
    fn shrink(&mut self, idle: bool) {
        let Control { cwnd, ssthresh, .. } = self.control;
        self.control.ssthresh = ssthresh.max(cwnd / 4 * 3);
        self.control.cwnd = if idle { cwnd.min(10) } else { u32::midpoint(cwnd, 10).min(cwnd) };
    }

    fn tell(&mut self, event: StateEvent) {
        let change = change(self.view(), event);
        self.rust.on_state(&change, &mut self.control);
        let now = self.now.as_micros();
        match event {
            StateEvent::Entered(_) => c::lola_on_timeout(&mut self.module, now),
            StateEvent::ReductionDone => c::lola_on_reduced(&mut self.module, &self.params, now),
            _ => {
                // The socket's delivered_mstamp, which tcp_lola.c and lola.bpf.c take.
                let idle = self.now.saturating_sub(self.delivered);
                c::lola_on_restart(&mut self.module, now, idle.as_micros());
            }
        }
    }
}

#[test]
fn whole_connections_take_the_same_course_ack_by_ack() {
    let rng = &mut Rng::stream(1, "lola connections");
    let mut seen = [0; 5];
    for _ in 0..1_000 {
        let mut twins = Twins::new(rng.chance(0.5));
        let base = 1 + rng.below(100);
        let mut queue = 0;
        for _ in 0..1_000 {
            twins.now += Time::from_millis(2 + rng.below(30));
            // A queue that wanders: mostly with the window, as that of a link would.
            queue = match rng.below(20) {
                0 => 0,
                1..=11 => queue + rng.below(2),
                _ => u64::saturating_sub(queue, rng.below(2)),
            };
            match rng.below(500) {
                0 => {
                    // It takes longer than a reduction takes to settle.
                    twins.now += Time::from_secs(1);
                    twins.lose(Signal::Timeout);
                }
                1..=2 => twins.lose(Signal::Loss),
                3..=5 => {
                    twins.now += Time::from_millis(up_to(rng, 20));
                    if rng.chance(0.7) {
                        twins.shrink(rng.chance(0.7));
                    }
                    twins.tell(StateEvent::Restart);
                }
                6 => twins.shrink(false),
                _ => twins.ack(Time::from_millis(base + queue), 1 + rng.below(40) as u32, rng.chance(0.95)),
            }
            // X(t) of 8 GiB, the most in the module, at least doubles a window up to this.
            twins.control.cwnd = twins.control.cwnd.min(1 << 21);
            seen[usize::from(twins.control.phase)] += 1;
        }
    }
    // All states were gone through, not only the first ones.
    assert!(seen.iter().all(|count| *count > 2_000), "{seen:?}");
}

/// An idle time shifts the epoch, and so does the time that balancing took; where the one lies within the other it is
/// one span of time without growth by Eq. 1, not two.
#[test]
fn an_idle_time_within_a_round_is_taken_out_of_the_cubic_function_once() {
    let mut twins = Twins::new(false);
    let full = |twins: &mut Twins, rtt: u64| {
        twins.now += Time::from_millis(10);
        twins.ack(Time::from_millis(rtt), 1, true);
    };
    let reached = |twins: &Twins, phase: Phase| twins.rust.phase == phase;
    full(&mut twins, 20);
    // A loss ends slow start; after it the cubic function begins.
    twins.lose(Signal::Loss);
    for _ in 0..10 {
        full(&mut twins, 20);
    }
    let start = twins.rust.epoch.start.unwrap();
    full(&mut twins, 23);
    assert!(reached(&twins, Phase::FairFlowBalancing));
    let begin = twins.now;
    full(&mut twins, 23);
    twins.now += Time::from_secs(3);
    twins.tell(StateEvent::Restart);
    full(&mut twins, 20);
    assert!(reached(&twins, Phase::CubicIncrease));
    assert_eq!(twins.rust.epoch.start.unwrap() - start, twins.now - begin);
    // Growth by equal steps, ACK by ACK, continues at the window of the module.
    for _ in 0..200 {
        full(&mut twins, 20);
    }
}

/// A window after a loss grows from 7 packets back to 10 and beyond, for `seconds` at an RTT of 100 ms: all packets
/// leave at once, and one ACK covers them. Where `pause` is not zero, the application has nothing to send for so long
/// after 2 s.
fn grown_by_one_ack_per_window(seconds: u64, pause: Time) -> u32 {
    const RTT: Time = Time::from_millis(100);
    let mut twins = Twins::new(false);
    let round = |twins: &mut Twins| {
        twins.tell(StateEvent::Restart);
        twins.now += RTT;
        twins.ack(RTT, twins.control.cwnd, true);
    };
    round(&mut twins);
    twins.control.cwnd = 10;
    twins.lose(Signal::Loss);
    for i in 0..10 * seconds {
        if i == 20 {
            twins.now += pause;
        }
        round(&mut twins);
    }
    twins.control.cwnd
}

/// Eq. 1: 3 packets below CWnd_max K is 1.96 s; t counts from the first ACK after the loss, and the last one looks one
/// RTT ahead. Packets per increase are whole numbers, rounded down, so that a step may be too large; the next is
/// smaller then.
#[test]
fn an_ack_clocked_flow_whose_window_one_ack_covers_grows_as_the_equation_says() {
    for seconds in 3..12 {
        let t = seconds as f64 - libm::cbrt(3.0 / 0.4);
        let expected = 10.0 + 0.4 * t * t * t;
        let cwnd = f64::from(grown_by_one_ack_per_window(seconds, Time::ZERO));
        // Bound: the function's gain in an RTT, and a packet that is not whole yet.
        let off = 0.4 * 3.0 * t * t * 0.1 + 1.0;
        assert!((cwnd - expected).abs() <= off, "after {seconds} s: {cwnd}, Eq. 1 {expected}");
    }
}

#[test]
fn an_idle_time_leaves_the_window_where_it_would_be_without() {
    for pause in [Time::from_millis(1), Time::from_secs(1), Time::from_secs(3_000)] {
        assert_eq!(grown_by_one_ack_per_window(8, pause), grown_by_one_ack_per_window(8, Time::ZERO), "{pause}");
    }
}

/// With many ACKs per millisecond, the module looks at the time once in each: a state begins there at most 1 ms later,
/// and an eighth of `t_measure` where the filter has to forget first.
#[test]
fn with_dense_acks_the_module_follows_within_a_millisecond() {
    let mut twins = Twins::new(false);
    let step = |twins: &mut Twins, theirs: &mut Control, rtt: u64| {
        twins.now += Time::from_micros(100);
        *theirs = twins.answers(*theirs, Time::from_millis(rtt), 2, true);
    };
    let mut theirs = twins.control;
    step(&mut twins, &mut theirs, 20);
    theirs.cwnd = 100;
    twins.control = theirs;
    twins.lose(Signal::Loss);
    theirs = twins.control;
    let mut changes = 0;
    // The RTT in ms and for how long, ms: below q_low, above it, above q_target until t_sync is over, and again below.
    for (rtt, lasts) in [(20, 300), (23, 200), (29, 110), (20, 300), (23, 200), (29, 110), (20, 300)] {
        let mut late = 0;
        for _ in 0..10 * lasts {
            let before = twins.control.phase;
            step(&mut twins, &mut theirs, rtt);
            changes += u32::from(twins.control.phase != before);
            late = if theirs.phase == twins.control.phase { 0 } else { late + 1 };
            assert!(late <= 12, "{rtt} ms: {} in the simulator, {} in the module", twins.control.phase, theirs.phase);
        }
        let off = f64::from(theirs.cwnd) / f64::from(twins.control.cwnd);
        assert!((off - 1.0).abs() < 0.02, "{rtt} ms: {} and {} packets", twins.control.cwnd, theirs.cwnd);
    }
    // Twice from cubic increase to balancing, hold, decrease and back.
    assert_eq!(changes, 8);
}

/// The fast path of an RTT leaves the filter as it would be without: RTT_now is what a filter alone says.
#[test]
fn with_dense_acks_rtt_now_is_that_of_the_filter() {
    let rng = &mut Rng::stream(1, "lola samples");
    for _ in 0..200 {
        let params = c::LolaParams { t_measure: 40_000, ..exact() };
        let mut now = Time::from_secs(4_000).as_micros();
        let (mut module, mut filter, mut least) = (c::Lola::default(), c::Filter::default(), u32::MAX);
        c::lola_init(&mut module, now);
        c::filter_init(&mut filter, now);
        // Out of slow start, where each RTT takes the slow path.
        c::lola_on_loss(&mut module, &params, now, 100);
        for _ in 0..2_000 {
            now += rng.below(200);
            let rtt = 20_000 + up_to(rng, 14) as u32;
            c::lola_sample(&mut module, &params, now, rtt);
            least = c::filter_update(&mut filter, now, least, rtt, params.t_measure);
            assert_eq!(c::lola_rtt_now(&module), least);
        }
    }
}
