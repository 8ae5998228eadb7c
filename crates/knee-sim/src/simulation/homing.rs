//! ACKs on their way home where time passes in epochs (see [`super::epochs`]).

use super::Way;
use crate::receiver::Reply;
use knee_core::Time;

/// What is under way beside a flow between two visits.
#[derive(Default)]
pub(super) struct Lane {
    /// ACKs on their way home, in that order.
    pub(super) acks: Vec<Returning>,
    /// When the last of them is home.
    last_home: Time,
}

/// An ACK on its way.
#[derive(Clone, Copy)]
pub(super) struct Returning {
    /// When it is home.
    pub(super) at: Time,
    /// As in [`Packet`].
    pub(super) seq: u64,
    pub(super) stamp: u32,
    pub(super) extra: u32,
    /// The pipe it would go through.
    pub(super) pipe: u32,
    pub(super) flags: u8,
    pub(super) cause: Cause,
}

impl Returning {
    /// What orders the ACKs of a flow.
    const fn key(&self) -> (Time, u32, u8) {
        (self.at, self.pipe, self.cause as u8)
    }
}

/// The ACKs of the flow that is visited. The same few lines of memory serve flow after flow.
#[derive(Default)]
pub(super) struct Homing {
    /// Those on their way, behind those that have been taken.
    pub(super) acks: Vec<Returning>,
    pub(super) taken: usize,
    /// When the last of them is home.
    last_home: Time,
    /// Whether the memory is the flow's own.
    own: bool,
}

impl Homing {
    /// A visit begins.
    #[inline]
    pub(super) fn enter(&mut self, lane: &mut Lane) {
        self.last_home = lane.last_home;
        self.own = !lane.acks.is_empty();
        if self.own {
            std::mem::swap(&mut self.acks, &mut lane.acks);
        }
    }

    /// A visit ends: what is not home yet waits beside its flow.
    #[inline]
    pub(super) fn leave(&mut self, lane: &mut Lane) {
        lane.last_home = self.last_home;
        self.acks.drain(..self.taken);
        if self.own {
            std::mem::swap(&mut self.acks, &mut lane.acks);
        } else if !self.acks.is_empty() {
            lane.acks.append(&mut self.acks);
        }
        self.taken = 0;
    }

    /// When the next ACK is home; `Time::MAX`: none is under way.
    #[inline]
    pub(super) fn home(&self) -> Time {
        self.acks.get(self.taken).map_or(Time::MAX, |ack| ack.at)
    }

    /// An ACK goes on its way `now`.
    #[inline]
    pub(super) fn sends(&mut self, reply: Reply, extra: u32, now: Time, way: &Way, cause: Cause) {
        let Reply { seq, stamp, flags } = reply;
        let at = now + way.ack_delay;
        self.acks.push(Returning { at, seq, stamp, extra, pipe: way.ack_pipe, flags, cause });
        if at <= self.last_home {
            self.overtake();
        } else {
            self.last_home = at;
        }
    }

    /// Brings the last ACK to its place: those on a way that has become shorter overtake.
    #[cold]
    fn overtake(&mut self) {
        let mut k = self.acks.len() - 1;
        while k > self.taken && self.acks[k - 1].key() > self.acks[k].key() {
            self.acks.swap(k - 1, k);
            k -= 1;
        }
        self.last_home = self.acks[self.acks.len() - 1].at;
    }
}

/// What an ACK was sent for.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    Packet,
    DelayedAck,
    CompressedSack,
}
