//! TCP's receivers and senders: their answers to packets, ACKs and timers, whichever scheduler brings them.

use super::{At, End, EndFigures, HostPair, Outbox, Protocol};
use crate::simulation::apps::Apps;
use knee_cc::Init;
use knee_core::convert::{count_u32, index_u32};
use knee_core::packet::{ACK_SIZE, MSS, MTU};
use knee_core::{Packet, Payload, Rate, Seq, Time};
use knee_net::observe::{FlowCounts, Spread};
use knee_net::output::SenderState;
use knee_tcp::ecn::Ecn;
use knee_tcp::ends::{EndTimer, TcpEnds};
use knee_tcp::receiver::Reply;
use knee_tcp::sender::{AckInfo, Outgoing, Sender};

/// Size of SYN and SYN-ACK as IP packets: IP and TCP headers with 20 bytes of options.
const SYN_SIZE: u16 = 60;

impl Protocol for HostPair<'_, TcpEnds> {
    #[inline]
    fn path(&self) -> u32 {
        self.i
    }

    #[inline]
    fn receiver_due(&self) -> Time {
        self.ends.receiver.due()
    }

    #[inline]
    fn sender_due(&self) -> Time {
        self.ends.sender.due()
    }

    fn connect(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        self.record.syn_at = at.now;
        self.ends.sender.connect(at.now);
        self.send_syn(at, out);
        self.after_other(at, out);
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    fn on_data(&mut self, packet: &Packet, at: &At<'_>, out: &mut impl Outbox) {
        if packet.flags & (Packet::SYN | Packet::ECT) != 0 {
            if packet.has(Packet::SYN) {
                return self.answer_syn(packet, at, out);
            }
            self.note_ecn(packet, at, out);
        }
        if self.ends.receiver.flushes_before(packet) {
            self.send_ack(at, out);
        }
        if self.ends.receiver.on_data(packet, at.now, &self.settings.receiver_config, at.path.base_rtt) {
            self.send_ack(at, out);
        }
        if self.half.is_some() && self.ends.receiver.acknowledges_as_read(packet) {
            self.acknowledge_now(at, out);
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every ACK")]
    fn on_ack(&mut self, (payload, flags): (Payload, u8), at: &At<'_>, out: &mut impl Outbox) {
        if flags & Packet::SYN != 0 {
            return self.establish(payload, flags, at, out);
        }
        let now = at.now;
        let rtt = match payload {
            Payload::Ack { next, tsecr, tsval } => {
                let (sender, outgoing) = (&mut self.ends.sender, &mut self.stores.outgoing);
                let ack = AckInfo::plain(next.near(sender.snd_una()), tsecr, flags).stamped(tsval);
                sender.on_ack(&ack, now, &self.settings.sender_config, outgoing)
            }
            other => self.on_full_ack(other, now),
        };
        let rtt = if self.settings.trace_rtt { self.traced_rtt(now) } else { rtt };
        self.book_rtt(rtt, out);
        self.after_sender(at, out);
    }

    fn on_timer(&mut self, timer: EndTimer, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.expiry(timer, &self.settings.sender_config.clock) > at.now {
            return;
        }
        match timer {
            EndTimer::Retransmit => self.on_retransmit_timer(at, out),
            EndTimer::Pace => {
                self.ends.sender.on_pace(at.now, &self.settings.sender_config, &mut self.stores.outgoing);
                self.after_other(at, out);
            }
            EndTimer::DelayedAck => {
                self.ends.receiver.on_delayed_ack(&self.settings.receiver_config, at.path.base_rtt);
                self.send_ack(at, out);
            }
            EndTimer::CompressedSack
                if self.ends.receiver.on_compressed_sack(&self.settings.receiver_config, at.path.base_rtt) =>
            {
                self.send_ack(at, out);
            }
            EndTimer::CompressedSack => {}
        }
    }

    fn next_timer(&mut self, end: End, limit: Time) -> Option<(Time, EndTimer)> {
        let clock = &self.settings.sender_config.clock;
        let next = match end {
            End::Sender => self.ends.sender.next_timer(clock),
            End::Receiver => self.ends.receiver.next_timer(clock),
        };
        Some(next).filter(|(due, _)| *due < limit)
    }

    fn observe(&mut self, now: Time) -> (FlowCounts, SenderState, Spread) {
        let figures = figures(self.ends, now);
        let sender = SenderState { full_control: self.settings.has_full_control(self.record), ..figures.sender };
        (figures.counts(self.record, now), sender, self.record.take_rtts())
    }

    #[inline]
    fn tell(&self, _: Time, apps: &mut Apps) {
        apps.after_ack(self.i, &self.ends.sender, self.handshake());
    }
}

impl HostPair<'_, TcpEnds> {
    #[cold]
    fn answer_syn(&mut self, packet: &Packet, at: &At<'_>, out: &mut impl Outbox) {
        self.stores.syns -= 1;
        if packet.ends_handshake() {
            return;
        }
        if !self.ends.receiver.hear_syn(packet) && self.half.is_some() {
            self.ends.sender.ecn = Ecn::OFF;
        }
        let flags = Packet::ACK | Packet::SYN | self.ends.receiver.ecn().of_syn_ack(packet);
        let Payload::Data { tsval: tsecr, .. } = packet.payload else { panic!("no SYN: {packet:?}") };
        let answer = Reply { seq: 0, tsecr, flags }.packet(self.i, at.now);
        out.ack(Packet { size: SYN_SIZE, ..answer }, at);
    }

    #[inline(never)]
    fn note_ecn(&mut self, packet: &Packet, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.receiver.echoes_apart(packet) {
            self.send_ack(at, out);
        }
        self.ends.receiver.note_ecn(packet);
    }

    /// The receiver sends an ACK now, whatever made it do so.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet or every second one")]
    fn send_ack(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        let reply = self.ends.receiver.reply();
        if self.ends.receiver.is_disturbed() {
            return self.send_ack_disturbed(reply, at, out);
        }
        out.ack(reply.packet(self.i, at.now), at);
    }

    /// Sends an ACK where the receiver has SACK blocks to send, or misbehaves.
    #[inline(never)]
    fn send_ack_disturbed(&mut self, reply: Reply, at: &At<'_>, out: &mut impl Outbox) {
        let full_acks = &mut self.stores.full_acks;
        self.ends.receiver.answer(reply, |mut ack| {
            let mut packet = ack.reply.packet(self.i, at.now);
            if !ack.is_bare() {
                packet.size += ack.blocks.option_size();
                let (next, sacked) = (Seq::new(ack.reply.seq), ack.sacked());
                ack.tsval = Sender::half_tsval(at.now);
                packet.payload = Payload::Sack { key: index_u32(full_acks.insert(ack)), next, sacked };
            }
            out.ack(packet, at);
        });
    }

    /// A receiver that delays an ACK sends it now. Returns whether it does.
    pub(in crate::simulation) fn acknowledge_now(&mut self, at: &At<'_>, out: &mut impl Outbox) -> bool {
        let delays = self.ends.receiver.delayed.not_before() < Time::MAX;
        if delays {
            self.send_ack(at, out);
        }
        delays
    }

    fn on_retransmit_timer(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.sender.established() {
            self.ends.sender.on_timer(at.now, &self.settings.sender_config, &mut self.stores.outgoing);
        } else {
            self.ends.sender.reconnect(at.now);
            self.send_syn(at, out);
        }
        self.after_other(at, out);
        self.note_state(at.now, out);
    }

    fn send_syn(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        // RFC 3168, 6.1.1.1: what drops a SYN may do so for its offer of ECN (tcp_ecn_clear_syn).
        let again = at.now > self.record.syn_at;
        let ecn = self.ends.sender.ecn;
        self.send_handshake(SYN_SIZE, if again { ecn.handshake } else { ecn.of_syn() }, at, out);
    }

    /// Sends the first or the third packet of a handshake.
    fn send_handshake(&mut self, size: u16, flags: u8, at: &At<'_>, out: &mut impl Outbox) {
        let now = at.now;
        self.stores.syns += 1;
        let payload = Payload::Data { seq: Seq::new(0), tsval: Sender::tsval(now) };
        let flags = Packet::SYN | flags;
        out.data(Packet { at: now, payload, flow: self.i, queued: 0, size, flags, hop: 0 }, 1, at);
    }

    /// The RTT that a packet trace shows for the ACK that the sender has just taken.
    #[cold]
    fn traced_rtt(&mut self, now: Time) -> Option<Time> {
        let acked = self.ends.sender.snd_una();
        self.stores.traces.entry(self.i).or_default().acknowledged(acked, now)
    }

    /// Notes when new segments leave, for that trace.
    #[cold]
    fn note_sent(&mut self, now: Time) {
        let trace = self.stores.traces.entry(self.i).or_default();
        for sent in self.stores.outgoing.iter().filter(|sent| !sent.retransmission) {
            trace.sent(sent.start + u64::from(sent.count), now);
        }
    }

    /// The sender takes an ACK for which a packet has no room.
    #[inline(never)]
    fn on_full_ack(&mut self, payload: Payload, now: Time) -> Option<Time> {
        let ack = self.stores.full_acks.remove(payload.key() as usize);
        self.ends.sender.on_ack(&ack.info(), now, &self.settings.sender_config, &mut self.stores.outgoing)
    }

    #[cold]
    fn establish(&mut self, answer: Payload, flags: u8, at: &At<'_>, out: &mut impl Outbox) {
        if self.ends.sender.established() {
            return;
        }
        if !Ecn::is_in_handshake(flags) {
            self.ends.sender.ecn = Ecn::OFF;
        }
        let Payload::Ack { tsecr, .. } = answer else { panic!("no answer to a SYN: {answer:?}") };
        let rtt = self.ends.sender.answer_to_syn(self.record.syn_at, tsecr, at.now);
        self.send_handshake(ACK_SIZE, self.ends.sender.ecn.of_acks(), at, out);
        self.open(rtt, at, out);
    }

    /// The sender's connection is there, after a handshake of `rtt`.
    pub(in crate::simulation) fn open(&mut self, rtt: Time, at: &At<'_>, out: &mut impl Outbox) {
        let now = at.now;
        let (flow, rng) = (self.flow(), self.random_numbers(self.half.is_none_or(|half| half.away)));
        if let Some(half) = self.half {
            half.handshake = rtt;
        }
        self.stores.traces.remove(&self.i);
        let sender = &mut self.ends.sender;
        sender.establish(Some(rtt), now);
        let init = Init {
            now,
            rtt,
            cwnd: sender.control.cwnd,
            mss: u32::from(MSS),
            tick: self.settings.sender_config.clock.tick(),
            paced: sender.paced(),
            accurate_ecn: sender.has_accurate_ecn(),
            tso: self.settings.sender_config.tso,
            rng,
        };
        let cc = self.settings.algorithms[self.record.algorithm as usize].instance(&init, flow);
        sender.adopt(cc, now);
        sender.send(now, &self.settings.sender_config, &mut self.stores.outgoing);
        // The first phase is put on record, whichever it is.
        self.record.phase = u8::MAX;
        self.after_other(at, out);
    }

    /// Data leaves the receiver's end, on the other half of the connection. Gives the ACK that it carries, if one
    /// waits.
    pub(in crate::simulation) fn ack_of_data(&mut self, now: Time) -> Option<Reply> {
        let receiver = &mut self.ends.receiver;
        receiver.note_data_sent(now, &self.settings.receiver_config);
        let waits = receiver.delayed.not_before() < Time::MAX && !receiver.is_disturbed();
        waits.then(|| receiver.reply())
    }

    /// Data of the other half, which left at `tsval`, has brought an ACK to the sender.
    #[inline(never)]
    pub(in crate::simulation) fn on_carried_ack(&mut self, ack: Reply, tsval: u16, at: &At<'_>, out: &mut impl Outbox) {
        let Reply { seq, tsecr, flags } = ack;
        self.on_ack((Payload::Ack { next: Seq::new(seq), tsecr, tsval }, flags), at, out);
    }

    /// An application writes `bytes`, the last time at which the path carried data being `last_sent`. Gives the segment
    /// after the last of them.
    pub(in crate::simulation) fn write(
        &mut self,
        bytes: u64,
        last_sent: Time,
        at: &At<'_>,
        out: &mut impl Outbox,
    ) -> u64 {
        let (sender, outgoing) = (&mut self.ends.sender, &mut self.stores.outgoing);
        let end = sender.write(bytes, last_sent, at.now, &self.settings.sender_config);
        sender.send(at.now, &self.settings.sender_config, outgoing);
        self.after_other(at, out);
        end
    }

    /// Follows a timer and all else that is rare.
    #[inline(never)]
    fn after_other(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        self.after_sender(at, out);
    }

    /// Follows every call of a sender: its packets leave, its changes of state are noted.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with nearly every ACK")]
    fn after_sender(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        if !self.stores.outgoing.is_empty() {
            if self.settings.trace_rtt {
                self.note_sent(at.now);
            }
            packets(&mut self.stores.outgoing, &mut self.ends.sender, self.i, at, out);
        }
        if self.record.has_changed(&self.ends.sender) {
            self.note_state(at.now, out);
            self.note_completion(at.now, out);
        }
    }

    #[cold]
    fn note_state(&mut self, now: Time, out: &mut impl Outbox) {
        let Sender { control, totals, .. } = self.ends.sender;
        self.note_states(now, &control, self.ends.sender.state(), totals.timeouts, out);
    }

    #[cold]
    fn note_completion(&mut self, now: Time, out: &mut impl Outbox) {
        // A flow that was stopped is done without having sent it all.
        if self.ends.sender.acked_bytes() == self.record.complete_at {
            self.complete(now, out);
        }
    }

    /// RTT of the handshake of a connection that an application opened; zero until it is over.
    pub(in crate::simulation) fn handshake(&self) -> Time {
        self.half.map_or(Time::ZERO, |half| half.handshake)
    }
}

/// Figures of TCP's ends now.
pub(super) fn figures(ends: &mut TcpEnds, now: Time) -> EndFigures {
    let TcpEnds { sender, receiver } = ends;
    if sender.established() {
        sender.note_cwnd(now);
    }
    EndFigures {
        received: receiver.received,
        counters: sender.counters(),
        delivered_bytes: receiver.delivered_bytes(),
        new_bytes: sender.new_bytes(),
        outstanding: sender.snd_nxt() - sender.snd_una(),
        cwnd_integral: sender.totals.cwnd_integral.0,
        sender: SenderState {
            phase: sender.control.phase,
            ca: sender.state(),
            full_control: false,
            srtt: sender.srtt(),
            cwnd: Some(sender.control.cwnd),
            in_flight: sender.in_flight(),
            pacing_rate_bps: sender.pacing_rate().map(Rate::as_bps),
        },
    }
}

/// Makes packets of what a sender sends now.
#[inline(always)]
#[expect(clippy::inline_always, reason = "with nearly every ACK")]
fn packets(outgoing: &mut Vec<Outgoing>, sender: &mut Sender, flow: u32, at: &At<'_>, out: &mut impl Outbox) {
    let now = at.now;
    let tsval = Sender::tsval(now);
    let payload = |seq| Payload::Data { seq: Seq::new(seq), tsval };
    let packet = |seq| Packet { at: now, payload: payload(seq), flow, queued: 0, size: MTU, flags: 0, hop: 0 };
    // The usual case.
    if let &[Outgoing { start, count, .. }] = outgoing.as_slice()
        && sender.plain_packets
        && start + u64::from(count) != sender.end
    {
        out.data(packet(start), count, at);
        return outgoing.clear();
    }
    packets_of_any(outgoing, sender, packet, at, out);
}

/// As [`packets`], in any case.
#[inline(never)]
fn packets_of_any(
    outgoing: &mut Vec<Outgoing>,
    sender: &mut Sender,
    packet: impl Fn(u64) -> Packet,
    at: &At<'_>,
    out: &mut impl Outbox,
) {
    for &Outgoing { start, count, retransmission } in outgoing.iter() {
        let ect = sender.ecn.of_data(retransmission);
        // The first new packet tells of a reduction.
        let tells = ect != 0 && !retransmission;
        let (mut seq, end) = (start, start + u64::from(count));
        // The last segment that was written may be short and has PSH, so it goes alone; any other may be short too
        // where more was written since.
        let (last, any_short) = (sender.end - 1, sender.has_short_segments());
        while seq < end {
            let cwr = if tells && sender.take_cwr() { Packet::CWR } else { 0 };
            let psh = if seq == last { Packet::PSH } else { 0 };
            let size = sender.packet_size(seq);
            let alike = if cwr | psh != 0 {
                1
            } else if any_short {
                1 + index_u32((seq + 1..end.min(last)).take_while(|&next| sender.packet_size(next) == size).count())
            } else {
                count_u32(end.min(last) - seq)
            };
            out.data(Packet { flags: ect | cwr | psh, size, ..packet(seq) }, alike, at);
            seq += u64::from(alike);
        }
    }
    outgoing.clear();
}
