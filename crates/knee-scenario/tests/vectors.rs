//! Python's reader and this one say the same: mutated links and changes that `scripts/scenario_vectors.py` has written,
//! each with what Python's reader says. `KNEE_VECTORS` names another file of them.

use knee_core::ParamsSpec;
use knee_net::spec::{ChangeSpec, FlowSpec, LinkSpec, TcpSpec};
use serde_json::Value;

/// A reader's answer: links, changes and paths, or the error with its place.
fn said(text: &str) -> Result<String, String> {
    let read = knee_scenario::read(text, "lab.toml");
    let found = read.map_err(|error| error.to_string().trim_start_matches("lab.toml:").trim_start().to_owned())?;
    let paths: Vec<Way> =
        found.paths.into_iter().map(|path| (path.label, path.rtt, path.links, path.reverse, path.dscp)).collect();
    let times = [found.seed, found.duration.unwrap_or_default(), found.warmup, found.interval];
    let sent = (found.probes, found.tcp);
    Ok(format!("{}\n{sent:?}", shown(&found.links, &found.changes, &paths, times)))
}

/// The errors of what flows send, one for each, where the network can be read.
fn refused_to_send(text: &str) -> Option<Vec<String>> {
    let read = knee_scenario::read(text, "lab.toml").ok()?;
    let errors = read.flows.into_iter().filter_map(Result::err);
    Some(errors.map(|error| error.to_string().trim_start_matches("lab.toml:").trim_start().into()).collect())
}

/// Label, RTT, links, direction and codepoint of a path.
type Way = (String, u64, Vec<usize>, bool, u8);

fn shown(links: &[LinkSpec], changes: &[ChangeSpec], paths: &[Way], times: [u64; 4]) -> String {
    format!("{links:#?}\n{changes:#?}\n{paths:?}\n{times:?}")
}

fn expected(vector: &Value) -> Result<String, String> {
    if let Some(error) = vector["error"].as_str() {
        return Err(error.into());
    }
    let links: Vec<LinkSpec> = serde_json::from_str(&vector["links"].to_string()).expect("links");
    let changes: Vec<ChangeSpec> = serde_json::from_str(&vector["changes"].to_string()).expect("changes");
    let paths: Vec<Way> = serde_json::from_str(&vector["paths"].to_string()).expect("paths");
    let times = ["seed", "duration", "warmup", "interval"].map(|key| vector[key].as_u64().expect("a number"));
    let tcp: TcpSpec = serde_json::from_str(&vector["tcp"].to_string()).expect("settings of TCP");
    let probes: Vec<FlowSpec> = serde_json::from_str(&vector["probes"].to_string()).expect("probes");
    let sent = (probes, tcp);
    Ok(format!("{}\n{sent:?}", shown(&links, &changes, &paths, times)))
}

#[test]
fn both_readers_say_the_same_of_every_vector() {
    let given = std::env::var("KNEE_VECTORS").map(|file| std::fs::read_to_string(file).expect("a file of vectors"));
    let vectors = given.unwrap_or_else(|_| include_str!("vectors.jsonl").to_owned());
    let (mut same, mut accepted, mut flows, mut outside, mut different) = (0, 0, 0, 0, Vec::new());
    for line in vectors.lines() {
        let vector: Value = serde_json::from_str(line).expect("JSON");
        if vector.get("outside").is_some() {
            outside += 1;
            continue;
        }
        let text = vector["text"].as_str().expect("a text");
        if let Some(python) = vector["sent"].as_str() {
            // A fault of the network comes first here; of those of several flows Python says one.
            match refused_to_send(text) {
                Some(mine) if mine.iter().any(|mine| mine == python) => same += 1,
                None => outside += 1,
                Some(mine) if mine.iter().any(|mine| mine.contains("is not read here")) => outside += 1,
                mine => different.push(format!("{text}\n--- here: {mine:?}\n--- Python: {python}\n=====\n")),
            }
            continue;
        }
        let (mine, python) = (said(text), expected(&vector));
        accepted += usize::from(python.is_ok());
        if let (Ok(read), true) = (knee_scenario::read(text, "lab.toml"), python.is_ok()) {
            let told = vector["flows"].as_array().expect("flows").iter();
            for (mine, told) in read.flows.into_iter().zip(told) {
                let python: FlowSpec = serde_json::from_str(&told.to_string()).expect("a flow");
                match mine {
                    Ok(mine) if shown_flow(mine.clone()) == shown_flow(python.clone()) => flows += 1,
                    Err(error) if error.to_string().contains("is not read here") => {}
                    mine => different.push(format!("{text}\n--- here: {mine:?}\n--- Python: {python:?}\n=====\n")),
                }
            }
        }
        // Recordings are Python's alone, and a refusal of them has a sentence of its own.
        if mine == python {
            same += 1;
        } else {
            different.push(format!("{text}\n--- here: {mine:?}\n--- Python: {python:?}\n=====\n"));
        }
    }
    let first: Vec<&String> = different.iter().take(5).collect();
    let count = different.len();
    println!(
        "{same} same, {accepted} of them accepted with {flows} flows; {count} different; {outside} refused for what is not \
         read here"
    );
    assert!(different.is_empty(), "{same} same, {count} different, {accepted} accepted by Python:\n{first:#?}");
    assert!(accepted * 10 > same && accepted < same, "{accepted} of {same} were accepted");
}

const SENT: &str = r#"
duration = "60 s"

[tcp]
tick = "1 ms"

[link]
rate = "10 Mbit/s"

[[flows]]
cc = "cubic"
cc_params = { beta = "717 packets" }
rtt = "20 ms"
start = "2 s"
bytes = "10 MB"
ecn = true

[[flows]]
label = "upload"
cc = "bbr"
rtt = "30 ms"
count = 2
stagger = "500 ms"
lasts = "4 s"
pacing = "on"
"#;

/// The flow as text, with its parameters in one order.
fn shown_flow(mut flow: FlowSpec) -> String {
    let params: Option<ParamsSpec> =
        flow.cc_params.take().map(|raw| serde_json::from_str(raw.get()).expect("parameters"));
    format!("{flow:?} {params:?}")
}

#[test]
fn streams_and_transfers_are_what_pythons_reader_makes_of_them() {
    let scenario = knee_scenario::read(SENT, "scenario").expect("a scenario");
    let mine: Vec<String> = scenario.flows.into_iter().map(|flow| shown_flow(flow.expect("it is read"))).collect();
    // The key `flows` of what Python makes of the same text: knee.scenario.spec.spec.
    let python: Vec<FlowSpec> = serde_json::from_str(include_str!("sent.json")).expect("flows");
    assert_eq!(mine, python.into_iter().map(shown_flow).collect::<Vec<_>>());
    assert_eq!(scenario.tcp.tick, 1_000_000);
}

#[test]
fn what_is_sent_and_not_read_here_is_an_error_of_that_flow_alone() {
    let said = |keys: &str| {
        let text = format!("duration = \"9 s\"\n[link]\nrate = \"1 Mbit/s\"\n[[flows]]\nrtt = \"20 ms\"\n{keys}\n");
        let flows = knee_scenario::read(&text, "scenario").expect("a scenario").flows;
        flows[0].as_ref().err().map(|error| error.to_string().replacen("scenario:", "", 1)).unwrap_or_default()
    };
    assert_eq!(said("cc = \"cubic\""), "");
    assert_eq!(said(""), "4:1: flows[0].cc: it is missing; expected the name of a congestion control.");
    assert!(
        said("cc = \"cubik\"").starts_with("6:6: flows[0].cc: no congestion control is called \"cubik\"; did you mean")
    );
    let error = said("cc = \"reno\"\ntraffic = { kind = \"requests\", size = \"3 kB\" }");
    assert!(error.contains("7:1: flows[0].traffic: a table is not read here; here the simulator"), "{error}");
    assert_eq!(said("traffic = { kind = \"udp\", preset = \"voip-opus\" }"), "");
    assert!(said("cc = \"reno\"\ntraffic = { kind = \"rtc\" }").contains("6:6: flows[0].cc: datagrams have no"));
    assert!(said("cc = \"reno\"\ntransport = \"quic\"").contains("flows[0].transport: \"quic\" is not read here"));
    assert_eq!(said("cc = \"reno\"\ntransport = \"tcp\""), "");
    assert!(said("cc = \"dctcp\"\necn = false").contains("7:7: flows[0].ecn: dctcp needs ECN; expected true, "));
    assert!(said("cc = \"prague\"\necn = true").contains("prague needs ECN; expected \"l4s\", or no such key"));
    assert_eq!(
        said("cc = \"reno\"\nstart = \"9 s\""),
        "7:9: flows[0].start: the start at 9 s is not before the end at 9 s; expected an earlier start or a longer \
         duration."
    );
    assert!(said("cc = \"reno\"\nstop = \"1 s\"\nlasts = \"1 s\"").contains("flows[0].lasts: stop and lasts are both"));
    assert!(
        said("cc = \"reno\"\nstart = \"2 s\"\nstop = \"1 s\"").contains("flows[0].stop: the stop at 1 s is not after")
    );
}
