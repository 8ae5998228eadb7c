//! The receiving end of a TCP connection, as Linux's: reassembly, SACK and D-SACK blocks, delayed, quick and
//! compressed ACKs, ECN echo.
//!
//! What a data packet goes through: it joins `rcv_nxt` or the out-of-order ranges; then an ACK leaves at once (second
//! segment in a row, quick-ACK mode, a gap filled, a duplicate), or after the delayed-ACK time, or with the next
//! compressed SACK.
//!
//! Source: Linux net/ipv4/tcp_input.c (`tcp_data_queue`, `tcp_event_data_recv`, `__tcp_ack_snd_check`) and
//! tcp_output.c (`tcp_send_delayed_ack`); RFC 2018, RFC 2883, RFC 5681 4.2.

use crate::timer::{Clock, Timer};
use knee_cc::Ecn;
use knee_core::packet::{ACK_SIZE, MSS};
use knee_core::{Packet, Time};
use std::cmp::Ordering;

/// ACKs sent at once at the start of a connection and after trouble (TCP_MAX_QUICKACKS).
const MAX_QUICK_ACKS: u8 = 16;
/// Window of a new connection in bytes.
const INITIAL_WINDOW: u64 = 65_535;
/// Longest delay of an ACK (TCP_DELACK_MAX).
const DELAYED_ACK_MAX: Time = Time::from_millis(200);
/// Duplicate ACKs sent at once before compression begins (TCP_FASTRETRANS_THRESH).
const DUP_ACK_THRESHOLD: u32 = 3;
/// SACKs compressed into one at the most (tcp_comp_sack_nr).
const MAX_COMPRESSED: u32 = 44;
/// Compression waits for at most this part of the RTT, 33 % (tcp_comp_sack_rtt_percent).
const COMPRESSION_RTT_PERCENT: u64 = 33;
/// SACK blocks that fit beside the timestamp option.
const MAX_BLOCKS: usize = 3;
/// SACK blocks remembered (TCP_NUM_SACKS).
const MAX_RECENT: usize = 4;

/// A range of segments, from the first to before the second.
pub type Range = (u64, u64);

/// SACK blocks of an ACK, the D-SACK block first where there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    count: usize,
    ranges: [Range; MAX_BLOCKS],
}

impl Blocks {
    /// The blocks.
    pub fn as_slice(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    fn push(&mut self, range: Range) {
        if self.count < MAX_BLOCKS {
            self.ranges[self.count] = range;
            self.count += 1;
        }
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

/// The receiving end of one flow.
pub struct Receiver {
    /// Next segment expected.
    rcv_nxt: u64,
    /// Last segment acknowledged (Linux's `rcv_wup`).
    acked: u64,
    /// Ranges received beyond `rcv_nxt`, ascending, apart.
    out_of_order: Vec<Range>,
    /// SACK blocks by how recently they grew, newest first.
    recent: Vec<Range>,
    dsack: Option<Range>,
    /// TSval to echo: of the last segment that started at or before the last one acknowledged (RFC 7323, 4.3).
    ts_recent: u32,
    quick_acks: u8,
    /// The window as far as it has grown, in bytes (Linux's `rcv_ssthresh`).
    window: u64,
    /// Delay of ACKs, adapted to the intervals of arrivals.
    ato: Time,
    /// When the last packet came in order; `Time::MAX`: none has.
    last_arrival: Time,
    ack_now: bool,
    /// The delayed ACK.
    pub delayed: Timer,
    /// When the compressed SACK is due; `Time::MAX`: none is.
    pub compressed_at: Time,
    compressed: u32,
    dup_acks: u32,
    dup_acks_at: u64,
    ecn: Ecn,
    /// Classic ECN: echo until the sender reports that it reduced its window.
    demand_cwr: bool,
    /// Per-packet ECN: whether the last packet was marked (RFC 8257, 3.2).
    last_ce: bool,
    /// Data packets that arrived, duplicates included.
    pub packets: u64,
    /// Their bytes as IP packets.
    pub bytes: u64,
    /// Their queueing delays, in units of [`Packet::QUEUED_UNIT`].
    pub queued_units: u64,
}

impl Receiver {
    /// A receiver that expects segment 0.
    pub fn new(ecn: Ecn) -> Self {
        Self {
            rcv_nxt: 0,
            acked: 0,
            out_of_order: Vec::new(),
            recent: Vec::new(),
            dsack: None,
            ts_recent: 0,
            quick_acks: 0,
            window: INITIAL_WINDOW,
            ato: Time::ZERO,
            last_arrival: Time::MAX,
            ack_now: false,
            delayed: Timer::OFF,
            compressed_at: Time::MAX,
            compressed: 0,
            dup_acks: 0,
            dup_acks_at: 0,
            ecn,
            demand_cwr: false,
            last_ce: false,
            packets: 0,
            bytes: 0,
            queued_units: 0,
        }
    }

    /// Segments received in order so far.
    pub fn in_order(&self) -> u64 {
        self.rcv_nxt
    }

    /// Takes a data packet. True: an ACK leaves at once.
    #[inline]
    pub fn on_data(&mut self, packet: &Packet, now: Time, config: &Config, rtt: Time) -> bool {
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        self.queued_units += u64::from(packet.extra);
        if packet.seq >= self.rcv_nxt && self.window < config.window_growth {
            // tcp_grow_window: the sender shall hear of the new window at once.
            self.window += 2 * u64::from(MSS);
            self.quick_acks |= 1;
        }
        if packet.seq <= self.acked {
            self.ts_recent = packet.stamp;
        }
        if packet.seq != self.rcv_nxt || !self.out_of_order.is_empty() {
            return self.on_disorder(packet.seq, now, config, rtt);
        }
        self.rcv_nxt += 1;
        self.adapt_ato(now, config);
        if self.must_ack_now() {
            return true;
        }
        self.delay_ack(now);
        false
    }

    /// A packet that is not the next one, or the next one where later ones are there already.
    #[cold]
    fn on_disorder(&mut self, seq: u64, now: Time, config: &Config, rtt: Time) -> bool {
        match seq.cmp(&self.rcv_nxt) {
            Ordering::Equal => {
                self.rcv_nxt += 1;
                self.adapt_ato(now, config);
                self.close_gap();
                // RFC 5681, 4.2: acknowledge at once when a gap is filled.
                self.ack_now |= self.out_of_order.is_empty();
            }
            Ordering::Less => {
                self.dsack = Some((seq, seq + 1));
                self.enter_quick_acks(config);
                self.ack_now = true;
            }
            Ordering::Greater => self.insert(seq),
        }
        let at_once = self.must_ack_now() || (!self.out_of_order.is_empty() && self.compress(now, config, rtt));
        if !at_once && self.out_of_order.is_empty() {
            self.delay_ack(now);
        }
        at_once
    }

    /// When its next timer is due, at the earliest.
    #[inline]
    pub fn due(&self) -> Time {
        self.delayed.not_before().min(self.compressed_at)
    }

    fn must_ack_now(&self) -> bool {
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
        self.compressed > 0
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
        let timer = Timer::set(now, self.ato);
        if timer.not_before() < self.delayed.not_before() {
            self.delayed = timer;
        }
    }

    /// Whether a SACK leaves now; otherwise it waits to be sent with others.
    fn compress(&mut self, now: Time, config: &Config, rtt: Time) -> bool {
        if self.compressed >= MAX_COMPRESSED || config.sack_delay == Time::ZERO {
            return true;
        }
        if self.dup_acks_at != self.rcv_nxt {
            (self.dup_acks_at, self.dup_acks) = (self.rcv_nxt, 0);
        }
        if self.dup_acks < DUP_ACK_THRESHOLD {
            self.dup_acks += 1;
            return true;
        }
        self.compressed += 1;
        if self.compressed_at == Time::MAX {
            self.compressed_at = now + config.sack_delay.min(rtt.mul_div(COMPRESSION_RTT_PERCENT, 100));
        }
        false
    }

    /// Whether an ACK for what came before has to leave before an ECN-capable data packet is taken, since per-packet
    /// echoes would otherwise be mixed.
    pub fn echoes_apart(&self, packet: &Packet) -> bool {
        let per_packet = matches!(self.ecn, Ecn::PerPacket | Ecn::Scalable);
        per_packet && packet.has(Packet::CE) != self.last_ce && self.rcv_nxt > self.acked
    }

    /// Notes the mark, or its absence, of an ECN-capable data packet that is about to be taken.
    pub fn note_ecn(&mut self, packet: &Packet) {
        let ce = packet.has(Packet::CE);
        match self.ecn {
            Ecn::Classic => {
                if packet.has(Packet::CWR) {
                    self.demand_cwr = false;
                }
                if ce && !self.demand_cwr {
                    self.demand_cwr = true;
                    // Linux sends a few quick ACKs so that the sender hears soon.
                    self.quick_acks = self.quick_acks.max(2);
                }
            }
            Ecn::PerPacket | Ecn::Scalable => {
                self.ack_now |= ce != self.last_ce;
                self.last_ce = ce;
            }
        }
    }

    /// The ACK of this flow that leaves now, but for its SACK blocks.
    #[inline]
    pub fn ack(&mut self, flow: u32) -> Packet {
        let echo = match self.ecn {
            Ecn::Classic => self.demand_cwr,
            Ecn::PerPacket | Ecn::Scalable => self.last_ce,
        };
        self.acked = self.rcv_nxt;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.ack_now = false;
        self.delayed = Timer::OFF;
        self.compressed = 0;
        self.compressed_at = Time::MAX;
        Packet {
            enqueued: Time::ZERO,
            seq: self.rcv_nxt,
            flow,
            stamp: self.ts_recent,
            extra: 0,
            size: ACK_SIZE,
            flags: Packet::ACK | if echo { Packet::ECE } else { 0 },
            hop: 0,
        }
    }

    /// Whether the ACK carries SACK blocks.
    #[inline]
    pub const fn has_blocks(&self) -> bool {
        self.dsack.is_some() || !self.recent.is_empty()
    }

    /// The SACK blocks of the ACK that leaves now, whose size and flags change accordingly.
    #[cold]
    pub fn blocks(&mut self, packet: &mut Packet) -> Blocks {
        let mut blocks = Blocks::default();
        if let Some(dsack) = self.dsack.take() {
            packet.flags |= Packet::DSACK;
            blocks.push(dsack);
        }
        self.recent.iter().for_each(|&range| blocks.push(range));
        // RFC 2018: an option of two bytes and eight for each block, padded to words.
        packet.size += 4 + 8 * blocks.count as u16;
        blocks
    }

    /// Puts a segment beyond `rcv_nxt` into the ranges and the SACK blocks.
    fn insert(&mut self, seq: u64) {
        // Mostly the last range grows, and it is the one that grew last.
        if let (Some(last), Some(newest)) = (self.out_of_order.last_mut(), self.recent.first_mut())
            && (last.1, newest.1) == (seq, seq)
        {
            (last.1, newest.1) = (seq + 1, seq + 1);
            return;
        }
        let i = self.out_of_order.partition_point(|r| r.1 < seq);
        let known = self.out_of_order.get(i).is_some_and(|r| r.0 <= seq && seq < r.1);
        if known {
            self.dsack = Some((seq, seq + 1));
        } else {
            let grows_left = self.out_of_order.get(i).is_some_and(|r| r.1 == seq);
            if grows_left {
                self.out_of_order[i].1 = seq + 1;
                if self.out_of_order.get(i + 1).is_some_and(|r| r.0 == seq + 1) {
                    self.out_of_order[i].1 = self.out_of_order.remove(i + 1).1;
                }
            } else if self.out_of_order.get(i).is_some_and(|r| r.0 == seq + 1) {
                self.out_of_order[i].0 = seq;
            } else {
                self.out_of_order.insert(i, (seq, seq + 1));
            }
        }
        self.note_recent(seq);
    }

    /// Moves the block that holds or touches `seq` to the front (RFC 2018, 4: the first block holds the segment that
    /// triggered the ACK).
    fn note_recent(&mut self, seq: u64) {
        let mut block = (seq, seq + 1);
        self.recent.retain(|r| {
            let touches = r.0 <= block.1 && block.0 <= r.1;
            if touches {
                block = (block.0.min(r.0), block.1.max(r.1));
            }
            !touches
        });
        self.recent.truncate(MAX_RECENT - 1);
        self.recent.insert(0, block);
    }

    /// Advances `rcv_nxt` over ranges that now touch it.
    fn close_gap(&mut self) {
        let mut taken = 0;
        for range in &self.out_of_order {
            if range.0 > self.rcv_nxt {
                break;
            }
            self.rcv_nxt = self.rcv_nxt.max(range.1);
            taken += 1;
        }
        if taken == self.out_of_order.len() {
            // Memory is given back: with thousands of flows it counts.
            (self.out_of_order, self.recent) = (Vec::new(), Vec::new());
            return;
        }
        self.out_of_order.drain(..taken);
        let rcv_nxt = self.rcv_nxt;
        self.recent.retain(|r| r.1 > rcv_nxt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const CONFIG: Config = Config {
        clock: Clock::new(Time::ZERO),
        delayed_ack: Time::from_millis(40),
        sack_delay: Time::from_millis(1),
        window_growth: 0,
    };

    fn data(seq: u64) -> Packet {
        Packet { enqueued: Time::ZERO, seq, flow: 0, stamp: 1, extra: 0, size: 1500, flags: 0, hop: 0 }
    }

    /// An ACK with its SACK blocks.
    type Reply = (Packet, Vec<Range>);

    fn reply(receiver: &mut Receiver) -> Reply {
        let mut packet = receiver.ack(0);
        let blocks = if receiver.has_blocks() { receiver.blocks(&mut packet) } else { Blocks::default() };
        (packet, blocks.as_slice().to_vec())
    }

    fn feed(receiver: &mut Receiver, seqs: impl IntoIterator<Item = u64>) -> Vec<Reply> {
        let mut replies = Vec::new();
        for seq in seqs {
            if receiver.on_data(&data(seq), Time::from_millis(1), &CONFIG, Time::from_millis(40)) {
                replies.push(reply(receiver));
            }
        }
        replies
    }

    fn settled() -> Receiver {
        let mut receiver = Receiver::new(Ecn::Classic);
        feed(&mut receiver, 0..u64::from(MAX_QUICK_ACKS));
        receiver
    }

    #[test]
    fn the_first_sixteen_segments_are_acknowledged_each_then_every_second() {
        let mut receiver = Receiver::new(Ecn::Classic);
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
        assert_eq!(receiver.ack(0).seq, 17);
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
        assert_eq!(reply(&mut receiver).1, [(17, 37)]);
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
        assert!(replies[0].0.has(Packet::DSACK));
        assert_eq!(replies[0].1, [(3, 4)]);
    }

    proptest! {
        /// RFC 2018, 4: the first block holds the segment that triggered the ACK, all tell only of what came, and as long
        /// as there are no more ranges than are remembered, the first block is all of its range.
        #[test]
        fn the_first_block_is_the_range_of_the_newest_segment(seqs in prop::collection::vec(17u64..60, 1..60)) {
            let config = Config { sack_delay: Time::ZERO, ..CONFIG };
            let mut receiver = settled();
            let (mut came, mut most) = (BTreeSet::new(), 0);
            for seq in seqs {
                if !came.insert(seq) {
                    continue;
                }
                prop_assert!(receiver.on_data(&data(seq), Time::from_millis(1), &config, Time::from_millis(40)));
                let blocks = reply(&mut receiver).1;
                most = most.max(came.iter().filter(|&s| !came.contains(&(s + 1))).count());
                let (start, end) = blocks[0];
                prop_assert!((start..end).contains(&seq));
                prop_assert!(blocks.iter().all(|&(start, end)| (start..end).all(|s| came.contains(&s))));
                if most <= MAX_RECENT {
                    prop_assert!(!came.contains(&(start - 1)) && !came.contains(&end));
                }
            }
            // The gap is filled: all that came is in order up to the next hole.
            prop_assert!(receiver.on_data(&data(16), Time::from_millis(1), &config, Time::from_millis(40)));
            prop_assert_eq!(receiver.in_order(), (17..=60).find(|s| !came.contains(s)).unwrap());
        }
    }
}
