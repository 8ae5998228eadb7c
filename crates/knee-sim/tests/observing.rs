//! Observing changes nothing: neither the spacing of the time series, nor somebody who watches packets, nor what
//! happens elsewhere in the network.

use crate::networks::{self, MS, S, any_applications, any_dumbbell, any_network};
use knee_net::output::FlowFigures;
use knee_sim::{Output, Rows, Simulation};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The figures of the first `flows` flows of a run, one by one, without the time series.
fn figures((output, rows): &(Output, Rows), flows: usize) -> Vec<String> {
    let links = output.links.iter().filter(|link| !link.link.starts_with("elsewhere"));
    let link_name = |i: i32| usize::try_from(i).ok().map(|i| &output.links[i].link);
    // Queues note what they hold at the end of each interval; changes of links are noted as such.
    let noted = |event| !["backlog", "rate"].contains(&output.event_names[event as usize].as_str());
    let completions = rows.completions.iter().filter(|row| (row.flow as usize) < flows).map(|row| format!("{row:?}"));
    let events = rows.events.iter().filter(|row| noted(row.event) && row.flow < flows as i32);
    let events = events.map(|row| {
        let event = &output.event_names[row.event as usize];
        format!("{} s: {event} of flow {} at {:?}: {}", row.t_s, row.flow, link_name(row.link), row.value)
    });
    let flows = output.flows.iter().take(flows).map(|flow| format!("{flow:?}"));
    flows.chain(links.map(|link| format!("{link:?}"))).chain(completions).chain(events).collect()
}

fn run(spec: &Value) -> (Output, Rows) {
    Simulation::new(&serde_json::from_value(spec.clone()).unwrap()).unwrap().run().unwrap()
}

fn same(one: &[String], other: &[String]) -> Result<(), TestCaseError> {
    let first = one.iter().zip(other).find(|(a, b)| a != b);
    prop_assert_eq!(first, None);
    prop_assert_eq!(one.len(), other.len());
    Ok(())
}

/// Packets of a flow that has stopped are still acknowledged, and count no more.
#[test]
fn the_figures_of_a_flow_end_as_it_stops() {
    let link = networks::link(10_000_000, &json!({"packets": 100}));
    let flows = [networks::flow("reno", 20 * MS, 0, S), networks::flow("cubic", 30 * MS, 0, S)];
    let [until_then, longer] =
        [S, 2 * S].map(|duration| run(&networks::spec(duration, std::slice::from_ref(&link), &flows)).0.flows);
    for (then, later) in until_then.iter().zip(&longer) {
        let rtts =
            |flow: &FlowFigures| [flow.rtt_mean_ms, flow.rtt_p95_ms, flow.rtt_max_ms, Some(flow.throughput_mbps)];
        assert_eq!(rtts(then), rtts(later));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_spacing_of_the_time_series_changes_nothing_else(
        spec in prop_oneof![3 => any_applications(), 1 => any_network()], intervals in (5 * MS..50 * MS, 50 * MS..3 * S)
    ) {
        let flows = spec["flows"].as_array().unwrap().len();
        let mut specs = [spec.clone(), spec];
        (specs[0]["interval"], specs[1]["interval"]) = (json!(intervals.0), json!(intervals.1));
        let [one, other] = specs.map(|spec| figures(&run(&spec), flows));
        same(&one, &other)?;
    }

    /// Changes of rates are on record as such.
    #[test]
    fn a_change_to_the_present_rate_changes_nothing(
        spec in prop_oneof![any_dumbbell(), any_network()], at in 1..S / 4, link in any::<prop::sample::Index>()
    ) {
        let flows = spec["flows"].as_array().unwrap().len();
        let link = link.index(spec["links"].as_array().unwrap().len());
        let Some(rate) = spec["links"][link]["capacity"].get("rate") else { return Ok(()) };
        let mut other = spec.clone();
        other["changes"].as_array_mut().unwrap().insert(0, json!({"at": at, "what": {"rate": {"link": link, "rate": rate}}}));
        same(&figures(&run(&spec), flows), &figures(&run(&other), flows))?;
    }

    /// A flow of datagrams lets time pass event by event, and one of transfers opens connections meanwhile.
    #[test]
    fn what_happens_elsewhere_changes_nothing(
        spec in prop_oneof![3 => any_applications(), 1 => any_network()], datagrams in any::<bool>()
    ) {
        let flows = spec["flows"].as_array().unwrap().len();
        let mut other = spec.clone();
        let mut link = networks::link(10_000_000, &json!({"packets": 20}));
        link["name"] = json!("elsewhere");
        let start = spec["flows"].as_array().unwrap().iter().map(|flow| flow["start"].as_u64().unwrap()).min();
        let mut flow = networks::flow("reno", 33 * MS, start.unwrap(), 2 * S);
        flow["path"] = json!([spec["links"].as_array().unwrap().len()]);
        flow["traffic"] = if datagrams {
            json!({"kind": "udp", "packet": 1000, "interval": 10 * MS})
        } else {
            json!({
                "kind": "transfers", "arrivals": {"poisson": 50.0}, "size": {"fixed": 30_000}, "persistent": false,
                "number": null
            })
        };
        other["links"].as_array_mut().unwrap().push(link);
        other["flows"].as_array_mut().unwrap().push(flow);
        same(&figures(&run(&spec), flows), &figures(&run(&other), flows))?;
    }
}
