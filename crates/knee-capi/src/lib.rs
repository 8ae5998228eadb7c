//! knee's simulated network for programs in C: `include/knee.h`.
//!
//! Errors are values, with a text to fetch; no call ends the program. Times are nanoseconds of the network's own clock.

#![allow(unsafe_code, reason = "C's pointers")]
#![allow(non_camel_case_types, reason = "C's names")]

use knee_test::{Delivered, Ecn, Error, Net, Port, Time};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// A simulated network. One thread at a time uses it.
pub struct knee_net {
    net: Net,
    came: VecDeque<Delivered>,
    /// The packet whose bytes the caller reads.
    shown: Vec<u8>,
    error: CString,
}

/// A packet that has come out.
#[repr(C)]
pub struct knee_packet {
    /// When it came out, ns.
    pub at: u64,
    /// When it was sent, ns.
    pub sent: u64,
    /// How long it waited in queues, ns.
    pub queued: u64,
    /// The bytes as they were sent; valid up to the next call for this network.
    pub bytes: *const u8,
    /// How many bytes that are.
    pub len: usize,
    /// Where it came out: 2 * i at the near end of path i, from which data would come, 2 * i + 1 at the far one.
    pub port: u32,
    /// The two bits of its ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Its codepoint (DSCP), 0 to 63.
    pub dscp: u8,
}

/// Figures of a link, from the start to the latest time told.
#[repr(C)]
pub struct knee_link {
    /// Mean time that packets waited in the queue, ns; 0 where none has left.
    pub queueing_mean: u64,
    /// The 95th percentile, ns.
    pub queueing_p95: u64,
    /// The 99th percentile, ns.
    pub queueing_p99: u64,
    /// The longest, ns.
    pub queueing_max: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Bytes that have left, with the link's overhead.
    pub bytes: u64,
    /// Bits carried over those that it could have carried, 0 to 1.
    pub utilization: f64,
}

/// Figures of a flow that the simulator sends, from its start to the latest time told.
#[repr(C)]
pub struct knee_flow {
    /// Payload that its receiver has, bytes, each counted once.
    pub delivered: u64,
    /// Mean of that, bit/s.
    pub goodput: f64,
    /// Data packets sent.
    pub sent: u64,
    /// Packets that its sender deems lost.
    pub lost: u64,
}

/// Writes a text into a caller's buffer, as far as there is room.
///
/// # Safety
/// `into` is NULL or has `size` bytes.
unsafe fn put(text: &str, into: *mut c_char, size: usize) {
    if into.is_null() || size == 0 {
        return;
    }
    let len = text.len().min(size - 1);
    // SAFETY: the caller's buffer has `size` bytes, more than `len`.
    unsafe {
        into.cast::<u8>().copy_from(text.as_ptr(), len);
        into.add(len).write(0);
    }
}

/// The text of a C string.
///
/// # Safety
/// `text` is NULL or ends with a zero byte.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, String> {
    if text.is_null() {
        return Err(format!("the {what} is NULL; give a text that ends with a zero byte."));
    }
    // SAFETY: the caller's text ends with a zero byte.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|error| format!("the {what} is not UTF-8 ({error}); give it as UTF-8."))
}

/// Turns a panic into an error.
fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let internal = |_| Err("an error in knee, which is a bug: please report what was asked for.".into());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(internal)
}

/// # Safety
/// `error` is NULL or has `size` bytes.
unsafe fn opened(
    error: *mut c_char,
    size: usize,
    make: impl FnOnce() -> Result<Result<Net, Error>, String>,
) -> *mut knee_net {
    match guarded(|| make()?.map_err(|refused| refused.to_string())) {
        Ok(net) => Box::into_raw(Box::new(knee_net {
            net,
            came: VecDeque::new(),
            shown: Vec::new(),
            error: CString::default(),
        })),
        Err(told) => {
            // SAFETY: as the caller promises.
            unsafe { put(&told, error, size) };
            null_mut()
        }
    }
}

/// Calls for a network, and keeps what it says if it fails.
///
/// # Safety
/// `net` is NULL or of [`knee_net_open`] or [`knee_net_read`].
unsafe fn with(net: *mut knee_net, call: impl FnOnce(&mut knee_net) -> Result<c_int, String>) -> c_int {
    // SAFETY: as the caller promises.
    let Some(net) = (unsafe { net.as_mut() }) else { return -1 };
    match guarded(|| call(net)) {
        Ok(given) => given,
        Err(told) => {
            net.error = CString::new(told.replace('\0', " ")).unwrap_or_default();
            -1
        }
    }
}

/// Opens the network of a scenario file. Returns NULL if it says what cannot be, with a text in `error`, which has room
/// for `size` bytes.
///
/// # Safety
/// `file` ends with a zero byte; `error` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_open(file: *const c_char, error: *mut c_char, size: usize) -> *mut knee_net {
    // SAFETY: as the caller promises.
    unsafe { opened(error, size, || Ok(Net::open(text(file, "file's name")?))) }
}

/// Opens the network of a scenario file's text, as knee_net_open does.
///
/// # Safety
/// `toml` ends with a zero byte; `error` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_read(toml: *const c_char, error: *mut c_char, size: usize) -> *mut knee_net {
    // SAFETY: as the caller promises.
    unsafe { opened(error, size, || Ok(Net::from_toml(text(toml, "scenario")?))) }
}

/// Lets the simulator send what the file says of a flow; its path has no ports for the program then. Before anything is
/// sent. Returns 0, or -1 with a text in knee_net_error.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read; `flow` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_background(net: *mut knee_net, flow: *const c_char) -> c_int {
    let begin = |net: &mut knee_net| {
        // SAFETY: as the caller promises.
        let flow = unsafe { text(flow, "flow's name") }?;
        net.net.background(flow).map(|()| 0).map_err(|refused| refused.to_string())
    };
    // SAFETY: as the caller promises.
    unsafe { with(net, begin) }
}

/// Sends a UDP payload of up to 1472 bytes from one end of a path to the other. `ecn` are the two bits of the header.
/// Returns 0, or -1 with a text in knee_net_error.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read; `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_send(
    net: *mut knee_net,
    now: u64,
    port: u32,
    bytes: *const u8,
    len: usize,
    ecn: u8,
) -> c_int {
    let send = |net: &mut knee_net| {
        if bytes.is_null() && len > 0 {
            return Err("the bytes to send are NULL; give a pointer to them.".into());
        }
        // SAFETY: the caller's buffer has `len` bytes.
        let payload = if len == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(bytes, len) } };
        let (path, now) = (port / 2, Time::from_nanos(now));
        let port = if port.is_multiple_of(2) { Port::near(path) } else { Port::far(path) };
        net.net.send(now, port, payload, Ecn::from_bits(ecn)).map(|()| 0).map_err(|refused| refused.to_string())
    };
    // SAFETY: as the caller promises.
    unsafe { with(net, send) }
}

/// Returns when something happens next, ns; UINT64_MAX: nothing does until something is sent.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_next(net: *const knee_net) -> u64 {
    // SAFETY: as the caller promises.
    let net = unsafe { net.as_ref() };
    // A packet that has come is due at once: its own time is over.
    let due = net.and_then(|net| if net.came.is_empty() { net.net.next() } else { Some(net.net.now()) });
    due.map_or(u64::MAX, Time::as_nanos)
}

/// Lets time pass up to `now`, and gives a packet that has come out; call it until it gives none. Returns 1 with a
/// packet, 0 without, or -1 with a text in knee_net_error.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read; `packet` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_poll(net: *mut knee_net, now: u64, packet: *mut knee_packet) -> c_int {
    let poll = |net: &mut knee_net| {
        let knee_net { net, came, shown, .. } = net;
        came.extend(net.poll(Time::from_nanos(now)).map_err(|refused| refused.to_string())?);
        let Some(first) = came.pop_front() else { return Ok(0) };
        *shown = first.bytes;
        let given = knee_packet {
            at: first.at.as_nanos(),
            sent: first.sent.as_nanos(),
            queued: first.queued.as_nanos(),
            bytes: shown.as_ptr(),
            len: shown.len(),
            port: first.port.path() * 2 + u32::from(first.port.is_far()),
            ecn: first.ecn.bits(),
            dscp: first.dscp,
        };
        // SAFETY: the caller's packet can be written.
        let Some(packet) = (unsafe { packet.as_mut() }) else {
            return Err("the packet to write into is NULL; give a pointer to one.".into());
        };
        *packet = given;
        Ok(1)
    };
    // SAFETY: as the caller promises.
    unsafe { with(net, poll) }
}

/// Writes the figures of a link; that of `[link]` is `bottleneck`. Returns 0, or -1 with a text in knee_net_error.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read; `name` ends with a zero byte; `figures` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_link(net: *mut knee_net, name: *const c_char, figures: *mut knee_link) -> c_int {
    let look = |net: &mut knee_net| {
        // SAFETY: as the caller promises.
        let (name, into) = unsafe { (text(name, "link's name")?, figures.as_mut()) };
        let link = net.net.link(name).map_err(|refused| refused.to_string())?;
        let into = into.ok_or("the figures to write into are NULL; give a pointer to some.")?;
        let waited = link.queueing();
        *into = knee_link {
            queueing_mean: waited.mean().as_nanos(),
            queueing_p95: waited.p95().as_nanos(),
            queueing_p99: waited.p99().as_nanos(),
            queueing_max: waited.max().as_nanos(),
            drops: link.drops(),
            marks: link.marks(),
            bytes: link.bytes(),
            utilization: link.utilization(),
        };
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { with(net, look) }
}

/// Writes the figures of a flow that the simulator sends. Returns 0, or -1 with a text in knee_net_error.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read; `name` ends with a zero byte; `figures` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_flow(net: *mut knee_net, name: *const c_char, figures: *mut knee_flow) -> c_int {
    let look = |net: &mut knee_net| {
        // SAFETY: as the caller promises.
        let (name, into) = unsafe { (text(name, "flow's name")?, figures.as_mut()) };
        let flow = net.net.flow(name).map_err(|refused| refused.to_string())?;
        let into = into.ok_or("the figures to write into are NULL; give a pointer to some.")?;
        let (delivered, goodput) = (flow.delivered(), flow.goodput());
        *into = knee_flow { delivered, goodput, sent: flow.sent(), lost: flow.lost() };
        Ok(0)
    };
    // SAFETY: as the caller promises.
    unsafe { with(net, look) }
}

/// Writes the packets so far as pcapng. Returns 0, or -1 with a text in knee_net_error.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read; `file` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_write_pcap(net: *mut knee_net, file: *const c_char) -> c_int {
    let write = |net: &mut knee_net| {
        // SAFETY: as the caller promises.
        let file = unsafe { text(file, "file's name") }?;
        net.net.write_pcap(file).map(|()| 0).map_err(|refused| refused.to_string())
    };
    // SAFETY: as the caller promises.
    unsafe { with(net, write) }
}

/// Returns the text of the last error, valid up to the next call for this network; empty if there was none.
///
/// # Safety
/// `net` is of knee_net_open or knee_net_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_error(net: *const knee_net) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { net.as_ref() }.map_or(c"there is no network (NULL)".as_ptr(), |net| net.error.as_ptr())
}

/// Ends the network; NULL is no error.
///
/// # Safety
/// `net` is NULL, or of knee_net_open or knee_net_read and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knee_net_free(net: *mut knee_net) {
    if !net.is_null() {
        // SAFETY: it was a box, and nobody uses it again.
        drop(unsafe { Box::from_raw(net) });
    }
}
