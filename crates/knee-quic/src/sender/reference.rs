//! RFC 9002's pseudocode of appendices A and B, to compare the sender with: a record for each packet, nothing
//! remembered that can be worked out.
//!
//! Functions have the RFC's names. There is one packet number space, and the handshake is confirmed. Departures, each
//! at its line: windows are whole packets, as `knee-cc` counts them; the growth in congestion avoidance is that of RFC
//! 3465, 2.1, which B.5 names; a period of recovery is none at first, not one at time 0, so that packets sent at 0 are
//! in none; no packet leaves beyond the window when a period begins, which B.6 allows.

use super::Sender;
use super::laws::{Bench, Event};
use super::testing::numbers;
use crate::config::Config;
use crate::frame::AckFrame;
use knee_cc::INFINITE_SSTHRESH;
use knee_core::Time;
use knee_core::testing::Source;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A.1.1; all packets elicit an ACK.
#[derive(Clone, Copy)]
struct SentPacket {
    packet_number: u64,
    time_sent: Time,
    sent_bytes: u64,
}

pub struct Reference {
    config: Config,
    // A.3.
    latest_rtt: Time,
    smoothed_rtt: Time,
    rttvar: Time,
    min_rtt: Time,
    first_rtt_sample: Option<Time>,
    loss_detection_timer: Option<Time>,
    pto_count: u32,
    time_of_last_ack_eliciting_packet: Time,
    largest_acked_packet: Option<u64>,
    loss_time: Option<Time>,
    sent_packets: BTreeMap<u64, SentPacket>,
    // B.2.
    ecn_ce_counter: u64,
    bytes_in_flight: u64,
    congestion_window: u64,
    congestion_recovery_start_time: Option<Time>,
    ssthresh: u64,
    /// RFC 3465, 2.1: bytes acknowledged towards the next packet of the window.
    bytes_acked: u64,
    limited: bool,
    lost: Vec<u64>,
}

impl Reference {
    fn new(config: &Config) -> Self {
        let k_initial_rtt = config.settings.initial_rtt;
        Self {
            config: *config,
            latest_rtt: Time::ZERO,
            smoothed_rtt: k_initial_rtt,
            rttvar: k_initial_rtt / 2,
            min_rtt: Time::ZERO,
            first_rtt_sample: None,
            loss_detection_timer: None,
            pto_count: 0,
            time_of_last_ack_eliciting_packet: Time::ZERO,
            largest_acked_packet: None,
            loss_time: None,
            sent_packets: BTreeMap::new(),
            ecn_ce_counter: 0,
            bytes_in_flight: 0,
            congestion_window: u64::from(config.initial_window) * u64::from(config.datagram),
            congestion_recovery_start_time: None,
            ssthresh: u64::MAX,
            bytes_acked: 0,
            limited: false,
            lost: Vec::new(),
        }
    }

    fn max_datagram_size(&self) -> u64 {
        u64::from(self.config.datagram)
    }

    fn k_minimum_window(&self) -> u64 {
        u64::from(self.config.settings.min_window) * self.max_datagram_size()
    }

    // A.5 and B.4.
    fn on_packet_sent(&mut self, packet_number: u64, sent_bytes: u64, now: Time) {
        self.sent_packets.insert(packet_number, SentPacket { packet_number, time_sent: now, sent_bytes });
        self.time_of_last_ack_eliciting_packet = now;
        self.bytes_in_flight += sent_bytes;
        self.set_loss_detection_timer();
    }

    // A.7.
    fn on_ack_received(&mut self, ack: &AckFrame, now: Time) {
        let largest_acked = ack.largest().unwrap();
        self.largest_acked_packet = self.largest_acked_packet.max(Some(largest_acked));
        let acked =
            |packet: &SentPacket| ack.ranges().any(|r| r.0 <= packet.packet_number && packet.packet_number < r.1);
        let newly_acked_packets: Vec<SentPacket> = self.sent_packets.values().copied().filter(acked).collect();
        for packet in &newly_acked_packets {
            self.sent_packets.remove(&packet.packet_number);
        }
        let Some(largest) = newly_acked_packets.last().copied() else { return };
        if largest.packet_number == largest_acked {
            self.latest_rtt = now - largest.time_sent;
            self.update_rtt(ack.delay, now);
        }
        // B.7. The largest packet acknowledged may have been acknowledged before: then the largest newly acknowledged.
        if let Some(counts) = ack.ecn
            && counts.ce > self.ecn_ce_counter
        {
            self.ecn_ce_counter = counts.ce;
            self.on_congestion_event(largest.time_sent, now);
        }
        let lost_packets = self.detect_and_remove_lost_packets(now);
        if !lost_packets.is_empty() {
            self.on_packets_lost(&lost_packets, now);
        }
        self.on_packets_acked(&newly_acked_packets);
        self.pto_count = 0;
        self.set_loss_detection_timer();
    }

    fn update_rtt(&mut self, ack_delay: Time, now: Time) {
        if self.first_rtt_sample.is_none() {
            self.min_rtt = self.latest_rtt;
            self.smoothed_rtt = self.latest_rtt;
            self.rttvar = self.latest_rtt / 2;
            self.first_rtt_sample = Some(now);
            return;
        }
        self.min_rtt = self.min_rtt.min(self.latest_rtt);
        let ack_delay = ack_delay.min(self.config.settings.max_ack_delay);
        let mut adjusted_rtt = self.latest_rtt;
        if self.latest_rtt >= self.min_rtt + ack_delay {
            adjusted_rtt = self.latest_rtt - ack_delay;
        }
        let (smoothed, adjusted) = (self.smoothed_rtt.as_nanos(), adjusted_rtt.as_nanos());
        self.rttvar = Time::from_nanos((3 * self.rttvar.as_nanos() + smoothed.abs_diff(adjusted)) / 4);
        self.smoothed_rtt = Time::from_nanos((7 * smoothed + adjusted) / 8);
    }

    // A.8.
    fn get_pto_time(&self) -> Time {
        let variation = (self.rttvar * 4).max(self.config.settings.granularity);
        let duration = (self.smoothed_rtt + variation + self.config.settings.max_ack_delay) * (1 << self.pto_count);
        self.time_of_last_ack_eliciting_packet + duration
    }

    fn set_loss_detection_timer(&mut self) {
        self.loss_detection_timer = match self.loss_time {
            Some(time) => Some(time),
            None if self.sent_packets.is_empty() => None,
            None => Some(self.get_pto_time()),
        };
    }

    // A.9. The probes follow as packets that are sent.
    fn on_loss_detection_timeout(&mut self, now: Time) {
        if self.loss_time.is_some() {
            let lost_packets = self.detect_and_remove_lost_packets(now);
            assert!(!lost_packets.is_empty());
            self.on_packets_lost(&lost_packets, now);
        } else {
            assert!(!self.sent_packets.is_empty());
            self.pto_count += 1;
        }
        self.set_loss_detection_timer();
    }

    // A.10.
    fn detect_and_remove_lost_packets(&mut self, now: Time) -> Vec<SentPacket> {
        let largest_acked_packet = self.largest_acked_packet.unwrap();
        self.loss_time = None;
        let mut lost_packets = Vec::new();
        // kTimeThreshold in eighths.
        let eighths = (self.config.settings.time_threshold * 8.0) as u64;
        let loss_delay = self.latest_rtt.max(self.smoothed_rtt) * eighths / 8;
        let loss_delay = loss_delay.max(self.config.settings.granularity);
        for unacked in self.sent_packets.values() {
            if unacked.packet_number > largest_acked_packet {
                continue;
            }
            let threshold = u64::from(self.config.settings.packet_threshold);
            if unacked.time_sent + loss_delay <= now || largest_acked_packet >= unacked.packet_number + threshold {
                lost_packets.push(*unacked);
            } else {
                let time = unacked.time_sent + loss_delay;
                self.loss_time = Some(self.loss_time.map_or(time, |before| before.min(time)));
            }
        }
        for lost in &lost_packets {
            self.sent_packets.remove(&lost.packet_number);
            self.lost.push(lost.packet_number);
        }
        lost_packets
    }

    // B.5.
    fn in_congestion_recovery(&self, sent_time: Time) -> bool {
        self.congestion_recovery_start_time.is_some_and(|start| sent_time <= start)
    }

    fn on_packets_acked(&mut self, acked_packets: &[SentPacket]) {
        let mut growth = 0;
        for acked_packet in acked_packets {
            self.bytes_in_flight -= acked_packet.sent_bytes;
            if !self.limited && !self.in_congestion_recovery(acked_packet.time_sent) {
                // knee-cc counts packets: a short one as a full one.
                growth += self.max_datagram_size();
            }
        }
        if self.congestion_window < self.ssthresh {
            let slow = growth.min(self.ssthresh - self.congestion_window);
            self.congestion_window += slow;
            growth -= slow;
        }
        if growth > 0 {
            // RFC 3465, 2.1, once for an ACK.
            self.bytes_acked += growth;
            let window = self.congestion_window;
            self.congestion_window += self.bytes_acked / window * self.max_datagram_size();
            self.bytes_acked %= window;
        }
    }

    // B.6.
    fn on_congestion_event(&mut self, sent_time: Time, now: Time) {
        if self.in_congestion_recovery(sent_time) {
            return;
        }
        self.congestion_recovery_start_time = Some(now);
        // In whole packets.
        self.ssthresh = self.congestion_window / self.max_datagram_size() / 2 * self.max_datagram_size();
        self.congestion_window = self.ssthresh.max(self.k_minimum_window());
        self.bytes_acked = 0;
    }

    // B.8.
    fn on_packets_lost(&mut self, lost_packets: &[SentPacket], now: Time) {
        for lost_packet in lost_packets {
            self.bytes_in_flight -= lost_packet.sent_bytes;
        }
        let sent_time_of_last_loss = lost_packets.iter().map(|lost| lost.time_sent).max().unwrap();
        self.on_congestion_event(sent_time_of_last_loss, now);
        let Some(first_rtt_sample) = self.first_rtt_sample else { return };
        let pc_lost: Vec<_> = lost_packets.iter().filter(|lost| lost.time_sent > first_rtt_sample).collect();
        if self.in_persistent_congestion(&pc_lost) {
            self.congestion_window = self.k_minimum_window();
            self.congestion_recovery_start_time = None;
            self.bytes_acked = 0;
            // 5.2.
            self.min_rtt = self.latest_rtt;
        }
    }

    /// 7.6.2, of all pairs of packets lost.
    fn in_persistent_congestion(&self, pc_lost: &[&SentPacket]) -> bool {
        if self.config.settings.persistent_congestion == 0 {
            return false;
        }
        let pto = self.smoothed_rtt
            + (self.rttvar * 4).max(self.config.settings.granularity)
            + self.config.settings.max_ack_delay;
        let duration = pto * u64::from(self.config.settings.persistent_congestion);
        pc_lost.iter().enumerate().any(|(i, first)| {
            pc_lost[i..].iter().any(|last| {
                let between = first.packet_number..last.packet_number;
                last.time_sent - first.time_sent > duration && between.into_iter().all(|n| self.lost.contains(&n))
            })
        })
    }
}

/// The fields that both have.
fn states(sender: &Sender, reference: &Reference) -> [String; 2] {
    let (s, r) = (sender, reference);
    let mds = r.max_datagram_size();
    let least = r.first_rtt_sample.map_or(Time::MAX, |_| r.min_rtt);
    let timer = r.loss_detection_timer.unwrap_or(Time::MAX);
    let recovery = r.congestion_recovery_start_time;
    let window = u64::from(s.control.cwnd.max(r.config.settings.min_window));
    // Reno's threshold is no less than two packets.
    let ssthresh = if r.ssthresh == u64::MAX { INFINITE_SSTHRESH } else { (r.ssthresh / mds).max(2) as u32 };
    let rtt = (s.rtt.smoothed(), s.rtt.least(), s.rtt.pto(&r.config));
    let pto = r.smoothed_rtt + (r.rttvar * 4).max(r.config.settings.granularity) + r.config.settings.max_ack_delay;
    [
        format!(
            "{:?} {:?} {:?} {:?}",
            (window, s.bytes_in_flight, s.recovery_start, s.pto_count, s.timer.not_before(), s.view.lost),
            rtt,
            (s.loss_time, s.control.ssthresh),
            numbers(s)
        ),
        format!(
            "{:?} {:?} {:?} {:?}",
            (r.congestion_window / mds, r.bytes_in_flight, recovery, r.pto_count, timer, r.lost.len()),
            (r.smoothed_rtt, least, pto),
            (r.loss_time, ssthresh),
            r.sent_packets.keys().collect::<Vec<_>>()
        ),
    ]
}

fn compare(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let mut bench = Bench::draw("reno", &mut source);
    // Reno halves to no less than two packets.
    bench.config.settings.min_window = 2;
    let mut reference = Reference::new(&bench.config);
    bench.run(&mut source, &mut |event, sender, out, now| {
        match event {
            Event::Send => {}
            Event::Timer => reference.on_loss_detection_timeout(now),
            Event::Ack(frame) => reference.on_ack_received(frame, now),
        }
        for burst in out {
            for number in burst.first..burst.first + u64::from(burst.count) {
                reference.on_packet_sent(number, reference.config.size(burst.len), now);
            }
        }
        // 7.8: packets that the pacer holds back leave the window used.
        let room = reference.congestion_window.saturating_sub(reference.bytes_in_flight);
        reference.limited = room >= reference.max_datagram_size() && sender.pacer.due == Time::MAX;
        let [real, plain] = states(sender, &reference);
        assert_eq!(real, plain, "at {now} after {event:?}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_sender_does_what_the_pseudocode_of_rfc_9002_does(bytes in prop::collection::vec(any::<u8>(), 0..1_500)) {
        compare(&bytes);
    }
}
