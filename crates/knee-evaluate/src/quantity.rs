//! Quantities of scenario files: text with a unit, to whole base units.

use knee_core::convert::index_u32;
use knee_net::spec::LimitSpec;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Units and what each is in the base unit.
type Units = [(&'static str, u64)];

const TIME: &Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const RATE: &Units =
    &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000), ("Tbit/s", 1_000_000_000_000)];
const BYTES: &Units = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const PACKETS: &Units = &[("packets", 1), ("packet", 1)];

/// A time, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nanos(pub(crate) u64);
/// A rate, bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitsPerSecond(pub(crate) u64);
/// A size, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);
/// Capacity of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(pub(crate) LimitSpec);

/// The amount of `text` in the base unit of `units`; `None` if it has none of these units, or is not whole.
fn parse(text: &str, units: &Units) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let scale = u128::from(units.iter().find(|(name, _)| *name == unit)?.1);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{decimals}").parse().ok()?;
    let amount = digits.checked_mul(scale)?;
    let divisor = 10u128.checked_pow(index_u32(decimals.len()))?;
    (amount % divisor == 0).then(|| u64::try_from(amount / divisor).ok())?
}

fn read<'de, D: Deserializer<'de>>(from: D, units: &Units, what: &str) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text, units).ok_or_else(|| D::Error::custom(format!("{text:?} is not {what}")))
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, TIME, "a time such as \"20 ms\"").map(Self)
    }
}

impl<'de> Deserialize<'de> for BitsPerSecond {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, RATE, "a rate such as \"50 Mbit/s\"").map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, BYTES, "a size such as \"10 MB\"").map(Self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let packets = parse(&text, PACKETS).map(LimitSpec::Packets);
        let bytes = || parse(&text, BYTES).map(LimitSpec::Bytes);
        let time = || parse(&text, TIME).map(LimitSpec::Time);
        let limit = packets.or_else(bytes).or_else(time);
        limit.map(Self).ok_or_else(|| D::Error::custom(format!("{text:?} is not a capacity such as \"250 packets\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        assert_eq!(parse("20 ms", TIME), Some(20_000_000));
        assert_eq!(parse("0.1 s", TIME), Some(100_000_000));
        assert_eq!(parse("1.5us", TIME), Some(1_500));
        assert_eq!(parse("32 kbit/s", RATE), Some(32_000));
        assert_eq!(parse("10 MB", BYTES), Some(10_000_000));
        assert_eq!(parse("1.5 MiB", BYTES), Some(3 << 19));
    }

    #[test]
    fn what_has_no_unit_or_is_not_whole_is_none() {
        for text in ["20", "ms", "", "20 mbit/s", "-1 ms", "1.5 ns", "1e3 ms", "1.2.3 s", "99999999999999999999 h"] {
            assert_eq!(parse(text, TIME), None, "{text}");
        }
    }
}
