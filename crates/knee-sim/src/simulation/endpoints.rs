//! What TCP's receivers and senders do when a packet, an ACK or a timer comes, whichever scheduler brings it. They are
//! lent by [`World::with_tcp`], with the number of their path.

use super::build::OwnMake;
use super::connections::Action;
use super::ends::Ends;
use super::world::{Algorithm, Outbox, World};
use knee_cc::{CaState, Control, DynCongestionControl, Init};
use knee_core::convert::index_u32;
use knee_core::packet::{MSS, MTU};
use knee_core::{Packet, Payload, Rng, Seq, Time};
use knee_net::network::FlowPath;
use knee_net::observe::States;
use knee_tcp::receiver::{Receiver, Reply};
use knee_tcp::sender::{AckInfo, Departure, Sender};

/// Size of SYN and SYN-ACK as IP packets: IP and TCP headers with 20 bytes of options.
const SYN_SIZE: u16 = 60;

impl World {
    /// A data packet of a flow has arrived at its receiver now.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet")]
    pub(super) fn on_data(&mut self, receiver: &mut Receiver, packet: &Packet, path: &FlowPath, out: &mut impl Outbox) {
        if packet.flags & (Packet::SYN | Packet::ECT) != 0 {
            if packet.has(Packet::SYN) {
                return self.answer_syn(receiver, packet, path, out);
            }
            self.note_ecn(receiver, packet, path, out);
        }
        if receiver.flushes_before(packet) {
            self.reply(receiver, packet.flow, path, out);
        }
        if receiver.on_data(packet, self.now, &self.receiver_config, path.base_rtt) {
            self.reply(receiver, packet.flow, path, out);
        }
    }

    #[cold]
    fn answer_syn(&mut self, receiver: &Receiver, packet: &Packet, path: &FlowPath, out: &mut impl Outbox) {
        self.syns -= 1;
        let flags = Packet::ACK | Packet::SYN | receiver.ecn().of_syn_ack(packet);
        let Payload::Data { tsval: tsecr, .. } = packet.payload else { panic!("no SYN: {packet:?}") };
        let answer = Reply { seq: 0, tsecr, flags }.packet(packet.flow, self.now);
        out.ack(Packet { size: SYN_SIZE, ..answer }, self.now, path);
    }

    #[inline(never)]
    fn note_ecn(&mut self, receiver: &mut Receiver, packet: &Packet, path: &FlowPath, out: &mut impl Outbox) {
        if receiver.echoes_apart(packet) {
            self.reply(receiver, packet.flow, path, out);
        }
        receiver.note_ecn(packet);
    }

    /// An ACK leaves whatever has come.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every packet or every second one")]
    fn reply(&mut self, receiver: &mut Receiver, i: u32, path: &FlowPath, out: &mut impl Outbox) {
        let reply = receiver.reply();
        if receiver.is_disturbed() {
            return self.reply_disturbed(receiver, i, reply, path, out);
        }
        out.ack(reply.packet(i, self.now), self.now, path);
    }

    /// The same where the receiver has SACK blocks to send, or misbehaves.
    #[inline(never)]
    fn reply_disturbed(
        &mut self,
        receiver: &mut Receiver,
        i: u32,
        reply: Reply,
        path: &FlowPath,
        out: &mut impl Outbox,
    ) {
        let Self { full_acks, now, .. } = self;
        receiver.answer(reply, |ack| {
            let mut packet = ack.reply.packet(i, *now);
            if !ack.is_bare() {
                packet.size += ack.blocks.option_size();
                packet.payload = Payload::Stored(index_u32(full_acks.insert(ack)));
            }
            out.ack(packet, *now, path);
        });
    }

    /// The timer of a delayed ACK may be due: fires it if it is. From now on it is known when it is.
    pub(super) fn on_delayed_ack_timer(&mut self, receiver: &mut Receiver, i: u32, out: &mut impl Outbox) {
        if receiver.delayed.resolve(&self.receiver_config.clock) <= self.now {
            receiver.on_delayed_ack(&self.receiver_config);
            let path = self.network.flow_paths[i as usize];
            self.reply(receiver, i, &path, out);
        }
    }

    /// A receiver that delays an ACK sends it now.
    pub(super) fn acknowledge_now(&mut self, receiver: &mut Receiver, i: u32, out: &mut impl Outbox) {
        if receiver.delayed.not_before() < Time::MAX {
            let path = self.network.flow_paths[i as usize];
            self.reply(receiver, i, &path, out);
        }
    }

    /// The timer of compressed SACKs may be due: fires it if it is.
    pub(super) fn on_compressed_sack_timer(&mut self, receiver: &mut Receiver, i: u32, out: &mut impl Outbox) {
        if receiver.compressed_at <= self.now && receiver.on_compressed_sack() {
            let path = self.network.flow_paths[i as usize];
            self.reply(receiver, i, &path, out);
        }
    }

    /// A flow begins now.
    pub(super) fn start(&mut self, i: u32, out: &mut impl Outbox) {
        if self.warmup == Time::ZERO {
            self.begin_figures(i);
        }
        match self.ends[i] {
            Ends::Udp(_) => self.start_udp(i, out),
            Ends::Application => self.connections.act(i, Action::Start),
            Ends::Tcp(_) => self.with_tcp(i, |world, tcp| world.connect(&mut tcp.sender, i, out)),
        }
    }

    /// A sender opens its connection now.
    pub(super) fn connect(&mut self, sender: &mut Sender, i: u32, out: &mut impl Outbox) {
        self.flows[i as usize].syn_at = self.now;
        sender.connect(self.now);
        self.send_syn(sender, i, out);
        self.after_other(sender, i, out);
    }

    fn send_syn(&mut self, sender: &Sender, i: u32, out: &mut impl Outbox) {
        self.syns += 1;
        let payload = Payload::Data { seq: Seq::new(0), tsval: Sender::tsval(self.now) };
        let flags = Packet::SYN | sender.ecn.of_syn();
        out.data(Packet { arrived: self.now, payload, flow: i, queued: 0, size: SYN_SIZE, flags, hop: 0 }, 1);
    }

    /// An ACK has arrived at its sender now.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with every ACK")]
    pub(super) fn on_ack(
        &mut self,
        sender: &mut Sender,
        i: u32,
        (payload, flags): (Payload, u8),
        out: &mut impl Outbox,
    ) {
        if flags & Packet::SYN != 0 {
            return self.establish(sender, i, out);
        }
        let rtt = match payload {
            Payload::Ack { next, tsecr } => {
                let seq = next.near(sender.snd_una());
                sender.on_ack(&AckInfo::plain(seq, tsecr, flags), self.now, &self.sender_config, &mut self.departures)
            }
            other => self.on_full_ack(sender, other),
        };
        self.flows[self.connections.owner(i) as usize].book_rtt(rtt);
        self.after_sender(sender, i, out);
    }

    /// The ACK that a packet of TCP carries.
    pub(super) fn ack(&self, packet: &Packet) -> AckInfo<'_> {
        match packet.payload {
            Payload::Ack { next, tsecr } => {
                let seq = next.near(self.ends.sender(packet.flow).snd_una());
                AckInfo::plain(seq, tsecr, packet.flags)
            }
            other => self.full_acks[other.key() as usize].info(),
        }
    }

    /// A sender takes an ACK for which a packet has no room.
    #[inline(never)]
    fn on_full_ack(&mut self, sender: &mut Sender, payload: Payload) -> Option<Time> {
        let ack = self.full_acks.remove(payload.key() as usize);
        sender.on_ack(&ack.info(), self.now, &self.sender_config, &mut self.departures)
    }

    #[cold]
    fn establish(&mut self, sender: &mut Sender, i: u32, out: &mut impl Outbox) {
        if sender.established() {
            return;
        }
        let now = self.now;
        let flow = &mut self.flows[i as usize];
        let micros = |at: Time| at.floor_to(Time::from_micros(1));
        let rtt = (flow.syn_at < Time::MAX).then(|| micros(now) - micros(flow.syn_at));
        self.open_established(sender, i, rtt, out);
        self.note_established(i, rtt);
    }

    /// The connection of a sender is there, after a handshake of `rtt` (none where the SYN had to be sent again).
    pub(super) fn open_established(&mut self, sender: &mut Sender, i: u32, rtt: Option<Time>, out: &mut impl Outbox) {
        let now = self.now;
        let rng = Rng::stream(self.seed, &self.stream_name(i));
        sender.establish(rtt, now);
        let init = Init {
            now,
            rtt: rtt.unwrap_or(Time::ZERO),
            cwnd: sender.control.cwnd,
            mss: u32::from(MSS),
            tick: self.sender_config.clock.tick(),
            paced: sender.paced(),
            accurate_ecn: sender.has_accurate_ecn(),
            rng,
        };
        let flow = &mut self.flows[i as usize];
        let Algorithm { entry, make, params } = &self.algorithms[flow.algorithm as usize];
        let cc: Box<dyn DynCongestionControl> = match make {
            Some(OwnMake::Algorithm(make)) => make(params, &init, self.connections.owner(i) as usize),
            // A controller of quinn's never gets here: it is for flows over QUIC.
            _ => (entry.make)(params, &init),
        };
        sender.adopt(cc, now);
        sender.send(now, &self.sender_config, &mut self.departures);
        // The first phase is put on record, whichever it is.
        flow.phase = u8::MAX;
        self.after_other(sender, i, out);
    }

    /// A sender's retransmission timer may be due: fires it if it is. From now on it is known when it is.
    pub(super) fn on_retransmit_timer(&mut self, sender: &mut Sender, i: u32, out: &mut impl Outbox) {
        let now = self.now;
        if sender.timer.resolve(&self.sender_config.clock) > now {
            return;
        }
        if sender.established() {
            sender.on_timer(now, &self.sender_config, &mut self.departures);
        } else {
            sender.reconnect(now);
            self.flows[i as usize].syn_at = Time::MAX;
            self.send_syn(sender, i, out);
        }
        self.after_other(sender, i, out);
        self.note_state(sender, i);
    }

    /// A paced sender may send again: lets it if it may.
    pub(super) fn on_pace_timer(&mut self, sender: &mut Sender, i: u32, out: &mut impl Outbox) {
        if sender.pace_at <= self.now {
            sender.on_pace(self.now, &self.sender_config, &mut self.departures);
            self.after_other(sender, i, out);
        }
    }

    /// What follows a timer and all else that is rare.
    #[inline(never)]
    pub(super) fn after_other(&mut self, sender: &mut Sender, i: u32, out: &mut impl Outbox) {
        self.after_sender(sender, i, out);
    }

    /// What follows every call of a sender: its packets leave, its changes of state are noted.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with nearly every ACK")]
    fn after_sender(&mut self, sender: &mut Sender, i: u32, out: &mut impl Outbox) {
        if !self.departures.is_empty() {
            packets(&mut self.departures, sender, i, self.now, out);
        }
        if self.flows[i as usize].has_changed(sender) {
            self.note_state(sender, i);
            self.complete(sender, i, out);
        }
    }

    #[cold]
    fn note_state(&mut self, sender: &Sender, i: u32) {
        let (control, ca, timeouts) = (sender.control, sender.state(), sender.timeouts);
        self.note_states(i, &control, ca, timeouts);
    }

    /// Puts on record which states of a sender are new.
    pub(super) fn note_states(&mut self, i: u32, control: &Control, ca: CaState, timeouts: u32) {
        let flow = &mut self.flows[i as usize];
        let before = States { phase: flow.phase, ca: flow.ca, timeouts: flow.seen_timeouts };
        let after = States { phase: control.phase, ca, timeouts };
        (flow.phase, flow.ca, flow.seen_timeouts) = (after.phase, after.ca, after.timeouts);
        let (id, is_half) = (self.connections.id(i), self.connections.half(i).is_some());
        let log = self.logs.get(id.flow() as usize).cloned().flatten().filter(|_| !id.is_mirrored());
        let log = log.map(|log| if is_half { log.group(id.number()) } else { log });
        let phases = self.algorithms[flow.algorithm as usize].entry.phases;
        for event in after.events_since(before, phases) {
            // Of connections that come and go there are too many.
            if !is_half {
                self.record(Some(i), None, event, f64::from(control.cwnd));
            }
            if let Some(log) = &log {
                log.state(self.now, event);
            }
        }
    }

    #[cold]
    fn complete(&mut self, sender: &Sender, i: u32, out: &mut impl Outbox) {
        // A flow that was stopped is done without having sent it all.
        if sender.acked_bytes() == self.flows[i as usize].complete_at {
            self.complete_now(i, out);
        }
    }

    /// All that flow `i` had to send is acknowledged now.
    pub(super) fn complete_now(&mut self, i: u32, out: &mut impl Outbox) {
        let flow = &mut self.flows[i as usize];
        if flow.complete_at != u64::MAX {
            flow.complete_at = u64::MAX;
            self.record.complete(i as usize, self.now);
            out.completed(i, self.now);
        }
    }
}

/// Makes packets of what a sender sends now.
#[inline(always)]
#[expect(clippy::inline_always, reason = "with nearly every ACK")]
fn packets(departures: &mut Vec<Departure>, sender: &mut Sender, flow: u32, now: Time, out: &mut impl Outbox) {
    let tsval = Sender::tsval(now);
    let payload = |seq| Payload::Data { seq: Seq::new(seq), tsval };
    let packet = |seq| Packet { arrived: now, payload: payload(seq), flow, queued: 0, size: MTU, flags: 0, hop: 0 };
    // The usual case.
    if let &[Departure { start, count, .. }] = departures.as_slice()
        && sender.plain_packets
        && start + u64::from(count) != sender.end
    {
        out.data(packet(start), count);
        return departures.clear();
    }
    packets_of_any(departures, sender, packet, out);
}

/// As [`packets`], in any case.
#[inline(never)]
fn packets_of_any(
    departures: &mut Vec<Departure>,
    sender: &mut Sender,
    packet: impl Fn(u64) -> Packet,
    out: &mut impl Outbox,
) {
    for &Departure { start, count, retransmission } in departures.iter() {
        // The first new packet tells of a reduction.
        let ect = sender.ecn.of_data(retransmission);
        if sender.has_short_segments() {
            // Any of them may be short.
            let (mut seq, end) = (start, start + u64::from(count));
            while seq < end {
                let cwr = if ect != 0 && sender.take_cwr() { Packet::CWR } else { 0 };
                let size = sender.packet_size(seq);
                let alike =
                    index_u32((seq + 1..end).take_while(|&next| cwr == 0 && sender.packet_size(next) == size).count());
                out.data(Packet { flags: ect | cwr, size, ..packet(seq) }, 1 + alike);
                seq += 1 + u64::from(alike);
            }
            continue;
        }
        let cwr = if ect != 0 && sender.take_cwr() { Packet::CWR } else { 0 };
        let last_size = sender.packet_size(start + u64::from(count) - 1);
        let mut packet = Packet { flags: ect, ..packet(start) };
        let mut alike = count - u32::from(last_size != MTU);
        // The first one may carry CWR, the last one may be shorter.
        if cwr != 0 && alike > 0 {
            out.data(Packet { flags: ect | cwr, ..packet }, 1);
            packet = packet.behind(1);
            alike -= 1;
        }
        if alike > 0 {
            out.data(packet, alike);
        }
        if last_size != MTU {
            let flags = if count == 1 { ect | cwr } else { ect };
            out.data(Packet { size: last_size, flags, ..packet.behind(alike) }, 1);
        }
    }
    departures.clear();
}
