//! noq over a network: its sockets, timers and tasks.

use crate::lab::{Lab, Task};
use crate::timer::Timer;
use crate::udp::Udp;
use crate::{Ecn, Error, Port};
use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncTimer, AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, UdpSender};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

impl Lab {
    /// A client of noq at the near end of the first path and a server at its far end, at [`crate::Net::address`].
    ///
    /// # Errors
    /// If noq makes no endpoint.
    pub fn noq(&self, client: ClientConfig, server: ServerConfig) -> Result<(Endpoint, Endpoint), Error> {
        let near = self.noq_endpoint(Port::near(0), None)?;
        near.set_default_client_config(client);
        Ok((near, self.noq_endpoint(Port::far(0), Some(server))?))
    }

    /// An endpoint of noq at a port, which takes connections where it has a configuration for them. Its random numbers
    /// are those of the scenario's seed.
    ///
    /// # Errors
    /// If there is no such port, or noq makes no endpoint.
    pub fn noq_endpoint(&self, port: Port, server: Option<ServerConfig>) -> Result<Endpoint, Error> {
        let socket = Socket(Arc::new(self.udp(port)?));
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(self.random_bytes("noq", port)));
        let made =
            Endpoint::new_with_abstract_socket(config, server, Box::new(socket), Arc::new(Virtual(self.clone())));
        made.map_err(|error| Error::Endpoint { stack: "noq", port, error })
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

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
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

/// A socket, which its senders share.
#[derive(Clone, Debug)]
struct Socket(Arc<Udp>);

impl UdpSender for Socket {
    fn poll_send(self: Pin<&mut Self>, transmit: &Transmit<'_>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ecn = Ecn::from_bits(transmit.ecn.map_or(0, |ecn| ecn as u8));
        let part = transmit.segment_size.unwrap_or(usize::MAX);
        Poll::Ready(self.0.send_parts(transmit.contents, part, transmit.destination, ecn))
    }
}

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(self.clone())
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_buffers(cx, buffers, |i, came, len| {
            let mut one = RecvMeta::default();
            one.addr = self.0.peer_addr();
            one.len = len;
            one.stride = len;
            one.ecn = EcnCodepoint::from_bits(came.ecn.bits());
            one.dst_ip = Some(self.0.local_addr().ip());
            meta[i] = one;
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local_addr())
    }

    fn may_fragment(&self) -> bool {
        false
    }
}
