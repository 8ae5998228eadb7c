//! One end of a QUIC connection in virtual time: a stack's protocol state machine, whose datagrams, clock, random
//! numbers and identifiers come from outside.
//!
//! A datagram's way: [`Peer::transmit`] gives those that may leave now; the network hands them to the other end's
//! [`Peer::receive`]; what the clock owes the connection happens in [`Peer::fire`] at [`Peer::deadline`]. After each of
//! them `transmit` is called until it gives nothing.

use crate::acks::acked_ranges;
use crate::connection::{CID_BYTES, Connection, Datagram, Ended, Settings, Stack, Stats, Updates};
use bytes::Bytes;
use knee_core::Time;
use knee_core::convert::index;
use knee_qlog::Log;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Bytes of UDP payload of a full datagram that every path takes (RFC 9000, 14).
pub const LEAST_MTU: u16 = 1200;
/// Zeros, which all connections write. quinn looks for data chunk by chunk, so chunks are large.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
/// A stream holds four windows of data that is not acknowledged, and at least this many bytes: a window is sent behind
/// a hole until what fills it is acknowledged, and more where that is lost too.
pub const LEAST_BUFFER: u64 = 1 << 20;
/// A transfer is written in chunks of this number: each counts until its last byte is acknowledged.
const CHUNKS: u64 = 16;

/// The messages that an application writes, on one stream. A stack drops a chunk of data once all up to its end is
/// acknowledged, and tells it in no other way.
#[derive(Default)]
struct Messages {
    /// Bytes that the application has given.
    given: u64,
    /// Bytes that the stream has taken.
    written: u64,
    /// Bytes acknowledged without a hole.
    acked: u64,
    /// Ends of the messages of which the stream has not taken all.
    ends: VecDeque<u64>,
    /// The chunks that are not acknowledged: their ends, and whether the stack still has them.
    chunks: VecDeque<(u64, Weak<()>)>,
}

/// Zeros of a chunk, dropped with it.
struct Zeros {
    size: usize,
    _held: Arc<()>,
}

impl AsRef<[u8]> for Zeros {
    fn as_ref(&self) -> &[u8] {
        &ZEROS[..self.size]
    }
}

impl Messages {
    /// The next chunk of at most `most` bytes. It does not go beyond a message, whose acknowledgement shows so.
    fn chunk(&self, most: u64, held: &Arc<()>) -> Bytes {
        let left = self.ends.front().map_or(0, |end| end - self.written);
        Bytes::from_owner(Zeros { size: index(left.min(most)), _held: held.clone() })
    }

    /// The stream has taken `bytes` of a chunk.
    fn take(&mut self, bytes: u64, held: &Arc<()>) {
        self.written += bytes;
        self.chunks.push_back((self.written, Arc::downgrade(held)));
        while self.ends.front().is_some_and(|end| *end <= self.written) {
            self.ends.pop_front();
        }
    }

    /// Notes which chunks the stack has dropped.
    fn note_acked(&mut self) {
        while let Some((end, _)) = self.chunks.front().filter(|(_, held)| held.strong_count() == 0) {
            self.acked = *end;
            self.chunks.pop_front();
        }
    }
}

/// One end of a connection.
pub struct Peer {
    connection: Box<dyn Connection>,
    /// Bytes still to be written; `None`: without end.
    to_write: Option<u64>,
    /// The messages of an application that writes as its data comes; none if the stream ends with what was to be
    /// written from the start.
    messages: Option<Messages>,
    /// Bytes that the stream could hold when it was last written to.
    buffer: u64,
    /// True if it took no more then.
    blocked: bool,
    /// Bytes of stream data that came, in any order.
    received: u64,
    in_order: u64,
    connected: bool,
    finished: bool,
    ended: Option<Ended>,
    /// When the algorithm's own pacing rate lets the next datagram go.
    next_departure: Time,
    /// True if it held one back when it was last asked.
    paced: bool,
    pacing_credit: Time,
    log: Option<Log>,
    tls: bool,
}

impl Peer {
    /// The end that connects at `now` and sends `bytes` (`None`: without end), under the congestion control that
    /// `stack` has.
    pub fn connect(stack: &dyn Stack, bytes: Option<u64>, settings: &Settings, now: Time) -> Self {
        Self::new(stack.connect(settings, now), bytes, settings)
    }

    /// The end that waits for a connection and reads what it is sent.
    pub fn receiver(stack: &dyn Stack, settings: &Settings) -> Self {
        Self::new(stack.listen(settings), Some(0), settings)
    }

    /// The end that connects at `now`, for an application that writes messages ([`Peer::send`]).
    pub fn client(stack: &dyn Stack, settings: &Settings, now: Time) -> Self {
        Self { messages: Some(Messages::default()), ..Self::new(stack.connect(settings, now), Some(0), settings) }
    }

    /// The end that waits for a connection of such an application, and writes messages, too.
    pub fn server(stack: &dyn Stack, settings: &Settings) -> Self {
        Self { messages: Some(Messages::default()), ..Self::receiver(stack, settings) }
    }

    fn new(connection: Box<dyn Connection>, to_write: Option<u64>, settings: &Settings) -> Self {
        Self {
            connection,
            to_write,
            messages: None,
            buffer: 0,
            blocked: false,
            received: 0,
            in_order: 0,
            connected: false,
            finished: false,
            ended: None,
            next_departure: Time::ZERO,
            paced: false,
            pacing_credit: settings.pacing_credit,
            log: settings.log.clone(),
            tls: settings.tls,
        }
    }

    /// A datagram of the other end has come.
    pub fn receive(&mut self, now: Time, datagram: Datagram) {
        self.set_log_time(now);
        if let Some(log) = self.log.as_ref().filter(|_| !self.tls) {
            log.set_acked(acked_ranges(&datagram.bytes, CID_BYTES));
        }
        self.connection.receive(now, datagram);
        self.take_updates();
    }

    /// The next datagram that may leave now.
    pub fn transmit(&mut self, now: Time) -> Option<Datagram> {
        self.set_log_time(now);
        self.paced = now < self.next_departure;
        if self.paced {
            return None;
        }
        let datagram = self.connection.transmit(now);
        if let Some(datagram) = &datagram
            && let Some(bits_per_s) = self.connection.pacing_rate()
        {
            let ns = datagram.bytes.len() as u128 * 8_000_000_000 / u128::from(bits_per_s.max(1));
            let from = self.next_departure.max(now.saturating_sub(self.pacing_credit));
            self.next_departure = from.saturating_add(Time::from_nanos(ns.min(1_000_000_000) as u64));
        }
        datagram
    }

    /// When [`Peer::fire`] is due, after which it may have something to send; `None`: nothing will happen by itself.
    pub fn deadline(&mut self) -> Option<Time> {
        let timer = self.connection.deadline();
        let paced = self.paced.then_some(self.next_departure);
        match (timer, paced) {
            (Some(timer), Some(paced)) => Some(timer.min(paced)),
            (timer, paced) => timer.or(paced),
        }
    }

    /// Handles what is due at `now`.
    pub fn fire(&mut self, now: Time) {
        self.set_log_time(now);
        if self.connection.deadline().is_some_and(|due| due <= now) {
            self.connection.fire(now);
            self.take_updates();
        }
    }

    /// The application stops: nothing is sent from now on, nor sent again.
    pub fn stop(&mut self) {
        self.to_write = Some(0);
        self.connection.reset();
    }

    /// The application writes a message of `bytes`: on the stream as soon as that takes it. Gives the message's end in
    /// the stream.
    pub fn send(&mut self, bytes: u64) -> u64 {
        let messages = self.messages.get_or_insert_default();
        messages.given += bytes;
        messages.ends.push_back(messages.given);
        let end = messages.given;
        self.to_write = self.to_write.map(|left| left + bytes);
        if self.connected {
            self.write(false);
        }
        end
    }

    /// Bytes of the stream that are acknowledged without a hole.
    pub fn acked(&self) -> u64 {
        self.messages.as_ref().map_or(0, |messages| messages.acked)
    }

    /// Returns true if all messages are acknowledged.
    pub fn settled(&self) -> bool {
        self.messages.as_ref().is_none_or(|messages| messages.acked == messages.given)
    }

    /// Bytes of the other end's stream that came without a hole.
    pub const fn in_order(&self) -> u64 {
        self.in_order
    }

    /// Bytes of stream data that came.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns true if the handshake is over.
    pub const fn connected(&self) -> bool {
        self.connected
    }

    /// Returns true if all there was to send has been acknowledged.
    pub const fn finished(&self) -> bool {
        self.finished
    }

    /// Why the connection ended before it was finished.
    pub const fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// The stack's figures of the connection; none before it began.
    pub fn stats(&mut self) -> Option<Stats> {
        self.connection.stats()
    }

    /// The stack's events are logged as of `now`.
    fn set_log_time(&self, now: Time) {
        if let Some(log) = &self.log {
            log.set_time(now);
        }
    }

    /// Only datagrams and timers bring updates.
    fn take_updates(&mut self) {
        let Updates { connected, writable, finished, ended, received, in_order } = self.connection.take_updates();
        self.connected |= connected;
        self.finished |= finished;
        self.ended = ended.or(self.ended.take());
        self.received += received;
        self.in_order = in_order;
        if let Some(messages) = &mut self.messages {
            messages.note_acked();
        }
        if self.connected && self.to_write != Some(0) {
            self.write(writable);
        }
    }

    /// Writes as much as the stream takes, once a chunk fits: chunk by chunk quinn looks for what to send, so that
    /// there should not be one for each ACK. It fits where enough has been acknowledged (`writable`), or where the
    /// window has grown.
    fn write(&mut self, writable: bool) {
        let buffer = self.connection.window().saturating_mul(4).max(LEAST_BUFFER);
        if self.blocked && !writable && buffer - buffer / CHUNKS < self.buffer {
            return;
        }
        (self.buffer, self.blocked) = (buffer, true);
        let chunk = (buffer / CHUNKS).min(ZEROS.len() as u64);
        while self.to_write != Some(0) {
            let held = Arc::new(());
            let data = match &self.messages {
                Some(messages) => messages.chunk(chunk, &held),
                None => Bytes::from_static(&ZEROS[..index(self.to_write.map_or(chunk, |left| left.min(chunk)))]),
            };
            let Some(written) = self.connection.write(data, buffer) else { return };
            if let Some(messages) = &mut self.messages {
                messages.take(written as u64, &held);
            }
            if let Some(left) = &mut self.to_write {
                *left -= written as u64;
            }
        }
        self.blocked = false;
        if self.messages.is_none() {
            self.connection.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    /// Data of a stream, and a stack's bounds on it.
    #[derive(Default)]
    struct Stream {
        window: u64,
        /// Bytes of the chunks that are not acknowledged whole, which count in full.
        chunks: Vec<u64>,
        /// Bytes acknowledged of the first chunk.
        acked: u64,
        send_window: u64,
        blocked: bool,
    }

    impl Stream {
        fn held(&self) -> u64 {
            self.chunks.iter().sum()
        }

        fn acknowledge(&mut self, bytes: u64) {
            self.acked += bytes;
            while let Some(&first) = self.chunks.first()
                && first <= self.acked
            {
                self.acked -= first;
                self.chunks.remove(0);
            }
        }
    }

    /// A connection that is open, with quinn's rules for writing ([`crate::Quinn`]) and nothing else of it.
    struct Open(Arc<Mutex<Stream>>);

    impl Connection for Open {
        fn receive(&mut self, _: Time, _: Datagram) {}

        fn transmit(&mut self, _: Time) -> Option<Datagram> {
            None
        }

        fn deadline(&mut self) -> Option<Time> {
            Some(Time::ZERO)
        }

        fn fire(&mut self, _: Time) {}

        fn take_updates(&mut self) -> Updates {
            let stream = &mut *self.0.lock().unwrap();
            let writable = stream.blocked && stream.held() < stream.send_window;
            stream.blocked &= !writable;
            Updates { connected: true, writable, ..Updates::default() }
        }

        fn write(&mut self, data: Bytes, buffer: u64) -> Option<usize> {
            let stream = &mut *self.0.lock().unwrap();
            let room = buffer.saturating_sub(stream.held()).min(data.len() as u64);
            if room == 0 {
                stream.blocked = true;
                stream.send_window = (buffer + 1).saturating_sub(data.len() as u64);
                return None;
            }
            stream.chunks.push(room);
            Some(index(room))
        }

        fn finish(&mut self) {}

        fn reset(&mut self) {}

        fn window(&self) -> u64 {
            self.0.lock().unwrap().window
        }

        fn pacing_rate(&self) -> Option<u64> {
            None
        }

        fn stats(&mut self) -> Option<Stats> {
            None
        }
    }

    struct Opens(Arc<Mutex<Stream>>);

    impl Stack for Opens {
        fn connect(&self, _: &Settings, _: Time) -> Box<dyn Connection> {
            Box::new(Open(self.0.clone()))
        }

        fn listen(&self, _: &Settings) -> Box<dyn Connection> {
            Box::new(Open(self.0.clone()))
        }
    }

    proptest! {
        /// Whatever the window does, also where it is many times the last one at once, the stream holds three windows
        /// that are not acknowledged, in some tens of chunks.
        #[test]
        fn a_stream_holds_windows_of_data_in_few_chunks(
            events in prop::collection::vec((300_000u64..1_000_000, 0u64..64, 1u64..3), 1..20)
        ) {
            let stream = Arc::new(Mutex::new(Stream { window: 300_000, ..Stream::default() }));
            let settings = Settings { receive_window: 0, ..Settings::default() };
            let mut peer = Peer::connect(&Opens(stream.clone()), None, &settings, Time::ZERO);
            peer.fire(Time::ZERO);
            for (window, acks, packets) in events {
                for grown in 0..acks {
                    {
                        let stream = &mut *stream.lock().unwrap();
                        stream.window = window + grown * packets * 1452;
                        stream.acknowledge(packets * 1452);
                    }
                    peer.fire(Time::ZERO);
                    let stream = stream.lock().unwrap();
                    let open = stream.held() - stream.acked;
                    prop_assert!(open >= 3 * stream.window, "{open} of a window of {}", stream.window);
                    prop_assert!(stream.chunks.len() <= 64, "{} chunks", stream.chunks.len());
                }
            }
        }
    }
}
