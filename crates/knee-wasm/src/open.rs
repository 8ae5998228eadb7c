//! A scenario file on a page: a scene whose controls can be moved, or a network of any links that is only shown.

use crate::scene::{CALL, CALL_FPS, CALL_RATES, Scene, SceneChange, SceneFlow, To, may_choose_ecn};
use knee_net::spec::{CapacitySpec, Change, ChangeSpec, EcnSpec, LimitSpec, LinkSpec, Transport};
use knee_scenario::{Scenario, quantity, refusal};
use knee_sim::Spec;
use serde::Serialize;
use toml::{Table, Value};

/// A file that a page shows.
#[derive(Debug, Serialize)]
pub struct Opened {
    /// The scene; of a file that is only shown, as far as a scene can say it.
    pub scene: Scene,
    /// A file that is only shown.
    pub file: Option<Shown>,
}

/// A file that is only shown.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The reason for which its controls cannot be moved.
    pub reason: String,
    /// Names of its links.
    pub links: Vec<String>,
    /// Number of the link whose queue is drawn.
    pub link: usize,
    /// True if the queue of that link has the buffer of the scene.
    pub buffer: bool,
}

/// Errors call the file so, and the page puts its name in place of that.
const FILE: &str = "the file";
/// Most flows of a file that is only shown, and rows of its time series.
const MOST_FLOWS: usize = 100;
const MOST_ROWS: u64 = 1_000_000;

/// Reads a scenario file for a page.
///
/// # Errors
/// The file cannot be read, or sends what the page does not: with its place in the file.
pub fn open(text: &str) -> Result<Opened, String> {
    let network = knee_scenario::read(text, FILE).map_err(|error| error.to_string())?;
    match scene(text, &network) {
        Ok(scene) => Ok(Opened { scene, file: None }),
        Err(reason) => shown(text, network, reason),
    }
}

/// The specification of a file that is only shown.
///
/// # Errors
/// It has none.
pub fn spec(text: &str) -> Result<Spec, String> {
    let network = knee_scenario::read(text, FILE).map_err(|error| error.to_string())?;
    whole(text, network).map(|(spec, _)| spec)
}

fn whole(text: &str, network: Scenario) -> Result<(Spec, Vec<u64>), String> {
    let no = |key: &str, found: &str, accepted: &str| Err(refusal(text, FILE, key, found, accepted).to_string());
    let Scenario { seed, duration, warmup, interval, links, paths, changes, flows, probes, tcp, quic } = network;
    let Some(duration) = duration else { return no("duration", "it is missing", "expected a time such as \"60 s\"") };
    let file: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if !file.contains_key("flows") {
        return no("flows", "it is missing", "expected one or more [[flows]]");
    }
    if flows.len() > MOST_FLOWS {
        let found = format!("there are {} flows", flows.len());
        return no("flows", &found, &format!("expected at most {MOST_FLOWS} on a page; run it with knee run"));
    }
    let rows = (flows.len() + links.len()) as u64 * duration.div_ceil(interval);
    if rows > MOST_ROWS {
        let found = format!("it gives {rows} rows of time series");
        return no("interval", &found, &format!("expected at most {MOST_ROWS} on a page; run it with knee run"));
    }
    let mut flows = flows.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let rtts = paths.iter().map(|path| path.rtt).chain(probes.iter().map(|probe| probe.rtt)).collect();
    flows.extend(probes);
    Ok((Spec { duration, seed, warmup, interval, tcp, quic, links, flows, changes }, rtts))
}

/// A file that is only shown: the queue that is drawn is that of the slowest link of the first flow.
fn shown(text: &str, network: Scenario, reason: String) -> Result<Opened, String> {
    let (Spec { duration, seed, interval, links, flows, changes, .. }, rtts) = whole(text, network)?;
    let us = |ns: u64| ns / 1_000;
    let slowest = flows[0].path.iter().copied().min_by_key(|link| rate(&links[*link]));
    let link = slowest.unwrap_or(0);
    let told = &links[link];
    let rate = rate(told);
    let packets = |limit: Option<LimitSpec>, rate: u64| match limit? {
        LimitSpec::Packets(packets) => Some(packets),
        LimitSpec::Bytes(bytes) => Some(bytes / FULL_PACKET),
        LimitSpec::Time(ns) => Some(knee_core::convert::saturating_u64(
            u128::from(rate) * u128::from(ns) / (8_000_000_000 * u128::from(FULL_PACKET)),
        )),
    };
    let buffer = packets(told.limit, rate).filter(|packets| *packets > 0);
    let moved = changes.iter().filter_map(|change| {
        let to = match change.what {
            Change::Rate { link: of, rate } if of == link => To::Rate(rate),
            Change::Loss { link: of, loss } if of == link => To::Loss(loss),
            Change::Limit { link: of, limit } if of == link => To::Buffer(packets(Some(limit), rate)?),
            Change::Rtt { flow: 0, rtt } => To::Rtt(us(rtt)),
            _ => return None,
        };
        Some(SceneChange { at: us(change.at), to })
    });
    let scene = Scene {
        rate,
        rtt: us(rtts[0]),
        buffer: buffer.unwrap_or(DRAWN),
        loss: told.loss,
        queue: told.queue.clone(),
        ecn: false,
        duration: us(duration),
        interval: us(interval),
        seed,
        changes: moved.collect(),
        hand: Vec::new(),
        flows: flows
            .iter()
            .zip(&rtts)
            .map(|(flow, rtt)| SceneFlow {
                // Datagrams have no algorithm, and are called by their kind.
                cc: flow.traffic.as_ref().filter(|_| flow.cc == "none").map_or(&flow.cc, |told| &told.kind).clone(),
                start: us(flow.start),
                stop: Some(us(flow.stop)).filter(|_| flow.stop < duration),
                rtt: Some(us(*rtt)),
                quic: flow.transport == Transport::Quic,
            })
            .collect(),
    };
    let names = links.iter().map(|link| link.name.clone()).collect();
    Ok(Opened { scene, file: Some(Shown { reason, links: names, link, buffer: buffer.is_some() }) })
}

/// Bytes of a full packet on the wire.
const FULL_PACKET: u64 = 1514;
/// Packets for which there is room where a queue of no known capacity is drawn.
const DRAWN: u64 = 100;

/// The rate of a link, bit/s; of a trace the mean.
fn rate(link: &LinkSpec) -> u64 {
    match &link.capacity {
        CapacitySpec::Rate(rate) => *rate,
        CapacitySpec::Trace(times) => {
            times.last().map_or(0, |last| 1500 * 8 * 1_000 * times.len() as u64 / (*last).max(1))
        }
        CapacitySpec::Rates(recorded) => recorded.values.first().copied().unwrap_or(0),
    }
}

/// The scene that a scenario file says, or why it says what the controls of the page do not have.
fn scene(text: &str, network: &Scenario) -> Result<Scene, String> {
    let read = |text: &str, name: &str| knee_scenario::read(text, name).map_err(|error| error.to_string());
    let file: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let [link] = network.links.as_slice() else {
        return Err(format!("the page has one link, and the file has {}", network.links.len()));
    };
    only(&file, "", &["name", "title", "duration", "interval", "seed", "link", "links", "flows", "changes"])?;
    let (rate, buffer) = controls(&file, link)?;
    let duration = microseconds(network.duration.ok_or("the file has no duration")?)?;
    let interval = microseconds(network.interval)?;
    let sent = sent(&file)?;
    let calls = read(&sent.as_streams, FILE)?.flows;
    let (mut flows, mut ecn) = (Vec::new(), Vec::new());
    for (n, i) in sent.groups.iter().copied().enumerate() {
        let is_call = sent.calls.contains(&i);
        let flow = if is_call { &calls[n] } else { &network.flows[n] };
        let flow = flow.as_ref().map_err(ToString::to_string)?;
        let cc = if is_call { CALL.into() } else { flow.cc.clone() };
        // Such an algorithm always has L4S.
        let is_scalable = knee_cc::find(&cc).is_some_and(|entry| entry.needs.ecn == knee_cc::Ecn::Scalable);
        if matches!(flow.ecn, EcnSpec::Accurate | EcnSpec::L4s) && !(is_scalable && flow.ecn == EcnSpec::L4s) {
            return Err(format!("flows[{i}].ecn: the page has true and false"));
        }
        ecn.extend(may_choose_ecn(&cc).then_some(flow.ecn == EcnSpec::On));
        let (start, stop) = (microseconds(flow.start)?, microseconds(flow.stop)?);
        let stop = Some(stop).filter(|stop| *stop < duration);
        let quic = flow.transport == Transport::Quic;
        flows.push(SceneFlow { cc, start, stop, rtt: Some(microseconds(flow.rtt)?), quic });
    }
    if ecn.iter().any(|on| *on != ecn[0]) {
        return Err("flows: on the page all use ECN or none does, and in the file some do".into());
    }
    let ecn = ecn.first() == Some(&true);
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
    let (seed, queue, loss, hand) = (network.seed, link.queue.clone(), link.loss, Vec::new());
    let made = Scene { rate, rtt, buffer, loss, queue, ecn, duration, interval, seed, flows, changes, hand };
    // The link may have what the page has not, such as a name.
    let shown = read(&made.toml().map_err(|error| error.to_string())?, "the page's")?;
    if format!("{:?}", shown.links) != format!("{:?}", network.links) {
        return Err("link: it has more than the page's rate, queue, buffer and loss".into());
    }
    Ok(made)
}

/// Refuses a key that the page does not have, in a table at `place`.
fn only(table: &Table, place: &str, known: &[&str]) -> Result<(), String> {
    let other = table.keys().find(|key| !known.contains(&key.as_str()));
    other.map_or(Ok(()), |key| Err(format!("the page has no `{place}{key}`")))
}

/// Rate, bit/s, and buffer, packets.
fn controls(file: &Table, link: &LinkSpec) -> Result<(u64, u64), String> {
    if let Some(link) = file.get("link").and_then(Value::as_table) {
        only(link, "link.", &["name", "rate", "queue", "limit", "loss"])?;
    }
    let CapacitySpec::Rate(rate) = link.capacity else { return Err("the page's link has a rate, not a trace".into()) };
    let Some(LimitSpec::Packets(buffer)) = link.limit else {
        return Err("link.limit: the page's buffer is a number of packets".into());
    };
    Ok((rate, buffer))
}

/// The flows of a file.
struct Sent {
    /// The number of each single flow's table.
    groups: Vec<usize>,
    /// Tables with video calls.
    calls: Vec<usize>,
    /// The file with bulk data in place of calls: when they start and stop is read of it.
    as_streams: String,
}

fn sent(file: &Table) -> Result<Sent, String> {
    const KEYS: &[&str] =
        &["label", "cc", "traffic", "rtt", "path", "start", "stop", "lasts", "count", "stagger", "ecn", "transport"];
    let (mut file, mut groups, mut calls) = (file.clone(), Vec::new(), Vec::new());
    let tables = file.get_mut("flows").and_then(Value::as_array_mut).into_iter().flatten();
    for (i, flow) in tables.filter_map(Value::as_table_mut).enumerate() {
        only(flow, &format!("flows[{i}]."), KEYS)?;
        let count = flow.get("count").and_then(Value::as_integer).unwrap_or(1);
        groups.extend((0..count).map(|_| i));
        if let Some(traffic) = flow.remove("traffic") {
            if !is_call(&traffic) {
                return Err(format!("flows[{i}]: the page has bulk data and video calls of the usual rates alone"));
            }
            if flow.remove("transport").is_some_and(|transport| transport.as_str() == Some("quic")) {
                return Err(format!("flows[{i}]: the page's video calls go in datagrams of UDP"));
            }
            calls.push(i);
            flow.insert("cc".into(), "cubic".into());
        }
    }
    let as_streams = toml::to_string(&file).map_err(|error| error.to_string())?;
    Ok(Sent { groups, calls, as_streams })
}

/// True if traffic is a video call as the page has them.
fn is_call(traffic: &Value) -> bool {
    let is_rate = |value: &Value, of: u64| value.as_str().and_then(|text| quantity::rate(text).ok()) == Some(of);
    let [least, first, most] = CALL_RATES;
    let same = |(key, value): (&String, &Value)| match key.as_str() {
        "kind" => value.as_str() == Some("rtc"),
        "controller" => value.as_str() == Some("gcc"),
        "min_rate" => is_rate(value, least),
        "start_rate" => is_rate(value, first),
        "max_rate" => is_rate(value, most),
        "fps" => value.as_float() == Some(CALL_FPS),
        _ => false,
    };
    traffic.as_table().is_some_and(|traffic| {
        ["kind", "controller"].iter().all(|key| traffic.contains_key(*key)) && traffic.iter().all(same)
    })
}

/// The changes of a file, each of one control, and the flows whose RTT changes, which do so together.
fn changes(given: &[ChangeSpec]) -> Result<(Vec<SceneChange>, Vec<usize>), String> {
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
            let opened = open(&scene.toml().unwrap()).unwrap();
            prop_assert!(opened.file.is_none(), "{:?}", opened.file);
            let [one, other] = [&scene, &opened.scene].map(|scene| format!("{:?}", scene.spec().unwrap()));
            prop_assert_eq!(one, other);
        }
    }

    const TEXT: &str = "duration = \"10 s\"\n[link]\nrate = \"5 Mbit/s\"\nlimit = \"50 packets\"\n\
                        [[flows]]\ncc = \"reno\"\nrtt = \"20 ms\"\ncount = 2\nstagger = \"1 s\"\n";

    fn changed(from: &str, to: &str) -> Result<Opened, String> {
        assert!(TEXT.contains(from), "{from}");
        open(&TEXT.replace(from, to))
    }

    #[test]
    fn what_the_controls_do_not_have_is_shown_without_them() {
        let opened = open(TEXT).unwrap();
        assert!(opened.file.is_none());
        assert_eq!(opened.scene.flows.iter().map(|flow| flow.start).collect::<Vec<_>>(), [0, 1_000_000]);
        assert_eq!((opened.scene.rtt, opened.scene.flows[1].rtt, opened.scene.interval), (20_000, None, 100_000));
        let kinds = [
            ("rate = \"5 Mbit/s\"", "rate = \"5 Mbit/s\"\njitter = \"1 ms\"", "the page has no `link.jitter`"),
            ("rate = \"5 Mbit/s\"", "rate = \"5 Mbit/s\"\nname = \"a\"", "link: it has more than"),
            ("limit = \"50 packets\"\n", "", "link.limit: the page's buffer is a number of packets"),
            ("50 packets", "40 ms", "link.limit: the page's buffer is a number of packets"),
            ("count = 2", "bytes = \"1 MB\"\ncount = 2", "the page has no `flows[0].bytes`"),
            ("count = 2", "ecn = \"l4s\"", "flows[0].ecn: the page has true and false"),
            ("duration", "warmup = \"1 s\"\nduration", "the page has no `warmup`"),
            ("5 Mbit/s", "5 Gbit/s", "`rate` is 5000000000, but must be from"),
        ];
        for (from, to, reason) in kinds {
            let file = changed(from, to).unwrap().file.unwrap();
            assert!(file.reason.contains(reason), "{}", file.reason);
            assert_eq!((file.links.len(), file.link), (1, 0));
        }
        assert_eq!(changed("50 packets", "40 ms").unwrap().scene.buffer, 5_000_000 * 40 / 8_000 / 1514);
    }

    #[test]
    fn what_the_page_does_not_run_is_refused_at_its_place() {
        let wrong = [
            ("5 Mbit/s", "5", "the file:3:8: link.rate: \"5\" has no unit"),
            ("cc = \"reno\"", "cc = \"mine.py:M\"", "the file:6:6: flows[0].cc: no congestion control is called"),
            ("cc = \"reno\"", "cc = \"noq:cubic\"", "the file:6:6: flows[0].cc: \"noq:cubic\" is not read here"),
            ("cc = \"reno\"", "cc = \"reno\"\npacing = \"on\"\ntransport = \"quic\"", "flows[0].pacing: QUIC paces"),
            (
                "cc = \"reno\"",
                "traffic = { kind = \"vdeo\" }",
                "the file:6:1: flows[0].traffic: \"vdeo\" is not a kind",
            ),
            ("count = 2", "count = 101", "the file:5:3: flows: there are 101 flows; expected at most 100"),
            ("[link]", "interval = \"10 us\"\n[link]", "the file:2:12: interval: it gives 3000000 rows"),
            ("[link]", "[[probes]]\nrtt = \"0 ms\"\n[link]", "the file:3:7: probes[0].rtt: \"0 ms\" is zero"),
            ("duration = \"10 s\"\n", "", "the file: duration: it is missing"),
            ("rate = \"5 Mbit/s\"", "trace = \"a\"", "the file:3:9: link.trace: the trace \"a\" was not found"),
            ("[link]", "[link", "the file:2:6: it is not valid TOML"),
        ];
        for (from, to, expected) in wrong {
            let told = changed(from, to).unwrap_err();
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn the_queue_drawn_is_that_of_the_slowest_link_of_the_first_flow() {
        let text = "duration = \"9 s\"\n[[links]]\nname = \"a\"\nrate = \"9 Mbit/s\"\n[[links]]\nname = \"b\"\n\
                    rate = \"2 Mbit/s\"\nlimit = \"30 packets\"\n[[links]]\nname = \"c\"\nrate = \"1 Mbit/s\"\n\
                    [[flows]]\ncc = \"reno\"\nrtt = \"20 ms\"\npath = [\"a\", \"b\"]\n[[changes]]\nat = \"1 s\"\n\
                    link = \"c\"\nrate = \"3 Mbit/s\"\n[[changes]]\nat = \"2 s\"\nlink = \"b\"\nrate = \"4 Mbit/s\"\n";
        let Opened { scene, file } = open(text).unwrap();
        let file = file.unwrap();
        assert_eq!((file.link, file.links.len(), file.buffer), (1, 3, true));
        assert_eq!((scene.rate, scene.buffer, scene.rtt), (2_000_000, 30, 20_000));
        assert_eq!(scene.changes, [SceneChange { at: 2_000_000, to: To::Rate(4_000_000) }]);
        assert_eq!(spec(text).unwrap().changes.len(), 2);
    }
}
