//! Windows with a fraction of a packet, and windows for senders that a rate controls.

use knee_core::convert::{truncated, truncated_u32};
use knee_core::{Rate, Time};

/// No window grows beyond this many packets (12 Gbit/s over 1000 s; far from where `u32` ends).
pub const LARGEST: f64 = 1e9;

/// A window with a fraction, kept beside the whole packets the sender knows.
///
/// The sender moves the window too (recovery, timeouts); what it set counts, so [`Fractional::read`] falls back on it
/// wherever it is not what was last written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fractional {
    packets: f64,
    written: u32,
}

impl Fractional {
    /// The window in packets, given the sender's.
    pub fn read(&self, cwnd: u32) -> f64 {
        if cwnd == self.written { self.packets } else { f64::from(cwnd) }
    }

    /// Stores `packets`, at least `least`, and returns the sender's window for it.
    pub fn write(&mut self, packets: f64, least: u32) -> u32 {
        // `max` returns the number if the other value is NaN.
        self.packets = packets.max(f64::from(least)).min(LARGEST);
        self.written = truncated_u32(self.packets);
        self.written
    }
}

/// The rate of `packets` packets of `mss` bytes of payload per `span`; [`Rate::MAX`] where the span is zero.
pub fn rate_of(packets: f64, mss: u32, span: Time) -> Rate {
    let bps = packets * 8.0 * f64::from(mss) / span.as_secs_f64();
    // Casts of floats saturate.
    if bps.is_nan() { Rate::MAX } else { Rate::from_bps((truncated(bps)).clamp(1, Rate::MAX.as_bps())) }
}

/// A window in packets of `mss` bytes that does not limit a paced sender of `rate`: twice what the rate sends in `rtt`,
/// and never below `least`.
pub fn window_beyond(rate: Rate, mss: u32, rtt: Time, least: u32) -> u32 {
    let packets = 2.0 * rate.as_bps() as f64 * rtt.as_secs_f64() / (8.0 * f64::from(mss.max(1)));
    (truncated_u32(packets.min(LARGEST))).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::close;

    #[test]
    fn the_fraction_survives_until_the_sender_sets_another_window() {
        let mut window = Fractional::default();
        assert_eq!(window.write(10.75, 2), 10);
        assert!(close(window.read(10), 10.75) && close(window.read(5), 5.0));
        assert_eq!(
            [window.write(0.3, 2), window.write(f64::NAN, 2), window.write(f64::INFINITY, 2)],
            [2, 2, 1e9 as u32]
        );
    }

    #[test]
    fn ten_packets_in_10_ms_are_11_6_mbit_of_payload_and_need_a_window_of_20() {
        let span = Time::from_millis(10);
        assert_eq!(rate_of(10.0, 1448, span), Rate::from_bps(11_584_000));
        assert_eq!(window_beyond(Rate::from_bps(11_584_000), 1448, span, 4), 20);
        assert_eq!(rate_of(10.0, 1448, Time::ZERO), Rate::MAX);
        assert_eq!(window_beyond(Rate::from_bps(1), 1448, span, 4), 4);
    }
}
