//! The comparison: after each call, whatever ACKs come, both senders have sent the same and are in the same state, and
//! both algorithms saw the same.

use super::Reference;
use crate::sender::Sender;
use crate::sender::invariants::{Bench, Call, Case};
use knee_cc::{Ack, Congestion, CongestionControl, Control, Needs, Sent, StateChange, Undo};
use knee_core::testing::Source;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Writes down all that an algorithm sees.
#[derive(Clone)]
struct Recorded(Box<dyn knee_cc::DynCongestionControl>, Arc<Mutex<Vec<String>>>);

impl Recorded {
    fn note(&self, what: impl std::fmt::Debug) {
        self.1.lock().unwrap().push(format!("{what:?}"));
    }
}

impl CongestionControl for Recorded {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        self.note(("measure", ack));
        self.0.on_measure(ack, control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.note(ack);
        self.0.on_ack(ack, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.note(congestion);
        self.0.on_congestion(congestion, control);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        self.note(change);
        self.0.on_state(change, control);
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        self.note(undo);
        self.0.on_undo(undo, control);
    }

    fn on_sent(&mut self, sent: &Sent, control: &mut Control) {
        self.note(sent);
        self.0.on_sent(sent, control);
    }
}

/// All that both have, and what left.
fn states(sender: &Sender, reference: &Reference) -> [String; 2] {
    let (s, r) = (sender, reference);
    let counters = s.counters();
    let probe = |end: u64, retransmitted: bool| (end, end != 0 && retransmitted);
    let undo_retrans = |marker: Option<u64>, retransmissions: i64| marker.map(|_| retransmissions);
    let real = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        (s.view.snd_una, s.view.snd_nxt, s.view.ca, s.view.delivered, s.view.delivered_ce, s.view.lost),
        (s.scoreboard(), s.control, s.timer, s.pending, s.pacer.due, s.view.paced_until, s.view.min_rtt),
        (
            s.rtt.srtt8_us(),
            s.rtt.rto(),
            s.recovery.backoffs,
            s.tsecr,
            s.recovery.high_seq,
            s.recovery.frto,
            probe(s.tlp.end, s.tlp.retransmitted)
        ),
        (
            s.recovery.undo.marker,
            undo_retrans(s.recovery.undo.marker, s.recovery.undo.retransmissions),
            s.recovery.undo.prior_ssthresh,
            s.recovery.undo.stamp,
            s.cwr_to_signal
        ),
        (s.rack.newest.0.0, s.rack.newest.1, s.rack.reorder_seen, s.rack.reorder_steps, s.rack.reorder_persist),
        (
            s.recovery.reordering,
            s.window_use.limited,
            s.window_use.max_out,
            s.window_use.end,
            s.window_use.used,
            s.window_use.since
        ),
        (counters.sent, counters.sent_bytes, counters.retransmitted, counters.timeouts, s.view.app_limited),
    );
    let plain = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        (r.view.snd_una, r.view.snd_nxt, r.view.ca, r.view.delivered, r.view.delivered_ce, r.view.lost),
        (
            (r.sacked_out(), r.lost_out(), r.retrans_out()),
            r.control,
            r.timer,
            r.pending,
            r.pace_at,
            r.view.paced_until,
            r.view.min_rtt
        ),
        (r.rtt.srtt8, r.rtt.rto(), r.backoffs, r.tsecr, r.high_seq, r.frto, probe(r.tlp_end, r.tlp_retrans)),
        (
            r.undo_marker,
            undo_retrans(r.undo_marker, r.undo_retrans),
            r.prior_ssthresh,
            r.retrans_stamp,
            r.cwr_to_signal
        ),
        (r.newest.0, r.newest.1, r.reorder_seen, r.reorder_steps, r.reorder_persist),
        (r.reordering, r.cwnd_limited, r.max_packets_out, r.cwnd_usage_end, r.cwnd_used, r.cwnd_stamp),
        (r.sent, r.sent_bytes, r.retransmitted, u64::from(r.timeouts), r.view.app_limited),
    );
    [real, plain]
}

fn compare(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let entries = knee_cc::registry();
    let entry = &entries[usize::from(source.byte()) % entries.len()];
    let (sent, rate) = (source.chance(64), source.chance(64));
    let mut case = Case::draw(entry, &mut source);
    case.init.needs = Needs { sent: sent || entry.needs.sent, rate: rate || entry.needs.rate, ..entry.needs };
    let logs = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let [real, plain] = logs.each_ref().map(|log| Box::new(Recorded(case.algorithm(), log.clone())));
    let mut reference = Reference::new(&case, plain);
    let mut steps = 0;
    let mut watch = |call: &Call, now, sender: &mut Sender, out: &[_], rtt| {
        let expected = match call {
            Call::Start => {
                reference.send(now);
                None
            }
            Call::Ack(ack) => reference.on_ack(ack, now),
            Call::Timer => {
                reference.on_timer(now);
                None
            }
            Call::Pace => {
                reference.on_pace(now);
                None
            }
        };
        steps += 1;
        let place = format!("{} at {now}, step {steps}: {call}", entry.name);
        assert_eq!(out, &reference.out[..], "{place}: what left");
        let [real, plain] = states(sender, &reference);
        assert_eq!(real, plain, "{place}");
        assert_eq!(rtt, expected, "{place}: RTT");
        let [real, plain] = logs.each_ref().map(|log| std::mem::take(&mut *log.lock().unwrap()));
        assert_eq!(real, plain, "{place}: what the algorithm saw");
        reference.out.clear();
    };
    Bench::new(&case, real, &mut watch).run(&mut source);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_sender_does_what_its_plainest_form_does(bytes in prop::collection::vec(any::<u8>(), 0..1_500)) {
        compare(&bytes);
    }
}
