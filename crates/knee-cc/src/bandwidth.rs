//! Shared by BBR's versions: bandwidth in packets per microsecond, and the mark for application-limited data.

use crate::View;

/// A bandwidth of one packet per microsecond (Linux's `BW_UNIT`); one unit is about 715 bit/s at full packets.
pub const BW_UNIT: u64 = 1 << 24;

/// Bandwidth at which `delivered` packets take `interval`; `None` for an empty interval. Never above 2^32 - 1, as in
/// Linux's field.
pub fn bandwidth(delivered: u64, interval_us: u64) -> Option<u64> {
    let bw = delivered.saturating_mul(BW_UNIT).checked_div(interval_us)?;
    Some(bw.min(u64::from(u32::MAX)))
}

/// Mark of the packets that were sent while the algorithm kept the window far below the BDP. Linux marks the connection
/// application-limited then; this interface cannot, but a packet is identified by the count delivered before it.
#[derive(Clone, Debug, Default)]
pub struct AppLimitedMark {
    /// Values of the connection's `delivered` between which marked packets were sent.
    range: Option<(u64, u64)>,
}

impl AppLimitedMark {
    /// Marks packets sent from now on, until all packets now in flight are delivered.
    pub fn set(&mut self, view: &View) {
        let from = match self.range {
            Some((from, until)) if view.delivered <= until => from,
            _ => view.delivered,
        };
        self.range = Some((from, view.delivered.saturating_add(u64::from(view.in_flight))));
    }

    /// True if packets sent when `delivered` packets had been delivered carry the mark.
    pub fn covers(&self, delivered: u64) -> bool {
        self.range.is_some_and(|(from, until)| (from..=until).contains(&delivered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_mark_covers_what_is_sent_until_all_in_flight_is_delivered() {
        let mut mark = AppLimitedMark::default();
        let view = |delivered, in_flight| View { in_flight, delivered, ..testing::view() };
        mark.set(&view(100, 40));
        mark.set(&view(120, 4));
        assert_eq!([99, 100, 124, 125].map(|d| mark.covers(d)), [false, true, true, false]);
    }

    #[test]
    fn a_packet_per_ms_is_2_to_the_24_over_1000_and_an_empty_interval_has_no_bandwidth() {
        assert_eq!((bandwidth(1, 1000), bandwidth(1, 0)), (Some(16_777), None));
    }
}
