//! The engine: links, pipes and endpoints joined by one heap of what is due.
//!
//! What a data packet goes through on a dumbbell: the sender's burst puts it into the bottleneck's queue; the link's
//! event takes it out when its last bit has left and hands it straight to the receiver; the receiver's ACK, if one is
//! due, goes into the pipe of the flow's base RTT; the pipe's event gives it to the sender. All of the base RTT that
//! the path's links do not have lies on the way of the ACKs: only its sum matters to a loop. So a packet costs one
//! event, and an ACK one.

mod build;
mod report;

use crate::events::{Event, Events};
use crate::link::{Link, Served};
use crate::observe::{FlowRates, FlowWatch, Histogram, LinkWatch, Rows, Spread};
use crate::output::{EventRow, Output};
use crate::pipe::Pipe;
use crate::receiver::{self, Blocks, Receiver};
use crate::sender::{self, AckInfo, Departure, Sender};
use crate::spec::{Change, ChangeSpec};
use crate::timer::Timer;
use knee_cc::{CaState, CongestionControl, Entry, Init};
use knee_core::packet::{MSS, MTU};
use knee_core::{Packet, Params, Rate, Rng, Time};

pub use build::{Own, OwnMake, SpecError};

/// Size of SYN and SYN-ACK as IP packets: IP and TCP headers with 20 bytes of options.
const SYN_SIZE: u16 = 60;
/// Drops of a flow closer together than this are one event.
const DROP_GAP: Time = Time::from_millis(1);

/// A running simulation.
pub struct Simulation {
    now: Time,
    end: Time,
    finished: bool,
    events: Events,
    links: Vec<Link>,
    link_watches: Vec<LinkWatch>,
    link_names: Vec<String>,
    pipes: Vec<(Pipe, PipeEnd)>,
    /// Pipes of the ACK path by their delay.
    ack_pipes: Vec<(Time, u32)>,
    routes: Vec<Route>,
    /// What every packet needs to know of its flow, close together.
    ways: Vec<Way>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    flows: Vec<Flow>,
    algorithms: Vec<Algorithm>,
    sender_config: sender::Config,
    receiver_config: receiver::Config,
    sacks: SackStore,
    rows: Rows,
    event_names: Vec<String>,
    interval: Time,
    sampled_at: Time,
    common: Common,
    seed: u64,
    changes: Vec<ChangeSpec>,
    departures: Vec<Departure>,
}

/// Where a pipe leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PipeEnd {
    /// To the next link or the far endpoint.
    Hop,
    /// To the sender: the ACK is home.
    Sender,
}

/// The links of a way, there and back.
#[derive(PartialEq, Eq)]
struct Route {
    data: Vec<u32>,
    acks: Vec<u32>,
}

/// What every packet needs to know of its flow.
#[derive(Clone, Copy)]
struct Way {
    route: u32,
    ack_pipe: u32,
    /// Links that data and ACKs cross.
    data_hops: u8,
    ack_hops: u8,
    /// The fixed part of the base RTT.
    ack_delay: Time,
    base_rtt: Time,
}

/// A congestion control with its parameters, shared by the flows that are told the same.
struct Algorithm {
    entry: &'static Entry,
    /// Makes it where it is not the registry's.
    make: Option<OwnMake>,
    params: Params,
}

/// What the engine knows of a flow beside its endpoints.
struct Flow {
    /// Index of its algorithm.
    algorithm: u32,
    /// Bytes to transfer; none: endless.
    bytes: Option<u64>,
    start: Time,
    /// When the SYN left, unless it had to be sent again.
    syn_at: Option<Time>,
    /// Overhead of the first link, counted in throughput.
    overhead: u32,
    dropped: u64,
    completion: Option<Time>,
    phase: u8,
    ca: CaState,
    /// Whether the window of the figures has begun and not ended.
    watched: bool,
    seen_timeouts: u64,
    /// RTT samples of the interval.
    rtt: Spread,
    /// Those of the window of the figures; beside `rtt`, since both take each sample.
    rtt_histogram: Histogram,
    /// RTT samples of the interval that lie outside of that window.
    rtt_outside: Spread,
    last: FlowRates,
    watch: Option<Box<FlowWatch>>,
    common: (u64, u64),
}

/// The window in which all flows run.
#[derive(Default)]
struct Common {
    from: Option<Time>,
    until: Option<Time>,
}

/// SACK blocks of the ACKs under way: few ACKs carry any.
#[derive(Default)]
struct SackStore {
    blocks: Vec<Blocks>,
    free: Vec<u32>,
}

impl SackStore {
    /// Stores blocks; gives their handle, never 0, which stands for none.
    fn put(&mut self, blocks: Blocks) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.blocks[handle as usize - 1] = blocks;
            return handle;
        }
        self.blocks.push(blocks);
        self.blocks.len() as u32
    }

    #[inline]
    fn get(&self, handle: u32) -> &[receiver::Range] {
        if handle == 0 { &[] } else { self.blocks[handle as usize - 1].as_slice() }
    }

    #[inline]
    fn release(&mut self, handle: u32) {
        if handle != 0 {
            self.free.push(handle);
        }
    }
}

impl Simulation {
    /// Current simulated time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Lets flow samples go to `file` in blocks of raw [`crate::SampleRow`]s instead of staying in memory.
    pub fn spool(&mut self, file: std::fs::File) {
        self.rows.spool_to(file);
    }

    /// Processes up to `events` events; false once the end is reached.
    pub fn step(&mut self, events: u64) -> bool {
        for _ in 0..events {
            if self.finished {
                return false;
            }
            match self.events.peek() {
                Some((at, event)) if at < self.end => {
                    self.now = at;
                    self.dispatch(event);
                }
                _ => self.reach_end(),
            }
        }
        !self.finished
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// If the spool could not be written.
    pub fn run(mut self) -> std::io::Result<(Output, Rows)> {
        while self.step(1 << 20) {}
        self.finish()
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Link(i) => return self.on_link(i),
            Event::Pipe(i) => return self.on_pipe(i),
            _ => self.events.pop(),
        }
        match event {
            Event::Retransmit(i) => self.on_retransmit_timer(i),
            Event::Pace(i) => self.on_pace_timer(i),
            Event::DelayedAck(i) => self.on_delayed_ack(i),
            Event::CompressedSack(i) => self.on_compressed_sack(i),
            Event::Start(i) => self.start(i),
            Event::Stop(i) => self.stop(i),
            Event::Change(i) => self.change(i),
            Event::Sample => self.on_sample(),
            Event::Measure(i) => self.measure(i),
            Event::MeasureLinks => self.measure_links(),
            Event::CommonStart => self.common_start(),
            Event::CommonEnd => self.common_end(),
            Event::Link(_) | Event::Pipe(_) => {}
        }
    }

    fn schedule_event(&mut self, at: Time, event: Event) {
        debug_assert!(at >= self.now, "{event:?} is scheduled for {at}, but it is {} already", self.now);
        self.events.push(at, event);
    }

    // ---- links and pipes ----

    /// The link at the head of the heap serves, again and again while nothing else is due before its next packet:
    /// a busy link mostly needs no heap.
    fn on_link(&mut self, i: u32) {
        if self.links[i as usize].due != self.now {
            return self.events.pop();
        }
        let mut served = Served::default();
        loop {
            let link = &mut self.links[i as usize];
            let (leaves, next) = link.serve(self.now, &mut served);
            link.due = next;
            if link.has_news() {
                self.collect(i);
            }
            if leaves {
                self.leave(i, &mut served);
            }
            // Meanwhile the link may have been woken or given another time; its old entry is still the head.
            match self.links[i as usize].due {
                due if due == Time::MAX || due != next => return self.events.pop(),
                due if due < self.events.second().min(self.end) => self.now = due,
                due => return self.events.postpone(due),
            }
        }
    }

    /// A packet leaves a link.
    #[inline]
    fn leave(&mut self, i: u32, served: &mut Served) {
        let link = &mut self.links[i as usize];
        link.counters.departed += 1;
        link.counters.bytes += link.wire_size(&served.packet);
        let watch = &mut self.link_watches[i as usize];
        watch.interval.add(served.sojourn);
        if watch.from.is_some() {
            watch.delay.count(served.sojourn);
        }
        let Some(index) = link.pipe else { return self.arrive(&mut served.packet) };
        let mut at = self.now + link.delay;
        if link.jitter > Time::ZERO {
            at += Time::from_nanos(link.jitter_rng.below(link.jitter.as_nanos() + 1));
        }
        let pipe = &mut self.pipes[index as usize].0;
        let head = if link.reorder { pipe.push_overtaking(at, served.packet) } else { pipe.push(at, served.packet) };
        if let Some(at) = head {
            self.schedule_event(at, Event::Pipe(index));
        }
    }

    /// The pipe at the head of the heap delivers, as long as nothing else is due before its next packet.
    fn on_pipe(&mut self, i: u32) {
        loop {
            let (pipe, end) = &mut self.pipes[i as usize];
            // None: an event that another packet overtook.
            match (pipe.pop(self.now), *end) {
                (Some(mut packet), PipeEnd::Hop) => self.arrive(&mut packet),
                (Some(packet), PipeEnd::Sender) => self.on_ack(&packet),
                (None, _) => return self.events.pop(),
            }
            match self.pipes[i as usize].0.next() {
                Some(at) if at < self.events.second().min(self.end) => self.now = at,
                Some(at) => return self.events.postpone(at),
                None => return self.events.pop(),
            }
        }
    }

    /// A packet has crossed a link.
    #[inline]
    fn arrive(&mut self, packet: &mut Packet) {
        packet.hop += 1;
        let way = &self.ways[packet.flow as usize];
        let hops = if packet.has(Packet::ACK) { way.ack_hops } else { way.data_hops };
        if packet.hop < hops {
            self.forward(*packet);
        } else if packet.has(Packet::ACK) {
            self.return_home(*packet);
        } else {
            let base_rtt = way.base_rtt;
            self.on_data(packet, base_rtt);
        }
    }

    /// A packet goes on to the next link of its way.
    #[inline(never)]
    fn forward(&mut self, packet: Packet) {
        let route = &self.routes[self.ways[packet.flow as usize].route as usize];
        let links = if packet.has(Packet::ACK) { &route.acks } else { &route.data };
        self.enqueue(links[usize::from(packet.hop)], packet);
    }

    #[inline]
    fn enqueue(&mut self, i: u32, packet: Packet) {
        let link = &mut self.links[i as usize];
        if link.loses() {
            return self.book_drop(i, &packet);
        }
        link.take(packet, self.now);
        let idle = link.idle();
        if idle || link.has_news() {
            self.attend(i, idle);
        }
    }

    /// After a packet came: books what the queue did, and lets an idle link begin.
    #[cold]
    fn attend(&mut self, i: u32, idle: bool) {
        self.collect(i);
        if idle {
            self.wake(i);
        }
    }

    /// Lets an idle link begin.
    fn wake(&mut self, i: u32) {
        let link = &mut self.links[i as usize];
        if let Some(at) = link.wake(self.now) {
            // An event at another time that the link still has in the heap is void from now on.
            link.due = at;
            self.schedule_event(at, Event::Link(i));
        }
    }

    /// Books what a queue dropped or noted.
    #[cold]
    fn collect(&mut self, i: u32) {
        let mut dropped = std::mem::take(&mut self.links[i as usize].cx.dropped);
        for packet in dropped.drain(..) {
            self.book_drop(i, &packet);
        }
        self.links[i as usize].cx.dropped = dropped;
        let mut notes = std::mem::take(&mut self.links[i as usize].cx.notes);
        for note in notes.drain(..) {
            self.record(note.flow, Some(i), note.event, note.value);
        }
        self.links[i as usize].cx.notes = notes;
    }

    fn book_drop(&mut self, i: u32, packet: &Packet) {
        self.links[i as usize].counters.drops += 1;
        if packet.has(Packet::ACK) {
            self.sacks.release(packet.extra);
        } else if !packet.has(Packet::SYN) {
            self.flows[packet.flow as usize].dropped += 1;
        }
        let now = self.now;
        let watch = &mut self.link_watches[i as usize];
        match &mut watch.dropping {
            Some((flow, _, last, count)) if *flow == packet.flow && now - *last <= DROP_GAP => {
                *last = now;
                *count += 1;
            }
            _ => {
                let before = watch.dropping.replace((packet.flow, now, now, 1));
                self.record_drops(i, before);
            }
        }
    }

    fn record_drops(&mut self, link: u32, drops: Option<(u32, Time, Time, u32)>) {
        if let Some((flow, first, _, count)) = drops {
            let event = self.event_name("drop");
            let t_s = first.as_secs_f64();
            let row =
                EventRow { t_s, value: f64::from(count), flow: flow as i32, link: link as i32, event, reserved: 0 };
            // They are entered when they are over, but read by the time they began.
            let at = self.rows.events.iter().rposition(|e| e.t_s <= t_s).map_or(0, |before| before + 1);
            self.rows.events.insert(at, row);
        }
    }

    // ---- receivers ----

    #[inline]
    fn on_data(&mut self, packet: &Packet, base_rtt: Time) {
        let i = packet.flow;
        if packet.flags & (Packet::SYN | Packet::ECT) != 0 {
            if packet.has(Packet::SYN) {
                return self.answer_syn(packet);
            }
            self.note_ecn(packet);
        }
        let receiver = &mut self.receivers[i as usize];
        if receiver.on_data(packet, self.now, &self.receiver_config, base_rtt) {
            self.reply(i);
        } else if receiver.needs_arming() {
            self.arm_receiver(i);
        }
    }

    #[cold]
    fn answer_syn(&mut self, packet: &Packet) {
        self.send_ack(Packet { flags: Packet::ACK | Packet::SYN, size: SYN_SIZE, extra: 0, hop: 0, ..*packet });
    }

    #[inline(never)]
    fn note_ecn(&mut self, packet: &Packet) {
        if self.receivers[packet.flow as usize].echoes_apart(packet) {
            self.reply(packet.flow);
        }
        self.receivers[packet.flow as usize].note_ecn(packet);
    }

    #[inline(never)]
    fn arm_receiver(&mut self, i: u32) {
        let receiver = &mut self.receivers[i as usize];
        let due = receiver.delayed.not_before();
        if due < receiver.queued.0 {
            receiver.queued.0 = due;
            self.schedule_event(due, Event::DelayedAck(i));
        }
        let receiver = &mut self.receivers[i as usize];
        if receiver.compressed_at < receiver.queued.1 {
            let due = receiver.compressed_at;
            receiver.queued.1 = due;
            self.schedule_event(due, Event::CompressedSack(i));
        }
    }

    fn on_delayed_ack(&mut self, i: u32) {
        let receiver = &mut self.receivers[i as usize];
        if receiver.queued.0 != self.now {
            return;
        }
        let due = self.receiver_config.clock.expiry(&receiver.delayed);
        if due > self.now {
            // The bound came, not yet the time itself; or the timer was set anew or cleared since.
            receiver.delayed = Timer::at(due);
            receiver.queued.0 = due;
            if due < Time::MAX {
                self.schedule_event(due, Event::DelayedAck(i));
            }
            return;
        }
        receiver.queued.0 = Time::MAX;
        receiver.on_delayed_ack(&self.receiver_config);
        self.reply(i);
        self.arm_receiver(i);
    }

    fn on_compressed_sack(&mut self, i: u32) {
        let receiver = &mut self.receivers[i as usize];
        if receiver.queued.1 != self.now {
            return;
        }
        receiver.queued.1 = Time::MAX;
        if receiver.compressed_at <= self.now && receiver.on_compressed_sack() {
            self.reply(i);
        }
        self.arm_receiver(i);
    }

    /// A receiver's ACK leaves.
    #[inline]
    fn reply(&mut self, i: u32) {
        let receiver = &mut self.receivers[i as usize];
        let mut packet = receiver.ack();
        if receiver.has_blocks() {
            self.attach_blocks(&mut packet);
        }
        self.send_ack(packet);
    }

    #[cold]
    fn attach_blocks(&mut self, packet: &mut Packet) {
        let blocks = self.receivers[packet.flow as usize].blocks(packet);
        packet.extra = self.sacks.put(blocks);
    }

    #[inline]
    fn send_ack(&mut self, packet: Packet) {
        if self.ways[packet.flow as usize].ack_hops > 0 {
            self.forward(packet);
        } else {
            self.return_home(packet);
        }
    }

    /// The fixed part of the base RTT lies before the sender.
    #[inline]
    fn return_home(&mut self, packet: Packet) {
        let way = &self.ways[packet.flow as usize];
        let (at, pipe) = (self.now + way.ack_delay, way.ack_pipe);
        if let Some(at) = self.pipes[pipe as usize].0.push(at, packet) {
            self.schedule_event(at, Event::Pipe(pipe));
        }
    }

    // ---- senders ----

    fn start(&mut self, i: u32) {
        self.flows[i as usize].syn_at = Some(self.now);
        self.senders[i as usize].connect(self.now);
        self.send_syn(i);
        self.arm_sender(i);
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
        self.enqueue(first, syn);
    }

    fn on_ack(&mut self, packet: &Packet) {
        let i = packet.flow;
        if packet.has(Packet::SYN) {
            return self.establish(i);
        }
        let info = AckInfo {
            seq: packet.seq,
            blocks: self.sacks.get(packet.extra),
            dsack: packet.has(Packet::DSACK),
            tsecr: packet.stamp,
            ece: packet.has(Packet::ECE),
        };
        let sender = &mut self.senders[i as usize];
        let rtt = sender.on_ack(&info, self.now, &self.sender_config, &mut self.departures);
        self.sacks.release(packet.extra);
        let flow = &mut self.flows[i as usize];
        if let Some(rtt) = rtt {
            flow.rtt.add(rtt);
            if flow.watched {
                flow.rtt_histogram.count(rtt);
            }
        }
        self.after_sender(i);
        if self.senders[i as usize].done() {
            self.complete(i);
        }
    }

    fn establish(&mut self, i: u32) {
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
        self.after_sender(i);
    }

    fn on_retransmit_timer(&mut self, i: u32) {
        let now = self.now;
        let sender = &mut self.senders[i as usize];
        if sender.queued.0 != now {
            return;
        }
        let due = self.sender_config.clock.expiry(&sender.timer);
        if due > now {
            sender.timer = Timer::at(due);
            sender.queued.0 = due;
            if due < Time::MAX {
                self.schedule_event(due, Event::Retransmit(i));
            }
            return;
        }
        sender.queued.0 = Time::MAX;
        if sender.established() {
            sender.on_timer(now, &self.sender_config, &mut self.departures);
        } else {
            sender.reconnect(now);
            self.flows[i as usize].syn_at = None;
            self.send_syn(i);
        }
        self.after_sender(i);
    }

    fn on_pace_timer(&mut self, i: u32) {
        let now = self.now;
        let sender = &mut self.senders[i as usize];
        if sender.queued.1 != now {
            return;
        }
        sender.queued.1 = Time::MAX;
        if sender.pace_at <= now {
            sender.on_pace(now, &self.sender_config, &mut self.departures);
        }
        self.after_sender(i);
    }

    #[inline(never)]
    fn arm_sender(&mut self, i: u32) {
        let sender = &mut self.senders[i as usize];
        let due = sender.timer.not_before();
        if due < sender.queued.0 {
            sender.queued.0 = due;
            self.schedule_event(due, Event::Retransmit(i));
        }
        let sender = &mut self.senders[i as usize];
        if sender.pace_at < sender.queued.1 {
            let due = sender.pace_at;
            sender.queued.1 = due;
            self.schedule_event(due, Event::Pace(i));
        }
    }

    /// What follows every call of a sender: its packets leave, its timers are set, its changes of state are noted.
    #[inline]
    fn after_sender(&mut self, i: u32) {
        if !self.departures.is_empty() {
            self.transmit(i);
        }
        let sender = &self.senders[i as usize];
        if sender.needs_arming() {
            self.arm_sender(i);
        }
        let (sender, flow) = (&self.senders[i as usize], &self.flows[i as usize]);
        if sender.control.phase != flow.phase
            || sender.state() != flow.ca
            || sender.counters.timeouts != flow.seen_timeouts
        {
            self.note_state(i);
        }
    }

    #[cold]
    fn note_state(&mut self, i: u32) {
        let (sender, flow) = (&self.senders[i as usize], &mut self.flows[i as usize]);
        let cwnd = f64::from(sender.control.cwnd);
        let (phase, ca, timeouts) = (sender.control.phase, sender.state(), sender.counters.timeouts);
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
        let stamp = Sender::tsval(self.now);
        for k in 0..self.departures.len() {
            let departure = self.departures[k];
            let sender = &mut self.senders[i as usize];
            // RFC 3168, 6.1.5: retransmissions are not ECN-capable; the first new packet tells of a reduction.
            let ect = if sender.ecn && !departure.retransmission { Packet::ECT } else { 0 };
            let mut cwr = if ect != 0 && sender.take_cwr() { Packet::CWR } else { 0 };
            let end = departure.start + u64::from(departure.count);
            let last_size = sender.packet_size(end - 1);
            for seq in departure.start..end {
                let size = if seq + 1 == end { last_size } else { MTU };
                let flags = ect | std::mem::take(&mut cwr);
                let packet = Packet { enqueued: self.now, seq, flow: i, stamp, extra: 0, size, flags, hop: 0 };
                self.enqueue(first, packet);
            }
        }
        self.departures.clear();
    }

    fn stop(&mut self, i: u32) {
        self.end_figures(i);
        self.senders[i as usize].stop();
    }

    fn complete(&mut self, i: u32) {
        let now = self.now;
        let flow = &mut self.flows[i as usize];
        let Some(bytes) = flow.bytes else { return };
        // A flow that was stopped is done without having sent it all.
        if flow.completion.is_none() && self.senders[i as usize].counters.acked_bytes == bytes {
            flow.completion = Some(now - flow.start);
            self.end_figures(i);
            if self.common.from.is_some() {
                self.common_end();
            }
        }
    }

    fn change(&mut self, i: u32) {
        let now = self.now;
        match self.changes[i as usize].what {
            Change::Rate { link, rate } => {
                self.links[link].set_rate(Rate::from_bps(rate), now);
                self.collect(link as u32);
                self.record(None, Some(link as u32), "rate", rate as f64 / 1e6);
            }
            Change::Loss { link, loss } => {
                self.links[link].loss = loss;
                self.record(None, Some(link as u32), "loss_probability", loss);
            }
            Change::Limit { link, limit } => {
                let target = &mut self.links[link];
                target.cx.now = now;
                target.queue.set_limit(limit.into(), &mut target.cx);
                self.collect(link as u32);
                self.record(None, Some(link as u32), "limit", self.links[link].queue.backlog().packets as f64);
            }
            Change::Rtt { flow, rtt } => {
                let rtt = Time::from_nanos(rtt);
                let links = self.ways[flow].base_rtt - self.ways[flow].ack_delay;
                let delay = rtt.saturating_sub(links);
                let pipe = self.ack_pipe(delay);
                let target = &mut self.ways[flow];
                (target.base_rtt, target.ack_delay, target.ack_pipe) = (rtt, delay, pipe);
                self.record(Some(flow as u32), None, "rtt", rtt.as_millis_f64());
            }
        }
    }

    /// The pipe of all ACK paths with this delay: packets that take the same time stay in order.
    fn ack_pipe(&mut self, delay: Time) -> u32 {
        if let Ok(i) = self.ack_pipes.binary_search_by_key(&delay, |p| p.0) {
            return self.ack_pipes[i].1;
        }
        let pipe = self.pipes.len() as u32;
        self.pipes.push((Pipe::new(), PipeEnd::Sender));
        let at = self.ack_pipes.partition_point(|p| p.0 < delay);
        self.ack_pipes.insert(at, (delay, pipe));
        pipe
    }

    // ---- checks ----

    /// Checks the books: no packet created or lost unaccounted, no counter out of step.
    ///
    /// # Errors
    /// What does not add up.
    pub fn audit(&self) -> Result<(), String> {
        let mut under_way = 0u64;
        for (i, (sender, receiver)) in self.senders.iter().zip(&self.receivers).enumerate() {
            let gone = receiver.packets + self.flows[i].dropped;
            let Some(rest) = sender.counters.sent.checked_sub(gone) else {
                return Err(format!("flow {i}: {} sent, but {gone} received or dropped", sender.counters.sent));
            };
            under_way += rest;
            let (sacked, lost, retransmitted) = sender.scoreboard();
            let out = sender.snd_nxt() - sender.snd_una();
            if u64::from(sacked) + u64::from(lost) > out || u64::from(retransmitted) > out {
                return Err(format!("flow {i}: {sacked} SACKed, {lost} lost, {retransmitted} again of {out} out"));
            }
            if receiver.in_order() < sender.snd_una() || receiver.in_order() > sender.snd_nxt() {
                return Err(format!("flow {i}: {} in order, not {}", receiver.in_order(), sender.snd_una()));
            }
        }
        let mut inside = 0u64;
        for link in &self.links {
            let counters = &link.counters;
            if counters.arrived != counters.departed + counters.drops + link.held() {
                return Err("a link's packets do not add up".into());
            }
            inside += link.held();
        }
        inside += self.pipes.iter().map(|(pipe, _)| pipe.len() as u64).sum::<u64>();
        if under_way > inside {
            return Err(format!("{under_way} data packets under way, but only {inside} packets in links and pipes"));
        }
        Ok(())
    }
}
