//! The end at which the application runs: connections as a [`Net`].

use crate::control::ControlPipe;
use crate::error::{Failure, failed};
use crate::poller::{Poller, monotonic_ns};
use crate::record::EndRecord;
use crate::stream;
use crate::task::Task;
use crate::ticks::Ticks;
use knee_core::Time;
use knee_core::convert::{low_u32, saturating_u32};
use knee_traffic::{Application, Completion, Conn, Exchange, Net};
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::SockaddrIn;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddrV4, TcpStream};

/// The ends of an exchange's bytes, counted from the connection's start.
struct ExchangeEnds {
    up_end: u64,
    down_end: u64,
    /// True if it ends with an answer; else with the ACK of its last byte.
    answered: bool,
}

struct Connection {
    stream: TcpStream,
    port: u16,
    connected: bool,
    /// To be closed once nothing is pending.
    closing: bool,
    unsent: u64,
    acked: u64,
    received: u64,
    asked_up: u64,
    asked_down: u64,
    pending: VecDeque<ExchangeEnds>,
    /// Exchanges started so far.
    exchanges: u64,
}

impl Connection {
    fn is_complete(&self, pending: &ExchangeEnds) -> bool {
        if pending.answered { self.received >= pending.down_end } else { self.acked >= pending.up_end }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.connected {
            self.unsent -= stream::write(&self.stream, self.unsent)?;
        }
        Ok(())
    }
}

/// Bytes acknowledged, where `known` were and the kernel reports `last`, the number of the last one modulo 2^32.
const fn acked_bytes(known: u64, last: u32) -> u64 {
    // Reports can overtake each other: an older one counts back from what is known.
    let newly = last.wrapping_add(1).wrapping_sub(low_u32(known));
    if newly < 1 << 31 { known + newly as u64 } else { known }
}

/// Connections over sockets.
pub struct Sockets {
    server: SockaddrIn,
    cc: String,
    poller: Poller,
    control: ControlPipe,
    connections: BTreeMap<u32, Connection>,
    opened: u32,
    now: Time,
    wake: Option<Time>,
    flow: u32,
    received: u64,
    record: EndRecord,
    failure: Option<Failure>,
    buffer: Vec<u8>,
}

impl Sockets {
    /// The sockets of a task, without a connection.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn new(task: &Task) -> Result<Self, Failure> {
        // An algorithm that the kernel does not know should fail before the run.
        stream::make(&task.cc)?;
        Ok(Self {
            server: SocketAddrV4::new(task.address, task.port).into(),
            cc: task.cc.clone(),
            poller: Poller::new().map_err(failed("cannot wait for sockets"))?,
            control: ControlPipe::open(&task.control).map_err(failed("cannot open the control pipe"))?,
            connections: BTreeMap::new(),
            opened: 0,
            now: Time::ZERO,
            wake: None,
            flow: task.flow,
            received: 0,
            record: EndRecord::default(),
            failure: None,
            buffer: vec![0; stream::CHUNK],
        })
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn try_open(&mut self, number: u32) -> Result<Connection, Failure> {
        let socket = stream::make(&self.cc)?;
        stream::connect(&socket, &self.server).map_err(failed("cannot connect"))?;
        let stream = TcpStream::from(socket);
        let port = stream.local_addr().map_err(failed("a socket has no port"))?.port();
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        self.poller.watch(&stream, flags, u64::from(number)).map_err(failed("cannot wait for a socket"))?;
        Ok(Connection {
            stream,
            port,
            connected: false,
            closing: false,
            unsent: 0,
            acked: 0,
            received: 0,
            asked_up: 0,
            asked_down: 0,
            pending: VecDeque::new(),
            exchanges: 0,
        })
    }

    /// Handles the events of a connection and calls the application.
    fn ready(&mut self, number: u32, flags: EpollFlags, application: &mut dyn Application) -> Result<(), Failure> {
        // It may have been closed by what happened just before.
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let broken = |error: io::Error| failed("a connection broke")(error);
        if let Some(error) = connection.stream.take_error().map_err(broken)? {
            if !connection.connected && error.kind() == io::ErrorKind::TimedOut {
                self.connections.remove(&number);
                return Ok(());
            }
            return Err(broken(error));
        }
        if !connection.connected && flags.contains(EpollFlags::EPOLLOUT) {
            connection.connected = true;
            stream::report_acks(&connection.stream).map_err(failed("ACKs are not reported"))?;
            connection.send().map_err(broken)?;
            application.on_connected(Conn(number), self);
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        if connection.connected && flags.contains(EpollFlags::EPOLLOUT) {
            connection.send().map_err(broken)?;
        }
        if flags.contains(EpollFlags::EPOLLERR)
            && let Some(key) = stream::acknowledged(&connection.stream)
        {
            connection.acked = acked_bytes(connection.acked, key);
            let written = connection.asked_up - connection.unsent;
            if connection.acked > written {
                let acked = connection.acked;
                return Err(Failure::Task(format!(
                    "{acked} bytes of a connection are acknowledged, but {written} written"
                )));
            }
        }
        if flags.contains(EpollFlags::EPOLLIN) {
            let (bytes, ended) = stream::read(&connection.stream, &mut self.buffer).map_err(broken)?;
            connection.received += bytes;
            self.received += bytes;
            if ended {
                return Err(Failure::Task("the other end closed a connection".into()));
            }
        }
        self.complete(number, application);
        Ok(())
    }

    /// Tells the application of exchanges that are complete, and closes the connection where it is to be.
    fn complete(&mut self, number: u32, application: &mut dyn Application) {
        while let Some(connection) = self.connections.get_mut(&number) {
            match connection.pending.front() {
                Some(first) if connection.is_complete(first) => {
                    let exchange = connection.exchanges - connection.pending.len() as u64;
                    connection.pending.pop_front();
                    application.on_complete(Conn(number), exchange, self);
                }
                Some(_) => return,
                None => {
                    if connection.closing {
                        self.connections.remove(&number);
                    }
                    return;
                }
            }
        }
    }
}

impl Net for Sockets {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self) -> Conn {
        let number = self.opened;
        self.opened += 1;
        match self.try_open(number) {
            Ok(connection) => {
                self.connections.insert(number, connection);
            }
            Err(failure) => self.fail(failure),
        }
        Conn(number)
    }

    fn exchange(&mut self, conn: Conn, exchange: Exchange) -> u64 {
        // A connection that could not be opened ends the run.
        let Some(connection) = self.connections.get_mut(&conn.0) else { return 0 };
        let number = connection.exchanges;
        connection.exchanges += 1;
        connection.asked_up += exchange.up;
        connection.asked_down += exchange.down;
        connection.pending.push_back(ExchangeEnds {
            up_end: connection.asked_up,
            down_end: connection.asked_down,
            answered: exchange.down > 0,
        });
        connection.unsent += exchange.up;
        let told = self.control.tell(connection.port, exchange);
        if let Err(error) = told.and_then(|()| connection.send()) {
            self.fail(failed("an exchange cannot be started")(error));
        }
        number
    }

    fn close(&mut self, conn: Conn) {
        let Some(connection) = self.connections.get_mut(&conn.0) else { return };
        connection.closing = true;
        if connection.pending.is_empty() {
            self.connections.remove(&conn.0);
        }
    }

    fn wake(&mut self, at: Time) {
        self.wake = Some(at);
    }

    fn record(&mut self, completion: Completion) {
        self.record.completions.push(Completion { flow: self.flow, ..completion });
    }
}

/// Runs an application from `start_ns` on the monotonic clock to the end of the run.
///
/// # Errors
/// Where a connection breaks or the kernel refuses something.
pub fn run(
    mut net: Sockets,
    application: &mut dyn Application,
    task: &Task,
    start_ns: u64,
) -> Result<EndRecord, Failure> {
    net.poller.end_with_parent().map_err(failed("cannot wait for the parent"))?;
    let mut found = Vec::new();
    let mut ticks = Ticks::new(task);
    let (mut started, mut stopped) = (false, false);
    loop {
        let now = monotonic_ns().map_err(failed("there is no clock"))?.saturating_sub(start_ns);
        net.now = Time::from_nanos(now);
        ticks.count(now, net.received, &mut net.record);
        if now >= task.duration {
            break;
        }
        if !started && now >= task.start {
            started = true;
            application.start(&mut net);
        }
        if started && !stopped && now >= task.stop {
            stopped = true;
            application.stop(&mut net);
        }
        if let Some(at) = net.wake
            && at.as_nanos() <= now
        {
            net.wake = None;
            application.on_wake(&mut net);
        }
        for (token, flags) in std::mem::take(&mut found) {
            net.ready(saturating_u32(token), flags, application)?;
        }
        if let Some(failure) = net.failure.take() {
            return Err(failure);
        }
        let edge = if started { if stopped { u64::MAX } else { task.stop } } else { task.start };
        let wake = net.wake.map_or(u64::MAX, Time::as_nanos);
        let next = task.duration.min(edge).min(wake).min(ticks.next());
        net.poller.wait(start_ns + next, &mut found).map_err(failed("cannot wait"))?;
    }
    for (_, connection) in std::mem::take(&mut net.connections) {
        stream::abort(connection.stream);
    }
    Ok(net.record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_bytes_are_counted_beyond_32_bits() {
        assert_eq!(acked_bytes(0, 99), 100);
        assert_eq!(acked_bytes((1 << 32) - 10, 4), (1 << 32) + 5);
        assert_eq!(acked_bytes((5 << 32) + 10, 29), (5 << 32) + 30);
    }

    #[test]
    fn a_late_report_of_what_is_known_changes_nothing() {
        assert_eq!(acked_bytes(100, 99), 100);
        assert_eq!(acked_bytes(100, 49), 100);
        assert_eq!(acked_bytes((1 << 32) + 5, u32::MAX), (1 << 32) + 5);
    }
}
