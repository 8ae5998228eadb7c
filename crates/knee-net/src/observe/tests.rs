use super::*;
use crate::network::Network;
use crate::output::{LinkRow, SampleRow, SenderState};
use crate::spec::Spec;
use crate::testing::{MS, ack, data, flow, link, ms, read, spec};
use bytemuck::Zeroable;
use knee_cc::CaState;
use knee_core::Time;
use knee_link::queue::Burst;
use knee_link::{Arrivals, Departure, Load};
use knee_queue::Backlog;
use knee_traffic::datagrams::Reception;
use serde_json::json;
use std::sync::{Arc, Mutex};

fn departure(sojourn: u64) -> Departure {
    Departure { sojourn: ms(sojourn), ..Departure::default() }
}

fn counts(bits: u128, offered: u128) -> LinkCounts {
    LinkCounts { load: Load { carried: bits, offered, ..Load::default() }, ..LinkCounts::default() }
}

/// All counts of a flow that has been doing the same for `n` times at `at`.
fn flow_counts(at: Time, n: u64) -> FlowCounts {
    FlowCounts {
        at,
        delivered_bytes: 1_250_000 * n,
        new_bytes: 1_500_000 * n,
        outstanding: 7 * n,
        sent_bytes: 3_000_000 * n,
        received_bytes: 2_000_000 * n,
        received: 1000 * n,
        // 64 ns each: 2 ms per packet.
        queued_units: 31_250 * 1000 * n,
        sent: 2000 * n,
        lost: 5 * n,
        retransmitted: 3 * n,
        timeouts: 2 * n,
        cwnd_integral: 20 * 1_000_000_000 * u128::from(n),
    }
}

#[test]
fn utilization_is_what_left_over_what_could_have() {
    let of = |from: LinkCounts, until: LinkCounts| until.utilization_since(&from);
    let (first, second) = (of(counts(0, 0), counts(30, 40)), of(counts(30, 40), counts(40, 80)));
    assert_eq!((first, second, of(counts(30, 40), counts(30, 40))), (0.75, 0.25, 0.0));
    // What a bucket had saved before could be sent too.
    let mut before = counts(0, 0);
    before.load.saved = 60;
    // Up to the rounding of times more than offered is all of it; beyond, it shows.
    let (mut within, mut beyond) = (counts(42, 40), counts(42, 40));
    (within.load.rounding, beyond.load.rounding) = (2, 1);
    let (saved, within, beyond) = (of(before, counts(50, 40)), of(counts(0, 0), within), of(counts(0, 0), beyond));
    assert_eq!((saved, within, beyond), (0.5, 1.0, 1.05));
}

#[test]
fn drops_of_a_flow_within_a_millisecond_of_each_other_are_one_event() {
    let mut watch = LinkWatch::default();
    let us = |us: u64| Time::from_secs(1) + Time::from_micros(us);
    assert!(watch.note_drop(1, false, us(0)).is_none());
    assert!(watch.note_drop(1, false, us(1000)).is_none());
    let two = watch.note_drop(1, false, us(2001)).expect("later than a millisecond");
    assert_eq!((two.flow, two.first, two.last, two.count), (1, us(0), us(1000), 2));
    let one = watch.note_drop(2, true, us(2001)).expect("another flow");
    assert_eq!((one.flow, one.first, one.count), (1, us(2001), 1));
    assert_eq!(watch.dropping.map(|drops| (drops.flow, drops.count)), Some((2, 1)));
}

#[test]
fn a_links_figures_are_of_their_window_and_its_rows_of_all_time() {
    let mut watch = LinkWatch::default();
    let mut at_begin = counts(1000, 2000);
    (at_begin.drops, at_begin.marks) = (3, 4);
    let mut at_end = counts(4000, 8000);
    (at_end.drops, at_end.marks) = (5, 11);
    watch.book(&[departure(100)]);
    watch.note_drop(0, true, ms(1));
    watch.begin(at_begin);
    watch.book(&[departure(10)]);
    watch.book(&[departure(20), departure(30)]);
    for is_ack in [true, false, true] {
        watch.note_drop(0, is_ack, ms(2));
    }
    let backlog = Backlog { packets: 3, bytes: knee_core::Bytes(4500) };
    let LinkRow { t_s, backlog_bytes, link, backlog_packets, drops, marks, utilization, .. } =
        watch.row(9, 0.1, at_end, backlog);
    assert_eq!((t_s, backlog_bytes, link, backlog_packets), (0.1, 4500, 9, 3));
    assert_eq!((drops, marks, utilization), (5, 11, 0.5));
    let figures = watch.figures("a".into(), &at_end);
    assert_eq!((figures.drops, figures.marks, figures.ack_drops, figures.utilization), (2, 7, 2, 0.5));
    // The mean of 10, 20 and 30 ms; the packet that waited for 100 left before.
    assert_eq!((figures.queue_delay_mean_ms, figures.queue_delay_max_ms), (Some(20.0), Some(30.0)));
    let p95 = figures.queue_delay_p95_ms.expect("packets left");
    let p99 = figures.queue_delay_p99_ms.expect("packets left");
    // Rank 0.95 · 2, rounded down.
    assert!((p95 - 20.0).abs() < 0.05 && (p99 - 20.0).abs() < 0.05, "{p95} {p99}");
}

#[test]
fn a_row_has_the_delays_of_its_interval_also_from_before_the_figures_began() {
    let mut watch = LinkWatch::default();
    watch.book(&[departure(40)]);
    watch.begin(counts(0, 0));
    watch.book(&[departure(20)]);
    let row = watch.row(0, 0.1, counts(0, 0), Backlog::default());
    assert_eq!((row.queue_delay_mean_ms, row.queue_delay_max_ms), (30.0, 40.0));
    let row = watch.row(0, 0.2, counts(0, 0), Backlog::default());
    assert!(row.queue_delay_mean_ms.is_nan() && row.queue_delay_max_ms.is_nan());
}

#[test]
fn a_link_whose_figures_have_not_begun_has_none() {
    let mut watch = LinkWatch::default();
    watch.book(&[departure(40)]);
    watch.book(&[departure(40)]);
    watch.note_drop(0, true, ms(1));
    watch.row(0, 0.1, counts(1, 2), Backlog::default());
    let mut end = counts(1, 2);
    (end.drops, end.marks) = (1, 1);
    let figures = watch.figures("a".into(), &end);
    assert_eq!((figures.drops, figures.ack_drops, figures.marks, figures.utilization), (0, 0, 0, 0.0));
    assert_eq!((figures.queue_delay_mean_ms, figures.queue_delay_max_ms), (None, None));
}

#[test]
fn a_flows_figures_are_differences_over_the_span_of_its_window() {
    let mut rtts = Histogram::new(10);
    let mut spread = Spread::EMPTY;
    for rtt in 1..=101 {
        rtts.count(ms(rtt));
        spread.add(ms(rtt));
    }
    rtts.fold(&spread);
    let watch = FlowWatch::new(flow_counts(ms(1000), 1));
    let figures = watch.figures(&flow_counts(ms(3000), 3), &rtts, Some(ms(1500)));
    // Over 2 s, twice 1.25, 2 and 3 MB.
    assert_eq!((figures.goodput_mbps, figures.throughput_mbps, figures.sending_rate_mbps), (10.0, 16.0, 24.0));
    // 3.75 MB have arrived, of which 1.5 had been sent before: 2.25 of 6 MB.
    assert_eq!(figures.goodput_ratio, Some(0.375));
    assert_eq!(figures.queue_delay_mean_ms, Some(2.0));
    assert_eq!(figures.cwnd_mean_packets, Some(20.0));
    assert_eq!((figures.outstanding_packets, figures.sent_packets, figures.lost_packets), (7, 4000, 10));
    assert_eq!((figures.retransmitted_packets, figures.timeouts, figures.completion_s), (6, 4, Some(1.5)));
    assert_eq!((figures.rtt_min_ms, figures.rtt_mean_ms, figures.rtt_max_ms), (Some(1.0), Some(51.0), Some(101.0)));
    for (quantile, exact) in [(figures.rtt_p50_ms, 51.0), (figures.rtt_p95_ms, 96.0), (figures.rtt_p99_ms, 100.0)] {
        let quantile: f64 = quantile.expect("there are samples");
        assert!((quantile - exact).abs() < 0.1, "{quantile} {exact}");
    }
}

#[test]
fn a_window_without_length_or_packets_has_no_ratios() {
    let at = flow_counts(ms(5), 1);
    let figures = FlowWatch::new(at).figures(&at, &Histogram::new(1), None);
    assert_eq!((figures.goodput_mbps, figures.throughput_mbps, figures.sending_rate_mbps), (0.0, 0.0, 0.0));
    assert_eq!((figures.goodput_ratio, figures.queue_delay_mean_ms, figures.cwnd_mean_packets), (None, None, None));
    let never = no_figures(Some(ms(20)));
    assert_eq!((never.completion_s, never.sent_packets, never.rtt_mean_ms), (Some(0.02), 0, None));
}

#[test]
fn counts_of_connections_add_up() {
    let mut sum = flow_counts(ms(1), 2);
    sum.add(&flow_counts(ms(1), 3));
    let five = flow_counts(ms(1), 5);
    assert_eq!((sum.delivered_bytes, sum.new_bytes), (five.delivered_bytes, five.new_bytes));
    assert_eq!((sum.sent_bytes, sum.received_bytes), (five.sent_bytes, five.received_bytes));
    assert_eq!((sum.received, sum.queued_units, sum.sent), (five.received, five.queued_units, five.sent));
    assert_eq!((sum.lost, sum.retransmitted, sum.timeouts), (five.lost, five.retransmitted, five.timeouts));
    assert_eq!((sum.outstanding, sum.cwnd_integral), (five.outstanding, five.cwnd_integral));
}

#[test]
fn a_counter_has_counted_the_difference() {
    assert_eq!((since(9, 4), since(4, 4)), (5, 0));
}

#[test]
#[should_panic(expected = "a counter fell from 4 to 3")]
fn a_counter_that_falls_is_an_error() {
    since(3, 4);
}

#[test]
fn mean_and_range_of_no_spans_are_none_and_sums_do_not_overflow() {
    let mut spread = Spread::EMPTY;
    let (mean, min, max) = spread.mean_min_max_ms();
    assert!(spread.mean().is_none() && mean.is_nan() && min.is_nan() && max.is_nan());
    for span in [30, 10, 20] {
        spread.add(ms(span));
    }
    assert_eq!(spread.mean_min_max_ms(), (20.0, 10.0, 30.0));
    let mut merged = Spread::default();
    merged.merge(&spread);
    merged.add(ms(60));
    assert_eq!((merged.mean(), merged.mean_min_max_ms()), (Some(30e6), (30.0, 10.0, 60.0)));
    merged.add(Time::MAX);
    assert!(merged.mean().is_none() && merged.mean_min_max_ms().0.is_nan());
}

#[test]
fn changes_of_a_senders_state_are_events() {
    let at = |phase, ca, timeouts| States { phase, ca, timeouts };
    let phases = &["slow_start", "avoidance"];
    let events = |from: States, to: States| to.events_since(from, phases).collect::<Vec<_>>();
    let open = at(0, CaState::Open, 0);
    assert!(events(open, open).is_empty());
    assert_eq!(events(open, at(1, CaState::Open, 0)), ["avoidance"]);
    assert_eq!(events(open, at(2, CaState::Open, 0)), ["unnamed"]);
    assert_eq!(events(open, at(0, CaState::Recovery, 0)), ["recovery"]);
    assert_eq!(events(open, at(0, CaState::Cwr, 0)), ["cwr"]);
    assert_eq!(events(at(0, CaState::Cwr, 0), at(0, CaState::Cwr, 0)), [""; 0]);
    assert_eq!(events(at(0, CaState::Cwr, 0), open), [""; 0]);
    assert_eq!(events(open, at(1, CaState::Loss, 2)), ["avoidance", "timeout"]);
}

#[test]
fn a_row_has_the_senders_state_in_bits() {
    let state = |ca, full_control| SenderState {
        phase: 5,
        ca,
        full_control,
        srtt: ms(30),
        cwnd: Some(12),
        in_flight: 11,
        pacing_rate_bps: Some(2_500_000),
    };
    let row = |sender: &SenderState| SampleRow::zeroed().with_sender(sender);
    let states = [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];
    assert_eq!(states.map(|ca| row(&state(ca, false)).state), [0x005, 0x105, 0x205, 0x305, 0x405]);
    let full = row(&state(CaState::Recovery, true));
    assert_eq!(full.state, 0x1_0305);
    assert_eq!((full.srtt_ms, full.cwnd_packets), (30.0, 12.0));
    assert_eq!((full.in_flight_packets, full.pacing_rate_mbps), (11.0, 2.5));
    let none = SenderState { srtt: Time::ZERO, cwnd: None, pacing_rate_bps: None, ..state(CaState::Open, false) };
    let none = row(&none);
    assert!(none.srtt_ms.is_nan() && none.cwnd_packets.is_nan() && none.pacing_rate_mbps.is_nan());
}

/// Two flows that start at 10 and 30 ms.
fn two_flows() -> Spec {
    let flows = [10, 30].map(|start| {
        let mut flow = flow(&[0]);
        flow["start"] = json!(start * MS);
        flow
    });
    read(&spec(&[link("a")], &flows))
}

#[test]
fn rows_have_what_happened_within_their_interval() {
    let mut record = Record::new(&two_flows());
    assert_eq!((record.start(0), record.start(1)), (ms(10), ms(30)));
    let mut rtts = Spread::EMPTY;
    rtts.add(ms(20));
    rtts.add(ms(30));
    record.add_rtts(1, &rtts);
    assert!(record.end_interval(ms(0)).is_none());
    let interval = record.end_interval(ms(500)).expect("it has a length");
    let row = record.flows()[1].row(1, interval, &flow_counts(ms(500), 1), &Spread::EMPTY);
    assert_eq!((row.t_s, row.flow), (0.5, 1));
    // 1.25, 2 and 3 MB in half a second.
    assert_eq!((row.goodput_mbps, row.throughput_mbps, row.sending_rate_mbps), (20.0, 32.0, 48.0));
    assert_eq!((row.rtt_mean_ms, row.rtt_min_ms, row.rtt_max_ms), (25.0, 20.0, 30.0));
    assert_eq!((row.lost_packets, row.retransmitted_packets), (5, 3));
    let interval = record.end_interval(ms(1500)).expect("it has a length");
    let row = record.flows()[1].row(1, interval, &flow_counts(ms(1500), 3), &Spread::EMPTY);
    assert_eq!((row.t_s, row.goodput_mbps, row.lost_packets), (1.5, 20.0, 10));
    assert!(row.rtt_mean_ms.is_nan());
    assert!(record.end_interval(ms(1500)).is_none());
}

#[test]
fn a_flow_that_has_ended_has_no_figures_and_the_first_end_counts() {
    let mut record = Record::new(&two_flows());
    assert!(record.begin_figures(0, flow_counts(ms(10), 0)));
    record.end_figures(0, flow_counts(ms(1010), 1));
    record.end_figures(0, flow_counts(ms(2010), 4));
    record.end_figures(1, flow_counts(ms(20), 0));
    assert!(!record.begin_figures(1, flow_counts(ms(30), 0)));
    assert!(record.complete(0, ms(60)) && !record.complete(0, ms(70)));
    let rtts = Histogram::new(1);
    let counts = [flow_counts(ms(3000), 5), flow_counts(ms(3000), 5)];
    let output = record.output(ms(3000), ms(3000), &mut [], counts.into_iter().map(|counts| (counts, &rtts)));
    assert_eq!((output.flows[0].goodput_mbps, output.flows[0].completion_s), (10.0, Some(0.05)));
    assert_eq!((output.flows[1].goodput_mbps, output.flows[1].sent_packets), (0.0, 0));
    assert_eq!((output.packets, output.window_s, output.common_window_s), (10_000, None, None));
    assert_eq!((output.flows[0].delivered_bytes, output.flows[0].common_throughput_mbps), (6_250_000, None));
}

#[test]
fn totals_are_of_their_window_and_common_throughput_of_the_time_in_which_all_flows_run() {
    let mut network = Network::new(&two_flows()).expect("a network");
    let mut record = Record::new(&two_flows());
    assert!(!record.in_common());
    record.end_common(ms(20), |_| 0);
    record.begin_window(ms(50), &mut network.directions, vec![(250_000, 1_000_000), (0, 0)]);
    record.begin_common(ms(100), |i| [1000, 2000][i]);
    assert!(record.in_common());
    record.end_common(ms(2100), |i| [2_001_000, 1_002_000][i]);
    assert!(!record.in_common());
    record.end_common(ms(2200), |_| 9_000_000);
    let rtts = Histogram::new(1);
    let counts = [flow_counts(ms(3000), 1), flow_counts(ms(3000), 2)];
    let counts = counts.into_iter().map(|counts| (counts, &rtts));
    let output = record.output(ms(3000), ms(3000), &mut network.directions, counts);
    assert_eq!((output.window_s, output.common_window_s), (Some((0.05, 3.0)), Some((0.1, 2.1))));
    let totals: Vec<_> = output.flows.iter().map(|flow| (flow.delivered_bytes, flow.received_bytes)).collect();
    assert_eq!(totals, [(1_000_000, 1_000_000), (2_500_000, 4_000_000)]);
    // 2 MB and 1 MB in two seconds.
    let common: Vec<_> = output.flows.iter().map(|flow| flow.common_throughput_mbps).collect();
    assert_eq!(common, [Some(8.0), Some(4.0)]);
    assert_eq!((output.packets, output.links.len()), (3000, 1));
}

#[test]
fn once_a_flow_is_complete_there_is_no_time_in_which_all_run() {
    let mut record = Record::new(&two_flows());
    record.complete(1, ms(60));
    record.begin_common(ms(100), |_| 0);
    assert!(!record.in_common());
}

#[test]
fn a_time_in_which_all_flows_run_has_a_length() {
    let mut record = Record::new(&two_flows());
    record.begin_common(ms(100), |_| 0);
    record.end_common(ms(100), |_| 0);
    let rtts = Histogram::new(1);
    let counts = [flow_counts(ms(200), 1); 2].into_iter().map(|counts| (counts, &rtts));
    assert_eq!(record.output(ms(200), ms(200), &mut [], counts).common_window_s, None);
}

#[test]
fn drops_that_are_not_yet_on_record_are_put_there_at_the_end() {
    let mut network = Network::new(&two_flows()).expect("a network");
    let mut record = Record::new(&two_flows());
    assert!(network.directions[0].book_drop(ms(7), 1, &data(0)).is_none());
    let rtts = Histogram::new(1);
    let counts = [flow_counts(ms(200), 1); 2].into_iter().map(|counts| (counts, &rtts));
    let output = record.output(ms(200), ms(200), &mut network.directions, counts);
    assert_eq!(output.event_names, ["drop"]);
    let events: Vec<_> = record.rows.events.iter().map(|row| (row.t_s, row.flow, row.link, row.value)).collect();
    assert_eq!(events, [(0.007, 1, 0, 1.0)]);
}

#[test]
fn events_are_in_the_order_of_time_drops_first_and_their_names_in_that_in_which_they_come_up() {
    let mut rows = Rows::default();
    rows.record(ms(5), Some(1), Some(0), "buffer", 1.0);
    rows.record(ms(5), None, Some(1), "limit", 2.0);
    rows.record(ms(5), Some(0), None, "timeout", 3.0);
    rows.record(ms(3), Some(2), None, "timeout", 4.0);
    rows.record_drops(0, &Drops { flow: 1, first: ms(5), last: ms(9), count: 6 });
    let names = rows.sort_events();
    let events: Vec<_> = rows
        .events
        .iter()
        .map(|row| (row.t_s, row.flow, row.link, names[row.event as usize].as_str(), row.value))
        .collect();
    let expected = [
        (0.003, 2, -1, "timeout", 4.0),
        (0.005, -1, 1, "limit", 2.0),
        (0.005, 0, -1, "timeout", 3.0),
        (0.005, 1, 0, "drop", 6.0),
        (0.005, 1, 0, "buffer", 1.0),
    ];
    assert_eq!(events, expected);
    assert_eq!(names, ["timeout", "limit", "drop", "buffer"]);
}

/// Writes to what the test can read, or fails.
#[derive(Clone, Default)]
struct Spool {
    written: Arc<Mutex<Vec<u8>>>,
    fails: bool,
}

impl std::io::Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.fails {
            return Err(std::io::Error::other("the disk is full"));
        }
        self.written.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn samples_go_to_the_spool_in_blocks_and_all_of_them_in_the_end() {
    let spool = Spool::default();
    let mut rows = Rows::default();
    rows.spool_to(Box::new(spool.clone()));
    let row = |k: u16| SampleRow { t_s: f64::from(k), ..SampleRow::zeroed() };
    for k in 0..600 {
        rows.sample(row(k));
    }
    // Memory does not grow with the run.
    assert_eq!((rows.samples.len(), spool.written.lock().unwrap().len()), (600 - 512, 512 * size_of::<SampleRow>()));
    rows.finish().expect("it can be written");
    let written = spool.written.lock().unwrap().clone();
    let times: Vec<f64> =
        written.chunks(size_of::<SampleRow>()).map(|row| bytemuck::pod_read_unaligned::<SampleRow>(row).t_s).collect();
    assert_eq!(times, (0..600).map(f64::from).collect::<Vec<_>>());
    assert!(rows.samples.is_empty());
}

#[test]
fn without_a_spool_samples_stay_and_a_spool_that_fails_is_an_error() {
    let mut rows = Rows::default();
    (0..600).for_each(|_| rows.sample(SampleRow::zeroed()));
    rows.finish().expect("nothing is written");
    assert_eq!(rows.samples.len(), 600);
    let mut rows = Rows::default();
    rows.spool_to(Box::new(Spool { fails: true, ..Spool::default() }));
    rows.sample(SampleRow::zeroed());
    assert_eq!(rows.finish().unwrap_err().to_string(), "the disk is full");
}

/// Counts after `n` rounds, in each of which five datagrams are sent and four arrive.
fn datagram_counts(n: u64) -> DatagramCounts {
    let mut reception = Reception::default();
    for k in 0..4 * n {
        reception.on_datagram(u32::try_from(k).unwrap(), ms(5));
    }
    DatagramCounts { sent: 5 * n, echoed: 3 * n, marked: 2 * n, lost: n, reception }
}

#[test]
fn datagrams_are_counted_within_their_window_and_each_interval() {
    let mut watch = DatagramWatch::new(10);
    let sample = SampleRow { t_s: 0.1, flow: 3, rtt_mean_ms: 8.0, rtt_max_ms: 9.0, ..SampleRow::zeroed() };
    watch.book(ms(50), false);
    watch.fold(false);
    watch.begin(datagram_counts(1));
    for delay in [10, 20, 30] {
        watch.book(ms(delay), true);
    }
    watch.fold(true);
    let row = watch.row(datagram_counts(3), &sample);
    assert_eq!((row.t_s, row.flow, row.sent, row.received, row.lost), (0.1, 3, 15, 12, 3));
    assert_eq!((row.owd_mean_ms, row.owd_max_ms, row.rtt_mean_ms, row.rtt_max_ms), (27.5, 50.0, 8.0, 9.0));
    let row = watch.row(datagram_counts(4), &sample);
    assert_eq!((row.sent, row.received, row.lost), (5, 4, 1));
    assert!(row.owd_mean_ms.is_nan());
    let figures = watch.figures(&datagram_counts(4), true);
    assert_eq!((figures.sent, figures.received, figures.lost), (15, 12, 3));
    assert_eq!((figures.marked, figures.echoed), (6, Some(9)));
    assert_eq!((figures.owd_min_ms, figures.owd_mean_ms, figures.owd_max_ms), (Some(10.0), Some(20.0), Some(30.0)));
    assert_eq!(watch.figures(&datagram_counts(4), false).echoed, None);
    // All have taken 5 ms (RFC 3550, 6.4.1).
    assert_eq!((figures.jitter_ms, figures.jitter_mean_ms), (Some(0.0), Some(0.0)));
}

#[test]
fn a_direction_books_what_leaves_and_what_is_dropped() {
    let mut network = Network::new(&two_flows()).expect("a network");
    let mut driver = crate::driver::Driver::new(crate::events::Events::default());
    network.directions[0].measure(ms(0));
    driver.forward(&mut network, data(0), 3, ms(0));
    while driver.step(&mut network, ms(2)).is_some() {}
    let row = network.directions[0].row(0, ms(2), ms(2));
    // One has left at once; at 2 ms, one more is done, and the last one's turn comes.
    assert_eq!((row.t_s, row.backlog_packets, row.queue_delay_max_ms, row.utilization), (0.002, 1, 0.0, 1.0));
    while driver.step(&mut network, ms(100)).is_some() {}
    let direction = &mut network.directions[0];
    assert!(direction.book_drop(ms(1), 0, &ack(0)).is_none());
    let earlier = direction.book_drop(ms(9), 0, &data(0)).expect("drops of before");
    assert_eq!((earlier.first, earlier.count), (ms(1), 1));
    let last = direction.last_drops().expect("that one");
    assert_eq!((last.first, direction.last_drops().is_none()), (ms(9), true));
    let row = direction.row(0, ms(10), ms(10));
    // The others have waited for 1 and 2 ms; the link has sent for 3 of 10 ms.
    assert_eq!((row.queue_delay_mean_ms, row.queue_delay_max_ms, row.backlog_packets), (1.5, 2.0, 0));
    let figures = direction.figures(ms(10));
    assert_eq!((figures.link.as_str(), figures.ack_drops, figures.utilization), ("a", 1, 0.3));
    assert_eq!((figures.queue_delay_mean_ms, direction.delays().mean_ms()), (Some(1.0), Some(1.0)));
}

#[test]
fn a_direction_books_what_leaves_in_a_batch() {
    let mut network = Network::new(&two_flows()).expect("a network");
    let direction = &mut network.directions[0];
    direction.measure(ms(0));
    let mut arrivals = Arrivals::default();
    arrivals.push(Burst { first: data(0), count: 4 }, 0, true);
    let mut departures = Vec::new();
    direction.advance(&mut arrivals, ms(3), &mut departures);
    // A packet takes a millisecond; the fourth is on the wire.
    assert_eq!(departures.iter().map(|departure| departure.at).collect::<Vec<_>>(), [ms(1), ms(2), ms(3)]);
    direction.row(0, ms(100), ms(100));
    assert_eq!((direction.delays().mean_ms(), direction.delays().min_ms()), (Some(1.0), Some(0.0)));
}

#[test]
fn what_a_queue_notes_at_the_end_of_an_interval_is_at_its_link() {
    let mut cocoa = link("a");
    cocoa["queue"] = json!("cocoa");
    let mut network = Network::new(&read(&spec(&[cocoa], &[flow(&[0])]))).expect("a network");
    let mut driver = crate::driver::Driver::new(crate::events::Events::default());
    driver.forward(&mut network, data(0), 3, ms(0));
    network.directions[0].link.observe(ms(100));
    assert!(network.directions[0].link.unbooked().1.iter().any(|note| note.event == "backlog" && note.at == ms(100)));
}
