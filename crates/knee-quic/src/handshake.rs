//! The handshake by datagrams (RFC 9000, 7; RFC 9001, 4): the client's Initial, the server's flight with its
//! certificate, the client's Finished.
//!
//! Each end is a machine of its own that takes the other's datagrams and its timer, and gives the datagrams that leave.
//! The server sends at most three times what has come from an address that it has not validated. Every datagram of the
//! server's flight is acknowledged at once, which validates the address; what is lost is sent again after a probe
//! timeout. The client may send data as soon as it has the whole flight. Its Finished is sent again until the server
//! says that the handshake is done.
//!
//! With `retry` the server answers a hello without a token by a Retry packet, keeps nothing of it, and takes the
//! address of the hello with the token as validated. With `zero_rtt` the client's data leaves right behind its hello,
//! and the server's behind its flight: [`Server::receive_data`] counts data, [`Server::allowance`] says what may leave.
//!
//! Not modelled here: a client hello of several datagrams, version negotiation, and keys.

use crate::config::{Config, Settings};
use knee_core::Time;
use knee_core::convert::{low_u16, saturating_u16, saturating_u32};
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
const EXTENSIONS: u32 = 100;
const REST_OF_FLIGHT: u32 = EXTENSIONS + 12 + 80 + FINISHED as u32;
const FINISHED: u16 = 36;
/// Bytes of the flight in the server's first datagram, behind its Initial packet with a token length, and in others.
const IN_FIRST: u16 = FULL - (LONG + 1 + ACK + CRYPTO + SERVER_HELLO) - (LONG + CRYPTO);
const IN_OTHERS: u16 = FULL - (LONG + CRYPTO);
/// Bytes of the token of a Retry packet: ours.
const TOKEN: u16 = 64;
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
    /// Its hello with the token of a Retry packet, for the time of this number.
    HelloWithToken(u16),
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
    /// A Retry packet, with a token.
    Retry,
    /// The handshake is done.
    Done,
}

impl ToClient {
    /// Bytes of UDP payload.
    pub const fn size(&self) -> u16 {
        match *self {
            Self::Flight { size, .. } => size,
            // A long header with two IDs of 8 bytes, and the integrity tag (RFC 9000, 17.2.5).
            Self::Retry => 1 + 4 + 9 + 9 + TOKEN + 16,
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

/// The probe timeout of data that an end without a sender would have, from the RTT of the handshake.
pub fn pto_of_data(rtt: Option<Time>, config: &Config) -> Time {
    period(rtt, config).saturating_add(config.settings.max_ack_delay)
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
    has_token: bool,
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
        //= RFC 9000, 8.1.2
        //# This token MUST be repeated by the client in all Initial packets it sends for that connection after it
        //# receives the Retry packet.
        let what = if self.has_token { FromClient::HelloWithToken(number) } else { FromClient::Hello(number) };
        ToServer { what, came: 0, size: FULL }
    }

    /// A datagram has come. Gives what leaves for it.
    pub fn receive(&mut self, datagram: &ToClient, now: Time, config: &Config) -> Option<ToServer> {
        let (place, of, hello) = match *datagram {
            ToClient::Flight { place, of, hello, .. } => (place, of, hello),
            ToClient::Retry => return self.on_retry(now, config),
            ToClient::Done => {
                self.timer = Timer::OFF;
                return None;
            }
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

    /// A Retry packet has come: the hello leaves again, with its token.
    fn on_retry(&mut self, now: Time, config: &Config) -> Option<ToServer> {
        //= RFC 9000, 17.2.5.2
        //# After the client has received and processed an Initial or Retry packet from the server, it MUST discard any
        //# subsequent Retry packets that it receives.
        if self.has_token || self.came != 0 {
            return None;
        }
        //= RFC 9002, 6.3
        //# The client MAY compute an RTT estimate to the server as the time period from when the first Initial packet
        //# was sent to when a Retry or a Version Negotiation packet is received.
        if let [hello] = self.hellos[..] {
            self.rtt = Some(now.saturating_sub(hello));
        }
        //= RFC 9002, 6.3
        //# Clients that receive a Retry packet reset congestion control and loss recovery state, including resetting
        //# any pending timers.
        (self.has_token, self.probes) = (true, 0);
        //= RFC 9000, 17.2.5.2
        //# The client responds to a Retry packet with an Initial packet that includes the provided Retry token to
        //# continue connection establishment.
        Some(self.hello(now, config))
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

/// Bytes of the flight behind the server's hello. With 0-RTT the session is resumed, and the flight has neither
/// certificates nor a signature (RFC 8446, 2.2).
const fn rest_of_flight(config: &Config) -> u32 {
    let Settings { certificate, zero_rtt, .. } = config.settings;
    if zero_rtt { EXTENSIONS + FINISHED as u32 } else { certificate + REST_OF_FLIGHT }
}

impl Server {
    /// How many datagrams the flight has.
    fn count(config: &Config) -> u16 {
        let rest = rest_of_flight(config).saturating_sub(u32::from(IN_FIRST));
        1 + low_u16(u64::from(rest.div_ceil(u32::from(IN_OTHERS))))
    }

    /// A datagram of the flight.
    fn datagram(&self, place: u16, config: &Config) -> ToClient {
        let of = Self::count(config);
        let size = if place > 0 && place + 1 == of {
            let before = u32::from(IN_FIRST) + u32::from(of - 2) * u32::from(IN_OTHERS);
            LONG + CRYPTO + saturating_u16(u64::from(rest_of_flight(config) - before))
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
        if matches!(datagram.what, FromClient::Hello(_)) && config.settings.retry {
            //= RFC 9000, 8.1.2
            //# Upon receiving the client's Initial packet, the server can request address validation by sending a Retry
            //# packet (Section 17.2.5) containing a token.
            //= RFC 9000, 17.2.5.1
            //# A server MUST NOT send more than one Retry packet in response to a single UDP datagram.
            out.push(ToClient::Retry);
            return;
        }
        self.bytes.0 = self.bytes.0.saturating_add(datagram.size.into());
        let (before, mut again) = ((self.acked, self.bytes.1), false);
        match datagram.what {
            FromClient::Hello(number) | FromClient::HelloWithToken(number) => {
                //= RFC 9000, 8.1.2
                //# As long as it is not possible for an attacker to generate a valid token for its own address (see
                //# Section 8.1.4) and the client is able to return that token, it proves to the server that it received
                //# the token.
                self.validated |= matches!(datagram.what, FromClient::HelloWithToken(_));
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
        self.send_flight(config, out);
        // A datagram without news leaves a timer as it is.
        if (self.acked, self.bytes.1) != before || self.timer == Timer::OFF {
            self.set_timer(now, config);
        }
    }

    /// Sends the rest of the flight, as far as the address allows it.
    fn send_flight(&mut self, config: &Config, out: &mut Vec<ToClient>) {
        while self.sent < Self::count(config) && self.send(self.sent, config, out) {
            self.sent += 1;
        }
    }

    /// True once a hello has come that it answers with its flight: it has keys for 0-RTT from then on.
    pub const fn has_hello(&self) -> bool {
        self.sent > 0
    }

    /// Data of 0-RTT has come, in a datagram of this size; what leaves of the flight for it is added to `out`.
    pub fn receive_data(&mut self, size: u64, now: Time, config: &Config, out: &mut Vec<ToClient>) {
        //= RFC 9000, 8.1
        //# For the purposes of avoiding amplification prior to address validation, servers MUST count all of the
        //# payload bytes received in datagrams that are uniquely attributed to a single connection.
        self.bytes.0 = self.bytes.0.saturating_add(saturating_u32(size));
        let before = self.bytes.1;
        self.send_flight(config, out);
        if self.bytes.1 != before || self.timer == Timer::OFF {
            self.set_timer(now, config);
        }
    }

    /// Bytes that may leave behind the flight, as UDP's payload: none before all of it has left, and any number once
    /// the address is validated.
    pub fn allowance(&self, config: &Config) -> u64 {
        match (self.sent < Self::count(config), self.validated) {
            (true, _) => 0,
            (false, true) => u64::MAX,
            (false, false) => (3 * u64::from(self.bytes.0)).saturating_sub(self.bytes.1.into()),
        }
    }

    /// This many bytes have left behind the flight.
    pub fn note_sent(&mut self, bytes: u64) {
        self.bytes.1 = self.bytes.1.saturating_add(saturating_u32(bytes));
    }

    /// Sends a datagram of the flight, if the address allows it.
    fn send(&mut self, place: u16, config: &Config, out: &mut Vec<ToClient>) -> bool {
        let datagram = self.datagram(place, config);
        let sent = self.bytes.1.saturating_add(datagram.size().into());
        //= RFC 9000, 8.1
        //# Prior to validating the client address, servers MUST NOT send more than three times as many bytes as the
        //# number of bytes they have received.
        let allowed = self.validated || u64::from(sent) <= 3 * u64::from(self.bytes.0);
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
        let next = u64::from(self.bytes.1) + u64::from(FULL);
        let blocked = !self.validated && next > 3 * u64::from(self.bytes.0);
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
mod tests;
