//! The kernel module's arithmetic and state (`linux/include/knee_daimd.h`) beside these, on random input.

use super::equations::{self, Increase, ONE};
use super::*;
use crate::Signal;
use crate::testing::{self, ack_of_nothing, change, congestion};
use knee_core::Rng;
use knee_kernel_check as c;

const RUNS: u32 = 1_000_000;

/// A number below 2^bits, small ones as likely as large ones.
fn up_to(rng: &mut Rng, bits: u64) -> u64 {
    rng.next_u64() >> (64 - 1 - rng.below(bits))
}

/// The module's longest RTT.
const LONGEST_RTT: u64 = 35;

#[test]
fn the_equations_are_the_same() {
    let rng = &mut Rng::stream(1, "daimd equations");
    let ns = Time::from_nanos;
    for _ in 0..RUNS {
        let [a, b] = [(); 2].map(|()| up_to(rng, LONGEST_RTT));
        let (ratio, cwnd) = (rng.below(ONE + 1), up_to(rng, 27) as u32);
        let (long, factor) = (up_to(rng, 42), up_to(rng, 32));
        assert_eq!(c::daimd_scaled(long, factor as u32), equations::scaled(ns(long), factor).as_nanos());
        // 2147 s since the backoff are the module's longest.
        let since = up_to(rng, 31);
        for (i, increase) in
            [Increase::Htcp, Increase::HtcpDraft, Increase::Reno, Increase::Scalable].iter().enumerate()
        {
            let mine = alpha(*increase, Time::from_micros(since), cwnd);
            assert_eq!(c::daimd_alpha(i as u32, since, cwnd), mine, "{increase:?} {since}");
        }
        let (delta, max) = (rng.below(ONE + 1), rng.below(ONE + 1));
        let beta = backoff(delta, ns(a), ns(b), max);
        assert_eq!(u64::from(c::daimd_beta(delta as u32, a, b, max as u32)), beta, "{delta} {a} {b} {max}");
        assert_eq!(c::daimd_threshold(a, ratio as u32, b), threshold(ns(a), ratio, ns(b)).as_nanos());
        let (step, acked) = (c::daimd_decay(b, cwnd, ratio as u32), rng.below(46));
        let decay = decayed(ns(a), ns(b), cwnd, ratio, acked as u32).as_nanos();
        assert_eq!(a.saturating_sub(step * acked), decay);
        // Per packet in 2^-16 millionths, rounded down, at most a packet.
        let (rate, window) = (up_to(rng, 62), u128::from(cwnd.max(1)));
        let gain = ((u128::from(rate) << 16) / window).min(u128::from(ONE) << 16);
        assert_eq!(u128::from(c::daimd_gain(rate, cwnd)), gain, "{rate} {cwnd}");
        let limit = max_ssthresh(cwnd, ns(a), ns(b)).unwrap_or(u32::MAX);
        assert_eq!(c::daimd_max_ssthresh(cwnd, a, b), limit, "{cwnd} {a} {b}");
    }
}

fn params(rng: &mut Rng) -> Params {
    let switch = |rng: &mut Rng| rng.chance(0.5);
    let ratio = |millionths: u64| millionths as f64 / ONE as f64;
    Params {
        tau0: Time::from_micros(1 + up_to(rng, 16)),
        w0: up_to(rng, 6) as u32,
        increase: [Increase::Htcp, Increase::HtcpDraft, Increase::Reno, Increase::Scalable][rng.below(4) as usize],
        scale_increase: switch(rng),
        adaptive_backoff: switch(rng),
        delta: ratio(10_000 + rng.below(990_001)),
        beta_max: ratio(10_000 + rng.below(990_001)),
        beta: ratio(10_000 + rng.below(980_001)),
        loss_backoff: if switch(rng) { LossBackoff::Half } else { LossBackoff::Beta },
        gamma: ratio(rng.below(ONE + 1)),
        backoff_threshold: if switch(rng) { Threshold::Raised } else { Threshold::Base },
        decay: ratio(rng.below(ONE + 1)),
        hold: switch(rng),
        delta0_mode: if switch(rng) { Delta0::Proportional } else { Delta0::Fixed },
        delta0_factor: ratio(up_to(rng, 26)),
        delta0: Time::from_micros(up_to(rng, 21)),
        slow_start: [SlowStart::Limited, SlowStart::Standard, SlowStart::Off][rng.below(3) as usize],
        fixed_backoffs: up_to(rng, 2),
        rtt_min_initial: if rng.chance(0.2) { Time::from_micros(1 + up_to(rng, 18)) } else { Time::ZERO },
    }
}

fn as_module(p: &Params) -> c::DaimdParams {
    let scaled = Scaled::new(p);
    c::DaimdParams {
        tau0: p.tau0.as_micros() as u32,
        w0: p.w0,
        increase: match p.increase {
            Increase::Htcp => 0,
            Increase::HtcpDraft => 1,
            Increase::Reno => 2,
            Increase::Scalable => 3,
        },
        scale_increase: p.scale_increase.into(),
        adaptive_backoff: p.adaptive_backoff.into(),
        delta: scaled.delta as u32,
        beta_max: scaled.beta_max as u32,
        beta: scaled.beta as u32,
        loss_backoff: (p.loss_backoff == LossBackoff::Half).into(),
        gamma: scaled.gamma as u32,
        backoff_threshold: (p.backoff_threshold == Threshold::Raised).into(),
        decay: scaled.decay as u32,
        hold: p.hold.into(),
        delta0_mode: (p.delta0_mode == Delta0::Fixed).into(),
        delta0_factor: scaled.delta0_factor as u32,
        delta0: p.delta0.as_micros() as u32,
        slow_start: match p.slow_start {
            SlowStart::Limited => 0,
            SlowStart::Standard => 1,
            SlowStart::Off => 2,
        },
        fixed_backoffs: p.fixed_backoffs as u32,
        rtt_min_initial: p.rtt_min_initial.as_micros() as u32,
    }
}

/// ACKs come at least a millisecond apart, which is how often the module makes its divisions. Growth below a whole
/// packet is rounded to 10^-6 packets per ACK here and finer there, so that either may give a packet first.
#[test]
fn whole_connections_take_the_same_course_ack_by_ack() {
    let rng = &mut Rng::stream(1, "daimd connections");
    let mut backoffs = 0;
    for _ in 0..1_000 {
        let given = params(rng);
        let module_params = as_module(&given);
        let mut now = Time::from_secs(4_000);
        let mut rust = Daimd::new(given, &Init { now, ..testing::init() });
        let mut module = c::Daimd::default();
        c::daimd_init(&mut module, &module_params, now.as_micros());
        let mut control = Control::initial(10);
        let base = 100 + up_to(rng, 17);
        let (mut queue, mut una, mut ahead, mut delivered) = (0, up_to(rng, 40), 0, now);
        for _ in 0..1_000 {
            now += Time::from_micros(1_000 + up_to(rng, 15));
            una += 1 + rng.below(40);
            let nxt = una + u64::from(control.cwnd);
            let view = View { now, snd_una: una, snd_nxt: nxt, ..testing::view() };
            let seq = |segment: u64| segment as u32;
            queue =
                if rng.chance(0.6) { queue + rng.below(1_000) } else { u64::saturating_sub(queue, rng.below(1_500)) };
            match rng.below(300) {
                0 => {
                    let mine =
                        crate::testing::after(control, |c| rust.on_congestion(&congestion(view, Signal::Loss), c))
                            .ssthresh;
                    let theirs = c::daimd_on_loss(&mut module, &module_params, now.as_micros(), seq(nxt), control.cwnd);
                    assert_eq!(mine, theirs);
                    control = Control { cwnd: mine, ssthresh: mine, cwnd_cnt: 0, ..control };
                    ahead = 0;
                }
                1 => {
                    if rng.chance(0.5) {
                        control.ssthresh = control.ssthresh.max(control.cwnd / 4 * 3);
                        control.cwnd = control.cwnd.min(10);
                    }
                    rust.on_state(&change(view, StateEvent::Restart), &mut control);
                    c::daimd_on_restart(&mut module, now.as_micros(), (now - delivered).as_micros());
                }
                _ => {
                    let (rtt, acked, limited) = (base + queue, 1 + rng.below(40) as u32, rng.chance(0.95));
                    let ack = Ack {
                        view: &view,
                        rtt: Some(Time::from_micros(rtt)),
                        acked,
                        delivered: acked,
                        cwnd_limited: limited,
                        ..ack_of_nothing()
                    };
                    c::daimd_sample(
                        &mut module,
                        &module_params,
                        now.as_micros(),
                        rtt as u32,
                        acked,
                        seq(una),
                        control.cwnd,
                        control.ssthresh,
                    );
                    let mut answer = c::DaimdAck {
                        now: now.as_micros(),
                        acked,
                        snd_nxt: seq(nxt),
                        limited,
                        cwnd: control.cwnd,
                        ssthresh: control.ssthresh,
                    };
                    c::daimd_on_ack(&mut module, &module_params, &mut answer);
                    rust.on_measure(&ack, &mut control);
                    rust.on_ack(&ack, &mut control);
                    delivered = now;
                    if rust.state.last_backoff == now {
                        assert_eq!((answer.cwnd, answer.ssthresh), (control.cwnd, control.ssthresh));
                        (backoffs, ahead) = (backoffs + 1, 0);
                    }
                    ahead += i64::from(answer.cwnd) - i64::from(control.cwnd);
                    assert!(ahead.abs() <= 1 && answer.ssthresh == control.ssthresh, "{ahead}");
                }
            }
            // Beyond this the two differ in what is the largest window.
            control.cwnd = control.cwnd.min(1 << 26);
        }
    }
    assert!(backoffs > 10_000, "{backoffs}");
}

/// The fast path of an RTT: several ACKs per millisecond leave the RTTs that the simulator has. `RTT_max` does not
/// decay here, as the module works out its decay once per millisecond, and no window is large enough for a backoff.
#[test]
fn with_dense_acks_the_rtts_are_the_same() {
    let rng = &mut Rng::stream(1, "daimd samples");
    for _ in 0..200 {
        let given = Params { w0: 1 << 20, decay: 0.0, rtt_min_initial: Time::ZERO, ..params(rng) };
        let module_params = as_module(&given);
        let mut now = Time::from_secs(4_000);
        let mut rust = Daimd::new(given, &Init { now, ..testing::init() });
        let mut module = c::Daimd::default();
        c::daimd_init(&mut module, &module_params, now.as_micros());
        let mut control = testing::avoiding(100);
        for _ in 0..2_000 {
            now += Time::from_micros(rng.below(200));
            let rtt = 20_000 + up_to(rng, 14);
            let view = View { now, ..testing::view() };
            let ack =
                Ack { view: &view, rtt: Some(Time::from_micros(rtt)), acked: 2, delivered: 2, ..ack_of_nothing() };
            let (cwnd, ssthresh) = (control.cwnd, control.ssthresh);
            rust.on_measure(&ack, &mut control);
            c::daimd_sample(&mut module, &module_params, now.as_micros(), rtt as u32, 2, 0, cwnd, ssthresh);
            let state = &rust.state;
            let mine = [state.srtt.unwrap(), state.rtt_min, state.rtt_max].map(Time::as_nanos);
            assert_eq!([c::daimd_srtt(&module), c::daimd_rtt_min(&module), c::daimd_rtt_max(&module)], mine);
        }
    }
}
