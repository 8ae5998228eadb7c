//! An application's messages, on a stream in each direction or on a stream each, and its datagrams (RFC 9221), one a
//! packet.

use super::{Back, QuicEnds};
use crate::simulation::hosts::{At, End, HostPair, Outbox, Progress, StreamMessage, StreamProgress};
use knee_core::convert::low_u32;
use knee_core::{Packet, Payload, Time};
use knee_quic::{Config, Receiver, Sender, SenderInit};

impl QuicEnds {
    /// A connection that is opened at `client_end`, with nothing to send yet, with a stream in each direction or
    /// several.
    pub(in crate::simulation) fn connection(
        init: &SenderInit,
        (client_end, streams): (End, bool),
        config: &Config,
        now: Time,
    ) -> Self {
        let init = SenderInit { bytes: Some(0), ..*init };
        let mut back = Back { sender: Sender::new(&init, config), receiver: Receiver::default() };
        let mut ends = Self::new(&init, config, now);
        if streams {
            ends.sender.use_streams(client_end == End::Sender, config);
            back.sender.use_streams(client_end == End::Receiver, config);
        }
        Self { client_end, back: Some(Box::new(back)), ..ends }
    }

    /// Streams on which messages have come, or are acknowledged, since the last call; none where the connection has one
    /// stream.
    pub(in crate::simulation) fn take_streams(&mut self) -> Option<StreamProgress> {
        if !self.sender.uses_streams() {
            return None;
        }
        let client = self.client_end;
        Some(StreamProgress {
            asked: self.rx(client.other())?.take_complete(),
            acked: self.tx(client)?.take_finished(),
            answered: self.rx(client)?.take_complete(),
        })
    }

    /// The end that opens the connection, where the application is.
    pub(in crate::simulation) const fn client_end(&self) -> End {
        self.client_end
    }

    /// The state of an application's messages; none where there is no application.
    pub(in crate::simulation) fn progress(&self) -> Option<Progress> {
        let back = self.back.as_deref()?;
        let is_silent = !self.receiver.waits() && !back.receiver.waits();
        let (asks, answers) = ((&self.sender, &self.receiver), (&back.sender, &back.receiver));
        let (asks, answers) = if self.client_end == End::Sender { (asks, answers) } else { (answers, asks) };
        Some(Progress {
            connected: self.is_established(self.client_end),
            shaken: self.open[self.client_end as usize],
            asked: (asks.1.in_order(), asks.0.acked()),
            answered: answers.1.in_order(),
            settled: self.sender.done() && back.sender.done() && is_silent || self.is_over(),
        })
    }

    /// True once the sender may send datagrams.
    pub(in crate::simulation) const fn may_send(&self) -> bool {
        self.established
    }

    /// An end has a datagram of `len` bytes to send; [`HostPair::transmit`] lets it leave.
    pub(in crate::simulation) fn push_datagram(&mut self, end: End, number: u64, len: u16, config: &Config) {
        let closed = self.closed[end as usize];
        if let Some(sender) = self.tx(end) {
            sender.push_datagram(number, len, config);
            if closed {
                sender.drop_datagrams();
            }
        }
    }

    /// Datagrams that have come to the end at work since the last call.
    pub(in crate::simulation) fn take_came(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.came)
    }

    /// The sender's datagrams that will not come, since the last call.
    pub(in crate::simulation) fn take_missing(&mut self) -> Vec<u32> {
        self.missing.extend(self.sender.take_dropped().into_iter().map(low_u32));
        std::mem::take(&mut self.missing)
    }

    /// True if an end has closed the connection: nothing comes there any more, and nothing leaves.
    pub(in crate::simulation) const fn is_closed(&self, end: End) -> bool {
        self.closed[end as usize]
    }

    /// A packet of the sender's was dropped.
    pub(in crate::simulation) fn note_dropped(&mut self, packet: &Packet) {
        if let Payload::Stream { offset, .. } = packet.payload
            && packet.has(Packet::DATAGRAM)
            && !packet.has(Packet::ACK)
        {
            self.missing.push(low_u32(offset.near(0)));
        }
    }

    /// The connection is over: nothing happens any more.
    pub(in crate::simulation) const fn close(&mut self) {
        (self.closed, self.open) = ([true; 2], [false; 2]);
    }
}

impl HostPair<'_, QuicEnds> {
    /// Sends what an end may send now.
    pub(in crate::simulation) fn transmit(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        let may_send = self.ends.is_established(end) && !self.ends.closed[end as usize];
        let Some(sender) = self.ends.tx(end).filter(|_| may_send) else { return };
        sender.send(at.now, &self.settings.quic_ends, &mut self.stores.quic_outgoing);
        self.after_sender(end, at, out);
    }

    /// The application, or, where not, the other end writes a message of `bytes`. Gives the message's end in the
    /// stream, and the end that sends it.
    pub(in crate::simulation) fn write(
        &mut self,
        asks: bool,
        bytes: u64,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) -> (u64, End) {
        let end = if asks { self.ends.client_end } else { self.ends.client_end.other() };
        let Some(sender) = self.ends.tx(end) else { return (u64::MAX, end) };
        sender.write(bytes);
        let message = sender.written();
        self.transmit(end, at, out);
        (message, end)
    }

    /// Writes a message with a stream of its own. Gives the end that sends it.
    pub(in crate::simulation) fn write_stream(
        &mut self,
        asks: bool,
        StreamMessage { stream, bytes, priority }: StreamMessage,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) -> End {
        let end = if asks { self.ends.client_end } else { self.ends.client_end.other() };
        if let Some(sender) = self.ends.tx(end) {
            sender.write_stream(stream, bytes, priority);
        }
        self.transmit(end, at, out);
        end
    }
}
