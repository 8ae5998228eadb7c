//! A socket of UDP over a network, with the calls of tokio's.

use crate::lab::Lab;
use crate::{Delivered, Ecn, Error, Net, Port};
use std::future::poll_fn;
use std::io;
#[cfg(any(feature = "noq", feature = "quinn"))]
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A socket at a port, which sends to the other end of its path and takes what comes from there.
#[derive(Debug)]
pub struct Udp {
    lab: Lab,
    port: Port,
}

impl Lab {
    /// A socket at a port, for programs that take one of their own in place of tokio's. Ports are not shared: what
    /// comes goes to whoever asks first.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn udp(&self, port: Port) -> Result<Udp, Error> {
        self.net().check(port)?;
        Ok(Udp { lab: self.clone(), port })
    }
}

impl Udp {
    /// Sends a datagram at once, with an ECN field.
    ///
    /// # Errors
    /// If `to` is not the other end, or as of [`Net::send`]; the latter ends [`Lab::run`] too.
    pub fn send(&self, bytes: &[u8], to: SocketAddr, ecn: Ecn) -> io::Result<usize> {
        let other = self.peer_addr();
        if to != other {
            let error = format!("from {:?} packets go to {other}, not to {to}", self.port);
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, error));
        }
        let now = self.lab.now();
        let state = &mut *self.lab.state();
        state.net.send(now, self.port, bytes, ecn).map(|()| bytes.len()).map_err(|error| {
            let told = io::Error::other(error.to_string());
            state.fail(error);
            told
        })
    }

    /// A datagram that has come; whoever asks is woken when there is one.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Delivered> {
        self.lab.state().receive(self.port, cx).map_or(Poll::Pending, Poll::Ready)
    }

    /// Sends datagrams of `part` bytes each, the last of the rest.
    #[cfg(any(feature = "noq", feature = "quinn"))]
    pub(crate) fn send_parts(&self, contents: &[u8], part: usize, to: SocketAddr, ecn: Ecn) -> io::Result<()> {
        contents.chunks(part).try_for_each(|part| self.send(part, to, ecn).map(drop))
    }

    /// Puts datagrams that have come into buffers, one each, and tells `note` of each buffer, datagram and its length
    /// there.
    #[cfg(any(feature = "noq", feature = "quinn"))]
    pub(crate) fn poll_buffers(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        mut note: impl FnMut(usize, &Delivered, usize),
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        for buffer in buffers {
            let Poll::Ready(came) = self.poll_receive(cx) else { break };
            let len = came.bytes.len().min(buffer.len());
            buffer[..len].copy_from_slice(&came.bytes[..len]);
            note(count, &came, len);
            count += 1;
        }
        if count == 0 { Poll::Pending } else { Poll::Ready(Ok(count)) }
    }

    /// The next datagram, with all that is known of it.
    pub async fn receive(&self) -> Delivered {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// As `tokio::net::UdpSocket::send_to`.
    ///
    /// # Errors
    /// As of [`Udp::send`].
    #[allow(clippy::unused_async, reason = "it has the signature of tokio's")]
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.send(bytes, to, Ecn::NotEct)
    }

    /// As `tokio::net::UdpSocket::recv_from`: what the buffer does not hold is lost.
    ///
    /// # Errors
    /// None.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let came = self.receive().await;
        let len = came.bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&came.bytes[..len]);
        Ok((len, self.peer_addr()))
    }

    /// The address of the port.
    pub fn local_addr(&self) -> SocketAddr {
        Net::address(self.port).into()
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        Net::address(self.port.other()).into()
    }
}

/// Why a stack gets no socket of the system.
#[cfg(any(feature = "noq", feature = "quinn"))]
pub(crate) fn no_sockets() -> io::Error {
    let error = "a simulated network has no sockets of the system: take an endpoint of the lab";
    io::Error::new(io::ErrorKind::Unsupported, error)
}
