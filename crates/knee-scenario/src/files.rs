//! Files of numbers that scenarios name: traces of capacity and tables of delays here, those of traffic in
//! `recordings.rs`.

use crate::error::{Refused, refused};
use crate::fields::Read;
use crate::recordings;
use crate::words::quoted;
use std::path::{Path, PathBuf};

/// Three years, in ms: the limit of all times.
const MAX_MS: u64 = 100_000_000_000;
/// Largest file that is read, MiB.
const MAX_MIB: u64 = 256;
const TRACE: &str =
    "expected one line per opportunity to deliver 1500 bytes: its time in whole milliseconds, ascending";
const DELAYS: &str = "expected one line per extra delay: a number of milliseconds from 0, such as 3.25";

/// The numbers in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Times, ms for opportunities of a link to send and ns for arrivals, or delays, ns.
    Times(Vec<u64>),
    /// A cumulative distribution: bytes, and the probability of at most that.
    Sizes(Vec<(u64, f64)>),
    /// Times of packets, ns, and their sizes, bytes.
    Packets(Vec<(u64, u64)>),
}

/// Kinds of files, as errors call them.
pub(crate) const KIND_TRACE: &str = "trace";
pub(crate) const KIND_TABLE: &str = "table";
pub(crate) const KIND_TIMES: &str = "file of times";
pub(crate) const KIND_SIZES: &str = "distribution of sizes";
pub(crate) const KIND_PACKETS: &str = "packet trace";

/// The numbers in a file of a kind, as errors call it: a link's "trace" or the "table" of its delays; of traffic a
/// "file of times", a "distribution of sizes" or a "packet trace".
///
/// # Errors
/// The line at fault, as what was found and what is accepted.
pub fn numbers(kind: &str, file: &Path) -> Result<Numbers, (String, String)> {
    let read = match kind {
        KIND_TRACE => trace(file).map(Numbers::Times),
        KIND_TABLE => delays(file).map(Numbers::Times),
        KIND_TIMES => recordings::times(file).map(Numbers::Times),
        KIND_SIZES => recordings::sizes(file).map(Numbers::Sizes),
        KIND_PACKETS => recordings::packets(file).map(Numbers::Packets),
        other => Err(refused(format!("{} is no kind of file", quoted(other)), "expected one of those above")),
    };
    read.map_err(|error| (error.found, error.accepted))
}

/// The file called `name`: in `folder`, here, or in a folder of KNEE_TRACES.
pub(crate) fn find(name: &str, kind: &str, folder: Option<&Path>) -> Read<PathBuf> {
    let missing = |accepted: &str| refused(format!("the {kind} {} was not found", quoted(name)), accepted);
    if cfg!(target_family = "wasm") {
        // There is no environment that names folders, either.
        return Err(missing("a page reads the scenario file alone; run it with knee run"));
    }
    let traces = std::env::var_os("KNEE_TRACES").unwrap_or_default();
    let folders = folder.map(Path::to_path_buf).into_iter().chain([PathBuf::new()]);
    let mut named = folders.chain(std::env::split_paths(&traces)).map(|folder| folder.join(name));
    named
        .find(|path| path.is_file())
        .ok_or_else(|| missing("put it next to the scenario file or into a folder listed in KNEE_TRACES"))
}

/// The lines that are neither empty nor comments, with their numbers.
pub(crate) fn lines(path: &Path, what: &str, accepted: &str) -> Read<Vec<(usize, String)>> {
    let unreadable =
        |reason: String| refused(format!("the {what} {} cannot be read ({reason})", path.display()), accepted);
    let size = std::fs::metadata(path).map_err(|error| unreadable(reason(&error)))?.len();
    if size > MAX_MIB << 20 {
        return Err(unreadable(format!("it is longer than {MAX_MIB} MiB")));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(reason(&error)))?;
    let text = String::from_utf8(bytes).ok().filter(|text| text.is_ascii());
    let text = text.ok_or_else(|| unreadable("it is not plain text".into()))?;
    let numbered = text.split('\n').map(str::trim).enumerate();
    let kept = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    Ok(kept.map(|(i, line)| (i + 1, line.to_owned())).collect())
}

/// The words of a system's error, without its number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let whole = error.to_string();
    whole.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A trace's delivery opportunities, in ms.
pub(crate) fn trace(path: &Path) -> Read<Vec<u64>> {
    let shown = path.display();
    let mut times: Vec<u64> = Vec::new();
    for (number, line) in lines(path, KIND_TRACE, TRACE)? {
        let time = line.parse().ok().filter(|ms| *ms <= MAX_MS && line.bytes().all(|c| c.is_ascii_digit()));
        let Some(time) = time else {
            let found = format!("line {number} of the trace {shown} is not a whole number up to {MAX_MS}");
            return Err(refused(found, TRACE));
        };
        if let Some(last) = times.last().filter(|last| time < **last) {
            return Err(refused(format!("line {number} of the trace {shown} goes back from {last} to {time}"), TRACE));
        }
        times.push(time);
    }
    match times.last() {
        None => Err(refused(format!("the trace {shown} is empty"), TRACE)),
        Some(0) => Err(refused(format!("the trace {shown} ends at 0 ms"), TRACE)),
        Some(_) => Ok(times),
    }
}

/// The delays of a table, in ns.
pub(crate) fn delays(path: &Path) -> Read<Vec<u64>> {
    let shown = path.display();
    let mut delays = Vec::new();
    for (number, line) in lines(path, KIND_TABLE, DELAYS)? {
        let delay = delay(&line);
        delays
            .push(delay.ok_or_else(|| refused(format!("line {number} of the table {shown} is not a delay"), DELAYS))?);
    }
    if delays.is_empty() { Err(refused(format!("the table {shown} is empty"), DELAYS)) } else { Ok(delays) }
}

/// `3.25` in ns, rounded to even as Python rounds.
fn delay(line: &str) -> Option<u64> {
    let (whole, decimals) = line.split_once('.').unwrap_or((line, "0"));
    let digits = |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    if !digits(whole, 10) || !digits(decimals, 9) {
        return None;
    }
    let ns = (line.parse::<f64>().ok()? * 1e6).round_ties_even();
    Some(knee_core::convert::truncated(ns))
}

/// Keys that this reader refuses.
pub(crate) fn recording(key: &str) -> Refused {
    let found = format!("{key} names a recording by time, which only the Python package reads");
    refused(found, "leave it out, or give rate, loss or delay by [[changes]]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_decimal_number_of_ms() {
        assert_eq!(["3.25", "0", "12.000001"].map(delay), [Some(3_250_000), Some(0), Some(12_000_001)]);
        assert_eq!(["", ".5", "5.", "-1", "1e3", "12345678901"].map(delay), [None; 6]);
    }
}
