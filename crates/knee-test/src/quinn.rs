//! quinn over a network: its sockets, timers and tasks.

use crate::lab::{Lab, State, Task};
use crate::udp::Udp;
use crate::{Ecn, Error, Port};
use knee_core::{Rng, Time};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, UdpPoller};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

impl Lab {
    /// A client at the near end of the first path and a server at its far end, at [`Net::address`].
    ///
    /// # Errors
    /// If quinn makes no endpoint.
    pub fn quinn(&self, client: ClientConfig, server: ServerConfig) -> Result<(Endpoint, Endpoint), Error> {
        let mut near = self.endpoint(Port::near(0), None)?;
        near.set_default_client_config(client);
        Ok((near, self.endpoint(Port::far(0), Some(server))?))
    }

    /// An endpoint at a port, which takes connections where it has a configuration for them. Its random numbers are
    /// those of the scenario's seed.
    ///
    /// # Errors
    /// If there is no such port, or quinn makes no endpoint.
    pub fn endpoint(&self, port: Port, server: Option<ServerConfig>) -> Result<Endpoint, Error> {
        let socket = Arc::new(self.udp(port)?);
        let mut rng = Rng::stream(self.net().seed(), &format!("quinn/{port:?}"));
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(bytes));
        let made = Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(Virtual(self.clone())));
        made.map_err(|error| Error::Endpoint { port, error })
    }
}

/// The time and the tasks of a lab.
#[derive(Debug)]
struct Virtual(Lab);

impl Runtime for Virtual {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let lab = self.0.clone();
        let at = lab.time_of(at.into());
        Box::pin(Timer { lab, at, number: None })
    }

    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let error = "a simulated network has no sockets of the system: take an endpoint of the lab";
        Err(io::Error::new(io::ErrorKind::Unsupported, error))
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl State {
    /// Wakes whoever asks at `at`; returns the number that [`State::forget`] takes.
    fn wake_at(&mut self, at: Time, number: Option<u64>, cx: &Context<'_>) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers
        });
        self.timers.insert((at, number), cx.waker().clone());
        number
    }

    fn forget(&mut self, at: Time, number: u64) {
        self.timers.remove(&(at, number));
    }
}

/// Wakes at a time, to the nanosecond.
#[derive(Debug)]
struct Timer {
    lab: Lab,
    at: Time,
    number: Option<u64>,
}

impl Timer {
    fn stop(&mut self) {
        if let Some(number) = self.number {
            self.lab.state().forget(self.at, number);
        }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.stop();
        self.at = self.lab.time_of(at.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (now, at) = (self.lab.now(), self.at);
        if at <= now {
            return Poll::Ready(());
        }
        let number = self.lab.state().wake_at(at, self.number, cx);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl AsyncUdpSocket for Udp {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let ecn = Ecn::from_bits(transmit.ecn.map_or(0, |ecn| ecn as u8));
        let mut parts = transmit.contents.chunks(transmit.segment_size.unwrap_or(usize::MAX));
        parts.try_for_each(|part| self.send(part, transmit.destination, ecn).map(drop))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            let Poll::Ready(came) = self.poll_receive(cx) else { break };
            let len = came.bytes.len().min(buffer.len());
            buffer[..len].copy_from_slice(&came.bytes[..len]);
            *meta = RecvMeta {
                addr: self.peer_addr(),
                len,
                stride: len,
                ecn: EcnCodepoint::from_bits(came.ecn.bits()),
                dst_ip: Some(Udp::local_addr(self).ip()),
            };
            count += 1;
        }
        if count == 0 { Poll::Pending } else { Poll::Ready(Ok(count)) }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(Self::local_addr(self))
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// A socket takes whatever is sent: queues are in the network.
#[derive(Debug)]
struct Writable;

impl UdpPoller for Writable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
