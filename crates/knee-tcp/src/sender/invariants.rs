//! Invariants of a sender whatever ACKs arrive: from a receiver that is far away or next door, over a network that
//! loses, duplicates and reorders packets and ACKs, or made up.
//!
//! After each call:
//!
//! * what is acknowledged never goes back, and is no more than what was sent;
//! * of what is in flight, no more is SACKed, lost or retransmitted than there is;
//! * new segments leave in order, each once; what is sent again is in flight; both are counted;
//! * the window is at least one packet and the pacing rate is not zero;
//! * no timer is in the past; without ACKs, timeouts come no more often than doubling up to two minutes lets them, and
//!   other timers in proportion to what is sent.

use super::{AckInfo, Config, Outgoing, Sender, SenderInit};
use crate::ecn::{Ecn, FIRST_COUNT};
use crate::timer::Clock;
use knee_cc::{DynCongestionControl, Ecn as Reaction, Entry, Init, Make};
use knee_core::testing::{Source, params};
use knee_core::{Packet, Params, Rate, Rng, Time};
use std::collections::BTreeSet;
use std::fmt;

/// Segments of the largest receive window: what a call sends has a bound.
const WINDOW: u64 = 2_000;
/// ACKs and timers of a case.
const STEPS: usize = 300;

/// The start of a case: settings, handshake and the path to the receiver.
#[derive(Clone)]
pub(super) struct Case {
    pub config: Config,
    pub init: SenderInit,
    /// RTT of the handshake, if it gave one, and when it ended.
    pub handshake: Option<Time>,
    pub now: Time,
    make: Make,
    params: Params,
    rtt: Time,
}

impl Case {
    pub fn draw(entry: &Entry, source: &mut Source) -> Self {
        let config = config(source);
        let (bytes, paced) = (source.maybe(|source| source.log_uniform(24)), source.chance(64));
        let (off, on, accurate) = match entry.needs.ecn {
            Reaction::Classic => (Ecn::OFF, Ecn::CLASSIC, Ecn::ACCURATE),
            Reaction::PerPacket => (Ecn::PER_PACKET, Ecn::PER_PACKET, Ecn::ACCURATE),
            Reaction::Scalable => (Ecn::L4S, Ecn::L4S, Ecn::L4S),
        };
        let ecn = source.one_of(&[off, off, off, on, accurate, Ecn::L4S]);
        // 1 us to 17 s.
        let rtt = Time::from_micros(source.log_uniform(24));
        let now = rtt + Time::from_millis(source.below(100));
        let handshake = source.chance(240).then_some(rtt);
        let init = SenderInit { needs: entry.needs, paced, ecn, bytes };
        Self { config, init, handshake, now, make: entry.make, params: params(entry.params, &source.picks()), rtt }
    }

    /// A sender whose handshake has ended, without an algorithm.
    pub fn sender(&self) -> Sender {
        let mut sender = Sender::new(&self.init, &self.config);
        sender.connect(Time::ZERO);
        sender.establish(self.handshake, self.now);
        sender
    }

    pub fn algorithm(&self) -> Box<dyn DynCongestionControl> {
        let (rng, tick, cwnd) = (Rng::stream(1, "cc"), self.config.clock.tick(), self.config.initial_window);
        let paced = self.init.paced || self.init.needs.pacing;
        let (now, rtt, accurate_ecn, tso) = (self.now, self.rtt, self.init.ecn.is_accurate(), self.config.tso);
        (self.make)(&self.params, &Init { now, rtt, cwnd, mss: 1448, tick, paced, accurate_ecn, tso, rng })
    }
}

/// A call of the sender.
pub(super) enum Call<'a> {
    Start,
    Ack(AckInfo<'a>),
    Timer,
    Pace,
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Call::Start => f.write_str("the first window"),
            Call::Ack(ack) => write!(f, "on_ack({ack:?})"),
            Call::Timer => f.write_str("on_timer"),
            Call::Pace => f.write_str("on_pace"),
        }
    }
}

/// Sees each call: when it was, the sender after it, what left, the RTT sample of an ACK.
pub(super) type Watch<'a> = &'a mut dyn FnMut(&Call, Time, &mut Sender, &[Outgoing], Option<Time>);

/// The sender, and a receiver at the end of a bad network.
pub(super) struct Bench<'a> {
    sender: Sender,
    config: Config,
    watch: Watch<'a>,
    out: Vec<Outgoing>,
    now: Time,
    /// Segments in flight.
    network: Vec<u64>,
    /// Next segment that the receiver expects, and what it has beyond.
    next: u64,
    beyond: BTreeSet<u64>,
    /// ACKs that are late: where the receiver was.
    late: Vec<u64>,
    /// Marked packets that came, below 8.
    ce_count: u8,
    sent: u64,
    una: u64,
    nxt: u64,
}

fn config(source: &mut Source) -> Config {
    Config {
        clock: Clock::new(source.one_of(&[0, 1, 4, 10].map(Time::from_millis))),
        initial_window: if source.chance(200) { 10 } else { source.range(1, 1_000) as u32 },
        rto_min: if source.chance(200) { Time::from_millis(200) } else { Time::from_nanos(source.log_uniform(36)) },
        tso: source.chance(200),
        tso_rtt_log: source.below(32) as u32,
        slow_start_after_idle: source.below(2) == 0,
        receive_window: if source.chance(200) { WINDOW } else { source.range(1, WINDOW) },
        window_growth: if source.chance(200) { 0 } else { source.range(1, 2 * 1448 * WINDOW) },
    }
}

impl<'a> Bench<'a> {
    /// The connection of a case, which has just sent its first window.
    pub fn new(case: &Case, algorithm: Box<dyn DynCongestionControl>, watch: Watch<'a>) -> Self {
        let (mut sender, now) = (case.sender(), case.now);
        sender.adopt(algorithm, now);
        let mut bench = Self {
            sender,
            config: case.config,
            watch,
            out: Vec::new(),
            now,
            network: Vec::new(),
            next: 0,
            beyond: BTreeSet::new(),
            late: Vec::new(),
            ce_count: FIRST_COUNT % 8,
            sent: 0,
            una: 0,
            nxt: 0,
        };
        bench.sender.send(now, &bench.config, &mut bench.out);
        bench.done(&Call::Start, None);
        bench
    }

    /// Lets as much happen as the bytes say.
    pub fn run(&mut self, source: &mut Source) {
        for _ in 0..STEPS {
            if source.is_empty() {
                break;
            }
            self.step(source);
        }
    }

    fn done(&mut self, call: &Call, rtt: Option<Time>) {
        (self.watch)(call, self.now, &mut self.sender, &self.out, rtt);
        self.check(call);
    }

    /// Books what left, and holds the sender against the books.
    fn check(&mut self, call: &Call) {
        let sender = &self.sender;
        let (una, nxt) = (sender.snd_una(), sender.snd_nxt());
        let mut end = self.nxt;
        for Outgoing { start, count, retransmission } in self.out.drain(..) {
            let segments = start..start + u64::from(count);
            assert!(count > 0, "{call}: a burst of nothing");
            if retransmission {
                assert!(una <= start && segments.end <= self.nxt, "{call}: {segments:?} again, of {una} to {nxt}");
            } else {
                assert_eq!(start, end, "{call}: new segments out of order");
                end = segments.end;
            }
            self.sent += u64::from(count);
            self.network.extend(segments);
        }
        assert_eq!((nxt, sender.counters().sent), (end, self.sent), "{call}: what is next, and packets sent");
        assert!(self.una <= una && una <= nxt && nxt <= sender.end, "{call}: {} to {una} to {nxt}", self.una);
        assert!(nxt - una <= self.config.receive_window, "{call}: {} beyond the receive window", nxt - una);
        let (sacked, lost, again) = sender.scoreboard();
        let under_way = nxt - una;
        assert!(
            u64::from(sacked) + u64::from(lost) <= under_way && u64::from(again) <= under_way,
            "{call}: {sacked} SACKed, {lost} lost, {again} sent again of {under_way}"
        );
        assert!((1..1 << 31).contains(&sender.control.cwnd), "{call}: cwnd {}", sender.control.cwnd);
        assert!(sender.pacing_rate().is_none_or(|rate| rate > Rate::ZERO), "{call}: pacing rate 0");
        let due = self.config.clock.expiry(&sender.timer).min(sender.pacer.due);
        assert!(due >= self.now, "{call}: a timer at {due}, and it is {}", self.now);
        (self.una, self.nxt) = (una, nxt);
    }

    fn ack(&mut self, seq: u64, blocks: &[(u64, u64)], dsack: bool, flags: u8, tsecr: u32) {
        let info = AckInfo { seq, part: 0, blocks, dsack, tsecr, tsval: 0, flags };
        let (config, now) = (&self.config, self.now);
        let rtt = self.sender.on_ack(&info, now, config, &mut self.out);
        self.done(&Call::Ack(info), rtt);
    }

    /// An ACK of what the receiver has: up to three blocks, that of the segment that came last first.
    fn reply(&mut self, last: u64, flags: u8) {
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        for &seq in self.beyond.iter().rev() {
            match blocks.last_mut() {
                Some((start, _)) if *start == seq + 1 => *start = seq,
                _ => blocks.push((seq, seq + 1)),
            }
        }
        if let Some(i) = blocks.iter().position(|(start, end)| (*start..*end).contains(&last)) {
            blocks.swap(0, i);
        }
        blocks.truncate(3);
        let stamp = Sender::tsval(self.now.saturating_sub(self.sender.srtt()));
        self.ack(self.next, &blocks, false, flags, stamp);
    }

    /// A segment of those in flight lands, or is lost.
    fn land(&mut self, source: &mut Source) {
        if self.network.is_empty() {
            return;
        }
        let reach = if source.chance(200) { 1 } else { self.network.len().min(40) };
        let seq = self.network.remove(source.below(reach as u64) as usize);
        if source.chance(24) {
            return;
        }
        let twice = seq < self.next || self.beyond.contains(&seq);
        let flags = self.marks(source);
        if twice {
            // RFC 2883: the first block says what came twice.
            let mut blocks = vec![(seq, seq + 1)];
            blocks.extend(self.beyond.last().map(|last| (*last, *last + 1)));
            let stamp = Sender::tsval(self.now);
            return self.ack(self.next, &blocks, true, flags, stamp);
        }
        self.beyond.insert(seq);
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        match source.weighted(&[12, 4, 1]) {
            0 => self.reply(seq, flags),
            // The ACK is lost, or delayed for good.
            1 => {}
            _ => self.late.push(self.next),
        }
    }

    /// The flags of an ACK for a segment that came, with a mark or not.
    fn marks(&mut self, source: &mut Source) -> u8 {
        let ecn = self.sender.ecn;
        let marked = ecn.is_on() && source.chance(32);
        if !ecn.is_accurate() {
            return if marked { Packet::ECE } else { 0 };
        }
        self.ce_count = (self.ce_count + u8::from(marked)) % 8;
        Packet::ace(self.ce_count)
    }

    /// Time goes by; what is due happens.
    fn wait(&mut self, span: Time) {
        let (until, sent, timeouts) = (self.now + span, self.sent, self.sender.counters().timeouts);
        let mut fired = 0;
        loop {
            let timer = self.config.clock.expiry(&self.sender.timer);
            let due = timer.min(self.sender.pacer.due);
            if due > until {
                break;
            }
            self.now = due;
            if timer <= self.sender.pacer.due {
                self.sender.on_timer(due, &self.config, &mut self.out);
                self.done(&Call::Timer, None);
            } else {
                self.sender.on_pace(due, &self.config, &mut self.out);
                self.done(&Call::Pace, None);
            }
            fired += 1;
            // From a microsecond they double 27 times up to 120 s (Linux's TCP_RTO_MAX).
            let timeouts = self.sender.counters().timeouts - timeouts;
            assert!(timeouts <= 40 + span.as_nanos() / 60_000_000_000, "{timeouts} timeouts in {span}");
            let most = 100 + 2 * (self.sent - sent) + span.as_nanos() / 60_000_000_000;
            assert!(fired <= most, "{fired} timers in {span}, while {} packets left", self.sent - sent);
        }
        self.now = until;
    }

    fn step(&mut self, source: &mut Source) {
        match source.weighted(&[16, 6, 2, 1, 2, 1]) {
            0 => {
                self.wait(Time::from_nanos(source.log_uniform(20)));
                self.land(source);
            }
            1 => (0..source.range(1, 60)).for_each(|_| self.land(source)),
            2 => self.wait(Time::from_nanos(source.log_uniform(36))),
            // Up to a day, with a timeout every two minutes.
            3 => self.wait(Time::from_nanos(source.log_uniform(46))),
            4 => {
                if let Some(seq) = self.late.pop() {
                    self.ack(
                        seq,
                        &[],
                        false,
                        Packet::ace(self.ce_count),
                        Sender::tsval(self.now.saturating_sub(self.sender.srtt() * 2)),
                    );
                }
            }
            _ => self.lie(source),
        }
    }

    /// An ACK that no receiver would send, of segments that were sent or not.
    fn lie(&mut self, source: &mut Source) {
        let near = |source: &mut Source, una: u64| (una + source.below(80)).saturating_sub(20);
        let blocks: Vec<_> = (0..source.below(4))
            .map(|_| {
                let start = near(source, self.una);
                (start, start + source.below(40))
            })
            .collect();
        let dsack = source.chance(64) && !blocks.is_empty();
        let flags = source.one_of(&[0, Packet::ECE, Packet::ACE]);
        // Nothing of what the receiver has not got is acknowledged: a sender may rely on that much.
        let seq = near(source, self.una).min(self.next);
        let tsecr = source.bytes(4) as u32;
        self.ack(seq, &blocks, dsack, flags, tsecr);
    }
}

/// Checks a sender with one of `entries` against the ACKs and losses that these bytes stand for.
///
/// # Panics
/// Where it does not keep the invariants.
pub fn check_any(entries: &[&Entry], bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let entry = entries[usize::from(source.byte()) % entries.len()];
    let case = Case::draw(entry, &mut source);
    Bench::new(&case, case.algorithm(), &mut |_, _, _, _, _| {}).run(&mut source);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing;
    use knee_core::testing::corpus;
    use proptest::prelude::*;

    #[test]
    fn a_retransmission_that_leaves_again_on_a_timeout_is_counted_once() {
        let config = testing::config(false, 9, 1_000);
        let mut sender = testing::sender("reno", Some(10 * 1448), false, &config);
        let mut out = Vec::new();
        let due = |sender: &mut Sender, out: &mut Vec<Outgoing>| {
            let now = config.clock.expiry(&sender.timer);
            sender.on_timer(now, &config, out);
            now
        };
        // Until the timeout itself, after a probe: segment 0 leaves again, all are deemed lost.
        let mut now = due(&mut sender, &mut out);
        while sender.counters().timeouts == 0 {
            now = due(&mut sender, &mut out);
        }
        // Its retransmission arrives: segments 1 and 2 leave again.
        now += Time::from_millis(20);
        let ack = |seq, tsecr| AckInfo { seq, part: 0, blocks: &[], dsack: false, tsecr, tsval: 0, flags: 0 };
        sender.on_ack(&ack(1, Sender::tsval(now)), now, &config, &mut out);
        assert_eq!(sender.scoreboard(), (0, 9, 2));
        // Segment 1 arrived as it was sent at first: the reduction is undone, nothing counts as lost. By time (RACK),
        // all but segment 2 are lost again, and segment 3 leaves; the retransmission of segment 2 is still in flight.
        now += Time::from_millis(20);
        sender.on_ack(&ack(2, Sender::tsval(Time::from_millis(20))), now, &config, &mut out);
        assert_eq!(sender.scoreboard(), (0, 7, 2));
        // On the next timeout that leaves once more: of eight segments, all lost, one is sent again.
        let before = sender.counters().timeouts;
        while sender.counters().timeouts == before {
            due(&mut sender, &mut out);
        }
        assert_eq!(sender.scoreboard(), (0, 8, 1));
    }

    #[test]
    fn what_the_fuzzer_found_its_way_with_keeps_the_invariants() {
        let entries: Vec<_> = knee_cc::registry().iter().collect();
        for (file, bytes) in corpus("sender") {
            eprintln!("{file}");
            check_any(&entries, &bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { max_shrink_iters: 5_000, ..ProptestConfig::default() })]

        #[test]
        fn a_sender_keeps_the_invariants_whatever_acks_come(bytes in prop::collection::vec(any::<u8>(), 0..1_500)) {
            let entries: Vec<_> = knee_cc::registry().iter().collect();
            check_any(&entries, &bytes);
        }
    }
}
