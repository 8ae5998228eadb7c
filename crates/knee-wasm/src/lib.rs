//! The simulator in a browser: a request in JSON in, figures in JSON and rows as plain memory out.
//!
//! There is one session, since a Web Worker has an instance of its own. The page writes a request of `n` bytes to where
//! [`input`] says and calls [`start`]. It calls [`advance`] until that gives 0, and reads the tables on the way. A call
//! that gives 1 has left a message in table [`TEXT`]. A panic traps, after its message has been put there.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![allow(unsafe_code, reason = "a symbol's name is kept by an unsafe attribute; nothing else here is unsafe")]

pub mod hand;
pub mod listing;
pub mod open;
pub mod packets;
pub mod scene;
pub mod session;

use session::{Request, Session};
use std::cell::RefCell;
use std::sync::Once;

/// Number of the table that has text: a message, figures, a listing.
pub const TEXT: u32 = 0;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static TEXT_OUT: RefCell<String> = const { RefCell::new(String::new()) };
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

fn tell(text: String) {
    TEXT_OUT.with_borrow_mut(|out| *out = text);
}

/// 0, or 1 with the error told.
fn status<E: std::fmt::Display>(outcome: Result<(), E>) -> u32 {
    outcome.map_or_else(
        |error| {
            tell(error.to_string());
            1
        },
        |()| 0,
    )
}

fn request() -> Result<Request, String> {
    INPUT.with_borrow(|input| serde_json::from_slice(input).map_err(|error| error.to_string()))
}

/// Makes room for a request of `bytes`, and says where.
#[unsafe(no_mangle)]
pub extern "C" fn input(bytes: u32) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        *input = vec![0; bytes as usize];
        input.as_mut_ptr()
    })
}

/// Begins what the request says, at time 0. Gives 0, or 1 where it is refused.
#[unsafe(no_mangle)]
pub extern "C" fn start() -> u32 {
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| tell(panic.to_string()))));
    SESSION.with_borrow_mut(|session| {
        // Not two at once in memory.
        *session = None;
        status(request().and_then(|request| Session::new(&request)).map(|begun| *session = Some(begun)))
    })
}

/// Lets time pass until `until` (ns), or for `steps` steps if that is earlier. Gives whether that was all: 0 goes on, 1
/// is the time asked for, 2 the end.
#[unsafe(no_mangle)]
pub extern "C" fn advance(until: f64, steps: f64) -> u32 {
    SESSION.with_borrow_mut(|session| session.as_mut().map_or(2, |session| session.advance(until, steps)))
}

/// Simulated time, ns.
#[unsafe(no_mangle)]
pub extern "C" fn now() -> f64 {
    SESSION.with_borrow(|session| session.as_ref().map_or(0.0, Session::now))
}

/// From `at` (ns) on, no earlier than now, the flow that is steered by hand sends at `rate` (bit/s).
#[unsafe(no_mangle)]
pub extern "C" fn steer(at: f64, rate: f64) {
    SESSION.with_borrow(|session| {
        if let Some(session) = session {
            session.steer(at, rate);
        }
    });
}

/// Puts each packet on record from now on (table 4), or none where `on` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn record_packets(on: u32) {
    SESSION.with_borrow(|session| {
        if let Some(session) = session {
            session.record_packets(on != 0);
        }
    });
}

/// Ends the session: the tables have all rows, and [`TEXT`] the figures in JSON. Gives 0, or 1 where it fails.
#[unsafe(no_mangle)]
pub extern "C" fn finish() -> u32 {
    SESSION.with_borrow_mut(|session| status(session.as_mut().map_or(Ok(()), |session| session.finish().map(tell))))
}

/// Puts algorithms, queue disciplines and ranges into [`TEXT`], in JSON.
#[unsafe(no_mangle)]
pub extern "C" fn list() {
    tell(listing::listing().to_string());
}

/// Puts what a page shows of a scenario file into [`TEXT`], in JSON; the input is the file, not a request. Gives 0, or
/// 1 where it shows nothing.
#[unsafe(no_mangle)]
pub extern "C" fn open_file() -> u32 {
    let read = INPUT.with_borrow(|input| {
        let text = std::str::from_utf8(input).map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to()))?;
        let opened = open::open(text)?;
        serde_json::to_string(&opened).map_err(|error| error.to_string())
    });
    status(read.map(tell))
}

/// Puts the scenario file of the request's scene into [`TEXT`]. Gives 0, or 1 where it has none.
#[unsafe(no_mangle)]
pub extern "C" fn export() -> u32 {
    status(request().and_then(|request| request.toml()).map(tell))
}

/// Puts the names of events so far into [`TEXT`], in JSON.
#[unsafe(no_mangle)]
pub extern "C" fn event_names() {
    let names = SESSION.with_borrow_mut(|session| session.as_mut().map(Session::event_names).unwrap_or_default());
    tell(serde_json::json!(names).to_string());
}

/// Address of table `number`: 0 text, 1 samples of flows, 2 samples of links, 3 events, 4 packets on record, 5 packets
/// in the queue, 6 what applications completed, 7 samples of datagrams, 8 histograms. The next call may move it.
#[unsafe(no_mangle)]
pub extern "C" fn table(number: u32) -> *const u8 {
    with_table(number, <[u8]>::as_ptr)
}

/// How many bytes table `number` has.
#[unsafe(no_mangle)]
pub extern "C" fn table_bytes(number: u32) -> u32 {
    with_table(number, |bytes| knee_core::convert::index_u32(bytes.len()))
}

fn with_table<T>(number: u32, read: impl FnOnce(&[u8]) -> T) -> T {
    if number == TEXT {
        return TEXT_OUT.with_borrow(|text| read(text.as_bytes()));
    }
    SESSION.with_borrow_mut(|session| match session {
        Some(session) => session.with_table(number, read),
        None => read(&[]),
    })
}

/// Forgets the packets on record (table 4), which have been read.
#[unsafe(no_mangle)]
pub extern "C" fn forget_packets() {
    SESSION.with_borrow(|session| {
        if let Some(session) = session {
            session.forget_packets();
        }
    });
}
