//! Packets, parameters and links for the tests of several disciplines.

use crate::Entry;
use crate::{Init, Limit};
use knee_core::{Packet, Params, Payload, Rate, Rng, Time, Value};

/// A full data packet, not ECN-capable.
pub(crate) const FULL: Packet =
    Packet { at: Time::ZERO, payload: Payload::segment(0), flow: 0, queued: 0, size: 1500, flags: 0, hop: 0 };

/// The parameters `given` and the defaults of the others.
pub(crate) fn params<P: for<'a> From<&'a Params>>(entry: &Entry, given: &[(&str, Value)]) -> P {
    P::from(&Params::resolve(entry.params, given.iter().copied()).unwrap())
}

/// A link of `mbps` with 14 bytes of overhead, the random stream named like the discipline.
pub(crate) fn init(entry: &Entry, limit: Option<Limit>, mbps: u64) -> Init {
    Init { limit, overhead: 14, rate: Rate::from_mbps(mbps), rng: Rng::stream(1, entry.name) }
}
