//! The loop: what is due goes out, what came goes in, and then there is nothing to do until the next of either.

use crate::clock::Clock;
use crate::device::Device;
use crate::header;
use crate::late::Late;
use crate::network::SwitchNetwork;
use knee_core::convert::saturating_i64;
use knee_core::{Packet, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How often the loop says how it goes, and looks whether an early end is asked for; how long that line is.
const TELL: Time = Time::from_millis(100);
const LINE: usize = 160;
/// How long before a departure the loop stops sleeping: what a machine needs at the most, as a rule, to wake up.
const AWAKE: Time = Time::from_micros(60);
/// With real-time priority: for how long the loop may go on without sleep, and how long it sleeps then. Linux would
/// take 5 % of each second away from it otherwise, in one piece (sched_rt_runtime_us, or the fair server). A sleep
/// takes some 28 us, of which falling asleep and waking up count as the loop's: 8 % are left to others.
pub(crate) const MAX_BUSY: Time = Time::from_micros(250);
pub(crate) const FORCED_SLEEP: Time = Time::from_micros(20);

/// Carries packets between two devices.
pub struct Ferry<'a> {
    /// The machine's clock.
    pub clock: Clock,
    /// Until when.
    pub end: Time,
    /// True if to sleep now and then, however much there is to do.
    pub forced_sleeps: bool,
    /// True if an earlier end is asked for.
    pub asked: &'a AtomicBool,
    /// The file that says now and then how the run goes.
    pub live: Option<File>,
}

impl Ferry<'_> {
    /// Carries packets to the end. Returns the packets that a device refused, and when the end was.
    ///
    /// # Errors
    /// Where a device is gone.
    pub fn run(
        &mut self,
        network: &mut SwitchNetwork,
        sides: &mut [Device; 2],
        late: &mut Late,
    ) -> io::Result<(u64, Time)> {
        let Self { clock, mut end, .. } = *self;
        let (mut refused, mut slept, mut told) = (0, Time::ZERO, Time::ZERO);
        loop {
            let now = clock.now();
            if self.asked.load(Relaxed) {
                end = end.min(now);
            }
            while network.next() <= now.min(end) {
                network.step();
                refused += hand_out(network, sides, clock, late)?;
            }
            if now >= end {
                return Ok((refused, end));
            }
            let mut came = false;
            for (side, device) in sides.iter_mut().enumerate() {
                came |= take_in(network, device, side, clock)?;
            }
            refused += hand_out(network, sides, clock, late)?;
            if let Some(file) = self.live.as_ref().filter(|_| now >= told + TELL) {
                told = now;
                file.write_all_at(format!("{:<LINE$}\n", network.live(late)).as_bytes(), 0)?;
            }
            let awake = network.next().min(end).min(now + TELL).saturating_sub(AWAKE);
            if !came && awake > clock.now() {
                sleep(&sides.each_ref(), awake.saturating_sub(clock.now()))?;
                slept = clock.now();
            } else if self.forced_sleeps && now > slept + MAX_BUSY {
                sleep(&[], FORCED_SLEEP)?;
                slept = clock.now();
            }
        }
    }
}

/// Writes what is due at devices.
fn hand_out(network: &mut SwitchNetwork, sides: &[Device; 2], clock: Clock, late: &mut Late) -> io::Result<u64> {
    let mut refused = 0;
    // In the order in which they were due.
    let mut out = std::mem::take(&mut network.out);
    for departure in out.drain(..) {
        let bytes = network.store().bytes(&departure.packet);
        if departure.packet.has(Packet::CE) {
            header::mark(bytes);
        }
        let at = clock.now();
        late.count(at.saturating_sub(departure.due));
        refused += u64::from(!sides[departure.side].write(bytes)?);
        network.on_written(&departure, at);
    }
    network.out = out;
    Ok(refused)
}

/// Reads a packet from a side; whether there was one.
fn take_in(network: &mut SwitchNetwork, device: &mut Device, side: usize, clock: Clock) -> io::Result<bool> {
    let Some(bytes) = device.read(network.store().free())? else { return Ok(false) };
    network.ingress(side, bytes, clock.now());
    Ok(true)
}

/// Waits for a packet from one of `sides`, for no longer than `span`.
pub(crate) fn sleep(sides: &[&Device], span: Time) -> io::Result<()> {
    let (ns, second) = (span.as_nanos(), 1_000_000_000);
    let timeout = Timespec { tv_sec: saturating_i64(ns / second), tv_nsec: saturating_i64(ns % second) };
    let mut fds: Vec<_> = sides.iter().map(|side| PollFd::new(*side, PollFlags::IN)).collect();
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
