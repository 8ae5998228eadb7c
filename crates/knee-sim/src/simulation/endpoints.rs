//! What receivers and senders do when a packet or a timer comes.

use super::{Algorithm, SYN_SIZE, SackStore, Simulation, Way};
use crate::events::Event;
use crate::receiver::{Receiver, Spares};
use crate::sender::{AckInfo, Departure, Sender};
use knee_cc::{CaState, CongestionControl, Init};
use knee_core::packet::{MSS, MTU};
use knee_core::{Packet, Rng, Time};

impl Simulation {
    #[inline]
    pub(super) fn on_data(&mut self, packet: &Packet, way: &Way) {
        let i = packet.flow;
        if packet.flags & (Packet::SYN | Packet::ECT) != 0 {
            if packet.has(Packet::SYN) {
                return self.answer_syn(packet);
            }
            self.note_ecn(packet);
        }
        let receiver = &mut self.receivers[i as usize];
        if receiver.on_data(packet, self.now, &self.receiver_config, way.base_rtt, &mut self.spares) {
            if receiver.has_blocks() {
                return self.reply(i);
            }
            let ack = receiver.ack(i, self.now);
            self.send_ack(ack, way);
        } else {
            self.arm_receiver(i);
        }
    }

    #[cold]
    fn answer_syn(&mut self, packet: &Packet) {
        let way = self.ways[packet.flow as usize];
        let flags = Packet::ACK | Packet::SYN;
        let answer = Packet { enqueued: self.now, flags, size: SYN_SIZE, extra: 0, hop: 0, ..*packet };
        self.send_ack(answer, &way);
    }

    #[inline(never)]
    fn note_ecn(&mut self, packet: &Packet) {
        if self.receivers[packet.flow as usize].echoes_apart(packet) {
            self.reply(packet.flow);
        }
        self.receivers[packet.flow as usize].note_ecn(packet);
    }

    pub(super) fn delayed_ack_fires(&mut self, i: u32) {
        self.receivers[i as usize].on_delayed_ack(&self.receiver_config);
        self.reply(i);
    }

    pub(super) fn compressed_sack_fires(&mut self, i: u32) {
        if self.receivers[i as usize].on_compressed_sack() {
            self.reply(i);
        }
    }

    /// An ACK leaves whatever has come.
    #[inline(never)]
    fn reply(&mut self, i: u32) {
        let receiver = &mut self.receivers[i as usize];
        let mut ack = receiver.ack(i, self.now);
        if receiver.has_blocks() {
            (ack.flags, ack.extra) = store_blocks(receiver, ack.flags, &mut self.sacks, &mut self.spares);
            // RFC 2018: an option of two bytes and eight for each block, padded to words.
            ack.size += 4 + 8 * self.sacks.get(ack.extra).len() as u16;
        }
        let way = self.ways[i as usize];
        self.send_ack(ack, &way);
    }

    #[inline]
    fn send_ack(&mut self, packet: Packet, way: &Way) {
        if way.ack_hops > 0 { self.forward(packet) } else { self.return_home(packet, way) }
    }

    /// The fixed part of the base RTT lies before the sender.
    #[inline]
    pub(super) fn return_home(&mut self, packet: Packet, way: &Way) {
        if self.homes(packet, way) {
            return;
        }
        let at = self.now + way.ack_delay;
        if let Some(at) = self.pipes[way.ack_pipe as usize].0.push(at, packet) {
            self.schedule_event(at, Event::Pipe(way.ack_pipe));
        }
    }

    pub(super) fn start(&mut self, i: u32) {
        if self.warmup == Time::ZERO {
            self.measure(i);
        }
        self.flows[i as usize].syn_at = Some(self.now);
        self.senders[i as usize].connect(self.now);
        self.send_syn(i);
        self.after_sender(i);
    }

    fn send_syn(&mut self, i: u32) {
        let syn = Packet {
            enqueued: self.now,
            seq: 0,
            flow: i,
            stamp: Sender::tsval(self.now),
            extra: 0,
            size: SYN_SIZE,
            flags: Packet::SYN,
            hop: 0,
        };
        let first = self.routes[self.ways[i as usize].route as usize].data[0];
        self.hand_down(first, syn, 1);
    }

    pub(super) fn on_ack(&mut self, packet: &Packet) {
        let i = packet.flow;
        let blocks = self.sacks.get(packet.extra);
        if let Some(tap) = &mut self.tap {
            tap.received(self.now, packet, blocks);
        }
        if packet.has(Packet::SYN) {
            return self.establish(i);
        }
        let info = AckInfo { seq: packet.seq, blocks, tsecr: packet.stamp, flags: packet.flags };
        let sender = &mut self.senders[i as usize];
        let rtt = sender.on_ack(&info, self.now, &self.sender_config, &mut self.departures, &mut self.recovery_spares);
        self.sacks.release(packet.extra);
        self.flows[i as usize].book_rtt(rtt);
        self.after_sender(i);
    }

    pub(super) fn establish(&mut self, i: u32) {
        let sender = &mut self.senders[i as usize];
        if sender.established() {
            return;
        }
        let now = self.now;
        let flow = &self.flows[i as usize];
        let rtt = flow.syn_at.map(|at| now.floor_to(Time::from_micros(1)) - at.floor_to(Time::from_micros(1)));
        sender.establish(rtt, now);
        let init = Init {
            now,
            rtt: rtt.unwrap_or(Time::ZERO),
            cwnd: sender.control.cwnd,
            mss: u32::from(MSS),
            tick: self.sender_config.clock.tick(),
            paced: sender.paced(),
            rng: Rng::stream(self.seed, &format!("cc/{i}")),
        };
        let Algorithm { entry, make, params } = &self.algorithms[flow.algorithm as usize];
        let cc: Box<dyn CongestionControl> = match make {
            Some(make) => make(params, &init, i as usize),
            None => (entry.make)(params, &init),
        };
        sender.adopt(cc, now);
        sender.send(now, &self.sender_config, &mut self.departures);
        // The first phase is put on record, whichever it is.
        self.flows[i as usize].phase = u8::MAX;
        self.after_sender(i);
    }

    pub(super) fn retransmit_timer_fires(&mut self, i: u32) {
        let now = self.now;
        let sender = &mut self.senders[i as usize];
        if sender.established() {
            sender.on_timer(now, &self.sender_config, &mut self.departures, &mut self.recovery_spares);
        } else {
            sender.reconnect(now);
            self.flows[i as usize].syn_at = None;
            self.send_syn(i);
        }
        self.after_sender(i);
    }

    pub(super) fn pace_timer_fires(&mut self, i: u32) {
        self.senders[i as usize].on_pace(self.now, &self.sender_config, &mut self.departures);
        self.after_sender(i);
    }

    /// What follows every call of a sender: its packets leave, its timers are set, its changes of state are noted.
    #[inline]
    fn after_sender(&mut self, i: u32) {
        if !self.departures.is_empty() {
            self.transmit(i);
        }
        self.arm_sender(i);
        let (flow, sender) = (&self.flows[i as usize], &self.senders[i as usize]);
        if flow.has_news(sender) || sender.timeouts != flow.seen_timeouts {
            self.note_state(i);
            self.complete(i);
        }
    }

    #[cold]
    pub(super) fn note_state(&mut self, i: u32) {
        let (sender, flow) = (&self.senders[i as usize], &mut self.flows[i as usize]);
        let cwnd = f64::from(sender.control.cwnd);
        let (phase, ca, timeouts) = (sender.control.phase, sender.state(), sender.timeouts);
        let new_phase = std::mem::replace(&mut flow.phase, phase) != phase;
        let new_ca = std::mem::replace(&mut flow.ca, ca) != ca;
        let new_timeout = std::mem::replace(&mut flow.seen_timeouts, timeouts) != timeouts;
        let name =
            self.algorithms[flow.algorithm as usize].entry.phases.get(usize::from(phase)).copied().unwrap_or("unnamed");
        if new_phase {
            self.record(Some(i), None, name, cwnd);
        }
        if new_timeout {
            self.record(Some(i), None, "timeout", cwnd);
        }
        if new_ca {
            match ca {
                CaState::Recovery => self.record(Some(i), None, "recovery", cwnd),
                CaState::Cwr => self.record(Some(i), None, "cwr", cwnd),
                CaState::Open | CaState::Disorder | CaState::Loss => {}
            }
        }
    }

    #[inline(never)]
    fn transmit(&mut self, i: u32) {
        let first = self.routes[self.ways[i as usize].route as usize].data[0];
        let mut runs = std::mem::take(&mut self.runs);
        let note = |packet, count| runs.push((packet, count));
        packets(&mut self.departures, &mut self.senders[i as usize], i, self.now, note);
        for (packet, count) in runs.drain(..) {
            self.hand_down(first, packet, count);
        }
        self.runs = runs;
    }
}

/// Puts the SACK blocks of an ACK that leaves now into the store; gives its flags, and the handle.
#[cold]
pub(super) fn store_blocks(
    receiver: &mut Receiver,
    flags: u8,
    sacks: &mut SackStore,
    spares: &mut Spares,
) -> (u8, u32) {
    let (blocks, dsack) = receiver.blocks(spares);
    (if dsack { flags | Packet::DSACK } else { flags }, sacks.put(blocks))
}

/// Makes packets of what a sender sends now: gives the first of those that differ by their segments only, and how many.
#[inline]
pub(super) fn packets(
    departures: &mut Vec<Departure>,
    sender: &mut Sender,
    flow: u32,
    now: Time,
    mut give: impl FnMut(Packet, u32),
) {
    let stamp = Sender::tsval(now);
    let packet = |seq| Packet { enqueued: now, seq, flow, stamp, extra: 0, size: MTU, flags: 0, hop: 0 };
    // The usual case.
    if let &[Departure { start, count, .. }] = departures.as_slice()
        && !sender.ecn
        && start + u64::from(count) != sender.end
    {
        give(packet(start), count);
        return departures.clear();
    }
    packets_of_any(departures, sender, packet, give);
}

/// As [`packets`], in any case.
#[inline(never)]
fn packets_of_any(
    departures: &mut Vec<Departure>,
    sender: &mut Sender,
    packet: impl Fn(u64) -> Packet,
    mut give: impl FnMut(Packet, u32),
) {
    for &Departure { start, count, retransmission } in departures.iter() {
        // RFC 3168, 6.1.5: retransmissions are not ECN-capable; the first new packet tells of a reduction.
        let ect = if sender.ecn && !retransmission { Packet::ECT } else { 0 };
        let cwr = if ect != 0 && sender.take_cwr() { Packet::CWR } else { 0 };
        let last_size = sender.packet_size(start + u64::from(count) - 1);
        let mut packet = Packet { flags: ect, ..packet(start) };
        let mut alike = count - u32::from(last_size != MTU);
        // The first one may carry CWR, the last one may be shorter.
        if cwr != 0 && alike > 0 {
            give(Packet { flags: ect | cwr, ..packet }, 1);
            packet.seq += 1;
            alike -= 1;
        }
        if alike > 0 {
            give(packet, alike);
        }
        if last_size != MTU {
            let flags = if count == 1 { ect | cwr } else { ect };
            give(Packet { seq: start + u64::from(count) - 1, size: last_size, flags, ..packet }, 1);
        }
    }
    departures.clear();
}
