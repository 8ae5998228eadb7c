//! A TUN device in a network namespace. It reads and writes packets as a wire would carry them, of 1500 bytes at most.
//! The kernel hands over TCP's bursts in one piece, as to a network card, and the device cuts them: the kernel would do
//! so while it sends, which it often does as it takes an ACK that the switch writes.

use crate::config::Side;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;
use tun_rs::{DeviceBuilder, IDEAL_BATCH_SIZE, SyncDevice, VIRTIO_NET_HDR_LEN};

/// The kernel's largest burst, and the header before it that says how to cut it.
const BURST: usize = VIRTIO_NET_HDR_LEN + 65_536;
/// Packets of a burst: 46 of TCP at 1448 bytes each, 128 of UDP (`UDP_MAX_SEGMENTS`).
const PACKETS: usize = IDEAL_BATCH_SIZE;
/// Room for a packet.
const ROOM: usize = 2048;

/// An operation on a device that failed.
#[derive(Debug, Error)]
#[error("{what} {name}: {error}")]
pub struct DeviceError {
    what: &'static str,
    name: String,
    error: io::Error,
}

/// An open device.
pub struct Device {
    tun: SyncDevice,
    /// The packet that the kernel handed over last.
    burst: Box<[u8]>,
    /// The packets that the burst was cut into, and their sizes.
    packets: Vec<[u8; ROOM]>,
    sizes: [usize; PACKETS],
    /// Indices of the packets that have not been read.
    unread: Range<usize>,
}

impl Device {
    /// Makes the device of a side. The calling thread is in that side's namespace afterwards.
    ///
    /// # Errors
    /// Where there is no such namespace, or no device can be made in it.
    pub fn open(side: &Side) -> Result<Self, DeviceError> {
        let fail = |what, name: &str| {
            let name = name.to_owned();
            move |error| DeviceError { what, name, error }
        };
        let path = side.namespace.display().to_string();
        let namespace = File::open(&side.namespace).map_err(fail("cannot open the namespace", &path))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| fail("cannot enter the namespace", &path)(errno.into()))?;
        let tun = DeviceBuilder::new()
            .name(&side.device)
            .mtu(1500)
            .offload(true)
            .packet_information(false)
            .enable(false)
            .build_sync()
            .map_err(fail("cannot make the device", &side.device))?;
        tun.set_nonblocking(true).map_err(fail("cannot set up the device", &side.device))?;
        Ok(Self {
            tun,
            burst: vec![0; BURST].into(),
            packets: vec![[0; ROOM]; PACKETS],
            sizes: [0; PACKETS],
            unread: 0..0,
        })
    }

    /// Reads a packet into `buffer`; none where none waits.
    ///
    /// # Errors
    /// Where the device is gone.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.unread.is_empty() {
            match self.tun.recv_multiple(&mut self.burst, &mut self.packets, &mut self.sizes, 0) {
                Ok(packets) => self.unread = 0..packets,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.unread.next().map(|i| {
            let bytes = self.sizes[i];
            buffer[..bytes].copy_from_slice(&self.packets[i][..bytes]);
            bytes
        }))
    }

    /// Hands a packet to the namespace; false where the kernel refuses it.
    ///
    /// # Errors
    /// Where the device is gone.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<bool> {
        // All zero: a single packet, whose checksums are to be checked.
        let header = [0; VIRTIO_NET_HDR_LEN];
        match rustix::io::writev(&self.tun, &[IoSlice::new(&header), IoSlice::new(packet)]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::IO | Errno::INVAL) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
