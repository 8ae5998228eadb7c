//! A queue for each access category, as Linux has a queue discipline for each hardware queue of a Wi-Fi driver (mq).

use crate::link::DynQueue;
use crate::queue::{Backlog, Bursts, Context, Queue, Resize, Verdict};
use knee_core::{Bytes, Packet, Time};

/// Queues of one kind, each with the whole capacity.
#[derive(Clone)]
pub struct ByCategory {
    queues: Vec<Box<dyn DynQueue>>,
    /// The category of a codepoint, an index of the queues.
    category: fn(u8) -> u8,
    /// For each queue, true if it gave no packet when it was last asked.
    empty: Vec<bool>,
    /// When one was last asked for a packet.
    asked: Time,
}

impl ByCategory {
    /// A queue for each category, and the category of each codepoint.
    pub fn new(queues: Vec<Box<dyn DynQueue>>, category: fn(u8) -> u8) -> Self {
        let empty = vec![true; queues.len()];
        Self { queues, category, empty, asked: Time::ZERO }
    }
}

impl Queue for ByCategory {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let category = usize::from((self.category)(cx.dscp(&packet)));
        self.queues[category].enqueue(packet, cx)
    }

    /// The next packet of the category that is asked for, or else of the first that gives one.
    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let asked = match cx.category {
            Some(category) => usize::from(category)..usize::from(category) + 1,
            None => 0..self.queues.len(),
        };
        self.asked = cx.now;
        for i in asked {
            let packet = self.queues[i].dequeue(cx);
            self.empty[i] = packet.is_none();
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn next_wake(&self) -> Option<Time> {
        let empty = self.queues.iter().zip(&self.empty).filter(|(_, empty)| **empty);
        // One that could have given a packet since is that of a category that is busy, and asks later.
        empty.filter_map(|(queue, _)| queue.next_wake()).filter(|wake| *wake > self.asked).min()
    }

    fn backlog(&self) -> Backlog {
        self.queues.iter().map(|queue| queue.backlog()).fold(Backlog::default(), |sum, each| Backlog {
            packets: sum.packets + each.packets,
            bytes: Bytes(sum.bytes.0 + each.bytes.0),
        })
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        for queue in &mut self.queues {
            queue.resize(to, cx);
        }
    }

    fn observe(&self, cx: &mut Context) {
        for queue in &self.queues {
            queue.observe(cx);
        }
    }
}

impl Bursts for ByCategory {}
