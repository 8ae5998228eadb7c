//! Files of traffic: times of arrivals, distributions of sizes, and packets, as text with numbers.
//!
//! Errors name the file and the line and do not quote it: the file may be something else, and confidential.

use crate::error::refused;
use crate::fields::Read;
use crate::files::{KIND_PACKETS, KIND_SIZES, KIND_TIMES, lines};
use crate::units::is_space;
use crate::words::rounded;
use knee_core::convert::truncated;
use std::path::Path;

/// Shipped distributions of sizes, by name.
const SIZES: [(&str, &str); 2] = [
    ("web-search", include_str!("../sizes/web-search.txt")),
    ("data-mining", include_str!("../sizes/data-mining.txt")),
];
/// The longest time of arrivals, a year, and of packets, ns.
const LONGEST: f64 = 365.0 * 86_400.0 * 1e9;
const MOST_TIME: f64 = 1e17;
/// The largest size of a distribution, and of a message, bytes.
const MOST_BYTES: f64 = 1e18;
const LARGEST_MESSAGE: u64 = 1_000_000_000_000_000;
/// How far the last probability of a distribution may be from 1.
const ROUNDING: f64 = 1e-6;

const TIMES_TAKEN: &str = "expected a time in seconds per line, ascending";
const SIZES_TAKEN: &str =
    "expected a size in bytes and the probability of at most that size per line, both ascending, the last 1";
const PACKETS_TAKEN: &str = "expected a time in seconds and the size of an IP packet, 36 to 1500 B, per line";

/// The lines of a file of numbers: the kind of file, its name, and what it should have.
struct Rows<'a> {
    what: &'a str,
    file: String,
    accepted: &'static str,
    lines: Vec<(usize, String)>,
}

impl<'a> Rows<'a> {
    fn open(path: &Path, what: &'a str, accepted: &'static str) -> Read<Self> {
        Ok(Self { what, file: path.display().to_string(), accepted, lines: lines(path, what, accepted)? })
    }

    fn no<T>(&self, found: String) -> Read<T> {
        Err(refused(found, self.accepted))
    }

    /// A line, as errors call it.
    fn line(&self, number: usize) -> String {
        format!("line {number} of the {} {}", self.what, self.file)
    }

    /// Reads line after line, of `columns` numbers each.
    fn each<T>(&self, columns: usize, mut read: impl FnMut(usize, &[f64]) -> Read<T>) -> Read<Vec<T>> {
        let mut found = Vec::with_capacity(self.lines.len());
        for (number, line) in &self.lines {
            let words = line.split(|c: char| c == ',' || is_space(c)).filter(|word| !word.is_empty());
            let values: Option<Vec<f64>> =
                words.map(|word| word.parse().ok().filter(|x: &f64| x.is_finite())).collect();
            let Some(values) = values.filter(|values| values.len() == columns) else {
                let expected = if columns == 1 { "a number".into() } else { format!("{columns} numbers") };
                return self.no(format!("{} is not {expected}", self.line(*number)));
            };
            found.push(read(*number, &values)?);
        }
        if found.is_empty() { self.no(format!("the {} {} is empty", self.what, self.file)) } else { Ok(found) }
    }

    /// A time in ns, which follows the last one.
    fn time(&self, number: usize, seconds: f64, last: &mut f64, most: f64) -> Read<u64> {
        let time = (seconds * 1e9).round_ties_even();
        if (*last..=most).contains(&time) {
            *last = time;
            return Ok(truncated(time));
        }
        let line = self.line(number);
        if (0.0..*last).contains(&time) {
            let [last, time] = [*last, time].map(|ns| rounded(ns / 1e9, 6));
            return self.no(format!("{line} goes back from {last} s to {time} s"));
        }
        self.no(format!("{line} has a time out of range"))
    }
}

/// Times of arrivals, ns.
pub(crate) fn times(path: &Path) -> Read<Vec<u64>> {
    let rows = Rows::open(path, KIND_TIMES, TIMES_TAKEN)?;
    let mut last = 0.0;
    rows.each(1, |number, row| rows.time(number, row[0], &mut last, LONGEST))
}

/// Times of packets, ns, and their sizes as IP packets, bytes.
pub(crate) fn packets(path: &Path) -> Read<Vec<(u64, u64)>> {
    let rows = Rows::open(path, KIND_PACKETS, PACKETS_TAKEN)?;
    let mut last = 0.0;
    rows.each(2, |number, row| {
        let time = rows.time(number, row[0], &mut last, MOST_TIME)?;
        if !(36.0..=1500.0).contains(&row[1]) || row[1].fract() != 0.0 {
            return rows.no(format!("{} has a size that is not a whole number of bytes in range", rows.line(number)));
        }
        Ok((time, truncated(row[1])))
    })
}

/// A cumulative distribution of sizes that is shipped: bytes, and the probability of at most that.
pub(crate) fn shipped_sizes(name: &str) -> Read<Vec<(u64, f64)>> {
    let text = SIZES.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines = numbered.map(|(i, line)| (i + 1, line.to_owned())).collect();
    distribution(&Rows { what: KIND_SIZES, file: name.into(), accepted: SIZES_TAKEN, lines })
}

/// As [`shipped_sizes`], of a file.
pub(crate) fn sizes(path: &Path) -> Read<Vec<(u64, f64)>> {
    distribution(&Rows::open(path, KIND_SIZES, SIZES_TAKEN)?)
}

fn distribution(rows: &Rows<'_>) -> Read<Vec<(u64, f64)>> {
    let mut before = (0, 0.0);
    let mut found = rows.each(2, |number, row| {
        let (size, probability, line) = (row[0], row[1], rows.line(number));
        if !(0.0..=MOST_BYTES).contains(&size) || size.fract() != 0.0 {
            return rows.no(format!("{line} has a size that is not a whole number from 0"));
        }
        if !(0.0..=1.0 + ROUNDING).contains(&probability) {
            return rows.no(format!("{line} has a probability that is not 0 to 1"));
        }
        if truncated(size) < before.0 || probability < before.1 {
            return rows.no(format!("{line} goes back"));
        }
        before = (truncated(size), probability.min(1.0));
        Ok(before)
    })?;
    let [.., last] = found.as_mut_slice() else { return Ok(found) };
    if !(1..=LARGEST_MESSAGE).contains(&last.0) {
        let found = format!("the distribution of sizes {} ends at {} bytes", rows.file, last.0);
        return Err(refused(found, format!("expected the largest size to be 1 to {LARGEST_MESSAGE}")));
    }
    if (last.1 - 1.0).abs() > ROUNDING {
        let sum = rounded(last.1, 6);
        return rows.no(format!("the distribution of sizes {} sums to {sum}, not to 1", rows.file));
    }
    last.1 = 1.0;
    Ok(found)
}
