//! Congestion controls written in Python: subclasses of `knee.CongestionControl`, called for each event.
//!
//! The engine's thread holds the interpreter while such a simulation steps, so that a call costs no hand-over. An
//! exception ends the run: it is kept for the caller, and the window stays unchanged until the engine has stopped.

use crate::calls::{Caller, Shared};
use crate::own_queue::shown;
use knee_cc::{
    Ack, CaState, CloneCongestionControl, Congestion, CongestionControl, Control, DynCongestionControl, Entry, Family,
    Init, Needs, RateSample, Signal, StateChange, StateEvent, Undo, View,
};
use knee_core::Rate;
use knee_core::convert::{truncated, truncated_u32};
use knee_sim::{Own, OwnMake};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::Arc;

/// The registry entry of an algorithm written in Python. There is one for each combination of needs, since entries live
/// as long as the program.
const fn entry(pacing: bool, full_control: bool) -> Entry {
    Entry {
        name: "python",
        family: Family::Hybrid,
        about: "an algorithm written in Python",
        source: "a subclass of knee.CongestionControl",
        params: &[],
        phases: &["running"],
        edges: &[],
        min_cwnd: 1,
        needs: Needs { pacing, full_control, rate: true, ..Needs::NONE },
        // Never asked: `Own::make` makes them.
        make: |_, _| unreachable!("algorithms in Python are made from their class"),
    }
}

static ENTRIES: [Entry; 4] = [entry(false, false), entry(false, true), entry(true, false), entry(true, true)];

/// An ACK; times in seconds, rates in bit/s, everything else in packets.
#[pyclass(frozen, name = "Ack", module = "knee")]
pub struct PyAck {
    view: View,
    rate: RateSample,
    rtt: Option<knee_core::Time>,
    acked: u32,
    delivered: u32,
    lost: u32,
    cwnd_limited: bool,
    ece: bool,
}

impl From<&Ack<'_>> for PyAck {
    /// A copy, which Python may keep.
    fn from(ack: &Ack) -> Self {
        let &Ack { view, rate, rtt, acked, delivered, lost, cwnd_limited, ece, .. } = ack;
        Self { view: *view, rate: *rate, rtt, acked, delivered, lost, cwnd_limited, ece }
    }
}

#[pymethods]
impl PyAck {
    /// Current time, s.
    #[getter]
    fn now(&self) -> f64 {
        self.view.now.as_secs_f64()
    }
    /// RTT sample of this ACK, s; None where it gave none.
    #[getter]
    fn rtt(&self) -> Option<f64> {
        self.rtt.map(knee_core::Time::as_secs_f64)
    }
    /// Smoothed RTT, s (RFC 6298).
    #[getter]
    fn srtt(&self) -> f64 {
        self.view.srtt.as_secs_f64()
    }
    /// Least RTT of the last 300 s, s.
    #[getter]
    fn min_rtt(&self) -> f64 {
        self.view.min_rtt.as_secs_f64()
    }
    /// Packets acknowledged cumulatively.
    #[getter]
    const fn acked(&self) -> u32 {
        self.acked
    }
    /// Packets delivered: acknowledged or SACKed for the first time.
    #[getter]
    const fn delivered(&self) -> u32 {
        self.delivered
    }
    /// Packets deemed lost on this ACK.
    #[getter]
    const fn lost(&self) -> u32 {
        self.lost
    }
    /// Packets in flight, 0 or more.
    #[getter]
    const fn in_flight(&self) -> u32 {
        self.view.in_flight
    }
    /// True if the window limited sending lately.
    #[getter]
    const fn cwnd_limited(&self) -> bool {
        self.cwnd_limited
    }
    /// True if the ACK echoes congestion experienced.
    #[getter]
    const fn ece(&self) -> bool {
        self.ece
    }
    /// Delivery rate of payload, bit/s; None where there is no valid sample.
    #[getter]
    fn delivery_rate(&self) -> Option<f64> {
        let interval = self.rate.interval?.as_secs_f64();
        let bits = f64::from(self.rate.delivered) * f64::from(self.view.mss) * 8.0;
        (interval > 0.0).then(|| bits / interval)
    }
    /// True if the application limited sending when the sample's packets left.
    #[getter]
    const fn app_limited(&self) -> bool {
        self.rate.app_limited
    }
    /// Packets that this flow has delivered so far.
    #[getter]
    const fn total_delivered(&self) -> u64 {
        self.view.delivered
    }
    /// Loss recovery's state: "open", "disorder", "cwr", "recovery" or "loss".
    #[getter]
    const fn state(&self) -> &'static str {
        state_name(self.view.ca)
    }
    fn __repr__(&self) -> String {
        format!(
            "Ack(now={}, rtt={}, delivered={}, in_flight={})",
            self.now(),
            or_none(self.rtt()),
            self.delivered,
            self.in_flight()
        )
    }
}

/// A number, or None, as Python writes it.
fn or_none(value: Option<f64>) -> String {
    value.map_or_else(|| "None".to_owned(), |value| value.to_string())
}

const fn state_name(state: CaState) -> &'static str {
    match state {
        CaState::Open => "open",
        CaState::Disorder => "disorder",
        CaState::Cwr => "cwr",
        CaState::Recovery => "recovery",
        CaState::Loss => "loss",
    }
}

/// The sender's window, threshold and pacing rate; methods change them in place.
#[pyclass(name = "Control", module = "knee", skip_from_py_object)]
#[derive(Clone, Copy)]
pub struct PyControl {
    /// Congestion window, packets, 1 or more; its fraction is kept from call to call.
    #[pyo3(get)]
    cwnd: f64,
    /// Slow-start threshold, packets, 1 or more; 2147483647 until the first reduction.
    #[pyo3(get)]
    ssthresh: f64,
    /// Pacing rate, bit/s of payload; None for 1.2 times `cwnd / srtt`.
    #[pyo3(get)]
    pacing_rate: Option<f64>,
}

const CWND_RANGE: &str = "1 to 1e9 packets";
const SSTHRESH_RANGE: &str = "1 packet or more";
const RATE_RANGE: &str = "None or at least 1 bit/s";

/// A number that a method assigns to a field of its control.
fn number(value: &Bound<'_, PyAny>, field: &str, range: &str) -> PyResult<f64> {
    value.extract().map_err(|error: PyErr| {
        let message = format!("control.{field} is {}; {range} will do", shown(value));
        // A whole number that is too long is a number.
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            PyValueError::new_err(message)
        } else {
            PyTypeError::new_err(message)
        }
    })
}

#[pymethods]
impl PyControl {
    #[setter]
    fn set_cwnd(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cwnd = number(value, "cwnd", CWND_RANGE)?;
        Ok(())
    }
    #[setter]
    fn set_ssthresh(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ssthresh = number(value, "ssthresh", SSTHRESH_RANGE)?;
        Ok(())
    }
    #[setter]
    fn set_pacing_rate(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.pacing_rate = if value.is_none() { None } else { Some(number(value, "pacing_rate", RATE_RANGE)?) };
        Ok(())
    }
    /// True if the window is below the threshold.
    #[getter]
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
    fn __repr__(&self) -> String {
        format!("Control(cwnd={}, ssthresh={}, pacing_rate={})", self.cwnd, self.ssthresh, or_none(self.pacing_rate))
    }
}

/// The packets that algorithms written in Python may have in flight together, which bounds the memory that a window
/// takes: a sender sends as much as its window says, whatever the network drops.
pub struct Budget {
    most: u64,
    total: u64,
    /// Packets of the total, by flow.
    flows: Vec<u64>,
}

impl Budget {
    /// A budget of at most `most` packets.
    pub const fn new(most: u64) -> Self {
        Self { most, total: 0, flows: Vec::new() }
    }

    /// Packets that are left for a connection of which `held` are in the total.
    const fn room(&self, held: u64) -> u64 {
        self.most.saturating_sub(self.total - held)
    }

    /// Counts a connection of `flow` with `now` packets in place of `before`.
    fn count(&mut self, flow: usize, before: u64, now: u64) {
        if self.flows.len() <= flow {
            self.flows.resize(flow + 1, 0);
        }
        self.flows[flow] = self.flows[flow] - before + now;
        self.total = self.total - before + now;
    }

    /// The flow that has most of it.
    fn largest(&self) -> usize {
        (0..self.flows.len()).max_by_key(|&flow| self.flows[flow]).unwrap_or_default()
    }
}

/// An algorithm of a flow, written in Python.
struct PyCongestionControl {
    flow: usize,
    object: Py<PyAny>,
    control: Py<PyControl>,
    /// The object's window beyond the engine's, packets: the fraction of a packet, and the packets that the budget has
    /// no room for.
    beyond: f64,
    /// The largest window that the budget had room for; none if it had room for what the object asked for.
    bound: Option<u32>,
    /// Packets in the budget's total.
    held: u64,
    shared: Shared,
    /// The class sets the window during recovery too.
    full_control: bool,
    /// The class has methods of its own: `on_measure`, `on_state` or `on_undo`.
    measures: bool,
    hears_state: bool,
    undoes: bool,
}

/// The window in whole packets as the engine has it.
const MAX_WINDOW: f64 = 1e9;

impl PyCongestionControl {
    /// Asks the object with the control in force in `self.control`, and puts in force what it left there.
    fn ask(
        &mut self,
        view: &View,
        control: &mut Control,
        question: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyControl>) -> PyResult<()>,
    ) {
        if self.shared.has_failed() || self.runs_away(view, control) {
            return;
        }
        Python::attach(|py| {
            let shared = self.control.bind(py);
            *shared.borrow_mut() = PyControl {
                cwnd: f64::from(control.cwnd) + self.beyond,
                ssthresh: f64::from(control.ssthresh),
                pacing_rate: control.pacing_rate.map(|rate| rate.as_bps() as f64),
            };
            let answer = self.shared.call(Caller::Flow(self.flow), || question(self.object.bind(py), shared));
            let answer = answer.and_then(|()| taken(&shared.borrow(), *control));
            match answer {
                Ok((left, fraction)) => {
                    *control = left;
                    self.beyond = fraction;
                }
                Err(error) => self.shared.fail(Caller::Flow(self.flow), error),
            }
        });
    }

    /// The largest window that the budget has room for.
    fn room(&self) -> u32 {
        self.shared.budget.lock().map_or(1, |budget| truncated_u32(budget.room(self.held) as f64).max(1))
    }

    /// Reduces the window to what the budget has room for.
    fn bound_window(&mut self, view: &View, control: &mut Control) {
        let room = self.room();
        self.bound = (control.cwnd > room).then_some(room);
        if self.bound.is_some() {
            self.beyond += f64::from(control.cwnd - room);
            control.cwnd = room;
        }
        let now = u64::from(reach(view, control));
        if let Ok(mut budget) = self.shared.budget.lock() {
            budget.count(self.flow, self.held, now);
            self.held = now;
        }
    }

    /// Fails the run where the budget bounds the window and nothing of the algorithm's holds the sender back: it does
    /// not pace, or half of that window is outstanding.
    fn runs_away(&mut self, view: &View, control: &Control) -> bool {
        let Some(bound) = self.bound else { return false };
        if control.cwnd != bound {
            // The sender has reduced it.
            (self.bound, self.beyond) = (None, self.beyond.fract());
            return false;
        }
        if control.pacing_rate.is_some() && view.snd_nxt - view.snd_una < u64::from(bound / 2) {
            return false;
        }
        let Ok(budget) = self.shared.budget.lock() else { return false };
        let (flow, most) = (budget.largest(), budget.most);
        drop(budget);
        let message = format!(
            "it wants more than {most} packets in flight, four times what the links and buffers hold and 131072 more; \
             control.cwnd is in packets"
        );
        self.shared.fail(Caller::Flow(flow), PyValueError::new_err(message));
        true
    }
}

/// Objects of Python's are not copied: a simulation with them is made again from its start.
impl CloneCongestionControl for PyCongestionControl {
    fn boxed_copy(&self) -> Box<dyn DynCongestionControl> {
        unreachable!("a simulation whose algorithms are not the registry's is not copied")
    }
}

impl Drop for PyCongestionControl {
    fn drop(&mut self) {
        if let Ok(mut budget) = self.shared.budget.lock() {
            budget.count(self.flow, self.held, 0);
        }
    }
}

/// How many packets a sender has in flight at most before its next ACK: its window, or what its pacing rate lets it
/// send in two round trips.
fn reach(view: &View, control: &Control) -> u32 {
    let Some(rate) = control.pacing_rate else { return control.cwnd };
    let time = (2.0 * view.srtt.as_secs_f64()).max(0.001);
    let paced = rate.as_bps() as f64 * time / (8.0 * f64::from(view.mss));
    control.cwnd.min(view.in_flight.saturating_add(truncated_u32(paced)).saturating_add(1))
}

/// Calls a method, which changes the control in place and returns nothing.
fn tell<'py>(
    object: &Bound<'py, PyAny>,
    method: &Bound<'py, PyString>,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<()> {
    let left = object.call_method1(method, arguments)?;
    if left.is_none() {
        return Ok(());
    }
    let shown = shown(&left);
    Err(PyTypeError::new_err(format!("{method} returned {shown}; a method changes control and returns nothing")))
}

/// The control that Python left, and the fraction of its window.
fn taken(left: &PyControl, control: Control) -> PyResult<(Control, f64)> {
    let refuse = |what: &str, value: f64, range: &str| {
        Err(PyValueError::new_err(format!("control.{what} is {value}; {range} will do")))
    };
    if !(1.0..=MAX_WINDOW).contains(&left.cwnd) {
        return refuse("cwnd", left.cwnd, CWND_RANGE);
    }
    if left.ssthresh.is_nan() || left.ssthresh < 1.0 {
        return refuse("ssthresh", left.ssthresh, SSTHRESH_RANGE);
    }
    let pacing_rate = match left.pacing_rate {
        Some(rate) if rate.is_nan() || rate < 1.0 => {
            return refuse("pacing_rate", rate, RATE_RANGE);
        }
        // Beyond the greatest rate that the engine has, nothing is paced.
        rate => rate.map(|rate| Rate::from_bps(truncated(rate.min(Rate::MAX.as_bps() as f64)))),
    };
    let ssthresh = truncated_u32(left.ssthresh.min(f64::from(knee_cc::INFINITE_SSTHRESH)));
    Ok((Control { cwnd: truncated_u32(left.cwnd), ssthresh, pacing_rate, ..control }, left.cwnd.fract()))
}

impl CongestionControl for PyCongestionControl {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if !self.measures {
            return;
        }
        self.ask(ack.view, control, |object, shared| {
            tell(object, pyo3::intern!(object.py(), "on_measure"), (PyAck::from(ack), shared))
        });
        self.bound_window(ack.view, control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.ask(ack.view, control, |object, shared| {
            tell(object, pyo3::intern!(object.py(), "on_ack"), (PyAck::from(ack), shared))
        });
        self.bound_window(ack.view, control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let signal = match congestion.signal {
            Signal::Loss => "loss",
            Signal::Ecn => "ecn",
            Signal::Timeout => "timeout",
        };
        let now = congestion.view.now.as_secs_f64();
        let (before, window) = (*control, f64::from(control.cwnd) + self.beyond);
        let mut answer = before;
        self.ask(congestion.view, &mut answer, |object, shared| {
            tell(object, pyo3::intern!(object.py(), "on_loss"), (signal, now, shared))
        });
        let left = f64::from(answer.cwnd) + self.beyond;
        (self.bound, self.beyond) = (None, 0.0);
        if self.shared.has_failed() {
            return;
        }
        control.pacing_rate = answer.pacing_rate;
        let mut ssthresh = answer.ssthresh;
        let moved = left.total_cmp(&window).is_ne();
        if moved && self.full_control {
            control.cwnd = answer.cwnd;
        } else if moved && !(congestion.signal == Signal::Timeout && answer.cwnd == 1) {
            // The sender reduces the window to the threshold; a new window without a new threshold says the same.
            if ssthresh != before.ssthresh && ssthresh != answer.cwnd {
                let message = format!(
                    "on_loss left control.cwnd at {left} and control.ssthresh at {ssthresh}, and the sender reduces the \
                     window to ssthresh (after a timeout to 1 first); set ssthresh alone, or both to the same"
                );
                self.shared.fail(Caller::Flow(self.flow), PyValueError::new_err(message));
                return;
            }
            ssthresh = answer.cwnd;
        }
        // The window becomes the threshold, unless that is infinite.
        control.ssthresh = if ssthresh < knee_cc::INFINITE_SSTHRESH { ssthresh.min(self.room()) } else { ssthresh };
        if self.full_control {
            self.bound_window(congestion.view, control);
        }
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        let event = match change.event {
            StateEvent::Entered(state) => state_name(state),
            StateEvent::Start => "start",
            StateEvent::Timeout => "timeout",
            StateEvent::ReductionDone => "reduced",
            StateEvent::Restart => "restart",
            // The restart that follows is what Python hears.
            StateEvent::Idle => return,
        };
        if !self.hears_state {
            return;
        }
        let now = change.view.now.as_secs_f64();
        self.ask(change.view, control, |object, shared| {
            tell(object, pyo3::intern!(object.py(), "on_state"), (event, now, shared))
        });
        self.bound_window(change.view, control);
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        if !self.undoes {
            // The base class: max(control.cwnd, prior_cwnd), of windows with their fractions.
            if undo.prior_cwnd > control.cwnd {
                (control.cwnd, self.beyond) = (undo.prior_cwnd, 0.0);
            }
            return;
        }
        self.ask(undo.view, control, |object, shared| {
            tell(object, pyo3::intern!(object.py(), "on_undo"), (undo.prior_cwnd, shared))
        });
        self.bound_window(undo.view, control);
    }
}

/// Classes that a simulation may use, by name, as the engine takes them.
///
/// # Errors
/// If a class cannot be looked at.
pub fn algorithms(py: Python<'_>, classes: &[(String, Py<PyAny>)], shared: &Shared) -> PyResult<Vec<Own>> {
    classes.iter().map(|(name, class)| algorithm(class.bind(py), name, shared)).collect()
}

fn algorithm(class: &Bound<'_, PyAny>, name: &str, shared: &Shared) -> PyResult<Own> {
    let needs = |what: &str| class.getattr(what)?.is_truthy();
    let full_control = needs("full_control")?;
    let entry = &ENTRIES[usize::from(needs("pacing")?) * 2 + usize::from(full_control)];
    let base = class.py().import("knee.own")?.getattr("CongestionControl")?;
    let has = |method: &str| -> PyResult<bool> { Ok(!class.getattr(method)?.is(base.getattr(method)?)) };
    let (measures, hears_state, undoes) = (has("on_measure")?, has("on_state")?, has("on_undo")?);
    let (class, shared) = (class.clone().unbind(), shared.clone());
    let make = move |_: &knee_core::Params, init: &Init, flow: usize| -> Box<dyn DynCongestionControl> {
        let made = Python::attach(|py| {
            let control = PyControl { cwnd: 1.0, ssthresh: 2.0, pacing_rate: None };
            // Draws of the class from `self.random` repeat with the scenario's seed.
            let seeded = py.import("knee.own.controls")?.getattr("seeded")?;
            let seed = init.rng.clone().next_u64();
            let object = shared.call(Caller::Flow(flow), || seeded.call1((class.bind(py), seed)))?.unbind();
            Ok::<_, PyErr>((object, Py::new(py, control)?))
        });
        let (object, control) = match made {
            Ok(made) => made,
            Err(error) => {
                shared.fail(Caller::Flow(flow), error);
                // Something has to stand there until the run, which has failed, is stopped.
                return (knee_cc::registry()[0].make)(
                    &knee_core::Params::defaults(knee_cc::registry()[0].params),
                    init,
                );
            }
        };
        let shared = shared.clone();
        let (beyond, bound, held) = (0.0, None, 0);
        Box::new(PyCongestionControl {
            flow,
            object,
            control,
            beyond,
            bound,
            held,
            shared,
            full_control,
            measures,
            hears_state,
            undoes,
        })
    };
    Ok(Own { name: name.to_owned(), entry, make: OwnMake::Algorithm(Arc::new(make)) })
}
