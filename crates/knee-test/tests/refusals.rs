//! Errors of a network, by name.

use knee_test::{Ecn, Error, HEADERS, MTU, Net, Port, Time};

const PATH: &str = "[link]\nrate = \"10 Mbit/s\"\n[[flows]]\nrtt = \"20 ms\"\n";

fn net() -> Net {
    Net::from_toml(PATH).expect("a network")
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

#[test]
fn an_error_of_a_file_points_at_the_place() {
    let said = |text: &str| Net::from_toml(text).err().expect("it is refused").to_string();
    assert_eq!(
        said("[link]\nrate = \"10\"\n"),
        "the text:2:8: link.rate: \"10\" has no unit; a rate is a number with bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s, \
         such as \"100 Mbit/s\"."
    );
    let error = said("[link]\nrate = \"1 Mbit/s\"\n  quue = \"codel\"\n");
    assert!(error.starts_with("the text:3:10: link.quue: unknown key; did you mean queue"), "{error}");
    let error = said("[link]\nrate = \"1 Mbit/s\"\nqueue = \"codel\"\nqueue_params = { targt = \"5 ms\" }\n");
    assert!(
        error.starts_with("the text:4:26: link.queue_params.targt: codel has no such parameter; did you"),
        "{error}"
    );
    let missing = said("[link]\nrate = \"1 Mbit/s\"\n[[flows]]\nlabel = \"a\"\n");
    assert!(missing.starts_with("the text:3:1: flows[0].rtt: it is missing; expected the base"), "{missing}");
    assert!(said("[link\n").contains("the text:1:6: it is not valid TOML"), "{}", said("[link\n"));
    let error = Net::open("no-such-file.toml").err().expect("it is refused").to_string();
    assert!(error.starts_with("no-such-file.toml: it cannot be read (No such file"), "{error}");
}

#[test]
fn a_packet_above_the_mtu_is_refused_with_the_most_that_fits() {
    let (mut net, client) = (net(), Port::near(0));
    net.send(Time::ZERO, client, &[0; MTU - HEADERS], Ecn::NotEct).expect("it fits");
    let error = net.send(Time::ZERO, client, &[0; MTU - HEADERS + 1], Ecn::NotEct).unwrap_err();
    assert!(matches!(error, Error::TooLarge { found: 1501, most: 1472, .. }), "{error}");
    assert!(error.to_string().contains("send at most 1472 bytes here, and expect no segmentation offload"), "{error}");
}

#[test]
fn a_clock_that_goes_back_is_refused_and_one_that_jumps_ahead_misses_nothing() {
    let (mut net, client) = (net(), Port::near(0));
    net.send(ms(5), client, b"x", Ecn::NotEct).expect("it is sent");
    let error = net.send(ms(4), client, b"x", Ecn::NotEct).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the clock went back from 5 ms to 4 ms; a network is told times that never decrease."
    );
    assert!(net.poll(ms(4)).is_err());
    let arrived: Vec<Time> =
        net.poll(Time::from_secs(1_000_000)).expect("time goes on").map(|packet| packet.at).collect();
    // 28 bytes of headers, the payload and 14 bytes of Ethernet take 34.4 us.
    assert_eq!(arrived, [ms(5) + Time::from_nanos(34_400)]);
}

#[test]
fn an_unknown_port_flow_or_link_is_refused_with_those_that_there_are() {
    let mut net = net();
    assert!(matches!(net.send(Time::ZERO, Port::far(1), b"x", Ecn::NotEct), Err(Error::UnknownPort { paths: 1, .. })));
    assert_eq!(net.ends("flow 2").unwrap_err().to_string(), "no flow is named \"flow 2\"; there are: flow 1.");
    assert_eq!(net.link("up").unwrap_err().to_string(), "no link is named \"up\"; there are: bottleneck.");
}

#[test]
fn a_program_that_never_polls_is_told_so() {
    let (mut net, client) = (net(), Port::near(0));
    let error = (0..200_000).find_map(|k| net.send(ms(k), client, b"x", Ecn::NotEct).err()).expect("it is refused");
    assert!(
        error.to_string().starts_with("100000 packets have come out since 34400 ns and were not taken; call poll"),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_ip_packet_are_refused() {
    let error = net().send_ip(Time::ZERO, Port::near(0), b"\0hello").unwrap_err().to_string();
    assert!(error.contains("no IP packet: the version is neither 4 nor 6"), "{error}");
}
