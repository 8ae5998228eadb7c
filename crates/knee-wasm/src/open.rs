//! A scenario file as a scene: one link and its flows. What a page cannot show is refused by its key.

use crate::scene::{CALL, CALL_FPS, CALL_RATES, Scene, SceneChange, SceneFlow, To, may_choose_ecn};
use knee_net::spec::{Capacity, Change, ChangeSpec, EcnSpec, LimitSpec, LinkSpec};
use knee_scenario::quantity;
use toml::{Table, Value};

/// The scene that a scenario file says.
///
/// # Errors
/// The file is none, or says what the page does not have; the text names the key.
pub fn scene(text: &str) -> Result<Scene, String> {
    let read = |text: &str, name: &str| knee_scenario::read(text, name).map_err(|error| error.to_string());
    let network = read(text, "the file")?;
    let file: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    only(&file, "", &["name", "title", "duration", "interval", "seed", "link", "flows", "changes"])?;
    let [link] = network.links.as_slice() else {
        return Err(format!("the page has one link, and the file has {}", network.links.len()));
    };
    let (rate, buffer) = controls(&file, link)?;
    let time = |key: &str| file.get(key).and_then(Value::as_str).map(|text| microseconds(quantity::time(text)?));
    let duration = time("duration").transpose()?.ok_or("the file has no duration")?;
    let interval = time("interval").transpose()?.unwrap_or(INTERVAL);
    let sent = sent(&file)?;
    let calls = read(&sent.as_streams, "the file")?.flows;
    let (mut flows, mut ecn) = (Vec::new(), Vec::new());
    for (n, i) in sent.groups.iter().copied().enumerate() {
        let is_call = sent.calls.contains(&i);
        let flow = if is_call { &calls[n] } else { &network.flows[n] };
        let flow = flow.as_ref().map_err(ToString::to_string)?;
        let cc = if is_call { CALL.into() } else { flow.cc.clone() };
        if matches!(flow.ecn, EcnSpec::Accurate | EcnSpec::L4s) {
            return Err(format!("flows[{i}].ecn: the page has true and false"));
        }
        ecn.extend(may_choose_ecn(&cc).then_some(flow.ecn == EcnSpec::On));
        let (start, stop) = (microseconds(flow.start)?, microseconds(flow.stop)?);
        let stop = Some(stop).filter(|stop| *stop < duration);
        flows.push(SceneFlow { cc, start, stop, rtt: Some(microseconds(flow.rtt)?) });
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

/// The default interval of scenario files, us.
const INTERVAL: u64 = 100_000;

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
    let Capacity::Rate(rate) = link.capacity else { return Err("the page's link has a rate, not a trace".into()) };
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
        &["label", "cc", "traffic", "rtt", "path", "start", "stop", "lasts", "count", "stagger", "ecn"];
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
            ("count = 2", "transport = \"quic\"", "the page has no `flows[0].transport`"),
            ("cc = \"reno\"", "traffic = { kind = \"video\" }", "flows[0]: the page has bulk data and video calls"),
            ("cc = \"reno\"", "cc = \"mine.py:Mine\"", "flows[0].cc: no congestion control is called \"mine.py:Mine\""),
            ("count = 2", "ecn = \"l4s\"", "flows[0].ecn: the page has true and false"),
            ("duration", "warmup = \"1 s\"\nduration", "the page has no `warmup`"),
            ("5 Mbit/s", "5 Gbit/s", "`rate` is 5000000000, but must be from"),
        ];
        for (from, to, expected) in wrong {
            let told = said(from, to);
            assert!(told.contains(expected), "{told}");
        }
    }
}
