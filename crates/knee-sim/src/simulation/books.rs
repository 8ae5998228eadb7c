//! Tests of the audit: what was sent and has not ended is in the network, to the packet.

use super::hosts::{Ends, Slot};
use super::{EventScheduler, Model, Obstacle, Scheduler, Simulation};
use crate::Tap;
use knee_core::{ConnectionId, Packet, Time};
use knee_net::events::Events;
use knee_tcp::sender::AckInfo;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

struct Nobody;

impl Tap for Nobody {
    fn sent(&mut self, _: Time, _: ConnectionId, _: &Packet) {}

    fn received(&mut self, _: Time, _: ConnectionId, _: &Packet, _: Option<&AckInfo>) {}
}

/// Two flows over two links, of which the first drops some packets and has a delay behind it.
fn simulation(event_by_event: bool) -> Simulation {
    let link = |name: &str, delay: u64| {
        json!({
            "name": name, "capacity": {"rate": 20_000_000}, "queue": "pfifo", "limit": {"packets": 20}, "overhead": 14,
            "loss": 0.0, "delay": delay, "jitter": 0, "reorder": false, "burst": null, "reverse": null
        })
    };
    let flow = |path: &[usize], rtt: u64| -> Value {
        json!({
            "label": "flow", "cc": "reno", "rtt": rtt * MS, "start": 0, "stop": 2000 * MS, "bytes": null, "path": path
        })
    };
    let spec = json!({
        "duration": 2000 * MS, "seed": 1, "warmup": 0, "interval": 100 * MS,
        "links": [link("first", MS), link("second", 0)], "flows": [flow(&[0, 1], 20), flow(&[0], 30)]
    });
    let mut simulation = Simulation::new(&serde_json::from_value(spec).unwrap()).unwrap();
    if event_by_event {
        simulation.tap(Box::new(Nobody));
    }
    simulation
}

fn run_to(simulation: &mut Simulation, at: Time) {
    while simulation.now() < at && simulation.step(1) {}
}

/// Data packets that left their senders and neither arrived nor were dropped, and packets at links and between them.
fn under_way(simulation: &Simulation) -> (u64, u64) {
    let model = &simulation.model;
    let sent: u64 = model.hosts.all_tcp().map(|tcp| tcp.sender.counters().sent).sum();
    let received: u64 = model.hosts.all_tcp().map(|tcp| tcp.receiver.received.packets).sum();
    let ended = received + model.hosts.iter().map(|(_, slot)| slot.record.dropped).sum::<u64>();
    let Scheduler::Batches(scheduler) = &simulation.scheduler else { panic!("it goes in batches") };
    let held: u64 = model.network.directions.iter().map(|direction| direction.link.held()).sum();
    (sent - ended, held + scheduler.under_way())
}

/// In batches ACKs wait with their flows: at links and between them is data alone, once the handshakes are over.
#[test]
fn what_was_sent_and_has_not_ended_is_at_links_or_between_them() {
    let mut simulation = simulation(false);
    run_to(&mut simulation, Time::from_millis(100));
    let mut most = 0;
    while simulation.step(1) {
        let (missing, there) = under_way(&simulation);
        assert_eq!(missing, there, "at {}", simulation.now());
        most = most.max(there);
    }
    assert!(most > 40, "{most}");
}

/// Changes the books of a simulation in the middle; gives what the audit says then.
fn falsified(event_by_event: bool, how: impl FnOnce(&mut Simulation)) -> String {
    let mut simulation = simulation(event_by_event);
    run_to(&mut simulation, Time::from_millis(700));
    simulation.audit().unwrap();
    how(&mut simulation);
    simulation.audit().unwrap_err()
}

#[test]
fn a_falsified_book_is_found_out() {
    for event_by_event in [false, true] {
        // More packets ended than were sent.
        let said = falsified(event_by_event, |simulation| simulation.model.hosts.record_mut(1).dropped += 1 << 40);
        assert!(said.starts_with("flow 1: ") && said.contains("received or dropped"), "{said}");
        // One packet too many or too few.
        let off_by_one: [fn(&mut Model); 5] = [
            |model| model.hosts.record_mut(1).dropped += 1,
            |model| model.hosts.tcp_ends_mut(0).receiver.received.packets += 1,
            |model| model.hosts.tcp_ends_mut(0).receiver.received.packets -= 1,
            |model| model.hosts.stores[0].syns += 1,
            |model| model.hosts.acks += 1,
        ];
        for change in off_by_one {
            let said = falsified(event_by_event, |simulation| change(&mut simulation.model));
            assert!(said.contains("data packets"), "{said}");
        }
        let said = falsified(event_by_event, |simulation| {
            let [Slot { ends: Ends::Tcp(a), .. }, Slot { ends: Ends::Tcp(b), .. }] = simulation.model.hosts.first_two()
            else {
                panic!("both are TCP's")
            };
            std::mem::swap(&mut a.receiver, &mut b.receiver);
            // The counts of packets stay as they are.
            std::mem::swap(&mut a.receiver.received, &mut b.receiver.received);
        });
        assert!(said.contains("in order, not"), "{said}");
    }
}

#[test]
fn packets_that_vanish_between_links_are_found_out() {
    let said = falsified(false, |simulation| {
        let Scheduler::Batches(scheduler) = &mut simulation.scheduler else { panic!("it goes in batches") };
        assert!(scheduler.lose_landing() > 0);
    });
    assert!(said.contains("data packets"), "{said}");
}

#[test]
fn a_link_or_pipe_without_an_event_is_found_out() {
    let said = falsified(true, |simulation| {
        simulation.scheduler =
            Scheduler::Events(Box::new(EventScheduler::new(&simulation.model, Events::default())), Obstacle::Observed);
    });
    assert!(said.starts_with("no event for Wire(0) at "), "{said}");
}
