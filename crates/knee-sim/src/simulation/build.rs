//! From a specification to a model at rest.

use super::apps::Apps;
use super::hosts::carried::CarriedFlow;
use super::hosts::datagrams::DatagramFlow;
use super::hosts::endpoint::{self, QuicEnds};
use super::hosts::quic::{self, QuicFlow};
use super::hosts::udp::UdpFlow;
use super::hosts::{Algorithm, End, Ends, HostSettings, Hosts, PathRecord};
use super::model::{MANY_FLOWS, Model};
use crate::policy::{self, Plan};
use knee_cc::{DynCongestionControl, Ecn as Reaction, Entry, Init};
use knee_core::convert::index_u32;
use knee_core::packet::MSS;
use knee_core::{Params, Time};
use knee_net::SpecError;
use knee_net::network::{Network, OwnQueue, params};
use knee_net::observe::Histogram;
use knee_net::recorder::Recorder;
use knee_net::spec::{EcnSpec, FlowSpec, ParamsSpec, Spec, Transport};
use knee_tcp::ecn::Ecn;
use knee_tcp::ends::TcpEnds;
use knee_tcp::receiver::{self, Misbehaviour, Receiver};
use knee_tcp::sender::{self, Sender, SenderInit};
use knee_tcp::timer::Clock;
use serde_json::value::RawValue;
use std::sync::Arc;

/// An algorithm that is not in the registry, for a simulation of its own.
#[derive(Clone)]
pub struct Own {
    /// Its name in the specification.
    pub name: String,
    /// Its needs, parameters and phases; its `make` is not used.
    pub entry: &'static Entry,
    /// Makes one for a flow.
    pub make: OwnMake,
}

/// Makes the congestion control of a flow.
#[derive(Clone)]
pub enum OwnMake {
    /// An algorithm.
    Algorithm(MakeAlgorithm),
    /// A policy.
    Policy(Arc<Plan>),
    /// A controller of quinn's interface; only flows over QUIC can have it.
    Quinn(quic::MakeFactory),
}

impl OwnMake {
    /// Returns true if only flows over QUIC can have it.
    const fn needs_quic(&self) -> bool {
        matches!(self, Self::Quinn(_))
    }

    /// A copy; none where it may make what cannot be copied.
    pub(super) fn copied(&self) -> Option<Self> {
        matches!(self, Self::Policy(_)).then(|| self.clone())
    }
}

/// Makes an algorithm from its parameters, what the connection gives it, and the flow's index.
pub type MakeAlgorithm = Arc<dyn Fn(&Params, &Init, usize) -> Box<dyn DynCongestionControl> + Send + Sync>;

/// So many flows stay in a second-level cache.
const CACHED_FLOWS: usize = 256;

/// Bits of the histograms' resolution: fewer where there are many flows, each with its own.
const fn histogram_bits(flows: usize) -> u8 {
    if flows <= MANY_FLOWS { 10 } else { 6 }
}

impl Model {
    /// The simulation of `spec` at rest, with the algorithms `own` and the `queues` before those of the registries.
    pub(super) fn new(spec: &Spec, own: &[Own], queues: &[OwnQueue]) -> Result<Self, SpecError> {
        let clock = Clock::new(Time::from_nanos(spec.tcp.tick));
        let receive_window = spec.tcp.receive_window.map_or(1 << 40, |bytes| (bytes / u64::from(MSS)).max(1));
        // A clamped window does not grow beyond that (tcp_grow_window).
        let window_growth =
            spec.tcp.receive_window.map_or(spec.tcp.window_growth, |most| most.min(spec.tcp.window_growth));
        let sender_config = sender::Config {
            clock,
            initial_window: spec.tcp.initial_window.max(1),
            rto_min: Time::from_nanos(spec.tcp.rto_min),
            tso: spec.tcp.tso,
            tso_rtt_log: spec.tcp.tso_rtt_log.min(31),
            slow_start_after_idle: spec.tcp.slow_start_after_idle,
            receive_window,
            window_growth,
        };
        let receiver_config = receiver::Config {
            clock,
            delayed_ack: Time::from_nanos(spec.tcp.delayed_ack),
            sack_delay: Time::from_nanos(spec.tcp.sack_delay),
            rto_min: Time::from_nanos(spec.tcp.rto_min),
            receive_offload: Time::from_nanos(spec.tcp.receive_offload),
            window_growth,
        };
        let (flows, end) = (spec.flows.len(), Time::from_nanos(spec.duration));
        let quic_ends = endpoint::config(&spec.quic);
        let mut model = Self {
            network: Network::with_own(spec, queues)?,
            hosts: Hosts::new(HostSettings {
                algorithms: Vec::new(),
                sender_config,
                receiver_config,
                quic: spec.quic,
                quic_ends: quic_ends.clone().unwrap_or_default(),
                trace_rtt: spec.tcp.trace_rtt,
                flow_seeds: spec.flows.iter().map(|flow| flow.seed(spec.seed)).collect(),
                logs: Vec::new(),
                scenario_flows: index_u32(flows),
            }),
            apps: Apps::new(flows),
            recorder: Recorder::new(spec, end),
            now: Time::ZERO,
            end,
            finished: false,
            prefetches: flows > CACHED_FLOWS,
        };
        let mut before: Option<&FlowSpec> = None;
        for flow in &spec.flows {
            let how = misbehaviour(flow, spec)?;
            if flow.sends_datagrams() && flow.transport != Transport::Quic {
                model.add_datagrams(flow, spec);
                continue;
            }
            if before.is_none_or(|before| !before.same_cc(flow) || before.transport != flow.transport) {
                model.hosts.settings.algorithms.push(algorithm(flow, own)?);
            }
            before = Some(flow);
            if flow.transport == Transport::Quic && model.hosts.settings.algorithms.last().is_some_and(endpoint::serve)
            {
                quic_ends.as_ref().map_err(Clone::clone)?;
            }
            model.add_flow(flow, how, spec)?;
        }
        Ok(model)
    }

    /// Adds a flow with the last of the algorithms, whose receiver may misbehave.
    fn add_flow(&mut self, flow: &FlowSpec, how: Option<Misbehaviour>, spec: &Spec) -> Result<(), SpecError> {
        let settings = &self.hosts.settings;
        let (i, algorithm) = (self.hosts.len() as usize, settings.algorithms.len() - 1);
        let needs = settings.algorithms[algorithm].needs();
        let ecn = ecn(flow.ecn, needs.ecn);
        let own_quic = endpoint::serve(&settings.algorithms[algorithm]);
        endpoint::check_streams(flow, own_quic, &spec.quic)?;
        let ends = match flow.transport {
            _ if self.apps.add(i, flow, (ecn, own_quic), spec) => Ends::Application,
            Transport::Quic => {
                let (init, start) = (
                    knee_quic::SenderInit { needs, ecn: ecn.is_on(), bytes: flow.bytes },
                    Time::from_nanos(flow.start),
                );
                let config = &settings.quic_ends;
                match (own_quic, flow.sends_datagrams()) {
                    (true, false) => Ends::Quic(Box::new(QuicEnds::new(&init, config, start))),
                    (true, true) => {
                        let connection = QuicEnds::connection(&init, (End::Sender, false), config, start);
                        let datagrams = self.datagrams(flow, i, ecn.codepoint, spec);
                        Ends::Udp(Box::new(UdpFlow::Carried(CarriedFlow::new(datagrams, connection, config))))
                    }
                    (false, false) => {
                        let stack = QuicFlow::of(&settings.algorithms[algorithm], flow, i, ecn.is_on(), spec);
                        Ends::Udp(Box::new(UdpFlow::Quic(stack)))
                    }
                    (false, true) => return Err(SpecError::StackDatagrams(flow.label.clone())),
                }
            }
            Transport::Tcp => {
                let init = SenderInit { needs, paced: flow.pacing, ecn, bytes: flow.bytes };
                let mut sender = Sender::new(&init, &settings.sender_config);
                sender.totals.cwnd_integral.1 = Time::from_nanos(flow.start);
                let mut receiver = Receiver::new(ecn);
                if let Some(how) = how {
                    receiver.misbehave(how);
                }
                Ends::Tcp(Box::new(TcpEnds { receiver, sender }))
            }
        };
        self.add_ends(ends, flow, index_u32(algorithm), spec);
        Ok(())
    }

    /// Adds a flow of datagrams, which has no algorithm.
    fn add_datagrams(&mut self, flow: &FlowSpec, spec: &Spec) {
        let i = self.hosts.len() as usize;
        let datagrams = self.datagrams(flow, i, ecn(flow.ecn, Reaction::Classic).codepoint, spec);
        self.add_ends(Ends::Udp(Box::new(UdpFlow::Datagrams(datagrams))), flow, u32::MAX, spec);
    }

    /// Both ends of flow `i`, which sends datagrams.
    fn datagrams(&self, flow: &FlowSpec, i: usize, codepoint: u8, spec: &Spec) -> DatagramFlow {
        let delays = self.network.data_links(i).map(|link| link.delay);
        let links_delay = delays.fold(Time::ZERO, |sum, delay| sum + delay);
        let bits = histogram_bits(spec.flows.len());
        DatagramFlow::new(flow, i, spec.seed, links_delay, codepoint, bits).expect("it sends datagrams")
    }

    /// Adds the ends of a flow, and what is kept of it.
    fn add_ends(&mut self, ends: Ends, flow: &FlowSpec, algorithm: u32, spec: &Spec) {
        let (overhead, complete_at) = (spec.links[flow.path[0]].overhead, flow.bytes.unwrap_or(u64::MAX));
        let histogram = Histogram::new(histogram_bits(spec.flows.len()));
        let bulk = flow.traffic.is_none() && !flow.sends_datagrams();
        self.hosts.push(ends, PathRecord { bulk, ..PathRecord::new(algorithm, overhead, complete_at, histogram) });
    }
}

/// How a flow that asks for this uses ECN, under an algorithm with this reaction.
pub(super) const fn ecn(asked: EcnSpec, reaction: Reaction) -> Ecn {
    let ecn = match (reaction, asked) {
        (Reaction::Scalable, _) | (_, EcnSpec::L4s) => Ecn::L4S,
        (_, EcnSpec::Accurate) => Ecn::ACCURATE,
        (Reaction::PerPacket, _) => Ecn::PER_PACKET,
        (Reaction::Classic, EcnSpec::On) => Ecn::CLASSIC,
        (Reaction::Classic, EcnSpec::Off) => Ecn::OFF,
    };
    if matches!(reaction, Reaction::Classic) { ecn } else { ecn.needed() }
}

/// How the receiver of a flow misbehaves. `None` if it is honest.
fn misbehaviour(flow: &FlowSpec, spec: &Spec) -> Result<Option<Misbehaviour>, SpecError> {
    let Some(model) = &flow.receiver else { return Ok(None) };
    let entry = receiver(&model.name, flow, spec).map_err(|fault| SpecError::Receiver {
        flow: flow.label.clone(),
        name: model.name.clone(),
        fault,
    })?;
    Ok(entry.make(&params(entry.params, &model.params, &format!("the receiver of flow `{}`", flow.label))?))
}

/// The receiver of this name, if a flow can have it.
fn receiver(name: &str, flow: &FlowSpec, spec: &Spec) -> Result<&'static receiver::Entry, &'static str> {
    let entry = receiver::find(name).ok_or("there is no such receiver")?;
    if !flow.is_tcp() || flow.traffic.is_some() {
        return Err("only those of endless flows and single transfers over TCP misbehave");
    }
    if entry.conceals_losses && spec.tcp.receive_window.is_none() {
        return Err("nothing limits a sender that hears of no loss, unless TCP has a receive window");
    }
    Ok(entry)
}

/// The algorithm a flow asks for.
///
/// # Errors
/// If it or one of its parameters does not exist.
pub(super) fn algorithm(flow: &FlowSpec, own: &[Own]) -> Result<Algorithm, SpecError> {
    if let Some(raw) = &flow.policy {
        let make = Some(OwnMake::Policy(Arc::new(plan(raw, flow)?)));
        return Ok(Algorithm { entry: &policy::ENTRY, make, params: Params::defaults(policy::ENTRY.params) });
    }
    let fits = |own: &Own| flow.transport == Transport::Quic || !own.make.needs_quic();
    let own = own.iter().find(|own| own.name == flow.cc && fits(own));
    let entry = own
        .map(|own| own.entry)
        .or_else(|| knee_cc::find(&flow.cc))
        .or_else(|| if flow.transport == Transport::Quic { quic::find(&flow.cc) } else { None })
        .ok_or_else(|| SpecError::UnknownCc { flow: flow.label.clone(), name: flow.cc.clone() })?;
    let owner = format!("flow `{}`", flow.label);
    let given = flow.cc_params.as_ref().map(|raw| serde_json::from_str(raw.get())).transpose();
    let given: ParamsSpec = given
        .map_err(|error: serde_json::Error| SpecError::Text { owner: owner.clone(), error: error.to_string() })?
        .unwrap_or_default();
    let params = params(entry.params, &given, &owner)?;
    Ok(Algorithm { entry, make: own.map(|own| own.make.clone()), params })
}

/// The policy of a flow.
fn plan(raw: &RawValue, flow: &FlowSpec) -> Result<Plan, SpecError> {
    let fault = |error: String| SpecError::Text { owner: format!("flow `{}`", flow.label), error };
    let plan: Plan = serde_json::from_str(raw.get()).map_err(|error| fault(error.to_string()))?;
    plan.check().map_err(|error| fault(error.to_string()))?;
    Ok(plan)
}
