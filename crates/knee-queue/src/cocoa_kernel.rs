//! The kernel module's arithmetic and state of a flow (`linux/include/knee_cocoa.h`) against these, on random input.

use super::*;
use knee_core::{Payload, Rng};
use knee_kernel_check as c;

const RUNS: u32 = 1_000_000;

/// A number below 2^bits, small ones as likely as large ones.
fn up_to(rng: &mut Rng, bits: u64) -> u64 {
    rng.next_u64() >> (64 - 1 - rng.below(bits))
}

#[test]
fn factors_and_missed_packets_are_the_same() {
    let rng = &mut Rng::stream(1, "cocoa");
    for _ in 0..RUNS {
        let factor = Factor(up_to(rng, 26));
        let (time, packets) = (up_to(rng, 60), up_to(rng, 30) as u32);
        // A product beyond 64 bits is one of 500 years; the simulator's times end before.
        let most = (u128::from(time) * u128::from(factor.0)) >> 16;
        if most <= u128::from(u64::MAX) {
            assert_eq!(c::cocoa_times(factor.0 as u32, time), factor.of_time(Time::from_nanos(time)).as_nanos());
        }
        assert_eq!(c::cocoa_packets(factor.0 as u32, packets), factor.of_packets(packets));
        let (sent, active, idle) = (up_to(rng, 40), up_to(rng, 50), up_to(rng, 50));
        let mine = missed_packets(sent, Time::from_nanos(active), Time::from_nanos(idle));
        assert_eq!(c::cocoa_missed(sent, active, idle), mine, "{sent} {active} {idle}");
    }
}

fn settings(rng: &mut Rng) -> CocoaSettings {
    CocoaSettings {
        multiplier: Factor(up_to(rng, 19)),
        max_increase: Factor(Factor::ONE + up_to(rng, 18)),
        max_guard_interval: Time::from_micros(up_to(rng, 22)),
        max_guard_rtts: if rng.chance(0.3) { Some(Factor(1 + up_to(rng, 20))) } else { None },
        base_rtt: Time::from_micros(up_to(rng, 18)),
        // The module does not have it.
        max_idle: Time::MAX,
        learn_initial: rng.chance(0.5),
        initial_buffer: 1 + up_to(rng, 8) as u32,
    }
}

fn as_module(s: &CocoaSettings) -> c::CocoaParams {
    c::CocoaParams {
        multiplier: s.multiplier.0 as u32,
        max_increase: s.max_increase.0 as u32,
        max_guard: s.max_guard_interval.as_nanos(),
        max_guard_rtts: s.max_guard_rtts.map_or(0, |rtts| rtts.0 as u32),
        base_rtt: s.base_rtt.as_nanos(),
        initial_buffer: s.initial_buffer,
        learn_initial: s.learn_initial,
    }
}

/// A flow in both implementations, and the packets it holds.
struct Twins {
    rust: FlowState,
    module: c::Cocoa,
    held: Vec<Time>,
}

/// All branches of Algorithm 1, over random arrivals and departures: the same decisions, buffers and guard intervals
/// to the nanosecond. The average of buffers is in 2^-16 packets there and a float here: it moves by an eighth of a
/// difference, rounded down, so that it stays within 8 · 2^-16 packets, and both round it to whole packets.
#[test]
fn whole_flows_take_the_same_course_packet_by_packet() {
    let rng = &mut Rng::stream(1, "cocoa flows");
    let mut branches = [0; 4];
    for _ in 0..400 {
        let mut cocoa = Cocoa { settings: settings(rng), learned: None };
        let params = as_module(&cocoa.settings);
        let mut learned = c::CocoaLearned::default();
        let mut cx = Context::at(Time::from_secs(1));
        for _ in 0..4 {
            let mut twins = start(&mut cocoa, &params, learned, &mut cx);
            for _ in 0..1_000 {
                cx.now += Time::from_nanos(1 + up_to(rng, 24));
                cx.notes.clear();
                if rng.chance(0.45) {
                    depart(&mut cocoa, &mut twins, cx.now);
                } else {
                    let burst = rng.below(6);
                    (0..burst)
                        .for_each(|_| arrive(&mut cocoa, &params, &mut learned, &mut twins, &mut cx, &mut branches));
                }
            }
        }
    }
    assert!(branches.iter().all(|count| *count > 2_000), "{branches:?}");
}

fn start(cocoa: &mut Cocoa, params: &c::CocoaParams, learned: c::CocoaLearned, cx: &mut Context) -> Twins {
    let rust = cocoa.start(0, cx);
    let mut module = c::Cocoa::default();
    let buffer = c::cocoa_initial(params, &learned);
    // Only an average next to a half can be rounded to either side.
    assert!(buffer.abs_diff(rust.buffer) <= u32::from(next_to_a_half(cocoa.learned)), "{buffer} {}", rust.buffer);
    c::cocoa_init(&mut module, rust.buffer, cx.now.as_nanos());
    Twins { rust, module, held: Vec::new() }
}

fn next_to_a_half(learned: Option<f64>) -> bool {
    learned.is_some_and(|packets| (packets.fract() - 0.5).abs() < 8.0 / 65_536.0)
}

fn depart(cocoa: &mut Cocoa, twins: &mut Twins, now: Time) {
    if twins.held.is_empty() {
        return;
    }
    let arrived = twins.held.remove(0);
    let held = twins.held.len() as u32;
    let packet = Packet { at: arrived, payload: Payload::segment(0), flow: 0, queued: 0, size: 1500, flags: 0, hop: 0 };
    cocoa.depart(&mut twins.rust, held, &packet, now);
    c::cocoa_on_departure(&mut twins.module, held, now.as_nanos(), (now - arrived).as_nanos());
}

fn arrive(
    cocoa: &mut Cocoa,
    params: &c::CocoaParams,
    learned: &mut c::CocoaLearned,
    twins: &mut Twins,
    cx: &mut Context,
    branches: &mut [u32; 4],
) {
    let (held, now) = (twins.held.len() as u32, cx.now.as_nanos());
    let admission = cocoa.arrive(&mut twins.rust, held, 0, cx);
    let full = held >= twins.module.buffer;
    if full {
        let before = twins.module.buffer;
        let branch = c::cocoa_on_full(&mut twins.module, params, learned, now);
        branches[branch as usize] += 1;
        let expected = match branch {
            c::COCOA_ENLARGE => Admission::Take,
            c::COCOA_REDUCE if twins.module.buffer < before => Admission::DropAndKeep(twins.module.buffer),
            _ => Admission::Drop,
        };
        // A standing queue below a buffer of one leaves nothing to drop.
        let same = admission == expected || (admission == Admission::DropAndKeep(1) && before == 1);
        assert!(same, "{admission:?} {expected:?}");
    } else {
        c::cocoa_on_arrival(&mut twins.module, now);
        assert_eq!(admission, Admission::Take);
    }
    match admission {
        Admission::Take => twins.held.push(cx.now),
        Admission::Drop => {}
        Admission::DropAndKeep(keep) => twins.held.truncate(keep as usize),
    }
    let (rust, module) = (&twins.rust, &twins.module);
    assert_eq!(rust.buffer, module.buffer);
    assert_eq!(rust.guard_end.map_or(0, Time::as_nanos), module.guard_end);
    assert_eq!(rust.longest.length.as_nanos(), module.longest);
    assert_eq!(rust.interval.idle.as_nanos(), module.idle);
    assert_eq!(rust.enlarged, module.enlarged);
    let average = learned.buffer as f64 / 65_536.0;
    assert!((cocoa.learned.unwrap_or(0.0) - average).abs() <= 8.0 / 65_536.0, "{average}");
}
