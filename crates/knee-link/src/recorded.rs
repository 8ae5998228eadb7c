//! Recordings of a rate, an extra delay or a loss probability by time. Each value holds from its time until the
//! next; a recording begins anew after its period, or its last value holds on.

use crate::medium::{Capacity, Frame, Medium, PathDelay, Port};
use knee_core::{Rate, Time};

/// A value by time.
#[derive(Clone, Debug)]
pub struct Recorded<T> {
    /// From when on each value holds: ascending, the first at zero.
    at: Box<[Time]>,
    values: Box<[T]>,
    /// When it begins anew, after the last of `at`. `None`: never.
    period: Option<Time>,
}

impl<T: Copy> Recorded<T> {
    /// Values that hold from these times on, and begin anew after a `period`. `None` if the times do not ascend from
    /// zero, are not as many as the values, or end after the period.
    pub fn new(at: Box<[Time]>, values: Box<[T]>, period: Option<Time>) -> Option<Self> {
        let ascending = at.first() == Some(&Time::ZERO) && at.windows(2).all(|pair| pair[0] < pair[1]);
        let within = period.is_none_or(|period| at.last().is_some_and(|last| *last < period));
        (ascending && within && at.len() == values.len()).then_some(Self { at, values, period })
    }

    /// The round that `now` is in, how long it has lasted, and which value holds.
    fn place(&self, now: Time) -> (u64, Time, usize) {
        let (round, rest) = self.period.map_or((0, now), |period| {
            (now.as_nanos() / period.as_nanos(), Time::from_nanos(now.as_nanos() % period.as_nanos()))
        });
        (round, rest, self.at.partition_point(|at| *at <= rest) - 1)
    }

    /// The value that holds `now`.
    pub(crate) fn get(&self, now: Time) -> T {
        self.values[self.place(now).2]
    }

    /// When the value of `now` ends to hold; `Time::MAX`: never.
    fn until(&self, now: Time) -> Time {
        let (round, _, i) = self.place(now);
        let begin = self.period.map_or(Time::ZERO, |period| period * round);
        match (self.at.get(i + 1), self.period) {
            (Some(next), _) => begin + *next,
            (None, Some(period)) => begin + period,
            (None, None) => Time::MAX,
        }
    }
}

impl PathDelay for Recorded<Time> {
    fn delay(&mut self, now: Time) -> Time {
        self.get(now)
    }
}

/// A wire whose rate is recorded. A packet under way as the rate changes goes on at the new one. Positions are what it
/// could have sent since the start, in bits times 1e9: bit/s times ns, so that nothing is rounded.
#[derive(Clone)]
pub struct RecordedRate {
    rates: Recorded<u64>,
    /// The position at each of the times of `rates`, within a round.
    before: Box<[u128]>,
    /// The position at the end of a round.
    whole: u128,
    /// Some value holds for less than a millisecond.
    is_fine: bool,
    in_service: Option<InService>,
}

#[derive(Clone, Copy)]
struct InService {
    frame: Frame,
    /// Positions at which its first bit is sent, and its last.
    begins: u128,
    ends: u128,
    /// Bits of it that the port has been told.
    carried: u64,
}

const BIT: u128 = 1_000_000_000;

impl RecordedRate {
    /// A wire with these rates, in bit/s. `None` if none of them sends anything.
    pub fn new(rates: Recorded<u64>) -> Option<Self> {
        let (mut position, mut is_fine) = (0, false);
        let mut before = Vec::with_capacity(rates.at.len());
        for (i, rate) in rates.values.iter().enumerate() {
            before.push(position);
            let end = rates.at.get(i + 1).copied().or(rates.period).unwrap_or(rates.at[i]);
            let span = end - rates.at[i];
            is_fine |= Time::ZERO < span && span < Time::from_millis(1);
            position += u128::from(*rate) * u128::from(span.as_nanos());
        }
        let sends = rates.values.iter().any(|rate| *rate > 0);
        sends.then(|| Self { rates, before: before.into(), whole: position, is_fine, in_service: None })
    }

    /// The mean of the rates over a round, or of those before the last; at least 1 bit/s.
    pub fn mean(&self) -> Rate {
        let span = self.rates.period.or_else(|| self.rates.at.last().copied()).unwrap_or(Time::ZERO);
        let mean = self.whole.checked_div(u128::from(span.as_nanos()));
        Rate::from_bps(mean.map_or(self.rates.values[0], |bps| u64::try_from(bps).unwrap_or(u64::MAX)).max(1))
    }

    /// The position at `now`.
    fn position(&self, now: Time) -> u128 {
        let (round, rest, i) = self.rates.place(now);
        let within = u128::from(self.rates.values[i]) * u128::from((rest - self.rates.at[i]).as_nanos());
        u128::from(round) * self.whole + self.before[i] + within
    }

    /// When the position is first reached; `Time::MAX`: never.
    fn when(&self, position: u128) -> Time {
        let round = self.rates.period.map_or(0, |_| position.saturating_sub(1) / self.whole);
        let rest = position - round * self.whole;
        let i = self.before.partition_point(|before| *before < rest).saturating_sub(1);
        let begin = self.rates.period.map_or(0, |period| u128::from(period.as_nanos())) * round;
        let within = (rest - self.before[i]).div_ceil(u128::from(self.rates.values[i]).max(1));
        let at = begin + u128::from(self.rates.at[i].as_nanos()) + within;
        let is_reached = rest <= self.before[i] || self.rates.values[i] > 0;
        u64::try_from(at).ok().filter(|_| is_reached).map_or(Time::MAX, Time::from_nanos)
    }

    /// When the packet in service ends or the rate changes, and how many of its bits are sent by then. Rates that
    /// change within a millisecond are followed in sixteenths of the packet.
    fn next(&self, packet: &InService, now: Time) -> (Time, u64) {
        let mut step = self.rates.until(now);
        if self.is_fine {
            let part = (packet.frame.bytes / 2).max(1);
            step = step.max(self.when(packet.begins + u128::from(packet.carried + part) * BIT));
        }
        let finish = self.when(packet.ends);
        if finish <= step {
            return (finish, packet.frame.bytes * 8);
        }
        let sent = if step == Time::MAX { 0 } else { self.position(step).saturating_sub(packet.begins) / BIT };
        (step, u64::try_from(sent).unwrap_or(u64::MAX).max(packet.carried))
    }
}

impl Medium for RecordedRate {
    fn serve(&mut self, now: Time, port: &mut dyn Port) -> Time {
        let here = self.position(now);
        let mut begins = here;
        if let Some(packet) = self.in_service.take_if(|packet| packet.ends <= here) {
            port.leave(packet.frame, now);
            // A packet that follows at once begins with the next bit, not with the next nanosecond.
            begins = packet.ends;
        }
        let mut packet = if let Some(packet) = self.in_service {
            packet
        } else {
            let Some(frame) = port.take() else { return Time::MAX };
            InService { frame, begins, ends: begins + u128::from(frame.bytes) * 8 * BIT, carried: 0 }
        };
        let (at, sent) = self.next(&packet, now);
        if at < Time::MAX && sent > packet.carried {
            port.carry(sent - packet.carried, now, at);
            packet.carried = sent;
        }
        self.in_service = Some(packet);
        at
    }

    fn capacity(&self, now: Time) -> Capacity {
        Capacity::Offered(self.position(now) / BIT)
    }

    fn set_rate(&mut self, _rate: Rate, now: Time) -> Time {
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing::Bench;
    use crate::wire::Wire;
    use proptest::prelude::*;

    const MS: Time = Time::from_millis(1);

    #[test]
    fn a_recorded_delay_is_the_one_that_holds() {
        let mut path = recorded(&[(0, MS * 3), (10, MS * 5)], Some(20));
        let delays = [0, 9, 10, 19, 20, 30].map(|ms| path.delay(MS * ms));
        assert_eq!(delays, [3, 3, 5, 5, 3, 5].map(|ms| MS * ms));
    }

    fn recorded<T: Copy>(steps: &[(u64, T)], period: Option<u64>) -> Recorded<T> {
        let at = steps.iter().map(|step| MS * step.0).collect();
        Recorded::new(at, steps.iter().map(|step| step.1).collect(), period.map(|ms| MS * ms)).unwrap()
    }

    fn bench(steps: &[(u64, u64)], period: Option<u64>) -> Bench {
        Bench::new(Box::new(RecordedRate::new(recorded(steps, period)).unwrap()))
    }

    #[test]
    fn a_value_holds_until_the_next_and_the_last_until_the_period_ends_or_for_ever() {
        let steps = [(0, 7), (10, 8), (15, 9)];
        let (once, again) = (recorded(&steps, None), recorded(&steps, Some(20)));
        for (ms, first, second) in [(0, 7, 7), (9, 7, 7), (10, 8, 8), (19, 9, 9), (20, 9, 7), (30, 9, 8), (39, 9, 9)] {
            assert_eq!((once.get(MS * ms), again.get(MS * ms)), (first, second), "{ms} ms");
        }
        assert_eq!([0, 12, 15].map(|ms| once.until(MS * ms)), [MS * 10, MS * 15, Time::MAX]);
        assert_eq!([0, 19, 20].map(|ms| again.until(MS * ms)), [MS * 10, MS * 20, MS * 30]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let made = |at: &[u64], period| {
            Recorded::new(at.iter().map(|ms| MS * *ms).collect(), vec![1; at.len()].into(), period).is_some()
        };
        assert!(made(&[0], None) && made(&[0, 1], Some(MS * 2)));
        for (at, period) in [(&[][..], None), (&[1], None), (&[0, 2, 2], None), (&[0, 1], Some(MS))] {
            assert!(!made(at, period), "{at:?} {period:?}");
        }
        assert!(RecordedRate::new(recorded(&[(0, 0), (5, 0)], None)).is_none(), "it never sends");
    }

    #[test]
    fn a_packet_goes_on_at_the_new_rate_and_waits_while_there_is_none() {
        // 1514 bytes are 12112 bits: at 1 Mbit/s 4000 in 4 ms, none for 6 ms, and the rest at 8.112 Mbit/s in 1 ms.
        let made = || {
            let mut bench = bench(&[(0, 1_000_000), (4, 0), (10, 8_112_000)], None);
            bench.arrive(Time::ZERO, 1);
            bench
        };
        assert_eq!([2, 4, 9, 20].map(|ms| made().carried(MS * ms)), [2000, 4000, 4000, 12_112]);
        assert_eq!(made().departures(MS * 20), [MS * 11]);
    }

    #[test]
    fn rates_that_change_each_nanosecond_make_their_mean() {
        let (at, values) = ([0, 1].map(Time::from_nanos), [3_000_000, 1_000_000]);
        let rates = Recorded::new(at.into(), values.into(), Some(Time::from_nanos(2))).unwrap();
        let mut bench = Bench::new(Box::new(RecordedRate::new(rates).unwrap()));
        bench.arrive(Time::ZERO, 1);
        // 2 Mbit/s in the mean: 12112 bits in 6.056 ms.
        assert_eq!(bench.departures(MS * 20), [Time::from_micros(6056)]);
    }

    proptest! {
        /// The time at which a position is reached is the first at which it is.
        #[test]
        fn a_position_is_reached_when_it_says(
            steps in prop::collection::vec((1u64..9, 0u64..4), 1..6),
            repeats in any::<bool>(),
            position in 0u128..400,
        ) {
            let at: Vec<u64> = steps.iter().scan(0, |end, step| Some(std::mem::replace(end, *end + step.0))).collect();
            let period = repeats.then(|| Time::from_nanos(at[at.len() - 1] + 1));
            let times = at.into_iter().map(Time::from_nanos).collect();
            let rates = Recorded::new(times, steps.iter().map(|step| step.1).collect(), period).unwrap();
            let Some(wire) = RecordedRate::new(rates) else { return Ok(()) };
            let reached = (0..20_000).map(Time::from_nanos).find(|at| wire.position(*at) >= position);
            prop_assert_eq!(wire.when(position), reached.unwrap_or(Time::MAX));
        }
    }

    #[test]
    fn after_a_last_rate_of_zero_nothing_leaves() {
        let mut bench = bench(&[(0, 1_000_000), (4, 0)], None);
        bench.arrive(Time::ZERO, 2);
        bench.arrive(MS * 50, 1);
        assert!(bench.departures(Time::from_secs(100)).is_empty());
        assert_eq!(bench.carried(Time::from_secs(100)), 4000);
    }

    #[test]
    fn the_mean_is_that_of_a_round() {
        let mean = |steps: &[(u64, u64)], period| RecordedRate::new(recorded(steps, period)).unwrap().mean().as_bps();
        assert_eq!(mean(&[(0, 4_000_000), (10, 0)], Some(40)), 1_000_000);
        assert_eq!(mean(&[(0, 4_000_000), (10, 9)], None), 4_000_000);
        assert_eq!(mean(&[(0, 5)], None), 5);
    }

    proptest! {
        #[test]
        fn the_last_bit_of_each_packet_of_a_busy_wire_is_sent_as_soon_as_the_rates_allow(
            lengths in prop::collection::vec((1u64..40, 0u64..20_000_000), 1..8),
            repeats in any::<bool>(),
        ) {
            let mut at = 0;
            let steps: Vec<(u64, u64)> = lengths.iter().map(|(ms, rate)| { let begin = at; at += ms; (begin, *rate) }).collect();
            prop_assume!(steps.iter().any(|step| step.1 > 0));
            let rates = recorded(&steps, repeats.then_some(at));
            let mut bench = bench(&steps, repeats.then_some(at));
            bench.saturate();
            let end = MS * 300;
            let made = bench.departures(end);
            // Nanosecond by nanosecond would take long: between two steps the position is a straight line.
            let (mut position, mut now, mut expected) = (0u128, Time::ZERO, Vec::new());
            while now < end {
                let (until, rate) = (rates.until(now).min(end), u128::from(rates.get(now)));
                let after = position + rate * u128::from((until - now).as_nanos());
                loop {
                    let next = (expected.len() as u128 + 1) * 1514 * 8 * BIT;
                    if next > after { break }
                    expected.push(now + Time::from_nanos((next - position).div_ceil(rate) as u64));
                }
                (position, now) = (after, until);
            }
            prop_assert_eq!(made, expected);
            prop_assert!(bench.carried(end).abs_diff(position / BIT) <= 1);
        }

        #[test]
        fn a_rate_that_does_not_change_is_a_wire(
            rate in 100_000u64..1_000_000_000,
            gaps in prop::collection::vec((0u64..30, 1u64..4), 1..20),
            step in 1u64..50,
        ) {
            let steps: Vec<(u64, u64)> = (0..10).map(|i| (i * step, rate)).collect();
            let mut bench = bench(&steps, Some(10 * step));
            let (mut wire, mut now, mut free, mut expected) = (Wire::new(Rate::from_bps(rate)), Time::ZERO, Time::ZERO, vec![]);
            for (gap, count) in gaps {
                now += MS * gap;
                bench.arrive(now, count);
                for _ in 0..count {
                    free = free.max(now) + wire.time_for(1514);
                    expected.push(free);
                }
            }
            let made = bench.departures(Time::from_secs(100));
            prop_assert_eq!(made.len(), expected.len());
            // A wire carries its fraction of a nanosecond over idle times.
            let close = |pair: (&Time, &Time)| pair.0.as_nanos().abs_diff(pair.1.as_nanos()) <= 1;
            prop_assert!(made.iter().zip(&expected).all(close), "{:?} {:?}", made, expected);
        }
    }
}
