//! A simulation beside a program: each packet of the program's has one fate, and is where its path says.

use crate::networks::{S, any_network};
use crate::runs::read;
use knee_core::{Packet, Payload, Time};
use knee_sim::{Beside, Fate};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// A packet of the program's: when it was sent, whether against the data, its size, and the delay of ACKs then.
type Sent = (Time, bool, u16, Time);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The first flow's packets are the program's. Some are on an alias of its path, with another codepoint.
    #[test]
    fn each_packet_of_a_program_has_one_fate_in_its_time(
        mut spec in any_network(),
        mut sends in prop::collection::vec((0..2 * S, 40u16..1500, any::<bool>(), any::<bool>()), 1..200),
    ) {
        sends.sort_unstable();
        let against_queues = !spec["links"][0]["reverse"].is_null();
        spec["flows"][0]["reverse"] = json!(false);
        let outside: Vec<bool> = (0..spec["flows"].as_array().unwrap().len()).map(|i| i == 0).collect();
        let mut beside = Beside::new(&read(&spec), &[], &outside).unwrap();
        let alias = beside.alias(0, 46).unwrap();
        let (mut under_way, mut now) = (BTreeMap::new(), Time::ZERO);
        let mut settle = |beside: &mut Beside, under_way: &mut BTreeMap<u32, Sent>| {
            for (at, fate) in beside.take() {
                assert!(at >= now, "time goes back");
                now = at;
                let (packet, arrived) = match fate {
                    Fate::Arrived(packet) => (packet, true),
                    Fate::Dropped(packet) => (packet, false),
                };
                let (sent, against, size, delay) = under_way.remove(&packet.payload.key()).expect("it has one fate");
                assert_eq!((packet.has(Packet::ACK), packet.size), (against, size));
                if against && !against_queues {
                    assert!(arrived && at == sent + delay, "{at}, not {delay} after {sent}");
                } else {
                    assert!(at >= sent);
                }
            }
        };
        for (key, &(at, size, against, marked)) in (0..).zip(&sends) {
            let at = Time::from_nanos(at);
            while beside.next() <= at {
                beside.step();
                settle(&mut beside, &mut under_way);
            }
            let path = &beside.network().flow_paths;
            prop_assert_eq!(path[0].ack_delay, path[alias as usize].ack_delay, "an alias has the delay of its path");
            under_way.insert(key, (at, against, size, path[0].ack_delay));
            let flags = if against { Packet::ACK } else { 0 };
            let flow = if marked { alias } else { 0 };
            beside.send(Packet { at, payload: Payload::Stored(key), flow, queued: 0, size, flags, hop: 0 }, at);
            settle(&mut beside, &mut under_way);
            prop_assert_eq!(beside.audit(), Ok(()));
        }
        while beside.next() < Time::MAX {
            beside.step();
            settle(&mut beside, &mut under_way);
        }
        prop_assert_eq!(beside.audit(), Ok(()));
        // ACKs of a path without a queue on the way back have come, unless the end was before.
        let end = Time::from_nanos(2 * S);
        let waits = |&(sent, against, _, delay): &Sent| !against || against_queues || sent + delay >= end;
        prop_assert!(under_way.values().all(waits), "{under_way:?}");
    }
}
