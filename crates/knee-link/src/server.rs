//! The server of a link.

use crate::bucket::TokenBucket;
use crate::medium::{Capacity, Medium};
use crate::recorded::RecordedRate;
use crate::trace::Trace;
use crate::wire::Wire;
use knee_core::{Bytes, Rate, Time};

/// The server of a link. Its kind, asked with every packet, is a byte of its own and not part of a field.
#[derive(Clone)]
#[repr(u8)]
pub enum Server {
    /// A wire: a packet leaves when its last bit has been sent.
    Wire(Wire),
    /// All others, chosen as the link is built.
    Medium(Box<dyn Medium>),
}

impl Server {
    /// A wire of `rate`, which is not zero.
    pub const fn wire(rate: Rate) -> Self {
        Self::Wire(Wire::new(rate))
    }

    /// A token bucket (Linux's htb) of `rate`, which is not zero, that holds `burst` bytes: a packet leaves at once
    /// while there are tokens.
    pub fn bucket(rate: Rate, burst: Bytes) -> Self {
        Self::Medium(Box::new(TokenBucket::new(rate, burst)))
    }

    /// Recorded delivery opportunities at these milliseconds, ascending, which repeat after the last; each carries 1500
    /// bytes and the link's `overhead`.
    pub fn trace(ms: &[u64], overhead: u32) -> Self {
        Self::Medium(Box::new(Trace::new(ms, overhead)))
    }

    /// A wire whose rate is recorded.
    pub fn recorded(rates: RecordedRate) -> Self {
        Self::Medium(Box::new(rates))
    }

    /// Its rate in bit/s; a recording has none.
    pub fn rate(&self) -> Option<u64> {
        // The time concerns only what is saved or offered.
        match self.capacity(Time::ZERO) {
            Capacity::Rate { bps, .. } => Some(bps),
            Capacity::Offered(_) => None,
        }
    }

    /// Its capacity.
    pub(crate) fn capacity(&self, now: Time) -> Capacity {
        match self {
            Self::Wire(wire) => Capacity::rate(wire.rate()),
            Self::Medium(medium) => medium.capacity(now),
        }
    }

    /// Changes the rate from `now` on; a trace has none. Gives from when on a medium has it.
    pub(crate) fn set_rate(&mut self, rate: Rate, now: Time) -> Time {
        match self {
            Self::Wire(wire) => {
                *wire = Wire::new(rate);
                now
            }
            Self::Medium(medium) => medium.set_rate(rate, now),
        }
    }
}
