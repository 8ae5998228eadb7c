//! Checks of tables in specifications.

use crate::datagrams::HEADERS;
use crate::spec::{Arrivals, Count, Packets, Pages, Priorities, Rates, Size};
use knee_core::Priority;
use knee_core::packet::MTU;

/// A year, in ns: the longest time.
pub(crate) const MAX_SPAN: u64 = 365 * 86_400_000_000_000;
/// The largest message, bytes.
pub(crate) const MAX_SIZE: u64 = 1_000_000_000_000_000;
/// The greatest rate, bit/s.
pub(crate) const MAX_RATE: u64 = 1_000_000_000_000_000;
/// The most arrivals per second: beyond that the clock's nanoseconds distort them.
const MAX_ARRIVALS: f64 = 1e7;
/// The most objects of a page, and the most connections.
const MAX_OBJECTS: f64 = 1e5;

impl Arrivals {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Poisson(rate) | Self::Periodic(rate) => {
                if *rate > 0.0 && *rate <= MAX_ARRIVALS {
                    return Ok(());
                }
                Err(format!("{rate} arrivals per second are not above 0 and at most {MAX_ARRIVALS}"))
            }
            Self::Times(times) if times.is_empty() => Err("the list of arrivals is empty".into()),
            Self::Times(times) => match times.windows(2).position(|pair| pair[0] > pair[1]) {
                Some(i) => {
                    let (number, at, last) = (i + 2, times[i + 1], times[i]);
                    Err(format!("arrivals must ascend: arrival {number} at {at} ns comes after one at {last} ns"))
                }
                None => within("the last arrival", times[times.len() - 1], "ns", 0, MAX_SPAN),
            },
        }
    }
}

impl Pages {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Closed(think, _) => within("the think time", *think, "ns", 0, MAX_SPAN),
            Self::Open(arrivals) => arrivals.check(),
        }
    }
}

impl Count {
    pub(crate) fn check(self) -> Result<(), String> {
        let what = if matches!(self, Self::Fixed(_)) { "number" } else { "mean number" };
        let mean = self.mean();
        if (1.0..=MAX_OBJECTS).contains(&mean) {
            return Ok(());
        }
        Err(format!("the {what} of objects, {mean}, is not from 1 to {MAX_OBJECTS}"))
    }
}

impl Size {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Fixed(bytes) => within("the size", *bytes, "bytes", 1, MAX_SIZE),
            Self::Lognormal(median, sigma, max) => {
                within("the greatest size", *max, "bytes", 1, MAX_SIZE)?;
                finite("the median size", *median, 1.0, MAX_SIZE as f64)?;
                finite("the standard deviation of the logarithm of sizes", *sigma, 0.0, 20.0)
            }
            Self::Pareto(min, shape, max) => {
                within("the greatest size", *max, "bytes", 1, MAX_SIZE)?;
                finite("the least size", *min, 1.0, *max as f64)?;
                finite("the shape of the Pareto distribution", *shape, 0.01, 100.0)
            }
            Self::Empirical(points) => check_distribution(points),
        }
    }
}

fn check_distribution(points: &[(u64, f64)]) -> Result<(), String> {
    let Some((last, whole)) = points.last() else { return Err("the distribution of sizes is empty".into()) };
    if let Some((size, p)) = points.iter().find(|(_, p)| !(0.0..=1.0).contains(p)) {
        return Err(format!("the probability {p} of sizes up to {size} bytes is not from 0 to 1"));
    }
    for pair in points.windows(2) {
        let ((a, p), (b, q)) = (pair[0], pair[1]);
        if a > b {
            return Err(format!("sizes must ascend: {b} bytes come after {a}"));
        }
        if p > q {
            return Err(format!("cumulative probabilities must ascend: {q} at {b} bytes comes after {p} at {a} bytes"));
        }
    }
    if whole.to_bits() != 1f64.to_bits() {
        return Err(format!("the last cumulative probability is {whole} at {last} bytes; it must be 1"));
    }
    within("the greatest size", *last, "bytes", 1, MAX_SIZE)
}

impl Priorities {
    pub(crate) fn check(&self) -> Result<(), String> {
        let beyond = self.0.iter().find(|priority| priority.urgency > Priority::LAST);
        beyond.map_or_else(
            || if self.0.is_empty() { Err("the list of priorities is empty".into()) } else { Ok(()) },
            |priority| within("the urgency", priority.urgency.into(), "", 0, Priority::LAST.into()),
        )
    }
}

impl Rates {
    pub(crate) fn check(&self) -> Result<(), String> {
        let (Some(least), Some(greatest)) = (self.0.first(), self.0.last()) else {
            return Err("the list of bitrates is empty".into());
        };
        if let Some(&[below, above, ..]) = self.0.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("bitrates must ascend: {above} bit/s come after {below} bit/s"));
        }
        within("the least bitrate", *least, "bit/s", 1, MAX_RATE)?;
        within("the greatest bitrate", *greatest, "bit/s", 1, MAX_RATE)
    }
}

impl Packets {
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some((_, size)) = self.0.iter().find(|(_, size)| !(HEADERS..=MTU).contains(size)) {
            let sizes = format!("{HEADERS}, the IP and UDP headers, and {MTU}");
            return Err(format!("a packet of {size} bytes is not between {sizes}"));
        }
        if self.0.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            return Err("the recorded times do not ascend".into());
        }
        match self.0.last() {
            Some((last, _)) => within("the last time", *last, "ns", 0, 4 * MAX_SPAN),
            None => Err("the record has no packet".into()),
        }
    }
}

fn within(what: &str, found: u64, unit: &str, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    Err(format!("{what}, {found}{unit}, is not from {min} to {max}"))
}

fn finite(what: &str, found: f64, min: f64, max: f64) -> Result<(), String> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(format!("{what}, {found}, is not from {min} to {max}")) }
}

#[cfg(test)]
mod tests {
    use crate::random::parse;
    use serde_json::{Value, json};

    const YEARS: u64 = u64::MAX;

    fn transfers(arrivals: &Value, size: &Value) -> Value {
        json!({"kind": "transfers", "arrivals": arrivals, "size": size})
    }

    fn of_times(times: &[u64]) -> Value {
        transfers(&json!({"times": times}), &json!({"fixed": 1}))
    }

    fn of_size(size: &Value) -> Value {
        transfers(&json!({"poisson": 1.0}), size)
    }

    fn of_points(points: &Value) -> Value {
        of_size(&json!({"empirical": points}))
    }

    fn requests(pages: &Value, objects: &Value, connections: u64) -> Value {
        let size = json!({"fixed": 1});
        json!({"kind": "requests", "pages": pages, "objects": objects, "connections": connections, "size": size})
    }

    fn video(ladder: &[u64], buffer_s: u64, length: Option<u64>) -> Value {
        json!({"kind": "video", "ladder": ladder, "buffer": buffer_s * 1_000_000_000, "length": length})
    }

    #[test]
    fn what_cannot_be_carried_out_is_rejected_with_what_was_found_and_what_is_accepted() {
        let (one, closed) = (json!({"fixed": 1}), json!({"closed": [0, false]}));
        let cases = [
            (json!({"kind": "tarnsfers"}), "tarnsfers: the registry has no such kind of traffic"),
            (transfers(&json!({"poisson": 0.0}), &one), "transfers: `arrivals`: 0 arrivals per second"),
            (transfers(&json!({"periodic": 1e300}), &one), "arrivals per second are not above 0 and at most 10000000"),
            (transfers(&json!({"often": 1}), &one), "`arrivals`: unknown variant `often`"),
            (transfers(&Value::Null, &one), "`arrivals` is missing"),
            (of_times(&[]), "the list of arrivals is empty"),
            (of_times(&[1, 3, 2]), "arrival 3 at 2 ns comes after one at 3 ns"),
            (of_times(&[u64::MAX]), "the last arrival"),
            (of_size(&json!({"fixed": 0})), "the size, 0 bytes, is not from 1"),
            (of_size(&json!({"lognormal": [0.0, 1.0, 9]})), "the median size, 0,"),
            (of_size(&json!({"lognormal": [5.0, -1.0, 9]})), "the standard deviation"),
            (of_size(&json!({"lognormal": [5.0, 1e9, 9]})), "the standard deviation"),
            (of_size(&json!({"lognormal": [5.0, 1.0, 0]})), "the greatest size, 0 bytes"),
            (of_size(&json!({"pareto": [10.0, 1.0, 9]})), "the least size, 10, is not from 1 to 9"),
            (of_size(&json!({"pareto": [1.0, 0.0, 9]})), "the shape"),
            (of_points(&json!([])), "the distribution of sizes is empty"),
            (
                of_points(&json!([[1, 0.5], [2, 0.9]])),
                "the last cumulative probability is 0.9 at 2 bytes; it must be 1",
            ),
            (of_points(&json!([[1, 0.5], [2, 1.5]])), "the probability 1.5"),
            (of_points(&json!([[1, 0.5], [2, 0.4], [3, 1.0]])), "0.4 at 2 bytes comes after 0.5 at 1 bytes"),
            (of_points(&json!([[2, 0.5], [1, 1.0]])), "sizes must ascend: 1 bytes come after 2"),
            (of_points(&json!([[0, 1.0]])), "the greatest size, 0 bytes"),
            (json!({"kind": "app_limited", "rate": 0}), "app_limited: `rate` is 0 bit/s; expected 1 bit/s to"),
            (json!({"kind": "app_limited", "rate": "5"}), "app_limited: `rate` is \"5\"; expected 1 bit/s to"),
            (json!({"kind": "app_limited", "rat": 1}), "app_limited: no parameter `rat`; there are: rate"),
            (json!({"kind": "app_limited"}), "app_limited: `rate` is missing"),
            (json!({"kind": "rtc", "fp": 1.0}), "rtc: no parameter `fp`; there are: controller, "),
            (json!({"kind": "rtc", "min_rate": 1_000_000}), "are 1 Mbit/s then 300 kbit/s then"),
            (requests(&closed, &json!({"fixed": 0}), 6), "the number of objects, 0,"),
            (requests(&closed, &json!({"geometric": 0.5}), 6), "the mean number of objects, 0.5,"),
            (requests(&closed, &one, 0), "`connections` is 0; expected 1 to 100000"),
            (requests(&json!({"closed": [YEARS, false]}), &one, 6), "the think time"),
            (requests(&json!({"open": {"periodic": -1.0}}), &one, 6), "-1 arrivals per second"),
            (video(&[], 30, None), "the list of bitrates is empty"),
            (video(&[0, 1], 30, None), "the least bitrate, 0 bit/s"),
            (video(&[2, 2], 30, None), "2 bit/s come after 2 bit/s"),
            (video(&[1], 7, None), "`buffer`: 7 s is less than two segments of 4 s; expected 8 s or more"),
            (video(&[1], 8, Some(0)), "`length` is 0 s"),
        ];
        for (spec, words) in cases {
            let error = parse(&spec).check().expect_err(words);
            assert!(error.contains(words), "{error:?} does not contain {words:?}");
        }
        let good = [
            of_points(&json!([[0, 0.0], [1, 0.5], [1, 0.7], [9, 0.7], [10, 1.0]])),
            transfers(&json!({"times": [0, 0, 1]}), &json!({"pareto": [1.0, 1.0, 1]})),
            requests(&json!({"open": {"periodic": 0.1}}), &json!({"geometric": 30.0}), 6),
            video(&[1, 2], 8, Some(1)),
            json!({"kind": "app_limited", "rate": 1}),
        ];
        assert!(good.iter().all(|spec| parse(spec).check() == Ok(())));
    }
}
