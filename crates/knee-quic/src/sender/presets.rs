//! Changes by presets, each worked by hand beside the defaults of RFC 9002.
//!
//! Unless a case says otherwise the handshake took 100 ms: SRTT is 100 ms, its variation 50 ms.

use super::testing::{config, frame, sender};
use super::{Outgoing, Sender, SenderInit};
use crate::config::{Config, Settings};
use crate::preset::{ALL, find};
use crate::ranges::Range;
use knee_core::Time;

struct Bench {
    sender: Sender,
    config: Config,
}

/// The number of the first packet of each burst, and how many there are.
type Left = Vec<(u64, u32)>;

fn left(out: &[Outgoing]) -> Left {
    out.iter().map(|burst| (burst.first, burst.count)).collect()
}

impl Bench {
    /// An endless flow with the settings of a preset, or those of RFC 9002 where `name` is empty, and these changes.
    fn with(name: &str, rtt: Time, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = find(name).map_or_else(Settings::default, |preset| (preset.settings)());
        change(&mut settings);
        let config = config(|usual| *usual = settings);
        Self { sender: sender("reno", SenderInit::default(), Some(rtt), &config), config }
    }

    /// An endless flow without pacing.
    fn unpaced(name: &str, rtt: Time) -> Self {
        Self::with(name, rtt, |settings| settings.pacing = false)
    }

    /// An endless flow with pacing and a window of `cwnd` packets.
    fn paced(name: &str, rtt: Time, cwnd: u32) -> Self {
        let mut bench = Self::with(name, rtt, |_| {});
        bench.sender.control.cwnd = cwnd;
        bench
    }

    fn send(&mut self, us: u64) -> Left {
        let mut out = Vec::new();
        self.sender.send(Time::from_micros(us), &self.config, &mut out);
        left(&out)
    }

    fn ack(&mut self, us: u64, ranges: &[Range]) -> Left {
        let mut out = Vec::new();
        let frame = frame(ranges, Time::ZERO, None);
        self.sender.on_ack(&frame, Time::from_micros(us), &self.config, &mut out).unwrap();
        left(&out)
    }

    /// The timer fires when it is due: that time in us, and how many packets leave.
    fn fire(&mut self) -> (u64, u32) {
        let mut out = Vec::new();
        let now = self.sender.timer.not_before();
        self.sender.on_timer(now, &self.config, &mut out);
        (now.as_micros(), out.iter().map(|burst| burst.count).sum())
    }

    /// When the timer of loss detection is due, us, and when the pacer lets more leave.
    fn due(&self) -> (u64, u64) {
        (self.sender.timer.not_before().as_micros(), self.sender.pacer.due.as_micros())
    }
}

const MS: fn(u64) -> Time = Time::from_millis;

#[test]
fn no_preset_contradicts_itself_and_windows_are_those_of_the_stacks() {
    let windows = ALL.map(|preset| {
        let config = Config::new(&(preset.settings)()).unwrap();
        (preset.name, config.initial_window, config.datagram)
    });
    assert_eq!(
        windows,
        [
            ("quinn", 8, 1452),
            ("quiche", 10, 1200),
            ("neqo", 10, 1252),
            ("picoquic", 10, 1440),
            ("msquic", 10, 1472),
            ("ngtcp2", 10, 1452),
            ("chromium", 32, 1250),
        ]
    );
    assert!(find("curl").is_none());
}

/// quinn: 1.25 windows of 40 packets in 100 ms are a packet each 2 ms. After ten of them the bucket is full after 20
/// ms, and lets four leave after 8 ms if an ACK asks then. Of 1,000 packets 2 ms are 20.
#[test]
fn quinns_bucket_is_refilled_whole() {
    for (name, due) in [("quinn", 20_000), ("", 2_000)] {
        let mut bench = Bench::paced(name, MS(100), 40);
        assert_eq!((bench.send(0), bench.due().1), (vec![(0, 10)], due), "{name}");
    }
    let mut bench = Bench::paced("quinn", MS(100), 40);
    bench.send(0);
    assert_eq!((bench.send(8_000), bench.due().1), (vec![(10, 4)], 28_000));
    for (name, burst) in [("quinn", 20), ("", 10)] {
        assert_eq!(Bench::paced(name, MS(100), 1_000).send(0), [(0, burst)], "{name}");
    }
}

/// quiche: nothing is paced; one probe, then two; a loss that was none, 9 packets from the largest one acknowledged,
/// makes the threshold 10, and 20 at most; it makes the time threshold 5/4.
#[test]
fn quiche_learns_from_losses_that_were_none() {
    let mut bench = Bench::paced("quiche", MS(100), 40);
    assert_eq!(bench.send(0), [(0, 40)]);
    // PTO = 100 + 4 * 50 + 25 ms.
    assert_eq!((bench.fire(), bench.fire()), ((325_000, 1), (325_000 + 650_000, 2)));
    for (name, lost, learnt) in [("quiche", 0, 10), ("", 7, 3)] {
        let mut bench = Bench::unpaced(name, MS(100));
        bench.sender.control.cwnd = 60;
        bench.send(0);
        bench.ack(100_000, &[(9, 10)]);
        bench.ack(101_000, &[(0, 10)]);
        assert_eq!((bench.sender.view.lost, bench.sender.totals.spurious), (7, 7), "{name}: 0 to 6");
        assert_eq!(bench.sender.packet_threshold, learnt);
        // Packets 10 to 18 are up to nine below the next one: 5/4 of 100 ms after they left they are lost.
        bench.ack(102_000, &[(0, 10), (19, 20)]);
        assert_eq!(bench.sender.view.lost - 7, lost, "{name}: 10 to 16");
        assert_eq!(bench.due().0, if name.is_empty() { 114_750 } else { 127_500 });
    }
    let mut bench = Bench::unpaced("quiche", MS(100));
    bench.sender.control.cwnd = 60;
    bench.send(0);
    bench.ack(100_000, &[(30, 31)]);
    bench.ack(101_000, &[(0, 31)]);
    assert_eq!(bench.sender.packet_threshold, 20);
}

/// neqo: two packets, then two windows per RTT: of 40 packets in 100 ms one each 1.25 ms; of 80 one each 0.625 ms, for
/// which nothing waits: a second one does, and leaves after 1.25 ms.
#[test]
fn neqo_does_not_wait_for_less_than_a_millisecond() {
    let mut bench = Bench::paced("neqo", MS(100), 40);
    assert_eq!((bench.send(0), bench.due().1), (vec![(0, 2)], 1_250));
    let mut bench = Bench::paced("neqo", MS(100), 80);
    assert_eq!((bench.send(0), bench.due().1), (vec![(0, 2), (2, 1)], 1_250));
    assert_eq!(Bench::paced("", MS(100), 80).send(0), [(0, 10)]);
}

/// picoquic: 100 + 5 + 10 ms after it left a packet is lost of which a later one arrived, or 1 + 0.25 + 10 ms. A probe
/// timeout is of three variations, and 50 ms at least.
#[test]
fn picoquic_waits_for_reordered_packets_by_time() {
    for (rtt, name, lost, probe) in [
        (100_000, "picoquic", 115_000, 260_000),
        (100_000, "", 112_500, 325_000),
        (1_000, "picoquic", 11_250, 50_000),
        (1_000, "", 1_125, 28_000),
    ] {
        let mut bench = Bench::unpaced(name, Time::from_micros(rtt));
        bench.sender.send(Time::ZERO, &bench.config, &mut Vec::new());
        assert_eq!(bench.due().0, probe, "{name}");
        bench.sender.stop();
        bench.ack(rtt, &[(2, 3)]);
        assert_eq!(bench.due().0, lost, "{name}");
    }
    // A quarter of a window, from 2 to 16 packets: of 40 packets ten.
    let bursts = [4, 40, 400].map(|cwnd| Bench::paced("picoquic", MS(100), cwnd).send(0));
    assert_eq!(bursts, [vec![(0, 2)], vec![(0, 10)], vec![(0, 16)]]);
}

/// MsQuic: a packet is lost four below the largest one acknowledged; losses after more than two probe timeouts in a row
/// are persistent congestion: two packets, and another one for the probe that was acknowledged.
#[test]
fn msquic_counts_probe_timeouts() {
    for (name, lost) in [("msquic", 0), ("", 1)] {
        let mut bench = Bench::unpaced(name, MS(100));
        bench.send(0);
        bench.ack(100_000, &[(3, 4)]);
        assert_eq!(bench.sender.view.lost, lost, "{name}");
    }
    for (probes, cwnd) in [(2u32, 5), (3, 3)] {
        let mut bench = Bench::unpaced("msquic", MS(100));
        bench.send(0);
        for _ in 0..probes {
            bench.fire();
        }
        let newest = 9 + 2 * u64::from(probes);
        bench.ack(5_000_000, &[(newest, newest + 1)]);
        assert_eq!((bench.sender.control.cwnd, bench.sender.totals.persistent), (cwnd, u64::from(probes == 3)));
    }
}

/// MsQuic: the window leaves at once where nothing is in flight, then packets of a millisecond together, two windows in
/// 100 ms in slow start. Below an RTT of a millisecond nothing is paced.
#[test]
fn msquic_sends_what_a_millisecond_is_for() {
    let mut bench = Bench::paced("msquic", MS(100), 125);
    assert_eq!(bench.send(0), [(0, 64), (64, 61)]);
    bench.ack(100_000, &[(0, 100)]);
    // The ACK lets the window grow to 225, of which 25 are in flight: a burst is 4.5 packets.
    assert_eq!(bench.sender.control.cwnd, 225);
    let (_, due) = bench.due();
    assert_eq!(
        (bench.sender.packets().0, due),
        (129, 100_888),
        "4 / 4.5 ms, until there is room for 4.5 packets again"
    );
    let mut bench = Bench::paced("msquic", Time::from_micros(900), 125);
    assert_eq!(bench.send(0), [(0, 64), (64, 61)]);
    assert_eq!(Bench::paced("", Time::from_micros(900), 125).send(0), [(0, 10)]);
}

/// ngtcp2: of 41 packets 40 are in flight, half of which are the threshold: a packet ten below is not lost.
#[test]
fn ngtcp2s_threshold_is_half_of_what_is_in_flight() {
    for (name, lost) in [("ngtcp2", 0), ("", 8)] {
        let mut bench = Bench::unpaced(name, MS(100));
        bench.sender.control.cwnd = 41;
        bench.send(0);
        bench.sender.stop();
        bench.ack(100_000, &[(10, 11)]);
        assert_eq!((bench.sender.view.lost, bench.sender.view.in_flight), (lost, 40 - lost as u32), "{name}");
    }
}

/// Chromium: ten packets at once where nothing is in flight, then two windows per RTT in slow start: of 40 packets in
/// 100 ms one each 1.25 ms, two at once. PTO = 100 + 2 * 50 + 25 ms, for one probe.
#[test]
fn chromium_sends_ten_packets_first_and_then_two() {
    let mut bench = Bench::paced("chromium", MS(100), 40);
    assert_eq!((bench.send(0), bench.due()), (vec![(0, 10), (10, 2)], (225_000, 1_250)));
    assert_eq!(bench.send(1_250), [(12, 1)]);
    let mut bench = Bench::unpaced("chromium", MS(100));
    bench.send(0);
    assert_eq!(bench.fire(), (225_000, 1));
    // The reach of a loss that was none counts without limit, and the time threshold is 5/4 from the start.
    let mut bench = Bench::unpaced("chromium", MS(100));
    bench.send(0);
    bench.ack(100_000, &[(31, 32)]);
    bench.ack(101_000, &[(0, 30), (31, 32)]);
    assert_eq!((bench.sender.packet_threshold, bench.due().0), (32, 125_000));
}
