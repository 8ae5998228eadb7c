//! Fetching memory ahead of its use.
//!
//! With thousands of flows the state of each has left the caches by the time its next packet comes. The next packet is
//! known from the queues, so the memory can be on its way meanwhile. This changes nothing but the time that a run
//! takes.

use prefetch_index::prefetch_index;
use std::ops::Range;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Lets the memory of `value` come into the cache; what it points to does not come along.
#[inline]
pub fn fetch<T: ?Sized>(value: &T) {
    fetch_first(value, size_of_val(value));
}

/// As [`fetch`], of the first `bytes` only.
#[inline]
pub fn fetch_first<T: ?Sized>(value: &T, bytes: usize) {
    fetch_range(value, 0..bytes);
}

/// As [`fetch`], of these bytes only.
#[inline]
pub fn fetch_range<T: ?Sized>(value: &T, range: Range<usize>) {
    let start = std::ptr::from_ref(value).cast::<u8>().addr() + range.start;
    let bytes = range.len();
    // A value that is not aligned to lines may reach into one more, unless it is as small as it is aligned.
    let align = align_of_val(value);
    let aligned = align >= bytes.min(LINE) && range.start.is_multiple_of(align.min(LINE));
    let lines = bytes.div_ceil(LINE) + usize::from(!aligned && bytes > 0);
    for line in 0..lines {
        // The crate counts from the start of a slice; a prefetch of any address is harmless.
        let (at, base): (usize, &[u8]) = (start + (line * LINE).min(bytes - 1), &[]);
        prefetch_index(base, at.wrapping_sub(base.as_ptr().addr()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_can_be_fetched_empty_and_unaligned_ones_too() {
        let value = [0_u64; 10];
        for start in 0..size_of_val(&value) {
            for end in start..=size_of_val(&value) {
                fetch_range(&value, start..end);
            }
        }
    }
}
