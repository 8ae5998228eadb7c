//! UDP sockets of QUIC flows, in the namespace in which they are opened.

use bytes::BytesMut;
use knee_quinn::Datagram;
use knee_quinn::proto::EcnCodepoint;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that may wait in a socket in each direction: some 3000 full packets, as the kernel counts them.
const BUFFER: usize = 8 << 20;
/// Bytes of the largest datagram, or of several that the kernel hands over in one piece.
const LARGEST: usize = 1 << 16;

/// A socket.
pub struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    /// Opens a socket at `port` (0: any) of all addresses of the calling thread's namespace. Without privileges its
    /// buffers are as small as the kernel's default.
    ///
    /// # Errors
    /// If the port is taken, or the kernel has no such sockets.
    pub fn open(port: u16) -> io::Result<Self> {
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        let _ = set_socket_recv_buffer_size_force(&udp, BUFFER);
        let _ = set_socket_send_buffer_size_force(&udp, BUFFER);
        let state = UdpSocketState::new((&udp).into())?;
        Ok(Self { udp, state })
    }

    /// The port at which it is.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.udp.local_addr()?.port())
    }

    /// Sends a datagram; false: the kernel refused it.
    pub fn send(&self, to: SocketAddr, datagram: &Datagram) -> bool {
        let ecn = datagram.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let contents = &datagram.bytes;
        let transmit = Transmit { destination: to, ecn, contents, segment_size: None, src_ip: None };
        self.state.try_send((&self.udp).into(), &transmit).is_ok()
    }

    /// Reads datagrams that wait, as many as fit into `buffers`: gives each with its sender's address to `take`. None
    /// waited: 0.
    pub fn receive(&self, buffers: &mut Buffers, mut take: impl FnMut(SocketAddr, Datagram)) -> usize {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> = buffers.0.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        // Errors of earlier datagrams wait beside datagrams, such as a path that is not there yet.
        let Ok(count) = self.state.recv((&self.udp).into(), &mut slices, &mut metas) else { return 0 };
        for (buffer, meta) in buffers.0.iter().zip(&metas[..count]) {
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            for bytes in buffer[..meta.len].chunks(meta.stride.max(1)) {
                take(meta.addr, Datagram { bytes: BytesMut::from(bytes), ecn });
            }
        }
        count
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

/// Buffer for datagrams.
pub struct Buffers(Vec<Vec<u8>>);

impl Default for Buffers {
    fn default() -> Self {
        Self(vec![vec![0; LARGEST]; BATCH_SIZE])
    }
}
