//! The other end: takes in what is sent, and answers.

use crate::control::{Listener, Told};
use crate::error::{Failure, failed};
use crate::poller::{Poller, monotonic_ns};
use crate::record::EndRecord;
use crate::stream;
use crate::task::Task;
use crate::ticks::Ticks;
use knee_core::convert::saturating_u16;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{Backlog, SockaddrIn, bind, listen};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Tokens of the listening socket and the pipe.
const LISTENER: u64 = u64::MAX - 2;
/// See above.
const CONTROL: u64 = u64::MAX - 3;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

struct Peer {
    stream: TcpStream,
    port: u16,
    /// Bytes of the exchange that is being received.
    received: u64,
    /// When answers are due, and how long they are.
    answers: VecDeque<(u64, u64)>,
    unsent: u64,
}

/// The server of a flow.
pub struct Server {
    poller: Poller,
    listener: TcpListener,
    control: Listener,
    /// Exchanges that have been told and not been received, by the client's port.
    told: BTreeMap<u16, VecDeque<Told>>,
    peers: BTreeMap<u64, Peer>,
    accepted: u64,
    /// When which peer has an answer due.
    due: BTreeSet<(u64, u64)>,
    received: u64,
    record: EndRecord,
    buffer: Vec<u8>,
}

impl Server {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn new(task: &Task) -> Result<Self, Failure> {
        let socket = stream::make(&task.cc)?;
        let here = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, task.port));
        bind(socket.as_raw_fd(), &here).map_err(failed(format!("port {} is not free", task.port)))?;
        let backlog = Backlog::new(BACKLOG).map_err(failed("cannot listen"))?;
        listen(&socket, backlog).map_err(failed("cannot listen"))?;
        let listener = TcpListener::from(socket);
        let control = Listener::open(&task.control).map_err(failed("cannot open the control pipe"))?;
        let poller = Poller::new().map_err(failed("cannot wait for sockets"))?;
        let refused = || failed("cannot wait for a socket");
        poller.watch(&listener, EpollFlags::EPOLLIN, LISTENER).map_err(refused())?;
        poller.watch(control.file(), EpollFlags::EPOLLIN, CONTROL).map_err(refused())?;
        Ok(Self {
            poller,
            listener,
            control,
            told: BTreeMap::new(),
            peers: BTreeMap::new(),
            accepted: 0,
            due: BTreeSet::new(),
            received: 0,
            record: EndRecord::default(),
            buffer: vec![0; stream::CHUNK],
        })
    }

    fn accept(&mut self) -> Result<(), Failure> {
        loop {
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The client has given up meanwhile.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(failed("cannot accept a connection")(error)),
            };
            stream.set_nonblocking(true).map_err(failed("cannot set up a connection"))?;
            let token = self.accepted;
            self.accepted += 1;
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
            self.poller.watch(&stream, flags, token).map_err(failed("cannot wait for a socket"))?;
            let peer = Peer { stream, port: from.port(), received: 0, answers: VecDeque::new(), unsent: 0 };
            self.peers.insert(token, peer);
        }
    }

    fn ready(&mut self, token: u64, flags: EpollFlags, now: u64) -> Result<(), Failure> {
        let Some(peer) = self.peers.get_mut(&token) else { return Ok(()) };
        let mut ended = false;
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            let read = match stream::read(&peer.stream, &mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok((0, true)),
                read => read,
            };
            let (bytes, over) = read.map_err(failed("a connection broke"))?;
            ended = over;
            self.received += bytes;
            peer.received += bytes;
            self.answer_received(token, now);
        }
        let Some(peer) = self.peers.get_mut(&token) else { return Ok(()) };
        if ended {
            self.due.retain(|&(_, of)| of != token);
            self.peers.remove(&token);
        } else if flags.contains(EpollFlags::EPOLLOUT) && peer.unsent > 0 {
            peer.unsent -= stream::write(&peer.stream, peer.unsent).map_err(failed("a connection broke"))?;
        }
        Ok(())
    }

    /// Takes exchanges whose bytes are all there.
    fn answer_received(&mut self, token: u64, now: u64) {
        let Some(peer) = self.peers.get_mut(&token) else { return };
        let Some(told) = self.told.get_mut(&peer.port) else { return };
        while let Some(first) = told.front()
            && peer.received >= first.up
        {
            peer.received -= first.up;
            if first.down > 0 {
                let at = now + first.service_ns;
                peer.answers.push_back((at, first.down));
                self.due.insert((at, token));
            }
            told.pop_front();
        }
        if told.is_empty() {
            self.told.remove(&peer.port);
        }
    }

    /// Sends the answers that are due; of one connection in their order.
    fn send_due(&mut self, now: u64) -> Result<(), Failure> {
        while let Some(&(at, token)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let Some(peer) = self.peers.get_mut(&token) else { continue };
            while let Some(&(at, bytes)) = peer.answers.front()
                && at <= now
            {
                peer.answers.pop_front();
                peer.unsent += bytes;
            }
            let sent = stream::write(&peer.stream, peer.unsent);
            peer.unsent -= sent.map_err(failed("a connection broke"))?;
        }
        Ok(())
    }
}

/// Serves from `start_ns` on the monotonic clock to the end of the run.
///
/// # Errors
/// Where a connection breaks or the kernel refuses something.
pub fn run(mut server: Server, task: &Task, start_ns: u64) -> Result<EndRecord, Failure> {
    server.poller.end_with_parent().map_err(failed("cannot wait for the parent"))?;
    let mut found = Vec::new();
    let mut ticks = Ticks::new(task);
    loop {
        let now = monotonic_ns().map_err(failed("there is no clock"))?.saturating_sub(start_ns);
        ticks.count(now, server.received, &mut server.record);
        if now >= task.duration {
            break;
        }
        // An exchange is told before its bytes are sent, so this comes first.
        for told in server.control.hear().map_err(failed("the control pipe broke"))? {
            server.told.entry(saturating_u16(told.port)).or_default().push_back(told);
        }
        server.accept()?;
        for (token, flags) in std::mem::take(&mut found) {
            server.ready(token, flags, now)?;
        }
        server.send_due(now)?;
        let due = server.due.first().map_or(u64::MAX, |&(at, _)| at);
        let next = task.duration.min(due).min(ticks.next());
        server.poller.wait(start_ns + next, &mut found).map_err(failed("cannot wait"))?;
    }
    for (_, peer) in std::mem::take(&mut server.peers) {
        stream::abort(peer.stream);
    }
    Ok(server.record)
}
