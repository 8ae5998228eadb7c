//! Quantities: text with a unit to whole base units and back, exactly. A quantity finer than its base unit is refused.

use crate::error::{Refused, refused};
use crate::node::Value;
use crate::words::{close, quoted, shown};
use knee_net::spec::LimitSpec;

/// A kind of quantity.
pub(crate) struct Measure {
    what: &'static str,
    /// Units and what each is in the base unit.
    units: &'static [(&'static str, u64)],
    /// The greatest amount.
    pub(crate) most: u64,
    base: &'static str,
    example: &'static str,
    /// Units that are written, the largest first, with decimals.
    written: &'static [&'static str],
    places: u32,
}

const K: u64 = 1_000;

pub(crate) static TIME: Measure = Measure {
    what: "a time",
    units: &[
        ("ns", 1),
        ("us", K),
        ("µs", K),
        ("μs", K),
        ("ms", K * K),
        ("s", K * K * K),
        ("min", 60 * K * K * K),
        ("h", 3600 * K * K * K),
    ],
    most: 100_000_000_000_000_000,
    base: "nanoseconds",
    example: "20 ms",
    written: &["s", "ms", "us", "ns"],
    places: 3,
};

pub(crate) static RATE: Measure = Measure {
    what: "a rate",
    units: &[("bit/s", 1), ("kbit/s", K), ("Mbit/s", K * K), ("Gbit/s", K * K * K), ("Tbit/s", K * K * K * K)],
    most: 1_000_000_000_000_000,
    base: "bits per second",
    example: "100 Mbit/s",
    written: &["Gbit/s", "Mbit/s", "kbit/s", "bit/s"],
    places: 3,
};

pub(crate) static BYTES: Measure = Measure {
    what: "a size",
    units: &[
        ("B", 1),
        ("kB", K),
        ("MB", K * K),
        ("GB", K * K * K),
        ("TB", K * K * K * K),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
    most: 1_000_000_000_000_000_000,
    base: "bytes",
    example: "100 kB",
    written: &["GB", "MB", "kB", "B"],
    places: 0,
};

pub(crate) static PACKETS: Measure = Measure {
    what: "a number of packets",
    units: &[("packets", 1), ("packet", 1)],
    most: 1_000_000_000_000_000,
    base: "packets",
    example: "250 packets",
    written: &["packets"],
    places: 0,
};

/// A decimal number: sign, digits, and the power of ten that they are multiplied by.
struct Decimal<'a> {
    negative: bool,
    digits: String,
    power: i32,
    unit: &'a str,
}

impl Measure {
    fn accepted(&self) -> String {
        let names: Vec<&str> =
            self.units.iter().map(|unit| unit.0).filter(|unit| !["µs", "μs", "packet"].contains(unit)).collect();
        let units = match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => format!("the unit {}", names[0]),
        };
        format!("{} is a number with {units}, such as \"{}\"", self.what, self.example)
    }

    /// Text such as `"21 ms"` to base units; zero is refused unless `zero` is true.
    pub(crate) fn parse(&self, value: &Value, zero: bool) -> Result<u64, Refused> {
        let Value::Text(text) = value else {
            return Err(refused(format!("{} has no unit", shown(value)), self.accepted()));
        };
        let Some(decimal) = split(text) else {
            return Err(refused(format!("{} is not a number with a unit", quoted(text)), self.accepted()));
        };
        let Some(&(_, scale)) = self.units.iter().find(|(unit, _)| *unit == decimal.unit) else {
            return Err(self.no_such_unit(text, decimal.unit));
        };
        let (text, none) = (quoted(text), decimal.digits.is_empty());
        if decimal.negative && !none {
            let least = if zero { "of zero or more" } else { "above zero" };
            return Err(refused(format!("{text} is negative"), format!("expected {} {least}", self.what)));
        }
        if none && !zero {
            return Err(refused(format!("{text} is zero"), format!("expected {} above zero", self.what)));
        }
        match decimal.times(scale) {
            Amount::Whole(amount) if amount <= self.most => Ok(amount),
            Amount::Fraction => Err(refused(format!("{text} is not a whole number of {}", self.base), "round it")),
            _ => Err(refused(format!("{text} is too large"), format!("expected at most {}", self.text(self.most)))),
        }
    }

    fn no_such_unit(&self, text: &str, unit: &str) -> Refused {
        let found = if unit.is_empty() {
            format!("{} has no unit", quoted(text))
        } else {
            format!("{} has the unit \"{}\"", quoted(text), unit.chars().take(20).collect::<String>())
        };
        let folded: Vec<String> = self.units.iter().map(|(unit, _)| unit.to_lowercase()).collect();
        let known: Vec<&str> = folded.iter().map(String::as_str).collect();
        let meant = close(&unit.to_lowercase(), &known, 1, 0.6).first().copied();
        let meant = meant.and_then(|meant| self.units.iter().find(|(unit, _)| unit.to_lowercase() == meant));
        let accepted = self.accepted();
        let accepted = meant.map_or(accepted.clone(), |(unit, _)| format!("did you mean {unit}? A{}", &accepted[1..]));
        refused(found, accepted)
    }

    /// An amount in the largest unit in which it is exact.
    pub(crate) fn text(&self, amount: impl Into<u128>) -> String {
        let amount = amount.into();
        if amount == 0 && self.what == TIME.what {
            return "0 s".into();
        }
        if amount == 1 && self.what == PACKETS.what {
            return "1 packet".into();
        }
        let (tens, last) = (10u128.pow(self.places), self.written.len() - 1);
        for (i, unit) in self.written.iter().enumerate() {
            let scale = self.units.iter().find(|(name, _)| name == unit).map_or(1, |(_, scale)| u128::from(*scale));
            let shifted = amount * tens;
            if shifted.is_multiple_of(scale) && (amount >= scale || i == last) {
                let (whole, decimals) = (shifted / scale / tens, shifted / scale % tens);
                let number = if self.places == 0 {
                    whole.to_string()
                } else {
                    let written = format!("{whole}.{decimals:0width$}", width = self.places as usize);
                    written.trim_end_matches('0').trim_end_matches('.').to_owned()
                };
                return format!("{number} {unit}");
            }
        }
        amount.to_string()
    }
}

enum Amount {
    Whole(u64),
    Fraction,
    TooLarge,
}

impl Decimal<'_> {
    /// The number times `scale`.
    fn times(&self, scale: u64) -> Amount {
        if self.digits.is_empty() {
            return Amount::Whole(0);
        }
        let mut factors = [self.digits.parse::<u128>().unwrap_or(u128::MAX), u128::from(scale)];
        if self.power < 0 {
            // Divided by as many twos and fives as the power has.
            for prime in [2, 5] {
                let mut left = self.power.unsigned_abs();
                for factor in &mut factors {
                    while left > 0 && factor.is_multiple_of(prime) {
                        (*factor, left) = (*factor / prime, left - 1);
                    }
                }
                if left > 0 {
                    return Amount::Fraction;
                }
            }
        }
        let mut amount = factors[0].checked_mul(factors[1]);
        for _ in 0..self.power.max(0) {
            amount = amount.and_then(|amount| amount.checked_mul(10));
        }
        amount.and_then(|amount| u64::try_from(amount).ok()).map_or(Amount::TooLarge, Amount::Whole)
    }
}

/// A number and its unit, as `([+-]?)([0-9]{1,20})(?:\.([0-9]{0,20}))?(?:[eE]([+-]?[0-9]{1,3}))?\s*(.*)` finds them.
fn split(text: &str) -> Option<Decimal<'_>> {
    let text = text.trim_matches(is_space);
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str, most: usize| text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = rest.split_at(digits(rest, 20));
    if whole.is_empty() {
        return None;
    }
    let mut decimals = "";
    if let Some(behind) = rest.strip_prefix('.') {
        (decimals, rest) = behind.split_at(digits(behind, 20));
    }
    let mut power = 0;
    if let Some(behind) = rest.strip_prefix(['e', 'E']) {
        let unsigned = behind.strip_prefix(['+', '-']).unwrap_or(behind);
        let count = digits(unsigned, 3);
        if count > 0 {
            let size: i32 = unsigned[..count].parse().ok()?;
            power = if behind.starts_with('-') { -size } else { size };
            rest = &unsigned[count..];
        }
    }
    power -= i32::try_from(decimals.len()).ok()?;
    let all = format!("{whole}{decimals}");
    let digits = all.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    power += i32::try_from(digits.len() - kept.len()).ok()?;
    Some(Decimal { negative, digits: kept.into(), power, unit: rest.trim_start_matches(is_space) })
}

/// Spaces, as Python's readers have them: control characters that separate information are some.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `"250 packets"`, `"100 MB"` or `"80 ms"`; zero is refused.
pub(crate) fn limit(value: &Value) -> Result<LimitSpec, Refused> {
    const ACCEPTED: &str = "a limit is packets, a size or a time, such as \"250 packets\", \"100 MB\" or \"80 ms\"";
    let Value::Text(text) = value else {
        return Err(refused(format!("{} has no unit", shown(value)), ACCEPTED));
    };
    let unit = split(text).map(|decimal| decimal.unit).unwrap_or_default();
    let has = |measure: &Measure| measure.units.iter().any(|(name, _)| *name == unit);
    match [&TIME, &BYTES, &PACKETS].map(has) {
        [true, ..] => TIME.parse(value, false).map(LimitSpec::Time),
        [_, true, _] => BYTES.parse(value, false).map(LimitSpec::Bytes),
        [.., true] => PACKETS.parse(value, false).map(LimitSpec::Packets),
        _ => Err(refused(format!("{} is not a capacity", quoted(text)), ACCEPTED)),
    }
}

/// `250` or `"250 packets"`.
pub(crate) fn count(value: &Value) -> Result<u64, Refused> {
    match value {
        Value::Whole(n) => u64::try_from(*n)
            .ok()
            .filter(|n| *n <= PACKETS.most)
            .ok_or_else(|| refused(format!("{n} is out of range"), format!("a count is 0 to {}", PACKETS.most))),
        other => PACKETS.parse(other, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, measure: &Measure) -> Result<u64, String> {
        measure.parse(&Value::Text(text.into()), true).map_err(|error| format!("{}; {}", error.found, error.accepted))
    }

    #[test]
    fn quantities_are_exact() {
        let times = [("20 ms", 20_000_000), ("0.1 s", 100_000_000), ("1.5us", 1_500), ("1e3 ms", 1_000_000_000)];
        for (text, ns) in times.into_iter().chain([("1 µs", 1_000), ("5e-9 s", 5), ("0 s", 0), ("-0 s", 0)]) {
            assert_eq!(read(text, &TIME), Ok(ns), "{text}");
        }
        assert_eq!(read("1.5 TiB", &BYTES), Ok(3 << 39));
        assert_eq!(read("0.000000000001 Tbit/s", &RATE), Ok(1));
        assert_eq!(read("0.0009765625 KiB", &BYTES), Ok(1), "2^-10");
    }

    #[test]
    fn what_is_no_quantity_is_answered_with_what_would_do() {
        let cases = [
            ("20", "\"20\" has no unit; a time is a number with ns, us, ms, s, min or h, such as \"20 ms\""),
            (
                "20 MS",
                "\"20 MS\" has the unit \"MS\"; did you mean ms? A time is a number with ns, us, ms, s, min or h, such as \"20 ms\"",
            ),
            ("1.5 ns", "\"1.5 ns\" is not a whole number of nanoseconds; round it"),
            ("-1 ms", "\"-1 ms\" is negative; expected a time of zero or more"),
            ("1e30 h", "\"1e30 h\" is too large; expected at most 100000000 s"),
        ];
        for (text, said) in cases {
            assert_eq!(read(text, &TIME), Err(said.into()));
        }
    }

    #[test]
    fn amounts_are_written_in_the_largest_unit_in_which_they_are_exact() {
        assert_eq!([0u64, 5, 1_500, 1_234_567_000].map(|ns| TIME.text(ns)), ["0 s", "5 ns", "1.5 us", "1234.567 ms"]);
        assert_eq!([1_500_000u64, 100_001].map(|bps| RATE.text(bps)), ["1.5 Mbit/s", "100.001 kbit/s"]);
        assert_eq!(
            (BYTES.text(1_500u64), PACKETS.text(1u64), PACKETS.text(7u64)),
            ("1500 B".into(), "1 packet".into(), "7 packets".into())
        );
    }
}
