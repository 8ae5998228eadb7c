//! Timers of a lab, to the nanosecond, for programs that bring their own runtime.

use crate::lab::{Lab, State};
use knee_core::Time;
use std::task::{Context, Poll};
use std::time::Instant;

impl State {
    /// Wakes whoever asks at `at`; returns the number that [`State::forget`] takes.
    fn wake_at(&mut self, at: Time, number: Option<u64>, cx: &Context<'_>) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers
        });
        self.timers.insert((at, number), cx.waker().clone());
        number
    }

    fn forget(&mut self, at: Time, number: u64) {
        self.timers.remove(&(at, number));
    }
}

/// Wakes at a time, to the nanosecond.
#[derive(Debug)]
pub(crate) struct Timer {
    lab: Lab,
    at: Time,
    number: Option<u64>,
}

impl Timer {
    pub(crate) fn new(lab: &Lab, at: Instant) -> Self {
        Self { lab: lab.clone(), at: lab.time_of(at.into()), number: None }
    }

    fn stop(&mut self) {
        if let Some(number) = self.number {
            self.lab.state().forget(self.at, number);
        }
    }

    pub(crate) fn arm(&mut self, at: Instant) {
        self.stop();
        self.at = self.lab.time_of(at.into());
    }

    pub(crate) fn poll_due(&mut self, cx: &Context<'_>) -> Poll<()> {
        let (now, at) = (self.lab.now(), self.at);
        if at <= now {
            return Poll::Ready(());
        }
        let number = self.lab.state().wake_at(at, self.number, cx);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}
