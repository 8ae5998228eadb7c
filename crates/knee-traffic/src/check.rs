//! Checks of specifications: what an application can carry out.

use crate::TrafficSpec;
use crate::spec::{Arrivals, Count, Pages, Size};
use knee_core::convert::truncated;

/// A year, in ns: the longest time.
const MAX_SPAN: u64 = 365 * 86_400_000_000_000;
/// The largest message, bytes.
const MAX_SIZE: u64 = 1_000_000_000_000_000;
/// The greatest rate, bit/s.
const MAX_RATE: u64 = 1_000_000_000_000_000;
/// The most arrivals per second: beyond that the clock's nanoseconds distort them.
const MAX_ARRIVALS: f64 = 1e7;
/// The most objects of a page, and the most connections.
const MAX_OBJECTS: f64 = 1e5;

impl TrafficSpec {
    /// Checks that it can be carried out.
    ///
    /// # Errors
    /// What cannot: what was found and what is accepted, without the name of the flow.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Transfers { arrivals, size, .. } => {
                arrivals.check()?;
                size.check()
            }
            Self::Declared { name, params } => crate::spec::declared(name, params).map(drop),
            Self::Requests { pages, request, size, objects, connections, service, .. } => {
                pages.check()?;
                within("the request", *request, "bytes", 1, MAX_SIZE)?;
                size.check()?;
                objects.check()?;
                within("the number of connections", u64::from(*connections), "", 1, truncated(MAX_OBJECTS))?;
                within("the service time", *service, "ns", 0, MAX_SPAN)
            }
            Self::Video { ladder, segment, buffer, length, .. } => {
                check_ladder(ladder)?;
                within("the duration of a segment", *segment, "ns", 1_000_000, MAX_SPAN)?;
                // One that plays and one that comes.
                within("the player's buffer", *buffer, "ns", 2 * segment, 2 * MAX_SPAN)?;
                length.map_or(Ok(()), |length| within("the length of the video", length, "ns", 1, MAX_SPAN))
            }
            Self::Udp { .. } | Self::UdpTrace { .. } | Self::Probe { .. } => crate::datagrams::check(self),
        }
    }
}

impl Arrivals {
    fn check(&self) -> Result<(), String> {
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
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Closed(think, _) => within("the think time", *think, "ns", 0, MAX_SPAN),
            Self::Open(arrivals) => arrivals.check(),
        }
    }
}

impl Count {
    fn check(self) -> Result<(), String> {
        let (what, mean) = match self {
            Self::Fixed(n) => ("number", f64::from(n)),
            Self::Geometric(mean) => ("mean number", mean),
        };
        if (1.0..=MAX_OBJECTS).contains(&mean) {
            return Ok(());
        }
        Err(format!("the {what} of objects, {mean}, is not from 1 to {MAX_OBJECTS}"))
    }
}

impl Size {
    fn check(&self) -> Result<(), String> {
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

fn check_ladder(ladder: &[u64]) -> Result<(), String> {
    let (Some(least), Some(greatest)) = (ladder.first(), ladder.last()) else {
        return Err("the ladder of bitrates is empty".into());
    };
    if let Some(i) = (1..ladder.len()).find(|i| ladder[i - 1] >= ladder[*i]) {
        return Err(format!(
            "the ladder's bitrates must ascend: {} bit/s come after {} bit/s",
            ladder[i],
            ladder[i - 1]
        ));
    }
    within("the ladder's least bitrate", *least, "bit/s", 1, MAX_RATE)?;
    within("the ladder's greatest bitrate", *greatest, "bit/s", 1, MAX_RATE)
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
    use super::*;
    use crate::spec::{Tls, VideoAlgorithm};
    use knee_core::ValueSpec;

    fn transfers(arrivals: Arrivals, size: Size) -> TrafficSpec {
        TrafficSpec::Transfers { arrivals, size, persistent: false, number: None }
    }

    fn requests(pages: Pages, objects: Count, connections: u32) -> TrafficSpec {
        let (size, tls) = (Size::Fixed(1), Tls::None);
        let (request, persistent, service, number) = (300, true, 0, None);
        TrafficSpec::Requests { pages, request, size, objects, connections, persistent, tls, service, number }
    }

    fn declared(name: &str, key: &str, value: ValueSpec) -> TrafficSpec {
        TrafficSpec::Declared { name: name.into(), params: [(key.into(), value)].into() }
    }

    fn video(ladder: &[u64], buffer: u64, length: Option<u64>) -> TrafficSpec {
        let (ladder, segment, algorithm) = (ladder.to_vec(), 4_000_000_000, VideoAlgorithm::Bba);
        TrafficSpec::Video { ladder, segment, buffer, algorithm, length }
    }

    #[test]
    fn what_cannot_be_carried_out_is_rejected_with_what_was_found_and_what_is_accepted() {
        let (poisson, one) = (Arrivals::Poisson(1.0), Size::Fixed(1));
        let of_times = |times: &[u64]| transfers(Arrivals::Times(times.to_vec()), Size::Fixed(1));
        let of_size = |size| transfers(Arrivals::Poisson(1.0), size);
        let of_points = |points: &[(u64, f64)]| of_size(Size::Empirical(points.to_vec()));
        let closed = |think| Pages::Closed(think, false);
        let cases = [
            (transfers(Arrivals::Poisson(0.0), one.clone()), "0 arrivals per second"),
            (transfers(Arrivals::Poisson(f64::NAN), one.clone()), "NaN arrivals per second"),
            (transfers(Arrivals::Periodic(1e300), one), "arrivals per second are not above 0 and at most 10000000"),
            (of_times(&[]), "the list of arrivals is empty"),
            (of_times(&[1, 3, 2]), "arrival 3 at 2 ns comes after one at 3 ns"),
            (of_times(&[u64::MAX]), "the last arrival"),
            (of_size(Size::Fixed(0)), "the size, 0 bytes, is not from 1"),
            (of_size(Size::Lognormal(0.0, 1.0, 9)), "the median size, 0,"),
            (of_size(Size::Lognormal(5.0, -1.0, 9)), "the standard deviation"),
            (of_size(Size::Lognormal(5.0, f64::INFINITY, 9)), "the standard deviation"),
            (of_size(Size::Lognormal(5.0, 1.0, 0)), "the greatest size, 0 bytes"),
            (of_size(Size::Pareto(10.0, 1.0, 9)), "the least size, 10, is not from 1 to 9"),
            (of_size(Size::Pareto(1.0, 0.0, 9)), "the shape"),
            (of_points(&[]), "the distribution of sizes is empty"),
            (of_points(&[(1, 0.5), (2, 0.9)]), "the last cumulative probability is 0.9 at 2 bytes; it must be 1"),
            (of_points(&[(1, 0.5), (2, 1.5)]), "the probability 1.5"),
            (of_points(&[(1, 0.5), (2, 0.4), (3, 1.0)]), "0.4 at 2 bytes comes after 0.5 at 1 bytes"),
            (of_points(&[(2, 0.5), (1, 1.0)]), "sizes must ascend: 1 bytes come after 2"),
            (of_points(&[(0, 1.0)]), "the greatest size, 0 bytes"),
            (of_points(&[(1, f64::NAN), (2, 1.0)]), "the probability NaN"),
            (
                declared("app_limited", "rate", ValueSpec::Rate(0)),
                "app_limited: `rate` is 0 bit/s; expected 1 bit/s to",
            ),
            (declared("app_limited", "rat", ValueSpec::Rate(1)), "app_limited: `rate` is missing"),
            (declared("rtc", "fp", ValueSpec::Ratio(1.0)), "rtc: no parameter `fp`; there are: controller, "),
            (declared("rtc", "min_rate", ValueSpec::Rate(1_000_000)), "are 1 Mbit/s then 300 kbit/s then"),
            (declared("udp", "rate", ValueSpec::Rate(1)), "the registry declares no kind of traffic `udp`"),
            (requests(closed(0), Count::Fixed(0), 6), "the number of objects, 0,"),
            (requests(closed(0), Count::Geometric(0.5), 6), "the mean number of objects, 0.5,"),
            (requests(closed(0), Count::Fixed(1), 0), "the number of connections, 0,"),
            (requests(closed(u64::MAX), Count::Fixed(1), 6), "the think time"),
            (requests(Pages::Open(Arrivals::Periodic(-1.0)), Count::Fixed(1), 6), "-1 arrivals per second"),
            (video(&[], 30_000_000_000, None), "the ladder of bitrates is empty"),
            (video(&[0, 1], 30_000_000_000, None), "the ladder's least bitrate, 0 bit/s"),
            (video(&[2, 2], 30_000_000_000, None), "2 bit/s come after 2 bit/s"),
            (video(&[1], 7_000_000_000, None), "the player's buffer, 7000000000 ns, is not from 8000000000"),
            (video(&[1], 8_000_000_000, Some(0)), "the length of the video, 0 ns"),
        ];
        for (spec, said) in cases {
            let error = spec.check().expect_err(said);
            assert!(error.contains(said), "{error:?} does not say {said:?}");
        }
        let good = [
            transfers(poisson, Size::Empirical(vec![(0, 0.0), (1, 0.5), (1, 0.7), (9, 0.7), (10, 1.0)])),
            transfers(Arrivals::Times(vec![0, 0, 1]), Size::Pareto(1.0, 1.0, 1)),
            requests(Pages::Open(Arrivals::Periodic(0.1)), Count::Geometric(30.0), 6),
            video(&[1, 2], 8_000_000_000, Some(1)),
            declared("app_limited", "rate", ValueSpec::Rate(1)),
        ];
        assert!(good.iter().all(|spec| spec.check().is_ok()));
    }
}
