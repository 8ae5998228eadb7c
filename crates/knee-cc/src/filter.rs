//! A minimum over a sliding span of time, in bounded memory.

use knee_core::Time;

/// Slots the span is divided into.
const SLOTS: usize = 16;

/// The minimum of the last `span`: exact for all values within it, though a value may count for up to a slot longer,
/// which is a sixteenth of the span, rounded up to nanoseconds. Independent of how many values there are and how often
/// they come.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin {
    slot: Time,
    /// When the current slot ends.
    end: Time,
    /// Minima of the slots, a ring; [`u64::MAX`] where there was no value.
    minima: [u64; SLOTS + 1],
    current: usize,
    min: u64,
}

impl WindowedMin {
    /// An empty filter over `span`.
    pub fn new(span: Time) -> Self {
        let slot = Time::from_nanos(span.as_nanos().div_ceil(SLOTS as u64).max(1));
        Self { slot, end: Time::ZERO, minima: [u64::MAX; SLOTS + 1], current: 0, min: u64::MAX }
    }

    /// Takes a value seen at `now` and returns the minimum.
    pub fn update(&mut self, now: Time, value: u64) -> u64 {
        if now >= self.end {
            self.advance(now);
        }
        self.minima[self.current] = self.minima[self.current].min(value);
        self.min = self.min.min(value);
        self.min
    }

    fn advance(&mut self, now: Time) {
        let passed = 1 + (now.as_nanos() - self.end.as_nanos()) / self.slot.as_nanos();
        for _ in 0..passed.min(SLOTS as u64 + 1) {
            self.current = (self.current + 1) % (SLOTS + 1);
            self.minima[self.current] = u64::MAX;
        }
        self.end = self.end.saturating_add(Time::from_nanos(self.slot.as_nanos().saturating_mul(passed)));
        self.min = self.minima.iter().copied().min().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_counts_for_the_span_and_at_most_a_sixteenth_longer() {
        let mut filter = WindowedMin::new(Time::from_millis(16));
        assert_eq!(filter.update(Time::from_millis(100), 5), 5);
        assert_eq!(filter.update(Time::from_millis(116), 9), 5);
        assert_eq!(filter.update(Time::from_micros(117_001), 9), 9);
        assert_eq!(filter.update(Time::from_secs(1_000), 20), 20);
    }

    proptest! {
        #[test]
        fn lies_between_the_minima_of_the_span_and_of_a_slot_more(
            span in 1u64..100_000,
            steps in prop::collection::vec((0u64..20_000, 0u64..1000), 1..200),
        ) {
            let mut filter = WindowedMin::new(Time::from_nanos(span));
            let (mut now, mut seen) = (0, Vec::new());
            for (gap, value) in steps {
                now += gap;
                seen.push((now, value));
                let min = filter.update(Time::from_nanos(now), value);
                let over = |span| seen.iter().filter(|(at, _)| at + span >= now).map(|(_, v)| *v).min().unwrap();
                // Sixteen slots, each of whole nanoseconds, are a little longer than the span.
                let slot = span.div_ceil(16);
                prop_assert!(min <= over(span) && min >= over(17 * slot));
            }
        }
    }
}
