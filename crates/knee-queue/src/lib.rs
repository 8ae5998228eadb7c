//! Queue disciplines: each a file, all behind [`Queue`] and listed once in [`mod@registry`].

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

#[cfg(any(test, feature = "testing"))]
pub mod invariants;
pub mod registry;

mod bound;
mod cake;
mod cocoa;
mod codel;
mod codel_law;
mod docsis_lld;
mod docsis_pie;
mod dualpi2;
mod entry;
mod fair_queue;
mod fifo;
mod flow_table;
mod fq;
mod fq_codel;
mod fq_pie;
mod hash;
mod overhead;
mod pfifo;
mod pfifo_gso;
mod pie;
mod pie_law;
mod pool;
mod prio;
mod red;
mod round_robin;
pub mod steered;
#[cfg(test)]
mod testing;

pub use bound::Bound;
pub use entry::{Entry, Make};
pub use fifo::Fifo;
pub use registry::{add, find, registry};

pub use knee_link::queue::{Backlog, Burst, Bursts, Context, Init, Limit, Note, Queue, Resize, Verdict};
pub use knee_link::{CloneQueue, DynQueue};
