//! Every algorithm under random events of a QUIC stack, plausible and not: no panic, windows within bounds, and the
//! same answers twice.
//!
//! `KNEE_QUIC_EVENTS=1000000` tries a million events for each algorithm.

use knee_quinn::proto::congestion::Controller as _;
use knee_quinn::{Control, Watch};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that quinn tells a controller.
#[derive(Clone, Debug)]
enum Step {
    /// A burst of datagrams leaves, these bytes in all.
    Send {
        bytes: u32,
    },
    /// The oldest `packets` in flight are acknowledged.
    Ack {
        packets: u8,
        app_limited: bool,
    },
    /// A packet that nobody knows of is acknowledged.
    Stray {
        age_us: u32,
    },
    /// The oldest `packets` in flight are lost.
    Lose {
        packets: u8,
        persistent: bool,
    },
    Mark,
    Mtu(u16),
    Wait {
        us: u32,
    },
    /// The clock of the caller goes back.
    Back {
        us: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..15_000).prop_map(|bytes| Step::Send { bytes }),
        6 => (1u8..12, prop::bool::weighted(0.1)).prop_map(|(packets, app_limited)| Step::Ack { packets, app_limited }),
        1 => (0u32..10_000_000).prop_map(|age_us| Step::Stray { age_us }),
        1 => (1u8..12, prop::bool::weighted(0.1)).prop_map(|(packets, persistent)| Step::Lose { packets, persistent }),
        1 => Just(Step::Mark),
        1 => (1u16..9000).prop_map(Step::Mtu),
        8 => (0u32..30_000).prop_map(|us| Step::Wait { us }),
        1 => (0u32..3_600_000_000).prop_map(|us| Step::Wait { us }),
        1 => (0u32..30_000).prop_map(|us| Step::Back { us }),
    ]
}

/// Window and pacing rate of a controller after each of `steps`.
fn play(name: &str, base: Instant, steps: &[Step]) -> Vec<(u64, Option<u64>)> {
    let watch = Arc::new(Watch::default());
    let control = Arc::new(Control::named(name).unwrap().watched(watch.clone()));
    let mut controller = control.controller(base, 1200);
    let mut now = base + Duration::from_secs(1);
    let mut flight: std::collections::VecDeque<(Instant, u64)> = std::collections::VecDeque::new();
    let in_flight = |flight: &std::collections::VecDeque<(Instant, u64)>| flight.iter().map(|(_, bytes)| bytes).sum();
    let mut number = 0;
    let mut answers = Vec::new();
    for step in steps {
        match *step {
            Step::Send { bytes } => {
                number += 1;
                controller.on_sent(now, bytes.into(), number);
                let mut left = u64::from(bytes);
                while left > 0 {
                    let size = left.min(controller.mtu().into());
                    flight.push_back((now, size));
                    left -= size;
                }
            }
            Step::Ack { packets, app_limited } => {
                for _ in 0..packets {
                    let Some((sent, bytes)) = flight.pop_front() else { break };
                    controller.acknowledged(now, sent, bytes);
                }
                controller.on_end_acks(now, in_flight(&flight), app_limited, Some(number));
            }
            Step::Stray { age_us } => {
                let sent = now.checked_sub(Duration::from_micros(age_us.into())).unwrap_or(base);
                controller.acknowledged(now, sent, 1200);
                controller.on_end_acks(now, in_flight(&flight), false, Some(number));
            }
            Step::Lose { packets, persistent } => {
                let lost: Vec<_> = (0..packets).map_while(|_| flight.pop_front()).collect();
                if let Some((sent, _)) = lost.last() {
                    let bytes = lost.iter().map(|(_, bytes)| bytes).sum();
                    controller.on_congestion_event(now, *sent, persistent, bytes);
                }
            }
            Step::Mark => controller.on_congestion_event(now, now, false, 0),
            Step::Mtu(mtu) => controller.on_mtu_update(mtu),
            Step::Wait { us } => now += Duration::from_micros(us.into()),
            Step::Back { us } => now -= Duration::from_micros(us.into()).min(now - base),
        }
        let window = controller.window();
        let mtu = u64::from(controller.mtu());
        assert!(window > 2 * mtu, "{name}: a window of {window} bytes holds no two packets of {mtu}");
        assert!(window <= (1 << 31) * mtu, "{name}: a window of {window} bytes");
        answers.push((window, controller.metrics().pacing_rate));
    }
    answers
}

#[test]
fn no_event_breaks_an_algorithm_and_its_answers_repeat() {
    let events = std::env::var("KNEE_QUIC_EVENTS").map_or(20_000, |n| n.parse::<u32>().unwrap());
    #[allow(clippy::disallowed_methods, reason = "quinn's clock cannot be made from a number")]
    let base = Instant::now();
    for entry in knee_cc::registry() {
        let config = Config { cases: events / 400 + 1, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&prop::collection::vec(step(), 400), |steps| {
                let [first, second] = [(); 2].map(|()| play(entry.name, base, &steps));
                prop_assert_eq!(first, second);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    }
}
