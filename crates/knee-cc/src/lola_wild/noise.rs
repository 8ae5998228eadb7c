//! A minimum filter of the RTT whose span is as long as the path's own variation asks for.
//!
//! The minima of a span's successive blocks have second differences: a queue that grows steadily has none, jitter and
//! media with slots have some (D. W. Allan, "Statistics of Atomic Frequency Standards", Proc. IEEE 54,
//! 1966, takes them for the noise of clocks).

use crate::filter::WindowedMin;
use knee_core::Time;

/// Spans, each twice as long as the one before.
const SPANS: usize = 5;
/// Second differences that each span keeps; half of them have to be small.
const KEPT: usize = 16;
/// With fewer nothing is known of a span.
const ENOUGH: usize = 4;

/// The longest span of a filter whose shortest is `shortest`.
pub const fn longest(shortest: Time) -> Time {
    Time::from_nanos(shortest.as_nanos().saturating_mul(1 << (SPANS - 1)))
}

/// The minima of a span's successive blocks, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    length: Time,
    /// When the current block ends.
    end: Time,
    /// Its minimum; [`u64::MAX`] before the first value.
    min: u64,
    /// The minima of the last block and of the one before it; [`u64::MAX`] after a gap.
    last: [u64; 2],
    /// A ring of second differences.
    differences: [u64; KEPT],
    /// How many there have been.
    count: usize,
}

impl Blocks {
    const fn new(length: Time) -> Self {
        Self { length, end: Time::ZERO, min: u64::MAX, last: [u64::MAX; 2], differences: [0; KEPT], count: 0 }
    }

    /// Takes a value; true if a block ended.
    fn update(&mut self, now: Time, value: u64) -> bool {
        if now < self.end {
            self.min = self.min.min(value);
            return false;
        }
        let [last, before] = self.last;
        if before != u64::MAX {
            self.differences[self.count % KEPT] = self.min.saturating_add(before).abs_diff(last.saturating_mul(2));
            self.count += 1;
        }
        // Minima before and after a gap say nothing about the path.
        let gap = now.saturating_sub(self.end) >= self.length;
        self.last = if gap { [u64::MAX; 2] } else { [self.min, last] };
        (self.min, self.end) = (value, now.saturating_add(self.length));
        true
    }

    /// The median of the second differences; 0 while too few are known.
    fn noise(&self) -> u64 {
        let known = self.count.min(KEPT);
        if known < ENOUGH {
            return 0;
        }
        let mut sorted = self.differences;
        sorted[..known].sort_unstable();
        sorted[known / 2]
    }
}

/// The filter.
#[derive(Clone, Debug)]
pub struct Filter {
    blocks: [Blocks; SPANS],
    window: WindowedMin,
    /// The window's time: a gap between RTTs counts for at most the shortest span, since all that waited in it have
    /// long RTTs.
    clock: Time,
    /// When the last RTT came.
    seen: Time,
    chosen: usize,
    /// Noise up to which the shortest span is quiet, us, and up to which the others are.
    quiet: [u64; 2],
}

impl Filter {
    /// A filter over `shortest`, or twice, four, eight or 16 times that where shorter spans are not quiet: the noise of
    /// the shortest is above the first value of `quiet`, in microseconds, or that of another above the second. With a
    /// first value of [`u64::MAX`] the span never changes.
    pub fn new(shortest: Time, quiet: [u64; 2]) -> Self {
        let length = |k| Time::from_nanos(shortest.as_nanos().saturating_mul(1u64 << k));
        Self {
            blocks: std::array::from_fn(|k| Blocks::new(length(k))),
            window: WindowedMin::new(shortest),
            clock: Time::ZERO,
            seen: Time::ZERO,
            chosen: 0,
            quiet,
        }
    }

    /// The span in use.
    pub const fn span(&self) -> Time {
        self.blocks[self.chosen].length
    }

    /// Noise of this span in microseconds.
    pub fn noise(&self) -> u64 {
        self.blocks[self.chosen].noise()
    }

    /// Takes an RTT in microseconds and returns the least of the span.
    pub fn update(&mut self, now: Time, rtt: u64) -> u64 {
        let passed = now.saturating_sub(self.seen).min(self.blocks[0].length);
        self.clock = self.clock.saturating_add(passed);
        self.seen = now;
        let mut ended = false;
        for blocks in &mut self.blocks {
            ended |= blocks.update(now, rtt);
        }
        if ended {
            let quiet = self.blocks.iter().enumerate().position(|(k, blocks)| blocks.noise() <= self.quiet[k.min(1)]);
            self.choose(quiet.unwrap_or(SPANS - 1));
        }
        self.window.update(self.clock, rtt)
    }

    fn choose(&mut self, span: usize) {
        if span != self.chosen {
            self.chosen = span;
            self.window = WindowedMin::new(self.span());
            let Blocks { last: [last, _], min, .. } = self.blocks[span];
            self.window.update(self.clock, last.min(min));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Rng;

    /// The span after ten seconds of an RTT per millisecond.
    fn span(mut rtt: impl FnMut(u64) -> u64) -> Time {
        let mut filter = Filter::new(Time::from_millis(40), [600; 2]);
        for ms in 0..10_000 {
            filter.update(Time::from_millis(ms), rtt(ms));
        }
        filter.span()
    }

    #[test]
    fn a_steady_delay_and_one_that_rises_steadily_need_the_shortest_span() {
        assert_eq!(span(|_| 40_000), Time::from_millis(40));
        assert_eq!(span(|ms| 40_000 + 20 * ms), Time::from_millis(40));
    }

    #[test]
    fn delay_that_comes_in_steps_of_100_ms_needs_a_span_in_which_each_minimum_has_a_low_step() {
        let spans = [1, 2, 4, 8, 16].map(|k| Time::from_millis(40 * k));
        let found = span(|ms| if (ms / 100).is_multiple_of(2) { 40_000 } else { 48_000 });
        assert!(spans[2..].contains(&found), "{found}");
    }

    #[test]
    fn noise_at_all_spans_needs_the_longest() {
        let mut rng = Rng::stream(1, "noise");
        let mut level = 0;
        let walk = |ms: u64| {
            if ms.is_multiple_of(40) {
                level = rng.below(40_000);
            }
            40_000 + level
        };
        assert!(span(walk) >= Time::from_millis(320));
    }

    #[test]
    fn minima_of_a_new_span_include_what_its_blocks_saw() {
        let mut filter = Filter::new(Time::from_millis(40), [600; 2]);
        let mut least = u64::MAX;
        for ms in 0..2_000u64 {
            let rtt = if ms.is_multiple_of(100) { 40_000 } else { 50_000 };
            least = filter.update(Time::from_millis(ms), rtt);
        }
        assert_eq!(least, 40_000, "{}", filter.span());
    }

    /// After a medium was busy for 700 ms, the RTTs of all that waited are long. They are of one moment.
    #[test]
    fn rtts_after_a_gap_do_not_displace_those_before_it() {
        let mut filter = Filter::new(Time::from_millis(40), [600; 2]);
        for ms in 0..9_950 {
            filter.update(Time::from_millis(ms), if (ms / 50).is_multiple_of(2) { 40_000 } else { 48_000 });
        }
        assert!(filter.span() > Time::from_millis(40));
        for us in 0..64 {
            let now = Time::from_millis(10_650) + Time::from_micros(us);
            assert_eq!(filter.update(now, 740_000), 40_000, "{}", filter.span());
        }
    }

    #[test]
    fn a_gap_is_no_noise() {
        let mut filter = Filter::new(Time::from_millis(40), [600; 2]);
        for burst in 0..100u64 {
            for ms in 0..50 {
                filter.update(Time::from_millis(1_000 * burst + ms), 40_000 + 5_000 * (burst % 2));
            }
        }
        assert_eq!(filter.span(), Time::from_millis(40));
    }
}
