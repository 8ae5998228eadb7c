//! Checks of the keys of a flow and of its times, for this reader and for Python's (`resolved.rs`).

use crate::error::refused;
use crate::fields::Read;
use crate::traffic::Carries;
use crate::units::TIME;
use crate::words::quoted;
use knee_net::spec::EcnSpec;
use serde::Deserialize;

/// The name of no congestion control, which datagrams have, and of a program's own.
pub(crate) const NONE: &str = "none";
const PROGRAM: &str = "program";
/// The refusal of one for datagrams.
pub(crate) const DATAGRAMS: &str = "datagrams have no congestion control";
/// QUIC stacks whose congestion controls are named as `quinn:cubic`.
const STACKS: [&str; 2] = ["quinn", "noq"];
/// Kinds of traffic whose messages count as complete when they are acknowledged, which noq does not tell.
const ACKNOWLEDGED: [&str; 2] = ["transfers", "bursts"];

/// The QUIC stack of a congestion control, and its name there.
pub(crate) fn stack(cc: &str) -> Option<(&str, &str)> {
    cc.split_once(':').filter(|(stack, _)| STACKS.contains(stack))
}

/// Keys of a flow, every default filled in.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Keys {
    pub(crate) cc: String,
    pub(crate) transport: String,
    pub(crate) tls: bool,
    pub(crate) bytes: Option<u64>,
    pub(crate) is_paced: bool,
    pub(crate) ecn: EcnSpec,
    /// The reaction of its algorithm to marks is that of RFC 3168.
    pub(crate) is_classic: bool,
    pub(crate) traffic: Option<Carries>,
    /// A program has a transport of its own.
    pub(crate) is_program: bool,
    /// `None` for an honest one.
    pub(crate) receiver: Option<Receiver>,
}

/// A receiver that misbehaves.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Receiver {
    /// Its sender hears of no loss.
    needs_window: bool,
}

fn no<T>(found: impl Into<String>, accepted: &str, key: &str) -> Read<T> {
    Err(refused(found, accepted).under(key))
}

impl Keys {
    pub(crate) fn is_quic(&self) -> bool {
        self.transport == "quic"
    }

    /// True if its traffic goes in datagrams.
    pub(crate) fn is_datagrams(&self) -> bool {
        self.traffic.as_ref().is_some_and(Carries::is_datagrams)
    }

    /// Requests at once on a connection.
    pub(crate) fn streams(&self) -> u64 {
        self.traffic.as_ref().map_or(1, Carries::streams)
    }

    /// Refuses a transport, a congestion control, a program and traffic that contradict each other.
    pub(crate) fn check(&self) -> Read<()> {
        self.check_program()?;
        if !self.is_datagrams() && self.cc == NONE {
            return no("only datagrams have none", "expected the name of a congestion control", "cc");
        }
        if !self.is_datagrams() && self.transport == "udp" {
            return no("\"udp\" carries only datagrams", "expected tcp, quic, or a table traffic", "transport");
        }
        if let Some(traffic) = &self.traffic {
            self.check_traffic(traffic)?;
        }
        if self.is_quic() {
            return Ok(());
        }
        if self.tls {
            return no("TCP flows are not encrypted", "expected transport = \"quic\", or no such key", "tls");
        }
        let Some((stack, algorithm)) = stack(&self.cc) else { return Ok(()) };
        let found = format!("{} is a controller of the QUIC stack {stack}", quoted(&self.cc));
        no(found, &format!("expected transport = \"quic\", or cc = \"{algorithm}\""), "cc")
    }

    fn check_program(&self) -> Read<()> {
        if !self.is_program {
            let accepted = "expected a table program = { send = \"...\", receive = \"...\" }";
            return if self.cc == PROGRAM { no("there is no program", accepted, "cc") } else { Ok(()) };
        }
        if self.cc != PROGRAM {
            return no("a program has a congestion control of its own", "expected one of cc and program", "cc");
        }
        let given = [
            ("transport", self.transport != "tcp"),
            ("tls", self.tls),
            ("bytes", self.bytes.is_some()),
            ("pacing", self.is_paced),
            ("ecn", self.ecn != EcnSpec::Off),
            ("traffic", self.traffic.is_some()),
            ("receiver", self.receiver.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => no("this is the program's own business", "leave it out", key),
            None => Ok(()),
        }
    }

    fn check_traffic(&self, traffic: &Carries) -> Read<()> {
        let at = |read: Read<()>| read.map_err(|error| error.under("traffic"));
        if self.is_quic() && traffic.is_tls_1_2() {
            return at(no("QUIC's handshake is that of TLS 1.3", "expected \"1.3\", or no such key", "tls"));
        }
        if self.is_quic() && traffic.has_certificate() {
            let found = "the certificates of QUIC's handshake are those of [quic]";
            return at(no(found, "expected certificate in [quic], or no such key", "certificate"));
        }
        if traffic.streams() > 1 {
            at(self.check_streams())?;
        }
        if self.bytes.is_some() {
            let found = format!("traffic of kind {} has sizes of its own", traffic.kind);
            return no(found, "expected one of bytes and traffic", "bytes");
        }
        if traffic.is_datagrams() { self.check_datagrams(&traffic.kind) } else { Ok(()) }
    }

    fn check_streams(&self) -> Read<()> {
        if !self.is_quic() {
            let accepted = "expected transport = \"quic\", or no such key";
            return no("a connection of TCP has one stream", accepted, "streams");
        }
        let Some((stack, _)) = stack(&self.cc) else { return Ok(()) };
        let found = format!("connections of the QUIC stack {stack} have one stream here");
        no(found, "expected a congestion control of knee's, or no such key", "streams")
    }

    fn check_datagrams(&self, kind: &str) -> Read<()> {
        if self.is_quic() {
            let found = "over QUIC datagrams are under a congestion control";
            let accepted = "expected the name of a congestion control";
            return if self.cc == NONE { no(found, accepted, "cc") } else { Ok(()) };
        }
        if self.cc != NONE {
            return no(DATAGRAMS, "leave it out", "cc");
        }
        if self.transport != "udp" {
            let found = format!("traffic of kind {kind} goes in datagrams");
            return no(found, "expected \"quic\", or no such key", "transport");
        }
        if self.is_paced {
            return no(format!("traffic of kind {kind} has times of its own"), "leave it out", "pacing");
        }
        if self.ecn == EcnSpec::Accurate {
            return no("\"accurate\" is feedback of TCP", "expected true, false or \"l4s\"", "ecn");
        }
        Ok(())
    }

    /// Refuses a receiver that misbehaves where it means nothing; `window` is the limit of `[tcp]`, if it has one.
    pub(crate) fn check_receiver(&self, window: Option<u64>) -> Read<()> {
        let Some(receiver) = self.receiver else { return Ok(()) };
        if self.is_quic() {
            let found = "the receiver of a QUIC flow is that of the QUIC stack, which is honest";
            return no(found, "expected transport = \"tcp\", or no such key", "receiver");
        }
        if let Some(Carries { kind, .. }) = &self.traffic {
            let found =
                format!("only the receivers of endless flows and single transfers misbehave, not those of {kind}");
            return no(found, "expected no traffic, or no such key", "receiver");
        }
        if receiver.needs_window && window.is_none() {
            let found = "its sender hears of no loss, so that nothing limits its window";
            return no(found, "expected a limit in [tcp], such as receive_window = \"1 MB\"", "receiver");
        }
        Ok(())
    }

    /// Refuses what means nothing to a flow over QUIC, which `is_own` says to have the simulator's endpoints.
    pub(crate) fn check_quic(&self, is_own: bool) -> Read<()> {
        let cc = &self.cc;
        if !self.is_classic && !is_own {
            let found =
                format!("{cc} counts CE marks one by one, and the QUIC stack reports only that there were some");
            let accepted = "expected ground \"sim\", transport = \"tcp\", or another congestion control";
            return no(found, accepted, "cc");
        }
        if matches!(self.ecn, EcnSpec::Accurate | EcnSpec::L4s) && self.is_classic {
            return no("QUIC has feedback of its own, and sends ECT(0)", "expected true or false", "ecn");
        }
        if let (Some((stack, _)), Some(Carries { kind, .. })) = (stack(cc), &self.traffic) {
            if self.is_datagrams() {
                let found =
                    format!("{cc} runs in a QUIC stack, which carries streams here, and {kind} sends datagrams");
                return no(found, "expected a congestion control of knee list cc, or other traffic", "cc");
            }
            if stack == "noq" && ACKNOWLEDGED.contains(&kind.as_str()) {
                let found = format!(
                    "noq does not tell when a message is acknowledged, as which one of {kind} counts as complete"
                );
                return no(found, "expected a congestion control that is not noq's, or other traffic", "cc");
            }
        }
        if self.is_paced {
            return no("QUIC paces every flow", "expected pacing = \"auto\", or no such key", "pacing");
        }
        Ok(())
    }
}

/// When a flow sends, or `count` identical ones do, ns.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Times {
    pub(crate) start: u64,
    pub(crate) stagger: u64,
    pub(crate) stop: Option<u64>,
    pub(crate) lasts: Option<u64>,
}

impl Times {
    /// Refuses times that contradict each other, or the end of the run.
    pub(crate) fn check(&self, count: u64, end: u64) -> Read<()> {
        let last = u128::from(self.start) + u128::from(count - 1) * u128::from(self.stagger);
        if last >= end.into() {
            let found = format!("the start at {} is not before the end at {}", TIME.text(last), TIME.text(end));
            let key = if self.start >= end { "start" } else { "stagger" };
            return no(found, "expected an earlier start or a longer duration", key);
        }
        if self.stop.is_some() && self.lasts.is_some() {
            return no("stop and lasts are both given", "expected one of them", "lasts");
        }
        if let Some(stop) = self.stop.filter(|stop| u128::from(*stop) <= last) {
            let found = format!("the stop at {} is not after the start at {}", TIME.text(stop), TIME.text(last));
            return no(found, "expected a later stop", "stop");
        }
        Ok(())
    }
}
