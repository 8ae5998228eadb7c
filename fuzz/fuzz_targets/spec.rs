//! Specifications: bytes that begin with `{` as JSON, others as what they stand for; then a run.

#![no_main]

use knee_sim::simulation::invariants;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| invariants::check(bytes));
