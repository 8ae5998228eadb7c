//! The receiving end of a TCP connection, as Linux's: reassembly, SACK and D-SACK blocks, delayed, quick and
//! compressed ACKs, ECN echo.
//!
//! What a data packet goes through: it joins `rcv_nxt` or the out-of-order ranges; then an ACK leaves at once (second
//! segment in a row, quick-ACK mode, a gap filled, a duplicate), or after the delayed-ACK time, or with the next
//! compressed SACK.
//!
//! Source: Linux net/ipv4/tcp_input.c (`tcp_data_queue`, `tcp_event_data_recv`, `__tcp_ack_snd_check`) and
//! tcp_output.c (`tcp_send_delayed_ack`); RFC 2018, RFC 2883, RFC 5681 4.2.

mod disorder;
mod misbehaviour;

pub use disorder::{Blocks, Disorder, Range};
pub use misbehaviour::{ENTRIES, Entry, Misbehaviour, find};

use crate::ecn::{Ecn, FIRST_COUNT, Feedback};
use crate::sender::AckInfo;
use crate::timer::{Clock, Timer};
use knee_core::cache::fetch;
use knee_core::packet::{ACK_SIZE, MSS, MTU};
use knee_core::{Packet, Payload, Received, Seq, Time};
use std::cmp::Ordering;

/// ACKs sent at once at the start of a connection and after trouble (TCP_MAX_QUICKACKS).
const MAX_QUICK_ACKS: u8 = 16;
/// Bytes of the headers of a data packet.
const HEADERS: u64 = (MTU - MSS) as u64;
/// Window of a new connection in bytes.
const INITIAL_WINDOW: u64 = 65_535;
//= RFC 5681, 4.2
//# MUST be generated within 500 ms of the arrival of the first unacknowledged packet.
/// Longest delay of an ACK (TCP_DELACK_MAX).
const DELAYED_ACK_MAX: Time = Time::from_millis(200);
//= RFC 9768, 3.2.2.5.1
//# CE marks have arrived since the previous ACK. If there is unacknowledged data at the receiver,
/// Marks after which an ACK leaves at once, with accurate ECN: n of RFC 9768, 3.2.2.5.1, which should be 2 where data
/// is new. Linux 7.2 waits for up to 6 (TCP_ACCECN_ACE_MAX_DELTA), but acknowledges every second segment anyway.
const CE_PER_ACK: u8 = 2;
/// Compression waits for at most this part of the RTT, 33 % (tcp_comp_sack_rtt_percent).
const COMPRESSION_RTT_PERCENT: u64 = 33;

/// An ACK that leaves, but for its SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Next segment expected.
    pub seq: u64,
    /// TSecr.
    pub tsecr: u32,
    /// Flags of [`Packet`].
    pub flags: u8,
}

impl Reply {
    /// The packet of flow `flow` that carries it.
    #[inline]
    pub const fn packet(&self, flow: u32, now: Time) -> Packet {
        let payload = Payload::Ack { next: Seq::new(self.seq), tsecr: self.tsecr };
        Packet { arrived: now, payload, flow, queued: 0, size: ACK_SIZE, flags: self.flags, hop: 0 }
    }
}

/// An ACK that leaves, with all that few of them have.
#[derive(Clone, Copy, Debug)]
pub struct FullReply {
    /// What each ACK has.
    pub reply: Reply,
    /// Bytes of the next segment expected that are acknowledged too.
    pub part: u16,
    /// SACK blocks.
    pub blocks: Blocks,
}

impl FullReply {
    /// Whether a [`Reply`] is all there is.
    pub const fn is_bare(&self) -> bool {
        self.part == 0 && self.blocks.is_empty()
    }

    /// As the sender sees it.
    pub fn info(&self) -> AckInfo<'_> {
        let Reply { seq, tsecr, flags } = self.reply;
        AckInfo { seq, part: self.part, blocks: self.blocks.as_slice(), dsack: self.blocks.dsack(), tsecr, flags }
    }
}

/// Settings that all receivers of a simulation share.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The kernel's clock.
    pub clock: Clock,
    /// Usual delay of an ACK.
    pub delayed_ack: Time,
    /// Longest delay of a compressed SACK.
    pub sack_delay: Time,
    /// Bytes up to which the window grows.
    pub window_growth: u64,
}

/// The receiving end of one flow: two cache lines.
#[repr(align(64))]
pub struct Receiver {
    /// Next segment expected.
    rcv_nxt: u64,
    /// Last segment acknowledged (Linux's `rcv_wup`).
    acked: u64,
    /// What has come beyond a gap, or twice and is still to be reported; mostly nothing.
    disorder: Option<Box<Disorder>>,
    /// TSval to echo: of the last segment that started at or before the last one acknowledged (RFC 7323, 4.3).
    ts_recent: u32,
    quick_acks: u8,
    ack_now: bool,
    ecn: Ecn,
    /// Whether ACKs echo a mark. Classic ECN: until the sender reports that it reduced its window; per-packet and
    /// accurate ECN: whether the last packet was marked.
    echo: bool,
    /// Packets that came with a mark, with accurate ECN; its low three bits are told.
    ce_count: u8,
    /// Of those the ones that no ACK has told yet.
    ce_untold: u8,
    /// The window as far as it has grown, in bytes (Linux's `rcv_ssthresh`).
    window: u64,
    /// Delay of ACKs, adapted to the intervals of arrivals.
    ato: Time,
    /// When the last packet came in order; `Time::MAX`: none has.
    last_arrival: Time,
    /// The delayed ACK.
    pub delayed: Timer,
    /// When the compressed SACK is due; `Time::MAX`: none is.
    pub compressed_at: Time,
    /// Data packets that arrived.
    pub received: Received,
    /// Payload of segments that had arrived before.
    duplicate_bytes: u64,
}

const _: () = assert!(size_of::<Receiver>() == 128);

impl Receiver {
    /// A receiver that expects segment 0.
    pub fn new(ecn: Ecn) -> Self {
        Self {
            rcv_nxt: 0,
            acked: 0,
            disorder: None,
            ts_recent: 0,
            quick_acks: 0,
            window: INITIAL_WINDOW,
            ato: Time::ZERO,
            last_arrival: Time::MAX,
            ack_now: false,
            delayed: Timer::OFF,
            compressed_at: Time::MAX,
            ecn,
            echo: false,
            ce_count: FIRST_COUNT,
            ce_untold: 0,
            received: Received::default(),
            duplicate_bytes: 0,
        }
    }

    /// Misbehaves from now on, before anything has arrived.
    pub fn misbehave(&mut self, how: Misbehaviour) {
        self.disorder.get_or_insert_default().misbehaviour = Some(Box::new(how));
    }

    /// How its connection uses ECN.
    pub const fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Segments received in order so far.
    pub fn in_order(&self) -> u64 {
        self.rcv_nxt
    }

    /// Next segment expected as its ACKs have said at the most, which is what has arrived unless it misbehaves.
    pub fn claimed(&self) -> u64 {
        let claimed = self.disorder.as_ref().and_then(|disorder| disorder.misbehaviour.as_ref()?.claimed().into());
        claimed.unwrap_or(0).max(self.rcv_nxt)
    }

    /// Payload of the segments that arrived, each counted once, as it arrived first.
    pub const fn delivered_bytes(&self) -> u64 {
        self.received.bytes - HEADERS * self.received.packets - self.duplicate_bytes
    }

    /// Takes a data packet. True: an ACK leaves at once.
    ///
    /// # Panics
    /// If it carries no segment.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what comes with every packet stays in registers")]
    pub fn on_data(&mut self, packet: &Packet, now: Time, config: &Config, rtt: Time) -> bool {
        self.received.count(packet);
        let Payload::Data { seq, tsval } = packet.payload else { panic!("no segment: {packet:?}") };
        let seq = seq.near(self.rcv_nxt);
        if seq >= self.rcv_nxt && self.window < config.window_growth {
            // tcp_grow_window: the sender shall hear of the new window at once.
            self.window += 2 * u64::from(MSS);
            self.quick_acks |= 1;
        }
        if seq <= self.acked {
            self.ts_recent = tsval;
        }
        if seq != self.rcv_nxt || self.disorder.is_some() {
            return self.on_disorder(seq, tsval, packet.size, now, config, rtt);
        }
        self.rcv_nxt += 1;
        self.adapt_ato(now, config);
        if self.must_ack_now() {
            return true;
        }
        self.delay_ack(now);
        false
    }

    /// A packet that is not the next one, or the next one where later ones are there already or the receiver
    /// misbehaves.
    #[cold]
    fn on_disorder(&mut self, seq: u64, tsval: u32, size: u16, now: Time, config: &Config, rtt: Time) -> bool {
        let payload = u64::from(size) - HEADERS;
        let mut disorder = self.disorder.take().unwrap_or_default();
        if let Some(misbehaviour) = &mut disorder.misbehaviour {
            misbehaviour.note(seq, size);
            if let Some(is_new) = misbehaviour.take(seq, &mut self.rcv_nxt) {
                self.duplicate_bytes += if is_new { 0 } else { payload };
                self.ts_recent = tsval;
                self.disorder = Some(disorder);
                return true;
            }
        }
        let is_new = match seq.cmp(&self.rcv_nxt) {
            Ordering::Equal => {
                self.rcv_nxt = disorder.close_gap(seq + 1);
                self.adapt_ato(now, config);
                //= RFC 5681, 4.2 (departs: at once where no gap is left, as Linux)
                //# To provide feedback to senders recovering from losses, the receiver SHOULD send an immediate ACK
                //# when it receives a data segment that fills in all or part of a gap in the sequence space.
                self.ack_now |= !disorder.has_gap();
                true
            }
            Ordering::Less => {
                disorder.dsack = Some(seq);
                self.enter_quick_acks(config);
                self.ack_now = true;
                false
            }
            Ordering::Greater => disorder.insert(seq),
        };
        if !is_new {
            self.duplicate_bytes += payload;
        }
        let mut at_once = self.must_ack_now();
        // A duplicate and what closes the gap are acknowledged at once: what is left is beyond a gap, or fills a part.
        if !at_once {
            //= RFC 5681, 4.2 (departs: Linux compresses SACKs after the first few)
            //# To trigger the fast retransmit algorithm, the receiver SHOULD send an immediate duplicate ACK when it
            //# receives a data segment above a gap in the sequence space.
            at_once = config.sack_delay == Time::ZERO || disorder.replies(self.rcv_nxt);
            if !at_once && self.compressed_at == Time::MAX {
                self.compressed_at = now + config.sack_delay.min(rtt.mul_div(COMPRESSION_RTT_PERCENT, 100));
            }
        }
        self.disorder = Some(disorder).filter(|disorder| !disorder.is_over());
        at_once
    }

    /// Fetches what a packet will need beside the receiver itself.
    #[inline]
    pub fn fetch_behind(&self) {
        if let Some(disorder) = &self.disorder {
            fetch(disorder.as_ref());
        }
    }

    /// When its next timer is due, at the earliest.
    #[inline]
    pub fn due(&self) -> Time {
        self.delayed.not_before().min(self.compressed_at)
    }

    fn must_ack_now(&self) -> bool {
        //= RFC 5681, 4.2
        //# an ACK SHOULD be generated for at least every second full-sized segment,
        self.rcv_nxt > self.acked + 1 || self.quick_acks > 0 || self.ack_now
    }

    /// The delayed-ACK timer fired: an ACK leaves.
    pub fn on_delayed_ack(&mut self, config: &Config) {
        // A delayed ACK that ran out inflates the delay.
        self.ato = (self.ato * 2).min(DELAYED_ACK_MAX).max(config.delayed_ack);
    }

    /// The timer of compressed SACKs fired. True: an ACK leaves.
    pub fn on_compressed_sack(&mut self) -> bool {
        self.compressed_at = Time::MAX;
        // One duplicate ACK is not counted, so that the next loss is still seen quickly.
        self.disorder.as_ref().is_some_and(|disorder| disorder.compressed > 0)
    }

    #[inline]
    fn adapt_ato(&mut self, now: Time, config: &Config) {
        let min = config.delayed_ack;
        let last = std::mem::replace(&mut self.last_arrival, now);
        if last == Time::MAX {
            self.quick_acks = self.quick_acks.max(MAX_QUICK_ACKS);
            self.ato = min;
            return;
        }
        let gap = now - last;
        if gap <= min / 2 {
            self.ato = (self.ato + min) / 2;
        } else if gap < self.ato {
            self.ato = (self.ato / 2 + gap).min(DELAYED_ACK_MAX);
        } else if gap > Time::from_secs(1) {
            self.quick_acks = self.quick_acks.max(MAX_QUICK_ACKS);
        }
    }

    fn enter_quick_acks(&mut self, config: &Config) {
        self.quick_acks = self.quick_acks.max(MAX_QUICK_ACKS);
        self.ato = config.delayed_ack;
    }

    fn delay_ack(&mut self, now: Time) {
        //= RFC 5681, 4.2
        //# The delayed ACK algorithm specified in [RFC1122] SHOULD be used by a TCP receiver.
        let timer = Timer::set(now, self.ato);
        if timer.not_before() < self.delayed.not_before() {
            self.delayed = timer;
        }
    }

    /// Whether an ACK for what came before has to leave before an ECN-capable data packet is taken, since per-packet
    /// echoes would otherwise be mixed.
    pub fn echoes_apart(&self, packet: &Packet) -> bool {
        //= RFC 8257, 3.2
        //# To avoid this, an implementation MAY choose to send two ACKs: one for previously unacknowledged packets and
        //# another acknowledging the most recently received packet.
        let per_packet = self.ecn.feedback == Feedback::PerPacket;
        per_packet && packet.has(Packet::CE) != self.echo && self.rcv_nxt > self.acked
    }

    /// Notes the mark, or its absence, of an ECN-capable data packet that is about to be taken.
    pub fn note_ecn(&mut self, packet: &Packet) {
        let ce = packet.has(Packet::CE);
        match self.ecn.feedback {
            Feedback::Classic => {
                if packet.has(Packet::CWR) {
                    self.echo = false;
                }
                if ce && !self.echo {
                    self.echo = true;
                    // Linux sends a few quick ACKs so that the sender hears soon.
                    self.quick_acks = self.quick_acks.max(2);
                }
            }
            Feedback::PerPacket => {
                //= RFC 8257, 3.2
                //# If the CE codepoint is set and DCTCP.CE is false, set DCTCP.CE to true and send an immediate ACK.
                //= RFC 8257, 3.2
                //# If the CE codepoint is not set and DCTCP.CE is true, set DCTCP.CE to false and send an immediate
                //# ACK.
                self.ack_now |= ce != self.echo;
                self.echo = ce;
            }
            // RFC 9768, 3.2.2.5.1: an ACK for the first mark after none, and for every second one.
            Feedback::Accurate if ce => {
                //= RFC 9768, 3.2 (departs: marks of pure ACKs are not counted)
                //# The Data Receiver MUST increment the CE packet counter (r.cep),
                self.ce_count = self.ce_count.wrapping_add(1);
                self.ce_untold += 1;
                //= RFC 9768, 3.2.2.5.1
                //# An AccECN Data Receiver SHOULD emit an ACK whenever a data packet marked CE arrives after the
                //# previous packet was not CE.
                self.ack_now |= !self.echo || self.ce_untold >= CE_PER_ACK;
                self.echo = true;
            }
            Feedback::Accurate => self.echo = false,
        }
    }

    /// The ACK that leaves now, but for its SACK blocks.
    #[inline]
    pub fn reply(&mut self) -> Reply {
        self.acked = self.rcv_nxt;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.ack_now = false;
        self.delayed = Timer::OFF;
        if let Some(disorder) = &mut self.disorder {
            disorder.compressed = 0;
        }
        self.compressed_at = Time::MAX;
        let echo = if self.ecn.is_accurate() {
            //= RFC 9768, 3.2
            //# Whenever a Data Receiver feeds back the value of any counter, it MUST report the most recent value,
            self.ce_untold = 0;
            //= RFC 9768, 3.2.2
            //# a Data Receiver MUST encode the three least significant bits of its r.cep counter into the ACE field
            //# that it feeds back to the Data Sender.
            Packet::ace(self.ce_count) | self.ecn.of_acks()
        } else if self.echo {
            //= RFC 8257, 3.2
            //# When sending an ACK, the ECE flag MUST be set if and only if DCTCP.CE is true.
            Packet::ECE
        } else {
            0
        };
        Reply { seq: self.rcv_nxt, tsecr: self.ts_recent, flags: Packet::ACK | echo }
    }

    /// Whether something is to be done beside sending the ACK: it carries SACK blocks, or the receiver misbehaves.
    #[inline]
    pub const fn is_disturbed(&self) -> bool {
        self.disorder.is_some()
    }

    /// Sends the ACK that leaves now with its SACK blocks, or what goes in its place where it misbehaves.
    pub fn answer(&mut self, reply: Reply, mut send: impl FnMut(FullReply)) {
        let blocks = if self.has_blocks() { self.blocks() } else { Blocks::NONE };
        let honest = FullReply { reply, part: 0, blocks };
        match self.disorder.as_mut().and_then(|disorder| disorder.misbehaviour.as_mut()) {
            Some(misbehaviour) => misbehaviour.answer(honest, send),
            None => send(honest),
        }
    }

    /// Whether the ACK carries SACK blocks.
    fn has_blocks(&self) -> bool {
        self.disorder.as_ref().is_some_and(|disorder| disorder.has_blocks())
    }

    /// The SACK blocks of the ACK that leaves now.
    #[cold]
    fn blocks(&mut self) -> Blocks {
        let Some(disorder) = &mut self.disorder else { return Blocks::NONE };
        let report = disorder.report();
        if disorder.is_over() {
            self.disorder = None;
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disorder::MAX_RECENT;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const CONFIG: Config = Config {
        clock: Clock::new(Time::ZERO),
        delayed_ack: Time::from_millis(40),
        sack_delay: Time::from_millis(1),
        window_growth: 0,
    };

    fn data(seq: u64) -> Packet {
        Packet { payload: Payload::Data { seq: Seq::new(seq), tsval: 1 }, size: 1500, ..Packet::default() }
    }

    /// An ACK and its SACK blocks.
    type Answer = (Reply, Vec<Range>, bool);

    fn answer(receiver: &mut Receiver) -> Answer {
        let reply = receiver.reply();
        let blocks = receiver.blocks();
        (reply, blocks.as_slice().to_vec(), blocks.dsack())
    }

    fn arrives(receiver: &mut Receiver, seq: u64, config: &Config) -> bool {
        receiver.on_data(&data(seq), Time::from_millis(1), config, Time::from_millis(40))
    }

    fn feed(receiver: &mut Receiver, seqs: impl IntoIterator<Item = u64>) -> Vec<Answer> {
        let mut replies = Vec::new();
        for seq in seqs {
            if arrives(receiver, seq, &CONFIG) {
                replies.push(answer(receiver));
            }
        }
        replies
    }

    fn settled() -> Receiver {
        let mut receiver = Receiver::new(Ecn::OFF);
        feed(&mut receiver, 0..u64::from(MAX_QUICK_ACKS));
        receiver
    }

    #[test]
    fn the_first_sixteen_segments_are_acknowledged_each_then_every_second() {
        let mut receiver = Receiver::new(Ecn::OFF);
        assert_eq!(feed(&mut receiver, 0..16).len(), 16);
        let seqs: Vec<u64> = feed(&mut receiver, 16..24).iter().map(|r| r.0.seq).collect();
        assert_eq!(seqs, [18, 20, 22, 24]);
    }

    #[test]
    fn a_lone_segment_waits_for_the_delayed_ack() {
        let mut receiver = settled();
        assert!(feed(&mut receiver, [16]).is_empty());
        assert_eq!(receiver.delayed, Timer::set(Time::from_millis(1), Time::from_millis(40)));
        receiver.on_delayed_ack(&CONFIG);
        assert_eq!(receiver.reply().seq, 17);
    }

    #[test]
    fn the_newest_block_comes_first_and_at_most_three_are_sent() {
        let mut receiver = settled();
        let replies = feed(&mut receiver, [18, 20, 22]);
        assert_eq!(replies[2].1, [(22, 23), (20, 21), (18, 19)]);
        let mut receiver = settled();
        let replies = feed(&mut receiver, [18, 20, 19]);
        assert_eq!(replies[2].1, [(18, 21)]);
    }

    #[test]
    fn after_three_duplicates_sacks_are_compressed() {
        let mut receiver = settled();
        assert_eq!(feed(&mut receiver, 17..37).len(), 3);
        assert_eq!(receiver.compressed_at, Time::from_millis(2));
        assert!(receiver.on_compressed_sack());
        assert_eq!(answer(&mut receiver).1, [(17, 37)]);
    }

    #[test]
    fn at_each_gap_three_duplicates_leave_at_once() {
        // TCP_FASTRETRANS_THRESH, counted anew as the next segment expected is another one.
        let mut receiver = settled();
        assert_eq!(feed(&mut receiver, 17..27).len(), 3);
        assert_eq!(feed(&mut receiver, [16]).len(), 1);
        assert_eq!(feed(&mut receiver, 28..38).len(), 3);
    }

    #[test]
    fn filling_the_gap_is_acknowledged_at_once() {
        let mut receiver = settled();
        feed(&mut receiver, [17, 18]);
        let replies = feed(&mut receiver, [16]);
        assert_eq!((replies[0].0.seq, replies[0].1.as_slice()), (19, [].as_slice()));
    }

    #[test]
    fn a_duplicate_is_reported_by_d_sack() {
        let mut receiver = settled();
        let replies = feed(&mut receiver, [3]);
        assert!(replies[0].2);
        assert_eq!(replies[0].1, [(3, 4)]);
    }

    #[test]
    fn accurate_ecn_acks_the_first_mark_and_every_second_one_at_once_and_counts_them() {
        let mut receiver = Receiver::new(Ecn::L4S);
        receiver.rcv_nxt = 100;
        receiver.acked = 100;
        receiver.ato = CONFIG.delayed_ack;
        receiver.last_arrival = Time::ZERO;
        receiver.quick_acks = 0;
        let marks = [false, true, true, true, true, false, true];
        let acks: Vec<_> = marks
            .into_iter()
            .zip(100..)
            .map(|(marked, seq)| {
                let flags = Packet::ECT | Packet::L4S | if marked { Packet::CE } else { 0 };
                let packet = Packet { flags, ..data(seq) };
                assert!(!receiver.echoes_apart(&packet));
                receiver.note_ecn(&packet);
                let (now, rtt) = (Time::from_millis(1), Time::from_millis(40));
                let leaves = receiver.on_data(&packet, now, &CONFIG, rtt);
                leaves.then(|| Packet::ace_count(receiver.reply().flags))
            })
            .collect();
        // RFC 9768, 3.2.1 and 3.2.2.5.1: the count begins with 5. The ACK of the fifth packet is that of two packets
        // too.
        assert_eq!(acks, [None, Some(6), None, Some(0), None, Some(1), Some(2)]);
    }

    /// The segments at which ACKs leave that acknowledge `seqs`, each a millisecond after the one before.
    fn acknowledged(receiver: &mut Receiver, seqs: std::ops::Range<u64>, config: &Config) -> Vec<u64> {
        let leaves = |seq: &u64| {
            let leaves = receiver.on_data(&data(*seq), Time::from_millis(1), config, Time::from_millis(40));
            leaves.then(|| receiver.reply()).is_some()
        };
        seqs.filter(leaves).collect()
    }

    #[test]
    fn while_the_window_grows_each_segment_is_acknowledged_at_once() {
        // tcp_grow_window: two segments more with each one that comes, from 65,535 bytes.
        let config = Config { window_growth: 65_535 + 3 * 2 * u64::from(MSS), ..CONFIG };
        assert_eq!(acknowledged(&mut settled(), 16..24, &config), [16, 17, 18, 20, 22]);
        assert_eq!(acknowledged(&mut settled(), 16..24, &CONFIG), [17, 19, 21, 23]);
    }

    #[test]
    fn after_a_pause_of_more_than_a_second_acks_are_quick_again() {
        for (pause, quick) in [(1000, false), (1001, true), (5000, true)] {
            let mut receiver = settled();
            let now = Time::from_millis(1 + pause);
            let at_once = receiver.on_data(&data(16), now, &CONFIG, Time::from_millis(40));
            assert_eq!(at_once, quick, "{pause} ms");
        }
    }

    #[test]
    fn the_delay_of_acks_follows_the_intervals_of_arrivals() {
        // tcp_event_data_recv with TCP_ATO_MIN of 40 ms: at most half of that halves the distance to it; below the
        // delay, half the delay and the interval; above, the delay stays.
        let delay = |gaps: &[u64]| {
            let mut receiver = settled();
            let mut now = 1;
            for (gap, seq) in gaps.iter().zip(16..) {
                now += gap;
                receiver.on_data(&data(seq), Time::from_millis(now), &CONFIG, Time::from_millis(40));
                receiver.reply();
            }
            receiver.ato.as_millis()
        };
        assert_eq!((delay(&[]), delay(&[20]), delay(&[30]), delay(&[900])), (40, 40, 50, 40));
        assert_eq!((delay(&[30, 20]), delay(&[30, 21]), delay(&[30, 49, 60])), (45, 46, 97));
        // A delayed ACK that runs out doubles it, to at most TCP_DELACK_MAX.
        let mut receiver = settled();
        let doubled = [(); 4].map(|()| {
            receiver.on_delayed_ack(&CONFIG);
            receiver.ato.as_millis()
        });
        assert_eq!(doubled, [80, 160, 200, 200]);
    }

    #[test]
    fn an_ack_carries_blocks_as_long_as_there_is_a_gap() {
        let sent = |receiver: &mut Receiver, seq: u64| {
            assert!(arrives(receiver, seq, &CONFIG));
            let mut sent = Vec::new();
            let reply = receiver.reply();
            assert_eq!(receiver.is_disturbed(), receiver.has_blocks());
            receiver.answer(reply, |full| {
                assert_eq!(full.is_bare(), full.blocks.is_empty());
                // RFC 2018, 3: eight bytes for each block and two more, padded to words.
                let size = [0, 12, 20, 28][full.blocks.as_slice().len()];
                assert_eq!(full.blocks.option_size(), size);
                sent.push((full.reply.seq, full.blocks.as_slice().to_vec()));
            });
            sent
        };
        let mut receiver = settled();
        assert_eq!(sent(&mut receiver, 18), [(16, vec![(18, 19)])]);
        assert_eq!(sent(&mut receiver, 20), [(16, vec![(20, 21), (18, 19)])]);
        assert_eq!(sent(&mut receiver, 19), [(16, vec![(18, 21)])]);
        assert_eq!(sent(&mut receiver, 16), [(17, vec![(18, 21)])]);
        assert_eq!(sent(&mut receiver, 17), [(21, vec![])]);
        assert!(!receiver.is_disturbed());
        // RFC 2883, 4: a D-SACK block goes once.
        assert_eq!(sent(&mut receiver, 3), [(21, vec![(3, 4)])]);
        assert!(!receiver.is_disturbed());
    }

    #[test]
    fn four_ranges_are_remembered() {
        // TCP_NUM_SACKS. The first one, at 18, is forgotten as the fifth comes, and not told of when there is room.
        let mut receiver = settled();
        let config = Config { sack_delay: Time::ZERO, ..CONFIG };
        let blocks = [18, 20, 22, 24, 26, 25, 21].map(|seq| {
            assert!(arrives(&mut receiver, seq, &config));
            answer(&mut receiver).1
        });
        assert_eq!(blocks[5], [(24, 27), (22, 23), (20, 21)]);
        assert_eq!(blocks[6], [(20, 23), (24, 27)]);
    }

    #[test]
    fn a_receiver_that_misbehaves_acknowledges_every_segment_at_once() {
        for entry in &ENTRIES[1..] {
            let mut receiver = Receiver::new(Ecn::OFF);
            receiver.misbehave(entry.make(&knee_core::Params::defaults(entry.params)).expect("it misbehaves"));
            assert_eq!(acknowledged(&mut receiver, 0..40, &CONFIG).len(), 40, "{}", entry.name);
            assert_eq!((receiver.in_order(), receiver.claimed()), (40, 40));
        }
    }

    #[test]
    fn what_was_claimed_is_what_acks_said_at_the_most() {
        let entry = find("optimistic-acks").unwrap();
        let params = knee_core::Params::resolve(entry.params, [("ahead", knee_core::Value::Count(10))]).unwrap();
        let mut receiver = Receiver::new(Ecn::OFF);
        receiver.misbehave(entry.make(&params).unwrap());
        assert!(arrives(&mut receiver, 0, &CONFIG));
        let reply = receiver.reply();
        receiver.answer(reply, |full| assert_eq!(full.reply.seq, 11));
        assert_eq!((receiver.in_order(), receiver.claimed()), (1, 11));
    }

    /// RFC 8257, 3.2, with delayed ACKs: before the CE state changes, what came in the old state is acknowledged.
    #[test]
    fn per_packet_echoes_of_marked_and_unmarked_packets_are_apart() {
        let mut receiver = Receiver::new(Ecn::PER_PACKET);
        receiver.last_arrival = Time::ZERO;
        receiver.ato = CONFIG.delayed_ack;
        let echoed: Vec<_> = [false, false, true, true, false, false, false, true]
            .into_iter()
            .zip(0..)
            .map(|(marked, seq)| {
                let packet = Packet { flags: Packet::ECT | if marked { Packet::CE } else { 0 }, ..data(seq) };
                let before = receiver.echoes_apart(&packet).then(|| receiver.reply());
                receiver.note_ecn(&packet);
                let (now, rtt) = (Time::from_millis(1), Time::from_millis(40));
                let after = receiver.on_data(&packet, now, &CONFIG, rtt).then(|| receiver.reply());
                [before, after].map(|reply| reply.map(|reply| (reply.seq, reply.flags & Packet::ECE != 0)))
            })
            .collect();
        let expected = [
            [None, None],
            [None, Some((2, false))],
            // The state changes while nothing is unacknowledged.
            [None, Some((3, true))],
            [None, None],
            [Some((4, true)), Some((5, false))],
            [None, None],
            [None, Some((7, false))],
            [None, Some((8, true))],
        ];
        assert_eq!(echoed, expected);
    }

    #[test]
    fn classic_ecn_echoes_a_mark_until_the_sender_has_reduced_its_window() {
        // RFC 3168, 6.1.3.
        let mut receiver = Receiver::new(Ecn::CLASSIC);
        let mut takes = |flags: u8, seq: u64| {
            let packet = Packet { flags: Packet::ECT | flags, ..data(seq) };
            receiver.note_ecn(&packet);
            receiver.on_data(&packet, Time::from_millis(1), &CONFIG, Time::from_millis(40));
            receiver.reply().flags & Packet::ECE != 0
        };
        let flags = [0, Packet::CE, 0, Packet::CWR, 0, Packet::CE, Packet::CWR | Packet::CE];
        let echoes: Vec<_> = flags.into_iter().zip(0..).map(|(flags, seq)| takes(flags, seq)).collect();
        assert_eq!(echoes, [false, true, true, false, false, true, true]);
    }

    proptest! {
        /// Each segment counts once, in the moment in which it arrives first, in whatever order and however often they
        /// come.
        #[test]
        fn payload_counts_as_it_first_arrives(seqs in prop::collection::vec(0u64..40, 1..120)) {
            let mut receiver = Receiver::new(Ecn::OFF);
            let mut came = BTreeSet::new();
            for seq in seqs {
                came.insert(seq);
                if arrives(&mut receiver, seq, &CONFIG) {
                    answer(&mut receiver);
                }
                prop_assert_eq!(receiver.delivered_bytes(), came.len() as u64 * u64::from(MSS));
            }
        }

        /// RFC 2018, 4: the first block holds the segment that triggered the ACK, all tell only of what came, and as
        /// long as there are no more ranges than are remembered, the first block is all of its range.
        #[test]
        fn the_first_block_is_the_range_of_the_newest_segment(seqs in prop::collection::vec(17u64..60, 1..60)) {
            let config = Config { sack_delay: Time::ZERO, ..CONFIG };
            let mut receiver = settled();
            let (mut came, mut most) = (BTreeSet::new(), 0);
            for seq in seqs {
                if !came.insert(seq) {
                    continue;
                }
                prop_assert!(arrives(&mut receiver, seq, &config));
                let blocks = answer(&mut receiver).1;
                most = most.max(came.iter().filter(|&s| !came.contains(&(s + 1))).count());
                let (start, end) = blocks[0];
                prop_assert!((start..end).contains(&seq));
                prop_assert!(blocks.iter().all(|&(start, end)| (start..end).all(|s| came.contains(&s))));
                if most <= MAX_RECENT {
                    prop_assert!(!came.contains(&(start - 1)) && !came.contains(&end));
                }
            }
            // The gap is filled: all that came is in order up to the next hole.
            prop_assert!(arrives(&mut receiver, 16, &config));
            prop_assert_eq!(receiver.in_order(), (17..=60).find(|s| !came.contains(s)).unwrap());
        }
    }
}
