//! Flows of datagrams: the end that sends them, and the end that counts them or sends them back.
//!
//! A datagram carries its number in its first four bytes; when it was sent the sender has on record.

use crate::error::{Failure, failed};
use crate::poller::{Poller, monotonic_ns};
use crate::record::{Datagram, EndRecord};
use crate::task::Task;
use knee_core::Time;
use knee_core::convert::index_u16;
use knee_traffic::datagrams::{HEADERS, Next, Source};
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::sockopt::{IpRecvTos, Ipv4Tos};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// The bits of ECN in the type of service, and their value on a marked packet (RFC 3168).
const ECN: u8 = 3;
/// See above.
const CE: u8 = 3;
/// The largest datagram, bytes as an IP packet.
const LARGEST: usize = 1500;

fn make(task: &Task, here: SocketAddrV4) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(here).map_err(failed(format!("port {} is not free", here.port())))?;
    socket.set_nonblocking(true).map_err(failed("cannot set up a socket"))?;
    setsockopt(&socket, IpRecvTos, &true).map_err(failed("cannot set IP_RECVTOS"))?;
    if task.ecn != 0 {
        setsockopt(&socket, Ipv4Tos, &i32::from(task.ecn & ECN)).map_err(failed("cannot set IP_TOS"))?;
    }
    Ok(socket)
}

/// One datagram that arrived: whose it is, its size as an IP packet, and whether it was marked.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(SockaddrIn, u16, bool)>> {
    let mut space = nix::cmsg_space!(u8);
    let mut into = [IoSliceMut::new(buffer)];
    let message = match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut into, Some(&mut space), MsgFlags::MSG_DONTWAIT) {
        Ok(message) => message,
        // An ICMP error: nobody listens yet.
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let is_ce = |control| matches!(control, ControlMessageOwned::Ipv4Tos(tos) if tos & ECN == CE);
    let ce = message.cmsgs()?.any(is_ce);
    let size = index_u16(message.bytes) + HEADERS;
    Ok(message.address.map(|from| (from, size, ce)))
}

fn number(buffer: &[u8]) -> u32 {
    buffer.first_chunk().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes))
}

/// The end that sends.
pub struct Sender {
    socket: UdpSocket,
    poller: Poller,
    record: EndRecord,
    next: u32,
}

impl Sender {
    /// A socket. Routes are there only once the run starts.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn new(task: &Task) -> Result<Self, Failure> {
        let socket = make(task, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
        let poller = Poller::new().map_err(failed("cannot wait for a socket"))?;
        poller
            .watch(&socket, EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0)
            .map_err(failed("cannot wait for a socket"))?;
        Ok(Self { socket, poller, record: EndRecord::default(), next: 0 })
    }

    fn send(&mut self, at_ns: u64, bytes: u16) -> Result<(), Failure> {
        let mut packet = [0; LARGEST];
        packet[..4].copy_from_slice(&self.next.to_be_bytes());
        let size = usize::from(bytes.saturating_sub(HEADERS)).clamp(4, LARGEST);
        match self.socket.send(&packet[..size]) {
            // A datagram that the device does not take is lost.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(failed("a datagram cannot be sent")(error)),
        }
        self.record.sent.push(Datagram { at_ns, number: self.next, bytes, ce: 0 });
        self.next += 1;
        Ok(())
    }

    /// Puts the echoes that have come on record.
    fn take_echoes(&mut self, at_ns: u64) -> Result<(), Failure> {
        let mut buffer = [0; LARGEST];
        while let Some((_, bytes, ce)) = receive(&self.socket, &mut buffer).map_err(failed("a socket broke"))? {
            self.record.arrived.push(Datagram { at_ns, number: number(&buffer), bytes, ce: u16::from(ce) });
        }
        Ok(())
    }
}

/// Sends from `start_ns` on the monotonic clock to the end of the run.
///
/// # Errors
/// Where the kernel refuses something.
pub fn send(mut sender: Sender, source: &mut dyn Source, task: &Task, start_ns: u64) -> Result<EndRecord, Failure> {
    sender.poller.end_with_parent().map_err(failed("cannot wait for the parent"))?;
    sender.socket.connect((task.address, task.port)).map_err(failed("there is no way to the other end"))?;
    let mut found = Vec::new();
    let mut due = task.start;
    loop {
        let mut now = monotonic_ns().map_err(failed("there is no clock"))?.saturating_sub(start_ns);
        sender.take_echoes(now)?;
        while now >= due && now < task.stop {
            match source.next(Time::from_nanos(now)) {
                Next::Send(bytes) => sender.send(now, bytes)?,
                Next::Wait(at) => due = at.as_nanos(),
            }
            now = monotonic_ns().map_err(failed("there is no clock"))?.saturating_sub(start_ns);
        }
        if now >= task.duration {
            return Ok(sender.record);
        }
        let next = if now < task.stop { due.min(task.duration) } else { task.duration };
        sender.poller.wait(start_ns + next, &mut found).map_err(failed("cannot wait"))?;
    }
}

/// The other end.
pub struct Receiver {
    socket: UdpSocket,
    poller: Poller,
    echoes: bool,
    record: EndRecord,
}

impl Receiver {
    /// Receives from now on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn new(task: &Task) -> Result<Self, Failure> {
        let socket = make(task, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, task.port))?;
        let poller = Poller::new().map_err(failed("cannot wait for a socket"))?;
        poller.watch(&socket, EpollFlags::EPOLLIN, 0).map_err(failed("cannot wait for a socket"))?;
        let echoes = task.traffic.echoes();
        Ok(Self { socket, poller, echoes, record: EndRecord::default() })
    }
}

/// Receives until the end of the run; what is an echo's goes back at once.
///
/// # Errors
/// Where the kernel refuses something.
pub fn receive_all(mut receiver: Receiver, task: &Task, start_ns: u64) -> Result<EndRecord, Failure> {
    receiver.poller.end_with_parent().map_err(failed("cannot wait for the parent"))?;
    let mut found = Vec::new();
    let mut buffer = [0; LARGEST];
    loop {
        let at_ns = monotonic_ns().map_err(failed("there is no clock"))?.saturating_sub(start_ns);
        while let Some((from, bytes, ce)) = receive(&receiver.socket, &mut buffer).map_err(failed("a socket broke"))? {
            receiver.record.arrived.push(Datagram { at_ns, number: number(&buffer), bytes, ce: u16::from(ce) });
            if receiver.echoes {
                let size = usize::from(bytes - HEADERS);
                // An echo that the device does not take is lost.
                let _ = receiver.socket.send_to(&buffer[..size], SocketAddrV4::from(from));
            }
        }
        if at_ns >= task.duration {
            return Ok(receiver.record);
        }
        receiver.poller.wait(start_ns + task.duration, &mut found).map_err(failed("cannot wait"))?;
    }
}
