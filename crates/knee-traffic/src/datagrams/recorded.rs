//! Datagrams as recorded, once or over and over.

use super::{Next, Source};
use knee_core::Time;

/// A source that repeats what was recorded.
#[derive(Clone)]
pub struct Recorded {
    /// Times from the start and sizes as IP packets, ascending.
    packets: Vec<(Time, u16)>,
    /// After which all comes again. `None` for never.
    period: Option<Time>,
    /// The next one, and when the round that it belongs to began. `None` if the source has not begun.
    place: usize,
    round: Option<Time>,
}

impl Recorded {
    /// Sends these packets (times from the start in ns, ascending, and bytes), and again if it repeats.
    pub fn new(packets: &[(u64, u16)], repeat: bool) -> Self {
        let period = repeat.then(|| period(packets));
        let packets = packets.iter().map(|&(at, size)| (Time::from_nanos(at), size)).collect();
        Self { packets, period, place: 0, round: None }
    }
}

/// After which time a record begins anew: between its last packet and the first one of the next round passes the mean
/// of the times between its packets, so that its mean rate stays; a single packet comes again after its own time.
pub(super) fn period(packets: &[(u64, u16)]) -> Time {
    let (Some((first, _)), Some((last, _))) = (packets.first(), packets.last()) else { return Time::ZERO };
    let gaps = packets.len() as u64 - 1;
    let length = last - first;
    Time::from_nanos(length.checked_div(gaps).map_or(*last, |mean| length + mean))
}

impl Source for Recorded {
    fn next(&mut self, now: Time) -> Next {
        let round = *self.round.get_or_insert(now);
        let Some(&(at, size)) = self.packets.get(self.place) else {
            let Some(period) = self.period else { return Next::Wait(Time::MAX) };
            (self.place, self.round) = (0, Some(round.saturating_add(period)));
            return self.next(now);
        };
        let at = round.saturating_add(at);
        if at > now {
            return Next::Wait(at);
        }
        self.place += 1;
        Next::Send(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in ns and sizes in bytes of the datagrams that a source sends from `from` to before `end`, in ns.
    fn sent(mut source: Recorded, from: u64, end: u64) -> Vec<(u64, u16)> {
        let (mut now, mut sent) = (Time::from_nanos(from), Vec::new());
        while now < Time::from_nanos(end) {
            match source.next(now) {
                Next::Send(size) => sent.push((now.as_nanos(), size)),
                Next::Wait(at) => now = at,
            }
        }
        sent
    }

    #[test]
    fn a_record_is_sent_as_it_is_from_the_start() {
        let packets = [(5, 100), (5, 200), (35, 300)];
        assert_eq!(sent(Recorded::new(&packets, false), 1000, 1_000_000), [(1005, 100), (1005, 200), (1035, 300)]);
    }

    #[test]
    fn a_record_that_repeats_keeps_its_mean_rate() {
        // Gaps of 0 and 30: the next round comes 15 after the last packet.
        let packets = [(5, 100), (5, 200), (35, 300)];
        let sent = sent(Recorded::new(&packets, true), 0, 100);
        assert_eq!(sent, [(5, 100), (5, 200), (35, 300), (50, 100), (50, 200), (80, 300), (95, 100), (95, 200)]);
        assert_eq!(period(&[(7, 100)]), Time::from_nanos(7));
    }
}
