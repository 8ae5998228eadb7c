//! Takes what the visited flow sends in a batch, and its timers.

use super::applications::DueActions;
use crate::simulation::ack_path::AckPath;
use crate::simulation::alarms;
use crate::simulation::hosts::{At, End, Host, Outbox, StateNote};
use crate::simulation::stages::Stages;
use knee_core::{Packet, Time};
use knee_link::Arrivals;
use knee_net::events::Event;
use knee_net::network::FlowPath;
use knee_net::output::SampleRow;
use knee_queue::Burst;
use knee_tcp::ends::TcpEnds;

/// Takes what the visited flow sends.
#[repr(align(128))]
#[derive(Clone)]
pub(super) struct BatchOutbox {
    /// By stage, what arrives there in this batch.
    pub(super) arrivals: Vec<Arrivals>,
    pub(super) acks: AckPath,
    /// The first stage of the flow's data, and the tie-break key of what its link does.
    stage: (u32, u64),
    /// The event by which its packets land.
    pub(super) landing: Event,
    /// Cause of the receiver's ACKs: [`Event::cause`].
    pub(super) cause: u16,
    /// Its index among what lands with it, or the flow's.
    pub(super) index: u32,
    /// Order, among those of its time, of what the sender does.
    pub(super) tie_break: u64,
    /// Changes of senders' states in this batch.
    pub(super) changes: Vec<StateNote>,
    /// Samples of flows that were visited in this batch.
    pub(super) samples: Vec<SampleRow>,
    /// Transfers completed in this batch.
    pub(super) completed: Vec<(Time, u32)>,
    /// News for applications.
    pub(super) due: DueActions,
    /// Packets that the visited flow has sent.
    pub(super) sent: u32,
    /// Packets delivered to the receiver during this visit.
    pub(super) landed: u32,
    /// Time of the latest delivery of a packet or an ACK of a connection.
    pub(super) moved_at: Time,
}

impl Outbox for BatchOutbox {
    #[inline]
    fn data(&mut self, first: Packet, count: u32) {
        self.sent += count;
        let (stage, key) = self.stage;
        self.arrivals[stage as usize].push(Burst { first, count }, self.tie_break, self.tie_break < key);
    }

    #[inline]
    fn ack(&mut self, ack: Packet, at: At<'_>) {
        self.acks.push(&ack, at, (self.cause, self.index));
    }

    fn changed(&mut self, change: StateNote) {
        self.changes.push(change);
    }

    fn completed(&mut self, flow: u32, now: Time) {
        self.completed.push((now, flow));
    }
}

impl BatchOutbox {
    pub(super) fn new(stages: &Stages) -> Self {
        Self {
            arrivals: stages.links().map(|_| Arrivals::default()).collect(),
            acks: AckPath::default(),
            stage: (0, 0),
            landing: Event::Wire(0),
            cause: 0,
            index: 0,
            tie_break: 0,
            changes: Vec::new(),
            samples: Vec::new(),
            completed: Vec::new(),
            due: DueActions::default(),
            sent: 0,
            landed: 0,
            moved_at: Time::ZERO,
        }
    }

    /// Sends what follows on a path.
    #[inline]
    pub(super) fn take_path(&mut self, path: &FlowPath, stages: &Stages) {
        (self.stage, self.landing) = stages.of_route(path.route);
        self.cause = self.landing.cause();
    }

    /// Adds what flows did that were visited at the same time and come behind those here.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.changes.append(&mut other.changes);
        self.samples.append(&mut other.samples);
        self.completed.append(&mut other.completed);
        for (arrivals, others) in self.arrivals.iter_mut().zip(&mut other.arrivals) {
            arrivals.append(others);
        }
    }

    /// Fires the next timer of an end if it is due before `limit`; from then on it is known when it is due.
    #[inline(never)]
    pub(super) fn fire(&mut self, host: &mut Host<'_, TcpEnds>, end: End, path: &FlowPath, limit: Time) {
        let Some((due, timer)) = host.next_timer(end, limit) else { return };
        let event = alarms::event(timer, host.i);
        match end {
            End::Sender => self.tie_break = event.key(),
            End::Receiver => (self.cause, self.index) = (event.cause(), host.i),
        }
        host.on_timer(timer, At { now: due, path }, self);
        self.cause = self.landing.cause();
    }
}
