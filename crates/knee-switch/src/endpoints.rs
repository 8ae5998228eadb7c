//! The endpoints of QUIC flows in real time: what is due by their timers and pacing happens, their datagrams go out
//! through sockets, and what the sockets have goes to them. The connections are the simulator's, on the machine's
//! clock.

use crate::account::Account;
use crate::clock::{self, Clock};
use crate::config::Config;
use crate::ferry::{self, FORCED_SLEEP, MAX_BUSY};
use crate::late::{Late, LateFigures};
use crate::socket::{Buffers, Socket};
use knee_core::Time;
use knee_core::convert::{index, index_u16, saturating_i64};
use knee_net::spec::{FlowSpec, QuicSpec, Transport};
use knee_qlog::Log;
use knee_quinn::{Datagram, Peer, Settings, Stack, Watch};
use knee_sim::SpecError;
use knee_sim::sender_log::open_logs;
use knee_sim::simulation::{QuicSetup, quic_settings, quic_setup};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// The longest lateness that a sender makes up for at once. Linux's own pacing knows such a credit too.
const PACING_CREDIT: Time = Time::from_millis(1);
/// Datagrams that an end may send in a row before others have their turn.
const BURST: usize = 64;
/// How long the endpoints sleep at the most: how late they wake up then shows how late they would have taken a packet.
const LOOK: Time = Time::from_millis(10);
/// Sockets that are looked at after one wait.
const READY: usize = 256;

/// How the machine did with the endpoints.
#[derive(Clone, Debug, Serialize)]
pub struct Effort {
    /// How late timers, paced departures and a look every 10 ms were.
    #[serde(flatten)]
    pub late: LateFigures,
    /// Datagrams that the kernel refused to send.
    pub refused: u64,
    /// Processor time, s.
    pub processor_s: f64,
    /// Scheduling priority of the thread, in words, as of the switch's.
    pub priority: &'static str,
}

/// One end of a connection and its socket.
struct QuicEnd {
    socket: Socket,
    peer: Option<Peer>,
    /// Destination of its datagrams; a receiver learns it from the first that comes.
    to: Option<SocketAddr>,
    /// True if it may have something to send: a datagram has come to it, or its timer has fired.
    acts: bool,
}

impl QuicEnd {
    const fn new(socket: Socket, to: Option<SocketAddr>) -> Self {
        Self { socket, peer: None, to, acts: false }
    }
}

/// A QUIC flow.
struct QuicFlow {
    stack: Arc<dyn Stack>,
    account: Arc<Account>,
    bytes: Option<u64>,
    ecn: bool,
    seed: u64,
    tls: bool,
    endpoints: QuicSpec,
    stop: Time,
    /// Sender and receiver.
    ends: [QuicEnd; 2],
    /// When something happens by itself next.
    due: Time,
    stopped: bool,
}

/// Why there are no endpoints.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The specification names what does not exist.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The kernel has no sockets left, or no way to wait for them.
    #[error("no socket for a QUIC flow: {0}")]
    Io(#[from] io::Error),
    /// The qlog files cannot be made.
    #[error("no qlog file can be made: {0}")]
    Log(io::Error),
}

/// All QUIC flows of a run.
pub struct Endpoints {
    flows: Vec<QuicFlow>,
    ready: OwnedFd,
    refused: u64,
}

/// The sockets of the QUIC flows that have an end on a side: opened in its namespace, in the order of flows.
pub struct Sockets(Vec<Option<Socket>>);

impl Sockets {
    /// Opens the sockets of `side` in the calling thread's namespace.
    ///
    /// # Errors
    /// If the kernel has none left, or a port is taken.
    pub fn open(config: &Config, side: usize) -> Result<Self, SetupError> {
        let socket = |(i, flow): (usize, &FlowSpec)| {
            let port = if usize::from(flow.reverse) == side { 0 } else { config.port + index_u16(i) };
            (flow.transport == Transport::Quic).then(|| Socket::open(port)).transpose()
        };
        Ok(Self(config.spec.flows.iter().enumerate().map(socket).collect::<io::Result<_>>()?))
    }
}

impl Endpoints {
    /// The QUIC flows of a run at rest, with the sockets of both sides. `None` if it has no such flow. Also gives their
    /// accounts, by flow.
    ///
    /// # Errors
    /// If a congestion control or a parameter does not exist, or the kernel has no epoll instance left.
    #[expect(clippy::type_complexity, reason = "two things that belong to two places")]
    pub fn new(
        config: &Config,
        sockets: [Sockets; 2],
    ) -> Result<(Option<Self>, Vec<Option<Arc<Account>>>), SetupError> {
        let logs = config.qlog.as_ref().map(|folder| {
            let wanted = |flow: &FlowSpec| flow.transport == Transport::Quic;
            open_logs(&config.spec, "host", wanted, |name| File::create(folder.join(name)))
        });
        let mut logs = logs.transpose().map_err(SetupError::Log)?.unwrap_or_default().into_iter();
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let (mut flows, mut accounts): (Vec<QuicFlow>, Vec<_>) = (Vec::new(), Vec::new());
        let [here, there] = sockets;
        for (i, (spec, sockets)) in config.spec.flows.iter().zip(here.0.into_iter().zip(there.0)).enumerate() {
            let log = logs.next().flatten();
            let (Some(a), Some(b)) = sockets else {
                accounts.push(None);
                continue;
            };
            let source = usize::from(spec.reverse);
            let ends = if source == 0 { [a, b] } else { [b, a] };
            for (end, socket) in ends.iter().enumerate() {
                let data = epoll::EventData::new_u64((flows.len() * 2 + end) as u64);
                epoll::add(&ready, socket, data, epoll::EventFlags::IN).map_err(io::Error::from)?;
            }
            let to = SocketAddr::new(config.addresses[1 - source].into(), ends[1].port()?);
            let flow = QuicFlow::new(config, i, ends, to, log)?;
            accounts.push(Some(flow.account.clone()));
            flows.push(flow);
        }
        Ok(((!flows.is_empty()).then_some(Self { flows, ready, refused: 0 }), accounts))
    }

    /// Sends and receives until `end`, on a thread of this priority. With a real-time one it sleeps now and then, as
    /// the switch does.
    ///
    /// # Errors
    /// If sockets cannot be waited for, or a connection broke.
    pub fn run(mut self, clock: Clock, end: Time, priority: &'static str) -> Result<Effort, String> {
        let (mut late, mut buffers) = (Late::default(), Buffers::default());
        let mut events = Vec::with_capacity(READY);
        let (mut slept, mut look) = (Time::ZERO, LOOK);
        loop {
            let now = clock.now();
            if now >= end {
                break;
            }
            if look <= now {
                late.count(now - look);
                look = now + LOOK;
            }
            for flow in self.flows.iter_mut().filter(|flow| flow.due <= now) {
                late.count(now - flow.due);
                flow.fire(now);
                self.refused += flow.transmit(clock);
                flow.check()?;
            }
            let next = self.flows.iter().map(|flow| flow.due).min().unwrap_or(end).min(look).min(end);
            let before = clock.now();
            if priority == "fifo" && before > slept + MAX_BUSY {
                ferry::sleep(&[], FORCED_SLEEP).map_err(|error| error.to_string())?;
            }
            wait(&self.ready, next.saturating_sub(clock.now()), &mut events).map_err(|error| error.to_string())?;
            if clock.now() > before + FORCED_SLEEP {
                slept = clock.now();
            }
            for key in &events {
                let flow = &mut self.flows[key / 2];
                flow.receive(key % 2, &mut buffers, clock);
                self.refused += flow.transmit(clock);
                flow.check()?;
            }
        }
        for log in self.flows.iter().filter_map(|flow| flow.account.log.as_ref()) {
            log.finish().map_err(|error| format!("a qlog file cannot be written: {error}"))?;
        }
        Ok(Effort {
            late: late.figures(),
            refused: self.refused,
            processor_s: clock::processor().as_secs_f64(),
            priority,
        })
    }
}

impl QuicFlow {
    fn new(config: &Config, i: usize, ends: [Socket; 2], to: SocketAddr, log: Option<Log>) -> Result<Self, SpecError> {
        let spec = &config.spec.flows[i];
        let watch = Arc::new(Watch::default());
        let QuicSetup { entry, stack, seed, ecn } = quic_setup(&config.spec, i, watch.clone())?;
        let start = Time::from_nanos(spec.start);
        let account = Arc::new(Account::new(entry, watch, start, log));
        let [sender, receiver] = ends;
        Ok(Self {
            stack,
            account,
            bytes: spec.bytes,
            ecn,
            seed,
            tls: spec.tls,
            endpoints: config.spec.quic,
            stop: Time::from_nanos(spec.stop),
            ends: [QuicEnd::new(sender, Some(to)), QuicEnd::new(receiver, None)],
            due: start,
            stopped: false,
        })
    }

    /// Handles what is due at `now`: opens the connection, fires timers, stops the application.
    fn fire(&mut self, now: Time) {
        if self.ends[0].peer.is_none() {
            let settings = |end, log| Settings {
                seed: self.seed ^ end,
                tls: self.tls,
                pacing_credit: PACING_CREDIT,
                log,
                ..quic_settings(&self.endpoints)
            };
            let log = self.account.log.clone();
            let sender = Peer::connect(&*self.stack, self.bytes, &settings(0, log), now);
            let receiver = Peer::receiver(&*self.stack, &settings(1, None));
            (self.ends[0].peer, self.ends[1].peer) = (Some(sender), Some(receiver));
            self.ends[0].acts = true;
        }
        for QuicEnd { peer, acts, .. } in &mut self.ends {
            if let Some(peer) = peer
                && peer.deadline().is_some_and(|due| due <= now)
            {
                peer.fire(now);
                *acts = true;
            }
        }
        if self.stop <= now && !self.stopped {
            self.stopped = true;
            self.ends[0].peer.iter_mut().for_each(Peer::stop);
            self.ends[0].acts = true;
        }
    }

    /// Takes what waits in the socket of an end.
    fn receive(&mut self, end: usize, buffers: &mut Buffers, clock: Clock) {
        let QuicEnd { socket, peer, to, acts } = &mut self.ends[end];
        *acts = true;
        socket.receive(buffers, |from, datagram| {
            to.get_or_insert(from);
            if let Some(peer) = peer {
                peer.receive(clock.now(), datagram);
            }
        });
    }

    /// Lets go what may, and notes what has become of the connection; gives the datagrams that the kernel refused.
    fn transmit(&mut self, clock: Clock) -> u64 {
        let mut refused = 0;
        let mut more = false;
        for QuicEnd { socket, peer, to, acts } in self.ends.iter_mut().filter(|end| end.acts) {
            let (Some(peer), Some(to)) = (peer, *to) else { continue };
            *acts = false;
            let mut left = BURST;
            while let Some(datagram) = peer.transmit(clock.now()) {
                let ecn = datagram.ecn.filter(|_| self.ecn);
                refused += u64::from(!socket.send(to, &Datagram { ecn, ..datagram }));
                left -= 1;
                if left == 0 {
                    (*acts, more) = (true, true);
                    break;
                }
            }
        }
        let now = clock.now();
        if let [QuicEnd { peer: Some(sender), .. }, QuicEnd { peer: Some(receiver), .. }] = &mut self.ends {
            let timers = [sender.deadline(), receiver.deadline()].into_iter().flatten().min();
            let stop = if self.stopped { Time::MAX } else { self.stop };
            self.due = if more { now } else { timers.unwrap_or(Time::MAX).min(stop) };
            self.account.note(sender, receiver, now);
        }
        refused
    }

    /// Returns true if the connection still is there.
    fn check(&self) -> Result<(), String> {
        let ended = self.ends.iter().find_map(|end| end.peer.as_ref()?.ended());
        ended.map_or(Ok(()), |why| Err(why.to_string()))
    }
}

/// Waits for datagrams, for no longer than `span`: puts the sockets that have some into `events`.
fn wait(ready: &OwnedFd, span: Time, events: &mut Vec<usize>) -> io::Result<()> {
    let (ns, second) = (span.as_nanos(), 1_000_000_000);
    let timeout = Timespec { tv_sec: saturating_i64(ns / second), tv_nsec: saturating_i64(ns % second) };
    // epoll itself waits for whole milliseconds on older kernels.
    match poll(&mut [PollFd::new(ready, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut found = Vec::with_capacity(READY);
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    epoll::wait(ready, rustix::buffer::spare_capacity(&mut found), Some(&none))?;
    events.clear();
    events.extend(found.iter().map(|event: &epoll::Event| index(event.data.u64())));
    Ok(())
}
