//! A scenario file as a scene: one link and its flows. What a page cannot show is refused by its key.

use crate::scene::{CALL, CALL_FPS, CALL_RATES, Scene, SceneChange, SceneFlow, To, may_choose_ecn};
use knee_net::spec::{Capacity, Change, LimitSpec, LinkSpec};
use knee_scenario::quantity;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

/// The keys beside those of the network.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(deserialize_with = "time")]
    duration: u64,
    #[serde(default = "interval", deserialize_with = "time")]
    interval: u64,
    #[serde(default)]
    link: Table,
    flows: Vec<Flow>,
    #[serde(default, rename = "changes")]
    _changes: IgnoredAny,
    #[serde(default, rename = "seed")]
    _seed: IgnoredAny,
    #[serde(default, rename = "name")]
    _name: IgnoredAny,
    #[serde(default, rename = "title")]
    _title: IgnoredAny,
}

/// A flow, or `count` identical ones.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flow {
    #[serde(default)]
    cc: Option<String>,
    #[serde(default)]
    traffic: Option<Table>,
    #[serde(default, deserialize_with = "time")]
    start: u64,
    #[serde(default, deserialize_with = "some_time")]
    stop: Option<u64>,
    #[serde(default = "one")]
    count: u64,
    #[serde(default, deserialize_with = "time")]
    stagger: u64,
    #[serde(default)]
    ecn: bool,
    #[serde(rename = "rtt")]
    _rtt: IgnoredAny,
    #[serde(default, rename = "label")]
    _label: IgnoredAny,
    #[serde(default, rename = "path")]
    _path: IgnoredAny,
}

const fn one() -> u64 {
    1
}

/// The default of scenario files, us.
const fn interval() -> u64 {
    100_000
}

/// A time in whole microseconds.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let ns = quantity::time(&text).map_err(D::Error::custom)?;
    if ns.is_multiple_of(1_000) {
        Ok(ns / 1_000)
    } else {
        Err(D::Error::custom(format!("{text:?} is no whole number of us")))
    }
}

fn some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    time(from).map(Some)
}

/// The scene that a scenario file says.
///
/// # Errors
/// The file is none, or says what the page does not have; the text names the key.
pub fn scene(text: &str) -> Result<Scene, String> {
    let network = knee_scenario::read(text, "the file").map_err(|error| error.to_string())?;
    let file: File = toml::from_str(text).map_err(|error| no(&error))?;
    let [link] = network.links.as_slice() else {
        return Err(format!("the page has one link, and the file has {}", network.links.len()));
    };
    let (rate, buffer) = controls(&file, link)?;
    let mut flows = Vec::new();
    let mut ecn = Vec::new();
    let each = file.flows.iter().flat_map(|flow| (0..flow.count).map(move |number| (flow, number)));
    for (i, ((flow, number), path)) in each.zip(&network.paths).enumerate() {
        let cc = algorithm(flow).map_err(|what| format!("flows[{i}]: {what}"))?;
        if path.reverse || path.tunnel.is_some() || path.dscp != 0 {
            return Err(format!("flows[{i}]: the page has no reverse direction, tunnels and codepoints"));
        }
        ecn.extend(may_choose_ecn(&cc).then_some(flow.ecn));
        let start = flow.start + number * flow.stagger;
        flows.push(SceneFlow { cc, start, stop: flow.stop, rtt: Some(path.rtt / 1_000) });
    }
    if ecn.iter().any(|on| on != &ecn[0]) {
        return Err("flows: on the page all use ECN or none does, and in the file some do".into());
    }
    let (changes, moved) = changes(&network.changes)?;
    // The flows that the page's base RTT is of: those that change together, or have that of the first.
    let first = moved.first().copied().unwrap_or(0);
    let rtt = flows.get(first).and_then(|flow| flow.rtt).unwrap_or_default();
    for (i, flow) in flows.iter_mut().enumerate() {
        if moved.contains(&i) && flow.rtt != Some(rtt) {
            return Err(format!("changes: flows[{first}] and flows[{i}] change together, from different RTTs"));
        }
        if moved.contains(&i) || (moved.is_empty() && flow.rtt == Some(rtt)) {
            flow.rtt = None;
        }
    }
    let (duration, interval, seed, ecn) = (file.duration, file.interval, network.seed, ecn.first() == Some(&true));
    let (queue, loss, hand) = (link.queue.clone(), link.loss, Vec::new());
    let made = Scene { rate, rtt, buffer, loss, queue, ecn, duration, interval, seed, flows, changes, hand };
    // The link may have what the page has not, such as a name.
    let shown = made.toml().map_err(|error| error.to_string())?;
    let shown = knee_scenario::read(&shown, "the page's").map_err(|error| error.to_string())?;
    if format!("{:?}", shown.links) != format!("{:?}", network.links) {
        return Err("link: it has more than the page's rate, queue, buffer and loss".into());
    }
    Ok(made)
}

/// A key or value that the page does not have, without the list of those that it has.
fn no(error: &toml::de::Error) -> String {
    let said = error.message().split(", expected").next().unwrap_or_default();
    said.strip_prefix("unknown field ").map_or_else(|| said.into(), |key| format!("the page has no {key}"))
}

/// Rate, bit/s, and buffer, packets.
fn controls(file: &File, link: &LinkSpec) -> Result<(u64, u64), String> {
    const KEYS: [&str; 5] = ["name", "rate", "queue", "limit", "loss"];
    if let Some(key) = file.link.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("the page has no `link.{key}`; it has {}", KEYS[1..].join(", ")));
    }
    let Capacity::Rate(rate) = link.capacity else { return Err("the page's link has a rate, not a trace".into()) };
    let Some(LimitSpec::Packets(buffer)) = link.limit else {
        return Err("link.limit: the page's buffer is a number of packets".into());
    };
    Ok((rate, buffer))
}

/// The congestion control, or [`CALL`].
fn algorithm(flow: &Flow) -> Result<String, String> {
    let Some(traffic) = &flow.traffic else { return flow.cc.clone().ok_or_else(|| "it has no cc".into()) };
    let rate = |key: &str, of: u64| {
        traffic.get(key).is_none_or(|value| value.as_str().and_then(|text| quantity::rate(text).ok()) == Some(of))
    };
    let same = |key: &str, of: &str| traffic.get(key).and_then(Value::as_str) == Some(of);
    let [least, start, most] = CALL_RATES;
    let call = same("kind", "rtc")
        && same("controller", "gcc")
        && rate("min_rate", least)
        && rate("start_rate", start)
        && rate("max_rate", most)
        && traffic.get("fps").is_none_or(|fps| fps.as_float() == Some(CALL_FPS))
        && traffic.len()
            == 2 + ["min_rate", "start_rate", "max_rate", "fps"]
                .iter()
                .filter(|key| traffic.contains_key(**key))
                .count();
    if call { Ok(CALL.into()) } else { Err("the page has bulk data and video calls of the usual rates alone".into()) }
}

/// The changes of a file, each of one control, and the flows whose RTT changes, which do so together.
fn changes(given: &[knee_net::spec::ChangeSpec]) -> Result<(Vec<SceneChange>, Vec<usize>), String> {
    let mut made: Vec<SceneChange> = Vec::new();
    let mut together: Vec<(u64, u64, Vec<usize>)> = Vec::new();
    for change in given {
        let at = microseconds(change.at)?;
        let to = match change.what {
            Change::Rate { rate, .. } => To::Rate(rate),
            Change::Loss { loss, .. } => To::Loss(loss),
            Change::Limit { limit: LimitSpec::Packets(packets), .. } => To::Buffer(packets),
            Change::Limit { .. } => return Err("changes: the page's buffer is a number of packets".into()),
            Change::Rtt { flow, rtt } => {
                let rtt = microseconds(rtt)?;
                match together.last_mut() {
                    Some((time, value, flows)) if (*time, *value) == (at, rtt) && !flows.contains(&flow) => {
                        flows.push(flow);
                        continue;
                    }
                    _ => together.push((at, rtt, vec![flow])),
                }
                To::Rtt(rtt)
            }
        };
        made.push(SceneChange { at, to });
    }
    made.sort_by_key(|change| change.at);
    let moved = together.first().map(|(.., flows)| flows.clone()).unwrap_or_default();
    if together.iter().any(|(.., flows)| *flows != moved) {
        return Err("changes: on the page one base RTT changes, of the same flows each time".into());
    }
    Ok((made, moved))
}

fn microseconds(ns: u64) -> Result<u64, String> {
    if ns.is_multiple_of(1_000) { Ok(ns / 1_000) } else { Err(format!("{ns} ns is no whole number of us")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::any_scene;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_exported_file_opens_as_the_scene_it_came_from(scene in any_scene()) {
            let opened = super::scene(&scene.toml().unwrap()).unwrap();
            let [one, other] = [&scene, &opened].map(|scene| format!("{:?}", scene.spec().unwrap()));
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn what_the_page_cannot_show_is_refused_by_its_key() {
        const FILE: &str = "duration = \"10 s\"\n[link]\nrate = \"5 Mbit/s\"\nlimit = \"50 packets\"\n\
                            [[flows]]\ncc = \"reno\"\nrtt = \"20 ms\"\ncount = 2\nstagger = \"1 s\"\n";
        let opened = scene(FILE).unwrap();
        assert_eq!(opened.flows.iter().map(|flow| flow.start).collect::<Vec<_>>(), [0, 1_000_000]);
        assert_eq!((opened.rtt, opened.flows[1].rtt, opened.interval), (20_000, None, 100_000));
        let said = |from: &str, to: &str| scene(&FILE.replace(from, to)).err().unwrap_or_default();
        let wrong = [
            ("5 Mbit/s", "5", "the file:3:8: link.rate: \"5\" has no unit"),
            ("rate = \"5 Mbit/s\"", "rate = \"5 Mbit/s\"\njitter = \"1 ms\"", "the page has no `link.jitter`"),
            ("rate = \"5 Mbit/s\"", "rate = \"5 Mbit/s\"\nname = \"a\"", "link: it has more than"),
            ("limit = \"50 packets\"\n", "", "link.limit: the page's buffer is a number of packets"),
            ("50 packets", "40 ms", "link.limit: the page's buffer is a number of packets"),
            ("count = 2", "transport = \"quic\"", "the page has no `transport`"),
            ("cc = \"reno\"", "traffic = { kind = \"video\" }", "flows[0]: the page has bulk data and video calls"),
            ("cc = \"reno\"", "cc = \"mine.py:Mine\"", "there is no congestion control `mine.py:Mine` here"),
            ("duration", "warmup = \"1 s\"\nduration", "the page has no `warmup`"),
            ("5 Mbit/s", "5 Gbit/s", "`rate` is 5000000000, but must be from"),
        ];
        for (from, to, expected) in wrong {
            let told = said(from, to);
            assert!(told.contains(expected), "{told}");
        }
    }
}
