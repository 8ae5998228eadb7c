//! The state of a page: one link and its flows, and what was changed while they ran. It is a specification for the
//! engine and a scenario file for `knee run`, which give the same figures.

use crate::hand;
use knee_sim::Spec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::RangeInclusive;

/// One link and its flows. Times in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Rate of the link, bit/s.
    pub rate: u64,
    /// Base RTT of the flows that have none of their own.
    pub rtt: u64,
    /// Capacity of the queue, packets.
    pub buffer: u64,
    /// Probability of random loss before the queue.
    pub loss: f64,
    /// Name of the queue discipline.
    pub queue: String,
    /// Flows use ECN where their algorithm does not ask for it.
    pub ecn: bool,
    /// Simulated time.
    pub duration: u64,
    /// Interval of the time series.
    pub interval: u64,
    /// Seed of all random streams.
    pub seed: u64,
    /// The flows, each from its start on.
    pub flows: Vec<SceneFlow>,
    /// Changes while it runs, in the order of time.
    #[serde(default)]
    pub changes: Vec<SceneChange>,
    /// From when on the flow with the algorithm `hand` sends at which rate, bit/s, in the order of time.
    #[serde(default)]
    pub hand: Vec<(u64, u64)>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneFlow {
    /// Name of the congestion control, or `hand`, or `call`: a video call under GCC, in datagrams.
    pub cc: String,
    /// When it starts.
    pub start: u64,
    /// When it stops; none: at the end.
    #[serde(default)]
    pub stop: Option<u64>,
    /// Its own base RTT, which a change of all does not change.
    #[serde(default)]
    pub rtt: Option<u64>,
    /// True if it goes over QUIC.
    #[serde(default)]
    pub quic: bool,
}

/// A control that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneChange {
    /// When.
    pub at: u64,
    /// To what.
    pub to: To,
}

/// The new setting of a control.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum To {
    /// A rate, bit/s.
    Rate(u64),
    /// A base RTT of the flows that have none of their own.
    Rtt(u64),
    /// A capacity of the queue, packets.
    Buffer(u64),
    /// A probability of loss.
    Loss(f64),
}

/// Why a scene cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// A value is outside of its range.
    #[error("`{key}` is {found}, but must be from {low} to {high}{unit}")]
    Range {
        /// The control.
        key: &'static str,
        /// Its value.
        found: String,
        /// The least that is accepted.
        low: String,
        /// The most.
        high: String,
        /// In what.
        unit: &'static str,
    },
    /// There is no such algorithm or queue discipline.
    #[error("there is no {what} `{found}` here; there are {known}")]
    Unknown {
        /// Kind of the entry.
        what: &'static str,
        /// The name.
        found: String,
        /// Names that there are.
        known: String,
    },
    /// Flows, or their times.
    #[error("{0}")]
    Flows(String),
    /// A scenario file cannot say it.
    #[error(
        "A flow that you steer has no congestion control, so that no scenario file repeats it. Give it an algorithm \
         and export again."
    )]
    Hand,
    /// The engine has refused it.
    #[error("the simulator refused it: {0}")]
    Engine(String),
}

const RATES: RangeInclusive<u64> = 100_000..=1_000_000_000;
const RTTS: RangeInclusive<u64> = 1_000..=1_000_000;
const BUFFERS: RangeInclusive<u64> = 2..=20_000;
const LOSSES: RangeInclusive<f64> = 0.0..=0.2;
const DURATIONS: RangeInclusive<u64> = 1_000_000..=600_000_000;
const INTERVALS: RangeInclusive<u64> = 1_000..=1_000_000;
const FLOWS: RangeInclusive<u64> = 1..=20;
const CHANGES: usize = 2_000;
const STEERED: usize = 100_000;

/// The range of each control, in the units of a scene.
pub fn ranges() -> Value {
    let whole = |range: &RangeInclusive<u64>| json!([range.start(), range.end()]);
    json!({
        "rate": whole(&RATES), "rtt": whole(&RTTS), "buffer": whole(&BUFFERS), "loss": [LOSSES.start(), LOSSES.end()],
        "duration": whole(&DURATIONS), "flows": whole(&FLOWS),
    })
}

/// True if a queue discipline's capacity is given in packets.
pub fn takes_packets(queue: &str) -> bool {
    !["bfifo"].contains(&queue)
}

fn within<T: PartialOrd + ToString>(
    key: &'static str,
    value: &T,
    range: &RangeInclusive<T>,
    unit: &'static str,
) -> Result<(), SceneError> {
    let out = || SceneError::Range {
        key,
        found: value.to_string(),
        low: range.start().to_string(),
        high: range.end().to_string(),
        unit,
    };
    if range.contains(value) { Ok(()) } else { Err(out()) }
}

impl To {
    fn check(&self) -> Result<(), SceneError> {
        match self {
            Self::Rate(rate) => within("rate", rate, &RATES, " bit/s"),
            Self::Rtt(rtt) => within("rtt", rtt, &RTTS, " us"),
            Self::Buffer(packets) => within("buffer", packets, &BUFFERS, " packets"),
            Self::Loss(loss) => within("loss", loss, &LOSSES, ""),
        }
    }
}

impl Scene {
    /// Checks what a page or a link gave.
    ///
    /// # Errors
    /// The first value that is not accepted.
    pub fn check(&self) -> Result<(), SceneError> {
        let initial = [To::Rate(self.rate), To::Rtt(self.rtt), To::Buffer(self.buffer), To::Loss(self.loss)];
        initial.iter().chain(self.changes.iter().map(|change| &change.to)).try_for_each(To::check)?;
        within("duration", &self.duration, &DURATIONS, " us")?;
        within("interval", &self.interval, &INTERVALS, " us")?;
        within("flows", &(self.flows.len() as u64), &FLOWS, "")?;
        within("changes", &self.changes.len(), &(0..=CHANGES), "")?;
        within("hand", &self.hand.len(), &(0..=STEERED), "")?;
        if let Some(change) = self.changes.iter().find(|change| change.at >= self.duration) {
            return Err(SceneError::Flows(format!("a change at {} us comes after the end", change.at)));
        }
        if !takes_packets(&self.queue) || knee_queue::find(&self.queue).is_none() {
            let known = knee_queue::registry().iter().map(|entry| entry.name).filter(|name| takes_packets(name));
            return Err(unknown("queue discipline", &self.queue, known));
        }
        for flow in &self.flows {
            let stop = flow.stop.unwrap_or(self.duration);
            if flow.start >= stop || stop > self.duration {
                let (start, end) = (flow.start, self.duration);
                return Err(SceneError::Flows(format!(
                    "a flow runs from {start} to {stop} us; it must stop after it starts, by the end at {end} us"
                )));
            }
            flow.rtt.iter().try_for_each(|rtt| within("rtt", rtt, &RTTS, " us"))?;
            if flow.quic && [hand::NAME, CALL].contains(&flow.cc.as_str()) {
                let what =
                    if flow.cc == CALL { "a call goes in datagrams of UDP" } else { "a flow is steered over TCP" };
                return Err(SceneError::Flows(format!("{what}, and not over QUIC")));
            }
            if flow.cc != hand::NAME && flow.cc != CALL && knee_cc::find(&flow.cc).is_none() {
                return Err(unknown(
                    "congestion control",
                    &flow.cc,
                    knee_cc::registry().iter().map(|entry| entry.name),
                ));
            }
        }
        Ok(())
    }

    /// The specification for the engine.
    ///
    /// # Errors
    /// If a value is not accepted.
    pub fn spec(&self) -> Result<Spec, SceneError> {
        self.check()?;
        let flows = self.flows.iter().enumerate().map(|(i, flow)| {
            let mut told = json!({
                "label": label(i), "cc": flow.cc, "rtt": flow.rtt.unwrap_or(self.rtt) * 1_000,
                "start": flow.start * 1_000, "stop": flow.stop.unwrap_or(self.duration) * 1_000, "path": [0],
                "ecn": if self.ecn && may_choose_ecn(&flow.cc) { "on" } else { "off" },
            });
            if flow.quic {
                told["transport"] = json!("quic");
            }
            if flow.cc == CALL {
                let (least, first, most) = (CALL_RATES[0], CALL_RATES[1], CALL_RATES[2]);
                told["cc"] = json!("none");
                told["traffic"] = json!({
                    "kind": "rtc", "controller": "gcc", "min_rate": least, "start_rate": first, "max_rate": most,
                    "fps": CALL_FPS,
                });
            }
            told
        });
        let spec = json!({
            "duration": self.duration * 1_000, "seed": self.seed, "warmup": 0, "interval": self.interval * 1_000,
            "links": [{
                "name": LINK, "capacity": {"rate": self.rate}, "queue": self.queue, "limit": {"packets": self.buffer},
                "overhead": 14, "loss": self.loss,
            }],
            "flows": flows.collect::<Vec<_>>(),
            "changes": self.changes.iter().flat_map(|change| self.engine_changes(change)).collect::<Vec<_>>(),
        });
        // Through text: flows keep the text of their parameters.
        serde_json::from_str(&spec.to_string()).map_err(|error| SceneError::Engine(error.to_string()))
    }

    /// The flows that have the base RTT of all.
    fn without_own_rtt(&self) -> impl Iterator<Item = usize> {
        self.flows.iter().enumerate().filter(|(_, flow)| flow.rtt.is_none()).map(|(i, _)| i)
    }

    fn engine_changes(&self, change: &SceneChange) -> Vec<Value> {
        let at = |what: Value| json!({"at": change.at * 1_000, "what": what});
        match change.to {
            To::Rate(rate) => vec![at(json!({"rate": {"link": 0, "rate": rate}}))],
            To::Loss(loss) => vec![at(json!({"loss": {"link": 0, "loss": loss}}))],
            To::Buffer(packets) => vec![at(json!({"limit": {"link": 0, "limit": {"packets": packets}}}))],
            To::Rtt(rtt) => {
                let each = |flow| at(json!({"rtt": {"flow": flow, "rtt": rtt * 1_000}}));
                self.without_own_rtt().map(each).collect()
            }
        }
    }

    /// The scenario file.
    ///
    /// # Errors
    /// If a value is not accepted, or a flow is steered by hand.
    pub fn toml(&self) -> Result<String, SceneError> {
        self.check()?;
        if self.flows.iter().any(|flow| flow.cc == hand::NAME) {
            return Err(SceneError::Hand);
        }
        let Self { rate, rtt, buffer, loss, queue, duration, interval, seed, .. } = self;
        let mut toml = format!(
            "# From the page play: knee run FILE gives the figures that the page shows at the end.\n\
             title = \"An experiment from the page play\"\nduration = \"{}\"\nseed = {seed}\n\
             interval = \"{}\"\n\n\
             [link]\nrate = \"{}\"\nqueue = \"{queue}\"\nlimit = \"{buffer} packets\"\nloss = {loss:?}\n",
            time(*duration),
            time(*interval),
            bit_rate(*rate),
        );
        for (i, SceneFlow { cc, start, stop, rtt: own, quic }) in self.flows.iter().enumerate() {
            let (stop, label, rtt) = (stop.unwrap_or(*duration), label(i), own.unwrap_or(*rtt));
            let [least, first, most] = CALL_RATES.map(bit_rate);
            let what = if cc == CALL {
                format!(
                    "traffic = {{ kind = \"rtc\", controller = \"gcc\", min_rate = \"{least}\", \
                     start_rate = \"{first}\", max_rate = \"{most}\", fps = {CALL_FPS:?} }}"
                )
            } else {
                format!("cc = \"{cc}\"{}", if *quic { "\ntransport = \"quic\"" } else { "" })
            };
            let _ = write!(
                toml,
                "\n[[flows]]\nlabel = \"{label}\"\n{what}\nrtt = \"{}\"\nstart = \"{}\"\n\
                 stop = \"{}\"\n{}",
                time(rtt),
                time(*start),
                time(stop),
                if self.ecn && may_choose_ecn(cc) { "ecn = true\n" } else { "" }
            );
        }
        for SceneChange { at, to } in &self.changes {
            let link = |key: &str, value: String| format!("link = \"{LINK}\"\n{key} = {value}\n");
            let changed = match to {
                To::Rate(rate) => vec![link("rate", format!("\"{}\"", bit_rate(*rate)))],
                To::Buffer(packets) => vec![link("limit", format!("\"{packets} packets\""))],
                To::Loss(loss) => vec![link("loss", format!("{loss:?}"))],
                To::Rtt(rtt) => {
                    let each = |i| format!("flow = \"{}\"\nrtt = \"{}\"\n", label(i), time(*rtt));
                    self.without_own_rtt().map(each).collect()
                }
            };
            for change in changed {
                let _ = write!(toml, "\n[[changes]]\nat = \"{}\"\n{change}", time(*at));
            }
        }
        Ok(toml)
    }
}

/// A number in the greatest unit of which it has one, without loss: `units` are from the greatest to the least.
fn in_units(value: u64, units: &[(u64, &str)]) -> String {
    let (scale, unit) = *units.iter().find(|(scale, _)| value >= *scale).unwrap_or(&units[0]);
    let digits = scale.ilog10() as usize;
    let number = format!("{}.{:0digits$}", value / scale, value % scale);
    format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// A time of a scene, as people write it.
fn time(us: u64) -> String {
    in_units(us, &[(1_000_000, "s"), (1_000, "ms"), (1, "us")])
}

/// A rate of a scene, as people write it.
fn bit_rate(bps: u64) -> String {
    in_units(bps, &[(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s"), (1, "bit/s")])
}

/// The name of a video call among algorithms.
pub const CALL: &str = "call";
/// Least rate, first rate and greatest rate of a call, bit/s: the defaults of `rtc` in scenario files.
pub(crate) const CALL_RATES: [u64; 3] = [100_000, 300_000, 2_500_000];
/// Pictures per second of a call.
pub(crate) const CALL_FPS: f64 = 30.0;

/// True if a flow with this algorithm may use ECN or not: some need it, and no file says so again.
pub(crate) fn may_choose_ecn(cc: &str) -> bool {
    knee_cc::find(cc).is_some_and(|entry| entry.needs.ecn == knee_cc::Ecn::Classic)
}

/// The name of the link, as scenario files have it by default.
const LINK: &str = "bottleneck";

fn label(flow: usize) -> String {
    format!("flow {}", flow + 1)
}

fn unknown(what: &'static str, found: &str, known: impl Iterator<Item = &'static str>) -> SceneError {
    let known = known.collect::<Vec<_>>().join(", ");
    SceneError::Unknown { what, found: found.chars().take(40).collect(), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_times_and_rates_as_people_write_them() {
        assert_eq!([0, 7, 40_000, 60_000_000, 1_234_567].map(time), ["0 s", "7 us", "40 ms", "60 s", "1.234567 s"]);
        let rates = [20_000_000, 100_000, 1_500_000_000, 100_001].map(bit_rate);
        assert_eq!(rates, ["20 Mbit/s", "100 kbit/s", "1.5 Gbit/s", "100.001 kbit/s"]);
    }
}
