//! Both ends of one direction of data, and when their timers are due.

use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::timer::{Clock, Timer};
use knee_core::Time;

/// TCP's receiver and sender. The fields that the usual packet and ACK need lie together: the receiver, and the
/// sender's first cache lines.
#[repr(C)]
#[derive(Clone)]
pub struct TcpEnds {
    /// Takes the data.
    pub receiver: Receiver,
    /// Sends it.
    pub sender: Sender,
}

/// A timer of TCP's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndTimer {
    /// The sender's retransmission timer (RTO, loss probe or reordering).
    Retransmit,
    /// A paced sender may send again.
    Pace,
    /// The receiver's delayed ACK.
    DelayedAck,
    /// The receiver's compressed SACK.
    CompressedSack,
}

impl Sender {
    /// Gives the time at which its next timer fires, and that timer. The time is exact, to the kernel's tick;
    /// [`Sender::due`] is the same or earlier.
    pub fn next_timer(&mut self, clock: &Clock) -> (Time, EndTimer) {
        let retransmit = self.timer.resolve(clock);
        if retransmit <= self.pacer.due { (retransmit, EndTimer::Retransmit) } else { (self.pacer.due, EndTimer::Pace) }
    }
}

impl Receiver {
    /// As [`Sender::next_timer`].
    pub fn next_timer(&mut self, clock: &Clock) -> (Time, EndTimer) {
        let (delayed, compressed) = (self.delayed.resolve(clock), self.compressed_at);
        if delayed <= compressed { (delayed, EndTimer::DelayedAck) } else { (compressed, EndTimer::CompressedSack) }
    }
}

impl TcpEnds {
    /// When a timer fires, to the tick.
    pub fn expiry(&mut self, timer: EndTimer, clock: &Clock) -> Time {
        match timer {
            EndTimer::Retransmit => self.sender.timer.resolve(clock),
            EndTimer::Pace => self.sender.pacer.due,
            EndTimer::DelayedAck => self.receiver.delayed.resolve(clock),
            EndTimer::CompressedSack => self.receiver.compressed_at,
        }
    }

    /// When a timer fires at the earliest; `Time::MAX` where it is not set.
    pub const fn not_before(&self, timer: EndTimer) -> Time {
        match timer {
            EndTimer::Retransmit => self.sender.timer.not_before(),
            EndTimer::Pace => self.sender.pacer.due,
            EndTimer::DelayedAck => self.receiver.delayed.not_before(),
            EndTimer::CompressedSack => self.receiver.compressed_at,
        }
    }

    /// No timer fires from now on.
    pub const fn stop_timers(&mut self) {
        (self.sender.timer, self.sender.pacer.due) = (Timer::OFF, Time::MAX);
        (self.receiver.delayed, self.receiver.compressed_at) = (Timer::OFF, Time::MAX);
    }
}
