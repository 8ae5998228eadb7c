//! A software switch in user space: it stands between the network namespaces of senders and receivers, joined to each
//! by a TUN device, and does to every packet what a scenario says.
//!
//! It does as the simulator does, by the same code (links, queue disciplines, pipes), on a clock that is the
//! machine's: what is due is done as soon as the clock has reached it, at the time it was due. So a link keeps its rate
//! exactly, and only the moment at which a packet goes out is late, by what [`late::Late`] counts.
//!
//! One file a part: [`device`] joins a namespace, [`header`] reads and marks packets, [`store`] holds them,
//! [`network`] is their path, [`book`] keeps account of flows, [`report`] makes rows and figures, [`ferry`] is the
//! loop.
//!
//! TCP's endpoints are the kernel's sockets, which other programs open. The endpoints of QUIC flows run here, on a
//! thread outside the loop: [`endpoints`] drives them, [`socket`] is where their datagrams leave and arrive in the
//! namespaces, and [`account`] is the switch's view of them.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

pub mod account;
pub mod book;
pub mod clock;
pub mod config;
pub mod device;
pub mod endpoints;
pub mod ferry;
pub mod header;
pub mod late;
pub mod network;
pub mod privileges;
pub mod report;
pub mod socket;
pub mod store;
