//! The rate of arrivals: of the packets acknowledged lately (the authors' `robust_throughput_estimator.cc`).

use super::super::Acked;
use knee_core::Time;
use std::collections::VecDeque;

/// The window holds the packets of `DURATION`, at least `PACKETS` and at most `MOST_PACKETS`, and none older than
/// `LONGEST`.
const DURATION: Time = Time::from_secs(1);
const PACKETS: usize = 20;
const MOST_PACKETS: usize = 500;
const LONGEST: Time = Time::from_secs(5);
/// Fewer packets say nothing.
const REQUIRED: usize = 10;

/// The packets that arrived lately, in that order.
#[derive(Clone, Default)]
pub(super) struct Throughput(VecDeque<Acked>);

impl Throughput {
    /// A report acknowledges these packets.
    pub(super) fn on_report(&mut self, acked: &[Acked]) {
        let window = &mut self.0;
        window.extend(acked);
        while let (Some(first), Some(last)) = (window.front(), window.back()) {
            let span = last.arrived.saturating_sub(first.arrived);
            let small =
                window.len() <= MOST_PACKETS && span <= LONGEST && (window.len() <= PACKETS || span <= DURATION);
            if small {
                break;
            }
            window.pop_front();
        }
    }

    /// Bit/s: the less of how fast they arrived and how fast they were sent. The longest gap between arrivals counts as
    /// the second longest, so that a short interruption does not look like a slow link.
    pub(super) fn rate(&self) -> Option<f64> {
        let window = &self.0;
        let (first, last) = (window.front()?, window.back()?);
        if window.len() < REQUIRED {
            return None;
        }
        let gaps = window.iter().zip(window.iter().skip(1)).map(|(a, b)| b.arrived.saturating_sub(a.arrived));
        let (longest, second) = gaps.fold((Time::ZERO, Time::ZERO), |(longest, second), gap| {
            if gap > longest { (gap, longest) } else { (longest, second.max(gap)) }
        });
        let newest = window.iter().max_by_key(|packet| packet.sent)?;
        let began = window.iter().map(|packet| packet.sent).min()?;
        let bytes: u32 = window.iter().map(|packet| packet.bytes).sum();
        // Arrivals end with a packet, sendings begin with one: the first and the newest lie outside.
        let rate = |bytes: u32, time: Time| 8.0 * f64::from(bytes) / time.as_secs_f64().max(1e-3);
        let arrived = (last.arrived.saturating_sub(first.arrived) + second).saturating_sub(longest);
        Some(rate(bytes - first.bytes, arrived).min(rate(bytes - newest.bytes, newest.sent - began)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_millis(1);

    /// Packets of 1000 bytes, sent `apart` ms after each other, that arrive at the times of `arrives`, in ms.
    fn of(number: u64, apart: u64, arrives: impl Fn(u64) -> u64) -> Option<f64> {
        let packet = |k| Acked { bytes: 1000, sent: MS * (apart * k), arrived: MS * arrives(k), ce: false, probe: 0 };
        let mut throughput = Throughput::default();
        (0..number).for_each(|k| throughput.on_report(&[packet(k)]));
        throughput.rate()
    }

    #[test]
    fn it_is_the_less_of_the_rates_of_arrivals_and_sendings() {
        // 8000 bits every 8 ms.
        assert_eq!(of(9, 8, |k| 50 + 8 * k), None);
        assert_eq!(of(200, 8, |k| 50 + 8 * k), Some(1e6));
        assert_eq!(of(200, 4, |k| 50 + 8 * k), Some(1e6), "sent at twice the link's rate");
        assert_eq!(of(200, 8, |k| 5000 + 4 * k), Some(1e6), "a queue drains");
    }

    #[test]
    fn an_interruption_does_not_look_like_a_slow_link() {
        // 200 ms without arrivals; what waited then arrives at once.
        let rate = of(200, 8, |k| if (150..175).contains(&k) { 50 + 8 * 175 } else { 50 + 8 * k }).unwrap();
        assert!((0.95e6..=1e6).contains(&rate), "{rate}");
    }
}
