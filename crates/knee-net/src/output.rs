//! The output of a simulation: rows of time series as plain memory, and figures per flow and link.

use bytemuck::{Pod, Zeroable};
use knee_cc::CaState;
use knee_core::Time;
use knee_core::convert::nearest_f32;
use serde::Serialize;

/// One flow over one interval. Rates in Mbit/s, times in ms; NaN where there is no figure.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SampleRow {
    /// End of the interval, s.
    pub t_s: f64,
    /// Index of the flow.
    pub flow: u32,
    /// Phase of the algorithm in bits 0 to 7, state of loss recovery in bits 8 to 15 (0 open, 1 disorder, 2 cwr,
    /// 3 recovery, 4 loss), bit 16 set where the algorithm keeps its window in recovery too (`full_control`).
    pub state: u32,
    /// Payload that arrived for the first time.
    pub goodput_mbps: f32,
    /// IP packets and link overhead received.
    pub throughput_mbps: f32,
    /// IP packets and link overhead sent.
    pub sending_rate_mbps: f32,
    /// Mean of the RTT samples.
    pub rtt_mean_ms: f32,
    /// Least RTT sample.
    pub rtt_min_ms: f32,
    /// Greatest RTT sample.
    pub rtt_max_ms: f32,
    /// Smoothed RTT at the end.
    pub srtt_ms: f32,
    /// Window at the end.
    pub cwnd_packets: f32,
    /// Packets in flight at the end.
    pub in_flight_packets: f32,
    /// Pacing rate at the end; NaN where the flow is not paced.
    pub pacing_rate_mbps: f32,
    /// Packets deemed lost by the sender.
    pub lost_packets: u32,
    /// Packets retransmitted.
    pub retransmitted_packets: u32,
}

/// A sender's state at the end of an interval.
#[derive(Clone, Copy, Debug)]
pub struct SenderState {
    /// Phase of the algorithm.
    pub phase: u8,
    /// State of loss recovery.
    pub ca: CaState,
    /// True if the algorithm keeps its window in recovery too.
    pub full_control: bool,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Time,
    /// Window, packets. `None` if it has none.
    pub cwnd: Option<u32>,
    /// Packets in flight.
    pub in_flight: u32,
    /// Pacing rate, if the flow is paced.
    pub pacing_rate_bps: Option<u64>,
}

impl SampleRow {
    /// This row with what its flow's sender knows.
    #[must_use]
    pub fn with_sender(self, sender: &SenderState) -> Self {
        let ca = match sender.ca {
            CaState::Open => 0,
            CaState::Disorder => 1,
            CaState::Cwr => 2,
            CaState::Recovery => 3,
            CaState::Loss => 4,
        };
        Self {
            state: u32::from(sender.phase) | ca << 8 | u32::from(sender.full_control) << 16,
            srtt_ms: if sender.srtt == Time::ZERO { f32::NAN } else { nearest_f32(sender.srtt.as_millis_f64()) },
            cwnd_packets: sender.cwnd.map_or(f32::NAN, |cwnd| cwnd as f32),
            in_flight_packets: sender.in_flight as f32,
            pacing_rate_mbps: sender.pacing_rate_bps.map_or(f32::NAN, |bps| nearest_f32(bps as f64 / 1e6)),
            ..self
        }
    }
}

/// One link (or the reverse direction of one) over one interval.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LinkRow {
    /// End of the interval, s.
    pub t_s: f64,
    /// Bytes in the queue at the end.
    pub backlog_bytes: u64,
    /// Index of the link; reverse directions follow after all forward ones.
    pub link: u32,
    /// Packets in the queue at the end.
    pub backlog_packets: u32,
    /// Mean queueing delay of the packets that left, ms; NaN where none did.
    pub queue_delay_mean_ms: f32,
    /// Greatest queueing delay of the packets that left, ms; NaN where none did.
    pub queue_delay_max_ms: f32,
    /// Packets dropped by the queue or by random loss.
    pub drops: u32,
    /// Packets marked CE.
    pub marks: u32,
    /// Bytes that left over what the link could have carried.
    pub utilization: f32,
    /// Zero.
    pub reserved: u32,
}

/// Something that happened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct EventRow {
    /// When, s.
    pub t_s: f64,
    /// Its figure.
    pub value: f64,
    /// Index of the flow, or -1.
    pub flow: i32,
    /// Index of the link, or -1.
    pub link: i32,
    /// Index into [`Output::event_names`].
    pub event: u32,
    /// Zero.
    pub reserved: u32,
}

/// Datagrams of one flow over one interval. Times in ms; NaN where nothing arrived.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct DelayRow {
    /// End of the interval, s.
    pub t_s: f64,
    /// Index of the flow.
    pub flow: u32,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams that arrived.
    pub received: u32,
    /// Datagrams that never arrive, counted as the first later one does.
    pub lost: u32,
    /// Mean one-way delay.
    pub owd_mean_ms: f32,
    /// Greatest one-way delay.
    pub owd_max_ms: f32,
    /// Mean time until an echo is back; NaN where nothing is echoed.
    pub rtt_mean_ms: f32,
    /// Greatest time until an echo is back; NaN where nothing is echoed.
    pub rtt_max_ms: f32,
}

/// One bucket of a histogram of times, within the figures' window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct DistributionRow {
    /// Middle of the bucket, ms.
    pub value_ms: f64,
    /// How many fell into it.
    pub count: u64,
    /// Index of the flow or the link; reverse directions follow after all forward ones. `u32::MAX`: all flows together.
    pub index: u32,
    /// Quantity: 0 a flow's RTTs, 1 a flow's one-way delays, 2 a link's queueing delays.
    pub quantity: u32,
}

/// Quantity that a [`DistributionRow`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Quantity {
    /// A flow's RTTs.
    Rtt = 0,
    /// A flow's one-way delays.
    OneWayDelay = 1,
    /// A link's queueing delays.
    QueueDelay = 2,
}

const _: () = assert!(size_of::<DelayRow>() == 40 && size_of::<DistributionRow>() == 24);
const _: () = assert!(size_of::<SampleRow>() == 64 && size_of::<LinkRow>() == 48 && size_of::<EventRow>() == 32);

/// Figures of a flow, from its start plus warmup; names as in `summary.json`. Times in ms, rates in Mbit/s.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are the definitions of the result format")]
pub struct FlowFigures {
    pub goodput_mbps: f64,
    pub throughput_mbps: f64,
    pub sending_rate_mbps: f64,
    pub goodput_ratio: Option<f64>,
    pub rtt_mean_ms: Option<f64>,
    pub rtt_min_ms: Option<f64>,
    pub rtt_p50_ms: Option<f64>,
    pub rtt_p95_ms: Option<f64>,
    pub rtt_p99_ms: Option<f64>,
    pub rtt_max_ms: Option<f64>,
    pub queue_delay_mean_ms: Option<f64>,
    pub cwnd_mean_packets: Option<f64>,
    /// Packets in flight when the figures began: they may be lost within the figures.
    pub outstanding_packets: u64,
    pub sent_packets: u64,
    pub lost_packets: u64,
    pub retransmitted_packets: u64,
    pub timeouts: u64,
    pub completion_s: Option<f64>,
    /// Its datagrams, if it sends any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramFigures>,
    /// Throughput over the window in which all flows run ([`Output::common_window_s`]).
    pub common_throughput_mbps: Option<f64>,
    /// Payload that arrived for the first time in the window of the run ([`Output::window_s`]).
    pub delivered_bytes: u64,
    /// IP packets and link overhead received in that window.
    pub received_bytes: u64,
}

/// Figures of a flow's datagrams from the beginning of the flow's figures to the end of the run. Times in ms.
///
/// One-way delays are from the sender's call to the arrival of the last bit. A path takes half its base RTT in each
/// direction, unless its links alone delay longer in one.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are the definitions of the result format")]
pub struct DatagramFigures {
    pub sent: u64,
    pub received: u64,
    /// Datagrams that never arrived although later ones did.
    pub lost: u64,
    /// Datagrams that arrived marked CE.
    pub marked: u64,
    /// Echoes that came back. `None` if nothing is echoed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echoed: Option<u64>,
    pub owd_mean_ms: Option<f64>,
    pub owd_min_ms: Option<f64>,
    pub owd_p50_ms: Option<f64>,
    pub owd_p95_ms: Option<f64>,
    pub owd_p99_ms: Option<f64>,
    pub owd_max_ms: Option<f64>,
    /// Interarrival jitter at the end (RFC 3550, 6.4.1), and its mean over the packets.
    pub jitter_ms: Option<f64>,
    pub jitter_mean_ms: Option<f64>,
}

/// Figures of a link, warmup excluded; names as in `summary.json`.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names are the definitions of the result format")]
pub struct LinkFigures {
    pub link: String,
    pub utilization: f64,
    pub queue_delay_mean_ms: Option<f64>,
    pub queue_delay_p95_ms: Option<f64>,
    pub queue_delay_p99_ms: Option<f64>,
    pub queue_delay_max_ms: Option<f64>,
    pub drops: u64,
    /// Drops of packets that the receivers of flows sent: ACKs, echoes and reports.
    pub ack_drops: u64,
    pub marks: u64,
}

/// All that came out of a run, but for the rows.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Data packets delivered to their receivers.
    pub packets: u64,
    /// Figures per flow, in the order of the specification.
    pub flows: Vec<FlowFigures>,
    /// Figures per link: forward directions first, then the reverse directions that have a queue.
    pub links: Vec<LinkFigures>,
    /// The window of totals and of the links' figures, s: from the first start and the warmup to the end; none where
    /// that is later.
    pub window_s: Option<(f64, f64)>,
    /// From when to when all flows ran, s; none where there is no such time.
    pub common_window_s: Option<(f64, f64)>,
    /// Names of the events.
    pub event_names: Vec<String>,
}
