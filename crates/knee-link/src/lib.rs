//! One direction of a link: random loss, a queue discipline, and a server that sends what leaves the queue. The models
//! of links that people have (Wi-Fi, DOCSIS, cellular, satellite) are servers in [`models`], listed in [`registry`].
//!
//! ```text
//! arrivals ──► random loss ──► queue discipline ──► server: wire or medium ──► departures
//!                  └──► drops ◄──────┘
//! ```
//!
//! A [`Link`] has no clock and no event queue. Its owner asks [`Link::due`] when it acts next, and calls it no later
//! than that: [`Link::arrive`] for packets that arrive now, [`Link::serve`] to let time pass, or [`Link::advance`] for
//! many arrivals at once. A packet that leaves is a [`Departure`]; the link keeps drops until its owner books them
//! ([`Link::unbooked`]).

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod arrivals;
mod bucket;
mod by_category;
pub mod delay;
mod entry;
mod framing;
mod link;
pub mod loss;
pub mod medium;
pub mod models;
mod outcome;
pub mod queue;
mod recorded;
pub mod registry;
mod server;
mod slot;
mod trace;
mod wire;

pub use arrivals::Arrivals;
pub use by_category::ByCategory;
pub use delay::Delay;
pub use framing::{Framing, LinkLayer};

pub use link::{CloneQueue, DynQueue, Line, Link};
pub use loss::Loss;
pub use medium::Medium;
pub use outcome::{Counters, Departure, Dropped, Load};
pub use recorded::{Recorded, RecordedRate};
pub use server::Server;
pub use slot::{Slots, Slotting};
pub use wire::Wire;
