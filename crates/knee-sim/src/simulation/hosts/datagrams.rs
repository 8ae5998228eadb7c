//! Flows of datagrams: what an application sends without a connection.
//!
//! [`DatagramFlow::in_flight`] keeps a packet's content until it arrives or is dropped: a datagram goes there
//! and, where it is echoed, back; a report comes back.
//!
//! **One-way delay.** In the simulator the part of a base RTT that no link of the path has lies behind the last link of
//! the path back ([`knee_net::network`]). A path is as long in one direction as in the other unless its links say
//! otherwise: the one-way delay is the time across the links, and what these lack of half the base RTT. A datagram
//! counts as received when that has passed. Rates count it as it leaves the last link, as those of TCP do, and echoes
//! and reports leave then.

use super::{At, End, EndFigures, HostPair, Outbox};
use knee_cc::CaState;
use knee_core::convert::{index_u32, low_u32, saturating_u32};
use knee_core::{Packet, Payload, Received, Rng, Time};
use knee_net::network::FlowPath;
use knee_net::observe::{DatagramCounts, DatagramWatch};
use knee_net::output::SenderState;
use knee_net::spec::FlowSpec;
use knee_tcp::sender::Counters;
use knee_traffic::datagrams::{Arrival, HEADERS, Next, Reception, Reports, Source, source};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Both ends of a flow of datagrams.
#[derive(Clone)]
pub(in crate::simulation) struct DatagramFlow {
    source: Box<dyn Source>,
    /// When it goes on; `Time::MAX`: never.
    due: Time,
    /// Flags of its packets: none, or those of ECN.
    codepoint: u8,
    /// True if the other end sends each datagram back.
    echoes: bool,
    /// Datagrams sent, and their bytes as IP packets.
    sent: u64,
    sent_bytes: u64,
    /// Datagrams that have crossed the links.
    crossed: Received,
    /// Datagrams on the way to the receiver, in order.
    landing: VecDeque<Landing>,
    /// True if what comes to the receiver belongs to the figures.
    watched: bool,
    /// Datagrams that were dropped, and their bytes.
    dropped: u64,
    dropped_bytes: u64,
    /// Echoes that came back.
    echoed: u64,
    /// Datagrams that arrived marked CE.
    marked: u64,
    reception: Reception,
    /// Datagrams that were dropped, and of which later ones have arrived.
    lost: u64,
    /// Numbers of those that were dropped, and of which no later one has arrived.
    not_missed: BinaryHeap<Reverse<u64>>,
    /// Propagation delay of the links that data crosses.
    links_delay: Time,
    feedback: Option<Feedback>,
    /// Contents of the packets in the network.
    in_flight: Slab<Message>,
    pub(in crate::simulation) watch: DatagramWatch,
}

/// Content of a packet.
#[derive(Clone)]
enum Message {
    /// A datagram or its echo: when it was sent, and the low bits of its number.
    Datagram { sent: Time, number: u32 },
    /// A report of what has arrived: when it was sent, and the time across the links of the newest datagram in it.
    Report { sent: Time, across: Time, arrivals: Vec<Arrival> },
}

/// A datagram behind the last link.
#[derive(Clone)]
struct Landing {
    /// When it is at the receiver.
    at: Time,
    /// Its one-way delay.
    delay: Time,
    /// The low bits of its number.
    number: u32,
    packet: Packet,
}

/// Feedback of a receiver.
#[derive(Clone)]
struct Feedback {
    reports: Reports,
    /// When the next report leaves; `Time::MAX`: nothing has arrived since the last one.
    due: Time,
    /// Arrivals since the last report.
    arrivals: Vec<Arrival>,
    /// The time across the links of the newest of them.
    across: Time,
}

/// Bytes of a report as an IP packet (RFC 8888, 3.1): headers of IP and UDP, the RTCP header, the SSRC of its sender,
/// that of the stream with the first number and how many follow, two bytes for each datagram, padded to words, and the
/// report's time.
fn report_size(datagrams: u64) -> u16 {
    let words = datagrams.div_ceil(2).min(350);
    HEADERS + 8 + 8 + 4 * words as u16 + 4
}

impl DatagramFlow {
    /// Flow `i` of the specification with this seed. `None` if it sends no datagrams. Histograms of its delays have
    /// `2^bits` buckets per octave.
    pub(in crate::simulation) fn new(
        flow: &FlowSpec,
        i: usize,
        seed: u64,
        links_delay: Time,
        codepoint: u8,
        bits: u8,
    ) -> Option<Self> {
        let traffic = flow.traffic.as_ref()?;
        let source = source(traffic, codepoint & Packet::L4S != 0, Rng::stream(seed, &format!("datagrams/{i}")))?;
        let feedback = source.reports().map(|reports| Feedback {
            reports,
            due: Time::MAX,
            arrivals: Vec::new(),
            across: Time::ZERO,
        });
        Some(Self {
            source,
            due: Time::MAX,
            codepoint,
            echoes: traffic.echoes(),
            sent: 0,
            sent_bytes: 0,
            crossed: Received::default(),
            landing: VecDeque::new(),
            watched: false,
            dropped: 0,
            dropped_bytes: 0,
            echoed: 0,
            marked: 0,
            reception: Reception::default(),
            lost: 0,
            not_missed: BinaryHeap::new(),
            links_delay,
            feedback,
            in_flight: Slab::new(),
            watch: DatagramWatch::new(bits),
        })
    }

    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams that have crossed the links.
    pub(super) const fn received(&self) -> &Received {
        &self.crossed
    }

    /// Returns true if the other end sends each datagram back.
    pub(in crate::simulation) const fn echoes(&self) -> bool {
        self.echoes
    }

    /// When an end has something to do by itself.
    pub(super) fn due(&self, end: End) -> Time {
        match end {
            End::Sender => self.due,
            End::Receiver => self.feedback.as_ref().map_or(Time::MAX, |feedback| feedback.due),
        }
    }

    /// No datagram leaves from now on.
    pub(super) const fn stop(&mut self) {
        self.due = Time::MAX;
    }

    /// One of its packets was dropped.
    pub(super) fn on_drop(&mut self, packet: &Packet) {
        let message = self.in_flight.remove(packet.payload.key() as usize);
        if let Message::Datagram { number, .. } = message
            && !packet.has(Packet::ACK)
        {
            self.note_missing(self.number(number), packet.size);
        }
    }

    /// Counts as lost what was dropped before the latest one that has arrived.
    fn miss(&mut self) {
        while self.not_missed.peek().is_some_and(|Reverse(number)| *number < self.reception.expected()) {
            self.not_missed.pop();
            self.lost += 1;
        }
    }

    /// Counts as lost all that was dropped: nothing will arrive any more.
    pub(super) fn miss_all(&mut self) {
        self.lost += self.not_missed.len() as u64;
        self.not_missed.clear();
    }

    /// A packet of this flow, number `i`, that leaves `now` with a message.
    fn packet(&mut self, i: u32, message: Message, size: u16, flags: u8, now: Time) -> Packet {
        let payload = Payload::Stored(index_u32(self.in_flight.insert(message)));
        Packet { at: now, payload, flow: i, queued: 0, size, flags, hop: 0 }
    }

    /// The datagrams begin.
    pub(super) const fn begin(&mut self, now: Time) {
        self.due = now;
    }

    /// The size of the datagram that the source sends now, as an IP packet. None: it waits.
    pub(super) fn next(&mut self, now: Time) -> Option<u16> {
        while self.due <= now {
            match self.source.next(now) {
                Next::Wait(at) => self.due = at,
                Next::Send(size) => return Some(size),
            }
        }
        None
    }

    /// A datagram of this size is sent. Gives its number.
    pub(super) fn note_sent(&mut self, size: u16) -> u64 {
        let number = self.sent;
        self.sent += 1;
        self.sent_bytes += u64::from(size);
        number
    }

    /// A datagram of this number and size will not arrive.
    pub(super) fn note_missing(&mut self, number: u64, size: u16) {
        self.dropped += 1;
        self.dropped_bytes += u64::from(size);
        self.not_missed.push(Reverse(number));
        self.miss();
    }

    /// The number that has these low 32 bits.
    pub(super) const fn number(&self, low: u32) -> u64 {
        self.reception.number(low)
    }

    /// A report has come to the source.
    pub(super) fn on_report(&mut self, arrivals: &[Arrival], now: Time) {
        self.source.on_report(arrivals, now);
        // The feedback may let the source send before the time for which it waits.
        self.due = if self.due == Time::MAX { Time::MAX } else { now };
    }

    /// The receiver's report, if it is due, and its size as an IP packet.
    pub(super) fn take_report(&mut self, now: Time) -> Option<(Vec<Arrival>, u16)> {
        let feedback = self.feedback.as_mut().filter(|feedback| feedback.due <= now)?;
        feedback.due = Time::MAX;
        let arrivals = std::mem::take(&mut feedback.arrivals);
        let numbers = || arrivals.iter().map(|arrival| arrival.number);
        let spanned = numbers().max().unwrap_or(0) - numbers().min().unwrap_or(0) + 1;
        let size = report_size(spanned);
        Some((arrivals, size))
    }

    /// Counts so far.
    pub(in crate::simulation) const fn counts(&self) -> DatagramCounts {
        let Self { sent, echoed, marked, lost, reception, .. } = *self;
        DatagramCounts { sent, echoed, marked, lost, reception }
    }

    /// The figures begin; what has come to the receiver before is no part of them.
    pub(in crate::simulation) fn begin_figures(&mut self) {
        self.watched = true;
        self.watch.begin(self.counts());
    }

    /// Its figures so far.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        // As of what comes out of pipes, what arrives now is not counted yet.
        self.land(now.saturating_sub(Time::from_nanos(1)));
        let payload = |bytes: u64, packets: u64| bytes - u64::from(HEADERS) * packets;
        let received = self.reception.received();
        EndFigures {
            received: self.crossed,
            counters: Counters {
                sent: self.sent,
                sent_bytes: self.sent_bytes,
                retransmitted: 0,
                lost: self.lost,
                timeouts: 0,
            },
            delivered_bytes: payload(self.crossed.bytes, self.crossed.packets),
            new_bytes: payload(self.sent_bytes - self.dropped_bytes, self.sent - self.dropped),
            outstanding: self.sent - received - self.lost,
            cwnd_integral: 0,
            sender: SenderState {
                phase: 0,
                ca: CaState::Open,
                full_control: false,
                srtt: Time::ZERO,
                cwnd: None,
                in_flight: saturating_u32(self.sent - received - self.dropped),
                pacing_rate_bps: None,
            },
        }
    }

    /// A datagram of this number, sent at `sent`, has crossed the links `now`.
    pub(super) fn on_arrival(&mut self, (sent, number): (Time, u32), packet: &Packet, path: &FlowPath, now: Time) {
        self.crossed.count(packet);
        let rest = (path.base_rtt / 2).saturating_sub(self.links_delay);
        let last = self.landing.back().map_or(Time::ZERO, |last| last.at);
        self.landing.push_back(Landing { at: last.max(now + rest), delay: now - sent + rest, number, packet: *packet });
        if let Some(feedback) = &mut self.feedback {
            let (number, ce) = (self.reception.number(number), packet.has(Packet::CE));
            feedback.arrivals.push(Arrival { number, at: now, ce });
            feedback.across = now - sent;
            let full = feedback.arrivals.len() >= feedback.reports.packets;
            feedback.due = feedback.due.min(if full { now } else { now + feedback.reports.interval });
        }
        self.land(now);
    }

    /// Counts what has come to the receiver up to a time.
    fn land(&mut self, until: Time) {
        while self.landing.front().is_some_and(|first| first.at <= until) {
            let Some(Landing { delay, number, packet, .. }) = self.landing.pop_front() else { break };
            self.reception.on_datagram(number, delay);
            self.miss();
            self.marked += u64::from(packet.has(Packet::CE));
            self.watch.book(delay, self.watched);
        }
    }
}

impl HostPair<'_, DatagramFlow> {
    /// The datagrams begin.
    pub(super) fn start(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        self.ends.begin(at.now);
        self.send(at, out);
    }

    /// The source sends what it has now, unless it is not due.
    fn send(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        let (flow, now) = (&mut *self.ends, at.now);
        while let Some(size) = flow.next(now) {
            let datagram = Message::Datagram { sent: now, number: low_u32(flow.note_sent(size)) };
            let flags = flow.codepoint;
            out.data(flow.packet(self.i, datagram, size, flags, now), 1, at);
        }
    }

    /// A packet has arrived now: at the receiver, or, if it went against the data, at the sender.
    pub(super) fn on_packet(&mut self, at: &At<'_>, packet: &Packet, out: &mut impl Outbox) {
        let (flow, now) = (&mut *self.ends, at.now);
        match (flow.in_flight.remove(packet.payload.key() as usize), End::of(packet)) {
            (Message::Datagram { sent, number }, End::Receiver) => {
                flow.on_arrival((sent, number), packet, at.path, now);
                if flow.echoes {
                    let (echo, flags) = (Message::Datagram { sent, number }, Packet::ACK | flow.codepoint);
                    out.ack(flow.packet(self.i, echo, packet.size, flags, now), at);
                }
            }
            (Message::Datagram { sent, .. }, End::Sender) => {
                flow.echoed += 1;
                self.book_rtt(Some(now - sent), out);
            }
            (Message::Report { sent, across, arrivals }, End::Sender) => {
                flow.on_report(&arrivals, now);
                // Without the time for which the report waited, as RFC 8888 lets a sender tell.
                self.book_rtt(Some(across + (now - sent)), out);
                self.send(at, out);
            }
            (Message::Report { .. }, End::Receiver) => panic!("a report where data goes to: {packet:?}"),
        }
    }

    /// Fires a timer of an end if it is due.
    pub(super) fn on_timer(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        match end {
            End::Sender => self.send(at, out),
            End::Receiver => self.report(at, out),
        }
    }

    /// The receiver sends its report, unless it is not due.
    fn report(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        let (flow, now) = (&mut *self.ends, at.now);
        let Some((arrivals, size)) = flow.take_report(now) else { return };
        let across = flow.feedback.as_ref().map_or(Time::ZERO, |feedback| feedback.across);
        let report = Message::Report { sent: now, across, arrivals };
        out.ack(flow.packet(self.i, report, size, Packet::ACK, now), at);
    }
}
