//! The interface of queue disciplines.
//!
//! The way of a packet: the link hands it to [`Queue::enqueue`], which keeps it or drops it (or drops others
//! for it); when the link can send it asks [`Queue::dequeue`]. A discipline that holds packets back says by
//! [`Queue::next_wake`] when to ask again. Every packet dropped is put into [`Context::dropped`], so that none is
//! lost without account.

use knee_core::convert::index_u32;
use knee_core::{Bytes, ConnectionId, Packet, Rate, Rng, Time, Tuple};

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many packets.
    Packets(u64),
    /// At most this many bytes (IP packets plus the link's overhead).
    Bytes(Bytes),
    /// At most what the link carries in this time.
    Time(Time),
}

/// Packets that arrive at one time and differ only by their segments, which follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The first of them.
    pub first: Packet,
    /// How many, at least 1; one alone where it is no TCP segment.
    pub count: u32,
}

/// Outcome of [`Queue::enqueue`] for the packet. The link looks at [`Context`] alone; tests compare the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the queue.
    Queued,
    /// It is in the queue, marked CE.
    Marked,
    /// It was dropped, and is in [`Context::dropped`].
    Dropped,
}

/// Contents of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets held.
    pub packets: u64,
    /// Bytes held: IP packets plus the link's overhead for each.
    pub bytes: Bytes,
}

/// Something a discipline wants on record: a change of state, a buffer size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note {
    /// When it was left.
    pub at: Time,
    /// The flow it is about, where there is one.
    pub flow: Option<u32>,
    /// Name of the event.
    pub event: &'static str,
    /// Its figure.
    pub value: f64,
}

/// Input of each call of a queue, and its outbox of drops, marks and notes.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Current time.
    pub now: Time,
    /// Packets dropped during the call; the caller empties it.
    pub dropped: Vec<Packet>,
    /// Packets that were marked CE, since the start.
    pub marks: u64,
    /// Notes that have not been booked; the caller empties it.
    pub notes: Vec<Note>,
    /// The connections that packets belong to.
    pub connections: Connections,
    /// The codepoints that packets carry.
    pub codepoints: Codepoints,
    /// The access category that a medium asks [`ByCategory`](crate::ByCategory) for.
    pub(crate) category: Option<u8>,
}

/// The connections that packets belong to, by what packets carry as their flow.
#[derive(Clone, Debug, Default)]
pub struct Connections(Vec<ConnectionId>);

impl Connections {
    /// From now on packets that carry this index belong to connection `id`. Without this, each index is a flow of its
    /// own.
    pub fn set(&mut self, index: u32, id: ConnectionId) {
        let known = index_u32(self.0.len());
        self.0.extend((known..=index).map(ConnectionId::of_flow));
        self.0[index as usize] = id;
    }

    fn of(&self, index: u32) -> ConnectionId {
        self.0.get(index as usize).copied().unwrap_or(ConnectionId::of_flow(index))
    }
}

/// Codepoints by what packets carry as their flow; 0, best effort, where none was set.
#[derive(Clone, Debug, Default)]
pub struct Codepoints(Vec<u8>);

impl Codepoints {
    /// From now on packets that carry `index` as their flow have codepoint `dscp`.
    pub fn set(&mut self, index: u32, dscp: u8) {
        let len = self.0.len().max(index as usize + 1);
        self.0.resize(len, 0);
        self.0[index as usize] = dscp;
    }
}

impl Context {
    /// A context of a call at this time, with nothing else in it.
    pub fn at(now: Time) -> Self {
        Self { now, ..Self::default() }
    }

    /// Marks `packet` CE where it is ECN-capable; says whether it is.
    pub fn mark(&mut self, packet: &mut Packet) -> bool {
        if packet.has(Packet::ECT) && !packet.has(Packet::CE) {
            packet.flags |= Packet::CE;
            self.marks += 1;
        }
        packet.has(Packet::ECT)
    }

    /// The 5-tuple of `packet`.
    #[inline]
    pub fn tuple(&self, packet: &Packet) -> Tuple {
        Tuple::of(self.connections.of(packet.flow), packet)
    }

    /// The codepoint of `packet` (DSCP, RFC 2474), below 64.
    #[inline]
    pub fn dscp(&self, packet: &Packet) -> u8 {
        self.codepoints.0.get(packet.flow as usize).copied().unwrap_or(0)
    }

    /// Leaves a note.
    pub fn note(&mut self, flow: Option<u32>, event: &'static str, value: f64) {
        self.notes.push(Note { at: self.now, flow, event, value });
    }
}

/// A change of a queue's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Its capacity.
    Limit(Limit),
    /// The link's rate.
    Rate(Rate),
}

/// Properties of the link that a new queue is made for.
#[derive(Clone, Debug)]
pub struct Init {
    /// Its capacity; `None`: the discipline's own default.
    pub limit: Option<Limit>,
    /// Bytes counted on top of each IP packet.
    pub overhead: u32,
    /// The link's rate (the mean rate of a trace).
    pub rate: Rate,
    /// A random stream of the queue's own; also perturbs flow hashes.
    pub rng: Rng,
}

/// A queue discipline.
///
/// For every sequence of calls: packets in = packets out + dropped + held, in packets and in bytes; the packets of
/// one flow leave in the order they came; the backlog never exceeds the limit.
pub trait Queue: Send {
    /// Takes `packet` in, or drops it or others.
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict;

    /// Gives the next packet to send, if one may leave now.
    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet>;

    /// When to ask again, where packets are held that may not leave yet; asked after `dequeue` gave none.
    fn next_wake(&self) -> Option<Time> {
        None
    }

    /// Packets and bytes held.
    fn backlog(&self) -> Backlog;

    /// Takes a new capacity, or a new rate of the link, at which a limit in time is another number of bytes; drops what
    /// no longer fits.
    fn resize(&mut self, to: Resize, cx: &mut Context);

    /// Called at the end of each sampling interval; note values to plot here.
    fn observe(&self, _cx: &mut Context) {}
}

/// Operations on many packets at once, which are faster where a discipline does not look at each packet. By
/// default they come and go one by one: `impl Bursts for Mine {}`.
pub trait Bursts: Queue {
    /// Takes in at once as many packets of a burst as it can; gives how many. The others then come one by one.
    fn enqueue_burst(&mut self, _burst: &Burst, _cx: &mut Context) -> u32 {
        0
    }

    /// Gives at once up to `max` of the next packets to send, as far as they differ only by their segments, which
    /// follow each other: puts the first into `first` and returns how many they are. They leave back to back, and
    /// nothing arrives meanwhile.
    fn dequeue_run(&mut self, _max: u32, first: &mut Packet, cx: &mut Context) -> u32 {
        match &self.dequeue(cx) {
            Some(packet) => {
                *first = *packet;
                1
            }
            None => 0,
        }
    }
}
