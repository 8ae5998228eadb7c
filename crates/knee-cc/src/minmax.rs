//! A windowed maximum in three samples: constant space and time, almost always the exact answer.
//!
//! Source: Kathleen Nichols' filter in the form of Linux's `lib/win_minmax.c`. It keeps the best sample of the window,
//! the best of those after it, and the best of those after that one, so `value` falls and `time` rises from the first
//! to the third. A new maximum makes all older samples worthless. A best sample that outlives the window is replaced
//! by the second, the second by the third. Where the best stays for a quarter (a half) of the window without a second
//! (third) choice of its own, the newest sample takes that place, which bounds the error on a falling sequence.
//!
//! The caller chooses the units of values and times; time is any counter that never decreases.

/// A measurement and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    time: u64,
    value: u64,
}

/// The maximum of the samples of the last `window` units of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowedMax {
    /// First, second and third choice.
    best: [Sample; 3],
}

impl WindowedMax {
    /// A filter that has seen one sample.
    pub const fn new(time: u64, value: u64) -> Self {
        Self { best: [Sample { time, value }; 3] }
    }

    /// The current maximum.
    pub const fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Adds a sample and returns the maximum over the last `window`.
    pub fn update(&mut self, window: u64, time: u64, value: u64) -> u64 {
        let age = |sample: Sample| time.saturating_sub(sample.time);
        if value >= self.best[0].value || age(self.best[2]) > window {
            *self = Self::new(time, value);
            return value;
        }
        let new = Sample { time, value };
        if value >= self.best[1].value {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= self.best[2].value {
            self.best[2] = new;
        }
        self.age(window, new);
        self.get()
    }

    /// Replaces choices that are too old by the next ones.
    fn age(&mut self, window: u64, new: Sample) {
        let [first, second, third] = self.best;
        let elapsed = new.time.saturating_sub(first.time);
        if elapsed > window {
            self.best = [second, third, new];
            // The second choice may be too old as well; the third cannot be, or the filter would have been reset.
            if new.time.saturating_sub(second.time) > window {
                self.best = [third, new, new];
            }
        } else if second.time == first.time && elapsed > window / 4 {
            self.best = [first, new, new];
        } else if third.time == second.time && elapsed > window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_maximum_holds_for_the_window_and_then_gives_way_to_the_best_that_followed() {
        let mut max = WindowedMax::new(0, 0);
        max.update(10, 1, 100);
        for t in 2..=11 {
            // 70 at t = 5 is the best of those after 100; the rest are 50.
            assert_eq!(max.update(10, t, if t == 5 { 70 } else { 50 }), 100, "t = {t}");
        }
        assert_eq!(max.update(10, 12, 50), 70);
        assert_eq!(max.update(10, 15, 50), 70);
        assert_eq!(max.update(10, 16, 50), 50);
    }

    #[test]
    fn after_a_silence_longer_than_the_window_only_the_new_sample_counts() {
        let mut max = WindowedMax::new(0, 1000);
        assert_eq!(max.update(10, 11, 3), 3);
    }

    proptest! {
        #[test]
        fn the_answer_was_measured_within_the_window_and_no_sample_of_late_is_larger_than_the_last_maximum(
            samples in prop::collection::vec((0u64..3, 0u64..1000), 1..200)
        ) {
            let mut max = WindowedMax::new(0, 0);
            let mut time = 0;
            let mut seen = vec![(0, 0)];
            for (step, value) in samples {
                time += step;
                seen.push((time, value));
                let answer = max.update(10, time, value);
                prop_assert!(answer >= value);
                prop_assert!(seen.iter().any(|&(t, v)| v == answer && t + 10 >= time));
                let exact = seen.iter().filter(|(t, _)| t + 10 >= time).map(|&(_, v)| v).max().unwrap();
                prop_assert!(answer <= exact);
            }
        }
    }
}
