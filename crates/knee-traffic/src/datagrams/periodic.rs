//! Datagrams of one size at equal times: all the time, or in talkspurts.
//!
//! A talkspurt and the silence after it last exponentially distributed times (the on-off model of a voice with silence
//! suppression: Brady, "A Model for Generating On-Off Speech Patterns in Two-Way Conversation", 1969, in its simplest
//! form), or constant ones, as the bursts of a low-rate attack (Kuzmanovic and Knightly, SIGCOMM 2003). The first
//! datagram leaves as the talkspurt begins. So a talkspurt of mean length a at intervals d has 1 / (1 - exp(-d/a))
//! datagrams on average, which is a/d + 1/2 where a is much longer than d.

use super::{Next, Source};
use knee_core::convert::truncated;
use knee_core::{Rng, Time};

/// A source that sends datagrams of one size at equal times.
#[derive(Clone)]
pub struct Periodic {
    packet: u16,
    interval: Time,
    /// When the next one leaves. `None` if the source has not begun.
    next: Option<Time>,
    pauses: Option<Pauses>,
}

/// When it talks.
#[derive(Clone)]
struct Pauses {
    /// Mean lengths of talkspurts and silences.
    on: Time,
    off: Time,
    /// When the talkspurt ends.
    until: Time,
    /// Draws the lengths. `None` if they are the mean.
    rng: Option<Rng>,
}

impl Pauses {
    /// The end of a talkspurt that begins at `from`.
    fn talk(&mut self, from: Time) -> Time {
        from.saturating_add(Self::length(self.on, &mut self.rng))
    }

    /// The end of a silence that begins at `from`.
    fn rest(&mut self, from: Time) -> Time {
        from.saturating_add(Self::length(self.off, &mut self.rng))
    }

    fn length(mean: Time, rng: &mut Option<Rng>) -> Time {
        rng.as_mut().map_or(mean, |rng| exponential(mean, rng))
    }
}

impl Periodic {
    /// Sends `packet` bytes (as IP packets) every `interval`.
    pub const fn new(packet: u16, interval: Time) -> Self {
        Self { packet, interval, next: None, pauses: None }
    }

    /// Adds talkspurts of `on` and silences of `off`, beginning with a talkspurt: on average, or without `rng` each
    /// time.
    #[must_use]
    pub fn with_pauses(self, on: Time, off: Time, rng: Option<Rng>) -> Self {
        Self { pauses: Some(Pauses { on, off, until: Time::ZERO, rng }), ..self }
    }

    /// When the datagram after one at `at` leaves.
    fn after(&mut self, at: Time) -> Time {
        let next = at.saturating_add(self.interval);
        match &mut self.pauses {
            Some(pauses) if next >= pauses.until => {
                let begins = pauses.rest(pauses.until).max(at + NS);
                pauses.until = pauses.talk(begins);
                begins
            }
            _ => next,
        }
    }
}

const NS: Time = Time::from_nanos(1);

impl Source for Periodic {
    fn next(&mut self, now: Time) -> Next {
        if let (None, Some(pauses)) = (self.next, &mut self.pauses) {
            pauses.until = pauses.talk(now);
        }
        let at = self.next.unwrap_or(now);
        if at > now {
            self.next = Some(at);
            return Next::Wait(at);
        }
        self.next = Some(self.after(at));
        Next::Send(self.packet)
    }
}

/// An exponentially distributed time with this mean, at most 37 times as long.
pub(super) fn exponential(mean: Time, rng: &mut Rng) -> Time {
    let u = 1.0 - rng.unit();
    Time::from_nanos(truncated(-libm::log(u) * mean.as_nanos() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a source sends up to `end`.
    fn times(mut source: Periodic, from: Time, end: Time) -> Vec<Time> {
        let (mut now, mut sent) = (from, Vec::new());
        while now < end {
            match source.next(now) {
                Next::Send(_) => sent.push(now),
                Next::Wait(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        sent
    }

    #[test]
    fn a_constant_source_sends_from_its_start_at_equal_times() {
        let sent = times(Periodic::new(200, Time::from_millis(20)), Time::from_millis(7), Time::from_secs(1));
        assert_eq!(sent.len(), 50);
        assert!((0..).zip(sent).all(|(k, at)| at == Time::from_millis(7 + 20 * k)));
    }

    #[test]
    fn an_on_off_source_has_its_mean_rate() {
        let (on, off, interval) = (Time::from_millis(400), Time::from_millis(600), Time::from_millis(20));
        let source = Periodic::new(200, interval).with_pauses(on, off, Some(Rng::stream(1, "voice")));
        let cycles = 20_000;
        let sent = times(source, Time::ZERO, Time::from_secs(cycles));
        // Talkspurts have geometric numbers of datagrams: by the law of large numbers, with four standard deviations of
        // sqrt(20 000) talkspurts whose lengths have a coefficient of variation of 1, and of silences the same.
        let per_spurt = 1.0 / (1.0 - libm::exp(-0.05));
        let expected = cycles as f64 * per_spurt;
        assert!((sent.len() as f64 / expected - 1.0).abs() < 0.03, "{} {expected}", sent.len());
        let spurts = 1 + sent.windows(2).filter(|pair| pair[1] - pair[0] != interval).count();
        assert!((spurts as f64 / cycles as f64 - 1.0).abs() < 0.03, "{spurts}");
    }

    #[test]
    fn bursts_of_constant_length_begin_at_equal_times() {
        let (on, off, interval) = (Time::from_millis(50), Time::from_millis(950), Time::from_millis(10));
        let source = Periodic::new(200, interval).with_pauses(on, off, None);
        let sent = times(source, Time::from_millis(7), Time::from_millis(3007));
        let bursts = (0..3).flat_map(|second| (0..5).map(move |k| Time::from_millis(7 + 1000 * second + 10 * k)));
        assert!(sent.into_iter().eq(bursts));
    }
}
