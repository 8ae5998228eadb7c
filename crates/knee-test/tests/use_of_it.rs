//! Networks as tests use them.

use knee_test::{Ecn, Net, Port, Reason, Time};

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// All that comes out.
fn all(net: &mut Net) -> Vec<knee_test::Delivered> {
    let mut out = Vec::new();
    while let Some(now) = net.next() {
        out.extend(net.poll(now).expect("time goes on"));
    }
    out
}

const TWO_WAYS: &str = r#"
    [link]
    rate = "12 Mbit/s"
    overhead = "0 B"
    delay = "5 ms"
    reverse = { rate = "12 Mbit/s", overhead = "0 B" }

    [[flows]]
    label = "call"
    rtt = "20 ms"
    dscp = "EF"
"#;

#[test]
fn bytes_ecn_and_codepoint_come_out_at_the_other_end_after_the_paths_delay() {
    let mut net = Net::from_toml(TWO_WAYS).expect("a network");
    let [near, far] = net.ends("call").expect("its ends");
    // 1500 bytes at 12 Mbit/s take 1 ms.
    net.send(Time::ZERO, near, &[7; 1472], Ecn::Ect1).expect("it is sent");
    net.send(Time::ZERO, far, &[9; 1472], Ecn::NotEct).expect("it is sent");
    let out = all(&mut net);
    let seen: Vec<_> = out.iter().map(|it| (it.at, it.port, it.bytes[0], it.bytes.len(), it.ecn, it.dscp)).collect();
    // The rest of the round trip lies on the way back.
    assert_eq!(seen, [(ms(6), far, 7, 1472, Ecn::Ect1, 46), (ms(16), near, 9, 1472, Ecn::NotEct, 46)]);
    assert_eq!(out.iter().map(|it| (it.sent, it.queued)).collect::<Vec<_>>(), [(Time::ZERO, Time::ZERO); 2]);
}

#[test]
fn a_full_queue_drops_with_its_reason_and_the_link_counts() {
    let text = "[link]\nrate = \"12 Mbit/s\"\noverhead = \"0 B\"\nlimit = \"3 packets\"\n";
    let mut net = Net::from_toml(text).expect("a network");
    for _ in 0..6 {
        net.send(Time::ZERO, Port::near(0), &[0; 1472], Ecn::NotEct).expect("it is sent");
    }
    assert_eq!(net.drops().iter().map(|drop| drop.reason).collect::<Vec<_>>(), [Reason::Refused; 2]);
    assert_eq!(all(&mut net).iter().map(|it| it.at).collect::<Vec<_>>(), [1, 2, 3, 4].map(ms));
    let link = net.link("bottleneck").expect("a link");
    assert_eq!((link.drops(), link.bytes(), link.throughput()), (2, 6_000, 12e6));
    assert_eq!((link.queueing().max(), link.queueing().mean()), (ms(3), Time::from_micros(1_500)));
}

#[test]
fn losses_damage_and_managed_drops_are_told_apart() {
    let reasons = |text: &str| {
        let mut net = Net::from_toml(&format!("[link]\nrate = \"12 Mbit/s\"\n{text}\n")).expect("a network");
        for k in 0..2_000 {
            net.send(Time::from_micros(k * 500), Port::near(0), &[0; 1472], Ecn::NotEct).expect("it is sent");
            net.poll(Time::from_micros(k * 500)).expect("time goes on").for_each(drop);
        }
        let mut reasons: Vec<String> = net.drops().iter().map(|drop| format!("{:?}", drop.reason)).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    };
    assert_eq!(reasons("limit = \"9000 packets\"\nloss = 0.1"), ["Lost"]);
    assert_eq!(reasons("limit = \"9000 packets\"\ncorrupt = 0.1"), ["Damaged"]);
    assert_eq!(reasons("limit = \"10 packets\"\nloss = 0.1\ncorrupt = 0.1"), ["Damaged", "Lost", "Refused"]);
    assert_eq!(reasons("queue = \"codel\""), ["Managed"]);
    assert_eq!(reasons("queue = \"fq_codel\"\nlimit = \"10 packets\""), ["PushedOut"]);
}

#[test]
fn queues_mark_whole_packets_in_their_header() {
    let text = "[link]\nrate = \"1 Mbit/s\"\nqueue = \"codel\"\nqueue_params = { ecn = true }\n";
    let mut net = Net::from_toml(text).expect("a network");
    // An IPv6 packet with ECT(0) and the codepoint AF41.
    let mut packet = vec![0; 1_000];
    (packet[0], packet[1]) = (0x68, 0xa0);
    for k in 0..100 {
        net.send_ip(ms(k), Port::near(0), &packet).expect("it is sent");
    }
    let out = all(&mut net);
    let marked: Vec<_> = out.iter().filter(|it| it.ecn == Ecn::Ce).collect();
    assert_eq!((out.len(), net.link("bottleneck").expect("a link").marks()), (100, marked.len() as u64));
    assert!(!marked.is_empty());
    assert!(out.iter().all(|it| it.dscp == 34 && it.bytes[1] >> 4 == 8 | it.ecn.bits()), "the header has the mark");
}

#[test]
fn a_packet_has_the_queue_of_its_own_codepoint() {
    // prio serves EF before all others.
    let text = "[link]\nrate = \"1 Mbit/s\"\nqueue = \"cake\"\nqueue_params = { diffserv = \"diffserv4\" }\n";
    let mut net = Net::from_toml(text).expect("a network");
    let packet = |dscp: u8| {
        let mut packet = vec![0; 1_000];
        (packet[0], packet[1]) = (0x45, dscp << 2);
        packet
    };
    for dscp in [8, 8, 8, 8, 46] {
        net.send_ip(Time::ZERO, Port::near(0), &packet(dscp)).expect("it is sent");
    }
    let order: Vec<u8> = all(&mut net).iter().map(|it| it.dscp).collect();
    assert_eq!(order[1], 46, "{order:?}: right behind the one that was on the wire");
}

#[test]
fn the_same_calls_give_the_same_bytes_and_another_seed_others() {
    let run = |seed: u64| {
        let text = format!("seed = {seed}\n{TWO_WAYS}");
        let text = text.replace("delay = \"5 ms\"", "delay = \"5 ms\"\njitter = \"2 ms\"\nloss = 0.1");
        let mut net = Net::from_toml(&text).expect("a network");
        for k in 0..300u64 {
            net.send(Time::from_micros(k * 700), Port::near(0), &k.to_le_bytes(), Ecn::Ect0).expect("it is sent");
        }
        let out = all(&mut net);
        (out, net.drops().to_vec(), net.pcap())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_capture_has_every_packet_at_both_ends_and_drops_with_their_reason() {
    let text = "[link]\nrate = \"12 Mbit/s\"\nlimit = \"1 packet\"\n";
    let mut net = Net::from_toml(text).expect("a network");
    for _ in 0..3 {
        net.send(ms(1), Port::near(0), &[5; 400], Ecn::NotEct).expect("it is sent");
    }
    all(&mut net);
    let file = net.pcap();
    let (mut kinds, mut comments, mut at) = (Vec::new(), 0, 0);
    while at < file.len() {
        let word = |place: usize| u32::from_le_bytes(file[place..place + 4].try_into().expect("four bytes"));
        let length = word(at + 4) as usize;
        assert_eq!((word(at + length - 4) as usize, length % 4), (length, 0));
        if word(at) == 6 {
            kinds.push((word(at + 8), word(at + 20), word(at + 24)));
        }
        comments += usize::from(file[at..at + length].windows(16).any(|bytes| bytes == b"dropped: Refused"));
        at += length;
    }
    // Three leave the near end, one is dropped, two come to the far end; 96 bytes of 428 are kept.
    let from = |interface| kinds.iter().filter(|kind| kind.0 == interface).count();
    assert_eq!(([0, 1, 2].map(from), comments), ([3, 2, 1], 1));
    assert!(kinds.iter().all(|kind| (kind.1, kind.2) == (96, 428)));
    net.capture(0);
    net.send(Time::from_secs(1), Port::near(0), b"x", Ecn::NotEct).expect("it is sent");
    assert_eq!(net.pcap(), file);
}

#[test]
fn a_hundred_hosts_and_ten_gigabits_per_second_are_no_matter() {
    let text = "[link]\nrate = \"10 Gbit/s\"\nqueue = \"fq_codel\"\n[[flows]]\ncount = 100\nrtt = \"1 ms\"\n";
    let mut net = Net::from_toml(text).expect("a network");
    net.capture(0);
    let mut arrived = 0;
    for k in 0..20_000u64 {
        let (now, path) = (Time::from_nanos(k * 1_000), u32::try_from(k % 100).expect("a path"));
        net.send(now, Port::near(path), &[0; 1_200], Ecn::NotEct).expect("it is sent");
        arrived += net.poll(now).expect("time goes on").count();
    }
    arrived += all(&mut net).len();
    assert_eq!((arrived, net.drops().len()), (20_000, 0));
    assert!(net.link("bottleneck").expect("a link").throughput() > 9.5e9);
}

#[test]
fn addresses_are_those_of_captures() {
    let net =
        Net::from_toml("[link]\nrate = \"1 Gbit/s\"\n[[flows]]\ncount = 300\nrtt = \"1 ms\"\n").expect("a network");
    assert_eq!(Net::address(Port::near(0)).to_string(), "10.1.0.1:4434");
    assert_eq!(Net::address(Port::far(299)).to_string(), "10.129.1.44:4433");
    assert_eq!(net.port_of(Net::address(Port::far(299))), Some(Port::far(299)));
    assert_eq!(net.port_of("127.0.0.1:53".parse().expect("an address")), None);
}

const BESIDE: &str = r#"
[link]
rate = "10 Mbit/s"
limit = "100 packets"

[[flows]]
label = "call"
rtt = "30 ms"

[[flows]]
label = "download"
cc = "cubic"
rtt = "30 ms"
start = "1 s"
"#;

#[test]
fn a_call_waits_behind_a_download_of_the_simulators() {
    let mut net = Net::from_toml(BESIDE).expect("a network");
    net.background("download").expect("a flow");
    let near = net.ends("call").expect("its ends")[0];
    let (mut waited, mut came) = (Vec::new(), 0);
    for at in (0..4_000).step_by(20).map(ms) {
        came += net.poll(at).expect("time goes on").map(|packet| waited.push((packet.sent, packet.queued))).count();
        net.send(at, near, &[0; 160], Ecn::NotEct).expect("it is sent");
    }
    // 100 packets of 1514 bytes take 121 ms.
    assert!(waited.iter().all(|(sent, queued)| *sent >= ms(1_000) || *queued == Time::ZERO));
    let worst = waited.iter().map(|(_, queued)| *queued).max().expect("packets");
    assert!((ms(80)..ms(122)).contains(&worst), "{worst}");
    let flow = net.flow("download").expect("the simulator's");
    assert!(flow.goodput() > 8.5e6 && flow.lost() > 0 && flow.sent() * 1_500 > flow.delivered(), "{flow:?}");
    assert!(came + net.inside() + net.drops().len() == 200, "{came} came, {} are inside", net.inside());
    assert!(net.drops().iter().all(|drop| drop.from == near));
}

#[test]
fn what_is_the_simulators_is_not_the_programs() {
    let mut net = Net::from_toml(BESIDE).expect("a network");
    let said = |error: knee_test::Error| error.to_string();
    assert_eq!(said(net.background("upload").unwrap_err()), "no flow is named \"upload\"; there are: call, download.");
    let error = said(net.background("call").unwrap_err());
    assert_eq!(error, "the text:6:1: flows[0].cc: it is missing; expected the name of a congestion control.");
    net.background("download").expect("a flow");
    let port = net.ends("download").expect("its ends")[1];
    let error = said(net.send(Time::ZERO, port, b"x", Ecn::NotEct).unwrap_err());
    assert_eq!(error, "the flow \"download\" is the simulator's; a program sends on the paths of others.");
    let error = said(net.flow("call").unwrap_err());
    assert_eq!(error, "the flow \"call\" is the program's; the simulator sends those that background names.");
    net.poll(ms(7)).expect("time goes on").for_each(drop);
    let error = said(net.background("download").unwrap_err());
    assert_eq!(
        error,
        "the flow \"download\" came into the background at 7 ms; say so before anything is sent and time passes."
    );
}

#[test]
fn the_download_of_the_page_fills_its_link() -> Result<(), knee_test::Error> {
    let mut net = Net::from_toml(BESIDE)?;
    net.background("download")?;
    net.poll(Time::from_secs(10))?.for_each(drop);
    assert!(net.flow("download")?.goodput() > 9e6);
    Ok(())
}

#[test]
fn a_call_of_the_simulators_sends_every_20_ms() {
    let text = BESIDE
        .replace("cc = \"cubic\"\nrtt = \"30 ms\"\nstart = \"1 s\"", "rtt = \"30 ms\"\ntraffic.kind = \"udp\"")
        + "traffic.preset = \"voip-g711\"\n";
    let mut net = Net::from_toml(&text).expect("a network");
    net.background("download").expect("a flow");
    net.poll(Time::from_secs(10)).expect("time goes on").for_each(drop);
    let flow = net.flow("download").expect("the simulator's");
    assert!((499..=501).contains(&flow.sent()) && flow.lost() == 0, "{flow:?}");
}

#[test]
fn a_download_over_quic_and_pages_are_the_simulators() {
    let quic = "cc = \"cubic\"\ntransport = \"quic\"";
    let mut net = Net::from_toml(&BESIDE.replace("cc = \"cubic\"", quic)).expect("a network");
    net.background("download").expect("a flow");
    net.poll(Time::from_secs(10)).expect("time goes on").for_each(drop);
    let flow = net.flow("download").expect("the simulator's");
    assert!(flow.goodput() > 8.5e6 && flow.lost() > 0 && flow.sent() * 1_452 > flow.delivered(), "{flow:?}");
    let pages =
        format!("{quic}\ntraffic = {{ kind = \"requests\", size = \"50 kB\", objects = 3, streams = 3, number = 4 }}");
    let mut net = Net::from_toml(&BESIDE.replace("cc = \"cubic\"", &pages)).expect("a network");
    net.background("download").expect("a flow");
    net.poll(Time::from_secs(10)).expect("time goes on").for_each(drop);
    let flow = net.flow("download").expect("the simulator's");
    // Three answers of each of four pages, and at most the heads of frames beside them.
    assert!((600_000..610_000).contains(&flow.delivered()), "{flow:?}");
    let stack = BESIDE.replace("cc = \"cubic\"", "cc = \"quinn:cubic\"\ntransport = \"quic\"");
    let error = Net::from_toml(&stack).expect("a network").background("download").unwrap_err().to_string();
    assert!(error.contains("flows[1].cc: \"quinn:cubic\" is not read here"), "{error}");
}
