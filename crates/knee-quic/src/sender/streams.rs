//! The streams of a connection that has several at once: what each has to send, and packets with their frames.
//!
//! A client opens a stream for each message, and its answer comes on the same one. A stream ends with its message. The
//! peer's limits of data (MAX_DATA, MAX_STREAM_DATA) follow from what it has acknowledged without a hole: it reads that
//! at once. Its limit of streams comes in MAX_STREAMS frames.

use super::Sender;
use super::schedule::Schedule;
use crate::config::Config;
use crate::frames::{Frames, StreamFrame, fitting, max_streams_size};
use crate::ranges::Ranges;
use knee_core::Priority;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Room for which no frame is begun, bytes: quinn's bound of a STREAM frame's head.
const LEAST_ROOM: u16 = 25;

/// A stream until all of it is acknowledged.
#[derive(Clone, Debug)]
struct SendStream {
    priority: Priority,
    /// The next byte that was never sent, and the byte after the last.
    next: u64,
    end: u64,
    /// Bytes that were acknowledged, and those that have to be sent again.
    acked: Ranges,
    lost: Ranges,
}

/// Bytes of a stream that may leave.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u64,
    to: u64,
    /// They were sent before.
    again: bool,
}

impl SendStream {
    /// Gives the bytes that leave next: lost ones, or new ones within the stream's `window` and the connection's
    /// `credit`.
    fn run(&self, window: u64, credit: u64) -> Option<Run> {
        if let Some(&(from, to)) = self.lost.as_slice().first() {
            return Some(Run { from, to, again: true });
        }
        //= RFC 9000, 2.2
        //# An endpoint MUST NOT send data on any stream without ensuring that it is within the flow control limits set
        //# by its peer.
        //= RFC 9000, 4.1
        //# Senders MUST NOT send data in excess of either limit.
        let limit = self.acked.first_missing(0).saturating_add(window).min(self.next.saturating_add(credit));
        let to = limit.min(self.end);
        (self.next < to).then_some(Run { from: self.next, to, again: false })
    }

    /// `frame` leaves.
    fn send(&mut self, frame: &StreamFrame, again: bool) {
        if again {
            self.lost.remove(frame.offset, frame.end());
        } else {
            self.next = frame.end();
        }
    }

    fn has_more(&self) -> bool {
        !self.lost.is_empty() || self.next < self.end
    }
}

/// Sums of a packet's frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed {
    /// Bytes of frames.
    pub size: u16,
    /// Bytes of data that were never sent before, and that were.
    pub new: u64,
    pub again: u64,
}

/// The streams of a connection.
#[derive(Clone, Debug)]
pub struct Streams {
    open: BTreeMap<u64, SendStream>,
    schedule: Schedule,
    /// Frames of packets in flight, and of lost ones while their acknowledgment may still come, by number.
    sent: BTreeMap<u64, Arc<Frames>>,
    /// Bytes of all streams that are acknowledged without a hole, and that were sent at least once.
    in_order: u64,
    new_bytes: u64,
    /// How many streams the peer lets this end open; `u64::MAX`: this end opens none.
    allowed: u64,
    /// How many streams were acknowledged to their end, and those of them that nobody was told of.
    done: u64,
    finished: Vec<u64>,
    /// How many streams this end lets the peer open, and whether a packet has to tell it.
    granted: u64,
    tells_limit: bool,
}

impl Streams {
    fn new(opens: bool, config: &Config) -> Self {
        let limit = u64::from(config.settings.max_streams);
        Self {
            open: BTreeMap::new(),
            schedule: Schedule::default(),
            sent: BTreeMap::new(),
            in_order: 0,
            new_bytes: 0,
            allowed: if opens { limit } else { u64::MAX },
            done: 0,
            finished: Vec::new(),
            granted: limit,
            tells_limit: false,
        }
    }

    /// Gives the bytes of stream `id` that leave next.
    fn run(&self, id: u64, config: &Config) -> Option<Run> {
        let settings = &config.settings;
        let credit = self.in_order.saturating_add(settings.receive_window.0).saturating_sub(self.new_bytes);
        //= RFC 9000, 4.6
        //# Endpoints MUST NOT exceed the limit set by their peer.
        //= RFC 9000, 19.11
        //# An endpoint MUST NOT open more streams than permitted by the current stream limit set by its peer.
        let stream = self.open.get(&id).filter(|_| id < self.allowed)?;
        stream.run(settings.stream_receive_window.0, credit)
    }

    /// The stream that is served next: the one whose turn it is of those that may send, lost data or new.
    fn first(&self, config: &Config) -> Option<u64> {
        //= RFC 9218, 12
        //# It could prioritize new data for a higher-urgency stream over retransmission data for a lower-priority
        //# stream, or it could prioritize retransmission data over new data irrespective of urgencies.
        self.schedule.next(|id| self.run(id, config).is_some())
    }

    /// True if a packet may leave.
    pub fn may_send(&self, config: &Config) -> bool {
        self.tells_limit || self.first(config).is_some()
    }

    /// True once all that was written is acknowledged.
    pub fn done(&self) -> bool {
        self.open.is_empty() && !self.tells_limit
    }

    /// Fills packet `number` with frames of as many streams as it has room for.
    fn pack(&mut self, number: u64, config: &Config) -> Packed {
        let (mut frames, mut packed, mut room) = (Frames::default(), Packed::default(), config.room());
        if std::mem::take(&mut self.tells_limit) {
            frames.max_streams = Some(self.granted);
            room -= max_streams_size(self.granted);
        }
        while room >= LEAST_ROOM
            && let Some(id) = self.first(config)
        {
            self.fill(id, &mut frames, &mut packed, &mut room, config);
        }
        packed.size = config.room() - room;
        self.sent.insert(number, Arc::new(frames));
        packed
    }

    /// Puts frames of stream `id` into a packet, which is its turn: lost data, then new data.
    fn fill(&mut self, id: u64, frames: &mut Frames, packed: &mut Packed, room: &mut u16, config: &Config) {
        while *room >= LEAST_ROOM
            && let Some(Run { from, to, again }) = self.run(id, config)
            && let Some(stream) = self.open.get_mut(&id)
        {
            let (len, size) = fitting(id, from, to - from, *room);
            let frame = StreamFrame { stream: id, offset: from, len, fin: from + u64::from(len) == stream.end };
            stream.send(&frame, again);
            frames.streams.push(frame);
            *room -= size;
            if again {
                packed.again += u64::from(len);
            } else {
                packed.new += u64::from(len);
                self.new_bytes += u64::from(len);
            }
        }
        let Some(stream) = self.open.get(&id) else { return };
        if stream.has_more() {
            self.schedule.served(id, stream.priority);
        } else {
            self.schedule.remove(id, stream.priority);
        }
    }

    /// Packet `number` was acknowledged.
    pub fn acknowledge(&mut self, number: u64, config: &Config) {
        let Some(frames) = self.sent.remove(&number) else { return };
        for frame in &frames.streams {
            let Some(stream) = self.open.get_mut(&frame.stream) else { continue };
            let before = stream.acked.first_missing(0);
            stream.acked.insert(frame.offset, frame.end());
            //= RFC 9000, 13.3
            //# A sender SHOULD avoid retransmitting information from packets once they are acknowledged.
            stream.lost.remove(frame.offset, frame.end());
            let in_order = stream.acked.first_missing(0);
            self.in_order += in_order - before;
            let (priority, over) = (stream.priority, in_order == stream.end);
            if !stream.has_more() {
                self.schedule.remove(frame.stream, priority);
            }
            if over {
                self.open.remove(&frame.stream);
                self.finished.push(frame.stream);
                self.done += 1;
            }
        }
        self.raise_limit(config);
    }

    /// Lets the peer open more streams where some are over, in steps of an eighth as quinn does.
    fn raise_limit(&mut self, config: &Config) {
        //= RFC 9000, 4.6
        //# Implementations might choose to increase limits as streams are closed, to keep the number of streams
        //# available to peers roughly consistent.
        let most = u64::from(config.settings.max_streams);
        if self.allowed == u64::MAX && self.done + most - self.granted > most / 8 {
            (self.granted, self.tells_limit) = (self.done + most, true);
        }
    }

    /// Lets the frames of packet `number` be sent again, but for bytes that were acknowledged. True if there are some.
    pub fn send_again(&mut self, number: u64) -> bool {
        let Some(frames) = self.sent.get(&number) else { return false };
        //= RFC 9000, 13.3
        //# Like MAX_DATA, an updated value is sent when a packet containing the most recent MAX_STREAMS for a stream
        //# type frame is declared lost or when the limit is updated, with care taken to prevent the frame from being
        //# sent too often.
        let mut some = frames.max_streams == Some(self.granted);
        self.tells_limit |= some;
        for frame in &frames.streams {
            let Some(stream) = self.open.get_mut(&frame.stream) else { continue };
            //= RFC 9000, 13.3
            //# Application data sent in STREAM frames is retransmitted in new STREAM frames unless the endpoint has
            //# sent a RESET_STREAM for that stream.
            for (from, to) in stream.acked.gaps(frame.offset, frame.end()) {
                stream.lost.insert(from, to);
                some = true;
            }
            if stream.has_more() {
                self.schedule.add(frame.stream, stream.priority);
            }
        }
        some
    }

    /// The acknowledgment of lost packet `number` will not come.
    pub fn forget(&mut self, number: u64) {
        self.sent.remove(&number);
    }
}

impl Sender {
    /// Lets the connection have several streams at once, of which this end `opens` all or none. Nothing was written.
    pub fn use_streams(&mut self, opens: bool, config: &Config) {
        self.streams = Some(Box::new(Streams::new(opens, config)));
    }

    /// True if the connection has several streams at once.
    pub const fn uses_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// A message of `bytes` leaves on stream `id`, which it ends.
    pub fn write_stream(&mut self, id: u64, bytes: u64, priority: Priority) {
        let Some(streams) = self.streams.as_deref_mut().filter(|_| bytes > 0) else { return };
        //= RFC 9000, 2.3
        //# An implementation uses information provided by the application to determine how to allocate resources to
        //# active streams.
        let (acked, lost) = (Ranges::default(), Ranges::default());
        streams.open.insert(id, SendStream { priority, next: 0, end: bytes, acked, lost });
        streams.schedule.add(id, priority);
    }

    /// The peer lets this end open `limit` streams in all.
    pub fn on_max_streams(&mut self, limit: u64) {
        //= RFC 9000, 4.6
        //# MAX_STREAMS frames that do not increase the stream limit MUST be ignored.
        if let Some(streams) = &mut self.streams {
            streams.allowed = streams.allowed.max(limit);
        }
    }

    /// Streams that were acknowledged to their end since the last call.
    pub fn take_finished(&mut self) -> Vec<u64> {
        self.streams.as_mut().map_or_else(Vec::new, |streams| std::mem::take(&mut streams.finished))
    }

    /// Frames of a packet that left, until it is acknowledged.
    pub fn frames(&self, number: u64) -> Option<&Arc<Frames>> {
        self.streams.as_ref()?.sent.get(&number)
    }

    /// Fills the next packet with frames of streams.
    pub(super) fn pack_streams(&mut self, config: &Config) -> Packed {
        let number = self.view.snd_nxt;
        self.streams.as_mut().map_or_else(Packed::default, |streams| streams.pack(number, config))
    }

    /// Lets the oldest packet in flight from number `from` on that carries something be sent again as a probe. Gives
    /// the number after it; `from` where there is none.
    pub(super) fn probe_streams(&mut self, from: u64) -> u64 {
        let Some(streams) = &mut self.streams else { return from };
        let open = (0..self.flight.len()).filter_map(|place| self.flight.get(place));
        let mut numbers = open.map(super::Record::first).filter(|number| *number >= from);
        numbers.find(|number| streams.send_again(*number)).map_or(from, |number| number + 1)
    }
}
