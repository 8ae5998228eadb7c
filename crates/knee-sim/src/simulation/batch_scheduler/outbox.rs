//! What the flow at work sends where time passes in batches, and its timers.

use super::applications::DueActions;
use crate::simulation::ack_path::AckPath;
use crate::simulation::stages::{COMPRESSED_SACK, DELAYED_ACK, PACE, RETRANSMIT, Stages};
use crate::simulation::world::{Outbox, World};
use knee_core::{Packet, Time};
use knee_net::network::FlowPath;
use knee_tcp::receiver::Receiver;
use knee_tcp::sender::Sender;

/// Takes what the flow at work sends.
pub(super) struct BatchOutbox {
    pub(super) stages: Stages,
    pub(super) acks: AckPath,
    /// The first stage of the flow's data.
    pub(super) stage: u32,
    /// Rank of ACKs for what lands.
    pub(super) landing: u16,
    /// Rank of what the receiver does.
    pub(super) rank: u16,
    /// Its place among what has that rank.
    pub(super) place: u32,
    /// Order, among those of its time, of what the sender does.
    pub(super) tie_break: u64,
    /// Transfers completed in this batch.
    pub(super) completed: Vec<(Time, u32)>,
    /// What applications are to learn.
    pub(super) due: DueActions,
    /// Packets that the flow at work has sent.
    pub(super) sent: u32,
    /// Packets delivered to the receiver during this visit.
    pub(super) landed: u32,
    /// Time of the latest delivery of a packet or an ACK of a connection.
    pub(super) moved_at: Time,
}

impl Outbox for BatchOutbox {
    #[inline]
    fn data(&mut self, first: Packet, count: u32) {
        self.sent += count;
        self.stages.push(self.stage, first, count, self.tie_break);
    }

    #[inline]
    fn ack(&mut self, ack: Packet, now: Time, path: &FlowPath) {
        self.acks.push(&ack, now, path, (self.rank, self.place));
    }

    fn completed(&mut self, flow: u32, now: Time) {
        self.completed.push((now, flow));
    }
}

impl BatchOutbox {
    pub(super) fn new(stages: Stages) -> Self {
        Self {
            stages,
            acks: AckPath::default(),
            stage: 0,
            landing: 0,
            rank: 0,
            place: 0,
            tie_break: 0,
            completed: Vec::new(),
            due: DueActions::default(),
            sent: 0,
            landed: 0,
            moved_at: Time::ZERO,
        }
    }

    /// Lets the next timer of a receiver fire if it is due before `limit`; from then on it is known when it is due.
    #[inline(never)]
    pub(super) fn receiver_timer(&mut self, world: &mut World, receiver: &mut Receiver, i: u32, limit: Time) {
        let (due, compressed) = (receiver.delayed.resolve(&world.receiver_config.clock), receiver.compressed_at);
        if due.min(compressed) >= limit {
            return;
        }
        world.now = due.min(compressed);
        if due <= compressed {
            (self.rank, self.place) = (DELAYED_ACK, i);
            world.on_delayed_ack_timer(receiver, i, self);
        } else {
            (self.rank, self.place) = (COMPRESSED_SACK, i);
            world.on_compressed_sack_timer(receiver, i, self);
        }
        self.rank = self.landing;
    }

    /// As [`BatchOutbox::receiver_timer`], of a sender.
    #[inline(never)]
    pub(super) fn sender_timer(&mut self, world: &mut World, sender: &mut Sender, i: u32, limit: Time) {
        let (due, pace) = (sender.timer.resolve(&world.sender_config.clock), sender.pace_at);
        if due.min(pace) >= limit {
            return;
        }
        world.now = due.min(pace);
        if due <= pace {
            self.tie_break = RETRANSMIT | u64::from(i);
            world.on_retransmit_timer(sender, i, self);
        } else {
            self.tie_break = PACE | u64::from(i);
            world.on_pace_timer(sender, i, self);
        }
    }
}
