//! QUIC flows whose ends are those of a real QUIC stack; its datagrams cross the simulated links. Knee's own QUIC ends
//! are in [`endpoint`](super::endpoint).
//!
//! A flow is a connection whose sender writes one stream to its end, or an application, which opens connections
//! ([`apps`](crate::simulation::apps)). A connection has one path: its data takes the flow's, and what the other end
//! sends, requests among it, goes against that.
//!
//! A UDP datagram lies in [`QuicFlow::packets`] while a packet that carries its number goes through the network. The
//! figures are the same as TCP's, as far as a QUIC sender has them: payload counts as it reaches the receiver, what is
//! lost is sent again in other packets, and persistent congestion stands where TCP has timeouts.

use super::{Algorithm, At, End, EndFigures, HostPair, Outbox, Progress};
use crate::simulation::build::{OwnMake, algorithm, ecn};
use crate::stacks;
use knee_cc::{CaState, Control, Entry};
use knee_core::convert::{index_u16, index_u32};
use knee_core::{Packet, Payload, Received, Rng, Time};
use knee_net::SpecError;
use knee_net::output::SenderState;
use knee_net::spec::{FlowSpec, QuicSpec, Spec};
use knee_quinn::proto::EcnCodepoint;
use knee_quinn::proto::congestion::ControllerFactory;
use knee_quinn::stack::StackControl;
use knee_quinn::{AckFrequency, Datagram, LEAST_MTU, Peer, Quinn, Settings, Stack, Watch};
use knee_tcp::ecn::Ecn;
use knee_tcp::sender::Counters;
use slab::Slab;
use std::sync::Arc;

/// Makes the factory of a flow's controllers from the flow's index.
pub type MakeFactory = Arc<dyn Fn(usize) -> Arc<dyn ControllerFactory + Send + Sync> + Send + Sync>;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: u16 = 28;
/// Bytes that a receiver takes ahead of what is read where nothing limits them.
const NO_LIMIT: u64 = 1 << 40;

/// Both ends of a QUIC flow, or of a connection that an application opened.
pub(in crate::simulation) struct QuicFlow {
    /// Opens the end that sends the data, whose controller `watch` sees.
    stack: Arc<dyn Stack>,
    watch: Arc<Watch>,
    config: QuicConfig,
    /// Sender and receiver, from its start on.
    ends: Option<Box<(Peer, Peer)>>,
    /// Contents of its packets in the network.
    packets: Slab<Datagram>,
    /// Datagrams that left the sender, and their bytes as IP packets.
    sent: u64,
    sent_bytes: u64,
    /// Packets that came to the receiver.
    received: Received,
    /// Integral of the window over time, packets times ns, when it was last brought up to date, and the window since
    /// then.
    cwnd_integral: (u128, Time, u32),
}

/// Specification of a QUIC flow.
struct QuicConfig {
    carries: Carries,
    /// True if its packets are ECN-capable.
    ecn: bool,
    /// True if they are encrypted.
    tls: bool,
    /// Names its random numbers.
    seed: u64,
    endpoints: QuicSpec,
}

/// The content of a connection.
enum Carries {
    /// One stream of this size in bytes; `None`: without end.
    Stream(Option<u64>),
    /// Messages of an application at this end, and the answers. The end that gets the data sends under the congestion
    /// control of this stack.
    Messages(End, Arc<dyn Stack>),
}

/// How the connections of an application's flow are.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct QuicTraffic {
    /// True if packets are encrypted.
    pub(in crate::simulation) tls: bool,
    /// The end at which the application sits.
    pub(in crate::simulation) client: End,
    /// True if each exchange has a stream of its own, as knee's own endpoints alone have.
    pub(in crate::simulation) streams: bool,
    pub(in crate::simulation) endpoints: QuicSpec,
}

impl QuicFlow {
    /// Connection `number` of flow `i`, which has this seed and runs an application.
    pub(in crate::simulation) fn connection(
        algorithm: &Algorithm,
        traffic: QuicTraffic,
        ecn: bool,
        (i, number): (u32, u64),
        seed: u64,
        now: Time,
    ) -> Self {
        let seed = Rng::stream(seed, &format!("quic/{number}")).next_u64();
        let stack = |watch| algorithm.stack(i as usize, seed, watch);
        let carries = Carries::Messages(traffic.client, stack(Arc::new(Watch::default())));
        let QuicTraffic { tls, endpoints, .. } = traffic;
        Self::new(stack, QuicConfig { carries, ecn, tls, seed, endpoints }, now)
    }

    /// A connection under the congestion control that `stack` makes, before it begins at `start`.
    fn new(stack: impl Fn(Arc<Watch>) -> Arc<dyn Stack>, config: QuicConfig, start: Time) -> Self {
        let watch = Arc::new(Watch::default());
        Self {
            stack: stack(watch.clone()),
            watch,
            config,
            ends: None,
            packets: Slab::new(),
            sent: 0,
            sent_bytes: 0,
            received: Received::default(),
            cwnd_integral: (0, start, 0),
        }
    }

    /// The end of the application, if there is one.
    const fn client(&self) -> End {
        match self.config.carries {
            Carries::Stream(_) => End::Sender,
            Carries::Messages(client, _) => client,
        }
    }

    /// The state of an application's messages.
    pub(in crate::simulation) fn progress(&self) -> Option<Progress> {
        let (sender, receiver) = &**self.ends.as_ref()?;
        let (client, server) = if self.client() == End::Sender { (sender, receiver) } else { (receiver, sender) };
        Some(Progress {
            connected: client.connected(),
            shaken: client.connected(),
            asked: (server.in_order(), client.acked()),
            answered: client.in_order(),
            settled: client.settled() && server.settled(),
        })
    }

    /// The connection is over: nothing happens any more.
    pub(in crate::simulation) fn close(&mut self) {
        self.ends = None;
    }

    /// Flow `i` of `spec` under an algorithm, before it begins.
    pub(in crate::simulation) fn of(algorithm: &Algorithm, flow: &FlowSpec, i: usize, ecn: bool, spec: &Spec) -> Self {
        let seed = quic_seed(spec, i);
        let config =
            QuicConfig { carries: Carries::Stream(flow.bytes), ecn, tls: flow.tls, seed, endpoints: spec.quic };
        Self::new(|watch| algorithm.stack(i, seed, watch), config, Time::from_nanos(flow.start))
    }

    /// Datagrams that left the sender.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams that came to the receiver.
    pub(super) const fn received(&self) -> &Received {
        &self.received
    }

    /// A packet with a datagram was dropped.
    pub(super) fn on_drop(&mut self, packet: &Packet) {
        self.packets.remove(packet.payload.key() as usize);
    }

    /// The controller's window, threshold and phase; none before its first packet.
    fn control(&self) -> Option<Control> {
        self.watch.look(|seen| seen.control)
    }

    /// Counts the window up to `now`.
    fn note_cwnd(&mut self, now: Time) {
        let (sum, since, cwnd) = self.cwnd_integral;
        let area = u128::from(cwnd) * u128::from(now.saturating_sub(since).as_nanos());
        self.cwnd_integral = (sum + area, now, self.control().map_or(0, |control| control.cwnd));
    }

    /// An end, once its connection has begun.
    fn peer(&mut self, end: End) -> Option<&mut Peer> {
        let (sender, receiver) = &mut **self.ends.as_mut()?;
        Some(match end {
            End::Sender => sender,
            End::Receiver => receiver,
        })
    }

    /// When an end has something to do by itself.
    pub(super) fn due(&mut self, end: End) -> Time {
        self.peer(end).and_then(Peer::deadline).unwrap_or(Time::MAX)
    }

    /// The next packet that an end may send now.
    fn transmit(&mut self, i: u32, end: End, now: Time) -> Option<Packet> {
        let datagram = self.peer(end)?.transmit(now)?;
        let ect = if self.config.ecn { ect(datagram.ecn) } else { 0 };
        let flags = ect | if end == End::Receiver { Packet::ACK } else { 0 };
        let size = index_u16(datagram.bytes.len()) + HEADERS;
        let ecn = datagram.ecn.filter(|_| ect != 0);
        let content = Datagram { ecn, ..datagram };
        let payload = Payload::Stored(index_u32(self.packets.insert(content)));
        Some(Packet { at: now, payload, flow: i, queued: 0, size, flags, hop: 0 })
    }

    /// No new data from now on.
    pub(super) fn stop(&mut self) {
        if let Some(ends) = &mut self.ends {
            ends.0.stop();
        }
    }

    /// Its sender's figures so far.
    pub(super) fn figures(&mut self, now: Time) -> EndFigures {
        self.note_cwnd(now);
        let (control, view) = self.watch.look(|seen| (seen.control, seen.view));
        let persistent = self.watch.look(|seen| seen.persistent);
        let received = self.ends.as_ref().map_or(0, |ends| ends.1.received());
        let stats = self.ends.as_mut().and_then(|ends| ends.0.stats());
        let lost = stats.map_or(0, |stats| stats.lost_packets);
        let in_flight = view.map_or(0, |view| view.in_flight);
        let mtu = stats.map_or(0, |stats| stats.mtu);
        EndFigures {
            received: self.received,
            counters: Counters {
                sent: self.sent,
                sent_bytes: self.sent_bytes,
                // QUIC sends the frames of lost packets in new ones (docs/quic.md): their number is that of the lost
                // ones.
                retransmitted: lost,
                lost,
                timeouts: u64::from(persistent),
            },
            delivered_bytes: received,
            new_bytes: received + u64::from(in_flight) * u64::from(mtu),
            outstanding: u64::from(in_flight),
            cwnd_integral: self.cwnd_integral.0,
            sender: SenderState {
                phase: control.map_or(0, |control| control.phase),
                ca: view.map_or(CaState::Open, |view| view.ca),
                full_control: false,
                srtt: view.map_or(Time::ZERO, |view| view.srtt),
                cwnd: Some(control.map_or(0, |control| control.cwnd)),
                in_flight,
                pacing_rate_bps: control
                    .and_then(|control| control.pacing_rate)
                    .filter(|&rate| rate < knee_core::Rate::MAX)
                    .map(knee_core::Rate::as_bps),
            },
        }
    }
}

impl HostPair<'_, QuicFlow> {
    /// The flow starts.
    pub(super) fn start(&mut self, at: &At<'_>, out: &mut impl Outbox) {
        self.open(at, out);
    }

    /// Opens the connection. Gives the end that does.
    pub(super) fn open(&mut self, at: &At<'_>, out: &mut impl Outbox) -> End {
        let log = self.log();
        let flow = &mut *self.ends;
        let QuicConfig { carries, seed, tls, endpoints, .. } = &flow.config;
        let settings = |end, log| Settings {
            seed: seed ^ end,
            answers: matches!(carries, Carries::Messages(End::Receiver, _)),
            tls: *tls,
            log,
            ..quic_settings(endpoints)
        };
        let (sends, takes) = (settings(0, log), settings(1, None));
        flow.ends = Some(Box::new(match carries {
            Carries::Stream(bytes) => {
                (Peer::connect(&*flow.stack, *bytes, &sends, at.now), Peer::receiver(&*flow.stack, &takes))
            }
            Carries::Messages(End::Sender, _) => {
                (Peer::client(&*flow.stack, &sends, at.now), Peer::server(&*flow.stack, &takes))
            }
            Carries::Messages(End::Receiver, stack) => {
                (Peer::server(&*flow.stack, &sends), Peer::client(&**stack, &takes, at.now))
            }
        }));
        let client = flow.client();
        self.transmit(client, at, out);
        client
    }

    /// The application, or, where not, the other end writes a message of `bytes`. Gives the message's end in the
    /// stream, and the end that sends it.
    pub(super) fn write(&mut self, asks: bool, bytes: u64, at: &At<'_>, out: &mut impl Outbox) -> (u64, End) {
        let end = match (asks, self.ends.client()) {
            (true, end) => end,
            (false, End::Sender) => End::Receiver,
            (false, End::Receiver) => End::Sender,
        };
        let Some(peer) = self.ends.peer(end) else { return (u64::MAX, end) };
        let message = peer.send(bytes);
        self.transmit(end, at, out);
        (message, end)
    }

    /// A packet with a datagram has arrived at its end now.
    pub(super) fn on_packet(&mut self, at: &At<'_>, packet: &Packet, out: &mut impl Outbox) {
        let flow = &mut *self.ends;
        let mut datagram = flow.packets.remove(packet.payload.key() as usize);
        if packet.has(Packet::CE) {
            datagram.ecn = Some(EcnCodepoint::Ce);
        }
        let end = End::of(packet);
        if end == End::Receiver {
            flow.received.count(packet);
        }
        if let Some(peer) = flow.peer(end) {
            peer.receive(at.now, datagram);
        }
        self.transmit(end, at, out);
    }

    /// The timers of an end may be due.
    pub(super) fn on_timer(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        let Some(peer) = self.ends.peer(end) else { return };
        if peer.deadline().is_some_and(|due| due <= at.now) {
            peer.fire(at.now);
            self.transmit(end, at, out);
        }
    }

    /// Sends what an end may send: it has begun, a datagram has come to it, or its timer has fired.
    fn transmit(&mut self, end: End, at: &At<'_>, out: &mut impl Outbox) {
        let (i, flow) = (self.i, &mut *self.ends);
        match end {
            End::Sender => {
                flow.note_cwnd(at.now);
                while let Some(packet) = flow.transmit(i, end, at.now) {
                    flow.sent += 1;
                    flow.sent_bytes += u64::from(packet.size);
                    out.data(packet, 1, at);
                }
                self.note(at.now, out);
            }
            End::Receiver => {
                while let Some(packet) = flow.transmit(i, end, at.now) {
                    out.ack(packet, at);
                }
            }
        }
    }

    /// Notes what has become of the sender.
    fn note(&mut self, now: Time, out: &mut impl Outbox) {
        let flow = &mut *self.ends;
        let finished = flow.ends.as_ref().is_some_and(|ends| ends.0.finished());
        // What was sent may have changed the window, which holds from now on.
        flow.note_cwnd(now);
        let watch = flow.watch.clone();
        let (control, ca, persistent) = watch.look(|seen| {
            for rtt in seen.rtts.drain(..) {
                self.book_rtt(Some(rtt), out);
            }
            (seen.control, seen.view.map_or(CaState::Open, |view| view.ca), seen.persistent)
        });
        if let Some(control) = control {
            self.note_states(now, &control, ca, persistent, out);
        }
        if finished {
            self.complete(now, out);
        }
    }
}

pub(in crate::simulation) use stacks::find;

/// A QUIC connection that runs outside a simulation: what the same flow has inside one.
pub struct QuicSetup {
    /// Its algorithm, as the registry describes it.
    pub entry: &'static Entry,
    /// Opens it, under its algorithm.
    pub stack: Arc<dyn Stack>,
    /// Names its random numbers.
    pub seed: u64,
    /// True if its packets are ECN-capable.
    pub ecn: bool,
}

/// The setup of flow `i`, whose controllers `watch` sees.
///
/// # Errors
/// If the flow's congestion control or a parameter of it does not exist.
pub fn quic_setup(spec: &Spec, i: usize, watch: Arc<Watch>) -> Result<QuicSetup, SpecError> {
    let (flow, seed) = (&spec.flows[i], quic_seed(spec, i));
    let algorithm = algorithm(flow, &[])?;
    let ecn = ecn(flow.ecn, algorithm.entry.needs.ecn).is_on();
    Ok(QuicSetup { entry: algorithm.entry, stack: algorithm.stack(i, seed, watch), seed, ecn })
}

/// The settings of a connection's ends as `spec` has them.
pub fn quic_settings(spec: &QuicSpec) -> Settings {
    Settings {
        receive_window: spec.receive_window.unwrap_or(NO_LIMIT),
        stream_receive_window: spec.stream_receive_window.unwrap_or(NO_LIMIT),
        mtu: [LEAST_MTU, spec.initial_mtu, spec.stacks_mtu()],
        acks: AckFrequency {
            max_delay: Time::from_nanos(spec.stacks_ack_delay()),
            threshold: spec.stacks_ack_threshold(),
        },
        ..Settings::default()
    }
}

/// Flags of a packet that leaves with this codepoint in its IP header.
const fn ect(codepoint: Option<EcnCodepoint>) -> u8 {
    match codepoint {
        Some(EcnCodepoint::Ect0) => Ecn::CLASSIC.codepoint,
        Some(EcnCodepoint::Ect1) => Ecn::L4S.codepoint,
        Some(EcnCodepoint::Ce) | None => 0,
    }
}

fn quic_seed(spec: &Spec, i: usize) -> u64 {
    Rng::stream(spec.flows[i].seed(spec.seed), "quic").next_u64()
}

impl Algorithm {
    /// Opens the QUIC connection of flow `i` under it; `watch` sees its controllers.
    fn stack(&self, i: usize, seed: u64, watch: Arc<Watch>) -> Arc<dyn Stack> {
        if let Some(stack) = stacks::of(self.entry, &self.params, &watch) {
            return stack;
        }
        let control: Arc<dyn ControllerFactory + Send + Sync> = if let Some(OwnMake::Quinn(factory)) = &self.make {
            Arc::new(StackControl::new(factory(i), watch))
        } else {
            let control = knee_quinn::Control::of(self.entry, self.params.clone()).seeded(seed).watched(watch);
            match self.make.clone() {
                Some(OwnMake::Algorithm(make)) => {
                    Arc::new(control.made_by(Arc::new(move |params, init| make(params, init, i))))
                }
                Some(OwnMake::Policy(plan)) => Arc::new(control.made_by(Arc::new(move |_, init| plan.make(init)))),
                _ => Arc::new(control),
            }
        };
        Arc::new(Quinn(control))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3168, 5: ECT(0) and ECT(1) say that a packet is ECN-capable; RFC 9331, 4.1: ECT(1), that it is L4S's. Of the
    /// stacks here none sends ECT(1).
    #[test]
    fn ect_1_is_that_of_l4s() {
        assert_eq!(ect(None), 0);
        assert_eq!(ect(Some(EcnCodepoint::Ect0)), Packet::ECT);
        let l4s = ect(Some(EcnCodepoint::Ect1));
        assert_eq!((l4s & Packet::ECT, l4s & Packet::L4S), (Packet::ECT, Packet::L4S));
    }
}
