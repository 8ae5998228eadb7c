//! Python's reader and this one say the same: mutated links and changes that `scripts/scenario_vectors.py` has written,
//! each with what Python's reader says. `KNEE_VECTORS` names another file of them.

use knee_core::ParamsSpec;
use knee_net::spec::{ChangeSpec, FlowSpec, LinkSpec, QuicPreset, QuicSpec, TcpSpec};
use serde_json::Value;

/// A reader's answer: links, changes and paths, or the error with its place.
fn said(text: &str) -> Result<String, String> {
    let read = knee_scenario::read(text, "lab.toml");
    let found = read.map_err(|error| error.to_string().trim_start_matches("lab.toml:").trim_start().to_owned())?;
    let paths: Vec<Way> =
        found.paths.into_iter().map(|path| (path.label, path.rtt, path.links, path.reverse, path.dscp)).collect();
    let times = [found.seed, found.duration.unwrap_or_default(), found.warmup, found.interval];
    let sent = (found.probes, found.tcp, found.quic);
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
    let quic: QuicSpec = serde_json::from_str(&vector["quic"].to_string()).expect("settings of QUIC");
    let probes: Vec<FlowSpec> = serde_json::from_str(&vector["probes"].to_string()).expect("probes");
    let sent = (probes, tcp, quic);
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
    let error = said("cc = \"quinn:cubic\"\ntransport = \"quic\"");
    assert!(
        error.starts_with("6:6: flows[0].cc: \"quinn:cubic\" is not read here; here the simulator runs"),
        "{error}"
    );
    assert!(said("cc = \"noq:bbr3\"\ntransport = \"quic\"").contains("flows[0].cc: \"noq:bbr3\" is not read here"));
    assert!(said("program = { send = \"a\", receive = \"b\" }").contains("flows[0].program: a table is not read here"));
    assert_eq!(said("cc = \"reno\"\ntraffic = { kind = \"requests\", size = \"3 kB\" }"), "");
    assert_eq!(said("traffic = { kind = \"udp\", preset = \"voip-opus\" }"), "");
    assert!(said("cc = \"reno\"\ntraffic = { kind = \"rtc\" }").contains("6:6: flows[0].cc: datagrams have no"));
    assert_eq!(said("cc = \"reno\"\ntransport = \"quic\"\ntls = true"), "");
    assert!(said("cc = \"reno\"\ntls = true").contains("7:7: flows[0].tls: TCP flows are not encrypted"));
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

/// A file whose flows over QUIC send pages, with these settings and these keys of the last flow.
fn over_quic(quic: &str, keys: &str) -> knee_scenario::Scenario {
    let text = format!(
        "duration = \"9 s\"\n[quic]\n{quic}\n[link]\nrate = \"1 Mbit/s\"\n[[flows]]\ncc = \"bbr\"\nrtt = \"20 ms\"\n\
         [[flows]]\nrtt = \"20 ms\"\ncc = \"cubic\"\ntransport = \"quic\"\n{keys}\n"
    );
    knee_scenario::read(&text, "scenario").expect("a scenario")
}

#[test]
fn flows_over_quic_have_the_settings_of_their_table() {
    let keys = "traffic = { kind = \"requests\", preset = \"web-page\", streams = 20 }";
    let read = over_quic("max_streams = 20\nmax_ack_delay = \"5 ms\"\npacing = false", keys);
    let QuicSpec { max_streams, max_ack_delay, pacing, certificate, .. } = read.quic;
    assert_eq!((max_streams, max_ack_delay, pacing, certificate), (20, Some(5_000_000), Some(false), 400));
    // A key that is absent has the value of RFC 9002 or of the preset.
    assert_eq!((read.quic.initial_window, read.quic.max_mtu), (Some(10), Some(1452)));
    let preset = over_quic("preset = \"quinn\"", "").quic;
    assert_eq!((preset.preset, preset.initial_window), (Some(QuicPreset::Quinn), None));
    let flow = read.flows[1].as_ref().expect("it is read");
    let traffic = flow.traffic.as_ref().expect("pages");
    assert_eq!((flow.transport, traffic.streams(), traffic.check()), (knee_net::spec::Transport::Quic, 20, Ok(())));
}

#[test]
fn settings_that_contradict_the_flows_are_an_error_of_each_flow() {
    let cases = [
        ("max_streams = 20", "", "3:15: quic.max_streams: no connection has several streams; expected streams of 2 or"),
        ("initial_mtu = \"1300 B\"", "", "quic.initial_mtu: no flow has a QUIC stack's endpoints"),
        ("datagram_buffer = \"1 MB\"", "", "quic.datagram_buffer: no QUIC flow sends datagrams"),
        ("receive_window = \"2 GiB\"", "", "receive_window: 2147483648 B is more than the simulator's endpoints have"),
    ];
    for (quic, keys, said) in cases {
        for flow in over_quic(quic, keys).flows {
            let error = flow.expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
    let flows = over_quic("", "pacing = \"on\"").flows;
    assert!(flows[0].is_ok());
    assert!(flows[1].as_ref().expect_err("paced").to_string().contains("flows[1].pacing: QUIC paces every flow"));
}

/// Reads a scenario whose traffic names a file of this text; the flow's traffic, or the error.
fn of_file(text: &str, traffic: &str) -> String {
    let folder = std::env::temp_dir().join(format!("knee-scenario-{}-{}", std::process::id(), text.len()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("data.txt"), text).expect("a file");
    let scenario = format!("duration = \"9 s\"\n[link]\nrate = \"1 Mbit/s\"\n[[flows]]\nrtt = \"20 ms\"\n{traffic}\n");
    std::fs::write(folder.join("lab.toml"), scenario).expect("a file");
    let mut read = knee_scenario::open(folder.join("lab.toml")).expect("a scenario");
    std::fs::remove_dir_all(&folder).expect("the folder is mine");
    match read.flows.remove(0) {
        Ok(flow) => format!("{:?}", flow.traffic),
        Err(error) => error.to_string().replace(&format!("{}/", folder.display()), ""),
    }
}

#[test]
fn files_of_traffic_are_read_and_refused_with_their_line() {
    let times = "cc = \"reno\"\ntraffic = { kind = \"transfers\", size = \"3 kB\", times = \"data.txt\" }";
    let sizes = "cc = \"reno\"\ntraffic = { kind = \"transfers\", size = { file = \"data.txt\" }, per_second = 1.0 }";
    let packets = "traffic = { kind = \"udp\", trace = \"data.txt\", repeat = true }";
    let cases = [
        (times, "# s\n0.5\n\n1.25\n", "Times([500000000, 1250000000])"),
        (times, "2\n1.5\n", "line 2 of the file of times data.txt goes back from 2 s to 1.5 s"),
        (times, "1 2\n", "line 1 of the file of times data.txt is not a number;"),
        (times, "4e7\n", "line 1 of the file of times data.txt has a time out of range"),
        (times, "#\n", "7:56: flows[0].traffic.times: the file of times data.txt is empty; expected a time in seconds"),
        (sizes, "100 0.5\n900, 1\n", "Empirical([(100, 0.5), (900, 1.0)])"),
        (sizes, "100 0.5\n900 0.9\n", "the distribution of sizes data.txt sums to 0.9, not to 1"),
        (sizes, "100 0.5\n90 1\n", "line 2 of the distribution of sizes data.txt goes back"),
        (sizes, "0.5 1\n", "line 1 of the distribution of sizes data.txt has a size that is not a whole number"),
        (sizes, "1 inf\n", "line 1 of the distribution of sizes data.txt is not 2 numbers"),
        (sizes, "0 1\n", "traffic.size.file: the distribution of sizes data.txt ends at 0 bytes; expected the largest"),
        (packets, "0 100\n0.02 200\n", "Packets([(0, 100), (20000000, 200)])"),
        (packets, "0 100\n0 1501\n", "line 2 of the packet trace data.txt has a size that is not a whole number of"),
        (packets, "0 100\n", "traffic.repeat: the packet trace \"data.txt\" lasts no time, so it cannot repeat"),
    ];
    for (traffic, text, expected) in cases {
        let said = of_file(text, traffic);
        assert!(said.contains(expected), "{said}");
    }
}
