//! The receiving end of a TCP connection, as Linux's: reassembly, SACK and D-SACK blocks, delayed, quick and
//! compressed ACKs, ECN echo, receive offload.
//!
//! A data packet joins `rcv_nxt` or the out-of-order ranges; then an ACK leaves at once (second segment in a row,
//! quick-ACK mode, a gap filled, a duplicate), or after the delayed-ACK time, or with the next compressed SACK.
//!
//! Source: Linux net/ipv4/tcp_input.c (`tcp_data_queue`, `tcp_event_data_recv`, `__tcp_ack_snd_check`) and
//! tcp_output.c (`tcp_send_delayed_ack`); RFC 2018, RFC 2883, RFC 5681 4.2.

mod disorder;
mod misbehaviour;

pub use disorder::{Blocks, Disorder, Range};
pub use misbehaviour::{ENTRIES, Entry, Misbehaviour, find};

use crate::ecn::{Ecn, FIRST_COUNT, Feedback};
use crate::sender::{AckInfo, Sender};
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
pub(crate) const INITIAL_WINDOW: u64 = 65_535;
/// Bytes by which it grows with each packet (tcp_grow_window): two segments as SYNs announce them, without options.
pub(crate) const WINDOW_STEP: u64 = 2 * (MTU as u64 - 40);
/// Size of a packet whose payload is long enough for that, 128 bytes.
const GROWING: u16 = MTU - MSS + 128;
//= RFC 5681, 4.2
//# MUST be generated within 500 ms of the arrival of the first unacknowledged packet.
/// Longest delay of an ACK (TCP_DELACK_MAX).
const DELAYED_ACK_MAX: Time = Time::from_millis(200);
//= RFC 9768, 3.2.2.5.1
//# CE marks have arrived since the previous ACK. If there is unacknowledged data at the receiver,
/// Marks after which an ACK leaves at once, with accurate ECN: n of RFC 9768, 3.2.2.5.1, which should be 2 where data
/// is new. Linux 7.2 waits for up to 6 (TCP_ACCECN_ACE_MAX_DELTA), but acknowledges every second segment anyway.
const CE_PER_ACK: u8 = 2;
/// Segments that receive offload joins to one packet at most: 64 KiB (`GRO_LEGACY_MAX_SIZE`) of 1448 bytes each.
const MAX_JOINED: u64 = 45;
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
    pub fn packet(&self, flow: u32, now: Time) -> Packet {
        let payload = Payload::Ack { next: Seq::new(self.seq), tsecr: self.tsecr, tsval: Sender::half_tsval(now) };
        Packet { at: now, payload, flow, queued: 0, size: ACK_SIZE, flags: self.flags, hop: 0 }
    }
}

/// An ACK that leaves, with all that few of them have.
#[derive(Clone, Copy, Debug)]
pub struct FullReply {
    /// Fields that every ACK has.
    pub reply: Reply,
    /// Bytes of the next segment expected that are acknowledged too.
    pub part: u16,
    /// SACK blocks.
    pub blocks: Blocks,
    /// The lower half of its TSval; set as it leaves.
    pub tsval: u16,
}

impl FullReply {
    /// True if a [`Reply`] is all there is.
    pub const fn is_bare(&self) -> bool {
        self.part == 0 && self.blocks.is_empty()
    }

    /// Segments in its blocks, where these are all that is held beyond the next segment expected; else 0, as where they
    /// tell of a duplicate or a part of a segment is acknowledged.
    pub fn sacked(&self) -> u16 {
        let blocks = self.blocks.as_slice();
        if self.part > 0 || self.blocks.dsack() || self.blocks.is_full() {
            return 0;
        }
        u16::try_from(blocks.iter().map(|(start, end)| end - start).sum::<u64>()).unwrap_or(0)
    }

    /// The ACK's fields as the sender reads them.
    pub fn info(&self) -> AckInfo<'_> {
        let Reply { seq, tsecr, flags } = self.reply;
        let (blocks, dsack) = (self.blocks.as_slice(), self.blocks.dsack());
        AckInfo { seq, part: self.part, blocks, dsack, tsecr, tsval: self.tsval, flags }
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
    /// Least retransmission timeout, which bounds the delay of ACKs and says what is a pause.
    pub rto_min: Time,
    /// How long the host holds segments that follow each other, to hand them up as one packet; zero: not at all.
    pub receive_offload: Time,
    /// Bytes up to which the window grows.
    pub window_growth: u64,
}

impl Config {
    /// The retransmission timeout of an end whose only RTT sample is that of the handshake (RFC 6298, 2.2).
    fn rto(&self, rtt: Time) -> Time {
        self.clock.span(rtt + (rtt * 2).max(self.rto_min))
    }
}

/// The receiving end of one flow: two cache lines.
#[repr(align(64))]
#[derive(Clone)]
pub struct Receiver {
    /// Next segment expected.
    rcv_nxt: u64,
    /// Last segment acknowledged (Linux's `rcv_wup`).
    acked: u64,
    /// Segments that arrived beyond a gap, and duplicates still to be reported; mostly `None`.
    disorder: Option<Box<Disorder>>,
    /// TSval to echo: of the last segment that started at or before the last one acknowledged (RFC 7323, 4.3).
    ts_recent: u32,
    quick_acks: u8,
    ack_now: bool,
    /// A SYN has come.
    is_asked: bool,
    /// Its end has answered data at once, so that the next answer may carry the ACK (Linux's pingpong mode).
    answers: bool,
    ecn: Ecn,
    /// ACKs echo a mark. Classic ECN: until the sender reports that it reduced its window; per-packet and accurate ECN:
    /// while the last packet was marked.
    echo: bool,
    /// Packets that came with a mark, with accurate ECN; its low three bits are sent.
    ce_count: u8,
    /// Marks counted in `ce_count` that no ACK has reported yet.
    ce_untold: u8,
    /// The window as far as it has grown, in bytes (Linux's `rcv_ssthresh`).
    window: u64,
    /// Delay of ACKs, adapted to the intervals of arrivals; below the usual one, the usual one.
    ato: Time,
    /// When the last packet came in order; `Time::MAX`: none has.
    last_arrival: Time,
    /// The delayed ACK.
    pub delayed: Timer,
    /// When the compressed SACK is due, or, in order, when receive offload hands up what it holds; `Time::MAX`: neither
    /// is.
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
            is_asked: false,
            answers: false,
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

    /// Takes a SYN: where the first does not offer ECN, none is used. Returns whether it is.
    pub const fn hear_syn(&mut self, syn: &Packet) -> bool {
        if !self.is_asked && !Ecn::is_in_handshake(syn.flags) {
            self.ecn = Ecn::OFF;
        }
        self.is_asked = true;
        self.ecn.is_on()
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
    pub fn on_data(&mut self, packet: &Packet, now: Time, config: &Config, base_rtt: Time) -> bool {
        self.received.count(packet);
        let Payload::Data { seq, tsval } = packet.payload else { panic!("no segment: {packet:?}") };
        let seq = seq.near(self.rcv_nxt);
        if seq <= self.acked {
            self.ts_recent = tsval;
        }
        if seq != self.rcv_nxt || self.disorder.is_some() {
            return self.on_disorder(seq, tsval, packet.size, now, config, base_rtt);
        }
        self.rcv_nxt += 1;
        self.adapt_ato(now, config, base_rtt);
        self.grow_window(packet.size, config);
        if config.receive_offload > Time::ZERO && self.joins(packet, now, config) {
            return false;
        }
        if self.must_ack_now() {
            return true;
        }
        self.delay_ack(now, config, base_rtt);
        false
    }

    /// Returns true if receive offload holds the packet, the next one in order (net/core/gro.c). It holds segments for
    /// `receive_offload` from the first one on, which stands for the time between two interrupts. One that is short,
    /// ends a write or fills 64 KiB is handed up at once with all before it, and so is a packet that a gap follows. TCP
    /// takes all that as one packet of more than a segment, which it acknowledges at once.
    #[cold]
    fn joins(&mut self, packet: &Packet, now: Time, config: &Config) -> bool {
        let full = packet.size < MTU || packet.has(Packet::PSH) || self.rcv_nxt - self.acked >= MAX_JOINED;
        self.compressed_at = if full { Time::MAX } else { self.compressed_at.min(now + config.receive_offload) };
        !full
    }

    /// Receive offload hands up what it holds. True: an ACK leaves at once.
    fn hand_up(&mut self, config: &Config, base_rtt: Time) -> bool {
        let now = std::mem::replace(&mut self.compressed_at, Time::MAX);
        if now == Time::MAX || self.rcv_nxt == self.acked {
            return false;
        }
        if self.must_ack_now() {
            return true;
        }
        self.delay_ack(now, config, base_rtt);
        false
    }

    /// A packet that is not the next one, or the next one where later ones are there already or the receiver
    /// misbehaves.
    #[cold]
    fn on_disorder(&mut self, seq: u64, tsval: u32, size: u16, now: Time, config: &Config, base_rtt: Time) -> bool {
        let payload = u64::from(size) - HEADERS;
        if self.disorder.is_none() && self.compressed_at < Time::MAX {
            self.compressed_at = now;
            self.ack_now |= self.hand_up(config, base_rtt);
        }
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
                self.adapt_ato(now, config, base_rtt);
                //= RFC 5681, 4.2 (departs: at once where no gap is left, as Linux)
                //# To provide feedback to senders recovering from losses, the receiver SHOULD send an immediate ACK
                //# when it receives a data segment that fills in all or part of a gap in the sequence space.
                self.ack_now |= !disorder.has_gap();
                true
            }
            Ordering::Less => {
                disorder.dsack = Some(seq);
                self.enter_quick_acks(MAX_QUICK_ACKS);
                self.ack_now = true;
                false
            }
            Ordering::Greater => disorder.insert(seq),
        };
        if is_new {
            self.grow_window(size, config);
        } else {
            self.duplicate_bytes += payload;
        }
        let flushed = std::mem::take(&mut disorder.flushed);
        let mut at_once = !flushed && self.must_ack_now();
        // A duplicate and what closes the gap are acknowledged at once: what is left is beyond a gap, or fills a part.
        if !at_once && !flushed {
            //= RFC 5681, 4.2 (departs: Linux compresses SACKs after the first few)
            //# To trigger the fast retransmit algorithm, the receiver SHOULD send an immediate duplicate ACK when it
            //# receives a data segment above a gap in the sequence space.
            at_once = config.sack_delay == Time::ZERO || disorder.replies(self.rcv_nxt);
            if !at_once && self.compressed_at == Time::MAX {
                self.compressed_at = now + config.sack_delay.min(base_rtt.mul_div(COMPRESSION_RTT_PERCENT, 100));
            }
        }
        self.disorder = Some(disorder).filter(|disorder| !disorder.is_over());
        at_once
    }

    /// Returns true if the compressed SACK has to leave before this packet is taken, so that every block is reported.
    /// The packet itself is then acknowledged with the next one: as in Linux, the ACK that leaves counts as its own.
    pub fn flushes_before(&mut self, packet: &Packet) -> bool {
        self.disorder.is_some() && self.flushes_disorder(packet)
    }

    #[cold]
    fn flushes_disorder(&mut self, packet: &Packet) -> bool {
        let (Some(disorder), Payload::Data { seq, .. }) = (&mut self.disorder, packet.payload) else { return false };
        let seq = seq.near(self.rcv_nxt);
        disorder.flushed = seq > self.rcv_nxt && disorder.flushes(seq);
        disorder.flushed
    }

    /// Fetches what a packet will need apart from the receiver itself.
    pub fn fetch_behind(&self) {
        if let Some(disorder) = &self.disorder {
            fetch(disorder.as_ref());
        }
    }

    /// When its next timer is due, at the earliest.
    pub fn due(&self) -> Time {
        self.delayed.not_before().min(self.compressed_at)
    }

    fn must_ack_now(&self) -> bool {
        //= RFC 5681, 4.2
        //# an ACK SHOULD be generated for at least every second full-sized segment,
        self.rcv_nxt > self.acked + 1 || self.quick_acks > 0 && !self.answers || self.ack_now
    }

    /// The delayed-ACK timer fired: an ACK leaves.
    pub fn on_delayed_ack(&mut self, config: &Config, base_rtt: Time) {
        // A delayed ACK that ran out inflates the delay, or shows that no answer comes to carry it.
        let longer = (self.ato.max(config.delayed_ack) * 2).min(config.rto(base_rtt));
        self.ato = if std::mem::take(&mut self.answers) { Time::ZERO } else { longer };
    }

    /// The timer of compressed SACKs, or of receive offload, fired. True: an ACK leaves.
    pub fn on_compressed_sack(&mut self, config: &Config, base_rtt: Time) -> bool {
        if self.disorder.is_none() {
            return self.hand_up(config, base_rtt);
        }
        self.compressed_at = Time::MAX;
        // One duplicate ACK is not counted, so that the next loss is still seen quickly.
        self.disorder.as_ref().is_some_and(|disorder| disorder.compressed > 0)
    }

    /// Adapts the delay of ACKs to the time since the packet before (tcp_event_data_recv).
    fn adapt_ato(&mut self, now: Time, config: &Config, base_rtt: Time) {
        let last = std::mem::replace(&mut self.last_arrival, now);
        if last == Time::MAX {
            self.quick_acks = self.quick_acks.max(MAX_QUICK_ACKS);
        } else if self.ato > config.delayed_ack || now - last > config.delayed_ack / 2 {
            self.adapt_ato_to(last, now, config, base_rtt);
        }
    }

    /// Adapts the delay where it is not the usual one, or will not be, to the time since `last`. The kernel counts
    /// ticks.
    #[inline(never)]
    fn adapt_ato_to(&mut self, last: Time, now: Time, config: &Config, base_rtt: Time) {
        let (clock, min) = (&config.clock, config.delayed_ack);
        let gap = clock.jiffies(now) - clock.jiffies(last);
        let (ato, rto) = (self.ato.max(min), config.rto(base_rtt));
        if gap <= min / 2 {
            self.ato = clock.jiffies(ato / 2) + min / 2;
        } else if gap < ato {
            self.ato = (clock.jiffies(ato / 2) + gap).min(rto);
        } else if gap > rto {
            self.quick_acks = self.quick_acks.max(MAX_QUICK_ACKS);
        }
    }

    /// New data lets the window grow, and the sender shall hear of it at once (tcp_grow_window). An even number of
    /// quick ACKs becomes an odd one, so those of the first data are still due once the window has grown.
    const fn grow_window(&mut self, size: u16, config: &Config) {
        if self.window < config.window_growth && size >= GROWING {
            self.window += WINDOW_STEP;
            self.quick_acks |= 1;
        }
    }

    /// The next ACKs leave at once (tcp_enter_quickack_mode).
    fn enter_quick_acks(&mut self, acks: u8) {
        self.quick_acks = self.quick_acks.max(acks);
        self.answers = false;
        self.ato = Time::ZERO;
    }

    /// Its end sends data of its own now: an answer, if the last packet came less than the delay of an ACK ago
    /// (tcp_event_data_sent).
    pub fn note_data_sent(&mut self, now: Time, config: &Config) {
        if self.last_arrival < Time::MAX {
            let gap = config.clock.jiffies(now) - config.clock.jiffies(self.last_arrival);
            self.answers |= gap < self.ato.max(config.delayed_ack);
        }
    }

    /// True if the program at its end acknowledges by reading (tcp_cleanup_rbuf): a packet that ends a write is
    /// acknowledged at once, unless an answer may carry that.
    pub const fn acknowledges_as_read(&self, packet: &Packet) -> bool {
        (packet.has(Packet::PSH) || packet.size < MTU) && !self.answers
    }

    fn delay_ack(&mut self, now: Time, config: &Config, base_rtt: Time) {
        //= RFC 5681, 4.2
        //# The delayed ACK algorithm specified in [RFC1122] SHOULD be used by a TCP receiver.
        let mut delay = config.delayed_ack;
        if self.ato > delay {
            // tcp_send_delayed_ack: no longer than the RTT of the handshake, which is a little more than the base's.
            let rtt = config.clock.span(base_rtt + Time::from_micros(1));
            delay = self.ato.min(delay.max(rtt)).min(DELAYED_ACK_MAX);
        }
        let timer = Timer::set(now, delay);
        if timer.not_before() < self.delayed.not_before() {
            self.delayed = timer;
        }
    }

    /// True if an ACK for earlier segments has to leave before an ECN-capable data packet is taken, since per-packet
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
                    self.enter_quick_acks(2);
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
    pub fn reply(&mut self) -> Reply {
        // Read first: the processor would wait for bytes beside it that are written below.
        let ecn = self.ecn;
        self.acked = self.rcv_nxt;
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            if self.quick_acks == 0 {
                // Later packets are acknowledged after the usual delay again (tcp_dec_quickack_mode).
                self.ato = Time::ZERO;
            }
        }
        self.ack_now = false;
        self.delayed = Timer::OFF;
        if let Some(disorder) = &mut self.disorder {
            disorder.compressed = 0;
        }
        self.compressed_at = Time::MAX;
        let echo = if ecn.is_accurate() {
            //= RFC 9768, 3.2
            //# Whenever a Data Receiver feeds back the value of any counter, it MUST report the most recent value,
            self.ce_untold = 0;
            //= RFC 9768, 3.2.2
            //# a Data Receiver MUST encode the three least significant bits of its r.cep counter into the ACE field
            //# that it feeds back to the Data Sender.
            Packet::ace(self.ce_count)
        } else if self.echo {
            //= RFC 8257, 3.2
            //# When sending an ACK, the ECE flag MUST be set if and only if DCTCP.CE is true.
            Packet::ECE
        } else {
            0
        };
        Reply { seq: self.rcv_nxt, tsecr: self.ts_recent, flags: Packet::ACK | echo | ecn.of_acks() }
    }

    /// True if there is more to do than to send the bare ACK: it carries SACK blocks, or the receiver misbehaves.
    pub const fn is_disturbed(&self) -> bool {
        self.disorder.is_some()
    }

    /// Sends the ACK that leaves now with its SACK blocks, or what goes in its place where it misbehaves.
    pub fn answer(&mut self, reply: Reply, mut send: impl FnMut(FullReply)) {
        let blocks = if self.has_blocks() { self.blocks() } else { Blocks::NONE };
        let honest = FullReply { reply, part: 0, blocks, tsval: 0 };
        match self.disorder.as_mut().and_then(|disorder| disorder.misbehaviour.as_mut()) {
            Some(misbehaviour) => misbehaviour.answer(honest, send),
            None => send(honest),
        }
    }

    /// True if the ACK carries SACK blocks.
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
mod tests;
