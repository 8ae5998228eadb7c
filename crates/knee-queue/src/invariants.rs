//! Invariants of every registered discipline under random arrivals, service, waits and changes of limit and rate.
//!
//! The test plays the link: it stamps packets, serves at the link's rate or at random, asks `next_wake` where a
//! dequeue gave nothing, and hears of every drop. After each call:
//!
//! * packets in = out + dropped + held, bytes likewise, and no packet comes twice or changed (but for CE);
//! * data and ACKs of one flow each leave in the order they came;
//! * the backlog is what the books say, and within the limit;
//! * marks are on ECN-capable packets only, each counted once;
//! * packets held while nothing may leave: `next_wake` names a later time, and then the queue does release.
//!
//! Calls give the same result twice; as bursts and one by one; later by any time, since no state stands for something
//! that never happened; and for a queue that is looked at while nothing happens, since updates are made up for as if
//! they had been made when they were due.
//! Disciplines are tried with their defaults and with parameters anywhere in their declared ranges.
//! `PROPTEST_CASES=100000` tries longer; `KNEE_QUEUE=cake,pie` tries only these. A fuzzer tries longer still:
//! [`check_any`] is one of its targets.

mod cases;

use crate::pie_law::in_ticks;
use crate::{Backlog, Burst, Context, DynQueue, Entry, Init, Limit, Resize, Verdict, docsis_pie};
use cases::{CODEPOINTS, Case, Start, Step, case};
use knee_core::testing::params;
use knee_core::{Bytes, Packet, Payload, Rate, Rng, Time, Value};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Held,
    Out,
    Dropped,
}

/// A queue's visible results; compared between two runs.
#[derive(Default, PartialEq, Debug)]
struct Seen {
    left: Vec<(Time, u64, u8)>,
    dropped: Vec<(Time, u64, u8)>,
    notes: Vec<(Time, Option<u32>, &'static str, u64)>,
    wakes: Vec<Time>,
    marks: u64,
}

impl Seen {
    /// Moves all times back by `by`.
    fn earlier(mut self, by: Time) -> Self {
        let packets = self.left.iter_mut().chain(&mut self.dropped).map(|(at, ..)| at);
        packets.chain(self.notes.iter_mut().map(|(at, ..)| at)).chain(&mut self.wakes).for_each(|at| *at -= by);
        self
    }
}

/// The link, with books of its own.
struct Bench {
    queue: Box<dyn DynQueue>,
    cx: Context,
    codepoints: Vec<u8>,
    overhead: u32,
    rate: Rate,
    limit: Option<Limit>,
    /// True if a limit in packets counts bursts of segments as one.
    gso: bool,
    /// All packets that came; the index is their `seq`.
    packets: Vec<(Packet, Fate)>,
    held: Backlog,
    /// The last packet of each flow to leave, for data and for ACKs.
    last_out: std::collections::BTreeMap<(u32, bool), u64>,
    /// Packets that left or were dropped with a CE that they did not bring.
    new_ce: u64,
    /// True if `next_wake` promised a release at this very time.
    promised: bool,
    seen: Seen,
    how: How,
}

/// How the same calls are made.
#[derive(Clone, Copy, Default)]
struct How {
    /// Packets that come or leave at once do so as bursts and runs.
    bursts: bool,
    /// The queue is looked at while nothing happens.
    polled: bool,
    /// All calls come so much later.
    later: Time,
}

/// Looks at a polled queue in a wait.
const POLLS: u64 = 40;

impl Bench {
    fn new(entry: &Entry, start: &Start, how: How) -> Self {
        let rate = Rate::from_bps(start.rate_bps);
        let rng = Rng::stream(start.seed, entry.name);
        let init = Init { limit: start.limit, overhead: start.overhead, rate, rng };
        let params = params(entry.params, &start.picks);
        Self {
            gso: params.find("gso") == Some(Value::Bool(true)),
            queue: (entry.make)(&params, &init),
            cx: Context::at(Time::from_nanos(start.now_ns) + how.later),
            codepoints: start.codepoints.clone(),
            overhead: start.overhead,
            rate,
            limit: start.limit,
            packets: Vec::new(),
            held: Backlog::default(),
            last_out: std::collections::BTreeMap::new(),
            new_ce: 0,
            promised: false,
            seen: Seen::default(),
            how,
        }
    }

    fn wire_size(&self, packet: &Packet) -> u64 {
        u64::from(packet.size) + u64::from(self.overhead)
    }

    /// Takes a packet off the books.
    fn gone(&mut self, packet: &Packet, state: Fate) -> Result<(), TestCaseError> {
        let Some((came, now)) = self.packets.get_mut(packet.payload.seq() as usize) else {
            return Err(TestCaseError::fail(format!("{packet:?} never came")));
        };
        prop_assert!(*now == Fate::Held, "{packet:?} left or was dropped twice");
        *now = state;
        let as_it_came = Packet { flags: (packet.flags & !Packet::CE) | (came.flags & Packet::CE), ..*packet };
        prop_assert_eq!(&as_it_came, &*came, "changed in the queue");
        if packet.has(Packet::CE) && !came.has(Packet::CE) {
            prop_assert!(packet.has(Packet::ECT), "{:?} is marked and not ECN-capable", packet);
            self.new_ce += 1;
        }
        prop_assert!(packet.has(Packet::CE) || !came.has(Packet::CE), "{:?} lost its CE", packet);
        let size = self.wire_size(packet);
        self.held.packets -= 1;
        self.held.bytes.0 -= size;
        Ok(())
    }

    /// Books what the last call left in the context, and holds the queue against the books.
    fn check(&mut self) -> Result<(), TestCaseError> {
        for packet in std::mem::take(&mut self.cx.dropped) {
            self.gone(&packet, Fate::Dropped)?;
            self.seen.dropped.push((self.cx.now, packet.payload.seq(), packet.flags));
        }
        for note in std::mem::take(&mut self.cx.notes) {
            prop_assert!(note.value.is_finite(), "{:?}", note);
            prop_assert_eq!(note.at, self.cx.now, "when it was left");
            self.seen.notes.push((self.cx.now, note.flow, note.event, note.value.to_bits()));
        }
        prop_assert_eq!(self.queue.backlog(), self.held, "the backlog differs from what is held");
        let fits = match self.limit {
            None => true,
            Some(Limit::Packets(_)) if self.gso => true,
            Some(Limit::Packets(n)) => self.held.packets <= n,
            Some(Limit::Bytes(n)) => self.held.bytes <= n,
            Some(Limit::Time(span)) => self.held.bytes <= self.rate.bytes_in(span),
        };
        prop_assert!(fits, "{:?} is over {:?} at {}", self.held, self.limit, self.rate);
        prop_assert!(self.cx.marks >= self.seen.marks, "marks went back");
        self.seen.marks = self.cx.marks;
        Ok(())
    }

    /// A packet that comes now, and is on the books.
    fn next(&mut self, flow: u32, size: u16, ack: bool) -> Packet {
        let codepoint = CODEPOINTS[usize::from(self.codepoints[flow as usize % self.codepoints.len()])];
        // TCP's pure ACKs are not ECN-capable (RFC 3168, Section 6.1.4).
        let (flags, size) = if ack { (Packet::ACK, 52) } else { (codepoint, size) };
        let seq = self.packets.len() as u64;
        let packet = Packet { at: self.cx.now, payload: Payload::segment(seq), flow, queued: 0, size, flags, hop: 0 };
        self.packets.push((packet, Fate::Held));
        self.held.packets += 1;
        self.held.bytes.0 += self.wire_size(&packet);
        self.promised = false;
        packet
    }

    /// Some packets come at once.
    fn arrive_all(&mut self, count: u16, flow: u32, size: u16, ack: bool) -> Result<(), TestCaseError> {
        let mut taken = 0;
        if self.how.bursts {
            let (books, held) = (self.packets.len(), self.held);
            let first = self.next(flow, size, ack);
            (1..count).for_each(|_| _ = self.next(flow, size, ack));
            taken = self.queue.enqueue_burst(&Burst { first, count: u32::from(count) }, &mut self.cx) as u16;
            self.packets.truncate(books + usize::from(taken));
            self.held = held;
            self.held.packets += u64::from(taken);
            self.held.bytes.0 += self.wire_size(&first) * u64::from(taken);
            self.check()?;
        }
        for _ in taken..count {
            self.arrive(flow, size, ack)?;
        }
        Ok(())
    }

    fn arrive(&mut self, flow: u32, size: u16, ack: bool) -> Result<(), TestCaseError> {
        let packet = self.next(flow, size, ack);
        let (seq, marks) = (packet.payload.seq(), self.cx.marks);
        let verdict = self.queue.enqueue(packet, &mut self.cx);
        let dropped = self.cx.dropped.iter().any(|p| p.payload.seq() == seq);
        prop_assert_eq!(verdict == Verdict::Dropped, dropped, "{:?}, and whether it was dropped", verdict);
        let counted = self.cx.marks > marks || packet.has(Packet::CE);
        prop_assert!(verdict != Verdict::Marked || counted, "marked and not counted");
        self.check()
    }

    /// Asks once; where nothing may leave, when to ask again.
    fn dequeue(&mut self) -> Result<Option<Packet>, TestCaseError> {
        let packet = self.queue.dequeue(&mut self.cx);
        if let Some(packet) = packet {
            self.leave(&packet)?;
        }
        let promised = std::mem::take(&mut self.promised);
        self.check()?;
        prop_assert!(packet.is_some() || self.held.packets == 0 || !promised, "no release at the time promised");
        Ok(packet)
    }

    fn leave(&mut self, packet: &Packet) -> Result<(), TestCaseError> {
        let key = (packet.flow, packet.has(Packet::ACK));
        let last = self.last_out.insert(key, packet.payload.seq());
        prop_assert!(last.is_none_or(|seq| seq < packet.payload.seq()), "{:?} was overtaken by {:?}", packet, last);
        self.gone(packet, Fate::Out)?;
        self.seen.left.push((self.cx.now, packet.payload.seq(), packet.flags));
        Ok(())
    }

    /// As [`Bench::dequeue`], for as many packets as leave in a run; gives how many.
    fn dequeue_run(&mut self, most: u16) -> Result<u16, TestCaseError> {
        let mut packet = Packet::default();
        let count = self.queue.dequeue_run(u32::from(most), &mut packet, &mut self.cx);
        prop_assert!(count <= u32::from(most), "{} packets, where {} were asked for", count, most);
        for _ in 0..count {
            self.leave(&packet)?;
            packet = packet.behind(1);
        }
        let promised = std::mem::take(&mut self.promised);
        self.check()?;
        prop_assert!(count > 0 || self.held.packets == 0 || !promised, "no release at the time promised");
        Ok(count as u16)
    }

    /// When a queue that gave nothing says to ask again.
    fn wake(&mut self) -> Result<Option<Time>, TestCaseError> {
        let wake = self.queue.next_wake();
        prop_assert!(wake.is_some() || self.held.packets == 0, "idle with {:?}", self.held);
        if let Some(at) = wake {
            prop_assert!(at > self.cx.now && at < Time::MAX, "nothing may leave at {}, yet ask at {at}", self.cx.now);
            self.seen.wakes.push(at);
        }
        Ok(wake)
    }

    /// The link asks; where packets are held back, it waits for the time named and asks then.
    fn serve(&mut self) -> Result<Option<Packet>, TestCaseError> {
        let packet = self.dequeue()?;
        if packet.is_some() {
            return Ok(packet);
        }
        let wake = self.wake()?;
        if self.held.packets == 0 {
            return Ok(None);
        }
        self.cx.now = wake.unwrap_or(self.cx.now);
        self.promised = true;
        self.dequeue()
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Arrive { flow, count, size, ack } => {
                self.arrive_all(count, flow, size, ack)?;
            }
            Step::Crowd { first, flows, size } => {
                for flow in first..first + u32::from(flows) {
                    self.arrive(flow, size, false)?;
                }
            }
            Step::Dequeue { count } => {
                let mut left = count;
                while left > 0 {
                    let some =
                        if self.how.bursts { self.dequeue_run(left)? } else { u16::from(self.dequeue()?.is_some()) };
                    if some == 0 {
                        self.wake()?;
                    }
                    left -= some.max(1);
                }
            }
            Step::Serve { count, flow } => {
                for _ in 0..count {
                    self.arrive(flow, 1500, false)?;
                    if let Some(packet) = self.serve()? {
                        self.cx.now += self.rate.time_for(Bytes(self.wire_size(&packet)));
                    }
                }
            }
            Step::Wait { ns } => self.wait(Time::from_nanos(ns))?,
            Step::Limit(limit) => {
                self.limit = Some(limit);
                self.queue.resize(Resize::Limit(limit), &mut self.cx);
                self.check()?;
            }
            Step::Rate { bps } => {
                self.rate = Rate::from_bps(bps);
                self.queue.resize(Resize::Rate(self.rate), &mut self.cx);
                self.check()?;
            }
            Step::Drain => self.drain()?,
        }
        Ok(())
    }

    fn wait(&mut self, span: Time) -> Result<(), TestCaseError> {
        let end = self.cx.now + span;
        if self.how.polled {
            for n in 1..=POLLS {
                self.cx.now = end - span + span.mul_div(n, POLLS);
                // A resize to the rate in force changes nothing.
                self.queue.resize(Resize::Rate(self.rate), &mut self.cx);
                self.check()?;
            }
        }
        self.cx.now = end;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        while let Some(packet) = self.serve()? {
            self.cx.now += self.rate.time_for(Bytes(self.wire_size(&packet)));
        }
        prop_assert_eq!(self.held, Backlog::default());
        Ok(())
    }

    /// Every packet has gone: the marks must be found on them.
    fn close(mut self) -> Result<Seen, TestCaseError> {
        self.drain()?;
        prop_assert_eq!(self.cx.marks, self.new_ce, "marks counted, and marks found");
        Ok(self.seen)
    }
}

fn run(entry: &Entry, start: &Start, steps: &[Step], how: How) -> Result<Seen, TestCaseError> {
    let mut bench = Bench::new(entry, start, how);
    for (i, step) in steps.iter().enumerate() {
        bench.step(step).map_err(|e| TestCaseError::fail(format!("step {i}, {step:?}: {e}")))?;
    }
    bench.close()
}

fn check_case(entry: &Entry, (start, steps): &Case) -> Result<(), TestCaseError> {
    let usual = How::default();
    let once = run(entry, start, steps, usual)?;
    let later = later(entry, start);
    let seen = run(entry, start, steps, How { polled: true, later, ..usual })?.earlier(later);
    if once != seen {
        prop_assert!(once == run(entry, start, steps, usual)?, "the same calls gave another result");
        let polled = run(entry, start, steps, How { polled: true, ..usual })?;
        prop_assert!(once == polled, "it is changed by being looked at while nothing happens");
        return Err(TestCaseError::fail(format!("{later} later it is not the same")));
    }
    prop_assert_eq!(
        once,
        run(entry, start, steps, How { bursts: true, ..usual })?,
        "in bursts it is not as one by one"
    );
    Ok(())
}

/// A time by which a case can come later, and all timers of its queue are in the same phase and its clocks, with units
/// up to 1024 ns, as far from their next count. Zero where the time before the first packet counts.
fn later(entry: &Entry, start: &Start) -> Time {
    let params = params(entry.params, &start.picks);
    let time = |name| if let Some(Value::Time(time)) = params.find(name) { time } else { Time::ZERO };
    let count = |name| if let Some(Value::Count(count)) = params.find(name) { count } else { 0 };
    let period = match entry.name {
        "pie" => in_ticks(time("tupdate"), time("tick")),
        "fq_pie" => in_ticks(time("tupdate"), time("tick")) + time("tick") * ((count("flows") - 1) / 2048),
        "dualpi2" => time("tupdate"),
        "docsis-pie" | "docsis-lld" => docsis_pie::INTERVAL,
        // max_p falls while nothing comes.
        "red" if params.find("adaptive") == Some(Value::Bool(true)) => Time::ZERO,
        _ => Time::from_nanos(1),
    };
    period * 1024 * (1 + start.seed % 1000)
}

/// Checks `entry` against the calls that these bytes stand for.
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
/// If it breaks an invariant.
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
    use crate::{Bursts, Queue, registry};
    use knee_core::Params;
    use knee_core::testing::{assert_declared, corpus, fuzz};

    #[test]
    fn every_discipline_keeps_the_invariants_whatever_happens() {
        let entries: Vec<_> = registry().iter().map(|entry| (entry.name, entry)).collect();
        fuzz(Some("KNEE_QUEUE"), &entries, 5_000, 700, |entry, bytes| check(entry, bytes));
    }

    #[test]
    fn what_the_fuzzer_found_its_way_with_keeps_the_invariants() {
        let entries: Vec<_> = registry().iter().collect();
        for (file, bytes) in corpus("queues") {
            eprintln!("{file}");
            check_any(&entries, &bytes);
        }
    }

    #[test]
    fn the_registry_is_sound() {
        assert_declared(registry().iter().map(|entry| (entry.name, entry.about, entry.source, entry.params)));
    }

    /// A `pfifo` with one fault, to see that the invariants find it.
    #[derive(Clone)]
    struct Faulty<const FAULT: u8> {
        inner: Box<dyn DynQueue>,
        held_back: Option<Packet>,
    }

    impl<const FAULT: u8> Queue for Faulty<FAULT> {
        fn enqueue(&mut self, mut packet: Packet, cx: &mut Context) -> Verdict {
            match FAULT {
                // A mark on a packet whatever its codepoint.
                0 => {
                    cx.marks += u64::from(!packet.has(Packet::CE));
                    packet.flags |= Packet::CE;
                }
                // A mark that is not there.
                1 => cx.marks += 1,
                // A drop that nobody hears of.
                2 if self.inner.backlog().packets == 3 => return Verdict::Dropped,
                _ => {}
            }
            self.inner.enqueue(packet, cx)
        }

        fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
            match FAULT {
                // The second before the first.
                3 if self.held_back.is_none() && self.inner.backlog().packets > 1 => {
                    self.held_back = self.inner.dequeue(cx);
                    self.inner.dequeue(cx)
                }
                // Packets held, and no word of when to ask.
                4 if self.inner.backlog().packets == 2 => None,
                _ => self.held_back.take().or_else(|| self.inner.dequeue(cx)),
            }
        }

        fn backlog(&self) -> Backlog {
            let mut backlog = self.inner.backlog();
            backlog.packets += u64::from(self.held_back.is_some());
            backlog.bytes.0 += self.held_back.map_or(0, |p| u64::from(p.size));
            backlog
        }

        fn resize(&mut self, to: Resize, cx: &mut Context) {
            // A limit that changes nothing.
            if FAULT != 5 {
                self.inner.resize(to, cx);
            }
        }
    }

    impl<const FAULT: u8> Bursts for Faulty<FAULT> {}

    #[test]
    fn the_invariants_find_faults() {
        fn entry<const FAULT: u8>() -> Entry {
            fn make<const FAULT: u8>(_: &Params, init: &Init) -> Box<dyn DynQueue> {
                let pfifo = crate::find("pfifo").expect("pfifo is there");
                let inner = (pfifo.make)(&Params::defaults(pfifo.params), init);
                Box::new(Faulty::<FAULT> { inner, held_back: None })
            }
            Entry { name: "faulty", about: "", source: "", params: &[], make: make::<FAULT> }
        }
        let start = Start {
            now_ns: 0,
            limit: None,
            overhead: 0,
            rate_bps: 100_000_000,
            seed: 1,
            codepoints: vec![0],
            picks: vec![],
        };
        let arrive = Step::Arrive { flow: 0, count: 5, size: 1500, ack: false };
        let steps = [arrive, Step::Dequeue { count: 2 }, Step::Limit(Limit::Packets(1)), Step::Drain];
        assert!(run(&entry::<255>(), &start, &steps, How::default()).is_ok());
        for (fault, entry, what) in [
            (0, entry::<0>(), "not ECN-capable"),
            (1, entry::<1>(), "marks counted"),
            (2, entry::<2>(), "whether it was dropped"),
            (3, entry::<3>(), "overtaken"),
            (4, entry::<4>(), "idle with"),
            (5, entry::<5>(), "is over"),
        ] {
            // Fault 4 needs to be asked again before the limit changes.
            let steps = if fault == 4 { vec![steps[0].clone(), Step::Drain] } else { steps.to_vec() };
            let found = run(&entry, &start, &steps, How::default()).expect_err("a fault unseen").to_string();
            assert!(found.contains(what), "fault {fault}: {found}");
        }
    }
}
