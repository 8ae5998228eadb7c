//! What sends datagrams: constant and on-off sources, recorded packets, calls with an encoder that adapts, probes.
//!
//! A [`Source`] says when a datagram leaves and how large it is; a [`Reception`] is what the receiver learns from those
//! that arrive. Neither knows of packets or sockets.

mod periodic;
mod reception;
mod recorded;
mod rtc;

pub use periodic::Periodic;
pub use reception::Reception;
pub use recorded::Recorded;
pub use rtc::ENTRY as RTC;

use crate::TrafficSpec;
use crate::entry::{Entry, Make};
use knee_core::packet::MTU;
use knee_core::{Rng, Time};

/// The entry of what sends datagrams at its own times in the registry.
pub const UDP: Entry = Entry {
    make: Make::Tables { datagrams: true },
    ..Entry::with_tables(
        "udp",
        "datagrams at constant intervals, with pauses, or as recorded: calls, games",
        "RFC 3551 and RFC 7587 for the presets of calls; Kuzmanovic and Knightly (SIGCOMM 2003) for constant pauses",
    )
};

/// Bytes of the IPv4 and UDP headers.
pub const HEADERS: u16 = 28;

/// What a source of datagrams does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It sends a datagram of this size, in bytes as an IP packet, now.
    Send(u16),
    /// It waits until then, which is later than now; `Time::MAX`: it has nothing more to send.
    Wait(Time),
}

/// A datagram as the receiver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the datagram, from 0.
    pub number: u64,
    /// When it arrived.
    pub at: Time,
    /// Whether it was marked CE.
    pub ce: bool,
}

/// The sending end.
pub trait Source: Send {
    /// What it does now, called from its flow's start on, and again after each datagram and at each time it waits for.
    fn next(&mut self, now: Time) -> Next;

    /// How often the receiver reports which datagrams have arrived. `None` if it does not.
    fn report_interval(&self) -> Option<Time> {
        None
    }

    /// A report of the receiver has come, with what arrived since the one before, in that order.
    fn on_report(&mut self, _arrivals: &[Arrival], _now: Time) {}
}

/// The source that `spec` asks for, with random numbers of its own. `None` if it asks for no datagrams. `l4s`: its
/// packets are ECT(1) (RFC 9331).
pub fn source(spec: &TrafficSpec, l4s: bool, rng: Rng) -> Option<Box<dyn Source>> {
    let span = |ns: u64| Time::from_nanos(ns);
    Some(match spec {
        TrafficSpec::Udp { packet, interval, on_off: None, .. } | TrafficSpec::Probe { packet, interval } => {
            Box::new(Periodic::new(*packet, span(*interval)))
        }
        TrafficSpec::Udp { packet, interval, on_off: Some((on, off)), constant } => {
            let rng = (!constant).then_some(rng);
            Box::new(Periodic::new(*packet, span(*interval)).with_pauses(span(*on), span(*off), rng))
        }
        TrafficSpec::UdpTrace { packets, repeat } => Box::new(Recorded::new(packets, *repeat)),
        TrafficSpec::Declared { name, params } => match crate::spec::declared(name, params).ok()? {
            (Entry { make: Make::Source(make), .. }, params) => make(&params, l4s, rng),
            _ => return None,
        },
        _ => return None,
    })
}

/// Checks what a specification says of datagrams.
///
/// # Errors
/// What is wrong, as a sentence with its flow as the subject would say it.
pub fn check(spec: &TrafficSpec) -> Result<(), String> {
    match spec {
        TrafficSpec::Udp { packet, interval, on_off, .. } => {
            check_size(*packet)?;
            check_span("interval", *interval)?;
            if let Some((on, off)) = on_off {
                check_span("mean time of talking", *on)?;
                check_span("mean time of silence", *off)?;
            }
            Ok(())
        }
        TrafficSpec::Probe { packet, interval } => {
            check_size(*packet)?;
            check_span("interval", *interval)
        }
        TrafficSpec::UdpTrace { packets, repeat } => {
            packets.iter().try_for_each(|(_, size)| check_size(*size))?;
            if packets.windows(2).any(|pair| pair[0].0 > pair[1].0) {
                return Err("its recorded times do not ascend".into());
            }
            match packets.last() {
                None => Err("its record has no packet".into()),
                Some((last, _)) if *last > MAX_SPAN => Err(format!("its last time of {last} ns is above {MAX_SPAN}")),
                Some(_) if *repeat && recorded::period(packets) == Time::ZERO => {
                    Err("its record lasts no time, so that it cannot repeat".into())
                }
                Some(_) => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Three years, in ns.
const MAX_SPAN: u64 = 100_000_000_000_000_000;

fn check_size(size: u16) -> Result<(), String> {
    if (HEADERS..=MTU).contains(&size) {
        return Ok(());
    }
    Err(format!("a packet of {size} bytes is not between {HEADERS}, the IP and UDP headers, and {MTU}"))
}

fn check_span(what: &str, ns: u64) -> Result<(), String> {
    if (1..=MAX_SPAN).contains(&ns) {
        Ok(())
    } else {
        Err(format!("its {what} of {ns} ns is not from 1 to {MAX_SPAN}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let fault = |spec: TrafficSpec| check(&spec).expect_err("it is refused");
        let said = fault(TrafficSpec::Probe { packet: 27, interval: 1 });
        assert_eq!(said, "a packet of 27 bytes is not between 28, the IP and UDP headers, and 1500");
        let said = fault(TrafficSpec::Udp { packet: 200, interval: 0, on_off: None, constant: false });
        assert_eq!(said, "its interval of 0 ns is not from 1 to 100000000000000000");
        let said = fault(TrafficSpec::Udp { packet: 200, interval: 5, on_off: Some((1, 0)), constant: false });
        assert_eq!(said, "its mean time of silence of 0 ns is not from 1 to 100000000000000000");
        let trace = |packets: &[(u64, u16)], repeat| TrafficSpec::UdpTrace { packets: packets.to_vec(), repeat };
        assert_eq!(fault(trace(&[], false)), "its record has no packet");
        assert_eq!(fault(trace(&[(2, 100), (1, 100)], false)), "its recorded times do not ascend");
        assert_eq!(fault(trace(&[(2, 100), (2, 90)], true)), "its record lasts no time, so that it cannot repeat");
        assert_eq!(check(&trace(&[(2, 100), (2, 90)], false)), Ok(()));
    }
}
