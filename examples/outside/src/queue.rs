//! A queue discipline: head drop. A packet that finds the queue full is kept, and the oldest ones go, so that senders learn of
//! the loss a queue earlier (Lakshman, Neidhardt and Ott, "The Drop from Front Strategy in TCP and in TCP over ATM", INFOCOM
//! 1996).

use knee_core::Packet;
use knee_queue::{Backlog, Bound, Bursts, Context, Entry, Fifo, Init, Limit, Queue, Resize, Verdict};

pub static ENTRY: Entry = Entry {
    name: "head_drop",
    about: "first in, first out; the oldest packets make room for new ones",
    source: "Lakshman, Neidhardt and Ott, INFOCOM 1996",
    params: &[],
    make: |_, init| Box::new(HeadDrop::new(init)),
};

/// Packets held where no limit is given: Linux's default transmit queue length.
const DEFAULT_LIMIT: Limit = Limit::Packets(1000);

#[derive(Clone)]
struct HeadDrop {
    fifo: Fifo,
    bound: Bound,
}

impl HeadDrop {
    fn new(init: &Init) -> Self {
        Self { fifo: Fifo::new(init), bound: Bound::new(init.limit.unwrap_or(DEFAULT_LIMIT), init.rate) }
    }

    /// Drops from the head what is too much. Says whether a packet is left.
    fn shrink(&mut self, cx: &mut Context) -> bool {
        while !self.bound.holds(self.fifo.len(), self.fifo.bytes()) {
            cx.dropped.extend(self.fifo.pop());
        }
        !self.fifo.is_empty()
    }
}

impl Queue for HeadDrop {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        self.fifo.push(packet);
        // Where not even one packet fits, the new one goes too.
        if self.shrink(cx) { Verdict::Queued } else { Verdict::Dropped }
    }

    fn dequeue(&mut self, _: &mut Context) -> Option<Packet> {
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.bound = self.bound.resized(to);
        self.shrink(cx);
    }
}

// Packets come and go one by one.
impl Bursts for HeadDrop {}
