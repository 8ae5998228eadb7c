//! Takes the figures of a run: at the end of each interval, where a window of measurement begins or ends, and at the
//! end. The simulator's hosts and what the switch reads from packets are asked alike ([`Counts`]).

use crate::events::Event;
use crate::network::Network;
use crate::observe::{FlowCounts, Histogram, Interval, Record, Rows, Spread};
use crate::output::{DelayRow, Output, SampleRow, SenderState};
use crate::spec::{ChangeSpec, Spec};
use knee_core::convert::index_u32;
use knee_core::{Packet, Time};

/// The ends of flows, as the recorder sees them: it asks for counts, and reports drops and the stop of a flow.
pub trait Counts {
    /// Counts of flow `i` up to now.
    fn counts(&mut self, i: u32, now: Time) -> FlowCounts;

    /// Bytes that flow `i` has received, with the overhead of its first link. Its sender is not asked: it may be ahead
    /// of its receiver.
    fn received_bytes(&self, i: u32) -> u64;

    /// State of the sender of flow `i` for a sample; `None` if nothing is known of it.
    fn sender(&mut self, i: u32, now: Time) -> Option<SenderState>;

    /// The RTT samples of flow `i` since this was last called; those of its figures are in [`Counts::rtts`] then.
    fn take_rtts(&mut self, i: u32) -> Spread;

    /// RTTs in the figures of flow `i`.
    fn rtts(&self, i: u32) -> &Histogram;

    /// The figures of flow `i` begin, or end.
    fn watch(&mut self, i: u32, begins: bool);

    /// The sample of flow `i` whose row this is, if it sends datagrams.
    fn delays(&mut self, _i: u32, _row: &SampleRow) -> Option<DelayRow> {
        None
    }

    /// Flow `i` sends nothing new from now on.
    fn stop(&mut self, i: u32, now: Time);

    /// A link dropped a packet at `at`. Gives the flow to which it belongs.
    fn on_drop(&mut self, packet: &Packet, at: Time) -> u32;
}

/// Takes the figures of a run.
pub struct Recorder {
    /// Rows and figures so far.
    pub record: Record,
    /// Length of an interval of the time series.
    pub interval: Time,
    /// Changes during the run.
    pub changes: Vec<ChangeSpec>,
    /// How long flows and links run before their figures begin.
    pub warmup: Time,
    /// End of the run, at which nothing leaves a link any more.
    end: Time,
    flows: u32,
}

impl Recorder {
    /// A recorder for a specification, in a run that ends at `end` by the clock of its links; `Time::MAX`: they go on.
    pub fn new(spec: &Spec, end: Time) -> Self {
        Self {
            record: Record::new(spec),
            interval: Time::from_nanos(spec.interval),
            changes: spec.changes.clone(),
            warmup: Time::from_nanos(spec.warmup),
            end,
            flows: index_u32(spec.flows.len()),
        }
    }

    /// A copy of the recorder; none if rows have been spooled.
    pub fn copied(&self) -> Option<Self> {
        let Self { record, interval, changes, warmup, end, flows } = self;
        let (interval, warmup, end, flows) = (*interval, *warmup, *end, *flows);
        Some(Self { record: record.copied()?, interval, changes: changes.clone(), warmup, end, flows })
    }

    /// The rows so far.
    pub const fn rows(&mut self) -> &mut Rows {
        &mut self.record.rows
    }

    /// When flow `i` starts.
    pub fn start(&self, i: u32) -> Time {
        self.record.start(i as usize)
    }

    /// The latest time at which a packet may leave a link, in a batch or an interval that ends at `until`: `until`
    /// itself, but 1 ns before the end of the run, as what leaves at that end is no part of the run.
    pub fn last_departure(&self, until: Time) -> Time {
        if until == self.end { until - Time::from_nanos(1) } else { until }
    }

    /// Something that concerns the whole run is due now.
    pub fn on_agenda(&mut self, event: Event, now: Time, network: &mut Network, ends: &mut impl Counts) {
        match event {
            Event::Change(i) => {
                let (flow, link, name, value) = network.change(self.changes[i as usize].what, now);
                if let Some(link) = link {
                    self.book_link(link, network, ends);
                }
                self.record.rows.record(now, flow, link, name, value);
            }
            Event::Sample => self.sample(now, network, ends),
            Event::Measure(i) => self.begin_figures(i, now, ends),
            Event::MeasureLinks => {
                let counts = (0..self.flows).map(|i| ends.counts(i, now));
                let delivered = counts.map(|counts| (counts.delivered_bytes, counts.received_bytes)).collect();
                self.record.begin_window(now, &mut network.directions, delivered);
            }
            Event::Stop(i) => {
                self.end_figures(i, now, ends);
                ends.stop(i, now);
            }
            Event::CommonStart => self.record.begin_common(now, |i| ends.received_bytes(index_u32(i))),
            Event::CommonEnd => self.end_common(now, ends),
            // The agenda has no packets and no timers of ends.
            _ => {}
        }
    }

    /// The figures of a flow begin.
    pub fn begin_figures(&mut self, i: u32, now: Time, ends: &mut impl Counts) {
        let counts = ends.counts(i, now);
        self.record.add_rtts(i as usize, &ends.take_rtts(i));
        if self.record.begin_figures(i as usize, counts) {
            ends.watch(i, true);
        }
    }

    fn end_figures(&mut self, i: u32, now: Time, ends: &mut impl Counts) {
        let counts = ends.counts(i, now);
        self.record.add_rtts(i as usize, &ends.take_rtts(i));
        self.record.end_figures(i as usize, counts);
        ends.watch(i, false);
    }

    fn end_common(&mut self, now: Time, ends: &impl Counts) {
        self.record.end_common(now, |i| ends.received_bytes(index_u32(i)));
    }

    /// All of a flow's transfer is acknowledged now: its figures end, and so does the window in which all flows run.
    pub fn end_transfer(&mut self, i: u32, now: Time, ends: &mut impl Counts) {
        if self.record.complete(i as usize, now) {
            self.end_figures(i, now, ends);
            self.end_common(now, ends);
        }
    }

    /// Takes the sample of an interval that ends now.
    pub fn sample(&mut self, now: Time, network: &mut Network, ends: &mut impl Counts) {
        let Some(interval) = self.record.end_interval(now) else { return };
        for i in 0..self.flows {
            self.sample_flow(i, interval, now, ends);
        }
        self.sample_links(now, network, ends);
    }

    /// Takes that of a flow, if it has started.
    fn sample_flow(&mut self, i: u32, interval: Interval, now: Time, ends: &mut impl Counts) {
        if self.start(i) >= now {
            return;
        }
        let (counts, sender) = (ends.counts(i, now), ends.sender(i, now));
        let rtts = ends.take_rtts(i);
        let row = self.record.flows()[i as usize].row(i, interval, &counts, &rtts);
        let row = sender.map_or(row, |sender| row.with_sender(&sender));
        self.record.rows.sample(row);
        self.record.rows.delays.extend(ends.delays(i, &row));
    }

    /// Takes that of all links.
    pub fn sample_links(&mut self, now: Time, network: &mut Network, ends: &mut impl Counts) {
        let last = self.last_departure(now);
        for i in 0..index_u32(network.directions.len()) {
            network.directions[i as usize].link.observe(now);
            self.book_link(i, network, ends);
            let row = network.directions[i as usize].row(i, now, last);
            self.record.rows.links.push(row);
        }
    }

    /// Books what links have dropped and their queues have noted as packets moved ([`Network::unbooked`]).
    #[cold]
    pub fn book_links(&mut self, network: &mut Network, ends: &mut impl Counts) {
        for link in std::mem::take(&mut network.unbooked) {
            self.book_link(link, network, ends);
        }
    }

    /// Books what a link has dropped and its queue has noted.
    pub fn book_link(&mut self, link: u32, network: &mut Network, ends: &mut impl Counts) {
        let direction = &mut network.directions[link as usize];
        let (dropped, notes) = direction.link.unbooked();
        for note in notes.drain(..) {
            self.record.rows.record(note.at, note.flow, Some(link), note.event, note.value);
        }
        for (at, packet) in std::mem::take(dropped) {
            let flow = ends.on_drop(&packet, at);
            if let Some(over) = direction.book_drop(at, flow, &packet) {
                self.record.rows.record_drops(link, &over);
            }
        }
    }

    /// The run ends now: takes the last sample.
    pub fn end(&mut self, now: Time, network: &mut Network, ends: &mut impl Counts) {
        self.sample(now, network, ends);
        self.end_common(now, ends);
    }

    /// All figures of the run that ends now.
    pub fn output(&mut self, now: Time, network: &mut Network, ends: &mut impl Counts) -> Output {
        let counts: Vec<FlowCounts> = (0..self.flows).map(|i| ends.counts(i, now)).collect();
        let flows = counts.into_iter().zip((0..).map(|i| ends.rtts(i)));
        self.record.output(now, self.last_departure(now), &mut network.directions, flows)
    }
}
