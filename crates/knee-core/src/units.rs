//! Quantities with their unit in the type and an integer inside.

use crate::convert::saturating_u64;
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A point in simulated time or a span of it, in whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of every simulation, and the empty span.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens; stands for "never".
    pub const MAX: Self = Self(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }
    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }
    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down as Linux's TCP clock does.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Milliseconds, for reports.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Rounded down to a whole number of `tick`s; as it is where `tick` is zero.
    #[must_use]
    pub const fn floor_to(self, tick: Self) -> Self {
        if tick.0 == 0 { self } else { Self(self.0 - self.0 % tick.0) }
    }
    /// Rounded up to a whole number of `tick`s; as it is where `tick` is zero.
    #[must_use]
    pub const fn ceil_to(self, tick: Self) -> Self {
        if tick.0 == 0 { self } else { Self(self.0.div_ceil(tick.0) * tick.0) }
    }
    /// `self - other`, or zero where `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or "never" where that would overflow.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// `self · num / den`, rounded down, exact inside, at most [`Time::MAX`].
    ///
    /// # Panics
    /// If `den` is zero.
    #[must_use]
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        // Nearly always the product fits; 128-bit division is slow.
        match self.0.checked_mul(num) {
            Some(product) => Self(product / den),
            None => Self(saturating_u64(self.0 as u128 * num as u128 / den as u128)),
        }
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}
impl Sub for Time {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl SubAssign for Time {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Time {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0 * n)
    }
}
impl Div<u64> for Time {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("never"),
            ns if ns.is_multiple_of(1_000_000_000) => write!(f, "{} s", ns / 1_000_000_000),
            ns if ns.is_multiple_of(1_000_000) => write!(f, "{} ms", ns / 1_000_000),
            ns if ns.is_multiple_of(1_000) => write!(f, "{} us", ns / 1_000),
            ns => write!(f, "{ns} ns"),
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// No rate at all.
    pub const ZERO: Self = Self(0);
    /// Faster than any link: 2^63 - 1 bit/s.
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }
    /// `mbps` megabits (10^6 bits) per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }
    /// `n` bytes per second.
    pub const fn from_bytes_per_sec(n: u64) -> Self {
        Self(n.saturating_mul(8))
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Whole bytes per second, rounded down.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0 / 8
    }
    /// The rate at which `bytes` take `span`; [`Rate::MAX`] where the span is zero.
    pub const fn over(bytes: Bytes, span: Time) -> Self {
        if span.0 == 0 {
            return Self::MAX;
        }
        // Nearly always the product fits; 128-bit division is slow.
        let bps = match bytes.0.checked_mul(8_000_000_000) {
            Some(product) => product / span.0,
            None => saturating_u64(bytes.0 as u128 * 8_000_000_000 / span.0 as u128),
        };
        if bps > Self::MAX.0 { Self::MAX } else { Self(bps) }
    }
    /// How long `bytes` take at this rate, rounded up; [`Time::MAX`] at rate zero.
    pub const fn time_for(self, bytes: Bytes) -> Time {
        if self.0 == 0 {
            return Time::MAX;
        }
        // Nearly always the product fits; 128-bit division is slow.
        if bytes.0 < 1 << 31 {
            return Time((bytes.0 * 8_000_000_000).div_ceil(self.0));
        }
        let ns = (bytes.0 as u128 * 8_000_000_000).div_ceil(self.0 as u128);
        Time(saturating_u64(ns))
    }
    /// How many whole bytes this rate carries in `span`.
    pub const fn bytes_in(self, span: Time) -> Bytes {
        Bytes(saturating_u64(self.0 as u128 * span.0 as u128 / 8_000_000_000))
    }
    /// `self · num / den`, rounded down, exact inside, at most [`Rate::MAX`].
    ///
    /// # Panics
    /// If `den` is zero.
    #[must_use]
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        let bps = match self.0.checked_mul(num) {
            Some(product) => product / den,
            None => saturating_u64(self.0 as u128 * num as u128 / den as u128),
        };
        if bps > Self::MAX.0 { Self::MAX } else { Self(bps) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            r if r.is_multiple_of(1_000_000_000) && r > 0 => write!(f, "{} Gbit/s", r / 1_000_000_000),
            r if r.is_multiple_of(1_000_000) && r > 0 => write!(f, "{} Mbit/s", r / 1_000_000),
            r if r.is_multiple_of(1_000) && r > 0 => write!(f, "{} kbit/s", r / 1_000),
            r => write!(f, "{r} bit/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_frame_at_100_mbit_takes_121_120_ns() {
        assert_eq!(Rate::from_mbps(100).time_for(Bytes(1514)), Time::from_nanos(121_120));
    }

    #[test]
    fn ticks_round_as_named() {
        let tick = Time::from_millis(10);
        assert_eq!(Time::from_millis(19).floor_to(tick), Time::from_millis(10));
        assert_eq!(Time::from_millis(31).floor_to(tick), Time::from_millis(30));
        assert_eq!(Time::from_millis(11).ceil_to(tick), Time::from_millis(20));
        assert_eq!(Time::from_millis(20).ceil_to(tick), Time::from_millis(20));
    }

    #[test]
    fn units_convert_by_their_powers_of_ten() {
        let time = Time::from_secs(3) + Time::from_millis(4) + Time::from_micros(5) + Time::from_nanos(6);
        assert_eq!((time.as_nanos(), time.as_micros(), time.as_millis()), (3_004_005_006, 3_004_005, 3_004));
        assert_eq!(
            (time.as_secs_f64().to_bits(), time.as_millis_f64().to_bits()),
            (3.004_005_006f64.to_bits(), 3_004.005_006f64.to_bits())
        );
        assert_eq!(Rate::from_mbps(3), Rate::from_bps(3_000_000));
        assert_eq!((Rate::from_bytes_per_sec(125).as_bps(), Rate::from_bps(1_007).as_bytes_per_sec()), (1_000, 125));
    }

    #[test]
    fn arithmetic_is_that_of_the_numbers_inside() {
        let (a, b) = (Time::from_nanos(17), Time::from_nanos(5));
        let mut sum = a;
        sum += b;
        let mut difference = a;
        difference -= b;
        assert_eq!((sum, difference), (a + b, a - b));
        assert_eq!([a + b, a - b, a * 3, a / 5].map(Time::as_nanos), [22, 12, 51, 3]);
        assert_eq!((a.saturating_sub(b), b.saturating_sub(a)), (Time::from_nanos(12), Time::ZERO));
        assert_eq!((a.saturating_add(b), a.saturating_add(Time::MAX)), (Time::from_nanos(22), Time::MAX));
        assert_eq!((a.floor_to(Time::ZERO), a.ceil_to(Time::ZERO)), (a, a));
    }

    #[test]
    fn shares_are_exact_where_the_product_has_more_than_64_bits() {
        assert_eq!(Time::from_nanos(1_000).mul_div(7, 3), Time::from_nanos(2_333));
        assert_eq!(Time::from_nanos(1 << 62).mul_div(12, 16), Time::from_nanos(3 << 60));
        assert_eq!(Rate::from_bps(1_000).mul_div(7, 3), Rate::from_bps(2_333));
        assert_eq!(Rate::from_bps(1 << 62).mul_div(12, 16), Rate::from_bps(3 << 60));
        assert_eq!(Rate::from_bps(1 << 62).mul_div(12, 2), Rate::MAX);
        assert_eq!(Rate::MAX.mul_div(3, 3), Rate::MAX);
    }

    #[test]
    fn rates_bytes_and_times_go_over_into_each_other() {
        assert_eq!(Rate::MAX.as_bps(), (1 << 63) - 1);
        assert_eq!(Rate::over(Bytes(1_514), Time::from_nanos(121_120)), Rate::from_mbps(100));
        assert_eq!(Rate::over(Bytes(1), Time::ZERO), Rate::MAX);
        assert_eq!(Rate::over(Bytes(u64::MAX), Time::from_nanos(1)), Rate::MAX);
        assert_eq!(Rate::from_mbps(8).bytes_in(Time::from_millis(5)), Bytes(5_000));
        assert_eq!(Rate::from_bps(7).bytes_in(Time::from_secs(8)), Bytes(7));
        assert_eq!(Rate::ZERO.time_for(Bytes(1)), Time::MAX);
        assert_eq!(Rate::from_bps(3).time_for(Bytes(1)), Time::from_nanos(2_666_666_667));
        // Where the product needs more than 64 bits, and where the time itself does.
        assert_eq!(Rate::from_mbps(8_000).time_for(Bytes(1 << 40)), Time::from_nanos(1 << 40));
        assert_eq!(Rate::from_mbps(8_000).time_for(Bytes(1 << 31)), Time::from_nanos(1 << 31));
        assert_eq!(Rate::from_bps(1).time_for(Bytes(1 << 40)), Time::MAX);
    }

    #[test]
    fn quantities_are_shown_in_the_largest_unit_that_leaves_them_whole() {
        let times =
            [0, 999, 1_000, 1_001, 5_000_000, 7_000_000_000, u64::MAX].map(|ns| Time::from_nanos(ns).to_string());
        assert_eq!(times, ["0 s", "999 ns", "1 us", "1001 ns", "5 ms", "7 s", "never"]);
        let rates = [0, 999, 1_000, 1_001, 5_000_000, 7_000_000_000].map(|bps| Rate::from_bps(bps).to_string());
        assert_eq!(rates, ["0 bit/s", "999 bit/s", "1 kbit/s", "1001 bit/s", "5 Mbit/s", "7 Gbit/s"]);
        assert_eq!(Bytes(12).to_string(), "12 B");
    }

    proptest! {
        #[test]
        fn a_rate_carries_in_time_for_at_least_the_bytes(bps in 1u64..1_000_000_000_000, n in 0u64..10_000_000) {
            let (rate, bytes) = (Rate::from_bps(bps), Bytes(n));
            prop_assert!(rate.bytes_in(rate.time_for(bytes)) >= bytes);
        }
    }
}
