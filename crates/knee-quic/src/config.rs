//! The settings of a connection, declared once with unit, range and source, and the form that its ends read.

use crate::frame::DELAY_UNIT;
use knee_core::convert::{saturating_u16, truncated};
use knee_core::{Bytes, Conflict, Time, params};

/// Parts that gains and thresholds are counted in, so that 9/8, 5/4 and 1.25 are exact.
const PARTS: u64 = 1 << 16;

params! {
    /// The settings of a connection. The defaults are RFC 9002's.
    pub struct Settings {
        /// payload of a full UDP datagram, bytes
        datagram: u32 = 1200, in 1200..=65_527, from "RFC 9000, 14: at least 1200; 18.2: at most 65527";
        /// bytes of a datagram that carry no data: QUIC's header, the tag of its encryption, the head of a STREAM frame
        headers: u32 = 33, in 20..=100,
            from "RFC 9000, 17.3.1 and 19.8: 11 with an ID of 8 bytes and a number of 2; RFC 9001, 5.3: 16; 6";
        /// bytes of the server's certificates
        certificate: u32 = 400, in 0..=crate::handshake::MOST_CERTIFICATE, from "ours: one by ECDSA, signed by itself";
        /// the server asks for a token first
        retry: bool = false, from "RFC 9000, 8.1.2";
        /// the client knows the server: its data leaves behind its hello
        zero_rtt: bool = false, from "RFC 9001, 4.6.1";
        /// longest time without a packet from the peer after which an end closes the connection; 0: there is none
        idle_timeout: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(1_000_000), from "RFC 9000, 10.1";
        /// initial window, packets
        initial_window: u32 = 10, in 1..=10_000, from "RFC 9002, 7.2";
        /// bytes that limit the initial window, unless two packets are more
        initial_bytes: u32 = 14_720, in 1200..=1_000_000_000, from "RFC 9002, 7.2";
        //= RFC 9002, 7.2
        //# The RECOMMENDED value is 2 * max_datagram_size.
        /// least window, packets
        min_window: u32 = 2, in 1..=1000, from "RFC 9002, 7.2";
        //= RFC 9002, 6.2.2
        //# When no previous RTT is available, the initial RTT SHOULD be set to 333 milliseconds.
        /// RTT before the first sample
        initial_rtt: Time = Time::from_millis(333), in Time::from_micros(1)..=Time::from_secs(60),
            from "RFC 9002, 6.2.2";
        //= RFC 9002, 6.1.1
        //# The RECOMMENDED initial value for the packet reordering threshold (kPacketThreshold) is 3, based on best
        //# practices for TCP loss detection [RFC5681] [RFC6675].
        //= RFC 9002, 6.1.1
        //# In order to remain similar to TCP, implementations SHOULD NOT use a packet threshold less than 3; see
        //# [RFC5681].
        /// packets by which a packet is reordered before it is lost
        packet_threshold: u32 = 3, in 3..=1_000_000, from "RFC 9002, 6.1.1";
        //= RFC 9002, 6.1.2
        //# The RECOMMENDED time threshold (kTimeThreshold), expressed as an RTT multiplier, is 9/8.
        /// most packets to which the reach of a loss that was none raises that threshold; 0: it stays
        packet_threshold_most: u32 = 0, in 0..=1_000_000, from "RFC 9002, 6.1.1; quiche, Chromium";
        /// most packets to which half of those in flight raise that threshold; 0: they do not
        flight_threshold_most: u32 = 0, in 0..=1_000_000, from "RFC 9002, 6.1.1; ngtcp2";
        /// RTTs by which a packet is reordered before it is lost
        time_threshold: f64 = 1.125, in 1.0..=8.0, from "RFC 9002, 6.1.2";
        //= RFC 9002, 6.1.2
        //# The RECOMMENDED value of the timer granularity (kGranularity) is 1 millisecond.
        /// RTTs by which that is from the first loss that was none on; 0: as before
        late_time_threshold: f64 = 0.0, in 0.0..=8.0, from "RFC 9002, 6.1.2; quiche";
        /// in place of those thresholds, a quarter of the smoothed RTT but at most this, beyond the latest RTT and the
        /// delay of an ACK; 0: the thresholds hold
        reordering_window: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(1), from "picoquic";
        /// granularity of timers
        granularity: Time = Time::from_millis(1), in Time::from_nanos(1)..=Time::from_secs(1), from "RFC 9002, 6.1.2";
        /// packets that leave when the probe timeout fires
        probes: u32 = 2, in 1..=2, from "RFC 9002, 6.2.4; quinn, neqo, quiche, msquic, ngtcp2";
        /// packets that leave when it fires first
        first_probes: u32 = 2, in 1..=2, from "RFC 9002, 6.2.4; quiche has 1";
        /// variations of the RTT in a probe timeout
        pto_variations: u32 = 4, in 1..=16, from "RFC 9002, 6.2.1; Chromium has 2, picoquic 3";
        /// least probe timeout; 0: there is none
        least_pto: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(10), from "RFC 9002, 6.2.1; picoquic";
        //= RFC 9002, 7.6.1
        //# The RECOMMENDED value for kPersistentCongestionThreshold is 3, which results in behavior that is
        //# approximately equivalent to a TCP sender declaring an RTO after two TLPs.
        /// probe timeouts that a row of losses has to span to be persistent congestion; 0: it is never found
        persistent_congestion: u32 = 3, in 0..=1000, from "RFC 9002, 7.6.1";
        /// probe timeouts in a row after more of which losses are persistent congestion; 0: however many
        persistent_probes: u32 = 0, in 0..=1000, from "msquic";
        /// most that an ACK waits
        max_ack_delay: Time = Time::from_millis(25), in Time::ZERO..=Time::from_millis(524),
            from "RFC 9000, 18.2; ours: 16 bits of 8 us";
        /// an ACK leaves with this many packets that elicit one
        ack_every: u32 = 2, in 1..=10_000, from "RFC 9000, 13.2.2; draft-ietf-quic-ack-frequency";
        /// the same from packet `ack_later_from` on; 0: as before
        ack_every_later: u32 = 0, in 0..=10_000, from "RFC 9000, 13.2.2; Chromium";
        /// number of the packet from which ACKs are rarer, and by `ack_delay_rtt` earlier
        ack_later_from: u32 = 100, in 0..=1_000_000, from "Chromium";
        /// ACKs for the packets of an RTT, if each is for 64 at most; 0: however many
        acks_per_rtt: u32 = 0, in 0..=1000, from "picoquic";
        /// RTTs of the handshake that an ACK waits at most, from packet `ack_later_from` on; 0: it is not limited so
        ack_delay_rtt: f64 = 0.0, in 0.0..=8.0, from "Chromium, picoquic";
        /// packets by which one has to be missing for an ACK at once; 0: none leaves for that
        reordering: u32 = 1, in 0..=1_000_000,
            from "RFC 9000, 13.2.1; draft-ietf-quic-ack-frequency, Reordering Threshold";
        /// most ranges of an ACK, older ones are forgotten
        ack_ranges: u32 = 32, in 1..=1000, from "RFC 9000, 13.2.3; ours: as neqo and ngtcp2";
        //= RFC 9002, 7.7 (departs: without pacing only the window limits them)
        //# Senders MUST either use pacing or limit such bursts.
        /// pace packets, also where the algorithm does not ask for it
        pacing: bool = true, from "RFC 9002, 7.7";
        /// windows sent per RTT, where the algorithm sets no rate
        pacing_gain: f64 = 1.25, in 1.0..=16.0, from "RFC 9002, 7.7";
        /// the same in slow start
        pacing_gain_start: f64 = 1.25, in 1.0..=16.0, from "RFC 9002, 7.7; msquic and Chromium have 2";
        /// packets that leave together where they are paced: the pacer waits until it lets as many go
        gso: u32 = 1, in 1..=64, from "ours: one; stacks hand a batch to the kernel (UDP_SEGMENT)";
        /// packets that leave at once though they are paced
        burst: u32 = 10, in 1..=10_000, from "RFC 9002, 7.7: the initial window";
        /// time whose packets are a burst where they are more, up to 256; 0: it is of as many packets always
        burst_time: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(1), from "quinn, ngtcp2, msquic";
        /// windows, as one over this, that a burst is at most, but two packets; 0: it is not limited so
        burst_share: u32 = 0, in 0..=1000, from "picoquic";
        /// packets that leave at once where none is in flight and no loss is being repaired; 0: as always
        burst_first: u32 = 0, in 0..=10_000, from "Chromium, msquic";
        /// a packet for which there is no room waits until there is for a whole burst
        refill_whole: bool = false, from "quinn, ngtcp2, msquic";
        /// a packet that had to wait for less leaves at once; 0: each waits
        least_wait: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(1), from "neqo, Chromium";
        /// smoothed RTT below which packets are not paced; 0: they are by any
        pacing_least_rtt: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(1), from "msquic";
        /// bytes of datagrams that may wait, each with 32 more; the oldest are dropped
        datagram_buffer: Bytes = Bytes(1 << 20), in Bytes(2048)..=Bytes(1 << 30), from "ours: as quinn and noq";
        /// bytes beyond those that were acknowledged in order that the peer takes (MAX_DATA)
        receive_window: Bytes = Bytes(1 << 30), in Bytes(1200)..=Bytes((1 << 31) - 1),
            from "ours: nothing is held back";
        /// the same of one stream (MAX_STREAM_DATA)
        stream_receive_window: Bytes = Bytes(1 << 30), in Bytes(1200)..=Bytes((1 << 31) - 1),
            from "ours: nothing is held back";
        /// streams that the peer lets a client have open at once, where it uses several (MAX_STREAMS)
        max_streams: u32 = 100, in 1..=1_000_000, from "quinn 0.11";
    }
}

/// Bytes of [`Settings::headers`] that are the head of a STREAM frame.
const STREAM_HEAD: u16 = 6;

/// A factor as a whole number of parts.
#[derive(Clone, Copy, Debug)]
pub struct Factor(u64);

impl Factor {
    /// The factor nearest to `x`.
    fn of(x: f64) -> Self {
        Self(truncated((x * PARTS as f64).round()))
    }

    /// `time` times this.
    pub const fn of_time(self, time: Time) -> Time {
        time.mul_div(self.0, PARTS)
    }

    /// `rate` times this.
    pub const fn of_rate(self, rate: knee_core::Rate) -> knee_core::Rate {
        rate.mul_div(self.0, PARTS)
    }
}

/// Settings that were checked, as both ends read them.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    /// Bytes of a full datagram's UDP payload.
    pub datagram: u16,
    /// Bytes of it that carry no data.
    pub headers: u16,
    /// Initial window in packets, with the limit in bytes.
    pub initial_window: u32,
    /// RTTs by which a packet is reordered before it is lost.
    pub time_threshold: Factor,
    /// RTTs by which that is after a loss that was none.
    pub late_time_threshold: Factor,
    /// Windows sent per RTT.
    pub pacing_gain: Factor,
    /// Bytes beyond those acknowledged in order that the peer takes of the only stream of a connection.
    pub only_stream_window: u64,
    /// Windows sent per RTT in slow start.
    pub pacing_gain_start: Factor,
    /// RTTs that an ACK waits at most; zero: it is not limited so.
    pub ack_delay_rtt: Factor,
    /// The bucket is another than that of RFC 9002.
    pub tunes_pacer: bool,
    /// ACKs do not always leave with `ack_every` packets, or after `max_ack_delay`.
    pub varies_acks: bool,
    /// Thresholds of losses change, or one is not in RTTs.
    pub varies_thresholds: bool,
}

impl Config {
    /// Checks that settings do not contradict each other; each alone is within its declared range.
    ///
    /// # Errors
    /// With the setting that contradicts another one, its value, and the values that would be accepted.
    pub fn new(settings: &Settings) -> Result<Self, Conflict> {
        let Settings { datagram, initial_window, initial_bytes, min_window, .. } = *settings;
        //= RFC 9002, 7.2
        //# Endpoints SHOULD use an initial congestion window of ten times the maximum datagram size
        //# (max_datagram_size), while limiting the window to the larger of 14,720 bytes or twice the maximum datagram
        //# size.
        let window = initial_window.min((initial_bytes / datagram).max(2));
        if window < min_window {
            let found = format!("{min_window} packets, and the initial window is {window}");
            return Err(conflict("min_window", found, format!("at most {window}")));
        }
        //= RFC 9000, 17.2.3
        //# After a client receives a Retry packet, 0-RTT packets are likely to have been lost or discarded by the
        //# server.
        if settings.zero_rtt && settings.retry {
            let found = "true, and with `retry` the server discards the data of each first flight".to_owned();
            return Err(conflict("zero_rtt", found, "one of the two, or none".to_owned()));
        }
        if settings.persistent_congestion > 0 && settings.persistent_probes > 0 {
            let found = format!("{}, and `persistent_congestion` finds it otherwise", settings.persistent_probes);
            return Err(conflict("persistent_probes", found, "one of the two to be 0".to_owned()));
        }
        let Settings { receive_window, stream_receive_window, .. } = *settings;
        for (key, window) in [("receive_window", receive_window), ("stream_receive_window", stream_receive_window)] {
            if window.0 < u64::from(datagram) {
                let found = format!("{window}, and a datagram has {datagram}");
                return Err(conflict(key, found, format!("at least {datagram} B")));
            }
        }
        if settings.max_ack_delay > Time::ZERO && settings.max_ack_delay < DELAY_UNIT {
            let found = format!("{}, and ACKs report their delay in units of {DELAY_UNIT}", settings.max_ack_delay);
            return Err(conflict("max_ack_delay", found, format!("0 s, or at least {DELAY_UNIT}")));
        }
        Ok(Self {
            settings: *settings,
            datagram: saturating_u16(u64::from(datagram)),
            headers: saturating_u16(u64::from(settings.headers)),
            initial_window: window,
            time_threshold: Factor::of(settings.time_threshold),
            late_time_threshold: Factor::of(match settings.late_time_threshold {
                0.0 => settings.time_threshold,
                late => late,
            }),
            pacing_gain: Factor::of(settings.pacing_gain),
            only_stream_window: receive_window.0.min(stream_receive_window.0),
            pacing_gain_start: Factor::of(settings.pacing_gain_start),
            ack_delay_rtt: Factor::of(settings.ack_delay_rtt),
            tunes_pacer: Self::tunes_pacer(settings),
            varies_acks: settings.ack_every_later > 0 || settings.acks_per_rtt > 0 || settings.ack_delay_rtt > 0.0,
            varies_thresholds: Self::varies_thresholds(settings),
        })
    }

    fn varies_thresholds(settings: &Settings) -> bool {
        let by_time = settings.reordering_window > Time::ZERO || settings.late_time_threshold > 0.0;
        by_time || settings.flight_threshold_most > 0
    }

    fn tunes_pacer(settings: &Settings) -> bool {
        let Settings { pacing_gain, pacing_gain_start, refill_whole, gso, .. } = *settings;
        let Settings { burst_time, burst_share, burst_first, least_wait, pacing_least_rtt, .. } = *settings;
        let has_time = [burst_time, least_wait, pacing_least_rtt].iter().any(|time| *time > Time::ZERO);
        has_time
            || burst_share > 0
            || burst_first > 0
            || refill_whole
            || gso > 1
            || pacing_gain.to_bits() != pacing_gain_start.to_bits()
    }

    /// Bytes of data in a full packet.
    pub const fn payload(&self) -> u16 {
        self.datagram - self.headers
    }

    /// Bytes for frames in a packet of several streams: the head of each is counted with it.
    pub const fn room(&self) -> u16 {
        self.payload() + STREAM_HEAD
    }

    /// Bytes of a datagram with `data` bytes of data.
    pub const fn size(&self, data: u16) -> u64 {
        self.headers as u64 + data as u64
    }
}

impl Default for Config {
    fn default() -> Self {
        // The defaults contradict each other nowhere, which a test holds.
        match Self::new(&Settings::default()) {
            Ok(config) => config,
            Err(conflict) => panic!("{conflict}"),
        }
    }
}

const fn conflict(key: &'static str, found: String, accepted: String) -> Conflict {
    Conflict { key, found, accepted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::{Params, Value};

    fn given(name: &str, value: Value) -> Result<Config, String> {
        let params = Params::resolve(Settings::DECLARED, [(name, value)]).map_err(|error| error.to_string())?;
        Config::new(&Settings::from(&params)).map_err(|conflict| conflict.to_string())
    }

    /// RFC 9002, 7.2: ten packets, but at most 14,720 bytes unless two packets are more.
    #[test]
    fn the_initial_window_is_ten_packets_within_14_720_bytes() {
        let windows = [1200, 1452, 1500, 9000].map(|n| given("datagram", Value::Count(n)).unwrap().initial_window);
        assert_eq!(windows, [10, 10, 9, 2]);
    }

    #[test]
    fn a_refused_setting_is_named_with_its_value() {
        let refused = |name, value| given(name, value).unwrap_err();
        assert_eq!(refused("packet_threshold", Value::Count(2)), "`packet_threshold` is 2; expected 3 to 1000000");
        assert_eq!(refused("datagram", Value::Count(576)), "`datagram` is 576; expected 1200 to 65527");
        assert_eq!(
            refused("min_window", Value::Count(11)),
            "`min_window`: 11 packets, and the initial window is 10; at most 10"
        );
        assert_eq!(
            refused("max_ack_delay", Value::Time(Time::from_micros(3))),
            "`max_ack_delay`: 3 us, and ACKs report their delay in units of 8 us; 0 s, or at least 8 us"
        );
        let settings = Settings { receive_window: Bytes(1300), datagram: 1400, ..Settings::default() };
        let refused = Config::new(&settings).unwrap_err().to_string();
        assert_eq!(refused, "`receive_window`: 1300 B, and a datagram has 1400; at least 1400 B");
        let settings = Settings { zero_rtt: true, retry: true, ..Settings::default() };
        let refused = Config::new(&settings).unwrap_err().to_string();
        assert!(refused.starts_with("`zero_rtt`: true, and with `retry`"), "{refused}");
        assert!(refused.ends_with("; one of the two, or none"), "{refused}");
        let settings = Settings { persistent_probes: 2, ..Settings::default() };
        let refused = Config::new(&settings).unwrap_err().to_string();
        let found = "`persistent_probes`: 2, and `persistent_congestion` finds it otherwise; one of the two to be 0";
        assert_eq!(refused, found);
    }

    #[test]
    fn thresholds_are_exact() {
        let config = Config::default();
        assert_eq!(config.time_threshold.of_time(Time::from_nanos(8_000_000_008)), Time::from_nanos(9_000_000_009));
        assert_eq!(config.pacing_gain.of_rate(knee_core::Rate::from_mbps(4)), knee_core::Rate::from_mbps(5));
        assert_eq!((config.payload(), config.size(config.payload())), (1167, 1200));
    }
}
