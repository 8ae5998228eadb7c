//! Waiting for sockets and for a time on the monotonic clock.

use knee_core::convert::saturating_u64;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Events that one look gives at most.
const BATCH: usize = 256;
/// Tokens of the timer and standard input.
const TIMER: u64 = u64::MAX;
/// See above.
const PARENT: u64 = u64::MAX - 1;

/// Nanoseconds on the monotonic clock.
///
/// # Errors
/// Where there is no such clock.
pub fn monotonic_ns() -> io::Result<u64> {
    let now = clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
    Ok(saturating_u64(Duration::from(now).as_nanos()))
}

/// Sleeps until a time on the monotonic clock, unless it has come.
///
/// # Errors
/// Where the kernel refuses.
pub fn sleep_until(ns: u64) -> io::Result<()> {
    let (mut poller, mut found) = (Poller::new()?, Vec::new());
    while monotonic_ns()? < ns {
        poller.wait(ns, &mut found)?;
    }
    Ok(())
}

/// Files to wait for, and a timer.
pub struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    set: u64,
    events: Vec<EpollEvent>,
}

impl Poller {
    /// A poller of no files.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Self { epoll, timer, set: u64::MAX, events: vec![EpollEvent::empty(); BATCH] })
    }

    /// Waits for a file from now on; `token` is given back. It ends when the file is closed.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn watch(&self, file: impl AsFd, flags: EpollFlags, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(file, EpollEvent::new(flags, token))?)
    }

    /// Makes [`Poller::wait`] fail once standard input has been closed: whoever started this process has ended.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn end_with_parent(&self) -> io::Result<()> {
        match self.watch(io::stdin(), EpollFlags::EPOLLRDHUP, PARENT) {
            // A file, which nobody closes.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            done => done,
        }
    }

    /// Waits until something happens or `until_ns` has come; puts tokens and what happened into `found`.
    ///
    /// # Errors
    /// Where the kernel refuses, or standard input was closed.
    pub fn wait(&mut self, until_ns: u64, found: &mut Vec<(u64, EpollFlags)>) -> io::Result<()> {
        if self.set != until_ns {
            // Zero would switch the timer off.
            let at = TimeSpec::from_duration(Duration::from_nanos(until_ns.max(1)));
            self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            self.set = until_ns;
        }
        found.clear();
        let count = match self.epoll.wait(&mut self.events, EpollTimeout::NONE) {
            Err(nix::Error::EINTR) => 0,
            count => count?,
        };
        for event in &self.events[..count] {
            if event.data() == TIMER {
                // Read, so that it counts as not expired.
                let _ = self.timer.wait();
                self.set = u64::MAX;
            } else if event.data() == PARENT {
                return Err(io::Error::other("the process that started this one has ended"));
            } else {
                found.push((event.data(), event.events()));
            }
        }
        Ok(())
    }
}
