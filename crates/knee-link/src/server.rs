//! What a link sends at.

use crate::bucket::TokenBucket;
use crate::trace::Trace;
use crate::wire::Wire;
use knee_core::{Bytes, Rate, Time};

/// What a link sends at. Its kind, asked with every packet, is a byte of its own and not part of a field.
#[repr(u8)]
pub enum Server {
    /// A wire: a packet leaves when its last bit has been sent.
    Wire(Wire),
    /// A token bucket (Linux's htb): a packet leaves at once while there are tokens.
    Bucket(TokenBucket),
    /// Recorded delivery opportunities.
    Trace(Trace),
}

impl Server {
    /// A wire of `rate`, which is not zero.
    pub const fn wire(rate: Rate) -> Self {
        Self::Wire(Wire::new(rate))
    }

    /// A token bucket of `rate`, which is not zero, that holds `burst` bytes.
    pub fn bucket(rate: Rate, burst: Bytes) -> Self {
        Self::Bucket(TokenBucket::new(rate, burst))
    }

    /// Opportunities at these milliseconds, ascending, which repeat after the last; each carries 1500 bytes and the
    /// link's `overhead`.
    pub fn trace(ms: &[u64], overhead: u32) -> Self {
        Self::Trace(Trace::new(ms, overhead))
    }

    /// Its rate in bit/s; a trace has none.
    pub const fn rate(&self) -> Option<u64> {
        match self {
            Self::Wire(wire) => Some(wire.rate()),
            Self::Bucket(bucket) => Some(bucket.rate()),
            Self::Trace(_) => None,
        }
    }

    /// Changes the rate from `now` on; a trace has none.
    pub(crate) fn set_rate(&mut self, rate: Rate, now: Time) {
        match self {
            Self::Wire(wire) => *wire = Wire::new(rate),
            Self::Bucket(bucket) => bucket.set_rate(rate, now),
            Self::Trace(_) => {}
        }
    }
}
