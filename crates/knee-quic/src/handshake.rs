//! The handshake by datagrams (RFC 9000, 7; RFC 9001, 4): the client's Initial, the server's flight with its
//! certificate, the client's Finished.
//!
//! Each end is a machine of its own that takes the other's datagrams and its timer, and gives the datagrams that leave.
//! The server sends at most three times what has come from an address that it has not validated. Every datagram of the
//! server's flight is acknowledged at once, which validates the address; what is lost is sent again after a probe
//! timeout. The client may send data as soon as it has the whole flight. Its Finished is sent again until the server
//! says that the handshake is done.
//!
//! Not modelled here: 0-RTT, Retry, a client hello of several datagrams, version negotiation, and keys.

use crate::config::Config;
use knee_core::Time;
use knee_core::convert::{low_u16, saturating_u16};
use knee_tcp::timer::Timer;
use smallvec::SmallVec;

//= RFC 9000, 14.1
//# A client MUST expand the payload of all UDP datagrams carrying Initial packets to at least the smallest allowed
//# maximum datagram size of 1200 bytes by adding PADDING frames to the Initial packet or by coalescing the Initial
//# packet; see Section 12.2.
/// Bytes of UDP payload of datagrams with an Initial packet, and the most of the others.
const FULL: u16 = 1200;
/// Bytes of a long header with IDs of 8 bytes, a length of 2 and a number of 2 (RFC 9000, 17.2), and of the tag.
const LONG: u16 = 1 + 4 + 9 + 9 + 2 + 2 + 16;
/// Bytes of the header of a CRYPTO frame (RFC 9000, 19.6) and of an ACK frame with one range (19.3).
const CRYPTO: u16 = 5;
const ACK: u16 = 5;
/// Bytes of TLS's messages (RFC 8446, 4): the server's hello; its encrypted extensions with transport parameters, the
/// rest of its certificate message, its signature by ECDSA and its Finished; the client's Finished.
const SERVER_HELLO: u16 = 90;
const REST_OF_FLIGHT: u32 = 100 + 12 + 80 + 36;
const FINISHED: u16 = 36;
/// Bytes of the flight in the server's first datagram, behind its Initial packet with a token length, and in others.
const IN_FIRST: u16 = FULL - (LONG + 1 + ACK + CRYPTO + SERVER_HELLO) - (LONG + CRYPTO);
const IN_OTHERS: u16 = FULL - (LONG + CRYPTO);
/// Datagrams of a flight that are told apart.
const MOST: u32 = 32;
/// The largest certificate whose flight has [`MOST`] datagrams.
pub const MOST_CERTIFICATE: u32 = IN_FIRST as u32 + (MOST - 1) * IN_OTHERS as u32 - REST_OF_FLIGHT;

/// A datagram of the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToServer {
    /// Its content.
    pub what: FromClient,
    /// A bit for each datagram of the server's flight that has come.
    pub came: u32,
    /// Bytes of UDP payload.
    pub size: u16,
}

/// Contents of the client's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Its hello, for the time of this number.
    Hello(u16),
    /// Acknowledgments.
    Acks,
    /// Its Finished.
    Finished,
}

/// A datagram of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// One of its flight.
    Flight {
        /// Its place in the flight, from 0.
        place: u16,
        /// How many datagrams the flight has.
        of: u16,
        /// The number of the latest hello that had come.
        hello: u16,
        /// Bytes of UDP payload.
        size: u16,
    },
    /// The handshake is done.
    Done,
}

impl ToClient {
    /// Bytes of UDP payload.
    pub const fn size(&self) -> u16 {
        match *self {
            Self::Flight { size, .. } => size,
            // A short header with its tag, HANDSHAKE_DONE, and a Handshake packet that acknowledges.
            Self::Done => 11 + 16 + 1 + LONG + ACK,
        }
    }
}

/// The bits of the first `count` datagrams.
const fn all(count: u16) -> u32 {
    if count as u32 >= MOST { u32::MAX } else { (1 << count) - 1 }
}

/// The probe timeout without backoff: from a first RTT sample, or from the initial RTT where there is none.
fn period(rtt: Option<Time>, config: &Config) -> Time {
    //= RFC 9002, 6.2.1
    //# When the PTO is armed for Initial or Handshake packet number spaces, the max_ack_delay in the PTO period
    //# computation is set to 0, since the peer is expected to not delay these packets intentionally; see Section
    //# 13.2.1 of [QUIC-TRANSPORT].
    let rtt = rtt.unwrap_or(config.settings.initial_rtt);
    rtt.saturating_add(rtt.mul_div(2, 1).max(config.settings.granularity))
}

fn after(now: Time, rtt: Option<Time>, probes: u32, config: &Config) -> Timer {
    Timer::at(now.saturating_add(period(rtt, config).mul_div(1 << probes.min(40), 1)))
}

/// The client's end.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// When each hello left.
    hellos: SmallVec<[Time; 2]>,
    came: u32,
    rtt: Option<Time>,
    probes: u32,
    has_flight: bool,
    /// The probe timeout.
    pub timer: Timer,
}

impl Client {
    /// It begins: its hello.
    pub fn start(&mut self, now: Time, config: &Config) -> ToServer {
        self.hello(now, config)
    }

    fn hello(&mut self, now: Time, config: &Config) -> ToServer {
        let number = saturating_u16(self.hellos.len() as u64);
        self.hellos.push(now);
        self.timer = after(now, self.rtt, self.probes, config);
        ToServer { what: FromClient::Hello(number), came: 0, size: FULL }
    }

    /// A datagram has come. Gives what leaves for it.
    pub fn receive(&mut self, datagram: &ToClient, now: Time, config: &Config) -> Option<ToServer> {
        let ToClient::Flight { place, of, hello, .. } = *datagram else {
            self.timer = Timer::OFF;
            return None;
        };
        let first = self.came == 0;
        if first {
            self.rtt = self.hellos.get(usize::from(hello)).map(|&sent| now.saturating_sub(sent));
        }
        self.came |= 1 << place;
        self.probes = 0;
        let was_whole = std::mem::replace(&mut self.has_flight, self.came == all(of));
        //= RFC 9000, 13.2.1
        //# An endpoint MUST acknowledge all ack-eliciting Initial and Handshake packets immediately and all
        //# ack-eliciting 0-RTT and 1-RTT packets within its advertised max_ack_delay, with the following exception.
        let what = if self.has_flight && !was_whole { FromClient::Finished } else { FromClient::Acks };
        if !was_whole {
            self.timer = after(now, self.rtt, 0, config);
        }
        Some(self.datagram(what, first))
    }

    /// A datagram with acknowledgments; the first has an Initial packet and is padded for that.
    const fn datagram(&self, what: FromClient, first: bool) -> ToServer {
        let finished = if matches!(what, FromClient::Finished) { CRYPTO + FINISHED } else { 0 };
        ToServer { what, came: self.came, size: if first { FULL } else { LONG + ACK + finished } }
    }

    /// The RTT, once it has the server's whole flight: from then on it may send data.
    pub fn connected(&self) -> Option<Time> {
        self.rtt.filter(|_| self.has_flight)
    }

    /// The timer may have fired: a probe.
    pub fn on_timer(&mut self, now: Time, config: &Config) -> Option<ToServer> {
        if now < self.timer.not_before() {
            return None;
        }
        self.probes += 1;
        if self.came == 0 {
            return Some(self.hello(now, config));
        }
        self.timer = after(now, self.rtt, self.probes, config);
        //= RFC 9002, 6.2.2.1
        //# When the PTO fires, the client MUST send a Handshake packet if it has Handshake keys, otherwise it MUST send
        //# an Initial packet in a UDP datagram with a payload of at least 1200 bytes.
        Some(self.datagram(if self.has_flight { FromClient::Finished } else { FromClient::Acks }, false))
    }
}

/// The server's end.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The number of the latest hello, and when it came.
    hello: u16,
    /// Bytes that came, and that were sent.
    bytes: (u32, u32),
    /// Datagrams of the flight that were sent, and that were acknowledged.
    sent: u16,
    acked: u32,
    validated: bool,
    /// When the flight began, and the RTT.
    began: Time,
    rtt: Option<Time>,
    probes: u32,
    done: bool,
    /// The probe timeout.
    pub timer: Timer,
}

impl Server {
    /// How many datagrams the flight has.
    fn count(config: &Config) -> u16 {
        let rest = (config.settings.certificate + REST_OF_FLIGHT).saturating_sub(u32::from(IN_FIRST));
        1 + low_u16(u64::from(rest.div_ceil(u32::from(IN_OTHERS))))
    }

    /// A datagram of the flight.
    fn datagram(&self, place: u16, config: &Config) -> ToClient {
        let of = Self::count(config);
        let size = if place > 0 && place + 1 == of {
            let before = u32::from(IN_FIRST) + u32::from(of - 2) * u32::from(IN_OTHERS);
            LONG + CRYPTO + saturating_u16(u64::from(config.settings.certificate + REST_OF_FLIGHT - before))
        } else {
            //= RFC 9000, 14.1
            //# Similarly, a server MUST expand the payload of all UDP datagrams carrying ack-eliciting Initial packets
            //# to at least the smallest allowed maximum datagram size of 1200 bytes.
            FULL
        };
        ToClient::Flight { place, of, hello: self.hello, size }
    }

    /// True once the client's Finished has come: data is accepted from then on.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// The RTT, once the client's Finished has come: from then on it may send data.
    pub fn connected(&self) -> Option<Time> {
        self.rtt.filter(|_| self.done)
    }

    /// A datagram has come; what leaves for it is added to `out`.
    pub fn receive(&mut self, datagram: &ToServer, now: Time, config: &Config, out: &mut Vec<ToClient>) {
        self.bytes.0 += u32::from(datagram.size);
        let (before, mut again) = ((self.acked, self.bytes.1), false);
        match datagram.what {
            FromClient::Hello(number) => {
                // A hello again: the client misses the flight (RFC 9002, 6.2.3).
                again = self.sent > 0 && number > self.hello;
                self.hello = self.hello.max(number);
                if self.sent == 0 {
                    self.began = now;
                }
            }
            FromClient::Acks | FromClient::Finished => {
                //= RFC 9000, 8.1
                //# Once an endpoint has successfully processed a Handshake packet from the peer, it can consider the
                //# peer address to have been validated.
                self.validated = true;
                self.rtt = self.rtt.or(Some(now.saturating_sub(self.began)));
                self.acked |= datagram.came;
                self.probes = 0;
            }
        }
        if datagram.what == FromClient::Finished {
            self.done = true;
            self.timer = Timer::OFF;
            out.push(ToClient::Done);
            return;
        }
        if again {
            self.send_again(usize::MAX, config, out);
        }
        while self.sent < Self::count(config) && self.send(self.sent, config, out) {
            self.sent += 1;
        }
        // A datagram without news leaves a timer as it is.
        if (self.acked, self.bytes.1) != before || self.timer == Timer::OFF {
            self.set_timer(now, config);
        }
    }

    /// Sends a datagram of the flight, if the address allows it.
    fn send(&mut self, place: u16, config: &Config, out: &mut Vec<ToClient>) -> bool {
        let datagram = self.datagram(place, config);
        let sent = self.bytes.1 + u32::from(datagram.size());
        //= RFC 9000, 8.1
        //# Prior to validating the client address, servers MUST NOT send more than three times as many bytes as the
        //# number of bytes they have received.
        let allowed = self.validated || sent <= 3 * self.bytes.0;
        if allowed {
            self.bytes.1 = sent;
            out.push(datagram);
        }
        allowed
    }

    /// Sends the first datagrams again that were sent and not acknowledged.
    fn send_again(&mut self, most: usize, config: &Config, out: &mut Vec<ToClient>) {
        let open: SmallVec<[u16; 4]> = (0..self.sent).filter(|place| self.acked >> place & 1 == 0).take(most).collect();
        for place in open {
            if !self.send(place, config, out) {
                return;
            }
        }
    }

    fn set_timer(&mut self, now: Time, config: &Config) {
        //= RFC 9002, 6.2.2.1
        //# If no additional data can be sent, the server's PTO timer MUST NOT be armed until datagrams have been
        //# received from the client because packets sent on PTO count against the anti-amplification limit.
        let blocked = !self.validated && self.bytes.1 + u32::from(FULL) > 3 * self.bytes.0;
        let waits = !self.done && self.acked != all(self.sent);
        self.timer = if waits && !blocked { after(now, self.rtt, self.probes, config) } else { Timer::OFF };
    }

    /// The timer may have fired: probes are added to `out`.
    pub fn on_timer(&mut self, now: Time, config: &Config, out: &mut Vec<ToClient>) {
        if now < self.timer.not_before() {
            return;
        }
        self.probes += 1;
        self.send_again(2, config, out);
        self.set_timer(now, config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use knee_core::testing::Source;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Arrival of a datagram, at the server or at the client.
    #[derive(Clone, Copy, Debug)]
    enum Arrives {
        ToServer(ToServer),
        ToClient(ToClient),
    }

    /// A handshake over a path of 50 ms each way. Datagrams leave 1 us apart, so that they stay in order.
    struct Bench {
        client: Client,
        server: Server,
        config: Config,
        due: BTreeMap<(Time, u64), Arrives>,
        sent: u64,
        /// Datagrams lost, by how many have been sent.
        lost: Vec<u64>,
        bytes: (u64, u64),
        validated: bool,
    }

    impl Bench {
        fn new(certificate: u32, lost: &[u64]) -> Self {
            let config = Config::new(&Settings { certificate, ..Settings::default() }).unwrap();
            let (client, server) = (Client::default(), Server::default());
            let (due, lost) = (BTreeMap::new(), lost.to_vec());
            Self { client, server, config, due, sent: 0, lost, bytes: (0, 0), validated: false }
        }

        fn put(&mut self, now: Time, what: Arrives) {
            if let Arrives::ToClient(datagram) = what {
                self.bytes.1 += u64::from(datagram.size());
                assert!(self.validated || self.bytes.1 <= 3 * self.bytes.0, "amplification: {:?}", self.bytes);
            }
            if !self.lost.contains(&self.sent) {
                self.due.insert((now + Time::from_millis(50), self.sent), what);
            }
            self.sent += 1;
        }

        /// Runs until nothing is due. Gives when the client may send data, and when the server takes it, us.
        fn run(&mut self) -> (Option<u64>, Option<u64>) {
            let (mut connected, mut done) = (None, None);
            let hello = self.client.start(Time::ZERO, &self.config);
            self.put(Time::ZERO, Arrives::ToServer(hello));
            for _ in 0..1_000 {
                let next = self.due.keys().next().map_or(Time::MAX, |key| key.0);
                let timers = [self.client.timer.not_before(), self.server.timer.not_before()];
                let now = timers.into_iter().fold(next, Time::min);
                if now == Time::MAX {
                    return (connected, done);
                }
                let mut out = Vec::new();
                if now == next {
                    match self.due.pop_first().unwrap().1 {
                        Arrives::ToServer(datagram) => {
                            self.bytes.0 += u64::from(datagram.size);
                            self.validated |= !matches!(datagram.what, FromClient::Hello(_));
                            self.server.receive(&datagram, now, &self.config, &mut out);
                        }
                        Arrives::ToClient(datagram) => {
                            let answer = self.client.receive(&datagram, now, &self.config);
                            if let Some(answer) = answer {
                                self.put(now, Arrives::ToServer(answer));
                            }
                        }
                    }
                } else if now == timers[0] {
                    let probe = self.client.on_timer(now, &self.config);
                    if let Some(probe) = probe {
                        self.put(now, Arrives::ToServer(probe));
                    }
                } else {
                    self.server.on_timer(now, &self.config, &mut out);
                }
                for datagram in out {
                    self.put(now, Arrives::ToClient(datagram));
                }
                let us = now.as_nanos() / 1_000;
                connected = connected.or(self.client.connected().map(|_| us));
                done = done.or(self.server.is_done().then_some(us));
            }
            panic!("it goes on for ever");
        }
    }

    fn takes(certificate: u32, lost: &[u64]) -> (Option<u64>, Option<u64>) {
        Bench::new(certificate, lost).run()
    }

    /// RFC 9000, 8.1: 3600 bytes leave for a hello of 1200, of which Initial and Handshake packets take some 300. quinn
    /// behind 100 ms takes 102 ms with certificates of up to 2.6 kB and 203 ms from 3.8 kB on.
    #[test]
    fn a_certificate_that_does_not_fit_in_three_datagrams_costs_a_round_trip() {
        let ms = |certificate| takes(certificate, &[]).0.unwrap() / 1_000;
        assert_eq!([0, 400, 2_600, 3_800, 9_000].map(ms), [100, 100, 100, 200, 200]);
        let largest = (0..4_000).rev().find(|&certificate| ms(certificate) == 100).unwrap();
        assert_eq!(largest, u32::from(IN_FIRST + 2 * IN_OTHERS) - REST_OF_FLIGHT);
    }

    /// By RFC 9002, 6.2.2, the first probe timeout is 333 + 4 * 166.5 = 999 ms; after an RTT of 100 ms, 300 ms.
    #[test]
    fn a_lost_datagram_costs_a_probe_timeout() {
        let all = takes(400, &[]);
        assert_eq!(all, (Some(100_000), Some(150_000)));
        assert_eq!(takes(400, &[0]), (Some(1_099_000), Some(1_149_000)), "the hello");
        assert_eq!(takes(400, &[0, 1]), (Some(999_000 + 1_998_000 + 100_000), Some(3_147_000)), "two of them");
        assert_eq!(takes(400, &[2]), (Some(100_000), Some(100_000 + 300_000 + 50_000)), "the Finished");
        assert_eq!(takes(400, &[3]), all, "what says that it is done");
        // The client sends its hello again, before the server's timer fires for its own.
        assert_eq!(takes(400, &[1]).0, Some(999_000 + 100_000), "the flight");
        // The second of three datagrams: the client's acknowledgment of the first tells the server the RTT.
        assert_eq!(takes(2_600, &[2]).0, Some(150_000 + 300_000 + 50_000), "one of the flight");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Whatever is lost, it comes to an end, and no more leaves than three times what came ([`Bench::put`]).
        #[test]
        fn whatever_is_lost_the_handshake_ends(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut source = Source::new(&bytes);
            let certificate = source.log_uniform(15) as u32;
            let lost: Vec<u64> = (0..30).filter(|_| source.chance(100)).collect();
            let (connected, done) = takes(certificate.min(MOST_CERTIFICATE), &lost);
            prop_assert!(connected.is_some() && done.is_some());
        }
    }
}
