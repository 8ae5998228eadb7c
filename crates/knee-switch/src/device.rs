//! A TUN device in a network namespace: packets are read and written as they are, 1500 bytes at most.

use crate::config::Side;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Packets that the kernel keeps for us to read. More than any window of data that comes in one burst.
const READ_QUEUE: u32 = 50_000;

/// What could not be done, with which device.
#[derive(Debug, Error)]
#[error("{what} {name}: {error}")]
pub struct DeviceError {
    what: &'static str,
    name: String,
    error: io::Error,
}

/// An open device.
pub struct Device(SyncDevice);

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
        // No offloads: what the kernel hands over are packets as a wire would carry them.
        let device = DeviceBuilder::new()
            .name(&side.device)
            .mtu(1500)
            .offload(false)
            .packet_information(false)
            .with(|builder| {
                builder.tx_queue_len(READ_QUEUE);
            })
            .enable(false)
            .build_sync()
            .map_err(fail("cannot make the device", &side.device))?;
        device.set_nonblocking(true).map_err(fail("cannot set up the device", &side.device))?;
        Ok(Self(device))
    }

    /// Reads a packet into `buffer`; none where none waits.
    ///
    /// # Errors
    /// Where the device is gone.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.0, buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Hands a packet to the namespace; false where the kernel refuses it.
    ///
    /// # Errors
    /// Where the device is gone.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<bool> {
        match rustix::io::write(&self.0, packet) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::IO | Errno::INVAL) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
