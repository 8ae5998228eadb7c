//! Devices of smoltcp at the ends of paths.

use crate::{Error, Net, Port};
use knee_core::Time;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A network that devices of smoltcp share, from [`Net::wires`].
#[derive(Clone)]
pub struct Wires(Rc<RefCell<State>>);

struct State {
    net: Net,
    came: BTreeMap<Port, VecDeque<Vec<u8>>>,
    /// The first error of the network; calls of a device cannot return it.
    failure: Option<Error>,
}

/// A device at an end of a path, which carries whole IP packets.
pub struct Wire {
    wires: Wires,
    port: Port,
}

impl Net {
    /// The network for devices of smoltcp.
    pub fn wires(self) -> Wires {
        Wires(Rc::new(RefCell::new(State { net: self, came: BTreeMap::new(), failure: None })))
    }
}

impl Wires {
    /// The device at a port.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn wire(&self, port: Port) -> Result<Wire, Error> {
        self.net().check(port)?;
        Ok(Wire { wires: self.clone(), port })
    }

    /// The network: for its figures, its drops and its capture.
    pub fn net(&self) -> RefMut<'_, Net> {
        RefMut::map(self.0.borrow_mut(), |state| &mut state.net)
    }

    /// When an interface has to be polled next for what happens in the network, to the microsecond above; `None`:
    /// nothing does. An interface's own timers may be earlier.
    ///
    /// # Errors
    /// The first error of the network since the last call.
    pub fn next(&self) -> Result<Option<Instant>, Error> {
        let mut state = self.0.borrow_mut();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        let waits = state.came.values().any(|came| !came.is_empty());
        let due = if waits { Some(state.net.now()) } else { state.net.next() };
        Ok(due.map(|due| Instant::from_micros(i64::try_from(due.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX))))
    }
}

impl State {
    /// Takes a packet that has come to a port by `now`.
    fn receive(&mut self, port: Port, now: Time) -> Option<Vec<u8>> {
        let Self { net, came, failure } = self;
        match net.poll(now) {
            Ok(arrived) => arrived.for_each(|it| came.entry(it.port).or_default().push_back(it.bytes)),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
        came.get_mut(&port)?.pop_front()
    }

    fn send(&mut self, port: Port, packet: &[u8], now: Time) {
        if let Err(error) = self.net.send_ip(now, port, packet) {
            self.failure.get_or_insert(error);
        }
    }
}

fn time(at: Instant) -> Time {
    Time::from_micros(u64::try_from(at.total_micros()).unwrap_or_default())
}

/// A packet that has come.
pub struct Came(Vec<u8>);

/// Room for a packet to send.
pub struct Room<'a> {
    wire: &'a Wire,
    now: Time,
}

impl Device for Wire {
    type RxToken<'a> = Came;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, timestamp: Instant) -> Option<(Came, Room<'_>)> {
        let now = time(timestamp);
        let came = self.wires.0.borrow_mut().receive(self.port, now)?;
        Some((Came(came), Room { wire: self, now }))
    }

    fn transmit(&mut self, timestamp: Instant) -> Option<Room<'_>> {
        Some(Room { wire: self, now: time(timestamp) })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = crate::MTU;
        capabilities
    }
}

impl RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.wire.wires.0.borrow_mut().send(self.wire.port, &packet, self.now);
        result
    }
}
