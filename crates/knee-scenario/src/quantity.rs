//! Quantities of scenario files in base units, for keys that are not the network's.

use crate::node::Value;
use crate::units::{BYTES, Measure, RATE, TIME};

/// A time such as `"20 ms"`, ns.
///
/// # Errors
/// The text found, and the texts accepted.
pub fn time(text: &str) -> Result<u64, String> {
    read(text, &TIME)
}

/// A rate such as `"10 Mbit/s"`, bit/s.
///
/// # Errors
/// The text found, and the texts accepted.
pub fn rate(text: &str) -> Result<u64, String> {
    read(text, &RATE)
}

/// A size such as `"10 MB"`, bytes.
///
/// # Errors
/// The text found, and the texts accepted.
pub fn size(text: &str) -> Result<u64, String> {
    read(text, &BYTES)
}

fn read(text: &str, measure: &Measure) -> Result<u64, String> {
    let value = Value::Text(text.into());
    measure.parse(&value, true).map_err(|error| format!("{}; {}", error.found, error.accepted))
}
