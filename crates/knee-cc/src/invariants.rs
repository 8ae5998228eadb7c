//! Invariants of every registered algorithm under random sequences of events, plausible and implausible.
//!
//! The test plays the sender: it calls the algorithm in the order Linux's `tcp_ack` would and applies every answer.
//! After each call: the window is within bounds, `ssthresh` and the pacing rate make sense, the phase exists and was
//! reached along an allowed edge. The same events give the same answers twice, and without rate samples too unless the
//! algorithm asks for them.
//!
//! Algorithms are tried with their defaults and with parameters anywhere in their declared ranges.
//! `PROPTEST_CASES=100000` tries longer; `KNEE_CC=cubic,lola` tries only these. A fuzzer tries longer still:
//! [`check_any`] is one of its targets.

#![allow(clippy::cast_possible_truncation, reason = "random numbers are cut on purpose")]

use crate::{
    Ack, CaState, Congestion, Control, DynCongestionControl, Entry, INFINITE_SSTHRESH, Init, RateSample, Sent, Signal,
    StateChange, StateEvent, Undo, View,
};
use knee_core::testing::{Pick, Source, params};
use knee_core::{Rate, Rng, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// The largest window the sender lets stand: 2^30 packets.
const MAX_WINDOW: u32 = 1 << 30;

/// Most packets of one ACK, and of each ACK of a round, of which there are many: some algorithms work packet by packet.
const MOST_ACKED: u32 = 1 << 20;
const MOST_ACKED_IN_ROUND: u32 = 1 << 12;

/// The start of a connection.
#[derive(Clone, Debug)]
struct Start {
    now_ns: u64,
    rtt_ns: u64,
    cwnd: u32,
    mss: u32,
    tick_ns: u64,
    seed: u64,
    /// Drawn values of the algorithm's parameters.
    picks: Vec<Pick>,
}

/// Where an RTT sample comes from.
#[derive(Clone, Copy, Debug)]
enum RttSample {
    Missing,
    /// The start's RTT plus this many permille of it.
    Queued(u16),
    Wild(u64),
}

/// The contents of one ACK; shares are in 1/255 of what is in flight.
#[derive(Clone, Debug)]
struct AckStep {
    gap_ns: u64,
    rtt: RttSample,
    acked: u8,
    sacked: u8,
    lost: u8,
    ece: bool,
    cwnd_limited: bool,
    app_limited: bool,
    interval_ns: Option<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Fills the window, then takes that many ACKs of two packets each, spread over a queued RTT.
    Round {
        acks: u16,
        queued: u16,
        ce: u8,
    },
    /// Sends up to this share of the window, in 1/255.
    Send {
        share: u8,
        retransmission: bool,
    },
    Ack(AckStep),
    Echo,
    Timeout,
    Undo,
    Disorder,
    Idle {
        ns: u64,
    },
}

fn start(source: &mut Source) -> Start {
    Start {
        now_ns: source.log_uniform(44),
        // 1 us to 10 s.
        rtt_ns: 1_000 * source.log_uniform(23).min(10_000_000),
        cwnd: (if source.chance(205) { source.range(1, 200) } else { source.log_uniform(30) }) as u32,
        mss: (if source.chance(128) { 1448 } else { source.range(1, 65_536) }) as u32,
        tick_ns: source.one_of(&[0, 1_000_000, 4_000_000, 10_000_000]),
        seed: source.bytes(8),
        picks: source.picks(),
    }
}

fn share(source: &mut Source) -> u8 {
    match source.weighted(&[2, 3, 1]) {
        0 => 0,
        1 => source.below(20) as u8,
        _ => source.byte(),
    }
}

fn ack(source: &mut Source) -> AckStep {
    AckStep {
        gap_ns: source.log_uniform(34),
        rtt: match source.weighted(&[1, 6, 2]) {
            0 => RttSample::Missing,
            1 => RttSample::Queued(source.below(2000) as u16),
            _ => RttSample::Wild(source.log_uniform(34)),
        },
        acked: share(source),
        sacked: share(source),
        lost: if source.chance(20) { source.byte() } else { 0 },
        ece: source.chance(128),
        cwnd_limited: source.chance(205),
        app_limited: source.chance(51),
        interval_ns: source.maybe(|source| source.log_uniform(36)),
    }
}

fn step(source: &mut Source) -> Step {
    match source.weighted(&[8, 4, 12, 1, 1, 1, 1, 1, 1]) {
        0 => Step::Round {
            acks: source.range(1, 80) as u16,
            queued: source.below(3000) as u16,
            ce: if source.chance(192) { 0 } else { source.byte() },
        },
        1 => Step::Send { share: source.byte(), retransmission: source.chance(26) },
        2 => Step::Ack(ack(source)),
        3 => Step::Echo,
        4 => Step::Timeout,
        5 => Step::Undo,
        6 => Step::Disorder,
        7 => Step::Idle { ns: source.log_uniform(42) },
        // Up to two years, in which nothing may go on: it would not end.
        _ => Step::Idle { ns: source.log_uniform(56) },
    }
}

/// A connection, and at most 120 steps.
fn case(bytes: &[u8]) -> Case {
    let mut source = Source::new(bytes);
    let start = start(&mut source);
    let mut steps = vec![step(&mut source)];
    while !source.is_empty() && steps.len() < 120 {
        steps.push(step(&mut source));
    }
    (start, steps)
}

/// A sender as far as an algorithm sees it.
struct Sender<'a> {
    entry: &'a Entry,
    cc: Box<dyn DynCongestionControl>,
    control: Control,
    view: View,
    base_rtt: Time,
    /// Packets SACKed above `snd_una`.
    sacked: u32,
    /// Window and `ssthresh` before the reduction under way, and the segment whose ACK ends it.
    reduction: Option<(u32, u32, u64)>,
    answers: Vec<Control>,
    /// ACKs bring a rate sample.
    rates: bool,
}

impl<'a> Sender<'a> {
    fn new(entry: &'a Entry, start: &Start, rates: bool) -> Self {
        let rtt = Time::from_nanos(start.rtt_ns);
        let init = Init {
            now: Time::from_nanos(start.now_ns),
            rtt,
            cwnd: start.cwnd,
            mss: start.mss,
            tick: Time::from_nanos(start.tick_ns),
            paced: start.seed % 2 == 1,
            accurate_ecn: start.seed % 4 > 1,
            tso: start.seed % 8 > 3,
            rng: Rng::stream(start.seed, "invariants"),
        };
        let cc = (entry.make)(&params(entry.params, &start.picks), &init);
        let view =
            View { now: init.now, srtt: rtt, min_rtt: rtt, paced_until: init.now, mss: start.mss, ..View::INITIAL };
        let control = Control::initial(start.cwnd);
        Self { entry, cc, control, view, base_rtt: rtt, sacked: 0, reduction: None, answers: Vec::new(), rates }
    }

    /// Checks an answer against all invariants and puts it in force.
    fn apply(&mut self, call: &str, answer: Control) -> Result<(), TestCaseError> {
        let (entry, given) = (self.entry, self.control);
        // A window that the sender itself brought below the algorithm's minimum may stay, but not shrink further.
        let least = entry.min_cwnd.max(1).min(given.cwnd);
        prop_assert!(answer.cwnd >= least, "{call}: cwnd {} below {least}", answer.cwnd);
        prop_assert!(answer.cwnd < 1 << 31, "{call}: cwnd {}", answer.cwnd);
        prop_assert!((1..=INFINITE_SSTHRESH).contains(&answer.ssthresh), "{call}: ssthresh {}", answer.ssthresh);
        prop_assert!(answer.pacing_rate.is_none_or(|rate| rate > Rate::ZERO), "{call}: pacing rate 0");
        prop_assert!(usize::from(answer.phase) < entry.phases.len(), "{call}: phase {}", answer.phase);
        let edge = (given.phase, answer.phase);
        let name = |phase: u8| entry.phases[usize::from(phase)];
        prop_assert!(
            edge.0 == edge.1 || entry.edges.contains(&edge),
            "{call}: no edge from {} to {}",
            name(edge.0),
            name(edge.1)
        );
        self.control = Control { cwnd: answer.cwnd.min(MAX_WINDOW), ..answer };
        self.answers.push(answer);
        Ok(())
    }

    fn tell(&mut self, event: StateEvent) -> Result<(), TestCaseError> {
        if let StateEvent::Entered(ca) = event {
            self.view.ca = ca;
        }
        let mut answer = self.control;
        self.cc.on_state(&StateChange { view: &self.view, event }, &mut answer);
        self.apply("on_state", answer)
    }

    /// Asks for `ssthresh` and enters the state that follows from the signal.
    fn reduce(&mut self, signal: Signal, ca: CaState) -> Result<(), TestCaseError> {
        let before = (self.control.cwnd, self.control.ssthresh, self.view.snd_nxt);
        let mut answer = self.control;
        self.cc.on_congestion(&Congestion { view: &self.view, signal }, &mut answer);
        let ssthresh = answer.ssthresh;
        prop_assert_eq!(answer, Control { ssthresh, ..self.control }, "on_congestion sets more than ssthresh");
        let unchanged = ssthresh == self.control.ssthresh;
        prop_assert!(unchanged || (2..=INFINITE_SSTHRESH).contains(&ssthresh), "on_congestion: ssthresh {ssthresh}");
        self.reduction = Some(before);
        self.control.ssthresh = ssthresh;
        self.control.cwnd_cnt = 0;
        self.answers.push(self.control);
        if signal == Signal::Timeout {
            self.tell(StateEvent::Timeout)?;
            self.view.lost += u64::from(self.view.in_flight);
            self.view.in_flight = 0;
            self.control.cwnd = 1;
        }
        self.tell(StateEvent::Entered(ca))
    }

    fn send(&mut self, share: u8, retransmission: bool) -> Result<(), TestCaseError> {
        let room = self.control.cwnd.saturating_sub(self.view.in_flight);
        let packets = (u64::from(room) * u64::from(share) / 255) as u32;
        if packets == 0 {
            return Ok(());
        }
        if self.view.in_flight == 0 {
            self.tell(StateEvent::Restart)?;
        }
        if !retransmission {
            self.view.snd_nxt += u64::from(packets);
        }
        self.view.in_flight += packets;
        self.view.app_limited = self.view.in_flight < self.control.cwnd;
        self.view.paced_until = self.view.now + self.base_rtt.mul_div(u64::from(share), 255);
        if self.entry.needs.sent {
            let sent = Sent { view: &self.view, packets, retransmission };
            let mut answer = self.control;
            self.cc.on_sent(&sent, &mut answer);
            self.apply("on_sent", answer)?;
        }
        Ok(())
    }

    /// An ACK that brings at most `most` packets.
    fn ack(&mut self, step: &AckStep, most: u32) -> Result<(), TestCaseError> {
        let share = |of: u32, share: u8| (u64::from(of) * u64::from(share)).div_ceil(255) as u32;
        let prior = self.view;
        let view = &mut self.view;
        view.now += Time::from_nanos(step.gap_ns);
        let delivered_now = share(view.in_flight, step.acked).min(most);
        view.in_flight -= delivered_now;
        // A cumulative ACK takes what was SACKed with it.
        let outstanding = (view.snd_nxt - view.snd_una).min(1 << 30) as u32;
        let acked = if delivered_now > 0 { (delivered_now + self.sacked).min(outstanding) } else { 0 };
        self.sacked = if acked > 0 { 0 } else { self.sacked };
        view.snd_una += u64::from(acked);
        let sacked = share(view.in_flight, step.sacked).min(most);
        view.in_flight -= sacked;
        self.sacked = self.sacked.saturating_add(sacked).min(MOST_ACKED);
        let lost = share(view.in_flight, step.lost);
        view.in_flight -= lost;
        let delivered = delivered_now + sacked;
        view.delivered += u64::from(delivered);
        let ce = if step.ece { delivered } else { 0 };
        view.delivered_ce += u64::from(ce);
        let rtt = match step.rtt {
            RttSample::Missing => None,
            RttSample::Queued(permille) => {
                Some(self.base_rtt + self.base_rtt.mul_div(u64::from(permille), 1000).floor_to(Time::from_micros(1)))
            }
            RttSample::Wild(ns) => Some(Time::from_nanos(ns).floor_to(Time::from_micros(1))),
        };
        if let Some(rtt) = rtt {
            view.min_rtt = view.min_rtt.min(rtt);
            view.srtt = (view.srtt * 7 + rtt) / 8;
        }
        let rate = RateSample {
            delivered,
            delivered_ce: ce,
            interval: step.interval_ns.map(Time::from_nanos),
            prior_delivered: prior.delivered.saturating_sub(u64::from(prior.in_flight)),
            prior_lost: prior.lost,
            tx_in_flight: prior.in_flight,
            app_limited: step.app_limited,
            is_retrans: matches!(step.rtt, RttSample::Missing),
            ack_delayed: delivered == 1,
        };
        let seen = *view;
        let ack = Ack {
            view: &seen,
            rtt,
            acked,
            delivered,
            lost,
            prior_in_flight: prior.in_flight,
            prior_una: prior.snd_una,
            part: delivered == 0 && rtt.is_none(),
            cwnd_limited: step.cwnd_limited,
            ece: step.ece,
            rate: if self.rates { &rate } else { &RateSample::NONE },
        };
        let mut answer = self.control;
        self.cc.on_measure(&ack, &mut answer);
        self.apply("on_measure", answer)?;
        self.view.lost += u64::from(lost);
        self.recover(lost)?;

        let full_control = self.entry.needs.full_control;
        let reducing = matches!(self.view.ca, CaState::Cwr | CaState::Recovery);
        let seen = self.view;
        let ack = Ack { view: &seen, ..ack };
        if full_control || (!reducing && delivered > 0) {
            let mut answer = self.control;
            self.cc.on_ack(&ack, &mut answer);
            self.apply("on_ack", answer)?;
        } else if reducing {
            // Proportional rate reduction, in its outcome: in step with what is delivered.
            self.control.cwnd = self.control.cwnd.min(self.view.in_flight.saturating_add(delivered)).max(1);
        }
        Ok(())
    }

    /// Enters and leaves recovery.
    fn recover(&mut self, lost: u32) -> Result<(), TestCaseError> {
        if let Some((_, _, until)) = self.reduction
            && self.view.snd_una >= until
        {
            self.reduction = None;
            if self.view.ca != CaState::Loss {
                if !self.entry.needs.full_control && self.control.ssthresh < INFINITE_SSTHRESH {
                    self.control.cwnd = self.control.ssthresh.min(MAX_WINDOW);
                }
                self.tell(StateEvent::ReductionDone)?;
            }
            self.tell(StateEvent::Entered(CaState::Open))?;
        }
        if lost > 0 && !matches!(self.view.ca, CaState::Recovery | CaState::Loss) {
            self.reduce(Signal::Loss, CaState::Recovery)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Round { acks, queued, ce } => {
                self.send(255, false)?;
                let rtt = self.base_rtt + self.base_rtt.mul_div(u64::from(queued), 1000);
                let gap_ns = rtt.as_nanos() / u64::from(acks);
                for i in 0..acks {
                    let ack = AckStep {
                        gap_ns,
                        rtt: RttSample::Queued(queued),
                        acked: (510 / self.view.in_flight.max(2)).max(1) as u8,
                        sacked: 0,
                        lost: 0,
                        ece: ce > (i % 256) as u8,
                        cwnd_limited: true,
                        app_limited: false,
                        interval_ns: Some(rtt.as_nanos()),
                    };
                    self.ack(&ack, MOST_ACKED_IN_ROUND)?;
                    self.send(255, false)?;
                }
                Ok(())
            }
            Step::Send { share, retransmission } => self.send(share, retransmission),
            Step::Ack(ref ack) => self.ack(ack, MOST_ACKED),
            Step::Echo if matches!(self.view.ca, CaState::Open | CaState::Disorder) => {
                self.reduce(Signal::Ecn, CaState::Cwr)
            }
            Step::Timeout => self.reduce(Signal::Timeout, CaState::Loss),
            Step::Undo => {
                let Some((prior_cwnd, prior_ssthresh, _)) = self.reduction.take() else { return Ok(()) };
                let mut answer = self.control;
                self.cc.on_undo(&Undo { view: &self.view, prior_cwnd }, &mut answer);
                let cwnd = answer.cwnd;
                prop_assert_eq!(answer, Control { cwnd, ..self.control }, "on_undo sets more than cwnd");
                prop_assert!((1..1 << 31).contains(&cwnd), "on_undo: cwnd {cwnd}");
                self.control.cwnd = cwnd.min(MAX_WINDOW);
                self.control.ssthresh = self.control.ssthresh.max(prior_ssthresh);
                self.answers.push(self.control);
                self.tell(StateEvent::Entered(CaState::Open))
            }
            Step::Disorder if self.view.ca == CaState::Open => self.tell(StateEvent::Entered(CaState::Disorder)),
            Step::Idle { ns } => {
                self.view.in_flight = 0;
                self.view.snd_una = self.view.snd_nxt;
                self.view.now += Time::from_nanos(ns);
                self.send(255, false)
            }
            Step::Echo | Step::Disorder => Ok(()),
        }
    }
}

/// Runs an algorithm through a sequence, with or without rate samples, and returns all its answers.
fn run(entry: &Entry, start: &Start, steps: &[Step], rates: bool) -> Result<Vec<Control>, TestCaseError> {
    let mut sender = Sender::new(entry, start, rates);
    sender.tell(StateEvent::Start)?;
    for (i, step) in steps.iter().enumerate() {
        sender.step(step).map_err(|e| TestCaseError::fail(format!("step {i}, {step:?}: {e}")))?;
    }
    Ok(sender.answers)
}

/// A connection and what happens to it.
type Case = (Start, Vec<Step>);

fn check_case(entry: &Entry, (start, steps): &Case) -> Result<(), TestCaseError> {
    let once = run(entry, start, steps, true)?;
    prop_assert!(once == run(entry, start, steps, true)?, "the same events gave other answers");
    let reads = entry.needs.rate;
    prop_assert!(reads || once == run(entry, start, steps, false)?, "it reads rates without asking for them");
    Ok(())
}

/// Checks `entry` against the events that these bytes stand for.
///
/// # Errors
/// Which of the invariants it does not keep, and where.
pub fn check(entry: &Entry, bytes: &[u8]) -> Result<(), TestCaseError> {
    let case = case(bytes);
    check_case(entry, &case).map_err(|why| TestCaseError::fail(format!("{why}\n{case:?}")))
}

/// As [`check`], of one of `entries`, which the first byte says.
///
/// # Panics
/// Where it does not keep the invariants.
pub fn check_any(entries: &[&Entry], bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let entry = entries[usize::from(*first) % entries.len()];
    if let Err(why) = check(entry, rest) {
        panic!("{}: {why}", entry.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use knee_core::testing::{assert_declared, corpus, fuzz};

    #[test]
    fn every_algorithm_keeps_the_invariants_whatever_happens() {
        let entries: Vec<_> = registry().iter().map(|entry| (entry.name, entry)).collect();
        fuzz(Some("KNEE_CC"), &entries, 20_000, 2_000, |entry, bytes| check(entry, bytes));
    }

    #[test]
    fn what_the_fuzzer_found_its_way_with_keeps_the_invariants() {
        let entries: Vec<_> = registry().iter().collect();
        for (file, bytes) in corpus("congestion") {
            eprintln!("{file}");
            check_any(&entries, &bytes);
        }
    }

    #[test]
    fn the_registry_is_sound() {
        assert_declared(registry().iter().map(|entry| (entry.name, entry.about, entry.source, entry.params)));
        for entry in registry() {
            for &(from, to) in entry.edges {
                assert!(
                    usize::from(from.max(to)) < entry.phases.len() && from != to,
                    "{}: edge {from} {to}",
                    entry.name
                );
            }
        }
    }
}
