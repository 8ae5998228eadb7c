//! Values and names as errors show them, in the words of Python's reader.

use crate::node::Value;
use std::fmt::Write;

/// Characters of a value that an error shows.
const SHOWN: usize = 60;

/// A value: shortened, on one line.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Bool(true) => "true".into(),
        Value::Bool(false) => "false".into(),
        Value::Table(_) => "a table".into(),
        Value::List(list) => format!("a list of {}", list.len()),
        Value::Whole(n) => shortened(&n.to_string()),
        Value::Number(x) => shortened(&number(*x)),
    }
}

/// Text in quotes, shortened, on one line.
pub(crate) fn quoted(text: &str) -> String {
    let escaped = if is_printable(text) { text.to_owned() } else { ascii(text) };
    format!("\"{}\"", shortened(&escaped))
}

/// Most characters of a key that an error shows.
pub(crate) const MOST_KEY: usize = 100;

/// A key of any characters: on one line, and cut if that needs escapes or is too long.
pub(crate) fn shown_key(key: &str) -> String {
    if is_printable(key) && key.chars().count() <= MOST_KEY {
        return key.into();
    }
    let escaped = ascii(key);
    escaped[1..escaped.len() - 1].chars().take(MOST_KEY - 1).collect()
}

/// A part of a key as [`shown_key`] has it in the whole.
pub(crate) fn on_one_line(part: &str) -> String {
    if is_printable(part) {
        return part.into();
    }
    let escaped = ascii(part);
    escaped[1..escaped.len() - 1].into()
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN - 3).chain("...".chars()).collect()
}

/// Returns true if text is one line of characters that can be seen, as Python's `str.isprintable` does.
pub(crate) fn is_printable(text: &str) -> bool {
    // Behind a letter, so that a mark that joins it is not escaped.
    let seen = |c: char| matches!(c, '"' | '\'' | '\\') || format!("a{c}").escape_debug().nth(1) == Some(c);
    text.chars().all(seen)
}

/// Text as Python's `ascii` writes it.
fn ascii(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\\' => write!(out, "\\\\"),
            _ if c == quote => write!(out, "\\{c}"),
            ' '..='~' => write!(out, "{c}"),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
    out
}

/// A number as Python writes it.
pub(crate) fn number(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let written = format!("{x:e}");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&power) {
        let plain = format!("{x}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
}

/// A number with up to `digits` significant digits, as C's `%g` and Python's `:g` write it.
pub(crate) fn rounded(x: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let written = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| {
        let kept = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        kept.to_owned()
    };
    match usize::try_from(power) {
        Ok(power) if power < digits => short(&format!("{x:.*}", digits - 1 - power)),
        Err(_) if power >= -4 => short(&format!("{x:.*}", digits - 1 + power.unsigned_abs() as usize)),
        _ => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", short(mantissa), power.unsigned_abs())
        }
    }
}

/// `did you mean ...? There are: ...`, for a name that is not among those known.
pub(crate) fn near(name: &str, known: &[&str]) -> String {
    let close = close(name, known, 3, 0.5);
    let listed = match known.len() {
        0 => "there are none".into(),
        1..=40 => format!("there are: {}", known.join(", ")),
        many => format!("there are {many}, among them {}", known[..10].join(", ")),
    };
    if close.is_empty() { listed } else { format!("did you mean {}? T{}", close.join(" or "), &listed[1..]) }
}

/// At most `n` of those known that are most like `name`, the best first: Python's `difflib.get_close_matches`.
pub(crate) fn close<'a>(name: &str, known: &[&'a str], n: usize, cutoff: f64) -> Vec<&'a str> {
    let mut found: Vec<(f64, &str)> = known.iter().map(|word| (ratio(word, name), *word)).collect();
    found.retain(|(ratio, _)| *ratio >= cutoff);
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(a.1)));
    found.into_iter().take(n).map(|(_, word)| word).collect()
}

/// Twice the characters in common over all characters: Ratcliff and Obershelp, as Python's `difflib` has it.
fn ratio(a: &str, b: &str) -> f64 {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let all = a.len() + b.len();
    if all == 0 { 1.0 } else { 2.0 * matching(&a, &b) as f64 / all as f64 }
}

/// Characters of the longest common stretch, and of what is before and behind it on both sides.
fn matching(a: &[char], b: &[char]) -> usize {
    let (mut best, mut at) = (0, (0, 0));
    for i in 0..a.len() {
        for j in 0..b.len() {
            let run = a[i..].iter().zip(&b[j..]).take_while(|(x, y)| x == y).count();
            if run > best {
                (best, at) = (run, (i, j));
            }
        }
    }
    if best == 0 {
        return 0;
    }
    let (i, j) = at;
    best + matching(&a[..i], &b[..j]) + matching(&a[i + best..], &b[j + best..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        let written =
            [0.0, 1.0, 0.1, 1e-5, 0.0001, 1e16, 123_456_789_012_345.0, 1.5e300, -2.5, f64::INFINITY].map(number);
        let python = ["0.0", "1.0", "0.1", "1e-05", "0.0001", "1e+16", "123456789012345.0", "1.5e+300", "-2.5", "inf"];
        assert_eq!(written, python);
    }

    #[test]
    fn rounded_numbers_are_written_as_pythons_g_writes_them() {
        let written = [1e7, 12_345_678.0, 0.999_996_4, 1.0, 0.000_012_3, 1e-4, 2.5].map(|x| rounded(x, 3));
        assert_eq!(written, ["1e+07", "1.23e+07", "1", "1", "1.23e-05", "0.0001", "2.5"]);
        assert_eq!([0.95, 0.999_998_4, 0.0].map(|x| rounded(x, 6)), ["0.95", "0.999998", "0"]);
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        assert_eq!(quoted("a\u{0}b"), "\"'a\\x00b'\"");
        assert_eq!(quoted("it's\n"), "\"\"it's\\n\"\"");
        assert_eq!(quoted("\u{200b}"), "\"'\\u200b'\"");
        assert_eq!(quoted("é e\u{301} \\ \""), "\"é e\u{301} \\ \"\"");
        assert_eq!(quoted(&"x".repeat(61)), format!("\"{}...\"", "x".repeat(57)));
    }

    #[test]
    fn a_name_that_is_nearly_one_of_those_known_is_answered_with_it() {
        assert_eq!(near("rte", &["rate", "rtt", "queue"]), "did you mean rate or rtt? There are: rate, rtt, queue");
        assert_eq!(near("xyz", &["rate"]), "there are: rate");
        assert_eq!(near("xyz", &[]), "there are none");
    }
}
