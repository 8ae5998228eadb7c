//! From a specification to a simulation at rest.

use super::alarms::Alarms;
use super::{Algorithm, Common, Flow, PipeEnd, Route, SackStore, Simulation, Way};
use crate::events::{Event, Events};
use crate::link::{Link, Server};
use crate::observe::{FlowRates, Histogram, Rows, RttSpread, Spread};
use crate::pipe::Pipe;
use crate::receiver::{self, Receiver};
use crate::sender::{self, Sender, SenderInit};
use crate::spec::{Capacity, Change, FlowSpec, LimitSpec, LinkSpec, ParamsSpec, Spec, ValueSpec};
use crate::timer::Clock;
use knee_cc::{CaState, CongestionControl, Ecn, Entry, Init};
use knee_core::packet::MSS;
use knee_core::{Param, ParamError, Params, Rate, Rng, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Flows a simulation takes at the most.
const MAX_FLOWS: usize = 1_000_000;

/// Greatest numbers that a specification may have, in base units: three years, and beyond every link and buffer. Sums and
/// products of them, as the engine makes them, fit.
const MAX_TIME: u64 = 100_000_000_000_000_000;
const MAX_RATE: u64 = 1_000_000_000_000_000;
const MAX_BYTES: u64 = 1_000_000_000_000_000_000;

/// An algorithm beside those of the registry, for a simulation of its own.
#[derive(Clone)]
pub struct Own {
    /// Its name in the specification.
    pub name: String,
    /// What it asks of the sender, its parameters and phases; its `make` is not used.
    pub entry: &'static Entry,
    /// Makes one for a flow: its parameters, what the connection gives it, and the flow's index.
    pub make: OwnMake,
}

/// Makes an algorithm for a flow.
pub type OwnMake = Arc<dyn Fn(&Params, &Init, usize) -> Box<dyn CongestionControl> + Send + Sync>;

/// Why a specification was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SpecError {
    /// Something there must be at least one of.
    #[error("there is no {0}")]
    Empty(&'static str),
    /// Too many flows.
    #[error("{0} flows are more than {MAX_FLOWS}")]
    TooManyFlows(usize),
    /// A number beyond all sense.
    #[error("{what} is {found}, which is more than {most}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The greatest accepted.
        most: u64,
    },
    /// A span that must not be zero.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// Parameters that cannot be read.
    #[error("{owner}: its parameters cannot be read: {error}")]
    Text {
        /// Whose they are.
        owner: String,
        /// Why not.
        error: String,
    },
    /// No such algorithm.
    #[error("flow `{flow}`: no congestion control `{name}`")]
    UnknownCc {
        /// The flow.
        flow: String,
        /// The name found.
        name: String,
    },
    /// No such queue discipline.
    #[error("link `{link}`: no queue discipline `{name}`")]
    UnknownQueue {
        /// The link.
        link: String,
        /// The name found.
        name: String,
    },
    /// A parameter that is not declared or a value that is not accepted.
    #[error("{owner}: {error}")]
    Param {
        /// The flow or link.
        owner: String,
        /// What is wrong.
        error: ParamError,
    },
    /// A word that is not among a parameter's choices.
    #[error("{owner}: `{name}` takes another word")]
    Word {
        /// The flow or link.
        owner: String,
        /// The parameter.
        name: String,
    },
    /// A link without rate or opportunities.
    #[error("link `{0}` carries nothing: its rate is zero, or its trace is empty or not ascending")]
    NoCapacity(String),
    /// A probability outside 0 to 1.
    #[error("link `{0}`: a probability is outside 0 to 1")]
    Probability(String),
    /// An index of a link or flow that does not exist.
    #[error("{0} names a link or flow that does not exist")]
    Index(String),
    /// Propagation delays longer than the base RTT.
    #[error("flow `{0}`: the links of its path delay longer than its base RTT")]
    Delay(String),
    /// A reverse flow over a link whose reverse direction has no rate.
    #[error("flow `{flow}` runs in the reverse direction, but link `{link}` has no reverse rate")]
    NoReverse {
        /// The flow.
        flow: String,
        /// The link.
        link: String,
    },
}

fn params(declared: &[Param], given: &BTreeMap<String, ValueSpec>, owner: &str) -> Result<Params, SpecError> {
    let mut values = Vec::with_capacity(given.len());
    for (name, value) in given {
        let value = match declared.iter().find(|p| p.name == name) {
            Some(param) => {
                value.to_value(param).ok_or_else(|| SpecError::Word { owner: owner.into(), name: name.clone() })?
            }
            None => knee_core::Value::Bool(false),
        };
        values.push((name.as_str(), value));
    }
    Params::resolve(declared, values).map_err(|error| SpecError::Param { owner: owner.into(), error })
}

fn mean_rate(capacity: &Capacity) -> Option<Rate> {
    match capacity {
        Capacity::Rate(0) => None,
        Capacity::Rate(bps) => Some(Rate::from_bps(*bps)),
        Capacity::Trace(ms) => {
            let last = *ms.last()?;
            let ascending = ms.windows(2).all(|w| w[0] <= w[1]);
            (ascending && last > 0).then(|| Rate::from_bps(ms.len() as u64 * 12_000_000 / last))
        }
    }
}

/// One direction of a link, as both directions are described.
struct Direction<'a> {
    name: &'a str,
    capacity: &'a Capacity,
    queue: &'a str,
    limit: Option<LimitSpec>,
    params: &'a BTreeMap<String, ValueSpec>,
}

fn build_link(way: &Direction, spec: &LinkSpec, seed: u64) -> Result<Link, SpecError> {
    let rate = mean_rate(way.capacity).ok_or_else(|| SpecError::NoCapacity(way.name.into()))?;
    let entry = knee_queue::find(way.queue)
        .ok_or_else(|| SpecError::UnknownQueue { link: way.name.into(), name: way.queue.into() })?;
    let params = params(entry.params, way.params, &format!("link `{}`", way.name))?;
    let stream = |what: &str| Rng::stream(seed, &format!("{what}/{}", way.name));
    let init =
        knee_queue::Init { limit: way.limit.map(Into::into), overhead: spec.overhead, rate, rng: stream("queue") };
    let queue = (entry.make)(&params, &init);
    let server = Server::new(way.capacity, spec.burst, spec.overhead);
    Ok(Link::new(queue, server, spec.overhead, (stream("loss"), stream("jitter"))))
}

/// So many flows stay in a second-level cache.
const CACHED_FLOWS: usize = 256;

/// The links of a specification, at rest.
pub struct Links {
    /// All forward directions, then the reverse ones that queue.
    pub links: Vec<Link>,
    /// Their names in results.
    pub names: Vec<String>,
    /// Where the reverse direction of each forward one is.
    pub reverse: Vec<Option<u32>>,
}

/// Builds the links of `spec`, without the pipes behind them.
///
/// # Errors
/// If a link contradicts itself or names what does not exist.
pub fn links(spec: &Spec) -> Result<Links, SpecError> {
    let mut all = Links { links: Vec::new(), names: Vec::new(), reverse: vec![None; spec.links.len()] };
    for link in &spec.links {
        let way = Direction {
            name: &link.name,
            capacity: &link.capacity,
            queue: &link.queue,
            limit: link.limit,
            params: &link.queue_params,
        };
        let mut built = build_link(&way, link, spec.seed)?;
        built.loss = link.loss;
        built.delay = Time::from_nanos(link.delay);
        built.jitter = Time::from_nanos(link.jitter);
        built.reorder = link.reorder;
        all.links.push(built);
        all.names.push(link.name.clone());
    }
    for (link, index) in spec.links.iter().zip(&mut all.reverse) {
        let Some(back) = &link.reverse else { continue };
        let name = format!("{} (reverse)", link.name);
        let way = Direction {
            name: &name,
            capacity: &back.capacity,
            queue: &back.queue,
            limit: back.limit,
            params: &back.queue_params,
        };
        *index = Some(all.links.len() as u32);
        all.links.push(build_link(&way, link, spec.seed)?);
        all.names.push(name);
    }
    Ok(all)
}

/// Bits of the histograms' resolution: fewer where there are many flows, each with its own.
const fn histogram_bits(flows: usize) -> u8 {
    if flows <= 64 { 10 } else { 6 }
}

impl Simulation {
    /// Builds what `spec` says; nothing has happened yet.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn new(spec: &Spec) -> Result<Self, SpecError> {
        Self::with_own(spec, &[])
    }

    /// As [`Simulation::new`], with algorithms beside those of the registry. Their names go first.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn with_own(spec: &Spec, own: &[Own]) -> Result<Self, SpecError> {
        check(spec)?;
        let tick = Clock::new(Time::from_nanos(spec.tcp.tick));
        let receive_window = spec.tcp.receive_window.map_or(1 << 40, |bytes| (bytes / u64::from(MSS)).max(1));
        let mut simulation = Self {
            now: Time::ZERO,
            end: Time::from_nanos(spec.duration),
            finished: false,
            events: Events::default(),
            links: Vec::new(),
            link_names: Vec::new(),
            pipes: Vec::new(),
            ack_pipes: Vec::new(),
            routes: Vec::new(),
            ways: Vec::with_capacity(spec.flows.len()),
            senders: Vec::with_capacity(spec.flows.len()),
            receivers: Vec::with_capacity(spec.flows.len()),
            flows: Vec::with_capacity(spec.flows.len()),
            algorithms: Vec::new(),
            sender_config: sender::Config {
                clock: tick,
                initial_window: spec.tcp.initial_window.max(1),
                rto_min: Time::from_nanos(spec.tcp.rto_min),
                tso: spec.tcp.tso,
                tso_rtt_log: spec.tcp.tso_rtt_log.min(31),
                receive_window,
            },
            receiver_config: receiver::Config {
                clock: tick,
                delayed_ack: Time::from_nanos(spec.tcp.delayed_ack),
                sack_delay: Time::from_nanos(spec.tcp.sack_delay),
                window_growth: spec.tcp.window_growth,
            },
            sacks: SackStore::default(),
            spares: receiver::Spares::default(),
            rows: Rows::default(),
            event_names: Vec::new(),
            interval: Time::from_nanos(spec.interval),
            sampled_at: Time::ZERO,
            window_from: None,
            before_window: Vec::new(),
            common: Common::default(),
            seed: spec.seed,
            changes: spec.changes.clone(),
            departures: Vec::new(),
            recovery_spares: sender::Spares::default(),
            runs: Vec::new(),
            fetches: spec.flows.len() > CACHED_FLOWS,
            tap: None,
            warmup: Time::from_nanos(spec.warmup),
            alarms: Vec::new(),
            epochs: None,
            work: 0,
        };
        let reverse = simulation.add_links(spec)?;
        simulation.add_flows(spec, &reverse, own)?;
        simulation.allow_epochs();
        if simulation.epochs.is_none() {
            simulation.alarms = vec![Alarms::NONE; spec.flows.len()];
        }
        simulation.schedule(spec);
        Ok(simulation)
    }

    /// Adds the links of `spec`, and the pipes behind them; gives the indices of the reverse directions by link.
    fn add_links(&mut self, spec: &Spec) -> Result<Vec<Option<u32>>, SpecError> {
        let built = links(spec)?;
        for (mut link, name) in built.links.into_iter().zip(built.names) {
            if link.delay > Time::ZERO || link.jitter > Time::ZERO {
                link.pipe = Some(self.pipes.len() as u32);
                self.pipes.push((Pipe::new(), PipeEnd::Hop));
            }
            self.push_link(link, name);
        }
        Ok(built.reverse)
    }

    fn push_link(&mut self, link: Link, name: String) {
        self.links.push(link);
        self.link_names.push(name);
    }

    fn add_flows(&mut self, spec: &Spec, reverse: &[Option<u32>], own: &[Own]) -> Result<(), SpecError> {
        for (i, flow) in spec.flows.iter().enumerate() {
            let before = i.checked_sub(1).map(|before| &spec.flows[before]);
            if before.is_none_or(|before| !before.same_cc(flow)) {
                self.algorithms.push(algorithm(flow, own)?);
            }
            let algorithm = self.algorithms.len() - 1;
            let entry = self.algorithms[algorithm].entry;
            let forward: Vec<u32> = flow.path.iter().map(|&l| l as u32).collect();
            let backward: Vec<u32> = flow.path.iter().rev().filter_map(|&l| reverse[l]).collect();
            let (data, acks) = if flow.reverse { (backward, forward) } else { (forward, backward) };
            let (data_hops, ack_hops) = (data.len() as u8, acks.len() as u8);
            let route = self.route(Route { data, acks });
            let base_rtt = Time::from_nanos(flow.rtt);
            let ack_delay = base_rtt - path_delay(spec, &flow.path);
            let ack_pipe = self.ack_pipe(ack_delay);
            self.ways.push(Way { route, ack_pipe, data_hops, ack_hops, ack_delay, base_rtt });
            let start = Time::from_nanos(flow.start);
            let per_packet = entry.needs.ecn != Ecn::Classic;
            let init =
                SenderInit { needs: entry.needs, paced: flow.pacing, ecn: flow.ecn || per_packet, bytes: flow.bytes };
            let mut sender = Sender::new(&init, &self.sender_config);
            sender.cwnd_integral.1 = start;
            self.flows.push(Flow {
                algorithm: algorithm as u32,
                complete_at: flow.bytes.unwrap_or(u64::MAX),
                start,
                syn_at: None,
                overhead: spec.links[flow.path[0]].overhead,
                dropped: 0,
                completion: None,
                phase: sender.control.phase,
                ca: CaState::Open,
                watched: false,
                rtt_histogram: Histogram::new(histogram_bits(spec.flows.len())),
                rtt: RttSpread::EMPTY,
                rtt_folded: Spread::EMPTY,
                last: FlowRates::default(),
                watch: None,
                common: 0,
                seen_timeouts: 0,
            });
            self.senders.push(sender);
            self.receivers.push(Receiver::new(entry.needs.ecn));
        }
        Ok(())
    }

    fn route(&mut self, route: Route) -> u32 {
        // Newest first: flows mostly share the way of the one before.
        if let Some(i) = self.routes.iter().rposition(|r| *r == route) {
            return i as u32;
        }
        self.routes.push(route);
        self.routes.len() as u32 - 1
    }

    fn schedule(&mut self, spec: &Spec) {
        let warmup = Time::from_nanos(spec.warmup);
        let duration = Time::from_nanos(spec.duration);
        for (i, change) in spec.changes.iter().enumerate() {
            self.events.push(Time::from_nanos(change.at), Event::Change(i as u32));
        }
        let starts = spec.flows.iter().map(|f| Time::from_nanos(f.start));
        let (first, last) = (starts.clone().min(), starts.max());
        // Before the first flow starts, so that its first packet counts.
        self.events.push(first.unwrap_or(Time::ZERO) + warmup, Event::MeasureLinks);
        for (i, flow) in spec.flows.iter().enumerate() {
            let start = Time::from_nanos(flow.start);
            // Without a warm-up the start sees to it.
            if warmup > Time::ZERO {
                self.events.push(start + warmup, Event::Measure(i as u32));
            }
            if self.epochs.is_none() {
                self.events.push(start, Event::Start(i as u32));
            }
            if flow.stop < spec.duration {
                self.events.push(Time::from_nanos(flow.stop), Event::Stop(i as u32));
            }
        }
        let stop = spec.flows.iter().map(|f| Time::from_nanos(f.stop)).min().unwrap_or(duration).min(duration);
        let from = last.unwrap_or(Time::ZERO) + warmup;
        if from < stop {
            self.events.push(from, Event::CommonStart);
            if stop < duration {
                self.events.push(stop, Event::CommonEnd);
            }
        }
        self.events.push(self.interval, Event::Sample);
    }
}

/// The algorithm a flow asks for.
fn algorithm(flow: &FlowSpec, own: &[Own]) -> Result<Algorithm, SpecError> {
    let own = own.iter().find(|own| own.name == flow.cc);
    let entry = own
        .map(|own| own.entry)
        .or_else(|| knee_cc::find(&flow.cc))
        .ok_or_else(|| SpecError::UnknownCc { flow: flow.label.clone(), name: flow.cc.clone() })?;
    let owner = format!("flow `{}`", flow.label);
    let given = flow.cc_params.as_ref().map(|raw| serde_json::from_str(raw.get())).transpose();
    let given: ParamsSpec = given
        .map_err(|error: serde_json::Error| SpecError::Text { owner: owner.clone(), error: error.to_string() })?
        .unwrap_or_default();
    let params = params(entry.params, &given, &owner)?;
    Ok(Algorithm { entry, make: own.map(|own| own.make.clone()), params })
}

/// Propagation delay of a path's links.
pub fn path_delay(spec: &Spec, path: &[usize]) -> Time {
    path.iter().fold(Time::ZERO, |sum, &l| sum + Time::from_nanos(spec.links[l].delay))
}

/// Refuses a specification whose parts do not fit together.
///
/// # Errors
/// If it contradicts itself or names what does not exist.
pub fn check(spec: &Spec) -> Result<(), SpecError> {
    if spec.flows.is_empty() {
        return Err(SpecError::Empty("flow"));
    }
    if spec.links.is_empty() {
        return Err(SpecError::Empty("link"));
    }
    if spec.flows.len() > MAX_FLOWS {
        return Err(SpecError::TooManyFlows(spec.flows.len()));
    }
    for (what, value) in [("the duration", spec.duration), ("the interval", spec.interval)] {
        if value == 0 {
            return Err(SpecError::Zero(what));
        }
    }
    check_sizes(spec)?;
    for link in &spec.links {
        if !(0.0..=1.0).contains(&link.loss) {
            return Err(SpecError::Probability(link.name.clone()));
        }
    }
    for flow in &spec.flows {
        if flow.path.is_empty()
            || flow.path.len() > usize::from(u8::MAX)
            || flow.path.iter().any(|&l| l >= spec.links.len())
        {
            return Err(SpecError::Index(format!("the path of flow `{}`", flow.label)));
        }
        if path_delay(spec, &flow.path) > Time::from_nanos(flow.rtt) {
            return Err(SpecError::Delay(flow.label.clone()));
        }
        if flow.reverse
            && let Some(&link) = flow.path.iter().find(|&&l| spec.links[l].reverse.is_none())
        {
            return Err(SpecError::NoReverse { flow: flow.label.clone(), link: spec.links[link].name.clone() });
        }
    }
    check_changes(spec)
}

/// Refuses numbers with which the engine's sums and products would not fit.
fn check_sizes(spec: &Spec) -> Result<(), SpecError> {
    let within = |what, most| {
        move |found: u64| if found > most { Err(SpecError::TooLarge { what, found, most }) } else { Ok(()) }
    };
    let (time, rate, bytes) =
        (|what| within(what, MAX_TIME), |what| within(what, MAX_RATE), |what| within(what, MAX_BYTES));
    let limit = |limit: Option<LimitSpec>| match limit {
        Some(LimitSpec::Time(ns)) => time("a limit")(ns),
        Some(LimitSpec::Packets(n) | LimitSpec::Bytes(n)) => bytes("a limit")(n),
        None => Ok(()),
    };
    let capacity = |capacity: &Capacity| match capacity {
        Capacity::Rate(bps) => rate("a rate")(*bps),
        Capacity::Trace(ms) => time("a trace's last time")(ms.last().map_or(0, |ms| ms.saturating_mul(1_000_000))),
    };
    time("the duration")(spec.duration)?;
    time("the interval")(spec.interval)?;
    time("the warmup")(spec.warmup)?;
    let tcp = &spec.tcp;
    [tcp.tick, tcp.rto_min, tcp.delayed_ack, tcp.sack_delay].into_iter().try_for_each(time("a time of TCP"))?;
    [tcp.window_growth, tcp.receive_window.unwrap_or(0)].into_iter().try_for_each(bytes("a window of TCP"))?;
    for link in &spec.links {
        capacity(&link.capacity)?;
        limit(link.limit)?;
        time("a link's delay")(link.delay)?;
        time("a link's jitter")(link.jitter)?;
        bytes("a link's burst")(link.burst.unwrap_or(0))?;
        if let Some(back) = &link.reverse {
            capacity(&back.capacity)?;
            limit(back.limit)?;
        }
    }
    for flow in &spec.flows {
        time("a flow's RTT")(flow.rtt)?;
        time("a flow's start")(flow.start)?;
        bytes("a flow's size")(flow.bytes.unwrap_or(0))?;
    }
    for change in &spec.changes {
        time("the time of a change")(change.at)?;
        match change.what {
            Change::Rate { rate: bps, .. } => rate("a rate")(bps)?,
            Change::Limit { limit: new, .. } => limit(Some(new))?,
            Change::Rtt { rtt, .. } => time("a flow's RTT")(rtt)?,
            Change::Loss { .. } => {}
        }
    }
    Ok(())
}

fn check_changes(spec: &Spec) -> Result<(), SpecError> {
    for change in &spec.changes {
        match change.what {
            Change::Rate { link, .. } | Change::Loss { link, .. } | Change::Limit { link, .. }
                if link >= spec.links.len() =>
            {
                return Err(SpecError::Index("a change".into()));
            }
            Change::Rtt { flow, .. } if flow >= spec.flows.len() => return Err(SpecError::Index("a change".into())),
            Change::Rate { link, rate } => {
                let traced = matches!(spec.links[link].capacity, Capacity::Trace(_));
                if rate == 0 || traced {
                    return Err(SpecError::NoCapacity(spec.links[link].name.clone()));
                }
            }
            Change::Loss { link, loss } if !(0.0..=1.0).contains(&loss) => {
                return Err(SpecError::Probability(spec.links[link].name.clone()));
            }
            Change::Rtt { flow, rtt } if path_delay(spec, &spec.flows[flow].path) > Time::from_nanos(rtt) => {
                return Err(SpecError::Delay(spec.flows[flow].label.clone()));
            }
            _ => {}
        }
    }
    Ok(())
}
