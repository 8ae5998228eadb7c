//! Conversions between numbers that can lose, each named by what becomes of a number that does not fit.
//!
//! Where the lints forbid casts that can lose, these are the only ones.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "each checks before it casts, or says what is lost"
)]

/// `n`, or the greatest `u8` if that is less.
pub const fn saturating_u8(n: u64) -> u8 {
    if n > u8::MAX as u64 { u8::MAX } else { n as u8 }
}

/// `n`, or the greatest `u16` if that is less.
#[inline]
pub const fn saturating_u16(n: u64) -> u16 {
    if n > u16::MAX as u64 { u16::MAX } else { n as u16 }
}

/// `n`, or the greatest `u32` if that is less.
#[inline]
pub const fn saturating_u32(n: u64) -> u32 {
    if n > u32::MAX as u64 { u32::MAX } else { n as u32 }
}

/// `n`, or the greatest `u64` if that is less.
#[inline]
pub const fn saturating_u64(n: u128) -> u64 {
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

/// `n`, or the greatest `i64` if that is less.
#[inline]
pub const fn saturating_i64(n: u64) -> i64 {
    if n > i64::MAX as u64 { i64::MAX } else { n as i64 }
}

/// `n`, or 0 if it is negative.
#[inline]
pub const fn non_negative(n: i64) -> u64 {
    if n < 0 { 0 } else { n as u64 }
}

/// `n` within 0 to `most`.
#[inline]
pub const fn clamped(n: i128, most: u64) -> u64 {
    if n < 0 {
        0
    } else if n > most as i128 {
        most
    } else {
        n as u64
    }
}

/// `x` rounded towards zero; 0 if it is negative or not a number, the greatest `u64` if that is less.
#[inline]
pub const fn truncated(x: f64) -> u64 {
    x as u64
}

/// As [`truncated`], to the greatest `u32`.
#[inline]
pub const fn truncated_u32(x: f64) -> u32 {
    x as u32
}

/// A count below 2^32, which debug and test builds check.
#[inline]
pub const fn count_u32(n: u64) -> u32 {
    debug_assert!(n <= u32::MAX as u64, "a count of more than 32 bits");
    n as u32
}

/// The low 8 bits of `n`.
#[inline]
pub const fn low_u8(n: u64) -> u8 {
    n as u8
}

/// The low 16 bits of `n`.
#[inline]
pub const fn low_u16(n: u64) -> u16 {
    n as u16
}

/// The low 32 bits of `n`, as counters and sequence numbers that wrap have them.
#[inline]
pub const fn low_u32(n: u64) -> u32 {
    n as u32
}

/// How far beyond `n` the number lies that has these low 32 bits and is nearest to it: which one is meant by a sequence
/// number that wraps, where it is less than 2^31 away.
#[inline]
pub const fn ahead(low: u32, n: u64) -> i64 {
    low.wrapping_sub(low_u32(n)).cast_signed() as i64
}

/// The `f32` nearest to `x`, as rows of results have it.
#[inline]
pub const fn nearest_f32(x: f64) -> f32 {
    x as f32
}

/// `n` as an index.
///
/// # Panics
/// If an index has 32 bits, as in WebAssembly, and `n` more.
#[inline]
pub const fn index(n: u64) -> usize {
    assert!(n <= usize::MAX as u64, "an index of more bits than this machine's");
    n as usize
}

/// `n` as an index, or the greatest index if that is less: how many there may be, where `u64::MAX` is no limit.
#[inline]
pub const fn saturating_index(n: u64) -> usize {
    if n > usize::MAX as u64 { usize::MAX } else { n as usize }
}

/// An index below 2^16.
///
/// # Panics
/// If it is not.
#[inline]
pub const fn index_u16(i: usize) -> u16 {
    assert!(i <= u16::MAX as usize, "an index of more than 16 bits");
    i as u16
}

/// An index below 2^32.
///
/// # Panics
/// If it is not.
#[inline]
pub const fn index_u32(i: usize) -> u32 {
    assert!(i <= u32::MAX as usize, "an index of more than 32 bits");
    i as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_becomes_the_nearest_number_that_does() {
        assert_eq!([255, 256].map(saturating_u8), [255; 2]);
        assert_eq!([7, 65_535, 65_536].map(saturating_u16), [7, u16::MAX, u16::MAX]);
        assert_eq!([7, u64::from(u32::MAX), 1 << 32].map(saturating_u32), [7, u32::MAX, u32::MAX]);
        assert_eq!([7, u128::from(u64::MAX), 1 << 64].map(saturating_u64), [7, u64::MAX, u64::MAX]);
        assert_eq!([7, 1 << 63, u64::MAX].map(saturating_i64), [7, i64::MAX, i64::MAX]);
        assert_eq!([7, 0, -1, i64::MIN].map(non_negative), [7, 0, 0, 0]);
        assert_eq!([-1, 7, 10, i128::MAX].map(|n| clamped(n, 9)), [0, 7, 9, 9]);
        assert_eq!([7, u64::MAX].map(saturating_index), [7, usize::MAX]);
        assert_eq!([1.9, -1.0, f64::NAN, f64::INFINITY].map(truncated), [1, 0, 0, u64::MAX]);
        assert_eq!([1.9, -1.0, f64::NAN, 1e10].map(truncated_u32), [1, 0, 0, u32::MAX]);
        assert_eq!((index(9), index_u16(65_535), index_u32(1 << 31)), (9, u16::MAX, 1 << 31));
    }

    #[test]
    #[should_panic(expected = "a count of more than 32 bits")]
    fn a_count_that_does_not_fit_is_a_fault() {
        count_u32(1 << 32);
    }

    #[test]
    fn low_bits_wrap_and_floats_are_rounded_to_the_nearest() {
        assert_eq!((low_u8(0x1ff), low_u16(0x1_0007), low_u32((1 << 32) + 7)), (0xff, 7, 7));
        assert_eq!([0.1, 1e300].map(|x| nearest_f32(x).to_bits()), [0.1_f32, f32::INFINITY].map(f32::to_bits));
    }

    #[test]
    #[should_panic(expected = "16 bits")]
    fn an_index_is_never_cut() {
        index_u16(65_536);
    }
}
