//! The way of packets and timers through the ends.

use super::log::EndpointLog;
use super::{AROUND_ACK, HEADERS, QuicEnds, ect, mark};
use crate::simulation::apps::Apps;
use crate::simulation::hosts::{At, End, HostPair, Outbox, Protocol, QuicContents};
use knee_core::convert::{index_u32, low_u32, saturating_u32};
use knee_core::packet::Seq;
use knee_core::{Packet, Payload, Time};
use knee_net::observe::{FlowCounts, Spread};
use knee_net::output::SenderState;
use knee_quic::{AckFrame, Arrival, DELAY_UNIT, Frames, Outgoing};
use knee_tcp::ends::EndTimer;

impl Protocol for HostPair<'_, QuicEnds> {
    #[inline]
    fn path(&self) -> u32 {
        self.i
    }

    #[inline]
    fn receiver_due(&self) -> Time {
        self.ends.due(End::Receiver)
    }

    #[inline]
    fn sender_due(&self) -> Time {
        self.ends.due(End::Sender)
    }

    fn connect(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        self.ends.log = self.log().map(|log| Box::new(EndpointLog::new(log)));
        let hello = self.ends.client.start(at.now, &self.settings.quic_ends);
        self.send_to_server(&hello, at, out);
        self.start_early(at, out);
        self.ends.note_rare_timers();
    }

    #[inline]
    fn on_data(&mut self, packet: &Packet, at: &At<'_>, out: &mut impl Outbox) {
        if !packet.has(Packet::SYN) {
            self.ends.received.count(packet);
        }
        self.arrive(End::Receiver, packet.payload, packet.flags, at, out);
    }

    #[inline]
    fn on_ack(&mut self, (payload, flags): (Payload, u8), at: &At<'_>, out: &mut impl Outbox) {
        self.arrive(End::Sender, payload, flags, at, out);
    }

    fn on_timer(&mut self, timer: EndTimer, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.not_before(timer) > at.now {
            return;
        }
        let (now, end, config) = (at.now, End::with(timer), &self.settings.quic_ends);
        if self.ends.rare_due[end as usize] <= now {
            if self.ends.times_out(end, now) {
                if end == End::Sender {
                    self.note_event(now, "idle_timeout", self.ends.sender.control.cwnd, out);
                }
                return;
            }
            self.on_handshake_timer(end, at, out);
        }
        if let Some(sender) = self.ends.tx(end).filter(|sender| sender.due() <= now) {
            if sender.timer.not_before() <= now {
                sender.on_timer(now, config, &mut self.stores.quic_outgoing);
            } else {
                sender.send(now, config, &mut self.stores.quic_outgoing);
            }
            self.after_sender(end, at, out);
        }
        if let Some(ack) = self.ends.rx(end).and_then(|receiver| receiver.on_timer(now)) {
            self.send_ack(end, ack, at, out);
        }
    }

    fn next_timer(&mut self, end: End, limit: Time) -> Option<(Time, EndTimer)> {
        // The first where both are due at once.
        let [first, second] = end.timers().map(|timer| (self.ends.not_before(timer), timer));
        let next = if first.0 <= second.0 { first } else { second };
        Some(next).filter(|(due, _)| *due < limit)
    }

    fn observe(&mut self, now: Time) -> (FlowCounts, SenderState, Spread) {
        let figures = self.ends.figures(now, &self.settings.quic_ends);
        let sender = SenderState { full_control: self.settings.has_full_control(self.record), ..figures.sender };
        (figures.counts(self.record, now), sender, self.record.take_rtts())
    }

    fn tell(&self, now: Time, apps: &mut Apps) {
        if let Some(progress) = self.ends.progress() {
            apps.after_progress(self.i, progress, now);
        }
    }
}

impl HostPair<'_, QuicEnds> {
    /// A packet with this payload and these flags has arrived at an end.
    #[inline]
    fn arrive(&mut self, end: End, payload: Payload, flags: u8, at: &At<'_>, out: &mut impl Outbox) {
        match payload {
            Payload::Stream { .. } if flags & Packet::SYN != 0 => self.on_handshake(end, payload, at, out),
            Payload::Stream { number, offset, len } => self.take_data(end, (number, offset, len), flags, at, out),
            Payload::QuicAck { next, delay } => {
                let Some(sender) = self.ends.tx(end) else { return };
                let top = (0, next.near(sender.view().snd_una));
                let delay = DELAY_UNIT * u64::from(delay);
                self.take_ack(end, &AckFrame { top, delay, ..AckFrame::default() }, at, out);
            }
            other => match self.stores.quic_packets.remove(other.key() as usize) {
                QuicContents::Ack(ack) => self.take_ack(end, &ack, at, out),
                QuicContents::Frames(number, frames) => self.take_frames(end, (number, &frames), flags, at, out),
            },
        }
    }

    /// Tells whether an end takes a packet of this number with `len` bytes of data, and notes that it has come.
    #[inline]
    fn takes(&mut self, end: End, (number, len): (Seq, u16), at: &At<'_>, out: &mut impl Outbox) -> bool {
        // An end has no keys for data of 1-RTT before the other's Finished has come.
        if !self.ends.open[end as usize] && !self.admits_early(end, (number, len), at, out) {
            return false;
        }
        self.ends.note_heard(end, at.now, &self.settings.quic_ends);
        true
    }

    /// Data has arrived at an end.
    #[inline]
    fn take_data(
        &mut self,
        end: End,
        (number, offset, len): (Seq, Seq, u16),
        flags: u8,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) {
        if !self.takes(end, (number, len), at, out) {
            return;
        }
        let Some(receiver) = self.ends.rx(end) else { return };
        let number = number.near(receiver.expected());
        let (place, len) = match flags & Packet::DATAGRAM {
            0 => (offset.near(receiver.in_order()), len),
            _ => (0, 0),
        };
        let arrival = Arrival { number, offset: place, len, eliciting: true, mark: mark(flags) };
        if flags & Packet::DATAGRAM != 0 {
            //= RFC 9221, 5
            //# When a QUIC endpoint receives a valid DATAGRAM frame, it SHOULD deliver the data to the application
            //# immediately, as long as it is able to process the frame and can store the contents in memory.
            self.ends.came.push(low_u32(offset.near(0)));
        }
        self.take_arrival(end, &arrival, None, at, out);
    }

    /// A packet with frames of several streams has arrived at an end.
    fn take_frames(
        &mut self,
        end: End,
        (number, frames): (u64, &Frames),
        flags: u8,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) {
        let len = frames.streams.iter().map(|frame| frame.len).sum();
        if !self.takes(end, (Seq::new(number), len), at, out) {
            return;
        }
        let arrival = Arrival { number, offset: 0, len: 0, eliciting: true, mark: mark(flags) };
        self.take_arrival(end, &arrival, Some(frames), at, out);
        if let Some(limit) = frames.max_streams
            && let Some(sender) = self.ends.tx(end)
        {
            sender.on_max_streams(limit);
            self.transmit(end, at, out);
        }
    }

    /// A packet has arrived at an end that takes data.
    #[inline]
    fn take_arrival(
        &mut self,
        end: End,
        arrival: &Arrival,
        frames: Option<&Frames>,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) {
        let Some(receiver) = self.ends.rx(end) else { return };
        let (is_first, config) = (receiver.expected() == 0, &self.settings.quic_ends);
        let ack = match frames {
            Some(frames) => receiver.on_frames(arrival, frames, at.now, config),
            None => receiver.on_packet(arrival, at.now, config),
        };
        // Stacks send the first data in the datagram of their Finished: the packet that says that the handshake is done
        // acknowledges it.
        if let Some(ack) = ack.or_else(|| if is_first { receiver.ack(at.now) } else { None }) {
            self.send_ack(end, ack, at, out);
        }
    }

    /// Keeps contents for which a packet has no room. Gives the payload that names them.
    fn store(&mut self, contents: QuicContents) -> Payload {
        Payload::Stored(index_u32(self.stores.quic_packets.insert(contents)))
    }

    /// An end sends an ACK now.
    #[inline]
    pub(super) fn send_ack(&mut self, end: End, ack: AckFrame, at: &At<'_>, out: &mut impl Outbox) {
        let size = HEADERS + AROUND_ACK + ack.size();
        if !self.ends.open[end as usize] && !self.sends_early(end, u64::from(size - HEADERS)) {
            return;
        }
        let payload = if let AckFrame { top: (0, top), ecn: None, delay, .. } = ack {
            let delay = saturating_u32(delay.as_nanos() / DELAY_UNIT.as_nanos());
            Payload::QuicAck { next: Seq::new(top), delay }
        } else {
            self.store(QuicContents::Ack(ack))
        };
        if end == End::Sender {
            self.ends.acks.0 += 1;
            self.ends.acks.1 += u64::from(size);
        }
        self.send(end, (payload, 0), (size, 1), at, out);
    }

    /// `count` packets of this size leave an end, the first with this payload.
    #[inline]
    pub(super) fn send(
        &mut self,
        end: End,
        (payload, flags): (Payload, u8),
        (size, count): (u16, u32),
        at: &At<'_>,
        out: &mut impl Outbox,
    ) {
        let packet = |flags| Packet { at: at.now, payload, flow: self.i, queued: 0, size, flags, hop: 0 };
        match end {
            End::Sender => out.data(packet(flags | ect(self.ends.sender.mark())), count, at),
            End::Receiver => {
                let first = packet(flags | Packet::ACK | self.ends.receiver_ect);
                (0..count).for_each(|k| out.ack(first.behind(k), at));
            }
        }
    }

    /// An ACK has arrived at an end.
    #[inline]
    fn take_ack(&mut self, end: End, ack: &AckFrame, at: &At<'_>, out: &mut impl Outbox) {
        if end == End::Sender
            && let Some(log) = &mut self.ends.log
        {
            log.note_received(at.now, ack, AROUND_ACK + ack.size());
        }
        // A client reads ACKs once it has the server's flight, a server once it has the client's Finished.
        let is_open = self.ends.open[end as usize];
        let Some(sender) = self.ends.tx(end).filter(|_| is_open) else { return };
        let rtt = sender.on_ack(ack, at.now, &self.settings.quic_ends, &mut self.stores.quic_outgoing);
        let rtt = rtt.unwrap_or_else(|violation| panic!("flow {}: {violation}", self.i));
        // Figures have the ACK's delay in them.
        let rtt = rtt.map(|_| sender.rtt().latest());
        self.ends.note_heard(end, at.now, &self.settings.quic_ends);
        if end == End::Sender {
            self.book_rtt(rtt, out);
        }
        self.after_sender(end, at, out);
    }

    /// Follows every call of an end's sender: its packets leave, its changes of state are noted.
    #[inline]
    pub(super) fn after_sender(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.log.is_some() && end == End::Sender {
            self.log_sender(at.now);
        }
        if !self.stores.quic_outgoing.is_empty() {
            self.send_outgoing(end, at, out);
        }
        if end == End::Receiver {
            return;
        }
        if self.ends.sender.control.cwnd != self.ends.cwnd_integral.2 {
            self.ends.note_cwnd(at.now);
        }
        let sender = &self.ends.sender;
        let (control, ca, persistent) = (sender.control, sender.view().ca, sender.totals().persistent);
        if control.phase != self.record.phase
            || ca != self.record.ca
            || persistent != u64::from(self.record.seen_timeouts)
        {
            self.note_states(at.now, &control, ca, saturating_u32(persistent), out);
        }
        // A flow that was stopped is done without having sent it all.
        if self.ends.sender.done() && self.ends.sender.new_bytes() == self.record.complete_at {
            self.complete(at.now, out);
        }
    }

    /// Sends what an end's sender has given; an ACK that waits there leaves before.
    #[inline]
    fn send_outgoing(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.back.is_some()
            && let Some(ack) = self.ends.rx(end).filter(|receiver| receiver.waits()).and_then(|rx| rx.ack(at.now))
        {
            self.send_ack(end, ack, at, out);
        }
        if !self.ends.open[end as usize] && end != self.ends.client_end {
            let bytes = |burst: &Outgoing| self.settings.quic_ends.size(burst.len) * u64::from(burst.count);
            self.ends.server.note_sent(self.stores.quic_outgoing.iter().map(bytes).sum());
        }
        self.ends.note_eliciting(end, at.now, &self.settings.quic_ends);
        let headers = HEADERS + self.settings.quic_ends.headers;
        let mut outgoing = std::mem::take(&mut self.stores.quic_outgoing);
        for Outgoing { first, count, offset, len, datagram, framed, .. } in outgoing.drain(..) {
            let frames = if framed { self.ends.tx(end).and_then(|sender| sender.frames(first)).cloned() } else { None };
            let payload = match frames {
                Some(frames) => self.store(QuicContents::Frames(first, frames)),
                None => Payload::Stream { number: Seq::new(first), offset: Seq::new(offset), len },
            };
            let flags = if datagram { Packet::DATAGRAM } else { 0 };
            self.send(end, (payload, flags), (headers + len, count), at, out);
        }
        self.stores.quic_outgoing = outgoing;
    }

    /// Logs what the sender has done.
    #[cold]
    fn log_sender(&mut self, now: Time) {
        let early = if self.ends.client_end == End::Sender { self.ends.early_end } else { 0 };
        let (QuicEnds { sender, log, .. }, config) = (&mut *self.ends, &self.settings.quic_ends);
        let Some(log) = log else { return };
        log.note_updated(now, sender, early, config);
        for burst in &self.stores.quic_outgoing {
            let (frames, size) = (sender.frames(burst.first).map(|frames| &**frames), config.headers + burst.len);
            log.note_sent(now, burst, early, frames, size);
        }
    }
}
