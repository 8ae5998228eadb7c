//! Bounds of the figures of any run: no rate beyond the links', no ratio beyond 1, no RTT below the path's.

use knee_net::output::FlowFigures;
use knee_sim::{Output, Rows};
use serde_json::Value;

/// The headers of IP and UDP: the smallest packet that a flow may send, for which overhead weighs most.
const SMALLEST: f64 = 28.0;
/// The headers of IP and TCP.
const TCP_HEADERS: f64 = 52.0;
/// A full packet, with which a token bucket may overdraw.
const FULL: f64 = 1500.0;
/// The clock of TCP timestamps, ms: a sample taken from them (after a retransmission) may be short by up to a tick.
const RTT_UNIT: f64 = 1.0;
/// Rounding of 32-bit floats, of which many are added up.
const F32: f64 = 1e-5;

/// Checks all figures of a run of `spec`.
///
/// # Errors
/// What a figure is, and what it may be at most or at least.
pub fn check(spec: &Value, output: &Output, rows: &Rows) -> Result<(), String> {
    numbers(&serde_json::to_value(output).map_err(|error| error.to_string())?, "output")?;
    for (i, flow) in output.flows.iter().enumerate() {
        let base = base_rtt(spec, i);
        at_least(&format!("flow {i}: rtt_min_ms"), flow.rtt_min_ms.unwrap_or(base), base - RTT_UNIT)?;
        let quantiles = [flow.rtt_min_ms, flow.rtt_p50_ms, flow.rtt_p95_ms, flow.rtt_p99_ms, flow.rtt_max_ms];
        ordered(&format!("flow {i}: quantiles of the RTT"), &quantiles)?;
        ordered(&format!("flow {i}: the RTT's range"), &[flow.rtt_min_ms, flow.rtt_mean_ms, flow.rtt_max_ms])?;
        datagrams(spec, i, flow)?;
        at_most(&format!("flow {i}: goodput_ratio"), flow.goodput_ratio.unwrap_or(0.0), 1.0)?;
        at_most(&format!("flow {i}: retransmitted"), flow.retransmitted_packets as f64, flow.sent_packets as f64)?;
        let may_be_lost = flow.sent_packets + flow.outstanding_packets;
        at_most(&format!("flow {i}: lost"), flow.lost_packets as f64, may_be_lost as f64)?;
        // Whatever the window, what arrives of payload arrives in packets.
        let part = payload_part(spec, i, flow);
        at_most(&format!("flow {i}: goodput_mbps"), flow.goodput_mbps, flow.throughput_mbps * part * (1.0 + 1e-9))?;
        at_most(&format!("flow {i}: delivered"), flow.delivered_bytes as f64, flow.received_bytes as f64 * part)?;
    }
    for link in &output.links {
        at_most(&format!("{}: utilization", link.link), link.utilization, 1.0)?;
        let delays = [link.queue_delay_p95_ms, link.queue_delay_p99_ms, link.queue_delay_max_ms];
        ordered(&format!("{}: queueing delays", link.link), &delays)?;
    }
    time_series(spec, output, rows)
}

/// The greatest part of a packet with its overhead that is payload: 1448 of 1500 bytes of a TCP segment, all but the
/// headers of IP and UDP of others.
fn payload_part(spec: &Value, i: usize, flow: &FlowFigures) -> f64 {
    let path = spec["flows"][i]["path"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let overhead = path.filter_map(|l| spec["links"][l as usize]["overhead"].as_f64()).fold(f64::INFINITY, f64::min);
    let udp = flow.datagrams.is_some() || spec["flows"][i]["transport"] == "quic";
    (FULL - if udp { SMALLEST } else { TCP_HEADERS }) / (FULL + if overhead.is_finite() { overhead } else { 0.0 })
}

/// No datagram of a flow arrives that was not sent, and none before the path lets it.
fn datagrams(spec: &Value, i: usize, flow: &FlowFigures) -> Result<(), String> {
    let Some(figures) = &flow.datagrams else { return Ok(()) };
    let ended = figures.received + figures.lost;
    let may_end = figures.sent + flow.outstanding_packets;
    at_most(&format!("flow {i}: datagrams received and lost"), ended as f64, may_end as f64)?;
    // A packet of QUIC carries several small ones, or none.
    if spec["flows"][i]["transport"] != "quic" {
        at_least(&format!("flow {i}: lost packets and datagrams"), flow.lost_packets as f64, figures.lost as f64)?;
        at_most(&format!("flow {i}: lost packets and datagrams"), flow.lost_packets as f64, figures.lost as f64)?;
    }
    let delays = [figures.owd_min_ms, figures.owd_p50_ms, figures.owd_p95_ms, figures.owd_p99_ms, figures.owd_max_ms];
    ordered(&format!("flow {i}: quantiles of the one-way delay"), &delays)?;
    let range = [figures.owd_min_ms, figures.owd_mean_ms, figures.owd_max_ms];
    ordered(&format!("flow {i}: the one-way delay's range"), &range)?;
    let half = base_rtt(spec, i) / 2.0;
    at_least(&format!("flow {i}: owd_min_ms"), figures.owd_min_ms.unwrap_or(half), half - 1e-6)
}

fn time_series(spec: &Value, output: &Output, rows: &Rows) -> Result<(), String> {
    for row in &rows.links {
        let what = format!("link {} at {} s: ", row.link, row.t_s);
        at_most(&(what.clone() + "utilization"), f64::from(row.utilization), 1.0)?;
        if row.queue_delay_mean_ms > row.queue_delay_max_ms * 1.000_001 {
            return Err(what + "the mean queueing delay is above the greatest");
        }
    }
    let flows = spec["flows"].as_array().map_or(0, Vec::len);
    let interval = spec["interval"].as_u64().unwrap_or(1) as f64 / 1e9;
    // Payload that arrived, bytes received and sent since the start, of each flow, in bits.
    let mut sums = vec![[0.0; 3]; flows];
    let mut until = 0.0;
    let mut rows = rows.samples.iter().peekable();
    while let Some(first) = rows.peek() {
        let at = first.t_s;
        let length = (at - until).min(interval) * 1e6;
        until = at;
        while let Some(row) = rows.next_if(|row| row.t_s <= at) {
            let what = format!("flow {} at {at} s: ", row.flow);
            let rates = [row.goodput_mbps, row.throughput_mbps, row.sending_rate_mbps].map(f64::from);
            if rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
                return Err(format!("{what}rates of {rates:?} Mbit/s"));
            }
            let base = base_rtt(spec, row.flow as usize);
            let rtt_min = if row.rtt_min_ms.is_nan() { base } else { f64::from(row.rtt_min_ms) };
            at_least(&(what.clone() + "rtt_min_ms"), rtt_min, base - RTT_UNIT - base * F32)?;
            let sum = &mut sums[row.flow as usize];
            for (sum, rate) in sum.iter_mut().zip(rates) {
                *sum += rate * length;
            }
            let part = payload_part(spec, row.flow as usize, &output.flows[row.flow as usize]);
            at_most(&(what.clone() + "goodput_mbps"), rates[0], rates[1] * part * (1.0 + F32))?;
            at_most(&(what + "bits received"), sum[1], sum[2] * (1.0 + F32))?;
        }
        for (link, reverse, carried) in capacities(spec, at) {
            let received: f64 = (0..flows).filter(|&i| crosses(spec, i, link, reverse)).map(|i| sums[i][1]).sum();
            let side = if reverse { " (reverse)" } else { "" };
            at_most(&format!("link {link}{side}: bits received up to {at} s"), received, carried * (1.0 + F32))?;
        }
    }
    Ok(())
}

/// The bits of flows' packets that may have crossed each link direction up to `at` s.
fn capacities(spec: &Value, at: f64) -> Vec<(usize, bool, f64)> {
    let mut all = Vec::new();
    for (i, link) in spec["links"].as_array().into_iter().flatten().enumerate() {
        let overhead = link["overhead"].as_f64().unwrap_or(0.0);
        // Flows count the overhead of their first link.
        let most =
            spec["links"].as_array().into_iter().flatten().filter_map(|l| l["overhead"].as_f64()).fold(0.0, f64::max);
        let scale = (SMALLEST + most) / (SMALLEST + overhead);
        // A bucket starts full, and may be overdrawn by a packet.
        let overdraft = link["burst"].as_f64().map_or(0.0, |burst| (burst + FULL + overhead) * 8.0);
        let forward = bits(spec, i, &link["capacity"], overhead, at) + overdraft;
        all.push((i, false, forward * scale));
        if !link["reverse"].is_null() {
            // Changes of the rate are of the forward direction.
            let back = bits(&Value::Null, i, &link["reverse"]["capacity"], overhead, at) + overdraft;
            all.push((i, true, back * scale));
        }
    }
    all
}

fn bits(spec: &Value, link: usize, capacity: &Value, overhead: f64, until: f64) -> f64 {
    if let Some(trace) = capacity["trace"].as_array() {
        let times: Vec<f64> = trace.iter().filter_map(Value::as_f64).map(|ms| ms / 1e3).collect();
        let period = times.last().copied().unwrap_or(1.0).max(1e-3);
        let rounds = (until / period).floor();
        let rest = times.iter().filter(|&&t| t <= until - rounds * period + 1e-9).count() as f64;
        return (rounds * times.len() as f64 + rest) * (1500.0 + overhead) * 8.0;
    }
    let (mut sum, mut since, mut rate) = (0.0, 0.0, capacity["rate"].as_f64().unwrap_or(0.0));
    for change in spec["changes"].as_array().into_iter().flatten() {
        let (at, new) = (change["at"].as_f64().unwrap_or(0.0) / 1e9, &change["what"]["rate"]);
        if new["link"].as_u64() == Some(link as u64) && at < until {
            // The packet on the wire goes out at the rate at which it began.
            sum += rate * (at - since) + (FULL + overhead) * 8.0;
            (since, rate) = (at, new["rate"].as_f64().unwrap_or(0.0));
        }
    }
    sum + rate * (until - since)
}

fn crosses(spec: &Value, flow: usize, link: usize, reverse: bool) -> bool {
    let flow = &spec["flows"][flow];
    let path = flow["path"].as_array().into_iter().flatten();
    flow["reverse"].as_bool().unwrap_or(false) == reverse && path.filter_map(Value::as_u64).any(|l| l == link as u64)
}

/// The least base RTT a flow ever has, ms.
pub fn base_rtt(spec: &Value, flow: usize) -> f64 {
    if spec["flows"][flow]["receiver"]["params"]["ahead"]["count"].as_u64() > Some(0) {
        // What has not arrived was acknowledged.
        return 0.0;
    }
    let path = spec["flows"][flow]["path"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let links: u64 = path.filter_map(|l| spec["links"][l as usize]["delay"].as_u64()).sum();
    let changed = spec["changes"].as_array().into_iter().flatten().map(|change| &change["what"]["rtt"]);
    let changed = changed.filter(|rtt| rtt["flow"].as_u64() == Some(flow as u64)).filter_map(|rtt| rtt["rtt"].as_u64());
    let least = changed.chain(spec["flows"][flow]["rtt"].as_u64()).min().unwrap_or(0);
    least.max(links) as f64 / 1e6
}

/// No number below zero, but for those of events.
fn numbers(value: &Value, what: &str) -> Result<(), String> {
    match value {
        Value::Number(number) => at_least(what, number.as_f64().unwrap_or(f64::NAN), 0.0),
        Value::Array(all) => all.iter().enumerate().try_for_each(|(i, value)| numbers(value, &format!("{what}[{i}]"))),
        Value::Object(all) => all.iter().try_for_each(|(key, value)| numbers(value, &format!("{what}.{key}"))),
        _ => Ok(()),
    }
}

fn ordered(what: &str, values: &[Option<f64>]) -> Result<(), String> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let fine = known.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-12));
    if fine { Ok(()) } else { Err(format!("{what} are not in order: {known:?}")) }
}

fn at_most(what: &str, value: f64, bound: f64) -> Result<(), String> {
    if value <= bound { Ok(()) } else { Err(format!("{what} is {value}, which cannot be above {bound}")) }
}

fn at_least(what: &str, value: f64, bound: f64) -> Result<(), String> {
    if value >= bound { Ok(()) } else { Err(format!("{what} is {value}, which cannot be below {bound}")) }
}
