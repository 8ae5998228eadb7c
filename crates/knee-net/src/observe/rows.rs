//! The rows of time series and events.

use super::Drops;
use crate::output::{DelayRow, DistributionRow, EventRow, LinkRow, SampleRow};
use knee_core::Time;
use knee_core::convert::index_u32;
use knee_traffic::Completion;
use std::io::{self, Write};

/// The rows of a run. Samples may be spooled to a writer, so that memory does not grow with the run.
#[derive(Default)]
pub struct Rows {
    /// Flow samples not yet in the spool.
    pub samples: Vec<SampleRow>,
    /// Link samples.
    pub links: Vec<LinkRow>,
    /// Events.
    pub events: Vec<EventRow>,
    /// Completions of applications.
    pub completions: Vec<Completion>,
    /// Samples of flows that send datagrams.
    pub delays: Vec<DelayRow>,
    /// Histograms of the whole run.
    pub distributions: Vec<DistributionRow>,
    spool: Option<Box<dyn Write + Send>>,
    spool_error: Option<io::Error>,
    event_names: Vec<String>,
}

/// Rows held before they go to the spool: 32 KiB, so that what is simulated stays in the caches.
const SPOOL_BLOCK: usize = 512;

impl Rows {
    /// Spools samples to `spool` from now on.
    pub fn spool_to(&mut self, spool: Box<dyn Write + Send>) {
        self.spool = Some(spool);
    }

    /// A copy of the rows; none if some have been spooled.
    pub fn copied(&self) -> Option<Self> {
        let Self { samples, links, events, completions, delays, distributions, spool, event_names, .. } = self;
        spool.is_none().then(|| Self {
            samples: samples.clone(),
            links: links.clone(),
            events: events.clone(),
            completions: completions.clone(),
            delays: delays.clone(),
            distributions: distributions.clone(),
            event_names: event_names.clone(),
            ..Self::default()
        })
    }

    /// Adds an event of a flow or a link.
    pub fn record(&mut self, at: Time, flow: Option<u32>, link: Option<u32>, event: &str, value: f64) {
        let event = self.event_name(event);
        let index = |i: Option<u32>| i.map_or(-1, u32::cast_signed);
        let (flow, link) = (index(flow), index(link));
        self.events.push(EventRow { t_s: at.as_secs_f64(), value, flow, link, event, reserved: 0 });
    }

    /// Adds drops that are over: they are read by the time they began.
    pub fn record_drops(&mut self, link: u32, drops: &Drops) {
        self.record(drops.first, Some(drops.flow), Some(link), "drop", f64::from(drops.count));
    }

    /// Names of the events so far, by [`EventRow::event`]; [`Rows::sort_events`] takes them away.
    pub fn event_names(&self) -> &[String] {
        &self.event_names
    }

    fn event_name(&mut self, name: &str) -> u32 {
        let known = self.event_names.iter().position(|other| other == name);
        index_u32(known.unwrap_or_else(|| {
            self.event_names.push(name.to_owned());
            self.event_names.len() - 1
        }))
    }

    /// Puts the events in the order of time, those of one time by flow and link; gives their names in the order in
    /// which they come up.
    pub fn sort_events(&mut self) -> Vec<String> {
        // Drops in a row are entered when they are over; they come before what a queue noted at the time of the first
        // one.
        let drop = self.event_names.iter().position(|name| name == "drop").map(index_u32);
        let place = |row: &EventRow| (row.flow, row.link, Some(row.event) != drop);
        self.events.sort_by(|a, b| a.t_s.total_cmp(&b.t_s).then_with(|| place(a).cmp(&place(b))));
        let mut places = vec![None; self.event_names.len()];
        let mut sorted = Vec::with_capacity(self.event_names.len());
        for event in &mut self.events {
            let name = event.event as usize;
            event.event = *places[name].get_or_insert_with(|| {
                sorted.push(std::mem::take(&mut self.event_names[name]));
                index_u32(sorted.len()) - 1
            });
        }
        sorted
    }

    /// Adds a sample.
    pub fn sample(&mut self, row: SampleRow) {
        self.samples.push(row);
        if self.samples.len() >= SPOOL_BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(spool) = &mut self.spool {
            if let Err(error) = spool.write_all(bytemuck::cast_slice(&self.samples)) {
                self.spool_error.get_or_insert(error);
            }
            self.samples.clear();
        }
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// The first error met while writing to the spool.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        self.spool_error.take().map_or(Ok(()), Err)
    }
}
