//! Queues written in Python: subclasses of `knee.Queue`, called for each packet.
//!
//! The books are kept here, not in Python. Each packet is an object that only this file makes, that knows whether the
//! queue holds it, and that is missed when Python lets go of it: so no packet is invented, given twice or lost. The
//! first exception ends the run; until the engine has stopped, the queue drops all that comes.

use crate::calls::{Caller, Shared};
use knee_core::convert::truncated;
use knee_core::{Bytes, Packet, Rng, Time, Tuple};
use knee_net::network::{MakeQueue, OwnQueue};
use knee_queue::{
    Backlog, Bound as Limits, Bursts, CloneQueue, Context, DynQueue, Fifo, Init, Limit, Queue, Resize, Verdict, find,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

/// Packets held where a scenario gives no limit, as in `pfifo`.
const LIMIT: Limit = Limit::Packets(1000);
/// It has come, and `enqueue` has not returned.
const ARRIVING: u8 = 0;
/// The queue holds it.
const HELD: u8 = 1;
/// It has left or was dropped.
const GONE: u8 = 2;
/// The latest time at which a queue can ask to be asked, s.
const LATEST_S: f64 = 1e9;

/// A queue's backlog, by the engine's count.
#[derive(Default)]
struct Books {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Packets that Python let go of although they were held.
    lost: AtomicU64,
    /// True if the run is over: what is let go of then is not lost.
    closed: AtomicBool,
}

impl Books {
    fn add(&self, size: u64) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(size, Relaxed);
    }

    fn remove(&self, size: u64) {
        self.packets.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(size, Relaxed);
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.load(Relaxed), bytes: Bytes(self.bytes.load(Relaxed)) }
    }
}

/// A packet in a queue; time in seconds, size in bytes.
#[pyclass(frozen, name = "Packet", module = "knee")]
pub struct PyPacket {
    packet: Packet,
    tuple: Tuple,
    dscp: u8,
    size: u64,
    state: AtomicU8,
    marked: AtomicBool,
    books: Arc<Books>,
}

impl PyPacket {
    /// The packet as it leaves.
    fn out(&self) -> Packet {
        let mark = if self.marked.load(Relaxed) { Packet::CE } else { 0 };
        Packet { flags: self.packet.flags | mark, ..self.packet }
    }

    /// Takes it off the books. False if it is not there.
    fn leave(&self) -> bool {
        let before = self.state.swap(GONE, Relaxed);
        if before == HELD {
            self.books.remove(self.size);
        }
        before != GONE
    }
}

impl Drop for PyPacket {
    fn drop(&mut self) {
        if *self.state.get_mut() == HELD && !self.books.closed.load(Relaxed) {
            self.books.lost.fetch_add(1, Relaxed);
        }
    }
}

#[pymethods]
impl PyPacket {
    /// Bytes that it takes on the link: the IP packet and the link's overhead.
    #[getter]
    const fn size(&self) -> u64 {
        self.size
    }
    /// Number of its flow, from 1, as in results.
    #[getter]
    const fn flow(&self) -> u32 {
        self.tuple.flow() + 1
    }
    /// Its 5-tuple as a number: another one for each connection and direction.
    #[getter]
    const fn connection(&self) -> u64 {
        self.tuple.number()
    }
    /// When it arrived, s.
    #[getter]
    fn arrived(&self) -> f64 {
        self.packet.at.as_secs_f64()
    }
    /// ECN field of the IP header: 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 CE.
    #[getter]
    fn ecn(&self) -> u8 {
        self.out().ecn_field()
    }
    /// Codepoint, below 64.
    #[getter]
    const fn dscp(&self) -> u8 {
        self.dscp
    }
    /// True if it goes against its flow's data: an ACK, or an answer to datagrams.
    #[getter]
    const fn is_ack(&self) -> bool {
        self.packet.has(Packet::ACK)
    }
    fn __repr__(&self) -> String {
        let (size, flow, arrived, ecn) = (self.size, self.flow(), self.arrived(), self.ecn());
        format!("Packet(size={size}, flow={flow}, arrived={arrived}, ecn={ecn})")
    }
}

/// Input of each call of a queue, and its outbox of drops and marks.
#[pyclass(name = "QueueContext", module = "knee")]
pub struct PyContext {
    now: Time,
    bound: Limits,
    frame: u64,
    rng: Rng,
    books: Arc<Books>,
    /// True during a call of the queue.
    open: bool,
    dropped: Vec<Packet>,
    marks: u64,
}

impl PyContext {
    /// Refuses a packet that the queue does not hold, or a time at which it is not called.
    fn check(&self, packet: &PyPacket, what: &str) -> PyResult<()> {
        if !self.open {
            return Err(PyRuntimeError::new_err(format!("{what} is for methods that the link calls, and none runs")));
        }
        if !Arc::ptr_eq(&self.books, &packet.books) || packet.state.load(Relaxed) == GONE {
            return Err(PyValueError::new_err(format!(
                "{what} got {}, which this queue does not hold",
                packet.__repr__()
            )));
        }
        Ok(())
    }
}

#[pymethods]
impl PyContext {
    /// Current time, s.
    #[getter]
    fn now(&self) -> f64 {
        self.now.as_secs_f64()
    }
    /// The link's rate, bit/s; the mean one of a trace.
    #[getter]
    const fn rate(&self) -> u64 {
        self.bound.rate().as_bps()
    }
    /// Packets held, without one that arrives.
    #[getter]
    fn packets(&self) -> u64 {
        self.books.backlog().packets
    }
    /// Bytes held, without a packet that arrives.
    #[getter]
    fn bytes(&self) -> u64 {
        self.books.backlog().bytes.0
    }
    /// Bytes of a full packet on the link.
    #[getter]
    const fn frame(&self) -> u64 {
        self.frame
    }
    /// True if the packets held are within the limit.
    #[getter]
    fn fits(&self) -> bool {
        let Backlog { packets, bytes } = self.books.backlog();
        self.bound.holds(packets, bytes.0)
    }
    /// True if the limit has room for this packet besides those held.
    fn has_room(&self, packet: &PyPacket) -> bool {
        let Backlog { packets, bytes } = self.books.backlog();
        self.bound.holds(packets + 1, bytes.0 + packet.size)
    }
    /// Drops a packet that is held, or that arrives.
    fn drop(&mut self, packet: &PyPacket) -> PyResult<()> {
        self.check(packet, "cx.drop")?;
        packet.leave();
        self.dropped.push(packet.out());
        Ok(())
    }
    /// Marks a packet CE, unless it is marked. False if it is not ECN-capable, and stays as it is.
    fn mark(&mut self, packet: &PyPacket) -> PyResult<bool> {
        self.check(packet, "cx.mark")?;
        if !packet.packet.has(Packet::ECT) {
            return Ok(false);
        }
        if !packet.out().has(Packet::CE) {
            packet.marked.store(true, Relaxed);
            self.marks += 1;
        }
        Ok(true)
    }
    /// A random number from 0 to below 1, of a stream of the queue's own.
    fn random(&mut self) -> f64 {
        self.rng.unit()
    }
}

/// A queue of a link, written in Python.
struct PyQueue {
    caller: Caller,
    object: Py<PyAny>,
    context: Py<PyContext>,
    books: Arc<Books>,
    fifo: Fifo,
    shared: Shared,
    /// When to ask again, if the last `dequeue` gave no packet although there were some.
    wake: Option<Time>,
}

impl PyQueue {
    fn new(class: &Bound<'_, PyAny>, caller: Caller, init: &Init, shared: &Shared) -> PyResult<Self> {
        let (books, fifo) = (Arc::<Books>::default(), Fifo::new(init));
        let context = PyContext {
            now: Time::ZERO,
            bound: Limits::new(init.limit.unwrap_or(LIMIT), init.rate),
            frame: fifo.frame(),
            rng: init.rng.clone(),
            books: Arc::clone(&books),
            open: false,
            dropped: Vec::new(),
            marks: 0,
        };
        let object = shared.call(caller, || class.call0())?.unbind();
        let context = Py::new(class.py(), context)?;
        Ok(Self { caller, object, context, books, fifo, shared: shared.clone(), wake: None })
    }

    /// Calls a method, checks the books and moves drops and marks into `cx`. `None` if the run has failed.
    fn ask<T>(
        &self,
        cx: &mut Context,
        question: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyContext>) -> PyResult<T>,
    ) -> Option<T> {
        if self.shared.has_failed() {
            return None;
        }
        Python::attach(|py| {
            let context = self.context.bind(py);
            {
                let mut context = context.borrow_mut();
                (context.now, context.open) = (cx.now, true);
            }
            let answer = self.shared.call(self.caller, || question(self.object.bind(py), context));
            let mut context = context.borrow_mut();
            context.open = false;
            cx.dropped.append(&mut context.dropped);
            cx.marks += std::mem::take(&mut context.marks);
            match answer.and_then(|answer| self.check(&context).map(|()| answer)) {
                Ok(answer) => Some(answer),
                Err(error) => {
                    self.shared.fail(self.caller, error);
                    None
                }
            }
        })
    }

    /// Refuses a queue that has let go of packets.
    fn check_lost(&self) -> PyResult<()> {
        let (lost, held) = (self.books.lost.load(Relaxed), self.books.backlog().packets);
        if lost == 0 {
            return Ok(());
        }
        wrong(format!(
            "it lost {lost} of {held} packets: a packet that it does not keep goes to cx.drop or to the link"
        ))
    }

    /// The books after a call.
    fn check(&self, context: &PyContext) -> PyResult<()> {
        self.check_lost()?;
        let Backlog { packets, bytes: Bytes(bytes) } = self.books.backlog();
        if !context.bound.holds(packets, bytes) {
            let message = format!("it holds {packets} packets, {bytes} bytes, beyond its limit; cx.has_room tells");
            return wrong(message);
        }
        Ok(())
    }

    /// Turns the answer of `dequeue` into the packet that leaves.
    fn taken(&self, answer: &Bound<'_, PyAny>) -> PyResult<Option<Packet>> {
        if answer.is_none() {
            return Ok(None);
        }
        let Ok(packet) = answer.cast::<PyPacket>() else {
            let message = format!("dequeue returned {}; a packet that it holds, or None, will do", shown(answer));
            return Err(PyTypeError::new_err(message));
        };
        let packet = packet.get();
        if !Arc::ptr_eq(&self.books, &packet.books) {
            return wrong(format!("dequeue returned {}, which never came to this queue", packet.__repr__()));
        }
        if !packet.leave() {
            return wrong(format!("dequeue returned {} after it had left or was dropped", packet.__repr__()));
        }
        Ok(Some(packet.out()))
    }

    /// When to ask again: the first nanosecond that is not before what `next_wake` says.
    fn wake_of(&self, object: &Bound<'_, PyAny>, context: &Bound<'_, PyContext>, now: Time) -> PyResult<Option<Time>> {
        self.check_lost()?;
        let held = self.books.backlog().packets;
        if held == 0 {
            return Ok(None);
        }
        if self.wake.is_some_and(|promised| promised <= now) {
            return wrong(format!("dequeue gave none of {held} packets at the time that next_wake had named"));
        }
        let answer = object.call_method1(pyo3::intern!(object.py(), "next_wake"), (context,))?;
        let Ok(at) = answer.extract::<f64>() else {
            let message = format!(
                "dequeue gave none of {held} packets, and next_wake returned {}; a later time in s will do",
                shown(&answer)
            );
            return Err(PyTypeError::new_err(message));
        };
        if !(now.as_secs_f64()..LATEST_S).contains(&at) || at <= now.as_secs_f64() {
            return wrong(format!("next_wake returned {at}; a time after now, {}, will do", now.as_secs_f64()));
        }
        let nearest = Time::from_nanos(truncated((at * 1e9).round()));
        let before = u64::from(nearest.as_secs_f64() < at);
        Ok(Some(nearest + Time::from_nanos(before)))
    }
}

impl Drop for PyQueue {
    fn drop(&mut self) {
        self.books.closed.store(true, Relaxed);
    }
}

/// Objects of Python's are not copied: a simulation with them is made again from its start.
impl CloneQueue for PyQueue {
    fn boxed_copy(&self) -> Box<dyn DynQueue> {
        unreachable!("a simulation whose queues are not the registry's is not copied")
    }
}

impl Queue for PyQueue {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context) -> Verdict {
        let (tuple, dscp, size) = (cx.tuple(&packet), cx.dscp(&packet), self.fifo.wire_size(&packet));
        self.wake = None;
        let verdict = self.ask(cx, |object, context| {
            let books = Arc::clone(&self.books);
            let (state, marked) = (AtomicU8::new(ARRIVING), AtomicBool::new(false));
            let packet = Bound::new(object.py(), PyPacket { packet, tuple, dscp, size, state, marked, books })?;
            let answer = object.call_method1(pyo3::intern!(object.py(), "enqueue"), (&packet, context))?;
            nothing("enqueue", &answer)?;
            let packet = packet.get();
            if packet.state.compare_exchange(ARRIVING, HELD, Relaxed, Relaxed).is_err() {
                return Ok(Verdict::Dropped);
            }
            self.books.add(size);
            Ok(if packet.marked.load(Relaxed) { Verdict::Marked } else { Verdict::Queued })
        });
        verdict.unwrap_or_else(|| {
            cx.dropped.push(packet);
            Verdict::Dropped
        })
    }

    fn dequeue(&mut self, cx: &mut Context) -> Option<Packet> {
        let now = cx.now;
        let answer = self.ask(cx, |object, context| {
            let answer = object.call_method1(pyo3::intern!(object.py(), "dequeue"), (context,))?;
            let packet = self.taken(&answer)?;
            let wake = if packet.is_none() { self.wake_of(object, context, now)? } else { None };
            Ok((packet, wake))
        });
        let (packet, wake) = answer.unwrap_or_default();
        self.wake = wake;
        packet
    }

    fn next_wake(&self) -> Option<Time> {
        self.wake
    }

    fn backlog(&self) -> Backlog {
        self.books.backlog()
    }

    fn resize(&mut self, to: Resize, cx: &mut Context) {
        self.wake = None;
        self.ask(cx, |object, context| {
            {
                let mut context = context.borrow_mut();
                context.bound = context.bound.resized(to);
            }
            let answer = object.call_method1(pyo3::intern!(object.py(), "resize"), (context,))?;
            nothing("resize", &answer)
        });
    }
}

impl Bursts for PyQueue {}

/// Refuses an answer of a method that gives none.
fn nothing(method: &str, answer: &Bound<'_, PyAny>) -> PyResult<()> {
    if answer.is_none() {
        return Ok(());
    }
    let message = format!("{method} returned {}; it returns nothing, and drops by cx.drop", shown(answer));
    Err(PyTypeError::new_err(message))
}

fn wrong<T>(message: String) -> PyResult<T> {
    Err(PyValueError::new_err(message))
}

/// A value by its type, and as text where that is short.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let kind = value.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    match value.repr() {
        Ok(text) if text.to_string().len() <= 60 => text.to_string(),
        _ => format!("a value of type {kind}"),
    }
}

/// Queues that a simulation may use, by name, as the engine takes them.
pub fn queues(classes: Vec<(String, Py<PyAny>)>, shared: &Shared) -> Vec<OwnQueue> {
    let own = |(name, class): (String, Py<PyAny>)| {
        let (shared, class_name) = (shared.clone(), name.clone());
        let make: MakeQueue = Arc::new(move |link, init| {
            let caller = shared.queue(link, &class_name);
            match Python::attach(|py| PyQueue::new(class.bind(py), caller, init, &shared)) {
                Ok(queue) => Box::new(queue),
                Err(error) => {
                    shared.fail(caller, error);
                    // Something has to stand there until the run, which has failed, is stopped.
                    let fifo = find("pfifo").expect("pfifo is in the registry");
                    (fifo.make)(&knee_core::Params::defaults(fifo.params), init)
                }
            }
        });
        OwnQueue { name, make, outside: true }
    };
    classes.into_iter().map(own).collect()
}
