//! The engine: links, pipes and endpoints, and the two ways in which time passes for them.
//!
//! All of the base RTT that the path's links do not have lies on the way of the ACKs: only its sum matters to a loop. On
//! a dumbbell time passes in epochs, flow by flow (`epochs`). Elsewhere it passes event by event, and a data packet goes
//! through this: the sender's burst puts it into the link's queue; the link's event takes it out when its last bit has
//! left and hands it on, at last to the receiver; the receiver's ACK, if one is due, goes into the pipe of the flow's base
//! RTT; the pipe's event gives it to the sender. So a packet costs one event per link, and an ACK one.

mod alarms;
mod build;
mod crossing;
mod endpoints;
mod epochs;
mod homing;
#[cfg(any(test, feature = "testing"))]
pub mod invariants;
mod network;
mod report;

use crate::events::{Event, Events};
use crate::link::Link;
use crate::observe::{FlowRates, FlowWatch, Histogram, Rows, RttSpread, Spread, Tap};
use crate::output::Output;
use crate::pipe::Pipe;
use crate::receiver::{self, Blocks, Receiver};
use crate::sender::{self, Departure, Sender};
use crate::spec::{Change, ChangeSpec};
use knee_cc::{CaState, Entry};
use knee_core::cache::fetch;
use knee_core::{Packet, Params, Rate, Time};

use alarms::Alarms;
use epochs::Epochs;

pub use build::{Links, Own, OwnMake, SpecError, check, links, path_delay};

/// Size of SYN and SYN-ACK as IP packets: IP and TCP headers with 20 bytes of options.
const SYN_SIZE: u16 = 60;

/// A running simulation.
pub struct Simulation {
    now: Time,
    end: Time,
    finished: bool,
    events: Events,
    links: Vec<Link>,
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
    /// What receivers keep of disorder, where none needs it now.
    spares: receiver::Spares,
    rows: Rows,
    event_names: Vec<String>,
    interval: Time,
    /// How long flows and links run before their figures start to count.
    warmup: Time,
    sampled_at: Time,
    /// When the window of totals and of the links' figures began.
    window_from: Option<Time>,
    /// Payload acknowledged and bytes received of each flow before that window; empty: none.
    before_window: Vec<(u64, u64)>,
    common: Common,
    seed: u64,
    changes: Vec<ChangeSpec>,
    departures: Vec<Departure>,
    /// What senders hand on for loss recovery.
    recovery_spares: sender::Spares,
    /// Packets that a sender has just sent: the first of those that differ by their segments only, and how many.
    runs: Vec<(Packet, u32)>,
    /// Whether there are so many flows that their state is fetched ahead.
    fetches: bool,
    /// Who sees the packets at the senders.
    tap: Option<Box<dyn Tap>>,
    /// What the heap knows of each flow's timers; empty where time passes in epochs.
    alarms: Vec<Alarms>,
    /// How far time has come, where it passes in epochs.
    epochs: Option<Box<Epochs>>,
    /// See [`Simulation::work`]; without the turns of the wheel.
    work: u64,
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

/// What the engine knows of a flow beside its endpoints. The first cache line has what every ACK needs.
#[repr(C, align(64))]
struct Flow {
    /// Bytes acknowledged with which its transfer is complete; `u64::MAX`: it is, or is endless.
    complete_at: u64,
    seen_timeouts: u32,
    phase: u8,
    ca: CaState,
    /// Whether the window of the figures has begun and not ended.
    watched: bool,
    /// RTT samples of the interval, since they were last folded.
    rtt: RttSpread,
    /// Those of the window of the figures; beside `rtt`, since both take each sample.
    rtt_histogram: Histogram,
    /// RTT samples of the interval that were folded.
    rtt_folded: Spread,
    last: FlowRates,
    watch: Option<Box<FlowWatch>>,
    /// Index of its algorithm.
    algorithm: u32,
    /// Overhead of the first link, counted in throughput.
    overhead: u32,
    start: Time,
    /// When the SYN left, unless it had to be sent again.
    syn_at: Option<Time>,
    dropped: u64,
    completion: Option<Time>,
    /// Bytes received: when the window in which all flows run began, and, once it has ended, within it.
    common: u64,
}

const _: () = assert!(std::mem::offset_of!(Flow, rtt_histogram) + Histogram::HOT <= 64);

impl Flow {
    /// Takes the RTT sample of an ACK, if it gave one.
    #[inline]
    fn book_rtt(&mut self, rtt: Option<Time>) {
        let Some(rtt) = rtt else { return };
        self.rtt.add(rtt);
        if self.watched {
            self.rtt_histogram.count(rtt);
        }
    }

    /// Whether something about its sender is to be put on record after an ACK.
    #[inline]
    fn has_news(&self, sender: &Sender) -> bool {
        sender.control.phase != self.phase
            || sender.state() != self.ca
            || sender.done() && sender.acked_bytes() == self.complete_at
    }
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
    fn fetch(&self, handle: u32) {
        if handle != 0 {
            fetch(&self.blocks[handle as usize - 1]);
        }
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

    /// Lets `tap` see the packets at the senders. Must be called before the first step.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
        self.leave_epochs();
    }

    /// What has been done so far, in steps: events, turns of the wheel that they wait in, and, where time passes in epochs,
    /// these, visits of flows and packets. A bound on it for each simulated second holds on every machine, one on wall time
    /// on none.
    pub const fn work(&self) -> u64 {
        self.work + self.events.turns()
    }

    /// Processes some `events` events; false once the end is reached.
    pub fn step(&mut self, events: u64) -> bool {
        if self.epochs.is_some() {
            let until = self.work.saturating_add(events);
            while self.work < until && !self.finished {
                self.work += self.epoch();
            }
            return !self.finished;
        }
        for _ in 0..events {
            if self.finished {
                return false;
            }
            self.work += 1;
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

    fn stop(&mut self, i: u32) {
        self.end_figures(i);
        self.senders[i as usize].stop();
    }

    fn complete(&mut self, i: u32) {
        let flow = &mut self.flows[i as usize];
        // A flow that was stopped is done without having sent it all.
        if self.senders[i as usize].acked_bytes() == flow.complete_at {
            flow.complete_at = u64::MAX;
            flow.completion = Some(self.now - flow.start);
            if self.note_completion(i) {
                return;
            }
            self.end_figures(i);
            if self.common.from.is_some() {
                self.common_end();
            }
        }
    }

    fn change(&mut self, i: u32) {
        self.recall();
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
                self.record(None, Some(link as u32), "limit", limit.figure());
            }
            Change::Rtt { flow, rtt } => {
                let rtt = Time::from_nanos(rtt);
                let delay = self.way_home(flow, rtt);
                let pipe = self.ack_pipe(delay);
                let target = &mut self.ways[flow];
                (target.base_rtt, target.ack_delay, target.ack_pipe) = (rtt, delay, pipe);
                self.record(Some(flow as u32), None, "rtt", rtt.as_millis_f64());
            }
        }
    }

    /// How long a flow's ACKs are on their way beside links at this base RTT.
    fn way_home(&self, flow: usize, rtt: Time) -> Time {
        let links = self.ways[flow].base_rtt - self.ways[flow].ack_delay;
        rtt.saturating_sub(links)
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
    pub fn audit(&mut self) -> Result<(), String> {
        // What was foreseen is not on the books.
        self.recall();
        let mut under_way = 0u64;
        for (i, (sender, receiver)) in self.senders.iter().zip(&self.receivers).enumerate() {
            let gone = receiver.packets + self.flows[i].dropped;
            let Some(rest) = sender.counters().sent.checked_sub(gone) else {
                return Err(format!("flow {i}: {} sent, but {gone} received or dropped", sender.counters().sent));
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
                let (counters, held) = (&link.counters, link.held());
                return Err(format!(
                    "at a link {} came, but {} left, {} were dropped, {held} are there",
                    counters.arrived, counters.departed, counters.drops
                ));
            }
            inside += link.held();
        }
        inside += self.pipes.iter().map(|(pipe, _)| pipe.len() as u64).sum::<u64>();
        inside += self.not_received();
        if under_way > inside {
            return Err(format!("{under_way} data packets under way, but only {inside} packets in links and pipes"));
        }
        Ok(())
    }
}
