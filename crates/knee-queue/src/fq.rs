//! `fq`: a queue per flow, served by deficit round robin; a flow's own limit keeps it from the others' room.
//!
//! A flow that comes, or comes back after it was idle, is new: new flows are served before old ones, once through
//! their credit. A flow with credit sends and pays in bytes; one without gets `quantum` and goes to the end of the old
//! flows. A new flow that runs empty must pass through the old ones, so that it cannot starve them; an old one that
//! runs empty is detached, and forgotten after 3 s.
//!
//! ```text
//!             packet comes                    credit spent, or empty
//!  detached ----------------> new flows -------------------------------.
//!      ^                                                               v
//!      '------------------------------ empty -------------------- old flows <--. credit spent: + quantum
//!                                                                   |  '-------'
//!        throttled (only with flow_max_rate) <--- not yet due ------'
//! ```
//!
//! Source: Linux net/sched/sch_fq.c (6.12) as the queue of a router, where packets belong to no local socket: flows
//! are told apart by `hash(5-tuple) & orphan_mask`. Into an empty queue packets go without a flow (its fast path).
//!
//! Departures: one band of priority, as all packets have the same; the limit counts all packets held, those of the fast
//! path too; times are exact where Linux has jiffies; idle flows are forgotten in the order they went idle, whatever
//! their bucket; a lowered limit drops at the flows' heads, one each in turn.

use crate::Context;
use crate::Entry;
use crate::fair_queue::{Admission, BufferRule, FairQueue};
use knee_core::{Bytes, Packet, Rate, Time, params};

/// The registry entry.
pub const ENTRY: Entry = Entry {
    name: "fq",
    about: "a queue per flow, deficit round robin, a limit per flow",
    source: "Linux net/sched/sch_fq.c",
    params: Params::DECLARED,
    make: |params, init| {
        let params = Params::from(params);
        Box::new(FairQueue::new(FixedBuffer { limit: params.flow_limit }, &params, init))
    },
};

params! {
    /// The parameters of `fq`; `cocoa` has them too.
    pub(crate) struct Params {
        /// packets a flow may hold
        flow_limit: u32 = 100, in 1..=1 << 30, from "Linux fq_init";
        /// bytes a flow may send in a round
        quantum: Bytes = Bytes(3028), in Bytes(1)..=Bytes(1 << 20), from "Linux fq_init: two full frames";
        /// bytes a flow never seen before may send in its first round
        initial_quantum: Bytes = Bytes(15_140), in Bytes(0)..=Bytes(1 << 20), from "Linux fq_init: ten full frames";
        /// a flow idle for longer has at least a quantum when it comes back
        refill_delay: Time = Time::from_millis(40), in Time::ZERO..=Time::from_secs(100), from "Linux fq_init";
        /// each flow is paced to at most this; 0: off
        flow_max_rate: Rate = Rate::ZERO, in Rate::ZERO..=Rate::from_mbps(1_000_000_000), from "Linux fq_init: off";
        /// up to this rate flows are paced by the packet, above by the quantum
        low_rate_threshold: Rate = Rate::from_bps(550_000), in Rate::ZERO..=Rate::from_mbps(1_000_000_000),
            from "Linux fq_init";
        /// mark every ECN-capable packet that stayed longer than this; 0: off
        ce_threshold: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(4294), from "Linux fq_init: off";
        /// bits of the hash that tell flows apart
        orphan_mask: u32 = 1023, in 0..=(1 << 20) - 1, from "Linux fq_init";
    }
}

/// Linux's rule: the same number of packets for every flow.
#[derive(Clone)]
struct FixedBuffer {
    limit: u32,
}

impl BufferRule for FixedBuffer {
    type Flow = ();
    const RUNS: bool = true;
    const FAST_PATH: bool = true;
    /// Linux FQ_GC_AGE.
    const REMEMBER: Time = Time::from_secs(3);

    fn start(&mut self, _: u32, _: &mut Context) {}

    #[inline]
    fn arrive(&mut self, (): &mut (), held: u32, _: u32, _: &mut Context) -> Admission {
        if held < self.limit { Admission::Take } else { Admission::Drop }
    }

    #[inline]
    fn room(&self, (): &(), held: u32) -> u32 {
        self.limit.saturating_sub(held)
    }

    #[inline]
    fn depart(&mut self, (): &mut (), _: u32, _: &Packet, _: Time) {}
}

#[cfg(test)]
#[path = "fq_tests.rs"]
mod tests;
