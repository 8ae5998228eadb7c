//! Sources of datagrams: constant and on-off sources, recorded packets, calls with an encoder that adapts, probes.
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
use crate::spec::Packets;
use crate::{Form, Given, Table};
use knee_core::convert::saturating_u16;
use knee_core::packet::MTU;
use knee_core::{Bytes, Conflict, Rate, Rng, Time, params};

/// The entry of what sends datagrams at its own times in the registry.
///
/// Usual figures, as IP packets with headers of IPv4 and UDP (28 bytes) and RTP (12):
///
/// * G.711: 160 bytes every 20 ms (RFC 3551, 4.5.14): 200 bytes, 80 kbit/s.
/// * Opus at 24 kbit/s: 60 bytes every 20 ms: 100 bytes, 40 kbit/s. RFC 7587, 3.1.1 has 16 to 20 kbit/s for
///   wideband speech, and 28 to 40 for full band.
/// * A first-person shooter: small packets at the rate of its clock. Published measurements (Feng, Chang, Feng and
///   Walpole, "Provisioning On-line Games", 2002; Claypool, LaPoint and Winslow, "Network Analysis of
///   Counter-strike and Starcraft", 2003) are of games with 20 to 40 packets per second, whose clients send some 40
///   bytes of payload and servers some 130; today's clocks have 60 Hz and more.
pub const UDP: Entry = Entry {
    name: "udp",
    about: "datagrams at constant intervals, with pauses, or as recorded: calls, games",
    source: "RFC 3551 and RFC 7587 for the presets of calls; Kuzmanovic and Knightly (SIGCOMM 2003) for constant pauses",
    params: UdpSettings::DECLARED,
    tables: &[Table {
        name: "trace",
        form: Form::Packets,
        about: "packets as recorded, in place of packet and interval",
    }],
    required: &[],
    pulls: false,
    echoes: false,
    sockets: true,
    independent: |_| false,
    check: check_udp,
    load: |given| {
        let UdpSettings { every: Every { packet, interval }, on, off, .. } = (&given.params).into();
        let (rate, cycle) = (Rate::over(packet, interval), (on + off).as_nanos());
        let mean = if cycle == 0 { rate } else { rate.mul_div(on.as_nanos(), cycle) };
        given.find::<Packets>("trace").is_none().then_some(mean)
    },
    make: Make::Source(|given, _, rng| {
        let UdpSettings { every, on, off, constant, repeat } = (&given.params).into();
        match given.find("trace") {
            Some(Packets(packets)) => Box::new(Recorded::new(packets, repeat)),
            None if on == Time::ZERO => Box::new(every.source()),
            None => Box::new(every.source().with_pauses(on, off, (!constant).then_some(rng))),
        }
    }),
};

/// The entry of datagrams that the other end sends back at once, which probes of scenarios are.
pub const PROBE: Entry = Entry {
    name: "probe",
    about: "datagrams at constant intervals that the other end sends back at once",
    source: "ping (RFC 792, echo)",
    params: Every::DECLARED,
    tables: &[],
    required: &["packet", "interval"],
    echoes: true,
    check: |_| Ok(()),
    load: |given| {
        let Every { packet, interval } = (&given.params).into();
        Some(Rate::over(packet, interval))
    },
    make: Make::Source(|given, _, _| Box::new(Every::from(&given.params).source())),
    ..UDP
};

/// Three years.
const LONGEST: Time = Time::from_nanos(100_000_000_000_000_000);

params! {
    /// Datagrams at constant intervals.
    struct Every {
        /// size of an IP packet
        packet: Bytes = Bytes(200), in Bytes(HEADERS as u64)..=Bytes(MTU as u64), from "RFC 3551, 4.5.14";
        /// time between two
        interval: Time = Time::from_millis(20), in Time::from_nanos(1)..=LONGEST, from "RFC 3551, 4.5.14";
    }
}

params! {
    /// The parameters of [`UDP`].
    struct UdpSettings {
        #[flatten]
        every: Every;
        /// mean time of talking; 0: it never pauses
        on: Time = Time::ZERO, in Time::ZERO..=LONGEST, from "ours: always on";
        /// mean time of silence
        off: Time = Time::ZERO, in Time::ZERO..=LONGEST, from "ours: always on";
        /// whether both times are always the mean, and not exponential
        constant: bool = false, from "Brady, 1969";
        /// whether the trace repeats
        repeat: bool = false, from "ours: a trace once";
    }
}

impl Every {
    fn source(self) -> Periodic {
        Periodic::new(saturating_u16(self.packet.0), self.interval)
    }
}

fn check_udp(given: &Given) -> Result<(), Conflict> {
    let UdpSettings { on, off, repeat, .. } = (&given.params).into();
    let conflict = |key, found: String, accepted: &str| Err(Conflict { key, found, accepted: accepted.into() });
    if (on == Time::ZERO) != (off == Time::ZERO) {
        return conflict("off", format!("on and off are {on} and {off}"), "expected both above zero, or neither");
    }
    match given.find::<Packets>("trace") {
        None if repeat => conflict("repeat", "there is no trace to repeat".into(), "leave it out"),
        Some(Packets(packets)) if repeat && recorded::period(packets) == Time::ZERO => {
            conflict("repeat", "the trace lasts no time".into(), "expected a last time above zero, or no repeat")
        }
        _ => Ok(()),
    }
}

/// Bytes of the IPv4 and UDP headers.
pub const HEADERS: u16 = 28;

/// The next act of a source of datagrams.
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
    /// It was marked CE.
    pub ce: bool,
}

/// When a receiver reports: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Reports {
    /// Time after the first datagram since the last report.
    pub interval: Time,
    /// Datagrams since the last report.
    pub packets: usize,
}

/// The sending end.
pub trait Source: Send + CloneSource {
    /// The next act, asked for from its flow's start on, and again after each datagram and at each time it waits for.
    fn next(&mut self, now: Time) -> Next;

    /// When the receiver reports which datagrams have arrived. `None` if it does not.
    fn reports(&self) -> Option<Reports> {
        None
    }

    /// A report of the receiver has come, with what arrived since the one before, in that order.
    fn on_report(&mut self, _arrivals: &[Arrival], _now: Time) {}
}

knee_core::boxed_clone!(CloneSource: Source => Source);

/// The source that `spec` asks for, with random numbers of its own. `None` if it asks for no datagrams. `l4s`: its
/// packets are ECT(1) (RFC 9331).
pub fn source(spec: &TrafficSpec, l4s: bool, rng: Rng) -> Option<Box<dyn Source>> {
    match spec.resolved()? {
        (Entry { make: Make::Source(make), .. }, given) => Some(make(given, l4s, rng)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn datagrams_that_cannot_be_sent_are_rejected() {
        let check = |spec| serde_json::from_value::<TrafficSpec>(spec).unwrap().check();
        let cases = [
            (json!({"kind": "probe", "packet": 27, "interval": 1}), "`packet` is 27 B; expected 28 B to 1500 B"),
            (json!({"kind": "probe", "packet": 28}), "`interval` is missing"),
            (json!({"kind": "udp", "packet": 200, "interval": 0}), "`interval` is 0 s; expected 1 ns to"),
            (json!({"kind": "udp", "packet": 200, "interval": 5, "on": 1}), "on and off are 1 ns and 0 s"),
            (json!({"kind": "udp", "repeat": true}), "there is no trace to repeat"),
            (json!({"kind": "udp", "trace": []}), "the record has no packet"),
            (json!({"kind": "udp", "trace": [[2, 100], [1, 100]]}), "the recorded times do not ascend"),
            (json!({"kind": "udp", "trace": [[0, 27]]}), "a packet of 27 bytes is not between 28"),
            (json!({"kind": "udp", "trace": [[0, 90]], "repeat": true}), "the trace lasts no time"),
        ];
        for (spec, words) in cases {
            let error = check(spec).expect_err(words);
            assert!(error.contains(words), "{error:?} does not contain {words:?}");
        }
        assert_eq!(check(json!({"kind": "udp", "trace": [[2, 100], [3, 90]], "repeat": true})), Ok(()));
    }
}
