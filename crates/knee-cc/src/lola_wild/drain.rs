//! The effect of a reduction on the delay: the flow's own queue goes, others keep theirs, or there was none.

use knee_core::Time;

/// A reduction shows if [`Drain::cut_us`] is above this many times the tolerance, even with a tenth of the link.
const VISIBLE: u64 = 10;
/// How long flows that share the queue may take to reduce their windows too.
const OTHERS: Time = Time::from_millis(150);

/// A reduction of the window whose effect is awaited. RTTs in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// The window before it, packets.
    pub before: u32,
    /// RTT before it.
    rtt: u64,
    /// How long the reduction is on a link that carries this flow alone, at its rate.
    cut_us: u64,
    /// From then on RTTs show it.
    shows: Time,
    until: Time,
    /// Least RTT since it shows.
    least: u64,
}

/// The effect of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Not known yet.
    Pending,
    /// The queue is gone.
    Drained,
    /// The delay did not move, though a part of any queue went.
    Silent,
    /// Others keep a queue.
    Kept,
}

impl Drain {
    /// A reduction at `now` from `before` to `after` packets by a flow of `rate` packets per second, which RTTs show
    /// after `feedback`.
    pub fn new(now: Time, [before, after]: [u32; 2], rtt: u64, rate: u64, feedback: Time) -> Self {
        let shows = now.saturating_add(feedback);
        Self {
            before,
            rtt,
            cut_us: u64::from(before.saturating_sub(after)) * 1_000_000 / rate.max(1),
            shows,
            until: shows.saturating_add(Time::from_micros(rtt)).saturating_add(OTHERS),
            least: u64::MAX,
        }
    }

    /// Its effect at `now`, with an RTT of `rtt` of which `queue` are queueing, at most `target` without a queue;
    /// `tolerance` is noise.
    pub fn effect(&mut self, now: Time, [rtt, queue]: [u64; 2], target: u64, tolerance: u64) -> Effect {
        if now < self.shows {
            return Effect::Pending;
        }
        self.least = self.least.min(rtt);
        if queue <= target {
            Effect::Drained
        } else if self.rtt.abs_diff(rtt) <= tolerance
            && self.cut_us > VISIBLE * tolerance
            && self.least >= self.rtt.saturating_sub(tolerance)
        {
            Effect::Silent
        } else if now < self.until {
            Effect::Pending
        } else {
            Effect::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 of 400 packets at 4000 packets per second are 25 ms; RTTs show it 100 ms later, others have 230 ms more.
    fn drain() -> Drain {
        Drain::new(Time::from_secs(1), [400, 300], 80_000, 4_000, Time::from_millis(100))
    }

    fn effect(drain: &mut Drain, ms: u64, rtt: u64) -> Effect {
        drain.effect(Time::from_millis(ms), [rtt, rtt - 40_000], 5_000, 1_000)
    }

    #[test]
    fn nothing_is_known_before_an_rtt_shows_the_reduction() {
        let mut drain = drain();
        assert_eq!(drain.cut_us, 25_000);
        assert_eq!(effect(&mut drain, 1_099, 40_000), Effect::Pending);
        assert_eq!(effect(&mut drain, 1_100, 45_000), Effect::Drained);
    }

    #[test]
    fn a_delay_that_stays_is_the_path_and_one_that_falls_a_little_is_a_queue_of_others() {
        assert_eq!(effect(&mut drain(), 1_100, 79_000), Effect::Silent);
        let mut shared = drain();
        assert_eq!(effect(&mut shared, 1_100, 78_999), Effect::Pending);
        assert_eq!(effect(&mut shared, 1_329, 80_000), Effect::Pending);
        assert_eq!(effect(&mut shared, 1_330, 80_000), Effect::Kept);
    }

    #[test]
    fn a_small_reduction_is_no_evidence() {
        let mut small = Drain::new(Time::from_secs(1), [400, 360], 80_000, 4_000, Time::from_millis(100));
        assert_eq!(effect(&mut small, 1_100, 80_000), Effect::Pending);
        assert_eq!(effect(&mut small, 1_330, 80_000), Effect::Kept);
    }
}
