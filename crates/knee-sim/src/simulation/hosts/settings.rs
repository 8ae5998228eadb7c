//! Settings of hosts, and the congestion controls of their senders.

use super::PathRecord;
use crate::simulation::build::OwnMake;
use knee_cc::{DynCongestionControl, Entry, Init, Needs};
use knee_core::Params;
use knee_net::spec::QuicSpec;
use knee_qlog::Log;
use knee_tcp::{receiver, sender};

/// Settings of all hosts.
pub(in crate::simulation) struct HostSettings {
    pub(in crate::simulation) algorithms: Vec<Algorithm>,
    pub(in crate::simulation) sender_config: sender::Config,
    pub(in crate::simulation) receiver_config: receiver::Config,
    pub(in crate::simulation) quic: QuicSpec,
    /// Settings of [`Ends::Quic`](super::Ends::Quic).
    pub(in crate::simulation) quic_ends: knee_quic::Config,
    /// True if RTT figures are those of a packet trace.
    pub(in crate::simulation) trace_rtt: bool,
    /// By flow, the seed of its algorithm's random numbers.
    pub(in crate::simulation) flow_seeds: Vec<u64>,
    /// By flow, where its sender's events are logged; empty if no flow's are.
    pub(in crate::simulation) logs: Vec<Option<Log>>,
    /// How many of the paths are flows'; those behind them are connections'.
    pub(in crate::simulation) scenario_flows: u32,
}

/// A congestion control with its parameters, shared by flows that configure it alike.
pub(in crate::simulation) struct Algorithm {
    pub(in crate::simulation) entry: &'static Entry,
    /// Makes it where it is not the registry's.
    pub(in crate::simulation) make: Option<OwnMake>,
    pub(in crate::simulation) params: Params,
}

impl Algorithm {
    /// Its needs.
    pub(in crate::simulation) fn needs(&self) -> Needs {
        self.entry.needs_with(&self.params)
    }

    /// An instance for `flow` or one of its connections.
    pub(super) fn instance(&self, init: &Init, flow: u32) -> Box<dyn DynCongestionControl> {
        match &self.make {
            Some(OwnMake::Algorithm(make)) => make(&self.params, init, flow as usize),
            Some(OwnMake::Policy(plan)) => plan.make(init),
            // A controller of quinn's never gets here: it is for flows in quinn.
            _ => (self.entry.make)(&self.params, init),
        }
    }
}

impl HostSettings {
    /// A copy; none where an algorithm is neither the registry's nor a policy, or senders are logged.
    pub(super) fn copied(&self) -> Option<Self> {
        let Self { algorithms, sender_config, receiver_config, trace_rtt, flow_seeds, logs, scenario_flows, .. } = self;
        let known = |Algorithm { entry, make, params }: &Algorithm| {
            let make = make.as_ref().map(|make| make.copied().ok_or(())).transpose().ok()?;
            Some(Algorithm { entry, make, params: params.clone() })
        };
        logs.is_empty().then_some(())?;
        Some(Self {
            algorithms: algorithms.iter().map(known).collect::<Option<_>>()?,
            sender_config: *sender_config,
            receiver_config: *receiver_config,
            quic: self.quic,
            quic_ends: self.quic_ends,
            trace_rtt: *trace_rtt,
            flow_seeds: flow_seeds.clone(),
            logs: Vec::new(),
            scenario_flows: *scenario_flows,
        })
    }

    /// Returns true if the algorithm of `flow` keeps its window in recovery too.
    pub(super) fn has_full_control(&self, record: &PathRecord) -> bool {
        // Datagrams have no algorithm.
        self.algorithms.get(record.algorithm as usize).is_some_and(|algorithm| algorithm.entry.needs.full_control)
    }
}
