//! TCP sockets as both ends use them.

use crate::error::{Failure, failed};
use knee_core::convert::index;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{Linger, ReuseAddr, TcpCongestion, TcpNoDelay, Timestamping};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, TimestampingFlag,
    recvmsg, setsockopt, socket,
};
use std::ffi::OsString;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Bytes that are written or read at once.
pub const CHUNK: usize = 256 << 10;
/// Linux reports on the error queue of a socket when bytes have been acknowledged
/// (Documentation/networking/timestamping).
const TX_ACK: u32 = 1 << 9;
/// The origin of such reports, and their kind (include/uapi/linux/errqueue.h).
const ORIGIN_TIMESTAMPING: u8 = 4;
/// See above: `SCM_TSTAMP_ACK`.
const KIND_ACK: u32 = 2;

/// A non-blocking socket with a congestion control.
///
/// # Errors
/// Where the kernel refuses one of them.
pub fn make(cc: &str) -> Result<OwnedFd, Failure> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(AddressFamily::Inet, SockType::Stream, flags, SockProtocol::Tcp)
        .map_err(failed("cannot make a socket"))?;
    setsockopt(&made, TcpCongestion, &OsString::from(cc))
        .map_err(failed(format!("the kernel does not allow {cc} on a socket")))?;
    setsockopt(&made, TcpNoDelay, &true).map_err(failed("cannot set TCP_NODELAY"))?;
    setsockopt(&made, ReuseAddr, &true).map_err(failed("cannot set SO_REUSEADDR"))?;
    Ok(made)
}

/// Asks the kernel to report when what is written from now on is acknowledged; [`acknowledged`] reads the reports.
///
/// # Errors
/// Where the kernel refuses.
pub fn report_acks(stream: &TcpStream) -> io::Result<()> {
    let wanted = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
        | TimestampingFlag::from_bits_retain(TX_ACK);
    Ok(setsockopt(stream, Timestamping, &wanted)?)
}

/// The number of the last byte of which the kernel reports that it is acknowledged, from 0, modulo 2^32. `None`
/// if none is reported.
pub fn acknowledged(stream: &TcpStream) -> Option<u32> {
    let mut last = None;
    let mut space = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in, [libc::timespec; 3]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let mut nothing: [IoSliceMut<'_>; 0] = [];
    while let Ok(message) = recvmsg::<SockaddrIn>(stream.as_raw_fd(), &mut nothing, Some(&mut space), flags) {
        let Ok(controls) = message.cmsgs() else { continue };
        for control in controls {
            if let ControlMessageOwned::Ipv4RecvErr(error, _) = control
                && error.ee_origin == ORIGIN_TIMESTAMPING
                && error.ee_info == KIND_ACK
            {
                last = Some(error.ee_data);
            }
        }
    }
    last
}

/// Writes up to `bytes` zeros; gives how many were taken.
///
/// # Errors
/// Where the connection is broken.
pub fn write(mut stream: &TcpStream, bytes: u64) -> io::Result<u64> {
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    let mut done = 0;
    while done < bytes {
        match stream.write(&ZEROS[..index((bytes - done).min(CHUNK as u64))]) {
            Ok(taken) => done += taken as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads and forgets all that is there; gives how much it was, and whether the other end has closed.
///
/// # Errors
/// Where the connection is broken.
pub fn read(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(u64, bool)> {
    let mut done = 0;
    loop {
        match stream.read(buffer) {
            Ok(0) => return Ok((done, true)),
            Ok(bytes) => done += bytes as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((done, false)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Closes a connection at the end of a run by a reset, or the kernel would keep it, and its namespace, for minutes.
pub fn abort(stream: TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(&stream, Linger, &at_once);
    drop(stream);
}

/// Connects without waiting.
///
/// # Errors
/// Where that fails at once.
pub fn connect(socket: &OwnedFd, to: &SockaddrIn) -> io::Result<()> {
    match nix::sys::socket::connect(socket.as_fd().as_raw_fd(), to) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
