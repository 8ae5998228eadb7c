//! quinn over a network: its sockets, timers and tasks.

use crate::lab::{Lab, Task};
use crate::timer::Timer;
use crate::udp::Udp;
use crate::{Ecn, Error, Port};
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
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(self.random_bytes("quinn", port)));
        let made = Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(Virtual(self.clone())));
        made.map_err(|error| Error::Endpoint { stack: "quinn", port, error })
    }
}

/// The time and the tasks of a lab.
#[derive(Debug)]
struct Virtual(Lab);

impl Runtime for Virtual {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer::new(&self.0, at))
    }

    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(crate::udp::no_sockets())
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.arm(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_due(cx)
    }
}

impl AsyncUdpSocket for Udp {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let ecn = Ecn::from_bits(transmit.ecn.map_or(0, |ecn| ecn as u8));
        let part = transmit.segment_size.unwrap_or(usize::MAX);
        self.send_parts(transmit.contents, part, transmit.destination, ecn)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.poll_buffers(cx, buffers, |i, came, len| {
            meta[i] = RecvMeta {
                addr: self.peer_addr(),
                len,
                stride: len,
                ecn: EcnCodepoint::from_bits(came.ecn.bits()),
                dst_ip: Some(Udp::local_addr(self).ip()),
            };
        })
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
