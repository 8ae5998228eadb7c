//! The histograms of a run as rows: RTTs and one-way delays of flows, queueing delays of links.

use super::model::{MANY_FLOWS, Model};
use knee_net::observe::Histogram;
use knee_net::output::{DistributionRow, Quantity};

/// Buckets per octave of the rows, as a power of two: values within 0.8 %.
const BITS: u8 = 6;
/// The index of all flows together.
const ALL: u32 = u32::MAX;
/// The index of all bulk flows together.
const BULK: u32 = u32::MAX - 1;

impl Model {
    /// Adds the rows: of each flow where there are not too many, else of those that send datagrams, such as probes, and
    /// of the bulk flows together; of all flows together; and of each link.
    pub(super) fn record_distributions(&mut self) {
        // Behind the flows come the halves of their connections.
        let flows = self.hosts.settings.scenario_flows as usize;
        let records = || self.hosts.iter().map(|(_, slot)| &slot.record).take(flows);
        let mut rows = Vec::new();
        let mut add = |histogram: &Histogram, index: u32, quantity: Quantity| {
            rows.extend(histogram.buckets(BITS).map(|(value_ns, count)| DistributionRow {
                value_ms: value_ns / 1e6,
                count,
                index,
                quantity: quantity as u32,
            }));
        };
        let rtts: Vec<&Histogram> = records().map(|flow| &flow.rtt_histogram).collect();
        let delays: Vec<(u32, &Histogram)> =
            self.hosts.iter().filter_map(|(i, slot)| Some((i, &slot.ends.datagrams()?.watch.delays))).collect();
        if flows <= MANY_FLOWS {
            (0..).zip(&rtts).for_each(|(i, histogram)| add(histogram, i, Quantity::Rtt));
        } else {
            for &(i, _) in &delays {
                add(rtts[i as usize], i, Quantity::Rtt);
            }
            let bulk = records().filter(|flow| flow.bulk).map(|flow| &flow.rtt_histogram);
            add(&Histogram::sum(BITS, bulk), BULK, Quantity::Rtt);
        }
        for &(i, histogram) in &delays {
            add(histogram, i, Quantity::OneWayDelay);
        }
        add(&Histogram::sum(BITS, rtts.into_iter()), ALL, Quantity::Rtt);
        add(&Histogram::sum(BITS, delays.into_iter().map(|(_, histogram)| histogram)), ALL, Quantity::OneWayDelay);
        for (i, direction) in (0..).zip(&self.network.directions) {
            add(direction.delays(), i, Quantity::QueueDelay);
        }
        self.recorder.rows().distributions = rows;
    }
}
