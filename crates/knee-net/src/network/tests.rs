use super::*;
use crate::testing::{MS, ack, data, flow, link, ms, read, spec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Three years in ns, and the rate and the size beyond which a specification is rejected.
const YEARS: u64 = 100_000_000_000_000_000;
const PETABIT: u64 = 1_000_000_000_000_000;
const EXABYTE: u64 = 1_000_000_000_000_000_000;

/// One link with a reverse direction, one flow over it.
fn simple() -> Value {
    let mut link = link("a");
    link["reverse"] = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": {"packets": 10}});
    spec(&[link], &[flow(&[0])])
}

/// `simple` with other values at some places.
fn altered(places: &[(&str, Value)]) -> Value {
    let mut spec = simple();
    for (place, value) in places {
        let (parent, key) = place.rsplit_once('/').expect("a pointer");
        let parent = spec.pointer_mut(parent).expect("it exists");
        match parent {
            Value::Array(items) => items.push(value.clone()),
            parent => parent[key] = value.clone(),
        }
    }
    spec
}

fn built(spec: &Value) -> Result<Network, SpecError> {
    Network::new(&read(spec))
}

#[track_caller]
fn refused(places: &[(&str, Value)], why: &str) {
    let error = built(&altered(places)).err().unwrap_or_else(|| panic!("{places:?} is accepted")).to_string();
    assert!(error.contains(why), "{places:?}: {error}");
}

#[track_caller]
fn accepted(places: &[(&str, Value)]) {
    if let Err(error) = built(&altered(places)) {
        panic!("{places:?}: {error}");
    }
}

/// Where a number stands, what it is called, its bound, and what has it.
type Bound<'a> = (&'a str, &'a str, u64, &'a dyn Fn(u64) -> Value);

#[test]
fn a_number_is_accepted_up_to_its_bound_and_rejected_beyond() {
    let change = |at: u64, what: &Value| json!([{"at": at, "what": what}]);
    let bounds: [Bound; 26] = [
        ("/duration", "the duration", YEARS, &|n| json!(n)),
        ("/interval", "the interval", YEARS, &|n| json!(n)),
        ("/warmup", "the warmup", YEARS, &|n| json!(n)),
        ("/tcp", "a time of TCP", YEARS, &|n| json!({"tick": n})),
        ("/tcp", "a time of TCP", YEARS, &|n| json!({"rto_min": n})),
        ("/tcp", "a time of TCP", YEARS, &|n| json!({"delayed_ack": n})),
        ("/tcp", "a time of TCP", YEARS, &|n| json!({"sack_delay": n})),
        ("/tcp", "a window of TCP", EXABYTE, &|n| json!({"window_growth": n})),
        ("/tcp", "a window of TCP", EXABYTE, &|n| json!({"receive_window": n})),
        ("/links/0/capacity", "a rate", PETABIT, &|n| json!({"rate": n})),
        ("/links/0/reverse/capacity", "a rate", PETABIT, &|n| json!({"rate": n})),
        ("/links/0/capacity", "a trace's last time", YEARS / MS, &|n| json!({"trace": [0, n]})),
        ("/links/0/limit", "a limit", YEARS, &|n| json!({"time": n})),
        ("/links/0/limit", "a limit", EXABYTE, &|n| json!({"bytes": n})),
        ("/links/0/limit", "a limit", EXABYTE, &|n| json!({"packets": n})),
        ("/links/0/reverse/limit", "a limit", EXABYTE, &|n| json!({"packets": n})),
        ("/links/0/jitter", "a link's jitter", YEARS, &|n| json!(n)),
        ("/links/0/delay_table", "an extra delay", YEARS, &|n| json!([1, n])),
        ("/links/0/burst", "a link's burst", EXABYTE, &|n| json!(n)),
        ("/flows/0/rtt", "a flow's RTT", YEARS, &|n| json!(n)),
        ("/flows/0/start", "a flow's start", YEARS, &|n| json!(n)),
        ("/flows/0/bytes", "a flow's size", EXABYTE, &|n| json!(n)),
        ("/changes", "the time of a change", YEARS, &|n| change(n, &json!({"loss": {"link": 0, "loss": 0.5}}))),
        ("/changes", "a rate", PETABIT, &|n| change(1, &json!({"rate": {"link": 0, "rate": n}}))),
        ("/changes", "a limit", EXABYTE, &|n| change(1, &json!({"limit": {"link": 0, "limit": {"bytes": n}}}))),
        ("/changes", "a flow's RTT", YEARS, &|n| change(1, &json!({"rtt": {"flow": 0, "rtt": n}}))),
    ];
    for (place, what, most, value) in bounds {
        accepted(&[(place, value(most))]);
        let why = if what == "a trace's last time" {
            format!("{what} is {}", YEARS + MS)
        } else {
            format!("{what} is {}, which is more than {most}", most + 1)
        };
        refused(&[(place, value(most + 1))], &why);
    }
    accepted(&[("/links/0/delay", json!(YEARS)), ("/flows/0/rtt", json!(YEARS))]);
    refused(&[("/links/0/delay", json!(YEARS + 1))], "a link's delay");
}

#[test]
fn a_specification_has_links_flows_and_time() {
    refused(&[("/flows", json!([]))], "no flow");
    refused(&[("/links", json!([]))], "no link");
    refused(&[("/duration", json!(0))], "the duration is zero");
    refused(&[("/interval", json!(0))], "the interval is zero");
    accepted(&[]);
}

#[test]
fn a_million_flows_are_taken_and_no_more() {
    let mut spec = read(&simple());
    spec.flows = vec![spec.flows[0].clone(); 1_000_001];
    assert_eq!(check(&spec), Err(SpecError::TooManyFlows(1_000_001)));
    spec.flows.pop();
    assert_eq!(check(&spec), Ok(()));
}

#[test]
fn a_probability_is_within_0_and_1() {
    for (loss, fits) in [(0.0, true), (1.0, true), (-0.1, false), (1.1, false)] {
        let change = json!([{"at": 1, "what": {"loss": {"link": 0, "loss": loss}}}]);
        for place in [("/links/0/loss", json!(loss)), ("/changes", change)] {
            if fits { accepted(&[place]) } else { refused(&[place], "a probability is outside 0 to 1") }
        }
    }
}

#[test]
fn a_path_crosses_links_that_exist_at_most_255() {
    refused(&[("/flows/0/path", json!([]))], "the path of flow `f`");
    refused(&[("/flows/0/path", json!([1]))], "the path of flow `f`");
    accepted(&[("/flows/0/path", json!(vec![0; 255]))]);
    refused(&[("/flows/0/path", json!(vec![0; 256]))], "the path of flow `f`");
}

#[test]
fn a_base_rtt_is_at_least_the_propagation_of_all_links_of_the_path() {
    let two = |rtt: u64| {
        let mut link = link("a");
        link["delay"] = json!(6 * MS);
        let mut flow = flow(&[0, 1]);
        flow["rtt"] = json!(rtt);
        spec(&[link.clone(), link], &[flow])
    };
    let network = built(&two(12 * MS)).expect("it just fits");
    assert_eq!(network.flow_paths[0].ack_delay, Time::ZERO);
    assert_eq!(built(&two(12 * MS - 1)).err(), Some(SpecError::Delay("f".into())));
    let mut changed = two(20 * MS);
    changed["changes"] = json!([{"at": 1, "what": {"rtt": {"flow": 0, "rtt": 12 * MS}}}]);
    assert!(built(&changed).is_ok());
    changed["changes"] = json!([{"at": 1, "what": {"rtt": {"flow": 0, "rtt": 12 * MS - 1}}}]);
    assert_eq!(built(&changed).err(), Some(SpecError::Delay("f".into())));
}

#[test]
fn a_change_is_of_a_link_or_flow_that_exists_and_leaves_it_a_rate() {
    let what = |what: Value| [("/changes", json!([{"at": 1, "what": what}]))];
    for link in [0, 1] {
        for change in [
            json!({"rate": {"link": link, "rate": 1}}),
            json!({"loss": {"link": link, "loss": 0.1}}),
            json!({"limit": {"link": link, "limit": {"packets": 1}}}),
        ] {
            if link == 0 { accepted(&what(change)) } else { refused(&what(change), "a change names a link or flow") }
        }
    }
    refused(&what(json!({"rtt": {"flow": 1, "rtt": 20 * MS}})), "a change names a link or flow");
    refused(&what(json!({"rate": {"link": 0, "rate": 0}})), "link `a` carries nothing");
    let [to_rate] = what(json!({"rate": {"link": 0, "rate": 1}}));
    refused(&[("/links/0/capacity", json!({"trace": [1]})), to_rate], "link `a` carries nothing");
}

#[test]
fn a_link_carries_something() {
    for capacity in [json!({"rate": 0}), json!({"trace": []}), json!({"trace": [0]}), json!({"trace": [2, 1, 3]})] {
        refused(&[("/links/0/capacity", capacity.clone())], "link `a` carries nothing");
        refused(&[("/links/0/reverse/capacity", capacity)], "link `a (reverse)` carries nothing");
    }
    accepted(&[("/links/0/capacity", json!({"trace": [1, 1, 3]}))]);
}

#[test]
fn a_limit_in_time_is_what_a_trace_carries_on_average_in_it() {
    // Three opportunities of 1500 bytes every 6 ms are 6 Mbit/s: 20 ms of that are ten packets.
    let spec =
        altered(&[("/links/0/capacity", json!({"trace": [2, 4, 6]})), ("/links/0/limit", json!({"time": 20 * MS}))]);
    let mut network = built(&spec).expect("a network");
    let mut driver = crate::driver::Driver::new(crate::events::Events::default());
    driver.forward(&mut network, data(0), 15, ms(0));
    assert_eq!(network.directions[0].link.backlog().packets, 10);
}

#[test]
fn what_a_specification_names_is_registered_and_its_parameters_are_declared() {
    refused(&[("/links/0/queue", json!("hfsc"))], "link `a`: no queue discipline `hfsc`");
    refused(&[("/links/0/reverse/queue", json!("hfsc"))], "link `a (reverse)`: no queue discipline `hfsc`");
    refused(&[("/links/0/model", json!({"name": "carrier pigeon"}))], "link `a`: no model `carrier pigeon`");
    refused(&[("/links/0/loss_model", json!({"name": "markov"}))], "link `a`: no model `markov`");
    refused(&[("/links/0/delay_model", json!({"name": "weibull"}))], "link `a`: no model `weibull`");
    refused(&[("/links/0/queue_params", json!({"depth": {"count": 3}}))], "link `a`: ");
    refused(&[("/links/0/delay_table", json!([]))], "no extra delay in a table");
}

#[test]
fn a_model_with_a_rate_of_its_own_takes_neither_a_burst_nor_a_trace() {
    let wifi = ("/links/0/model", json!({"name": "wifi"}));
    accepted(std::slice::from_ref(&wifi));
    refused(&[wifi.clone(), ("/links/0/burst", json!(3000))], "link `a`: `model`: it takes a rate alone");
    refused(&[wifi, ("/links/0/capacity", json!({"trace": [1]}))], "link `a`: `model`: it takes a rate alone");
}

#[test]
fn data_against_the_links_needs_reverse_directions() {
    accepted(&[("/flows/0/reverse", json!(true))]);
    refused(
        &[("/flows/0/reverse", json!(true)), ("/links/0/reverse", json!(null))],
        "flow `f` runs in the reverse direction, but link `a` has no reverse rate",
    );
}

#[test]
fn traffic_that_cannot_be_sent_is_rejected() {
    let probe = |interval: u64| [("/flows/0/traffic", json!({"kind": "probe", "packet": 100, "interval": interval}))];
    accepted(&probe(MS));
    refused(&probe(0), "flow `f`: ");
    let limited = json!({"kind": "app_limited", "rate": 1_000_000});
    for (traffic, over_quic) in [(limited, true), (probe(MS)[0].1.clone(), false)] {
        let over = |transport: &str| [("/flows/0/traffic", traffic.clone()), ("/flows/0/transport", json!(transport))];
        accepted(&over("tcp"));
        if over_quic {
            accepted(&over("quic"));
        } else {
            refused(&over("quic"), "flow `f`: QUIC flows carry no `probe`");
        }
    }
}

#[test]
fn reverse_directions_follow_the_forward_ones_in_their_order() {
    let mut links = [link("a"), link("b"), link("c")];
    for i in [0, 2] {
        links[i]["reverse"] = json!({"capacity": {"rate": 1_000_000}, "queue": "pfifo", "limit": {"packets": 10}});
    }
    let mut flows = [flow(&[0, 1, 2]), flow(&[2, 1]), flow(&[0, 1, 2]), flow(&[2, 0])];
    flows[3]["reverse"] = json!(true);
    let network = built(&spec(&links, &flows)).expect("a network");
    let names: Vec<_> = network.directions.iter().map(|direction| direction.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "a (reverse)", "c (reverse)"]);
    let routes: Vec<(&[u32], &[u32])> = network.routes.iter().map(|route| (&*route.data, &*route.acks)).collect();
    // The second flow's ACKs queue at c alone; the third has the route of the first.
    let expected: [(&[u32], &[u32]); 3] = [(&[0, 1, 2], &[4, 3]), (&[2, 1], &[4]), (&[3, 4], &[2, 0])];
    assert_eq!(routes, expected);
    let paths: Vec<_> = network.flow_paths.iter().map(|path| path.route).collect();
    assert_eq!(paths, [0, 1, 0, 2]);
    let crossed: Vec<_> = network.data_links(1).map(|direction| direction.name.as_str()).collect();
    assert_eq!(crossed, ["c", "b"]);
    assert_eq!((network.next_link(&data(0)), network.next_link(&ack(0))), (Some(0), Some(4)));
    assert_eq!(network.next_link(&Packet { hop: 2, ..ack(0) }), None);
}

#[test]
fn a_pipe_lies_behind_each_link_that_delays_and_one_at_the_end_for_each_delay_of_acks() {
    let mut links = [link("a"), link("b"), link("c")];
    links[0]["delay"] = json!(MS);
    links[2]["jitter"] = json!(MS);
    let mut flows = [flow(&[1]), flow(&[0]), flow(&[1]), flow(&[0, 1])];
    flows[2]["rtt"] = json!(15 * MS);
    let network = built(&spec(&links, &flows)).expect("a network");
    let behind: Vec<_> = network.directions.iter().map(|direction| direction.pipe).collect();
    assert_eq!(behind, [Some(0), None, Some(1)]);
    // 20, 19, 15 and 19 ms.
    let ends: Vec<_> = network.flow_paths.iter().map(|path| (path.ack_pipe, path.ack_delay)).collect();
    assert_eq!(ends, [(2, ms(20)), (3, ms(19)), (4, ms(15)), (3, ms(19))]);
    assert_eq!((0..5).map(|pipe| network.ends_a_path(pipe)).collect::<Vec<_>>(), [false, false, true, true, true]);
}

#[test]
fn a_change_of_the_base_rtt_changes_the_delay_of_acks_alone() {
    let mut link = link("a");
    link["delay"] = json!(5 * MS);
    let mut network = built(&spec(&[link], &[flow(&[0]), flow(&[0])])).expect("a network");
    let before = network.flow_paths[1].ack_pipe;
    let record = network.change(Change::Rtt { flow: 0, rtt: 30 * MS }, ms(1));
    assert_eq!(record, (Some(0), None, "rtt", 30.0));
    let FlowPath { ack_delay, base_rtt, ack_pipe, .. } = network.flow_paths[0];
    assert_eq!((ack_delay, base_rtt), (ms(25), ms(30)));
    assert!(ack_pipe != before && network.flow_paths[1].ack_pipe == before);
    assert_eq!(network.flow_paths[0].ack_delay_at(ms(7)), ms(2));
}

#[test]
fn changes_of_a_link_take_effect_and_are_put_on_record() {
    let mut network = built(&simple()).expect("a network");
    let mut driver = crate::driver::Driver::new(crate::events::Events::default());
    driver.forward(&mut network, data(0), 10, ms(0));
    let record = network.change(Change::Rate { link: 0, rate: 24_000_000 }, ms(0));
    assert_eq!((record, network.directions[0].link.rate()), ((None, Some(0), "rate", 24.0), Some(24_000_000)));
    let limit = crate::spec::LimitSpec::Packets(4);
    assert_eq!(network.change(Change::Limit { link: 0, limit }, ms(0)), (None, Some(0), "limit", 4.0));
    assert_eq!(network.directions[0].link.backlog().packets, 4);
    assert_eq!(network.directions[0].link.unbooked().0.len(), 5);
    let record = network.change(Change::Loss { link: 0, loss: 1.0 }, ms(0));
    assert_eq!(record, (None, Some(0), "loss_probability", 1.0));
    driver.forward(&mut network, data(0), 1, ms(0));
    assert_eq!(network.directions[0].link.unbooked().0.len(), 6);
}

#[test]
fn the_figure_of_a_limit_is_in_packets_bytes_or_milliseconds() {
    use crate::spec::LimitSpec;
    let (packets, bytes, time) = (LimitSpec::Packets(7), LimitSpec::Bytes(900), LimitSpec::Time(1_500_000));
    assert_eq!((packets.figure(), bytes.figure(), time.figure()), (7.0, 900.0, 1.5));
}

#[test]
fn a_link_without_extra_delay_is_steady_and_keeps_the_order_and_one_with_it_only_unless_told() {
    let of = |jitter: u64, reorder: bool| {
        let spec = altered(&[("/links/0/jitter", json!(jitter)), ("/links/0/reorder", json!(reorder))]);
        let network = built(&spec).expect("a network");
        (network.directions[0].is_steady(), network.directions[0].keeps_order())
    };
    assert_eq!((of(0, false), of(0, true)), ((true, true), (true, true)));
    assert_eq!((of(MS, false), of(MS, true)), ((false, true), (false, false)));
}

#[test]
fn random_loss_has_the_probability_of_the_link_and_loss_in_bursts_that_of_its_chain() {
    let lost = |places: &[(&str, Value)]| {
        let mut network = built(&altered(places)).expect("a network");
        let mut driver = crate::driver::Driver::new(crate::events::Events::default());
        driver.forward(&mut network, data(0), 50, ms(0));
        network.directions[0].link.unbooked().0.len()
    };
    assert_eq!((lost(&[]), lost(&[("/links/0/loss", json!(1.0))])), (0, 50));
    let half = lost(&[("/links/0/loss", json!(0.5)), ("/links/0/loss_model", json!({"name": "random"}))]);
    assert!((10..40).contains(&half), "{half}");
    let bad = json!({"name": "gilbert-elliott", "params": {"p": {"ratio": 1.0}, "r": {"ratio": 0.0}}});
    // The first packet finds the chain in its good state, and takes it to the bad one for good.
    assert_eq!(lost(&[("/links/0/loss_model", bad)]), 49);
}

#[test]
fn a_path_through_satellites_adds_its_delay_to_the_propagation() {
    let spec = altered(&[("/links/0/model", json!({"name": "leo"})), ("/links/0/delay", json!(5 * MS))]);
    let mut network = built(&spec).expect("a network");
    let direction = &mut network.directions[0];
    assert!(!direction.is_steady() && direction.pipe.is_some());
    assert!(direction.propagate(&Packet::default(), ms(1)) > ms(6));
}

proptest! {
    /// No packet overtakes another on a path that keeps the order, nor is faster than its links' propagation.
    #[test]
    fn extra_delays_add_to_the_propagation(delays in prop::collection::vec(0u64..20_000_000, 1..6), gap in 0u64..MS) {
        let spec = altered(&[("/links/0/delay", json!(MS)), ("/links/0/delay_table", json!(delays))]);
        let mut network = built(&spec).expect("a network");
        let direction = &mut network.directions[0];
        let mut last = Time::ZERO;
        for k in 0..20 {
            let left = Time::from_nanos(k * gap);
            let arrival = direction.propagate(&Packet::default(), left);
            prop_assert!(arrival >= last && arrival >= left + ms(1));
            let extra = (arrival - left - ms(1)).as_nanos();
            prop_assert!(arrival == last || delays.contains(&extra), "{extra} of {delays:?}");
            last = arrival;
        }
    }
}
