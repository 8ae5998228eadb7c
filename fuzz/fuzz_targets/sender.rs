//! Senders with every congestion control against random ACKs; `KNEE_CC=cubic,lola` tries only these.

#![no_main]

use knee_cc::{Entry, registry};
use knee_tcp::sender::invariants;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static ENTRIES: LazyLock<Vec<&'static Entry>> = LazyLock::new(|| {
    let wanted = std::env::var("KNEE_CC").ok();
    let wanted = |name: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|w| w == name));
    registry().iter().filter(|entry| wanted(entry.name)).collect()
});

fuzz_target!(|bytes: &[u8]| invariants::check_any(&ENTRIES, bytes));
