//! s2n-quic's congestion controllers as [`Window`], so that `knee-evaluate` can run them.
//!
//! `docs/evaluate-rust.md` of knee lists which call gives what, and what differs from s2n-quic's own connection.

use knee_evaluate::{Acked, InFlight, Lost, Window};
use num_rational::Ratio;
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::packet::number::PacketNumberSpace::ApplicationData;
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::recovery::congestion_controller::Publisher;
use s2n_quic_core::recovery::{CongestionController, DEFAULT_INITIAL_RTT, RttEstimator};
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};
use std::time::Duration;

/// A controller of s2n-quic's, with what its connection would keep for it.
#[derive(Clone)]
pub struct S2n<C: CongestionController> {
    controller: C,
    mtu: u16,
    rtt: RttEstimator,
    flight: InFlight<C::PacketInfo>,
    /// Of the ACK that is being read: the bytes it acknowledges, and its newest packet.
    acked: Option<(u64, Duration, C::PacketInfo)>,
    /// When the newest packet left that was acknowledged.
    newest: Duration,
    /// Number of the packet that was lost last.
    lost: Option<u64>,
    app_limited: bool,
    random: Random,
    told: Told,
}

impl<C: CongestionController> S2n<C> {
    /// Fits a controller to datagrams of `mtu` bytes.
    pub fn new(controller: C, mtu: u16) -> Self {
        Self {
            controller,
            mtu,
            rtt: RttEstimator::new(DEFAULT_INITIAL_RTT),
            flight: InFlight::default(),
            acked: None,
            newest: Duration::ZERO,
            lost: None,
            app_limited: false,
            random: Random(0),
            told: Told::default(),
        }
    }
}

impl<C> Window for S2n<C>
where
    C: CongestionController + Sync,
    C::PacketInfo: Sync,
{
    fn on_sent(&mut self, now: Duration, bytes: u64) {
        let limited = Some(self.app_limited);
        let info = self.controller.on_packet_sent(stamp(now), bytes as usize, limited, &self.rtt, &mut self.told);
        self.flight.on_sent(now, bytes, info);
    }

    fn on_ack(&mut self, ack: &Acked) {
        self.app_limited = ack.app_limited;
        let Some(packet) = self.flight.on_ack(ack) else { return };
        let (bytes, sent, info) = self.acked.unwrap_or((0, packet.sent, packet.info));
        let (sent, info) = if packet.sent >= sent { (packet.sent, packet.info) } else { (sent, info) };
        self.acked = Some((bytes + packet.bytes, sent, info));
    }

    fn on_end_acks(&mut self, now: Duration, in_flight: u64) {
        if let Some((bytes, sent, info)) = self.acked.take() {
            self.random.0 ^= now.as_nanos() as u64;
            let (sent_at, at) = (stamp(sent), stamp(now));
            if sent >= self.newest {
                self.newest = sent;
                self.rtt.update_rtt(Duration::ZERO, now - sent, at, true, ApplicationData);
                self.controller.on_rtt_update(sent_at, at, &self.rtt, &mut self.told);
            }
            let (controller, random, told) = (&mut self.controller, &mut self.random, &mut self.told);
            controller.on_ack(sent_at, bytes as usize, info, &self.rtt, random, at, told);
        }
        let discarded = self.flight.on_end_acks(in_flight);
        if discarded > 0 {
            self.controller.on_packet_discarded(discarded as usize, &mut self.told);
        }
    }

    fn on_loss(&mut self, loss: &Lost) {
        let now = stamp(loss.now);
        if loss.bytes == 0 {
            self.controller.on_explicit_congestion(1, now, &mut self.told);
        }
        for packet in self.flight.on_loss(loss) {
            let burst = self.lost.is_none_or(|before| packet.number != before + 1);
            self.lost = Some(packet.number);
            let (controller, random, told) = (&mut self.controller, &mut self.random, &mut self.told);
            controller.on_packet_lost(packet.bytes as u32, packet.info, loss.persistent, burst, random, now, told);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.controller.on_mtu_update(mtu, &mut self.told);
    }

    fn window(&self) -> u64 {
        let window = u64::from(self.controller.congestion_window());
        if self.controller.requires_fast_retransmission() {
            // One packet may leave, however much is in flight.
            return window.max(self.flight.bytes() + 2 * u64::from(self.mtu));
        }
        window
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.told.0.map(|rate| rate.as_bytes_per_second().saturating_mul(8))
    }
}

/// s2n-quic's time of a time from the start of the connection on.
fn stamp(at: Duration) -> Timestamp {
    NoopClock.get_time() + at
}

/// Random numbers (SplitMix64) that the times of ACKs stir: flows have different ones, and a run repeats.
#[derive(Clone)]
struct Random(u64);

impl Generator for Random {
    fn public_random_fill(&mut self, dest: &mut [u8]) {
        for chunk in dest.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }

    fn private_random_fill(&mut self, dest: &mut [u8]) {
        self.public_random_fill(dest);
    }
}

/// What a controller tells of itself: its pacing rate is kept.
#[derive(Clone, Default)]
struct Told(Option<Bandwidth>);

impl Publisher for Told {
    fn on_pacing_rate_updated(&mut self, rate: Bandwidth, _burst: u32, _gain: Ratio<u64>) {
        self.0 = Some(rate);
    }

    fn on_slow_start_exited(&mut self, _: SlowStartExitCause, _window: u32) {}

    fn on_delivery_rate_sampled(&mut self, _: RateSample) {}

    fn on_bbr_state_changed(&mut self, _: BbrState) {}
}
