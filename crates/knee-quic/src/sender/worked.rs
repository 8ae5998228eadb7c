//! Cases whose numbers were worked by hand from RFC 9002, section 7.6.3 and appendices A and B.
//!
//! There is no pacing, and unless a case says otherwise no handshake gave an RTT: SRTT is 333 ms, its variation 166.5
//! ms.

use super::testing::{config, frame, sender};
use super::{Outgoing, Sender, SenderInit, Violation};
use crate::config::{Config, Settings};
use crate::frame::{EcnCounts, Mark};
use crate::ranges::Range;
use knee_cc::CaState;
use knee_core::Time;

/// Data of a full packet.
const FULL: u64 = 1167;

struct Bench {
    sender: Sender,
    config: Config,
}

/// First number, count, place of the data in packets, and whether it was sent before.
type Left = Vec<(u64, u32, u64, bool)>;

fn left(out: &[Outgoing]) -> Left {
    out.iter().map(|burst| (burst.first, burst.count, burst.offset / FULL, burst.again)).collect()
}

impl Bench {
    fn with(packets: Option<u64>, change: impl FnOnce(&mut Settings)) -> Self {
        let config = config(|settings| {
            settings.pacing = false;
            change(settings);
        });
        let bytes = packets.map(|packets| packets * FULL);
        Self { sender: sender("reno", SenderInit { bytes, ..SenderInit::default() }, None, &config), config }
    }

    /// A sender with this much to send, or without end.
    fn new(packets: Option<u64>) -> Self {
        Self::with(packets, |_| {})
    }

    fn send(&mut self, us: u64) -> Left {
        let mut out = Vec::new();
        self.sender.send(Time::from_micros(us), &self.config, &mut out);
        left(&out)
    }

    /// The application writes a packet, which leaves at `us`.
    fn write(&mut self, us: u64) -> Left {
        self.sender.write(FULL);
        self.send(us)
    }

    /// An ACK of these packets at `us`, which waited for `delay` us.
    fn ack_after(&mut self, us: u64, ranges: &[Range], delay: u64) -> Left {
        let mut out = Vec::new();
        let frame = frame(ranges, Time::from_micros(delay), None);
        self.sender.on_ack(&frame, Time::from_micros(us), &self.config, &mut out).unwrap();
        left(&out)
    }

    fn ack(&mut self, us: u64, ranges: &[Range]) -> Left {
        self.ack_after(us, ranges, 0)
    }

    /// The timer fires when it is due: that time in us, and what leaves.
    fn fire(&mut self) -> (u64, Left) {
        let mut out = Vec::new();
        let now = self.sender.timer.not_before();
        self.sender.on_timer(now, &self.config, &mut out);
        (now.as_micros(), left(&out))
    }

    fn due(&self) -> u64 {
        self.sender.timer.not_before().as_micros()
    }

    fn rtt(&self) -> (u64, u64) {
        (self.sender.rtt.smoothed().as_nanos(), self.sender.rtt.pto(&self.config).as_nanos())
    }
}

/// A.7, UpdateRtt. PTO = SRTT + 4 RTTVAR + 25 ms.
#[test]
fn rtt_samples_leave_out_the_delay_of_acks() {
    let mut bench = Bench::new(Some(3));
    bench.send(0);
    // The first sample counts whole: SRTT = 100, RTTVAR = 50 ms.
    bench.ack_after(100_000, &[(0, 1)], 10_000);
    assert_eq!(bench.rtt(), (100_000_000, 325_000_000));
    // 120 less 10: RTTVAR = (3 * 50 + 10) / 4 = 40, SRTT = (7 * 100 + 110) / 8 = 101.25.
    bench.ack_after(120_000, &[(0, 2)], 10_000);
    assert_eq!(bench.rtt(), (101_250_000, 286_250_000));
    // 140 less 25, the most that counts: RTTVAR = (120 + 13.75) / 4 = 33.4375, SRTT = (708.75 + 115) / 8 = 102.96875.
    bench.ack_after(140_000, &[(0, 3)], 40_000);
    assert_eq!(bench.rtt(), (102_968_750, 102_968_750 + 133_750_000 + 25_000_000));
    // 105 less 25 were below the least RTT of 100, so all of it counts: RTTVAR = (100.3125 + 2.03125) / 4 =
    // 25.5859375, SRTT = (720.78125 + 105) / 8 = 103.22265625 ms.
    bench.write(150_000);
    bench.ack_after(255_000, &[(0, 4)], 25_000);
    assert_eq!(bench.rtt(), (103_222_656, 103_222_656 + 102_343_748 + 25_000_000));
    assert_eq!(bench.sender.view.min_rtt, Time::from_millis(100));
}

/// 5.1: one sample for a packet, and only of the largest one newly acknowledged.
#[test]
fn an_ack_that_does_not_newly_acknowledge_its_largest_packet_gives_no_sample() {
    let mut bench = Bench::new(Some(3));
    bench.send(0);
    bench.ack(100_000, &[(1, 2)]);
    let rtt = bench.rtt();
    bench.ack(105_000, &[(0, 2)]);
    assert_eq!((bench.rtt(), bench.sender.view.delivered), (rtt, 2));
}

/// A.10: packet 3 is acknowledged, so 0 is lost (3 >= 0 + 3); 1 and 2 are in time until 0 + 9/8 * 100 ms.
#[test]
fn packets_are_lost_three_numbers_below_the_largest_acknowledged() {
    let mut bench = Bench::new(None);
    assert_eq!(bench.send(0), [(0, 10, 0, false)]);
    // B.6: the window is halved from 10 to 5, and 8 packets are in flight.
    assert_eq!(bench.ack(100_000, &[(3, 4)]), []);
    assert_eq!((bench.sender.control.cwnd, bench.sender.control.ssthresh), (5, 5));
    assert_eq!((bench.sender.packets(), bench.due()), ((10, 1, 8, 1), 112_500));
    assert_eq!(bench.sender.view.ca, CaState::Recovery);
    // 4 makes 1 lost, 5 makes 2 lost: 3 and 4 of 10 are in flight below. No further reduction in the period.
    assert_eq!(bench.ack(101_000, &[(3, 5)]), []);
    assert_eq!(bench.ack(102_000, &[(3, 6)]), [(10, 1, 0, true)], "lost data first, with a new number");
    assert_eq!((bench.sender.packets(), bench.sender.control.cwnd), ((11, 3, 5, 3), 5));
    // The rest of the first flight: 6 to 9 make room for what else was lost, and for new data.
    assert_eq!(bench.ack(103_000, &[(3, 10)]), [(11, 2, 1, true), (13, 2, 10, false)]);
    // B.5: packet 10 was sent at 102 ms, after the period began at 100 ms, and lets the window grow.
    bench.ack(203_000, &[(3, 11)]);
    assert_eq!((bench.sender.view.ca, bench.sender.control.cwnd_cnt), (CaState::Open, 1));
}

/// A.8 to A.10: with no packet sent later the loss is found by time. SRTT = 100 ms, 9/8 of it 112.5 ms.
#[test]
fn packets_are_lost_by_time_when_the_timer_says_so() {
    let mut bench = Bench::new(Some(3));
    bench.send(0);
    bench.ack(100_000, &[(2, 3)]);
    assert_eq!((bench.due(), bench.sender.view.lost), (112_500, 0));
    assert_eq!(bench.fire(), (112_500, vec![(3, 2, 0, true)]));
    assert_eq!((bench.sender.control.cwnd, bench.sender.packets()), (5, (5, 1, 2, 2)));
    // Then the probe timeout: 112.5 + 100 + 200 + 25 ms.
    assert_eq!(bench.due(), 437_500);
}

/// 6.1.2: the latest RTT counts where it is above the smoothed one, and never less than a millisecond.
#[test]
fn the_time_threshold_follows_the_larger_rtt_and_the_granularity() {
    let mut bench = Bench::new(Some(4));
    bench.send(0);
    bench.ack(100_000, &[(3, 4)]);
    assert_eq!(bench.sender.rtt.loss_delay(&bench.config), Time::from_micros(112_500));
    let mut bench = Bench::new(Some(4));
    bench.send(0);
    bench.ack(100, &[(2, 3)]);
    assert_eq!(bench.due(), 1_000);
}

/// A.8, GetPtoTimeAndSpace: 333 + 4 * 166.5 + 25 = 1,024 ms, twice as long each time.
#[test]
fn probe_timeouts_double() {
    let mut bench = Bench::new(Some(1));
    bench.send(0);
    bench.sender.on_timer(Time::from_micros(1_023_999), &bench.config, &mut Vec::new());
    assert_eq!(bench.sender.totals().timeouts, 0, "not before its time");
    assert_eq!(bench.fire(), (1_024_000, vec![(1, 1, 0, true)]));
    assert_eq!(bench.fire(), (3_072_000, vec![(2, 1, 0, true)]));
    assert_eq!(bench.fire(), (7_168_000, vec![(3, 1, 0, true)]));
    assert_eq!((bench.sender.packets(), bench.sender.control.cwnd), ((4, 0, 4, 0), 10), "nothing is lost by that");
    // An ACK ends the backoff. Packet 3 is the largest: RTT = 100 ms; 0 is lost by number, 1 and 2 by time, but their
    // data has arrived.
    assert_eq!(bench.ack(7_268_000, &[(3, 4)]), []);
    assert_eq!((bench.sender.pto_count, bench.sender.packets(), bench.sender.done()), (0, (4, 1, 0, 3), true));
    assert_eq!(bench.sender.timer, knee_tcp::timer::Timer::OFF);
}

/// 6.2.4 and 7.5: two probes beyond the window: new data if there is any, else the oldest, else a PING.
#[test]
fn probes_carry_new_data_then_old_data_then_nothing() {
    let mut bench = Bench::new(None);
    bench.send(0);
    assert_eq!(bench.fire().1, [(10, 1, 10, false), (11, 1, 11, false)]);
    assert_eq!(bench.sender.bytes_in_flight(), 12 * 1200);
    let mut bench = Bench::new(Some(3));
    bench.send(0);
    assert_eq!(bench.fire().1, [(3, 1, 0, true), (4, 1, 1, true)]);
    // All data is acknowledged, the copies are not: a PING, alone.
    bench.ack(1_100_000, &[(0, 3)]);
    assert_eq!((bench.sender.done(), bench.sender.packets()), (true, (5, 3, 2, 0)));
    let (_, ping) = bench.fire();
    assert_eq!(ping, [(5, 1, 3, false)]);
    assert_eq!(bench.sender.bytes_in_flight(), 2 * 1200 + 33);
}

/// 7.6.3, with an RTT sample of 0.6 s and ACKs delayed by up to 0.2 s: 0.6 + 4 * 0.3 + 0.2 = 2 s.
#[test]
fn losses_over_three_probe_timeouts_are_persistent_congestion() {
    let second = 1_000_000;
    let mut bench = Bench::with(Some(0), |settings| {
        (settings.probes, settings.max_ack_delay) = (1, Time::from_millis(200));
    });
    bench.write(0);
    bench.ack(600_000, &[(0, 1)]);
    for at in 1..=6 {
        assert_eq!(bench.write(at * second), [(at, 1, at, false)]);
    }
    assert_eq!(bench.fire(), (8 * second, vec![(7, 1, 1, true)]));
    assert_eq!(bench.fire(), (12 * second, vec![(8, 1, 1, true)]));
    // Packets 1 to 7 of ours are 2 to 8 of the RFC's. The new sample of 0.2 s makes it 0.55 + 4 * 0.325 + 0.2 = 2.05 s;
    // 7 s are more than three times that.
    assert_eq!(bench.ack(12_200_000, &[(0, 1), (8, 9)]), [(9, 2, 2, true)]);
    assert_eq!((bench.sender.totals().persistent, bench.sender.packets()), (1, (11, 2, 2, 7)));
    assert_eq!((bench.sender.control.cwnd, bench.sender.control.ssthresh), (2, 5), "B.8: the least window");
    assert_eq!(bench.sender.view.min_rtt, Time::from_millis(200), "5.2");
}

/// 7.6.2: a packet between that was acknowledged, or a shorter time, is no persistent congestion.
#[test]
fn an_acknowledged_packet_between_breaks_the_row() {
    let second = 1_000_000;
    let mut bench = Bench::with(Some(0), |settings| {
        (settings.probes, settings.max_ack_delay) = (1, Time::from_millis(200));
    });
    bench.write(0);
    bench.ack(600_000, &[(0, 1)]);
    (1..=6).for_each(|at| assert_eq!(bench.write(at * second).len(), 1));
    bench.fire();
    bench.fire();
    bench.ack(12_200_000, &[(0, 1), (4, 5), (8, 9)]);
    assert_eq!((bench.sender.totals().persistent, bench.sender.control.cwnd), (0, 5));
}

/// 7.6.2: the span has to exceed the duration, and to begin after the first sample, which came at 0.6 s. Another sample
/// of 0.6 s makes the duration 3 * (0.6 + 4 * 0.225 + 0.2) = 5.1 s.
#[test]
fn persistent_congestion_takes_longer_than_three_probe_timeouts_after_the_first_sample() {
    for (ms, found) in [(1_000, 0), (999, 1), (600, 0)] {
        let mut bench = Bench::with(Some(0), |settings| settings.max_ack_delay = Time::from_millis(200));
        bench.write(0);
        bench.ack(600_000, &[(0, 1)]);
        for ms in [ms, 6_100, 6_200] {
            assert_eq!(bench.write(ms * 1_000).len(), 1);
        }
        bench.ack(6_800_000, &[(0, 1), (3, 4)]);
        assert_eq!((bench.sender.totals().persistent, bench.sender.view().lost), (found, 2), "{ms} ms");
    }
}

/// A.1: the number of a lost packet is known for a while, and its data is not sent again once it is acknowledged.
#[test]
fn a_late_ack_of_a_lost_packet_is_a_spurious_loss() {
    let mut bench = Bench::new(None);
    bench.send(0);
    bench.ack(100_000, &[(4, 5)]);
    assert_eq!(bench.sender.packets(), (10, 1, 7, 2));
    assert_eq!(bench.ack(101_000, &[(0, 5)]), []);
    assert_eq!((bench.sender.totals().spurious, bench.sender.totals().spurious_reach), (2, 4));
    assert_eq!(bench.sender.packets(), (10, 5, 5, 0));
    assert_eq!(bench.ack(102_000, &[(0, 6)]), [(10, 1, 10, false)], "nothing is left to be sent again");
    // Again the same: counted once.
    bench.ack(103_000, &[(0, 7)]);
    assert_eq!(bench.sender.totals().spurious, 2);
}

/// 7.1 and B.7: a mark reduces as a loss does, once in a period.
#[test]
fn a_reported_mark_halves_the_window() {
    let config = config(|settings| settings.pacing = false);
    let mut sender = sender("reno", SenderInit { ecn: true, ..SenderInit::default() }, None, &config);
    let mut out = Vec::new();
    sender.send(Time::ZERO, &config, &mut out);
    assert_eq!(out[0].mark, Mark::Ect0);
    let counts = |ect0, ce| Some(EcnCounts { ect0, ect1: 0, ce });
    for (ms, to, ecn, cwnd) in [(100, 2, counts(1, 1), 5), (101, 4, counts(2, 2), 5), (102, 5, counts(2, 3), 5)] {
        sender.on_ack(&frame(&[(0, to)], Time::ZERO, ecn), Time::from_millis(ms), &config, &mut out).unwrap();
        assert_eq!(sender.control.cwnd, cwnd);
    }
    assert_eq!((sender.view.ca, sender.view.delivered_ce, sender.mark() != Mark::NotEct), (CaState::Cwr, 3, true));
    // RFC 9000, 13.4.2.1: counts that are missing end it.
    sender.on_ack(&frame(&[(0, 6)], Time::ZERO, None), Time::from_millis(103), &config, &mut out).unwrap();
    assert_eq!(sender.mark(), Mark::NotEct);
}

#[test]
fn an_ack_of_a_packet_that_was_never_sent_changes_nothing() {
    let mut bench = Bench::new(None);
    bench.send(0);
    let before = (bench.sender.packets(), bench.due());
    let mut refused = |ranges: &[Range]| {
        let frame = frame(ranges, Time::ZERO, None);
        bench.sender.on_ack(&frame, Time::from_millis(9), &bench.config, &mut Vec::new()).unwrap_err()
    };
    assert_eq!(refused(&[(0, 11)]), Violation::Unsent { largest: 10, next: 10 });
    assert_eq!(
        refused(&[(0, 11)]).to_string(),
        "PROTOCOL_VIOLATION: packet 10 is acknowledged; the next one to be sent is 10"
    );
    assert_eq!(refused(&[]), Violation::Empty);
    assert_eq!((bench.sender.packets(), bench.due()), before);
}

/// 7.8: a window that data does not fill does not grow; 7.2: nor does it fall below two packets.
#[test]
fn an_application_that_writes_little_leaves_the_window_as_it_is() {
    let mut bench = Bench::new(Some(5));
    bench.send(0);
    assert!(bench.sender.view().app_limited);
    bench.ack(100_000, &[(0, 2)]);
    assert_eq!(bench.sender.control.cwnd, 10);
    let mut bench = Bench::new(None);
    bench.send(0);
    bench.ack(100_000, &[(0, 2)]);
    assert_eq!((bench.sender.control.cwnd, bench.sender.view().app_limited), (12, false));
}

#[test]
fn a_flow_that_is_stopped_repairs_what_was_sent_and_is_done() {
    let mut bench = Bench::new(None);
    bench.send(0);
    bench.sender.stop();
    assert_eq!(bench.ack(100_000, &[(1, 10)]), [(10, 1, 0, true)]);
    assert!(!bench.sender.done());
    assert_eq!(bench.ack(200_000, &[(1, 11)]), []);
    assert!(bench.sender.done());
}

/// 7.7 with N = 1.25: ten packets at once, then one in 100 ms / 12.5 = 8 ms. The pacer does not limit the application.
#[test]
fn a_paced_sender_spreads_a_window_over_an_rtt() {
    let config = config(|settings| settings.burst = 4);
    let rtt = Some(Time::from_millis(100));
    let mut sender = sender("reno", SenderInit::default(), rtt, &config);
    let (mut out, mut now, mut times) = (Vec::new(), Time::ZERO, Vec::new());
    while now < Time::MAX {
        sender.send(now, &config, &mut out);
        times.extend(out.drain(..).map(|burst: Outgoing| (now.as_millis(), burst.count)));
        now = sender.pacer.due;
    }
    assert_eq!(times, [(0, 4), (8, 1), (16, 1), (24, 1), (32, 1), (40, 1), (48, 1)]);
    assert!(!sender.view.app_limited);
    assert_eq!(sender.bytes_in_flight(), sender.window(&config));
}
