//! Algorithms and queues that a page may offer.

use crate::scene;
use serde_json::{Value, json};

/// Algorithms with their phases, queue disciplines, and the range of each control, in the units of a
/// [`Scene`](scene::Scene).
pub fn listing() -> Value {
    let algorithms = knee_cc::registry().iter().map(|entry| {
        json!({"name": entry.name, "family": entry.family.name(), "about": entry.about, "phases": entry.phases})
    });
    let queues = knee_queue::registry().iter().filter(|entry| scene::takes_packets(entry.name));
    let queues = queues.map(|entry| json!({"name": entry.name, "about": entry.about}));
    json!({
        "cc": algorithms.collect::<Vec<_>>(), "queues": queues.collect::<Vec<_>>(), "ranges": scene::ranges(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
